/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duty that looks after CA and serving pair. Each look does at most one
 * thing, and the next one sees what became of it: so it does not matter who did the one before, or
 * whether it was cut off. */
#include "webhook/cluster/secrets/cert_keeper.h"

#include <stdlib.h>

#include "base/clock.h"
#include "webhook/cluster/secrets/cert_keeper_impl.h"
#include "webhook/edge/metrics/metrics.h"

#define DAY_S INT64_C(86400)
#define CA_VALID_S (3650 * DAY_S)
#define SERVING_VALID_S (90 * DAY_S)
#define EVERY_MS 5000
/* A whole rotation without its waits is nine. */
#define STEPS_MAX 16

static void drop_ca(struct keeper_ca *ca)
{
	x509_pair_release(&ca->pair);
	*ca = (struct keeper_ca){0};
	x509_pair_init(&ca->pair);
}

static void move_ca(struct keeper_ca *to, struct keeper_ca *from)
{
	drop_ca(to);
	*to = *from;
	*from = (struct keeper_ca){0};
	x509_pair_init(&from->pair);
}

static int make_ca(const struct cert_keeper *k, int64_t now, struct keeper_ca *ret, struct err *err)
{
	drop_ca(ret);
	return x509_make_ca(&k->names, now, k->cfg.ca_valid_s, &ret->pair, err);
}

/* ---- the steps ---- */

static int start_over(
	const struct cert_keeper *k, struct cert_view *v, int64_t now, struct err *err)
{
	int rc = make_ca(k, now, &v->signing, err);

	drop_ca(&v->next);
	drop_ca(&v->old);
	v->published_at = v->switched_at = 0;
	return rc != 0 ? rc : cert_write_ca(k, v, err);
}

static int make_next(const struct cert_keeper *k, struct cert_view *v, int64_t now, struct err *err)
{
	int rc = make_ca(k, now, &v->next, err);

	v->published_at = 0;
	return rc != 0 ? rc : cert_write_ca(k, v, err);
}

/* The wait begins when a look has seen both everywhere; a time from before that is taken back
 * first. */
static int publish_both(
	const struct cert_keeper *k, struct cert_view *v, int64_t now, struct err *err)
{
	const struct keeper_ca *cas[] = {&v->signing, &v->next, &v->old};

	if (v->next.everywhere || v->published_at > 0) {
		v->published_at = v->next.everywhere ? now : 0;
		return cert_write_ca(k, v, err);
	}
	return cert_publish(k, v, cas, 3, err);
}

/* The Secret of the CA first. The pair is then another CA's, and the next look makes a new one. */
static int switch_pair(const struct cert_keeper *k, struct cert_view *v, struct err *err)
{
	move_ca(&v->old, &v->signing);
	move_ca(&v->signing, &v->next);
	v->published_at = v->switched_at = 0;
	return cert_write_ca(k, v, err);
}

static int renew_serving(
	const struct cert_keeper *k, struct cert_view *v, int64_t now, struct err *err)
{
	struct x509_pair pair;
	int rc;

	/* the key was lost: no time for waits */
	if (v->signing.pair.key.len == 0)
		return keeper_has(&v->next) ? switch_pair(k, v, err) : make_next(k, v, now, err);
	x509_pair_init(&pair);
	rc = x509_make_serving(
		&v->signing.pair, &k->names, now, k->cfg.serving_valid_s, &pair, err);
	if (rc == 0)
		rc = cert_write_serving(k, v, &pair, err);
	x509_pair_release(&pair);
	return rc;
}

static int drop_old(const struct cert_keeper *k, struct cert_view *v, struct err *err)
{
	const struct keeper_ca *cas[] = {&v->signing};

	if (v->old.somewhere)
		return cert_publish(k, v, cas, 1, err);
	drop_ca(&v->old);
	v->switched_at = 0;
	return cert_write_ca(k, v, err);
}

/* What rotation_decide() does not know of. *ret_acted stays false when there is nothing. */
static int other_steps(const struct cert_keeper *k, struct cert_view *v, int64_t now,
	bool *ret_acted, struct err *err)
{
	*ret_acted = true;
	if (keeper_has(&v->signing) && v->signing.pair.key.len == 0 && !keeper_has(&v->next)) {
		log_line(k->cfg.log, LOG_LEVEL_WARN, "the CA's key is lost, another CA follows",
			log_str("secret", k->cfg.ca_secret));
		return make_next(k, v, now, err);
	}
	/* the wait begins when a look has seen the new pair */
	if (keeper_has(&v->old) && v->switched_at == 0 && v->serving.cert.len > 0) {
		v->switched_at = now;
		return cert_write_ca(k, v, err);
	}
	*ret_acted = false;
	return 0;
}

static int act(const struct cert_keeper *k, struct cert_view *v, enum rotation_action action,
	int64_t now, bool *ret_acted, struct err *err)
{
	const struct keeper_ca *cas[] = {&v->signing, &v->old};

	*ret_acted = true;
	switch (action) {
	case ROTATION_NOTHING:
		return other_steps(k, v, now, ret_acted, err);
	case ROTATION_START_OVER:
		return start_over(k, v, now, err);
	case ROTATION_PUBLISH_CA:
		return cert_publish(k, v, cas, 2, err);
	case ROTATION_RENEW_SERVING:
		return renew_serving(k, v, now, err);
	case ROTATION_MAKE_NEXT_CA:
		return make_next(k, v, now, err);
	case ROTATION_PUBLISH_BOTH:
		return publish_both(k, v, now, err);
	case ROTATION_SWITCH_PAIR:
		return switch_pair(k, v, err);
	case ROTATION_DROP_OLD_CA:
		return drop_old(k, v, err);
	}
	return err_set(err, ERR_INTERNAL, "no such action");
}

/* ---- the duty ---- */

static int look(struct cert_keeper *k, bool *ret_acted, struct err *err)
{
	int64_t now = clock_wall_ms() / 1000;
	struct cert_view v;
	int rc = cert_view_read(k, now, &v, err);

	*ret_acted = false;
	if (rc == 0) {
		struct rotation_state state = cert_view_state(&v, now);
		struct rotation_step step = rotation_decide(&state, &k->cfg.policy, now);

		metric_set(k->cfg.metrics, M_CA_NOT_AFTER, 0, 0, state.ca.until);
		rc = act(k, &v, step.action, now, ret_acted, err);
		if (rc == 0 && step.action != ROTATION_NOTHING)
			log_line(k->cfg.log, LOG_LEVEL_INFO, "certificates",
				log_str("step", rotation_action_name(step.action)));
	}
	cert_view_release(&v);
	return rc;
}

/* One failure may be another keeper that was first; two in a row are told, once. */
static void note(struct cert_keeper *k, int rc, const struct err *err)
{
	if (rc == 0) {
		if (k->told)
			log_text(k->cfg.log, LOG_LEVEL_INFO, "certificates are looked after again");
		k->told = false;
		k->failures = 0;
		return;
	}
	k->failures++;
	if (k->told || (k->failures < 2 && (rc == ERR_CONFLICT || rc == ERR_INVALID)))
		return;
	k->told = true;
	log_line(k->cfg.log, LOG_LEVEL_ERROR, "certificates cannot be looked after",
		log_str("error", err->msg));
}

static int64_t tick(void *ctx, struct duty *d)
{
	struct cert_keeper *k = ctx;
	bool acted = true;

	for (int i = 0; i < STEPS_MAX && acted && !duty_stopping(d); i++) {
		struct err err = {0};
		int rc = look(k, &acted, &err);

		note(k, rc, &err);
		if (rc != 0)
			break;
	}
	return k->cfg.every_ms;
}

static void fill_defaults(struct cert_keeper_config *c)
{
	if (!c->ca_secret)
		c->ca_secret = "poolgate-ca";
	if (!c->tls_secret)
		c->tls_secret = "poolgate-tls";
	if (c->ca_valid_s == 0)
		c->ca_valid_s = CA_VALID_S;
	if (c->serving_valid_s == 0)
		c->serving_valid_s = SERVING_VALID_S;
	if (c->policy.publish_wait_s == 0)
		c->policy.publish_wait_s = CERT_KEEPER_WAIT_S;
	if (c->policy.drop_wait_s == 0)
		c->policy.drop_wait_s = CERT_KEEPER_WAIT_S;
	if (c->every_ms == 0)
		c->every_ms = EVERY_MS;
}

static void stop(void *running)
{
	struct cert_keeper *k = running;

	duty_stop(k->duty);
	metric_set(k->cfg.metrics, M_CA_NOT_AFTER, 0, 0, 0);
	free(k);
}

static int start(void *ctx, void **ret, struct err *err)
{
	const struct cert_keeper_config *cfg = ctx;
	struct cert_keeper *k = calloc(1, sizeof(*k));

	if (!k)
		return err_set(err, ERR_NOMEM, "out of memory");
	k->cfg = *cfg;
	fill_defaults(&k->cfg);
	if (certs_names_service(&k->names, slice_of(cfg->service), slice_of(cfg->namespace), err) ==
		0)
		k->duty = duty_start("certificates", tick, k, err);
	if (!k->duty) {
		free(k);
		return (int)err->code;
	}
	*ret = k;
	return 0;
}

struct leader_duty cert_keeper_duty(struct cert_keeper_config *cfg)
{
	return (struct leader_duty){
		.name = "certificates", .start = start, .stop = stop, .ctx = cfg};
}

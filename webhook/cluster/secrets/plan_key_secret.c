/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the keys of plans' proofs, between the Secret and those who use them. */
#include "webhook/cluster/secrets/plan_key_secret.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "webhook/cluster/duty/duty.h"
#include "webhook/cluster/secrets/secret_data.h"
#include "webhook/edge/metrics/metrics.h"

#define EVERY_MS 20000
#define ROTATE_MS 3600000
#define BODY_MAX (1 << 20)

/* One thread's work, on a replica or the leader's. */
struct plan_key_look {
	struct plan_key_config cfg;
	struct duty *duty;
	enum err_code failed; /* of the last time: told once */
};

static int by_number(const void *a, const void *b)
{
	uint64_t x = ((const struct plan_key *)a)->number;
	uint64_t y = ((const struct plan_key *)b)->number;

	return (x > y) - (x < y);
}

/* One entry of the data. ERR_SYNTAX: it is no key; ERR_NOMEM: nobody knows. */
static int read_key(const struct json *j, const struct json_node *secret,
	const struct json_node *name, struct plan_key *ret, struct err *err)
{
	struct slice text = json_inside(j, name);
	char key[32];
	struct buf bytes;
	int rc;

	if (!text.at || text.len >= sizeof(key) || !text_u64(text, INT64_MAX, &ret->number))
		return ERR_SYNTAX;
	memcpy(key, text.at, text.len);
	key[text.len] = '\0';
	buf_init(&bytes, MAC_BYTES);
	rc = secret_value(j, secret, key, &bytes, err);
	if (rc == 0 && bytes.len == MAC_BYTES) {
		memcpy(ret->bytes, bytes.data, MAC_BYTES);
		mac_wipe(bytes.data, bytes.len);
	} else if (rc != ERR_NOMEM)
		rc = ERR_SYNTAX;
	buf_release(&bytes);
	return rc;
}

/* Share the keys in the Secret, oldest first. What else is there counts for nothing, and goes with
 * the next key that is made. ERR_NOMEM: what was shared is. */
static int share_keys(struct plan_key_look *l, const struct kube_answer *a,
	struct plan_key keys[PLAN_KEYS_MAX], size_t *ret_n, struct err *err)
{
	const struct json_node *secret = json_root(&a->json);
	size_t n = 0;

	JSON_MEMBERS(&a->json, json_get(&a->json, secret, SLICE("data")), name)
	{
		int rc = n < PLAN_KEYS_MAX ? read_key(&a->json, secret, name, &keys[n], err)
					   : ERR_SYNTAX;

		if (rc == ERR_NOMEM)
			return rc;
		n += rc == 0;
	}
	qsort(keys, n, sizeof(*keys), by_number);
	plan_keys_share(l->cfg.keys, keys, n, clock_ms());
	metric_set(l->cfg.metrics, M_PLAN_KEYS, 0, 0, (int64_t)n);
	*ret_n = n;
	return 0;
}

/* A failure is told once, until another one or none comes. */
static void note(struct plan_key_look *l, int rc, const char *what, const struct err *err)
{
	/* another leader was faster */
	if (rc == ERR_CONFLICT)
		return;
	if (rc != 0 && (int)l->failed != rc)
		log_line(l->cfg.log, LOG_LEVEL_WARN, what, log_str("secret", PLAN_KEY_SECRET),
			log_str("error", err->msg));
	l->failed = (enum err_code)rc;
}

static int64_t every(const struct plan_key_look *l)
{
	return l->cfg.every_ms ? l->cfg.every_ms : EVERY_MS;
}

/* ---- each replica ---- */

static int64_t look(void *ctx, struct duty *d)
{
	struct plan_key_look *l = ctx;
	struct plan_key keys[PLAN_KEYS_MAX];
	struct kube_answer a;
	struct err err = {0};
	size_t n;
	int rc = secret_get(l->cfg.kube, l->cfg.namespace, PLAN_KEY_SECRET, 0, &a, &err);

	(void)d;
	/* An API server that is away for a moment has the keys that it had. */
	if (rc == 0)
		rc = share_keys(l, &a, keys, &n, &err);
	else if (rc == ERR_NOTFOUND || rc == ERR_REFUSED)
		(void)share_keys(l, &a, keys, &n, NULL);
	mac_wipe(keys, sizeof(keys));
	secret_release(&a);
	note(l, rc, "the keys of plans cannot be read: other replicas do not believe this one's",
		&err);
	return every(l);
}

static struct plan_key_look *begin(
	const struct plan_key_config *cfg, const char *name, duty_tick *tick, struct err *err)
{
	struct plan_key_look *l = calloc(1, sizeof(*l));

	if (!l) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	l->cfg = *cfg;
	l->duty = duty_start(name, tick, l, err);
	if (!l->duty) {
		free(l);
		return NULL;
	}
	return l;
}

struct plan_key_look *plan_key_look_start(const struct plan_key_config *cfg, struct err *err)
{
	return begin(cfg, "plan-keys", look, err);
}

void plan_key_look_stop(struct plan_key_look *l)
{
	if (!l)
		return;
	duty_stop(l->duty);
	free(l);
}

/* ---- the leader ---- */

/* The Secret as it was, labels and all, with these keys alone. */
static void write_body(
	const struct kube_answer *was, const struct plan_key *keys, size_t n, struct buf *out)
{
	const struct json *j = &was->json;
	const struct json_node *secret = json_root(j);

	buf_str(out, "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":");
	buf_slice(out, json_raw(j, json_get(j, secret, SLICE("metadata"))));
	buf_str(out, ",\"type\":");
	buf_slice(out, json_raw(j, json_get(j, secret, SLICE("type"))));
	buf_str(out, ",\"data\":{");
	for (size_t i = 0; i < n; i++) {
		buf_fmt(out, "%s\"%llu\":\"", i > 0 ? "," : "", (unsigned long long)keys[i].number);
		buf_base64(out, keys[i].bytes, MAC_BYTES);
		buf_char(out, '"');
	}
	buf_str(out, "}}");
}

static int rotate(struct plan_key_look *l, const struct kube_answer *was, struct err *err)
{
	struct plan_key keys[PLAN_KEYS_MAX];
	unsigned char fresh[MAC_BYTES];
	size_t n = 0;
	bool changed = false;
	struct buf body;
	int rc = share_keys(l, was, keys, &n, err);

	if (rc == 0)
		rc = mac_key_new(fresh, err);
	if (rc == 0) {
		n = plan_keys_next(keys, n, clock_ms(),
			l->cfg.rotate_ms ? l->cfg.rotate_ms : ROTATE_MS, fresh, &changed);
		mac_wipe(fresh, sizeof(fresh));
	}
	if (changed) {
		buf_init(&body, BODY_MAX);
		write_body(was, keys, n, &body);
		rc = secret_put(l->cfg.kube, l->cfg.namespace, PLAN_KEY_SECRET, was, &body, err);
	}
	if (changed && rc == 0)
		log_line(l->cfg.log, LOG_LEVEL_INFO, "keys of plans", log_int("keys", (int64_t)n),
			log_int("youngest", (int64_t)keys[n - 1].number));
	mac_wipe(keys, sizeof(keys));
	return rc;
}

static int64_t keep(void *ctx, struct duty *d)
{
	struct plan_key_look *l = ctx;
	struct kube_answer a;
	struct err err = {0};
	int rc = secret_get(l->cfg.kube, l->cfg.namespace, PLAN_KEY_SECRET, 0, &a, &err);

	(void)d;
	if (rc == 0)
		rc = rotate(l, &a, &err);
	secret_release(&a);
	note(l, rc, "the keys of plans cannot be looked after", &err);
	return every(l);
}

static int start(void *ctx, void **ret, struct err *err)
{
	*ret = begin(ctx, "plan-key-keeper", keep, err);
	return *ret ? 0 : (int)err->code;
}

static void stop(void *running)
{
	plan_key_look_stop(running);
}

struct leader_duty plan_key_duty(struct plan_key_config *cfg)
{
	return (struct leader_duty){
		.name = "plan-key-keeper", .start = start, .stop = stop, .ctx = cfg};
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: one namespace at a time: fill it with copies of the client's Secrets, or empty it, and
 * say what went wrong, once. */
#include <stdio.h>

#include "base/clock.h"
#include "webhook/cluster/secrets/secret_sync_impl.h"

/* Of the first wait after a failure. */
#define BACKOFF_TIMES 12
#define NOTE_BYTES 512

void secret_tell_record(struct secret_sync *k, const struct err *err)
{
	if (err->code && err->code != k->record_failed)
		log_line(k->cfg.log, LOG_LEVEL_WARN,
			"no record of filled namespaces, no Secret is copied",
			log_str("configmap", SECRET_SYNC_RECORD), log_str("error", err->msg),
			log_str("hint", "manifests/components/secrets brings the ConfigMap and the "
					"right to update it"));
	k->record_failed = err->code;
}

/* ---- filling ---- */

struct filling {
	struct secret_sync *k;
	struct secret_place *place;
	bool no_record;
};

/* No copy is made that the next leader could not find. */
static int record_it(void *ctx, struct err *err)
{
	struct filling *f = ctx;
	int rc;

	if (f->place->recorded)
		return 0;
	rc = secret_record_change(&f->k->cfg, f->place->name, true, err);
	f->place->recorded = rc == 0;
	f->no_record = rc != 0;
	return rc;
}

static void back_off(struct secret_sync *k, struct secret_place *p)
{
	int64_t most = k->cfg.retry_ms * BACKOFF_TIMES;

	p->backoff_ms = p->backoff_ms ? p->backoff_ms * 2 : k->cfg.retry_ms;
	if (p->backoff_ms > most)
		p->backoff_ms = most;
	p->next_ms = clock_ms() + p->backoff_ms;
}

/* Said anew when it is another state. */
static bool to_be_told(struct secret_place *p, enum place_state state)
{
	bool tell = p->state != state || !p->told;

	p->state = state;
	p->told = true;
	return tell;
}

static void not_filled(struct secret_sync *k, struct secret_place *p, int rc, const struct err *err)
{
	enum place_state state = rc == ERR_REFUSED ? PLACE_CLOSED : PLACE_FAILED;

	back_off(k, p);
	/* the namespace goes, or somebody wrote in between: the next try sees it */
	if ((rc == ERR_CONFLICT || rc == ERR_NOTFOUND) && p->backoff_ms == k->cfg.retry_ms)
		return;
	if (to_be_told(p, state))
		log_line(k->cfg.log, LOG_LEVEL_WARN,
			state == PLACE_CLOSED ? "client's Secrets are not copied: the namespace is "
						"not open to poolgate"
					      : "client's Secrets are not copied",
			log_str("namespace", p->name), log_str("error", err->msg));
}

static void tell_foreign(
	const struct secret_sync *k, const struct secret_place *p, const char *secret)
{
	char note[NOTE_BYTES];
	struct kube_event event = {.api_version = "v1",
		.kind = "Pod",
		.namespace = slice_of(p->name),
		.name = slice_of(p->pod),
		.uid = slice_of(p->uid),
		.type = "Warning",
		.reason = "SecretNotOurs",
		.note = note,
		.component = "poolgate"};

	(void)snprintf(note, sizeof(note),
		"the Secret %s of this namespace is not poolgate's copy of the client's and stays "
		"as "
		"it is; delete it to get the copy",
		secret);
	(void)kube_tell(k->cfg.kube, &event, NULL);
	log_line(k->cfg.log, LOG_LEVEL_WARN, "a Secret of somebody else is left alone",
		log_str("namespace", p->name), log_str("secret", secret));
}

void secret_fill_place(struct secret_sync *k, struct secret_place *p)
{
	struct filling f = {.k = k, .place = p};
	struct secret_fill what = {.before = record_it, .ctx = &f};
	struct err err = {0};
	int rc = secret_copies_fill(&k->cfg, p->name, &k->source, &what, &err);

	if (what.written > 0)
		log_line(k->cfg.log, LOG_LEVEL_INFO, "client's Secrets copied",
			log_str("namespace", p->name), log_int("written", (int64_t)what.written));
	if (f.no_record) {
		back_off(k, p);
		p->state = PLACE_FAILED;
		secret_tell_record(k, &err);
	} else if (rc != 0) {
		not_filled(k, p, rc, &err);
	} else {
		p->generation = k->source.generation;
		p->next_ms = clock_ms() + k->cfg.recheck_ms;
		p->backoff_ms = 0;
		if (to_be_told(p, what.foreign ? PLACE_FOREIGN : PLACE_FILLED) && what.foreign)
			tell_foreign(k, p, what.foreign_name);
	}
}

/* ---- emptying ---- */

/* Gone, or closed: nobody can tell. */
static void give_up(struct secret_sync *k, struct secret_place *p, const struct err *why)
{
	struct err err = {0};

	if (secret_record_change(&k->cfg, p->name, false, &err) != 0)
		return;
	p->recorded = false;
	log_line(k->cfg.log, LOG_LEVEL_WARN,
		"namespace forgotten: it is gone, or was closed before its copies of the client's "
		"Secrets were deleted",
		log_str("namespace", p->name), log_str("label", SECRET_COPY_LABEL "=true"),
		log_str("error", why->msg));
}

void secret_empty_place(struct secret_sync *k, struct secret_place *p)
{
	struct err err = {0};
	size_t dropped;
	int rc = secret_copies_drop(&k->cfg, p->name, &dropped, &err);

	/* should claims come back */
	p->state = PLACE_NEW;
	p->told = false;
	p->next_ms = 0;
	if (dropped > 0)
		log_line(k->cfg.log, LOG_LEVEL_INFO, "copies of the client's Secrets deleted",
			log_str("namespace", p->name), log_int("deleted", (int64_t)dropped));
	if (rc == 0)
		rc = secret_record_change(&k->cfg, p->name, false, &err);
	if (rc == 0) {
		p->recorded = false;
		return;
	}
	if (p->stuck_ms == 0) {
		p->stuck_ms = clock_ms();
		p->backoff_ms = 0;
		if (rc != ERR_REFUSED && rc != ERR_CONFLICT)
			log_line(k->cfg.log, LOG_LEVEL_WARN,
				"copies of the client's Secrets cannot be deleted yet",
				log_str("namespace", p->name), log_str("error", err.msg));
	} else if (rc == ERR_REFUSED && clock_ms() - p->stuck_ms >= k->cfg.give_up_ms) {
		give_up(k, p, &err);
	}
	back_off(k, p);
}

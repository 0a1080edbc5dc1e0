/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duty that copies the client's Secrets: looks at the claims, fills the
 * namespaces that hold some, empties those that hold none any more. */
#include "webhook/cluster/secrets/secret_sync.h"

#include <stdlib.h>

#include "base/clock.h"
#include "webhook/cluster/secrets/secret_sync_impl.h"
#include "webhook/edge/metrics/metrics.h"

#define WAITING_MS 1000
#define IDLE_MS 60000
#define CALL_MS 5000

static void until(struct secret_sync *k, int64_t ms)
{
	if (ms < k->until_ms)
		k->until_ms = ms;
}

/* ---- source and record ---- */

static void tell_missing_keys(const struct secret_sync *k)
{
	for (size_t i = 0; i < SECRET_KINDS; i++)
		if (k->source.value[i].len == 0)
			log_line(k->cfg.log, LOG_LEVEL_WARN, "source of Secrets lacks a key",
				log_str("source", k->cfg.source),
				log_str("key", secret_kinds[i].key));
}

static void read_source(struct secret_sync *k, int64_t now)
{
	uint64_t before = k->source.generation;
	struct err err = {0};
	int rc;

	if (now < k->source_ms)
		return;
	rc = secret_source_read(&k->cfg, &k->source, &err);
	k->source_ms = clock_ms() + k->cfg.source_every_ms;
	k->source_ok = rc == 0;
	if (rc != 0 && err.code != k->source_failed)
		log_line(k->cfg.log, LOG_LEVEL_WARN,
			"client's Secrets cannot be read, nothing is copied",
			log_str("source", k->cfg.source), log_str("error", err.msg));
	k->source_failed = err.code;
	if (rc != 0 || k->source.generation == before)
		return;
	log_line(k->cfg.log, LOG_LEVEL_INFO, "client's Secrets read",
		log_str("source", k->cfg.source), log_bool("three", k->source.three));
	tell_missing_keys(k);
}

/* What another leader filled. */
static void note_recorded(void *ctx, const char *namespace)
{
	struct secret_sync *k = ctx;
	struct secret_place *p;

	for (size_t i = 0; k->except[i]; i++)
		if (strcmp(k->except[i], namespace) == 0)
			return;
	p = places_add(&k->places, slice_of(namespace));
	if (p)
		p->recorded = p->listed = true;
}

/* The record as it is now. Somebody may have deleted it and made it anew: what it forgot is written
 * again. */
static int take_record(struct secret_sync *k, struct err *err)
{
	int rc;

	for (size_t i = 0; i < k->places.n; i++)
		k->places.at[i].listed = false;
	rc = secret_record_read(&k->cfg, note_recorded, k, err);
	for (size_t i = 0; i < k->places.n && rc == 0; i++) {
		const struct secret_place *p = &k->places.at[i];

		if (p->recorded && !p->listed)
			rc = secret_record_change(&k->cfg, p->name, true, err);
	}
	return rc;
}

/* False: it was never read, so nobody knows where copies are. */
static bool read_record(struct secret_sync *k, int64_t now)
{
	struct err err = {0};

	if (now >= k->record_ms) {
		int rc = take_record(k, &err);

		k->record_ms = clock_ms() + (rc == 0 ? k->cfg.recheck_ms : k->cfg.retry_ms);
		k->record_read = k->record_read || rc == 0;
		secret_tell_record(k, &err);
	}
	until(k, k->record_ms);
	return k->record_read;
}

/* ---- filling ---- */

static bool fill_due(const struct secret_sync *k, const struct secret_place *p, int64_t now)
{
	bool settled = p->state == PLACE_FILLED || p->state == PLACE_FOREIGN;

	return now >= p->next_ms || (settled && p->generation != k->source.generation);
}

static void fill_all(struct secret_sync *k, struct duty *d, int64_t now)
{
	bool wanted = false;

	for (size_t i = 0; i < k->places.n; i++)
		wanted = wanted || k->places.at[i].wants;
	if (!wanted)
		return;
	read_source(k, now);
	until(k, k->source_ms);
	for (size_t i = 0; i < k->places.n && !duty_stopping(d); i++) {
		struct secret_place *p = &k->places.at[i];

		if (!p->wants)
			continue;
		if (!k->source_ok) {
			if (p->state == PLACE_NEW)
				p->state = PLACE_FAILED;
			continue;
		}
		if (fill_due(k, p, now))
			secret_fill_place(k, p);
		until(k, p->next_ms);
	}
}

/* ---- emptying ---- */

static bool empty_due(const struct secret_sync *k, const struct secret_place *p, int64_t now)
{
	return !p->keeps && p->recorded && now - p->idle_ms >= k->cfg.remove_after_ms &&
	       (p->stuck_ms == 0 || now >= p->next_ms);
}

static void empty_all(struct secret_sync *k, struct duty *d)
{
	int64_t now = clock_ms();
	struct err err = {0};
	bool any = false;

	for (size_t i = 0; i < k->places.n; i++)
		any = any || empty_due(k, &k->places.at[i], now);
	/* The picture may be behind: claims that others took since count, too. */
	if (any && servers_refresh(k->cfg.servers, now + CALL_MS, &err) != 0) {
		until(k, now + WAITING_MS);
		return;
	}
	if (any)
		places_look(&k->places, k->cfg.servers, k->except, now);
	for (size_t i = 0; i < k->places.n && !duty_stopping(d); i++) {
		struct secret_place *p = &k->places.at[i];

		if (empty_due(k, p, now))
			secret_empty_place(k, p);
		if (!p->keeps && p->recorded)
			until(k, p->stuck_ms ? p->next_ms : p->idle_ms + k->cfg.remove_after_ms);
	}
}

/* ---- the duty ---- */

/* In the order of the metric's label. */
static void count(const struct secret_sync *k, const struct places *p)
{
	int64_t n[METRIC_PLACES] = {0};

	for (size_t i = 0; i < p->n; i++) {
		if (!p->at[i].wants)
			continue;
		switch (p->at[i].state) {
		case PLACE_FILLED:
			n[PLACES_FILLED]++;
			break;
		case PLACE_FOREIGN:
			n[PLACES_FOREIGN]++;
			break;
		case PLACE_CLOSED:
			n[PLACES_CLOSED]++;
			break;
		case PLACE_FAILED:
			n[PLACES_FAILED]++;
			break;
		case PLACE_NEW:
			break;
		}
	}
	for (size_t i = 0; i < METRIC_PLACES; i++)
		metric_set(k->cfg.metrics, M_SECRET_NAMESPACES, i, 0, n[i]);
}

static int64_t tick(void *ctx, struct duty *d)
{
	struct secret_sync *k = ctx;
	int64_t now = clock_ms();

	if (!servers_synced(k->cfg.servers))
		return WAITING_MS;
	k->until_ms = now + IDLE_MS;
	if (read_record(k, now)) {
		places_look(&k->places, k->cfg.servers, k->except, now);
		if (k->places.failed && !k->too_many_told)
			log_line(k->cfg.log, LOG_LEVEL_WARN,
				"too many namespaces hold claims: some get no Secrets",
				log_int("limit", SECRET_NAMESPACES_MAX));
		k->too_many_told = k->places.failed;
		fill_all(k, d, now);
		empty_all(k, d);
		places_prune(&k->places);
		count(k, &k->places);
	}
	(void)duty_sleep(d, k->cfg.pause_ms);
	now = clock_ms();
	return k->until_ms > now ? k->until_ms - now : 0;
}

static void release(struct secret_sync *k)
{
	static const struct places none;

	count(k, &none);
	places_release(&k->places);
	secret_source_release(&k->source);
	free(k);
}

static void stop(void *running)
{
	struct secret_sync *k = running;

	duty_stop(k->duty);
	release(k);
}

static void set_default(int64_t *value, int64_t to)
{
	if (*value == 0)
		*value = to;
}

static int start(void *ctx, void **ret, struct err *err)
{
	const struct secret_sync_config *cfg = ctx;
	struct slice home = secret_source_namespace(cfg->source);
	struct secret_sync *k = calloc(1, sizeof(*k));

	if (!k)
		return err_set(err, ERR_NOMEM, "out of memory");
	k->cfg = *cfg;
	set_default(&k->cfg.source_every_ms, 15000);
	set_default(&k->cfg.recheck_ms, 300000);
	set_default(&k->cfg.remove_after_ms, 10000);
	set_default(&k->cfg.retry_ms, 5000);
	set_default(&k->cfg.give_up_ms, 600000);
	set_default(&k->cfg.pause_ms, 250);
	secret_source_init(&k->source);
	if (home.len < sizeof(k->source_namespace))
		memcpy(k->source_namespace, home.at, home.len);
	k->except[0] = k->cfg.namespace;
	k->except[1] = k->source_namespace;
	k->except[2] = "kube-system";
	k->except[3] = "kube-public";
	k->except[4] = "kube-node-lease";
	k->duty = duty_start("secret-sync", tick, k, err);
	if (!k->duty) {
		release(k);
		return (int)err->code;
	}
	*ret = k;
	return 0;
}

struct leader_duty secret_sync_duty(struct secret_sync_config *cfg)
{
	return (struct leader_duty){.name = "secret-sync",
		.start = start,
		.stop = stop,
		.servers_changed = duty_wake_keeper,
		.ctx = cfg};
}

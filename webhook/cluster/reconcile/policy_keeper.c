/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duty that keeps the accounts of policies. */
#include "webhook/cluster/reconcile/policy_keeper.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/text.h"
#include "webhook/cluster/duty/duty.h"

#define EVERY_MS 2000
#define CALL_MS 5000
/* However long a count takes, that many times as long it rests: each of many policies that are busy
 * waits for a list of its own. But who was given no processor meanwhile, or no answer, is no large
 * pool. */
#define REST 2
#define REST_MAX_MS 30000
/* A sight is kept for so long after the last look that showed it: looks may fail meanwhile. */
#define FORGET_MS 600000
#define SCRATCH_MAX ((size_t)16 << 20)

/* A claim in flight, as this leader saw it first. */
struct seen {
	uint64_t hash;
	int64_t since_ms, last_ms;
};

struct policy_keeper {
	struct duty *duty;
	const struct policy_keeper_config *cfg;
	struct seen *seen;
	size_t n, cap;
	struct arena arena; /* of one tick: names of policies */
	const char **names;
	size_t n_names, cap_names;
	bool told; /* that policies cannot be read */
};

/* ---- in view ---- */

static uint64_t hash_of(const char *policy, const struct account_flight *f)
{
	return text_hash64(slice_of(policy)) ^ text_hash64(slice_of(f->uid)) * 31 ^
	       f->take * UINT64_C(0x9E3779B97F4A7C15);
}

static bool is_over(void *ctx, const char *policy, const struct account_flight *f)
{
	struct policy_keeper *k = ctx;
	uint64_t hash = hash_of(policy, f);
	int64_t now = clock_ms();

	for (size_t i = 0; i < k->n; i++)
		if (k->seen[i].hash == hash) {
			k->seen[i].last_ms = now;
			return now - k->seen[i].since_ms >= ACCOUNT_FLIGHT_MS;
		}
	/* Without memory it is seen for the first time the next time. */
	if (LIST_ROOM(k->seen, k->n, k->cap))
		k->seen[k->n++] = (struct seen){hash, now, now};
	return false;
}

static void forget_unseen(struct policy_keeper *k)
{
	int64_t now = clock_ms();
	size_t n = 0;

	for (size_t i = 0; i < k->n; i++)
		if (now - k->seen[i].last_ms < FORGET_MS)
			k->seen[n++] = k->seen[i];
	k->n = n;
}

/* ---- the duty ---- */

static bool note_policy(void *ctx, const struct json *j, const struct json_node *object)
{
	struct policy_keeper *k = ctx;
	struct err err = {0};
	struct policy p;

	if (policy_read(j, object, &k->arena, &p, &err) != 0 ||
		(!policy_is_capped(&p) && p.waiting == UINT32_MAX))
		return !k->arena.failed;
	if (!LIST_ROOM_IN(&k->arena, k->names, k->n_names, k->cap_names))
		return false;
	k->names[k->n_names++] = p.name;
	return true;
}

static void begin_list(void *ctx)
{
	struct policy_keeper *k = ctx;

	k->n_names = 0;
}

static void keep_all(struct policy_keeper *k, struct duty *d)
{
	const struct account_care care = {k, is_over};
	struct err err = {0};

	for (size_t i = 0; i < k->n_names && !duty_stopping(d); i++) {
		if (accounts_repair(k->cfg->accounts, k->names[i], &care, clock_ms() + CALL_MS,
			    &err) != 0 &&
			err.code != ERR_CONFLICT)
			log_line(k->cfg->log, LOG_LEVEL_WARN,
				"the account of a GPUPolicy could not be kept",
				log_str("policy", k->names[i]), log_str("error", err.msg));
	}
}

static int64_t tick(void *ctx, struct duty *d)
{
	struct policy_keeper *k = ctx;
	int64_t began = clock_ms(), rest;
	struct err err = {0};
	char version[32];

	if (!servers_synced(k->cfg->servers))
		return EVERY_MS;
	arena_init(&k->arena, SCRATCH_MAX);
	k->names = NULL;
	k->n_names = k->cap_names = 0;
	if (kube_list(k->cfg->kube, POLICIES_PATH, CALL_MS, begin_list, note_policy, k, version,
		    &err) == 0) {
		k->told = false;
		keep_all(k, d);
		forget_unseen(k);
	} else if (!k->told) {
		k->told = true;
		log_line(k->cfg->log, LOG_LEVEL_WARN, "the GPUPolicies cannot be read",
			log_str("error", err.msg));
	}
	arena_release(&k->arena);
	rest = (clock_ms() - began) * REST;
	return rest < EVERY_MS ? EVERY_MS : rest < REST_MAX_MS ? rest : REST_MAX_MS;
}

static void stop(void *running)
{
	struct policy_keeper *k = running;

	duty_stop(k->duty);
	free(k->seen);
	free(k);
}

static int start(void *ctx, void **ret, struct err *err)
{
	struct policy_keeper *k = calloc(1, sizeof(*k));

	if (k) {
		k->cfg = ctx;
		accounts_noted_none(k->cfg->accounts);
	}
	return duty_keep(k, "policy-keeper", tick, ret, err);
}

struct leader_duty policy_keeper_duty(struct policy_keeper_config *cfg)
{
	return (struct leader_duty){
		.name = "policy-keeper", .start = start, .stop = stop, .ctx = cfg};
}

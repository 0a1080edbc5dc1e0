/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the leader's duty that tells GPUPolicies what they may not have meant. */
#include "webhook/cluster/reconcile/policy_teller.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/rfc3339.h"
#include "webhook/cluster/duty/duty.h"
#include "webhook/cluster/ledger/policy_accounts.h"
#include "webhook/core/policy/policy_told.h"

#define EVERY_MS 5000
#define CALL_MS 5000
#define SCRATCH_MAX ((size_t)16 << 20)
#define PATCH_MAX ((size_t)256 << 10)
/* In one round; the rest is told in the next one. */
#define ROUND_MAX 100

struct policy_teller {
	struct duty *duty;
	const struct policy_teller_config *cfg;
	struct arena arena; /* of one tick */
	struct {
		const char *name;
		struct slice patch;
	} tell[ROUND_MAX];
	size_t n;
	char now[RFC3339_SIZE];
	bool told; /* that one cannot be written */
};

static void begin_list(void *ctx)
{
	struct policy_teller *t = ctx;

	t->n = 0;
}

static bool note_policy(void *ctx, const struct json *j, const struct json_node *object)
{
	struct policy_teller *t = ctx;
	struct err err = {0};
	struct policy p;
	struct buf patch;

	if (t->n == ROUND_MAX || policy_read(j, object, &t->arena, &p, &err) != 0)
		return !t->arena.failed;
	buf_init(&patch, PATCH_MAX);
	if (policy_told(j, object, &p, t->now, &patch) && !patch.failed) {
		t->tell[t->n].name = p.name;
		t->tell[t->n++].patch = arena_slice(&t->arena, buf_as_slice(&patch));
	}
	buf_release(&patch);
	return !t->arena.failed;
}

static void write_one(struct policy_teller *t, size_t i)
{
	const struct kube_call call = {.method = "PATCH",
		.at = {"/apis/" POLICY_API, NULL, "gpupolicies", t->tell[i].name, "status"},
		.content_type = KUBE_MERGE_PATCH,
		.body = t->tell[i].patch};
	struct err err = {0};
	int rc = kube_do(t->cfg->kube, &call, NULL, &err);

	/* Who changed it meanwhile has it told in the next round. */
	if (rc == 0 || rc == ERR_CONFLICT || kube_says_gone(rc, &err)) {
		t->told = t->told && rc != 0;
		return;
	}
	if (!t->told)
		log_line(t->cfg->log, LOG_LEVEL_WARN,
			"the condition of a GPUPolicy could not be written",
			log_str("policy", t->tell[i].name), log_str("error", err.msg));
	t->told = true;
}

static int64_t tick(void *ctx, struct duty *d)
{
	struct policy_teller *t = ctx;
	struct err ignored = {0}; /* the policy-keeper's to tell */
	char version[32];

	arena_init(&t->arena, SCRATCH_MAX);
	rfc3339_write(clock_wall_ms(), t->now);
	t->n = 0;
	if (kube_list(t->cfg->kube, POLICIES_PATH, CALL_MS, begin_list, note_policy, t, version,
		    &ignored) == 0)
		for (size_t i = 0; i < t->n && !duty_stopping(d); i++)
			write_one(t, i);
	arena_release(&t->arena);
	return t->cfg->every_ms ? t->cfg->every_ms : EVERY_MS;
}

static int start(void *ctx, void **ret, struct err *err)
{
	struct policy_teller *t = calloc(1, sizeof(*t));

	if (t)
		t->cfg = ctx;
	return duty_keep(t, "policy-teller", tick, ret, err);
}

struct leader_duty policy_teller_duty(struct policy_teller_config *cfg)
{
	return (struct leader_duty){
		.name = "policy-teller", .start = start, .stop = duty_free_keeper, .ctx = cfg};
}

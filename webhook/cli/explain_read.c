/* SPDX-License-Identifier: Apache-2.0 */
/* cli: reading what `poolgate explain` tells of, and why a pod that asks for GPUs is not injected:
 * by its own word, or by the policy that its namespace picks now. */
#include "webhook/cli/explain_impl.h"
#include "webhook/core/pod/foreign.h"
#include "webhook/core/pod/late.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/pod_policy.h"
#include "webhook/core/pod/unplaced.h"

/* ---- policies ---- */

static const char *by_policy(
	const struct policy *policy, const struct pod *p, struct slice namespace, struct arena *a)
{
	if (!policy)
		return "it has no annotation " ANN_SWITCH
		       ", and its namespace picks no policy (label " LABEL_POLICY ")";
	if (!policy->inject)
		return arena_fmt(a,
			"it has no annotation " ANN_SWITCH
			", and the policy \"%s\" injects none without",
			policy->name);
	if (!pod_policy_shares(p, namespace, policy->share, a))
		return arena_fmt(a,
			"the policy \"%s\" injects %u of 100 groups of pods, and its group is not "
			"among them",
			policy->name, (unsigned)policy->share);
	return arena_fmt(a,
		"the policy \"%s\" would have it injected now, where it accepts the keys that it "
		"asks by; it was made before, or the hook did not answer",
		policy->name);
}

static const char *of_policy(const struct policy_source *of, const struct pod *p,
	struct slice namespace, struct arena *a)
{
	const struct policy *policy = NULL;
	struct err err = {0};

	if (policy_of(of, namespace, a, &policy, &err) == 0)
		return by_policy(policy, p, namespace, a);
	return err.code == ERR_REFUSED
		       ? arena_strdup(a, slice_of(err.msg))
		       : arena_fmt(a, "what the policy of its namespace says cannot be read: %s",
				 err.msg);
}

/* What the policy of the pod's namespace says of it: use, and what refuses it, in e->refusal.
 * ERR_NOMEM. */
static int explain_bounds(struct explain *e, struct err *err)
{
	struct slice namespace = slice_of(e->namespace);
	const struct policy *p = NULL;
	int rc = policy_of(e->uses.of, namespace, &e->pool.arena, &p, &e->refusal);

	if (rc == 0)
		rc = policy_use_check(&e->uses, p, namespace, &e->demand, &e->refusal);
	if (rc == 0 || rc == ERR_REFUSED)
		e->use = policy_use_bounds(p) ? policy_use_of(&e->uses, p) : NULL;
	if (rc == ERR_NOMEM || e->pool.arena.failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (rc != 0 && rc != ERR_REFUSED) {
		e->uses.unknown = e->refusal;
		err_clear(&e->refusal);
	}
	return 0;
}

/* Why is this pod, which asks, not injected? In the arena; NULL: it asks for nothing, or memory is
 * out. */
static const char *explain_policy(
	struct explain *e, const struct json *j, const struct json_node *object, struct arena *a)
{
	struct slice namespace = slice_of(e->namespace), word;
	struct err err = {0};
	struct pod p;

	if (pod_read(j, object, a, &p, &err) != 0 ||
		!foreign_any_asks(&p, NULL, e->policies ? FOREIGN_ALL : 0))
		return NULL;
	word = pod_annotation(&p, ANN_SWITCH, a);
	if (word.at && pod_switch_of(&p, a) == SWITCH_OFF)
		return arena_fmt(a, "its annotation " ANN_SWITCH " says \"%.*s\"",
			(int)(word.len > 60 ? 60 : word.len), word.at);
	if (word.at)
		return "it was made when the mutating hook did not answer, or could not tell its "
		       "client";
	return e->policies ? of_policy(e->uses.of, &p, namespace, a)
			   : "it has no annotation " ANN_SWITCH;
}

/* ---- the cluster ---- */

/* The pod itself, before all others. */
static int read_pod(struct kube *k, struct explain *e, bool *ret_held, struct err *err)
{
	struct unplaced unplaced;
	struct kube_answer a;
	struct buf path;
	int rc;

	buf_init(&path, 2048);
	kube_path(&path, "/api/v1", e->namespace, "pods", e->name, NULL);
	if (path.failed) {
		buf_release(&path);
		return err_set(err, ERR_INVALID, "the name is too long");
	}
	rc = kube_get(k, path.data, 0, &a, err);
	if (rc == 0) {
		const struct json_node *object = json_root(&a.json);

		e->pool.self = arena_slice(&e->pool.arena, kube_meta(&a.json, object).uid);
		e->asks = pool_read_demand(&e->pool, &a.json, object, &e->demand);
		e->state = pod_finished(&a.json, object) ? EXPLAIN_FINISHED
			   : e->asks                     ? EXPLAIN_LOST
							 : EXPLAIN_NOT_OURS;
		if (e->state == EXPLAIN_NOT_OURS)
			e->not_ours = explain_policy(e, &a.json, object, &e->pool.arena);
		pod_waits(&a.json, object, e->why);
		/* nothing that a person would not see: it is being made */
		if (strcmp(e->why, "Pending") == 0)
			e->why[0] = '\0';
		e->unplaced = unplaced_read(&a.json, object, &e->pool.arena, &unplaced);
		e->node_says = unplaced.message;
		*ret_held = late_is_held(&a.json, object);
		if (e->pool.arena.failed || !e->pool.self.at)
			rc = err_set(err, ERR_NOMEM, "out of memory for the pod");
	}
	kube_answer_release(&a);
	buf_release(&path);
	return rc;
}

/* Its place among those who wait. */
static int decide(struct explain *e, struct err *err)
{
	struct pool_read *p = &e->pool;

	e->self = 0;
	while (e->self < p->n_pods && !slice_eq(p->pods[e->self].uid, p->self))
		e->self++;
	/* it has been made since the list, or is gone: then the next look tells */
	if (e->self == p->n_pods)
		return err_set(
			err, ERR_NOTFOUND, "the pod has changed while it was looked at: ask again");
	e->world = pool_read_world(p);
	return queue_decide(&e->world, p->pods, p->n_pods, true, &p->arena, &e->round, err);
}

/* It would have its turn; do the caps of its namespace's policy leave so much? */
static int decide_within_caps(struct explain *e, struct err *err)
{
	struct queue_pod *self;
	int rc = decide(e, err);

	if (rc != 0 || e->round.entries[e->self].verdict != QUEUE_START || !e->use)
		return rc;
	self = &e->pool.pods[e->self];
	if (policy_use_leaves(&e->uses, e->use->policy, self->namespace,
		    policy_use_sum(&e->round.entries[e->self].where), &e->refusal) != ERR_REFUSED)
		return 0;
	self->barred = arena_slice(&e->pool.arena, slice_of(e->refusal.msg));
	return decide(e, err);
}

/* What it would be told if it were made now. */
static int place(struct explain *e, struct err *err)
{
	struct pool_read *p = &e->pool;
	struct placement where;
	int rc = e->refusal.code;

	if (rc == 0)
		rc = placement_find(&p->inv, &p->usage, &e->demand, &p->arena, &where, &e->refusal);
	if (rc == 0 && e->use)
		rc = policy_use_leaves(&e->uses, e->use->policy, slice_of(e->namespace),
			policy_use_sum(&where), &e->refusal);
	return rc == ERR_NOMEM ? err_set(err, rc, "%s", e->refusal.msg) : 0;
}

static int wait(struct kube *k, struct explain *e, struct err *err)
{
	int rc = pool_read_waiting(k, &e->pool, err);

	if (rc == 0 && !policy_use_waiting(&e->uses))
		rc = err_set(err, ERR_NOMEM, "out of memory for those who wait");
	if (rc == 0)
		rc = explain_bounds(e, err);
	return rc == 0 ? decide_within_caps(e, err) : rc;
}

int explain_read(struct kube *k, struct explain *e, struct err *err)
{
	struct pool_read *p = &e->pool;
	bool held = false;
	int rc = e->policies
			 ? policy_asked_begin(&e->asked, k, e->policies_required, &p->arena, err)
			 : 0;

	e->uses = (struct policy_uses){.of = e->policies ? &e->asked.source : NULL, .pool = p};
	if (rc == 0)
		rc = read_pod(k, e, &held, err);
	if (rc == 0)
		rc = pool_read_servers(k, p, err);
	if (rc != 0)
		return rc;
	if (pool_read_claimed(p, p->self)) {
		e->state = EXPLAIN_HOLDS;
		return 0;
	}
	if (e->state != EXPLAIN_LOST)
		return 0;
	if (!held) {
		rc = explain_bounds(e, err);
		return rc == 0 ? place(e, err) : rc;
	}
	e->state = EXPLAIN_WAITS;
	return wait(k, e, err);
}

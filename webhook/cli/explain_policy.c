/* SPDX-License-Identifier: Apache-2.0 */
/* cli: why a pod that asks for GPUs is not injected: by its own word, or by the policy that its
 * namespace picks now. */
#include "webhook/cli/explain_impl.h"
#include "webhook/core/pod/foreign.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/pod_policy.h"

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

int explain_bounds(struct explain *e, struct err *err)
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

const char *explain_policy(
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

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: why a pod that asks for GPUs is not injected: by its own word, or by the policy that its
 * namespace picks now. */
#include "base/clock.h"
#include "webhook/cli/explain_impl.h"
#include "webhook/cluster/policy/policy_look.h"
#include "webhook/core/pod/foreign.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/pod_policy.h"

#define ASK_MS 10000

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

static const char *of_policy(
	struct kube *k, const struct pod *p, struct slice namespace, bool required, struct arena *a)
{
	struct policy_look_config cfg = {.kube = k, .required = required};
	const struct policy *policy = NULL;
	struct err err = {0};
	/* Without its watches it asks for what it is asked. */
	struct policy_look *look = policy_look_new(&cfg, &err);
	const char *why = NULL;

	if (look &&
		policy_look_of(look, namespace, false, clock_ms() + ASK_MS, a, &policy, &err) == 0)
		why = by_policy(policy, p, namespace, a);
	else if (err.code == ERR_REFUSED)
		why = arena_strdup(a, slice_of(err.msg));
	else
		why = arena_fmt(
			a, "what the policy of its namespace says cannot be read: %s", err.msg);
	policy_look_free(look);
	return why;
}

const char *explain_policy(struct kube *k, const struct explain *e, const struct json *j,
	const struct json_node *object, struct arena *a)
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
	return e->policies ? of_policy(k, &p, namespace, e->policies_required, a)
			   : "it has no annotation " ANN_SWITCH;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* core: what a policy says of a pod. */
#include "webhook/core/pod/pod_policy.h"

#include "base/text.h"
#include "webhook/core/pod/plan.h"

bool pod_policy_decides(const struct pod *p, struct arena *a)
{
	return !pod_annotation(p, ANN_SWITCH, a).at;
}

enum pod_switch pod_policy_switch(const struct pod *p, const struct policy *policy,
	struct slice namespace, bool many, struct arena *a)
{
	if (!pod_policy_decides(p, a))
		return pod_switch_of(p, a);
	if (!policy || !policy->inject || policy->share == 0)
		return SWITCH_OFF;
	return many || pod_policy_shares(p, namespace, policy->share, a) ? SWITCH_FULL : SWITCH_OFF;
}

/* The first name of a group that is there, in the order of law P5. A LeaderWorkerSet's own name
 * comes before its groups': a leader has the key of its group from another hook, maybe after ours.
 */
static struct slice group_of(const struct pod *p, struct arena *a)
{
	static const char *const labels[] = {"kueue.x-k8s.io/pod-group-name",
		"jobset.sigs.k8s.io/jobset-uid", "leaderworkerset.sigs.k8s.io/name",
		"leaderworkerset.sigs.k8s.io/group-key"};
	struct slice name = pod_annotation(p, ANN_GANG, a);

	if (!name.len)
		name = json_str(
			p->j, json_path(p->j, p->spec, "schedulingGroup", "podGroupName", NULL), a);
	for (size_t i = 0; !name.len && i < sizeof(labels) / sizeof(labels[0]); i++)
		name = json_str(p->j, json_get(p->j, p->labels, slice_of(labels[i])), a);
	return name;
}

/* A ReplicaSet is called as its Deployment and a hash, which the next rollout changes. */
static struct slice without_hash(const struct pod *p, struct slice name, struct arena *a)
{
	struct slice hash =
		json_str(p->j, json_get(p->j, p->labels, SLICE("pod-template-hash")), a);
	size_t end = hash.len + 1;

	if (!hash.len || name.len <= end || name.at[name.len - end] != '-' ||
		!slice_eq((struct slice){name.at + name.len - hash.len, hash.len}, hash))
		return name;
	return (struct slice){name.at, name.len - end};
}

bool pod_policy_shares(const struct pod *p, struct slice namespace, uint32_t share, struct arena *a)
{
	const struct json_node *owner = pod_controller(p);
	struct slice kind = {0}, name;
	const char *text;

	if (share >= 100)
		return true;
	name = group_of(p, a);
	if (!name.len && owner) {
		kind = json_str(p->j, json_get(p->j, owner, SLICE("kind")), a);
		name = without_hash(p, json_str(p->j, json_get(p->j, owner, SLICE("name")), a), a);
	}
	/* The API server makes a name of it between our two hooks. */
	if (!name.len)
		name = json_str(
			p->j, json_path(p->j, p->root, "metadata", "generateName", NULL), a);
	if (!name.len)
		name = json_str(p->j, json_path(p->j, p->root, "metadata", "name", NULL), a);
	if (!name.len)
		return share > 0;
	text = arena_fmt(a, "%.*s\n%.*s\n%.*s", (int)namespace.len, namespace.at, (int)kind.len,
		kind.at ? kind.at : "", (int)name.len, name.at ? name.at : "");
	return text && text_hash64(slice_of(text)) % 100 < share;
}

struct slice pod_policy_word(
	const struct pod *p, const char *key, const char *by_policy, struct arena *a)
{
	struct slice s = pod_annotation(p, key, a);

	return s.at || !by_policy ? s : slice_of(by_policy);
}

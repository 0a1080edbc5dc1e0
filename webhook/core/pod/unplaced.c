/* SPDX-License-Identifier: Apache-2.0 */
/* core: a pod that has its claim and finds no node. */
#include "webhook/core/pod/unplaced.h"

/* What the eviction gives the pod (KEP-3329). */
#define DISRUPTED SLICE("DisruptionTarget")

static const struct json_node *conditions_of(const struct json *j, const struct json_node *object)
{
	return json_path(j, object, "status", "conditions", NULL);
}

static const struct json_node *find_condition(
	const struct json *j, const struct json_node *object, struct slice type)
{
	return json_find(j, conditions_of(j, object), "type", type, false, NULL);
}

static enum unplaced_owner class_of(const struct json *j, const struct json_node *owner)
{
	static const struct {
		const char *api, *kind;
		enum unplaced_owner is;
	} known[] = {{"apps/v1", "ReplicaSet", OWNER_REPLACES},
		{"apps/v1", "StatefulSet", OWNER_REPLACES},
		{"v1", "ReplicationController", OWNER_REPLACES}, {"batch/v1", "Job", OWNER_JOB}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (json_is_str(
			    j, json_get(j, owner, SLICE("apiVersion")), slice_of(known[i].api)) &&
			json_is_str(j, json_get(j, owner, SLICE("kind")), slice_of(known[i].kind)))
			return known[i].is;
	return OWNER_OTHER;
}

static void read_owner(
	const struct json *j, const struct json_node *object, struct arena *a, struct unplaced *ret)
{
	JSON_EACH(j, json_path(j, object, "metadata", "ownerReferences", NULL), owner)
	{
		if (!json_is(json_get(j, owner, SLICE("controller")), JSON_TRUE))
			continue;
		ret->owner = class_of(j, owner);
		ret->owner_kind = json_str(j, json_get(j, owner, SLICE("kind")), a);
		ret->owner_name = json_str(j, json_get(j, owner, SLICE("name")), a);
		ret->owner_uid = json_str(j, json_get(j, owner, SLICE("uid")), a);
		return;
	}
}

bool unplaced_read(
	const struct json *j, const struct json_node *object, struct arena *a, struct unplaced *ret)
{
	const struct json_node *said = find_condition(j, object, SLICE("PodScheduled"));
	const struct json_node *node = json_path(j, object, "spec", "nodeName", NULL);

	*ret = (struct unplaced){0};
	if ((node && !json_is_str(j, node, SLICE(""))) ||
		!json_absent(json_path(j, object, "metadata", "deletionTimestamp", NULL)) ||
		!json_is_str(j, json_path(j, object, "status", "phase", NULL), SLICE("Pending")) ||
		!json_is_str(j, json_get(j, said, SLICE("status")), SLICE("False")) ||
		!json_is_str(j, json_get(j, said, SLICE("reason")), SLICE(UNPLACED_REASON)))
		return false;
	ret->message = json_str(j, json_get(j, said, SLICE("message")), a);
	read_owner(j, object, a, ret);
	return !a->failed;
}

/* Would the pattern of a rule match the pod once it is evicted? */
static bool matches(const struct json *jj, const struct json_node *pattern, const struct json *j,
	const struct json_node *object, struct arena *a)
{
	const struct json_node *status = json_get(jj, pattern, SLICE("status"));
	struct slice type = json_str(jj, json_get(jj, pattern, SLICE("type")), a);
	struct slice want = json_absent(status) ? SLICE("True") : json_str(jj, status, a);
	const struct json_node *has;

	if (!type.at || !want.at)
		return false;
	if (slice_eq(type, DISRUPTED))
		return slice_is(want, "True");
	has = find_condition(j, object, type);
	return has && json_is_str(j, json_get(j, has, SLICE("status")), want);
}

bool unplaced_job_ignores(const struct json *jj, const struct json_node *job, const struct json *j,
	const struct json_node *object, struct arena *a)
{
	/* Rules of exit codes match none of it: no container of it has run. */
	JSON_EACH(jj, json_path(jj, job, "spec", "podFailurePolicy", "rules", NULL), rule)
	{
		JSON_EACH(jj, json_get(jj, rule, SLICE("onPodConditions")), pattern)
		{
			if (matches(jj, pattern, j, object, a))
				return json_is_str(jj, json_get(jj, rule, SLICE("action")),
					       SLICE("Ignore")) &&
				       !a->failed;
		}
	}
	return false;
}

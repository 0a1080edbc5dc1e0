/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate plan`: which bounds of a namespace are over keys that its policy takes out of
 * pods.
 */
#include "webhook/cli/plan_impl.h"
#include "webhook/core/pod/foreign.h"

#define PATH_BYTES 1024
#define LIST_MS 60000

/* One list of them. */
struct bounds_list {
	struct plan_job *job;
	const char *kind;
	const struct policy_answer *pick;
};

static bool take_bound(void *ctx, const struct json *j, const struct json_node *object)
{
	const struct bounds_list *l = ctx;
	struct plan_job *job = l->job;
	struct arena *a = &job->pool.arena;
	unsigned keys = foreign_bounded(j, object, a) & l->pick->policy->accepts;

	if (!keys)
		return !a->failed;
	if (job->n_bounds == job->cap_bounds) {
		size_t cap = 2 * job->cap_bounds + 8;
		struct plan_bound *grown = arena_array(a, cap, sizeof(*grown));

		if (!grown)
			return false;
		for (size_t i = 0; i < job->n_bounds; i++)
			grown[i] = job->bounds[i];
		job->bounds = grown;
		job->cap_bounds = cap;
	}
	job->bounds[job->n_bounds++] = (struct plan_bound){.kind = l->kind,
		.namespace = l->pick->namespace,
		.name = arena_slice(a, kube_meta(j, object).name),
		.keys = keys,
		.policy = l->pick->policy};
	return !a->failed;
}

static int list(struct plan_job *job, const struct policy_answer *pick, const char *kind,
	const char *plural, struct err *err)
{
	const char *namespace = arena_strdup(&job->pool.arena, pick->namespace);
	struct bounds_list l = {job, kind, pick};
	char version[32] = "";
	struct err why = {0};
	struct buf path;
	int rc = ERR_NOMEM;

	buf_init(&path, PATH_BYTES);
	if (namespace)
		kube_path(&path, "/api/v1", namespace, plural, NULL, NULL);
	if (namespace && !path.failed)
		rc = kube_list(job->kube, path.data, LIST_MS, NULL, take_bound, &l, version, &why);
	buf_release(&path);
	if (job->pool.arena.failed || rc == ERR_NOMEM)
		return err_set(err, ERR_NOMEM, "out of memory while planning");
	if (rc != 0)
		job->bounds_why = why;
	return 0;
}

/* Is a pod of this namespace converted? */
static bool converts(const struct plan_job *job, const struct policy_answer *pick)
{
	for (size_t i = 0; i < job->n_works; i++)
		if (job->works[i].converted && slice_eq(job->works[i].namespace, pick->namespace))
			return true;
	return false;
}

int plan_bounds(struct plan_job *job, struct err *err)
{
	for (const struct policy_answer *p = job->asked.picks; p; p = p->next)
		if (converts(job, p) && (list(job, p, "ResourceQuota", "resourcequotas", err) < 0 ||
						list(job, p, "LimitRange", "limitranges", err) < 0))
			return err->code;
	return 0;
}

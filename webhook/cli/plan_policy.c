/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate plan`: which policy a namespace of the cluster picks, and which bounds of it are
 * over keys that the policy takes out of pods. */
#include "webhook/cli/plan_impl.h"
#include "webhook/core/pod/foreign.h"

#define PATH_BYTES 1024
#define LIST_MS 60000

/* What was asked before. */
struct plan_picks {
	struct plan_picks *next;
	struct slice namespace;
	const struct policy *policy;
};

/* GET an object; the caller releases the answer in every case. */
static int get(struct kube *k, const char *api, const char *plural, struct slice name,
	struct arena *a, struct kube_answer *ret, struct err *err)
{
	const char *text = arena_strdup(a, name);
	struct buf path;
	int rc;

	*ret = (struct kube_answer){0};
	buf_init(&path, PATH_BYTES);
	if (text)
		kube_path(&path, api, NULL, plural, text, NULL);
	rc = text && !path.failed ? kube_get(k, path.data, 0, ret, err)
				  : err_set(err, ERR_NOMEM, "out of memory");
	buf_release(&path);
	return rc;
}

/* The policy of that name. */
static int read_policy(struct kube *k, struct slice namespace, struct slice name, struct arena *a,
	const struct policy **ret, struct err *err)
{
	struct policy *p = arena_alloc(a, sizeof(*p));
	struct kube_answer answer;
	struct err why = {0};
	int rc;

	if (!p)
		return err_set(err, ERR_NOMEM, "out of memory");
	rc = get(k, "/apis/poolgate.io/v1alpha1", "gpupolicies", name, a, &answer, &why);
	if (rc == 0)
		rc = policy_read(&answer.json, json_root(&answer.json), a, p, &why);
	if (rc == 0)
		*ret = p;
	else if (kube_says_gone(rc, &why))
		err_reason(err, ERR_REFUSED, "NoPolicy",
			"the namespace %.*s picks the policy \"%.*s\", which does not exist",
			(int)namespace.len, namespace.at, (int)(name.len > 63 ? 63 : name.len),
			name.at);
	else
		err_set(err, why.code, "%s", why.msg);
	kube_answer_release(&answer);
	return err->code;
}

/* A namespace that is not there yet picks none. */
static int find(struct kube *k, struct slice namespace, struct arena *a, const struct policy **ret,
	struct err *err)
{
	struct kube_answer answer;
	struct err why = {0};
	struct slice name = {0};
	int rc = get(k, "/api/v1", "namespaces", namespace, a, &answer, &why);

	if (rc == 0)
		name = json_str(&answer.json,
			json_path(&answer.json, json_root(&answer.json), "metadata", "labels",
				LABEL_POLICY, NULL),
			a);
	if (name.len)
		name = arena_slice(a, name);
	kube_answer_release(&answer);
	if (rc != 0)
		return kube_says_gone(rc, &why) ? 0 : err_set(err, why.code, "%s", why.msg);
	return name.len ? read_policy(k, namespace, name, a, ret, err) : 0;
}

static int policy_of_cluster(void *ctx, struct slice namespace, struct arena *a,
	const struct policy **ret, struct err *err)
{
	struct plan_job *job = ctx;
	struct plan_picks *p = job->picks;

	(void)a;
	*ret = NULL;
	while (p && !slice_eq(p->namespace, namespace))
		p = p->next;
	if (!p) {
		p = arena_alloc(&job->pool.arena, sizeof(*p));
		if (!p)
			return err_set(err, ERR_NOMEM, "out of memory");
		*p = (struct plan_picks){
			job->picks, arena_slice(&job->pool.arena, namespace), NULL};
		if (find(job->kube, namespace, &job->pool.arena, &p->policy, err) < 0)
			return err->code;
		job->picks = p;
	}
	*ret = p->policy;
	return 0;
}

void plan_policies(struct plan_job *job)
{
	job->policies = (struct policy_source){job, policy_of_cluster};
	job->world.policies = &job->policies;
}

/* ---- bounds ---- */

/* One list of them. */
struct bounds_list {
	struct plan_job *job;
	const char *kind;
	const struct plan_picks *pick;
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

static int list(struct plan_job *job, const struct plan_picks *pick, const char *kind,
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
static bool converts(const struct plan_job *job, const struct plan_picks *pick)
{
	for (size_t i = 0; i < job->n_works; i++)
		if (job->works[i].converted && slice_eq(job->works[i].namespace, pick->namespace))
			return true;
	return false;
}

int plan_bounds(struct plan_job *job, struct err *err)
{
	for (const struct plan_picks *p = job->picks; p; p = p->next)
		if (converts(job, p) && (list(job, p, "ResourceQuota", "resourcequotas", err) < 0 ||
						list(job, p, "LimitRange", "limitranges", err) < 0))
			return err->code;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate plan`: what a policy changes in pods that ask by keys of others, and which bounds
 * of a namespace are over keys that its policy takes out of pods. */
#include "base/list.h"
#include "webhook/cli/plan_impl.h"
#include "webhook/core/pod/foreign.h"
#include "webhook/core/pod/plan_ties.h"
#include "webhook/core/pool/placement_say.h"

/* ---- what a policy changes in a pod ---- */

#define NAME_MAX 253
#define VALUE_MAX 200

static void say_keys(unsigned keys, struct buf *out)
{
	const char *sep = "";

	for (size_t k = 0; k < FOREIGN_KEYS; k++)
		if (keys & 1U << k) {
			buf_fmt(out, "%s%s", sep, foreign_key_name((enum foreign_key)k));
			sep = ", ";
		}
}

static void say_container(
	const struct plan_work *w, const struct plan_container *c, struct buf *out)
{
	struct demand_container d = {
		.amount = c->amount, .percent = c->percent, .memory_mb = c->memory_mb};

	if (!c->foreign)
		return;
	buf_fmt(out, "  the policy %s reads ", w->policy ? w->policy->name : "");
	say_keys(c->foreign, out);
	buf_str(out, " of container ");
	say_word(out, c->name, NAME_MAX);
	buf_str(out, " as ");
	say_amount(out, &d, c->amount);
	buf_str(out, " of the pool; it sees no GPU of its node\n");
}

static void say_tie(struct buf *out, const char *what, struct slice json, const char **sep)
{
	if (!json.at)
		return;
	buf_fmt(out, "%s%s ", *sep, what);
	say_word(out, json, VALUE_MAX);
	*sep = ", ";
}

void plan_say_change(const struct plan_work *w, struct buf *out)
{
	const struct plan_ties *t = w->converted ? &w->converted->ties : NULL;
	const char *sep = "  ties to GPU nodes that it loses: ";

	for (size_t i = 0; t && i < w->converted->n_containers; i++)
		say_container(w, &w->converted->containers[i], out);
	if (!t || plan_ties_none(t))
		return;
	say_tie(out, "nodeSelector", t->node_selector, &sep);
	say_tie(out, "expressions of nodeAffinity", t->node_affinity, &sep);
	for (size_t i = 0; i < t->n_tolerations; i++)
		say_tie(out, "toleration", t->tolerations[i].json, &sep);
	say_tie(out, "runtimeClassName", t->runtime_class, &sep);
	buf_char(out, '\n');
}

void plan_say_bounds(const struct plan_job *job, struct buf *out)
{
	for (size_t i = 0; i < job->n_bounds; i++) {
		const struct plan_bound *b = &job->bounds[i];

		buf_fmt(out, "%s ", b->kind);
		say_word(out, b->namespace, NAME_MAX);
		buf_char(out, '/');
		say_word(out, b->name, NAME_MAX);
		buf_str(out, " is over ");
		say_keys(b->keys, out);
		buf_fmt(out, ", which the policy %s takes out of pods: it counts none of these\n",
			b->policy->name);
	}
	if (job->bounds_why.code)
		buf_fmt(out,
			"ResourceQuotas and LimitRanges cannot be read, so that those over keys "
			"that are taken out are not named: %s\n",
			job->bounds_why.msg);
}

/* ---- as JSON ---- */

static void json_keys(unsigned keys, struct buf *out)
{
	const char *sep = "";

	buf_str(out, "\"keys\":[");
	for (size_t k = 0; k < FOREIGN_KEYS; k++)
		if (keys & 1U << k) {
			buf_fmt(out, "%s\"%s\"", sep, foreign_key_name((enum foreign_key)k));
			sep = ",";
		}
	buf_char(out, ']');
}

void plan_json_change(const struct plan_work *w, struct buf *out)
{
	const char *sep = ",\"converted\":[";

	if (w->policy) {
		buf_str(out, ",\"policy\":");
		buf_json_str(out, slice_of(w->policy->name));
	}
	if (!w->converted)
		return;
	for (size_t i = 0; i < w->converted->n_containers; i++) {
		const struct plan_container *c = &w->converted->containers[i];

		if (!c->foreign)
			continue;
		buf_fmt(out, "%s{\"container\":", sep);
		buf_json_str(out, c->name);
		buf_char(out, ',');
		json_keys(c->foreign, out);
		buf_fmt(out, ",\"amount\":%u", c->amount);
		if (c->percent)
			buf_fmt(out, ",\"percent\":%u}", c->percent);
		else
			buf_fmt(out, ",\"memoryMB\":%llu}", (unsigned long long)c->memory_mb);
		sep = ",";
	}
	buf_char(out, ']');
	plan_ties_write(&w->converted->ties, out);
}

void plan_json_bounds(const struct plan_job *job, struct buf *out)
{
	buf_str(out, ",\"bounds\":[");
	for (size_t i = 0; i < job->n_bounds; i++) {
		const struct plan_bound *b = &job->bounds[i];

		buf_fmt(out, "%s{\"kind\":\"%s\",\"namespace\":", i ? "," : "", b->kind);
		buf_json_str(out, b->namespace);
		buf_str(out, ",\"name\":");
		buf_json_str(out, b->name);
		buf_char(out, ',');
		json_keys(b->keys, out);
		buf_str(out, ",\"policy\":");
		buf_json_str(out, slice_of(b->policy->name));
		buf_char(out, '}');
	}
	buf_char(out, ']');
}

/* ---- bounds of a namespace ---- */

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
	if (!LIST_ROOM_IN(a, job->bounds, job->n_bounds, job->cap_bounds))
		return false;
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

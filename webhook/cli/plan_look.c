/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate plan`: what one pod of a manifest asks, or why it is none of ours. */
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/yaml/yaml_json.h"
#include "webhook/cli/plan_impl.h"
#include "webhook/core/policy/policy_bound.h"
#include "webhook/core/validate/workload.h"

#define TEXT_MAX (4 * (size_t)YAML_BYTES_MAX)
#define PATCH_MAX (16u << 20)

static int no_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory while planning");
}

/* A node of the manifest as the API server would get it. The text lives in the arena. */
static int read_node(
	const struct yaml_node *node, struct arena *a, struct json *ret, struct err *err)
{
	struct buf text;
	char *copy;
	int rc;

	buf_init(&text, TEXT_MAX);
	rc = yaml_to_json(node, YAML_JSON_COMPACT, &text, err);
	copy = rc == 0 ? arena_alloc(a, text.len + JSON_PAD) : NULL;
	if (copy) {
		memcpy(copy, text.data, text.len);
		rc = json_read(ret, copy, text.len, REVIEW_NODES_MAX, err);
	} else if (rc == 0) {
		rc = no_memory(err);
	}
	buf_release(&text);
	return rc;
}

static struct plan_work *add_work(
	struct plan_job *job, const struct inject_job *files, const struct manifest_pod *pod)
{
	struct arena *a = &job->pool.arena;
	struct plan_work *w;

	if (!LIST_ROOM_IN(a, job->works, job->n_works, job->cap_works))
		return NULL;
	w = &job->works[job->n_works];
	*w = (struct plan_work){.file = arena_strdup(a, slice_of(pod->node->doc->file)),
		.line = pod->line,
		.kind = arena_slice(a, pod->kind),
		.namespace = arena_slice(a, pod->namespace.at ? pod->namespace : files->namespace),
		.name = arena_slice(a, pod->name),
		.copies = 1};
	return a->failed ? NULL : w;
}

/* How many pods the object makes at one time. Of kinds that nobody here knows each template counts
 * as one. */
static int count_copies(
	const struct manifest_pod *pod, struct arena *a, int64_t *ret, struct err *err)
{
	struct workload workload;
	struct json j;
	int rc;

	if (pod->object == pod->node)
		return 0;
	json_init(&j);
	rc = read_node(pod->object, a, &j, err);
	if (rc == 0 && workload_read(&j, json_root(&j), pod->kind, &workload))
		*ret = workload.replicas;
	json_release(&j);
	return rc;
}

/* What the queue has to know of it. The API server writes a pod's priority where its class is
 * known. */
static bool read_waiting(struct plan_job *job, const struct json *j, struct plan_work *w)
{
	const struct json_node *spec = json_get(j, json_root(j), SLICE("spec"));
	const struct json_node *class = json_get(j, spec, SLICE("priorityClassName"));
	struct queue_pod *p = &w->pod;

	if (!queue_read(j, json_root(j), &job->pool.classes, &job->pool.arena, p, NULL))
		return false;
	for (size_t i = 0; i < job->pool.classes.n; i++)
		if (json_absent(class) ? job->classes[i].for_all
				       : json_is_str(j, class, job->pool.classes.names[i])) {
			p->priority = job->classes[i].priority;
			p->classed = true;
		}
	policy_order(w->policy, p);
	p->namespace = w->namespace;
	p->name = w->name;
	p->since_ms = job->pool.now_ms;
	p->demand = w->demand;
	if (p->gang_job) {
		p->gang_size = w->copies < GANG_SIZE_MAX ? (uint32_t)w->copies : GANG_SIZE_MAX;
		p->owner = w->name;
	}
	return true;
}

/* What the plan asks of the pool, wherever there is room for it: servers that are named were chosen
 * for the first copy alone. */
static int read_plan(
	struct plan_job *job, const struct plan *plan, struct plan_work *w, struct err *err)
{
	const struct profile *p = config_profile(job->world.config, plan->profile);
	struct demand *d = arena_alloc(&job->pool.arena, sizeof(*d));

	if (!d)
		return no_memory(err);
	if (plan_demand(plan, p && p->whole_servers, &job->pool.arena, d, err) != 0)
		return err->code;
	if (d->n_servers > 0 && p) {
		d->one_server = p->one_server;
		d->no_ipv4 = p->no_ipv4;
		d->no_ipv6 = p->no_ipv6;
	}
	d->n_servers = 0;
	w->demand = d;
	w->waits = plan->waits;
	w->verdict = PLAN_PLACED;
	return 0;
}

/* By law P1 what its namespace picks now bounds it. */
static int bound(struct plan_job *job, struct plan_work *w, struct err *err)
{
	struct err why = {0};
	int rc = policy_use_check(&job->uses, w->policy, w->namespace, w->demand, &why);

	if (rc == 0)
		return 0;
	if (rc != ERR_REFUSED)
		return no_memory(err);
	w->why = arena_slice(&job->pool.arena, slice_of(why.msg));
	/* who waits comes in, and stays behind the cap */
	if (w->waits && strcmp(why.reason, "PolicyFull") == 0)
		w->pod.barred = w->why;
	else
		w->verdict = PLAN_INVALID;
	return w->why.at ? 0 : no_memory(err);
}

static void say_warnings(const struct inject_job *files, const struct manifest_pod *pod,
	const struct warnings *warnings)
{
	for (size_t i = 0; i < warnings->n; i++) {
		inject_say_place(files, pod, pod->line);
		(void)fprintf(stderr, "warning: %.*s\n", (int)warnings->text[i].len,
			warnings->text[i].at);
	}
}

/* What the mutator says of it. A refusal is a verdict; err has what keeps us from one. */
static int decide(struct plan_job *job, const struct inject_job *files,
	const struct manifest_pod *pod, const struct json *j, struct plan_work *w, struct err *err)
{
	struct mutate_world world = job->world;
	struct arena *a = &job->pool.arena;
	struct mutation m = {0};
	struct err why = {0};
	struct buf patch;

	world.owned = !slice_is(pod->kind, "Pod");
	buf_init(&patch, PATCH_MAX);
	(void)mutate_create(&world, j, json_root(j), w->namespace, a, &patch, &m, &why);
	buf_release(&patch);
	say_warnings(files, pod, &m.warnings);
	if (why.code && inject_is_our_fault(&why))
		return err_set(err, why.code, "%s", why.msg);
	if (why.code) {
		w->verdict = PLAN_INVALID;
		w->line = inject_line(pod, slice_of(why.path));
		w->path = why.path[0] ? arena_fmt(a, "%.*s%s", (int)pod->pointer.len,
						pod->pointer.at, why.path)
				      : NULL;
		w->why = slice_of(arena_strdup(a, slice_of(why.msg)));
		return a->failed ? no_memory(err) : 0;
	}
	if (!m.patched) {
		w->why = slice_of(m.why_not ? m.why_not : "it asks for nothing");
		return 0;
	}
	if (read_plan(job, &m.plan, w, err) != 0)
		return err->code;
	for (size_t i = 0; i < m.plan.n_containers && !w->converted; i++)
		if (m.plan.containers[i].foreign)
			w->converted = arena_copy(a, &m.plan, 1, sizeof(m.plan));
	w->policy = m.policy;
	if (a->failed || !read_waiting(job, j, w))
		return no_memory(err);
	return bound(job, w, err);
}

int plan_look(const struct inject_job *files, void *ctx, const struct manifest_pod *pod)
{
	struct plan_job *job = ctx;
	struct plan_work *w = add_work(job, files, pod);
	struct err err = {0};
	struct json j;
	int rc = 0;

	json_init(&j);
	inject_say_types(files, pod);
	if (!w)
		rc = no_memory(&err);
	if (rc == 0)
		rc = count_copies(pod, &job->pool.arena, &w->copies, &err);
	if (rc == 0)
		rc = read_node(pod->node, &job->pool.arena, &j, &err);
	if (rc == 0)
		rc = decide(job, files, pod, &j, w, &err);
	json_release(&j);
	if (rc == 0) {
		job->n_works++;
		if (w->verdict == PLAN_PLACED)
			rc = plan_place(job, &err);
	}
	if (rc == 0)
		return INJECT_DONE;
	inject_say_place(files, pod, pod->line);
	(void)fprintf(stderr, "%s\n", err.msg);
	return INJECT_UNREADABLE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: reading what `poolgate explain` tells of. */
#include <stdlib.h>

#include "webhook/cli/explain_impl.h"
#include "webhook/core/pod/late.h"
#include "webhook/core/pod/queue_read.h"

#define LIST_MS 60000
#define GPU_SERVERS "/apis/poolgate.io/v1alpha1/gpuservers"
#define INJECTED_PODS "/api/v1/pods?labelSelector=poolgate.io%2Finjected%3Dtrue"

/* Room for one more in a list of the arena. False: out of memory. */
static bool more(struct arena *a, void **list, size_t n, size_t *cap, size_t size)
{
	size_t grown = 2 * *cap + 64;
	void *to;

	if (n < *cap)
		return true;
	to = arena_array(a, grown, size);
	if (!to)
		return false;
	if (n)
		memcpy(to, *list, n * size);
	*list = to;
	*cap = grown;
	return true;
}

/* ---- servers ---- */

static void forget_servers(void *ctx)
{
	struct explain *e = ctx;

	e->n_servers = e->n_unreadable = 0;
}

static bool take_server(void *ctx, const struct json *j, const struct json_node *object)
{
	struct explain *e = ctx;
	void *list = e->servers;
	int rc;

	if (!more(&e->arena, &list, e->n_servers, &e->cap_servers, sizeof(*e->servers)))
		return false;
	e->servers = list;
	rc = server_object_read(j, object, &e->arena, &e->servers[e->n_servers], NULL);
	e->n_servers += rc == 0;
	e->n_unreadable += rc != 0;
	return rc != ERR_NOMEM;
}

static int by_name(const void *a, const void *b)
{
	const struct server_object *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int make_inventory(struct explain *e, struct err *err)
{
	bool twins;

	e->inv.servers = arena_array(&e->arena, e->n_servers, sizeof(*e->inv.servers));
	if (!e->inv.servers)
		return err_set(err, ERR_NOMEM, "out of memory for the pool");
	if (e->n_servers)
		qsort(e->servers, e->n_servers, sizeof(*e->servers), by_name);
	for (size_t i = 0; i < e->n_servers; i++) {
		struct gpu_server *s = &e->inv.servers[i];

		if (server_object_inventory(&e->servers[i], &e->arena, s, err) != 0)
			return err->code;
		s->first_gpu = e->inv.n_gpus;
		e->inv.n_gpus += s->n_gpus;
	}
	e->inv.n_servers = e->n_servers;
	if (inventory_find_twins(&e->inv, &e->arena, &twins, err) != 0)
		return err->code;
	for (size_t i = 0; twins && i < e->n_servers; i++)
		server_object_set_twins(&e->servers[i], &e->inv.servers[i]);
	return 0;
}

/* What the namespace holds, with so many bytes more. False: out of memory. */
static bool add_share(struct explain *e, const char *namespace, uint64_t bytes)
{
	/* a status may leave it out */
	struct slice name = namespace ? slice_of(namespace) : SLICE("");
	size_t i = 0;

	while (i < e->n_shares && !slice_eq(e->shares[i].namespace, name))
		i++;
	if (i == e->n_shares) {
		void *list = e->shares;
		/* lists of 64 and their doubles */
		size_t cap = 0;

		while (cap < i)
			cap = 2 * cap + 64;
		if (!more(&e->arena, &list, i, &cap, sizeof(*e->shares)))
			return false;
		e->shares = list;
		e->shares[e->n_shares++] = (struct queue_share){.namespace = name};
	}
	e->shares[i].bytes += bytes;
	return true;
}

static int count_claims(struct explain *e, struct err *err)
{
	uint64_t *claimed = arena_array(&e->arena, e->inv.n_gpus, sizeof(*claimed));
	uint64_t *pending = arena_array(&e->arena, e->inv.n_gpus, sizeof(*pending));
	uint32_t *n_claims = arena_array(&e->arena, e->n_servers, sizeof(*n_claims));
	bool ok = claimed && pending && n_claims;

	for (size_t i = 0; ok && i < e->n_servers; i++) {
		const struct server_status *s = &e->servers[i].status;

		n_claims[i] = (uint32_t)s->n_claims;
		for (size_t g = 0; g < s->n_gpus; g++)
			claimed[e->inv.servers[i].first_gpu + g] = server_status_claimed(s, g);
		for (size_t c = 0; c < s->n_claims; c++)
			for (size_t p = 0; p < s->claims[c].claim.n_parts; p++)
				ok = ok && add_share(e, s->claims[c].claim.namespace,
						   s->claims[c].claim.parts[p].bytes);
	}
	if (!ok)
		return err_set(err, ERR_NOMEM, "out of memory for the pool");
	e->usage = (struct usage){.claimed = claimed, .pending = pending, .n_claims = n_claims};
	return 0;
}

static size_t kept_parts(const struct explain *e)
{
	size_t n = 0;

	for (size_t i = 0; i < e->n_servers; i++)
		for (size_t k = 0; k < e->servers[i].status.n_kept; k++)
			n += e->servers[i].status.kept[k].n_gpus;
	return n;
}

static int by_gpu(const void *a, const void *b)
{
	const struct queue_kept *x = a, *y = b;

	if (x->server != y->server)
		return x->server < y->server ? -1 : 1;
	return (x->gpu > y->gpu) - (x->gpu < y->gpu);
}

/* What the leader keeps for a pod that has waited for long. */
static int read_kept(struct explain *e, struct err *err)
{
	e->kept = arena_array(&e->arena, kept_parts(e), sizeof(*e->kept));
	if (!e->kept)
		return err_set(err, ERR_NOMEM, "out of memory for the pool");
	for (size_t i = 0; i < e->n_servers; i++) {
		const struct server_status *s = &e->servers[i].status;

		for (size_t k = 0; k < s->n_kept; k++)
			for (size_t g = 0; g < s->kept[k].n_gpus; g++) {
				ptrdiff_t at =
					server_status_gpu(s, slice_of(s->kept[k].gpus[g].gpu));

				if (at >= 0)
					e->kept[e->n_kept++] =
						(struct queue_kept){.uid = slice_of(s->kept[k].uid),
							.server = i,
							.gpu = (size_t)at,
							.bytes = s->kept[k].gpus[g].bytes};
			}
	}
	if (e->n_kept > 1)
		qsort(e->kept, e->n_kept, sizeof(*e->kept), by_gpu);
	return 0;
}

static bool has_claim(const struct explain *e, struct slice uid)
{
	for (size_t i = 0; i < e->n_servers; i++)
		if (server_status_claim(&e->servers[i].status, uid) >= 0)
			return true;
	return false;
}

/* ---- pods ---- */

static bool is_finished(const struct json *j, const struct json_node *object)
{
	const struct json_node *phase = json_path(j, object, "status", "phase", NULL);

	return json_is_str(j, phase, SLICE("Succeeded")) || json_is_str(j, phase, SLICE("Failed"));
}

/* What the pod's plan asks. False: it has none that can be read, it waits for its place alone, or there is no memory. */
static bool read_demand(
	struct explain *e, const struct json *j, const struct json_node *object, struct demand *ret)
{
	struct plan plan;
	struct slice text;
	struct pod pod;

	pod_glance(j, object, &pod);
	text = arena_slice(&e->arena, pod_annotation(&pod, ANN_PLAN, &e->arena));
	return text.at && plan_read(text, &e->arena, &plan, NULL) == 0 &&
	       (plan.waits || slice_eq(e->uid, kube_meta(j, object).uid)) &&
	       plan_demand(&plan, false, &e->arena, ret, NULL) == 0;
}

static void forget_pods(void *ctx)
{
	struct explain *e = ctx;

	e->n_waiting = 0;
}

/* Those behind our gate; and of gangs those that have been let go are counted below. */
static bool take_pod(void *ctx, const struct json *j, const struct json_node *object)
{
	struct explain *e = ctx;
	struct explain_pod *w;
	void *list = e->waiting;
	struct queue_pod *p;

	if (is_finished(j, object))
		return true;
	if (!more(&e->arena, &list, e->n_waiting, &e->cap_waiting, sizeof(*e->waiting)))
		return false;
	e->waiting = list;
	w = &e->waiting[e->n_waiting];
	*w = (struct explain_pod){0};
	p = &w->pod;
	if (!queue_read(j, object, &e->classes, &e->arena, p, NULL))
		return false;
	p->uid = arena_slice(&e->arena, p->uid);
	p->namespace = arena_slice(&e->arena, p->namespace);
	p->name = arena_slice(&e->arena, p->name);
	p->gang = p->gang.at ? arena_slice(&e->arena, p->gang) : p->gang;
	p->claimed = has_claim(e, p->uid);
	/* who has been let go is no waiting one: it is left out once gangs are counted */
	p->gang_let_go = !late_is_held(j, object);
	if (!p->gang_let_go && !read_demand(e, j, object, &w->demand))
		return !e->arena.failed;
	e->n_waiting += !p->gang_let_go || (p->gang.at && p->claimed);
	return !e->arena.failed;
}

static bool same_gang(const struct queue_pod *a, const struct queue_pod *b)
{
	return a->gang.at && b->gang.at && slice_eq(a->gang, b->gang) &&
	       slice_eq(a->namespace, b->namespace);
}

/* Those who wait, for the queue. */
static int make_queue(struct explain *e, struct err *err)
{
	size_t n = 0;

	e->pods = arena_array(&e->arena, e->n_waiting, sizeof(*e->pods));
	if (!e->pods)
		return err_set(err, ERR_NOMEM, "out of memory for those who wait");
	e->self = SIZE_MAX;
	for (size_t i = 0; i < e->n_waiting; i++) {
		struct queue_pod *p = &e->pods[n];

		if (e->waiting[i].pod.gang_let_go)
			continue;
		*p = e->waiting[i].pod;
		p->demand = &e->waiting[i].demand;
		for (size_t k = 0; k < e->n_waiting; k++)
			p->gang_let_go +=
				e->waiting[k].pod.gang_let_go && same_gang(p, &e->waiting[k].pod);
		e->self = slice_eq(p->uid, e->uid) ? n : e->self;
		n++;
	}
	e->n_waiting = n;
	/* it has been made since the list, or is gone: then the next look tells */
	if (e->self == SIZE_MAX)
		return err_set(
			err, ERR_NOTFOUND, "the pod has changed while it was looked at: ask again");
	e->world = (struct queue_world){.inventory = &e->inv,
		.usage = &e->usage,
		.shares = e->shares,
		.n_shares = e->n_shares,
		.kept = e->kept,
		.n_kept = e->n_kept,
		.now_ms = e->now_ms,
		.reserve_ms = e->reserve_ms};
	return queue_decide(&e->world, e->pods, n, true, &e->arena, &e->round, err);
}

/* The pod itself, before all others. */
static int read_pod(struct kube *k, struct explain *e, bool *ret_held, struct err *err)
{
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

		e->uid = arena_slice(&e->arena, kube_meta(&a.json, object).uid);
		e->asks = read_demand(e, &a.json, object, &e->demand);
		e->state = is_finished(&a.json, object) ? EXPLAIN_FINISHED
			   : e->asks                    ? EXPLAIN_LOST
							: EXPLAIN_NOT_OURS;
		*ret_held = late_is_held(&a.json, object);
		if (e->arena.failed || !e->uid.at)
			rc = err_set(err, ERR_NOMEM, "out of memory for the pod");
	}
	kube_answer_release(&a);
	buf_release(&path);
	return rc;
}

int explain_read(struct kube *k, struct explain *e, struct err *err)
{
	char version[32];
	struct placement where;
	bool held = false;
	int rc = read_pod(k, e, &held, err);

	if (rc == 0)
		rc = kube_list(
			k, GPU_SERVERS, LIST_MS, forget_servers, take_server, e, version, err);
	if (rc == 0 && (rc = make_inventory(e, err)) == 0)
		rc = count_claims(e, err);
	if (rc == 0)
		rc = read_kept(e, err);
	if (rc != 0)
		return rc;
	if (has_claim(e, e->uid)) {
		e->state = EXPLAIN_HOLDS;
		return 0;
	}
	if (e->state != EXPLAIN_LOST)
		return 0;
	if (!held) {
		rc = placement_find(&e->inv, &e->usage, &e->demand, &e->arena, &where, &e->refusal);
		return rc == ERR_NOMEM ? err_set(err, rc, "%s", e->refusal.msg) : 0;
	}
	e->state = EXPLAIN_WAITS;
	rc = kube_list(k, INJECTED_PODS, LIST_MS, forget_pods, take_pod, e, version, err);
	return rc == 0 ? make_queue(e, err) : rc;
}

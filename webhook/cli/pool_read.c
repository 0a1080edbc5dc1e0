/* SPDX-License-Identifier: Apache-2.0 */
/* cli: reading a cluster's pool, for `poolgate explain` and `poolgate plan`. */
#include "webhook/cli/pool_read.h"

#include <stdlib.h>

#include "base/list.h"
#include "webhook/cluster/claims/job_sizes.h"
#include "webhook/core/pod/late.h"

#define LIST_MS 60000
#define GPU_SERVERS "/apis/poolgate.io/v1alpha1/gpuservers"
#define INJECTED_PODS "/api/v1/pods?labelSelector=poolgate.io%2Finjected%3Dtrue"

/* ---- servers ---- */

static void forget_servers(void *ctx)
{
	struct pool_read *p = ctx;

	p->n_servers = p->n_unreadable = 0;
}

static bool take_server(void *ctx, const struct json *j, const struct json_node *object)
{
	struct pool_read *p = ctx;
	int rc;

	if (!LIST_ROOM_IN(&p->arena, p->servers, p->n_servers, p->cap_servers))
		return false;
	rc = server_object_read(j, object, &p->arena, &p->servers[p->n_servers], NULL);
	p->n_servers += rc == 0;
	p->n_unreadable += rc != 0;
	return rc != ERR_NOMEM;
}

static int by_name(const void *a, const void *b)
{
	const struct server_object *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int make_inventory(struct pool_read *p, struct err *err)
{
	bool twins;

	p->inv.servers = arena_array(&p->arena, p->n_servers, sizeof(*p->inv.servers));
	if (!p->inv.servers)
		return err_set(err, ERR_NOMEM, "out of memory for the pool");
	if (p->n_servers)
		qsort(p->servers, p->n_servers, sizeof(*p->servers), by_name);
	for (size_t i = 0; i < p->n_servers; i++) {
		struct gpu_server *s = &p->inv.servers[i];

		if (server_object_inventory(&p->servers[i], &p->arena, s, err) != 0)
			return err->code;
		s->first_gpu = p->inv.n_gpus;
		p->inv.n_gpus += s->n_gpus;
	}
	p->inv.n_servers = p->n_servers;
	if (inventory_find_twins(&p->inv, &p->arena, &twins, err) != 0)
		return err->code;
	for (size_t i = 0; twins && i < p->n_servers; i++)
		server_object_set_twins(&p->servers[i], &p->inv.servers[i]);
	return 0;
}

bool pool_read_add_share(struct pool_read *p, struct slice namespace, uint64_t bytes)
{
	size_t i = 0;

	while (i < p->n_shares && !slice_eq(p->shares[i].namespace, namespace))
		i++;
	if (i == p->n_shares) {
		if (!LIST_ROOM_IN(&p->arena, p->shares, i, p->cap_shares))
			return false;
		p->shares[p->n_shares++] = (struct queue_share){.namespace = namespace};
	}
	p->shares[i].bytes += bytes;
	return true;
}

static int count_claims(struct pool_read *p, struct err *err)
{
	uint64_t *claimed = arena_array(&p->arena, p->inv.n_gpus, sizeof(*claimed));
	uint64_t *pending = arena_array(&p->arena, p->inv.n_gpus, sizeof(*pending));
	uint32_t *n_claims = arena_array(&p->arena, p->n_servers, sizeof(*n_claims));
	bool ok = claimed && pending && n_claims;

	for (size_t i = 0; ok && i < p->n_servers; i++) {
		const struct server_status *s = &p->servers[i].status;

		n_claims[i] = (uint32_t)s->n_claims;
		for (size_t g = 0; g < s->n_gpus; g++)
			claimed[p->inv.servers[i].first_gpu + g] = server_status_claimed(s, g);
		for (size_t c = 0; c < s->n_claims; c++) {
			const struct claim *claim = &s->claims[c].claim;
			/* a status may leave it out */
			struct slice of = claim->namespace ? slice_of(claim->namespace) : SLICE("");

			for (size_t k = 0; k < claim->n_parts; k++)
				ok = ok && pool_read_add_share(p, of, claim->parts[k].bytes);
		}
	}
	if (!ok)
		return err_set(err, ERR_NOMEM, "out of memory for the pool");
	p->usage = (struct usage){.claimed = claimed, .pending = pending, .n_claims = n_claims};
	return 0;
}

static size_t kept_parts(const struct pool_read *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_servers; i++)
		for (size_t k = 0; k < p->servers[i].status.n_kept; k++)
			n += p->servers[i].status.kept[k].n_gpus;
	return n;
}

/* What the leader keeps for a pod that has waited for long. */
static int read_kept(struct pool_read *p, struct err *err)
{
	p->kept = arena_array(&p->arena, kept_parts(p), sizeof(*p->kept));
	if (!p->kept)
		return err_set(err, ERR_NOMEM, "out of memory for the pool");
	for (size_t i = 0; i < p->n_servers; i++) {
		const struct server_status *s = &p->servers[i].status;

		for (size_t k = 0; k < s->n_kept; k++)
			for (size_t g = 0; g < s->kept[k].n_gpus; g++) {
				ptrdiff_t at =
					server_status_gpu(s, slice_of(s->kept[k].gpus[g].gpu));

				if (at >= 0)
					p->kept[p->n_kept++] =
						(struct queue_kept){.uid = slice_of(s->kept[k].uid),
							.server = i,
							.gpu = (size_t)at,
							.bytes = s->kept[k].gpus[g].bytes};
			}
	}
	queue_kept_order(p->kept, p->n_kept);
	return 0;
}

int pool_read_servers(struct kube *k, struct pool_read *p, struct err *err)
{
	char version[32];
	int rc = kube_list(k, GPU_SERVERS, LIST_MS, forget_servers, take_server, p, version, err);

	if (rc == 0 && (rc = make_inventory(p, err)) == 0)
		rc = count_claims(p, err);
	return rc == 0 ? read_kept(p, err) : rc;
}

/* What the pod of this uid holds on the first server of those on which it does, or NULL. */
static const struct claim_record *claim_of(const struct pool_read *p, struct slice uid)
{
	for (size_t i = 0; i < p->n_servers; i++) {
		const struct server_status *s = &p->servers[i].status;
		ptrdiff_t at = server_status_claim(s, uid);

		if (at >= 0)
			return &s->claims[at];
	}
	return NULL;
}

bool pool_read_claimed(const struct pool_read *p, struct slice uid)
{
	return claim_of(p, uid) != NULL;
}

/* ---- pods ---- */

bool pool_read_demand(struct pool_read *p, const struct json *j, const struct json_node *object,
	struct demand *ret)
{
	struct plan plan;
	struct slice text;
	struct pod pod;

	pod_glance(j, object, &pod);
	text = arena_slice(&p->arena, pod_annotation(&pod, ANN_PLAN, &p->arena));
	return text.at && plan_read(text, &p->arena, &plan, NULL) == 0 &&
	       (plan.waits || slice_eq(p->self, kube_meta(j, object).uid)) &&
	       plan_demand(&plan, false, &p->arena, ret, NULL) == 0;
}

static void forget_pods(void *ctx)
{
	struct pool_read *p = ctx;

	p->n_waiting = 0;
}

static struct slice job_name(const struct json *j, const struct json_node *object, struct arena *a)
{
	struct pod pod;

	pod_glance(j, object, &pod);
	return queue_job_of(&pod, a);
}

/* Who may not read the Job is told so by the queue. */
static void read_job(struct kube *k, struct pool_read *r, size_t at)
{
	struct pool_read_pod *w = &r->waiting[at];
	struct kube_answer job;
	struct err err = {0};

	for (size_t i = 0; i < at; i++)
		if (r->waiting[i].job.at && !r->waiting[i].let_go &&
			slice_eq(r->waiting[i].pod.owner, w->pod.owner)) {
			w->pod.gang_size = r->waiting[i].pod.gang_size;
			return;
		}
	if (job_get(k, w->pod.namespace, w->job, w->pod.owner, &job, &err) == 0)
		w->pod.gang_size = queue_job_size(&job.json, json_root(&job.json));
	kube_answer_release(&job);
}

/* Those behind our gate; and of gangs those that wait no more, who are counted below. */
static bool take_pod(void *ctx, const struct json *j, const struct json_node *object)
{
	struct pool_read *r = ctx;
	struct pool_read_pod *w;
	struct queue_pod *p;

	if (pod_finished(j, object) && !pod_succeeded(j, object))
		return true;
	if (!LIST_ROOM_IN(&r->arena, r->waiting, r->n_waiting, r->cap_waiting))
		return false;
	w = &r->waiting[r->n_waiting];
	*w = (struct pool_read_pod){0};
	p = &w->pod;
	if (!queue_read(j, object, &r->classes, &r->arena, p, NULL))
		return false;
	p->uid = arena_slice(&r->arena, p->uid);
	p->namespace = arena_slice(&r->arena, p->namespace);
	p->name = arena_slice(&r->arena, p->name);
	p->gang = p->gang.at ? arena_slice(&r->arena, p->gang) : p->gang;
	p->owner = p->owner.at ? arena_slice(&r->arena, p->owner) : p->owner;
	p->claimed = pool_read_claimed(r, p->uid);
	if (p->gang.at)
		p->gang_began.key = queue_gang_key(p);
	if (p->gang_job)
		w->job = arena_slice(&r->arena, job_name(j, object, &r->arena));
	w->let_go = !late_is_held(j, object);
	w->ended = pod_finished(j, object);
	/* who is being deleted leaves his place in the gang with his claim */
	w->leaving = json_path(j, object, "metadata", "deletionTimestamp", NULL) != NULL;
	if (w->let_go ? p->gang.at && (!w->leaving || (p->claimed && !w->ended)) : !w->ended)
		r->n_waiting += pool_read_demand(r, j, object, &w->demand);
	return !r->arena.failed;
}

/* Those who wait go to r->pods, the others into members. */
static void part_waiting(struct pool_read *r, struct queue_member *members, size_t *ret_n)
{
	for (size_t i = 0; i < r->n_waiting; i++) {
		struct pool_read_pod *w = &r->waiting[i];
		const struct claim_record *claim = w->let_go ? claim_of(r, w->pod.uid) : NULL;

		w->pod.demand = &w->demand;
		if (w->let_go)
			members[(*ret_n)++] = (struct queue_member){.pod = &w->pod,
				.ended = w->ended,
				.leaving = w->leaving,
				.began = claim ? claim->began : (struct gang_began){0}};
		else
			r->pods[r->n_pods++] = w->pod;
	}
}

static bool is_shown(const struct pool_read *r, struct slice uid)
{
	for (size_t i = 0; i < r->n_waiting; i++)
		if (slice_eq(r->waiting[i].pod.uid, uid))
			return !r->waiting[i].ended;
	return false;
}

static uint64_t bytes_of(const struct pool_read *r, struct slice uid)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < r->n_servers; i++) {
		const struct server_status *s = &r->servers[i].status;
		ptrdiff_t at = server_status_claim(s, uid);

		for (size_t k = 0; at >= 0 && k < s->claims[at].claim.n_parts; k++)
			bytes += s->claims[at].claim.parts[k].bytes;
	}
	return bytes;
}

/* Claims of gangs whose pods have ended or are gone; members NULL: how many claims there are. */
static size_t find_gone(const struct pool_read *r, struct queue_member *members)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_servers; i++)
		for (size_t c = 0; c < r->servers[i].status.n_claims; c++) {
			const struct claim_record *of = &r->servers[i].status.claims[c];
			struct slice uid = slice_of(of->claim.key);

			if (!of->began.key)
				continue;
			if (members && (claim_of(r, uid) != of || is_shown(r, uid)))
				continue;
			if (members)
				members[n] = (struct queue_member){.began = of->began,
					.namespace = slice_of(of->claim.namespace),
					.bytes = bytes_of(r, uid)};
			n++;
		}
	return n;
}

int pool_read_waiting(struct kube *k, struct pool_read *r, struct err *err)
{
	struct queue_member *members;
	size_t n = 0;
	char version[32];
	int rc = kube_list(k, INJECTED_PODS, LIST_MS, forget_pods, take_pod, r, version, err);

	if (rc != 0)
		return rc;
	for (size_t i = 0; i < r->n_waiting; i++)
		if (r->waiting[i].job.at && !r->waiting[i].let_go)
			read_job(k, r, i);
	r->pods = arena_array(&r->arena, r->n_waiting, sizeof(*r->pods));
	members = arena_array(&r->arena, r->n_waiting + find_gone(r, NULL), sizeof(*members));
	if (!r->pods || !members)
		return err_set(err, ERR_NOMEM, "out of memory for those who wait");
	part_waiting(r, members, &n);
	n += find_gone(r, members + n);
	queue_count_gangs(&r->inv, r->pods, r->n_pods, members, n);
	return 0;
}

struct queue_world pool_read_world(const struct pool_read *r)
{
	return (struct queue_world){.inventory = &r->inv,
		.usage = &r->usage,
		.shares = r->shares,
		.n_shares = r->n_shares,
		.kept = r->kept,
		.n_kept = r->n_kept,
		.now_ms = r->now_ms,
		.reserve_ms = r->reserve_ms};
}

void pool_read_say_unreadable(const struct pool_read *p, struct buf *out)
{
	if (p->n_unreadable)
		buf_fmt(out,
			"%zu GPUServers cannot be read and are left out: poolgate doctor "
			"names them\n",
			p->n_unreadable);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* edge: building and counting the in-memory ledger's picture of the pool. */
#include "webhook/edge/pool/ledger_snapshot.h"

#include <stdlib.h>

/* 8000 GPUs with labels and arrays take about 3 MiB. */
#define SNAPSHOT_MAX (256u << 20)

/* Rule R10: behind the GPUs of `to` those that the old picture has of the server, and claims are
 * on. Strings of the old picture end with it. */
static void keep_missing(struct snapshot *s, struct gpu_server *to, const struct snapshot *old,
	const struct gpu_server *from)
{
	size_t n = to->n_gpus;
	struct gpu *gpus = arena_array(&s->arena, n + from->n_gpus, sizeof(*gpus));

	if (gpus && n)
		memcpy(gpus, to->gpus, n * sizeof(*gpus));
	for (size_t i = 0; gpus && i < from->n_gpus; i++) {
		const struct gpu_server one = {.gpus = &from->gpus[i], .n_gpus = 1};
		struct gpu_server copy;

		if (!old->gpu_claims[from->first_gpu + i] ||
			inventory_gpu(to, slice_of(one.gpus->id)))
			continue;
		inventory_copy_server(&copy, &one, &s->arena);
		if (s->arena.failed)
			return;
		gpus[n] = copy.gpus[0];
		gpus[n].why = "";
		gpus[n++].missing = true;
	}
	if (n == to->n_gpus)
		return;
	to->gpus = gpus;
	to->n_gpus = n;
	s->any_missing = true;
}

/* s->inv out of s->declared and what must be kept of old: both are sorted by name. */
static void merge(struct snapshot *s, const struct snapshot *old)
{
	size_t n = 0, n_gpus = 0, n_new = s->declared.n_servers, n_old = old->inv.n_servers;
	struct gpu_server *servers = arena_array(&s->arena, n_new + n_old, sizeof(*servers));

	for (size_t i = 0, j = 0; servers && (i < n_new || j < n_old);) {
		const struct gpu_server *d = i < n_new ? &s->declared.servers[i] : NULL;
		const struct gpu_server *o = j < n_old ? &old->inv.servers[j] : NULL;
		int c = !d ? 1 : !o ? -1 : strcmp(d->name, o->name);
		struct gpu_server *to = &servers[n], gone;

		if (c <= 0) {
			*to = *d;
		} else {
			gone = *o;
			gone.n_gpus = 0;
			inventory_copy_server(to, &gone, &s->arena);
			to->created_ms = -1;
		}
		if (c >= 0)
			keep_missing(s, to, old, o);
		i += c <= 0;
		j += c >= 0;
		if (c > 0 && to->n_gpus == 0)
			continue;
		to->first_gpu = n_gpus;
		n_gpus += to->n_gpus;
		n++;
	}
	s->inv = (struct inventory){.servers = servers, .n_servers = n, .n_gpus = n_gpus};
}

/* Rule R15: a server that is gone, with claims on it, under a new name. */
static void judge(struct snapshot *s)
{
	bool any = false;

	if (inventory_find_twins(&s->inv, &s->arena, &any, NULL) != 0)
		s->arena.failed = true;
	for (size_t i = 0; any && i < s->inv.n_servers; i++) {
		struct gpu_server *server = &s->inv.servers[i];

		if (!server->twin)
			continue;
		/* What was declared is judged anew when the claims have ended. */
		server->gpus =
			arena_copy(&s->arena, server->gpus, server->n_gpus, sizeof(*server->gpus));
		for (size_t g = 0; server->gpus && g < server->n_gpus; g++) {
			server->gpus[g].fit = false;
			server->gpus[g].why = server->gpus[g].twin;
		}
	}
}

struct snapshot *snapshot_new(const struct inventory *declared, const struct snapshot *old)
{
	struct snapshot *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	arena_init(&s->arena, SNAPSHOT_MAX);
	if (inventory_copy(declared, &s->arena, &s->declared, NULL) != 0) {
		snapshot_free(s);
		return NULL;
	}
	s->inv = s->declared;
	if (old)
		merge(s, old);
	if (s->any_missing)
		judge(s);
	s->claimed = arena_array(&s->arena, s->inv.n_gpus, sizeof(*s->claimed));
	s->pending = arena_array(&s->arena, s->inv.n_gpus, sizeof(*s->pending));
	s->gpu_claims = arena_array(&s->arena, s->inv.n_gpus, sizeof(*s->gpu_claims));
	s->server_claims = arena_array(&s->arena, s->inv.n_servers, sizeof(*s->server_claims));
	if (s->arena.failed) {
		snapshot_free(s);
		return NULL;
	}
	return s;
}

void snapshot_free(struct snapshot *s)
{
	if (!s)
		return;
	arena_release(&s->arena);
	free(s);
}

bool snapshot_locate(const struct snapshot *s, const struct claim *c, struct place *places)
{
	for (size_t i = 0; i < c->n_parts; i++) {
		const struct gpu_server *server =
			inventory_server(&s->inv, slice_of(c->parts[i].server));
		const struct gpu *g =
			server ? inventory_gpu(server, slice_of(c->parts[i].gpu)) : NULL;

		if (!g)
			return false;
		places[i].server = (size_t)(server - s->inv.servers);
		places[i].gpu = server->first_gpu + (size_t)(g - server->gpus);
	}
	return true;
}

void snapshot_count(struct snapshot *s, const struct claim *c, const struct place *places, bool add)
{
	for (size_t i = 0; i < c->n_parts; i++) {
		uint64_t bytes = c->parts[i].bytes;
		size_t gpu = places[i].gpu;
		bool first = i == 0 || places[i].server != places[i - 1].server;

		if (add) {
			s->claimed[gpu] += bytes;
			s->pending[gpu] += c->state == CLAIM_PENDING ? bytes : 0;
			s->gpu_claims[gpu]++;
			s->server_claims[places[i].server] += first;
		} else {
			s->claimed[gpu] -= bytes;
			s->pending[gpu] -= c->state == CLAIM_PENDING ? bytes : 0;
			s->gpu_claims[gpu]--;
			s->server_claims[places[i].server] -= first;
		}
	}
}

bool snapshot_stale(const struct snapshot *s)
{
	if (!s->any_missing)
		return false;
	for (size_t i = 0; i < s->inv.n_servers; i++) {
		const struct gpu_server *server = &s->inv.servers[i];

		for (size_t j = 0; j < server->n_gpus; j++)
			if (server->gpus[j].missing && !s->gpu_claims[server->first_gpu + j])
				return true;
	}
	return false;
}

struct usage snapshot_usage(const struct snapshot *s)
{
	return (struct usage){
		.claimed = s->claimed, .pending = s->pending, .n_claims = s->server_claims};
}

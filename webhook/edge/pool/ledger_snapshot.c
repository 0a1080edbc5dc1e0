/* SPDX-License-Identifier: Apache-2.0 */
/* edge: building and counting the in-memory ledger's picture of the pool. */
#include "webhook/edge/pool/ledger_snapshot.h"

#include <stdlib.h>

/* 8000 GPUs with labels and arrays take about 3 MiB. */
#define SNAPSHOT_MAX (256u << 20)

/* Must this GPU of the old picture be kept, although the new server (NULL: gone) may not have it?
 */
static bool kept(const struct snapshot *old, const struct gpu_server *from, size_t gpu,
	const struct gpu_server *to)
{
	return old->gpu_claims[from->first_gpu + gpu] > 0 &&
	       !(to && inventory_gpu(to, slice_of(from->gpus[gpu].id)));
}

static size_t count_kept(
	const struct snapshot *old, const struct gpu_server *from, const struct gpu_server *to)
{
	size_t n = 0;

	for (size_t i = 0; i < from->n_gpus; i++)
		n += kept(old, from, i, to);
	return n;
}

/* to gets the GPUs of declared (NULL: the server is gone) and behind them those of old that must be
 * kept. */
static void merge_server(struct gpu_server *to, const struct gpu_server *declared,
	const struct gpu_server *from, const struct snapshot *old, struct arena *a)
{
	size_t more = from ? count_kept(old, from, declared) : 0;
	struct inventory one = {.servers = NULL, .n_servers = 1};
	struct inventory copy;
	size_t n = declared ? declared->n_gpus : 0;
	struct gpu *gpus;

	if (!declared) {
		struct gpu_server shell = *from;

		/* Strings of the old picture end with it. */
		one.servers = &shell;
		if (inventory_copy(&one, a, &copy, NULL) != 0)
			return;
		*to = copy.servers[0];
		to->created_ms = -1;
	} else {
		*to = *declared;
	}
	if (more == 0)
		return;
	gpus = arena_array(a, n + more, sizeof(*gpus));
	if (!gpus)
		return;
	for (size_t i = 0; i < n; i++)
		gpus[i] = declared->gpus[i];
	for (size_t i = 0; i < from->n_gpus; i++) {
		struct gpu *g;

		if (!kept(old, from, i, declared))
			continue;
		g = &gpus[n++];
		*g = from->gpus[i];
		g->id = arena_strdup(a, slice_of(from->gpus[i].id));
		g->model = arena_strdup(a, slice_of(from->gpus[i].model));
		g->why = "";
		g->missing = true;
	}
	to->gpus = gpus;
	to->n_gpus = n;
}

/* s->inv out of s->declared and what must be kept of old: both are sorted by name. */
static void merge(struct snapshot *s, const struct snapshot *old)
{
	size_t i = 0, j = 0, n = 0, n_gpus = 0;
	struct gpu_server *servers = arena_array(
		&s->arena, s->declared.n_servers + old->inv.n_servers, sizeof(*servers));

	while (servers && (i < s->declared.n_servers || j < old->inv.n_servers)) {
		const struct gpu_server *d =
			i < s->declared.n_servers ? &s->declared.servers[i] : NULL;
		const struct gpu_server *o = j < old->inv.n_servers ? &old->inv.servers[j] : NULL;
		int c = !d ? 1 : !o ? -1 : strcmp(d->name, o->name);

		if (c > 0)
			d = NULL;
		if (c < 0)
			o = NULL;
		i += d != NULL;
		j += o != NULL;
		if (!d && (!o || count_kept(old, o, NULL) == 0))
			continue;
		merge_server(&servers[n], d, o, old, &s->arena);
		servers[n].first_gpu = n_gpus;
		n_gpus += servers[n].n_gpus;
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

static bool needs_merge(const struct snapshot *s, const struct snapshot *old)
{
	for (size_t i = 0; old && i < old->inv.n_servers; i++) {
		const struct gpu_server *from = &old->inv.servers[i];

		if (count_kept(old, from, inventory_server(&s->declared, slice_of(from->name))))
			return true;
	}
	return false;
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
	s->any_missing = needs_merge(s, old);
	if (s->any_missing) {
		merge(s, old);
		judge(s);
	} else
		s->inv = s->declared;
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

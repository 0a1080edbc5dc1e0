/* SPDX-License-Identifier: Apache-2.0 */
/* core: the pool of a ledger that keeps its claims itself: a picture that is made anew with each
 * inventory, and counted with each claim. */
#include "webhook/core/pool/pool_state.h"

#include <stdlib.h>

/* 8000 GPUs with labels and arrays take about 3 MiB. */
#define SNAPSHOT_MAX (256u << 20)

struct snapshot {
	struct arena arena;
	struct inventory declared; /* as it was given */
	struct inventory inv; /* declared, and what is missing (rule R10); shares its strings */
	/* Indexed as in struct usage. */
	uint64_t *claimed, *pending;
	uint32_t *server_claims;
	uint32_t *gpu_claims; /* per GPU: parts of claims on it */
	bool any_missing;
};

/* ---- the picture ---- */

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
		struct gpu_server *to = &servers[n], gone;
		int c = i < n_new ? -1 : 1;

		if (i < n_new && j < n_old)
			c = strcmp(s->declared.servers[i].name, old->inv.servers[j].name);
		if (c <= 0) {
			*to = s->declared.servers[i++];
		} else {
			gone = old->inv.servers[j];
			gone.n_gpus = 0;
			inventory_copy_server(to, &gone, &s->arena);
			to->created_ms = -1;
		}
		if (c >= 0)
			keep_missing(s, to, old, &old->inv.servers[j++]);
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

static void snapshot_free(struct snapshot *s)
{
	if (!s)
		return;
	arena_release(&s->arena);
	free(s);
}

/* A picture over a copy of `declared`, which may be old's own, with nothing counted yet. GPUs of
 * old (may be NULL) with claims on them that declared does not have stay as missing. NULL: out of
 * memory. */
static struct snapshot *snapshot_new(const struct inventory *declared, const struct snapshot *old)
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

/* ---- claims in it ---- */

/* Note where its parts are. False when one is nowhere: an error of our own. */
static bool locate(const struct snapshot *s, struct claim_entry *e)
{
	const struct claim *c = &e->claim;

	for (size_t i = 0; i < c->n_parts; i++) {
		const struct gpu_server *server =
			inventory_server(&s->inv, slice_of(c->parts[i].server));
		const struct gpu *g =
			server ? inventory_gpu(server, slice_of(c->parts[i].gpu)) : NULL;

		if (!g)
			return false;
		e->places[i].server = (size_t)(server - s->inv.servers);
		e->places[i].gpu = server->first_gpu + (size_t)(g - server->gpus);
	}
	return true;
}

/* Add its bytes, or take them away again. */
static void count(struct snapshot *s, const struct claim_entry *e, bool add)
{
	const uint32_t one = add ? 1 : -1u; /* sums wrap: minus one */

	for (size_t i = 0; i < e->claim.n_parts; i++) {
		const struct claim_place *at = &e->places[i];
		uint64_t bytes = add ? e->claim.parts[i].bytes : -e->claim.parts[i].bytes;

		s->claimed[at->gpu] += bytes;
		s->pending[at->gpu] += e->claim.state == CLAIM_PENDING ? bytes : 0;
		s->gpu_claims[at->gpu] += one;
		s->server_claims[at->server] += i == 0 || at->server != at[-1].server ? one : 0;
	}
}

/* Is there a missing GPU that nobody claims any more? */
static bool is_stale(const struct snapshot *s)
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

/* ---- for everybody ---- */

void pool_state_release(struct pool_state *p)
{
	claim_table_release(&p->claims);
	snapshot_free(p->now);
}

bool pool_state_set(struct pool_state *p, const struct inventory *inv)
{
	struct snapshot *fresh = snapshot_new(inv, p->now);

	if (!fresh)
		return false;
	for (struct claim_entry *e = p->claims.oldest; e; e = e->newer)
		/* Cannot fail: what is claimed is kept as missing. */
		if (locate(fresh, e))
			count(fresh, e, true);
	snapshot_free(p->now);
	p->now = fresh;
	return true;
}

void pool_state_prune(struct pool_state *p)
{
	if (is_stale(p->now))
		(void)pool_state_set(p, &p->now->declared);
}

const struct inventory *pool_state_inventory(const struct pool_state *p)
{
	return &p->now->inv;
}

struct usage pool_state_usage(const struct pool_state *p)
{
	return (struct usage){.claimed = p->now->claimed,
		.pending = p->now->pending,
		.n_claims = p->now->server_claims};
}

int pool_state_add(struct pool_state *p, const struct claim *c, enum key_kind kind, uint64_t ticket,
	int64_t taken_ms, struct err *err)
{
	struct claim_entry *e = claim_entry_new(c, kind);
	int rc = 0;

	if (!e)
		return err_set(err, ERR_NOMEM, "out of memory in the ledger");
	e->ticket = ticket;
	e->taken_ms = taken_ms;
	if (!locate(p->now, e))
		rc = err_set(err, ERR_INTERNAL, "the ledger chose a GPU that it does not know");
	else if (!claim_table_insert(&p->claims, e))
		rc = err_set(err, ERR_NOMEM, "out of memory in the ledger");
	if (rc == 0)
		count(p->now, e, true);
	else
		free(e);
	return rc;
}

void pool_state_start(struct pool_state *p, struct claim_entry *e)
{
	count(p->now, e, false);
	e->claim.state = CLAIM_BOUND;
	count(p->now, e, true);
}

void pool_state_end(struct pool_state *p, struct claim_entry *e)
{
	count(p->now, e, false);
	claim_table_remove(&p->claims, e);
}

void pool_state_view(
	const struct pool_state *p, bool with_claims, struct arena *a, struct pool_view *ret)
{
	const struct snapshot *s = p->now;

	*ret = (struct pool_view){
		.usage.claimed = arena_copy(a, s->claimed, s->inv.n_gpus, sizeof(*s->claimed)),
		.usage.pending = arena_copy(a, s->pending, s->inv.n_gpus, sizeof(*s->pending)),
		.usage.n_claims = arena_copy(
			a, s->server_claims, s->inv.n_servers, sizeof(*s->server_claims)),
		.claims = with_claims ? claim_table_list(&p->claims, a) : NULL,
		.n_claims = with_claims ? p->claims.n : 0};
	(void)inventory_copy(&s->inv, a, &ret->inventory, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* core: a table of the kinds of servers, each with how many are of it. */
#include "webhook/core/pool/server_kinds.h"

#include <stdlib.h>

#include "base/text.h"

struct server_kind {
	uint64_t digest;
	size_t users;
	struct arena arena; /* of its server */
};

static uint64_t mix(uint64_t h, const char *s)
{
	return h * UINT64_C(0x100000001b3) ^ text_hash64(slice_of(s));
}

/* Of many kinds few are compared. */
static uint64_t digest_of(const struct gpu_server *s)
{
	uint64_t h =
		inventory_family(s->address) | (s->guarded ? 8u : 0) | (uint64_t)s->gate_by << 4;

	for (size_t i = 0; i < s->n_gpus; i++)
		h = mix(h, s->gpus[i].model);
	for (size_t i = 0; i < s->n_launchers; i++)
		h = mix(h, s->launchers[i]);
	return h;
}

bool server_kinds_alike(const struct gpu_server *a, const struct gpu_server *b)
{
	if (a->n_gpus != b->n_gpus || a->n_launchers != b->n_launchers ||
		a->guarded != b->guarded || a->gate_by != b->gate_by ||
		inventory_family(a->address) != inventory_family(b->address))
		return false;
	for (size_t i = 0; i < a->n_gpus; i++)
		if (strcmp(a->gpus[i].model, b->gpus[i].model) != 0)
			return false;
	for (size_t i = 0; i < a->n_launchers; i++)
		if (strcmp(a->launchers[i], b->launchers[i]) != 0)
			return false;
	return true;
}

/* A place in the table that nobody uses, or 0. What no server needs of it costs no page. */
static uint32_t find_place(struct server_kinds *k)
{
	if (!k->servers) {
		k->servers = calloc(1 + SERVER_KINDS_MAX, sizeof(*k->servers));
		k->kinds = calloc(1 + SERVER_KINDS_MAX, sizeof(*k->kinds));
		k->n = 1;
	}
	if (!k->servers || !k->kinds) {
		server_kinds_release(k);
		return 0;
	}
	for (uint32_t i = 1; i < k->n; i++)
		if (k->kinds[i].users == 0)
			return i;
	return k->n > SERVER_KINDS_MAX ? 0 : (uint32_t)k->n++;
}

void server_kinds_drop(struct server_kinds *k, uint32_t kind)
{
	if (kind == 0 || --k->kinds[kind].users > 0)
		return;
	arena_release(&k->kinds[kind].arena);
	k->servers[kind] = (struct gpu_server){.address = ""};
}

/* What filters see of it. */
static bool copy_seen(struct gpu_server *to, const struct gpu_server *from, struct arena *a)
{
	*to = (struct gpu_server){.name = "",
		.address = arena_strdup(a, slice_of(from->address)),
		.guarded = from->guarded,
		.gate_by = from->gate_by,
		.launchers = arena_array(a, from->n_launchers, sizeof(*to->launchers)),
		.gpus = arena_array(a, from->n_gpus, sizeof(*to->gpus))};
	if (a->failed)
		return false;
	for (; to->n_launchers < from->n_launchers; to->n_launchers++)
		to->launchers[to->n_launchers] =
			arena_strdup(a, slice_of(from->launchers[to->n_launchers]));
	for (; to->n_gpus < from->n_gpus; to->n_gpus++)
		to->gpus[to->n_gpus] = (struct gpu){
			.model = arena_strdup(a, slice_of(from->gpus[to->n_gpus].model))};
	return !a->failed;
}

uint32_t server_kinds_take(struct server_kinds *k, uint32_t had, const struct gpu_server *s)
{
	uint64_t digest;
	uint32_t at;

	if (had && server_kinds_alike(&k->servers[had], s))
		return had;
	server_kinds_drop(k, had);
	digest = digest_of(s);
	for (at = 1; at < k->n; at++)
		if (k->kinds[at].users && k->kinds[at].digest == digest &&
			server_kinds_alike(&k->servers[at], s)) {
			k->kinds[at].users++;
			return at;
		}
	at = find_place(k);
	if (at == 0)
		return 0;
	arena_init_small(&k->kinds[at].arena, 1 << 20, 1024);
	if (!copy_seen(&k->servers[at], s, &k->kinds[at].arena)) {
		arena_release(&k->kinds[at].arena);
		k->servers[at] = (struct gpu_server){.address = ""};
		return 0;
	}
	k->kinds[at].digest = digest;
	k->kinds[at].users = 1;
	return at;
}

void server_kinds_release(struct server_kinds *k)
{
	for (size_t i = 1; i < k->n; i++)
		if (k->kinds[i].users)
			arena_release(&k->kinds[i].arena);
	free(k->servers);
	free(k->kinds);
	*k = (struct server_kinds){0};
}

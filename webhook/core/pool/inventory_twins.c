/* SPDX-License-Identifier: Apache-2.0 */
/* core: which servers of an inventory are one machine (rule R15). */
#include <stdlib.h>

#include "base/text.h"
#include "webhook/core/pool/inventory.h"

/* 10,000 servers with 8 GPUs take 5 MiB. */
#define SCRATCH_MAX ((size_t)256 << 20)
#define GROUPS 8

/* What a server has that no other can have. */
struct mark {
	bool gpu; /* else the address */
	struct slice key;
	uint64_t hash; /* of the key: what is compared first */
	int64_t created_ms;
	uint32_t server, at; /* the server's place by name, and its GPU */
};

/* ---- addresses ---- */

static bool read_group(struct slice s, uint16_t *ret)
{
	unsigned n = 0;

	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
			    : c >= 'A' && c <= 'F' ? c - 'A' + 10
						   : -1;

		if (digit < 0 || s.len > 4)
			return false;
		n = n * 16 + (unsigned)digit;
	}
	*ret = (uint16_t)n;
	return s.len > 0;
}

/* 10.0.0.1 as two groups. */
static bool read_ipv4(struct slice s, uint16_t ret[2])
{
	uint64_t byte[4];

	for (int i = 0; i < 4; i++) {
		const char *dot = s.len ? memchr(s.at, '.', s.len) : NULL;
		size_t n = dot ? (size_t)(dot - s.at) : s.len;

		if ((dot != NULL) != (i < 3) || !text_u64((struct slice){s.at, n}, 255, &byte[i]))
			return false;
		s = (struct slice){s.at + n + (dot != NULL), s.len - n - (dot != NULL)};
	}
	ret[0] = (uint16_t)(byte[0] << 8 | byte[1]);
	ret[1] = (uint16_t)(byte[2] << 8 | byte[3]);
	return true;
}

/* What stands between colons, from the left. False: it is no list of groups, or has more than
 * GROUPS. */
static bool read_groups(struct slice s, uint16_t ret[static GROUPS], size_t *ret_n)
{
	*ret_n = 0;
	while (s.len) {
		const char *colon = memchr(s.at, ':', s.len);
		size_t n = colon ? (size_t)(colon - s.at) : s.len;
		struct slice group = {s.at, n};
		bool ipv4 = !colon && memchr(s.at, '.', n);

		if (*ret_n + 1 + ipv4 > GROUPS ||
			!(ipv4 ? read_ipv4(group, ret + *ret_n)
			       : read_group(group, ret + *ret_n)) ||
			(colon && s.len == n + 1))
			return false;
		*ret_n += 1 + (size_t)ipv4;
		s = (struct slice){s.at + n + (colon != NULL), s.len - n - (colon != NULL)};
	}
	return true;
}

/* An IPv6 address in one of its many spellings; a zero byte stands somewhere behind it. */
static bool read_ipv6(struct slice s, uint16_t ret[static GROUPS])
{
	uint16_t tail[GROUPS];
	const char *at = strstr(s.at, "::"), *gap = at && at < s.at + s.len ? at : NULL;
	struct slice head = gap ? (struct slice){s.at, (size_t)(gap - s.at)} : s;
	struct slice behind = gap ? (struct slice){gap + 2, s.len - head.len - 2} : SLICE("");
	size_t n, n_tail;

	memset(ret, 0, GROUPS * sizeof(*ret));
	if (!read_groups(head, ret, &n) || !read_groups(behind, tail, &n_tail) ||
		(gap ? n + n_tail >= GROUPS : n != GROUPS))
		return false;
	memcpy(ret + GROUPS - n_tail, tail, n_tail * sizeof(*tail));
	return true;
}

/* Host and port in one spelling: letters small, a name without its last dot, IPv6 in full, an IPv4
 * address as such wherever it stands. */
static struct slice one_spelling(const char *address, struct arena *a)
{
	const char *colon = strrchr(address, ':');
	struct slice host = {address, colon ? (size_t)(colon - address) : strlen(address)};
	uint16_t g[GROUPS];
	uint64_t port = 0;
	char *text;

	if (colon)
		(void)text_u64(slice_of(colon + 1), 65535, &port);
	if (host.len > 2 && host.at[0] == '[' && host.at[host.len - 1] == ']')
		host = (struct slice){host.at + 1, host.len - 2};
	if (host.len > 1 && host.at[host.len - 1] == '.')
		host.len--;
	if (!read_ipv6(host, g))
		text = arena_fmt(a, "%.*s %u", (int)host.len, host.at, (unsigned)port);
	else if (!g[0] && !g[1] && !g[2] && !g[3] && !g[4] && g[5] == 0xffff)
		text = arena_fmt(a, "%u.%u.%u.%u %u", g[6] >> 8, g[6] & 255u, g[7] >> 8,
			g[7] & 255u, (unsigned)port);
	else
		text = arena_fmt(a, "%x:%x:%x:%x:%x:%x:%x:%x %u", g[0], g[1], g[2], g[3], g[4],
			g[5], g[6], g[7], (unsigned)port);
	for (char *c = text; c && *c; c++)
		*c = text_to_lower(*c);
	return text ? slice_of(text) : SLICE("");
}

/* ---- GPUs ---- */

/* The UUID of the GPU itself; empty when its id is a number. Drivers before 470 call an instance
 * MIG-GPU-UUID/1/0. */
static struct slice gpu_uuid(const struct gpu *g)
{
	struct slice id = slice_of(g->parent && *g->parent ? g->parent : g->id);

	if (slice_starts(id, SLICE("gpu-")))
		return SLICE("");
	if (slice_starts(id, SLICE("MIG-GPU-"))) {
		id = (struct slice){id.at + 4, id.len - 4};
		id.len = strcspn(id.at, "/");
	}
	return id;
}

bool inventory_each_mark(
	const struct gpu_server *s, void (*fn)(void *ctx, struct slice key), void *ctx)
{
	struct slice last = SLICE("");
	struct arena a;
	bool done;

	arena_init_small(&a, SCRATCH_MAX, strlen(s->address) + 64);
	fn(ctx, one_spelling(s->address, &a));
	done = !a.failed;
	arena_release(&a);
	for (size_t i = 0; i < s->n_gpus; i++) {
		struct slice uuid = gpu_uuid(&s->gpus[i]);

		if (uuid.len && !slice_eq(uuid, last))
			fn(ctx, uuid);
		last = uuid;
	}
	return done;
}

/* ---- who has what ---- */

static int by_key(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;
	int c;

	if (x->gpu != y->gpu)
		return x->gpu - y->gpu;
	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	c = strcmp(x->key.at, y->key.at);
	if (c != 0 || x->created_ms == y->created_ms)
		return c ? c : (x->server > y->server) - (x->server < y->server);
	return x->created_ms < y->created_ms ? -1 : 1;
}

static bool same_key(const struct mark *x, const struct mark *y)
{
	return x->gpu == y->gpu && x->hash == y->hash && slice_eq(x->key, y->key);
}

/* Addresses come first, so that a GPU keeps the sentence of its server's. */
static void set_twin(
	struct inventory *inv, const struct mark *first, const struct mark *m, struct arena *a)
{
	struct gpu_server *s = &inv->servers[inventory_nth(inv, m->server)];
	const char *older = inv->servers[inventory_nth(inv, first->server)].name;

	if (m->gpu && s->gpus[m->at].twin)
		return;
	if (!m->gpu) {
		s->twin = arena_fmt(a, "GPUServer %s, which came first, has its address", older);
		for (size_t i = 0; i < s->n_gpus; i++)
			s->gpus[i].twin = s->twin;
		return;
	}
	s->gpus[m->at].twin = arena_fmt(a, "GPUServer %s, which came first, has this GPU", older);
	if (!s->twin)
		s->twin = arena_fmt(a, "GPUServer %s, which came first, has its GPU %s", older,
			s->gpus[m->at].id);
}

static size_t list_marks(const struct inventory *inv, struct arena *scratch, struct mark *list)
{
	size_t n = 0;

	for (size_t i = 0; i < inv->n_servers; i++) {
		const struct gpu_server *s = &inv->servers[inventory_nth(inv, i)];
		struct mark m = {.server = (uint32_t)i, .created_ms = s->created_ms};

		m.key = one_spelling(s->address, scratch);
		list[n++] = m;
		m.gpu = true;
		for (size_t g = 0; g < s->n_gpus; g++) {
			struct slice uuid = gpu_uuid(&s->gpus[g]);

			m.key = uuid.len ? arena_slice(scratch, uuid) : uuid;
			m.at = (uint32_t)g;
			if (uuid.len)
				list[n++] = m;
		}
	}
	for (size_t i = 0; i < n; i++)
		list[i].hash = text_hash64(list[i].key);
	return n;
}

int inventory_find_twins(struct inventory *inv, struct arena *a, bool *ret_any, struct err *err)
{
	struct arena scratch;
	struct mark *list;
	size_t n = 0, first = 0;

	*ret_any = false;
	for (size_t i = 0; i < inv->n_servers; i++) {
		struct gpu_server *s = &inv->servers[inventory_nth(inv, i)];

		s->twin = NULL;
		for (size_t g = 0; g < s->n_gpus; g++)
			s->gpus[g].twin = NULL;
	}
	arena_init(&scratch, SCRATCH_MAX);
	list = arena_array(&scratch, inv->n_servers + inv->n_gpus, sizeof(*list));
	if (list)
		n = list_marks(inv, &scratch, list);
	if (n > 1 && !scratch.failed)
		qsort(list, n, sizeof(*list), by_key);
	for (size_t i = 1; i < n && !scratch.failed; i++) {
		if (!same_key(&list[i], &list[first])) {
			first = i;
		} else if (list[i].server != list[first].server) {
			set_twin(inv, &list[first], &list[i], a);
			*ret_any = true;
		}
	}
	if (!list || scratch.failed || a->failed) {
		arena_release(&scratch);
		return err_set(err, ERR_NOMEM, "out of memory while servers were compared");
	}
	arena_release(&scratch);
	return 0;
}

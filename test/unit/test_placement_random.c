/* SPDX-License-Identifier: Apache-2.0 */
/* test: core/pool/placement in made-up pools: against a search that tries everything, and however
 * it comes to know what is free; and what it found is what it was before (kept.h). */
#include "base/buf.h"
#include "test/unit/kept.h"
#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pool/server_kinds.h"
#include "webhook/core/pool/server_words.h"

#define MAX_GPUS 9

struct exact {
	const struct demand *d;
	const struct pool *pool;
	uint64_t bytes[MAX_GPUS], free[MAX_GPUS], held[MAX_GPUS];
	uint64_t by[8][MAX_GPUS]; /* per container */
	size_t n;
};

static bool exact_inits(const struct exact *x)
{
	uint64_t early[MAX_GPUS] = {0};

	for (size_t c = 0; c < x->d->n_containers; c++) {
		const struct demand_container *dc = &x->d->containers[c];
		size_t room = 0;

		for (size_t g = 0; g < x->n; g++) {
			uint64_t need = demand_bytes(dc, &(struct gpu){.bytes = x->bytes[g]});

			if (dc->kind == CONTAINER_RESTARTABLE)
				early[g] += x->by[c][g];
			room += x->free[g] - early[g] >= need;
		}
		if (dc->kind == CONTAINER_INIT && room < dc->amount)
			return false;
	}
	return true;
}

/* Try every set of GPUs for container c, from GPU g on, with `left` to choose. */
static bool exact_fits(struct exact *x, size_t c, size_t g, uint32_t left)
{
	const struct demand_container *dc;

	while (c < x->d->n_containers && x->d->containers[c].kind == CONTAINER_INIT)
		c++;
	if (c == x->d->n_containers)
		return exact_inits(x);
	dc = &x->d->containers[c];
	if (left == UINT32_MAX)
		left = dc->amount;
	if (left == 0)
		return exact_fits(x, c + 1, 0, UINT32_MAX);
	for (; g < x->n; g++) {
		uint64_t need = demand_bytes(dc, &(struct gpu){.bytes = x->bytes[g]});
		bool fits;

		if (x->free[g] - x->held[g] < need)
			continue;
		x->held[g] += need;
		x->by[c][g] = need;
		fits = exact_fits(x, c, g + 1, left - 1);
		x->held[g] -= need;
		x->by[c][g] = 0;
		if (fits)
			return true;
	}
	return false;
}

static bool exact_search(const struct pool *pool, const struct demand *d, const struct placement *p)
{
	struct exact x = {.d = d, .pool = pool};

	for (size_t s = 0; s < pool->inv.n_servers; s++)
		for (size_t g = 0; g < pool->inv.servers[s].n_gpus; g++) {
			x.bytes[x.n] = pool->inv.servers[s].gpus[g].bytes;
			x.free[x.n] = p ? 0 : x.bytes[x.n] - pool->claimed[x.n];
			x.n++;
		}
	/* Over an outcome: what is held is all there is. */
	for (size_t i = 0; p && i < p->n_holds; i++)
		x.free[pool->inv.servers[p->holds[i].server].first_gpu + p->holds[i].gpu] =
			p->holds[i].bytes;
	return exact_fits(&x, 0, 0, UINT32_MAX);
}

static uint64_t seed;

/* 0..n-1, the same in every run. */
static unsigned pick(unsigned n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % n;
}

static void random_pool(struct pool *pool)
{
	struct buf b;
	unsigned gpus = 0, servers = 1 + pick(4);

	buf_init(&b, 4096);
	for (unsigned s = 0; s < servers; s++) {
		buf_fmt(&b, "s%u ", s);
		for (unsigned g = pick(4); g > 0 && gpus < MAX_GPUS; g--, gpus++) {
			unsigned size = 4 + 4 * pick(3);

			buf_fmt(&b, "m:%u/%u ", size, pick(2) ? 0 : pick(size + 1));
		}
		buf_char(&b, ';');
	}
	pool_init(pool, b.data);
	buf_release(&b);
}

static void random_demand(struct demand *d, struct pool *pool)
{
	static const char *const kinds[] = {"app", "app", "app", "side", "init"};
	struct buf b;
	unsigned n = 1 + pick(4);

	buf_init(&b, 4096);
	for (unsigned c = 0; c < n; c++) {
		buf_fmt(&b, "%s c%u %u ", kinds[pick(5)], c, 1 + pick(3));
		if (pick(2))
			buf_fmt(&b, "%u%%;", 25 * (1 + pick(4)));
		else
			buf_fmt(&b, "%u;", 1 + pick(10));
	}
	demand_init(d, &pool->arena, b.data, NULL, NULL, false);
	buf_release(&b);
}

static void check_outcome(
	const struct pool *pool, const struct demand *d, const struct placement *p)
{
	for (size_t i = 0; i < p->n_holds; i++) {
		const struct hold *h = &p->holds[i];
		const struct gpu_server *s = &pool->inv.servers[h->server];
		size_t flat = s->first_gpu + h->gpu;

		assert_true(h->bytes > 0);
		assert_true(h->bytes <= s->gpus[h->gpu].bytes - pool->claimed[flat]);
		if (i > 0)
			assert_true(h[-1].server < h->server ||
				    (h[-1].server == h->server && h[-1].gpu < h->gpu));
	}
	/* What is held is enough: distinct GPUs for every container, at every moment. */
	assert_true(exact_search(pool, d, p));
}

/* In groups of so many. */
#define TOGETHER 200

static void keep_answer(unsigned i, int rc, const struct placement *p, const struct err *err)
{
	char group[32];

	if (i % TOGETHER == 0) {
		(void)snprintf(group, sizeof(group), "%u", i);
		kept_group(group);
	}
	kept_say("%d %s %s", rc, rc ? err->reason : "", rc ? err->msg : "");
	for (size_t k = 0; rc == 0 && k < p->n_holds; k++)
		kept_say("%zu/%zu %llu", p->holds[k].server, p->holds[k].gpu,
			(unsigned long long)p->holds[k].bytes);
	if (i % TOGETHER == TOGETHER - 1)
		kept_group_end();
}

/* With how little to look at it is known. */
static void keep_budget(struct pool *pool, const struct demand *d)
{
	uint64_t low = 1, high = 1u << 20;
	struct placement p;

	while (low < high) {
		pool->use.budget = (low + high) / 2;
		if (pool_place(pool, d, &p, NULL) == ERR_TIMEOUT)
			low = pool->use.budget + 1;
		else
			high = pool->use.budget;
	}
	pool->use.budget = 0;
	kept_say("%llu", (unsigned long long)low);
}

TEST(test_random)
{
	unsigned yes = 0, no = 0, missed = 0;

	seed = 1;
	kept_begin("placement");
	for (unsigned i = 0; i < 20000; i++) {
		struct placement p;
		struct demand d;
		struct err e = {0};
		struct pool pool;
		int rc;

		random_pool(&pool);
		random_demand(&d, &pool);
		rc = pool_place(&pool, &d, &p, &e);
		keep_answer(i, rc, &p, &e);
		if (rc == 0) {
			yes++;
			check_outcome(&pool, &d, &p);
		} else {
			assert_int_equal(rc, ERR_REFUSED);
			assert_true(strlen(e.msg) > 20);
			no++;
			missed += exact_search(&pool, &d, NULL);
		}
		pool_release(&pool);
	}
	kept_end();
	print_message("placed %u, refused %u, of these %u that an exact search places\n", yes, no,
		missed);
	assert_true(missed * 100 < yes);
}

/* With one container there is nothing to pack: the search is exact. */
TEST(test_random_single)
{
	seed = 7;
	for (unsigned i = 0; i < 5000; i++) {
		struct placement p;
		struct demand d;
		struct pool pool;

		random_pool(&pool);
		random_demand(&d, &pool);
		d.n_containers = 1;
		assert_int_equal(
			pool_place(&pool, &d, &p, NULL) == 0, exact_search(&pool, &d, NULL));
		pool_release(&pool);
	}
}

/* ---- what a search looks at, against every server of the pool ---- */

/* The pool as somebody keeps it whose servers come and go: at places without order, among others
 * that nobody has, with an order beside it. */
static void scatter(const struct pool *from, struct pool *to)
{
	struct inventory *inv = &to->inv;
	size_t places = 2 * from->inv.n_servers, gpus = 3 * from->inv.n_gpus + 1;
	struct arena *a = &to->arena;
	uint32_t *order, *turn;

	arena_init(a, 64 << 20);
	*inv = from->inv;
	inv->servers = arena_array(a, places, sizeof(*inv->servers));
	inv->order = order = arena_array(a, places, sizeof(*order));
	inv->turn = turn = arena_array(a, places, sizeof(*turn));
	inv->places = places;
	inv->gpu_places = gpus;
	to->claimed = arena_array(a, gpus, sizeof(*to->claimed));
	to->pending = arena_array(a, gpus, sizeof(*to->pending));
	to->n_claims = arena_array(a, places, sizeof(*to->n_claims));
	to->use = (struct usage){.claimed = to->claimed,
		.pending = to->pending,
		.n_claims = to->n_claims,
		.first = from->use.first};
	for (size_t i = 0, at = gpus; i < from->inv.n_servers; i++) {
		const struct gpu_server *s = &from->inv.servers[i];
		uint32_t place = pick((unsigned)places);

		while (inv->servers[place].name)
			place = (place + 1) % (uint32_t)places;
		at -= s->n_gpus + pick(2);
		inv->servers[place] = *s;
		inv->servers[place].first_gpu = at;
		order[i] = place;
		turn[place] = (uint32_t)i;
		to->n_claims[place] = from->n_claims[i];
		for (size_t g = 0; g < s->n_gpus; g++) {
			to->claimed[at + g] = from->claimed[s->first_gpu + g];
			to->pending[at + g] = from->pending[s->first_gpu + g];
		}
	}
}

/* The room of a pool as somebody keeps it who searches often. */
static struct pool_room *keep_room(struct pool *pool, struct room_index *index)
{
	struct inventory *inv = &pool->inv;
	size_t places = inventory_places(inv);
	struct pool_room *room = arena_array(&pool->arena, 1, sizeof(*room));
	uint32_t *first = arena_array(&pool->arena, places, sizeof(*first));
	uint32_t *gpus = arena_array(&pool->arena, places, sizeof(*gpus));
	uint64_t *bytes = arena_array(&pool->arena, places, sizeof(*bytes));
	uint64_t *most = arena_array(&pool->arena, places, sizeof(*most));
	uint64_t *left = arena_array(&pool->arena, inventory_gpu_places(inv), sizeof(*left));
	uint32_t *usable = arena_array(&pool->arena, places, sizeof(*usable));
	size_t widest = 0;

	index->turn = inv->turn;
	for (size_t k = 0; k < inv->n_servers; k++) {
		size_t i = inventory_nth(inv, k), at = inv->servers[i].first_gpu;

		first[i] = (uint32_t)at;
		gpus[i] = (uint32_t)inv->servers[i].n_gpus;
		room_note(&inv->servers[i], pool->claimed + at, &bytes[i], &most[i], &usable[i],
			left + at);
		room_index_add(
			index, (uint32_t)i, bytes[i], most[i], left + at, inv->servers[i].n_gpus);
		widest = inv->servers[i].n_gpus > widest ? inv->servers[i].n_gpus : widest;
	}
	*room = (struct pool_room){first, gpus, bytes, most, left, usable, widest, index};
	return room;
}

/* What is kept of a pool's servers, so that not each has to be asked. */
struct known {
	struct server_kinds kinds;
	struct server_words words;
	uint32_t *kind;
};

static void forget(struct known *k, size_t at)
{
	server_kinds_drop(&k->kinds, k->kind[at]);
	server_words_drop(&k->words, at);
	k->kind[at] = 0;
}

static void keep(struct known *k, size_t at, const struct gpu_server *s)
{
	assert_true(server_words_take(&k->words, at, s));
	k->kind[at] = server_kinds_take(&k->kinds, k->kind[at], s);
	assert_true(k->kind[at] > 0 && k->kind[at] < k->kinds.n);
}

/* As somebody keeps it who forgets some and has others change. */
static void keep_kinds(struct pool *pool, struct known *k)
{
	struct inventory *inv = &pool->inv;

	k->kind = arena_array(&pool->arena, inventory_places(inv), sizeof(*k->kind));
	for (size_t i = 0; i < 2 * inv->n_servers; i++) {
		size_t at = inventory_nth(inv, pick((unsigned)inv->n_servers));

		if (pick(3) == 0)
			forget(k, at);
		else
			keep(k, at,
				&inv->servers[inventory_nth(inv, pick((unsigned)inv->n_servers))]);
	}
	for (size_t i = 0; i < inv->n_servers; i++) {
		size_t at = inventory_nth(inv, i);

		keep(k, at, &inv->servers[at]);
		if (pick(20) == 0)
			forget(k, at);
	}
	inv->kind = k->kind;
	inv->kinds = k->kinds.servers;
	inv->n_kinds = k->kinds.n;
	inv->words = &k->words;
}

static void known_release(struct known *k)
{
	server_kinds_release(&k->kinds);
	server_words_release(&k->words);
}

/* The same GPUs, or the same words, as who looks at every server of a pool that stands in order. */
static void check_same(struct pool *pool, const struct demand *d, const struct placement *want,
	int want_rc, const struct err *want_err)
{
	struct placement p = {0};
	struct err err = {0};

	assert_int_equal(pool_place(pool, d, &p, &err), want_rc);
	assert_string_equal(err.msg, want_err->msg);
	assert_string_equal(err.reason, want_err->reason);
	assert_int_equal(p.n_holds, want->n_holds);
	for (size_t i = 0; i < p.n_holds; i++) {
		assert_int_equal(
			inventory_turn(&pool->inv, p.holds[i].server), want->holds[i].server);
		assert_int_equal(p.holds[i].gpu, want->holds[i].gpu);
		assert_int_equal(p.holds[i].bytes, want->holds[i].bytes);
	}
}

/* With less to look at: the same, or nothing is known. */
static unsigned check_hurried(struct pool *pool, const struct demand *d,
	const struct placement *want, int want_rc, const struct err *want_err)
{
	struct placement p = {0};
	struct err err = {0};
	int rc;

	pool->use.budget = 1 + pick(pick(2) ? 40 : 3000);
	rc = pool_place(pool, d, &p, &err);
	if (rc == ERR_TIMEOUT)
		assert_string_equal(err.msg, "");
	else
		check_same(pool, d, want, want_rc, want_err);
	pool->use.budget = 0;
	return rc == ERR_TIMEOUT;
}

/* A pool of servers that are alike, but for what is taken of some. */
static void random_large_pool(struct pool *pool)
{
	unsigned servers = 1 + pick(60), gpus = 1 + pick(8), size = 4 + 4 * pick(3), even = pick(3);
	unsigned mixed = pick(2);
	struct buf b;

	buf_init(&b, 65536);
	for (unsigned s = 0; s < servers; s++) {
		unsigned model = pick(2);

		buf_fmt(&b, "%ss%02u zone=z%u ", s ? "; " : "", s, pick(2));
		/* some have a label of their own, some none */
		if (s == 0 || pick(3))
			buf_fmt(&b, "host=h%02u ", pick(2) ? s : pick(4));
		buf_fmt(&b, "%s%s%s%s",
			pick(8)   ? ""
			: pick(2) ? "at=[fd00::7]:56001 "
				  : "at=10.0.0.7:56001 ",
			pick(20)  ? ""
			: pick(2) ? "claims=256 "
				  : "drain ",
			pick(9)   ? ""
			: pick(2) ? "for=x "
				  : "for=z for=y ",
			pick(4)   ? "guarded "
			: pick(2) ? "by-address "
				  : "by-token ");
		for (unsigned g = 0; g < gpus; g++)
			buf_fmt(&b, "m%u:%u/%u%s ", mixed ? pick(2) : model,
				even ? size : 4 + 4 * pick(3), pick(3) ? 0 : pick(5),
				pick(20) ? "" : "u");
	}
	pool_init(pool, b.data);
	pool->use.first = pick(2) ? pick(servers) : 0;
	buf_release(&b);
}

static bool selected_plainly(
	const struct demand *d, const struct gpu_server *s, const struct gpu *g)
{
	size_t n = 0;

	while (n < d->n_filters && inventory_server_matches(s, &d->filters[n]) &&
		inventory_gpu_matches(g, &d->filters[n]))
		n++;
	return n == d->n_filters;
}

/* What the best choices of one server for the container would leave; UINT64_MAX: it cannot hold it.
 */
static uint64_t plain_rate(const struct pool *pool, const struct demand *d, size_t server)
{
	const struct gpu_server *s = &pool->inv.servers[server];
	const struct demand_container *c = &d->containers[0];
	uint64_t lefts[MAX_GPUS], sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < s->n_gpus && pool->n_claims[server] < CLAIMS_PER_SERVER_MAX; i++) {
		uint64_t need = demand_bytes(c, &s->gpus[i]), at;
		uint64_t left = s->gpus[i].bytes - pool->claimed[s->first_gpu + i];

		if (!inventory_usable(s, &s->gpus[i]) || left < need ||
			(d->guarded && !s->guarded) || (d->gate_by + s->gate_by == 3) ||
			(s->n_launchers == 1 && slice_is(d->launcher, "y")) ||
			(s->n_launchers == 2 && slice_is(d->launcher, "x")) ||
			!selected_plainly(d, s, &s->gpus[i]))
			continue;
		for (at = n++; at > 0 && lefts[at - 1] > left - need; at--)
			lefts[at] = lefts[at - 1];
		lefts[at] = left - need;
	}
	for (size_t i = 0; i < c->amount && n >= c->amount; i++)
		sum += lefts[i];
	return n >= c->amount ? sum : UINT64_MAX;
}

/* One container on one server: the one that a look at each of them in turn finds; and the same for
 * everything else that may be asked, however the search comes to know what is free. */
TEST(test_every_server)
{
	static const char *const filters[] = {NULL, NULL, NULL, "zone=z1", "gpu.model=m0",
		"zone=z7", "gpu.model=m7", "server.name=s03", "zone=z0 gpu.model=m1",
		"server.name=s01 gpu.model=m1", "server.name=s77",
		"server.name=s01 server.name=s02", "server.addr=s02:56001",
		"server.addr=10.0.0.7:56001 zone=z0", "server.addr=nowhere:1", "host=h03",
		"host=h03 host=h03", "host=h01 host=h02", "host=h99", "host=h02 gpu.model=m1",
		"zone=z0 zone=z1 server.addr=s01:56001"};
	static const struct label within = {"zone", "z1"}, nowhere = {"host", "none"};
	static const char *const models[] = {"m1"};
	unsigned placed = 0, hurried = 0;

	seed = 11;
	kept_begin("placement_large");
	for (unsigned i = 0; i < 10000; i++) {
		struct placement p = {0};
		struct demand d, one;
		struct room_index index = {0}, index2 = {0};
		struct known known = {0};
		struct pool_bound bound = {.policy = "team",
			.servers = pick(4) ? &within : &nowhere,
			.n_servers = pick(3) != 0,
			.models = models,
			.n_models = pick(2)};
		struct pool pool, scattered;
		struct err err = {0};
		uint64_t best = UINT64_MAX, rate;
		size_t found = 0;
		int rc;

		random_large_pool(&pool);
		random_demand(&d, &pool);
		demand_init(&one, &pool.arena, "app a 1 1%", filters[pick(COUNT(filters))], NULL,
			false);
		d.filters = one.filters;
		d.n_filters = one.n_filters;
		d.one_server = pick(4) == 0;
		d.no_ipv4 = pick(8) == 0;
		d.no_ipv6 = pick(8) == 0;
		d.guarded = one.guarded = pick(4) == 0;
		d.gate_by = one.gate_by = pick(2) ? GATE_BY_ANY : GATE_BY_TOKEN + pick(2);
		d.launcher = one.launcher = slice_of(pick(2) ? "x" : "y");
		d.bound = pick(5) == 0 ? &bound : NULL;
		scatter(&pool, &scattered);
		rc = pool_place(&pool, &d, &p, &err);
		keep_answer(i, rc, &p, &err);
		check_same(&scattered, &d, &p, rc, &err);
		pool.use.room = keep_room(&pool, &index);
		check_same(&pool, &d, &p, rc, &err);
		if (i % 20 == 7) {
			keep_budget(&scattered, &d);
			keep_budget(&pool, &d);
		}
		scattered.use.room = keep_room(&scattered, &index2);
		check_same(&scattered, &d, &p, rc, &err);
		keep_kinds(&scattered, &known);
		check_same(&scattered, &d, &p, rc, &err);
		if (i % 20 == 7)
			keep_budget(&scattered, &d);
		hurried += check_hurried(&scattered, &d, &p, rc, &err);
		scattered.use.room = NULL;
		check_same(&scattered, &d, &p, rc, &err);
		known_release(&known);
		one.containers[0] = d.containers[0];
		one.containers[0].kind = CONTAINER_APP;
		for (size_t k = 0; k < pool.inv.n_servers; k++) {
			size_t at = (pool.use.first + k) % pool.inv.n_servers;

			rate = plain_rate(&pool, &one, at);
			found = rate < best ? at : found;
			best = rate < best ? rate : best;
		}
		one.one_server = true;
		rc = pool_place(&pool, &one, &p, NULL);
		assert_int_equal(rc == 0, best != UINT64_MAX);
		if (rc == 0)
			assert_int_equal(p.holds[0].server, found);
		placed += rc == 0;
		room_index_release(&index);
		room_index_release(&index2);
		arena_release(&scattered.arena);
		pool_release(&pool);
	}
	kept_end();
	assert_in_range(placed, 3500, 9900);
	assert_in_range(hurried, 1000, 9000);
}

/* However many servers there are, and whatever labels tell them apart: what is kept of their words
 * answers a filter, and a policy. Here the servers themselves would say something else. */
TEST(test_no_server_is_asked_for_its_words)
{
	static const char *const filters[] = {"server.addr=s04:56001", "host=h4", "host=h4 zone=z0",
		"zone=z0 server.addr=s04:56001"};
	static const struct label bounds[] = {{"host", "h4"}};
	struct pool_bound bound = {.policy = "team", .servers = bounds, .n_servers = 1};
	struct label other[] = {{"zone", "z1"}, {"host", "h0"}};
	struct known known = {0};
	struct room_index index = {0};
	struct pool pool;
	struct err err = {0};
	struct buf b;

	buf_init(&b, 65536);
	for (unsigned i = 0; i < 40; i++)
		buf_fmt(&b, "%ss%02u zone=z%u host=h%u m0:8 m0:8", i ? "; " : "", i, i % 2, i);
	pool_init(&pool, b.data);
	pool.use.room = keep_room(&pool, &index);
	keep_kinds(&pool, &known);
	for (size_t i = 0; i < pool.inv.n_servers; i++) {
		struct gpu_server *s = &pool.inv.servers[i];

		if (!known.kind[i])
			keep(&known, i, s);
		s->labels = other;
		s->address = "s00:56001";
	}
	pool.inv.kinds = known.kinds.servers;
	for (size_t i = 0; i <= COUNT(filters); i++) {
		bool by_policy = i == COUNT(filters);
		struct placement p = {0};
		struct demand d;

		demand_init(&d, &pool.arena, "app a 1 100%", by_policy ? NULL : filters[i], NULL,
			false);
		d.bound = by_policy ? &bound : NULL;
		assert_int_equal(pool_place(&pool, &d, &p, &err), 0);
		assert_string_equal(pool.inv.servers[p.holds[0].server].name, "s04");
		d.containers[0].amount = 3;
		assert_int_equal(pool_place(&pool, &d, &p, &err), ERR_REFUSED);
		assert_non_null(strstr(err.msg, "the pool has 2 GPUs that can be used"));
	}
	known_release(&known);
	room_index_release(&index);
	pool_release(&pool);
	buf_release(&b);
}

/* Has its GPUs have bytes instead of megabytes. How many can hold the container: who needs nothing
 * of one is not given it. */
static size_t count_in_bytes(struct pool *pool, const struct demand_container *c)
{
	size_t n = 0, at = 0;

	for (size_t s = 0; s < pool->inv.n_servers; s++)
		for (size_t g = 0; g < pool->inv.servers[s].n_gpus; g++, at++) {
			struct gpu *gpu = &pool->inv.servers[s].gpus[g];
			uint64_t need;

			gpu->bytes /= MB;
			pool->claimed[at] /= MB;
			need = demand_bytes(c, gpu);
			n += need > 0 && gpu->bytes - pool->claimed[at] >= need;
		}
	return n;
}

/* GPUs of some bytes, of one byte too: an index finds them as who looks at each server does. */
TEST(test_the_smallest_gpus)
{
	static const unsigned percents[] = {100, 50, 34};
	unsigned placed = 0;

	for (unsigned i = 0; i < 27 * 3 * COUNT(percents); i++) {
		unsigned x = 1 + i % 3, y = 1 + i / 3 % 3, z = 1 + i / 9 % 3;
		unsigned amount = 1 + i / 27 % 3, percent = percents[i / 81];
		struct room_index index = {0};
		struct placement p = {0};
		char servers[80], asks[40];
		struct err err = {0};
		struct demand d;
		struct pool pool;
		size_t fit;
		int rc;

		(void)snprintf(servers, sizeof(servers), "a m:%u m:%u; b m:%u m:%u; c m:%u/1", x, z,
			y, y, z);
		(void)snprintf(asks, sizeof(asks), "app a %u %u%%", amount, percent);
		pool_init(&pool, servers);
		demand_init(&d, &pool.arena, asks, NULL, NULL, false);
		fit = count_in_bytes(&pool, d.containers);
		rc = pool_place(&pool, &d, &p, &err);
		assert_int_equal(rc == 0, fit >= amount);
		assert_int_equal(p.n_holds, rc == 0 ? amount : 0);
		placed += rc == 0;
		pool.use.room = keep_room(&pool, &index);
		check_same(&pool, &d, &p, rc, &err);
		room_index_release(&index);
		pool_release(&pool);
	}
	assert_in_range(placed, 150, 220);
}

/* What a search looks at is counted, so that the same question has the same answer everywhere: the
 * least budget with which it is answered. Who has it look at less changes these numbers. */
TEST(test_what_a_search_looks_at)
{
	static const struct {
		const char *pool, *demand;
		uint64_t least[2]; /* without an index, with one */
	} cases[] = {
		{"a t4:8", "app a 1 100%", {3, 5}},
		{"a t4:8; b t4:8; c t4:8", "app a 1 100%", {5, 5}},
		{"a t4:8/1; b t4:8/2; c t4:8/3", "app a 1 50%", {7, 5}},
		{"a t4:8 k80:9; b t4:8/1 t4:8/2; c t4:8/3", "app a 2 50%", {22, 23}},
		{"a t4:8; b t4:8 t4:8; c t4:8", "app a 3 100%", {25, 14}},
		{"a t4:8; b t4:8; c t4:8; d t4:8", "app a 4 100%", {36, 24}},
		{"a t4:8/1; b t4:9 t4:9; c t4:8 k80:9; d t4:7", "app a 5 50%", {46, 32}},
		{"a t4:8; b t4:8", "app a 1 50%; app b 2 50%", {24, 20}},
	};

	for (size_t i = 0; i < 2 * COUNT(cases); i++) {
		uint64_t least = cases[i / 2].least[i % 2];
		struct room_index index = {0};
		struct placement p;
		struct demand d;
		struct pool pool;

		pool_init(&pool, cases[i / 2].pool);
		demand_init(&d, &pool.arena, cases[i / 2].demand, NULL, NULL, false);
		if (i % 2)
			pool.use.room = keep_room(&pool, &index);
		for (uint64_t budget = 1; budget < 60; budget++) {
			int rc;

			pool.use.budget = budget;
			rc = pool_place(&pool, &d, &p, NULL);
			if (rc != (budget < least ? ERR_TIMEOUT : 0))
				fail_msg("%s in %s: %d with a budget of %u", cases[i / 2].demand,
					cases[i / 2].pool, rc, (unsigned)budget);
		}
		room_index_release(&index);
		pool_release(&pool);
	}
}

TESTS(test_random, test_random_single, test_every_server, test_no_server_is_asked_for_its_words,
	test_the_smallest_gpus, test_what_a_search_looks_at)

/* SPDX-License-Identifier: Apache-2.0 */
/* test: the laws of waiting over thousands of made-up pools and crowds: order, all or none, no GPU
 * promised twice, nobody waits for what lies free, nobody starves; and what is decided is what it
 * was before (kept.h). */
#include "webhook/core/pod/queue_read.h"

#include "test/unit/kept.h"
#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"

#define NOW 1000000000000ll
#define PODS_MAX 40
#define SERVERS 6
#define GPUS 4
#define NAMESPACES 3

struct world {
	uint32_t random;
	struct arena arena; /* of one round */
	struct inventory inv;
	struct gpu_server servers[SERVERS];
	struct gpu gpus[SERVERS][GPUS];
	uint64_t claimed[SERVERS * GPUS], bytes[SERVERS], most[SERVERS], left[SERVERS * GPUS];
	uint32_t n_claims[SERVERS], usable[SERVERS], first[SERVERS], gpus_of[SERVERS];
	struct room_index index;
	struct pool_room room;
	struct usage use;
	struct queue_pod pods[PODS_MAX];
	struct demand demands[PODS_MAX];
	struct demand_container containers[PODS_MAX][2];
	char names[PODS_MAX][8], gangs[PODS_MAX][32];
	size_t n;
	struct queue_share shares[NAMESPACES];
	struct queue_kept kept[SERVERS * GPUS];
	struct queue_world w;
	struct queue_round round;
};

static unsigned pick(struct world *x, unsigned n)
{
	x->random = x->random * 1664525 + 1013904223;
	return (x->random >> 8) % n;
}

static const char *const names[] = {"a", "b", "c", "d", "e", "f"};

/* What is free, once more; with an index, as a leader has it. */
static void note_room(struct world *x, bool index)
{
	room_index_release(&x->index);
	for (uint32_t s = 0; s < x->inv.n_servers; s++) {
		room_note(&x->servers[s], x->claimed + s * GPUS, &x->bytes[s], &x->most[s],
			&x->usable[s], x->left + s * GPUS);
		room_index_add(&x->index, s, x->bytes[s], x->most[s], x->left + s * GPUS, GPUS);
	}
	x->room = (struct pool_room){x->first, x->gpus_of, x->bytes, x->most, x->left, x->usable,
		GPUS, index ? &x->index : NULL};
}

static void make_pool(struct world *x)
{
	x->inv = (struct inventory){.servers = x->servers, .n_servers = 1 + pick(x, SERVERS)};
	for (uint32_t s = 0; s < x->inv.n_servers; s++) {
		uint64_t size = (pick(x, 3) ? 8000 : 16000) * MB;

		x->servers[s] = (struct gpu_server){.name = names[s],
			.address = "10.0.0.1:1",
			.gpus = x->gpus[s],
			.n_gpus = GPUS,
			.first_gpu = s * GPUS,
			.drain = pick(x, 12) == 0};
		for (unsigned i = 0; i < GPUS; i++) {
			x->gpus[s][i] = (struct gpu){.id = names[i],
				.model = "t4",
				.bytes = pick(x, 9) ? size : 4000 * MB,
				.fit = pick(x, 15) != 0,
				.fresh = true,
				.why = ""};
			x->claimed[s * GPUS + i] = x->gpus[s][i].bytes / 4 * pick(x, 5);
		}
		x->first[s] = s * GPUS;
		x->gpus_of[s] = GPUS;
		x->n_claims[s] = pick(x, 20) ? pick(x, 9) : 250 + pick(x, 7);
	}
	x->inv.n_gpus = x->inv.n_servers * GPUS;
}

static void make_pod(struct world *x, size_t i)
{
	static const int64_t extremes[] = {INT64_MIN, -5000000000, 0, 5000000000, INT64_MAX};
	static const int64_t since[] = {
		0, 1, NOW - 5000000000, NOW - 5000000001, NOW + 1, INT64_MAX};
	struct queue_pod *p = &x->pods[i];

	x->demands[i] = (struct demand){.containers = x->containers[i],
		.n_containers = pick(x, 5) ? 1 : 2,
		.whole_servers = pick(x, 20) == 0,
		.one_server = pick(x, 9) == 0};
	for (size_t c = 0; c < 2; c++)
		x->containers[i][c] = (struct demand_container){.name = SLICE("c"),
			.amount = 1 + pick(x, 3) * pick(x, 2),
			.percent = 25 * (1 + pick(x, 4))};
	(void)snprintf(x->names[i], sizeof(x->names[i]), "p%02zu", i);
	*p = (struct queue_pod){.uid = slice_of(x->names[i]),
		.name = slice_of(x->names[i]),
		.namespace = slice_of(names[pick(x, NAMESPACES)]),
		.demand = &x->demands[i],
		.asks = pick(x, 2) ? queue_asks(&x->demands[i], (struct json_seed){3, 4}) : 0,
		.priority = pick(x, 3) == 0,
		.since_ms = NOW - 1000 * (int64_t)pick(x, 100),
		.foreign = pick(x, 12) == 0};
	if (pick(x, 12) == 0)
		p->priority = extremes[pick(x, 5)];
	if (pick(x, 12) == 0)
		p->since_ms = since[pick(x, 6)];
}

static void make_world(struct world *x, uint32_t seed)
{
	*x = (struct world){.random = seed * 2654435761u + 1};
	make_pool(x);
	x->n = pick(x, PODS_MAX);
	for (size_t i = 0; i < x->n; i++)
		make_pod(x, i);
	for (size_t i = 0; i < x->n; i += 1 + pick(x, 8)) {
		unsigned size = 1 + pick(x, 4);

		/* some names end alike */
		(void)snprintf(x->gangs[i], sizeof(x->gangs[i]), "g%02zu%s", i,
			pick(x, 2) ? "" : "-of-many");
		for (size_t k = i; k < x->n && k < i + size; k++) {
			x->pods[k].namespace = x->pods[i].namespace;
			x->pods[k].gang = slice_of(x->gangs[i]);
			x->pods[k].gang_size = size;
		}
		i += size;
	}
	for (size_t i = 0; i < NAMESPACES; i++)
		x->shares[i] = (struct queue_share){slice_of(names[i]), pick(x, 4) * 4000 * MB};
	x->use = (struct usage){.claimed = x->claimed,
		.pending = x->claimed,
		.n_claims = x->n_claims,
		.room = pick(x, 2) ? &x->room : NULL};
	note_room(x, pick(x, 2));
	arena_init(&x->arena, 1u << 24);
	x->w = (struct queue_world){.inventory = &x->inv,
		.usage = &x->use,
		.shares = x->shares,
		.n_shares = NAMESPACES,
		.kept = x->kept,
		.now_ms = NOW,
		.reserve_ms = pick(x, 2) ? 90000 : INT64_MAX};
}

static void release_world(struct world *x)
{
	room_index_release(&x->index);
	arena_release(&x->arena);
}

static void decide(struct world *x)
{
	assert_int_equal(queue_decide(&x->w, x->pods, x->n, false, &x->arena, &x->round, NULL), 0);
}

static bool same_gang(const struct queue_pod *a, const struct queue_pod *b)
{
	return a->gang.at && b->gang.at && slice_eq(a->gang, b->gang) &&
	       slice_eq(a->namespace, b->namespace);
}

/* All or none; and of a gang that starts there are all. */
static void check_gangs(const struct world *x)
{
	for (size_t i = 0; i < x->n; i++) {
		size_t starts = 0;

		for (size_t k = 0; k < x->n; k++)
			starts += same_gang(&x->pods[i], &x->pods[k]) &&
				  x->round.entries[k].verdict == QUEUE_START;
		if (x->pods[i].gang.at && starts)
			assert_int_equal(starts, x->pods[i].gang_size);
	}
}

/* Give what was decided: nothing twice, nothing that takes no claims. Who starts leaves the queue.
 */
static void give(struct world *x)
{
	size_t n = 0;

	for (size_t i = 0; i < x->n; i++) {
		const struct queue_entry *e = &x->round.entries[i];

		if (e->verdict != QUEUE_START) {
			x->pods[n++] = x->pods[i];
			continue;
		}
		assert_true(e->where.n_holds > 0);
		for (size_t k = 0; k < e->where.n_holds; k++) {
			const struct hold *h = &e->where.holds[k];
			const struct gpu_server *s = &x->servers[h->server];

			assert_true(inventory_usable(s, &s->gpus[h->gpu]));
			x->claimed[s->first_gpu + h->gpu] += h->bytes;
			assert_true(x->claimed[s->first_gpu + h->gpu] <= s->gpus[h->gpu].bytes);
			for (size_t ns = 0; ns < NAMESPACES; ns++)
				if (slice_eq(x->shares[ns].namespace, x->pods[i].namespace))
					x->shares[ns].bytes += h->bytes;
			if (k == 0 || h->server != e->where.holds[k - 1].server)
				x->n_claims[h->server]++;
		}
	}
	for (size_t s = 0; s < x->inv.n_servers; s++)
		assert_true(x->n_claims[s] <= CLAIMS_PER_SERVER_MAX);
	x->n = n;
	if (x->round.n_keep > 0)
		memcpy(x->kept, x->round.keep, x->round.n_keep * sizeof(*x->kept));
	x->w.n_kept = x->round.n_keep;
	note_room(x, x->room.index);
}

static int compare(const struct queue_pod *a, const struct queue_pod *b)
{
	return a->priority != b->priority   ? (a->priority > b->priority ? -1 : 1)
	       : a->since_ms != b->since_ms ? (a->since_ms < b->since_ms ? -1 : 1)
					    : memcmp(a->uid.at, b->uid.at, 3);
}

/* Nobody who goes alone waits for what our placement finds free, unless it is kept for another. */
static void check_idle(struct world *x)
{
	const struct queue_round *r = &x->round;
	uint64_t claimed[SERVERS * GPUS];
	uint32_t n_claims[SERVERS];
	struct usage real = x->use,
		     others = {.claimed = claimed, .pending = claimed, .n_claims = n_claims};
	struct placement p;

	real.room = NULL;
	memcpy(claimed, x->claimed, sizeof(claimed));
	memcpy(n_claims, x->n_claims, sizeof(n_claims));
	for (size_t i = 0; i < r->n_keep; i++) {
		claimed[x->servers[r->keep[i].server].first_gpu + r->keep[i].gpu] +=
			r->keep[i].bytes;
		n_claims[r->keep[i].server] += i == 0 || r->keep[i].server != r->keep[i - 1].server;
	}
	for (size_t i = 0; i < x->n; i++) {
		const struct queue_pod *pod = &x->pods[i];
		bool all = r->head == SIZE_MAX || compare(pod, &x->pods[r->head]) <= 0;

		if (pod->foreign || pod->gang.at)
			continue;
		assert_int_equal(placement_find(&x->inv, all ? &real : &others, pod->demand,
					 &x->arena, &p, NULL),
			ERR_REFUSED);
		assert_int_equal(r->entries[i].verdict == QUEUE_KEPT,
			!all && placement_find(&x->inv, &real, pod->demand, &x->arena, &p, NULL) ==
					0);
	}
}

/* In groups of so many seeds. */
#define TOGETHER 30

static void keep_group(uint32_t seed)
{
	char name[16];

	if (seed % TOGETHER > 0)
		return;
	(void)snprintf(name, sizeof(name), "%u", seed);
	kept_group(name);
}

/* What was decided, and why. */
static void keep_round(struct world *x)
{
	struct queue_round r;

	assert_int_equal(queue_decide(&x->w, x->pods, x->n, true, &x->arena, &r, NULL), 0);
	for (size_t i = 0; i < x->n; i++) {
		const struct queue_entry *e = &r.entries[i];

		kept_say("%d %zu %zu %.*s", (int)e->verdict, e->place, e->before, (int)e->why.len,
			e->why.at ? e->why.at : "");
		for (size_t k = 0; k < e->where.n_holds; k++)
			kept_say("%zu/%zu %llu", e->where.holds[k].server, e->where.holds[k].gpu,
				(unsigned long long)e->where.holds[k].bytes);
	}
	for (size_t i = 0; i < r.n_keep; i++)
		kept_say("%.*s: %zu/%zu %llu", (int)r.keep[i].uid.len, r.keep[i].uid.at,
			r.keep[i].server, r.keep[i].gpu, (unsigned long long)r.keep[i].bytes);
	kept_say("head %zd, %zu start, %zu wait, next %lld", (ssize_t)r.head, r.n_start, r.depth,
		(long long)r.next_ms);
}

TEST(all_or_none_nothing_twice_nothing_idle)
{
	size_t started = 0, kept = 0;

	kept_begin("queue");
	for (uint32_t seed = 0; seed < 3000; seed++) {
		struct world x;
		unsigned rounds = 0;

		make_world(&x, seed);
		keep_group(seed);
		do {
			decide(&x);
			keep_round(&x);
			check_gangs(&x);
			if (x.round.n_start == 0)
				check_idle(&x);
			started += x.round.n_start;
			kept += x.round.n_keep > 0;
			give(&x);
			assert_true(++rounds < 2 * PODS_MAX);
		} while (x.round.n_start);
		release_world(&x);
		if (seed % TOGETHER == TOGETHER - 1)
			kept_group_end();
	}
	kept_end();
	assert_true(started > 10000 && kept > 300);
}

/* The order, pod by pod: the same who starts where. */
TEST(one_after_the_other_in_order)
{
	for (uint32_t seed = 0; seed < 2000; seed++) {
		bool looked[PODS_MAX] = {false};
		struct world x;

		make_world(&x, seed);
		x.w.reserve_ms = INT64_MAX;
		for (size_t i = 0; i < x.n; i++)
			x.pods[i].gang = (struct slice){0};
		decide(&x);
		for (size_t turn = 0; turn < x.n; turn++) {
			const struct queue_entry *e;
			struct queue_rank best = {.priority = INT64_MIN};
			struct placement p = {0};
			size_t at = x.n, ns;

			for (size_t i = 0; i < x.n; i++) {
				struct queue_rank one = {false, x.pods[i].priority, 0,
					x.pods[i].since_ms, x.pods[i].uid};

				for (ns = 0;
					!slice_eq(x.shares[ns].namespace, x.pods[i].namespace);)
					ns++;
				one.share = x.shares[ns].bytes;
				if (!looked[i] && (at == x.n || queue_compare(&one, &best) < 0)) {
					best = one;
					at = i;
				}
			}
			looked[at] = true;
			e = &x.round.entries[at];
			x.use.room = NULL;
			if (x.pods[at].foreign || placement_find(&x.inv, &x.use, x.pods[at].demand,
							  &x.arena, &p, NULL) != 0)
				p.n_holds = 0;
			assert_int_equal(e->where.n_holds, p.n_holds);
			for (size_t k = 0; k < p.n_holds; k++) {
				assert_memory_equal(
					&p.holds[k], &e->where.holds[k], sizeof(*p.holds));
				x.claimed[p.holds[k].server * GPUS + p.holds[k].gpu] +=
					p.holds[k].bytes;
				for (ns = 0;
					!slice_eq(x.shares[ns].namespace, x.pods[at].namespace);)
					ns++;
				x.shares[ns].bytes += p.holds[k].bytes;
			}
			for (size_t k = 0; k < p.n_servers; k++)
				x.n_claims[p.servers[k]]++;
		}
		release_world(&x);
	}
}

/* One GPU; small pods come all the time, each for three rounds, and a whole one waits among them.
 * In which round does it start? */
static unsigned whole_starts(int64_t reserve_ms, bool other_namespace)
{
	struct pool p;
	struct arena a;
	struct demand small, whole;
	uint64_t free_at[400] = {0};
	unsigned round = 0;
	bool started = false;
	struct queue_kept kept[4];
	size_t n_kept = 0;

	pool_init(&p, "a t4:8000");
	arena_init(&a, 1u << 24);
	demand_init(&small, &p.arena, "app a 1 50%", NULL, NULL, false);
	demand_init(&whole, &p.arena, "app a 1 100%", NULL, NULL, false);
	for (; round < 300 && !started; round++) {
		struct queue_share shares[] = {{SLICE("x"), UINT64_MAX}, {SLICE("y"), 1}};
		struct queue_pod pods[] = {{.uid = SLICE("w"),
						   .namespace = SLICE("x"),
						   .demand = &whole,
						   .since_ms = NOW},
			{.uid = SLICE("s"),
				.namespace = SLICE("y"),
				.demand = &small,
				.since_ms = NOW + 1000 * round}};
		struct queue_world w = {
			&p.inv, &p.use, shares, 2, kept, n_kept, NOW + 1000 * round, reserve_ms};
		struct queue_round r;

		p.claimed[0] -= free_at[round];
		p.n_claims[0] -= free_at[round] > 0;
		if (other_namespace)
			pods[0].namespace = SLICE("z");
		assert_int_equal(queue_decide(&w, pods, 2, false, &a, &r, NULL), 0);
		started = r.entries[0].verdict == QUEUE_START;
		if (r.entries[1].verdict == QUEUE_START && !started) {
			p.claimed[0] += 4000 * MB;
			p.n_claims[0]++;
			free_at[round + 2] += 4000 * MB;
		}
		n_kept = r.n_keep;
		if (n_kept > 0)
			memcpy(kept, r.keep, n_kept * sizeof(*kept));
	}
	arena_release(&a);
	pool_release(&p);
	return round;
}

TEST(a_reservation_serves_its_head)
{
	/* the smaller share goes first; the larger one is passed as long as nothing is kept */
	assert_int_equal(whole_starts(INT64_MAX, true), 1);
	assert_int_equal(whole_starts(INT64_MAX, false), 300);
	assert_in_range(whole_starts(30000, false), 31, 35);
}

TESTS(all_or_none_nothing_twice_nothing_idle, one_after_the_other_in_order,
	a_reservation_serves_its_head)

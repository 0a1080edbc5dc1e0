/* SPDX-License-Identifier: Apache-2.0 */
/* test: which GPUs a pod is given, what a refusal says, and that no outcome breaks the rules. */
#include "base/buf.h"
#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"

struct row {
	const char *what, *pool, *demand, *filters, *servers;
	bool whole;
	const char *want; /* holds in MB, or "!Reason: part of the sentence" */
};

#define TWO "gpu-01 zone=lab Tesla_V100-PCIE-16GB:16000; gpu-02 zone=attic T4:8000 T4:8000"

static const struct row rows[] = {
	{"one whole GPU leaves nothing anywhere: first by name", TWO, "app a 1 100%", NULL, NULL,
		false, "gpu-01/gpu-0=16000"},
	{"half a GPU leaves the least on a small one", TWO, "app a 1 50%", NULL, NULL, false,
		"gpu-02/gpu-0=4000"},
	{"best fit by memory", TWO, "app a 1 7000", NULL, NULL, false, "gpu-02/gpu-0=7000"},
	{"memory that only the large GPU has", TWO, "app a 1 9000", NULL, NULL, false,
		"gpu-01/gpu-0=9000"},
	{"fills a GPU that is begun", "a t4:8000 t4:8000/4000", "app a 1 50%", NULL, NULL, false,
		"a/gpu-1=4000"},
	{"two half-free GPUs do not serve one whole", "a t4:8000/4000 t4:8000/4000", "app a 1 100%",
		NULL, NULL, false, "!NoCapacity: none has that much free"},
	{"n GPUs are distinct", "a t4:8000", "app a 2 10%", NULL, NULL, false,
		"!NoCapacity: the pool has 1 GPU that can be used; ask for at most 1"},
	{"n distinct GPUs on one server", "a t4:8000; b t4:8000 t4:8000; c t4:8000", "app a 2 100%",
		NULL, NULL, false, "b/gpu-0=8000 b/gpu-1=8000"},
	{"over several servers when none holds all", "a t4:8000; b t4:8000 t4:8000; c t4:8000",
		"app a 3 100%", NULL, NULL, false, "a/gpu-0=8000 b/gpu-0=8000 b/gpu-1=8000"},
	{"as few servers as can be: the widest first",
		"a t4:8000; b t4:8000; c t4:8000 t4:8000 t4:8000 t4:8000; d t4:8000 t4:8000 "
		"t4:8000 t4:8000",
		"app a 6 100%", NULL, NULL, false,
		"c/gpu-0=8000 c/gpu-1=8000 c/gpu-2=8000 c/gpu-3=8000 d/gpu-0=8000 d/gpu-1=8000"},
	{"what no server holds: the pod's own one first",
		"a k80:9000 t4:8000; b t4:8000 t4:8000 t4:8000; c t4:8000 t4:8000 t4:8000",
		"app x 1 9000; app y 4 4000", NULL, NULL, false,
		"a/gpu-0=9000 a/gpu-1=4000 b/gpu-0=4000 b/gpu-1=4000 b/gpu-2=4000"},
	{"percent rounds down: 3 x 33 % and 1 %", "a t4:1/0",
		"app a 1 33%; app b 1 33%; app c 1 33%; app d 1 1%", NULL, NULL, false,
		"a/gpu-0=1"},
	{"containers share a GPU", TWO, "app a 1 50%; app b 1 50%", NULL, NULL, false,
		"gpu-02/gpu-0=8000"},
	{"containers of one pod stay on one server", "a t4:8000 t4:8000; b t4:8000/1000",
		"app a 1 8000; app b 1 7000", NULL, NULL, false, "a/gpu-0=8000 a/gpu-1=7000"},
	{"but not at the price of a refusal", "a t4:8000/1000 t4:8000/5000; b t4:8000/2000",
		"app a 1 6000; app b 1 7000", NULL, NULL, false, "a/gpu-0=7000 b/gpu-0=6000"},
	{"the larger container first", "a t4:8000 t4:4000", "app a 1 4000; app b 1 8000", NULL,
		NULL, false, "a/gpu-0=8000 a/gpu-1=4000"},
	{"init containers: the maximum, not the sum", "a t4:8000", "init i 1 100%; app a 1 50%",
		NULL, NULL, false, "a/gpu-0=8000"},
	{"init containers use what the pod holds", "a t4:8000 t4:8000/6000",
		"init i 1 2000; init j 1 3000; app a 1 4000", NULL, NULL, false, "a/gpu-0=4000"},
	{"two init containers one after the other", "a t4:8000", "init i 1 100%; init j 1 100%",
		NULL, NULL, false, "a/gpu-0=8000"},
	{"restartable: beside a later init container", "a t4:8000",
		"side s 1 4000; init i 1 6000; app a 1 1000", NULL, NULL, false,
		"!NoCapacity: none has that much free for i beside its pod's other containers"},
	{"restartable: not beside an earlier one", "a t4:8000",
		"init i 1 6000; side s 1 4000; app a 1 1000", NULL, NULL, false, "a/gpu-0=6000"},
	{"restartable: beside the app", "a t4:8000", "side s 1 4000; app a 1 5000", NULL, NULL,
		false, "!NoCapacity"},
	{"filter: server.name", TWO, "app a 1 100%", "server.name=gpu-01", NULL, false,
		"gpu-01/gpu-0=16000"},
	{"filter: server.addr", TWO, "app a 1 10%", "server.addr=gpu-01:56001", NULL, false,
		"gpu-01/gpu-0=1600"},
	{"filter: a word of the model, any case", TWO, "app a 1 10%", "gpu.model=v100-pcie-16gb",
		NULL, false, "gpu-01/gpu-0=1600"},
	{"filter: label", TWO, "app a 1 10%", "zone=attic", NULL, false, "gpu-02/gpu-0=800"},
	{"filter: two tokens", TWO, "app a 1 10%", "zone=lab gpu.model=T4", NULL, false,
		"!NoServer: no GPU of the pool matches all of these together"},
	{"filter: unknown keys are the launcher's", TWO, "app a 1 10%", "colour=blue noequals",
		NULL, false, "gpu-02/gpu-0=800"},
	{"filter: values that exist are named", TWO, "app a 1 10%", "server.name=gpu-09", NULL,
		false, "!NoServer: matches server.name=gpu-09 (server.name has gpu-01, gpu-02)"},
	{"filter: labels that exist are named", TWO, "app a 1 10%", "zone=moon", NULL, false,
		"!NoServer: zone=moon (zone has lab, attic)"},
	{"filter: models that exist are named once", TWO, "app a 1 10%", "gpu.model=H100", NULL,
		false, "!NoServer: gpu.model=H100 (gpu.model has \"Tesla V100-PCIE-16GB\", T4)"},
	{"drain", "a drain t4:8000; b t4:9000", "app a 1 100%", NULL, NULL, false, "b/gpu-0=9000"},
	{"unfit, stale, missing", "a t4:8000u t4:8000s t4:8000m t4:9000", "app a 1 100%", NULL,
		NULL, false, "a/gpu-3=9000"},
	{"all out of use", "a drain t4:8000; b t4:8000u t4:8000s t4:8000m", "app a 1 100%", NULL,
		NULL, false,
		"!NoServer: of 4 GPUs that there are none can be used: 1 on draining servers, 1 "
		"unfit, 1 not reported lately, 1 gone (b/gpu-0: ECC errors)"},
	{"no server", "", "app a 1 100%", NULL, NULL, false,
		"!NoServer: the pool has no GPU server"},
	{"no GPU", "a; b", "app a 1 100%", NULL, NULL, false,
		"!NoServer: none of the pool's 2 servers has reported a GPU yet"},
	{"memory above any GPU", TWO, "app a 1 32000", NULL, NULL, false,
		"!NoCapacity: no GPU has 32000 MB; the largest has 16000 MB"},
	{"memory above any GPU that matches", TWO, "app a 1 9000", "gpu.model=t4", NULL, false,
		"!NoCapacity: no GPU has 9000 MB; the largest that matches has 8000 MB"},
	{"memory beyond 64 bits", TWO, "app a 1 18446744073709551615", NULL, NULL, false,
		"!NoCapacity: no GPU has"},
	{"amount above 2^31", TWO, "app a 4000000000 1%", NULL, NULL, false,
		"!NoCapacity: the pool has 3 GPUs that can be used; ask for at most 3"},
	{"full now: what would fit", "gpu-01 v100:16945/16945p; gpu-02 t4:8085 t4:8085/6000",
		"app a 2 100%", NULL, NULL, false,
		"!NoCapacity: asked 2 GPUs with 100 % each; of 3 GPUs that can be used, 1 has that "
		"much free (best: gpu-02/gpu-0 8085 of 8085 MB, gpu-02/gpu-1 2085 of 8085 MB, "
		"gpu-01/gpu-0 0 of 16945 MB); 16945 MB are held by pods that have not started; now "
		"would fit: 1 GPU with 100 %, or 2 GPUs with 25 % each; ask for less or create the "
		"pod again when others have ended"},
	{"full now: what would fit by memory", "a t4:8000/1000 t4:8000/3000", "app a 2 6000", NULL,
		NULL, false,
		"!NoCapacity: now would fit: 1 GPU with 6000 MB, or 2 GPUs with 5000 MB each"},
	{"full now: nothing would fit", "a t4:8000/8000", "app a 1 1%", NULL, NULL, false,
		"!NoCapacity: (best: a/gpu-0 0 of 8000 MB); create the pod again when others have "
		"ended"},
	{"what the pool never holds does not wait", "a t4:8000/8000 t4:8000/8000",
		"app a 2 60%; app b 1 60%", NULL, NULL, false,
		"!NoCapacity: the pool would not hold it if nobody else used it: ask for less"},
	{"nor does what too few GPUs are large enough for",
		"a t4:8000/8000 t4:4000/4000; b t4:4000", "app a 2 6000", NULL, NULL, false,
		"!NoCapacity: the pool would not hold it if nobody else used it: ask for less"},
	{"nor does what only less of would fit", "a t4:8000/8000 t4:4000; b t4:4000",
		"app a 2 6000", NULL, NULL, false,
		"!NoCapacity: now would fit: 2 GPUs with 4000 MB each; ask for less, since the "
		"pool would not hold it if nobody else used it"},
	{"a server with 256 claims is full", "a claims=256 t4:8000; b claims=255 t4:9000/5000",
		"app a 1 1%", NULL, NULL, false, "b/gpu-0=90"},
	{"small pods leave claims for GPUs with room",
		"a claims=254 t4:8000/7000 t4:8000 t4:8000; b t4:9000", "app a 1 1%", NULL, NULL,
		false, "b/gpu-0=90"},
	{"but take what is more", "a claims=253 t4:8000/7000 t4:8000 t4:8000; b t4:9000",
		"app a 1 50%", NULL, NULL, false, "a/gpu-1=4000"},
	{"large ones may have them", "a claims=254 t4:8000/7000 t4:8000 t4:8000; b t4:9000",
		"app b 1 1%; app a 1 51%", NULL, NULL, false, "a/gpu-0=80 a/gpu-1=4080"},
	{"so may one that takes the server", "a claims=254 t4:8000; b t4:9000/1", "app a 1 1%",
		NULL, NULL, true, "a/gpu-0=8000"},
	{"a refusal says for whom claims are left", "a claims=255 t4:8000/7000 t4:8000",
		"app a 1 1%", NULL, NULL, false,
		"!NoCapacity: server a has 255 claims of at most 256 and leaves the others to pods "
		"that take more than half of a GPU"},
	{"all servers with 256 claims", "a claims=256 t4:8000", "app a 1 1%", NULL, NULL, false,
		"!NoCapacity: server a takes no more: it has 256 claims"},
	{"hostile names", "a t4:8000/8000", "app a\x01\xc3\xa4 1 1%; app b 1 1%", NULL, NULL, false,
		"!NoCapacity: for a???"},
	{"whole server: all its GPUs", TWO, "app a 1 10%", "server.name=gpu-02", NULL, true,
		"gpu-02/gpu-0=8000 gpu-02/gpu-1=8000"},
	{"whole server: the smallest that does", "a t4:8000 t4:8000; b t4:8000", "app a 1 50%",
		NULL, NULL, true, "b/gpu-0=8000"},
	{"whole server: not one that others use", "a t4:8000 t4:8000/1; b k80:9000", "app a 1 50%",
		NULL, NULL, true, "b/gpu-0=9000"},
	{"whole server: not one with an unfit GPU", "a t4:8000 t4:8000u", "app a 1 50%", NULL, NULL,
		true, "!NoCapacity: none has that much free on a server that nobody uses"},
	{"whole server: containers share it", "a t4:8000 t4:8000; b t4:8000",
		"app a 1 50%; app b 2 40%", NULL, NULL, true, "a/gpu-0=8000 a/gpu-1=8000"},
	{"whole server: its other models too", "a t4:8000 k80:9000", "app a 1 50%", "gpu.model=t4",
		NULL, true, "a/gpu-0=8000 a/gpu-1=9000"},
	{"named servers", TWO, "app a 1 10%", NULL, "gpu-01", false, "gpu-01/gpu-0=1600"},
	{"named servers: taken", "a t4:8000/8000; b t4:8000", "app a 1 100%", NULL, "a", false,
		"!ServerTaken: server a is taken: create the pod again and another server is "
		"chosen"},
	{"named servers: gone", "a t4:8000", "app a 1 100%", NULL, "z", false,
		"!ServerTaken: server z has left the pool"},
	{"named servers: one taken, one gone", "a t4:8000/8000", "app a 1 100%", NULL, "a z", false,
		"!ServerTaken: server z (of 2 that were chosen) has left the pool"},
	{"named servers: one gone, one taken", "a t4:8000/8000", "app a 1 100%", NULL, "z a", false,
		"!ServerTaken: server z (of 2 that were chosen) has left the pool"},
	{"named servers: whole, all of them", "a t4:8000; b t4:9000", "app a 1 10%", NULL, "b a",
		true, "a/gpu-0=8000 b/gpu-0=9000"},
	{"named servers: whole, one in use", "a t4:8000; b t4:9000/1", "app a 1 10%", NULL, "a b",
		true, "!ServerTaken: server b (of 2 that were chosen) is taken"},
	{"nobody asks", TWO, "", NULL, NULL, false, ""},
};

/* The same with demand.one_server. */
static const struct row alone[] = {
	{"what is on one server anyway", TWO, "app a 1 50%; app b 1 50%", NULL, NULL, false,
		"gpu-02/gpu-0=8000"},
	{"not the tightest server for the first container", "a t4:8000; b t4:8000 t4:8000",
		"app a 1 100%; app b 1 100%", NULL, NULL, false, "b/gpu-0=8000 b/gpu-1=8000"},
	{"the first that holds all", "a t4:8000; b t4:8000; c t4:9000 t4:9000; d t4:9000 t4:9000",
		"app a 1 7000; app b 1 7000", NULL, NULL, false, "c/gpu-0=7000 c/gpu-1=7000"},
	{"whole", "a t4:8000; b t4:8000 t4:8000", "app a 1 100%; app b 1 100%", NULL, NULL, true,
		"b/gpu-0=8000 b/gpu-1=8000"},
	{"init containers, too", "a t4:8000/4000; b t4:8000", "init i 1 100%; app a 1 4000", NULL,
		NULL, false, "b/gpu-0=8000"},
	{"the filter still selects", "a k80:8000; b t4:8000 t4:8000; c k80:9000 k80:9000",
		"app a 1 8000; app b 1 8000", "gpu.model=k80", NULL, false,
		"c/gpu-0=8000 c/gpu-1=8000"},
	{"not on one server now", "a t4:8000 t4:8000/8000; b t4:8000", "app a 2 100%", NULL, NULL,
		false,
		"!NoCapacity: one GPU server per pod: ask for fewer GPUs, or create the pod again "
		"when others have ended"},
	{"room on two servers alone", "a t4:8000; b t4:8000", "app a 1 100%; app b 1 100%", NULL,
		NULL, false,
		"!NoCapacity: not on one server, and this launcher reaches one GPU server per pod: "
		"ask for less, or put each container into a pod of its own"},
	{"one container, over two servers", "a t4:8000 t4:8000; b t4:8000", "app a 3 100%", NULL,
		NULL, false, "!NoCapacity: one GPU server per pod: ask for fewer GPUs"},
	{"taken, and never on one server", "a t4:8000/1; b t4:8000/1", "app a 1 100%; app b 1 100%",
		NULL, NULL, false,
		"!NoCapacity: one GPU server per pod: ask for less, or put each container into a "
		"pod of its own"},
	{"three of which two fit", "a t4:8000 t4:8000; b t4:8000",
		"app a 1 8000; app b 1 8000; app c 1 8000", NULL, NULL, false,
		"!NoCapacity: the pool has that, but not on one server"},
};

static void print_holds(const struct inventory *inv, const struct placement *p, struct buf *b)
{
	for (size_t i = 0; i < p->n_holds; i++) {
		const struct gpu_server *s = &inv->servers[p->holds[i].server];

		buf_fmt(b, "%s%s/%s=%llu", i ? " " : "", s->name, s->gpus[p->holds[i].gpu].id,
			(unsigned long long)(p->holds[i].bytes / MB));
	}
}

static void check_refusal(const struct row *r, const char *want, const struct err *e)
{
	const char *colon = strchr(want, ':');
	size_t len = colon ? (size_t)(colon - want) : strlen(want);

	if (strlen(e->reason) != len || strncmp(e->reason, want, len) != 0 ||
		(colon && !strstr(e->msg, colon + 2)))
		fail_msg("%s: got %s: %s", r->what, e->reason, e->msg);
	for (const char *c = e->msg; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			fail_msg("%s: not printable ASCII: %s", r->what, e->msg);
}

static void check_rows(const struct row *table, size_t n, bool one_server)
{
	for (size_t i = 0; i < n; i++) {
		const struct row *r = &table[i];
		struct placement p = {0};
		struct demand d;
		struct err e = {0};
		struct pool pool;
		struct buf got;
		int rc;

		pool_init(&pool, r->pool);
		demand_init(&d, &pool.arena, r->demand, r->filters, r->servers, r->whole);
		d.one_server = one_server;
		rc = pool_place(&pool, &d, &p, &e);
		buf_init(&got, 4096);
		print_holds(&pool.inv, &p, &got);
		if (*r->want == '!') {
			if (rc != ERR_REFUSED)
				fail_msg("%s: not refused: %s", r->what, got.data);
			check_refusal(r, r->want + 1, &e);
		} else {
			if (rc != 0)
				fail_msg("%s: refused: %s", r->what, e.msg);
			if (strcmp(got.data ? got.data : "", r->want) != 0)
				fail_msg("%s: got %s", r->what, got.data);
		}
		buf_release(&got);
		pool_release(&pool);
	}
}

TEST(test_table)
{
	check_rows(rows, COUNT(rows), false);
	check_rows(alone, COUNT(alone), true);
}

TEST(test_demand_bytes)
{
	static const struct {
		uint32_t percent;
		uint64_t mb, gpu, want;
	} cases[] = {
		{100, 0, 16944988160, 16944988160},
		{50, 0, 16944988161, 8472494080},
		{1, 0, 99, 0},
		{33, 0, 100, 33},
		{99, 0, UINT64_MAX, 18262276632972456098u},
		{100, 0, UINT64_MAX, UINT64_MAX},
		{0, 8000, 1, 8000000000},
		{0, UINT64_MAX, 1, UINT64_MAX},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct demand_container c = {.percent = cases[i].percent, .memory_mb = cases[i].mb};
		struct gpu g = {.bytes = cases[i].gpu};

		assert_int_equal(demand_bytes(&c, &g), cases[i].want);
	}
}

/* Percents that sum to 100 fit on one GPU of any size. */
TEST(test_percent_sums)
{
	for (uint64_t bytes = 1; bytes < 3000; bytes += 7)
		for (uint32_t p = 1; p < 100; p++) {
			struct demand_container a = {.percent = p}, b = {.percent = 100 - p};
			struct gpu g = {.bytes = bytes};

			assert_true(demand_bytes(&a, &g) + demand_bytes(&b, &g) <= bytes);
		}
}

/* The sentence keeps its advice whatever names are in it. */
TEST(test_sentence_never_cut)
{
	char demand[2048], filters[1024], pool_text[2048];
	struct placement p;
	struct demand d;
	struct err e = {0};
	struct pool pool;
	char name[254];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	snprintf(pool_text, sizeof(pool_text),
		"a%s l=%s t4:8000/7000p; b%s claims=256 l=%s t4:8000; c%s l=%s t4:8000/7000p "
		"t4:8000/6000",
		name, name, name, name, name, name);
	snprintf(filters, sizeof(filters), "l=%s l=%s l=%s", name, name, name);
	snprintf(demand, sizeof(demand),
		"app %s1 2 90%%; app %s2 1 90%%; side %s3 3 90%%; init %s4 1 80%%", name, name,
		name, name);
	pool_init(&pool, pool_text);
	demand_init(&d, &pool.arena, demand, filters, NULL, false);
	assert_int_equal(pool_place(&pool, &d, &p, &e), ERR_REFUSED);
	assert_non_null(strstr(e.msg, "if nobody else used it"));
	pool_release(&pool);
}

TEST(test_copies)
{
	static const struct {
		const char *pool, *demand;
		bool whole;
		size_t limit, want;
	} cases[] = {
		{TWO, "app a 1 100%", false, 10, 3},
		{TWO, "app a 1 50%", false, 10, 6},
		{TWO, "app a 1 50%", false, 4, 4},
		{TWO, "app a 2 50%", false, 10, 2},
		{TWO, "app a 1 7000; init i 1 8000", false, 10, 4},
		{TWO, "app a 1 10%", true, 10, 2},
		{TWO, "app a 1 20000", false, 10, 0},
		{"a claims=250 t4:8000", "app a 1 1%", false, 100, 5},
		{"a claims=250 t4:8000/7000", "app a 1 1%", false, 100, 6},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct demand d;
		struct pool pool;
		bool more = true;

		pool_init(&pool, cases[i].pool);
		demand_init(&d, &pool.arena, cases[i].demand, NULL, NULL, cases[i].whole);
		assert_int_equal(placement_copies(&pool.inv, &pool.use, &d, cases[i].limit,
					 &pool.arena, &more),
			cases[i].want);
		assert_false(more);
		/* who ends early says so, wherever that is */
		for (uint64_t budget = 1; budget <= 300; budget++) {
			struct usage hurried = pool.use;
			size_t n;

			hurried.budget = budget;
			n = placement_copies(
				&pool.inv, &hurried, &d, cases[i].limit, &pool.arena, &more);
			assert_true(n <= cases[i].want && (more || n == cases[i].want));
			assert_false(more && n == cases[i].limit);
		}
		pool_release(&pool);
	}
}

/* However much is asked of however large a pool: the search ends, and says why. What is asked for
 * in one piece has room for it. */
TEST(test_the_search_has_a_budget)
{
	struct buf text;
	struct arena a;
	struct pool pool;
	struct demand d;
	struct placement where;
	struct err err = {0};
	bool more = false;

	buf_init(&text, 1 << 20);
	arena_init(&a, 1 << 20);
	for (int i = 0; i < 400; i++)
		buf_fmt(&text,
			"%ss%03d t4:8000 t4:8000 t4:8000 t4:8000 t4:8000 t4:8000 t4:8000 t4:8000",
			i ? "; " : "", i);
	pool_init(&pool, text.data);
	demand_init(&d, &pool.arena, "app a 3000 1%", NULL, NULL, false);
	assert_int_equal(pool_place(&pool, &d, &where, &err), 0);
	assert_int_equal(where.n_holds, 3000);
	assert_true(placement_copies(&pool.inv, &pool.use, &d, 100, &pool.arena, &more) >= 1);
	assert_true(more);
	text.len = 0;
	for (int i = 0; i < 30; i++)
		buf_fmt(&text, "%sapp a%d 3000 1%%", i ? "; " : "", i);
	demand_init(&d, &pool.arena, text.data, NULL, NULL, false);
	assert_int_equal(pool_place(&pool, &d, &where, &err), ERR_REFUSED);
	assert_string_equal(err.reason, "SearchTooLong");
	assert_non_null(strstr(err.msg, "budget of 500000 steps was used up"));
	pool_release(&pool);
	arena_release(&a);
	buf_release(&text);
}

/* Who does not begin at the first name takes the next one that serves as well, and prefers what
 * fits better all the same. */
TEST(test_first)
{
	static const struct {
		const char *pool, *demand;
		bool one_server;
		const char *want[4]; /* server by where the search begins */
	} cases[] = {
		{"a t4:8000; b t4:8000; c t4:8000", "app a 1 100%", false, {"a", "b", "c", "a"}},
		{"a t4:8000; b t4:8000/8000; c t4:8000", "app a 1 100%", false,
			{"a", "c", "c", "a"}},
		{"a t4:8000; b t4:8000/8000; c t4:8000", "app a 1 100%", true,
			{"a", "c", "c", "a"}},
		{"a t4:8000; b t4:8000; c t4:8000/4000", "app a 1 50%", false,
			{"c", "c", "c", "c"}},
		{"a t4:8000; b t4:8000; c t4:8000/8000", "app a 1 50%", false,
			{"a", "b", "a", "a"}},
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		for (size_t first = 0; first < 4; first++) {
			struct placement p;
			struct demand d;
			struct pool pool;

			pool_init(&pool, cases[i].pool);
			demand_init(&d, &pool.arena, cases[i].demand, NULL, NULL, false);
			d.one_server = cases[i].one_server;
			pool.use.first = first;
			assert_int_equal(pool_place(&pool, &d, &p, NULL), 0);
			assert_string_equal(
				pool.inv.servers[p.holds[0].server].name, cases[i].want[first]);
			pool_release(&pool);
		}
}

TEST(test_no_memory)
{
	struct placement p;
	struct demand d;
	struct err e = {0};
	struct pool pool;
	size_t refused = 0;

	pool_init(&pool, TWO);
	demand_init(&d, &pool.arena, "app a 1 50%; init b 2 10%", "zone=attic", "gpu-02", false);
	for (size_t max = 0; max < 4096; max += 16) {
		struct arena small;
		int rc;

		arena_init(&small, max);
		rc = placement_find(&pool.inv, &pool.use, &d, &small, &p, &e);
		assert_true(rc == 0 || rc == ERR_NOMEM);
		refused += rc == ERR_NOMEM;
		arena_release(&small);
	}
	assert_true(refused > 0 && refused < 256);
	pool_release(&pool);
}

TESTS(test_table, test_demand_bytes, test_percent_sums, test_sentence_never_cut,
	test_the_search_has_a_budget, test_copies, test_first, test_no_memory)

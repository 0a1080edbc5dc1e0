/* SPDX-License-Identifier: Apache-2.0 */
/* test: which GPUs a pod is given, what a refusal says, and that no outcome breaks the rules. */
#include "base/buf.h"
#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pool/server_kinds.h"
#include "webhook/core/pool/server_words.h"

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

/* ---- random pools against a search that tries everything ---- */

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

TEST(test_random)
{
	unsigned yes = 0, no = 0, missed = 0;

	seed = 1;
	for (unsigned i = 0; i < 20000; i++) {
		struct placement p;
		struct demand d;
		struct err e = {0};
		struct pool pool;
		int rc;

		random_pool(&pool);
		random_demand(&d, &pool);
		rc = pool_place(&pool, &d, &p, &e);
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
struct kept {
	struct server_kinds kinds;
	struct server_words words;
	uint32_t *kind;
};

static void forget(struct kept *k, size_t at)
{
	server_kinds_drop(&k->kinds, k->kind[at]);
	server_words_drop(&k->words, at);
	k->kind[at] = 0;
}

static void keep(struct kept *k, size_t at, const struct gpu_server *s)
{
	assert_true(server_words_take(&k->words, at, s));
	k->kind[at] = server_kinds_take(&k->kinds, k->kind[at], s);
	assert_true(k->kind[at] > 0 && k->kind[at] < k->kinds.n);
}

/* As somebody keeps it who forgets some and has others change. */
static void keep_kinds(struct pool *pool, struct kept *k)
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

static void kept_release(struct kept *k)
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
	for (unsigned i = 0; i < 10000; i++) {
		struct placement p = {0};
		struct demand d, one;
		struct room_index index = {0}, index2 = {0};
		struct kept kept = {0};
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
		check_same(&scattered, &d, &p, rc, &err);
		pool.use.room = keep_room(&pool, &index);
		check_same(&pool, &d, &p, rc, &err);
		scattered.use.room = keep_room(&scattered, &index2);
		check_same(&scattered, &d, &p, rc, &err);
		keep_kinds(&scattered, &kept);
		check_same(&scattered, &d, &p, rc, &err);
		hurried += check_hurried(&scattered, &d, &p, rc, &err);
		scattered.use.room = NULL;
		check_same(&scattered, &d, &p, rc, &err);
		kept_release(&kept);
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
	struct kept kept = {0};
	struct room_index index = {0};
	struct pool pool;
	struct err err = {0};
	struct buf b;

	buf_init(&b, 65536);
	for (unsigned i = 0; i < 40; i++)
		buf_fmt(&b, "%ss%02u zone=z%u host=h%u m0:8 m0:8", i ? "; " : "", i, i % 2, i);
	pool_init(&pool, b.data);
	pool.use.room = keep_room(&pool, &index);
	keep_kinds(&pool, &kept);
	for (size_t i = 0; i < pool.inv.n_servers; i++) {
		struct gpu_server *s = &pool.inv.servers[i];

		if (!kept.kind[i])
			keep(&kept, i, s);
		s->labels = other;
		s->address = "s00:56001";
	}
	pool.inv.kinds = kept.kinds.servers;
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
	kept_release(&kept);
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

TESTS(test_table, test_demand_bytes, test_percent_sums, test_sentence_never_cut,
	test_the_search_has_a_budget, test_copies, test_first, test_no_memory, test_random,
	test_random_single, test_every_server, test_no_server_is_asked_for_its_words,
	test_the_smallest_gpus, test_what_a_search_looks_at)

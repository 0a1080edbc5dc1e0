/* SPDX-License-Identifier: Apache-2.0 */
/* test: the ledger of a single process: identity, undo, release, time to live, other inventories,
 * and eight threads. */
#include <time.h>

#include <pthread.h>

#include "base/buf.h"
#include "base/clock.h"
#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/policy/policy.h"
#include "webhook/edge/metrics/metrics.h"
#include "webhook/edge/pool/ledger_memory.h"

#define NONE ((struct slice){0})

struct fixture {
	struct ledger *l;
	struct arena a;
	struct err e;
	struct claim_answer answer;
};

static struct fixture fix;

static void inventory_set(struct ledger *l, const char *text)
{
	struct pool p;

	pool_init(&p, text);
	assert_int_equal(ledger_memory_set_inventory(l, &p.inv, NULL), 0);
	/* It was copied. */
	pool_release(&p);
}

static void begin(const char *pool, int64_t ttl)
{
	fix = (struct fixture){.l = ledger_memory_new(ttl)};
	assert_non_null(fix.l);
	arena_init(&fix.a, 1u << 24);
	inventory_set(fix.l, pool);
}

FIXTURE(tear_down)
{
	ledger_memory_free(fix.l);
	arena_release(&fix.a);
	return 0;
}

static int take_in(struct ledger *l, struct arena *a, const char *uid, const char *name,
	const char *demand, bool dry_run, struct claim_answer *ret, struct err *err)
{
	struct demand d;
	struct claim_ask ask = {.uid = slice_of(uid),
		.namespace = SLICE("lab"),
		.name = slice_of(name),
		.demand = &d,
		.plan_hash = 5,
		.dry_run = dry_run};

	demand_init(&d, a, demand, NULL, NULL, false);
	return l->ops->take(l, &ask, a, ret, err);
}

static int take(const char *uid, const char *name, const char *demand)
{
	return take_in(fix.l, &fix.a, uid, name, demand, false, &fix.answer, &fix.e);
}

static int take_dry(const char *uid, const char *name, const char *demand)
{
	return take_in(fix.l, &fix.a, uid, name, demand, true, &fix.answer, &fix.e);
}

static void undo(uint64_t ticket)
{
	fix.l->ops->undo(fix.l, ticket);
}

static struct pool_view view(void)
{
	struct pool_view v;

	assert_int_equal(fix.l->ops->view(fix.l, true, &fix.a, &v, &fix.e), 0);
	return v;
}

static uint64_t claimed(void)
{
	struct pool_view v = view();
	uint64_t sum = 0;

	for (size_t i = 0; i < v.inventory.n_gpus; i++) {
		assert_int_equal(v.usage.claimed[i], v.usage.pending[i]);
		sum += v.usage.claimed[i];
	}
	return sum / MB;
}

static size_t claims(void)
{
	return view().n_claims;
}

TEST(test_take)
{
	struct pool_view v;

	begin("a t4:8000 t4:8000; b t4:8000", 0);
	assert_false(fix.l->may_wait);
	assert_int_equal(take("u1", "web-0", "app c 2 50%"), 0);
	assert_int_not_equal(fix.answer.ticket, 0);
	assert_int_equal(fix.answer.n_parts, 2);
	assert_string_equal(fix.answer.parts[1].server, "a");
	assert_string_equal(fix.answer.parts[1].gpu, "gpu-1");
	assert_int_equal(fix.answer.parts[1].bytes, 4000 * MB);
	assert_int_equal(take("u0", "aaa", "app c 1 100%"), 0);
	assert_string_equal(fix.answer.parts[0].server, "b");
	assert_int_equal(take("u2", "web-1", "app c 1 100%"), ERR_REFUSED);
	assert_string_equal(fix.e.reason, "NoCapacity");
	assert_non_null(strstr(fix.e.msg, "16000 MB are held by pods that have not started"));

	v = view();
	assert_int_equal(v.n_claims, 2);
	assert_string_equal(v.claims[0].name, "aaa"); /* sorted */
	assert_string_equal(v.claims[1].key, "u1");
	assert_string_equal(v.claims[1].namespace, "lab");
	assert_int_equal(v.claims[1].plan_hash, 5);
	assert_int_equal(v.claims[1].state, CLAIM_PENDING);
	assert_true(llabs(v.claims[1].since_ms / 1000 - (int64_t)time(NULL)) < 5);
	assert_int_equal(v.usage.n_claims[0], 1);
	assert_int_equal(v.usage.n_claims[1], 1);
}

TEST(test_identity)
{
	begin("a t4:8000", 0);
	/* a uid holds one claim, whatever the review asks for and whatever name it shows */
	assert_int_equal(take("u1", "web", "app c 1 10%"), 0);
	assert_int_equal(take("u1", "web", "app c 1 10%"), 0);
	assert_int_equal(fix.answer.ticket, 0);
	assert_int_equal(fix.answer.n_parts, 1);
	assert_int_equal(take("u1", "other", "app c 5 100%"), 0);
	assert_int_equal(claimed(), 800);
	/* without a uid the name decides */
	assert_int_equal(take(NULL, "web", "app c 1 10%"), 0);
	assert_int_not_equal(fix.answer.ticket, 0);
	assert_int_equal(take("", "web", "app c 1 10%"), 0);
	assert_int_equal(fix.answer.ticket, 0);
	assert_int_equal(claimed(), 1600);
	/* a uid that looks like a name is another key */
	assert_int_equal(take("lab/web", "web", "app c 1 10%"), 0);
	assert_int_not_equal(fix.answer.ticket, 0);
	/* without both each review is new */
	assert_int_equal(take(NULL, NULL, "app c 1 10%"), 0);
	assert_int_equal(take(NULL, NULL, "app c 1 10%"), 0);
	assert_int_not_equal(fix.answer.ticket, 0);
	assert_int_equal(claims(), 5);
	assert_int_equal(claimed(), 4000);
}

/* What a claim keeps of a review's names is bounded, as it is in a cluster. */
TEST(test_names_are_bounded)
{
	char uid[131] = "", name[256] = "";

	begin("a t4:8000", 0);
	memset(uid, 'u', 129);
	memset(name, 'n', 254);
	assert_int_equal(take(uid, "w", "app c 1 1%"), ERR_INVALID);
	assert_int_equal(take("u", name, "app c 1 1%"), ERR_INVALID);
	assert_int_equal(take("u\x1b[2J", "w", "app c 1 1%"), ERR_INVALID);
	assert_int_equal(take("u u", "w", "app c 1 1%"), ERR_INVALID);
	assert_int_equal(claims(), 0);
	uid[128] = name[253] = '\0';
	assert_int_equal(take(uid, name, "app c 1 1%"), 0);
}

TEST(test_dry_run)
{
	begin("a t4:8000", 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(take_dry("u1", "w", "app c 1 100%"), 0);
		assert_int_equal(fix.answer.ticket, 0);
		assert_int_equal(fix.answer.n_parts, 1);
	}
	assert_int_equal(claims(), 0);
	assert_int_equal(take("u1", "w", "app c 1 100%"), 0);
	assert_int_equal(take_dry("u2", "x", "app c 1 1%"), ERR_REFUSED);
	/* a dry answer from the claim is nothing that the claim must stand for */
	{
		uint64_t ticket = fix.answer.ticket;

		assert_int_equal(take_dry("u1", "w", "app c 1 100%"), 0);
		undo(ticket);
	}
	assert_int_equal(claims(), 0);
}

TEST(test_undo)
{
	uint64_t ticket;

	begin("a t4:8000", 0);
	undo(0);
	undo(12345);
	assert_int_equal(take("u1", "w", "app c 1 100%"), 0);
	ticket = fix.answer.ticket;
	undo(ticket);
	assert_int_equal(claimed(), 0);
	assert_int_equal(claims(), 0);

	/* a ticket does not outlive its claim */
	assert_int_equal(take("u1", "w", "app c 1 100%"), 0);
	undo(ticket);
	assert_int_equal(claims(), 1);

	/* another review was answered from it in the meantime: the claim stands */
	ticket = fix.answer.ticket;
	assert_int_equal(take("u1", "w", "app c 1 100%"), 0);
	undo(ticket);
	assert_int_equal(claims(), 1);
	assert_int_equal(claimed(), 8000);
}

static int release(const char *uid, const char *name, size_t *n)
{
	return fix.l->ops->release(fix.l, slice_of(uid), SLICE("lab"), slice_of(name), n, &fix.e);
}

/* The n-th copy from now on cannot be had; 0: each can. */
static unsigned no_copy;

/* In place of the C library's. */
char *strndup(const char *text, size_t n)
{
	size_t len = strnlen(text, n);
	char *copy = no_copy && --no_copy == 0 ? NULL : malloc(len + 1);

	if (!copy)
		return NULL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

/* Nothing is released where there is no memory for one of the words that say what. */
TEST(test_release_without_memory)
{
	static const char *const uids[] = {"u1", NULL};

	for (size_t i = 0; i < COUNT(uids); i++) {
		size_t n = 99;

		begin("a t4:8000", 0);
		assert_int_equal(take("u1", "web", "app c 1 10%"), 0);
		for (unsigned k = 1; k <= 3; k++) {
			no_copy = k;
			assert_int_equal(release(uids[i], "web", &n), ERR_NOMEM);
			assert_int_equal(no_copy, 0);
			assert_int_equal(n, 99);
			assert_int_equal(claims(), 1);
		}
		assert_int_equal(release(uids[i], "web", &n), 0);
		assert_int_equal(n, 1);
		if (i + 1 < COUNT(uids))
			tear_down(NULL);
	}
}

TEST(test_release)
{
	size_t n = 99;

	begin("a t4:8000", 0);
	assert_int_equal(take("u1", "web", "app c 1 10%"), 0);
	assert_int_equal(take("u2", "web", "app c 1 10%"), 0);
	assert_int_equal(take("u3", "web", "app c 1 10%"), 0);
	assert_int_equal(take("u4", "web1", "app c 1 10%"), 0);
	assert_int_equal(take(NULL, NULL, "app c 1 10%"), 0);
	assert_int_equal(release("u9", "web", &n), ERR_NOTFOUND);
	assert_non_null(strstr(fix.e.msg, "u9"));
	assert_int_equal(release(NULL, "nobody", &n), ERR_NOTFOUND);
	assert_non_null(strstr(fix.e.msg, "lab/nobody"));
	assert_int_equal(n, 99);
	assert_int_equal(release("u2", "web", &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(release(NULL, "web", &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(claims(), 2);
	assert_int_equal(claimed(), 1600);
	/* what has neither uid nor name is released by the key that the pool shows */
	assert_int_equal(release(view().claims[0].key, "", &n), 0);
	assert_int_equal(claims(), 1);
}

static void nap(long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

TEST(test_ttl)
{
	size_t n;

	begin("a t4:8000", 400);
	assert_int_equal(take("u1", "web", "app c 1 100%"), 0);
	assert_int_equal(take("u2", "w", "app c 1 1%"), ERR_REFUSED);
	nap(250);
	/* a reply from the claim starts its time anew */
	assert_int_equal(take("u1", "web", "app c 1 100%"), 0);
	nap(250);
	assert_int_equal(take("u2", "w", "app c 1 1%"), ERR_REFUSED);
	nap(250);
	assert_int_equal(take("u2", "w", "app c 1 1%"), 0);
	assert_int_equal(claims(), 1);
	/* the time to live can change; 0 ends nothing */
	ledger_memory_set_ttl(fix.l, 0);
	nap(420);
	assert_int_equal(claims(), 1);
	ledger_memory_set_ttl(fix.l, 10);
	assert_int_equal(claims(), 0);
	assert_int_equal(release("u2", "", &n), ERR_NOTFOUND);
}

static int ask_release(void)
{
	size_t n;

	return release("u1", "", &n);
}

static int ask_take(void)
{
	return take_dry("u2", "x", "app c 1 100%");
}

static int ask_count(void)
{
	size_t n[CLAIM_STATES];

	fix.l->ops->count(fix.l, n);
	return (int)(n[CLAIM_PENDING] + n[CLAIM_BOUND]);
}

static int ask_view(void)
{
	return (int)claims();
}

static int set_pool(void)
{
	inventory_set(fix.l, "a t4:8000");
	return 0;
}

/* Whoever comes first behind the end of a claim's time finds it ended. */
TEST(test_ttl_of_each_operation)
{
	static const struct {
		int (*ask)(void);
		int rc;
	} cases[] = {{ask_take, 0}, {ask_release, ERR_NOTFOUND}, {ask_count, 0}, {ask_view, 0},
		{set_pool, 0}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct metrics *m = metrics_new(metric_table, M_COUNT);

		assert_non_null(m);
		if (i > 0)
			(void)tear_down(NULL);
		begin("a t4:8000", 0);
		ledger_memory_tell(fix.l, m);
		assert_int_equal(take("u1", "web", "app c 1 100%"), 0);
		nap(5);
		ledger_memory_set_ttl(fix.l, 1);
		assert_int_equal(metric_value(m, M_CLAIMS_ENDED, END_EXPIRED, 0), 0);
		assert_int_equal(cases[i].ask(), cases[i].rc);
		assert_int_equal(metric_value(m, M_CLAIMS_ENDED, END_EXPIRED, 0), 1);
		ledger_memory_tell(fix.l, NULL);
		metrics_free(m);
	}
}

static size_t counted(enum claim_state s)
{
	size_t n[CLAIM_STATES];

	fix.l->ops->count(fix.l, n);
	return n[s];
}

/* Each end is counted by why, each claim by its state. */
TEST(test_counts)
{
	struct metrics *m = metrics_new(metric_table, M_COUNT);
	size_t n;

	assert_non_null(m);
	begin("a t4:8000", 0);
	ledger_memory_tell(fix.l, m);
	assert_int_equal(take("u1", "a", "app c 1 10%"), 0);
	undo(fix.answer.ticket);
	undo(fix.answer.ticket);
	assert_int_equal(metric_value(m, M_CLAIMS_ENDED, END_UNSENT, 0), 1);
	assert_int_equal(take("u2", "b", "app c 1 10%"), 0);
	assert_int_equal(take("u3", "c", "app c 1 10%"), 0);
	assert_int_equal(counted(CLAIM_PENDING), 2);
	assert_int_equal(counted(CLAIM_BOUND), 0);
	assert_int_equal(release("u2", "", &n), 0);
	assert_int_equal(metric_value(m, M_CLAIMS_ENDED, END_RELEASED, 0), 1);
	nap(20);
	ledger_memory_set_ttl(fix.l, 10);
	assert_int_equal(counted(CLAIM_PENDING), 0);
	assert_int_equal(metric_value(m, M_CLAIMS_ENDED, END_EXPIRED, 0), 1);
	metrics_free(m);
}

TEST(test_deadline)
{
	struct demand d;
	struct timespec now;
	struct claim_ask ask = {.uid = SLICE("u"), .demand = &d};

	begin("a t4:8000", 0);
	demand_init(&d, &fix.a, "app c 1 10%", NULL, NULL, false);
	clock_gettime(CLOCK_MONOTONIC, &now);
	ask.deadline_ms = (int64_t)now.tv_sec * 1000 - 1000;
	assert_int_equal(fix.l->ops->take(fix.l, &ask, &fix.a, &fix.answer, &fix.e), ERR_TIMEOUT);
	assert_int_equal(claims(), 0);
	ask.deadline_ms += 60000;
	assert_int_equal(fix.l->ops->take(fix.l, &ask, &fix.a, &fix.answer, &fix.e), 0);
}

static const struct gpu *gpu_of(const struct pool_view *v, const char *server, const char *id)
{
	const struct gpu_server *s = inventory_server(&v->inventory, slice_of(server));

	return s ? inventory_gpu(s, slice_of(id)) : NULL;
}

TEST(test_swap)
{
	struct pool_view v;
	size_t n;

	begin("a z=1 t4:8000 t4:8000; b t4:8000; c t4:8000", 0);
	assert_int_equal(take("u1", "one", "app c 2 100%"), 0);
	assert_int_equal(take("u2", "two", "app c 1 100%"), 0); /* on b */
	/* b goes, a shrinks to one smaller GPU, d comes */
	inventory_set(fix.l, "a t4:6000; c t4:8000; d t4:8000");
	v = view();
	assert_int_equal(v.inventory.n_servers, 4);
	assert_int_equal(v.inventory.n_gpus, 5);
	assert_true(gpu_of(&v, "a", "gpu-1")->missing);
	assert_false(gpu_of(&v, "a", "gpu-0")->missing);
	assert_true(gpu_of(&v, "b", "gpu-0")->missing);
	assert_string_equal(gpu_of(&v, "b", "gpu-0")->model, "t4");
	assert_string_equal(inventory_server(&v.inventory, SLICE("b"))->address, "b:56001");
	assert_int_equal(claimed(), 24000);
	assert_int_equal(v.usage.claimed[0], 8000 * MB); /* more than it has now */
	assert_int_equal(v.usage.n_claims[0], 1);
	/* nothing new on what is missing or over-full */
	assert_int_equal(take("u3", "three", "app c 2 100%"), 0);
	assert_string_equal(fix.answer.parts[0].server, "c");
	assert_string_equal(fix.answer.parts[1].server, "d");
	assert_int_equal(take("u4", "four", "app c 1 1%"), ERR_REFUSED);
	/* the swap again: what is missing stays */
	inventory_set(fix.l, "a t4:6000; c t4:8000; d t4:8000");
	assert_int_equal(view().inventory.n_gpus, 5);
	/* b comes back */
	inventory_set(fix.l, "a t4:6000; b t4:8000; c t4:8000; d t4:8000");
	v = view();
	assert_false(gpu_of(&v, "b", "gpu-0")->missing);
	assert_true(gpu_of(&v, "a", "gpu-1")->missing);
	/* the last claim takes what is missing with it */
	inventory_set(fix.l, "c t4:8000; d t4:8000");
	assert_int_equal(release("u1", "", &n), 0);
	v = view();
	assert_null(gpu_of(&v, "a", "gpu-0"));
	assert_int_equal(v.inventory.n_servers, 3);
	assert_int_equal(release(NULL, "two", &n), 0);
	v = view();
	assert_int_equal(v.inventory.n_servers, 2);
	assert_int_equal(claimed(), 16000);
	assert_int_equal(release("u3", "", &n), 0);
	assert_int_equal(claimed(), 0);
}

TEST(test_bound)
{
	char uid[16];

	begin("a t4:80000", 0);
	for (int i = 0; i < CLAIMS_PER_SERVER_MAX; i++) {
		snprintf(uid, sizeof(uid), "u%d", i);
		assert_int_equal(take(uid, uid, i ? "app c 1 1" : "app c 1 50000"), 0);
	}
	assert_int_equal(take("more", "more", "app c 1 1"), ERR_REFUSED);
	assert_non_null(strstr(fix.e.msg, "256 claims"));
	assert_int_equal(take("u7", "u7", "app c 1 1"), 0);
}

/* 100 000 claims with keys in order: nothing is quadratic. */
TEST(test_many)
{
	struct buf text;
	struct arena a;
	struct timespec from, to;
	size_t n;

	buf_init(&text, 1u << 20);
	for (int i = 0; i < 50; i++)
		buf_fmt(&text, "s%02d t4:80000;", i);
	begin(text.data, 0);
	arena_init(&a, 1u << 24);
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int round = 0; round < 8; round++) {
		for (int i = 0; i < 12500; i++) {
			char uid[32];

			snprintf(uid, sizeof(uid), "uid-%08d", i);
			arena_reset(&a);
			assert_int_equal(take_in(fix.l, &a, uid, uid, "app c 1 1", false,
						 &fix.answer, &fix.e),
				0);
		}
		for (int i = 0; i < 12500; i++) {
			char uid[32];

			snprintf(uid, sizeof(uid), "uid-%08d", i);
			assert_int_equal(release(i % 2 ? uid : NULL, uid, &n), 0);
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	print_message("100000 claims taken and released in %.2f s\n",
		(double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
	assert_int_equal(claims(), 0);
	assert_int_equal(claimed(), 0);
	arena_release(&a);
	buf_release(&text);
}

/* ---- threads ---- */

#define THREADS 8
#define ROUNDS 1500

struct worker {
	struct ledger *l;
	unsigned n;
	unsigned taken, refused, broken;
};

static void check_sums(struct worker *w, struct arena *a)
{
	struct pool_view v;
	uint64_t parts = 0, counted = 0;

	if (w->l->ops->view(w->l, true, a, &v, NULL) != 0) {
		w->broken++;
		return;
	}
	for (size_t s = 0; s < v.inventory.n_servers; s++)
		for (size_t g = 0; g < v.inventory.servers[s].n_gpus; g++) {
			size_t at = v.inventory.servers[s].first_gpu + g;

			counted += v.usage.claimed[at];
			w->broken += v.usage.claimed[at] > v.inventory.servers[s].gpus[g].bytes;
		}
	for (size_t i = 0; i < v.n_claims; i++)
		for (size_t p = 0; p < v.claims[i].n_parts; p++)
			parts += v.claims[i].parts[p].bytes;
	w->broken += parts != counted;
}

static void *work(void *arg)
{
	static const char *const demands[] = {
		"app c 1 30%", "app c 2 50%", "app c 1 5000; init i 1 6000", "app c 3 20%"};
	struct worker *w = arg;
	struct arena a;

	arena_init(&a, 1u << 22);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct claim_answer answer = {0};
		char uid[32];
		size_t n;
		int rc;

		arena_reset(&a);
		/* every second uid is shared by all threads */
		snprintf(uid, sizeof(uid), "u-%u-%u", i % 2 ? w->n : 99, i % 50);
		rc = take_in(
			w->l, &a, uid, uid, demands[(i + w->n) % 4], i % 7 == 0, &answer, NULL);
		w->taken += rc == 0;
		w->refused += rc == ERR_REFUSED;
		w->broken += rc != 0 && rc != ERR_REFUSED;
		if (i % 3 == 0)
			w->l->ops->undo(w->l, answer.ticket);
		else if (i % 3 == 1)
			w->l->ops->release(w->l, slice_of(uid), NONE, NONE, &n, NULL);
		if (i % 16 == 0)
			check_sums(w, &a);
		if (w->n == 0 && i % 64 == 0)
			inventory_set(
				w->l, i % 128 ? "a t4:8000 t4:8000 t4:8000; b t4:9000"
					      : "a t4:8000 t4:8000 t4:8000; b t4:9000; c t4:9000");
	}
	arena_release(&a);
	return NULL;
}

TEST(test_threads)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	unsigned taken = 0, refused = 0;

	begin("a t4:8000 t4:8000 t4:8000; b t4:9000", 0);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.l = fix.l, .n = i};
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(workers[i].broken, 0);
		taken += workers[i].taken;
		refused += workers[i].refused;
	}
	print_message("%u taken, %u refused\n", taken, refused);
	assert_true(taken > 100 && refused > 100);
	/* all that is left is in the list, and ends with it */
	ledger_memory_set_ttl(fix.l, 1);
	nap(5);
	assert_int_equal(claims(), 0);
	assert_int_equal(claimed(), 0);
}

TEST(test_no_memory)
{
	unsigned failed = 0;

	begin("a t4:8000 t4:8000", 0);
	for (size_t max = 0; max < 3000; max += 16) {
		struct claim_answer answer = {0};
		struct claim_ask ask = {.uid = SLICE("u"), .demand = NULL};
		struct demand d;
		struct arena a;
		int rc;

		demand_init(&d, &fix.a, "app c 2 50%", NULL, NULL, false);
		ask.demand = &d;
		arena_init(&a, max);
		rc = fix.l->ops->take(fix.l, &ask, &a, &answer, &fix.e);
		assert_true(rc == 0 || rc == ERR_NOMEM);
		failed += rc != 0;
		assert_int_equal(claims(), rc == 0);
		fix.l->ops->undo(fix.l, answer.ticket);
		arena_release(&a);
	}
	assert_true(failed > 5 && failed < 150);
	ledger_memory_free(NULL);
}

/* Rule R15: a server that is renamed takes nothing before the claims under its old name have ended.
 */
TEST(test_renamed)
{
	struct pool_view v;
	size_t n;

	begin("b at=h:1 t4:8000", 0);
	assert_int_equal(take("u1", "one", "app c 1 50%"), 0);
	inventory_set(fix.l, "a at=H.:01 t4:8000");
	v = view();
	assert_true(gpu_of(&v, "b", "gpu-0")->missing);
	assert_false(gpu_of(&v, "a", "gpu-0")->fit);
	assert_int_equal(take("u2", "two", "app c 1 50%"), ERR_REFUSED);
	assert_non_null(
		strstr(fix.e.msg, "1 unfit, 1 gone (a/gpu-0: GPUServer b, which came first, has"));
	assert_int_equal(release("u1", "", &n), 0);
	assert_int_equal(take("u2", "two", "app c 1 50%"), 0);
}

/* Rule R15: all of its GPUs take nothing, and say why; others serve as before. */
TEST(test_renamed_beside_others)
{
	static const char *const ids[] = {"gpu-0", "gpu-1"};
	struct pool_view v;

	begin("b at=h:1 t4:8000 t4:8000; c t4:8000", 0);
	assert_int_equal(take("u1", "one", "app c 1 50%"), 0);
	inventory_set(fix.l, "a at=h:1 t4:8000 t4:8000; c t4:8000; d at=i:1 t4:8000");
	v = view();
	assert_int_equal(v.inventory.n_gpus, 5);
	assert_true(gpu_of(&v, "b", "gpu-0")->missing);
	for (size_t i = 0; i < 2; i++) {
		const struct gpu *g = gpu_of(&v, "a", ids[i]);

		assert_false(g->fit || g->missing);
		assert_non_null(strstr(g->why, "GPUServer b, which came first"));
		g = gpu_of(&v, i ? "c" : "d", "gpu-0");
		assert_true(g->fit && !g->missing);
		assert_string_equal(g->why, "");
	}
	assert_int_equal(take("u2", "two", "app c 2 100%"), 0);
	assert_int_equal(take("u3", "three", "app c 1 1%"), ERR_REFUSED);
}

/* "lab" and "ward" pick it, other namespaces none. */
static int of_two(void *ctx, struct slice namespace, struct arena *a, const struct policy **ret,
	struct err *err)
{
	(void)a;
	*ret = slice_is(namespace, "lab") || slice_is(namespace, "ward") ? ctx : NULL;
	return slice_is(namespace, "gone") ? err_set(err, ERR_TIMEOUT, "nobody knows") : 0;
}

static struct policy small = {.name = "small", .gpus = 3, .bytes = UINT64_MAX};
static const struct policy_source two = {&small, of_two};

static int take_by(const struct policy *p, const char *namespace, const char *uid,
	const char *demand, bool dry_run)
{
	struct demand d;
	struct claim_ask ask = {.uid = slice_of(uid),
		.namespace = slice_of(namespace),
		.name = slice_of(uid),
		.demand = &d,
		.policy = p,
		.policies = &two,
		.dry_run = dry_run};

	demand_init(&d, &fix.a, demand, NULL, NULL, false);
	fix.e = (struct err){0};
	return fix.l->ops->take(fix.l, &ask, &fix.a, &fix.answer, &fix.e);
}

TEST(test_caps_are_over_all_namespaces)
{
	uint64_t ticket;
	size_t n;

	begin("a t4:8000 t4:8000; b t4:8000 t4:8000 t4:8000", 0);
	assert_int_equal(take_by(NULL, "other", "u0", "app c 1 50%", false), 0);
	assert_int_equal(take_by(NULL, "gone", "u9", "app c 1 50%", false), 0);
	assert_int_equal(take_by(&small, "lab", "u1", "app c 2 50%", false), 0);
	assert_int_equal(take_by(&small, "ward", "u2", "app c 2 10%", false), ERR_REFUSED);
	assert_string_equal(fix.e.reason, "PolicyFull");
	assert_non_null(strstr(fix.e.msg, "of which they hold 2 (lab 2), and the pod takes 2"));
	assert_int_equal(take_by(&small, "ward", "u2", "app c 2 10%", true), ERR_REFUSED);
	assert_int_equal(take_by(&small, "ward", "u3", "app c 1 10%", false), 0);
	assert_int_equal(take_by(&small, "lab", "u4", "app c 1 10%", false), ERR_REFUSED);
	/* who holds his claim already is answered from it */
	assert_int_equal(take_by(&small, "ward", "u3", "app c 1 10%", false), 0);
	assert_int_equal(fix.l->ops->release(fix.l, SLICE("u3"), NONE, NONE, &n, &fix.e), 0);
	assert_int_equal(take_by(&small, "lab", "u4", "app c 1 10%", false), 0);
	ticket = fix.answer.ticket;
	assert_int_equal(take_by(&small, "ward", "u7", "app c 1 10%", false), ERR_REFUSED);
	assert_non_null(strstr(fix.e.msg, "of which they hold 3 (lab 3), and the pod takes 1"));
	undo(ticket);
	small.gpus = UINT32_MAX;
	small.bytes = 9000 * MB;
	assert_int_equal(take_by(&small, "ward", "u5", "app c 1 20%", false), ERR_REFUSED);
	assert_int_equal(take_by(&small, "ward", "u5", "app c 1 10%", false), 0);
	assert_int_equal(take_by(NULL, "other", "u6", "app c 1 20%", false), 0);
}

/* Nobody knows it before the deadline. */
static int of_slow(void *ctx, struct slice namespace, struct arena *a, const struct policy **ret,
	struct err *err)
{
	(void)namespace, (void)a, (void)err;
	while (clock_ms() < *(int64_t *)ctx)
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	*ret = NULL;
	return 0;
}

/* A claim that is decided when its review's time is over is not kept. */
TEST(test_deadline_passes_on_the_way)
{
	struct demand d;
	int64_t until = clock_ms() + 100;
	const struct policy_source slow = {&until, of_slow};
	struct claim_ask ask = {.uid = SLICE("u"),
		.namespace = SLICE("lab"),
		.demand = &d,
		.policy = &small,
		.policies = &slow,
		.deadline_ms = until};

	begin("a t4:8000", 0);
	demand_init(&d, &fix.a, "app c 1 10%", NULL, NULL, false);
	assert_int_equal(take("u1", "web", "app c 1 10%"), 0);
	assert_int_equal(fix.l->ops->take(fix.l, &ask, &fix.a, &fix.answer, &fix.e), ERR_TIMEOUT);
	assert_int_equal(claims(), 1);
	ask.dry_run = true;
	ask.deadline_ms = until = clock_ms() + 100;
	assert_int_equal(fix.l->ops->take(fix.l, &ask, &fix.a, &fix.answer, &fix.e), ERR_TIMEOUT);
	ask.deadline_ms = 0;
	assert_int_equal(fix.l->ops->take(fix.l, &ask, &fix.a, &fix.answer, &fix.e), 0);
	assert_int_equal(claims(), 1);
}

TESTS_BETWEEN(NULL, tear_down, test_caps_are_over_all_namespaces, test_take, test_identity,
	test_names_are_bounded, test_dry_run, test_undo, test_release, test_release_without_memory,
	test_ttl, test_ttl_of_each_operation, test_counts, test_deadline,
	test_deadline_passes_on_the_way, test_swap, test_renamed, test_renamed_beside_others,
	test_bound, test_many, test_threads, test_no_memory)

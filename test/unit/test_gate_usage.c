/* SPDX-License-Identifier: Apache-2.0 */
/* test: what is used of GPUs beside what claims hold of them, look after look. */
#include "gate/usage.h"
#include "test/unit/test.h"

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)
#define STRANGE 900 /* pids from here on are of no claim; 990 and more may be there */

static struct picture_gpu gpus_a[] = {{"GPU-1", 4 * GIB, 16 * GIB}, {"GPU-2", 4 * GIB, 16 * GIB}};
static struct picture_gpu gpus_b[] = {{"GPU-1", 8 * GIB, 16 * GIB}};
static struct picture_claim claims[] = {
	{.uid = "a", .gpu = gpus_a, .n_gpus = 2}, {.uid = "b", .gpu = gpus_b, .n_gpus = 1}};
static const struct picture picture = {.claim = claims, .n_claims = 2};
static const struct usage_rules rules = {.context_bytes = 500 * MIB, .margin_percent = 5};
static struct gate_usage usage;

/* 1xx is of a, 2xx of b, 3xx of a claim that the picture does not have. */
static const char *claim_of(void *ctx, pid_t pid)
{
	static const char *const uids[] = {NULL, "a", "b", "c"};

	(void)ctx;
	return pid < 400 ? uids[pid / 100] : NULL;
}

static bool passes(void *ctx, pid_t pid)
{
	(void)ctx;
	return pid >= 990;
}

static const struct usage_who who = {NULL, claim_of, passes};

FIXTURE(set_up)
{
	usage = (struct gate_usage){0};
	return 0;
}

FIXTURE(tear_down)
{
	usage_release(&usage);
	return 0;
}

/* A line of a look as the other process writes it. */
static void look(const char *line, int64_t now_ms)
{
	struct usage_look seen;
	struct err err = {0};
	struct arena a;

	arena_init(&a, 1u << 20);
	assert_int_equal(usage_look_read(slice_of(line), &a, &seen, &err), 0);
	assert_int_equal(usage_judge(&usage, &seen, &picture, &rules, &who, now_ms, &err), 0);
	arena_release(&a);
}

#define ON(id, processes) "{\"id\":\"" id "\",\"processes\":[" processes "]}"
#define HAS(pid, bytes) "{\"pid\":" #pid ",\"known\":true,\"bytes\":" #bytes "}"
#define NOT_TOLD(pid) "{\"pid\":" #pid ",\"known\":false,\"bytes\":0}"

TEST(a_look_is_read_as_it_was_written)
{
	struct usage_process p[] = {{7, true, 5 * GIB}, {8, false, 0}};
	struct usage_gpu g[] = {{"GPU-1", p, 2}, {"MIG-2", NULL, 0}};
	const struct usage_look from = {g, 2, ""};
	struct usage_look to;
	struct err err = {0};
	struct arena a;
	struct buf b;

	arena_init(&a, 1u << 20);
	buf_init(&b, 4096);
	usage_look_write(&from, &b);
	assert_int_equal(usage_look_read(buf_as_slice(&b), &a, &to, &err), 0);
	assert_int_equal(to.n_gpus, 2);
	assert_string_equal(to.gpus[1].id, "MIG-2");
	assert_int_equal(to.gpus[0].n_processes, 2);
	assert_int_equal(to.gpus[0].processes[0].bytes, 5 * GIB);
	assert_false(to.gpus[0].processes[1].known);
	assert_string_equal(to.error, "");
	assert_int_equal(
		usage_look_read(SLICE("{\"gpus\":[{\"id\":\"x\",\"processes\":[{\"pid\":0}]}]}"),
			&a, &to, &err),
		ERR_INVALID);
	assert_int_equal(usage_look_read(SLICE("{"), &a, &to, &err), ERR_SYNTAX);
	buf_release(&b);
	arena_release(&a);
}

/* The share, five in a hundred of it, and a context for each process. */
TEST(what_a_claim_may_have)
{
	/* 4 GiB, 5 % of it, and 2 × 500 MiB */
	look("{\"gpus\":[" ON("GPU-1", HAS(101, 2779145828) "," HAS(102, 2779145828)) "]}", 1000);
	/* the other one has no process */
	assert_int_equal(usage.n_claims, 2);
	assert_int_equal(usage.claims[0].since_ms, 0);
	assert_int_equal(usage.claims[0].processes, 2);
	assert_int_equal(usage.claims[1].processes, 0);
	assert_int_equal(usage.used, UINT64_C(5558291656));
	look("{\"gpus\":[" ON("GPU-1", HAS(101, 2779145828) "," HAS(102, 2779145829)) "]}", 2000);
	assert_int_equal(usage.claims[0].since_ms, 2000);
	assert_string_equal(usage.claims[0].gpu, "GPU-1");
	assert_int_equal(usage.claims[0].share, 4 * GIB);
	/* what another claim leaves is not his, nor what he leaves on another GPU */
	look("{\"gpus\":[" ON("GPU-1", HAS(101, 7000000000)) "," ON("GPU-2", "") "]}", 2500);
	assert_int_equal(usage.claims[0].since_ms, 2000);
	/* a GPU of which it has nothing: a context alone */
	look("{\"gpus\":[" ON("GPU-2", HAS(201, 524288000)) "]}", 3000);
	assert_int_equal(usage.claims[0].since_ms, 0);
	look("{\"gpus\":[" ON("GPU-2", HAS(201, 524288001)) "]}", 3000);
	assert_int_equal(usage.claims[0].since_ms, 3000);
}

TEST(ten_seconds_and_it_is_told_once)
{
	const char *const more = "{\"gpus\":[" ON("GPU-1", HAS(101, 9000000000)) "]}";
	const char *const less = "{\"gpus\":[" ON("GPU-1", HAS(101, 90)) "]}";

	look(more, 1000);
	look(more, 6000);
	look(less, 9000);
	look(more, 10000);
	assert_false(usage.claims[0].over);
	look(more, 19999);
	assert_false(usage.claims[0].over);
	look(more, 20000);
	assert_true(usage.claims[0].over);
	assert_false(usage.claims[0].told);
	assert_int_equal(usage.n_over, 1);
	look(more, 25000);
	assert_true(usage.claims[0].over && usage.claims[0].told);
	look(less, 26000);
	assert_int_equal(usage.n_over, 0);
	/* who is gone is forgotten */
	look("{\"gpus\":[]}", 27000);
	look(more, 40000);
	assert_false(usage.claims[0].over);
}

TEST(strangers_and_who_may_be_there)
{
	look("{\"gpus\":[" ON("GPU-1", HAS(900, 5) "," HAS(995, 6) "," HAS(201, 7)) "," ON(
		     "GPU-2", HAS(900, 8)) "]}",
		1);
	assert_int_equal(usage.n_strangers, 2);
	assert_int_equal(usage.strangers[0].pid, 900);
	assert_string_equal(usage.strangers[1].gpu, "GPU-2");
	assert_false(usage.strangers[0].told);
	look("{\"gpus\":[" ON("GPU-1", HAS(900, 5) "," NOT_TOLD(901)) "]}", 2);
	assert_true(usage.strangers[0].told);
	assert_false(usage.strangers[1].told || usage.strangers[1].known);
	/* of a claim that has ended: its server is being ended, and has no share until then */
	look("{\"gpus\":[" ON("GPU-1", HAS(301, 9000000000)) "]}", 3);
	assert_int_equal(usage.n_strangers, 0);
	assert_int_equal(usage.claims[0].since_ms, 3);
}

static void assert_page(int64_t now_ms, const char *expected)
{
	struct gate_page page = {.version = GATE_PAGE_VERSION,
		.server = "gpu-01",
		.profile = "lupine",
		.mode = GATE_MODE_ADDRESS,
		.shares = GATE_SHARES_HELD,
		.known = true,
		.looked_ms = now_ms};
	struct arena a;
	struct buf b;

	arena_init(&a, 1u << 20);
	buf_init(&b, 4096);
	assert_true(usage_page(&usage, now_ms, &a, &page));
	gate_page_write(&page, &b);
	buf_char(&b, '\0');
	assert_string_equal(b.data, expected);
	buf_release(&b);
	arena_release(&a);
}

/* However many there are on the first GPU: the others' are told, too, since each closes its own. */
TEST(strangers_on_each_gpu)
{
	static struct usage_process crowd[GATE_PAGE_STRANGERS_MAX + 50];
	struct usage_process one = {STRANGE + 1, true, 7};
	struct usage_gpu g[] = {
		{"GPU-1", crowd, COUNT(crowd)}, {"GPU-2", &one, 1}, {"GPU-3", NULL, 0}};
	const struct usage_look seen = {g, COUNT(g), ""};
	struct gate_page page = {0};
	struct err err = {0};
	struct arena a;

	for (size_t i = 0; i < COUNT(crowd); i++)
		crowd[i] = (struct usage_process){STRANGE, true, i};
	assert_int_equal(usage_judge(&usage, &seen, &picture, &rules, &who, 1, &err), 0);
	assert_int_equal(usage.n_strangers, COUNT(crowd) + 1);
	arena_init(&a, 1u << 20);
	assert_true(usage_page(&usage, 1, &a, &page));
	assert_int_equal(page.n_strangers, GATE_PAGE_STRANGERS_MAX);
	assert_string_equal(page.strangers[1].gpu, "GPU-2");
	for (size_t i = 0; i < page.n_strangers; i++)
		assert_int_equal(page.strangers[i].used, i == 1 ? 7 : i > 1 ? i - 1 : 0);
	arena_release(&a);
}

/* "Not available" is neither nothing nor all ones. */
TEST(what_is_not_told_is_unknown)
{
	look("{\"gpus\":[" ON(
		     "GPU-1", NOT_TOLD(101) "," HAS(102, 100) "," HAS(201, 9007199254740991)) "]}",
		86400000);
	assert_false(usage.claims[0].known);
	assert_int_equal(usage.claims[0].used, 100);
	assert_int_equal(usage.claims[0].since_ms, 0);
	assert_true(usage.used == UINT64_C(9007199254741091));
	assert_page(86400000,
		"{\"version\":1,\"server\":\"gpu-01\",\"profile\":\"lupine\",\"mode\":\"address\","
		"\"shares\":\"held\","
		"\"known\":true,\"looked\":\"1970-01-02T00:00:00Z\",\"claims\":["
		"{\"uid\":\"a\",\"used\":100,\"known\":false,\"processes\":2,\"overShare\":false},"
		"{\"uid\":\"b\",\"used\":9007199254740991,\"known\":true,\"processes\":1,"
		"\"overShare\":false,\"gpu\":\"GPU-1\",\"has\":9007199254740991,"
		"\"share\":8589934592}],\"strangers\":[]}\n");
}

/* An hour without a process; what nobody has looked at is no such time. */
TEST(who_uses_nothing)
{
	const char *const none = "{\"gpus\":[]}", *const b = "{\"gpus\":[" ON(
							  "GPU-1", HAS(201, 7)) "]}";

	look(none, 1000);
	look(b, 31000);
	assert_int_equal(usage.claims[0].used_ms, 31000);
	assert_int_equal(usage.claims[1].used_ms, 1000);
	look(none, 61000);
	look(none, 90500);
	assert_page(91000,
		"{\"version\":1,\"server\":\"gpu-01\",\"profile\":\"lupine\",\"mode\":\"address\","
		"\"shares\":\"held\","
		"\"known\":true,\"looked\":\"1970-01-01T00:01:31Z\",\"claims\":["
		"{\"uid\":\"a\",\"used\":0,\"known\":true,\"processes\":0,\"overShare\":false,"
		"\"unusedSeconds\":90},"
		"{\"uid\":\"b\",\"used\":0,\"known\":true,\"processes\":0,\"overShare\":false,"
		"\"unusedSeconds\":60}],\"strangers\":[]}\n");
	look(none, 91000 + USAGE_GAP_MS);
	assert_int_equal(usage.claims[0].used_ms, 91000 + USAGE_GAP_MS);
}

static int page_of(const char *text, struct arena *a, struct gate_page *ret)
{
	struct json j = {0};
	struct err err = {0};
	char *copy = NULL;
	int rc = json_read_copy(&j, text, strlen(text), 4096, &copy, &err);

	assert_int_equal(rc, 0);
	rc = gate_page_read(&j, a, ret, &err);
	json_release(&j);
	free(copy);
	return rc;
}

TEST(a_page_is_read)
{
	struct gate_page p;
	struct arena a;

	arena_init(&a, 1u << 20);
	assert_int_equal(
		page_of("{\"version\":1,\"known\":true,\"looked\":\"1970-01-02T00:00:00Z\","
			"\"more\":1,\"claims\":[{\"uid\":\"u\",\"used\":7,\"known\":true,"
			"\"processes\":1,\"overShare\":true,\"gpu\":\"G\",\"has\":7,"
			"\"share\":5}],\"strangers\":[{\"pid\":9,\"gpu\":\"G\",\"known\":"
			"false,\"used\":0}]}",
			&a, &p),
		0);
	assert_true(p.known && p.looked_ms == 86400000);
	/* of a gate of before */
	assert_string_equal(p.server, "");
	assert_int_equal(p.shares, GATE_SHARES_UNKNOWN);
	assert_int_equal(p.mode, GATE_MODE_TOKEN);
	assert_int_equal(gate_page_claim(&p, SLICE("u"))->share, 5);
	assert_null(gate_page_claim(&p, SLICE("v")));
	assert_int_equal(p.strangers[0].pid, 9);
	assert_int_equal(page_of("{\"version\":2,\"known\":true}", &a, &p), ERR_INVALID);
	assert_int_equal(page_of("{\"known\":true}", &a, &p), ERR_INVALID);
	assert_int_equal(page_of("{\"version\":1}", &a, &p), ERR_INVALID);
	assert_int_equal(page_of("{\"version\":1,\"known\":true,\"shares\":\"maybe\"}", &a, &p),
		ERR_INVALID);
	assert_int_equal(
		page_of("{\"version\":1,\"known\":true,\"mode\":\"any\"}", &a, &p), ERR_INVALID);
	assert_int_equal(
		page_of("{\"version\":1,\"known\":true,\"claims\":[{\"uid\":\"\"}]}", &a, &p),
		ERR_INVALID);
	arena_release(&a);
}

static int page_that_names(const char *member, size_t length)
{
	char name[512] = "", text[1024];
	struct gate_page p;
	struct arena a;
	int rc;

	memset(name, 'a', length);
	(void)snprintf(
		text, sizeof(text), "{\"version\":1,\"known\":true,\"%s\":\"%s\"}", member, name);
	arena_init(&a, 1u << 20);
	rc = page_of(text, &a, &p);
	arena_release(&a);
	return rc;
}

/* They go into the server's status. */
TEST(a_page_has_names_of_objects)
{
	static const char *const members[] = {"server", "profile"};
	struct gate_page p;
	struct arena a;

	for (size_t i = 0; i < COUNT(members); i++) {
		assert_int_equal(page_that_names(members[i], 0), 0);
		assert_int_equal(page_that_names(members[i], 253), 0);
		assert_int_equal(page_that_names(members[i], 254), ERR_INVALID);
	}
	arena_init(&a, 1u << 20);
	assert_int_equal(
		page_of("{\"version\":1,\"known\":true,\"server\":\"A b\"}", &a, &p), ERR_INVALID);
	arena_release(&a);
}

TEST(no_memory_keeps_what_was_known)
{
	struct usage_look seen = {.n_gpus = 1, .error = ""};
	struct usage_gpu gpu = {"GPU-1", NULL, SIZE_MAX / 2};
	struct err err = {0};

	look("{\"gpus\":[" ON("GPU-1", HAS(101, 77)) "]}", 5);
	seen.gpus = &gpu;
	assert_int_equal(usage_judge(&usage, &seen, &picture, &rules, &who, 9, &err), ERR_NOMEM);
	assert_int_equal(usage.looked_ms, 5);
	assert_int_equal(usage.used, 77);
}

TESTS_BETWEEN(set_up, tear_down, a_look_is_read_as_it_was_written, what_a_claim_may_have,
	ten_seconds_and_it_is_told_once, strangers_and_who_may_be_there, strangers_on_each_gpu,
	what_is_not_told_is_unknown, who_uses_nothing, a_page_is_read, a_page_has_names_of_objects,
	no_memory_keeps_what_was_known)

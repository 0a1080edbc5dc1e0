/* SPDX-License-Identifier: Apache-2.0 */
/* test: the pool as JSON. */
#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"
#include "webhook/edge/pool/ledger_memory.h"
#include "webhook/edge/pool/pool_report.h"

static struct claim_part parts[] = {{"a", "gpu-0", 4000 * MB}, {"b", "gpu-0", 1}};
static const struct claim claims[] = {
	{.key = "u1",
		.namespace = "lab",
		.name = "web\"\n-0",
		.state = CLAIM_PENDING,
		.since_ms = 1717754400123,
		.parts = parts,
		.n_parts = 2},
	{.key = "lab/x", .namespace = "lab", .name = "x", .state = CLAIM_ADOPTED, .parts = parts},
};

static const char want[] =
	"{\"servers\":["
	"{\"name\":\"a\",\"address\":\"a:56001\",\"labels\":{\"zone\":\"lab\"},\"drain\":false,"
	"\"claims\":1,\"gpus\":["
	"{\"id\":\"gpu-0\",\"model\":\"Tesla "
	"T4\",\"bytes\":8000000000,\"freeBytes\":4000000000,\"claimedBytes\":4000000000,"
	"\"pendingBytes\":4000000000,\"fit\":true,\"fresh\":true,\"missing\":false,\"why\":\"\"},"
	"{\"id\":\"gpu-1\",\"model\":\"k80\",\"bytes\":1000000,\"freeBytes\":0,\"claimedBytes\":"
	"2000000,\"pendingBytes\":0,\"fit\":true,\"fresh\":true,\"missing\":false,\"why\":\"\"},"
	"{\"id\":\"gpu-2\",\"model\":\"k80\",\"bytes\":1000000,\"freeBytes\":1000000,"
	"\"claimedBytes\":0,\"pendingBytes\":0,\"fit\":false,\"fresh\":true,\"missing\":false,"
	"\"why\":\"ECC errors\"},"
	"{\"id\":\"gpu-3\",\"model\":\"k80\",\"bytes\":1000000,\"freeBytes\":0,\"claimedBytes\":0,"
	"\"pendingBytes\":0,\"fit\":true,\"fresh\":true,\"missing\":true,\"why\":\"\"}]},"
	"{\"name\":\"b\",\"address\":\"b:56001\",\"labels\":{},\"drain\":true,\"claims\":0,"
	"\"gpus\":["
	"{\"id\":\"gpu-0\",\"model\":\"k80\",\"bytes\":5000000,\"freeBytes\":5000000,"
	"\"claimedBytes\":0,\"pendingBytes\":0,\"fit\":true,\"fresh\":false,\"missing\":false,"
	"\"why\":\"no report\"}]}],"
	"\"claims\":["
	"{\"namespace\":\"lab\",\"name\":\"web\\\"\\n-0\",\"uid\":\"u1\",\"state\":\"pending\","
	"\"since\":\"2024-06-07T10:00:00Z\",\"parts\":["
	"{\"server\":\"a\",\"gpu\":\"gpu-0\",\"bytes\":4000000000},{\"server\":\"b\",\"gpu\":\"gpu-"
	"0\",\"bytes\":1}]},"
	"{\"namespace\":\"lab\",\"name\":\"x\",\"uid\":\"lab/"
	"x\",\"state\":\"adopted\",\"since\":\"1970-01-01T00:00:00Z\",\"parts\":[]}],"
	"\"summary\":{\"gpus\":5,\"fit\":2,\"freeBytes\":4000000000,\"claims\":2}}\n";

static struct pool pool;
static struct pool_view view;
static struct arena arena;
static struct buf out;
static struct err err;

static void begin(const char *text, const struct claim *of, size_t n)
{
	pool_init(&pool, text);
	view = (struct pool_view){
		.inventory = pool.inv, .usage = pool.use, .claims = of, .n_claims = n};
	arena_init(&arena, 1 << 20);
	buf_init(&out, 1u << 20);
}

static void end(void)
{
	buf_release(&out);
	arena_release(&arena);
	pool_release(&pool);
}

/* The pool of all these tests that ask nothing else of it. */
static void begin_mixed(void)
{
	begin("a zone=lab claims=1 Tesla_T4:8000/4000p k80:1/2 k80:1u k80:1m; b drain k80:5s",
		claims, COUNT(claims));
}

/* That page of servers, and that one of claims. */
static int write_page(uint64_t servers, uint64_t of_claims)
{
	buf_clear(&out);
	return pool_report_page(&view, (struct slice){0}, &(struct pool_page){servers, of_claims},
		&arena, &out, &err);
}

TEST(test_write)
{
	begin_mixed();
	assert_int_equal(pool_report_write(&view, (struct slice){0}, &out, &err), 0);
	assert_string_equal(out.data, want);
	end();
}

/* Who waits is told as it is given, behind the sums. */
TEST(test_who_waits)
{
	begin("", NULL, 0);
	assert_int_equal(pool_report_write(&view, SLICE("{\"pods\":[]}"), &out, &err), 0);
	assert_string_equal(out.data,
		"{\"servers\":[],\"claims\":[],\"summary\":{\"gpus\":0,\"fit\":0,\"freeBytes\":0,"
		"\"claims\":0},\"waiting\":{\"pods\":[]}}\n");
	buf_clear(&out);
	assert_int_equal(pool_report_page(&view, SLICE("null"), &(struct pool_page){1, 1}, &arena,
				 &out, &err),
		0);
	assert_non_null(strstr(out.data, "},\"waiting\":null,\"pages\":{"));
	end();
}

/* Members that a page has on top, in order. */
static void has_all(const char *text, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *at = strstr(text, words[i]);

		if (!at)
			fail_msg("nowhere, or not behind the one before: %s", words[i]);
		text = at;
	}
}

TEST(test_page)
{
	static const char *const all[] = {"\"probed\":false", "\"id\":\"gpu-0\"",
		"\"state\":\"free\",\"holds\":[{\"namespace\":\"lab\",\"name\":\"web\\\"\\n-0\","
		"\"state\":\"pending\",\"bytes\":4000000000}],\"moreHolds\":0}",
		"\"id\":\"gpu-2\"", "\"state\":\"unfit\",\"holds\":[],\"moreHolds\":0}",
		"\"state\":\"missing\"", "\"name\":\"b\"", "\"state\":\"stale\"",
		"\"summary\":{\"gpus\":5,\"fit\":2,\"freeBytes\":4000000000,\"claims\":2,"
		"\"states\":{\"bound\":1000000,\"pending\":4000000000,\"free\":4000000000,"
		"\"drained\":0,\"stale\":5000000,\"unfit\":1000000,\"missing\":1000000},"
		"\"bytes\":8008000000,\"overBytes\":1000000,\"pending\":1},",
		"\"pages\":{\"servers\":{\"page\":1,\"each\":48,\"total\":2},"
		"\"claims\":{\"page\":1,\"each\":100,\"total\":2}},\"map\":[]}\n"};

	begin_mixed();
	for (uint64_t page = 0; page < 4; page++) {
		assert_int_equal(write_page(page, 9 - page), 0);
		has_all(out.data, all, COUNT(all));
	}
	end();
}

/* On each GPU those that run stand first, then those that wait, who came first before who came
 * later. */
TEST(test_order)
{
	static const char *const words[] = {"\"id\":\"gpu-0\"", "\"old\"", "\"old-too\"", "\"new\"",
		"\"waits\"", "\"waits-too\"", "\"moreHolds\":0", "\"id\":\"gpu-1\"", "\"old\"",
		"\"old-too\"", "\"new\"", "\"waits\"", "\"waits-too\"", "\"moreHolds\":0",
		"\"name\":\"b\"", "\"pending\":2}"};
	static const struct {
		const char *name;
		enum claim_state state;
		int64_t since_ms;
	} rows[] = {{"new", CLAIM_BOUND, 300}, {"waits-too", CLAIM_PENDING, 100},
		{"old", CLAIM_BOUND, 200}, {"old-too", CLAIM_BOUND, 200},
		{"waits", CLAIM_PENDING, 50}};
	struct claim_part both[] = {{"a", "gpu-1", 1}, {"a", "gpu-0", 1}, {"gone", "gpu-0", 1}};
	struct claim all[COUNT(rows)];

	for (size_t i = 0; i < COUNT(rows); i++)
		all[i] = (struct claim){.key = "u",
			.namespace = "n",
			.name = rows[i].name,
			.state = rows[i].state,
			.since_ms = rows[i].since_ms,
			.parts = both,
			.n_parts = COUNT(both)};
	begin("a k80:1000 k80:1000; b k80:1000", all, COUNT(all));
	assert_int_equal(write_page(1, 1), 0);
	has_all(out.data, words, COUNT(words));
	end();
}

static size_t count_of(const char *text, const char *word)
{
	size_t n = 0;

	for (; (text = strstr(text, word)); text++)
		n++;
	return n;
}

/* As many pods on one GPU as are listed, and one more, on a page behind the first. */
TEST(test_longest_list)
{
	struct claim_part part = {"b", "gpu-0", 77};
	struct claim many[POOL_PAGE_HOLDS + 1];

	for (size_t i = 0; i < COUNT(many); i++)
		many[i] = (struct claim){
			.key = "u", .namespace = "n", .name = "p", .parts = &part, .n_parts = 1};
	for (size_t n = POOL_PAGE_HOLDS - 1; n <= COUNT(many); n++) {
		char more[32];

		begin("a k80:1000; b k80:1000; c k80:1000", many, n);
		assert_int_equal(write_page(1, 2), 0);
		/* Each claim stands in the list of claims, too. */
		assert_int_equal(count_of(out.data, ",\"bytes\":77}") - n,
			n < POOL_PAGE_HOLDS ? n : POOL_PAGE_HOLDS);
		(void)snprintf(more, sizeof(more), "\"moreHolds\":%d}",
			n > POOL_PAGE_HOLDS ? (int)(n - POOL_PAGE_HOLDS) : 0);
		assert_int_equal(count_of(out.data, more), n > POOL_PAGE_HOLDS ? 1 : 3);
		end();
	}
}

/* The word for each kind of server on the map, which a pool has that is larger than a page. */
TEST(test_map)
{
	static const struct {
		const char *server, *word;
	} rows[] = {
		{"k80:1000 k80:1000", "free"},
		{"k80:1000/1 k80:1000", "part"},
		{"k80:1000/1p k80:1000", "part"},
		{"k80:1000/1000 k80:1000/1000p", "bound"},
		{"k80:1000/1001 k80:1000", "over"},
		{"k80:1000u k80:1000u", "unfit"},
		{"k80:1000u k80:1000", "free"},
		{"k80:1000s", "stale"},
		{"k80:1000m", "missing"},
		{"drain k80:1000", "drained"},
	};
	struct buf text;

	for (int n = POOL_PAGE_SERVERS; n <= POOL_PAGE_SERVERS + 1; n++) {
		buf_init(&text, 1 << 16);
		for (int i = 0; i < n; i++)
			buf_fmt(&text, "%ss%02d %s", i ? "; " : "", i,
				rows[(size_t)i % COUNT(rows)].server);
		begin(text.data, NULL, 0);
		assert_int_equal(write_page(1, 1), 0);
		assert_int_equal(strstr(out.data, "\"map\":[]") != NULL, n == POOL_PAGE_SERVERS);
		for (int i = 0; n > POOL_PAGE_SERVERS && i < n; i++) {
			char word[64];

			(void)snprintf(word, sizeof(word), "[\"s%02d\",\"%s\"]", i,
				rows[(size_t)i % COUNT(rows)].word);
			if (!strstr(out.data, word))
				fail_msg("no %s", word);
		}
		end();
		buf_release(&text);
	}
}

/* A pool of 60 servers: two pages, a map of all, and more pods on a GPU than are listed. */
TEST(test_pages)
{
	static const char *const words[] = {"{\"servers\":[{\"name\":\"s48\"", "\"moreHolds\":8}",
		"\"name\":\"s59\"", "\"servers\":{\"page\":2,\"each\":48,\"total\":60}",
		"\"map\":[[\"s00\",\"free\"],", "[\"s48\",\"part\"],", "[\"s59\",\"free\"]]}\n"};
	struct claim_part part = {"s48", "gpu-0", 1000000};
	struct claim many[40];
	struct buf text;

	buf_init(&text, 1 << 16);
	for (int i = 0; i < 60; i++)
		buf_fmt(&text, "%ss%02d k80:%s", i ? "; " : "", i, i == 48 ? "1000/40" : "1000");
	for (size_t i = 0; i < COUNT(many); i++)
		many[i] = (struct claim){
			.key = "u", .namespace = "n", .name = "p", .parts = &part, .n_parts = 1};
	begin(text.data, many, COUNT(many));
	assert_int_equal(write_page(99, 1), 0);
	has_all(out.data, words, COUNT(words));
	assert_null(strstr(out.data, "\"name\":\"s47\""));
	buf_release(&out);
	buf_init(&out, 2000);
	assert_int_equal(write_page(1, 1), ERR_TOOBIG);
	end();
	buf_release(&text);
}

TEST(test_too_big)
{
	begin_mixed();
	for (size_t max = 0; max < sizeof(want) - 1; max += 97) {
		buf_release(&out);
		buf_init(&out, max);
		assert_int_equal(
			pool_report_write(&view, (struct slice){0}, &out, &err), ERR_TOOBIG);
	}
	end();
}

TEST(test_ledger)
{
	struct ledger *l = ledger_memory_new(0);

	buf_init(&out, 4096);
	assert_int_equal(pool_report(l, &out, &err), 0);
	assert_string_equal(out.data, "{\"servers\":[],\"claims\":[],\"summary\":{\"gpus\":0,"
				      "\"fit\":0,\"freeBytes\":0,\"claims\":0}}\n");
	buf_release(&out);
	ledger_memory_free(l);
}

TESTS(test_write, test_who_waits, test_page, test_order, test_longest_list, test_map, test_pages,
	test_too_big, test_ledger)

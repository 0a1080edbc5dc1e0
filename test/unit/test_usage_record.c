/* SPDX-License-Identifier: Apache-2.0 */
/* test: usage in a GPUServer's status: what is added between two commits, what a period's end does,
 * and what is kept that nobody understands (law P7). */
#include "test/unit/server_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/server/usage_record.h"

#define DAY 86400
/* 2026-11-25T00:00:00Z */
#define MIDNIGHT INT64_C(1795564800)
#define MS(s) ((s)*1000)

/* gpu-0 over-full by adoption, gpu-1 with a third free, gpu-2 unfit, gpu-3 gone, gpu-4 free but for
 * a pod that nobody has seen. */
#define GPUS                                                                                       \
	"'gpus':[{'id':'gpu-0','model':'V100','memory':16,'fit':true},"                            \
	"{'id':'gpu-1','model':'Tesla T4','memory':30,'fit':true},"                                \
	"{'id':'gpu-2','model':'V100','memory':100,'fit':false},"                                  \
	"{'id':'gpu-3','model':'V100','memory':50,'fit':true,'missing':true},"                     \
	"{'id':'gpu-4','model':'V100','memory':7,'fit':true}]"
#define CLAIM(uid, ns, state, gpus)                                                                \
	"{'uid':'" uid "','namespace':'" ns "','name':'p','state':'" state "','gpus':[" gpus "]}"
#define PART(id, bytes) "{'id':'" id "','bytes':" bytes "}"
#define CLAIMS                                                                                     \
	"'claims':[" CLAIM(                                                                        \
		"a", "ml", "bound", PART("gpu-0", "10") "," PART("gpu-1", "20")) "," CLAIM("b",    \
		"ml", "adopted", PART("gpu-0", "9")) "," CLAIM("c", "art", "bound",                \
		PART("gpu-2", "60")) "," CLAIM("d", "art", "bound",                                \
		PART("gpu-3", "5")) "," CLAIM("e", "new", "pending", PART("gpu-4", "7")) "]"
#define FULL SERVER_STATUS("{" GPUS "," CLAIMS "}")

static struct server_fixture fix;

FIXTURES(server_fixture_init, server_fixture_release)

static void begin(int64_t at_s)
{
	server_fixture_load(&fix, FULL);
	assert_true(server_usage_begin(&fix.o, MS(at_s), &fix.arena));
}

static void advance(int64_t at_s)
{
	assert_true(server_usage_advance(&fix.o, MS(at_s), &fix.arena));
}

/* As who has stored it does. */
static bool drop(void)
{
	int64_t from_s;
	const char *closed = server_usage_closed(&fix.o, &fix.arena, &from_s);

	return closed && server_usage_drop(&fix.o, closed, &fix.arena);
}

static struct usage_record record(void)
{
	struct usage_record u;

	assert_int_equal(
		usage_record_read(slice_of(fix.o.status.usage), &fix.arena, &u, &fix.err), 0);
	return u;
}

static void balanced(const struct usage_period *p)
{
	usage_sum held = 0;

	for (size_t i = 0; i < p->n_rows; i++)
		held += p->rows[i].byte_s;
	assert_true(held + p->free + p->unfit == p->capacity + p->over);
}

TEST(adds_what_stood_there)
{
	begin(MIDNIGHT + 100);
	assert_string_equal(
		fix.o.status.usage, "open 2026-11-25T00:01:40Z 2026-11-25T00:01:40Z 0 0 0 0\n");
	advance(MIDNIGHT + 110);
	/* capacity 16 + 30 + 100 + 7; free 10 of gpu-1 and 7 of gpu-4; unfit 40 of gpu-2; over 3 of
	 * gpu-0 and 5 of gpu-3 */
	assert_string_equal(fix.o.status.usage,
		"open 2026-11-25T00:01:40Z 2026-11-25T00:01:50Z 1530 170 400 80\n"
		" art 650 20 V100\n"
		" ml 200 10 Tesla T4\n"
		" ml 190 20 V100\n");
	balanced(&(struct usage_period){.capacity = 1530,
		.free = 170,
		.unfit = 400,
		.over = 80,
		.rows = (struct usage_row[]){{.byte_s = 650}, {.byte_s = 390}},
		.n_rows = 2});
	server_status_remove_claim(&fix.o.status, 0);
	advance(MIDNIGHT + 111);
	assert_non_null(strstr(fix.o.status.usage, " ml 200 10 Tesla T4\n ml 199 21 V100\n"));
}

static struct claim_record *claim(const char *uid)
{
	ptrdiff_t i = server_status_claim(&fix.o.status, slice_of(uid));

	assert_true(i >= 0);
	return &fix.o.status.claims[i];
}

/* As its gate has told. */
static void tell(const char *uid, uint64_t used, int64_t until_s)
{
	claim(uid)->used = used;
	claim(uid)->used_until_ms = MS(until_s);
}

/* Nothing is a number, too; nobody knows it of d, and of a, whose GPUs are of two models. */
TEST(what_is_used_counts_as_long_as_that_is_known)
{
	begin(MIDNIGHT);
	tell("a", 7, MIDNIGHT + 100);
	tell("b", 11, MIDNIGHT + 5);
	tell("c", 0, MIDNIGHT + 100);
	advance(MIDNIGHT + 10);
	assert_non_null(strstr(fix.o.status.usage, " art 650/0/600 20 V100\n"
						   " ml 200 10 Tesla T4\n"
						   " ml 190/55/45 20 V100\n"));
	/* known no more, known anew, and what is told now counts from now on */
	advance(MIDNIGHT + 20);
	assert_non_null(strstr(fix.o.status.usage, " ml 380/55/45 40 V100\n"));
	tell("b", 2, MIDNIGHT + 100);
	advance(MIDNIGHT + 21);
	assert_non_null(strstr(fix.o.status.usage, " ml 399/57/54 42 V100\n"));
	/* a clock that is behind takes nothing back */
	advance(MIDNIGHT + 10);
	assert_non_null(strstr(fix.o.status.usage, " ml 399/57/54 42 V100\n"));
	/* who has gone used nothing more */
	server_status_remove_claim(
		&fix.o.status, (size_t)server_status_claim(&fix.o.status, SLICE("b")));
	advance(MIDNIGHT + 22);
	assert_non_null(strstr(fix.o.status.usage, " ml 409/57/54 43 V100\n"));
}

TEST(what_is_used_of_several_gpus_counts_once)
{
	server_fixture_load(&fix, SERVER_STATUS("{" GPUS ",'claims':[" CLAIM("a", "ml", "bound",
					  PART("gpu-0", "10") "," PART("gpu-4", "7")) "," CLAIM("e",
					  "ml", "pending", PART("gpu-4", "7")) "]}"));
	assert_true(server_usage_begin(&fix.o, MS(MIDNIGHT), &fix.arena));
	tell("a", 3, MIDNIGHT + 100);
	tell("e", 7, MIDNIGHT + 100);
	advance(MIDNIGHT + 10);
	assert_non_null(strstr(fix.o.status.usage, "\n ml 170/30/170 20 V100\n"));
}

TEST(what_is_used_is_of_its_day)
{
	struct usage_record u;
	size_t at;

	begin(MIDNIGHT - 10);
	tell("b", 1, MIDNIGHT + 2);
	advance(MIDNIGHT + 5);
	u = record();
	assert_true(usage_row_find(&u.closed, "ml", "V100", &at)->known == 90);
	assert_true(usage_row_find(&u.open, "ml", "V100", &at)->known == 18);
	assert_true(usage_row_find(&u.open, "ml", "V100", &at)->used == 2);
}

TEST(stands_in_the_object)
{
	begin(MIDNIGHT);
	advance(MIDNIGHT + 1);
	assert_non_null(strstr(server_fixture_status(&fix),
		",\"usage\":\"open 2026-11-25T00:00:00Z 2026-11-25T00:00:01Z 153 17 40 8\\n "
		"art 65 2 V100\\n ml 20 1 Tesla T4\\n ml 19 2 V100\\n\"}"));
}

/* A replica whose clock is behind adds nothing, and what it did not add the next one does. */
TEST(time_never_goes_back)
{
	char *before;

	begin(MIDNIGHT + 100);
	advance(MIDNIGHT + 110);
	before = strdup(fix.o.status.usage);
	advance(MIDNIGHT + 90);
	advance(-5);
	assert_string_equal(fix.o.status.usage, before);
	advance(MIDNIGHT + 111);
	assert_non_null(strstr(fix.o.status.usage, "00:01:51Z 1683 "));
	free(before);
}

TEST(less_than_a_second_adds_nothing)
{
	begin(MIDNIGHT);
	assert_true(server_usage_advance(&fix.o, MS(MIDNIGHT) + 999, &fix.arena));
	assert_string_equal(
		fix.o.status.usage, "open 2026-11-25T00:00:00Z 2026-11-25T00:00:00Z 0 0 0 0\n");
}

/* The day ends at midnight, whenever the commit behind it comes. */
TEST(a_day_ends_at_midnight)
{
	struct usage_record u;

	begin(MIDNIGHT - 10);
	advance(MIDNIGHT + 5);
	u = record();
	assert_true(u.has_closed && u.has_open);
	assert_int_equal(u.closed.from_s, MIDNIGHT - 10);
	assert_int_equal(u.closed.at_s, MIDNIGHT);
	assert_true(u.closed.capacity == 1530);
	assert_int_equal(u.open.from_s, MIDNIGHT);
	assert_true(u.open.capacity == 153 * 5);
	balanced(&u.closed);
	balanced(&u.open);
	/* at midnight itself nothing of the next one is there yet */
	begin(MIDNIGHT - 10);
	advance(MIDNIGHT);
	u = record();
	assert_true(u.closed.capacity == 1530);
	assert_int_equal(u.open.n_rows, 0);
	assert_non_null(strstr(
		fix.o.status.usage, "\nopen 2026-11-25T00:00:00Z 2026-11-25T00:00:00Z 0 0 0 0\n"));
}

/* While a closed one stands the next goes on, over the next midnight too: nothing is lost. */
TEST(one_closed_at_a_time)
{
	struct usage_record u;

	begin(MIDNIGHT - 10);
	advance(MIDNIGHT + 5);
	advance(MIDNIGHT + DAY + 5);
	u = record();
	assert_int_equal(u.closed.at_s, MIDNIGHT);
	assert_int_equal(u.open.from_s, MIDNIGHT);
	assert_int_equal(u.open.at_s, MIDNIGHT + DAY + 5);
	assert_false(server_usage_end(&fix.o, &fix.arena));
	assert_false(server_usage_drop(&fix.o, "closed otherwise\n", &fix.arena));
	assert_true(drop());
	assert_false(drop());
	advance(MIDNIGHT + DAY + 7);
	u = record();
	assert_int_equal(u.closed.from_s, MIDNIGHT);
	assert_int_equal(u.closed.at_s, MIDNIGHT + DAY + 5);
	assert_int_equal(u.open.from_s, MIDNIGHT + DAY + 5);
	assert_true(u.open.capacity == 153 * 2);
}

TEST(ends_and_is_gone)
{
	begin(MIDNIGHT);
	assert_false(server_usage_begin(&fix.o, MS(MIDNIGHT), &fix.arena));
	assert_true(server_usage_unstored(&fix.o, &fix.arena));
	advance(MIDNIGHT + 1);
	assert_true(server_usage_end(&fix.o, &fix.arena));
	advance(MIDNIGHT + 9);
	assert_int_equal(strncmp(fix.o.status.usage,
				 "closed 2026-11-25T00:00:00Z 2026-11-25T00:00:01Z 153 ", 52),
		0);
	assert_true(server_usage_unstored(&fix.o, &fix.arena));
	assert_true(drop());
	assert_false(server_usage_unstored(&fix.o, &fix.arena));
	assert_null(strstr(server_fixture_status(&fix), "usage"));
	/* the next one does not begin before that has ended */
	assert_true(server_usage_begin(&fix.o, MS(MIDNIGHT + 20), &fix.arena));
}

/* So many namespaces, one byte each but for the first ones, which have more. */
static void crowd(size_t n, struct usage_period *p)
{
	*p = (struct usage_period){.from_s = MIDNIGHT, .at_s = MIDNIGHT};
	for (size_t i = 0; i < n; i++) {
		struct usage_row *r =
			usage_row(p, arena_fmt(&fix.arena, "ns-%zu", i), "V100", &fix.arena);

		assert_non_null(r);
		r->byte_s = i < USAGE_ROWS_KEPT ? 1000 + i : 1;
		r->gpu_s = 1;
		r->used = 2;
		r->known = 1;
		p->capacity += r->byte_s;
	}
}

TEST(rows_are_folded_at_the_end)
{
	struct usage_record u = {.has_open = true};
	const struct usage_row *others;

	crowd(USAGE_ROWS_KEPT + 30, &u.open);
	assert_int_equal(u.open.n_rows, USAGE_ROWS_KEPT + 30);
	usage_record_close(&u, &fix.arena);
	assert_false(u.has_open);
	assert_int_equal(u.closed.n_rows, USAGE_ROWS_KEPT + 1);
	others = &u.closed.rows[0];
	assert_string_equal(others->namespace, USAGE_OTHERS);
	assert_string_equal(others->model, USAGE_OTHERS);
	assert_true(others->byte_s == 30 && others->gpu_s == 30);
	assert_true(others->used == 60 && others->known == 30);
	balanced(&u.closed);
	/* exactly as many stay as they are */
	crowd(USAGE_ROWS_KEPT, &u.open);
	usage_record_close(&u, &fix.arena);
	assert_int_equal(u.closed.n_rows, USAGE_ROWS_KEPT);
}

/* Too many rows end a period early; where none can end new ones are the others'. */
TEST(rows_are_bounded)
{
	struct usage_record u = {.has_open = true};

	server_fixture_load(&fix, FULL);
	crowd(USAGE_ROWS_FULL, &u.open);
	assert_true(usage_record_advance(&u, &fix.o, MIDNIGHT + 1, &fix.arena));
	assert_true(u.has_closed && u.has_open);
	assert_int_equal(u.closed.n_rows, USAGE_ROWS_KEPT + 1);
	assert_int_equal(u.open.from_s, MIDNIGHT + 1);
	balanced(&u.closed);
	crowd(USAGE_ROWS_MAX, &u.open);
	assert_true(usage_record_advance(&u, &fix.o, MIDNIGHT + 2, &fix.arena));
	assert_int_equal(u.open.n_rows, USAGE_ROWS_MAX + 1);
	assert_string_equal(u.open.rows[0].namespace, USAGE_OTHERS);
	assert_true(u.open.rows[0].byte_s == 2 * (10 + 20 + 9 + 60 + 5));
	balanced(&u.open);
	/* who has a row keeps it */
	usage_row(&u.open, "ns-7", "V100", &fix.arena)->byte_s -= 7;
	u.open.capacity -= 7;
	fix.o.status.claims[0].claim.namespace = "ns-7";
	assert_true(usage_record_advance(&u, &fix.o, MIDNIGHT + 3, &fix.arena));
	assert_int_equal(u.open.n_rows, USAGE_ROWS_MAX + 1);
	assert_true(usage_row(&u.open, "ns-7", "V100", &fix.arena)->byte_s == 1000 + 10);
	balanced(&u.open);
}

/* The largest that a status can say, for all time that can be told. */
TEST(sums_do_not_wrap)
{
	char text[USAGE_SUM_SIZE];
	struct usage_record u;

	server_fixture_load(
		&fix, SERVER_STATUS("{'gpus':[{'id':'gpu-0','model':'m','memory':9007199254740992,"
				    "'fit':true}],'claims':[" CLAIM("a", "n", "bound",
					    PART("gpu-0", "9007199254740992")) "," CLAIM("b", "n",
					    "bound", PART("gpu-0", "9007199254740992")) "]}"));
	assert_true(server_usage_begin(&fix.o, 0, &fix.arena));
	assert_true(server_usage_advance(&fix.o, INT64_MAX, &fix.arena));
	u = record();
	assert_true(u.has_closed && u.has_open);
	assert_int_equal(u.open.at_s, INT64_C(253402300799));
	balanced(&u.closed);
	balanced(&u.open);
	usage_sum_write(u.closed.capacity, text);
	assert_string_equal(text, "2282444236693397071252684800");
	assert_true(usage_plus(~(usage_sum)0, 1) == ~(usage_sum)0);
	usage_sum_write(~(usage_sum)0, text);
	assert_string_equal(text, "340282366920938463463374607431768211455");
	usage_sum_write(0, text);
	assert_string_equal(text, "0");
	usage_sum_write(UINT64_MAX, text);
	assert_string_equal(text, "18446744073709551615");
	usage_sum_write((usage_sum)UINT64_MAX + 1, text);
	assert_string_equal(text, "18446744073709551616");
}

#define HEAD "open 2026-11-25T00:00:00Z 2026-11-25T00:00:01Z 1 0 0 0\n"

/* What another version wrote, or somebody's hand, stays, and nobody counts there. */
TEST(unknown_text_is_kept)
{
	static const char *const texts[] = {"x", "v2\n", "open\n", "\n", " a 1 1 m\n" HEAD,
		"open 2026-11-25T00:00:00Z 2026-11-25T00:00:01Z 1 0 0 0",
		"open 2026-11-25T00:00:00Z 2026-11-25T00:00:01Z 1 0 0 0 0\n",
		"open 2026-11-25T00:00:00Z 2026-11-25T00:00:01Z 1 0 0\n",
		"open 2026-11-25T00:00:01Z 2026-11-25T00:00:00Z 1 0 0 0\n",
		"open 1969-11-25T00:00:00Z 2026-11-25T00:00:01Z 1 0 0 0\n",
		"open 2026-11-25T00:00:00Z yesterday 1 0 0 0\n", HEAD HEAD, HEAD " a 1 1\n",
		HEAD " a 1 1 \n", HEAD " a -1 1 m\n", HEAD " a 1 1 m\n a 1 1 m\n", HEAD " a\n",
		HEAD " a \n", "\t\n", HEAD "\t\n", HEAD " \n", HEAD " a 1/1 1 m\n",
		HEAD " a 1/1/2 1 m\n", HEAD " a 1/1/1/1 1 m\n", HEAD " a 1//1 1 m\n",
		HEAD " a /1/1 1 m\n", HEAD " a 1/1/ 1 m\n", HEAD " a 1 1/1/1 m\n",
		HEAD " a 340282366920938463463374607431768211456 1 m\n",
		HEAD " a 9999999999999999999999999999999999999999999 1 m\n",
		HEAD "closed 2026-11-24T00:00:00Z 2026-11-25T00:00:00Z 1 0 0 0\n"};

	server_fixture_load(&fix, FULL);
	for (size_t i = 0; i < COUNT(texts); i++) {
		struct usage_record u;

		fix.o.status.usage = texts[i];
		if (usage_record_read(slice_of(texts[i]), &fix.arena, &u, &fix.err) != ERR_INVALID)
			fail_msg("%s is read", texts[i]);
		assert_true(server_usage_advance(&fix.o, MS(MIDNIGHT + 9), &fix.arena));
		assert_false(server_usage_begin(&fix.o, MS(MIDNIGHT + 9), &fix.arena));
		assert_false(server_usage_end(&fix.o, &fix.arena));
		assert_false(drop());
		assert_false(server_usage_unstored(&fix.o, &fix.arena));
		assert_ptr_equal(fix.o.status.usage, texts[i]);
	}
}

TEST(reads_what_it_writes)
{
	static const char text[] = "closed 2026-11-24T00:00:00Z 2026-11-25T00:00:00Z 5 4 3 2\n * 1 "
				   "2 *\n a 3 4  m  x \n b 9/12/8 4 1/1/1 n\n"
				   "open 2026-11-25T00:00:00Z 2026-11-25T00:00:01Z "
				   "340282366920938463463374607431768211455 0 0 0\n";
	struct usage_record u;

	assert_int_equal(usage_record_read(SLICE(text), &fix.arena, &u, &fix.err), 0);
	usage_record_write(&u, &fix.out);
	assert_true(slice_eq(buf_as_slice(&fix.out), SLICE(text)));
	assert_int_equal(usage_record_read(SLICE(""), &fix.arena, &u, &fix.err), 0);
	assert_false(u.has_open || u.has_closed);
}

/* Memory that runs out is no fault of the text. */
TEST(no_memory_to_read)
{
	static const char text[] = HEAD " a 3 4 m\n b 1 1 n\n c 1 1 o\n d 1 1 p\n e 1 1 q\n";
	size_t max = 0;
	int rc;

	do {
		struct usage_record u;
		struct arena a;

		arena_init(&a, max += 16);
		rc = usage_record_read(SLICE(text), &a, &u, &fix.err);
		assert_true(rc == 0 || rc == ERR_NOMEM);
		arena_release(&a);
	} while (rc != 0);
	assert_true(max > 16);
}

/* Names that no line could hold. */
TEST(odd_names)
{
	server_fixture_load(&fix,
		SERVER_STATUS("{'gpus':[{'id':'g','model':'a\\nb','memory':1,'fit':true},{'id':'h',"
			      "'memory':1,'fit':true}],'claims':[" CLAIM(
				      "a", "no name", "bound", PART("g", "1")) "," CLAIM("b", "n",
				      "bound", PART("h", "1")) "," CLAIM("c", "n", "bound",
				      PART("none", "3")) "]}"));
	assert_true(server_usage_begin(&fix.o, MS(MIDNIGHT), &fix.arena));
	advance(MIDNIGHT + 1);
	assert_string_equal(fix.o.status.usage,
		"open 2026-11-25T00:00:00Z 2026-11-25T00:00:01Z 2 0 0 3\n * 1 1 a b\n n 4 2 *\n");
}

/* Where memory ends while seconds are added, the usage stays as it was, also where a day ends among
 * them; no part of it is added. */
TEST(no_memory_to_add)
{
	static const struct {
		int64_t begin;
		const char *want;
	} rows[] = {
		{MIDNIGHT, "open 2026-11-25T00:00:00Z 2026-11-25T00:00:02Z 4 2 0 0\n n 2 2 a b\n"},
		{MIDNIGHT - 1,
			"closed 2026-11-24T23:59:59Z 2026-11-25T00:00:00Z 2 1 0 0\n n 1 1 a b\n"
			"open 2026-11-25T00:00:00Z 2026-11-25T00:00:02Z 4 2 0 0\n n 2 2 a b\n"},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		bool done = false;

		for (size_t max = 0; !done; max += 8) {
			const char *before;
			struct arena a;

			server_fixture_load(&fix,
				SERVER_STATUS(
					"{'gpus':[{'id':'g','model':'a\\nb','memory':1,'fit':"
					"true},{'id':'h','model':'c\\nd','memory':1,'fit':true}],"
					"'claims':[" CLAIM(
						"a", "n", "bound", PART("g", "1")) "]}"));
			assert_true(server_usage_begin(&fix.o, MS(rows[i].begin), &fix.arena));
			before = fix.o.status.usage;
			arena_init(&a, max);
			done = server_usage_advance(&fix.o, MS(MIDNIGHT + 2), &a);
			assert_int_equal(done, !a.failed);
			if (done)
				assert_string_equal(fix.o.status.usage, rows[i].want);
			else
				assert_ptr_equal(fix.o.status.usage, before);
			arena_release(&a);
		}
	}
}

TESTS_BETWEEN(set_up, tear_down, adds_what_stood_there,
	what_is_used_counts_as_long_as_that_is_known, what_is_used_of_several_gpus_counts_once,
	what_is_used_is_of_its_day, stands_in_the_object, time_never_goes_back,
	less_than_a_second_adds_nothing, a_day_ends_at_midnight, one_closed_at_a_time,
	ends_and_is_gone, rows_are_folded_at_the_end, rows_are_bounded, sums_do_not_wrap,
	unknown_text_is_kept, reads_what_it_writes, no_memory_to_read, odd_names, no_memory_to_add)

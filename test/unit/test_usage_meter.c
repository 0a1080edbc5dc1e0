/* SPDX-License-Identifier: Apache-2.0 */
/* test: growing sums out of periods that come, end and are forgotten. What each is for is said in
 * usage_meter.h. */
#include <stdio.h>

#include "test/unit/test.h"
#include "webhook/core/server/usage_meter.h"

/* 2026-11-25T00:00:00Z */
#define MIDNIGHT INT64_C(1795564800)
#define OPEN(at, sums) "open 2026-11-25T00:00:00Z 2026-11-25T" at "Z " sums "\n"
#define CLOSED(sums) "closed 2026-11-25T00:00:00Z 2026-11-26T00:00:00Z " sums "\n"
#define NEXT(at, sums) "open 2026-11-26T00:00:00Z 2026-11-26T" at "Z " sums "\n"

static struct usage_meter *meter;
static const char *policy_now;

FIXTURE(set_up)
{
	meter = usage_meter_new();
	policy_now = "small";
	return meter ? 0 : -1;
}

FIXTURE(tear_down)
{
	usage_meter_free(meter);
	return 0;
}

static const char *policy(void *ctx, const char *namespace)
{
	(void)ctx;
	return strcmp(namespace, "none") == 0 ? "-" : policy_now;
}

/* A server without GPUs, so that time adds nothing. */
static void see(const char *uid, const char *usage)
{
	const struct server_object o = {.name = uid, .uid = uid, .status = {.usage = usage}};

	assert_true(usage_meter_see(meter, &o, MIDNIGHT));
}

static void end(void)
{
	usage_meter_end(meter, policy, NULL);
}

static void look(const char *usage)
{
	see("u-1", usage);
	end();
}

/* "art small T4 4 2; … others 7 1; pool 1 2 3 4" */
static void says(const char *expected)
{
	const struct usage_totals *t = usage_meter_totals(meter);
	struct buf out;

	buf_init(&out, 4096);
	for (size_t i = 0; i < t->n; i++)
		buf_fmt(&out, "%s %s %s %u %u; ", t->at[i].namespace, t->at[i].policy,
			t->at[i].model, (unsigned)t->at[i].sum.byte_s,
			(unsigned)t->at[i].sum.gpu_s);
	buf_fmt(&out, "others %u %u; pool %u %u %u %u", (unsigned)t->others.sum.byte_s,
		(unsigned)t->others.sum.gpu_s, (unsigned)t->capacity, (unsigned)t->free,
		(unsigned)t->unfit, (unsigned)t->over);
	assert_string_equal(out.data, expected);
	buf_release(&out);
}

TEST(nothing_is_seen)
{
	end();
	says("others 0 0; pool 0 0 0 0");
}

TEST(counts_what_comes_after_the_first_look)
{
	look(OPEN("01:00:00", "100 50 0 0") " art 50 5 T4\n");
	says("others 0 0; pool 0 0 0 0");
	look(OPEN("02:00:00", "200 90 1 2") " art 90 9 T4\n none 20 2 T4\n");
	says("art small T4 40 4; none - T4 20 2; others 0 0; pool 100 40 1 2");
	look(OPEN("02:00:00", "200 90 1 2") " art 90 9 T4\n none 20 2 T4\n");
	says("art small T4 40 4; none - T4 20 2; others 0 0; pool 100 40 1 2");
	/* what has come since is its policy's of now */
	policy_now = "big";
	look(OPEN("03:00:00", "200 90 1 2") " art 91 10 T4\n none 20 2 T4\n");
	says("art big T4 1 1; art small T4 40 4; none - T4 20 2; others 0 0; pool 100 40 1 2");
}

TEST(ends_of_periods_count_once)
{
	look(OPEN("23:00:00", "10 0 0 0") " art 10 1 T4\n");
	look(CLOSED("30 0 0 0") " art 30 3 T4\n" NEXT("00:00:01", "1 0 0 0") " art 1 1 T4\n");
	says("art small T4 21 3; others 0 0; pool 21 0 0 0");
	/* it is stored and forgotten */
	look(NEXT("00:00:02", "2 0 0 0") " art 2 2 T4\n");
	says("art small T4 22 4; others 0 0; pool 22 0 0 0");
	/* forgotten before anybody looked */
	look("open 2026-11-27T00:00:00Z 2026-11-27T00:00:05Z 5 0 0 0\n art 5 5 T4\n");
	says("art small T4 27 9; others 0 0; pool 27 0 0 0");
}

TEST(servers_come_and_go)
{
	see("u-2", OPEN("01:00:00", "10 0 0 0") " art 10 1 T4\n");
	look(OPEN("01:00:00", "10 0 0 0") " art 10 1 T4\n");
	see("u-3", OPEN("01:00:00", "3 0 0 0") " art 3 3 T4\n");
	look(OPEN("01:00:00", "15 0 0 0") " art 15 2 T4\n");
	says("art small T4 8 4; others 0 0; pool 8 0 0 0");
	/* u-3 has gone; nobody counts u-4, and nobody can read u-5 */
	see("u-4", NULL);
	see("u-5", "open tomorrow\n");
	look(OPEN("01:00:00", "16 0 0 0") " art 16 3 T4\n");
	says("art small T4 9 5; others 0 0; pool 9 0 0 0");
}

/* A commit by a clock behind ours says less than we have counted. */
TEST(a_clock_that_is_behind)
{
	look(OPEN("01:00:00", "0 0 0 0") " art 0 0 T4\n");
	look(OPEN("01:00:10", "10 0 0 0") " art 10 10 T4\n");
	look(OPEN("01:00:08", "8 0 0 0") " art 8 8 T4\n");
	says("art small T4 10 10; others 0 0; pool 10 0 0 0");
	look(OPEN("01:00:12", "12 0 0 0") " art 12 12 T4\n");
	says("art small T4 12 12; others 0 0; pool 12 0 0 0");
}

/* Rows that are folded when a period ends have been counted by name. */
TEST(folded_rows)
{
	look(OPEN("01:00:00", "0 0 0 0"));
	look(OPEN("02:00:00", "30 0 0 0") " * 3 1 *\n a 20 2 T4\n b 7 1 T4\n");
	says("a small T4 20 2; b small T4 7 1; others 3 1; pool 30 0 0 0");
	look(CLOSED("42 0 0 0") " * 14 5 *\n a 28 3 T4\n");
	/* 8 of the 12 that have come are a's */
	says("a small T4 28 3; b small T4 7 1; others 7 4; pool 42 0 0 0");
}

/* What stands in a status counts until now, of what is there: nobody has vouched for
 * its GPU. */
TEST(counts_until_now)
{
	struct gpu_status gpu = {.gpu = {.id = "g", .model = "T4", .bytes = 10, .fit = true}};
	struct server_object o = {.name = "s",
		.uid = "u",
		.status = {.usage = OPEN("00:00:00", "0 0 0 0"), .gpus = &gpu, .n_gpus = 1}};

	assert_true(usage_meter_see(meter, &o, MIDNIGHT + 1));
	end();
	assert_true(usage_meter_see(meter, &o, MIDNIGHT + 4));
	end();
	says("others 0 0; pool 30 0 30 0");
}

/* Beside what was promised, also where a clock that is behind takes some of both back. */
TEST(what_is_used)
{
	const struct usage_totals *t = usage_meter_totals(meter);

	look(OPEN("01:00:00", "0 0 0 0") " a 10/4/8 1 T4\n");
	look(OPEN("01:00:10", "0 0 0 0") " * 9/3/7 1 *\n a 30/14/18 3 T4\n");
	look(OPEN("01:00:08", "0 0 0 0") " * 9/3/7 1 *\n a 26/12/16 2 T4\n");
	look(OPEN("01:00:12", "0 0 0 0") " * 9/3/7 1 *\n a 31/15/19 3 T4\n");
	assert_int_equal(t->n, 1);
	assert_int_equal(t->at[0].sum.byte_s, 21);
	assert_int_equal(t->at[0].sum.used, 11);
	assert_int_equal(t->at[0].sum.known, 11);
	assert_int_equal(t->others.sum.used, 3);
	assert_int_equal(t->others.sum.known, 7);
}

TEST(so_many_are_kept)
{
	char name[16];
	struct buf out;

	buf_init(&out, 65536);
	look(OPEN("00:00:00", "0 0 0 0"));
	for (unsigned round = 1; round <= 11; round++) {
		buf_clear(&out);
		buf_str(&out, OPEN("00:00:00", "0 0 0 0"));
		for (unsigned i = 0; i < USAGE_ROWS_MAX; i++)
			buf_fmt(&out, " n%04u %u 0 T4\n", i, round);
		(void)snprintf(name, sizeof(name), "p%u", round);
		policy_now = name;
		look(out.data);
	}
	assert_int_equal(usage_meter_totals(meter)->n, USAGE_TOTALS_MAX);
	assert_int_equal(usage_meter_totals(meter)->others.sum.byte_s, USAGE_ROWS_MAX);
	buf_release(&out);
}

TESTS_BETWEEN(set_up, tear_down, nothing_is_seen, counts_what_comes_after_the_first_look,
	ends_of_periods_count_once, servers_come_and_go, a_clock_that_is_behind, folded_rows,
	counts_until_now, what_is_used, so_many_are_kept)

/* SPDX-License-Identifier: Apache-2.0 */
/* test: probe/check/checks_mem: how much memory is tested and how, and what is said of it. */
#include <math.h>

#include "probe/check/march.h"
#include "test/unit/check_fixture.h"
#include "test/unit/test.h"

#define MIB (1ll << 20)
#define GIB (1ll << 30)
#define PAGE 65536
#define CELL sizeof(struct kernel_cell)
/* A GPU of 80 GiB, of which nothing but what is written one cell at a time takes memory here;
 * what it lets have is told. */
#define LARGE "{\"devices\": [{\"sms\": 2, \"memory_mib\": 81920, \"free_mib\": 81920%s}]}"

/* ---- free memory ---- */

static struct check_result free_memory(int64_t total, int64_t available, bool remote)
{
	struct check_world w = healthy_world();
	struct check_result r;

	check_gpu.memory_total_bytes = total;
	check_gpu.memory_free_bytes = available;
	check_job.remote = remote;
	check_begin(&r, CHECK_FREE_MEMORY);
	assert_true(check_free_memory(&w, &r));
	return r;
}

TEST(free_memory_is_a_share_of_all)
{
	static const struct {
		int64_t total, available;
		enum check_status status;
	} cases[] = {{0, 0, STATUS_ERROR}, {-1, -1, STATUS_ERROR}, {100, -1, STATUS_ERROR},
		{100, 101, STATUS_ERROR}, {100, 100, STATUS_PASS}, {100, 95, STATUS_PASS},
		{100, 94, STATUS_WARN}, {100, 0, STATUS_WARN}, {1, 1, STATUS_PASS}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_result r = free_memory(cases[i].total, cases[i].available, false);

		assert_int_equal(r.status, cases[i].status);
		if (r.status == STATUS_ERROR)
			continue;
		assert_true(r.value == (double)cases[i].available);
		assert_true(r.expected == (double)cases[i].total && r.warn_below == 0.95);
		assert_true(r.ratio == r.value / r.expected);
		assert_string_equal(r.unit, "B");
	}
	assert_non_null(strstr(free_memory(100, 90, false).message, "10.0 %"));
	assert_non_null(strstr(free_memory(100, 90, false).message, "at most 5 %"));
	/* others' memory is others' business */
	assert_int_equal(free_memory(100, 10, true).status, STATUS_PASS);
}

/* ---- how much ---- */

struct share {
	enum probe_profile profile;
	int64_t bytes;
	double part;
	int64_t available;
	int64_t tested;
};

static struct check_result pattern_of(const struct share *s, const char *more)
{
	char scenario[256];
	struct check_world w;

	snprintf(scenario, sizeof(scenario), LARGE, more);
	w = a_world(scenario);
	check_job.profile = s->profile;
	check_job.memory_bytes = s->bytes;
	check_job.memory_share = s->part;
	check_gpu.memory_total_bytes = 80 * GIB;
	check_gpu.memory_free_bytes = s->available;
	return ask(&w, CHECK_MEM_PATTERN);
}

TEST(some_is_left_for_others)
{
	static const struct share cases[] = {/* as asked */
		{PROFILE_VERIFY, 3 * MIB, 0, 300 * MIB, 3 * MIB},
		{PROFILE_STRESS, 3 * MIB + 1, 0.5, 300 * MIB, 3 * MIB},
		{PROFILE_VERIFY, 400 * MIB, 0, 300 * MIB, 300 * MIB},
		{PROFILE_VERIFY, 0, 0.5, 300 * MIB, 150 * MIB},
		{PROFILE_VERIFY_REMOTE, 0, 0.5, 300 * MIB, 150 * MIB},
		/* by profile */
		{PROFILE_STRESS, 0, 0, 79 * GIB, (int64_t)(0.95 * 79 * GIB) / PAGE * PAGE},
		{PROFILE_VERIFY_REMOTE, 0, 0, 8 * GIB, 2 * GIB},
		/* a tenth, but 1 GiB, but half */
		{PROFILE_VERIFY, 0, 0, 20 * GIB, 18 * GIB},
		{PROFILE_VERIFY, 0, 0, 5 * GIB, 4 * GIB}, {PROFILE_VERIFY, 0, 0, GIB, GIB / 2},
		{PROFILE_VERIFY, 0, 0, 3 * GIB, 2 * GIB},
		/* chunks of 1 GiB, and the rest */
		{PROFILE_VERIFY, 2 * GIB + 5 * PAGE + 3, 0, 8 * GIB, 2 * GIB + 5 * PAGE}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_result r = pattern_of(&cases[i], "");

		assert_int_equal(r.bytes_tested, cases[i].tested);
		assert_int_equal(r.coverage_percent, 100 * cases[i].tested / (80 * GIB));
		assert_int_equal(r.errors, 0);
		/* stress of a GPU that is mostly in use has not seen enough */
		assert_int_equal(r.status, STATUS_PASS);
	}
}

/* What the GPU calls free, and what it lets have, differ. The last 16 MiB of it are not looked
 * for. */
TEST(less_than_enough_is_no_pass)
{
	static const struct {
		struct share share;
		const char *allocatable;
		enum check_status status;
		enum probe_code code;
		int64_t at_least;
		bool busy;
	} cases[] = {/* half of what is free, by default */
		{{PROFILE_VERIFY, 0, 0, 4 * GIB, 0}, "1900", STATUS_ERROR, CODE_COVERAGE, 1884,
			false},
		{{PROFILE_VERIFY, 0, 0, 4 * GIB, 0}, "2100", STATUS_FAIL, CODE_SHORT_ALLOCATION,
			2084, false},
		{{PROFILE_VERIFY, 0, 0, 4 * GIB, 0}, "2100", STATUS_PASS, CODE_NONE, 2084, true},
		{{PROFILE_VERIFY, 0, 0, 4 * GIB, 0}, "2880", STATUS_FAIL, CODE_SHORT_ALLOCATION,
			2864, false},
		{{PROFILE_VERIFY, 0, 0, 4 * GIB, 0}, "2960", STATUS_PASS, CODE_NONE, 2944, false},
		/* 95 % of what was asked for */
		{{PROFILE_VERIFY, GIB, 0, 4 * GIB, 0}, "960", STATUS_ERROR, CODE_COVERAGE, 944,
			false},
		{{PROFILE_VERIFY, GIB, 0, 4 * GIB, 0}, "1000", STATUS_PASS, CODE_NONE, 984, false},
		{{PROFILE_VERIFY, 0, 0.25, 4 * GIB, 0}, "960", STATUS_ERROR, CODE_COVERAGE, 944,
			false},
		{{PROFILE_VERIFY_REMOTE, 0, 0, 4 * GIB, 0}, "960", STATUS_ERROR, CODE_COVERAGE, 944,
			false},
		/* as much exactly, of 1280 MiB */
		{{PROFILE_VERIFY, 0, 0, 2304 * MIB, 0}, "1217", STATUS_PASS, CODE_NONE, 1216,
			false},
		{{PROFILE_VERIFY, 1280 * MIB, 0, 4 * GIB, 0}, "1217", STATUS_PASS, CODE_NONE, 1216,
			false},
		/* three quarters of all */
		{{PROFILE_STRESS, 0, 0, 79 * GIB, 0}, "61000", STATUS_ERROR, CODE_COVERAGE, 60984,
			false},
		{{PROFILE_STRESS, 0, 0, 79 * GIB, 0}, "62000", STATUS_FAIL, CODE_SHORT_ALLOCATION,
			61984, false},
		{{PROFILE_STRESS, 0, 0, 60 * GIB, 0}, "81920", STATUS_ERROR, CODE_COVERAGE, 58368,
			false},
		{{PROFILE_VERIFY, GIB, 0, 4 * GIB, 0}, "12", STATUS_ERROR, CODE_OUT_OF_MEMORY, 0,
			false}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_result r;
		struct check_world w;
		char scenario[256], more[64];

		snprintf(more, sizeof(more), ", \"allocatable_mib\": %s", cases[i].allocatable);
		snprintf(scenario, sizeof(scenario), LARGE, more);
		w = a_world(scenario);
		check_job.profile = cases[i].share.profile;
		check_job.memory_bytes = cases[i].share.bytes;
		check_job.memory_share = cases[i].share.part;
		check_job.busy = cases[i].busy;
		check_gpu.memory_total_bytes = 80 * GIB;
		check_gpu.memory_free_bytes = cases[i].share.available;
		r = ask(&w, CHECK_MEM_PATTERN);
		if (r.status != cases[i].status || r.code != cases[i].code)
			fail_msg("%zu: %s", i, r.message);
		if (cases[i].at_least > 0)
			assert_in_range(r.bytes_tested, cases[i].at_least * MIB,
				(cases[i].at_least + 16) * MIB);
	}
}

/* More than any GPU has: 1024 chunks of 1 GiB are all that there is room for. */
TEST(so_many_chunks_and_no_more)
{
	struct check_world w = a_world("{\"devices\": [{\"sms\": 2, \"memory_mib\": 1200000}]}");

	check_job.memory_bytes = check_gpu.memory_free_bytes = 1100 * GIB;
	check_gpu.memory_total_bytes = 1200 * GIB;
	stop_at = 1;
	assert_int_equal(ask(&w, CHECK_MEM_PATTERN).bytes_tested, 1024 * GIB);
}

TEST(says_whether_memory_itself_was_read)
{
	static const struct {
		int64_t l2;
		int beyond;
	} cases[] = {{3 * MIB / 2, 1}, {3 * MIB / 2 + 1, 0}, {MIB, 1}, {1, 1}, {0, -1}, {-1, -1}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_world w = healthy_world();

		check_gpu.l2_bytes = cases[i].l2;
		assert_int_equal(ask(&w, CHECK_MEM_PATTERN).beyond_l2, cases[i].beyond);
	}
}

/* ---- how ---- */

#define CHUNKS 3

/* What one pass launches on one chunk. */
static void expect_pass(const struct launched *l, unsigned pass, uint64_t first, uint64_t cells)
{
	const struct march_element *e = &march[pass];
	struct kernel_cell expect = march_background(e->expect), next = march_background(e->next);
	bool fill = e->rewrite == MARCH_FILL;

	assert_string_equal(l->name, fill ? "gp_fill" : "gp_check");
	assert_int_equal(l->blocks, 16);
	assert_int_equal(l->arg[1], first);
	assert_int_equal(l->arg[2], cells);
	assert_int_equal(l->arg[3], march_seed(pass, 7));
	assert_int_equal(l->arg[4], fill ? next.lo : expect.lo);
	assert_int_equal(l->arg[5], fill ? next.hi : expect.hi);
	assert_int_equal(l->arg[6], march_shift(pass, 2));
	if (fill)
		return;
	assert_int_equal(l->arg[7], e->down);
	assert_int_equal(l->arg[8], e->rewrite);
	assert_int_equal(l->arg[9], next.lo);
	assert_int_equal(l->arg[10], next.hi);
}

TEST(each_pass_goes_through_all_chunks_its_way)
{
	static const struct share all = {PROFILE_VERIFY, 2 * GIB + 5 * PAGE, 0, 8 * GIB, 0};
	static const uint64_t cells[CHUNKS] = {GIB / CELL, GIB / CELL, 5 * PAGE / CELL};
	const struct launched *l = spoiled.launched, *trial;
	struct check_result r = pattern_of(&all, "");
	struct kernel_cell left = march_background(march[MARCH_PASSES - 1].next);

	assert_int_equal(r.status, STATUS_PASS);
	assert_int_equal(spoiled.n_launched, CHUNKS * MARCH_PASSES + 1);
	for (unsigned pass = 0; pass < MARCH_PASSES; pass++)
		for (unsigned i = 0; i < CHUNKS; i++, l++) {
			unsigned at = march[pass].down ? CHUNKS - 1 - i : i;

			expect_pass(l, pass, at * (GIB / CELL), cells[at]);
			assert_true(pass == 0 || l->arg[0] == spoiled.launched[at].arg[0]);
		}
	/* does gp_check see the complement? */
	trial = l;
	assert_string_equal(trial->name, "gp_check");
	assert_int_equal(trial->arg[0], spoiled.launched[0].arg[0]);
	assert_int_equal(trial->arg[1], 0);
	assert_int_equal(trial->arg[2], 2 * KERNEL_TILE);
	assert_int_equal(trial->arg[3], march_seed(MARCH_PASSES - 1, 7));
	assert_int_equal(trial->arg[4], ~left.lo);
	assert_int_equal(trial->arg[5], ~left.hi);
	assert_int_equal(trial->arg[6] + trial->arg[7] + trial->arg[8], 0);
	assert_true(trial->arg[11] != l[-1].arg[11]);
	assert_true(first_within_s >= 20 + 2.0 * (double)GIB / 5e9);
	assert_true(within_s >= 20 + 2 * 2.0 * (double)GIB / 5e9);
	assert_string_equal(progress_words, "0.86 memory: pass 20 of 20");
}

TEST(a_small_chunk_is_tried_whole)
{
	struct check_world w = healthy_world();

	check_job.memory_bytes = PAGE;
	check_gpu.sm_count = 4;
	assert_int_equal(ask(&w, CHECK_MEM_PATTERN).status, STATUS_PASS);
	assert_int_equal(spoiled.launched[MARCH_PASSES].arg[2], PAGE / CELL);
	assert_int_equal(spoiled.launched[MARCH_PASSES].blocks, 32);
}

TEST(what_was_ended_early_is_no_pass)
{
	for (unsigned n = 1; n <= MARCH_PASSES + 1; n++) {
		struct check_world w = healthy_world();
		struct check_result r;

		stop_at = n;
		r = ask(&w, CHECK_MEM_PATTERN);
		assert_int_equal(r.status, n > MARCH_PASSES ? STATUS_PASS : STATUS_ERROR);
		assert_int_equal(r.code, n > MARCH_PASSES ? CODE_NONE : CODE_INTERRUPTED);
		assert_int_equal(spoiled.n_launched, n < MARCH_PASSES ? n : MARCH_PASSES + 1);
	}
}

/* ---- what is said ---- */

TEST(a_wrong_cell_is_told)
{
	struct check_world w = a_world(
		WORLD(", \"flips\": [{\"offset\": 1048592, \"bit\": 70, \"kind\": \"stuck1\"}]"));
	struct check_result r = ask(&w, CHECK_MEM_PATTERN);

	assert_int_equal(r.code, CODE_MEMORY_ERRORS);
	assert_true(
		r.errors > 1 && r.n_memory > 1 && r.bits_0_to_1 == r.errors && r.bits_1_to_0 == 0);
	assert_int_equal(r.pages, r.errors <= r.n_memory ? 1 : -1);
	for (unsigned i = 0; i < r.n_memory; i++) {
		assert_int_equal(r.memory[i].offset, 1048592);
		assert_int_equal(r.memory[i].expected[0], r.memory[i].got[0]);
		assert_int_equal(r.memory[i].expected[1] ^ r.memory[i].got[1], 1 << 6);
	}
	assert_non_null(strstr(r.message, "offset 1048592"));
	assert_int_equal(r.bytes_tested, 3 * MIB);
}

TEST(a_planted_bit_is_found)
{
	for (int plant = 0; plant < 3; plant++) {
		struct check_world w = healthy_world();
		struct check_result r;

		check_job.plant = plant;
		r = ask(&w, CHECK_MEM_PATTERN);
		assert_int_equal(r.status, plant == 1 ? STATUS_FAIL : STATUS_PASS);
		if (plant != 1)
			continue;
		assert_int_equal(r.n_memory, 1);
		assert_int_equal(r.memory[0].offset, 3 * MIB / 2);
		assert_int_equal(r.memory[0].expected[0] ^ r.memory[0].got[0], 1 << 17);
		assert_int_equal(spoiled.n_to_device, 1);
	}
}

/* Where the GPU's calls for it fail, too. */
TEST(planting_may_fail)
{
	for (unsigned n = 1;; n++) {
		struct check_world w = healthy_world();
		struct check_result r;

		check_job.plant = 1;
		spoiled.fail_at = n;
		spoiled.error = 719;
		r = ask(&w, CHECK_MEM_PATTERN);
		if (!spoiled.failed)
			break;
		assert_true(r.status == STATUS_FAIL && r.cuda_error == 719);
		assert_int_equal(spoiled.other_calls_after, 0);
	}
}

TESTS_WITHIN(check_begin_group, check_end_group, free_memory_is_a_share_of_all,
	some_is_left_for_others, less_than_enough_is_no_pass, so_many_chunks_and_no_more,
	says_whether_memory_itself_was_read, each_pass_goes_through_all_chunks_its_way,
	a_small_chunk_is_tried_whole, what_was_ended_early_is_no_pass, a_wrong_cell_is_told,
	a_planted_bit_is_found, planting_may_fail)

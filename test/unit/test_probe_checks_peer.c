/* SPDX-License-Identifier: Apache-2.0 */
/* test: probe/check/checks_peer, and what all checks share (checks_shared): copies between two
 * GPUs, records of what is wrong, errors of the runtime. */
#include "probe/check/checks_peer.h"

#include <math.h>

#include "probe/result/evidence.h"
#include "test/unit/check_fixture.h"
#include "test/unit/test.h"

#define MIB (1ll << 20)

/* ---- copies between GPUs ---- */

TEST(each_copy_has_a_pattern_of_its_own)
{
	struct check_world w = healthy_world();
	struct check_result r = ask(&w, CHECK_P2P);

	assert_int_equal(r.status, STATUS_PASS);
	assert_true(fabs(r.value / 5e10 - 1) < 0.2);
	assert_string_equal(r.unit, "B/s");
	assert_int_equal(r.errors, 0);
	assert_int_equal(r.bytes_tested, 6 * 2 * MIB);
	assert_int_equal(spoiled.largest_copy, 2 * MIB);
	assert_int_equal(spoiled.n_launched, 12);
	for (unsigned i = 0; i < 12; i++) {
		const struct launched *l = &spoiled.launched[i];

		assert_string_equal(l->name, i % 2 ? "gp_check" : "gp_fill");
		assert_int_equal(l->arg[2], 2 * MIB / 16);
		assert_int_equal(l->arg[3], 7 + i / 2);
		assert_true(l->arg[0] == spoiled.launched[i % 2].arg[0]);
	}
	assert_true(spoiled.launched[0].arg[0] != spoiled.launched[1].arg[0]);
}

/* The way back is from the GPU that is not the runtime's current one. */
TEST(access_is_asked_for_by_who_sends)
{
	struct check_world to = healthy_world(), from = to;
	struct check_result r;

	from.gpu = &check_peer_gpu;
	check_begin(&r, CHECK_P2P);
	assert_true(check_peer(&from, 1, &to, 0, &r));
	assert_int_equal(r.status, STATUS_PASS);
	assert_true(fabs(r.value / 5e10 - 1) < 0.2);
}

/* A quarter of what the one with less has free, 256 MiB at most. */
TEST(the_smaller_one_tells_how_much)
{
	static const struct {
		int64_t from, to, bytes;
	} cases[] = {{2000 * MIB, 2000 * MIB, 256 * MIB}, {1024 * MIB, 2000 * MIB, 256 * MIB},
		{1023 * MIB, 2000 * MIB, 128 * MIB}, {2000 * MIB, 4 * MIB, MIB},
		{4 * MIB, 2000 * MIB, MIB}, {4 * MIB - 1, 2000 * MIB, 0}, {2000 * MIB, 0, 0}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_world w = healthy_world();
		struct check_result r;

		check_gpu.memory_free_bytes = cases[i].from;
		check_peer_gpu.memory_free_bytes = cases[i].to;
		r = ask(&w, CHECK_P2P);
		assert_int_equal(r.status, cases[i].bytes ? STATUS_PASS : STATUS_ERROR);
		assert_int_equal(r.code, cases[i].bytes ? CODE_NONE : CODE_OUT_OF_MEMORY);
		assert_int_equal(spoiled.largest_copy, cases[i].bytes);
	}
}

TEST(some_pairs_are_not_measured)
{
	static const struct {
		const char *scenario, *reason;
		int major, minor;
	} cases[] = {{WORLD(""), "different_gpus", 8, 0}, {WORLD(""), "different_gpus", 9, 1},
		{"{\"devices\": [{}, {}]}", "no_peer_access", 9, 0},
		{"{\"calls\": [{\"call\": \"cudaDeviceEnablePeerAccess\", \"error\": 217}], "
		 "\"devices\": [{" HEALTHY "}, {" HEALTHY "}]}",
			"no_peer_access", 9, 0}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_world w = a_world(cases[i].scenario);
		struct check_result r;

		check_peer_gpu.cc_major = cases[i].major;
		check_peer_gpu.cc_minor = cases[i].minor;
		r = ask(&w, CHECK_P2P);
		assert_int_equal(r.status, STATUS_SKIP);
		assert_string_equal(r.reason, cases[i].reason);
		assert_int_equal(spoiled.n_launched, 0);
		assert_int_equal(w.rt->last_error(), 0);
	}
}

/* Somebody has asked for access before. */
TEST(access_may_be_there)
{
	struct check_world w =
		a_world("{\"calls\": [{\"call\": \"cudaDeviceEnablePeerAccess\", \"error\": 704}], "
			"\"devices\": [{" HEALTHY "}, {" HEALTHY "}]}");

	assert_int_equal(ask(&w, CHECK_P2P).status, STATUS_PASS);
	assert_int_equal(w.rt->last_error(), 0);
}

TEST(the_median_copy_counts)
{
	static const float times[] = {9, 4, 1, 2, 3, 5}, broken[] = {1, 1, 1, NAN, 1, 1},
			   first[] = {NAN, 1, 1, 1, 1, 1};
	struct check_world w = healthy_world();
	struct check_result r;

	spoiled.times = times;
	spoiled.n_times = COUNT(times);
	r = ask(&w, CHECK_P2P);
	assert_true(fabs(r.value / (2.0 * MIB / 0.003) - 1) < 1e-6);
	w = healthy_world();
	spoiled.times = broken;
	spoiled.n_times = COUNT(broken);
	assert_int_equal(ask(&w, CHECK_P2P).code, CODE_NOT_A_NUMBER);
	w = healthy_world();
	spoiled.times = first;
	spoiled.n_times = COUNT(first);
	assert_int_equal(ask(&w, CHECK_P2P).status, STATUS_PASS);
}

/* More than either memory gives or takes. */
TEST(a_link_is_no_faster_than_memory)
{
	for (int slow = 0; slow < 3; slow++) {
		struct check_world w = healthy_world();
		struct check_result r;

		if (slow == 1)
			check_gpu.memory_clock_max_mhz = 20;
		if (slow == 2)
			check_peer_gpu.memory_clock_max_mhz = 20;
		r = ask(&w, CHECK_P2P);
		assert_int_equal(r.code, slow ? CODE_TOO_FAST : CODE_NONE);
	}
}

TEST(what_arrives_otherwise_is_told)
{
	struct check_world w =
		a_world(WORLD(", \"peer_wrong\": {\"offset\": 4096, \"bit\": 65, \"times\": 1}"));
	struct check_result r = ask(&w, CHECK_P2P);

	assert_int_equal(r.code, CODE_LINK_ERRORS);
	assert_int_equal(r.errors, 1);
	assert_int_equal(r.n_memory, 1);
	assert_int_equal(r.memory[0].offset, 4096);
	assert_int_equal(r.memory[0].expected[1] ^ r.memory[0].got[1], 2);
	/* of memory that keeps nothing */
	assert_true(r.pages == -1 && r.bits_0_to_1 == -1 && r.bits_1_to_0 == -1);
	assert_non_null(strstr(r.message, "1 cells"));
	assert_non_null(strstr(r.message, "offset 4096"));
}

TEST(who_is_to_end_copies_no_more)
{
	for (unsigned n = 1; n <= 7; n++) {
		struct check_world w = healthy_world();
		struct check_result r;

		stop_at = n;
		r = ask(&w, CHECK_P2P);
		assert_int_equal(r.status, n <= 6 ? STATUS_SKIP : STATUS_PASS);
		if (n <= 6)
			assert_string_equal(r.reason, "not_run");
		assert_int_equal(spoiled.n_launched, n <= 6 ? 2 * n : 12);
	}
}

/* ---- shared by all ---- */

TEST(records_are_kept_with_their_pages)
{
	struct kernel_findings f = {
		.wrong_cells = 4, .kept = 4, .bits_0_to_1 = 3, .bits_1_to_0 = 5};
	/* 4096 cells are a page */
	static const uint64_t cells[] = {4095, 4096, 8191, 0};
	struct check_result r;

	for (unsigned i = 0; i < 4; i++) {
		f.mismatch[i].cell = cells[i];
		f.mismatch[i].expected = (struct kernel_cell){1, 2};
		f.mismatch[i].got = (struct kernel_cell){3, 4};
		f.mismatch[i].again = (struct kernel_cell){5, 6};
	}
	check_begin(&r, CHECK_MEM_PATTERN);
	evidence_keep(&r, &f);
	assert_int_equal(r.n_memory, 4);
	assert_int_equal(r.pages, 2);
	assert_int_equal(r.bits_0_to_1, 3);
	assert_int_equal(r.bits_1_to_0, 5);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(r.memory[i].offset, cells[i] * 16);
		assert_int_equal(r.memory[i].expected[0] + 10 * r.memory[i].expected[1], 21);
		assert_int_equal(r.memory[i].got[0] + 10 * r.memory[i].got[1], 43);
		assert_int_equal(r.memory[i].again[0] + 10 * r.memory[i].again[1], 65);
	}
	/* with more than are kept nobody has counted them */
	f.wrong_cells = 5;
	check_begin(&r, CHECK_MEM_PATTERN);
	evidence_keep(&r, &f);
	assert_int_equal(r.pages, -1);
	/* an offset is a number that JSON can hold */
	f.mismatch[0].cell = EVIDENCE_MOST / 16 - 1;
	f.mismatch[1].cell = EVIDENCE_MOST / 16;
	f.mismatch[2].cell = ~0ull;
	evidence_keep(&r, &f);
	assert_int_equal(r.memory[0].offset, EVIDENCE_MOST - 16);
	assert_int_equal(r.memory[1].offset, EVIDENCE_MOST);
	assert_int_equal(r.memory[2].offset, EVIDENCE_MOST);
}

TEST(some_errors_leave_the_context)
{
	static const struct {
		int error;
		enum check_status status;
		bool usable;
	} cases[] = {{RT_SUCCESS, STATUS_SKIP, true}, {RT_INVALID_VALUE, STATUS_ERROR, true},
		{RT_OUT_OF_MEMORY, STATUS_ERROR, true}, {RT_MISSING_CALL, STATUS_ERROR, true},
		{RT_ECC_UNCORRECTABLE, STATUS_FAIL, false}, {719, STATUS_FAIL, false},
		{RT_UNKNOWN, STATUS_ERROR, false}, {RT_INITIALIZATION, STATUS_ERROR, false}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_world w = healthy_world();
		struct check_result r;

		check_begin(&r, CHECK_MEM_PATTERN);
		assert_int_equal(cuda_ok(&w, &r, cases[i].error, "cudaThis"), cases[i].error == 0);
		assert_int_equal(r.status, cases[i].status);
		assert_int_equal(r.cuda_error, cases[i].error);
		assert_int_equal(cuda_usable(&r), cases[i].usable);
		assert_true(cases[i].error == 0 || strstr(r.message, "cudaThis"));
	}
}

TEST(a_grid_fills_the_gpu)
{
	static const struct {
		int sms;
		unsigned blocks;
	} cases[] = {{1, 8}, {2, 16}, {132, 1056}, {0, 1024}, {-1, 1024}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_world w = healthy_world();

		check_gpu.sm_count = cases[i].sms;
		assert_int_equal(grid_of(&w), cases[i].blocks);
	}
}

/* What is not copied is no pass. */
TEST(what_is_read_is_read_anew)
{
	struct check_world w = healthy_world();
	struct check_result r;
	struct kernel_findings f;
	struct work k = {0};
	void *found = NULL;

	memset(&f, 0, sizeof(f));
	check_begin(&r, CHECK_MEM_PATTERN);
	assert_true(begin_findings(&w, &r, &found) && work_init(&w, &r, &k) && finish(&w, &r));
	assert_true(read_findings(&w, &r, found, &f));
	assert_int_equal(evidence_wrong_cells(&f), 0);
	spoiled.drop_copy = 1;
	assert_false(read_findings(&w, &r, found, &f));
	assert_int_equal(r.code, CODE_WORK_MISSING);
	assert_true(evidence_wrong_cells(&f) > 0);
	assert_true(work_read(&w, &r, &k));
	assert_false(work_complete(&k, &r, "gp_this"));
	assert_non_null(strstr(r.message, "gp_this: block 0 of 16"));
	assert_int_equal(w.rt->mem_free(found), 0);
	work_release(&w, &r, &k);
	assert_int_equal(spoiled.owned, 0);
}

TESTS_WITHIN(check_begin_group, check_end_group, each_copy_has_a_pattern_of_its_own,
	access_is_asked_for_by_who_sends, the_smaller_one_tells_how_much,
	some_pairs_are_not_measured, access_may_be_there, the_median_copy_counts,
	a_link_is_no_faster_than_memory, what_arrives_otherwise_is_told,
	who_is_to_end_copies_no_more, records_are_kept_with_their_pages,
	some_errors_leave_the_context, a_grid_fills_the_gpu, what_is_read_is_read_anew)

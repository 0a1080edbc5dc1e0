/* SPDX-License-Identifier: Apache-2.0 */
/* test: probe/check/checks_exact: which chains run where, and what is said of those that come out
 * wrong. */
#include "probe/result/evidence.h"
#include "test/unit/check_fixture.h"
#include "test/unit/test.h"

#define CHAINS (16 * KERNEL_THREADS) /* of two multiprocessors */
#define CHAIN sizeof(struct kernel_chain)

/* ---- arithmetic ---- */

TEST(runs_are_shifted_and_turned)
{
	static const struct {
		enum check_id id;
		const char *kernel;
		uint64_t steps, turn[3];
	} kinds[] = {{CHECK_EXACT_FP32, "gp_fma32", 65536, {0, 43, 87}},
		{CHECK_EXACT_FP64, "gp_fma64", 4096, {0, 43, 87}},
		{CHECK_EXACT_TENSOR, "gp_mma16", 4096, {0, 1, 2}}};
	static const int sms[] = {1, 2, 5};
	static const uint64_t shifts[][3] = {{0, 1, 1}, {0, 1, 1}, {0, 3, 1}};

	for (size_t k = 0; k < COUNT(kinds); k++)
		for (size_t n = 0; n < COUNT(sms); n++) {
			struct check_world w =
				a_world(sms[n] == 5   ? "{\"devices\": [{\"sms\": 5}]}"
					: sms[n] == 1 ? "{\"devices\": [{\"sms\": 1}]}"
						      : WORLD(""));
			struct check_result r;

			if (sms[n] == 5 && k == 0)
				continue; /* takes long */
			check_gpu.sm_count = sms[n];
			r = ask(&w, kinds[k].id);
			assert_int_equal(r.status, STATUS_PASS);
			assert_int_equal(r.sms_visited, sms[n]);
			assert_int_equal(r.sms_total, sms[n]);
			assert_int_equal(r.errors, 0);
			assert_int_equal(spoiled.n_launched, 3);
			assert_true(within_s > 0);
			for (unsigned i = 0; i < 3; i++) {
				const struct launched *l = &spoiled.launched[i];

				assert_string_equal(l->name, kinds[k].kernel);
				assert_int_equal(l->blocks, 8 * sms[n]);
				assert_int_equal(l->arg[0], kinds[k].steps);
				assert_int_equal(l->arg[2], 7);
				assert_int_equal(l->arg[3], shifts[n][i]);
				assert_int_equal(l->arg[4], kinds[k].turn[i]);
			}
		}
}

/* A lane of one multiprocessor: each chain that it had in a run is wrong, and is told with the
 * lane. */
TEST(a_wrong_lane_is_named)
{
	struct check_world w = a_world(WORLD(
		", \"wrong\": {\"sm\": 1, \"kernel\": \"gp_fma32\", \"lane\": 5, \"times\": -1}"));
	struct check_result r = ask(&w, CHECK_EXACT_FP32);

	assert_int_equal(r.code, CODE_COMPUTE_ERRORS);
	/* eight blocks in each of three runs */
	assert_int_equal(r.errors, 24);
	assert_int_equal(r.n_compute, CHECK_RECORDS_MAX);
	assert_non_null(strstr(r.message, "24 of 4096 chains"));
	assert_non_null(strstr(r.message, "multiprocessor 1"));
	for (unsigned i = 0; i < r.n_compute; i++) {
		const struct compute_error *e = &r.compute[i];

		assert_int_equal(e->sm, 1);
		assert_int_equal(e->lane % KERNEL_THREADS, 5);
		assert_int_equal(e->lane / KERNEL_THREADS % 2, 1);
		assert_true(e->lane < CHAINS);
		assert_int_equal(e->repeats, 1);
		assert_true(e->expected != e->got);
	}
}

/* Of 24 blocks, by which no power of two can be divided. */
TEST(a_wrong_lane_of_three_is_named)
{
	struct check_world w =
		a_world("{\"devices\": [{\"sms\": 3, \"wrong\": {\"sm\": 1, "
			"\"kernel\": \"gp_fma64\", \"lane\": 255, \"times\": -1}}]}");
	struct check_result r;

	check_gpu.sm_count = 3;
	r = ask(&w, CHECK_EXACT_FP64);
	assert_int_equal(r.errors, 24);
	for (unsigned i = 0; i < r.n_compute; i++) {
		assert_int_equal(r.compute[i].lane % KERNEL_THREADS, 255);
		assert_int_equal(r.compute[i].lane / KERNEL_THREADS % 3, 1);
	}
}

/* The same of a warp. */
TEST(a_wrong_warp_is_named)
{
	struct check_world w = a_world(WORLD(
		", \"wrong\": {\"sm\": 0, \"kernel\": \"gp_mma16\", \"lane\": 3, \"times\": -1}"));
	struct check_result r = ask(&w, CHECK_EXACT_TENSOR);

	assert_int_equal(r.errors, 24);
	for (unsigned i = 0; i < r.n_compute; i++) {
		assert_int_equal(r.compute[i].lane % 8, 3);
		assert_int_equal(r.compute[i].lane / 8 % 2, 0);
	}
}

/* What is wrong in every run alike is found only by the CPU: one warp of each block. */
TEST(the_cpu_has_the_last_word)
{
	struct check_world w = a_world(WORLD(
		", \"wrong\": {\"sm\": 1, \"kernel\": \"gp_fma32\", \"lane\": -1, \"times\": -1}"));
	struct check_result r = ask(&w, CHECK_EXACT_FP32);
	unsigned twice = 0;

	assert_int_equal(r.code, CODE_COMPUTE_ERRORS);
	/* on two multiprocessors each chain is on either one in one run at least */
	assert_int_equal(r.errors, CHAINS);
	for (unsigned i = 0; i < r.n_compute; i++) {
		assert_in_range(r.compute[i].repeats, 1, 2);
		twice += r.compute[i].repeats == 2;
	}
	assert_true(twice > 0);
	w = a_world("{\"devices\": [{\"sms\": 1, \"wrong\": {\"sm\": 0, \"kernel\": \"gp_fma32\", "
		    "\"lane\": -1, \"times\": -1}}]}");
	check_gpu.sm_count = 1;
	r = ask(&w, CHECK_EXACT_FP32);
	assert_int_equal(r.errors, 8 * 32);
	assert_int_equal(r.compute[0].repeats, 3);
}

/* One bit of one chain of one run. */
TEST(where_it_ran_is_told)
{
	static const struct {
		unsigned run, chain, lane;
	} cases[] = {{1, 1000, 1000},
		{2, 1000, 15 * 0 + 2 * KERNEL_THREADS + (1000 % 256 + 256 - 43) % 256},
		{3, 1000, 2 * KERNEL_THREADS + (1000 % 256 + 256 - 87) % 256},
		{2, 0, 15 * KERNEL_THREADS + 256 - 43}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_world w = healthy_world();
		struct check_result r;

		spoiled.spoil_copy = cases[i].run;
		spoiled.spoil_at = cases[i].chain * CHAIN + 1;
		spoiled.spoil_bits = 0x10;
		r = ask(&w, CHECK_EXACT_FP32);
		assert_int_equal(r.errors, 1);
		assert_int_equal(r.n_compute, 1);
		assert_int_equal(r.compute[0].repeats, 1);
		assert_int_equal(r.compute[0].lane, cases[i].lane);
		assert_int_equal(r.compute[0].sm, cases[i].lane / KERNEL_THREADS % 2);
		assert_int_equal(r.compute[0].expected ^ r.compute[0].got, 0x1000);
	}
}

/* Chains that one run left out, each counted once. */
TEST(missing_chains_are_counted)
{
	for (unsigned run = 1; run <= 3; run++) {
		struct check_world w = healthy_world();

		spoiled.spoil_copy = run;
		spoiled.spoil_at = 1000 * CHAIN + offsetof(struct kernel_chain, runs);
		spoiled.spoil_bits = 1;
		assert_non_null(strstr(ask(&w, CHECK_EXACT_FP64).message, "1 of 4096 chains"));
	}
}

TEST(a_planted_lane_is_found)
{
	static const struct {
		enum check_id id;
		int plant;
		bool found;
	} cases[] = {{CHECK_EXACT_FP32, 2, true}, {CHECK_EXACT_FP32, 1, false},
		{CHECK_EXACT_FP64, 2, false}, {CHECK_EXACT_TENSOR, 2, false}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_world w = healthy_world();
		struct check_result r;

		check_job.plant = cases[i].plant;
		r = ask(&w, cases[i].id);
		assert_int_equal(r.errors, cases[i].found);
		assert_int_equal(r.status, cases[i].found ? STATUS_FAIL : STATUS_PASS);
		if (cases[i].found) {
			assert_int_equal(r.compute[0].lane, CHAINS / 2);
			assert_int_equal(r.compute[0].expected ^ r.compute[0].got, 1ull << 40);
		}
	}
}

/* A multiprocessor that no block names: of one that is there, or none. */
TEST(every_multiprocessor_must_be_reached)
{
	static const enum check_id ids[] = {
		CHECK_EXACT_FP64, CHECK_EXACT_TENSOR, CHECK_SHARED_MEMORY};

	for (size_t i = 0; i < COUNT(ids); i++) {
		struct check_world w = a_world("{\"devices\": [{\"sms\": 3, \"missing_sm\": 1}]}");
		struct check_result r;

		check_gpu.sm_count = 3;
		r = ask(&w, ids[i]);
		assert_int_equal(r.status, STATUS_ERROR);
		assert_int_equal(r.code, CODE_SMS_MISSED);
		assert_int_equal(r.sms_visited, 2);
		assert_int_equal(r.sms_total, 3);
		/* numbers beyond those that there are count for none */
		w = healthy_world();
		check_gpu.sm_count = 1;
		r = ask(&w, ids[i]);
		assert_int_equal(r.status, STATUS_PASS);
		assert_int_equal(r.sms_visited, 1);
	}
}

TEST(tensor_cores_come_with_volta)
{
	struct check_world w = healthy_world();
	struct check_result r;

	check_gpu.cc_major = 6;
	for (int rate = 0; rate < 2; rate++) {
		r = ask(&w, rate ? CHECK_TENSOR_RATE : CHECK_EXACT_TENSOR);
		assert_int_equal(r.status, STATUS_SKIP);
		assert_string_equal(r.reason, "not_on_this_gpu");
	}
	assert_int_equal(ask(&w, CHECK_EXACT_FP64).status, STATUS_PASS);
	check_gpu.cc_major = 7;
	assert_int_equal(ask(&w, CHECK_EXACT_TENSOR).status, STATUS_PASS);
	assert_int_equal(ask(&w, CHECK_TENSOR_RATE).status, STATUS_PASS);
}

/* ---- shared memory ---- */

TEST(shared_memory_is_that_of_all)
{
	struct check_world w = healthy_world();
	struct check_result r = ask(&w, CHECK_SHARED_MEMORY);

	assert_int_equal(r.bytes_tested, 2 * KERNEL_SHARED_BYTES);
	assert_int_equal(r.errors, 0);
	assert_int_equal(r.sms_visited, 2);
	assert_int_equal(r.sms_total, 2);
	assert_int_equal(spoiled.n_launched, 1);
	assert_int_equal(spoiled.launched[0].arg[0], 16);
	assert_int_equal(spoiled.launched[0].arg[1], 7);
	w = a_world(WORLD(", \"wrong\": {\"sm\": 1, \"kernel\": \"gp_smem\", \"times\": -1}"));
	r = ask(&w, CHECK_SHARED_MEMORY);
	assert_int_equal(r.code, CODE_MEMORY_ERRORS);
	assert_int_equal(r.errors, 8);
	/* a block that names another multiprocessor takes nothing from those that do not */
	w = healthy_world();
	spoiled.spoil_copy = 3;
	spoiled.spoil_at = 4;
	spoiled.spoil_bits = 0x70;
	r = ask(&w, CHECK_SHARED_MEMORY);
	assert_int_equal(r.status, STATUS_PASS);
	assert_int_equal(r.sms_visited, 2);
}

TESTS_WITHIN(check_begin_group, check_end_group, runs_are_shifted_and_turned, a_wrong_lane_is_named,
	a_wrong_lane_of_three_is_named, a_wrong_warp_is_named, the_cpu_has_the_last_word,
	where_it_ran_is_told, missing_chains_are_counted, a_planted_lane_is_found,
	every_multiprocessor_must_be_reached, tensor_cores_come_with_volta,
	shared_memory_is_that_of_all)

/* SPDX-License-Identifier: Apache-2.0 */
/* test: probe/check/checks_rate, checks_link and what they share: what a rate is the rate of, which
 * of several times count, and what is too little, too busy or too late to be measured. */
#include <math.h>

#include "probe/result/evidence.h"
#include "test/unit/check_fixture.h"
#include "test/unit/test.h"

#define MIB (1ll << 20)
#define PEAK (2.0 * 3201e6 * 6144 / 8) /* of the memory, as its clock promises */
#define FLOPS (2.0 * 128 * 2 * 1980e6)

/* The first run of each measurement does not count. */
#define TIMES(...)                                                                                 \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

/* ---- what a rate is ---- */

TEST(rates_are_those_of_the_work)
{
	static const struct {
		enum check_id id;
		const char *kernel;
		unsigned at; /* the launch that is looked at */
		double rate, off;
		const char *unit;
	} cases[] = {{CHECK_MEM_READ, "gp_read", 1, 0.92 * PEAK, 0.01, "B/s"},
		{CHECK_MEM_WRITE, "gp_fill", 0, 0.85 * PEAK, 0.01, "B/s"},
		{CHECK_MEM_COPY, "gp_copy", 1, 0.87 * PEAK, 0.01, "B/s"},
		{CHECK_FP32_RATE, "gp_fma32", 0, 0.90 * FLOPS, 0.01, "FLOP/s"},
		{CHECK_FP64_RATE, "gp_fma64", 0, 0.45 * FLOPS, 0.01, "FLOP/s"},
		{CHECK_TENSOR_RATE, "gp_mma16", 0, 0.60 * 8 * FLOPS, 0.01, "FLOP/s"},
		{CHECK_H2D, "gp_check", 0, 5e10, 0.02, "B/s"},
		{CHECK_D2H, "gp_fill", 0, 5e10, 0.02, "B/s"},
		{CHECK_REMOTE_BANDWIDTH, "gp_check", 0, 5e10, 0.02, "B/s"}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_world w = healthy_world();
		struct check_result r = ask(&w, cases[i].id);

		assert_int_equal(r.status, STATUS_PASS);
		if (fabs(r.value / cases[i].rate - 1) > cases[i].off)
			fail_msg("%s: %g, expected %g", check_title(r.id), r.value, cases[i].rate);
		assert_string_equal(r.unit, cases[i].unit);
		assert_string_equal(spoiled.launched[cases[i].at].name, cases[i].kernel);
		assert_int_equal(spoiled.launched[cases[i].at].blocks, 16);
		assert_true(r.fail_above > r.value);
	}
}

/* 64 MiB of 300; what was written is checked by other blocks, what was read by the same. */
TEST(memory_is_filled_before_and_checked_behind)
{
	static const struct {
		enum check_id id;
		const char *first, *timed;
		unsigned launches;
		uint64_t shift;
	} cases[] = {{CHECK_MEM_READ, "gp_fill", "gp_read", 8, 0},
		{CHECK_MEM_WRITE, "gp_fill", "gp_fill", 7, 1},
		{CHECK_MEM_COPY, "gp_fill", "gp_copy", 8, 1}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_world w = healthy_world();
		const struct launched *last;

		(void)ask(&w, cases[i].id);
		assert_int_equal(spoiled.n_launched, cases[i].launches);
		last = &spoiled.launched[cases[i].launches - 1];
		assert_string_equal(spoiled.launched[0].name, cases[i].first);
		assert_int_equal(spoiled.launched[0].arg[2], 4 * MIB);
		assert_int_equal(spoiled.launched[0].arg[3], 7);
		for (unsigned n = 1; n + 1 < cases[i].launches; n++)
			assert_string_equal(spoiled.launched[n].name, cases[i].timed);
		assert_string_equal(last->name, "gp_check");
		assert_int_equal(last->arg[2], 4 * MIB);
		assert_int_equal(last->arg[6], cases[i].shift);
		assert_int_equal(last->arg[3], 7);
		/* where it was written */
		assert_true(last->arg[0] == spoiled.launched[cases[i].id == CHECK_MEM_COPY].arg[0]);
	}
}

/* ---- times ---- */

static struct check_result read_rate(const float *times, unsigned n)
{
	struct check_world w = healthy_world();

	spoiled.times = times;
	spoiled.n_times = n;
	return ask(&w, CHECK_MEM_READ);
}

/* 64 MiB: one at 14.3 us is what a healthy GPU takes. */
#define MS(rate) ((float)(64.0 * MIB / (rate) / PEAK * 1000))

TEST(the_median_of_five_counts)
{
	static const float times[] = {1, MS(0.9), MS(0.5), MS(0.91), MS(0.92), MS(0.4)};
	static const float broken[] = {1, MS(0.9), MS(0.9), NAN, MS(0.9), MS(0.9)};
	static const float endless[] = {1, MS(0.9), MS(0.9), MS(0.9), MS(0.9), INFINITY};
	static const float first[] = {NAN, MS(0.9), MS(0.9), MS(0.9), MS(0.9), MS(0.9)};
	static const float none[] = {1, 0, 0, 0, 0, 0};
	struct check_result r = read_rate(times, COUNT(times));

	assert_int_equal(r.status, STATUS_PASS);
	assert_true(fabs(r.value / PEAK - 0.9) < 0.001);
	assert_int_equal(read_rate(broken, COUNT(broken)).code, CODE_NOT_A_NUMBER);
	assert_int_equal(read_rate(endless, COUNT(endless)).code, CODE_NOT_A_NUMBER);
	assert_int_equal(read_rate(first, COUNT(first)).status, STATUS_PASS);
	assert_true(read_rate(none, COUNT(none)).status == STATUS_FAIL);
}

/* Slow, or only a warning: measured again, three times at most. */
TEST(the_best_of_three_counts)
{
#define SIX(rate) MS(rate), MS(rate), MS(rate), MS(rate), MS(rate), MS(rate)
	static const float better[] = {SIX(0.5), SIX(0.75), SIX(0.9)};
	static const float worse[] = {SIX(0.72), SIX(0.5), SIX(0.6)};
	static const float slow[] = {SIX(0.5), SIX(0.6), SIX(0.55), SIX(0.9)};
	static const float good[] = {SIX(0.9), SIX(0.5)};
	struct check_result r = read_rate(better, COUNT(better));

	assert_int_equal(r.status, STATUS_PASS);
	assert_true(fabs(r.value / PEAK - 0.9) < 0.001);
	assert_int_equal(spoiled.n_times, 0);
	r = read_rate(worse, COUNT(worse));
	assert_int_equal(r.status, STATUS_WARN);
	assert_true(fabs(r.value / PEAK - 0.72) < 0.001);
	r = read_rate(slow, COUNT(slow));
	assert_int_equal(r.code, CODE_SLOW);
	assert_int_equal(r.status, STATUS_FAIL);
	assert_true(fabs(r.value / PEAK - 0.6) < 0.001);
	assert_int_equal(spoiled.n_times, 6);
	r = read_rate(good, COUNT(good));
	assert_int_equal(r.status, STATUS_PASS);
	assert_int_equal(spoiled.n_times, 6);
}

TEST(who_is_to_end_does_not_measure_again)
{
	static const float slow[] = {SIX(0.5), SIX(0.9)};
	struct check_world w = healthy_world();

	spoiled.times = slow;
	spoiled.n_times = COUNT(slow);
	stop_at = 1;
	assert_int_equal(ask(&w, CHECK_MEM_READ).code, CODE_SLOW);
	assert_int_equal(spoiled.n_times, 6);
}

/* Through a remote-GPU client a rate is told, and judged only when it cannot be. */
TEST(a_remote_rate_is_not_expected)
{
	static const float slow[] = {SIX(0.1)}, fast[] = {SIX(1.5)};
	struct check_world w = healthy_world();
	struct check_result r;

	check_job.profile = PROFILE_VERIFY_REMOTE;
	spoiled.times = slow;
	spoiled.n_times = COUNT(slow);
	r = ask(&w, CHECK_MEM_READ);
	assert_int_equal(r.status, STATUS_PASS);
	assert_true(isnan(r.expected) && r.basis == BASIS_NONE);
	spoiled.times = fast;
	spoiled.n_times = COUNT(fast);
	assert_int_equal(ask(&w, CHECK_MEM_READ).code, CODE_TOO_FAST);
	w = healthy_world();
	spoiled.times = fast;
	spoiled.n_times = COUNT(fast);
	assert_int_equal(ask(&w, CHECK_MEM_READ).code, CODE_TOO_FAST);
}

/* ---- when not ---- */

TEST(a_busy_gpu_is_not_timed)
{
	for (size_t i = 0; i < SUBJECTS; i++) {
		enum check_id id = subjects[i].id;
		bool timed = id != CHECK_REMOTE_RTT && id != CHECK_P2P && id != CHECK_MEM_PATTERN &&
			     id != CHECK_SHARED_MEMORY && subjects[i].check != check_exact;
		struct check_world w = healthy_world();
		struct check_result r;

		check_job.busy = true;
		r = ask(&w, id);
		assert_int_equal(r.status, timed ? STATUS_SKIP : STATUS_PASS);
		if (timed)
			assert_string_equal(r.reason, "busy");
		assert_true(timed == (spoiled.calls == 0));
	}
}

TEST(a_small_buffer_measures_the_cache)
{
	static const struct {
		int64_t available, l2, cells; /* 0: too little */
	} cases[] = {{300 * MIB, 4 * MIB, 4 * MIB}, {256 * MIB, 0, 4 * MIB}, {256 * MIB - 1, 0, 0},
		{300 * MIB, 8 * MIB, 4 * MIB}, {300 * MIB, 8 * MIB + 1, 0},
		{300 * MIB, -1, 4 * MIB}, {1024 * MIB, 4 * MIB, 16 * MIB},
		{16384 * MIB, 4 * MIB, 128 * MIB}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_world w = a_world(
			"{\"launch_us\": 0, \"devices\": [{\"sms\": 2, \"memory_mib\": 20000}]}");
		struct check_result r;

		check_gpu.memory_free_bytes = cases[i].available;
		check_gpu.l2_bytes = cases[i].l2;
		r = ask(&w, CHECK_MEM_READ);
		assert_int_equal(r.code, cases[i].cells ? CODE_NONE : CODE_OUT_OF_MEMORY);
		assert_int_equal(r.status, cases[i].cells ? STATUS_PASS : STATUS_ERROR);
		assert_int_equal(spoiled.launched[0].arg[2], cases[i].cells);
	}
}

TEST(wrong_memory_has_no_rate)
{
	struct check_world w =
		a_world(WORLD(", \"flips\": [{\"offset\": 1600, \"bit\": 3, \"kind\": \"stuck0\"}, "
			      "{\"offset\": 16, \"bit\": 3, \"kind\": \"stuck0\"}, "
			      "{\"offset\": 160, \"bit\": 3, \"kind\": \"stuck0\"}]"));
	struct check_result r = ask(&w, CHECK_MEM_READ);

	assert_int_equal(r.code, CODE_MEMORY_ERRORS);
	assert_in_range(r.errors, 1, 3);
	assert_int_equal(r.n_memory, r.errors);
	assert_non_null(strstr(r.message, "cells of 16 bytes were not"));
}

/* ---- the host's side ---- */

TEST(copies_are_of_the_size_that_is_named)
{
	static const struct {
		enum check_id id;
		bool remote, up;
		size_t bytes;
		unsigned copies;
	} cases[] = {{CHECK_H2D_4K, false, true, 4096, 21}, {CHECK_D2H_4K, false, false, 4096, 21},
		{CHECK_H2D_1M, true, true, MIB, 21}, {CHECK_D2H_1M, false, false, MIB, 21},
		{CHECK_H2D_32M, true, true, 32 * MIB, 6},
		{CHECK_D2H_32M, false, false, 32 * MIB, 6}, {CHECK_H2D, false, true, 32 * MIB, 6},
		{CHECK_D2H, false, false, 32 * MIB, 6},
		{CHECK_REMOTE_BANDWIDTH, false, true, 32 * MIB, 6},
		{CHECK_H2D, true, true, 16 * MIB, 6}, {CHECK_D2H, true, false, 16 * MIB, 6},
		{CHECK_REMOTE_BANDWIDTH, true, true, 16 * MIB, 6}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_world w = healthy_world();
		struct check_result r;

		check_job.remote = cases[i].remote;
		/* a remote-GPU client may have no pinned memory to offer */
		spoiled.pinned_refused = i % 2;
		r = ask(&w, cases[i].id);
		assert_int_equal(r.status, STATUS_PASS);
		assert_int_equal(spoiled.largest_copy, cases[i].bytes);
		/* and what kernels have left: findings and work */
		assert_int_equal(spoiled.n_to_device, cases[i].up ? cases[i].copies : 0);
		assert_int_equal(spoiled.n_from_device, 2 + (cases[i].up ? 0 : cases[i].copies));
		assert_true(isfinite(r.value) && r.value > 0);
		assert_string_equal(r.unit, cases[i].copies == 21 || cases[i].id == CHECK_H2D_32M ||
							    cases[i].id == CHECK_D2H_32M
						    ? "s"
						    : "B/s");
		assert_true(within_s >= 100);
	}
}

TEST(launches_are_counted_one_by_one)
{
	static const struct {
		enum check_id id;
		unsigned launches;
	} cases[] = {{CHECK_LAUNCH, 300}, {CHECK_LAUNCH_WAIT, 21}, {CHECK_REMOTE_RTT, 21}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_world w = healthy_world();
		struct check_result r = ask(&w, cases[i].id);

		assert_int_equal(spoiled.n_launched, cases[i].launches);
		assert_string_equal(spoiled.launched[0].name, "gp_nop");
		assert_int_equal(spoiled.launched[0].blocks, 1);
		assert_true(r.value > 0 && r.value < 1);
		assert_string_equal(r.unit, "s");
		assert_true(within_s >= 100);
	}
}

/* What waits is the host: a call that takes 20 ms is seen in full once, and by its share where
 * many are launched at once. */
TEST(waits_are_seconds_of_the_host)
{
	struct check_world w = a_world("{\"calls\": [{\"call\": \"cudaStreamSynchronize\", "
				       "\"sleep_s\": 0.01}], \"devices\": [{\"sms\": 2}]}");
	struct check_result r = ask(&w, CHECK_LAUNCH);

	assert_true(r.value > 0.01 / 50 * 0.99 && r.value < 0.01 / 2);
	r = ask(&w, CHECK_LAUNCH_WAIT);
	assert_true(r.value > 0.0099 && r.value < 0.2);
}

/* Five of twenty take long, in the middle: the median is one of the others. */
TEST(the_median_wait_counts)
{
#define SLOW(use) "{\"call\": \"cudaStreamSynchronize\", \"use\": " #use ", \"sleep_s\": 0.1}"
	struct check_world w = a_world("{\"calls\": [" SLOW(11) ", " SLOW(12) ", " SLOW(
		13) ", " SLOW(14) ", " SLOW(15) "], \"devices\": [{\"sms\": 2}]}");
	struct check_result r = ask(&w, CHECK_LAUNCH_WAIT);

	assert_int_equal(r.status, STATUS_PASS);
	assert_true(r.value < 0.05);
}

TEST(what_arrived_otherwise_is_told)
{
	static const struct {
		enum check_id id;
		unsigned copy;
		bool records;
	} cases[] = {{CHECK_H2D_4K, 3, true}, {CHECK_D2H_4K, 3, false}};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_world w = healthy_world();
		struct check_result r;

		spoiled.spoil_copy = cases[i].copy;
		spoiled.spoil_at = 40;
		spoiled.spoil_bits = 0x80;
		r = ask(&w, cases[i].id);
		assert_int_equal(r.code, CODE_LINK_ERRORS);
		assert_int_equal(r.errors, 1);
		assert_int_equal(r.n_memory, cases[i].records);
		assert_non_null(strstr(r.message, "1 cells of 16 bytes"));
		assert_non_null(strstr(r.message, "of 256 in each"));
		if (cases[i].records)
			assert_int_equal(r.memory[0].offset, 32);
	}
}

/* One with another sum, and one that was not computed as often as it was launched. */
TEST(wrong_chains_are_counted)
{
	for (size_t at = 0; at <= 12; at += 12) {
		struct check_world w = healthy_world();
		struct check_result r;

		spoiled.spoil_copy = 1;
		spoiled.spoil_at = at;
		spoiled.spoil_bits = 1;
		r = ask(&w, CHECK_FP32_RATE);
		assert_int_equal(r.code, CODE_WORK_MISSING);
		assert_ptr_equal(strstr(r.message, "1 of "), r.message);
	}
}

TESTS_WITHIN(check_begin_group, check_end_group, rates_are_those_of_the_work,
	memory_is_filled_before_and_checked_behind, the_median_of_five_counts,
	the_best_of_three_counts, who_is_to_end_does_not_measure_again,
	a_remote_rate_is_not_expected, a_busy_gpu_is_not_timed, a_small_buffer_measures_the_cache,
	wrong_memory_has_no_rate, wrong_chains_are_counted, copies_are_of_the_size_that_is_named,
	launches_are_counted_one_by_one, waits_are_seconds_of_the_host, the_median_wait_counts,
	what_arrived_otherwise_is_told)

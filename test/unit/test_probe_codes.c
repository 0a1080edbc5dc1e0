/* SPDX-License-Identifier: Apache-2.0 */
/* probe/result/codes, probe/result/units, probe/result/check: every code has its words, every error
 * its code, and no figure passes that is none. */
#include <ctype.h>
#include <math.h>

#include "probe/result/check.h"
#include "probe/result/units.h"
#include "probe/runtime/rt.h"
#include "test/unit/test.h"

TEST(codes_have_words)
{
	for (int i = CODE_NONE + 1; i < CODE_COUNT; i++) {
		const struct code_text *t = code_text((enum probe_code)i);
		size_t n = strlen(t->sentence);

		for (const char *p = t->name; *p; p++)
			assert_true(isupper((unsigned char)*p) || *p == '_');
		assert_true(n > 10 && t->sentence[n - 1] != '.');
		assert_true(islower((unsigned char)t->sentence[0]) || t->sentence[0] == 'E');
		assert_int_equal(t->hint[strlen(t->hint) - 1], '.');
		for (int other = CODE_NONE + 1; other < i; other++)
			assert_string_not_equal(code_text((enum probe_code)other)->name, t->name);
		for (const char *p = t->hint; *p; p++)
			assert_in_range(*p, ' ', '~');
	}
	assert_string_equal(code_text(CODE_NONE)->name, "");
	assert_string_equal(code_text((enum probe_code)9999)->hint, "");
	assert_string_equal(code_text((enum probe_code) - 1)->hint, "");
	assert_string_equal(action_name(ACTION_ISOLATE), "isolate");
	assert_string_equal(action_name((enum probe_action)77), "none");
}

TEST(unknown_names)
{
	enum check_id id = CHECK_P2P;

	assert_false(check_by_name("", &id));
	assert_false(check_by_name("mem.patterns", &id));
	assert_int_equal(id, CHECK_P2P);
}

TEST(codes_of_errors)
{
	static const struct {
		int error, driver, runtime;
		enum probe_code code;
	} cases[] = {
		{0, 0, 0, CODE_NONE},
		{35, 0, 12090, CODE_NO_DRIVER},
		{100, 0, 12090, CODE_NO_DRIVER},
		{35, 11040, 12090, CODE_DRIVER_TOO_OLD},
		{35, 13000, 12090, CODE_INIT_FAILED},
		{36, 12000, 12090, CODE_DRIVER_TOO_OLD},
		{34, 0, 12090, CODE_STUB_LIBRARY},
		{34, 13000, 12090, CODE_STUB_LIBRARY},
		{100, 13000, 12090, CODE_NO_DEVICE},
		{101, 13000, 12090, CODE_GPU_MISSING},
		{802, 13000, 12090, CODE_FABRIC_NOT_READY},
		{803, 13000, 12090, CODE_DRIVER_MISMATCH},
		{804, 13000, 12090, CODE_COMPAT_UNSUPPORTED},
		{3, 13000, 12090, CODE_INIT_FAILED},
		{304, 13000, 12090, CODE_INIT_FAILED},
		{999, 13000, 12090, CODE_INIT_FAILED},
		{46, 13000, 12090, CODE_DEVICE_BUSY},
		{209, 13000, 12090, CODE_NO_KERNEL_IMAGE},
		{221, 13000, 12090, CODE_NO_KERNEL_IMAGE},
		{222, 13000, 12090, CODE_NO_KERNEL_IMAGE},
		{223, 13000, 12090, CODE_NO_KERNEL_IMAGE},
		{214, 13000, 12090, CODE_ECC_UNCORRECTABLE},
		{220, 13000, 12090, CODE_NVLINK_ERROR},
		{226, 13000, 12090, CODE_CONTAINED_ERROR},
		{700, 13000, 12090, CODE_KERNEL_FAULT},
		{713, 13000, 12090, CODE_CUDA_ERROR},
		{714, 13000, 12090, CODE_KERNEL_FAULT},
		{719, 13000, 12090, CODE_KERNEL_FAULT},
		{720, 13000, 12090, CODE_CUDA_ERROR},
		{702, 13000, 12090, CODE_HANG},
		{2, 13000, 12090, CODE_OUT_OF_MEMORY},
		{-1, 13000, 12090, CODE_RUNTIME_INCOMPLETE},
		{1, 13000, 12090, CODE_CUDA_ERROR},
		{-77, 0, 0, CODE_CUDA_ERROR},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		enum probe_code code =
			code_of_cuda(cases[i].error, cases[i].driver, cases[i].runtime);

		if (code != cases[i].code)
			fail_msg("%d with driver %d: %s", cases[i].error, cases[i].driver,
				code_text(code)->name);
	}
}

TEST(kinds_of_codes)
{
	assert_true(code_is_no_cuda(CODE_NO_DRIVER));
	assert_true(code_is_no_cuda(CODE_RUNTIME_INCOMPLETE));
	assert_false(code_is_no_cuda(CODE_DEVICE_BUSY));
	assert_false(code_is_no_cuda(CODE_NONE));
	assert_true(code_is_fault(CODE_HANG));
	assert_true(code_is_fault(CODE_GPU_MISSING));
	assert_true(code_is_fault(CODE_MEMORY_ERRORS));
	assert_false(code_is_fault(CODE_NOT_RUN));
	assert_false(code_is_fault(CODE_INIT_FAILED));
	assert_false(code_is_fault(CODE_WORKER_DIED));
}

TEST(checks_are_named)
{
	for (unsigned i = 0; i < CHECK_COUNT; i++) {
		const struct check_kind *k = check_kind((enum check_id)i);
		enum check_id found = CHECK_COUNT;

		assert_true(k->id && k->title && strchr(k->id, '.'));
		assert_true(check_by_name(k->id, &found));
		assert_int_equal(found, i);
	}
	assert_int_equal(check_kind(CHECK_ENV_DRIVER)->need[PROFILE_LIST], NEED_REQUIRED);
	assert_int_equal(check_kind(CHECK_MEM_PATTERN)->need[PROFILE_LIST], NEED_NOT_RUN);
	assert_int_equal(check_kind(CHECK_MEM_PATTERN)->need[PROFILE_VERIFY_REMOTE], NEED_REQUIRED);
	assert_int_equal(check_kind(CHECK_MEM_READ)->need[PROFILE_VERIFY], NEED_REQUIRED);
	assert_int_equal(check_kind(CHECK_MEM_READ)->need[PROFILE_VERIFY_REMOTE], NEED_OPTIONAL);
	assert_int_equal(check_kind(CHECK_PERSISTENCE)->need[PROFILE_VERIFY_REMOTE], NEED_NOT_RUN);
	assert_int_equal(check_kind(CHECK_H2D)->need[PROFILE_BENCH], NEED_REQUIRED);
	assert_string_equal(check_status_name(STATUS_SKIP), "skip");
	assert_string_equal(check_status_name((enum check_status)99), "error");
	assert_string_equal(check_basis_name(BASIS_LINK), "link");
}

TEST(begins_as_nothing)
{
	struct check_result r;

	check_begin(&r, CHECK_MEM_PATTERN);
	assert_int_equal(r.status, STATUS_SKIP);
	assert_string_equal(r.reason, "not_run");
	assert_true(isnan(r.value) && isnan(r.duration_s) && isnan(r.fail_below));
	assert_int_equal(r.errors, -1);
	assert_int_equal(r.bytes_tested, -1);
	check_fail(&r, CODE_MEMORY_ERRORS, "%d wrong", 3);
	assert_string_equal(r.message, "3 wrong");
	assert_string_equal(r.reason, "");
	check_skip(&r, "busy");
	assert_string_equal(r.message, "");
	assert_int_equal(r.code, CODE_NONE);
	check_error(&r, CODE_CUDA_ERROR, "%0400d", 1);
	assert_int_equal(strlen(r.message), sizeof(r.message) - 1);
	assert_int_equal(r.status, STATUS_ERROR);
	check_pass(&r);
	assert_string_equal(r.message, "");
}

TEST(judges_rates)
{
	static const struct {
		double value, expected, warn, fail;
		enum check_basis basis;
		enum check_status status;
		enum probe_code code;
	} cases[] = {
		{90, 100, 0.8, 0.7, BASIS_CLOCK, STATUS_PASS, CODE_NONE},
		{80, 100, 0.8, 0.7, BASIS_CLOCK, STATUS_PASS, CODE_NONE},
		{79, 100, 0.8, 0.7, BASIS_CLOCK, STATUS_WARN, CODE_SLOW},
		{69, 100, 0.8, 0.7, BASIS_LINK, STATUS_FAIL, CODE_SLOW},
		{84, 100, 0.95, 0.85, BASIS_PEERS, STATUS_FAIL, CODE_SLOWER_THAN_PEERS},
		{94, 100, 0.95, 0.85, BASIS_PEERS, STATUS_WARN, CODE_SLOWER_THAN_PEERS},
		{1, NAN, 0.8, 0.7, BASIS_NONE, STATUS_PASS, CODE_NONE},
		{1, 0, 0.8, 0.7, BASIS_CLOCK, STATUS_PASS, CODE_NONE},
		{1, 100, NAN, NAN, BASIS_CLOCK, STATUS_PASS, CODE_NONE},
		{60, 100, 0.8, NAN, BASIS_CLOCK, STATUS_WARN, CODE_SLOW},
		{NAN, 100, 0.8, 0.7, BASIS_CLOCK, STATUS_FAIL, CODE_NOT_A_NUMBER},
		{NAN, NAN, NAN, NAN, BASIS_NONE, STATUS_FAIL, CODE_NOT_A_NUMBER},
		{INFINITY, 100, 0.8, 0.7, BASIS_CLOCK, STATUS_FAIL, CODE_NOT_A_NUMBER},
		{0, NAN, NAN, NAN, BASIS_NONE, STATUS_FAIL, CODE_SLOW},
		{-5, 100, 0.8, 0.7, BASIS_CLOCK, STATUS_FAIL, CODE_SLOW},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_result r;

		check_begin(&r, CHECK_MEM_READ);
		r.value = cases[i].value;
		r.expected = cases[i].expected;
		r.warn_below = cases[i].warn;
		r.fail_below = cases[i].fail;
		r.basis = cases[i].basis;
		r.unit = "B/s";
		check_judge_rate(&r);
		if (r.status != cases[i].status || r.code != cases[i].code)
			fail_msg("case %zu: %s %s", i, check_status_name(r.status), r.message);
		assert_int_equal(r.message[0] == '\0', r.status == STATUS_PASS);
		assert_null(check_doubt(&r));
	}
}

TEST(judge_says_what_it_found)
{
	struct check_result r;

	check_begin(&r, CHECK_MEM_READ);
	r.value = 2.11e12;
	r.expected = 4.917e12;
	r.warn_below = 0.8;
	r.fail_below = 0.7;
	r.basis = BASIS_CLOCK;
	r.unit = "B/s";
	check_judge_rate(&r);
	assert_string_equal(r.message, "memory read: 2.11 TB/s, 43 % of the 4.92 TB/s expected by "
				       "clock; below 70 % is a failure");
	assert_true(r.ratio > 0.429 && r.ratio < 0.43);
}

/* A pass that says otherwise is found. */
TEST(doubts)
{
	struct check_result r;

	check_begin(&r, CHECK_MEM_PATTERN);
	check_pass(&r);
	assert_non_null(check_doubt(&r));
	r.bytes_tested = 1;
	assert_non_null(check_doubt(&r));
	r.errors = 0;
	assert_null(check_doubt(&r));
	r.bytes_tested = 0;
	assert_non_null(check_doubt(&r));
	r.bytes_tested = 1;
	r.errors = 1;
	assert_non_null(check_doubt(&r));
	r.errors = 0;
	r.n_memory = 1;
	assert_non_null(check_doubt(&r));
	r.n_memory = 0;
	r.bits_1_to_0 = 1;
	assert_non_null(check_doubt(&r));
	r.bits_1_to_0 = 0;
	r.cuda_error = 214;
	assert_non_null(check_doubt(&r));

	check_begin(&r, CHECK_EXACT_FP32);
	check_pass(&r);
	assert_null(check_doubt(&r));
	r.n_compute = 1;
	assert_non_null(check_doubt(&r));

	check_begin(&r, CHECK_MEM_READ);
	check_pass(&r);
	assert_non_null(check_doubt(&r));
	r.value = 0;
	assert_non_null(check_doubt(&r));
	r.value = 1;
	assert_null(check_doubt(&r));
	r.code = CODE_SLOW;
	assert_non_null(check_doubt(&r));
	check_fail(&r, CODE_SLOW, "x");
	assert_null(check_doubt(&r));
}

TEST(units)
{
	static const struct {
		double value;
		const char *unit, *text;
	} cases[] = {
		{4.917e12, "B/s", "4.92 TB/s"},
		{55.13e9, "B/s", "55.1 GB/s"},
		{999.6e9, "B/s", "1.00 TB/s"},
		{612e12, "FLOP/s", "612 TFLOP/s"},
		{134217728000.0, "B", "125 GiB"},
		{0, "B", "0.00 B"},
		{0.31, "s", "310 ms"},
		{0.000012, "s", "12.0 us"},
		{4.3, "s", "4.30 s"},
		{3600, "s", "3600 s"},
		{0.5, NULL, "0.5"},
		{NAN, "B", "-"},
		{INFINITY, NULL, "-"},
		{-2e9, "B/s", "-2.00 GB/s"},
		{1e300, "B/s", "1e+285 PB/s"},
	};
	char text[UNITS_MAX];

	for (size_t i = 0; i < COUNT(cases); i++) {
		units_write(cases[i].value, cases[i].unit, text);
		assert_string_equal(text, cases[i].text);
	}
	assert_string_equal(units_by_name(SLICE("B/s")), "B/s");
	assert_null(units_by_name(SLICE("MB/s")));
	assert_null(units_by_name(SLICE("")));
}

TEST(json_numbers)
{
	static const double exact[] = {
		0, -0.5, 4.917e12, 1.0 / 3, 1e-300, 1.7976931348623157e308, 7};
	struct buf b;

	buf_init(&b, 1000);
	for (size_t i = 0; i < COUNT(exact); i++) {
		buf_clear(&b);
		units_json(exact[i], &b);
		assert_true(strtod(b.data, NULL) == exact[i]);
	}
	assert_string_equal(b.data, "7");
	buf_clear(&b);
	units_json(NAN, &b);
	units_json(-INFINITY, &b);
	assert_string_equal(b.data, "nullnull");
	buf_release(&b);
}

TESTS(codes_have_words, unknown_names, codes_of_errors, kinds_of_codes, checks_are_named,
	begins_as_nothing, judges_rates, judge_says_what_it_found, doubts, units, json_numbers)

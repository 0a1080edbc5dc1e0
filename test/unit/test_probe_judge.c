/* SPDX-License-Identifier: Apache-2.0 */
/* probe/result/report_judge, probe/result/codes: the probe's verdict. Each way to lose a required
 * check, or its figures, must take the pass away. */
#include <math.h>

#include "test/unit/probe_report_fixture.h"
#include "test/unit/test.h"

/* Judge, and release. GPU 0 is the one that is looked at. */
static void expect(struct report *r, enum probe_exit status, bool fit, enum gpu_health health,
	const char *what)
{
	report_judge(r);
	if (r->exit != status ||
		(r->n_gpus > 0 && (r->gpus[0].fit != fit || r->gpus[0].health != health)))
		fail_msg("%s: exit %d, fit %d, health %s", what, (int)r->exit,
			r->n_gpus > 0 && r->gpus[0].fit,
			r->n_gpus > 0 ? report_health_name(r->gpus[0].health) : "");
	report_release(r);
}

TEST(healthy_passes)
{
	for (unsigned p = 0; p < PROFILE_COUNT; p++) {
		struct report r;

		healthy_report(&r, (enum probe_profile)p, 3);
		r.strict = true;
		expect(&r, EXIT_FIT, true, HEALTH_OK, "healthy");
	}
}

/* Without a check: no verdict when it is required, else a pass that shows the gap. */
TEST(check_is_missing)
{
	for (unsigned p = 0; p < PROFILE_COUNT; p++) {
		for (unsigned k = 0; k < CHECK_COUNT; k++) {
			enum check_id id = (enum check_id)k;
			enum check_need need = check_kind(id)->need[p];
			struct report r;

			if (need == NEED_NOT_RUN)
				continue;
			healthy_report(&r, (enum probe_profile)p, 2);
			lose_check(&r.gpus[0], id);
			report_judge(&r);
			assert_non_null(r.gpus[0].checks[k]);
			assert_true(r.gpus[1].fit);
			if (need == NEED_REQUIRED) {
				assert_int_equal(r.gpus[0].checks[k]->status, STATUS_ERROR);
				assert_int_equal(r.gpus[0].checks[k]->code, CODE_NOT_RUN);
				assert_int_equal(report_problem(&r, &r.gpus[0]), CODE_NOT_RUN);
				expect(&r, EXIT_INCONCLUSIVE, false, HEALTH_UNKNOWN,
					check_kind(id)->id);
			} else {
				assert_int_equal(r.gpus[0].checks[k]->status, STATUS_SKIP);
				assert_string_equal(r.gpus[0].checks[k]->reason, "not_run");
				expect(&r, EXIT_FIT, true, HEALTH_OK, check_kind(id)->id);
			}
		}
	}
}

/* A result that is there and says that it did not run, in each way that it can. */
TEST(check_did_not_run)
{
	static const char *const reasons[] = {
		"not_run", "busy", "remote", "nvml_unavailable", "not_on_this_gpu", ""};

	for (unsigned k = 0; k < CHECK_COUNT; k++) {
		enum check_id id = (enum check_id)k;
		bool required = check_kind(id)->need[PROFILE_VERIFY] == NEED_REQUIRED;
		struct check_result c;
		struct report r;

		if (check_kind(id)->need[PROFILE_VERIFY] == NEED_NOT_RUN)
			continue;
		for (size_t i = 0; i < COUNT(reasons); i++) {
			healthy_report(&r, PROFILE_VERIFY, 1);
			check_begin(&c, id);
			check_skip(&c, reasons[i]);
			assert_true(report_set_check(&r.gpus[0], &c));
			if (required)
				expect(&r, EXIT_INCONCLUSIVE, false, HEALTH_UNKNOWN, reasons[i]);
			else
				expect(&r, EXIT_FIT, true, HEALTH_OK, reasons[i]);
		}
		healthy_report(&r, PROFILE_VERIFY, 1);
		check_error(&c, CODE_CUDA_ERROR, "x");
		assert_true(report_set_check(&r.gpus[0], &c));
		if (required)
			expect(&r, EXIT_INCONCLUSIVE, false, HEALTH_UNKNOWN, "error");
		else
			expect(&r, EXIT_FIT, true, HEALTH_WARN, "error");
		healthy_report(&r, PROFILE_VERIFY, 1);
		c.status = (enum check_status)17;
		assert_true(report_set_check(&r.gpus[0], &c));
		expect(&r, EXIT_INCONCLUSIVE, false, HEALTH_UNKNOWN, "a status that is none");
	}
}

TEST(check_failed_or_warned)
{
	for (unsigned k = 0; k < CHECK_COUNT; k++) {
		enum check_id id = (enum check_id)k;
		struct check_result c;
		struct report r;

		check_begin(&c, id);
		check_fail(&c, CODE_SLOW, "x");
		/* also one that is no part of the profile */
		healthy_report(&r, PROFILE_VERIFY, 2);
		assert_true(report_set_check(&r.gpus[0], &c));
		expect(&r, EXIT_UNFIT, false, HEALTH_FAIL, check_kind(id)->id);
		check_warn(&c, CODE_SLOW, "x");
		healthy_report(&r, PROFILE_VERIFY, 2);
		assert_true(report_set_check(&r.gpus[0], &c));
		expect(&r, EXIT_FIT, true, HEALTH_WARN, check_kind(id)->id);
		healthy_report(&r, PROFILE_VERIFY, 2);
		r.strict = true;
		assert_true(report_set_check(&r.gpus[0], &c));
		expect(&r, EXIT_UNFIT, false, HEALTH_WARN, check_kind(id)->id);
	}
}

/* "Pass" without a figure, or with one that says otherwise. */
TEST(pass_is_doubtful)
{
	struct report r;
	struct check_result *c;

	for (int i = 0; i < 8; i++) {
		healthy_report(&r, PROFILE_VERIFY, 1);
		c = r.gpus[0].checks[i < 5 ? CHECK_MEM_PATTERN : CHECK_MEM_READ];
		switch (i) {
		case 0:
			c->bytes_tested = 0;
			break;
		case 1:
			c->bytes_tested = -1;
			break;
		case 2:
			c->errors = -1;
			break;
		case 3:
			c->errors = 1;
			break;
		case 4:
			c->cuda_error = 214;
			break;
		case 5:
			c->value = NAN;
			break;
		case 6:
			c->value = 0;
			break;
		default:
			c->value = INFINITY;
		}
		expect(&r, EXIT_INCONCLUSIVE, false, HEALTH_UNKNOWN, "doubtful");
	}
}

/* Pascal has no tensor cores: that one skip is none. Nothing else excuses it. */
TEST(tensor_cores)
{
	static const struct {
		int cc_major;
		const char *reason;
		bool excused;
	} cases[] = {
		{6, "not_on_this_gpu", true},
		{5, "not_on_this_gpu", true},
		{6, "busy", false},
		{7, "not_on_this_gpu", false},
		{9, "not_on_this_gpu", false},
		{-1, "not_on_this_gpu", false},
		{0, "not_on_this_gpu", false},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct report r;

		healthy_report(&r, PROFILE_VERIFY, 1);
		r.gpus[0].cc_major = cases[i].cc_major;
		check_skip(r.gpus[0].checks[CHECK_EXACT_TENSOR], cases[i].reason);
		expect(&r, cases[i].excused ? EXIT_FIT : EXIT_INCONCLUSIVE, cases[i].excused,
			cases[i].excused ? HEALTH_OK : HEALTH_UNKNOWN, cases[i].reason);
	}
}

TEST(errors_of_a_gpu)
{
	static const struct {
		enum probe_code code;
		enum probe_exit status;
		enum gpu_health health;
	} cases[] = {
		{CODE_HANG, EXIT_UNFIT, HEALTH_FAIL},
		{CODE_ECC_UNCORRECTABLE, EXIT_UNFIT, HEALTH_FAIL},
		{CODE_GPU_MISSING, EXIT_UNFIT, HEALTH_FAIL},
		{CODE_WORKER_DIED, EXIT_INCONCLUSIVE, HEALTH_UNKNOWN},
		{CODE_INTERRUPTED, EXIT_INCONCLUSIVE, HEALTH_UNKNOWN},
		{CODE_INIT_FAILED, EXIT_INCONCLUSIVE, HEALTH_UNKNOWN},
		{CODE_NONE, EXIT_INCONCLUSIVE, HEALTH_UNKNOWN},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct report r;

		healthy_report(&r, PROFILE_VERIFY, 2);
		assert_true(report_add_error(&r, 0, cases[i].code, 0, "x"));
		report_judge(&r);
		assert_int_equal(report_problem(&r, &r.gpus[0]), cases[i].code);
		assert_true(r.gpus[1].fit);
		expect(&r, cases[i].status, false, cases[i].health, code_text(cases[i].code)->name);
	}
}

TEST(errors_of_the_server)
{
	static const struct {
		enum probe_code code;
		enum probe_exit status;
	} cases[] = {
		{CODE_NO_DRIVER, EXIT_NO_CUDA},
		{CODE_DRIVER_TOO_OLD, EXIT_NO_CUDA},
		{CODE_STUB_LIBRARY, EXIT_NO_CUDA},
		{CODE_FABRIC_NOT_READY, EXIT_NO_CUDA},
		{CODE_RUNTIME_INCOMPLETE, EXIT_NO_CUDA},
		{CODE_GPU_MISSING, EXIT_UNFIT},
		{CODE_NAME_MISMATCH, EXIT_UNFIT},
		{CODE_MEMORY_TOO_SMALL, EXIT_UNFIT},
		{CODE_TIMED_OUT, EXIT_INCONCLUSIVE},
		{CODE_INTERRUPTED, EXIT_INCONCLUSIVE},
		{CODE_CUDA_ERROR, EXIT_INCONCLUSIVE},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct report r;

		healthy_report(&r, PROFILE_VERIFY, 2);
		assert_true(report_add_error(&r, -1, cases[i].code, 0, "x"));
		expect(&r, cases[i].status, true, HEALTH_OK, code_text(cases[i].code)->name);
		healthy_report(&r, PROFILE_VERIFY, 0);
		assert_true(report_add_error(&r, -1, cases[i].code, 0, "x"));
		expect(&r, cases[i].status, false, HEALTH_OK, code_text(cases[i].code)->name);
	}
}

/* A GPU that is in no list of the report must not be forgotten. */
TEST(error_of_an_unknown_gpu)
{
	struct report r;

	healthy_report(&r, PROFILE_VERIFY, 1);
	assert_true(report_add_error(&r, 7, CODE_HANG, 0, "x"));
	expect(&r, EXIT_UNFIT, true, HEALTH_OK, "fault of another");
	healthy_report(&r, PROFILE_VERIFY, 1);
	assert_true(report_add_error(&r, 7, CODE_WORKER_DIED, 0, "x"));
	expect(&r, EXIT_INCONCLUSIVE, true, HEALTH_OK, "death of another");
}

TEST(no_gpu_at_all)
{
	struct report r;

	healthy_report(&r, PROFILE_VERIFY, 0);
	report_judge(&r);
	assert_int_equal(r.n_errors, 1);
	assert_int_equal(r.errors[0].code, CODE_NO_DEVICE);
	expect(&r, EXIT_NO_CUDA, false, HEALTH_OK, "none");
	report_init(&r);
	expect(&r, EXIT_INCONCLUSIVE, false, HEALTH_OK, "nothing was done");
	report_init(&r);
	assert_int_equal(r.exit, EXIT_INCONCLUSIVE);
	assert_non_null(report_add_gpu(&r));
	r.complete = true;
	expect(&r, EXIT_INCONCLUSIVE, false, HEALTH_UNKNOWN, "nothing known of it");
}

TEST(too_few)
{
	struct report r;

	healthy_report(&r, PROFILE_VERIFY, 7);
	r.expected = 8;
	report_judge(&r);
	report_judge(&r);
	assert_int_equal(r.n_errors, 1);
	assert_int_equal(r.errors[0].code, CODE_GPU_MISSING);
	assert_string_equal(r.errors[0].message, "7 of 8 GPUs are there");
	expect(&r, EXIT_UNFIT, true, HEALTH_OK, "7 of 8");
	healthy_report(&r, PROFILE_VERIFY, 7);
	r.expected = 8;
	r.cuda = -1;
	expect(&r, EXIT_UNFIT, true, HEALTH_OK, "7 of 8, not counted by CUDA");
	healthy_report(&r, PROFILE_VERIFY, 7);
	r.expected = -1;
	expect(&r, EXIT_FIT, true, HEALTH_OK, "none expected");
}

TEST(ended_early)
{
	struct report r;

	healthy_report(&r, PROFILE_VERIFY, 2);
	r.complete = false;
	expect(&r, EXIT_INCONCLUSIVE, true, HEALTH_OK, "all was done, and yet");
	healthy_report(&r, PROFILE_VERIFY, 2);
	r.complete = false;
	lose_check(&r.gpus[0], CHECK_MEM_PATTERN);
	report_judge(&r);
	assert_int_equal(r.gpus[0].checks[CHECK_MEM_PATTERN]->code, CODE_INTERRUPTED);
	expect(&r, EXIT_INCONCLUSIVE, false, HEALTH_UNKNOWN, "one was not");
	/* what was found before stays found */
	healthy_report(&r, PROFILE_VERIFY, 2);
	r.complete = false;
	check_fail(r.gpus[0].checks[CHECK_MEM_PATTERN], CODE_MEMORY_ERRORS, "x");
	expect(&r, EXIT_UNFIT, false, HEALTH_FAIL, "a fault before the end");
}

TEST(nvml_may_be_required)
{
	struct report r;

	healthy_report(&r, PROFILE_VERIFY, 1);
	r.require_nvml = true;
	check_skip(r.gpus[0].checks[CHECK_NVML_REMAP], "nvml_unavailable");
	expect(&r, EXIT_INCONCLUSIVE, false, HEALTH_UNKNOWN, "required");
	healthy_report(&r, PROFILE_VERIFY, 1);
	r.require_nvml = true;
	lose_check(&r.gpus[0], CHECK_NVML_ECC);
	expect(&r, EXIT_INCONCLUSIVE, false, HEALTH_UNKNOWN, "required");
	healthy_report(&r, PROFILE_VERIFY, 1);
	r.require_nvml = true;
	lose_check(&r.gpus[0], CHECK_HOST_XID);
	expect(&r, EXIT_FIT, true, HEALTH_OK, "not NVML's");
	healthy_report(&r, PROFILE_VERIFY_REMOTE, 1);
	r.require_nvml = true;
	expect(&r, EXIT_FIT, true, HEALTH_OK, "there is none in a pod");
}

/* The same verdict, however often it is asked for. */
TEST(again)
{
	struct report r;

	healthy_report(&r, PROFILE_VERIFY, 2);
	lose_check(&r.gpus[0], CHECK_EXACT_FP64);
	report_judge(&r);
	report_judge(&r);
	expect(&r, EXIT_INCONCLUSIVE, false, HEALTH_UNKNOWN, "again");
}

TEST(unknown_profile)
{
	struct report r;

	healthy_report(&r, PROFILE_VERIFY, 1);
	r.profile = (enum probe_profile)99;
	expect(&r, EXIT_INCONCLUSIVE, false, HEALTH_UNKNOWN, "requires everything");
}

TEST(worst_problem)
{
	struct report r;
	struct gpu_report *g;

	healthy_report(&r, PROFILE_VERIFY, 1);
	g = &r.gpus[0];
	assert_int_equal(report_problem(&r, g), CODE_NONE);
	check_warn(g->checks[CHECK_PERSISTENCE], CODE_PERSISTENCE_OFF, "x");
	assert_int_equal(report_problem(&r, g), CODE_PERSISTENCE_OFF);
	check_error(g->checks[CHECK_MEM_READ], CODE_OUT_OF_MEMORY, "x");
	assert_int_equal(report_problem(&r, g), CODE_OUT_OF_MEMORY);
	assert_true(report_add_error(&r, 0, CODE_WORKER_DIED, 0, "x"));
	assert_int_equal(report_problem(&r, g), CODE_WORKER_DIED);
	check_fail(g->checks[CHECK_HOST_XID], CODE_XID, "x");
	assert_int_equal(report_problem(&r, g), CODE_XID);
	check_fail(g->checks[CHECK_MEM_PATTERN], CODE_MEMORY_ERRORS, "x");
	check_fail(g->checks[CHECK_MEM_READ], CODE_SLOW, "x");
	assert_int_equal(report_problem(&r, g), CODE_MEMORY_ERRORS);
	assert_true(report_add_error(&r, 0, CODE_HANG, 0, "x"));
	assert_int_equal(report_problem(&r, g), CODE_HANG);
	report_release(&r);
}

TEST(limits)
{
	struct report r;
	struct check_result c;

	report_init(&r);
	for (int i = 0; i < REPORT_GPUS_MAX; i++)
		assert_non_null(report_add_gpu(&r));
	assert_null(report_add_gpu(&r));
	check_begin(&c, CHECK_COUNT);
	assert_false(report_set_check(&r.gpus[0], &c));
	report_release(&r);
	assert_int_equal(r.n_gpus, 0);
}

TESTS(healthy_passes, check_is_missing, check_did_not_run, check_failed_or_warned, pass_is_doubtful,
	tensor_cores, errors_of_a_gpu, errors_of_the_server, error_of_an_unknown_gpu, no_gpu_at_all,
	too_few, ended_early, nvml_may_be_required, again, unknown_profile, worst_problem, limits)

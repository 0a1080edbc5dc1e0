/* SPDX-License-Identifier: Apache-2.0 */
/* test: probe/check/checks_*.c over the fake runtime, of which one thing after the other is
 * spoiled: no check passes without all of its evidence, none goes on after a call that failed, and
 * all is given back. */
#include "test/unit/check_fixture.h"
#include "test/unit/test.h"

#define LOST 719  /* a kernel's fault: nothing can be asked of the context any more */
#define REFUSED 1 /* an argument that was refused: it can */

static unsigned step(const struct subject *s, unsigned n, unsigned of)
{
	return n > s->ends && n + s->ends < of ? 29 : 1;
}

/* ---- every check ---- */

TEST(a_healthy_gpu_passes)
{
	for (size_t i = 0; i < SUBJECTS; i++) {
		struct check_world w = healthy_world();
		struct check_result r = ask(&w, subjects[i].id);

		/* what compares says so */
		if (r.status != STATUS_PASS || check_doubt(&r) || spoiled.owned != 0 ||
			r.errors > 0 || (subjects[i].check == check_link_rate && r.errors != 0))
			fail_msg("%s: %s, %u not given back", check_title(subjects[i].id),
				r.message, spoiled.owned);
	}
}

/* The n-th call fails: the result says which, nothing more is asked, and all is given back as
 * long as that can be asked. */
static bool fails_at(const struct subject *s, unsigned n, int error)
{
	struct check_world w = healthy_world();
	struct check_result r;

	spoiled.fail_at = n;
	spoiled.error = error;
	r = ask(&w, s->id);
	if (!spoiled.failed)
		return false;
	if (r.status == STATUS_PASS || r.status == STATUS_WARN || r.status == STATUS_SKIP ||
		r.cuda_error != error || !strstr(r.message, spoiled.failed))
		fail_msg("%s: call %u, %s, fails, and the result is: %s", check_title(s->id), n,
			spoiled.failed, r.message);
	if (spoiled.other_calls_after != 0)
		fail_msg("%s: %u calls after call %u, %s, has failed", check_title(s->id),
			spoiled.other_calls_after, n, spoiled.failed);
	if (error == LOST && spoiled.given_back_after != 0)
		fail_msg("%s: a lost context is asked to free after call %u, %s",
			check_title(s->id), n, spoiled.failed);
	return true;
}

TEST(every_call_may_fail)
{
	for (size_t i = 0; i < SUBJECTS; i++) {
		struct check_world w = healthy_world();
		unsigned calls;

		if (subjects[i].ends == 0)
			continue;
		(void)ask(&w, subjects[i].id);
		calls = spoiled.calls;
		for (unsigned n = 1; n <= calls; n += step(&subjects[i], n, calls))
			assert_true(fails_at(&subjects[i], n, LOST) &&
				    (subjects[i].ends < 30 || fails_at(&subjects[i], n, REFUSED)));
	}
}

TEST(every_launch_must_have_been)
{
	for (size_t i = 0; i < SUBJECTS; i++) {
		struct check_world w = healthy_world();
		unsigned launches;

		if (subjects[i].ends == 0)
			continue;
		(void)ask(&w, subjects[i].id);
		launches = spoiled.n_launched;
		assert_true(launches > 0);
		for (unsigned n = 1; n <= launches; n += step(&subjects[i], n, launches)) {
			struct check_result r;

			w = healthy_world();
			spoiled.leave_out = n;
			r = ask(&w, subjects[i].id);
			if (r.status != STATUS_FAIL)
				fail_msg("%s passes without launch %u of %u",
					check_title(subjects[i].id), n, launches);
		}
	}
}

/* ---- evidence ---- */

#define LAST SIZE_MAX /* byte of a copy, from its end on */

/* One bit of what comes from the GPU is another one. */
TEST(every_bit_of_evidence_counts)
{
	static const struct {
		enum check_id id;
		unsigned copy;
		size_t at;
		enum probe_code code;
		int64_t errors;
	} spoilt[] = {/* the trial of gp_check; what it found; what each block did */
		{CHECK_MEM_PATTERN, 1, offsetof(struct kernel_findings, wrong_cells),
			CODE_WORK_MISSING, -1},
		{CHECK_MEM_PATTERN, 1, offsetof(struct kernel_findings, zero), CODE_WORK_MISSING,
			-1},
		{CHECK_MEM_PATTERN, 1, offsetof(struct kernel_findings, kept), CODE_WORK_MISSING,
			-1},
		{CHECK_MEM_PATTERN, 2, offsetof(struct kernel_findings, wrong_cells),
			CODE_MEMORY_ERRORS, 1},
		{CHECK_MEM_PATTERN, 2, offsetof(struct kernel_findings, bits_1_to_0),
			CODE_MEMORY_ERRORS, 1},
		{CHECK_MEM_PATTERN, 2, offsetof(struct kernel_findings, zero), CODE_WORK_MISSING,
			-1},
		{CHECK_MEM_PATTERN, 3, 0, CODE_WORK_MISSING, -1},
		{CHECK_MEM_PATTERN, 3, LAST - 15, CODE_WORK_MISSING, -1},
		{CHECK_SHARED_MEMORY, 1, offsetof(struct kernel_findings, kept), CODE_MEMORY_ERRORS,
			1},
		{CHECK_SHARED_MEMORY, 1, offsetof(struct kernel_findings, zero), CODE_WORK_MISSING,
			-1},
		{CHECK_SHARED_MEMORY, 2, 0, CODE_WORK_MISSING, -1},
		{CHECK_SHARED_MEMORY, 2, LAST - 15, CODE_WORK_MISSING, -1},
		{CHECK_EXACT_FP32, 1, 0, CODE_COMPUTE_ERRORS, 1},
		{CHECK_EXACT_FP32, 2, 16 * 700, CODE_COMPUTE_ERRORS, 1},
		{CHECK_EXACT_FP32, 3, LAST - 15, CODE_COMPUTE_ERRORS, 1},
		{CHECK_EXACT_FP64, 1, 16 * 777, CODE_COMPUTE_ERRORS, 1},
		{CHECK_EXACT_TENSOR, 3, 16 * 77, CODE_COMPUTE_ERRORS, 1},
		{CHECK_EXACT_FP32, 1, LAST - 3, CODE_WORK_MISSING, 0},
		{CHECK_EXACT_FP32, 2, 12, CODE_WORK_MISSING, 0},
		{CHECK_EXACT_FP64, 3, 12, CODE_WORK_MISSING, 0},
		{CHECK_MEM_READ, 1, 0, CODE_WORK_MISSING, -1},
		{CHECK_MEM_READ, 1, 8, CODE_WORK_MISSING, -1},
		{CHECK_MEM_READ, 1, LAST - 7, CODE_WORK_MISSING, -1},
		{CHECK_MEM_READ, 2, LAST - 15, CODE_WORK_MISSING, -1},
		{CHECK_MEM_READ, 3, 0, CODE_MEMORY_ERRORS, 1},
		{CHECK_MEM_WRITE, 1, 0, CODE_WORK_MISSING, -1},
		{CHECK_MEM_WRITE, 2, 0, CODE_WORK_MISSING, -1},
		{CHECK_MEM_WRITE, 3, 0, CODE_MEMORY_ERRORS, 1},
		{CHECK_MEM_COPY, 1, 0, CODE_WORK_MISSING, -1},
		{CHECK_MEM_COPY, 2, 0, CODE_WORK_MISSING, -1},
		{CHECK_MEM_COPY, 3, 0, CODE_MEMORY_ERRORS, 1},
		/* what is written is never compared by its sum */
		{CHECK_MEM_COPY, 1, 8, CODE_NONE, -1}, {CHECK_MEM_WRITE, 1, 8, CODE_NONE, -1},
		{CHECK_FP32_RATE, 1, 12, CODE_WORK_MISSING, -1},
		{CHECK_FP32_RATE, 1, LAST - 3, CODE_WORK_MISSING, -1},
		{CHECK_FP32_RATE, 1, 0, CODE_WORK_MISSING, -1},
		{CHECK_FP64_RATE, 1, 0, CODE_WORK_MISSING, -1},
		{CHECK_TENSOR_RATE, 1, 0, CODE_WORK_MISSING, -1},
		{CHECK_D2H_4K, 1, 0, CODE_LINK_ERRORS, 1},
		{CHECK_D2H_4K, 2, 8, CODE_LINK_ERRORS, 1},
		{CHECK_D2H_4K, 21, LAST, CODE_LINK_ERRORS, 1},
		{CHECK_D2H_4K, 23, 0, CODE_WORK_MISSING, -1},
		{CHECK_H2D_4K, 1, 0, CODE_LINK_ERRORS, 1},
		{CHECK_H2D_4K, 2, 8, CODE_LINK_ERRORS, 1},
		{CHECK_H2D_4K, 21, LAST, CODE_LINK_ERRORS, 1},
		{CHECK_H2D_4K, 22, 0, CODE_LINK_ERRORS, 1},
		{CHECK_H2D_4K, 23, 0, CODE_WORK_MISSING, -1},
		{CHECK_LAUNCH, 1, 0, CODE_WORK_MISSING, -1},
		{CHECK_LAUNCH, 1, LAST - 15, CODE_WORK_MISSING, -1},
		{CHECK_P2P, 1, 0, CODE_LINK_ERRORS, 1}, {CHECK_P2P, 2, 0, CODE_WORK_MISSING, -1},
		{CHECK_P2P, 3, 0, CODE_WORK_MISSING, -1}};

	for (size_t i = 0; i < COUNT(spoilt); i++) {
		struct check_world w = healthy_world();
		struct check_result r;

		spoiled.spoil_copy = spoilt[i].copy;
		spoiled.spoil_at = spoilt[i].at;
		spoiled.spoil_bits = 1;
		r = ask(&w, spoilt[i].id);
		if (r.code != spoilt[i].code ||
			(r.status == STATUS_FAIL) != (r.code != CODE_NONE) ||
			(spoilt[i].errors >= 0 && r.errors != spoilt[i].errors) ||
			(spoilt[i].errors < 0 && r.errors > 0) || spoiled.owned != 0)
			fail_msg("%zu: byte %zu of copy %u of %s: %d errors, %s", i, spoilt[i].at,
				spoilt[i].copy, check_title(spoilt[i].id), (int)r.errors,
				r.message);
	}
}

/* What an earlier copy brought does not stand for the one that brings nothing. */
TEST(each_copy_must_bring_it)
{
	for (unsigned from = 1; from <= 3; from++) {
		for (int up = 0; up < 2; up++) {
			struct check_world w = healthy_world();
			struct check_result r;

			spoiled.drop_copy = from;
			r = ask(&w, up ? CHECK_H2D_4K : CHECK_D2H_4K);
			assert_int_equal(r.status, STATUS_FAIL);
		}
	}
}

TESTS_WITHIN(check_begin_group, check_end_group, a_healthy_gpu_passes, every_call_may_fail,
	every_launch_must_have_been, every_bit_of_evidence_counts, each_copy_must_bring_it)

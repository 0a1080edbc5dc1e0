/* SPDX-License-Identifier: Apache-2.0 */
/* test: links between GPUs in the report, and what a second process may take back. */
#include <math.h>

#include "probe/result/report_links.h"
#include "probe/worker/retry.h"
#include "test/unit/probe_report_fixture.h"
#include "test/unit/test.h"

static struct report r;
static struct thresholds thresholds;

FIXTURE(begin)
{
	thresholds_init(&thresholds);
	healthy_report(&r, PROFILE_BENCH, 4);
	for (size_t i = 0; i < r.n_gpus; i++)
		lose_check(&r.gpus[i], CHECK_P2P);
	return 0;
}

FIXTURE(end)
{
	report_release(&r);
	thresholds_release(&thresholds);
	return 0;
}

/* Every pair, at these rates: [from][to] in GB/s; 0: no peer access. */
static void measured(const double rates[4][4])
{
	for (int a = 0; a < 4; a++) {
		for (int b = a + 1; b < 4; b++) {
			size_t link = (size_t)links_add_pair(&r, a, b);

			for (size_t back = 0; back < 2; back++) {
				double rate = back ? rates[b][a] : rates[a][b];
				struct check_result c;

				check_begin(&c, CHECK_P2P);
				if (rate > 0) {
					c.value = rate * 1e9;
					c.unit = "B/s";
					c.errors = 0;
					check_judge_rate(&c);
				} else {
					check_skip(&c, "no_peer_access");
				}
				links_take(&r, link + back, &c);
			}
		}
	}
}

static const struct check_result *result(int gpu)
{
	return r.gpus[gpu].checks[CHECK_P2P];
}

/* Two and two on a bridge: each GPU has one fast link and two slow ones. */
TEST(layouts_are_compared_link_by_link)
{
	static const double rates[4][4] = {
		{0, 90, 20, 20}, {90, 0, 20, 20}, {20, 20, 0, 90}, {20, 20, 45, 0}};

	measured(rates);
	links_judge(&thresholds, &r);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(result(i)->status, STATUS_PASS);
		assert_int_equal(result(i)->basis, BASIS_PEERS);
	}
	assert_int_equal(result(3)->status, STATUS_WARN);
	assert_int_equal(result(3)->code, CODE_SLOWER_THAN_PEERS);
	assert_true(fabs(result(3)->ratio - 0.5) < 1e-9 && fabs(result(3)->value - 45e9) < 1);
	report_judge(&r);
	assert_int_equal(r.exit, EXIT_FIT);
}

TEST(without_access_nothing_is_said)
{
	static const double rates[4][4] = {
		{0, 50, 0, 0}, {50, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}};

	measured(rates);
	links_judge(&thresholds, &r);
	assert_int_equal(result(0)->status, STATUS_PASS);
	assert_int_equal(result(2)->status, STATUS_SKIP);
	assert_string_equal(result(2)->reason, "no_peer_access");
}

TEST(a_fault_has_two_ends)
{
	static const double rates[4][4] = {
		{0, 50, 50, 50}, {50, 0, 50, 50}, {50, 50, 0, 50}, {50, 50, 50, 0}};
	struct check_result c;

	measured(rates);
	check_begin(&c, CHECK_P2P);
	c.errors = 2;
	c.n_memory = 1;
	c.memory[0].offset = 4096;
	check_fail(&c, CODE_LINK_ERRORS, "2 cells");
	links_take(&r, 3, &c); /* 2 to 0 */
	links_judge(&thresholds, &r);
	report_judge(&r);
	for (int i = 0; i < 4; i++)
		assert_true(r.gpus[i].fit == (i == 1 || i == 3));
	assert_int_equal(result(0)->errors, 2);
	assert_int_equal(result(2)->n_memory, 1);
	assert_non_null(strstr(result(0)->message, "from GPU 2 to GPU 0"));
	assert_int_equal(r.exit, EXIT_UNFIT);
}

/* A pass that measured nothing is none; a note does not take back what was told. */
TEST(what_is_told_is_believed_once)
{
	struct check_result c;

	assert_int_equal(links_add_pair(&r, 0, 1), 0);
	check_begin(&c, CHECK_P2P);
	check_pass(&c);
	links_take(&r, 0, &c);
	assert_int_equal(r.links[0].status, STATUS_ERROR);
	links_note(&r, 0, CODE_HANG, 0, "late");
	assert_int_equal(r.links[0].status, STATUS_ERROR);
	links_note(&r, 1, CODE_HANG, 0, "late");
	assert_int_equal(r.links[1].status, STATUS_FAIL);
	links_judge(&thresholds, &r);
	assert_int_equal(result(0)->code, CODE_HANG);
	assert_string_equal(result(3)->reason, "not_run");
}

TEST(forms)
{
	struct buf out;

	assert_int_equal(links_add_pair(&r, 0, 3), 0);
	r.links[0].status = STATUS_PASS;
	r.links[0].value = 48.26e9;
	links_note(&r, 1, CODE_WORKER_DIED, 0, "it \"died\"");
	buf_init(&out, 65536);
	links_json(&r, &out);
	buf_char(&out, '\0');
	assert_non_null(strstr(out.data, "\"from\":0,\"to\":3,\"status\":\"pass\""));
	assert_non_null(strstr(out.data, "\"message\":\"it \\\"died\\\"\""));
	buf_clear(&out);
	links_text(&r, 80, &out);
	buf_char(&out, '\0');
	assert_non_null(strstr(out.data, "GPU    0        -       -       -    48.3\n"));
	assert_non_null(strstr(out.data, "GPU    3        ?       -       -       -\n"));
	buf_clear(&out);
	links_text(&r, 30, &out); /* too narrow */
	assert_int_equal(out.len, 0);
	buf_release(&out);
}

/* ---- second processes ---- */

TEST(what_may_be_tried_again)
{
	struct gpu_report *gpu = &r.gpus[0];

	assert_true(retry_allowed(&r, gpu, CHECK_H2D, CODE_KERNEL_FAULT, 719));
	assert_true(retry_allowed(&r, gpu, CHECK_COUNT, CODE_INIT_FAILED, 999));
	assert_false(retry_allowed(&r, gpu, CHECK_H2D, CODE_KERNEL_FAULT, 0));
	assert_false(retry_allowed(&r, gpu, CHECK_H2D, CODE_ECC_UNCORRECTABLE, 214));
	assert_false(retry_allowed(&r, gpu, CHECK_H2D, CODE_HANG, 702));
	assert_false(retry_allowed(&r, gpu, CHECK_H2D, CODE_OUT_OF_MEMORY, 2));
	r.profile = PROFILE_STRESS;
	assert_false(retry_allowed(&r, gpu, CHECK_H2D, CODE_KERNEL_FAULT, 719));
	r.profile = PROFILE_BENCH;
	check_fail(gpu->checks[CHECK_MEM_READ], CODE_SLOW, "slow");
	assert_false(retry_allowed(&r, gpu, CHECK_H2D, CODE_KERNEL_FAULT, 719));
	assert_true(retry_allowed(&r, gpu, CHECK_MEM_READ, CODE_KERNEL_FAULT, 719));
	retry_note(gpu, CHECK_MEM_READ, CODE_KERNEL_FAULT, 719, "first");
	assert_false(retry_allowed(&r, gpu, CHECK_MEM_READ, CODE_KERNEL_FAULT, 719));
}

TEST(a_first_try_is_told)
{
	for (int i = 0; i < 4; i++)
		retry_note(&r.gpus[i], CHECK_H2D, CODE_KERNEL_FAULT, 719, "first");
	check_warn(r.gpus[1].checks[CHECK_H2D], CODE_SLOW, "slow");
	check_fail(r.gpus[2].checks[CHECK_H2D], CODE_KERNEL_FAULT, "second");
	check_skip(r.gpus[3].checks[CHECK_H2D], "busy");
	retry_tell(&r);
	assert_int_equal(r.gpus[0].checks[CHECK_H2D]->code, CODE_RETRIED);
	assert_non_null(strstr(r.gpus[0].checks[CHECK_H2D]->message, "first"));
	assert_non_null(strstr(r.gpus[1].checks[CHECK_H2D]->message, "slow"));
	assert_non_null(strstr(r.gpus[1].checks[CHECK_H2D]->message, "first"));
	assert_non_null(strstr(r.gpus[2].checks[CHECK_H2D]->message, "second, in two processes"));
	assert_int_equal(r.gpus[3].checks[CHECK_H2D]->status, STATUS_FAIL);
	assert_int_equal(r.gpus[3].checks[CHECK_H2D]->code, CODE_KERNEL_FAULT);
}

TESTS_BETWEEN(begin, end, layouts_are_compared_link_by_link, without_access_nothing_is_said,
	a_fault_has_two_ends, what_is_told_is_believed_once, forms, what_may_be_tried_again,
	a_first_try_is_told)

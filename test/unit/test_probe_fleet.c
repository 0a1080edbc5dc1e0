/* SPDX-License-Identifier: Apache-2.0 */
/* test: probe/show/fleet: what gpuprobe-serve believes of its GPUs after verifies, lists and looks
 * of NVML; and what poolgate's reader makes of it. A GPU that was found bad stays so until a verify
 * finds it good. */
#include "probe/show/fleet.h"
#include "test/unit/probe_report_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/server/probe_inventory.h"

#define NOW 1795196411
#define STALE 30

static struct fleet f;
static struct report verify, list;
static struct arena arena;
static struct probe_inventory inv;
static struct buf text;

FIXTURE(begin)
{
	assert_true(fleet_init(&f, "gpu-01", 2, STALE));
	healthy_report(&verify, PROFILE_VERIFY, 2);
	healthy_report(&list, PROFILE_LIST, 2);
	report_judge(&verify);
	report_judge(&list);
	arena_init(&arena, 1u << 20);
	buf_init(&text, 1u << 20);
	return 0;
}

FIXTURE(finish)
{
	fleet_release(&f);
	report_release(&verify);
	report_release(&list);
	arena_release(&arena);
	buf_release(&text);
	return 0;
}

/* The inventory at this time, as poolgate reads it. */
static void read_at(int64_t now)
{
	struct json j = {0};
	struct err err = {0};
	char *copy;

	buf_clear(&text);
	fleet_inventory(&f, now, &text);
	assert_int_equal(json_read_copy(&j, text.data, text.len, 100000, &copy, &err), 0);
	if (probe_inventory_read(&j, &arena, &inv, &err) != 0)
		fail_msg("%s: %s: %.*s", err.path, err.msg, (int)text.len, text.data);
	json_release(&j);
	free(copy);
}

/* One of the second GPU's checks fails. */
static void spoil(struct report *r, enum check_id id)
{
	check_fail(r->gpus[1].checks[id], CODE_MEMORY_ERRORS, "1 cell");
	report_judge(r);
}

static void look_at(size_t n, int64_t now, bool lost, int64_t uncorrected)
{
	fleet_look_begin(&f);
	for (size_t i = 0; i < n; i++) {
		struct wire_state s = {.lost = lost && i == 1};

		memset(&s.nvml, 0xff, sizeof(s.nvml));
		s.nvml.throttle_known = false;
		s.nvml.ecc_uncorrected = i == 1 ? uncorrected : 0;
		s.nvml.ecc_corrected = s.nvml.remap_failed = s.nvml.remap_pending =
			s.nvml.retire_pending = 0;
		s.nvml.recovery_action = s.nvml.processes = s.nvml.utilization_percent = 0;
		snprintf(s.uuid, sizeof(s.uuid), "%s", verify.gpus[i].uuid);
		snprintf(s.pci, sizeof(s.pci), "%s", verify.gpus[i].pci);
		fleet_look(&f, &s);
	}
	fleet_look_end(&f, (int)n, now);
}

TEST(knows_nothing_at_first)
{
	read_at(NOW);
	assert_int_equal(inv.state, PROBE_UNKNOWN);
	assert_false(probe_inventory_fresh(&inv));
	assert_non_null(fleet_unready(&f, NOW));
	/* a list alone makes nothing fit */
	fleet_listed(&f, &list, NOW);
	read_at(NOW);
	assert_int_equal(inv.n_gpus, 2);
	assert_false(inv.gpus[0].fit || inv.gpus[1].fit);
	assert_int_equal(inv.state, PROBE_UNKNOWN);
}

TEST(a_verify_makes_fit)
{
	fleet_verified(&f, &verify, NOW);
	read_at(NOW);
	assert_int_equal(inv.state, PROBE_READY);
	assert_true(probe_inventory_fresh(&inv));
	assert_true(inv.gpus[0].fit && inv.gpus[1].fit);
	assert_int_equal(inv.gpus[0].bytes, 150051225600);
	assert_null(fleet_unready(&f, NOW));
	read_at(NOW + STALE + 1);
	assert_int_equal(inv.state, PROBE_UNKNOWN);
	assert_false(probe_inventory_fresh(&inv));
	assert_non_null(fleet_unready(&f, NOW + STALE + 1));
	/* a clock that was set back */
	read_at(NOW - 1000);
	assert_int_equal(inv.age_s, 0);
}

TEST(a_list_takes_no_verdict_back)
{
	spoil(&verify, CHECK_MEM_PATTERN);
	fleet_verified(&f, &verify, NOW);
	for (int i = 0; i < 3; i++) {
		fleet_listed(&f, &list, NOW + i);
		look_at(2, NOW + i, false, 0);
	}
	read_at(NOW + 2);
	assert_int_equal(inv.state, PROBE_DEGRADED);
	assert_true(inv.gpus[0].fit);
	assert_false(inv.gpus[1].fit);
	assert_non_null(strstr(inv.gpus[1].why, "MEMORY_ERRORS: 1 cell"));
	/* nor is a list's complaint a verdict */
	check_begin(verify.gpus[1].checks[CHECK_MEM_PATTERN], CHECK_MEM_PATTERN);
	passed_check(verify.gpus[1].checks[CHECK_MEM_PATTERN], CHECK_MEM_PATTERN);
	report_judge(&verify);
	fleet_verified(&f, &verify, NOW + 3);
	read_at(NOW + 3);
	assert_int_equal(inv.state, PROBE_READY);
}

TEST(what_was_not_finished_is_no_news)
{
	fleet_verified(&f, &verify, NOW);
	verify.complete = false;
	lose_check(&verify.gpus[0], CHECK_MEM_PATTERN);
	spoil(&verify, CHECK_EXACT_FP32);
	fleet_verified(&f, &verify, NOW + 10);
	read_at(NOW + 10);
	assert_true(inv.gpus[0].fit);
	assert_false(inv.gpus[1].fit);
	assert_int_equal(f.verified_at, NOW);
	assert_int_equal(inv.age_s, 10);
}

TEST(a_busy_one_keeps_its_verdict)
{
	check_skip(verify.gpus[0].checks[CHECK_MEM_READ], "busy");
	report_judge(&verify);
	assert_false(verify.gpus[0].fit);
	fleet_verified(&f, &verify, NOW);
	read_at(NOW);
	assert_false(inv.gpus[0].fit); /* it had none */
	passed_check(verify.gpus[0].checks[CHECK_MEM_READ], CHECK_MEM_READ);
	report_judge(&verify);
	fleet_verified(&f, &verify, NOW);
	check_skip(verify.gpus[0].checks[CHECK_MEM_READ], "busy");
	report_judge(&verify);
	fleet_verified(&f, &verify, NOW + 5);
	read_at(NOW + 5);
	assert_true(inv.gpus[0].fit);
	/* unless something is wrong with it */
	check_fail(verify.gpus[0].checks[CHECK_MEM_PATTERN], CODE_MEMORY_ERRORS, "1 cell");
	report_judge(&verify);
	fleet_verified(&f, &verify, NOW + 6);
	read_at(NOW + 6);
	assert_false(inv.gpus[0].fit);
}

TEST(without_cuda_nothing_is_fit)
{
	struct report none;

	fleet_verified(&f, &verify, NOW);
	report_init(&none);
	none.complete = true;
	none.cuda = -1;
	assert_true(report_add_error(&none, -1, CODE_INIT_FAILED, 999, "CUDA error 999"));
	report_judge(&none);
	fleet_verified(&f, &none, NOW + 1);
	read_at(NOW + 1);
	assert_int_equal(inv.state, PROBE_UNFIT);
	assert_false(inv.gpus[0].fit || inv.gpus[1].fit);
	assert_non_null(strstr(text.data, "INIT_FAILED"));
	report_release(&none);
}

TEST(looks_of_nvml)
{
	fleet_verified(&f, &verify, NOW);
	look_at(2, NOW + 1, false, 0);
	read_at(NOW + 1);
	assert_int_equal(inv.state, PROBE_READY);
	look_at(2, NOW + 2, false, 3);
	read_at(NOW + 2);
	assert_false(inv.gpus[1].fit);
	assert_non_null(strstr(inv.gpus[1].why, "ECC_UNCORRECTABLE"));
	look_at(2, NOW + 3, true, 0);
	read_at(NOW + 3);
	assert_non_null(strstr(inv.gpus[1].why, "GPU_MISSING"));
	look_at(1, NOW + 4, false, 0);
	read_at(NOW + 4);
	assert_non_null(strstr(inv.gpus[1].why, "GPU_MISSING"));
	/* no answer is no news: it grows old */
	fleet_look_end(&f, -1, NOW + 100);
	read_at(NOW + 100);
	assert_int_equal(inv.age_s, 96);
	assert_int_equal(inv.state, PROBE_UNKNOWN);
}

TEST(what_vanishes_is_missing)
{
	struct report one;

	fleet_verified(&f, &verify, NOW);
	healthy_report(&one, PROFILE_LIST, 1);
	report_judge(&one);
	fleet_listed(&f, &one, NOW + 1);
	read_at(NOW + 1);
	assert_int_equal(inv.n_gpus, 2);
	assert_true(inv.gpus[0].fit);
	assert_non_null(strstr(inv.gpus[1].why, "GPU_MISSING"));
	report_release(&one);
}

/* Two of which only the place on the bus is known have a name each, in metrics too. */
TEST(lost_ones_have_names)
{
	struct report lost;

	report_init(&lost);
	lost.complete = true;
	lost.cuda = 1;
	for (int i = 0; i < 2; i++) {
		struct gpu_report *gpu = report_add_gpu(&lost);

		gpu->index = i;
		snprintf(gpu->pci, sizeof(gpu->pci), "0000:1%d:00.0", i);
		assert_true(report_add_error(&lost, i, CODE_GPU_MISSING, 0, "gone"));
	}
	report_judge(&lost);
	fleet_verified(&f, &lost, NOW);
	read_at(NOW);
	assert_int_equal(inv.n_gpus, 2);
	assert_string_equal(inv.gpus[1].id, "0000:11:00.0");
	buf_clear(&text);
	fleet_metrics(&f, NOW, &text);
	buf_char(&text, '\0');
	assert_non_null(strstr(text.data, "gpuprobe_gpu_fit{uuid=\"0000:10:00.0\"} 0\n"));
	assert_non_null(strstr(text.data, "gpuprobe_gpu_fit{uuid=\"0000:11:00.0\"} 0\n"));
	assert_null(strstr(text.data, "uuid=\"\""));
	report_release(&lost);
}

TESTS_BETWEEN(begin, finish, knows_nothing_at_first, a_verify_makes_fit,
	a_list_takes_no_verdict_back, what_was_not_finished_is_no_news,
	a_busy_one_keeps_its_verdict, without_cuda_nothing_is_fit, looks_of_nvml,
	what_vanishes_is_missing, lost_ones_have_names)

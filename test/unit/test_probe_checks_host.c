/* SPDX-License-Identifier: Apache-2.0 */
/* The checks without CUDA, and probe/runtime/host_xid. Each has facts with which it passes, and
 * facts that make it fail. */
#include <math.h>

#include "probe/check/checks_host.h"
#include "probe/check/checks_nvml.h"
#include "probe/runtime/host_xid.h"
#include "test/unit/test.h"

/* A healthy local GPU, and room to change what is known of it. */
static struct world {
	struct host_facts facts;
	struct gpu_report gpu;
	struct nvml_state before, after;
	struct nvml_watch watch;
	struct host_gpu host;
	const char *environment[4];
} w;

static void world_init(void)
{
	memset(&w, 0, sizeof(w));
	report_gpu_init(&w.gpu);
	snprintf(w.gpu.pci, sizeof(w.gpu.pci), "0000:17:00.0");
	w.gpu.compute_mode = 0;
	w.before = (struct nvml_state){.temperature_c = 40,
		.throttle_known = true,
		.persistence = 1,
		.pcie_gen = 1,
		.pcie_gen_max = 5,
		.pcie_width = 16,
		.pcie_width_max = 16};
	w.after = w.before;
	w.watch = (struct nvml_watch){
		.samples = 100, .temperature_c = 71, .pcie_gen = 5, .pcie_width = 16};
	w.host = (struct host_gpu){.pci = "0000:17:00.0",
		.answers = true,
		.width = 16,
		.width_max = 16,
		.speed_gts = 2.5,
		.speed_gts_max = 32,
		.upstream_gts = 32,
		.upstream_width = 16};
	w.environment[0] = "PATH=/bin";
	w.environment[1] = "CUDA_LAUNCH_BLOCKING=0";
	w.facts = (struct host_facts){.gpu = &w.gpu,
		.local = true,
		.server_has_nvml = true,
		.before = &w.before,
		.after = &w.after,
		.watch = &w.watch,
		.host = &w.host,
		.all = &w.host,
		.n_all = 1,
		.environment = w.environment,
		.kernel_log = "6,1,2,-;usb 1-1: new device\n"};
}

FIXTURE(set_up)
{
	world_init();
	return 0;
}

static struct check_result run(enum check_id id)
{
	struct check_result r;

	check_begin(&r, id);
	assert_true(check_host(&w.facts, &r));
	return r;
}

static void expect(
	enum check_id id, enum check_status status, enum probe_code code, const char *words)
{
	struct check_result r = run(id);

	if (r.status != status || r.code != code ||
		strcmp(status == STATUS_SKIP ? r.reason : r.message, words) != 0)
		fail_msg("%s: %s %s \"%s%s\"", check_kind(id)->id, check_status_name(r.status),
			code_text(r.code)->name, r.message, r.reason);
}

static const enum check_id all[] = {CHECK_COMPUTE_MODE, CHECK_MIG, CHECK_VARIABLES,
	CHECK_PERSISTENCE, CHECK_HOST_PCI, CHECK_HOST_XID, CHECK_NVML_ECC, CHECK_NVML_REMAP,
	CHECK_NVML_PCIE, CHECK_NVML_PROCESSES, CHECK_NVML_THROTTLE};

TEST(healthy)
{
	struct check_result r;

	for (size_t i = 0; i < COUNT(all); i++)
		expect(all[i], STATUS_PASS, CODE_NONE, "");
	check_begin(&r, CHECK_MEM_READ);
	assert_false(check_host(&w.facts, &r));
	assert_string_equal(r.reason, "not_run");
	r.id = CHECK_COUNT;
	assert_false(check_host(&w.facts, &r));
}

/* Nothing known is never a pass. */
TEST(nothing_known)
{
	memset(&w.before, 0xff, sizeof(w.before));
	memset(&w.after, 0xff, sizeof(w.after));
	w.before.throttle_known = w.after.throttle_known = false;
	w.watch = (struct nvml_watch){0};
	w.gpu.compute_mode = -1;
	w.facts.host = NULL;
	w.facts.environment = NULL;
	w.facts.kernel_log = NULL;
	for (size_t i = 0; i < COUNT(all); i++)
		expect(all[i], STATUS_SKIP, CODE_NONE, "not_told");
	w.facts.before = w.facts.after = NULL;
	w.facts.watch = NULL;
	for (size_t i = 0; i < COUNT(all); i++)
		expect(all[i], STATUS_SKIP, CODE_NONE, "not_told");
}

TEST(without_nvml)
{
	w.facts.server_has_nvml = false;
	w.facts.before = w.facts.after = NULL;
	w.facts.watch = NULL;
	for (size_t i = 0; i < COUNT(all); i++) {
		bool needed = all[i] >= CHECK_NVML_ECC || all[i] == CHECK_PERSISTENCE ||
			      all[i] == CHECK_MIG;

		expect(all[i], needed ? STATUS_SKIP : STATUS_PASS, CODE_NONE,
			needed ? "nvml_unavailable" : "");
	}
	w.facts.local = false;
	for (size_t i = 0; i < COUNT(all); i++) {
		bool known = all[i] == CHECK_COMPUTE_MODE || all[i] == CHECK_VARIABLES;

		expect(all[i], known ? STATUS_PASS : STATUS_SKIP, CODE_NONE, known ? "" : "remote");
	}
}

TEST(compute_mode)
{
	w.gpu.compute_mode = 3;
	expect(CHECK_COMPUTE_MODE, STATUS_WARN, CODE_COMPUTE_MODE,
		"it is exclusive process; expected is default");
	w.gpu.compute_mode = -1;
	w.before.compute_mode = 2;
	expect(CHECK_COMPUTE_MODE, STATUS_FAIL, CODE_COMPUTE_MODE,
		"it is prohibited; expected is default");
	w.before.compute_mode = 9;
	expect(CHECK_COMPUTE_MODE, STATUS_SKIP, CODE_NONE, "not_told");
}

TEST(mig)
{
	w.before.mig = 1;
	expect(CHECK_MIG, STATUS_WARN, CODE_MIG_MODE, "MIG is on");
	w.gpu.mig = 1;
	expect(CHECK_MIG, STATUS_PASS, CODE_NONE, "");
}

TEST(variables)
{
	w.environment[1] = "CUDA_LAUNCH_BLOCKING=1";
	w.environment[2] = "CUDA_INJECTION64_PATH=/x.so";
	expect(CHECK_VARIABLES, STATUS_WARN, CODE_DEBUG_VARIABLES,
		"CUDA_LAUNCH_BLOCKING, CUDA_INJECTION64_PATH");
	w.environment[1] = "CUDA_LAUNCH_BLOCKING=";
	w.environment[2] = "CUDA_LAUNCH_BLOCKINGS=1";
	expect(CHECK_VARIABLES, STATUS_PASS, CODE_NONE, "");
}

TEST(persistence)
{
	w.before.persistence = 0;
	expect(CHECK_PERSISTENCE, STATUS_WARN, CODE_PERSISTENCE_OFF, "persistence mode is off");
}

TEST(pci)
{
	w.host.width = 8;
	expect(CHECK_HOST_PCI, STATUS_WARN, CODE_PCIE_DEGRADED,
		"the link has 8 lanes; card and slot have 16");
	w.facts.vm = true;
	expect(CHECK_HOST_PCI, STATUS_PASS, CODE_NONE, "");
	w.facts.vm = false;
	w.host.upstream_width = 8;
	expect(CHECK_HOST_PCI, STATUS_PASS, CODE_NONE, "");
	w.host.width = -1;
	expect(CHECK_HOST_PCI, STATUS_PASS, CODE_NONE, "");
	w.host.answers = false;
	expect(CHECK_HOST_PCI, STATUS_FAIL, CODE_GPU_MISSING,
		"its configuration space is all ones: it has fallen off the bus");
}

#define XID(pci, rest) "3,901,77,-;NVRM: Xid (PCI:" pci "): " rest "\n"

TEST(xids)
{
	static const int own[] = {31};

	w.facts.kernel_log = XID("0000:17:00", "31, pid=1, MMU Fault") XID("0000:18:00", "79, gone")
		XID("0000:17:00", "63, Row Remapper") "3,1,1,-;NVRM: Xid (PCI:0000:17:00\n";
	expect(CHECK_HOST_XID, STATUS_PASS, CODE_NONE, "");
	w.facts.fatal_xids = own;
	w.facts.n_fatal_xids = 1;
	expect(CHECK_HOST_XID, STATUS_FAIL, CODE_XID,
		"fatal XIDs since the server was started: 1, the last was 31");
	w.facts.fatal_xids = NULL;
	w.facts.kernel_log = XID("0000:17:00", "48, DBE") XID("0000:17:00", "69, class error")
		XID("0000:17:00", "79, GPU has fallen off the bus.");
	expect(CHECK_HOST_XID, STATUS_FAIL, CODE_XID,
		"fatal XIDs since the server was started: 2, the last was 79");
	w.facts.kernel_log = "NVRM: Xid (0000:17:00): 69, Class Error";
	expect(CHECK_HOST_XID, STATUS_WARN, CODE_XID,
		"XIDs since the server was started: 1, the last was 69");
	w.facts.kernel_log = XID("0000:17:00",
		"154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)");
	expect(CHECK_HOST_XID, STATUS_PASS, CODE_NONE, "");
	w.facts.kernel_log = XID("0000:17:00",
		"154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)");
	expect(CHECK_HOST_XID, STATUS_FAIL, CODE_XID,
		"fatal XIDs since the server was started: 1, the last was 154");
	w.facts.kernel_log = "";
	expect(CHECK_HOST_XID, STATUS_PASS, CODE_NONE, "");
	w.gpu.pci[0] = '\0';
	expect(CHECK_HOST_XID, STATUS_SKIP, CODE_NONE, "not_told");
}

TEST(xid_lines)
{
	static const char *const none[] = {"", "NVRM: Xid (",
		"NVRM: Xid (PCI:", "NVRM: Xid (PCI:0000:17:00): ", "NVRM: Xid (PCI:0000:17:00): x",
		"NVRM: Xid (PCI:0000:17:00) 79", "NVRM: Xid (PCI:17:00): 79",
		"NVRM: Xid (PCI:0000:17:00): 1234567", "NVRM: Xid (PCI:0000:17:00\n): 79",
		"NVRM: Xid (PCI:0000000000000000000000000000000000000000:17:00): 79"};
	char id[PCI_ID_MAX];
	int xid;

	for (size_t i = 0; i < COUNT(none); i++) {
		const char *at = none[i];

		assert_false(host_xid_next(&at, id, &xid));
		assert_string_equal(at, "");
	}
	assert_int_equal(host_xid_kind(79, NULL, 0), XID_FATAL);
	assert_int_equal(host_xid_kind(13, NULL, 0), XID_IGNORED);
	assert_int_equal(host_xid_kind(69, NULL, 0), XID_NOTED);
}

TEST(ecc)
{
	w.before.ecc_uncorrected = w.after.ecc_uncorrected = 7;
	w.before.ecc_corrected = w.after.ecc_corrected = 1000;
	expect(CHECK_NVML_ECC, STATUS_PASS, CODE_NONE, "");
	w.after.ecc_corrected = 1001;
	expect(CHECK_NVML_ECC, STATUS_WARN, CODE_ECC_CORRECTABLE,
		"corrected errors in this run: 1");
	w.after.ecc_uncorrected = 9;
	expect(CHECK_NVML_ECC, STATUS_FAIL, CODE_ECC_UNCORRECTABLE,
		"uncorrectable errors in this run: 2");
	w.after.ecc_uncorrected = 1; /* began anew, and counted again */
	expect(CHECK_NVML_ECC, STATUS_FAIL, CODE_ECC_UNCORRECTABLE,
		"uncorrectable errors in this run: 1");
	w.after.ecc_uncorrected = -1;
	expect(CHECK_NVML_ECC, STATUS_ERROR, CODE_NOT_RUN,
		"NVML stopped telling ECC counters in the run");
}

TEST(remap)
{
	w.after.remap_uncorrectable = 3; /* repaired: no fault */
	expect(CHECK_NVML_REMAP, STATUS_PASS, CODE_NONE, "");
	w.after.recovery_action = 2;
	expect(CHECK_NVML_REMAP, STATUS_FAIL, CODE_RECOVERY_NEEDED,
		"it asks for a reboot of the server (2)");
	w.after.recovery_action = 77;
	expect(CHECK_NVML_REMAP, STATUS_FAIL, CODE_RECOVERY_NEEDED,
		"it asks for something new (77)");
	w.after.retire_pending = 1;
	expect(CHECK_NVML_REMAP, STATUS_FAIL, CODE_RETIRE_PENDING, "a page waits to be retired");
	w.after.remap_pending = 1;
	expect(CHECK_NVML_REMAP, STATUS_FAIL, CODE_REMAP_PENDING, "a row waits to be remapped");
	w.after.remap_failed = 1;
	expect(CHECK_NVML_REMAP, STATUS_FAIL, CODE_REMAP_FAILED,
		"rows remapped for uncorrectable errors: 3; one more could not be");
	/* cards of before Ampere retire pages, and those after remap rows */
	world_init();
	w.after.remap_failed = w.after.remap_pending = w.after.recovery_action = -1;
	expect(CHECK_NVML_REMAP, STATUS_PASS, CODE_NONE, "");
	world_init();
	w.after.retire_pending = -1;
	expect(CHECK_NVML_REMAP, STATUS_PASS, CODE_NONE, "");
}

TEST(pcie)
{
	w.watch.pcie_width = 8;
	expect(CHECK_NVML_PCIE, STATUS_FAIL, CODE_PCIE_DEGRADED,
		"under load the link was gen 5 x8; card and slot allow gen 5 x16");
	w.host.upstream_width = 8; /* so is the slot */
	expect(CHECK_NVML_PCIE, STATUS_PASS, CODE_NONE, "");
	world_init();
	w.watch.pcie_gen = 4;
	expect(CHECK_NVML_PCIE, STATUS_FAIL, CODE_PCIE_DEGRADED,
		"under load the link was gen 4 x16; card and slot allow gen 5 x16");
	w.host.upstream_gts = 16; /* a card of gen 5 in a slot of gen 4 */
	expect(CHECK_NVML_PCIE, STATUS_PASS, CODE_NONE, "");
	w.host.upstream_gts = 0;
	w.watch.samples = 2; /* it may have slept */
	expect(CHECK_NVML_PCIE, STATUS_WARN, CODE_PCIE_DEGRADED,
		"under load the link was gen 4 x16; card and slot allow gen 5 x16");
	w.watch.samples = 100;
	w.facts.vm = true;
	expect(CHECK_NVML_PCIE, STATUS_WARN, CODE_PCIE_DEGRADED,
		"under load the link was gen 4 x16; card and slot allow gen 5 x16");
	world_init();
	w.before.pcie_replays = 5;
	w.after.pcie_replays = 15;
	expect(CHECK_NVML_PCIE, STATUS_PASS, CODE_NONE, "");
	w.after.pcie_replays = 16;
	expect(CHECK_NVML_PCIE, STATUS_WARN, CODE_PCIE_DEGRADED,
		"packets sent again in this run: 11; up to 10 are normal");
	w.facts.host = NULL;
	w.facts.watch = NULL;
	expect(CHECK_NVML_PCIE, STATUS_SKIP, CODE_NONE, "not_told");
	for (int gen = 1; gen <= 6; gen++)
		assert_int_equal(pcie_generation(pcie_speed(gen)), gen);
	assert_int_equal(pcie_generation(0), 0);
	assert_true(pcie_speed(7) == 0 && pcie_speed(-1) == 0);
}

TEST(processes)
{
	w.before.processes = 2;
	expect(CHECK_NVML_PROCESSES, STATUS_WARN, CODE_DEVICE_BUSY,
		"processes that computed on it before this run: 2");
	world_init();
	w.after.processes = 1; /* our own */
	expect(CHECK_NVML_PROCESSES, STATUS_PASS, CODE_NONE, "");
}

TEST(throttle)
{
	struct nvml_state s = {.throttle_known = true, .temperature_c = 83, .pcie_gen = 4};

	/* two reasons in one mask: both count, the fault as a fault */
	s.throttle = 0x44;
	w.watch = (struct nvml_watch){0};
	for (int i = 0; i < 2; i++)
		nvml_watch_add(&w.watch, &s);
	s.throttle = 0x04;
	s.temperature_c = 70;
	s.pcie_gen = 3;
	for (int i = 0; i < 18; i++)
		nvml_watch_add(&w.watch, &s);
	s.throttle_known = false;
	nvml_watch_add(&w.watch, &s);
	assert_int_equal(w.watch.samples, 20);
	assert_int_equal(w.watch.faults, 2);
	assert_int_equal(w.watch.power, 20);
	assert_int_equal(w.watch.reasons, 0x44);
	assert_int_equal(w.watch.temperature_c, 83);
	assert_int_equal(w.watch.pcie_gen, 4);
	expect(CHECK_NVML_THROTTLE, STATUS_FAIL, CODE_THROTTLED,
		"in 2 of 20 looks under load (thermal, by hardware), at up to 83 C; 10 % is a "
		"failure");
	w.watch.samples = 100;
	w.watch.reasons = 0xe8;
	expect(CHECK_NVML_THROTTLE, STATUS_WARN, CODE_THROTTLED,
		"in 2 of 100 looks under load (hardware slowdown; thermal, by software; thermal, "
		"by "
		"hardware; power brake), at up to 83 C; healthy is less than 1 %");
	w.watch.samples = 201;
	expect(CHECK_NVML_THROTTLE, STATUS_PASS, CODE_NONE, "");
	w.watch.samples = 3;
	w.watch.faults = 1; /* one look is no proof */
	expect(CHECK_NVML_THROTTLE, STATUS_PASS, CODE_NONE, "");
	w.watch.samples = w.watch.faults = 2;
	expect(CHECK_NVML_THROTTLE, STATUS_FAIL, CODE_THROTTLED,
		"in 2 of 2 looks under load (hardware slowdown; thermal, by software; thermal, by "
		"hardware; power brake), at up to 83 C; 10 % is a failure");
	w.watch.samples = 0;
	expect(CHECK_NVML_THROTTLE, STATUS_SKIP, CODE_NONE, "not_told");
}

/* A rate of arithmetic of which the clocks promise 100. */
static struct check_result capped(enum check_id id, double value)
{
	struct check_result r;

	check_begin(&r, id);
	r.unit = "FLOP/s";
	r.value = value;
	r.expected = 100e12;
	r.basis = BASIS_CLOCK;
	r.warn_below = 0.6;
	r.fail_below = 0.4;
	check_judge_rate(&r);
	check_power_cap(&w.facts, &r);
	return r;
}

TEST(power_cap)
{
	struct check_result r;

	w.before.power_limit_mw = w.before.power_default_mw = 70000;
	w.watch.power_mw = 69000;
	/* not held back: slow is broken */
	assert_int_equal(capped(CHECK_FP32_RATE, 30e12).status, STATUS_FAIL);
	w.watch.power = 3;
	r = capped(CHECK_FP32_RATE, 30e12);
	assert_int_equal(r.status, STATUS_WARN);
	assert_int_equal(r.code, CODE_POWER_CAP);
	assert_non_null(strstr(r.message, "30.0 TFLOP/s"));
	assert_non_null(
		strstr(r.message, "; its power limit (70 W) held it back in 3 of 100 looks"));
	/* what it had no part in */
	assert_int_equal(capped(CHECK_FP32_RATE, 50e12).code, CODE_SLOW);
	assert_int_equal(capped(CHECK_FP32_RATE, 70e12).status, STATUS_PASS);
	assert_int_equal(capped(CHECK_MEM_READ, 30e12).status, STATUS_FAIL);
	assert_int_equal(capped(CHECK_FP32_RATE, 9e12).status, STATUS_FAIL);
	assert_int_equal(capped(CHECK_FP32_RATE, 0).status, STATUS_FAIL);
	assert_int_equal(capped(CHECK_FP32_RATE, (double)NAN).code, CODE_NOT_A_NUMBER);
	/* a limit that was lowered, and reached */
	w.watch.power = 0;
	w.before.power_limit_mw = 50000;
	w.watch.power_mw = 46000;
	r = capped(CHECK_FP32_RATE, 30e12);
	assert_int_equal(r.code, CODE_POWER_CAP);
	assert_non_null(strstr(
		r.message, "; its power limit is 50 W, lowered from 70 W, and it drew 46 W"));
	w.watch.power_mw = 44000;
	assert_int_equal(capped(CHECK_FP32_RATE, 30e12).status, STATUS_FAIL);
	w.watch.power_mw = 0; /* not told */
	assert_int_equal(capped(CHECK_FP32_RATE, 30e12).status, STATUS_FAIL);
	w.before.power_limit_mw = w.before.power_default_mw = -1;
	assert_int_equal(capped(CHECK_FP32_RATE, 30e12).status, STATUS_FAIL);
	w.watch.power = 1;
	assert_non_null(strstr(capped(CHECK_FP32_RATE, 30e12).message, "does not name"));
	w.facts.before = NULL;
	assert_int_equal(capped(CHECK_FP32_RATE, 30e12).status, STATUS_FAIL);
}

/* Of others than the clocks: a wrong result, a reference, peers. */
TEST(no_excuse)
{
	struct check_result r;

	w.watch.power = 100;
	check_begin(&r, CHECK_EXACT_FP32);
	check_fail(&r, CODE_COMPUTE_ERRORS, "wrong");
	check_power_cap(&w.facts, &r);
	assert_int_equal(r.status, STATUS_FAIL);
	r = capped(CHECK_FP32_RATE, 70e12);
	r.basis = BASIS_REFERENCE;
	r.value = 30e12;
	check_judge_rate(&r);
	check_power_cap(&w.facts, &r);
	assert_int_equal(r.code, CODE_SLOW);
	assert_int_equal(r.status, STATUS_FAIL);
}

/* A measured rate against the link. */
static struct check_result judge(double value, bool vm)
{
	struct thresholds t = {0};
	struct check_result r;

	t.of[CHECK_H2D] = (struct threshold){0.75, 0.65};
	check_begin(&r, CHECK_H2D);
	r.unit = "B/s";
	r.value = value;
	check_pass(&r);
	check_link(&w.facts, vm, &t, &r);
	return r;
}

TEST(links)
{
	struct check_result r;

	assert_int_equal(judge(55e9, false).status, STATUS_PASS);
	assert_int_equal(judge(55e9, false).basis, BASIS_LINK);
	assert_int_equal(judge(46e9, false).status, STATUS_WARN);
	assert_int_equal(judge(40e9, false).status, STATUS_FAIL);
	assert_int_equal(judge(40e9, true).status, STATUS_FAIL);
	/* more than the link: what is known of it is wrong */
	assert_int_equal(judge(70e9, false).basis, BASIS_NONE);
	/* without NVML what sysfs says it could be, but not in a virtual machine */
	w.facts.watch = NULL;
	assert_int_equal(judge(26e9, false).status, STATUS_FAIL);
	w.host.upstream_gts = 16;
	assert_int_equal(judge(26e9, false).status, STATUS_PASS);
	w.host.upstream_width = 8;
	assert_int_equal(judge(13e9, false).status, STATUS_PASS);
	assert_int_equal(judge(10e9, false).status, STATUS_FAIL);
	assert_int_equal(judge(1e9, true).basis, BASIS_NONE);
	/* somebody else's load */
	w.before.processes = 1;
	assert_int_equal(judge(1e9, false).status, STATUS_PASS);
	w.before.processes = 0;
	w.before.utilization_percent = 50;
	assert_int_equal(judge(1e9, false).status, STATUS_PASS);
	w.before.utilization_percent = 0;
	w.facts.local = false;
	assert_int_equal(judge(1e9, false).basis, BASIS_NONE);
	w.facts.local = true;
	w.facts.host = NULL;
	assert_int_equal(judge(1e9, false).basis, BASIS_NONE);
	/* what is judged or failed already stays */
	world_init();
	check_begin(&r, CHECK_H2D);
	check_link(&w.facts, false, NULL, &r);
	assert_int_equal(r.status, STATUS_SKIP);
	check_pass(&r);
	r.value = 1e9;
	r.basis = BASIS_REFERENCE;
	check_link(&w.facts, false, NULL, &r);
	assert_int_equal(r.status, STATUS_PASS);
}

TESTS_BETWEEN(set_up, NULL, healthy, nothing_known, without_nvml, compute_mode, mig, variables,
	persistence, pci, xids, xid_lines, ecc, remap, pcie, processes, throttle, power_cap,
	no_excuse, links)

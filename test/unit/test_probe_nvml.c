/* SPDX-License-Identifier: Apache-2.0 */
/* test: NVML by name, over a library that says what a file tells it (test/probe/fake_nvml.c): what
 * is missing or refused is unknown. */
#define _GNU_SOURCE
#include <sys/prctl.h>

#include "probe/runtime/nvml.h"
#include "test/unit/test.h"

static char folder[400], scenario[64], library[512], old_library[512];

FIXTURE(setup_all)
{
	ssize_t n = readlink("/proc/self/exe", folder, sizeof(folder) - 1);

	if (n <= 0)
		return -1;
	/* BUILD/test/unit/test_probe_nvml */
	folder[n] = '\0';
	for (int i = 0; i < 2; i++)
		*strrchr(folder, '/') = '\0';
	snprintf(library, sizeof(library), "%s/probe/libnvidia-ml-fake.so", folder);
	snprintf(old_library, sizeof(old_library), "%s/probe/libnvidia-ml-old.so", folder);
	return 0;
}

FIXTURE(setup)
{
	int fd;

	snprintf(scenario, sizeof(scenario), "/tmp/probe-nvml-XXXXXX");
	fd = mkstemp(scenario);
	if (fd < 0)
		return -1;
	close(fd);
	return setenv("GPUPROBE_FAKE_NVML", scenario, 1);
}

FIXTURE(teardown)
{
	return unlink(scenario);
}

static struct nvml *open_with(const char *file, const char *lines)
{
	FILE *f = fopen(scenario, "w");
	struct nvml *n = NULL;
	struct err err = {0};

	assert_non_null(f);
	fputs(lines, f);
	fclose(f);
	if (nvml_open(file, &n, &err) != 0)
		fail_msg("%s", err.msg);
	return n;
}

/* One look at the first GPU of such a server. */
static void look(const char *file, const char *lines, struct nvml_state *ret)
{
	struct nvml *n = open_with(file, lines);
	nvml_device device;
	struct err err = {0};

	assert_int_equal(nvml_find(n, "0000:10:00.0", &device, &err), 0);
	nvml_look(n, device, ret);
	nvml_close(n);
}

TEST(healthy)
{
	struct nvml *n = open_with(library, "gpus=8\n");
	struct nvml_state s;
	nvml_device device;
	struct err err = {0};

	assert_string_equal(nvml_driver_version(n), "580.159.04");
	assert_int_equal(nvml_count(n), 8);
	assert_int_equal(nvml_find(n, "0000:11:00.0", &device, &err), 0);
	memset(&s, 0x55, sizeof(s));
	nvml_look(n, device, &s);
	assert_int_equal(s.temperature_c, 41);
	assert_int_equal(s.power_mw, 350000);
	assert_int_equal(s.power_limit_mw, 700000);
	assert_int_equal(s.power_default_mw, 700000);
	assert_true(s.throttle_known);
	assert_int_equal(s.throttle, 0);
	assert_int_equal(s.ecc_uncorrected, 0);
	assert_int_equal(s.ecc_corrected, 0);
	assert_int_equal(s.remap_pending, 0);
	assert_int_equal(s.remap_failed, 0);
	assert_int_equal(s.retire_pending, 0);
	assert_int_equal(s.mig, 0);
	assert_int_equal(s.compute_mode, 0);
	assert_int_equal(s.persistence, 1);
	assert_int_equal(s.pcie_gen, 5);
	assert_int_equal(s.pcie_gen_max, 5);
	assert_int_equal(s.pcie_width, 16);
	assert_int_equal(s.pcie_width_max, 16);
	assert_int_equal(s.pcie_replays, 0);
	assert_int_equal(s.utilization_percent, 0);
	assert_int_equal(s.processes, 0);
	assert_int_equal(s.recovery_action, 0);
	assert_int_equal(s.memory_total, 150754820096);
	assert_int_equal(s.memory_free, 150754820096);
	nvml_close(n);
}

TEST(identifies)
{
	struct nvml *n = open_with(library, "gpus=2\n1.uuid=GPU-x\n1.pci=00010000:DB:00.0\n"
					    "call.nvmlDeviceGetUUID=0\n");
	char uuid[48], pci[20];
	struct err err = {0};

	assert_int_equal(nvml_identify(n, 0, uuid, sizeof(uuid), pci, sizeof(pci), &err), 0);
	assert_string_equal(uuid, "GPU-00000000-0000-0000-0000-000000000001");
	assert_string_equal(pci, "0000:10:00.0");
	assert_int_equal(nvml_identify(n, 1, uuid, sizeof(uuid), pci, sizeof(pci), &err), 0);
	assert_string_equal(uuid, "GPU-x");
	assert_string_equal(pci, "10000:db:00.0");
	assert_int_equal(
		nvml_identify(n, 2, uuid, sizeof(uuid), pci, sizeof(pci), &err), ERR_NOTFOUND);
	assert_string_equal(pci, "");
	assert_int_equal(
		nvml_identify(n, -1, uuid, sizeof(uuid), pci, sizeof(pci), &err), ERR_NOTFOUND);
	nvml_close(n);

	n = open_with(library, "call.nvmlDeviceGetUUID=3\n");
	assert_int_equal(nvml_identify(n, 0, uuid, sizeof(uuid), pci, sizeof(pci), &err), 0);
	assert_string_equal(uuid, "");
	nvml_close(n);
	n = open_with(library, "call.nvmlDeviceGetHandleByIndex_v2=15\n");
	assert_int_equal(nvml_identify(n, 0, uuid, sizeof(uuid), pci, sizeof(pci), &err), ERR_IO);
	assert_string_equal(err.msg, "NVML says of number 0: GPU is lost (15)");
	nvml_close(n);
	n = open_with(library, "pci=nonsense\n");
	assert_int_equal(nvml_identify(n, 0, uuid, sizeof(uuid), pci, sizeof(pci), &err), ERR_IO);
	nvml_close(n);
}

TEST(cannot_be_opened)
{
	struct nvml *n = (struct nvml *)scenario;
	struct err err = {0};
	FILE *f;

	assert_int_equal(nvml_open("/nowhere/libnvidia-ml.so.1", &n, &err), ERR_NOTFOUND);
	assert_null(n);
	assert_non_null(strstr(err.msg, "/nowhere/libnvidia-ml.so.1"));
	assert_int_equal(nvml_open("libpthread.so.0", &n, &err), ERR_REFUSED);
	assert_null(n);
	f = fopen(scenario, "w");
	fputs("init=18\n", f);
	fclose(f);
	assert_int_equal(nvml_open(library, &n, &err), ERR_REFUSED);
	assert_string_equal(err.msg, "NVML does not start: Driver/library version mismatch (18)");
	nvml_close(NULL);
}

/* The library of a remote-GPU client may have threads of its own, also where it does not start:
 * their code must stay. */
TEST(threads_of_the_library_go_on)
{
	static const char *const scenarios[] = {"thread=1\ninit=999\n", "thread=1\n"};

	for (size_t i = 0; i < 2; i++) {
		struct nvml *n = NULL;
		struct err err = {0};
		FILE *f = fopen(scenario, "w");

		assert_non_null(f);
		fputs(scenarios[i], f);
		fclose(f);
		assert_int_equal(nvml_open(library, &n, &err), i == 0 ? ERR_REFUSED : 0);
		nvml_close(n);
		usleep(20000); /* the thread wakes up, where it is, in a library or in nothing */
	}
}

TEST(answers_that_fail)
{
	struct nvml *n = open_with(library, "gpus=2\ncall.nvmlDeviceGetCount_v2=999\n"
					    "call.nvmlSystemGetDriverVersion=999\n");
	nvml_device device;
	struct err err = {0};

	assert_int_equal(nvml_count(n), -1);
	assert_string_equal(nvml_driver_version(n), "");
	assert_int_equal(nvml_find(n, "0000:99:00.0", &device, &err), ERR_NOTFOUND);
	nvml_close(n);
}

/* The handle is still to be had; nothing else is. */
TEST(lost_gpu)
{
	struct nvml *n = open_with(library, "gpus=2\n0.lost=1\n");
	struct nvml_state s;
	nvml_device device;
	struct err err = {0};

	assert_int_equal(nvml_find(n, "0000:10:00.0", &device, &err), ERR_IO);
	assert_string_equal(err.msg, "NVML says of 0000:10:00.0: GPU is lost (15)");
	assert_null(device);
	assert_int_equal(nvml_find(n, "0000:11:00.0", &device, &err), 0);
	nvml_close(n);

	/* it goes while it is looked at */
	n = open_with(library, "lost=0,1\n");
	assert_int_equal(nvml_find(n, "0000:10:00.0", &device, &err), 0);
	nvml_look(n, device, &s);
	assert_int_equal(s.temperature_c, -1);
	assert_int_equal(s.ecc_uncorrected, -1);
	assert_int_equal(s.remap_failed, -1);
	assert_int_equal(s.processes, -1);
	assert_int_equal(s.recovery_action, -1);
	assert_false(s.throttle_known);
	assert_int_equal(s.throttle, 0);
	nvml_close(n);
}

TEST(values)
{
	struct nvml_state s;

	look(library,
		"throttle=0x44\necc_uncorrected=3\necc_corrected=70000000000\nremap_correctable=1\n"
		"remap_uncorrectable=2\nremap_pending=1\nremap_failed=1\nretire_pending=1\nmig=1\n"
		"compute_mode=3\npersistence=0\npcie_gen=1\npcie_width=8\npcie_replays=12\n"
		"utilization_percent=97\nprocesses=3\nrecovery_action=2\nmemory_free=1\n",
		&s);
	assert_int_equal(s.throttle, 0x44);
	assert_int_equal(s.throttle & NVML_THROTTLE_FAULTS, 0x40);
	assert_int_equal(s.throttle & NVML_THROTTLE_POWER_CAP, 4);
	assert_int_equal(s.ecc_uncorrected, 3);
	assert_int_equal(s.ecc_corrected, 70000000000);
	assert_int_equal(s.remap_correctable, 1);
	assert_int_equal(s.remap_uncorrectable, 2);
	assert_int_equal(s.remap_pending, 1);
	assert_int_equal(s.remap_failed, 1);
	assert_int_equal(s.retire_pending, 1);
	assert_int_equal(s.mig, 1);
	assert_int_equal(s.compute_mode, 3);
	assert_int_equal(s.persistence, 0);
	assert_int_equal(s.pcie_gen, 1);
	assert_int_equal(s.pcie_width, 8);
	assert_int_equal(s.pcie_replays, 12);
	assert_int_equal(s.utilization_percent, 97);
	assert_int_equal(s.processes, 3);
	assert_int_equal(s.recovery_action, 2);
	assert_int_equal(s.memory_free, 1);
}

/* Not supported, and all ones, which is how NVML says unknown: never a number, never a zero. */
TEST(values_that_are_none)
{
	struct nvml_state s;

	look(library,
		"throttle=n/a\necc_uncorrected=n/a\nremap_pending=n/a\nretire_pending=n/a\nmig=n/"
		"a\n"
		"pcie_gen=0xffffffff\npower_mw=0xffffffff\nutilization_percent=101\n"
		"memory_free=200000000000\nprocesses=0xffffffff\nrecovery_action=n/a\n"
		"ecc_corrected=-1\ncompute_mode=-1\n",
		&s);
	assert_false(s.throttle_known);
	assert_int_equal(s.ecc_uncorrected, -1);
	assert_int_equal(s.ecc_corrected, -1);
	assert_int_equal(s.remap_correctable, -1);
	assert_int_equal(s.remap_pending, -1);
	assert_int_equal(s.remap_failed, -1);
	assert_int_equal(s.retire_pending, -1);
	assert_int_equal(s.mig, -1);
	assert_int_equal(s.pcie_gen, -1);
	assert_int_equal(s.power_mw, -1);
	assert_int_equal(s.utilization_percent, -1);
	assert_int_equal(s.memory_total, -1);
	assert_int_equal(s.memory_free, -1);
	assert_int_equal(s.processes, -1);
	assert_int_equal(s.recovery_action, -1);
	assert_int_equal(s.compute_mode, -1);
	assert_int_equal(s.temperature_c, 41);
}

/* An NVML of before Ampere: the older names are taken, and what it lacks is unknown. */
TEST(older_library)
{
	struct nvml_state s;

	look(old_library, "driver=418.226.00\nthrottle=0x20\nprocesses=2\nremap_pending=1\nmig=1\n",
		&s);
	assert_true(s.throttle_known);
	assert_int_equal(s.throttle, 0x20);
	assert_int_equal(s.processes, 2);
	assert_int_equal(s.remap_pending, -1);
	assert_int_equal(s.remap_failed, -1);
	assert_int_equal(s.mig, -1);
	assert_int_equal(s.recovery_action, -1);
	assert_int_equal(s.retire_pending, 0);
}

/* The server of MPS is there without clients, too, which stand in a list of their own. */
TEST(clients_of_mps)
{
	char lines[256];
	struct nvml_state s;
	int ours = (int)getpid();

	snprintf(lines, sizeof(lines), "0.list=%d:72351744\n", ours);
	look(library, lines, &s);
	assert_int_equal(s.processes, 1);
	assert_int_equal(prctl(PR_SET_NAME, "nvidia-cuda-mps-server"), 0);
	look(library, lines, &s);
	assert_int_equal(s.processes, 0);
	assert_false(nvml_is_busy(&s));
	/* two clients, one of which stands in both lists; and a plain process */
	snprintf(lines, sizeof(lines),
		"0.list=%d:72351744,1:5,999999999:4096\n0.mps=1:5,999999998:n/a\n", ours);
	look(library, lines, &s);
	assert_int_equal(s.processes, 3);
	/* nobody tells of its clients */
	snprintf(lines, sizeof(lines),
		"0.list=%d:72351744\ncall.nvmlDeviceGetMPSComputeRunningProcesses_v3=999\n", ours);
	look(library, lines, &s);
	assert_int_equal(s.processes, 1);
	assert_int_equal(prctl(PR_SET_NAME, "test_probe_nvml"), 0);
}

TESTS_ALL(setup_all, NULL, setup, teardown, healthy, identifies, cannot_be_opened,
	threads_of_the_library_go_on, answers_that_fail, lost_gpu, values, values_that_are_none,
	older_library, clients_of_mps)

/* SPDX-License-Identifier: Apache-2.0 */
/* test: an NVML that says what the file GPUPROBE_FAKE_NVML tells it to; without one a server of one
 * healthy GPU. Lines of
 *   gpus=8                    how many; driver=580.159.04
 *   init=18                   what nvmlInit answers
 *   thread=1                  nvmlInit starts a thread of the library's own, which goes on whatever
 *                             nvmlInit answers
 *   call.nvmlDeviceGetUUID=3  what a call answers, whatever the GPU
 *   throttle=0x44             a value of every GPU; 3.throttle=0x44 of GPU 3
 *   0.ecc_corrected=0,5       the first look finds 0, each one after it 5
 *   2.lost=1                  GPU 2 has fallen off the bus
 *   remap_failed=n/a          not supported
 *   0.instances=2             MIG is on with so many instances: instance I (from 1 on) of GPU G is
 *                             MIG-00000000-0000-0000-0000-0000000000GI
 *   0.instance2.processes=1   what an instance has for itself: uuid, processes, memory_total,
 *                             memory_free
 *   0.list=71:4096,72:n/a     the processes of GPU 0 and what each has; 0.mps: clients of MPS;
 *                             0.folder=/run/x: behind those of the list, who is there by
 *                             fake_present.h. A file that was changed is read anew when they are
 *                             asked for
 * '#' begins a comment. Names of values: those of struct nvml_state, and uuid, pci (by default
 * those of the fake runtime's GPUs). Compiled with FAKE_NVML_OLD it lacks the calls that drivers
 * got after 2019. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_LINES 512
#define MAX_GPUS 16
#define MAX_INSTANCES 7
#define SUCCESS 0
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define GPU_IS_LOST 15

#define EXPORT __attribute__((visibility("default")))

static struct {
	char key[64], value[128];
	unsigned uses;
} lines[MAX_LINES];
static unsigned n_lines;
static struct stat loaded; /* the file that they are of */
static int gpus[MAX_GPUS]; /* their addresses are the handles */
static int instances[MAX_GPUS][MAX_INSTANCES];

static void load(void)
{
	const char *path = getenv("GPUPROBE_FAKE_NVML");
	FILE *f = path ? fopen(path, "r") : NULL;
	char line[256];

	n_lines = 0;
	if (f)
		(void)fstat(fileno(f), &loaded);
	while (f && n_lines < MAX_LINES && fgets(line, sizeof(line), f)) {
		char *equal = strchr(line, '=');

		line[strcspn(line, "#\r\n")] = '\0';
		if (!equal || line[0] == '\0')
			continue;
		*equal = '\0';
		snprintf(lines[n_lines].key, sizeof(lines[0].key), "%.63s", line);
		snprintf(lines[n_lines].value, sizeof(lines[0].value), "%.127s", equal + 1);
		lines[n_lines++].uses = 0;
	}
	if (f)
		fclose(f);
}

static int find(const char *key)
{
	for (unsigned i = 0; i < n_lines; i++)
		if (strcmp(lines[i].key, key) == 0)
			return (int)i;
	return -1;
}

static int find_of(int gpu, const char *key)
{
	char own[80];
	int i;

	snprintf(own, sizeof(own), "%d.%s", gpu, key);
	i = find(own);
	return i >= 0 ? i : find(key);
}

/* The value whose turn it is; false: not supported. */
static int number(int line, long long fallback, long long *ret)
{
	const char *at;

	*ret = fallback;
	if (line < 0)
		return 1;
	at = lines[line].value;
	for (unsigned n = lines[line].uses++; n > 0 && strchr(at, ','); n--)
		at = strchr(at, ',') + 1;
	if (strncmp(at, "n/a", 3) == 0)
		return 0;
	*ret = strtoll(at, NULL, 0);
	return 1;
}

static int answer(const char *call)
{
	char key[80];
	long long rc;

	snprintf(key, sizeof(key), "call.%s", call);
	number(find(key), SUCCESS, &rc);
	return (int)rc;
}

static int count(void)
{
	long long n;

	number(find("gpus"), 1, &n);
	return n < 0 ? 0 : n > MAX_GPUS ? MAX_GPUS : (int)n;
}

/* Of an instance, which one: from 1 on; 0: it is a whole GPU. */
static int instance_of(const void *device)
{
	const int *first = &instances[0][0], *at = device;

	return at >= first && at < first + MAX_GPUS * MAX_INSTANCES
		       ? (int)(at - first) % MAX_INSTANCES + 1
		       : 0;
}

static int index_of(const void *device)
{
	if (instance_of(device))
		return (int)((const int *)device - &instances[0][0]) / MAX_INSTANCES;
	return (int)((const int *)device - gpus);
}

/* The line of a value: an instance has its own. */
static int find_for(const void *device, const char *key)
{
	char own[80];
	int instance = instance_of(device);

	if (!instance)
		return find_of(index_of(device), key);
	snprintf(own, sizeof(own), "%d.instance%d.%s", index_of(device), instance, key);
	return find(own);
}

static int lost(int gpu)
{
	long long is;

	number(find_of(gpu, "lost"), 0, &is);
	return is != 0;
}

/* What nearly every call does: the call's own answer, a lost GPU, a value or none. */
static int value_of(
	const char *call, const void *device, const char *key, long long fallback, long long *ret)
{
	int rc = answer(call), gpu = index_of(device);

	if (rc != SUCCESS)
		return rc;
	if (gpu < 0 || gpu >= count())
		return INVALID_ARGUMENT;
	if (lost(gpu))
		return GPU_IS_LOST;
	if (instance_of(device) && strcmp(key, "processes") != 0 && strncmp(key, "memory_", 7) != 0)
		return NOT_SUPPORTED;
	return number(find_for(device, key), fallback, ret) ? SUCCESS : NOT_SUPPORTED;
}

#define SIMPLE(call, type, key, fallback)                                                          \
	EXPORT int call(void *device, type *ret);                                                  \
	EXPORT int call(void *device, type *ret)                                                   \
	{                                                                                          \
		long long value = 0;                                                               \
		int rc = value_of(#call, device, key, fallback, &value);                           \
		if (rc == SUCCESS)                                                                 \
			*ret = (type)value;                                                        \
		return rc;                                                                         \
	}

SIMPLE(nvmlDeviceGetPowerUsage, unsigned, "power_mw", 350000)
SIMPLE(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power_limit_mw", 700000)
SIMPLE(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, "power_default_mw", 700000)
SIMPLE(nvmlDeviceGetRetiredPagesPendingStatus, int, "retire_pending", 0)
SIMPLE(nvmlDeviceGetComputeMode, int, "compute_mode", 0)
SIMPLE(nvmlDeviceGetPersistenceMode, int, "persistence", 1)
SIMPLE(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, "pcie_gen", 5)
SIMPLE(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, "pcie_gen_max", 5)
SIMPLE(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "pcie_width", 16)
SIMPLE(nvmlDeviceGetMaxPcieLinkWidth, unsigned, "pcie_width_max", 16)
SIMPLE(nvmlDeviceGetPcieReplayCounter, unsigned, "pcie_replays", 0)
#ifdef FAKE_NVML_OLD
SIMPLE(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "throttle", 0)
#else
SIMPLE(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, "throttle", 0)
#endif

static _Noreturn void *keep_house(void *unused)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	(void)unused;
	for (;;)
		(void)nanosleep(&nap, NULL);
}

/* As some remote-GPU clients do. The thread's code goes where the library goes. */
static void start_thread(void)
{
	static pthread_t thread;
	long long wanted;

	number(find("thread"), 0, &wanted);
	if (wanted && pthread_create(&thread, NULL, keep_house, NULL) == 0)
		(void)pthread_detach(thread);
}

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void)
{
	long long rc;

	load();
	start_thread();
	number(find("init"), SUCCESS, &rc);
	return (int)rc;
}

EXPORT int nvmlShutdown(void);
EXPORT int nvmlShutdown(void)
{
	return SUCCESS;
}

EXPORT const char *nvmlErrorString(int rc);
EXPORT const char *nvmlErrorString(int rc)
{
	return rc == GPU_IS_LOST ? "GPU is lost"
	       : rc == 18        ? "Driver/library version mismatch"
				 : "Some error";
}

EXPORT int nvmlSystemGetDriverVersion(char *to, unsigned size);
EXPORT int nvmlSystemGetDriverVersion(char *to, unsigned size)
{
	int line = find("driver");

	snprintf(to, size, "%s", line >= 0 ? lines[line].value : "580.159.04");
	return answer("nvmlSystemGetDriverVersion");
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *ret);
EXPORT int nvmlDeviceGetCount_v2(unsigned *ret)
{
	*ret = (unsigned)count();
	return answer("nvmlDeviceGetCount_v2");
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **ret);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **ret)
{
	if (i >= (unsigned)count())
		return INVALID_ARGUMENT;
	*ret = &gpus[i];
	return answer("nvmlDeviceGetHandleByIndex_v2");
}

static void pci_of(int gpu, char *to, size_t size)
{
	int line = find_of(gpu, "pci");

	if (line >= 0)
		snprintf(to, size, "%s", lines[line].value);
	else
		snprintf(to, size, "%08X:%02X:00.0", 0, 0x10 + gpu);
}

/* As the real one: the domain may have four or eight digits. */
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **ret);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **ret)
{
	int rc = answer("nvmlDeviceGetHandleByPciBusId_v2");

	for (int i = 0; rc == SUCCESS && i < count(); i++) {
		char own[64], *a, *b;

		pci_of(i, own, sizeof(own));
		if (strtoul(own, &a, 16) == strtoul(id, &b, 16) &&
			strtoul(a + 1, &a, 16) == strtoul(b + 1, &b, 16) &&
			strtoul(a + 1, &a, 16) == strtoul(b + 1, &b, 16)) {
			*ret = &gpus[i];
			return SUCCESS;
		}
	}
	return rc == SUCCESS ? NOT_FOUND : rc;
}

EXPORT int nvmlDeviceGetUUID(void *device, char *to, unsigned size);
EXPORT int nvmlDeviceGetUUID(void *device, char *to, unsigned size)
{
	int line = find_for(device, "uuid");

	if (line >= 0)
		snprintf(to, size, "%s", lines[line].value);
	else if (instance_of(device))
		snprintf(to, size, "MIG-00000000-0000-0000-0000-0000000000%x%x",
			(unsigned)index_of(device) + 1, (unsigned)instance_of(device));
	else
		snprintf(to, size, "GPU-00000000-0000-0000-0000-%012x",
			(unsigned)index_of(device) + 1);
	return answer("nvmlDeviceGetUUID");
}

struct pci_info {
	char legacy_id[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char id[32];
};

EXPORT int nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *ret);
EXPORT int nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *ret)
{
	memset(ret, 0, sizeof(*ret));
	pci_of(index_of(device), ret->id, sizeof(ret->id));
	return answer("nvmlDeviceGetPciInfo_v3");
}

EXPORT int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *ret);
EXPORT int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *ret)
{
	long long value = 0;
	int rc = value_of("nvmlDeviceGetTemperature", device, "temperature_c", 41, &value);

	*ret = (unsigned)value;
	return sensor == 0 ? rc : INVALID_ARGUMENT;
}

EXPORT int nvmlDeviceGetTotalEccErrors(
	void *device, int type, int counter, unsigned long long *ret);
EXPORT int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *ret)
{
	long long value = 0;
	int rc = value_of("nvmlDeviceGetTotalEccErrors", device,
		type == 0 ? "ecc_corrected" : "ecc_uncorrected", 0, &value);

	*ret = (unsigned long long)value;
	return counter == 0 ? rc : INVALID_ARGUMENT;
}

EXPORT int nvmlDeviceGetUtilizationRates(void *device, unsigned ret[2]);
EXPORT int nvmlDeviceGetUtilizationRates(void *device, unsigned ret[2])
{
	long long value = 0;
	int rc =
		value_of("nvmlDeviceGetUtilizationRates", device, "utilization_percent", 0, &value);

	ret[0] = ret[1] = (unsigned)value;
	return rc;
}

EXPORT int nvmlDeviceGetMemoryInfo(void *device, unsigned long long ret[3]);
EXPORT int nvmlDeviceGetMemoryInfo(void *device, unsigned long long ret[3])
{
	long long total = 0, unused = 0;
	int rc = value_of("nvmlDeviceGetMemoryInfo", device, "memory_total", 150754820096, &total);

	number(find_for(device, "memory_free"), total, &unused);
	ret[0] = (unsigned long long)total;
	ret[1] = (unsigned long long)unused;
	ret[2] = ret[0] - ret[1];
	return rc;
}

static int processes(const char *call, void *device, unsigned *n)
{
	long long value = 0;
	unsigned room = *n;
	int rc = value_of(call, device, "processes", 0, &value);

	*n = (unsigned)value;
	return rc == SUCCESS && *n > room ? INSUFFICIENT_SIZE : rc;
}

#ifdef FAKE_NVML_OLD

EXPORT int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *n, void *infos);
EXPORT int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *n, void *infos)
{
	(void)infos;
	return processes("nvmlDeviceGetComputeRunningProcesses", device, n);
}

#else

struct process_info {
	unsigned pid;
	unsigned long long bytes;
	unsigned gpu_instance, compute_instance;
};

/* Turns that were taken stay so, unless the file is another one. */
static void load_changed(void)
{
	const char *path = getenv("GPUPROBE_FAKE_NVML");
	struct stat now;

	if (path && stat(path, &now) == 0 &&
		(now.st_ino != loaded.st_ino || now.st_size != loaded.st_size ||
			now.st_mtim.tv_sec != loaded.st_mtim.tv_sec ||
			now.st_mtim.tv_nsec != loaded.st_mtim.tv_nsec))
		load();
}

/* Who has a file there and lives. */
static void add_present(const char *folder, unsigned room, unsigned *n, struct process_info *to)
{
	DIR *all = opendir(folder);
	const struct dirent *e;

	while (all && (e = readdir(all)) != NULL) {
		char text[32] = "";
		int fd = e->d_name[0] == '.' ? -1
					     : openat(dirfd(all), e->d_name, O_RDONLY | O_CLOEXEC);

		/* Nobody's lock: it has ended. */
		if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 &&
			read(fd, text, sizeof(text) - 1) > 0) {
			if (*n < room)
				to[*n] = (struct process_info){
					(unsigned)strtoul(e->d_name, NULL, 10),
					strtoull(text, NULL, 10), 0, 0};
			++*n;
		}
		if (fd >= 0)
			close(fd);
	}
	if (all)
		closedir(all);
}

static int list(
	const char *call, void *device, const char *key, unsigned *n, struct process_info *to)
{
	unsigned room = *n;
	int rc, line;
	const char *at;

	load_changed();
	rc = answer(call);
	line = find_for(device, key);
	at = rc == SUCCESS && line >= 0 ? lines[line].value : "";
	for (*n = 0; *at; at += strcspn(at, ","), at += *at == ',') {
		char *end;
		unsigned pid = (unsigned)strtoul(at, &end, 10);

		if (*n < room)
			to[*n] = (struct process_info){pid,
				strncmp(end, ":n/a", 4) == 0 ? ~0ull : strtoull(end + 1, NULL, 10),
				0, 0};
		++*n;
	}
	line = rc == SUCCESS && strcmp(key, "list") == 0 ? find_for(device, "folder") : -1;
	if (line >= 0)
		add_present(lines[line].value, room, n, to);
	return rc == SUCCESS && *n > room ? INSUFFICIENT_SIZE : rc;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(
	void *device, unsigned *n, struct process_info *infos);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(
	void *device, unsigned *n, struct process_info *infos)
{
	static const char call[] = "nvmlDeviceGetComputeRunningProcesses_v3";

	if (!infos && find_for(device, "list") < 0 && find_for(device, "folder") < 0)
		return processes(call, device, n);
	if (!infos)
		*n = 0;
	return list(call, device, "list", n, infos);
}

EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(
	void *device, unsigned *n, struct process_info *infos);
EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(
	void *device, unsigned *n, struct process_info *infos)
{
	return list("nvmlDeviceGetMPSComputeRunningProcesses_v3", device, "mps", n, infos);
}

static int count_instances(int gpu)
{
	long long n;

	number(find_of(gpu, "instances"), 0, &n);
	return n < 0 ? 0 : n > MAX_INSTANCES ? MAX_INSTANCES : (int)n;
}

EXPORT int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending);
EXPORT int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending)
{
	long long value = 0;
	int rc = value_of("nvmlDeviceGetMigMode", device, "mig",
		count_instances(index_of(device)) > 0, &value);

	*now = *pending = (unsigned)value;
	return rc;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *ret);
EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *ret)
{
	*ret = count_instances(index_of(device)) > 0 ? MAX_INSTANCES : 0;
	return answer("nvmlDeviceGetMaxMigDeviceCount");
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned i, void **ret);
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned i, void **ret)
{
	if (i >= (unsigned)count_instances(index_of(device)))
		return NOT_FOUND;
	*ret = &instances[index_of(device)][i];
	return answer("nvmlDeviceGetMigDeviceHandleByIndex");
}

EXPORT int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected,
	unsigned *pending, unsigned *failed);
EXPORT int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected,
	unsigned *pending, unsigned *failed)
{
	static const char *const keys[] = {
		"remap_correctable", "remap_uncorrectable", "remap_pending", "remap_failed"};
	unsigned *const to[] = {corrected, uncorrected, pending, failed};

	for (int i = 0; i < 4; i++) {
		long long value = 0;
		int rc = value_of("nvmlDeviceGetRemappedRows", device, keys[i], 0, &value);

		if (rc != SUCCESS)
			return rc;
		*to[i] = (unsigned)value;
	}
	return SUCCESS;
}

struct field_value {
	unsigned id, scope;
	long long timestamp, latency_us;
	int type, status;
	unsigned long long value;
};

EXPORT int nvmlDeviceGetFieldValues(void *device, int n, struct field_value *fields);
EXPORT int nvmlDeviceGetFieldValues(void *device, int n, struct field_value *fields)
{
	long long value = 0;
	int rc = value_of("nvmlDeviceGetFieldValues", device, "recovery_action", 0, &value);

	for (int i = 0; i < n; i++) {
		fields[i].type = 1;
		fields[i].status = fields[i].id == 230 ? rc : NOT_SUPPORTED;
		fields[i].value = (unsigned long long)value;
	}
	return SUCCESS;
}

#endif

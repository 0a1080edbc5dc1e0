/* SPDX-License-Identifier: Apache-2.0 */
/* probe: NVML by name. Each call may be missing from an older one, and then what it would tell is unknown. */
#include "probe/nvml.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/host.h"

/* What NVML answers, of about thirty. */
enum {
	NVML_SUCCESS = 0,
	NVML_INVALID_ARGUMENT = 2,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_GPU_IS_LOST = 15,
	NVML_RESET_REQUIRED = 16
};

#define TEMPERATURE_OF_GPU 0
#define ECC_CORRECTED 0
#define ECC_UNCORRECTED 1
#define ECC_VOLATILE 0
#define FIELD_RECOVERY_ACTION 230

/* The structures that cannot be gone without; the same since NVML 10. */
struct pci_info {
	char legacy_id[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char id[32];
	char more[128]; /* should it ever grow */
};

struct utilization {
	unsigned gpu, memory;
};

struct memory {
	unsigned long long total, free, used;
};

struct field_value {
	unsigned id, scope;
	long long timestamp, latency_us;
	int type, status;
	union {
		double d;
		int i;
		unsigned u;
		unsigned long long ull;
	} value;
};

typedef int (*call_unsigned)(nvml_device, unsigned *);
typedef int (*call_enum)(nvml_device, int *);

struct nvml {
	void *library;
	char driver[80];
	int (*init)(void);
	int (*shutdown)(void);
	const char *(*error_string)(int);
	int (*driver_version)(char *, unsigned);
	int (*count)(unsigned *);
	int (*by_index)(unsigned, nvml_device *);
	int (*by_pci)(const char *, nvml_device *);
	int (*uuid)(nvml_device, char *, unsigned);
	int (*pci)(nvml_device, struct pci_info *);
	int (*temperature)(nvml_device, int, unsigned *);
	call_unsigned power, power_limit, power_default;
	int (*throttle)(nvml_device, unsigned long long *);
	int (*ecc)(nvml_device, int, int, unsigned long long *);
	int (*remapped)(nvml_device, unsigned *, unsigned *, unsigned *, unsigned *);
	call_enum retire_pending, compute_mode, persistence;
	int (*mig)(nvml_device, unsigned *, unsigned *);
	call_unsigned instances_max;
	int (*instance)(nvml_device, unsigned, nvml_device *);
	call_unsigned pcie_gen, pcie_gen_max, pcie_width, pcie_width_max, pcie_replays;
	int (*utilization)(nvml_device, struct utilization *);
	int (*processes)(nvml_device, unsigned *, void *);
	int (*memory)(nvml_device, struct memory *);
	int (*fields)(nvml_device, int, struct field_value *);
};

/* Where each call goes, and its names, the newest first. */
#define CALL(member, ...)                                                                          \
	{                                                                                          \
		offsetof(struct nvml, member),                                                     \
		{                                                                                  \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}
static const struct {
	size_t offset;
	const char *names[3];
} calls[] = {
	CALL(init, "nvmlInit_v2", "nvmlInit"),
	CALL(shutdown, "nvmlShutdown"),
	CALL(error_string, "nvmlErrorString"),
	CALL(driver_version, "nvmlSystemGetDriverVersion"),
	CALL(count, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"),
	CALL(by_index, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"),
	CALL(by_pci, "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetHandleByPciBusId"),
	CALL(uuid, "nvmlDeviceGetUUID"),
	CALL(pci, "nvmlDeviceGetPciInfo_v3"),
	CALL(temperature, "nvmlDeviceGetTemperature"),
	CALL(power, "nvmlDeviceGetPowerUsage"),
	CALL(power_limit, "nvmlDeviceGetEnforcedPowerLimit"),
	CALL(power_default, "nvmlDeviceGetPowerManagementDefaultLimit"),
	CALL(throttle, "nvmlDeviceGetCurrentClocksEventReasons",
		"nvmlDeviceGetCurrentClocksThrottleReasons"),
	CALL(ecc, "nvmlDeviceGetTotalEccErrors"),
	CALL(remapped, "nvmlDeviceGetRemappedRows"),
	CALL(retire_pending, "nvmlDeviceGetRetiredPagesPendingStatus"),
	CALL(compute_mode, "nvmlDeviceGetComputeMode"),
	CALL(persistence, "nvmlDeviceGetPersistenceMode"),
	CALL(mig, "nvmlDeviceGetMigMode"),
	CALL(instances_max, "nvmlDeviceGetMaxMigDeviceCount"),
	CALL(instance, "nvmlDeviceGetMigDeviceHandleByIndex"),
	CALL(pcie_gen, "nvmlDeviceGetCurrPcieLinkGeneration"),
	CALL(pcie_gen_max, "nvmlDeviceGetMaxPcieLinkGeneration"),
	CALL(pcie_width, "nvmlDeviceGetCurrPcieLinkWidth"),
	CALL(pcie_width_max, "nvmlDeviceGetMaxPcieLinkWidth"),
	CALL(pcie_replays, "nvmlDeviceGetPcieReplayCounter"),
	CALL(utilization, "nvmlDeviceGetUtilizationRates"),
	CALL(processes, "nvmlDeviceGetComputeRunningProcesses_v3",
		"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses"),
	CALL(memory, "nvmlDeviceGetMemoryInfo"),
	CALL(fields, "nvmlDeviceGetFieldValues"),
};

static void find_calls(struct nvml *n)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		void *found = NULL;

		for (size_t k = 0; k < 3 && !found && calls[i].names[k]; k++)
			found = dlsym(n->library, calls[i].names[k]);
		/* ISO C has no conversion from object to function pointers; POSIX promises that they look alike. */
		if (found)
			memcpy((char *)n + calls[i].offset, &found, sizeof(found));
	}
}

static const char *word(const struct nvml *n, int rc)
{
	const char *text = n->error_string ? n->error_string(rc) : NULL;

	return text ? text : "no word for it";
}

int nvml_open(const char *file, struct nvml **ret, struct err *err)
{
	struct nvml *n = calloc(1, sizeof(*n));
	int rc;

	*ret = NULL;
	if (!n)
		return err_set(err, ERR_NOMEM, "out of memory");
	n->library = dlopen(file ? file : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!n->library) {
		const char *why = dlerror();

		free(n);
		return err_set(err, ERR_NOTFOUND, "NVML is not there: %s", why ? why : "unknown");
	}
	find_calls(n);
	rc = n->init ? n->init() : -1;
	if (rc != NVML_SUCCESS) {
		if (n->init)
			err_set(err, ERR_REFUSED, "NVML does not start: %s (%d)", word(n, rc), rc);
		else
			err_set(err, ERR_REFUSED, "the library is there, but it is no NVML");
		(void)dlclose(n->library);
		free(n);
		return ERR_REFUSED;
	}
	if (!n->driver_version || n->driver_version(n->driver, sizeof(n->driver)) != NVML_SUCCESS)
		n->driver[0] = '\0';
	n->driver[sizeof(n->driver) - 1] = '\0';
	*ret = n;
	return 0;
}

void nvml_close(struct nvml *n)
{
	if (!n)
		return;
	if (n->shutdown)
		(void)n->shutdown();
	(void)dlclose(n->library);
	free(n);
}

const char *nvml_driver_version(struct nvml *n)
{
	return n->driver;
}

int nvml_count(struct nvml *n)
{
	unsigned count = 0;

	if (!n->count || n->count(&count) != NVML_SUCCESS || count > INT_MAX)
		return -1;
	return (int)count;
}

int nvml_find(struct nvml *n, const char *pci, nvml_device *ret, struct err *err)
{
	unsigned degrees;
	int rc;

	*ret = NULL;
	if (!n->by_pci)
		return err_set(err, ERR_NOTFOUND, "NVML cannot look for %s", pci);
	rc = n->by_pci(pci, ret);
	if (rc == NVML_NOT_FOUND || rc == NVML_INVALID_ARGUMENT)
		return err_set(err, ERR_NOTFOUND, "NVML does not know %s", pci);
	/* NVML hands out what it knew of a GPU that is gone by now: only a live value shows that */
	if (rc == NVML_SUCCESS && n->temperature &&
		n->temperature(*ret, TEMPERATURE_OF_GPU, &degrees) == NVML_GPU_IS_LOST)
		rc = NVML_GPU_IS_LOST;
	if (rc == NVML_SUCCESS)
		return 0;
	*ret = NULL;
	return err_set(err, ERR_IO, "NVML says of %s: %s (%d)", pci, word(n, rc), rc);
}

int nvml_identify(struct nvml *n, int i, char *uuid, size_t uuid_size, char *pci, size_t pci_size,
	struct err *err)
{
	struct pci_info info;
	nvml_device device = NULL;
	char id[PCI_ID_MAX];
	int rc;

	uuid[0] = pci[0] = '\0';
	if (i < 0 || !n->by_index || !n->pci)
		return err_set(err, ERR_NOTFOUND, "NVML cannot look for number %d", i);
	memset(&info, 0, sizeof(info));
	rc = n->by_index((unsigned)i, &device);
	if (rc == NVML_SUCCESS)
		rc = n->pci(device, &info);
	if (rc == NVML_NOT_FOUND || rc == NVML_INVALID_ARGUMENT)
		return err_set(err, ERR_NOTFOUND, "NVML does not know number %d", i);
	if (rc != NVML_SUCCESS)
		return err_set(err, ERR_IO, "NVML says of number %d: %s (%d)", i, word(n, rc), rc);
	info.id[sizeof(info.id) - 1] = '\0';
	if (!host_pci_id(info.id, id) || strlen(id) >= pci_size)
		return err_set(err, ERR_IO, "NVML names no PCI id of number %d", i);
	memcpy(pci, id, strlen(id) + 1);
	if (!n->uuid || n->uuid(device, uuid, (unsigned)uuid_size) != NVML_SUCCESS)
		uuid[0] = '\0';
	uuid[uuid_size - 1] = '\0';
	return 0;
}

/* ---- one look ----------------------------------------------------------------------------------------------------- */

/* NVML marks what it does not know by all ones, too. */
static int known(int rc, unsigned value)
{
	return rc == NVML_SUCCESS && value <= INT_MAX ? (int)value : -1;
}

static int read_unsigned(call_unsigned call, nvml_device device)
{
	unsigned value = 0;
	int rc = call ? call(device, &value) : -1;

	return known(rc, value);
}

static int read_enum(call_enum call, nvml_device device)
{
	int value = -1;

	return call && call(device, &value) == NVML_SUCCESS && value >= 0 ? value : -1;
}

static int64_t read_ecc(const struct nvml *n, nvml_device device, int kind)
{
	unsigned long long value = 0;

	if (!n->ecc || n->ecc(device, kind, ECC_VOLATILE, &value) != NVML_SUCCESS ||
		value > INT64_MAX)
		return -1;
	return (int64_t)value;
}

static void look_at_size(const struct nvml *n, nvml_device device, struct nvml_state *s)
{
	struct memory m = {0, 0, 0};

	s->memory_total = s->memory_free = -1;
	if (n->memory && n->memory(device, &m) == NVML_SUCCESS && m.total <= INT64_MAX &&
		m.free <= m.total) {
		s->memory_total = (int64_t)m.total;
		s->memory_free = (int64_t)m.free;
	}
}

static void look_at_memory(const struct nvml *n, nvml_device device, struct nvml_state *s)
{
	unsigned corrected, uncorrected, pending, failed;

	s->ecc_uncorrected = read_ecc(n, device, ECC_UNCORRECTED);
	s->ecc_corrected = read_ecc(n, device, ECC_CORRECTED);
	s->retire_pending = read_enum(n->retire_pending, device);
	if (n->remapped &&
		n->remapped(device, &corrected, &uncorrected, &pending, &failed) == NVML_SUCCESS) {
		s->remap_correctable = known(NVML_SUCCESS, corrected);
		s->remap_uncorrectable = known(NVML_SUCCESS, uncorrected);
		s->remap_pending = pending != 0;
		s->remap_failed = failed != 0;
	}
	look_at_size(n, device, s);
}

/* How many; it is asked without room for them. */
static int count_processes(const struct nvml *n, nvml_device device)
{
	unsigned count = 0;
	int rc = n->processes ? n->processes(device, &count, NULL) : -1;

	if (rc == NVML_INSUFFICIENT_SIZE)
		rc = NVML_SUCCESS;
	return known(rc, count);
}

static int read_recovery(const struct nvml *n, nvml_device device)
{
	struct field_value f;

	memset(&f, 0, sizeof(f));
	f.id = FIELD_RECOVERY_ACTION;
	if (!n->fields || n->fields(device, 1, &f) != NVML_SUCCESS || f.status != NVML_SUCCESS)
		return -1;
	/* a double is none of the types it could have; all others begin with the same bytes */
	return f.type == 0 ? -1 : known(NVML_SUCCESS, f.value.u);
}

/* Calls with other arguments than the device and one number. */
static void look_at_more(const struct nvml *n, nvml_device device, struct nvml_state *s)
{
	unsigned value = 0, pending = 0;
	unsigned long long mask = 0;
	struct utilization u = {0, 0};
	int rc;

	rc = n->temperature ? n->temperature(device, TEMPERATURE_OF_GPU, &value) : -1;
	s->temperature_c = known(rc, value);
	rc = n->throttle ? n->throttle(device, &mask) : -1;
	s->throttle_known = rc == NVML_SUCCESS;
	s->throttle = rc == NVML_SUCCESS ? mask : 0;
	rc = n->mig ? n->mig(device, &value, &pending) : -1;
	s->mig = known(rc, value);
	rc = n->utilization ? n->utilization(device, &u) : -1;
	s->utilization_percent = u.gpu <= 100 ? known(rc, u.gpu) : -1;
}

void nvml_look(struct nvml *n, nvml_device device, struct nvml_state *ret)
{
	memset(ret, 0xff, sizeof(*ret)); /* every number is -1 */
	look_at_more(n, device, ret);
	look_at_memory(n, device, ret);
	ret->power_mw = read_unsigned(n->power, device);
	ret->power_limit_mw = read_unsigned(n->power_limit, device);
	ret->power_default_mw = read_unsigned(n->power_default, device);
	ret->compute_mode = read_enum(n->compute_mode, device);
	ret->persistence = read_enum(n->persistence, device);
	ret->pcie_gen = read_unsigned(n->pcie_gen, device);
	ret->pcie_gen_max = read_unsigned(n->pcie_gen_max, device);
	ret->pcie_width = read_unsigned(n->pcie_width, device);
	ret->pcie_width_max = read_unsigned(n->pcie_width_max, device);
	ret->pcie_replays = read_unsigned(n->pcie_replays, device);
	ret->processes = count_processes(n, device);
	ret->recovery_action = read_recovery(n, device);
}

/* ---- MIG ---------------------------------------------------------------------------------------------------------- */

int nvml_instances_max(struct nvml *n, nvml_device device)
{
	int most = read_unsigned(n->instances_max, device);

	return most > 0 && n->instance && n->uuid ? most : 0;
}

int nvml_instance(struct nvml *n, nvml_device device, int i, nvml_device *ret, char *uuid,
	size_t uuid_size, struct err *err)
{
	int rc = n->instance(device, (unsigned)i, ret);

	uuid[0] = '\0';
	if (rc == NVML_NOT_FOUND || rc == NVML_INVALID_ARGUMENT)
		return err_set(err, ERR_NOTFOUND, "no instance of number %d", i);
	if (rc == NVML_SUCCESS)
		rc = n->uuid(*ret, uuid, (unsigned)uuid_size);
	if (rc != NVML_SUCCESS)
		return err_set(
			err, ERR_IO, "NVML says of instance %d: %s (%d)", i, word(n, rc), rc);
	uuid[uuid_size - 1] = '\0';
	if (strncmp(uuid, "MIG-", 4) != 0 || strncmp(uuid, "MIG-GPU-", 8) == 0)
		return err_set(err, ERR_NOTFOUND, "instance %d has no UUID of its own", i);
	return 0;
}

void nvml_look_instance(struct nvml *n, nvml_device instance, struct nvml_state *s)
{
	look_at_size(n, instance, s);
	s->processes = count_processes(n, instance);
	s->utilization_percent = -1;
}

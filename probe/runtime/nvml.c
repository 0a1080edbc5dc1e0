/* SPDX-License-Identifier: Apache-2.0 */
/* probe: NVML by name, each call of which may be missing from an older one, and then what it would
 * tell is unknown; the GPUs that it has, and their MIG instances. */
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "probe/runtime/host.h"
#include "probe/runtime/nvml_impl.h"

/* ---- the library ---- */

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
	CALL(processes_told, "nvmlDeviceGetComputeRunningProcesses_v3",
		"nvmlDeviceGetComputeRunningProcesses_v2"),
	CALL(mps_processes, "nvmlDeviceGetMPSComputeRunningProcesses_v3",
		"nvmlDeviceGetMPSComputeRunningProcesses_v2"),
	CALL(memory, "nvmlDeviceGetMemoryInfo"),
	CALL(fields, "nvmlDeviceGetFieldValues"),
};

static void find_calls(struct nvml *n)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		void *found = NULL;

		for (size_t k = 0; k < 3 && !found && calls[i].names[k]; k++)
			found = dlsym(n->library, calls[i].names[k]);
		/* ISO C has no conversion from object to function pointers; POSIX promises that
		 * they look alike. */
		if (found)
			memcpy((char *)n + calls[i].offset, &found, sizeof(found));
	}
}

const char *nvml_word(const struct nvml *n, int rc)
{
	const char *text = n->error_string ? n->error_string(rc) : NULL;

	return text ? text : "no word for it";
}

/* The library stays loaded until the process ends, whatever it answers: a remote-GPU client's may
 * have a thread of its own, which dlclose would leave without its code. */
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
			err_set(err, ERR_REFUSED, "NVML does not start: %s (%d)", nvml_word(n, rc),
				rc);
		else
			err_set(err, ERR_REFUSED, "the library is there, but it is no NVML");
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
	free(n);
}

const char *nvml_driver_version(struct nvml *n)
{
	return n->driver;
}

/* ---- all GPUs ---- */

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
	return err_set(err, ERR_IO, "NVML says of %s: %s (%d)", pci, nvml_word(n, rc), rc);
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
		return err_set(
			err, ERR_IO, "NVML says of number %d: %s (%d)", i, nvml_word(n, rc), rc);
	info.id[sizeof(info.id) - 1] = '\0';
	if (!host_pci_id(info.id, id) || strlen(id) >= pci_size)
		return err_set(err, ERR_IO, "NVML names no PCI id of number %d", i);
	memcpy(pci, id, strlen(id) + 1);
	if (!n->uuid || n->uuid(device, uuid, (unsigned)uuid_size) != NVML_SUCCESS)
		uuid[0] = '\0';
	uuid[uuid_size - 1] = '\0';
	return 0;
}

int nvml_instances_max(struct nvml *n, nvml_device device)
{
	int most = nvml_read(n->instances_max, device);

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
			err, ERR_IO, "NVML says of instance %d: %s (%d)", i, nvml_word(n, rc), rc);
	uuid[uuid_size - 1] = '\0';
	if (strncmp(uuid, "MIG-", 4) != 0 || strncmp(uuid, "MIG-GPU-", 8) == 0)
		return err_set(err, ERR_NOTFOUND, "instance %d has no UUID of its own", i);
	return 0;
}

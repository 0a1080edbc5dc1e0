/* SPDX-License-Identifier: Apache-2.0 */
/* probe: NVML, loaded when it is there and never needed: what CUDA does not show. Signatures and
 * numbers after NVIDIA's NVML API reference; scalar arguments only, so that no header of a version
 * is needed. */
#ifndef PROBE_RUNTIME_NVML_H
#define PROBE_RUNTIME_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct nvml; /* the library, loaded and initialised */
typedef void *nvml_device;

/* Bits of nvml_state.throttle that are a fault of the server (thermal, power brake, hardware
 * slowdown), and that only limit. */
#define NVML_THROTTLE_FAULTS 0xe8ull
#define NVML_THROTTLE_POWER_CAP 0x04ull

/* One look at one GPU. What this driver or GPU does not tell is -1 (or 0 bits with throttle_known
 * false). */
struct nvml_state {
	int temperature_c, power_mw;
	int power_limit_mw, power_default_mw; /* the one in force, and the board's own */
	bool throttle_known;
	uint64_t throttle;                      /* clocks event reasons, a mask */
	int64_t ecc_uncorrected, ecc_corrected; /* volatile, since the driver was loaded */
	int remap_correctable, remap_uncorrectable, remap_pending, remap_failed;
	int retire_pending;
	int mig, compute_mode, persistence;
	int pcie_gen, pcie_gen_max, pcie_width, pcie_width_max, pcie_replays;
	int utilization_percent;
	int processes; /* that compute there, clients of MPS among them; its server does not */
	int recovery_action; /* 0 none, 1 reset, 2 reboot, 3 drain */
	int64_t memory_total, memory_free;
};

/* Utilisation in percent above which a GPU counts as somebody else's just now. */
#define NVML_BUSY_PERCENT 10

/* It was in use a moment ago, and no process is there: what NVML calls utilization is that of the
 * last second. */
static inline bool nvml_was_busy(const struct nvml_state *s)
{
	return s->processes == 0 && s->utilization_percent > NVML_BUSY_PERCENT;
}

/* Does somebody compute on it? */
static inline bool nvml_is_busy(const struct nvml_state *s)
{
	return s->processes > 0 || s->utilization_percent > NVML_BUSY_PERCENT;
}

/* Load libnvidia-ml.so.1 (or `file`) and initialise it. ERR_NOTFOUND: none there; ERR_REFUSED: it
 * says why. */
int nvml_open(const char *file, struct nvml **ret, struct err *err);
void nvml_close(struct nvml *n);

/* "580.159.04"; "" when it does not say. Lives as long as n. */
const char *nvml_driver_version(struct nvml *n);

/* How many GPUs; -1: it does not say. */
int nvml_count(struct nvml *n);

/* The GPU at a PCI id as CUDA writes it. ERR_NOTFOUND: none; ERR_IO: the GPU is lost, err has
 * NVML's word. */
int nvml_find(struct nvml *n, const char *pci, nvml_device *ret, struct err *err);

/* UUID and PCI id of number i, for GPUs that CUDA does not see. Sizes are those of struct
 * gpu_report. */
int nvml_identify(struct nvml *n, int i, char *uuid, size_t uuid_size, char *pci, size_t pci_size,
	struct err *err);

/* How many MIG instances this GPU can have; 0: none, or it does not say. */
int nvml_instances_max(struct nvml *n, nvml_device device);

/* Its instance number i, from 0 on: a handle, and the UUID ("MIG-…") that CUDA_VISIBLE_DEVICES
 * takes. ERR_NOTFOUND: there is none of this number, or its driver (older than 470) has no such
 * UUID for it; ERR_IO: err has NVML's word. */
int nvml_instance(struct nvml *n, nvml_device device, int i, nvml_device *ret, char *uuid,
	size_t uuid_size, struct err *err);

/* What an instance has for itself (memory, processes), over a look at its GPU: all else is the
 * GPU's. Its utilization is not told. */
void nvml_look_instance(struct nvml *n, nvml_device instance, struct nvml_state *s);

/* A process that computes on a GPU. */
struct nvml_process {
	unsigned pid;   /* as the machine itself numbers them */
	uint64_t bytes; /* of the GPU's memory, with what its context takes; UINT64_MAX: it is not
			   told */
};

/* Those on this GPU or instance, clients of MPS among them; n is how many fit into ret.
 * ERR_NOTFOUND: this driver (older than 470) does not say; ERR_TOOBIG: there are more; ERR_IO: err
 * has NVML's word. */
int nvml_processes(struct nvml *n, nvml_device device, struct nvml_process *ret, size_t max,
	size_t *ret_n, struct err *err);

/* Never fails as a whole: what cannot be read is unknown. */
void nvml_look(struct nvml *n, nvml_device device, struct nvml_state *ret);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* probe: NVML's calls as they were found, and what they take; for nvml*.c alone. */
#ifndef PROBE_RUNTIME_NVML_IMPL_H
#define PROBE_RUNTIME_NVML_IMPL_H

#include "probe/runtime/nvml.h"

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

/* The same from the calls' second version on. */
struct process_info {
	unsigned pid;
	unsigned long long bytes; /* all ones: not told */
	unsigned gpu_instance, compute_instance;
};

typedef int (*call_processes)(nvml_device, unsigned *, struct process_info *);
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
	call_processes processes_told, mps_processes;
	int (*memory)(nvml_device, struct memory *);
	int (*fields)(nvml_device, int, struct field_value *);
};

/* NVML's own word for what it answered. */
const char *nvml_word(const struct nvml *n, int rc);

/* What a call (or NULL: none was found) says of a device; -1: it does not say, or all ones, by
 * which NVML marks what it does not know. */
int nvml_read(call_unsigned call, nvml_device device);

#endif

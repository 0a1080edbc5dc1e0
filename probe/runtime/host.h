/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what this machine's kernel says of its GPUs: PCI devices of class 03xx and vendor 10de,
 * their links, whether this is a virtual machine. Read below a root folder, "/" but in tests
 * (GPUPROBE_ROOT). */
#ifndef PROBE_RUNTIME_HOST_H
#define PROBE_RUNTIME_HOST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define PCI_ID_MAX 20

struct host_gpu {
	char pci[PCI_ID_MAX];            /* "0000:17:00.0", lower case */
	bool answers;                    /* its config space is not all ones */
	int numa_node;                   /* -1: none */
	int width, width_max;            /* lanes; -1 */
	double speed_gts, speed_gts_max; /* per lane; 0: unknown */
	double upstream_gts; /* least that a port on the way to the root can do; 0: unknown */
	int upstream_width;  /* the same; -1 */
};

/* A PCI id as CUDA ("0000:17:00.0"), NVML ("00000000:17:00.0"), XID lines ("0000:17:00") and people
 * write it, as sysfs does: lower case, the domain in four digits where that is enough. False, and
 * "": it is none. */
bool host_pci_id(const char *text, char ret[static PCI_ID_MAX]);

/* The NVIDIA GPUs, by PCI id, without their virtual functions. *ret is malloc'ed, the caller frees
 * it. No such folder in sysfs: none, 0. ERR_NOMEM, ERR_IO. */
int host_gpus(const char *root, struct host_gpu **ret, size_t *count, struct err *err);

/* Do both name one place on the bus? In any case, and whether the domain has four digits (CUDA,
 * sysfs) or eight (NVML). */
bool host_same_pci(const char *a, const char *b);

/* Is there a device with this id, of NVIDIA? What CUDA names and this machine lacks is a remote
 * GPU. */
bool host_has_pci(const char *root, const char *pci);

/* 1: a virtual machine (by DMI and the CPU's hypervisor flag), 0: none, -1: unknown. */
int host_is_vm(const char *root);

/* Bytes per second that a link can carry in one direction, after its encoding: speed (GT/s) times
 * width. 0: unknown. */
double host_link_rate(double speed_gts, int width);

#endif

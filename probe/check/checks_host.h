/* SPDX-License-Identifier: Apache-2.0 */
/* probe: checks that need no CUDA: of what NVML, sysfs and the environment say. Pure: facts in, a
 * result out. */
#ifndef PROBE_CHECK_CHECKS_HOST_H
#define PROBE_CHECK_CHECKS_HOST_H

#include <stdbool.h>

#include "probe/result/check.h"
#include "probe/result/report.h"
#include "probe/result/thresholds.h"
#include "probe/runtime/host.h"
#include "probe/runtime/nvml.h"

/* What NVML said while the GPU was under load. Zero it to begin. */
struct nvml_watch {
	unsigned samples;         /* with known throttle reasons */
	unsigned faults;          /* of them with a bit of NVML_THROTTLE_FAULTS */
	unsigned power;           /* of them with NVML_THROTTLE_POWER_CAP */
	uint64_t reasons;         /* all bits that were seen */
	int temperature_c;        /* highest; 0: unknown */
	int power_mw;             /* highest; 0: unknown */
	int pcie_gen, pcie_width; /* highest; 0: unknown */
	int processes;            /* most at once, with our own one; 0: unknown */
};

void nvml_watch_add(struct nvml_watch *w, const struct nvml_state *s);

struct host_facts {
	const struct gpu_report *gpu;
	bool local;           /* not remote */
	bool vm;              /* in a virtual machine sysfs shows the virtual slot */
	bool server_has_nvml; /* it could be opened */
	const struct nvml_state *before, *after; /* NULL: NVML did not tell of this GPU */
	const struct nvml_watch *watch;          /* NULL: nobody looked */
	const struct host_gpu *host;             /* NULL: sysfs has no such device */
	const struct host_gpu *all;              /* every GPU of the machine */
	size_t n_all;
	const char *const *environment; /* "NAME=value", NULL at the end: the user's */
	const char *kernel_log;         /* text of the kernel's log, or NULL: it cannot be read */
	const int *fatal_xids;          /* in place of the default list; NULL: that one */
	size_t n_fatal_xids;
};

/* Fill a result that check_begin() has begun, of CHECK_COMPUTE_MODE, CHECK_MIG, CHECK_VARIABLES,
 * CHECK_PERSISTENCE, CHECK_HOST_PCI, CHECK_HOST_XID and CHECK_NVML_*. What cannot be known is
 * skipped: "nvml_unavailable", "remote", "not_told". False: no such check; r is as it was. */
bool check_host(const struct host_facts *f, struct check_result *r);

/* A rate that was not what it should be, or of which nothing says what it should be, is skipped as
 * "busy" when somebody else computed on the GPU in this run: two that look at the same time share
 * it. */
void check_shared(const struct host_facts *f, struct check_result *r);

/* A rate of arithmetic that failed against what the clocks promise becomes a warning when the GPU
 * was held back by a power limit: NVML named the limit as the reason, or the limit is below the
 * board's own and was nearly reached. Only clocks: wrong results, no number, a reference or peers
 * that are missed stay what they are. */
void check_power_cap(const struct host_facts *f, struct check_result *r);

/* Judge a measured H2D or D2H rate against the link: the smaller one of card and upstream port,
 * under load where NVML knows it. Without a known link it stays as it is. In a virtual machine
 * sysfs shows the virtual slot, so only NVML counts there. */
void check_link(
	const struct host_facts *f, bool vm, const struct thresholds *t, struct check_result *r);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* probe: checks that need no CUDA: of what NVML, sysfs and the environment say. */
#include "probe/check/checks_host.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "probe/check/checks_nvml.h"
#include "probe/runtime/host_xid.h"

/* More than a link can carry was not measured on that link. */
#define BELIEVED 1.05

static void check_compute_mode(const struct host_facts *f, struct check_result *r)
{
	static const char *const names[] = {
		"default", "exclusive thread", "prohibited", "exclusive process"};
	int mode = f->gpu->compute_mode;

	if (mode < 0 && f->before)
		mode = f->before->compute_mode;
	if (mode < 0 || mode > 3)
		check_skip(r, "not_told");
	else if (mode == 0)
		check_pass(r);
	else if (mode == 2)
		check_fail(r, CODE_COMPUTE_MODE, "it is %s; expected is default", names[mode]);
	else
		check_warn(r, CODE_COMPUTE_MODE, "it is %s; expected is default", names[mode]);
}

static void check_mig(const struct host_facts *f, struct check_result *r)
{
	int mode = f->before ? f->before->mig : -1;

	/* an instance is a GPU of its own, and whole */
	if (f->gpu->mig >= 0)
		mode = 0;
	if (mode > 0)
		check_warn(r, CODE_MIG_MODE, "MIG is on");
	else if (mode == 0)
		check_pass(r);
	else if (f->local)
		check_skip(r, f->server_has_nvml ? "not_told" : "nvml_unavailable");
	else
		check_skip(r, "remote");
}

/* Is this "NAME=value" with this name, and a value that switches it on? */
static bool is_on(const char *entry, const char *name)
{
	size_t n = strlen(name);

	return strncmp(entry, name, n) == 0 && entry[n] == '=' && entry[n + 1] != '\0' &&
	       strcmp(entry + n + 1, "0") != 0;
}

static void check_variables(const struct host_facts *f, struct check_result *r)
{
	static const char *const names[] = {"CUDA_LAUNCH_BLOCKING",
		"CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP",
		"CUDA_ENABLE_USER_TRIGGERED_COREDUMP", "CUDA_DEVICE_WAITS_ON_EXCEPTION",
		"CUDA_INJECTION32_PATH", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH",
		"CUDA_FORCE_PTX_JIT", "CUDA_PROFILE", "COMPUTE_PROFILE", "CUDA_MEMCHECK"};
	char found[200] = "";
	size_t at = 0;

	if (!f->environment) {
		check_skip(r, "not_told");
		return;
	}
	for (const char *const *e = f->environment; *e; e++)
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (is_on(*e, names[i]) && at < sizeof(found))
				at += (size_t)snprintf(found + at, sizeof(found) - at, "%s%s",
					at > 0 ? ", " : "", names[i]);
	if (at > 0)
		check_warn(r, CODE_DEBUG_VARIABLES, "%s", found);
	else
		check_pass(r);
}

static void check_persistence(const struct host_facts *f, struct check_result *r)
{
	if (f->before->persistence < 0)
		check_skip(r, "not_told");
	else if (f->before->persistence == 0)
		check_warn(r, CODE_PERSISTENCE_OFF, "persistence mode is off");
	else
		check_pass(r);
}

static void check_pci(const struct host_facts *f, struct check_result *r)
{
	const struct host_gpu *h = f->host;
	int width;

	if (!h) {
		check_skip(r, "not_told");
		return;
	}
	width = h->upstream_width > 0 && h->upstream_width < h->width_max ? h->upstream_width
									  : h->width_max;
	/* Its speed falls when it is idle, its width does not. A virtual machine's slots say
	 * nothing. */
	if (!h->answers)
		check_fail(r, CODE_GPU_MISSING,
			"its configuration space is all ones: it has fallen off the bus");
	else if (!f->vm && h->width > 0 && h->width < width)
		check_warn(r, CODE_PCIE_DEGRADED, "the link has %d lanes; card and slot have %d",
			h->width, width);
	else
		check_pass(r);
}

static void check_xid(const struct host_facts *f, struct check_result *r)
{
	const char *at = f->kernel_log;
	char pci[PCI_ID_MAX], own[PCI_ID_MAX];
	int xid, fatal = 0, noted = 0;
	unsigned n_fatal = 0, n_noted = 0;

	if (!at || !host_pci_id(f->gpu->pci, own)) {
		check_skip(r, "not_told");
		return;
	}
	while (host_xid_next(&at, pci, &xid)) {
		enum xid_kind kind = host_xid_kind(xid, f->fatal_xids, f->n_fatal_xids);

		if (strcmp(pci, own) != 0 || kind == XID_IGNORED)
			continue;
		if (kind == XID_FATAL) {
			fatal = xid;
			n_fatal++;
		} else {
			noted = xid;
			n_noted++;
		}
	}
	if (n_fatal > 0)
		check_fail(r, CODE_XID,
			"fatal XIDs since the server was started: %u, the last was %d", n_fatal,
			fatal);
	else if (n_noted > 0)
		check_warn(r, CODE_XID, "XIDs since the server was started: %u, the last was %d",
			n_noted, noted);
	else
		check_pass(r);
}

static const struct {
	void (*check)(const struct host_facts *f, struct check_result *r);
	bool local, nvml; /* what it needs */
} checks[CHECK_COUNT] = {
	[CHECK_COMPUTE_MODE] = {check_compute_mode, false, false},
	[CHECK_MIG] = {check_mig, false, false},
	[CHECK_VARIABLES] = {check_variables, false, false},
	[CHECK_PERSISTENCE] = {check_persistence, true, true},
	[CHECK_HOST_PCI] = {check_pci, true, false},
	[CHECK_HOST_XID] = {check_xid, true, false},
	[CHECK_NVML_ECC] = {check_nvml_ecc, true, true},
	[CHECK_NVML_REMAP] = {check_nvml_remap, true, true},
	[CHECK_NVML_PCIE] = {check_nvml_pcie, true, true},
	[CHECK_NVML_PROCESSES] = {check_nvml_processes, true, true},
	[CHECK_NVML_THROTTLE] = {check_nvml_throttle, true, true},
};

bool check_host(const struct host_facts *f, struct check_result *r)
{
	if ((unsigned)r->id >= CHECK_COUNT || !checks[r->id].check)
		return false;
	if (checks[r->id].local && !f->local)
		check_skip(r, "remote");
	else if (checks[r->id].nvml && !f->server_has_nvml)
		check_skip(r, "nvml_unavailable");
	else if (checks[r->id].nvml && (!f->before || !f->after))
		check_skip(r, "not_told");
	else
		checks[r->id].check(f, r);
	return true;
}

/* Bytes per second of the link, 0: unknown. NVML saw it awake; sysfs alone knows what it could be.
 */
static double link_rate(const struct host_facts *f, bool vm)
{
	const struct host_gpu *h = f->host;
	double gts;
	int width;

	if (f->watch && f->watch->pcie_gen > 0 && f->watch->pcie_width > 0)
		return host_link_rate(pcie_speed(f->watch->pcie_gen), f->watch->pcie_width);
	if (!h || vm)
		return 0;
	gts = h->speed_gts_max;
	width = h->width_max;
	if (h->upstream_gts > 0 && h->upstream_gts < gts)
		gts = h->upstream_gts;
	if (h->upstream_width > 0 && h->upstream_width < width)
		width = h->upstream_width;
	return host_link_rate(gts, width);
}

void check_link(
	const struct host_facts *f, bool vm, const struct thresholds *t, struct check_result *r)
{
	double rate = f->local ? link_rate(f, vm) : 0;

	/* what others use at the same time is not the link's fault */
	if (f->before && nvml_is_busy(f->before))
		return;
	/* instances share the link */
	if (f->gpu->mig == 1 || r->status == STATUS_SKIP || r->status == STATUS_ERROR ||
		r->status == STATUS_FAIL || r->basis != BASIS_NONE || !isfinite(r->value) ||
		!(rate > 0) || r->value > rate * BELIEVED)
		return;
	r->expected = rate;
	r->basis = BASIS_LINK;
	r->warn_below = t->of[r->id].warn_below;
	r->fail_below = t->of[r->id].fail_below;
	check_judge_rate(r);
}

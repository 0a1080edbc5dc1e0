/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the table of checks, and how a result is set and judged. */
#include "probe/result/check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "probe/result/units.h"

/* list, verify, verify from a pod, stress, bench: R is required, o optional, x not run */
#define R NEED_REQUIRED
#define o NEED_OPTIONAL
#define x NEED_NOT_RUN
static const struct check_kind kinds[CHECK_COUNT] = {
	[CHECK_ENV_DRIVER] = {"env.driver", "driver", {R, R, R, R, R}},
	[CHECK_ENV_COUNT] = {"env.count", "counted by all", {R, R, R, R, R}},
	[CHECK_KERNEL_IMAGE] = {"cuda.kernel_image", "kernels for this GPU", {R, R, R, R, R}},
	[CHECK_COMPUTE_MODE] = {"env.compute_mode", "compute mode", {o, o, o, o, o}},
	[CHECK_MIG] = {"env.mig", "MIG mode", {o, o, o, o, o}},
	[CHECK_VARIABLES] = {"env.variables", "environment", {o, o, o, o, o}},
	[CHECK_PERSISTENCE] = {"env.persistence", "persistence mode", {o, o, x, o, o}},
	[CHECK_HOST_PCI] = {"host.pci", "PCI device", {x, o, x, o, x}},
	[CHECK_HOST_XID] = {"host.xid", "kernel log", {x, o, x, o, x}},
	[CHECK_NVML_ECC] = {"nvml.ecc", "ECC counters", {o, o, x, o, o}},
	[CHECK_NVML_REMAP] = {"nvml.remap", "memory repairs", {o, o, x, o, o}},
	[CHECK_NVML_PCIE] = {"nvml.pcie", "PCIe link", {x, o, x, o, o}},
	[CHECK_NVML_PROCESSES] = {"nvml.processes", "other processes", {o, o, x, o, o}},
	/* list creates a context only when it is asked to (--free) */
	[CHECK_FREE_MEMORY] = {"cap.free_memory", "free memory", {o, R, R, R, R}},
	[CHECK_REMOTE_RTT] = {"remote.rtt", "round trip", {x, x, o, x, x}},
	[CHECK_REMOTE_BANDWIDTH] = {"remote.bandwidth", "rate to the GPU", {x, x, o, x, x}},
	[CHECK_LAUNCH] = {"bench.launch", "a launch of many", {x, x, x, x, o}},
	[CHECK_LAUNCH_WAIT] = {"bench.launch_wait", "a launch and its end", {x, x, x, x, o}},
	[CHECK_H2D_4K] = {"bench.h2d_4k", "4 KiB to the GPU", {x, x, x, x, o}},
	[CHECK_D2H_4K] = {"bench.d2h_4k", "4 KiB to the host", {x, x, x, x, o}},
	[CHECK_H2D_1M] = {"bench.h2d_1m", "1 MiB to the GPU", {x, x, x, x, o}},
	[CHECK_D2H_1M] = {"bench.d2h_1m", "1 MiB to the host", {x, x, x, x, o}},
	[CHECK_H2D_32M] = {"bench.h2d_32m", "32 MiB to the GPU", {x, x, x, x, o}},
	[CHECK_D2H_32M] = {"bench.d2h_32m", "32 MiB to the host", {x, x, x, x, o}},
	[CHECK_EXACT_FP32] = {"compute.exact_fp32", "exact fp32", {x, R, R, R, x}},
	[CHECK_EXACT_FP64] = {"compute.exact_fp64", "exact fp64", {x, R, R, R, x}},
	[CHECK_EXACT_TENSOR] = {"compute.exact_tensor", "exact tensor", {x, R, R, R, x}},
	[CHECK_SHARED_MEMORY] = {"mem.shared", "shared memory", {x, o, o, o, x}},
	[CHECK_MEM_PATTERN] = {"mem.pattern", "memory pattern", {x, R, R, R, x}},
	[CHECK_MEM_READ] = {"bench.mem_read", "memory read", {x, R, o, o, R}},
	[CHECK_MEM_WRITE] = {"bench.mem_write", "memory write", {x, x, x, x, o}},
	[CHECK_MEM_COPY] = {"bench.mem_copy", "memory copy", {x, R, o, o, R}},
	[CHECK_H2D] = {"bench.h2d", "host to GPU", {x, o, o, x, R}},
	[CHECK_D2H] = {"bench.d2h", "GPU to host", {x, o, o, x, R}},
	[CHECK_P2P] = {"bench.p2p", "GPU to GPU", {x, x, x, x, o}},
	[CHECK_FP32_RATE] = {"bench.fp32", "fp32 rate", {x, x, x, o, R}},
	[CHECK_FP64_RATE] = {"bench.fp64", "fp64 rate", {x, x, x, o, o}},
	[CHECK_TENSOR_RATE] = {"bench.tensor", "tensor rate", {x, x, x, o, o}},
	[CHECK_NVML_THROTTLE] = {"nvml.throttle", "throttling", {x, o, x, o, o}},
};
#undef R
#undef o
#undef x

const struct check_kind *check_kind(enum check_id id)
{
	return &kinds[(unsigned)id < CHECK_COUNT ? id : 0];
}

bool check_by_name(const char *name, enum check_id *ret)
{
	for (unsigned i = 0; i < CHECK_COUNT; i++) {
		if (strcmp(kinds[i].id, name) == 0) {
			*ret = (enum check_id)i;
			return true;
		}
	}
	return false;
}

const char *check_status_name(enum check_status status)
{
	static const char *const names[] = {"skip", "pass", "warn", "fail", "error"};

	return names[(unsigned)status <= STATUS_ERROR ? status : STATUS_ERROR];
}

const char *check_basis_name(enum check_basis basis)
{
	static const char *const names[] = {"none", "clock", "peers", "reference", "link"};

	return names[(unsigned)basis <= BASIS_LINK ? basis : BASIS_NONE];
}

void check_begin(struct check_result *ret, enum check_id id)
{
	memset(ret, 0, sizeof(*ret));
	ret->id = id;
	ret->duration_s = ret->value = ret->expected = ret->ratio = NAN;
	ret->warn_below = ret->fail_below = ret->fail_above = NAN;
	ret->bytes_tested = ret->errors = -1;
	ret->coverage_percent = ret->beyond_l2 = -1;
	ret->bits_0_to_1 = ret->bits_1_to_0 = ret->pages = -1;
	ret->sms_visited = ret->sms_total = -1;
	check_skip(ret, "not_run");
}

/* One place decides what belongs to a status, so that nothing of an earlier one is left. */
static void set(struct check_result *r, enum check_status status, enum probe_code code)
{
	r->status = status;
	r->code = code;
	r->reason[0] = '\0';
	r->message[0] = '\0';
}

void check_pass(struct check_result *r)
{
	set(r, STATUS_PASS, CODE_NONE);
}

void check_skip(struct check_result *r, const char *reason)
{
	set(r, STATUS_SKIP, CODE_NONE);
	snprintf(r->reason, sizeof(r->reason), "%s", reason);
}

#define SET_WITH_MESSAGE(status)                                                                   \
	do {                                                                                       \
		va_list args;                                                                      \
		set(r, (status), code);                                                            \
		va_start(args, fmt);                                                               \
		vsnprintf(r->message, sizeof(r->message), fmt, args);                              \
		va_end(args);                                                                      \
	} while (0)

void check_warn(struct check_result *r, enum probe_code code, const char *fmt, ...)
{
	SET_WITH_MESSAGE(STATUS_WARN);
}

void check_fail(struct check_result *r, enum probe_code code, const char *fmt, ...)
{
	SET_WITH_MESSAGE(STATUS_FAIL);
}

void check_error(struct check_result *r, enum probe_code code, const char *fmt, ...)
{
	SET_WITH_MESSAGE(STATUS_ERROR);
}

static bool is_rate(enum check_id id)
{
	return (id >= CHECK_MEM_READ && id <= CHECK_TENSOR_RATE) ||
	       (id >= CHECK_REMOTE_RTT && id <= CHECK_D2H_32M);
}

const char *check_doubt(const struct check_result *r)
{
	if (r->status != STATUS_PASS)
		return NULL;
	if (r->code != CODE_NONE || r->cuda_error != 0)
		return "it names an error";
	if (r->errors > 0 || r->n_memory > 0 || r->n_compute > 0 || r->bits_0_to_1 > 0 ||
		r->bits_1_to_0 > 0)
		return "it counted errors";
	if (r->id == CHECK_MEM_PATTERN && (r->bytes_tested <= 0 || r->errors != 0))
		return "it tested no memory";
	/* not a comparison that NAN passes */
	if (is_rate(r->id) && !(isfinite(r->value) && r->value > 0))
		return "it measured nothing";
	if (r->value > r->fail_above)
		return "it is faster than its clocks allow";
	return NULL;
}

/* "memory read: 2.11 TB/s, 43 % of 4.92 TB/s expected (clock)" */
static void describe(const struct check_result *r, char *to, size_t size)
{
	char value[UNITS_MAX], expected[UNITS_MAX];

	units_write(r->value, r->unit, value);
	units_write(r->expected, r->unit, expected);
	snprintf(to, size, "%s: %s, %.0f %% of the %s expected by %s", check_kind(r->id)->title,
		value, r->ratio * 100, expected, check_basis_name(r->basis));
}

static void fail_above(struct check_result *r)
{
	char value[UNITS_MAX], most[UNITS_MAX];

	units_write(r->value, r->unit, value);
	units_write(r->fail_above, r->unit, most);
	check_fail(r, CODE_TOO_FAST, "%s: %s, and its clocks and widths allow at most %s",
		check_kind(r->id)->title, value, most);
}

void check_judge_rate(struct check_result *r)
{
	enum probe_code code = r->basis == BASIS_PEERS ? CODE_SLOWER_THAN_PEERS : CODE_SLOW;
	char found[160];

	r->ratio = NAN;
	if (!isfinite(r->value)) {
		check_fail(r, CODE_NOT_A_NUMBER, "%s: the measurement is not a number",
			check_kind(r->id)->title);
		return;
	}
	if (r->value <= 0) {
		check_fail(r, CODE_SLOW, "%s: nothing was measured", check_kind(r->id)->title);
		return;
	}
	if (r->value > r->fail_above) {
		fail_above(r);
		return;
	}
	check_pass(r);
	if (!isfinite(r->expected) || r->expected <= 0) {
		r->expected = NAN;
		return;
	}
	r->ratio = r->value / r->expected;
	describe(r, found, sizeof(found));
	if (r->ratio < r->fail_below)
		check_fail(r, code, "%s; below %.0f %% is a failure", found, r->fail_below * 100);
	else if (r->ratio < r->warn_below)
		check_warn(r, code, "%s; healthy are %.0f %% and more", found, r->warn_below * 100);
}

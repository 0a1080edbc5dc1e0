/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the report of one run, its verdict, and its forms: JSON (gpuprobe.report/1, schema in
 * docs/), a table for people, and one line for monitoring. */
#ifndef PROBE_RESULT_REPORT_H
#define PROBE_RESULT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "probe/result/check.h"

#define REPORT_SCHEMA "gpuprobe.report/1"
/* More GPUs than any server holds, MIG instances included. */
#define REPORT_GPUS_MAX 128
#define REPORT_ARCHS_MAX 192

enum gpu_health { HEALTH_UNKNOWN, HEALTH_OK, HEALTH_WARN, HEALTH_FAIL };

/* What a GPU's first process ended with, when a fresh one was started for it (retry.h). */
struct first_try {
	bool was;
	enum check_id check; /* which failed */
	enum probe_code code;
	int cuda_error;
	char message[160];
};

/* One GPU, or MIG instance. A number that is not known is -1, a text "". */
struct gpu_report {
	int index; /* CUDA's, in PCI order; of a GPU that only PCI or NVML knows: the next one */
	char uuid[48], name[96], pci[20];
	char parent[48]; /* of an instance: its GPU's UUID, told in the inventory alone */
	int cc_major, cc_minor, sm_count;
	int ecc, mig; /* 0, 1, -1 */
	int compute_mode;
	int64_t memory_total_bytes, memory_free_bytes, l2_bytes;
	int clock_max_mhz, memory_clock_max_mhz, memory_bus_bits;
	bool remote;  /* its PCI id is none of this machine's */
	bool by_uuid; /* CUDA shows it only to a process whose CUDA_VISIBLE_DEVICES names its UUID
		       */
	bool fit;
	enum gpu_health health;
	double utilization_percent; /* NVML; NAN */
	int processes;              /* NVML; -1 */
	struct first_try first_try; /* no part of the report: its checks tell of it */
	struct check_result
		*checks[CHECK_COUNT]; /* NULL: not run in this profile; owned by the report */
};

/* Something wrong that is no check's result: of one GPU, or of the server (gpu -1). */
struct report_error {
	int gpu;
	enum probe_code code;
	int cuda_error;
	char message[320];
};

/* What copies from one GPU to another gave: a struct check_result without what links do not have.
 */
struct link_report {
	int from, to; /* GPUs' indices */
	enum check_status status;
	enum probe_code code;
	int cuda_error;
	char reason[32], message[200];
	double value, duration_s; /* B/s; NAN */
	int64_t errors;           /* wrong cells; -1: not counted */
};

/* What the exit status says. */
enum probe_exit {
	EXIT_FIT = 0,
	EXIT_UNFIT = 1,
	EXIT_USAGE = 2,
	EXIT_NO_CUDA = 3,
	EXIT_INCONCLUSIVE = 4
};

struct report {
	const char *command; /* "verify"; a literal */
	enum probe_profile profile;
	bool complete, strict;
	bool require_nvml;  /* in PROFILE_VERIFY the nvml.* checks are required */
	int64_t started_at; /* seconds since 1970 */
	double duration_s;
	uint64_t seed;
	char host[64];
	int vm; /* 1, 0, -1 */
	bool remote;
	char link[16];                /* of struct rt */
	char archs[REPORT_ARCHS_MAX]; /* "sm_75 sm_90 compute_120": the kernels' architectures */
	int cudart, driver_cuda;      /* 12090; 0: none */
	char driver_version[32];      /* NVML's "580.159.04", or "" */
	bool nvml;
	int expected, pci, nvml_count, cuda; /* counts of GPUs; -1: unknown */
	struct gpu_report *gpus;
	size_t n_gpus;
	struct link_report *links;
	size_t n_links;
	struct report_error *errors;
	size_t n_errors;
	enum probe_exit exit; /* set by report_judge */
};

/* An empty report: nothing known, complete false. */
void report_init(struct report *r);
void report_release(struct report *r);

/* Is this the UUID of a MIG instance? */
static inline bool report_is_instance(const char *uuid)
{
	return strncmp(uuid, "MIG-", 4) == 0;
}

/* A GPU of which nothing is known; owns nothing. */
void report_gpu_init(struct gpu_report *gpu);

/* A new GPU at the end, all unknown; NULL: no memory or REPORT_GPUS_MAX reached. It moves when
 * another one is added. */
struct gpu_report *report_add_gpu(struct report *r);

/* Keep a copy of a result with its GPU, in place of an earlier one of the same check. False: no
 * memory. */
bool report_set_check(struct gpu_report *gpu, const struct check_result *result);

/* Note what is wrong; message in printf style. False: no memory. */
bool report_add_error(struct report *r, int gpu, enum probe_code code, int cuda_error,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Decide fit and health of every GPU, and the exit status, by the profile: a GPU is fit when every
 * required check ran and none failed (nor warned, when strict). Missing required results are added
 * as errors, so that nothing is left out unseen. */
void report_judge(struct report *r);

/* What is worst about a GPU: of its errors, else of its failed checks, else of those that could not
 * run, else of its warnings. CODE_NONE: nothing. */
enum probe_code report_problem(const struct report *r, const struct gpu_report *gpu);

/* Where that is CODE_CUDA_ERROR: the call that failed and its number, "cudaMalloc: 999 ", as the
 * first bytes of a text of the report; how many, 0: none is named. */
size_t report_failed_call(const struct report *r, const struct gpu_report *gpu, const char **ret);

/* "ok", "warn", "fail", "unknown"; "pass", "fail", "no_cuda", "inconclusive", "usage"; never NULL.
 */
const char *report_health_name(enum gpu_health health);
const char *report_verdict_name(enum probe_exit status);

/* JSON, one line with a newline. ERR_NOMEM. */
int report_json(const struct report *r, struct buf *out, struct err *err);

/* One check's result as JSON, and read again: so does a worker tell its parent. check_read gives
 * ERR_INVALID with a path for what is missing or not what it should be, ERR_NOMEM, and never a pass
 * for what it cannot read. err is not NULL. */
void check_json(const struct check_result *c, struct buf *out);
int check_read(const struct json *j, const struct json_node *at, struct check_result *ret,
	struct err *err);

/* The table, the failed checks with their hints, and the verdict. width: columns of the terminal.
 */
void report_text(const struct report *r, unsigned width, struct buf *out);

/* One line "GPUPROBE OK - 8 of 8 GPUs fit | …" and Nagios' status: 0 OK, 1 warning, 2 critical, 3
 * unknown. */
int report_nagios(const struct report *r, struct buf *out);

#endif

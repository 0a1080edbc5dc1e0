/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what is checked, when it must have run, and what came of it. A check that did not run is
 * never a pass. */
#ifndef PROBE_RESULT_CHECK_H
#define PROBE_RESULT_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/result/codes.h"

/* In the order in which they are told, and run but for CHECK_MEM_PATTERN: cheap ones first. */
enum check_id {
	CHECK_ENV_DRIVER,
	CHECK_ENV_COUNT,
	CHECK_KERNEL_IMAGE,
	CHECK_COMPUTE_MODE,
	CHECK_MIG,
	CHECK_VARIABLES,
	CHECK_PERSISTENCE,
	CHECK_HOST_PCI,
	CHECK_HOST_XID,
	CHECK_NVML_ECC,
	CHECK_NVML_REMAP,
	CHECK_NVML_PCIE,
	CHECK_NVML_PROCESSES,
	CHECK_FREE_MEMORY,
	CHECK_REMOTE_RTT,
	CHECK_REMOTE_BANDWIDTH,
	CHECK_LAUNCH,
	CHECK_LAUNCH_WAIT,
	CHECK_H2D_4K,
	CHECK_D2H_4K,
	CHECK_H2D_1M,
	CHECK_D2H_1M,
	CHECK_H2D_32M,
	CHECK_D2H_32M,
	CHECK_EXACT_FP32,
	CHECK_EXACT_FP64,
	CHECK_EXACT_TENSOR,
	CHECK_SHARED_MEMORY,
	CHECK_MEM_PATTERN,
	CHECK_MEM_READ,
	CHECK_MEM_WRITE,
	CHECK_MEM_COPY,
	CHECK_H2D,
	CHECK_D2H,
	CHECK_P2P,
	CHECK_FP32_RATE,
	CHECK_FP64_RATE,
	CHECK_TENSOR_RATE,
	CHECK_NVML_THROTTLE,
	CHECK_COUNT
};

enum probe_profile {
	PROFILE_LIST,
	PROFILE_VERIFY,
	PROFILE_VERIFY_REMOTE,
	PROFILE_STRESS,
	PROFILE_BENCH,
	PROFILE_COUNT
};

/* Required: if it cannot run, the GPU is not fit and the verdict is inconclusive. Optional: a skip
 * is allowed, and shown. */
enum check_need { NEED_NOT_RUN, NEED_OPTIONAL, NEED_REQUIRED };

enum check_status {
	STATUS_SKIP,
	STATUS_PASS,
	STATUS_WARN,
	STATUS_FAIL,
	STATUS_ERROR /* it could not run */
};

/* Where an expectation comes from. */
enum check_basis { BASIS_NONE, BASIS_CLOCK, BASIS_PEERS, BASIS_REFERENCE, BASIS_LINK };

/* One wrong 16-byte cell of memory. */
struct memory_error {
	uint64_t offset;                        /* bytes from the beginning of what was tested */
	uint64_t expected[2], got[2], again[2]; /* again: read once more: equal to `got` when
						   memory, or its cache, holds it so */
};

/* A chain of exact arithmetic that came out wrong. */
struct compute_error {
	uint32_t sm, lane; /* where it ran, the first time that it was wrong: the grid's thread, or
			      warp */
	uint32_t repeats;  /* of how many runs it was wrong in */
	uint64_t expected, got;
};

#define CHECK_RECORDS_MAX 16

/* Plain data, copied by value. A number that is unknown is NAN or -1, and null in JSON. */
struct check_result {
	enum check_id id;
	enum check_status status;
	enum probe_code code; /* of warn, fail and error */
	char reason[32];      /* of skip: "nvml_unavailable", "remote", "busy", "not_on_this_gpu" */
	char message[320];    /* of warn, fail and error: a sentence with what was found and what is
				 accepted */
	double duration_s;
	int cuda_error; /* the runtime's number, or 0 */
	/* rates: */
	double value, expected, ratio, warn_below, fail_below; /* NAN when there is none */
	double fail_above; /* in units of value; NAN: nothing bounds it */
	const char *unit;  /* "B/s", "FLOP/s", "s", "B"; a literal, or NULL */
	enum check_basis basis;
	/* mem.pattern: */
	int64_t bytes_tested, errors; /* -1 when it did not count */
	int coverage_percent;         /* of all the GPU's memory; -1 */
	int beyond_l2; /* 1: twice what L2 holds or more, so memory itself was read; 0; -1 */
	int64_t bits_0_to_1, bits_1_to_0, pages; /* distinct pages of 64 KiB; -1 */
	struct memory_error memory[CHECK_RECORDS_MAX];
	unsigned n_memory;
	/* compute.exact: */
	int sms_visited, sms_total; /* -1 */
	struct compute_error compute[CHECK_RECORDS_MAX];
	unsigned n_compute;
};

struct check_kind {
	const char *id;    /* "mem.pattern": part of the report's format */
	const char *title; /* for people: "memory pattern" */
	enum check_need need[PROFILE_COUNT];
};

/* Never NULL for an id below CHECK_COUNT. */
const struct check_kind *check_kind(enum check_id id);

/* The check of this name; false when there is none. */
bool check_by_name(const char *name, enum check_id *ret);

/* "pass"; "clock"; never NULL. */
const char *check_status_name(enum check_status status);
const char *check_basis_name(enum check_basis basis);

/* A result that says nothing yet: status skip, reason "not_run", every number unknown. */
void check_begin(struct check_result *ret, enum check_id id);

/* Set what came of it; message in printf style, cut at its size. reason: a literal of at most 31
 * bytes. */
void check_pass(struct check_result *r);
void check_skip(struct check_result *r, const char *reason);
void check_warn(struct check_result *r, enum probe_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void check_fail(struct check_result *r, enum probe_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void check_error(struct check_result *r, enum probe_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Why a result that says pass is none: errors that were counted, nothing tested, a rate that is no
 * number. NULL: it can be believed, or does not say pass. */
const char *check_doubt(const struct check_result *r);

/* Judge value by fail_above (CODE_TOO_FAST), and value / expected by warn_below and fail_below: a
 * value that is not a number fails (CODE_NOT_A_NUMBER), without an expectation it passes as
 * information. Nothing (0 or less) fails in any case. */
void check_judge_rate(struct check_result *r);

#endif

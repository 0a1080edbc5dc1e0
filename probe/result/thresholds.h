/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what a healthy GPU reaches: from its own clocks, from its peers, or from a reference file,
 * and how far below it is a warning or a failure. */
#ifndef PROBE_RESULT_THRESHOLDS_H
#define PROBE_RESULT_THRESHOLDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "probe/result/report.h"

/* Shares of the expectation, 0 … 1; NAN: none. */
struct threshold {
	double warn_below, fail_below;
};

#define FATAL_XIDS_MAX 64
/* The kernel's log has them with as many digits. */
#define XID_MAX 99999

/* Measured on a server known to be good, by name and memory size. */
struct reference {
	char name[96];
	int64_t memory_total_bytes;
	double rate[CHECK_COUNT]; /* NAN: none */
};

struct thresholds {
	struct threshold of[CHECK_COUNT];
	bool given[CHECK_COUNT]; /* by the file: then a reference is held to them too, and not to
				    `peers` */
	struct threshold peers;  /* 0.95, 0.85 */
	struct arena arena;      /* of references */
	struct reference *references;
	size_t n_references;
	bool fatal_xids_given; /* in place of the default list; it may be empty */
	int fatal_xids[FATAL_XIDS_MAX];
	size_t n_fatal_xids;
};

/* The defaults. Owns nothing yet. */
void thresholds_init(struct thresholds *t);
void thresholds_release(struct thresholds *t);

/* Read a file over the defaults:
 *   {"schema": "gpuprobe.thresholds/1",
 *    "checks": {"bench.mem_read": {"warn_below": 0.8, "fail_below": 0.7}},
 *    "references": [{"name": "…", "memory_total_bytes": …, "rates": {"bench.mem_read": 4.4e12}}],
 *    "fatal_xids": [48, 79]}
 * Unknown members and checks, shares that are not in 0 … 1, warn below fail: ERR_INVALID, the
 * message with the path. ERR_NOTFOUND, ERR_IO, ERR_SYNTAX, ERR_TOOBIG, ERR_NOMEM. */
int thresholds_read(struct thresholds *t, const char *file, struct err *err);

/* A report's rates as such a file, to be saved on a good server. */
void thresholds_write(const struct report *r, struct buf *out);

/* Is it a rate of the GPU alone, which another GPU of its model reaches too? */
bool thresholds_is_rate(enum check_id id);

/* Set a rate's expectation, shares, basis and upper bound: a reference for this GPU, else what its
 * clocks say; nothing when an attribute is missing or odd. Without known shares there is an upper
 * bound alone. */
void thresholds_expect(
	const struct thresholds *t, const struct gpu_report *gpu, struct check_result *r);

/* Memory's peak in bytes per second: 2 × memory clock × bus width ÷ 8; fp32's in operations:
 * multiprocessors × lanes × 2 × clock. NAN: unknown. */
double expect_memory_rate(const struct gpu_report *gpu);
double expect_fp32_rate(const struct gpu_report *gpu);

/* The most that this rate can be, by the GPU's clocks and widths, whatever else is known of it:
 * more was not measured, but made up. NAN: unknown. */
double thresholds_most(const struct gpu_report *gpu, enum check_id id);

/* Compare GPUs of one model with the best of them, when they have no other expectation: slower than
 * `peers` allows is a warning or failure. */
void thresholds_peers(const struct thresholds *t, struct report *r);

#endif

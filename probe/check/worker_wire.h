/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the lines from a worker to its parent. One JSON object with one member each:
 *   {"runtime": {"driver": 12090, "runtime": 12090, "link": "static",
 *                "archs": "sm_75 sm_90", "devices": 8}}
 *   {"gpu": {"index": 0, …}}          all that is known of a GPU; a later line replaces it
 *   {"within": {"phase": "mem.pattern", "s": 20}}
 *                                     the next line comes within so many seconds, or the worker
 *                                     hangs
 *   {"check": {…}}                    a result, as in the report
 *   {"progress": {"done": 0.4, "text": "…"}}
 *   {"error": {"gpu": 0, "code": "NO_DEVICE", "cuda": 100, "message": "…"}}
 *   {"nvml": {"driver": "580.159.04", "devices": 8}}
 *   {"state": {"uuid": "GPU-…", "pci": "0000:17:00.0", …}}
 *                                     what NVML knows of one GPU now; behind it its MIG instances
 *   {"link": {"reverse": false, "from": "GPU-…", "to": "GPU-…", "check": {…}}}
 *                                     what copies from one GPU to another gave
 *   {"done": true}                    the last one */
#ifndef PROBE_CHECK_WORKER_WIRE_H
#define PROBE_CHECK_WORKER_WIRE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "probe/result/report.h"
#include "probe/runtime/nvml.h"

/* No line is longer: sixteen records of wrong memory are about 4 KB. */
#define WIRE_LINE_MAX 65536

enum wire_kind {
	WIRE_RUNTIME,
	WIRE_GPU,
	WIRE_WITHIN,
	WIRE_CHECK,
	WIRE_PROGRESS,
	WIRE_ERROR,
	WIRE_NVML,
	WIRE_STATE,
	WIRE_LINK,
	WIRE_DONE
};

/* What NVML said of one GPU. */
struct wire_state {
	char uuid[48], pci[20];
	bool lost; /* it was asked for and did not answer: the rest is unknown */
	struct nvml_state nvml;
};

/* One line that was read. By kind: */
struct wire_line {
	enum wire_kind kind;
	int driver, runtime, devices; /* RUNTIME, NVML; devices -1: could not be counted */
	char link[16], archs[REPORT_ARCHS_MAX]; /* RUNTIME */
	struct gpu_report gpu;                  /* GPU: without checks */
	struct check_result check;              /* CHECK */
	double seconds;                         /* WITHIN */
	double done;                            /* PROGRESS: 0 … 1 */
	char text[96]; /* PROGRESS: a few words; WITHIN: the phase; NVML: the driver's version */
	struct report_error error; /* ERROR */
	struct wire_state state;   /* STATE */
	bool reverse;          /* LINK: from the job's second GPU to its first; `check` is of it */
	char from[48], to[48]; /* LINK: UUIDs, or "" */
};

/* Append one line with its newline. */
void wire_write(const struct wire_line *line, struct buf *out);

/* Write one to a descriptor that blocks. False: it cannot be written. */
bool wire_send(const struct wire_line *line, int fd);

/* Read a line without its newline. ERR_SYNTAX, ERR_INVALID (path, what was found), ERR_NOMEM. */
int wire_read(struct slice text, struct wire_line *ret, struct err *err);

#endif

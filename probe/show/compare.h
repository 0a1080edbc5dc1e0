/* SPDX-License-Identifier: Apache-2.0 */
/* probe: `gpuprobe compare LOCAL REMOTE`: what remote costs. Two reports of `gpuprobe bench`, one
 * made on the GPU server, one through a remote-GPU client, side by side: what is slower, how much,
 * and for which programs that matters. Pure: no GPU, no clock. */
#ifndef PROBE_SHOW_COMPARE_H
#define PROBE_SHOW_COMPARE_H

#include "probe/result/report.h"

#define COMPARE_SCHEMA "gpuprobe.compare/1"

/* A GPU of a report; values by check, NAN where it was not measured. */
struct compare_gpu {
	char uuid[48], name[96];
	bool remote;
	double value[CHECK_COUNT];
};

/* A report of bench, as far as it is compared. */
struct compare_side {
	char host[256];
	bool complete;
	struct compare_gpu gpus[REPORT_GPUS_MAX];
	unsigned n_gpus;
};

/* Read a report's text. What a newer gpuprobe added within the schema's version is passed over.
 * ERR_SYNTAX, ERR_INVALID (no report of bench, another version, no GPU), ERR_TOOBIG, ERR_NOMEM; err
 * says what was found and what is wanted. */
int compare_read(struct slice text, struct compare_side *ret, struct err *err);

/* Write what came out, for people or as JSON (COMPARE_SCHEMA), and into `warnings` a line for each
 * thing that makes the comparison doubtful. Each GPU of `remote` is compared with the one of
 * `local` that has its UUID, else with the first of its model, else with the first. How many
 * measures stand on both sides, of all GPUs. */
size_t compare_write(const struct compare_side *local, const struct compare_side *remote, bool json,
	struct buf *out, struct buf *warnings);

/* `gpuprobe compare`: argv[0] is "compare". The program's exit status: 0 compared, 2 wrong usage or
 * a file that is no report of bench, 4 nothing to compare or nowhere to write it. */
int compare_main(int argc, char **argv);

#endif

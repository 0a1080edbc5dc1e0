/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the command line of gpuprobe, all but `gpuprobe serve …`, which has its own. */
#ifndef PROBE_RESULT_OPTIONS_H
#define PROBE_RESULT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "probe/result/report.h"

enum probe_command { COMMAND_LIST, COMMAND_VERIFY, COMMAND_STRESS, COMMAND_BENCH };
enum probe_answer { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_VERSION };
enum probe_show { SHOW_AUTO, SHOW_ALWAYS, SHOW_NEVER };

/* Texts point into argv. */
struct probe_options {
	enum probe_command command;
	enum probe_answer answer;
	const char *gpus[REPORT_GPUS_MAX]; /* index, UUID or PCI id each; none: all */
	size_t n_gpus;
	int expect_gpus;          /* -1: not said */
	const char *expect_name;  /* glob, or NULL */
	int64_t min_memory_bytes; /* 0: not said */
	double memory_share;      /* of free memory to test; 0: as the command has it */
	int64_t memory_bytes;     /* or so many bytes; 0 */
	double seconds;           /* of stress */
	double timeout_s;         /* of the whole run; 0: none */
	uint64_t seed;
	const char *json;           /* file, "-" is standard output; NULL: for people */
	const char *thresholds;     /* NULL: the defaults */
	const char *save_reference; /* NULL: do not */
	const char *cudart;         /* a runtime to load; NULL: the own one */
	const char *nvml;           /* NULL: libnvidia-ml.so.1 */
	enum probe_show progress;
	bool free_memory; /* list makes contexts */
	bool strict, remote, no_nvml, require_nvml, require_idle, nagios, in_process;
	unsigned plant; /* a planted fault: 0 none, 1 a bit of memory, 2 a lane */
};

/* Read the command line; argv[0] is passed over. ERR_INVALID: what was found, and what would be
 * accepted; ERR_TOOBIG: too many
 * --gpu. */
int options_read(int argc, char **argv, struct probe_options *ret, struct err *err);

/* What --help prints, to fit 80 columns. */
void options_help(FILE *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* probe: one run, from the first look at the machine to the verdict. */
#ifndef PROBE_RUN_H
#define PROBE_RUN_H

#include "base/err.h"
#include "probe/result/options.h"
#include "probe/result/report.h"
#include "probe/result/thresholds.h"

struct run_config {
	const struct probe_options *options;
	const struct thresholds *thresholds;
	const char *program; /* executed anew for each worker: "/proc/self/exe" */
	const char *root;    /* of sysfs and procfs: "/" but in tests */
	int stop_fd;         /* readable when the run is to end early, or -1 */
	void (*progress)(void *arg, double done, const char *text); /* NULL: nobody asks */
	void *arg;
};

/* Look, check and judge; *r was initialised by report_init() and is the caller's to release. What
 * is wrong with GPUs or server stands in the report, whose `exit` is set. ERR_INVALID: --gpu names
 * one that is not there; ERR_NOMEM; ERR_IO. */
int run_probe(const struct run_config *config, struct report *r, struct err *err);

#endif

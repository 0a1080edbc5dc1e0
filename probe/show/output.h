/* SPDX-License-Identifier: Apache-2.0 */
/* probe: where reports and progress go: standard output, files, the terminal. */
#ifndef PROBE_SHOW_OUTPUT_H
#define PROBE_SHOW_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "probe/result/options.h"

/* Write a file as a whole or not at all: beside it, then renamed. "-" is standard output. ERR_IO
 * says what failed: no such folder, no space, closed. */
int output_file(const char *file, const struct buf *text, struct err *err);

/* Standard input, output and error become /dev/null where they are closed, so that no file that is
 * opened later takes their place. False: standard output was closed, and nobody would read a
 * report. */
bool output_guard(void);

/* Can this file be written? Asked before a run, so that its report is not lost at the end. ERR_IO.
 */
int output_can(const char *file, struct err *err);

/* Columns of the terminal on this descriptor; 80 when it is none. */
unsigned output_width(int fd);

/* How far a run is, on standard error: a line that is written over on a terminal, else one for each
 * tenth. Zeroed but for `show` and `terminal`. */
struct progress {
	enum probe_show show;
	bool terminal;
	int tenth;
	bool open; /* the line is not ended yet */
	int64_t began_ms;
};

void progress_begin(struct progress *p, enum probe_show show);
void progress_show(void *progress, double done, const char *text);
void progress_end(struct progress *p);

#endif

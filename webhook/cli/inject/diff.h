/* SPDX-License-Identifier: Apache-2.0 */
/* cli: two texts as a unified diff. */
#ifndef WEBHOOK_CLI_INJECT_DIFF_H
#define WEBHOOK_CLI_INJECT_DIFF_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* Lines of one text. */
#define DIFF_LINES_MAX 1000000

/* Append the difference as `diff -u` writes it, with three lines around each change; nothing when
 * the texts are equal. The names go into the "---" and "+++" lines. Texts that differ in thousands
 * of lines are shown as one change. colour: for a terminal. ERR_TOOBIG (lines, out->max) or
 * ERR_NOMEM. */
int diff_unified(struct slice before, struct slice after, const char *before_name,
	const char *after_name, bool colour, struct buf *out, struct err *err);

#endif

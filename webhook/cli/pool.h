/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate pool`. */
#ifndef WEBHOOK_CLI_POOL_H
#define WEBHOOK_CLI_POOL_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* Exit codes of `poolgate pool`. */
enum { POOL_DONE = 0, POOL_REFUSED = 1, POOL_USAGE = 2, POOL_UNREADABLE = 3 };

/* `poolgate pool …` and `poolgate pool release …`; argv[0] is "pool". Writes to stdout and stderr;
 * returns the exit code. Uses getopt's state: main thread only. */
int pool_main(int argc, char **argv);

/* Append the JSON of /v1/pool (edge/pool/pool_report.h) as tables for people: servers and GPUs, who
 * holds what, who waits, one line of sums. Names come from strangers: control characters and what
 * reorders text are written as \u001b. Members that are missing are shown as "?". ERR_SYNTAX (no
 * JSON), ERR_INVALID (not a pool), ERR_TOOBIG, ERR_NOMEM. */
int pool_table_write(struct slice json, struct buf *out, struct err *err);

#endif

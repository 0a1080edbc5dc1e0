/* SPDX-License-Identifier: Apache-2.0 */
/* cli: all subcommands speak of their command line with one voice. */
#ifndef WEBHOOK_CLI_USAGE_USAGE_H
#define WEBHOOK_CLI_USAGE_USAGE_H

#include <getopt.h>
#include <stdbool.h>

#include "base/buf.h"

/* The exit code of every subcommand whose command line is wrong. */
#define USAGE_EXIT 2

/* Say "poolgate COMMAND: WHAT; `poolgate COMMAND --help` tells more" in one line on standard error,
 * control characters made harmless. Returns USAGE_EXIT. */
int usage_wrong(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same for what getopt_long found wrong ('?' or ':'; opterr is 0): an option that is not known,
 * with the one that was probably meant, or one whose value is missing. */
int usage_option(const char *command, int found, const struct option *options, char **argv);

/* The value of the option that getopt_long gave last: `-o=json` is `-o json`, as kubectl takes it.
 */
const char *usage_value(char **argv);

/* The value of -o where it is table or json. 0, or USAGE_EXIT, said. */
int usage_table_or_json(const char *command, const char *value, bool *ret_json);

/* Write what was told to standard output. False, said: it is not whole, or cannot be written. */
bool usage_print(const char *command, const struct buf *out);

#endif

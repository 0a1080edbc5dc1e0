/* SPDX-License-Identifier: Apache-2.0 */
/* cli: all subcommands speak of their command line with one voice. */
#ifndef WEBHOOK_CLI_USAGE_USAGE_H
#define WEBHOOK_CLI_USAGE_USAGE_H

#include <getopt.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/opts.h"

/* A subcommand: its options, and what its help says before and behind them. */
struct subcommand {
	const char *command; /* "explain", "certs init" */
	const char *head, *tail;
	const struct opt *opts;
	size_t n;
	void (*help)(void); /* NULL: head, options and tail */
};

/* Read the options into the struct that they are of; the words stand in argv from optind on. -1: go
 * on; 0: the help was asked for, and printed; USAGE_EXIT, said. */
void usage_help(const struct subcommand *u);
int usage_read(const struct subcommand *u, void *of, int argc, char **argv);

#define USAGE_OPTIONS_MAX 32
/* Does not compile with more rows. */
#define USAGE_OPTIONS(options)                                                                     \
	.opts = (options),                                                                         \
	.n = sizeof(char[sizeof(options) <= USAGE_OPTIONS_MAX * sizeof((options)[0])               \
				 ? (int)(sizeof(options) / sizeof((options)[0]))                   \
				 : -1])
/* The row of -o. */
#define USAGE_FORMAT(tag, member, arg, words_)                                                     \
	OPT_WORD(tag, member, "-o", arg, "", .also = "--output", .words = (words_))

/* The exit code of every subcommand whose command line is wrong. */
#define USAGE_EXIT 2

/* Say "poolgate COMMAND: WHAT; `poolgate COMMAND --help` tells more" in one line on standard error,
 * control characters made harmless. Returns USAGE_EXIT. */
int usage_wrong(const char *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same for what getopt_long found wrong ('?' or ':'; opterr is 0): an option that is not known,
 * with the one that was probably meant, one that may be several, or one whose value is missing. */
int usage_option(const char *command, int found, const struct option *options, char **argv);

/* Write what was told to standard output. False, said: it is not whole, or cannot be written. */
bool usage_print(const char *command, const struct buf *out);

#endif

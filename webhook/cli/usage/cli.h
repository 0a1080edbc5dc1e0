/* SPDX-License-Identifier: Apache-2.0 */
/* cli: the subcommands that have no header of their own. */
#ifndef WEBHOOK_CLI_USAGE_CLI_H
#define WEBHOOK_CLI_USAGE_CLI_H

#include "base/err.h"
#include "webhook/edge/settings/settings.h"

/* Exit codes of `poolgate serve`. */
enum { SERVE_DONE = 0, SERVE_FAILED = 1, SERVE_USAGE = 2, SERVE_UNREADABLE = 3 };

/* `poolgate serve …`; argv[0] is not looked at. Serves until SIGTERM or SIGINT; returns the exit
 * code. Main thread, before any other thread exists. */
int serve_main(int argc, char **argv);

/* `poolgate serve --check`: read and verify everything that s names, print what is in force to
 * stdout, warnings and errors to stderr; nothing is listened on. Returns the exit code. */
int serve_check(const struct settings *s);

/* The exit code of an error while settings or what they name were read. */
int serve_exit_code(const struct err *err);

/* `poolgate VERB …`; argv[0] is the verb. Each returns its exit code. getopt's state: main thread
 * only. hooks: the webhook configurations of this version, with the Secrets of the profiles that
 * settings name. */
int explain_main(int argc, char **argv);
int plan_main(int argc, char **argv);
int report_main(int argc, char **argv);
int hooks_main(int argc, char **argv);

#endif

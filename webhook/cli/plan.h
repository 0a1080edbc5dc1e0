/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate plan`. */
#ifndef WEBHOOK_CLI_PLAN_H
#define WEBHOOK_CLI_PLAN_H

enum { PLAN_STARTS = 0, PLAN_NOT_NOW = 1, PLAN_USAGE = 2, PLAN_UNREADABLE = 3 };

/* `poolgate plan …`; argv[0] is the verb. Returns the exit code. getopt's state: main thread only.
 */
int plan_main(int argc, char **argv);

#endif

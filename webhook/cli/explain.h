/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate explain`. */
#ifndef WEBHOOK_CLI_EXPLAIN_H
#define WEBHOOK_CLI_EXPLAIN_H

enum { EXPLAIN_DONE = 0, EXPLAIN_NOT_NOW = 1, EXPLAIN_UNREADABLE = 3 };

/* `poolgate explain …`; argv[0] is the verb. Returns the exit code. getopt's state: main thread
 * only. */
int explain_main(int argc, char **argv);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate report`. */
#ifndef WEBHOOK_CLI_REPORT_H
#define WEBHOOK_CLI_REPORT_H

enum { REPORT_DONE = 0, REPORT_UNREADABLE = 3 };

/* `poolgate report …`; argv[0] is the verb. Returns the exit code. getopt's state: main thread
 * only. */
int report_main(int argc, char **argv);

#endif

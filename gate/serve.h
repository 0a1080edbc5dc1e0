/* SPDX-License-Identifier: Apache-2.0 */
/* gate: `gpugate serve`. */
#ifndef GATE_SERVE_H
#define GATE_SERVE_H

/* argv[0] is the subcommand. Status: 0 when a signal ended it, 1 when it cannot serve, 2 for wrong
 * usage. */
int gate_serve_main(int argc, char **argv);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate doctor`: is everything there that an installation in a cluster needs, and as it
 * should be? */
#ifndef WEBHOOK_CLI_DOCTOR_DOCTOR_H
#define WEBHOOK_CLI_DOCTOR_DOCTOR_H

/* Exit codes. What may not be read is neither right nor wrong. */
enum { DOCTOR_FINE = 0, DOCTOR_FOUND = 1, DOCTOR_USAGE = 2, DOCTOR_NO_ANSWER = 3 };

/* `poolgate doctor …`; argv[0] is not looked at. Returns the exit code. Changes nothing in the
 * cluster. */
int doctor_main(int argc, char **argv);

#endif

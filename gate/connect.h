/* SPDX-License-Identifier: Apache-2.0 */
/* gate: `gpugate connect` and `gpugate check`, in the pod. */
#ifndef GATE_CONNECT_H
#define GATE_CONNECT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gate/gate_options.h"

/* A gate of the list. */
struct gate_address {
	char host[256];
	uint16_t port;
};

/* "HOST:PORT,[V6]:PORT": up to GATE_SERVERS_MAX. ERR_INVALID. */
int connect_addresses(const char *list, struct gate_address ret[static GATE_SERVERS_MAX],
	size_t *ret_n, struct err *err);

/* argv[0] is the subcommand. Status: 0 when a signal ended it, 1 when it cannot listen, 2 for wrong
 * usage. */
int connect_main(int argc, char **argv);
/* Status: 0 when connect, started with the same options, listens; 1 when it does not; 2 for wrong
 * usage. */
int check_main(int argc, char **argv);

#endif

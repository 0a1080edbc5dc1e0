/* SPDX-License-Identifier: Apache-2.0 */
/* base: the end, told by a descriptor: for programs that wait in poll() alone. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include "base/err.h"

/* SIGTERM and SIGINT make *ret_fd readable from now on, in all threads that come; a peer that is
 * gone is told by write(). ERR_IO. */
int signals_open(int *ret_fd, struct err *err);
/* The signal that came, as "TERM". NULL: none did. */
const char *signals_came(int fd);

#endif

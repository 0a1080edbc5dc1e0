/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: one plugin in a folder. A kubelet takes the one that came last, and does not come
 * back to the other when that one ends: so there is one, whatever their sockets are called. The
 * lock goes with the process. */
#ifndef DEVICEPLUGIN_ALONE_H
#define DEVICEPLUGIN_ALONE_H

#include <stdbool.h>

#include "base/err.h"
#include "deviceplugin/plugin.h"

/* The kubelet takes no notice of names that begin with a dot. */
#define ALONE_NAME ".bitfusion.io-gpu.lock"
/* After a failure of alone_still(). */
#define ALONE_AGAIN_MS 1000

struct alone {
	char path[SOCKET_PATH_MAX + sizeof(ALONE_NAME) + 1];
	int fd; /* -1: none */
};

/* Hold the lock in the folder of that socket, an absolute path of at most SOCKET_PATH_MAX bytes.
 * ERR_CONFLICT: another process has it; ERR_IO: it cannot be made. In every case alone_release()
 * it. */
int alone_hold(struct alone *a, const char *socket, struct err *err);

/* A file that was removed keeps nobody else away: hold the one that stands there now. *ret_anew: it
 * is another. ERR_CONFLICT: another process has that one, and is the plugin by now; ERR_IO: not at
 * the moment. */
int alone_still(struct alone *a, bool *ret_anew, struct err *err);

/* Again does nothing. */
void alone_release(struct alone *a);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* gate: a cgroup of its own for a claim's processes (cgroup v2 of Linux 5.14 or later), below the
 * gate's. Who is in it stays in it, whatever group, session or parent it gets, and one write ends
 * them all, however fast they multiply. No controller is switched on in it: what the gate's own
 * cgroup may use counts for all. */
#ifndef GATE_PROCESS_CGROUP_H
#define GATE_PROCESS_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

#define CGROUP_PATH_MAX 1024

/* Where they are made. */
struct cgroup_home {
	size_t mount;               /* so many bytes of path are where the hierarchy is mounted */
	char path[CGROUP_PATH_MAX]; /* the folder of our own; "": there is none */
};

/* Our own, as proc ("/proc/self") tells it, where others can be made and ended in it: that is
 * tried. ERR_NOTFOUND: none is to be seen; ERR_IO: they cannot be made there, or not ended at once.
 * On error *ret has no path. */
int cgroup_home_find(const char *proc, struct cgroup_home *ret, struct err *err);

/* An empty one of that name; *ret is its folder. ERR_IO: also where somebody is in one of that
 * name. */
int cgroup_make(const struct cgroup_home *home, const char *name, char ret[static CGROUP_PATH_MAX],
	struct err *err);
/* Bring this process in. False, with errno: it stays where it is. */
bool cgroup_enter(const char *folder);
/* End all that are in it. */
void cgroup_kill(const char *folder);
/* Take it away. False: somebody is still in it. */
bool cgroup_remove(const char *folder);

/* The folder of the one that the process is in. False: nobody can say, or it lies elsewhere. */
bool cgroup_of(const struct cgroup_home *home, pid_t pid, char ret[static CGROUP_PATH_MAX]);

#endif

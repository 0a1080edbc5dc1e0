/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what every worker does: it tells its parent, until it is asked to end or nobody listens.
 */
#ifndef PROBE_CHECK_WORKER_TELL_H
#define PROBE_CHECK_WORKER_TELL_H

#include <stdbool.h>

#include "probe/check/worker_wire.h"

struct worker_tell {
	int fd; /* that blocks */
	bool (*stopped)(void *arg);
	void *arg;
	bool unheard; /* nobody listens any more: nothing is told from then on */
};

void tell_line(struct worker_tell *t, const struct wire_line *line);

/* The next line comes within so many seconds, or the worker hangs in that phase. */
void tell_within(struct worker_tell *t, const char *phase, double seconds);

/* gpu: CUDA's number, or -1; cuda: the runtime's error, or 0. */
__attribute__((format(printf, 5, 6))) void tell_error(
	struct worker_tell *t, int gpu, enum probe_code code, int cuda, const char *fmt, ...);

/* Is the worker to end: was it asked to, or does nobody listen? */
bool tell_ends(struct worker_tell *t);

/* The last line. */
void tell_done(struct worker_tell *t);

/* The exit status of a worker that has come to that one: 3 when it could not tell. */
int tell_status(const struct worker_tell *t, int status);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what workers.c and workers_lines.c share: the workers of one run. */
#ifndef PROBE_WORKER_WORKERS_IMPL_H
#define PROBE_WORKER_WORKERS_IMPL_H

#include <stdint.h>
#include <sys/types.h>

#include "probe/worker/workers.h"

struct running {
	const struct worker_job *job;
	int gpu;   /* place in r->gpus; -1: a scout, NVML's, or a pair's */
	int link;  /* of a pair: place of its first link in r->links, the one back is the next; else
		      -1 */
	pid_t pid; /* 0: not started, or its end was seen */
	int fd;    /* -1: over */
	int64_t limit; /* clock in ms when it is late; of one that is ending: until when that is
			  waited for */
	struct buf in;
	char phase[96];
	double done;
	bool finished; /* its last line came */
	bool leaving;  /* it was told to end */
	bool ending;   /* its pipe is closed, and its end was not seen yet */
	bool refused;  /* what it wrote cannot be used: it is to be killed */
	bool again; /* its context is spoilt: a fresh process is to take its place when it has ended
		     */
	bool held;  /* …which happened before the first check: an error unless the fresh one gets
		       further */
};

struct crowd {
	const struct workers_config *config;
	struct report *r;
	struct running *all;
	size_t n;
	int64_t ends; /* of the whole run; 0: never */
	int64_t shown;
	enum workers_end how;
	bool stopping;
	bool failed; /* no memory */
};

/* So much later than now, on the clock of clock_ms(). */
int64_t crowd_after(double seconds);

/* An error of this worker's GPU, or of the server. */
void crowd_note(struct crowd *c, const struct running *w, enum probe_code code, int cuda,
	const char *message);

/* An error that was held back, and that the fresh process has not taken back. */
void crowd_note_held(struct crowd *c, struct running *w);

/* Take the whole lines out of what has come, up to one that cannot be used: then w->refused is set,
 * and the error noted. */
void crowd_take_lines(struct crowd *c, struct running *w);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* gate: many descriptors, each told by a call when something came of it. Edge-triggered, but where
 * something else was asked for: whoever is told does what there is to do, or keeps in mind that it
 * was told. */
#ifndef GATE_LOOP_H
#define GATE_LOOP_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/err.h"

/* Embedded in whatever is told; it must stay until the turn in which its descriptor was closed is
 * over. */
struct loop_watch {
	void (*ready)(void *ctx, uint32_t events);
	void *ctx;
	uint32_t asked; /* the loop's */
};

#define LOOP_OTHERS_MAX 32

/* Descriptors of poll(), which may be others each time, in a loop of their own within the loop:
 * whoever waits for the one waits for them, too. */
struct loop_others {
	int fd;
	struct loop_watch watch;
	int was[LOOP_OTHERS_MAX];
	size_t n;
};

/* The descriptor, which is readable while something is to be told. ERR_IO. */
int loop_open(int *ret_fd, struct err *err);
/* Tell w of fd's EPOLLIN, EPOLLOUT, EPOLLRDHUP and of what is always told, until fd is closed.
 * ERR_IO, ERR_NOMEM. */
int loop_add(int loop, int fd, struct loop_watch *w, struct err *err);
/* Tell of these events instead, which may be level-triggered. ERR_IO. */
int loop_ask(int loop, int fd, struct loop_watch *w, uint32_t events, struct err *err);
/* Tell nothing more of it; for whoever may fork, right before fd is closed: a child has it, too,
 * until it has become another program, and for as long it is told of. */
void loop_drop(int loop, int fd);
/* Wait for so many milliseconds at most, -1: for as long as nothing comes, and tell what there is
 * to tell: of how many. */
int loop_turn(int loop, int ms);

/* ERR_IO, ERR_NOMEM. */
int loop_others_open(int loop, struct loop_others *o, struct err *err);
void loop_others_close(struct loop_others *o);
/* From now on these, LOOP_OTHERS_MAX at most and as poll() takes them: while one of them is ready
 * no turn of the loop waits, and each counts them as one that was told. False: for some of them
 * that does not hold. */
bool loop_others_are(struct loop_others *o, const struct pollfd *fds, size_t n);

#endif

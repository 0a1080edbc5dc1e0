/* SPDX-License-Identifier: Apache-2.0 */
/* gate: many descriptors, each told by a call when something came of it. Edge-triggered: whoever is
 * told does what there is to do, or keeps in mind that it was told. */
#ifndef GATE_LOOP_H
#define GATE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/err.h"

/* Embedded in whatever is told; it must stay until the turn in which its descriptor was closed is
 * over. */
struct loop_watch {
	void (*ready)(void *ctx, uint32_t events);
	void *ctx;
};

/* The descriptor, which is readable while something is to be told. ERR_IO. */
int loop_open(int *ret_fd, struct err *err);
/* Tell w of fd's EPOLLIN, EPOLLOUT, EPOLLRDHUP and of what is always told, until fd is closed.
 * ERR_IO, ERR_NOMEM. */
int loop_add(int loop, int fd, struct loop_watch *w, struct err *err);
/* Tell nothing more of it; for whoever may fork, right before fd is closed: a child has it, too,
 * until it has become another program, and for as long it is told of. */
void loop_drop(int loop, int fd);
/* Tell what there is to tell, without waiting. */
void loop_turn(int loop);

#endif

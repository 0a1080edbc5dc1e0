/* SPDX-License-Identifier: Apache-2.0 */
/* gate: bytes between a connection with TLS, or without, and a plain one, both ways, until both
 * have ended. Nothing is kept but what the slower side has not taken: a burst in each direction at
 * most, which without TLS is in a pipe. */
#ifndef GATE_CARRY_H
#define GATE_CARRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "gate/loop.h"
#include "net/client_socket.h"

/* Bytes that come and go all the time while some connections carry: memory_begin(). */
#define CARRY_SPARE (8 * CLIENT_SOCKET_BURST)

/* One direction. */
struct carry_way {
	bool in;        /* there may be something to read: told by the loop, until a call has said
			   otherwise */
	bool out;       /* and room to write; of TLS it says nothing: that is tried in each turn */
	bool over;      /* its end was passed on */
	uint64_t bytes; /* that were carried */
	/* Without TLS: */
	int from, to;
	int pipe[2]; /* holds what was read and not taken; pipe[0] is -1 where nothing is; owned */
	size_t held;
};

struct carry {
	struct client_socket *tls; /* borrowed, and so is the descriptor */
	int plain;
	struct carry_way up, down; /* the plain side's bytes, the TLS side's */
	bool tls_ended;
	bool gone;  /* the pod's side has broken, as the loop has told */
	char *rest; /* that the plain side has not taken: at most a burst; owned */
	uint32_t rest_at, rest_len;
	int *spare; /* carry_splice() */
};

/* Both are connected. The descriptors do not block. */
void carry_begin(struct carry *c, struct client_socket *tls, int plain);
/* Right after that, where tls is none: bytes are moved by the kernel, and the loop tells of what it
 * was asked for, carry_ask(). spare is an empty pipe that
 * all connections share, or none (spare[0] is -1); it is borrowed, and made when it is needed. */
void carry_splice(struct carry *c, int spare[2]);
void carry_release(struct carry *c);
/* Close a pipe, if it is one. */
void carry_close_pipe(int pipe[2]);

/* What the loop has told. */
void carry_told_tls(struct carry *c, uint32_t events);
void carry_told_plain(struct carry *c, uint32_t events);
/* Without TLS, after each turn that is not the last: let the loop tell what there is to do next.
 * ERR_IO. */
int carry_ask(struct carry *c, int loop, struct loop_watch *pod, struct loop_watch *plain,
	struct err *err);

/* Carry what there is, but let others have their turn, too: *ret_more says that there is more.
 * *ret_over: both directions have ended. scratch is for the call. ERR_IO: one of them broke, and
 * the other is to be broken, too; ERR_NOMEM. */
int carry_turn(struct carry *c, char scratch[static CLIENT_SOCKET_BURST], bool *ret_more,
	bool *ret_over, struct err *err);

#endif

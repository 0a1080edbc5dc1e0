/* SPDX-License-Identifier: Apache-2.0 */
/* gate: bytes between a connection with TLS and a plain one, both ways, until both have ended.
 * Nothing is kept but what the slower side has not taken: a burst in each direction at most. */
#ifndef GATE_CARRY_H
#define GATE_CARRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/client_socket.h"

/* Bytes that come and go all the time while some connections carry: memory_begin(). */
#define CARRY_SPARE (8 * CLIENT_SOCKET_BURST)

struct carry {
	struct client_socket *tls; /* borrowed, and so is the descriptor */
	int plain;
	/* There may be something to read, or room to write: told by the loop, until a call has said
	 * otherwise. */
	bool tls_in, plain_in, plain_out;
	bool up_over,
		down_over; /* the plain side's bytes, the TLS side's: their end was passed on */
	bool tls_ended;
	char *rest; /* that the plain side has not taken: at most a burst; owned */
	uint32_t rest_at, rest_len;
	uint64_t up, down; /* bytes that were carried: of the plain side, of the TLS side */
};

/* Both are connected. The descriptors do not block. */
void carry_begin(struct carry *c, struct client_socket *tls, int plain);
void carry_release(struct carry *c);

/* What the loop has told. */
void carry_told_tls(struct carry *c, uint32_t events);
void carry_told_plain(struct carry *c, uint32_t events);

/* Carry what there is, but let others have their turn, too: *ret_more says that there is more.
 * *ret_over: both directions have ended. scratch is for the call. ERR_IO: one of them broke, and
 * the other is to be broken, too; ERR_NOMEM. */
int carry_turn(struct carry *c, char scratch[static CLIENT_SOCKET_BURST], bool *ret_more,
	bool *ret_over, struct err *err);

#endif

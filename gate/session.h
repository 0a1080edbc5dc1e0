/* SPDX-License-Identifier: Apache-2.0 */
/* gate: whose a connection is by its first words, where its client speaks HTTP/2, or HTTP/1.x, and
 * its first request has a header with the pod's uid. */
#ifndef GATE_SESSION_H
#define GATE_SESSION_H

#include "base/slice.h"

/* The first request's headers end within so many bytes. */
#define SESSION_BYTES_MAX 16384

enum session_word {
	SESSION_OURS,
	SESSION_MORE,    /* they have not come to their end */
	SESSION_MISSING, /* there is no such header */
	SESSION_FORGED,  /* it says something else, once or each time */
	SESSION_BROKEN   /* this is no HTTP, it is too long, or there is no memory */
};

/* What a connection's first bytes say, at most SESSION_BYTES_MAX of them; header in small letters.
 * More bytes change nothing but SESSION_MORE. */
enum session_word session_judge(struct slice bytes, struct slice header, struct slice uid);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* gate: the one frame that each end shows the other before bytes are carried. Pure.
 *
 *     "gpug", a byte for the version (1), a byte for what it says, two for the length of its body
 *     (big-endian), the body
 *
 * The pod's end shows FRAME_HELLO with its token. The gate answers FRAME_IN without a body, and
 * everything behind it is the server's; or one of the others with a sentence, and nothing comes
 * behind it. */
#ifndef GATE_FRAME_H
#define GATE_FRAME_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

#define FRAME_VERSION 1
#define FRAME_HEAD 8
/* A token bound to a pod has about 1,100 bytes. */
#define FRAME_BODY_MAX 8192

/* What a frame says. Numbers are for ever. */
enum frame_word {
	FRAME_IN = 0,
	FRAME_HELLO = 1,
	FRAME_NO_CLAIM = 2,  /* this pod holds nothing here */
	FRAME_NO_TOKEN = 3,  /* the token is none, another's, or over */
	FRAME_NO_SERVER = 4, /* the server process did not start, or ended */
	FRAME_AWAY = 5,      /* nobody can say now whose token it is */
	FRAME_BUSY = 6       /* too many connections, or tries */
};
#define FRAME_WORDS 7

/* A frame as it comes; zero it to begin. */
struct frame {
	size_t have;
	char bytes[FRAME_HEAD + FRAME_BODY_MAX];
};

/* How many bytes are to be read next, to bytes + have; 0: it is complete. Never more than are the
 * frame's own. */
size_t frame_wants(const struct frame *f);
/* n bytes have been put there. ERR_SYNTAX: no frame of ours, or of another version; ERR_TOOBIG: its
 * body. */
int frame_got(struct frame *f, size_t n, struct err *err);
/* Of a complete frame. A word that this version does not know is what it is. */
unsigned frame_word(const struct frame *f);
struct slice frame_body(const struct frame *f);

/* Append a frame; a body that is too long is cut. */
void frame_write(enum frame_word word, struct slice body, struct buf *out);

#endif

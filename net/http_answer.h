/* SPDX-License-Identifier: Apache-2.0 */
/* net: an HTTP/1.1 answer, read as it comes. Pure. For programs in which libcurl would be the
 * largest part; what http_client does not need is not here: no compression, no trailers that
 * anybody sees, no answer without a length but to the connection's end. */
#ifndef NET_HTTP_ANSWER_H
#define NET_HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

/* One line of a head, and lines of it in all: a stranger's bytes are held to that. */
#define HTTP_ANSWER_LINE_MAX 4096
#define HTTP_ANSWER_LINES_MAX 128

struct http_answer {
	long status; /* 0: its first line has not come. 1xx answers are passed over */
	bool headed; /* the head is complete */
	bool done;   /* so is all of it: bytes behind it are another answer's */
	bool keep;   /* the connection can be used once more */
	/* Told of each piece of the body; false ends the reading. */
	bool (*body)(void *ctx, struct slice piece);
	void *ctx;
	/* Its own. */
	int state;
	bool chunked, sized;
	uint64_t left; /* of the body, or of the chunk */
	unsigned lines;
	size_t len;
	char line[HTTP_ANSWER_LINE_MAX];
};

/* Another answer begins. */
void http_answer_init(
	struct http_answer *a, bool (*body)(void *ctx, struct slice piece), void *ctx);

/* Read on; *bytes moves behind what was read, which is all of it unless the answer is done.
 * ERR_SYNTAX (no HTTP/1, lengths that contradict each other, a transfer coding other than chunked),
 * ERR_TOOBIG (its head), ERR_REFUSED (body said so). After an error the connection is of no more
 * use. */
int http_answer_read(struct http_answer *a, struct slice *bytes, struct err *err);

/* The connection has ended: 0 when that is an end of this answer, too, else ERR_IO. */
int http_answer_end(struct http_answer *a, struct err *err);

#endif

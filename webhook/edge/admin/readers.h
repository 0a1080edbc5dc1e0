/* SPDX-License-Identifier: Apache-2.0 */
/* edge: what the API server has said of those who show a token, for a short time, and who has been
 * refused too often to be asked about. */
#ifndef WEBHOOK_EDGE_ADMIN_READERS_H
#define WEBHOOK_EDGE_ADMIN_READERS_H

#include <stdint.h>

#include "base/slice.h"

/* A yes and a no are kept for so long; so a right that is taken away ends within the first. */
#define READERS_YES_MS 60000
#define READERS_NO_MS 10000
/* After a yes the same token is asked about again, however many of its address are not let in. */
#define READERS_KNOWN_MS 600000
#define READERS_MAX 64
/* Questions of one address (of IPv6 the first 64 bits) that bring no yes, in a minute. */
#define READERS_TRIES 30

enum reader {
	READER_YES,
	READER_NOBODY, /* the API server does not know the token */
	READER_NO,     /* its account may not read this */
	READER_AWAY,   /* nobody can say now */
	READER_TRIES,  /* too many were not let in */
	READER_UNKNOWN /* the API server is to be asked */
};

struct readers;

/* NULL: out of memory. */
struct readers *readers_new(void);
/* NULL-safe. */
void readers_free(struct readers *r);

/* What is known of it: anything but READER_AWAY, but for a digest that the library fails to make.
 * peer as in struct http_request; now_ms: CLOCK_MONOTONIC. Any thread. No token is kept. */
enum reader readers_look(struct readers *r, struct slice token, const char *peer, int64_t now_ms);
/* What the API server has said. READER_AWAY is no answer that is kept: it is a try, unless of who
 * had a yes within READERS_KNOWN_MS. */
void readers_note(
	struct readers *r, struct slice token, const char *peer, enum reader word, int64_t now_ms);

#endif

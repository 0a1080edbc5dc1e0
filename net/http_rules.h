/* SPDX-License-Identifier: Apache-2.0 */
/* net: what the server decides about a request before a handler sees it. No sockets, no threads, no
 * clock. */
#ifndef NET_HTTP_RULES_H
#define NET_HTTP_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http_server.h"

/* What a path and a method lead to. */
struct http_match {
	const struct http_route *route; /* NULL: status says why */
	unsigned status;                /* 404, 405 or 0 */
	char allow[32];                 /* for 405: "GET, HEAD, POST" */
};

/* The first row of that path and method; an exact path comes before a prefix. HEAD finds GET. */
void http_match(const struct http_route *routes, size_t nroutes, const char *method,
	const char *path, struct http_match *ret);

/* Is the media type of a Content-Type header (parameters cut off, any case) the wanted one? */
bool http_media_type_is(const char *content_type, const char *wanted);

/* When the answer must be given, on received_ms' clock. timeout is the value of ?timeout= (a Go
 * duration) or NULL; absent or unreadable counts as fallback_ms, more than max_ms as max_ms. 500 ms
 * are kept for the way back, of timeouts under a second half. */
int64_t http_deadline(
	int64_t received_ms, const char *timeout, unsigned fallback_ms, unsigned max_ms);

/* A Content-Length header's value: digits that fit, else UINT64_MAX; NULL gives 0. */
uint64_t http_content_length(const char *value);

/* What a request's headers say of where its body ends. Zero before the first header. */
struct http_framing {
	unsigned lengths, codings; /* headers of these names */
	const char *refusal;       /* a sentence, once it is not clear; else NULL */
};

/* Look at one header more. Whoever reads the request may be another than who read it before (a
 * proxy), and both must see the same end: one Content-Length or one Transfer-Encoding, which is
 * "chunked"; and no name that another would read as one of these. */
void http_framing_add(struct http_framing *f, const char *name, const char *value);

/* The capacity to grow a body's buffer to so that need bytes fit: promised bytes at once when they
 * are few, else by doubling, so that a promise of a gigabyte costs nothing. At most max; need must
 * not be above it. */
size_t http_body_grow(size_t cap, size_t need, uint64_t promised, size_t max);

/* The sentence for a status this server answers by itself. */
const char *http_sentence(unsigned status);

#endif

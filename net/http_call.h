/* SPDX-License-Identifier: Apache-2.0 */
/* net: one request of the server from its headers to its reply: body, handler, and what the
 * application is owed. */
#ifndef NET_HTTP_CALL_H
#define NET_HTTP_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http_guard.h"
#include "net/http_server.h"

/* What all calls of a server share. */
struct http_bodies {
	atomic_size_t bytes; /* allocated for bodies now */
	size_t total;        /* at most so many */
	size_t max;          /* of one body */
};

/* Kept by its connection from request to request. Outlives it when its time was over while slow()
 * ran. */
struct http_call {
	struct http_request req;
	struct http_reply reply;
	struct http_job job;
	const struct http_app *app;
	struct http_bodies *bodies;
	size_t body_cap;
	uint64_t promised; /* Content-Length, 0 when there is none */
	bool handled;      /* handle() was called: queued() and done() are owed */
	bool told;         /* queued() was called */
};

/* NULL when out of memory. app and bodies are borrowed. */
struct http_call *http_call_new(
	const struct http_app *app, struct http_bodies *bodies, const char *peer);
void http_call_free(struct http_call *call);
struct http_call *http_call_of(struct http_job *job);

/* Append to the body. Returns 0, or the status to refuse with (413, 500); the body is freed then.
 */
unsigned http_call_body_add(struct http_call *call, const char *bytes, size_t len);

/* Call the route's handle(). */
enum http_outcome http_call_handle(struct http_call *call);

/* Call the route's slow(); the reply is filled afterwards, with a 500 if need be. */
void http_call_slow(struct http_call *call);

/* Tell the application, once, whether the reply was queued. */
void http_call_tell(struct http_call *call, bool queued);

/* End of the request, answered or not: pay what is owed, free, be ready for the connection's next
 * one. */
void http_call_reset(struct http_call *call);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* net: the HTTP(S) server. libmicrohttpd is known here alone: one I/O thread in poll mode answers
 * what needs no waiting, what may wait runs on workers while its connection is suspended. */
#ifndef NET_HTTP_SERVER_H
#define NET_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "net/tls_identity.h"
#include "net/tls_trust.h"

/* Zero bytes behind every body, so that base/json/json_read can read it in place (JSON_PAD). */
#define HTTP_BODY_PAD 16
/* Headers a handler may add to one reply. */
#define HTTP_REPLY_HEADERS 4

struct http_server;

enum http_method { HTTP_GET, HTTP_POST, HTTP_DELETE }; /* HEAD is answered by GET routes */

/* One request, whole: the handler is called when the last byte of the body has come. */
struct http_request {
	const struct http_route *route;
	const char *path;         /* decoded, NUL-terminated; in handle() only, not in slow() */
	const char *content_type; /* as sent, or NULL; in handle() only */
	char *body; /* body_len bytes and HTTP_BODY_PAD zero bytes; NULL when body_len is 0 */
	size_t body_len;
	int64_t received_ms; /* http_now_ms() when the headers were there */
	int64_t deadline_ms; /* http_now_ms() when the answer must be given */
	int64_t whole_us;    /* http_now_us() when the last byte had come */
	unsigned status;     /* of the reply; set before queued() */
	void *user;          /* the application's, freed in its done() */
	char peer[56];       /* "10.0.0.7:41234", "[::1]:41234" */
	void *transport;     /* the server's own; NULL in slow() */
};

struct http_header {
	const char *name;
	const char *value;
};

/* The handler fills it; it comes zeroed. Names, values and content_type are copied. */
struct http_reply {
	unsigned status;          /* 200, 400, … */
	const char *content_type; /* NULL: text/plain; charset=utf-8 */
	char *body; /* from malloc(): the server frees it, in every case. NULL with body_len 0 */
	size_t body_len;
	bool close; /* ask the client to use another connection for the next request */
	struct http_header header[HTTP_REPLY_HEADERS]; /* name NULL: none */
};

enum http_outcome {
	HTTP_DONE, /* reply is filled */
	HTTP_LATER /* call the route's slow() on a worker */
};

/* handle() runs on the I/O thread and must not wait; slow() runs on a worker (HTTP_LATER from it
 * counts as a 500). */
typedef enum http_outcome http_handler(
	void *ctx, struct http_request *req, struct http_reply *reply);

/* One row of the const route table. Several rows may share a path with different methods. */
struct http_route {
	const char *path; /* "/mutate" */
	enum http_method method;
	bool prefix;              /* also whatever begins with path */
	const char *content_type; /* a POST must be of this media type (parameters are ignored),
				     else 415; NULL: any */
	http_handler *handle;
	http_handler *slow; /* may be NULL when handle never says HTTP_LATER */
	int tag;            /* the application's */
	bool open;          /* also for those whom http_config.clients does not let in */
};

/* What the application gives. routes, and what it points to, must outlive the server. */
struct http_app {
	const struct http_route *routes;
	size_t nroutes;
	void *ctx;
	/* Exactly once per call of handle(), after it and after slow(): true when the reply was
	 * given to the transport, from when it is final; false when it never will be sent (client
	 * gone, deadline passed, shutdown, no memory), so that what the handler took can be given
	 * back. I/O thread, or the worker when its answer came too late. May be NULL. */
	void (*queued)(void *ctx, struct http_request *req, bool queued);
	/* Once per call of handle(), last of all: free req->user. The reply has been sent, or
	 * failed. May be NULL. */
	void (*done)(void *ctx, struct http_request *req);
	/* A sentence of the transport's own, at most ten a second. Any thread. May be NULL. */
	void (*log)(void *ctx, const char *msg);
};

/* Zero means the default in brackets. */
struct http_config {
	const char *listen; /* "ADDR:PORT", "[V6]:PORT", ":PORT" (all addresses); port 0: any free
			       one */
	struct tls_identity *identity; /* NULL: plain HTTP. Borrowed until http_server_stop */
	struct tls_trust *clients; /* who may ask: others get a 403, also for paths that are none.
				      Needs the identity; NULL: everybody. Borrowed, too */
	unsigned workers;          /* threads for slow(); 0: it runs on the I/O thread */
	unsigned connections; /* [512]; further clients wait in the backlog of 1024. From 64 on the
			       * newest takes the place of one that does nothing, of the address
			       * that has most: see net/http_places.h */
	size_t body_max;      /* [8 MiB] */
	size_t body_total;    /* [48 MiB] of bodies at a time, over all connections, and as much of
				 replies */
	size_t body_small;  /* [64 KiB] up to here neither is counted: there is always room for the
			       usual */
	unsigned header_ms; /* [10 000] for the TLS handshake; without TLS from the connect to the
			     * end of the first headers; and from a request's first line to the end
			     * of its headers */
	unsigned body_ms;   /* [10 000] from the end of the headers to the end of the body */
	unsigned send_ms;   /* [30 000] from the reply to its last byte */
	unsigned idle_ms;   /* [120 000] keep-alive: above the API server's 90 s */
	unsigned deadline_ms;     /* [10 000] when the request has no ?timeout= */
	unsigned deadline_max_ms; /* [30 000] whatever ?timeout= says */
};

/* Totals since the start, and what is there now. */
struct http_stats {
	unsigned connections;    /* now open */
	unsigned in_flight;      /* now between the end of the headers and the end of the reply */
	unsigned deferred;       /* of these on a worker or waiting for one */
	uint64_t accepted;       /* connections */
	uint64_t replies[6];     /* by the first digit of the status; [0] unused */
	uint64_t timed_out;      /* connections cut because headers, body or reply took too long */
	uint64_t displaced;      /* connections cut to make room */
	uint64_t deadlines;      /* requests answered 500 because their time was over */
	uint64_t log_suppressed; /* sentences of the transport that were not logged */
};

/* Listen and serve until http_server_stop. app is copied. Threads of the server have all signals
 * blocked. Errors: ERR_INVALID (the address, or clients without TLS), ERR_IO (cannot be bound: in
 * use, not ours, no right), ERR_NOMEM, ERR_INTERNAL. */
int http_server_start(const struct http_config *cfg, const struct http_app *app,
	struct http_server **ret_server, struct err *err);

/* The port that is really bound. */
uint16_t http_server_port(const struct http_server *s);

/* From now on every reply says `Connection: close`, new connections are still served: call it when
 * readiness goes off, so that clients move away before http_server_stop. Any thread, any number of
 * times. */
void http_server_drain_begin(struct http_server *s);

/* Stop accepting, wait up to timeout_ms for what is in flight, answer the rest 500, join all
 * threads, free s. Not from a handler. Waits longer only for a slow() that ignores its deadline.
 * True when nothing had to be given up. NULL-safe. */
bool http_server_stop(struct http_server *s, unsigned timeout_ms);

/* What it has counted so far. Any thread. */
void http_server_stats(const struct http_server *s, struct http_stats *ret);

/* A decoded value of the query ("timeout" in "?timeout=5s"), or NULL. In handle() only; lives as
 * long as the request. */
const char *http_request_arg(const struct http_request *req, const char *name);

/* A header's value ("Authorization", any case), or NULL. In handle() only; lives as long as the
 * request. */
const char *http_request_header(const struct http_request *req, const char *name);

/* Fill reply with one plain sentence (copied, a newline is added); without memory the body stays
 * empty and a status below 400 becomes 500. */
void http_reply_text(struct http_reply *reply, unsigned status, const char *sentence);

/* clock_ms() of base/clock.h: what received_ms and deadline_ms are on. */
int64_t http_now_ms(void);
/* clock_us(). */
int64_t http_now_us(void);

#endif

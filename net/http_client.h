/* SPDX-License-Identifier: Apache-2.0 */
/* net: HTTP and HTTPS requests to others. libcurl (the GnuTLS flavour) is used here only, and
 * loaded when the first client is made. */
#ifndef NET_HTTP_CLIENT_H
#define NET_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* Keeps connections open from one request to the next. */
struct http_client;
struct sockaddr;

/* Where a call ended to which no answer came. */
enum http_trouble { HTTP_TROUBLE_OTHER, HTTP_TROUBLE_NAME, HTTP_TROUBLE_CERTIFICATE };

/* Everything is borrowed for the call. */
struct http_ask {
	const char *method;         /* "GET", "POST", "PUT", "PATCH", "DELETE", … */
	const char *url;            /* http:// or https:// */
	const char *const *headers; /* "Name: value" lines, NULL-terminated; NULL for none */
	struct slice body;          /* absent: none */
	const char *bearer;         /* token for Authorization; NULL for none */
	bool insecure;              /* whoever answers is believed to be the server */
	const char *ca_file;   /* PEM, the only CAs that are trusted; NULL: those of the system */
	const char *cert_file; /* PEM, the client's own certificate; NULL: none */
	const char *key_file;  /* PEM, its key */
	int64_t connect_ms;    /* for the connection, TLS included; 0: as timeout_ms */
	int64_t timeout_ms;    /* for everything; at least 1 */
	size_t max_bytes;      /* of the answer's body */
	/* Use a new connection. On an old one that the other side has just closed, libcurl sends a
	 * request silently once more: whoever must know that it was sent at most once asks for
	 * this. */
	bool fresh;
	/* Asked about once a second while http_client_do waits; false gives up with ERR_TIMEOUT.
	 * NULL: never. A stream has its own. */
	bool (*go_on)(void *ctx);
	void *go_on_ctx;
	/* Asked about the very address that a connection is about to be made to; false: it is not
	 * made, and the call ends with ERR_REFUSED unless another of the name's addresses may be
	 * tried. Connections that stand are not asked about again. NULL: any may be. */
	bool (*may_connect)(void *ctx, const struct sockaddr *address);
	void *may_connect_ctx;
	size_t max_head; /* keep the answer's head, up to so many bytes (more: ERR_TOOBIG); 0: it is
			    not kept */
	const char *name;           /* what messages say instead of method and URL; NULL: these */
	enum http_trouble *trouble; /* set when no answer came; NULL: nobody wants to know */
};

struct http_response {
	long status;     /* any, 3xx to 5xx too: redirects are not followed */
	struct buf body; /* the caller releases both */
	struct buf head; /* the lines of the last head, each with its end, where max_head asked for
			    it */
};

/* One client serves one thread at a time. NULL, with err set: ERR_IO when libcurl cannot be loaded,
 * ERR_NOMEM. */
struct http_client *http_client_new(struct err *err);
void http_client_free(struct http_client *c);

/* Send a request and wait for the whole answer. TLS 1.2 at least, the certificate is verified, and
 * must be one for servers if it says what it is for (extended key usage): a cluster's CA signs
 * clients, too. No proxy, no redirects, no other protocols. 0 when an HTTP answer came, whatever
 * its status. ERR_INVALID (URL or a control character in what is sent), ERR_TIMEOUT, ERR_TOOBIG
 * (over max_bytes), ERR_REFUSED (by may_connect), ERR_NOMEM, ERR_IO (everything else: names,
 * connections, TLS, broken answers). The message names method and URL. */
int http_client_do(struct http_client *c, const struct http_ask *req, struct http_response *ret,
	struct err *err);

/* Somebody who takes an answer piece by piece, as long as it lasts: a watch. */
struct http_stream {
	/* The head has come. False ends the call. */
	bool (*head)(void *ctx, long status);
	/* The next bytes of the body. False ends the call. */
	bool (*data)(void *ctx, struct slice bytes);
	/* Asked about once a second, in silence too. False ends the call. */
	bool (*go_on)(void *ctx);
	void *ctx;
	/* Each line of the head, before it has come whole. NULL: nobody wants them. */
	void (*line)(void *ctx, struct slice line);
};

/* As http_client_do, but the body goes to `to` while it comes, however long that takes: of the
 * request's limits only connect_ms counts, and `to` is asked how long silence may last. 0: the
 * other side ended the body, or `to` did. Else as http_client_do; what came before an error was
 * handed over. */
int http_client_stream(struct http_client *c, const struct http_ask *req,
	const struct http_stream *to, struct err *err);

#endif

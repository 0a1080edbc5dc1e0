/* SPDX-License-Identifier: Apache-2.0 */
/* net: what the two halves of the server share; for http_server*.c alone. */
#ifndef NET_HTTP_SERVER_IMPL_H
#define NET_HTTP_SERVER_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <microhttpd.h>

#include "net/http_call.h"
#include "net/http_guard.h"
#include "net/http_places.h"
#include "net/http_rules.h"
#include "net/http_server.h"
#include "net/tls_hold.h"
#include "net/tls_identity.h"
#include "net/tls_trust.h"

/* One connection, from accept to close. All but the watch belongs to the I/O thread. */
struct conn {
	struct http_watch watch;
	struct http_place place;
	struct tls_session tls;
	struct tls_hold hold;      /* with TLS only */
	struct tls_verdict client; /* of http_config.clients */
	struct MHD_Connection *mhd;
	struct http_server *server;
	struct http_call *call; /* kept for the next request of the connection */
	struct http_match match;
	uint64_t discarded;  /* body bytes that were read for a refusal's sake */
	unsigned refuse;     /* the status this server answers by itself, or 0 */
	const char *unclear; /* of its headers, or NULL: what is wrong with them */
	int64_t replied_ms;  /* when the last reply was given to the transport */
	int64_t trusted_ms;  /* when the client had finished its handshake; 0: it has not */
	size_t reply_held;   /* of the server's replies_held */
	bool in_flight;
	bool suspended;
	bool begun;     /* a request's first line has come, ever */
	bool requested; /* the headers of a request have come, ever */
	bool replied;   /* to the request in flight */
	bool posted;    /* it is a POST: a body follows the headers of its reply */
	char peer[56];
};

struct http_server {
	struct http_config cfg;
	struct http_app app;
	struct MHD_Daemon *daemon;
	struct http_guard guard;
	struct http_places places; /* the I/O thread's alone */
	uint16_t port;
	atomic_bool draining, stopping;
	atomic_uint connections, in_flight;
	atomic_uint_fast64_t accepted, replies[6], suppressed, late, displaced;
	struct http_bodies bodies, small_bodies;
	size_t replies_held; /* bytes of those that are counted; the I/O thread's alone */
	atomic_int_fast64_t log_window; /* second, and sentences in it */
	atomic_uint log_count, left_out;
};

/* MHD_AccessHandlerCallback: called with the headers, with each piece of the body, at its end, and
 * after a resume. */
enum MHD_Result http_server_on_access(void *cls, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_len,
	void **req_cls);

/* MHD_OPTION_URI_LOG_CALLBACK: a request's first line has come. */
void *http_server_on_line(void *cls, const char *uri, struct MHD_Connection *mhd);

/* MHD_RequestCompletedCallback: the reply has been sent, or never will be. */
void http_server_on_completed(void *cls, struct MHD_Connection *mhd, void **req_cls,
	enum MHD_RequestTerminationCode code);

/* MHD_NotifyConnectionCallback: before the handshake, and before the socket is closed. */
void http_server_on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
	enum MHD_ConnectionNotificationCode code);

/* Silence ends a connection after idle_ms (the transport's timeout), a trickle of bytes before a
 * whole line a little later. */
void http_server_await(struct conn *c);

/* More connections are open than there is room for (struct http_places): one is told to go, or none
 * where all are being answered. newest: see http_places_spare. */
void http_server_make_room(struct http_server *s, struct http_place *newest);

/* A sentence for the application's log, as rare as the transport's own. */
void http_server_say(struct http_server *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The guard's resume hook. */
void http_server_resume(void *ctx, void *handle);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: what the files of the gRPC server share. grpc_socket: where it listens.
 * grpc_connection: one client's HTTP/2. grpc_call: one request, from its headers to the method.
 * grpc_reply: what goes back. grpc_server: all of them, and time. */
#ifndef DEVICEPLUGIN_GRPC_IMPL_H
#define DEVICEPLUGIN_GRPC_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <nghttp2/nghttp2.h>

#include "deviceplugin/grpc_server.h"

/* Headers of one request, trailers included, as HTTP/2 counts them. */
#define GRPC_HEADERS_MAX 16384u
/* Of GRPC_KEPT_MAX, for one client. */
#define GRPC_KEPT_OF_ONE (GRPC_REQUEST_MAX + 64u * 1024)
/* Frames that a client may get wrong, one by one, before it is dropped. */
#define GRPC_WRONG_MAX 100u
#define GRPC_REQUEST_MS 10000

/* ---- where it listens ---- */

struct grpc_socket {
	char path[108];
	char folder[108];
	int fd;      /* -1: it does not listen */
	int inotify; /* of the folder */
	int watch;
	dev_t dev; /* what our socket is at path */
	ino_t ino;
};

/* ERR_INVALID, ERR_IO. Listens nowhere yet. */
int grpc_socket_init(struct grpc_socket *k, const char *path, struct err *err);
/* Listen at the path, anew if it did already. As grpc_server_new. */
int grpc_socket_listen(struct grpc_socket *k, struct err *err);
/* What happened in the folder is taken note of: ask grpc_socket_ours then. */
void grpc_socket_events(struct grpc_socket *k);
/* Is what stands at the path the socket that we listen on? */
bool grpc_socket_ours(const struct grpc_socket *k);
/* Stop listening; take it away if it is ours. */
void grpc_socket_shut(struct grpc_socket *k);
void grpc_socket_release(struct grpc_socket *k);

/* ---- messages to clients ---- */

/* With its prefix. Several streams show the same one. */
struct grpc_message {
	struct grpc_server *server;
	size_t refs;
	size_t len;
	char *bytes;
};

/* ---- a call ---- */

struct grpc_stream {
	struct grpc_stream *next, **at; /* among its connection's */
	struct grpc_connection *of;
	int32_t id;
	int64_t since_ms; /* the client is to come further; 0: it need not */

	/* the request */
	const struct grpc_method *method;
	size_t header_bytes;
	bool post, typed, pathed;
	bool headed; /* the request's headers are there: what comes now are its trailers */
	bool whole;  /* its last byte is there */
	uint8_t prefix[GRPC_PREFIX];
	size_t prefix_len;
	struct buf request; /* max is what its prefix announced */

	/* the answer */
	enum grpc_status status;
	unsigned http;   /* its status where it is no gRPC that is spoken; else 0 */
	const char *why; /* static */
	bool answered;   /* headers have been submitted */
	bool open;       /* the method streams on it, and is owed its closed() */
	bool ending;     /* trailers follow when all messages are sent */
	bool deferred;   /* nghttp2 waits for more */
	struct grpc_message *now, *next_message;
	size_t sent; /* of now */
	size_t kept; /* bytes that it holds of the server's GRPC_KEPT_MAX */
};

/* NULL: out of memory. */
struct grpc_stream *grpc_call_begin(struct grpc_connection *c, int32_t id);
/* False: too many. */
bool grpc_call_header(struct grpc_stream *st, struct slice name, struct slice value);
/* The end of the headers; of the trailers too. */
void grpc_call_headed(struct grpc_stream *st);
void grpc_call_data(struct grpc_stream *st, const uint8_t *bytes, size_t len);
/* The client has said all. */
void grpc_call_whole(struct grpc_stream *st);
/* The stream is closed: tell the method, free. */
void grpc_call_gone(struct grpc_stream *st);
/* Count bytes in; false when that would be over a limit. grpc_call_let_go counts all of the
 * stream's out again. */
bool grpc_call_keep(struct grpc_stream *st, size_t bytes);
void grpc_call_let_go(struct grpc_stream *st);

/* Answer without a message: HTTP's status alone, or gRPC's with why (borrowed for the call). */
void grpc_reply_refuse(struct grpc_stream *st, const char *why);
/* Answer with the one message in reply (the prefix is its first bytes), which is emptied. */
void grpc_reply_one(struct grpc_stream *st, struct buf *reply);
/* Answer with what is and will be shown. */
void grpc_reply_stream(struct grpc_stream *st);
/* No more messages: the trailers say status and why (static). */
void grpc_reply_end(struct grpc_stream *st, enum grpc_status status, const char *why);
void grpc_reply_release(struct grpc_stream *st);

/* ---- a client ---- */

struct grpc_connection {
	struct grpc_connection *next;
	struct grpc_server *server;
	nghttp2_session *session;
	struct grpc_stream *streams;
	int fd;
	uint32_t events; /* that epoll looks for */
	int64_t since_ms;
	bool greeted;         /* its first SETTINGS have come */
	const char *broken;   /* why it must be dropped, static; NULL: all is well */
	int invalid;          /* nghttp2's word for the last frame that was wrong */
	unsigned wrong;       /* frames that were */
	const char *given_up; /* why nghttp2 ends it, static */
	size_t kept;
	const uint8_t *out; /* nghttp2's, the rest of a frame that the socket did not take */
	size_t out_len;
};

/* fd is its own from here on, also when NULL is returned: out of memory. */
struct grpc_connection *grpc_connection_new(struct grpc_server *s, int fd);
void grpc_connection_free(struct grpc_connection *c);
/* Read and answer what there is, within reason. Sets broken. */
void grpc_connection_read(struct grpc_connection *c);
void grpc_connection_write(struct grpc_connection *c);
/* There is something to write, in the next turn. */
void grpc_connection_wake(struct grpc_connection *c);
void grpc_connection_break(struct grpc_connection *c, const char *why);

/* ---- all of them ---- */

struct grpc_server {
	struct grpc_socket socket;
	const struct grpc_method *methods;
	void *ctx;
	const struct log *log;
	int epoll;
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *option;
	struct grpc_connection *connections; /* the newest first */
	unsigned n_open;                     /* streams that methods stream on */
	size_t kept;
	struct grpc_message *newest; /* that was shown; not counted in its refs */
	bool ending;
	bool lost; /* it was told that it does not listen */
	int request_ms;
	int64_t listen_at_ms; /* 0: nothing to try */
	int64_t accept_at_ms;
	int64_t told_since_ms; /* lines about clients are counted from then */
	unsigned told, untold;
	uint8_t in[16384];
};

/* What nghttp2 is told of every session. ERR_NOMEM. */
int grpc_connection_prepare(struct grpc_server *s, struct err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: a gRPC server on a unix socket. HTTP/2 is nghttp2's; one thread, which never waits
 * in here. Messages are bytes: what they mean is the caller's. Used by one peer, the node's
 * kubelet, but nothing that connects is trusted. */
#ifndef DEVICEPLUGIN_GRPC_SERVER_H
#define DEVICEPLUGIN_GRPC_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/slice.h"

/* Status codes of gRPC that are answered here (grpc/grpc doc/statuscodes.md). */
enum grpc_status {
	GRPC_OK = 0,
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_FAILED_PRECONDITION = 9,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_INTERNAL = 13,
	GRPC_UNAVAILABLE = 14,
};

/* What a client sends may be this long (a message), and so many may its calls, connections and open
 * streams be. grpc-go's clients take 4 MiB at most of ours. */
#define GRPC_REQUEST_MAX (4u * 1024 * 1024)
#define GRPC_MESSAGE_MAX (4u * 1024 * 1024)
#define GRPC_CONNECTIONS_MAX 16
#define GRPC_STREAMS_MAX 32 /* calls at a time of one connection */
#define GRPC_OPEN_MAX 16    /* streams of answers, of all connections; the kubelet has one */

/* In front of every message: one byte of flags, four of length. */
#define GRPC_PREFIX 5
/* Bytes of requests that are being received and of answers that are being sent, of all clients. */
#define GRPC_KEPT_MAX (2u * GRPC_REQUEST_MAX)
/* Until what could not be done for want of anything is tried again. */
#define GRPC_RETRY_MS 1000

struct grpc_server;
/* An open answer of a method that streams. Ends with the call to `closed`. */
struct grpc_stream;

/* One method. Either call or open is set. request is the message alone, without gRPC's five bytes,
 * and valid for the call. */
struct grpc_method {
	const char *path; /* "/v1beta1.DevicePlugin/Allocate" */
	/* Append the one answer to reply, which holds something already and may refuse more
	 * (GRPC_RESOURCE_EXHAUSTED then, by itself). Anything but GRPC_OK refuses the call with
	 * err's message; reply is not sent then. */
	enum grpc_status (*call)(
		void *ctx, struct slice request, struct buf *reply, struct err *err);
	/* The client opened a stream of answers, on which may be shown from here on. Anything but
	 * GRPC_OK refuses it, then closed is not called. */
	enum grpc_status (*open)(
		void *ctx, struct grpc_stream *stream, struct slice request, struct err *err);
	/* Nothing may be shown in here, on no stream. */
	void (*closed)(void *ctx, struct grpc_stream *stream);
};

/* Show `message` (copied) on the stream as the newest state: a message that waits and of which no
 * byte was sent yet is replaced by it, so that a client that does not read costs one message beside
 * the one that it began to read. Streams that are shown the same bytes one after the other share
 * the copy. Sent in the next grpc_server_turn at the latest (the server's descriptor is readable
 * until then). ERR_TOOBIG over GRPC_MESSAGE_MAX, ERR_NOMEM; then the stream is as it was. */
int grpc_stream_show(struct grpc_stream *stream, struct slice message, struct err *err);

/* Listen at path (absolute, at most 107 bytes; mode 0600). methods (borrowed, path NULL ends them)
 * get ctx. A socket that a program left behind when it was killed is replaced; one at which
 * somebody answers is ERR_CONFLICT, and so is what is no socket, or another program that begins to
 * listen in that directory at this moment. ERR_INVALID: the path. ERR_IO with what to do (the
 * directory is missing, full, not writable). ERR_NOMEM. log is borrowed. */
int grpc_server_new(const char *path, const struct grpc_method *methods, void *ctx,
	const struct log *log, struct grpc_server **ret, struct err *err);

/* An unfinished request may be held for so long from now on, instead of 10 s; those that are there,
 * too. */
void grpc_server_patience(struct grpc_server *s, int request_ms);

/* What clients cost at the moment. */
struct grpc_load {
	size_t connections;
	size_t kept; /* bytes, at most GRPC_KEPT_MAX */
};
struct grpc_load grpc_server_load(const struct grpc_server *s);

/* A descriptor that is readable (poll, POLLIN) when there is something to do for grpc_server_turn.
 * The same for the server's whole life. */
int grpc_server_fd(const struct grpc_server *s);

/* Do what can be done without waiting: accept, read, call methods, write, drop connections that
 * break the protocol (one line in the log each, bounded) or that hold an unfinished request for
 * longer than 10 s. And when our socket was deleted or replaced (a kubelet that starts empties its
 * directory): listen anew at the same path, connections stay. Returns milliseconds until it wants
 * to be called again though nothing is readable, -1 for never. */
int grpc_server_turn(struct grpc_server *s);

/* False: the socket was taken away and there is no listening anew yet (no room, no directory,
 * somebody else answers at the path). It is tried once a second. A directory that was removed on
 * the host does not come back into a container: who waits in vain for this may as well end. */
bool grpc_server_listens(const struct grpc_server *s);

/* Send what is left without waiting long (at most wait_ms), end streams with GRPC_UNAVAILABLE,
 * close, remove the socket if it is still ours. closed is called for open streams. NULL-safe. */
void grpc_server_free(struct grpc_server *s, int wait_ms);

#endif

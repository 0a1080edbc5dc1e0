/* SPDX-License-Identifier: Apache-2.0 */
/* test: a gRPC server with methods of its own, and clients of it: one that is nghttp2's, one that
 * writes its frames by hand. All in one thread: what one side does, the other sees when the fixture
 * is turned. */
#ifndef TEST_UNIT_GRPC_FIXTURE_H
#define TEST_UNIT_GRPC_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nghttp2/nghttp2.h>

#include "base/buf.h"
#include "deviceplugin/grpc_server.h"

#define FIXTURE_STREAMS 64

struct grpc_fixture {
	char folder[64];
	char path[96];
	struct grpc_server *server;
	struct log log;
	struct grpc_stream *open[FIXTURE_STREAMS];
	size_t n_open;
	int calls, opened, closed;
	bool no_server_turn; /* the clients are left to themselves */
};

/* "/test.T/Echo"  answers its request · "/test.T/Size" with as many bytes as the number in it says
 * · "/test.T/Fail" with FAILED_PRECONDITION · "/test.T/Watch" streams, its request first if it is
 * not empty · "/test.T/Deny" refuses to stream. */
extern const struct grpc_method grpc_fixture_methods[];

/* cmocka's. *state is the fixture. */
int grpc_fixture_start(void **state);
int grpc_fixture_end(void **state);
/* Free the server and start another at the same path. */
void grpc_fixture_restart(struct grpc_fixture *f);

/* What was logged so far. The caller frees. */
char *grpc_fixture_log(struct grpc_fixture *f);
/* Bytes that the process has allocated. */
size_t grpc_fixture_memory(void);

/* ---- nghttp2's client ---- */

struct answer {
	int32_t id;
	char http[8];
	char type[64];
	char status[8];
	char message[2048];
	struct buf body;
	bool headers, ended, closed;
	uint32_t error; /* of the stream's end */
};

#define PEER_ANSWERS 64

struct peer {
	struct grpc_fixture *f;
	int fd;
	nghttp2_session *session;
	bool gone;       /* the server has closed */
	bool goaway;     /* and said so */
	bool deaf;       /* it does not read */
	uint32_t window; /* 0: HTTP/2's own */
	struct answer answer[PEER_ANSWERS];
	size_t n_answers;
};

struct request {
	const char *path;
	const char *method;    /* NULL: POST */
	const char *type;      /* NULL: application/grpc; "": none */
	const char *authority; /* NULL: localhost */
	struct slice body;     /* with gRPC's prefix */
	bool unfinished;       /* the stream stays open on our side */
};

int raw_connect(struct grpc_fixture *f);
void peer_open(struct grpc_fixture *f, struct peer *p);
void peer_close(struct peer *p);
struct answer *peer_send(struct peer *p, const struct request *r);
/* A message with its prefix. The caller releases. */
struct buf framed(const char *text, size_t len);
/* Whole: send text to path and turn until it is answered. */
struct answer *peer_call(struct peer *p, const char *path, const char *text);
/* Send and receive without waiting; was there something to receive? The functions below do that. */
void peer_write(struct peer *p);
bool peer_read(struct peer *p);
/* Turn until cond (NULL: never) or ms have passed; cond's last word. p may be NULL. */
bool grpc_fixture_turn(
	struct grpc_fixture *f, struct peer *p, bool (*cond)(void *arg), void *arg, int ms);
/* Turn until nothing happens any more. */
void grpc_fixture_settle(struct grpc_fixture *f, struct peer *p);
/* Conditions. */
bool answer_closed(void *answer);
bool peer_gone(void *peer);

/* ---- frames by hand ---- */

/* The client's preface and an empty SETTINGS. */
void raw_hello(struct buf *b);
void raw_frame(struct buf *b, uint8_t type, uint8_t flags, uint32_t stream, const void *payload,
	size_t len);
/* HEADERS of a call of path, with END_HEADERS. */
void raw_headers(struct buf *b, uint32_t stream, const char *path, uint8_t flags);
/* Write all of it, turning the server; false when the server closed before that or takes no more.
 */
bool raw_write(struct grpc_fixture *f, int fd, const struct buf *b);
/* Has the server closed? Turns for up to ms, and throws away what it reads. */
bool raw_ends(struct grpc_fixture *f, int fd, int ms);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test: a server on 127.0.0.1 with an application that counts, and raw clients for it. */
#ifndef TEST_UNIT_HTTP_FIXTURE_H
#define TEST_UNIT_HTTP_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "net/http_server.h"

/* More than the sockets of both ends hold. */
#define FIXTURE_LARGE ((size_t)16 << 20)

/* What the application saw. */
struct fixture {
	struct http_server *server;
	atomic_int handled, slow, queued, undone, done, logged, status;
	atomic_bool gate; /* slow() waits until it is open */
	pthread_mutex_t lock;
	char last_log[256]; /* under the lock, as is seen; for after the server has stopped */
	char seen[256];     /* path, argument, peer and time of the last request */
};

/* Routes: POST /echo (JSON), POST /later (JSON; slow() echoes once the gate is open), GET and
 * DELETE /livez, GET /v1/ (prefix), GET /open (whoever asks), GET /large (so many bytes).
 * cfg->listen may be NULL: 127.0.0.1, any port. */
void fixture_start(struct fixture *f, struct http_config cfg);
/* It may have stopped already: true. */
bool fixture_stop(struct fixture *f, unsigned timeout_ms);

/* Wait until *counter is at least value; false after 3 s. */
bool fixture_wait(atomic_int *counter, int value);
/* Wait until no request is in flight and no connection open; false after 3 s. */
bool fixture_idle(struct fixture *f);

/* Is text in what was seen of the last request? */
bool fixture_saw(struct fixture *f, const char *text);

void nap_ms(int ms);

int client_open(const struct fixture *f);
void client_send(int fd, const char *text, size_t len);
void client_text(int fd, const char *text);
/* One reply as text, headers and body, NUL-terminated; its status, 0 when the connection ended
 * before, -1 when nothing came within timeout_ms. head: the reply is one to HEAD. */
int client_read(int fd, char *ret, size_t size, int timeout_ms, bool head);
/* One reply within 2 s, not to HEAD, into client_reply; the test fails where it has another status.
 */
extern char client_reply[262144];
void client_gets(int fd, int status);
/* True when the server closes within timeout_ms. */
bool client_closed(int fd, int timeout_ms);

/* A whole POST of JSON. */
void client_post(int fd, const char *path, const char *body, size_t len);
/* The same, and client_gets(). */
void client_posts(int fd, const char *path, const char *body, size_t len, int status);

#endif

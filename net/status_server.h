/* SPDX-License-Identifier: Apache-2.0 */
/* net: GET /livez, /readyz, /metrics and a page of JSON, over TLS where that is wanted, answered by
 * the thread that does everything else, too. net/http_server would be another thread, and more
 * memory than all of this program's own. Whoever connects is held to a small request in a short
 * time, and gives up its place to a newcomer when all are taken: first of the peer that has most.
 */
#ifndef NET_STATUS_SERVER_H
#define NET_STATUS_SERVER_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "net/client_socket.h"

#define STATUS_CONNECTIONS_MAX 8
#define STATUS_TRIES 30
/* Descriptors that status_server_poll fills in at most. */
#define STATUS_POLL_MAX (1 + STATUS_CONNECTIONS_MAX)

struct status_server;

/* What is asked. */
struct status_app {
	void *ctx;
	/* NULL: ready; else why not, a sentence. */
	const char *(*unready)(void *ctx);
	/* Append all metrics. */
	void (*metrics)(void *ctx, struct buf *out);
	/* Append the JSON that stands at this path, "/usage"; NULL: there is none. */
	const char *page;
	void (*write_page)(void *ctx, struct buf *out);
	/* Our certificate, borrowed; NULL: plain HTTP. */
	struct server_tls *tls;
	/* May whoever shows this bearer token (absent: none) ask for more than /livez? Who does not
	 * may connect STATUS_TRIES times a minute. NULL: everybody may. */
	bool (*may)(void *ctx, struct slice token);
};

/* listen is "ADDR:PORT"; port 0: any free one. app is copied. ERR_INVALID, ERR_IO, ERR_NOMEM. */
int status_server_new(const char *listen, const struct status_app *app, struct status_server **ret,
	struct err *err);
/* NULL-safe. */
void status_server_free(struct status_server *s);
/* The port that is really bound. */
uint16_t status_server_port(const struct status_server *s);

/* What to wait for, filled into `to`; their number. *ret_ms is how many milliseconds at most, -1:
 * as long as you like. */
size_t status_server_poll(
	const struct status_server *s, struct pollfd to[static STATUS_POLL_MAX], int64_t *ret_ms);
/* Do what can be done without waiting. */
void status_server_turn(struct status_server *s);

#endif

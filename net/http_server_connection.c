/* SPDX-License-Identifier: Apache-2.0 */
/* net: a connection begins, makes room for another, and ends. */
#include "net/http_server_impl.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/listener.h"

/* So many are looked at before a newcomer finds no place made for it. */
#define SPARE_LOOKS 8
/* For so long a reply may be on its way before its connection counts as one that does nothing. */
#define DEAF_MS 100

void http_server_await(struct conn *c)
{
	const struct http_config *cfg = &c->server->cfg;
	http_guard_due(&c->watch, clock_ms() + cfg->idle_ms + cfg->header_ms);
}

/* The client trusts us, and may keep the connection in store: Go's transport opens one when a
 * request waits, sends that on another which came free, and believes for 90 s that this one is
 * good. Closed earlier, it would fail a review that goes out at this moment. */
static void on_trusted(void *ctx)
{
	struct conn *c = ctx;
	c->trusted_ms = clock_ms();
	http_place_set(&c->server->places, &c->place, HTTP_STAGE_UNUSED);
	http_server_await(c);
}

static struct conn *conn_at(struct http_place *place)
{
	return (struct conn *)((char *)place - offsetof(struct conn, place));
}

/* Has it sent what was not read yet? Of one that is in its handshake, that is nothing. Nor is it of
 * one that does not read its reply, which is gone in no time where somebody does. */
static bool has_sent(const struct http_place *place, const struct conn *c)
{
	char byte;
	if (place->stage == HTTP_STAGE_SENDING)
		return clock_ms() < c->replied_ms + DEAF_MS;
	return place->stage != HTTP_STAGE_NEW &&
	       recv(c->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* A request that is in the socket already was sent in good faith: then the next one is looked at,
 * so that nobody who sends byte by byte stands before all others. The last place is not waited for,
 * since nobody would be let in until somebody goes by himself. */
void http_server_make_room(struct http_server *s, struct http_place *newest)
{
	struct http_place *place = http_places_spare(&s->places, newest);
	for (unsigned looks = 1; place && has_sent(place, conn_at(place)); looks++) {
		if (looks == SPARE_LOOKS) {
			if (http_places_full(&s->places))
				break;
			return;
		}
		http_place_again(&s->places, place);
		place = http_places_spare(&s->places, newest);
	}
	if (!place)
		return;
	struct conn *c = conn_at(place);
	http_server_say(s, "%s: closed to make room for others: %u connections are open", c->peer,
		s->places.taken);
	http_place_set(&s->places, place, HTTP_STAGE_LEAVING);
	(void)shutdown(c->watch.fd, SHUT_RDWR);
	atomic_fetch_add(&s->displaced, 1);
}

static void conn_open(struct http_server *s, struct MHD_Connection *mhd, void **socket_context)
{
	const union MHD_ConnectionInfo *fd =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct conn *c = calloc(1, sizeof(*c));
	if (!c || !fd) {
		/* Without it the first request is refused by http_server_on_access; close the
		 * socket even before that. */
		if (fd)
			(void)shutdown(fd->connect_fd, SHUT_RDWR);
		free(c);
		return;
	}
	c->mhd = mhd;
	c->server = s;
	http_guard_due(&c->watch, clock_ms() + s->cfg.header_ms);
	int number = fd->connect_fd;
	const union MHD_ConnectionInfo *addr =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	listener_peer_text(addr ? addr->client_addr : NULL, c->peer);
	if (s->cfg.identity) {
		const union MHD_ConnectionInfo *tls =
			MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
		c->tls.finished = on_trusted;
		c->tls.ctx = c;
		c->tls.ask = s->cfg.clients != NULL;
		if (tls && tls->tls_session) {
			tls_session_attach(&c->tls, s->cfg.identity, tls->tls_session);
			tls_hold_attach(&c->hold, number, tls->tls_session);
		}
	}
	http_guard_add(&s->guard, &c->watch, number, mhd);
	atomic_fetch_add(&s->connections, 1);
	atomic_fetch_add(&s->accepted, 1);
	*socket_context = c;
	http_place_take(&s->places, &c->place, addr ? addr->client_addr : NULL);
	http_server_make_room(s, &c->place);
}

/* A connection ends before its first request, of which on_completed knows nothing. Plain ports stay
 * silent: who only looks whether they are open, as some probes do, does no wrong. */
static void say_unused(const struct conn *c)
{
	struct http_server *s = c->server;
	if (atomic_load(&c->watch.cut))
		http_server_say(s, "%s: closed after %g s without a request", c->peer,
			s->cfg.header_ms / 1000.0);
	else if (c->begun)
		http_server_say(s,
			"%s: a request's headers could not be read, or did not come to their end",
			c->peer);
	else if (c->trusted_ms && clock_ms() - c->trusted_ms >= s->cfg.header_ms)
		return; /* kept in store for long, and not needed */
	else if (c->tls.pair)
		http_server_say(s,
			"%s: the client went away without a request once it had the certificate: "
			"does "
			"it trust it (caBundle)?",
			c->peer);
	else if (s->cfg.identity)
		http_server_say(s,
			"%s: the TLS handshake did not succeed (plain HTTP, a TLS version before "
			"1.2, "
			"or a client that went away)",
			c->peer);
}

void http_server_on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
	enum MHD_ConnectionNotificationCode code)
{
	struct http_server *s = cls;
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		conn_open(s, mhd, socket_context);
		return;
	}
	struct conn *c = *socket_context;
	if (!c)
		return;
	*socket_context = NULL;
	http_guard_remove(&s->guard, &c->watch);
	if (!c->requested && c->place.stage != HTTP_STAGE_LEAVING && !atomic_load(&s->stopping))
		say_unused(c);
	http_place_free(&s->places, &c->place);
	tls_session_detach(&c->tls);
	http_call_free(c->call);
	free(c);
	atomic_fetch_sub(&s->connections, 1);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* gate: bytes both ways. */
#define _GNU_SOURCE
#include "gate/carry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* In one turn and direction. */
#define BURSTS 5
/* In one burst from TLS. */
#define RECORDS 8

void carry_begin(struct carry *c, struct client_socket *tls, int plain)
{
	*c = (struct carry){
		.tls = tls, .plain = plain, .tls_in = true, .plain_in = true, .plain_out = true};
	client_socket_read_ahead(tls);
}

void carry_release(struct carry *c)
{
	free(c->rest);
	c->rest = NULL;
}

void carry_told_tls(struct carry *c, uint32_t events)
{
	/* What is to be written is tried in every turn. */
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->tls_in = true;
}

void carry_told_plain(struct carry *c, uint32_t events)
{
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->plain_in = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		c->plain_out = true;
}

static int broke(struct err *err)
{
	return err_set(err, ERR_IO, "the server's side: %s", strerrordesc_np(errno));
}

/* ---- the plain side's bytes ---- */

static int carry_up(struct carry *c, char *scratch, bool *ret_more, struct err *err)
{
	int rc = client_socket_sending(c->tls) ? client_socket_turn(c->tls, err) : 0;

	for (int i = 0; rc == 0 && c->plain_in && !c->up_over && !client_socket_sending(c->tls);
		i++) {
		ssize_t n;
		size_t taken;

		if (i == BURSTS) {
			*ret_more = true;
			return 0;
		}
		n = recv(c->plain, scratch, CLIENT_SOCKET_BURST, 0);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return broke(err);
		if (n < 0) {
			c->plain_in = errno == EINTR;
		} else if (n == 0) {
			c->up_over = true;
			rc = client_socket_shut(c->tls, err);
		} else {
			c->up += (uint64_t)n;
			rc = client_socket_write(
				c->tls, (struct slice){scratch, (size_t)n}, &taken, err);
		}
	}
	return rc;
}

/* ---- the TLS side's bytes ---- */

/* True in *ret: all of it was taken. */
static int give(struct carry *c, const char *bytes, size_t len, size_t *ret_given, struct err *err)
{
	size_t given = 0;

	while (given < len && c->plain_out) {
		ssize_t n = send(c->plain, bytes + given, len - given, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return broke(err);
		if (n < 0)
			c->plain_out = errno == EINTR;
		else
			given += (size_t)n;
	}
	c->down += given;
	*ret_given = given;
	return 0;
}

static int give_rest(struct carry *c, struct err *err)
{
	size_t given = 0;
	int rc = give(c, c->rest + c->rest_at, c->rest_len, &given, err);

	c->rest_at += (uint32_t)given;
	c->rest_len -= (uint32_t)given;
	if (c->rest_len == 0)
		carry_release(c);
	return rc;
}

static int keep_rest(struct carry *c, const char *bytes, size_t len, struct err *err)
{
	c->rest = malloc(len);
	if (!c->rest)
		return err_set(err, ERR_NOMEM, "out of memory for a connection");
	memcpy(c->rest, bytes, len);
	c->rest_at = 0;
	c->rest_len = (uint32_t)len;
	return 0;
}

/* What TLS has in hand, a burst at most, and of small records so many that others have their turn,
 * too: each costs as much as a large one. What came before an error is there, too. */
static int gather(struct carry *c, char *scratch, size_t *ret_len, struct err *err)
{
	int rc = 0;

	*ret_len = 0;
	for (int i = 0; rc == 0 && i < RECORDS && c->tls_in && !c->tls_ended &&
			*ret_len < CLIENT_SOCKET_BURST;
		i++) {
		size_t n;

		rc = client_socket_read(c->tls, scratch + *ret_len, CLIENT_SOCKET_BURST - *ret_len,
			&n, &c->tls_ended, err);
		if (rc == 0 && n == 0)
			c->tls_in = !client_socket_dry(c->tls);
		*ret_len += n;
	}
	return rc;
}

static int carry_down(struct carry *c, char *scratch, bool *ret_more, struct err *err)
{
	int rc = c->rest ? give_rest(c, err) : 0;

	for (int i = 0; rc == 0 && c->tls_in && !c->tls_ended && !c->rest; i++) {
		size_t n, given = 0;
		int read;

		if (i == BURSTS) {
			*ret_more = true;
			return 0;
		}
		read = gather(c, scratch, &n, err);
		if (n > 0)
			rc = give(c, scratch, n, &given, err);
		if (rc == 0 && given < n)
			rc = keep_rest(c, scratch + given, n - given, err);
		rc = read ? read : rc;
	}
	if (rc == 0 && c->tls_ended && !c->rest && !c->down_over) {
		c->down_over = true;
		/* It may have ended itself meanwhile. */
		(void)shutdown(c->plain, SHUT_WR);
	}
	return rc;
}

int carry_turn(struct carry *c, char scratch[static CLIENT_SOCKET_BURST], bool *ret_more,
	bool *ret_over, struct err *err)
{
	int rc;

	*ret_more = false;
	rc = carry_up(c, scratch, ret_more, err);
	if (rc == 0)
		rc = carry_down(c, scratch, ret_more, err);
	*ret_over = rc == 0 && c->up_over && c->down_over && !client_socket_sending(c->tls);
	return rc;
}

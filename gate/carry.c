/* SPDX-License-Identifier: Apache-2.0 */
/* gate: bytes both ways. */
#define _GNU_SOURCE
#include "gate/carry.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* In one turn and direction. */
#define BURSTS 5
/* In one burst from TLS. */
#define RECORDS 8
/* Without TLS in one turn and direction: about as long as those with it; and in one call what a
 * pipe has room for, as the kernel makes it. */
#define SPLICES 16
#define SPLICE_BYTES 65536

void carry_begin(struct carry *c, struct client_socket *tls, int plain)
{
	*c = (struct carry){.tls = tls,
		.plain = plain,
		.up = {.in = true, .out = true},
		.down = {.in = true, .out = true}};
	client_socket_read_ahead(tls);
	/* A program that is stopped, or debugged, is not gone. */
	client_socket_patient(client_socket_fd(tls));
	client_socket_patient(plain);
}

void carry_splice(struct carry *c, int spare[2])
{
	int pod = client_socket_fd(c->tls);

	c->spare = spare;
	c->up.from = c->down.to = c->plain;
	c->up.to = c->down.from = pod;
	c->up.pipe[0] = c->down.pipe[0] = -1;
	c->up.in = c->down.in = false;
}

void carry_close_pipe(int pipe[2])
{
	if (pipe[0] < 0)
		return;
	(void)close(pipe[0]);
	(void)close(pipe[1]);
	pipe[0] = -1;
}

static void forget_rest(struct carry *c)
{
	free(c->rest);
	c->rest = NULL;
}

void carry_release(struct carry *c)
{
	forget_rest(c);
	if (!c->spare)
		return;
	carry_close_pipe(c->up.pipe);
	carry_close_pipe(c->down.pipe);
}

static void told(struct carry_way *from, struct carry_way *to, uint32_t events)
{
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		from->in = true;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		to->out = true;
}

void carry_told_tls(struct carry *c, uint32_t events)
{
	told(&c->down, &c->up, events);
	c->gone |= (events & EPOLLERR) != 0;
}

void carry_told_plain(struct carry *c, uint32_t events)
{
	told(&c->up, &c->down, events);
}

static int broke(struct err *err)
{
	return err_set(err, ERR_IO, "the server's side: %s", strerrordesc_np(errno));
}

/* ---- the plain side's bytes ---- */

static int carry_up(struct carry *c, char *scratch, bool *ret_more, struct err *err)
{
	int rc = client_socket_sending(c->tls) ? client_socket_turn(c->tls, err) : 0;

	for (int i = 0; rc == 0 && c->up.in && !c->up.over && !client_socket_sending(c->tls); i++) {
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
			c->up.in = errno == EINTR;
		} else if (n == 0) {
			c->up.over = true;
			rc = client_socket_shut(c->tls, err);
		} else {
			c->up.bytes += (uint64_t)n;
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

	while (given < len && c->down.out) {
		ssize_t n = send(c->plain, bytes + given, len - given, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return broke(err);
		if (n < 0)
			c->down.out = errno == EINTR;
		else
			given += (size_t)n;
	}
	c->down.bytes += given;
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
		forget_rest(c);
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
	for (int i = 0; rc == 0 && i < RECORDS && c->down.in && !c->tls_ended &&
			*ret_len < CLIENT_SOCKET_BURST;
		i++) {
		size_t n;

		rc = client_socket_read(c->tls, scratch + *ret_len, CLIENT_SOCKET_BURST - *ret_len,
			&n, &c->tls_ended, err);
		if (rc == 0 && n == 0)
			c->down.in = !client_socket_dry(c->tls);
		*ret_len += n;
	}
	return rc;
}

static int carry_down(struct carry *c, char *scratch, bool *ret_more, struct err *err)
{
	int rc = c->rest ? give_rest(c, err) : 0;

	for (int i = 0; rc == 0 && c->down.in && !c->tls_ended && !c->rest; i++) {
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
	if (rc == 0 && c->tls_ended && !c->rest && !c->down.over) {
		c->down.over = true;
		/* It may have ended itself meanwhile. */
		(void)shutdown(c->plain, SHUT_WR);
	}
	return rc;
}

/* ---- without TLS ---- */

static int take_pipe(struct carry *c, struct carry_way *w, struct err *err)
{
	if (w->pipe[0] >= 0)
		return 0;
	if (c->spare[0] < 0 && pipe2(c->spare, O_CLOEXEC) != 0) {
		c->spare[0] = -1;
		return err_set(err, ERR_IO, "no pipe: %s", strerrordesc_np(errno));
	}
	memcpy(w->pipe, c->spare, sizeof(w->pipe));
	c->spare[0] = -1;
	return 0;
}

/* An empty one is for whoever comes next. */
static void leave_pipe(struct carry *c, struct carry_way *w)
{
	if (w->held > 0 || w->pipe[0] < 0)
		return;
	carry_close_pipe(c->spare);
	memcpy(c->spare, w->pipe, sizeof(w->pipe));
	w->pipe[0] = -1;
}

static int side_broke(struct err *err)
{
	return err_set(err, ERR_IO, "a side broke: %s", strerrordesc_np(errno));
}

/* What was moved; 0: the end, or nothing can be moved now. */
static int move(int from, int to, size_t len, size_t *ret_moved, struct err *err)
{
	ssize_t n;

	do
		n = splice(from, NULL, to, NULL, len, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	while (n < 0 && errno == EINTR);
	*ret_moved = n > 0 ? (size_t)n : 0;
	return n >= 0 || errno == EAGAIN ? 0 : side_broke(err);
}

static bool has_work(const struct carry_way *w)
{
	return w->held > 0 ? w->out : w->in && !w->over;
}

/* Before a byte that was sent as urgent splice() sees nothing, for ever, or takes it for the end
 * where that came behind it: recv() leaves it out, and alone tells the end. */
static int pass_mark(struct carry_way *w, struct err *err)
{
	char some[256];
	ssize_t n = recv(w->from, some, sizeof(some), MSG_DONTWAIT);

	w->over = n == 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0 || (n > 0 && write(w->pipe[1], some, (size_t)n) != n))
		return side_broke(err);
	w->held = (size_t)n;
	return 0;
}

/* A pipe is filled when it is empty: else "not now" might be its own word, and not the socket's.
 * Whoever had less than was asked for is not asked again: the loop tells when there is more. */
static int fill(struct carry_way *w, struct err *err)
{
	int rc = move(w->from, w->pipe[1], SPLICE_BYTES, &w->held, err);

	w->in = w->held == SPLICE_BYTES;
	if (rc == 0 && w->held == 0)
		rc = pass_mark(w, err);
	/* It may have ended itself meanwhile. */
	if (w->over)
		(void)shutdown(w->to, SHUT_WR);
	return rc;
}

/* "Not now" while the loop tells of room would be a loop without end. A kernel that is short of
 * memory for TCP does not say both (tried on Linux 6.18): it takes some where nothing is in the
 * socket's send buffer, and else cuts that to half of what is in it, so that there is no room. But
 * it leaves alone what was set by SO_SNDBUF, and then says both: nobody may set that here. */
static int drain(struct carry_way *w, struct err *err)
{
	size_t n;
	int rc = move(w->pipe[0], w->to, w->held, &n, err);

	w->held -= n;
	w->bytes += n;
	w->out = w->held == 0;
	return rc;
}

static int splice_way(struct carry *c, struct carry_way *w, struct err *err)
{
	int rc = has_work(w) ? take_pipe(c, w, err) : 0;

	for (int i = 0; rc == 0 && i < SPLICES && has_work(w); i++) {
		if (w->held == 0)
			rc = fill(w, err);
		if (rc == 0 && w->held > 0)
			rc = drain(w, err);
	}
	leave_pipe(c, w);
	return rc;
}

/* Of a side, by the direction that begins there and the one that ends there. One of which nothing
 * is wanted is told of once at most: that it has broken, or hung up both ways, would not end. */
static uint32_t wants(const struct carry_way *from, const struct carry_way *to)
{
	uint32_t events =
		(from->held == 0 && !from->over ? EPOLLIN : 0) | (to->held > 0 ? EPOLLOUT : 0);

	return events ? events : EPOLLET;
}

int carry_ask(struct carry *c, int loop, struct loop_watch *pod, struct loop_watch *plain,
	struct err *err)
{
	int rc = loop_ask(loop, c->down.from, pod, wants(&c->down, &c->up), err);

	return rc ? rc : loop_ask(loop, c->up.from, plain, wants(&c->up, &c->down), err);
}

/* Of a pod that broke behind its end no call tells before the server says something: it may be a
 * long time at work for nobody. What it has not got yet of the pod's bytes would be lost where the
 * connection is broken: then it ends. */
static int look_for_pod(const struct carry *c, bool *ret_over, struct err *err)
{
	int left = 0;

	if (!c->gone || !c->down.over || c->up.over)
		return 0;
	*ret_over = ioctl(c->plain, SIOCOUTQ, &left) != 0 || left > 0;
	return *ret_over ? 0 : err_set(err, ERR_IO, "the pod's side broke after its end");
}

int carry_turn(struct carry *c, char scratch[static CLIENT_SOCKET_BURST], bool *ret_more,
	bool *ret_over, struct err *err)
{
	int rc;

	*ret_more = false;
	if (c->spare) {
		rc = splice_way(c, &c->up, err);
		if (rc == 0)
			rc = splice_way(c, &c->down, err);
		*ret_over = rc == 0 && c->up.over && c->down.over;
		return rc ? rc : look_for_pod(c, ret_over, err);
	}
	rc = carry_up(c, scratch, ret_more, err);
	if (rc == 0)
		rc = carry_down(c, scratch, ret_more, err);
	*ret_over = rc == 0 && c->up.over && c->down.over && !client_socket_sending(c->tls);
	return rc ? rc : look_for_pod(c, ret_over, err);
}

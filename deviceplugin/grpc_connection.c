/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: one client's HTTP/2: nghttp2 between the socket and the calls. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "deviceplugin/grpc_impl.h"

/* Reads in a row, before others have their turn. */
#define READS 4
/* PING and SETTINGS that wait to be acknowledged, entries of one SETTINGS, CONTINUATIONs of one
 * request; resets of streams: so many at once, and so many a second. */
#define ACKS_MAX 64
#define SETTINGS_MAX 32
#define CONTINUATIONS_MAX 8
#define RESETS_AT_ONCE 100
#define RESETS_PER_S 10

void grpc_connection_break(struct grpc_connection *c, const char *why)
{
	if (!c->broken)
		c->broken = why;
}

/* ---- what nghttp2 tells ---- */

static struct grpc_stream *stream_of(nghttp2_session *session, int32_t id)
{
	return id > 0 ? nghttp2_session_get_stream_user_data(session, id) : NULL;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct grpc_connection *c = user;
	struct grpc_stream *st;

	if (frame->hd.type != NGHTTP2_HEADERS || stream_of(session, frame->hd.stream_id))
		return 0;
	st = grpc_call_begin(c, frame->hd.stream_id);
	if (!st || nghttp2_session_set_stream_user_data(session, st->id, st) != 0) {
		grpc_connection_break(c, "out of memory");
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
	struct grpc_connection *c = user;
	struct grpc_stream *st = stream_of(session, frame->hd.stream_id);

	(void)flags;
	if (!st || grpc_call_header(st, (struct slice){(const char *)name, name_len},
			   (struct slice){(const char *)value, value_len}))
		return 0;
	grpc_connection_break(c, "headers over 16 KiB");
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
	size_t len, void *user)
{
	struct grpc_stream *st = stream_of(session, id);

	(void)flags, (void)user;
	if (st)
		grpc_call_data(st, bytes, len);
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct grpc_connection *c = user;
	struct grpc_stream *st = stream_of(session, frame->hd.stream_id);

	if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
		c->greeted = true;
	if (!st || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS)
		grpc_call_headed(st);
	if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		grpc_call_whole(st);
	return c->broken ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* An answer that came before the end of its request: the client may stop sending. And what the
 * client hears when nghttp2 gives it up. */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct grpc_connection *c = user;
	struct grpc_stream *st = stream_of(session, frame->hd.stream_id);

	if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
		c->given_up = c->wrong > 0 ? nghttp2_strerror(c->invalid)
					   : nghttp2_http2_strerror(frame->goaway.error_code);
	if (st && !st->whole && frame->hd.type == NGHTTP2_HEADERS &&
		(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
		nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, st->id, NGHTTP2_NO_ERROR) !=
			0)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	return 0;
}

static int on_closed(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
	struct grpc_stream *st = stream_of(session, id);

	(void)error, (void)user;
	if (st) {
		(void)nghttp2_session_set_stream_user_data(session, id, NULL);
		grpc_call_gone(st);
	}
	return 0;
}

static int on_invalid(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user)
{
	struct grpc_connection *c = user;

	(void)session, (void)frame;
	c->invalid = error;
	if (++c->wrong <= GRPC_WRONG_MAX)
		return 0;
	grpc_connection_break(c, "too many wrong frames");
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

int grpc_connection_prepare(struct grpc_server *s, struct err *err)
{
	nghttp2_session_callbacks *cb;

	if (nghttp2_option_new(&s->option) != 0 ||
		nghttp2_session_callbacks_new(&s->callbacks) != 0)
		return err_set(err, ERR_NOMEM, "out of memory");
	/* Kubelets before 1.26 send ":authority: /var/lib/kubelet/…", which is none: headers are
	 * taken as they come. */
	nghttp2_option_set_no_http_messaging(s->option, 1);
	nghttp2_option_set_no_closed_streams(s->option, 1);
	nghttp2_option_set_max_outbound_ack(s->option, ACKS_MAX);
	nghttp2_option_set_max_settings(s->option, SETTINGS_MAX);
	nghttp2_option_set_max_continuations(s->option, CONTINUATIONS_MAX);
	nghttp2_option_set_stream_reset_rate_limit(s->option, RESETS_AT_ONCE, RESETS_PER_S);
	cb = s->callbacks;
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_sent);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_closed);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid);
	return 0;
}

/* ---- its life ---- */

static bool greet(struct grpc_connection *c)
{
	static const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_STREAMS_MAX},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, GRPC_HEADERS_MAX},
		{NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
	};
	struct grpc_server *s = c->server;
	struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = c}};

	c->events = EPOLLIN;
	return nghttp2_session_server_new2(&c->session, s->callbacks, c, s->option) == 0 &&
	       nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings,
		       sizeof(settings) / sizeof(settings[0])) == 0 &&
	       epoll_ctl(s->epoll, EPOLL_CTL_ADD, c->fd, &event) == 0;
}

struct grpc_connection *grpc_connection_new(struct grpc_server *s, int fd)
{
	struct grpc_connection *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)close(fd);
		return NULL;
	}
	c->server = s;
	c->fd = fd;
	c->since_ms = clock_ms();
	if (!greet(c)) {
		grpc_connection_free(c);
		return NULL;
	}
	grpc_connection_write(c);
	return c;
}

void grpc_connection_free(struct grpc_connection *c)
{
	/* nghttp2 tells nothing of streams that end with their session */
	while (c->streams)
		grpc_call_gone(c->streams);
	nghttp2_session_del(c->session);
	(void)close(c->fd);
	free(c);
}

/* ---- bytes ---- */

static void look_for(struct grpc_connection *c, uint32_t events)
{
	struct epoll_event event = {.events = events, .data = {.ptr = c}};

	if (c->events == events)
		return;
	c->events = events;
	if (epoll_ctl(c->server->epoll, EPOLL_CTL_MOD, c->fd, &event) != 0)
		grpc_connection_break(c, "epoll_ctl failed");
}

void grpc_connection_wake(struct grpc_connection *c)
{
	look_for(c, c->events | EPOLLOUT);
}

static void is_wrong(struct grpc_connection *c, int error)
{
	if (error == NGHTTP2_ERR_BAD_CLIENT_MAGIC)
		grpc_connection_break(c, "it speaks no HTTP/2");
	else if (error == NGHTTP2_ERR_FLOODED)
		grpc_connection_break(c, "a flood of frames");
	else
		grpc_connection_break(c, nghttp2_strerror(error));
}

/* False when the socket takes no more now, or c is broken. */
static bool send_out(struct grpc_connection *c)
{
	while (c->out_len > 0) {
		ssize_t n = send(c->fd, c->out, c->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			if (errno != EAGAIN)
				grpc_connection_break(c, "");
			return false;
		}
		c->out += n;
		c->out_len -= (size_t)n;
	}
	return true;
}

/* A client that does not read is not read from: what it asks for then cannot pile up here. */
void grpc_connection_write(struct grpc_connection *c)
{
	while (!c->broken && send_out(c)) {
		ssize_t n = nghttp2_session_mem_send(c->session, &c->out);

		if (n < 0) {
			is_wrong(c, (int)n);
			return;
		}
		if (n == 0)
			break;
		c->out_len = (size_t)n;
	}
	if (c->broken)
		return;
	if (!nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session))
		grpc_connection_break(c, c->given_up ? c->given_up : "");
	else
		look_for(c, c->out_len > 0 ? EPOLLOUT : EPOLLIN);
}

void grpc_connection_read(struct grpc_connection *c)
{
	struct grpc_server *s = c->server;

	for (int i = 0; i < READS && !c->broken && c->out_len == 0; i++) {
		ssize_t n = recv(c->fd, s->in, sizeof(s->in), MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			grpc_connection_break(c, ""); /* it has gone */
			return;
		}
		n = nghttp2_session_mem_recv(c->session, s->in, (size_t)n);
		if (n < 0)
			is_wrong(c, (int)n);
		else
			grpc_connection_write(c);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test: clients of the gRPC server: nghttp2's, and one that writes its frames by hand. */
#include "test/unit/grpc_fixture.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	abort();
}

/* ---- nghttp2's client ---- */

static struct answer *answer_of(struct peer *p, int32_t id)
{
	for (size_t i = 0; i < p->n_answers; i++)
		if (p->answer[i].id == id)
			return &p->answer[i];
	return NULL;
}

static void copy(char *to, size_t size, const uint8_t *from, size_t len)
{
	must(to[0] == '\0' && len < size, "a header that comes twice, or is long");
	memcpy(to, from, len);
	to[len] = '\0';
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *user)
{
	struct answer *a = answer_of(user, frame->hd.stream_id);
	struct slice n = {(const char *)name, name_len};

	(void)session, (void)flags;
	if (!a)
		return 0;
	if (slice_is(n, ":status"))
		copy(a->http, sizeof(a->http), value, len);
	else if (slice_is(n, "content-type"))
		copy(a->type, sizeof(a->type), value, len);
	else if (slice_is(n, "grpc-status"))
		copy(a->status, sizeof(a->status), value, len);
	else if (slice_is(n, "grpc-message"))
		copy(a->message, sizeof(a->message), value, len);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
	size_t len, void *user)
{
	struct answer *a = answer_of(user, id);

	(void)session, (void)flags;
	if (a)
		buf_add(&a->body, bytes, len);
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct peer *p = user;
	struct answer *a = answer_of(p, frame->hd.stream_id);

	(void)session;
	if (frame->hd.type == NGHTTP2_GOAWAY)
		p->goaway = true;
	if (a && frame->hd.type == NGHTTP2_HEADERS) {
		/* the last headers, and only these, carry the status of a call */
		a->headers = true;
		a->ended = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
		must((a->status[0] != '\0') <= a->ended, "a status before the end");
	} else if (a && frame->hd.type == NGHTTP2_DATA) {
		must(!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM), "an end without trailers");
	}
	return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *user)
{
	struct answer *a = answer_of(user, id);

	(void)session;
	if (a) {
		a->closed = true;
		a->error = error;
	}
	return 0;
}

void peer_open(struct grpc_fixture *f, struct peer *p)
{
	nghttp2_session_callbacks *cb;
	nghttp2_option *option;
	nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, p->window};

	p->f = f;
	p->fd = raw_connect(f);
	must(nghttp2_session_callbacks_new(&cb) == 0 && nghttp2_option_new(&option) == 0,
		"nghttp2");
	nghttp2_option_set_no_http_messaging(option, 1);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
	must(nghttp2_session_client_new2(&p->session, cb, p, option) == 0, "nghttp2");
	must(nghttp2_submit_settings(p->session, 0, &window, p->window ? 1 : 0) == 0, "settings");
	nghttp2_session_callbacks_del(cb);
	nghttp2_option_del(option);
}

void peer_close(struct peer *p)
{
	nghttp2_session_del(p->session);
	(void)close(p->fd);
	for (size_t i = 0; i < p->n_answers; i++)
		buf_release(&p->answer[i].body);
	grpc_fixture_settle(p->f, NULL);
	*p = (struct peer){0};
}

struct sending {
	char *bytes;
	size_t len, at;
	bool unfinished;
};

static ssize_t give(nghttp2_session *session, int32_t id, uint8_t *to, size_t len, uint32_t *flags,
	nghttp2_data_source *source, void *user)
{
	struct sending *s = source->ptr;
	size_t n = s->len - s->at < len ? s->len - s->at : len;

	(void)session, (void)id, (void)user;
	memcpy(to, s->bytes + s->at, n);
	s->at += n;
	if (s->at < s->len)
		return (ssize_t)n;
	if (s->unfinished && n == 0)
		return NGHTTP2_ERR_DEFERRED;
	*flags |= s->unfinished ? 0 : NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static nghttp2_nv nv(const char *name, const char *value)
{
	return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
		strlen(value), 0};
}

struct answer *peer_send(struct peer *p, const struct request *r)
{
	/* used again when nobody reads from the first ones any more */
	static struct sending sending[512];
	static size_t n_sending;
	struct sending *s = &sending[n_sending++ % 512];
	nghttp2_nv field[8];
	size_t n = 0;
	struct answer *a = &p->answer[p->n_answers++];
	nghttp2_data_provider body = {{.ptr = s}, give};

	must(p->n_answers <= PEER_ANSWERS, "answers");
	free(s->bytes);
	*s = (struct sending){malloc(r->body.len + 1), r->body.len, 0, r->unfinished};
	must(s->bytes != NULL, "malloc");
	if (r->body.len > 0)
		memcpy(s->bytes, r->body.at, r->body.len);
	field[n++] = nv(":method", r->method ? r->method : "POST");
	field[n++] = nv(":scheme", "http");
	field[n++] = nv(":path", r->path);
	field[n++] = nv(":authority", r->authority ? r->authority : "localhost");
	if (!r->type || r->type[0] != '\0')
		field[n++] = nv("content-type", r->type ? r->type : "application/grpc");
	field[n++] = nv("te", "trailers");
	field[n++] = nv("user-agent", "grpc-go/1.79.3");
	field[n++] = nv("grpc-timeout", "9999m");
	*a = (struct answer){0};
	buf_init(&a->body, 16u << 20);
	a->id = nghttp2_submit_request(p->session, NULL, field, n, &body, NULL);
	must(a->id > 0, "submit");
	return a;
}

struct buf framed(const char *text, size_t len)
{
	struct buf b;
	char prefix[] = {0, (char)(len >> 24), (char)(len >> 16), (char)(len >> 8), (char)len};

	buf_init(&b, 16u << 20);
	buf_add(&b, prefix, sizeof(prefix));
	buf_add(&b, text, len);
	return b;
}

struct answer *peer_call(struct peer *p, const char *path, const char *text)
{
	struct buf body = framed(text, strlen(text));
	struct answer *a =
		peer_send(p, &(struct request){.path = path, .body = buf_as_slice(&body)});

	must(grpc_fixture_turn(p->f, p, answer_closed, a, 10000), "no answer");
	buf_release(&body);
	return a;
}

void peer_write(struct peer *p)
{
	const uint8_t *bytes;
	ssize_t len;

	/* socket buffers are large: what the tests write fits, or waits for the next turn */
	while (!p->gone && (len = nghttp2_session_mem_send(p->session, &bytes)) > 0) {
		while (len > 0) {
			ssize_t n = send(p->fd, bytes, (size_t)len, MSG_NOSIGNAL);

			if (n < 0 && errno == EAGAIN) {
				(void)grpc_server_turn(p->f->server);
				continue;
			}
			if (n < 0) {
				p->gone = true;
				return;
			}
			bytes += n;
			len -= n;
		}
	}
}

bool peer_read(struct peer *p)
{
	uint8_t bytes[16384];
	ssize_t n = p->gone || p->deaf ? -1 : recv(p->fd, bytes, sizeof(bytes), 0);

	if (n == 0 || (n < 0 && !p->gone && !p->deaf && errno != EAGAIN)) {
		p->gone = true;
		return false;
	}
	if (n > 0 && nghttp2_session_mem_recv(p->session, bytes, (size_t)n) != n)
		must(false, "the server's frames");
	return n > 0;
}

bool answer_closed(void *answer)
{
	const struct answer *a = answer;

	return a->closed;
}

bool peer_gone(void *peer)
{
	const struct peer *p = peer;

	return p->gone;
}

/* ---- frames by hand ---- */

int raw_connect(struct grpc_fixture *f)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, f->path);
	must(fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0, "connect");
	return fd;
}

void raw_frame(struct buf *b, uint8_t type, uint8_t flags, uint32_t stream, const void *payload,
	size_t len)
{
	uint8_t head[9] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, type, flags,
		(uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8),
		(uint8_t)stream};

	buf_add(b, head, sizeof(head));
	buf_add(b, payload, len);
}

void raw_hello(struct buf *b)
{
	buf_str(b, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
	raw_frame(b, NGHTTP2_SETTINGS, 0, 0, "", 0);
}

/* A field that stays out of HPACK's table; names and values below 127 bytes. */
static void literal(struct buf *b, const char *name, const char *value)
{
	buf_char(b, 0);
	buf_char(b, (char)strlen(name));
	buf_str(b, name);
	buf_char(b, (char)strlen(value));
	buf_str(b, value);
}

void raw_headers(struct buf *b, uint32_t stream, const char *path, uint8_t flags)
{
	struct buf block;

	buf_init(&block, 4096);
	literal(&block, ":method", "POST");
	literal(&block, ":scheme", "http");
	literal(&block, ":path", path);
	literal(&block, "content-type", "application/grpc");
	raw_frame(b, NGHTTP2_HEADERS, flags | NGHTTP2_FLAG_END_HEADERS, stream, block.data,
		block.len);
	buf_release(&block);
}

bool raw_write(struct grpc_fixture *f, int fd, const struct buf *b)
{
	size_t at = 0;
	int stuck = 0;

	while (at < b->len && stuck < 100) {
		ssize_t n = send(fd, b->data + at, b->len - at, MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			return false;
		stuck = n > 0 ? 0 : stuck + 1;
		at += n > 0 ? (size_t)n : 0;
		(void)grpc_server_turn(f->server);
	}
	return at == b->len;
}

bool raw_ends(struct grpc_fixture *f, int fd, int ms)
{
	int64_t until = clock_ms() + ms;
	char bytes[4096];

	for (;;) {
		struct pollfd p = {.fd = grpc_server_fd(f->server), .events = POLLIN};
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
		int due;

		if (n == 0 || (n < 0 && errno != EAGAIN))
			return true;
		due = grpc_server_turn(f->server);
		if (clock_ms() > until)
			return false;
		(void)poll(&p, 1, due >= 0 && due < 10 ? due : 10);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: one call: its headers, its one message, its method. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "deviceplugin/grpc_impl.h"

/* ---- what it holds ---- */

bool grpc_call_keep(struct grpc_stream *st, size_t bytes)
{
	struct grpc_connection *c = st->of;

	if (bytes > GRPC_KEPT_OF_ONE - c->kept || bytes > GRPC_KEPT_MAX - c->server->kept)
		return false;
	st->kept += bytes;
	c->kept += bytes;
	c->server->kept += bytes;
	return true;
}

void grpc_call_let_go(struct grpc_stream *st)
{
	st->of->kept -= st->kept;
	st->of->server->kept -= st->kept;
	st->kept = 0;
}

static void drop_request(struct grpc_stream *st)
{
	buf_release(&st->request);
	grpc_call_let_go(st);
}

struct grpc_stream *grpc_call_begin(struct grpc_connection *c, int32_t id)
{
	struct grpc_stream *st = calloc(1, sizeof(*st));

	if (!st)
		return NULL;
	st->of = c;
	st->id = id;
	st->since_ms = clock_ms();
	st->next = c->streams;
	st->at = &c->streams;
	if (st->next)
		st->next->at = &st->next;
	c->streams = st;
	return st;
}

void grpc_call_gone(struct grpc_stream *st)
{
	struct grpc_server *s = st->of->server;

	if (st->open) {
		st->open = false;
		s->n_open--;
		if (st->method->closed)
			st->method->closed(s->ctx, st);
	}
	*st->at = st->next;
	if (st->next)
		st->next->at = st->at;
	grpc_reply_release(st);
	drop_request(st);
	free(st);
}

/* ---- headers ---- */

/* "application/grpc", its "+proto", and parameters of either. */
static bool is_grpc(struct slice type)
{
	const struct slice grpc = SLICE("application/grpc"), proto = SLICE("+proto");

	if (!slice_starts(type, grpc))
		return false;
	type = (struct slice){type.at + grpc.len, type.len - grpc.len};
	if (slice_starts(type, proto))
		type = (struct slice){type.at + proto.len, type.len - proto.len};
	return type.len == 0 || type.at[0] == ';' || type.at[0] == ' ';
}

static const struct grpc_method *find(const struct grpc_server *s, struct slice path)
{
	for (const struct grpc_method *m = s->methods; m->path; m++)
		if (slice_is(path, m->path))
			return m;
	return NULL;
}

/* The first reason counts. */
static void refuse(struct grpc_stream *st, enum grpc_status status, const char *why)
{
	if (st->status != GRPC_OK || st->http != 0)
		return;
	st->status = status;
	st->why = why;
}

/* What was refused is answered at once: whatever the client still sends is not looked at. */
static void settle(struct grpc_stream *st)
{
	if (st->answered || (st->status == GRPC_OK && st->http == 0))
		return;
	drop_request(st);
	grpc_reply_refuse(st, st->why);
}

bool grpc_call_header(struct grpc_stream *st, struct slice name, struct slice value)
{
	st->header_bytes += name.len + value.len + 32; /* RFC 9113, 6.5.2 */
	if (st->header_bytes > GRPC_HEADERS_MAX)
		return false;
	/* Everything else (te, user-agent, grpc-timeout, :authority) is the client's own affair. */
	if (st->headed) {
		return true;
	} else if (slice_is(name, ":method")) {
		st->post = slice_is(value, "POST");
	} else if (slice_is(name, "content-type")) {
		st->typed = is_grpc(value);
	} else if (slice_is(name, ":path")) {
		if (st->pathed)
			refuse(st, GRPC_INTERNAL, "two :path headers");
		st->pathed = true;
		st->method = find(st->of->server, value);
	}
	return true;
}

void grpc_call_headed(struct grpc_stream *st)
{
	if (st->headed)
		return;
	st->headed = true;
	if (!st->post)
		st->http = 405;
	else if (!st->typed)
		st->http = 415;
	else if (!st->method)
		refuse(st, GRPC_UNIMPLEMENTED, "there is no such method");
	else if (st->of->server->ending)
		refuse(st, GRPC_UNAVAILABLE, "the device plugin ends");
	settle(st);
}

/* ---- the message ---- */

static void announced(struct grpc_stream *st)
{
	const uint8_t *p = st->prefix;
	size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];

	if (p[0] == 1)
		refuse(st, GRPC_UNIMPLEMENTED, "compressed messages are not understood");
	else if (p[0] != 0)
		refuse(st, GRPC_INTERNAL, "a message with unknown flags");
	else if (len > GRPC_REQUEST_MAX)
		refuse(st, GRPC_RESOURCE_EXHAUSTED, "the message is longer than 4 MiB");
	else
		buf_init(&st->request, len);
}

static void take(struct grpc_stream *st, const uint8_t *bytes, size_t len)
{
	if (!grpc_call_keep(st, len))
		refuse(st, GRPC_RESOURCE_EXHAUSTED, "too much is being sent at a time");
	else
		buf_add(&st->request, bytes, len);
	if (st->request.failed)
		refuse(st, GRPC_RESOURCE_EXHAUSTED, "out of memory");
}

void grpc_call_data(struct grpc_stream *st, const uint8_t *bytes, size_t len)
{
	while (len > 0 && !st->answered) {
		size_t n = GRPC_PREFIX - st->prefix_len;

		if (n > 0) {
			n = n < len ? n : len;
			memcpy(st->prefix + st->prefix_len, bytes, n);
			st->prefix_len += n;
			if (st->prefix_len == GRPC_PREFIX)
				announced(st);
		} else {
			n = st->request.max - st->request.len;
			n = n < len ? n : len;
			if (n == 0)
				refuse(st, GRPC_UNIMPLEMENTED, "more than one message");
			else
				take(st, bytes, n);
		}
		bytes += n;
		len -= n;
		settle(st);
	}
}

/* ---- the method ---- */

static void call(struct grpc_stream *st, struct slice request)
{
	struct grpc_server *s = st->of->server;
	struct err err = {0};
	struct buf reply;

	buf_init(&reply, GRPC_PREFIX + GRPC_MESSAGE_MAX);
	buf_add(&reply, "\0\0\0\0", GRPC_PREFIX);
	st->status = st->method->call(s->ctx, request, &reply, &err);
	if (st->status == GRPC_OK && reply.failed) {
		st->status = GRPC_RESOURCE_EXHAUSTED;
		(void)err_set(&err, ERR_NOMEM,
			reply.full ? "the answer is longer than 4 MiB" : "out of memory");
	}
	drop_request(st);
	if (st->status != GRPC_OK)
		grpc_reply_refuse(st, err.msg);
	else
		grpc_reply_one(st, &reply);
	buf_release(&reply);
}

static void open_stream(struct grpc_stream *st, struct slice request)
{
	struct grpc_server *s = st->of->server;
	struct err err = {0};

	if (s->n_open >= GRPC_OPEN_MAX) {
		refuse(st, GRPC_RESOURCE_EXHAUSTED, "too many clients listen already");
		settle(st);
		return;
	}
	st->status = st->method->open(s->ctx, st, request, &err);
	drop_request(st);
	if (st->status != GRPC_OK) {
		grpc_reply_refuse(st, err.msg);
		return;
	}
	st->open = true;
	s->n_open++;
	st->since_ms = 0;
	grpc_reply_stream(st);
}

void grpc_call_whole(struct grpc_stream *st)
{
	struct slice request;

	st->whole = true;
	if (st->answered)
		return;
	if (st->prefix_len == 0)
		refuse(st, GRPC_UNIMPLEMENTED, "no message");
	else if (st->prefix_len < GRPC_PREFIX || st->request.len < st->request.max)
		refuse(st, GRPC_INTERNAL, "the request ends within its message");
	settle(st);
	if (st->answered)
		return;
	request = (struct slice){st->request.data ? st->request.data : "", st->request.len};
	if (st->method->open)
		open_stream(st, request);
	else
		call(st, request);
}

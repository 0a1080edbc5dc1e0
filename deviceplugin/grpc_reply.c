/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: what goes back to a client: messages in DATA frames, a status in trailers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "deviceplugin/grpc_impl.h"

/* A sentence of err's, each byte as three. */
#define ENCODED_MAX (3 * sizeof(((struct err *)NULL)->msg))

/* ---- messages ---- */

static void put_prefix(char *bytes, size_t len)
{
	bytes[0] = 0;
	bytes[1] = (char)(len >> 24);
	bytes[2] = (char)(len >> 16);
	bytes[3] = (char)(len >> 8);
	bytes[4] = (char)len;
}

/* bytes becomes its own. NULL: out of memory, and bytes is freed. */
static struct grpc_message *message_of(struct grpc_server *s, char *bytes, size_t len)
{
	struct grpc_message *m = malloc(sizeof(*m));

	if (!m) {
		free(bytes);
		return NULL;
	}
	put_prefix(bytes, len - GRPC_PREFIX);
	*m = (struct grpc_message){s, 1, len, bytes};
	return m;
}

static void message_release(struct grpc_message *m)
{
	if (!m || --m->refs > 0)
		return;
	if (m->server->newest == m)
		m->server->newest = NULL;
	free(m->bytes);
	free(m);
}

/* Everybody is shown the same: those who are slow share it. */
static struct grpc_message *message_shared(struct grpc_server *s, struct slice text)
{
	struct grpc_message *m = s->newest;
	char *bytes;

	if (m && m->len == GRPC_PREFIX + text.len &&
		(text.len == 0 || memcmp(m->bytes + GRPC_PREFIX, text.at, text.len) == 0)) {
		m->refs++;
		return m;
	}
	bytes = malloc(GRPC_PREFIX + text.len);
	if (!bytes)
		return NULL;
	if (text.len > 0)
		memcpy(bytes + GRPC_PREFIX, text.at, text.len);
	m = message_of(s, bytes, GRPC_PREFIX + text.len);
	if (m)
		s->newest = m;
	return m;
}

void grpc_reply_release(struct grpc_stream *st)
{
	message_release(st->now);
	message_release(st->next_message);
	st->now = NULL;
	st->next_message = NULL;
}

/* ---- headers and trailers ---- */

#define NV(name, value) nv(name, value, strlen(value))

static nghttp2_nv nv(char *name, char *value, size_t len)
{
	return (nghttp2_nv){
		(uint8_t *)name, (uint8_t *)value, strlen(name), len, NGHTTP2_NV_FLAG_NONE};
}

/* grpc-message: printable ASCII, the rest and '%' as %XX. */
static void encode(const char *text, char ret[static ENCODED_MAX])
{
	static const char hex[] = "0123456789ABCDEF";
	size_t at = 0;

	for (; *text != '\0' && at + 4 <= ENCODED_MAX; text++) {
		unsigned char c = (unsigned char)*text;

		if (c >= 0x20 && c <= 0x7e && c != '%') {
			ret[at++] = (char)c;
		} else {
			ret[at++] = '%';
			ret[at++] = hex[c >> 4];
			ret[at++] = hex[c & 15];
		}
	}
	ret[at] = '\0';
}

/* grpc-status, and grpc-message if there is something to say. The texts must outlive the fields. */
struct status_text {
	char number[12];
	char message[ENCODED_MAX];
};

static size_t status_fields(enum grpc_status status, const char *why, struct status_text *text,
	nghttp2_nv ret[static 2])
{
	static char name[] = "grpc-status", detail[] = "grpc-message";

	(void)snprintf(text->number, sizeof(text->number), "%d", (int)status);
	ret[0] = NV(name, text->number);
	if (!why || why[0] == '\0')
		return 1;
	encode(why, text->message);
	ret[1] = NV(detail, text->message);
	return 2;
}

static char name_status[] = ":status", name_type[] = "content-type", ok[] = "200",
	    grpc[] = "application/grpc";

static void submit(struct grpc_stream *st, const nghttp2_nv *field, size_t n,
	const nghttp2_data_provider *provider)
{
	st->answered = true;
	/* until the client has taken it */
	st->since_ms = st->open ? 0 : clock_ms();
	if (nghttp2_submit_response(st->of->session, st->id, field, n, provider) != 0)
		grpc_connection_break(st->of, "out of memory");
}

void grpc_reply_refuse(struct grpc_stream *st, const char *why)
{
	struct status_text text = {0};
	char http[12];
	nghttp2_nv field[4];
	size_t n = 1;

	grpc_reply_release(st);
	if (st->http != 0) {
		(void)snprintf(http, sizeof(http), "%u", st->http);
		field[0] = NV(name_status, http);
	} else {
		field[0] = NV(name_status, ok);
		field[1] = NV(name_type, grpc);
		n = 2 + status_fields(st->status, why, &text, field + 2);
	}
	submit(st, field, n, NULL);
}

static int submit_trailers(struct grpc_stream *st)
{
	struct status_text text = {0};
	nghttp2_nv field[2];
	size_t n = status_fields(st->status, st->why, &text, field);

	return nghttp2_submit_trailer(st->of->session, st->id, field, n);
}

/* ---- the body ---- */

static void next_message(struct grpc_stream *st)
{
	message_release(st->now);
	st->now = st->next_message;
	st->next_message = NULL;
	st->sent = 0;
	grpc_call_let_go(st);
}

/* nghttp2 asks for the next frame's bytes. */
static ssize_t give(nghttp2_session *session, int32_t id, uint8_t *to, size_t len, uint32_t *flags,
	nghttp2_data_source *source, void *user)
{
	struct grpc_stream *st = source->ptr;
	size_t n = 0;

	(void)session, (void)id, (void)user;
	if (st->now) {
		n = st->now->len - st->sent;
		n = n < len ? n : len;
		memcpy(to, st->now->bytes + st->sent, n);
		st->sent += n;
		if (st->sent == st->now->len)
			next_message(st);
	}
	if (!st->now && st->ending) {
		*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (submit_trailers(st) != 0)
			return NGHTTP2_ERR_CALLBACK_FAILURE;
	} else if (n == 0) {
		st->deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	return (ssize_t)n;
}

void grpc_reply_stream(struct grpc_stream *st)
{
	nghttp2_nv field[2] = {NV(name_status, ok), NV(name_type, grpc)};
	nghttp2_data_provider body = {{.ptr = st}, give};

	submit(st, field, 2, &body);
}

void grpc_reply_one(struct grpc_stream *st, struct buf *reply)
{
	size_t len = reply->len;
	char *bytes;

	st->status = GRPC_RESOURCE_EXHAUSTED;
	if (!grpc_call_keep(st, len)) {
		grpc_reply_refuse(st, "too many answers wait");
		return;
	}
	bytes = buf_take(reply, &len);
	st->now = bytes ? message_of(st->of->server, bytes, len) : NULL;
	if (!st->now) {
		grpc_reply_refuse(st, "out of memory");
		return;
	}
	st->status = GRPC_OK;
	st->ending = true;
	grpc_reply_stream(st);
}

static void wake(struct grpc_stream *st)
{
	if (st->deferred) {
		st->deferred = false;
		if (nghttp2_session_resume_data(st->of->session, st->id) == NGHTTP2_ERR_NOMEM)
			grpc_connection_break(st->of, "out of memory");
	}
	grpc_connection_wake(st->of);
}

void grpc_reply_end(struct grpc_stream *st, enum grpc_status status, const char *why)
{
	st->ending = true;
	st->status = status;
	st->why = why;
	wake(st);
}

int grpc_stream_show(struct grpc_stream *st, struct slice message, struct err *err)
{
	struct grpc_message *m;

	if (message.len > GRPC_MESSAGE_MAX)
		return err_set(err, ERR_TOOBIG, "a message of %zu bytes; clients take %u at most",
			message.len, GRPC_MESSAGE_MAX);
	m = message_shared(st->of->server, message);
	if (!m)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (!st->now || st->sent == 0) {
		message_release(st->now);
		st->now = m;
	} else {
		message_release(st->next_message);
		st->next_message = m;
	}
	wake(st);
	return 0;
}

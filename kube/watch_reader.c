/* SPDX-License-Identifier: Apache-2.0 */
/* kube: the lines of a watch. */
#include "kube/watch_reader.h"

#include <string.h>

#include "kube/kube_answer.h"
#include "kube/kube_object.h"

/* Memory that one long line took is given back. */
#define KEEP_MAX (256u << 10)

void watch_reader_init(struct watch_reader *r, watch_on_event *on_event, void *ctx)
{
	*r = (struct watch_reader){.on_event = on_event, .ctx = ctx};
	buf_init(&r->line, WATCH_LINE_MAX + JSON_PAD);
}

void watch_reader_reset(struct watch_reader *r)
{
	buf_clear(&r->line);
	r->expired = false;
	err_clear(&r->err);
}

void watch_reader_release(struct watch_reader *r)
{
	buf_release(&r->line);
	json_release(&r->json);
}

static bool bad(struct watch_reader *r, enum err_code code, const char *why)
{
	(void)err_set(&r->err, code, "a watch sent what is no event: %s", why);
	return false;
}

/* An ERROR event: its object is a Status. */
static bool on_error(struct watch_reader *r, const struct json_node *status)
{
	struct buf message;
	int64_t code = 0;

	if (!json_int(&r->json, json_get(&r->json, status, SLICE("code")), &code))
		return bad(r, ERR_SYNTAX, "an error without a code");
	r->expired = code == 410;
	buf_init(&message, 4096);
	json_decode(&r->json, json_get(&r->json, status, SLICE("message")), &message);
	(void)err_set(&r->err, ERR_IO, "the watch ended with %d: %s", (int)code,
		message.len ? message.data : "no message");
	buf_release(&message);
	return false;
}

static bool on_line(struct watch_reader *r)
{
	struct watch_event event = {.json = &r->json};
	const struct json_node *type;
	struct slice version;
	struct err what = {0};
	int rc;

	if (!buf_reserve(&r->line, JSON_PAD))
		return bad(r, ERR_NOMEM, "out of memory");
	memset(r->line.data + r->line.len, 0, JSON_PAD);
	rc = json_read(&r->json, r->line.data, r->line.len, KUBE_NODES_MAX, &what);
	if (rc != 0)
		return bad(r, (enum err_code)rc, what.msg);
	type = json_get(&r->json, json_root(&r->json), SLICE("type"));
	event.object = json_get(&r->json, json_root(&r->json), SLICE("object"));
	if (json_is_str(&r->json, type, SLICE("ERROR")))
		return on_error(r, event.object);
	if (json_is_str(&r->json, type, SLICE("ADDED")) ||
		json_is_str(&r->json, type, SLICE("MODIFIED")))
		event.what = KUBE_PUT;
	else if (json_is_str(&r->json, type, SLICE("DELETED")))
		event.what = KUBE_GONE;
	else if (json_is_str(&r->json, type, SLICE("BOOKMARK")))
		event.what = KUBE_BOOKMARK;
	else
		return bad(r, ERR_SYNTAX, "its type is unknown");
	version = kube_meta(&r->json, event.object).version;
	if (version.len == 0 || version.len >= sizeof(event.version))
		return bad(r, ERR_SYNTAX, "an object without a resourceVersion");
	memcpy(event.version, version.at, version.len);
	return r->on_event(r->ctx, &event, &r->err) == 0;
}

bool watch_reader_read(struct watch_reader *r, struct slice bytes)
{
	bool more = r->err.code == ERR_NONE;

	while (more && bytes.len > 0) {
		const char *end = memchr(bytes.at, '\n', bytes.len);
		size_t n = end ? (size_t)(end - bytes.at) : bytes.len;

		if (n > WATCH_LINE_MAX - r->line.len)
			return bad(r, ERR_TOOBIG, "a line that is too long");
		buf_add(&r->line, bytes.at, n);
		if (r->line.failed)
			return bad(r, ERR_NOMEM, "out of memory");
		if (!end)
			return true;
		bytes.at += n + 1;
		bytes.len -= n + 1;
		if (r->line.len > 0)
			more = on_line(r);
		if (r->line.cap > KEEP_MAX) {
			buf_release(&r->line);
			json_release(&r->json);
		}
		buf_clear(&r->line);
	}
	return more;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* kube: what an answer of the Kubernetes API means, whoever fetched it. */
#include "kube/kube_answer.h"

#include <string.h>

#include "base/text.h"

/* Of an answer that is no Status, in a message. */
#define EXCERPT_MAX 200

int kube_read(struct buf *body, struct json *j, struct err *err)
{
	body->max = body->len + JSON_PAD;
	if (!buf_reserve(body, JSON_PAD))
		return err_set(
			err, ERR_NOMEM, "out of memory for an answer of %zu bytes", body->len);
	memset(body->data + body->len, 0, JSON_PAD);
	if (strspn(body->data, " \t\r\n") == body->len)
		return 0;
	return json_read(j, body->data, body->len, KUBE_NODES_MAX, err);
}

static enum err_code code_of(long status)
{
	switch (status) {
	case 401:
	case 403:
		return ERR_REFUSED;
	case 404:
		return ERR_NOTFOUND;
	case 409:
	case 412:
		return ERR_CONFLICT;
	case 413:
		return ERR_TOOBIG;
	case 429:
		return ERR_IO;
	case 504:
		return ERR_TIMEOUT;
	default:
		return status >= 400 && status < 500 ? ERR_INVALID : ERR_IO;
	}
}

int kube_failure(const char *method, const char *path, long status, const struct json *j,
	struct slice body, struct err *err)
{
	const struct json_node *root = json_root(j);
	struct buf message;
	char reason[32] = "";
	struct slice word = json_inside(j, json_path(j, root, "reason", NULL));
	int code;

	buf_init(&message, 4096);
	json_decode(j, json_path(j, root, "message", NULL), &message);
	/* "Too many requests, please try again later." comes as plain text. */
	if (message.len == 0)
		buf_add(&message, body.at, text_utf8_cut(body, EXCERPT_MAX));
	while (message.len > 0 && strchr(" \r\n", message.data[message.len - 1]))
		message.data[--message.len] = '\0';
	if (word.at && word.len < sizeof(reason))
		memcpy(reason, word.at, word.len);
	code = err_reason(err, code_of(status), reason, "%s %s: %ld%s%s", method, path, status,
		message.len ? " " : "", message.len ? message.data : "");
	buf_release(&message);
	return code;
}

/* ---- pages ---- */

char kube_separator(const char *path)
{
	return strchr(path, '?') ? '&' : '?';
}

void kube_page_path(const struct kube_page *page, const char *path, struct buf *out)
{
	buf_fmt(out, "%s%climit=%d", path, kube_separator(path), KUBE_PAGE);
	if (page->next.len > 0) {
		buf_str(out, "&continue=");
		buf_percent(out, buf_as_slice(&page->next));
	}
}

int kube_page_read(struct kube_page *page, const char *path, const struct json *j, struct err *err)
{
	const struct json_node *meta = json_get(j, json_root(j), SLICE("metadata"));
	struct slice version = json_inside(j, json_get(j, meta, SLICE("resourceVersion")));

	if (version.len == 0 || version.len >= sizeof(page->version))
		return err_set(err, ERR_SYNTAX,
			"GET %s: the answer is no list: it has no resourceVersion", path);
	memcpy(page->version, version.at, version.len);
	page->version[version.len] = '\0';
	buf_clear(&page->next);
	json_decode(j, json_get(j, meta, SLICE("continue")), &page->next);
	return page->next.failed ? err_set(err, ERR_NOMEM, "GET %s: out of memory", path) : 0;
}

int kube_page_items(
	const struct json *j, const char *path, const struct json_node **ret, struct err *err)
{
	const struct json_node *items = json_get(j, json_root(j), SLICE("items"));

	if (!items || (!json_absent(items) && !json_is(items, JSON_ARRAY)))
		return err_set(
			err, ERR_SYNTAX, "GET %s: the answer is no list: it has no items", path);
	*ret = items;
	return 0;
}

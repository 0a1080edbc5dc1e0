/* SPDX-License-Identifier: Apache-2.0 */
/* net: the head of an answer. */
#include "net/http_head.h"

#include <string.h>

#include "base/text.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct slice trim(struct slice s)
{
	while (s.len > 0 && is_blank(s.at[0])) {
		s.at++;
		s.len--;
	}
	while (s.len > 0 && is_blank(s.at[s.len - 1]))
		s.len--;
	return s;
}

struct slice http_head_value(struct slice head, const char *name, size_t n)
{
	while (head.len > 0) {
		const char *end = memchr(head.at, '\n', head.len), *colon;
		struct slice line = {head.at, end ? (size_t)(end - head.at) + 1 : head.len};

		head.at += line.len;
		head.len -= line.len;
		colon = memchr(line.at, ':', line.len);
		if (!colon || !text_ieq((struct slice){line.at, (size_t)(colon - line.at)},
				      slice_of(name)))
			continue;
		if (n-- == 0)
			return trim((struct slice){
				colon + 1, line.len - (size_t)(colon + 1 - line.at)});
	}
	return (struct slice){0};
}

struct slice http_media_type(struct slice value)
{
	const char *semicolon = value.len > 0 ? memchr(value.at, ';', value.len) : NULL;

	if (semicolon)
		value.len = (size_t)(semicolon - value.at);
	return trim(value);
}

/* ---- URLs ---- */

static bool in_host(char c)
{
	return text_is_lower_alnum(c) || c == '-' || c == '.';
}

/* Names with letters, digits and '-' between single dots: a dot at the end would be another
 * spelling of the same host. */
static bool host_is_plain(struct slice host)
{
	for (size_t i = 0; i < host.len; i++)
		if (host.at[i] == '.' && (i == 0 || i + 1 == host.len || host.at[i - 1] == '.'))
			return false;
	return host.len > 0 && host.len <= 253;
}

bool https_url_read(struct slice text, struct https_url *ret)
{
	size_t from = sizeof("https://") - 1, i = from, port;
	uint64_t number;

	if (!slice_starts(text, SLICE("https://")))
		return false;
	for (size_t k = 0; k < text.len; k++)
		if (text.at[k] <= ' ' || text.at[k] > '~' || strchr("\"#<>\\^`{|}", text.at[k]))
			return false;
	while (i < text.len && in_host(text.at[i]))
		i++;
	ret->host = (struct slice){text.at + from, i - from};
	if (!host_is_plain(ret->host))
		return false;
	if (i < text.len && text.at[i] == ':') {
		for (port = ++i; i < text.len && text_is_digit(text.at[i]);)
			i++;
		if (i == port || text.at[port] == '0' ||
			!text_u64((struct slice){text.at + port, i - port}, 65535, &number))
			return false;
		if (number != 443)
			ret->host.len = i - from;
	}
	ret->rest = (struct slice){text.at + i, text.len - i};
	return ret->rest.len == 0 || ret->rest.at[0] == '/';
}

bool https_host_good(struct slice text)
{
	char whole[sizeof("https://:65535") + 253] = "https://";
	struct https_url url;

	if (text.len == 0 || text.len >= sizeof(whole) - 8)
		return false;
	memcpy(whole + 8, text.at, text.len);
	return https_url_read((struct slice){whole, 8 + text.len}, &url) &&
	       slice_eq(url.host, text);
}

/* ---- challenges ---- */

static bool is_token(char c)
{
	return text_is_alnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* What is left to read of a value. */
struct reader {
	struct slice left;
	struct arena *a;
};

static bool is_next(struct reader *r, char c)
{
	return r->left.len > 0 && r->left.at[0] == c;
}

static void skip(struct reader *r, const char *set)
{
	while (r->left.len > 0 && r->left.at[0] && strchr(set, r->left.at[0])) {
		r->left.at++;
		r->left.len--;
	}
}

static struct slice token(struct reader *r)
{
	struct slice t = {r->left.at, 0};

	while (r->left.len > 0 && is_token(r->left.at[0])) {
		r->left.at++;
		r->left.len--;
		t.len++;
	}
	return t;
}

/* A quoted string, its quotes and backslashes taken off. */
static bool quoted(struct reader *r, struct slice *ret)
{
	char *out;
	size_t n = 0, end = 1;

	while (end < r->left.len && r->left.at[end] != '"')
		end += r->left.at[end] == '\\' ? 2 : 1;
	if (end >= r->left.len)
		return false;
	out = arena_alloc(r->a, end);
	if (!out)
		return false;
	for (size_t i = 1; i < end; i++) {
		i += r->left.at[i] == '\\';
		out[n++] = r->left.at[i];
	}
	r->left.at += end + 1;
	r->left.len -= end + 1;
	*ret = (struct slice){out, n};
	return true;
}

/* name=value, name="value", or the blank-separated scheme that begins another challenge (absent
 * value). */
static bool item(struct reader *r, struct slice *ret_name, struct slice *ret_value)
{
	*ret_name = token(r);
	*ret_value = (struct slice){0};
	if (ret_name->len == 0)
		return false;
	skip(r, " \t");
	if (!is_next(r, '='))
		return true;
	skip(r, "=");
	skip(r, " \t");
	if (is_next(r, '"'))
		return quoted(r, ret_value);
	*ret_value = token(r);
	return true;
}

bool http_challenge_read(struct slice value, struct arena *a, struct http_challenge *ret)
{
	struct reader r = {value, a};
	struct http_challenge now = {0};
	bool known = false, found = false;
	struct slice name, text;

	for (skip(&r, " \t,"); r.left.len > 0; skip(&r, " \t,")) {
		if (!item(&r, &name, &text))
			return false;
		if (!text.at) {
			now = (struct http_challenge){.bearer = text_ieq(name, SLICE("Bearer"))};
			known = now.bearer || text_ieq(name, SLICE("Basic"));
		} else if (text_ieq(name, SLICE("realm")) && !now.realm.at) {
			now.realm = text;
		} else if (text_ieq(name, SLICE("service")) && !now.service.at) {
			now.service = text;
		}
		if (known && (!found || now.bearer >= ret->bearer)) {
			*ret = now;
			found = true;
		}
	}
	return found;
}

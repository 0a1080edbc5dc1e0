/* SPDX-License-Identifier: Apache-2.0 */
/* net: routes, media types, deadlines and buffer growth, as pure functions. */
#include "net/http_rules.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* Up to here the promised length is believed: one allocation for every usual review. */
#define BODY_FIRST_MAX ((size_t)64 * 1024)
/* The way back to the API server: encoding, the network, its own reading. */
#define REPLY_MARGIN_MS 500

static const char *method_name(enum http_method m)
{
	switch (m) {
	case HTTP_GET:
		return "GET";
	case HTTP_POST:
		return "POST";
	case HTTP_DELETE:
		return "DELETE";
	}
	return "";
}

static bool method_is(enum http_method m, const char *text)
{
	return strcmp(text, method_name(m)) == 0 || (m == HTTP_GET && strcmp(text, "HEAD") == 0);
}

static bool path_is(const struct http_route *r, const char *path, bool prefix)
{
	if (prefix)
		return r->prefix && strncmp(path, r->path, strlen(r->path)) == 0;
	return !r->prefix && strcmp(path, r->path) == 0;
}

static void allow_add(char allow[32], enum http_method m)
{
	const char *name = m == HTTP_GET ? "GET, HEAD" : method_name(m);
	size_t len = strlen(allow);
	if (!strstr(allow, name))
		(void)snprintf(allow + len, 32 - len, "%s%s", len ? ", " : "", name);
}

void http_match(const struct http_route *routes, size_t nroutes, const char *method,
	const char *path, struct http_match *ret)
{
	*ret = (struct http_match){.status = 404};
	for (int prefix = 0; prefix < 2 && ret->status == 404; prefix++) {
		for (size_t i = 0; i < nroutes; i++) {
			if (!path_is(&routes[i], path, prefix != 0))
				continue;
			if (method_is(routes[i].method, method)) {
				ret->route = &routes[i];
				ret->status = 0;
				return;
			}
			ret->status = 405;
			allow_add(ret->allow, routes[i].method);
		}
	}
}

bool http_media_type_is(const char *content_type, const char *wanted)
{
	if (!content_type)
		return false;
	content_type += strspn(content_type, " \t");
	size_t len = strcspn(content_type, "; \t");
	const char *rest = content_type + len + strspn(content_type + len, " \t");
	return (*rest == '\0' || *rest == ';') &&
	       text_ieq((struct slice){content_type, len}, slice_of(wanted));
}

int64_t http_deadline(
	int64_t received_ms, const char *timeout, unsigned fallback_ms, unsigned max_ms)
{
	int64_t ms = 0;
	if (!timeout || !text_duration_ms(slice_of(timeout), &ms) || ms <= 0)
		ms = fallback_ms;
	if (ms > max_ms)
		ms = max_ms;
	return received_ms + (ms >= 2 * REPLY_MARGIN_MS ? ms - REPLY_MARGIN_MS : ms / 2);
}

uint64_t http_content_length(const char *value)
{
	uint64_t n = 0;
	if (!value)
		return 0;
	return text_u64(slice_of(value), UINT64_MAX, &n) ? n : UINT64_MAX;
}

/* No blank, no control character. */
static bool is_plain(const char *name)
{
	const unsigned char *at = (const unsigned char *)name;
	while (*at > ' ' && *at < 0x7f)
		at++;
	return *at == '\0';
}

void http_framing_add(struct http_framing *f, const char *name, const char *value)
{
	if (text_ieq(slice_of(name), SLICE("Content-Length"))) {
		f->lengths++;
	} else if (text_ieq(slice_of(name), SLICE("Transfer-Encoding"))) {
		f->codings++;
		if (!text_ieq(slice_of(value), SLICE("chunked")))
			f->refusal = "The only Transfer-Encoding that is read here is chunked";
	} else if (!is_plain(name)) {
		f->refusal = "A header's name holds what no name may hold";
	}
	if (f->lengths + f->codings > 1)
		f->refusal = "It is not clear where the body ends: give one Content-Length or "
			     "one Transfer-Encoding";
}

size_t http_body_grow(size_t cap, size_t need, uint64_t promised, size_t max)
{
	size_t want = cap ? cap : BODY_FIRST_MAX / 8;
	if (promised >= need && promised <= BODY_FIRST_MAX)
		want = (size_t)promised;
	else if (promised >= need && want < BODY_FIRST_MAX)
		want = BODY_FIRST_MAX;
	while (want < need)
		want = want > max / 2 ? max : want * 2;
	if (promised >= need && want > promised)
		want = (size_t)promised;
	return want < max ? want : max;
}

const char *http_sentence(unsigned status)
{
	switch (status) {
	case 400:
		return "Empty body: this path expects a document";
	case 403:
		return "This client is not let in";
	case 404:
		return "There is nothing at this path";
	case 405:
		return "This path does not take this method; the Allow header names those it takes";
	case 413:
		return "The body is larger than this server reads";
	case 415:
		return "This path does not take this Content-Type";
	default:
		return "The server could not answer; try again";
	}
}

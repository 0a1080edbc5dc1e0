/* SPDX-License-Identifier: Apache-2.0 */
/* base: builds a log line in a fixed buffer and writes it at once. Works without memory. */
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/utf8.h"

/* Kept free for `cut=true`, the closing brace and the newline. */
#define TAIL 24

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const format_names[] = {"text", "json"};

struct line {
	char at[LOG_LINE_MAX];
	size_t len;
	size_t max;
	bool full;
	bool json;
};

void log_init(struct log *l, int fd)
{
	*l = (struct log){.fd = fd, .format = LOG_FORMAT_TEXT, .level = LOG_LEVEL_INFO};
}

int log_set_format(struct log *l, const char *name, struct err *err)
{
	for (int i = LOG_FORMAT_TEXT; i <= LOG_FORMAT_JSON; i++) {
		if (strcmp(name, format_names[i]) == 0) {
			l->format = (enum log_format)i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, "log format \"%s\": accepted are text and json", name);
}

int log_set_level(struct log *l, const char *name, struct err *err)
{
	for (int i = LOG_LEVEL_ERROR; i <= LOG_LEVEL_DEBUG; i++) {
		if (strcmp(name, level_names[i]) == 0) {
			l->level = (enum log_level)i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID,
		"log level \"%s\": accepted are error, warn, info and debug", name);
}

static void add(struct line *o, const char *bytes, size_t len)
{
	if (o->full || len > o->max - o->len) {
		o->full = true;
		return;
	}
	memcpy(o->at + o->len, bytes, len);
	o->len += len;
}

static void add_str(struct line *o, const char *s)
{
	add(o, s, strlen(s));
}

static void add_u_escape(struct line *o, unsigned code)
{
	char esc[8] = "";
	add(o, esc, (size_t)snprintf(esc, sizeof(esc), "\\u%04x", code & 0xffff));
}

/* The code point of a well-formed sequence of len bytes. */
static unsigned code_point(const char *at, size_t len)
{
	const unsigned char *b = (const unsigned char *)at;
	unsigned code = len == 1 ? b[0] : b[0] & (0x7fU >> len);
	for (size_t i = 1; i < len; i++)
		code = code << 6 | (b[i] & 0x3fU);
	return code;
}

/* Would it move a terminal's cursor, end a line, or turn the direction of what follows? */
static bool harmful(unsigned code)
{
	return code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x2028 || code == 0x2029 ||
	       code == 0x200e || code == 0x200f || code == 0x61c ||
	       (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
	       code == 0xfeff;
}

static void add_code(struct line *o, const char *at, size_t len)
{
	unsigned code = code_point(at, len);
	if (code == '"' || code == '\\') {
		char esc[2] = {'\\', (char)code};
		add(o, esc, 2);
	} else if (code == '\n') {
		add(o, "\\n", 2);
	} else if (code == '\t') {
		add(o, "\\t", 2);
	} else if (harmful(code)) {
		add_u_escape(o, code);
	} else {
		add(o, at, len);
	}
}

/* Between quotes; the same escapes do for JSON and for text. */
static void add_quoted(struct line *o, struct slice s)
{
	size_t used = 0;
	add(o, "\"", 1);
	while (s.len > 0) {
		size_t len = utf8_len(s.at, s.len);
		if (used + (len ? len : 1) > LOG_VALUE_MAX) {
			add_str(o, "…");
			break;
		}
		if (len == 0)
			add_u_escape(o, 0xfffd);
		else
			add_code(o, s.at, len);
		len += len == 0;
		used += len;
		s.at += len;
		s.len -= len;
	}
	add(o, "\"", 1);
}

/* Words that need no quotes in a text line. */
static bool plain(struct slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.at[i];
		if (c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '=')
			return false;
	}
	return s.len > 0 && s.len <= LOG_VALUE_MAX;
}

static void add_value(struct line *o, const struct log_field *f)
{
	char number[24] = "";
	switch (f->kind) {
	case LOG_KIND_INT:
		add(o, number,
			(size_t)snprintf(number, sizeof(number), "%lld", (long long)f->number));
		break;
	case LOG_KIND_BOOL:
		add_str(o, f->number ? "true" : "false");
		break;
	case LOG_KIND_TEXT:
		if (!o->json && plain(f->text))
			add(o, f->text.at, f->text.len);
		else
			add_quoted(o, f->text);
		break;
	}
}

/* Whole or not at all. False when it did not fit. */
static bool add_field(struct line *o, const struct log_field *f)
{
	size_t before = o->len;
	if (f->kind == LOG_KIND_TEXT && !f->text.at)
		return true;
	add_str(o, o->json ? ",\"" : " ");
	add_str(o, f->key);
	add_str(o, o->json ? "\":" : "=");
	add_value(o, f);
	if (!o->full)
		return true;
	o->len = before;
	o->full = false;
	return false;
}

static void add_time(struct line *o)
{
	struct timespec t = {0};
	struct tm tm = {0};
	char text[64];
	(void)clock_gettime(CLOCK_REALTIME, &t);
	(void)gmtime_r(&t.tv_sec, &tm);
	int n = snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ",
		tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		t.tv_nsec / 1000000);
	add(o, text, n > 0 && (size_t)n < sizeof(text) ? (size_t)n : 0);
}

static void write_line(int fd, const struct line *o)
{
	ssize_t n;
	do {
		n = write(fd, o->at, o->len);
	} while (n < 0 && errno == EINTR);
}

void log_fields(const struct log *l, enum log_level level, const char *msg,
	const struct log_field *field, size_t nfields)
{
	if (!log_on(l, level))
		return;
	struct line o;
	o.len = 0;
	o.max = sizeof(o.at) - TAIL;
	o.full = false;
	o.json = l->format == LOG_FORMAT_JSON;
	bool cut = false;
	add_str(&o, o.json ? "{\"time\":\"" : "");
	add_time(&o);
	add_str(&o, o.json ? "\",\"level\":\"" : " ");
	add_str(&o, level_names[level]);
	add_str(&o, o.json ? "\",\"msg\":" : " ");
	struct slice text = slice_of(msg ? msg : "");
	bool words = !o.json && text.len <= LOG_VALUE_MAX;
	for (size_t i = 0; words && i < text.len; i++)
		words = (unsigned char)text.at[i] >= ' ' && (unsigned char)text.at[i] < 0x7f;
	if (words)
		add(&o, text.at, text.len);
	else
		add_quoted(&o, text);
	for (size_t i = 0; i < nfields; i++)
		cut = !add_field(&o, &field[i]) || cut;
	o.max = sizeof(o.at);
	if (cut)
		add_str(&o, o.json ? ",\"cut\":true" : " cut=true");
	add_str(&o, o.json ? "}\n" : "\n");
	write_line(l->fd, &o);
}

void log_text(const struct log *l, enum log_level level, const char *msg)
{
	log_fields(l, level, msg, NULL, 0);
}

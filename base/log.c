/* SPDX-License-Identifier: Apache-2.0 */
/* base: builds a log line in a fixed buffer and writes it at once. Works without memory. */
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"

/* Kept free for `cut=true`, the closing brace and the newline. */
#define TAIL 24
/* A reader that is late is waited for, but in any ten seconds not for longer than this, all lines
 * together. */
#define PATIENCE_MS 200
#define PATIENCE_EACH_MS 10000

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

void log_never_wait(struct log *l, struct log_pipe *p)
{
	struct stat st;
	/* Files and terminals take what they are given, and a poll costs a system call. */
	if (fstat(l->fd, &st) != 0 || !(S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
		return;
	*p = (struct log_pipe){.lock = PTHREAD_MUTEX_INITIALIZER};
	l->pipe = p;
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
	uint32_t code = utf8_char(at, len);
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

/* Stands between quotes as it is. */
static bool stands(char c)
{
	return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

/* The bytes in front that need no look at what they mean; at most max. */
static size_t standing(struct slice s, size_t max)
{
	size_t n = 0;
	while (n < s.len && n < max && stands(s.at[n]))
		n++;
	return n;
}

/* Between quotes; the same escapes do for JSON and for text. */
static void add_quoted(struct line *o, struct slice s)
{
	size_t used = 0;
	add(o, "\"", 1);
	while (s.len > 0) {
		size_t run = standing(s, LOG_VALUE_MAX - used);
		if (run > 0) {
			add(o, s.at, run);
			used += run;
			s.at += run;
			s.len -= run;
			continue;
		}
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
		if (!stands(s.at[i]) || s.at[i] == ' ' || s.at[i] == '=')
			return false;
	}
	return s.len > 0 && s.len <= LOG_VALUE_MAX;
}

static void add_int(struct line *o, int64_t number)
{
	char digits[24], *at = digits + sizeof(digits);
	uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
	do {
		*--at = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest > 0);
	if (number < 0)
		*--at = '-';
	add(o, at, (size_t)(digits + sizeof(digits) - at));
}

static void add_value(struct line *o, const struct log_field *f)
{
	switch (f->kind) {
	case LOG_KIND_INT:
		add_int(o, f->number);
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

/* So many digits, and what stands behind them. */
static char *put_digits(char *at, int value, int digits, char behind)
{
	for (int i = digits - 1; i >= 0; i--) {
		at[i] = (char)('0' + value % 10);
		value /= 10;
	}
	at[digits] = behind;
	return at + digits + 1;
}

static void add_time(struct line *o)
{
	struct timespec t = {0};
	struct tm tm = {0};
	char text[32], *at = text;
	(void)clock_gettime(CLOCK_REALTIME, &t);
	(void)gmtime_r(&t.tv_sec, &tm);
	at = put_digits(at, tm.tm_year + 1900, 4, '-');
	at = put_digits(at, tm.tm_mon + 1, 2, '-');
	at = put_digits(at, tm.tm_mday, 2, 'T');
	at = put_digits(at, tm.tm_hour, 2, ':');
	at = put_digits(at, tm.tm_min, 2, ':');
	at = put_digits(at, tm.tm_sec, 2, '.');
	at = put_digits(at, (int)(t.tv_nsec / 1000000), 3, 'Z');
	add(o, text, (size_t)(at - text));
}

static void build(struct line *o, const struct log *l, enum log_level level, const char *msg,
	const struct log_field *field, size_t nfields)
{
	o->len = 0;
	o->max = sizeof(o->at) - TAIL;
	o->full = false;
	o->json = l->format == LOG_FORMAT_JSON;
	bool cut = false;
	add_str(o, o->json ? "{\"time\":\"" : "");
	add_time(o);
	add_str(o, o->json ? "\",\"level\":\"" : " ");
	add_str(o, level_names[level]);
	add_str(o, o->json ? "\",\"msg\":" : " ");
	struct slice text = slice_of(msg ? msg : "");
	bool words = !o->json && text.len <= LOG_VALUE_MAX;
	for (size_t i = 0; words && i < text.len; i++)
		words = (unsigned char)text.at[i] >= ' ' && (unsigned char)text.at[i] < 0x7f;
	if (words)
		add(o, text.at, text.len);
	else
		add_quoted(o, text);
	for (size_t i = 0; i < nfields; i++)
		cut = !add_field(o, &field[i]) || cut;
	o->max = sizeof(o->at);
	if (cut)
		add_str(o, o->json ? ",\"cut\":true" : " cut=true");
	add_str(o, o->json ? "}\n" : "\n");
}

static void write_line(int fd, const struct line *o)
{
	ssize_t n;
	do {
		n = write(fd, o->at, o->len);
	} while (n < 0 && errno == EINTR);
}

/* Under the lock: would a line be taken now, or in a moment? What a pipe has room for is PIPE_BUF
 * at least, so a line. */
static bool has_room(struct log_pipe *p, int fd)
{
	struct pollfd one = {.fd = fd, .events = POLLOUT};
	if (poll(&one, 1, 0) > 0)
		return true;
	int64_t began = clock_ms();
	if (began >= p->refill_ms) {
		p->patience_ms = PATIENCE_MS;
		p->refill_ms = began + PATIENCE_EACH_MS;
	}
	if (p->patience_ms <= 0)
		return false;
	bool room = poll(&one, 1, (int)p->patience_ms) > 0;
	p->patience_ms -= clock_ms() - began;
	return room;
}

/* Where nobody reads, the line is counted instead; the count is written before the next line for
 * which there is room. */
static void write_or_drop(const struct log *l, const struct line *o)
{
	struct log_pipe *p = l->pipe;
	pthread_mutex_lock(&p->lock);
	bool room = has_room(p, l->fd);
	if (room && p->lost > 0) {
		struct log_field count = log_int("lines", p->lost);
		struct line told;
		build(&told, l, LOG_LEVEL_WARN, "lines of the log were lost: nobody read them",
			&count, 1);
		write_line(l->fd, &told);
		p->lost = 0;
		room = has_room(p, l->fd);
	}
	if (room)
		write_line(l->fd, o);
	else
		p->lost++;
	pthread_mutex_unlock(&p->lock);
}

void log_fields(const struct log *l, enum log_level level, const char *msg,
	const struct log_field *field, size_t nfields)
{
	/* zeroing it would take as long as filling it */
	struct line o __attribute__((uninitialized));
	if (!log_on(l, level))
		return;
	build(&o, l, level, msg, field, nfields);
	if (l->pipe)
		write_or_drop(l, &o);
	else
		write_line(l->fd, &o);
}

void log_text(const struct log *l, enum log_level level, const char *msg)
{
	log_fields(l, level, msg, NULL, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* base: fills struct err without allocating, so that it can report that memory ran out. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* Drop a UTF-8 sequence that the end of a full buffer cut in two. */
static void trim_cut(char *s)
{
	size_t len = strlen(s), at = len;

	while (at > 0 && len - at < 3 && ((unsigned char)s[at - 1] & 0xC0) == 0x80)
		at--;
	if (at > 0 && (unsigned char)s[at - 1] >= 0xC0 && utf8_len(s + at - 1, len - at + 1) == 0)
		s[at - 1] = '\0';
}

static void format_clean(char *ret, size_t size, const char *fmt, va_list args)
	__attribute__((format(printf, 3, 0)));

/* Other people's texts are in it: what is not printable becomes '?', so that a message can go into
 * a log line, a JSON reply or to a terminal as it is. ret may be among the arguments: the text is
 * made aside first. size is at most that of err.msg. */
static void format_clean(char *ret, size_t size, const char *fmt, va_list args)
{
	char text[sizeof(((struct err *)NULL)->msg)];
	int n = vsnprintf(text, size, fmt, args);

	if (n < 0)
		text[0] = '\0';
	else if ((size_t)n >= size)
		trim_cut(text);
	text[utf8_clean(text, strlen(text))] = '\0';
	memcpy(ret, text, strlen(text) + 1);
}

void err_clear(struct err *err)
{
	if (!err)
		return;
	err->code = ERR_NONE;
	err->path[0] = '\0';
	err->reason[0] = '\0';
	err->msg[0] = '\0';
}

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
	va_list args;

	if (!err)
		return code;
	va_start(args, fmt);
	format_clean(err->msg, sizeof(err->msg), fmt, args);
	va_end(args);
	err->code = code;
	err->path[0] = '\0';
	err->reason[0] = '\0';
	return code;
}

int err_reason(struct err *err, enum err_code code, const char *reason, const char *fmt, ...)
{
	char word[sizeof(err->reason)];
	va_list args;

	if (!err)
		return code;
	snprintf(word, sizeof(word), "%s", reason);
	va_start(args, fmt);
	format_clean(err->msg, sizeof(err->msg), fmt, args);
	va_end(args);
	err->code = code;
	err->path[0] = '\0';
	memcpy(err->reason, word, sizeof(word));
	return code;
}

int err_in(struct err *err, const char *fmt, ...)
{
	char segment[sizeof(err->path)];
	char whole[2 * sizeof(err->path)];
	const char *end = whole;
	size_t len;
	va_list args;

	if (!err)
		return ERR_INTERNAL;
	va_start(args, fmt);
	format_clean(segment, sizeof(segment), fmt, args);
	va_end(args);
	if (segment[0] == '\0')
		return err->code;
	len = (size_t)snprintf(whole, sizeof(whole), "/%s%s", segment, err->path);
	if (len >= sizeof(err->path)) {
		end = whole + len - (sizeof(err->path) - 1);
		while (((unsigned char)*end & 0xC0) == 0x80)
			end++;
	}
	memcpy(err->path, end, strlen(end) + 1);
	return err->code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* base: JSON strings as text. */
#include "base/json/json_string.h"

#include <stdint.h>
#include <string.h>

#include "base/json/json_scan.h"
#include "base/utf8.h"

/* From a backslash to behind its escape. */
static const char *read_escape(const struct json_source *src, const char *p)
{
	int unit, low;

	/* What Go's encoder does to <, > and &: by far the most. */
	if (memcmp(p, "\\u00", 4) == 0 && p[4] >= '2' && p[4] <= '7' && json_hex(p[5]) >= 0)
		return p + 6;
	if (p[1] != 'u') {
		if (json_escape(p[1]))
			return p + 2;
		return json_expected(src, p + 1, "one of \" \\ / b f n r t u behind a backslash");
	}
	unit = json_hex4(p + 2);
	if (unit < 0)
		return json_refuse(src, ERR_SYNTAX, p, "\\u without four hexadecimal digits");
	if (unit == 0)
		return json_refuse(
			src, ERR_SYNTAX, p, "\\u0000 is not accepted: no value may hold a NUL");
	if (unit >= 0xDC00 && unit < 0xE000)
		return json_refuse(src, ERR_SYNTAX, p, "a low surrogate without its high one");
	if (unit < 0xD800 || unit >= 0xE000)
		return p + 6;
	low = p[6] == '\\' && p[7] == 'u' ? json_hex4(p + 8) : -1;
	if (low < 0xDC00 || low >= 0xE000)
		return json_refuse(src, ERR_SYNTAX, p, "a high surrogate without its low one");
	return p + 12;
}

const char *json_string_odd(
	const struct json_source *src, const char *open, const char *p, unsigned *holds)
{
	size_t n;

	if (*p == '\\') {
		*holds |= JSON_ESCAPED | JSON_ODD;
		return read_escape(src, p);
	}
	/* A control character is no sequence's beginning. The zeros behind the text end a sequence
	 * that the text's end cuts. */
	n = (unsigned char)*p < 0x80 ? 0 : utf8_len(p, 4);
	return n > 0 ? p + n : json_refuse_byte(src, p, open);
}

/* Write the code point as UTF-8; returns the number of bytes. */
static size_t encode(uint32_t c, char ret[4])
{
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};

	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		ret[i] = (char)(0x80 | (c & 0x3F));
	ret[0] = (char)(lead[n] | c);
	return n;
}

/* The code point of the \u escape at *p, or of the surrogate pair; moves *p behind it. */
static uint32_t code_point(const char **p)
{
	uint32_t c = (uint32_t)json_hex4(*p + 2);

	*p += 6;
	if (c >= 0xD800 && c < 0xDC00) {
		c = 0x10000 + ((c - 0xD800) << 10) + ((uint32_t)json_hex4(*p + 2) - 0xDC00);
		*p += 6;
	}
	return c;
}

size_t json_unescape(const char *p, const char *end, char *out)
{
	char *begin = out;

	for (;;) {
		json_copy_run(&p, end, &out);
		if (p == end)
			break;
		if (p[1] == 'u') {
			out += encode(code_point(&p), out);
		} else {
			*out++ = json_escape(p[1]);
			p += 2;
		}
	}
	return (size_t)(out - begin);
}

bool json_piece(struct slice *inside, char room[4], struct slice *ret)
{
	const char *p = inside->at, *end = p + inside->len;

	if (p == end)
		return false;
	if (*p != '\\') {
		const char *slash = memchr(p, '\\', inside->len);

		*ret = (struct slice){p, (size_t)((slash ? slash : end) - p)};
		*inside = (struct slice){p + ret->len, inside->len - ret->len};
		return true;
	}
	if (p[1] != 'u') {
		room[0] = json_escape(p[1]);
		*ret = (struct slice){room, 1};
		*inside = (struct slice){p + 2, inside->len - 2};
		return true;
	}
	*ret = (struct slice){room, encode(code_point(&p), room)};
	*inside = (struct slice){p, (size_t)(end - p)};
	return true;
}

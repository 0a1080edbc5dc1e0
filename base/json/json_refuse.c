/* SPDX-License-Identifier: Apache-2.0 */
/* base: the messages of the strict JSON reader. */
#include "base/json/json_refuse.h"

#include <stddef.h>

static size_t offset(const struct json_source *src, const char *p)
{
	return (size_t)(p - src->text);
}

const char *json_expected(const struct json_source *src, const char *p, const char *what)
{
	unsigned char c = (unsigned char)*p;
	size_t at = offset(src, p);

	if (p >= src->end)
		err_set(src->err, ERR_SYNTAX, "at byte %zu: expected %s, found the end of the text",
			at, what);
	else if (c > 0x20 && c < 0x7F)
		err_set(src->err, ERR_SYNTAX, "at byte %zu: expected %s, found '%c'", at, what, c);
	else
		err_set(src->err, ERR_SYNTAX, "at byte %zu: expected %s, found byte 0x%02X", at,
			what, c);
	return NULL;
}

const char *json_refuse(
	const struct json_source *src, enum err_code code, const char *p, const char *what)
{
	err_set(src->err, code, "at byte %zu: %s", offset(src, p), what);
	return NULL;
}

const char *json_refuse_byte(const struct json_source *src, const char *p, const char *open)
{
	unsigned char c = (unsigned char)*p;
	size_t at = offset(src, p);

	if (p >= src->end)
		return json_refuse(
			src, ERR_SYNTAX, open, "the string that begins here has no closing '\"'");
	if (c >= 0x80)
		err_set(src->err, ERR_SYNTAX, "at byte %zu: byte 0x%02X in a string is not UTF-8",
			at, c);
	else if (c == 0)
		err_set(src->err, ERR_SYNTAX, "at byte %zu: a NUL byte in a string", at);
	else
		err_set(src->err, ERR_SYNTAX,
			"at byte %zu: control character 0x%02X in a string; it is written \\u%04X",
			at, c, c);
	return NULL;
}

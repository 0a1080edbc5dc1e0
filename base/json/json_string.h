/* SPDX-License-Identifier: Apache-2.0 */
/* base: JSON strings as text: checking what is not plain, and decoding. For json_read.c and
 * json_get.c. */
#ifndef BASE_JSON_JSON_STRING_H
#define BASE_JSON_JSON_STRING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json/json_refuse.h"
#include "base/slice.h"

/* What a string holds: a backslash, and one that stands before neither a quote nor another
 * backslash. */
#define JSON_ESCAPED 1U
#define JSON_ODD 2U

/* Check what begins at p inside the string that begins at open: a backslash before neither a quote
 * nor another backslash, a control character or a byte of a non-ASCII character. To behind it; adds
 * to *holds what it is. NULL with the error set: ERR_SYNTAX. */
const char *json_string_odd(
	const struct json_source *src, const char *open, const char *p, unsigned *holds);

/* Decode the inside of a checked string, p..end, into out, which has room for end - p bytes (no
 * escape is shorter than what it stands for) and JSON_SLACK more that are written over. Returns the
 * decoded length. */
#define JSON_SLACK 16
size_t json_unescape(const char *p, const char *end, char *out);

/* Take the next piece of the decoded value off the inside of a checked string: a run as it is
 * spelled, or one decoded escape, made in room. False at the end. */
bool json_piece(struct slice *inside, char room[4], struct slice *ret);

#endif

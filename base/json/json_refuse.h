/* SPDX-License-Identifier: Apache-2.0 */
/* base: the messages of the strict JSON reader: where, what was found, what would have been
 * accepted. */
#ifndef BASE_JSON_JSON_REFUSE_H
#define BASE_JSON_JSON_REFUSE_H

#include "base/err.h"

/* The text that is read, and where its errors go. Borrowed. */
struct json_source {
	const char *text;
	const char *end;
	struct err *err; /* not NULL */
};

/* ERR_SYNTAX: `what` was expected at p. Returns NULL, as all do here: no position to go on from; as
 * a bool, false. */
__attribute__((cold)) const char *json_expected(
	const struct json_source *src, const char *p, const char *what);

/* "at byte N: " and `what`. Returns NULL. */
__attribute__((cold)) const char *json_refuse(
	const struct json_source *src, enum err_code code, const char *p, const char *what);

/* The byte at p cannot stand in the string that begins at open. Returns NULL. */
__attribute__((cold)) const char *json_refuse_byte(
	const struct json_source *src, const char *p, const char *open);

#endif

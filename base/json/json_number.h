/* SPDX-License-Identifier: Apache-2.0 */
/* base: JSON numbers as text: grammar, range, whole values. Never through the locale or through a
 * double. */
#ifndef BASE_JSON_JSON_NUMBER_H
#define BASE_JSON_JSON_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Up to here a double, which others read numbers as, tells every whole number from the next. */
#define JSON_INT_MAX (INT64_C(1) << 53)

/* The end of the number (RFC 8259 section 6) that begins at p; *ret_tail is where its exponent
 * begins, or the end too. NULL when there is none: *ret_at is then where a digit was missing. Needs
 * a zero byte behind the text. */
const char *json_number_end(const char *p, const char **ret_tail, const char **ret_at);

/* Does the checked number at p..end, its exponent at tail, round to a finite double? */
bool json_number_finite(const char *p, const char *tail, const char *end);

/* The value of the checked number at p..end when it is whole and within ±2^53. */
bool json_number_int(const char *p, const char *end, int64_t *ret);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* base: words and numbers, strictly. Nothing here follows the locale, and nothing accepts trailing junk. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

/* Decimal digits alone, no sign, no blanks, at most max. False otherwise. */
bool text_u64(struct slice s, uint64_t max, uint64_t *ret);

/* A duration as Go and Kubernetes write it: "1h30m", "5s", "250ms", "1.5s", "0"; no sign. Whole milliseconds, rounded
 * up. False otherwise or above about 292 years. */
bool text_duration_ms(struct slice s, int64_t *ret_ms);

/* A Kubernetes quantity (k8s.io/apimachinery pkg/api/resource): sign, digits with at most one point, then nothing, an
 * exponent (e3, E-2) or one of n u m k M G T P E Ki Mi Gi Ti Pi Ei. Kept exactly as nano-units in 128 bits; what lies
 * beyond ±(2^63−1) whole units is capped there, and finer than nano is rounded away from zero, as Kubernetes does. */
struct quantity {
	__int128 nano;
};

/* Parse. ERR_INVALID with what was found and what is accepted. */
int quantity_parse(struct slice s, struct quantity *ret, struct err *err);
/* -1, 0, 1 */
int quantity_cmp(struct quantity a, struct quantity b);
/* The whole number, rounded up (away from zero for positive values) as Quantity.Value() does; capped to int64. */
int64_t quantity_ceil(struct quantity q);
/* Is it a whole number? */
bool quantity_integral(struct quantity q);

/* ASCII case-insensitive equality. */
bool text_ieq(struct slice a, struct slice b);

/* Valid UTF-8 (no surrogates, no overlong forms, at most U+10FFFF)? */
bool text_utf8(struct slice s);
/* The longest prefix of at most max bytes that does not cut a UTF-8 sequence. */
size_t text_utf8_cut(struct slice s, size_t max);

/* The last path component: "/usr/bin/bitfusion" gives "bitfusion". */
struct slice text_basename(struct slice path);

/* Take the next word (separated by any of blank, tab, newline, carriage return, form feed, vertical tab) off *rest.
 * False when there is none. */
bool text_word(struct slice *rest, struct slice *ret);

/* A DNS-1123 label: 1 to 63 of a-z 0-9 '-', not at the ends. */
bool text_dns_label(struct slice s);

/* 64-bit FNV-1a hash, for content hashes of our own documents (not for hash tables over foreign keys). */
uint64_t text_hash64(struct slice s);

/* "ADDR:PORT", "[V6]:PORT", ":PORT" (all addresses; ret_host is then empty). Host is copied NUL-terminated, without
 * brackets. ERR_INVALID otherwise. */
int text_host_port(struct slice s, char ret_host[64], uint16_t *ret_port, struct err *err);

#endif

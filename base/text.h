/* SPDX-License-Identifier: Apache-2.0 */
/* base: words and numbers, strictly. Nothing here follows the locale, and nothing accepts trailing
 * junk. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/quantity.h"
#include "base/slice.h"

/* Decimal digits alone, no sign, no blanks, at most max. False otherwise. */
bool text_u64(struct slice s, uint64_t max, uint64_t *ret);

/* A duration as Go and Kubernetes write it: "1h30m", "5s", "250ms", "1.5s", "0"; no sign. Whole
 * milliseconds, rounded up (a fraction of a nanosecond is dropped, as in Go). False otherwise or
 * above about 292 years. */
bool text_duration_ms(struct slice s, int64_t *ret_ms);

/* ASCII's letters and digits. */
static inline bool text_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool text_is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static inline bool text_is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static inline bool text_is_letter(char c)
{
	return text_is_lower(c) || text_is_upper(c);
}

static inline bool text_is_alnum(char c)
{
	return text_is_letter(c) || text_is_digit(c);
}

/* Of a name as DNS and Kubernetes have it, whatever stands between. */
static inline bool text_is_lower_alnum(char c)
{
	return text_is_lower(c) || text_is_digit(c);
}

/* An upper letter's lower one; everything else as it is. */
static inline char text_to_lower(char c)
{
	return text_is_upper(c) ? (char)(c | 0x20) : c;
}

/* ASCII case-insensitive equality. */
bool text_ieq(struct slice a, struct slice b);

/* Valid UTF-8 (no surrogates, no overlong forms, at most U+10FFFF)? */
bool text_utf8(struct slice s);
/* The longest prefix of at most max bytes that does not cut a UTF-8 sequence. */
size_t text_utf8_cut(struct slice s, size_t max);

/* The last path component: "/usr/bin/bitfusion" gives "bitfusion", "bin/" gives "". */
struct slice text_basename(struct slice path);

/* Take the next word (separated by any of blank, tab, newline, carriage return, form feed, vertical
 * tab) off *rest. False when there is none. */
bool text_word(struct slice *rest, struct slice *ret);

/* A DNS-1123 label: 1 to 63 of a-z 0-9 '-', not at the ends. */
bool text_dns_label(struct slice s);

/* A DNS-1123 subdomain, as objects in Kubernetes have for a name: 1 to 253 of a-z 0-9 '-' '.', each
 * part between dots without '-' at its ends. It can stand in a request's path. */
bool text_dns_subdomain(struct slice s);

/* An IPv4 or IPv6 address, as inet_pton reads it: no port, no brackets, no zone. ret: its bytes, an
 * IPv4 one as IPv6 has it (::ffff:10.1.2.3). */
bool text_ip(struct slice s, unsigned char ret[static 16]);

/* Of these words the one that was probably meant by another: the nearest by letters changed, added
 * or left out (none where only the case differs). NULL when none is near. */
const char *text_nearest(struct slice word, const char *const *known, size_t n);

/* 64-bit FNV-1a hash, for content hashes of our own documents (not for hash tables over foreign
 * keys). */
uint64_t text_hash64(struct slice s);

/* "ADDR:PORT", "[V6]:PORT", ":PORT" (all addresses; ret_host is then empty). Host is copied
 * NUL-terminated, without brackets; port 0 lets the kernel choose. ERR_INVALID otherwise. */
int text_host_port(struct slice s, char ret_host[64], uint16_t *ret_port, struct err *err);

#endif

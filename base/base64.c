/* SPDX-License-Identifier: Apache-2.0 */
/* base: base64 read strictly. */
#include "base/base64.h"

#include <stdint.h>

/* The six bits of a character, 64 for anything else. */
static uint32_t value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (uint32_t)(c - 'A');
	if (c >= 'a' && c <= 'z')
		return (uint32_t)(c - 'a') + 26;
	if (c >= '0' && c <= '9')
		return (uint32_t)(c - '0') + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : 64;
}

/* Four characters, of which `pads` at the end are '='. False when bits are left over. */
static bool put(struct buf *out, uint32_t bits, unsigned pads)
{
	static const uint32_t left[] = {0, 0xff, 0xffff};
	const char bytes[] = {
		(char)(bits >> 16 & 0xff), (char)(bits >> 8 & 0xff), (char)(bits & 0xff)};

	if (bits & left[pads])
		return false;
	buf_add(out, bytes, 3 - pads);
	return true;
}

static int wrong(struct buf *out, size_t len, size_t at, struct err *err)
{
	out->len = len;
	if (out->data)
		out->data[len] = '\0';
	return err_set(err, ERR_SYNTAX, "no base64 at byte %zu", at);
}

int base64_decode(struct slice text, struct buf *out, struct err *err)
{
	size_t before = out->len;
	unsigned n = 0, pads = 0;
	uint32_t bits = 0;

	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];
		uint32_t v = c == '=' ? 0 : value_of(c);

		if (c == '\n' || c == '\r')
			continue;
		/* Padding is the third and fourth, or the fourth, of the last four. */
		if (v == 64 || (c == '=' ? n < 2 : pads > 0))
			return wrong(out, before, i, err);
		pads += c == '=';
		bits = bits << 6 | v;
		if (++n < 4)
			continue;
		if (!put(out, bits, pads))
			return wrong(out, before, i, err);
		n = 0;
		bits = 0;
	}
	if (n != 0)
		return wrong(out, before, text.len, err);
	if (out->failed) {
		size_t max = out->max;

		(void)wrong(out, before, 0, NULL);
		return out->full ? err_set(err, ERR_TOOBIG, "over %zu bytes of base64", max)
				 : err_set(err, ERR_NOMEM, "out of memory");
	}
	return 0;
}

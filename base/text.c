/* SPDX-License-Identifier: Apache-2.0 */
/* base: words and numbers, strictly. */
#include "base/text.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/utf8.h"

/* ---- numbers ---- */

bool text_u64(struct slice s, uint64_t max, uint64_t *ret)
{
	uint64_t n = 0;

	if (s.len == 0)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		uint64_t d = (uint64_t)(unsigned char)s.at[i] - '0';

		if (d > 9 || n > (UINT64_MAX - d) / 10)
			return false;
		n = n * 10 + d;
	}
	if (n > max)
		return false;
	*ret = n;
	return true;
}

static bool take_digit(struct slice *s, uint64_t *ret)
{
	if (s->len == 0 || !text_is_digit(s->at[0]))
		return false;
	*ret = (uint64_t)(s->at[0] - '0');
	*s = (struct slice){s->at + 1, s->len - 1};
	return true;
}

/* Take the longest unit that s begins with; its nanoseconds, or 0. */
static uint64_t take_unit(struct slice *s)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{"ns", 1},
		{"us", 1000},
		{"\u00b5s", 1000}, /* micro sign */
		{"\u03bcs", 1000}, /* Greek mu */
		{"ms", 1000000},
		{"s", 1000000000},
		{"m", 60 * UINT64_C(1000000000)},
		{"h", 3600 * UINT64_C(1000000000)},
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		struct slice name = slice_of(units[i].name);

		if (!slice_starts(*s, name))
			continue;
		*s = (struct slice){s->at + name.len, s->len - name.len};
		return units[i].ns;
	}
	return 0;
}

/* One number with its unit, in nanoseconds. */
static bool take_span(struct slice *s, uint64_t *ret)
{
	/* Digits behind the point stop counting before frac × unit could overflow. */
	uint64_t whole = 0, frac = 0, scale = 1, unit, d;
	bool any = false;

	for (; take_digit(s, &d); any = true) {
		if (whole > (UINT64_MAX - d) / 10)
			return false;
		whole = whole * 10 + d;
	}
	if (s->len > 0 && s->at[0] == '.') {
		*s = (struct slice){s->at + 1, s->len - 1};
		for (; take_digit(s, &d); any = true) {
			if (scale >= UINT64_C(1000000000000000))
				continue;
			frac = frac * 10 + d;
			scale *= 10;
		}
	}
	if (!any)
		return false;
	unit = take_unit(s);
	if (unit == 0 || __builtin_mul_overflow(whole, unit, &whole))
		return false;
	return !__builtin_add_overflow(whole, (uint64_t)((__uint128_t)frac * unit / scale), ret);
}

bool text_duration_ms(struct slice s, int64_t *ret_ms)
{
	uint64_t total = 0, span;

	if (slice_is(s, "0")) {
		*ret_ms = 0;
		return true;
	}
	if (s.len == 0)
		return false;
	while (s.len > 0) {
		if (!take_span(&s, &span) || __builtin_add_overflow(total, span, &total))
			return false;
		if (total > INT64_MAX)
			return false;
	}
	*ret_ms = (int64_t)(total / 1000000 + (total % 1000000 != 0));
	return true;
}

/* ---- characters ---- */

bool text_ieq(struct slice a, struct slice b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (text_to_lower(a.at[i]) != text_to_lower(b.at[i]))
			return false;
	return true;
}

bool text_utf8(struct slice s)
{
	for (size_t i = 0; i < s.len;) {
		size_t n = utf8_len(s.at + i, s.len - i);

		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

size_t text_utf8_cut(struct slice s, size_t max)
{
	size_t cut = max;

	if (s.len <= max)
		return s.len;
	/* Only continuation bytes behind the cut mean that it lies within a sequence, which has
	 * three of them at most. */
	while (cut > 0 && max - cut < 3 && ((unsigned char)s.at[cut] & 0xC0) == 0x80)
		cut--;
	return ((unsigned char)s.at[cut] & 0xC0) == 0x80 ? max : cut;
}

/* ---- words ---- */

struct slice text_basename(struct slice path)
{
	size_t at = path.len;

	while (at > 0 && path.at[at - 1] != '/')
		at--;
	return (struct slice){path.at ? path.at + at : NULL, path.len - at};
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

bool text_word(struct slice *rest, struct slice *ret)
{
	size_t from = 0, to;

	while (from < rest->len && is_blank(rest->at[from]))
		from++;
	for (to = from; to < rest->len && !is_blank(rest->at[to]);)
		to++;
	if (to == from)
		return false;
	*ret = (struct slice){rest->at + from, to - from};
	*rest = (struct slice){rest->at + to, rest->len - to};
	return true;
}

bool text_dns_label(struct slice s)
{
	if (s.len == 0 || s.len > 63 || s.at[0] == '-' || s.at[s.len - 1] == '-')
		return false;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];

		if (!text_is_lower_alnum(c) && c != '-')
			return false;
	}
	return true;
}

bool text_dns_subdomain(struct slice s)
{
	if (s.len == 0 || s.len > 253)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];
		bool edge = i == 0 || i + 1 == s.len || s.at[i - 1] == '.' || s.at[i + 1] == '.';

		if (!text_is_lower_alnum(c) && (edge || (c != '-' && c != '.')))
			return false;
	}
	return true;
}

bool text_ip(struct slice s, unsigned char ret[static 16])
{
	static const unsigned char mapped[16] = {[10] = 0xff, [11] = 0xff};
	char text[INET6_ADDRSTRLEN];

	if (s.len == 0 || s.len >= sizeof(text) || memchr(s.at, '\0', s.len))
		return false;
	memcpy(text, s.at, s.len);
	text[s.len] = '\0';
	memcpy(ret, mapped, sizeof(mapped));
	return inet_pton(AF_INET, text, ret + 12) == 1 || inet_pton(AF_INET6, text, ret) == 1;
}

uint64_t text_hash64(struct slice s)
{
	uint64_t h = UINT64_C(0xCBF29CE484222325);
	const unsigned char *at = (const unsigned char *)s.at, *end = s.len ? at + s.len : at;

	/* Each review hashes a plan: eight bytes a turn take half the instructions. */
	for (; end - at >= 8; at += 8)
		for (size_t i = 0; i < 8; i++)
			h = (h ^ at[i]) * UINT64_C(0x100000001B3);
	for (; at < end; at++)
		h = (h ^ *at) * UINT64_C(0x100000001B3);
	return h;
}

/* ---- addresses ---- */

static bool host_ok(struct slice host, bool v6)
{
	bool colon = false;

	for (size_t i = 0; i < host.len; i++) {
		char c = host.at[i];
		bool name = text_is_alnum(c) || c == '.' || c == '-' || c == '_';

		/* A zone ("fe80::1%eth0") may stand behind a V6 address. */
		if (!name && !(v6 && (c == ':' || c == '%')))
			return false;
		colon = colon || c == ':';
	}
	return host.len < 64 && colon == v6;
}

int text_host_port(struct slice s, char ret_host[64], uint16_t *ret_port, struct err *err)
{
	struct slice host, port;
	size_t colon = s.len;
	uint64_t n;
	bool v6;

	while (colon > 0 && s.at[colon - 1] != ':')
		colon--;
	if (colon == 0)
		goto bad;
	host = (struct slice){s.at, colon - 1};
	port = (struct slice){s.at + colon, s.len - colon};
	v6 = host.len >= 2 && host.at[0] == '[' && host.at[host.len - 1] == ']';
	if (v6)
		host = (struct slice){host.at + 1, host.len - 2};
	if (!host_ok(host, v6) || port.len > 5 || !text_u64(port, 65535, &n))
		goto bad;
	memcpy(ret_host, host.at, host.len);
	ret_host[host.len] = '\0';
	*ret_port = (uint16_t)n;
	return 0;
bad:
	return err_set(err, ERR_INVALID,
		"\"%.*s\" is not an address to listen on: write ADDR:PORT, [V6]:PORT or :PORT with "
		"a port up to 65535",
		(int)text_utf8_cut(s, 128), s.len ? s.at : "");
}

/* No key of ours is longer. */
#define NEAREST_MAX 48

/* How many letters must be changed, added or left out; none when only the case differs. */
static size_t distance(struct slice a, struct slice b)
{
	size_t row[NEAREST_MAX + 1];

	if (a.len > NEAREST_MAX || b.len > NEAREST_MAX)
		return NEAREST_MAX;
	if (text_ieq(a, b))
		return 0;
	for (size_t j = 0; j <= b.len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a.len; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b.len; j++) {
			size_t best = diagonal + (a.at[i - 1] != b.at[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[b.len];
}

const char *text_nearest(struct slice word, const char *const *known, size_t n)
{
	const char *best = NULL;
	size_t least = word.len < 5 ? 2 : 3; /* nearer than this, or no advice */

	for (size_t i = 0; i < n; i++) {
		size_t d = distance(word, slice_of(known[i]));

		if (d < least) {
			least = d;
			best = known[i];
		}
	}
	return best;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* base: Kubernetes quantities in exact integers. */
#include "base/quantity.h"

#include <string.h>

#include "base/text.h"

#define NANO INT64_C(1000000000)
#define NANO_DIGITS 9

/* A quantity taken apart: digits with the point before digit `point`, times 2^shift. */
struct parts {
	bool minus;
	struct slice whole; /* the digits left of the point */
	struct slice frac;  /* and right of it */
	int64_t point; /* whole.len moved by the decimal exponent; may lie outside of the digits */
	unsigned shift;
};

static struct slice take_digits(struct slice *rest)
{
	struct slice digits = {rest->at, 0};

	while (digits.len < rest->len && text_is_digit(rest->at[digits.len]))
		digits.len++;
	*rest = (struct slice){rest->at + digits.len, rest->len - digits.len};
	return digits;
}

/* "e3", "E-2": the exponent; Kubernetes reads it into 32 bits. */
static bool read_exponent(struct slice s, int64_t *ret)
{
	bool minus = s.len > 1 && s.at[1] == '-';
	size_t skip = s.len > 1 && (minus || s.at[1] == '+') ? 2 : 1;
	uint64_t n;

	if (s.len == 0 || (s.at[0] != 'e' && s.at[0] != 'E'))
		return false;
	if (!text_u64((struct slice){s.at + skip, s.len - skip}, INT32_MAX, &n))
		return false;
	*ret = minus ? -(int64_t)n : (int64_t)n;
	return true;
}

static bool read_suffix(struct slice s, struct parts *p)
{
	static const struct {
		char name[3];
		int exponent;
		unsigned shift;
	} suffixes[] = {
		{"", 0, 0},
		{"n", -9, 0},
		{"u", -6, 0},
		{"m", -3, 0},
		{"k", 3, 0},
		{"M", 6, 0},
		{"G", 9, 0},
		{"T", 12, 0},
		{"P", 15, 0},
		{"E", 18, 0},
		{"Ki", 0, 10},
		{"Mi", 0, 20},
		{"Gi", 0, 30},
		{"Ti", 0, 40},
		{"Pi", 0, 50},
		{"Ei", 0, 60},
	};
	int64_t exponent = 0;

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		const char *name = suffixes[i].name;
		size_t len = name[0] == '\0' ? 0 : name[1] == '\0' ? 1 : 2;

		if (!s.at || s.len != len || memcmp(s.at, name, len) != 0)
			continue;
		p->point += suffixes[i].exponent;
		p->shift = suffixes[i].shift;
		return true;
	}
	if (!read_exponent(s, &exponent))
		return false;
	p->point += exponent;
	return true;
}

static uint64_t digit(const struct parts *p, size_t i)
{
	char c = i < p->whole.len ? p->whole.at[i] : p->frac.at[i - p->whole.len];

	return (uint64_t)(c - '0');
}

/* The digits left of the point, or 2^63 when they are that much or more. */
static uint64_t whole_units(const struct parts *p)
{
	size_t len = p->whole.len + p->frac.len;
	uint64_t n = 0;

	for (int64_t i = 0; i < p->point; i++) {
		uint64_t d = (size_t)i < len ? digit(p, (size_t)i) : 0;

		if (n > (INT64_MAX - d) / 10)
			return (uint64_t)INT64_MAX + 1;
		n = n * 10 + d;
		if (n == 0 && (size_t)i >= len)
			break;
	}
	return n;
}

/* The digits right of the point, times 2^shift: *ret_units whole ones, and the rest in nano,
 * rounded up. The product is made by hand, from the last digit on: what is carried over the point
 * is below 2^shift. */
static uint64_t frac_nano(const struct parts *p, uint64_t *ret_units)
{
	static const uint64_t weight[NANO_DIGITS + 1] = {0, NANO / 10, NANO / 100, NANO / 1000,
		NANO / 10000, NANO / 100000, NANO / 1000000, 100, 10, 1};
	int64_t first = p->point > 0 ? p->point : 0;
	uint64_t carry = 0, nano = 0;
	bool finer = false;

	for (int64_t i = (int64_t)(p->whole.len + p->frac.len) - 1; i >= first; i--) {
		uint64_t n = (digit(p, (size_t)i) << p->shift) + carry;
		int64_t place = i - p->point + 1;

		carry = n / 10;
		if (place <= NANO_DIGITS)
			nano += n % 10 * weight[place];
		else
			finer = finer || n % 10 != 0;
	}
	*ret_units = carry;
	return nano + finer;
}

int quantity_parse(struct slice s, struct quantity *ret, struct err *err)
{
	struct parts p = {0};
	struct slice rest = s;
	uint64_t units, carry, nano;
	__int128_t total;

	if (rest.len > 0 && (rest.at[0] == '-' || rest.at[0] == '+')) {
		p.minus = rest.at[0] == '-';
		rest = (struct slice){rest.at + 1, rest.len - 1};
	}
	p.whole = take_digits(&rest);
	if (rest.len > 0 && rest.at[0] == '.') {
		rest = (struct slice){rest.at + 1, rest.len - 1};
		p.frac = take_digits(&rest);
	}
	p.point = (int64_t)p.whole.len;
	if (s.len == 0 || !read_suffix(rest, &p))
		return err_set(err, ERR_INVALID,
			"\"%.*s\" is not a quantity: write a number such as 12, 0.5, 1e3, 500m or "
			"16Gi, its suffix one "
			"of n u m k M G T P E Ki Mi Gi Ti Pi Ei",
			(int)text_utf8_cut(s, 64), s.len ? s.at : "");
	units = whole_units(&p);
	nano = frac_nano(&p, &carry);
	total = ((__int128_t)units << p.shift) + carry;
	if (total >= INT64_MAX)
		total = (__int128_t)INT64_MAX * NANO;
	else
		total = total * NANO + nano;
	ret->nano = p.minus ? -total : total;
	return 0;
}

int quantity_cmp(struct quantity a, struct quantity b)
{
	return (a.nano > b.nano) - (a.nano < b.nano);
}

int64_t quantity_ceil(struct quantity q)
{
	__int128_t whole = q.nano / NANO, rest = q.nano % NANO;

	return (int64_t)(whole + (rest > 0) - (rest < 0));
}

bool quantity_integral(struct quantity q)
{
	return q.nano % NANO == 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* base: strconv.ParseInt(s, 0, 64), ParseFloat and FormatFloat of Go, as far as YAML scalars need
 * them. */
#include "base/yaml/yaml_number.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* A longer spelling is a string. Go would take it for a number; nobody writes one. */
#define SPELLING_MAX 1000

/* Digits of a base, below 2^64. */
static bool parse_digits(const char *s, unsigned base, uint64_t *ret)
{
	uint64_t n = 0;

	for (; *s; s++) {
		unsigned d;

		if (text_is_digit(*s))
			d = (unsigned)(*s - '0');
		else if (text_is_letter(*s))
			d = (unsigned)((*s | 0x20) - 'a') + 10;
		else
			return false;
		if (d >= base || n > (UINT64_MAX - d) / base)
			return false;
		n = n * base + d;
	}
	*ret = n;
	return true;
}

/* strconv.ParseUint(s, 0, 64) */
static bool parse_magnitude(const char *s, uint64_t *ret)
{
	if (*s == '\0')
		return false;
	if (*s != '0')
		return parse_digits(s, 10, ret);
	if (s[1] != '\0' && s[2] != '\0') {
		switch (s[1] | 0x20) {
		case 'b':
			return parse_digits(s + 2, 2, ret);
		case 'o':
			return parse_digits(s + 2, 8, ret);
		case 'x':
			return parse_digits(s + 2, 16, ret);
		default:
			break;
		}
	}
	return parse_digits(s + 1, 8, ret);
}

static bool set_int(const char *s, struct yaml_value *ret)
{
	bool minus = *s == '-', sign = minus || *s == '+';
	uint64_t n;

	if (!parse_magnitude(s + sign, &n)) {
		/* goyaml.v2 tries the rest of a "0b" again, which lets a sign stand behind it */
		if (strncmp(s, "0b", 2) != 0 || (s[2] != '-' && s[2] != '+') || s[3] == '\0' ||
			!parse_digits(s + 3, 2, &n))
			return false;
		minus = s[2] == '-';
		sign = true;
	}
	if (n > (uint64_t)INT64_MAX + (minus ? 1 : 0) && sign)
		return false;
	ret->type = YAML_INT;
	ret->text.at = ret->num;
	ret->text.len = (size_t)snprintf(
		ret->num, sizeof(ret->num), "%s%llu", minus && n ? "-" : "", (unsigned long long)n);
	return true;
}

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)? */
static bool float_syntax(const char *s)
{
	size_t whole = 0, part = 0, exp = 0;

	s += *s == '-' || *s == '+';
	for (; text_is_digit(*s); s++)
		whole++;
	if (*s == '.') {
		s++;
		for (; text_is_digit(*s); s++)
			part++;
	}
	if (whole + part == 0)
		return false;
	if (*s == 'e' || *s == 'E') {
		s++;
		s += *s == '-' || *s == '+';
		for (; text_is_digit(*s); s++)
			exp++;
		if (exp == 0)
			return false;
	}
	return *s == '\0';
}

/* The shortest digits that give v back: d[0].d[1]d[2]… × 10^exp. single: as a float. */
struct shortest {
	char d[20];
	int n;
	int exp;
	bool minus;
};

static void shorten(double v, bool single, struct shortest *ret)
{
	char t[40];
	int max = single ? 9 : 17;

	for (int digits = 1; digits <= max; digits++) {
		snprintf(t, sizeof(t), "%.*e", digits - 1, v);
		if (single ? strtof(t, NULL) == (float)v : strtod(t, NULL) == v)
			break;
	}
	const char *e = strchr(t, 'e');

	*ret = (struct shortest){.minus = t[0] == '-', .exp = (int)strtol(e + 1, NULL, 10)};
	for (const char *p = t; p < e && ret->n < (int)sizeof(ret->d); p++) {
		if (text_is_digit(*p))
			ret->d[ret->n++] = *p;
	}
	while (ret->n > 1 && ret->d[ret->n - 1] == '0')
		ret->n--;
}

/* d.ddde±XX with at least exp_digits digits in the exponent; or all digits with a point */
static size_t write_float(const struct shortest *s, bool scientific, int exp_digits, char *out)
{
	size_t n = 0;

	if (s->minus)
		out[n++] = '-';
	if (scientific) {
		out[n++] = s->d[0];
		if (s->n > 1) {
			out[n++] = '.';
			memcpy(out + n, s->d + 1, (size_t)s->n - 1);
			n += (size_t)s->n - 1;
		}
		return n + (size_t)snprintf(out + n, 8, "e%c%0*d", s->exp < 0 ? '-' : '+',
				   exp_digits, abs(s->exp));
	}
	if (s->exp < 0) {
		out[n++] = '0';
		out[n++] = '.';
		for (int i = -1; i > s->exp; i--)
			out[n++] = '0';
	}
	for (int i = 0; i < s->n || i <= s->exp; i++) {
		if (i > 0 && i == s->exp + 1)
			out[n++] = '.';
		out[n++] = i < s->n ? s->d[i] : '0';
	}
	out[n] = '\0';
	return n;
}

size_t yaml_float_text(double v, char out[static YAML_NUMBER_MAX])
{
	struct shortest s;
	double size = fabs(v);

	shorten(v, false, &s);
	bool scientific = v != 0 && (size < 1e-6 || size >= 1e21);

	/* encoding/json: two digits in a positive exponent, as few as possible in a negative one */
	return write_float(&s, scientific, s.exp < 0 ? 1 : 2, out);
}

static bool set_float(const char *s, struct yaml_value *ret)
{
	double v = strtod(s, NULL);

	if (!isfinite(v))
		return false; /* out of range: goyaml.v2 leaves it a string */
	ret->type = YAML_FLOAT;
	ret->text.at = ret->num;
	ret->text.len = yaml_float_text(v, ret->num);
	return true;
}

/* Go takes an underscore between two digits of a number that starts with a point. */
static bool underscores_between_digits(struct slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] == '_' && (i == 0 || i + 1 == s.len || !text_is_digit(s.at[i - 1]) ||
					      !text_is_digit(s.at[i + 1])))
			return false;
	}
	return true;
}

bool yaml_number(struct slice s, struct yaml_value *ret)
{
	char plain[SPELLING_MAX + 1];
	size_t n = 0;

	if (s.len > SPELLING_MAX || memchr(s.at, '\0', s.len))
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] != '_')
			plain[n++] = s.at[i];
	}
	plain[n] = '\0';
	if (s.at[0] == '.')
		return underscores_between_digits(s) && float_syntax(plain) &&
		       set_float(plain, ret);
	return set_int(plain, ret) || (float_syntax(plain) && set_float(plain, ret));
}

bool yaml_key_float(struct slice text, struct yaml_value *ret)
{
	char t[YAML_NUMBER_MAX];
	struct shortest s;

	memcpy(t, text.at, text.len);
	t[text.len] = '\0';
	double v = strtod(t, NULL);

	if (!(fabs(v) < 3.4028235677973366e38)) /* rounds to a finite float: the bound does not */
		return false;
	shorten((double)(float)v, true, &s);
	bool scientific = (float)v != 0.0f && (s.exp < -4 || s.exp >= 6);

	ret->text.at = ret->num;
	ret->text.len = write_float(&s, scientific, 2, ret->num);
	return true;
}

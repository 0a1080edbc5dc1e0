/* SPDX-License-Identifier: Apache-2.0 */
/* base: JSON numbers as text. */
#include "base/json/json_number.h"

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* Exponents stop counting here: far beyond what any text's digits can make up for. */
#define EXPONENT_CAP INT64_C(1000000000000)

static inline const char *digits(const char *p)
{
	while (text_is_digit(*p))
		p++;
	return p;
}

const char *json_number_end(const char *p, const char **ret_tail, const char **ret_at)
{
	const char *tail;

	if (*p == '-')
		p++;
	if (!text_is_digit(*p))
		goto missing;
	p = *p == '0' ? p + 1 : digits(p + 1);
	if (*p == '.') {
		if (!text_is_digit(*++p))
			goto missing;
		p = digits(p);
	}
	tail = p;
	if (*p == 'e' || *p == 'E') {
		p++;
		if (*p == '+' || *p == '-')
			p++;
		if (!text_is_digit(*p))
			goto missing;
		p = digits(p);
	}
	*ret_tail = tail;
	return p;
missing:
	*ret_at = p;
	return NULL;
}

/* The number behind 'e', capped; 0 when there is none. p is at the 'e' or at end. */
static int64_t exponent(const char *p, const char *end)
{
	bool minus = false;
	int64_t n = 0;

	if (p == end)
		return 0;
	p++;
	if (*p == '+' || *p == '-')
		minus = *p++ == '-';
	for (; p < end; p++)
		if (n < EXPONENT_CAP)
			n = n * 10 + (*p - '0');
	return minus ? -n : n;
}

/* The smallest number that rounds to infinity, 2^1024 - 2^970: these digits with the point behind
 * the first, e308. */
static const char first_infinite[] =
	"179769313486231580793728971405303415079934132710037826936173778980444968292764"
	"750946649017977587207096330286416692887910946555547851940402630657488671505820"
	"681908902000708383676273854845817711531764475730270069855571366959622842914819"
	"860834936475292719074168444365510704342711559699508093042880177904174497792";

bool json_number_finite(const char *p, const char *tail, const char *end)
{
	const char *limit = first_infinite;
	const char *first = NULL; /* the first digit that is not 0 */
	int64_t power = -1;       /* of ten, that it stands for */
	bool point = false;

	for (; p < tail && !(first && point); p++) {
		if (*p == '.')
			point = true;
		if (!text_is_digit(*p))
			continue;
		if (!first && *p != '0')
			first = p;
		if (!point)
			power += first != NULL;
		else if (!first)
			power--;
	}
	if (!first)
		return true;
	power += exponent(tail, end);
	if (power != 308)
		return power < 308;
	for (p = first; p < tail && *limit; p++) {
		if (*p == '.')
			continue;
		if (*p != *limit)
			return *p < *limit;
		limit++;
	}
	return *limit != '\0';
}

bool json_number_int(const char *p, const char *end, int64_t *ret)
{
	bool minus = *p == '-', point = false;
	int64_t value = 0;  /* the digits up to the last one that is not 0 */
	int64_t zeros = 0;  /* those that follow it */
	int64_t behind = 0; /* digits behind the point */
	int64_t power;

	for (p += minus; p < end && *p != 'e' && *p != 'E'; p++) {
		if (*p == '.') {
			point = true;
			continue;
		}
		behind += point;
		if (*p == '0') {
			zeros += value != 0;
			continue;
		}
		if (value != 0) {
			if (zeros > 16)
				return false;
			for (; zeros >= 0; zeros--)
				if (__builtin_mul_overflow(value, 10, &value))
					return false;
		}
		zeros = 0;
		value += *p - '0';
		if (value > JSON_INT_MAX)
			return false;
	}
	power = zeros - behind + exponent(p, end);
	if (value != 0 && (power < 0 || power > 16))
		return false;
	for (; value != 0 && power > 0; power--)
		if (__builtin_mul_overflow(value, 10, &value))
			return false;
	if (value > JSON_INT_MAX)
		return false;
	*ret = minus ? -value : value;
	return true;
}

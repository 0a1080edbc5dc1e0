/* SPDX-License-Identifier: Apache-2.0 */
/* probe: numbers with their units. */
#include "probe/result/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Three digits that count. */
static void three_digits(double value, const char *prefix, const char *unit, char *ret)
{
	double size = value < 0 ? -value : value;
	int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;

	snprintf(ret, UNITS_MAX, "%.*f %s%s", decimals, value, prefix, unit);
}

static void scaled(double value, double step, const char *const *prefixes, size_t n,
	const char *unit, char *ret)
{
	size_t i = 0;

	/* 999.5 would round to 1000 */
	while (i + 1 < n && (value >= step * 0.9995 || value <= -step * 0.9995)) {
		value /= step;
		i++;
	}
	if (value > 1e9 || value < -1e9)
		snprintf(ret, UNITS_MAX, "%.3g %s%s", value, prefixes[i], unit);
	else
		three_digits(value, prefixes[i], unit, ret);
}

void units_write(double value, const char *unit, char ret[static UNITS_MAX])
{
	static const char *const decimal[] = {"", "k", "M", "G", "T", "P"};
	static const char *const binary[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};

	if (!isfinite(value))
		snprintf(ret, UNITS_MAX, "-");
	else if (!unit)
		snprintf(ret, UNITS_MAX, "%.4g", value);
	else if (strcmp(unit, "B") == 0)
		scaled(value, 1024, binary, 6, unit, ret);
	else if (strcmp(unit, "s") == 0 && value < 1e-3 && value > -1e-3)
		three_digits(value * 1e6, "u", unit, ret);
	else if (strcmp(unit, "s") == 0 && value < 1 && value > -1)
		three_digits(value * 1e3, "m", unit, ret);
	else if (strcmp(unit, "s") == 0)
		scaled(value, INFINITY, decimal, 1, unit, ret);
	else
		scaled(value, 1000, decimal, 6, unit, ret);
}

void units_json(double value, struct buf *out)
{
	char text[UNITS_MAX];

	if (!isfinite(value)) {
		buf_str(out, "null");
		return;
	}
	for (int digits = 6; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		/* bits, since the same spelling is wanted and not nearness */
		if (digits == 17 || !(strtod(text, NULL) < value || strtod(text, NULL) > value))
			break;
	}
	buf_str(out, text);
}

const char *units_by_name(struct slice name)
{
	static const char *const known[] = {"B/s", "FLOP/s", "s", "B"};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (slice_is(name, known[i]))
			return known[i];
	return NULL;
}

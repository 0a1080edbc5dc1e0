/* SPDX-License-Identifier: Apache-2.0 */
/* base: times as Kubernetes writes them, by the calendar alone: no clock, no time zone of the
 * machine. */
#include "base/rfc3339.h"

#include "base/text.h"

#define MS_PER_DAY INT64_C(86400000)
#define DAYS_PER_ERA 146097 /* 400 years of the Gregorian calendar */
#define DAYS_TO_1970 719468 /* from 0000-03-01, where an era begins */
/* 0000-01-01T00:00:00Z and the last millisecond of the year 9999 */
#define TIME_MIN_MS INT64_C(-62167219200000)
#define TIME_MAX_MS INT64_C(253402300799999)

/* The day since 1970-01-01. Years are counted from March: the leap day is the last of its year. */
static int64_t day_of(int64_t year, int64_t month, int64_t day)
{
	int64_t y = month <= 2 ? year - 1 : year;
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t year_of_era = y - era * 400;
	int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * DAYS_PER_ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 +
	       day_of_year - DAYS_TO_1970;
}

static int64_t days_in_month(int64_t year, int64_t month)
{
	return month == 12 ? 31 : day_of(year, month + 1, 1) - day_of(year, month, 1);
}

/* n digits and the byte behind them; returns what follows. */
static char *put(char *at, int64_t value, int n, char after)
{
	for (int i = n; i-- > 0; value /= 10)
		at[i] = (char)('0' + value % 10);
	at[n] = after;
	return at + n + 1;
}

void rfc3339_write(int64_t ms, char ret[static RFC3339_SIZE])
{
	int64_t t = ms < TIME_MIN_MS ? TIME_MIN_MS : ms > TIME_MAX_MS ? TIME_MAX_MS : ms;
	int64_t days = (t - TIME_MIN_MS) / MS_PER_DAY + TIME_MIN_MS / MS_PER_DAY;
	int64_t seconds = (t - days * MS_PER_DAY) / 1000;
	/* close below, by the mean length of a year, and at most one off */
	int64_t year = (days + DAYS_TO_1970) * 400 / DAYS_PER_ERA, month = 1;

	while (day_of(year + 1, 1, 1) <= days)
		year++;
	while (day_of(year, 1, 1) > days)
		year--;
	while (month < 12 && day_of(year, month + 1, 1) <= days)
		month++;
	*put(put(put(ret, year, 4, '-'), month, 2, '-'), days - day_of(year, month, 1) + 1, 2,
		'T') = '\0';
	*put(put(put(ret + 11, seconds / 3600, 2, ':'), seconds / 60 % 60, 2, ':'), seconds % 60, 2,
		'Z') = '\0';
}

/* Take exactly n digits off the front, then the byte that follows them ('\0': none). */
static bool digits(struct slice *rest, size_t n, char after, int64_t *ret)
{
	int64_t value = 0;

	if (rest->len < n + (after != '\0'))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!text_is_digit(rest->at[i]))
			return false;
		value = value * 10 + (rest->at[i] - '0');
	}
	if (after != '\0' && rest->at[n] != after)
		return false;
	n += after != '\0';
	*rest = (struct slice){rest->at + n, rest->len - n};
	*ret = value;
	return true;
}

/* ".123456789": at least one digit; what is finer than a millisecond is dropped. */
static bool fraction(struct slice *rest, int64_t *ret_ms)
{
	int64_t digit, unit = 100;

	*ret_ms = 0;
	if (rest->len == 0 || rest->at[0] != '.')
		return true;
	*rest = (struct slice){rest->at + 1, rest->len - 1};
	if (!digits(rest, 1, '\0', &digit))
		return false;
	do {
		*ret_ms += digit * unit;
		unit /= 10;
	} while (digits(rest, 1, '\0', &digit));
	return true;
}

/* "Z", "+02:00", "-07:30", and nothing behind it */
static bool zone(struct slice rest, int64_t *ret_minutes)
{
	int64_t hours, minutes;
	bool west;

	*ret_minutes = 0;
	if (slice_is(rest, "Z"))
		return true;
	if (rest.len != 6 || (rest.at[0] != '+' && rest.at[0] != '-'))
		return false;
	west = rest.at[0] == '-';
	rest = (struct slice){rest.at + 1, rest.len - 1};
	if (!digits(&rest, 2, ':', &hours) || !digits(&rest, 2, '\0', &minutes) || hours > 23 ||
		minutes > 59)
		return false;
	*ret_minutes = (west ? -1 : 1) * (hours * 60 + minutes);
	return true;
}

bool rfc3339_read(struct slice text, int64_t *ret_ms)
{
	int64_t year, month, day, hour, minute, second, ms, offset, at;

	if (!digits(&text, 4, '-', &year) || !digits(&text, 2, '-', &month) ||
		!digits(&text, 2, 'T', &day) || !digits(&text, 2, ':', &hour) ||
		!digits(&text, 2, ':', &minute) || !digits(&text, 2, '\0', &second) ||
		!fraction(&text, &ms) || !zone(text, &offset))
		return false;
	if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || hour > 23 ||
		minute > 59 || second > 59)
		return false;
	at = day_of(year, month, day) * MS_PER_DAY +
	     (hour * 3600 + (minute - offset) * 60 + second) * 1000 + ms;
	if (at < TIME_MIN_MS || at > TIME_MAX_MS)
		return false;
	*ret_ms = at;
	return true;
}

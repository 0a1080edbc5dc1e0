/* SPDX-License-Identifier: Apache-2.0 */
/* base: a time of day as text. */
#include "base/clock.h"

const char *clock_text(int64_t seconds, char ret[static CLOCK_TEXT_SIZE])
{
	time_t t = (time_t)seconds;
	struct tm tm;

	if (!gmtime_r(&t, &tm) || strftime(ret, CLOCK_TEXT_SIZE, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		ret[0] = '\0';
	return ret;
}

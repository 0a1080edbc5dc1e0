/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: see probe_moment.h. */
#include "webhook/cluster/reconcile/probe_moment.h"

#include "base/text.h"

/* Of every_ms: the longest time between two questions to one that does not answer. */
#define PERIODS_MAX 6

int64_t probe_moment(const char *name, unsigned failures, int64_t every_ms, int64_t asked_ms)
{
	int64_t period = every_ms, phase, at;

	for (unsigned i = PROBE_FAILURES_MAX; i <= failures && period < PERIODS_MAX * every_ms; i++)
		period *= 2;
	if (period > PERIODS_MAX * every_ms)
		period = PERIODS_MAX * every_ms;
	phase = (int64_t)(text_hash64(slice_of(name)) % (uint64_t)period);
	at = asked_ms - asked_ms % period + phase;
	while (at < asked_ms + (period + 1) / 2)
		at += period;
	return at;
}

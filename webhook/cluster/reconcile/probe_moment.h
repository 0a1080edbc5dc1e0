/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: when a probe or a gate is asked again. */
#ifndef WEBHOOK_CLUSTER_RECONCILE_PROBE_MOMENT_H
#define WEBHOOK_CLUSTER_RECONCILE_PROBE_MOMENT_H

#include <stdint.h>

/* So many failures in a row, and its server is not fresh; from then on it is asked less often. */
#define PROBE_FAILURES_MAX 3u

/* When the server of that name is due again, asked at that time and with so many failures in a row
 * by then; in milliseconds of one clock. Each has its own moment of the round of every_ms, by its
 * name, so that what began at once does not stay so. Whoever does not answer is asked half as often
 * each time, up to a sixth. */
int64_t probe_moment(const char *name, unsigned failures, int64_t every_ms, int64_t asked_ms);

#endif

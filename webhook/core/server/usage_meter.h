/* SPDX-License-Identifier: Apache-2.0 */
/* core: what is counted in GPUServers' statuses (law P7), as sums that only grow: counters of one
 * process. Pure.
 *
 * Periods end and are forgotten once they are stored, so what stands in the statuses falls again.
 * The meter looks at all of them, again and again, and adds what has come since the look before;
 * what stood there at the first look is nobody's here. What comes between the last look at a period
 * and its end is not seen where it is stored and forgotten before the next look. Reports are exact.
 */
#ifndef WEBHOOK_CORE_SERVER_USAGE_METER_H
#define WEBHOOK_CORE_SERVER_USAGE_METER_H

#include "webhook/core/server/usage_record.h"

/* Beyond so many namespaces, policies and models what is new counts as others. */
#define USAGE_TOTALS_MAX 10000

struct usage_total {
	char *namespace, *policy, *model;
	struct usage_row sum; /* without texts */
};

struct usage_totals {
	usage_sum capacity, free, unfit, over;
	struct usage_total *at; /* by namespace, policy, model */
	size_t n, room;
	struct usage_total others; /* without texts */
};

struct usage_meter;

/* NULL: out of memory. */
struct usage_meter *usage_meter_new(void);
/* NULL-safe. */
void usage_meter_free(struct usage_meter *m);

/* A look: this for each server, then the other. What stands there counts until now_s; a text that
 * cannot be read counts nothing. False: out of memory; that look does not count. */
bool usage_meter_see(struct usage_meter *m, const struct server_object *o, int64_t now_s);

/* Which policy a namespace picks now, alive until the next call; never NULL. */
typedef const char *usage_policy_fn(void *ctx, const char *namespace);
void usage_meter_end(struct usage_meter *m, usage_policy_fn *policy, void *ctx);

/* The sums so far: the meter's own, which the end of a look changes. */
const struct usage_totals *usage_meter_totals(const struct usage_meter *m);

#endif

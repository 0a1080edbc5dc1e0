/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: which lines the log has already: what is wrong with a thing is told when it changes, and
 * once in ten minutes while it stays. */
#ifndef WEBHOOK_CLUSTER_DUTY_REPEAT_H
#define WEBHOOK_CLUSTER_DUTY_REPEAT_H

#include <stdbool.h>
#include <stdint.h>

#define REPEAT_MS 600000
/* Things that are remembered; of more than so many the one that was told longest ago is told anew.
 */
#define REPEAT_KEPT 64

/* Zero it. No lock: the caller's. */
struct repeat {
	struct {
		uint64_t what, message; /* hashes; what 0: free */
		int64_t told_ms;
	} slot[REPEAT_KEPT];
};

/* Is this to be told at now_ms (CLOCK_MONOTONIC)? Then it counts as told. */
bool repeat_due(struct repeat *r, const char *what, const char *message, int64_t now_ms);
/* Nothing is wrong with it any more: whatever comes next is told. */
void repeat_forget(struct repeat *r, const char *what);

#endif

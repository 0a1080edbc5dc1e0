/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: which pods hold a claim anywhere in the picture, so that a new pod's review need not
 * look through all servers. */
#ifndef WEBHOOK_CLUSTER_DUTY_UID_SET_H
#define WEBHOOK_CLUSTER_DUTY_UID_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

/* A table that is full is moved into one of twice the size at once: in so many parts each of them
 * is small. */
#define UID_SET_PARTS 256

/* Hashes of uids, each with the number of times it was added. Zero is an empty set. Not
 * thread-safe. */
struct uid_set {
	struct uid_part {
		struct uid_slot {
			uint64_t hash; /* 0: free */
			uint32_t count;
		} * slots;
		uint32_t cap, n; /* a power of two, at least twice n */
	} part[UID_SET_PARTS];
	size_t n;   /* different hashes */
	bool blind; /* memory ran out: knows nothing any more */
};

void uid_set_add(struct uid_set *s, struct slice uid);
/* Undo one add. */
void uid_set_remove(struct uid_set *s, struct slice uid);
/* It was added so many times at most: fewer times when its hash is that of another. UINT32_MAX when
 * the set is blind. */
uint32_t uid_set_count(const struct uid_set *s, struct slice uid);
/* Frees; the set is empty afterwards. */
void uid_set_release(struct uid_set *s);

#endif

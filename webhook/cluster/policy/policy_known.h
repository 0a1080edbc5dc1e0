/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: names and what is known of each, as lists and watches tell it. No lock: the caller's. */
#ifndef WEBHOOK_CLUSTER_POLICY_POLICY_KNOWN_H
#define WEBHOOK_CLUSTER_POLICY_POLICY_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct known_entry {
	char *name, *text; /* text NULL: nothing is known of it but that it is there */
	uint64_t round;    /* the list that showed it last */
};

/* Zero it. */
struct known {
	struct known_entry *at; /* by name */
	size_t n, room;
	uint64_t round;
	bool whole; /* a list has been read to its end */
};

/* Free all entries. */
void known_release(struct known *k);

/* A list begins, and is complete: what it did not show is gone. */
void known_listing(struct known *k);
void known_listed(struct known *k);

/* It is there. text is taken over (malloc'ed); replaces: also where it is NULL, else the one of
 * before stays. Out of memory it is as if it had not been told: it is asked for then. */
void known_put(struct known *k, struct slice name, char *text, bool replaces);
void known_drop(struct known *k, struct slice name);

/* NULL: nothing was told of it. */
const struct known_entry *known_find(const struct known *k, struct slice name);

#endif

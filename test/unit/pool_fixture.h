/* SPDX-License-Identifier: Apache-2.0 */
/* test: pools and demands out of short texts, for the tests of placement and ledger. */
#ifndef TEST_UNIT_POOL_FIXTURE_H
#define TEST_UNIT_POOL_FIXTURE_H

#include "webhook/core/pool/placement.h"

/* Bytes of a megabyte, in which fixtures count. */
#define MB 1000000ull

struct pool {
	struct arena arena;
	struct inventory inv;
	struct usage use;
	uint64_t *claimed, *pending; /* what use points to */
	uint32_t *n_claims;
};

/* "gpu-01 zone=lab v100:16000 v100:16000/8000; gpu-02 drain k80:11000/1000p": servers in order of
 * name with their labels, then GPUs as MODEL:MB[/CLAIMED_MB][flags]; flags w nobody says why, u
 * unfit, s stale, m missing, p all claimed is pending. '_' in a model is a blank. "claims=N": so
 * many claims on the server; "at=HOST:PORT": its address (NAME:56001). Aborts on nonsense. */
void pool_init(struct pool *p, const char *text);
void pool_release(struct pool *p);
/* placement_find() in it. */
int pool_place(struct pool *p, const struct demand *d, struct placement *ret, struct err *err);

/* "app a 2 100%; init b 1 8000; side c 1 10%": kind, name, amount, percent or megabytes. filters:
 * blank-separated tokens or NULL; servers: blank-separated names or NULL. Lives in the arena. */
void demand_init(struct demand *d, struct arena *a, const char *text, const char *filters,
	const char *servers, bool whole);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* core: the account of a policy that has caps: what its namespaces hold at once, as a line of text
 * in the policy's status (law P6). Whoever takes a claim raises it first, by compare-and-swap, and
 * leaves his name in it until it is known what came of his writes. It is lowered by counting the
 * claims anew, and by nothing else: a sum that is too high costs a count, one that is too low would
 * let pods in beyond the cap. Pure. */
#ifndef WEBHOOK_CORE_POLICY_POLICY_ACCOUNT_H
#define WEBHOOK_CORE_POLICY_POLICY_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "webhook/core/policy/policy.h"
#include "webhook/core/pool/ledger.h"

/* What is held: parts of so many GPUs, so many bytes. */
struct account_sum {
	uint64_t gpus, bytes;
};

/* With a claim's parts; what is more than there are numbers for is the largest. */
void account_sum_add(struct account_sum *sum, const struct claim *c);

/* Of one namespace; those in flight are in it. */
struct account_row {
	const char *namespace;
	struct account_sum held;
};

/* A claim that may not stand yet, or no more: its writes are on their way. */
struct account_flight {
	const char *uid, *namespace;
	uint64_t take; /* which review, or which decision of a leader: of a gang's members the same
			*/
	struct account_sum held;
};

struct account {
	/* Of the policy's spec when all rows were counted: under another one caps may not have been
	 * there, and claims taken without a word. 0: never. */
	int64_t generation;
	struct account_row *rows; /* by namespace */
	size_t n_rows;
	struct account_flight *flights;
	size_t n_flights;
};

/* Has the policy a cap that needs an account? */
bool policy_is_capped(const struct policy *p);

/* Read the text, which is copied; absent or empty: an account that was never counted. ERR_SYNTAX:
 * somebody else wrote it, or a later version. ERR_NOMEM. */
int account_read(struct slice text, struct arena *a, struct account *ret, struct err *err);
/* The text. */
void account_write(const struct account *c, struct buf *out);

/* Over all rows. */
struct account_sum account_held(const struct account *c);

/* Do the caps leave so much beside them? */
bool account_fits(const struct account *c, const struct policy *caps, struct account_sum wants);

/* What somebody is about to take. */
struct account_ask {
	const char *uid, *namespace; /* borrowed for as long as the account lives */
	uint64_t take;
	/* The same review's last try, of which no write was begun: its name goes. 0: there is none.
	 */
	uint64_t instead;
	struct account_sum wants;
	bool forced; /* the pod runs already: it is counted, whatever the cap is */
	/* It is asked again soon: it waits for nothing that was counted ahead to end. */
	bool at_once;
};

enum account_said {
	ACCOUNT_RAISED, /* it counts, and its name is there */
	ACCOUNT_THERE,  /* it did already */
	ACCOUNT_FULL,   /* the cap does not leave so much */
	ACCOUNT_UNKNOWN /* what this namespace holds was not counted yet, under this generation */
};
/* Arrays grow in the arena; a->failed: out of memory. */
enum account_said account_raise(struct account *c, const struct policy *caps, int64_t generation,
	const struct account_ask *ask, struct arena *a);

/* What came of its writes is known: its name goes, the sum stays until the next count. True: it was
 * there. */
bool account_close(struct account *c, const char *uid, uint64_t take);

/* The claim has its own name from now on; the sum has it already, under one that was closed. a:
 * as account_raise. */
void account_name(struct account *c, const struct account_ask *ask, struct arena *a);

/* A count of all claims, on a list that was begun after the account was read. */
struct account_count {
	struct account *account;
	struct account_sum *rows, *flights; /* seen so far */
	bool partly;                        /* some claims could not be read: nothing gets less */
};
/* Has it a row? */
bool account_knows(const struct account *c, const char *namespace);
/* Before: this namespace (borrowed) gets a row if it has none. False: out of memory. */
bool account_know(struct account *c, const char *namespace, struct arena *a);
/* Begin. False: out of memory. */
bool account_count_begin(struct account_count *n, struct account *c, struct arena *a);
/* One claim's part on one server. */
void account_count_add(struct account_count *n, const char *namespace, const char *uid,
	uint64_t take, struct account_sum holds);
/* Put what was counted, and those in flight beside it, in the place of what the rows said. Names
 * whose claims stand as a whole go. True: something is another than before. */
bool account_count_end(struct account_count *n, int64_t generation);
/* Drop the rows for which keep says false, when nobody is in flight there. True: there was one. */
bool account_drop(
	struct account *c, bool (*keep)(void *ctx, const struct account_row *row), void *ctx);

/* The refusal: which bound of which policy, what is used and by whom, what to do. ERR_REFUSED,
 * reason "PolicyFull". */
int account_refuse(const struct account *c, const struct policy *caps,
	const struct account_ask *ask, struct err *err);

#endif

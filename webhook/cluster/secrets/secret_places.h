/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the namespaces that hold claims, or copies of the client's Secrets, as the duty that
 * makes these copies knows them. */
#ifndef WEBHOOK_CLUSTER_SECRETS_SECRET_PLACES_H
#define WEBHOOK_CLUSTER_SECRETS_SECRET_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "webhook/cluster/ledger/servers.h"

/* What the last try at a namespace came to. */
enum place_state {
	PLACE_NEW,     /* none yet */
	PLACE_FILLED,  /* every copy is as the source is */
	PLACE_FOREIGN, /* so it is, but for Secrets that are somebody else's */
	PLACE_CLOSED,  /* our account may not write there */
	PLACE_FAILED
};

struct secret_place {
	char name[64];
	char pod[254], uid[64]; /* of one of its claims, for Events */
	bool wants;             /* holds a claim whose pod was seen */
	bool keeps;             /* holds any claim */
	bool recorded;          /* stands in the record: may hold copies */
	bool listed;            /* the record that is being read shows it */
	bool told;              /* of its state */
	enum place_state state;
	uint64_t generation; /* of the source that it was filled from */
	int64_t next_ms;     /* not to be looked at before */
	int64_t backoff_ms;
	int64_t idle_ms;  /* since when it holds no claim; 0: it does */
	int64_t stuck_ms; /* since when copies cannot be deleted; 0: never tried */
};

struct places {
	struct secret_place *at; /* in the order of their names */
	size_t n, cap;
	bool failed; /* out of memory, or too many: not all are known */
};

void places_release(struct places *p);
/* The place of that name, made if need be; NULL (and failed) when there is no room. Pointers into
 * the list end here. */
struct secret_place *places_add(struct places *p, struct slice name);
/* What the claims say now: sets wants, keeps, pod, uid and idle_ms of each. Namespaces in `except`
 * (NULL-terminated) are not added. */
void places_look(
	struct places *p, struct servers *servers, const char *const *except, int64_t now_ms);
/* Forget those that hold no claim and are not recorded. */
void places_prune(struct places *p);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: of several claims that one pod holds, which stays (rules R7, R19). */
#ifndef WEBHOOK_CLUSTER_CLAIMS_ADOPT_WHOLE_H
#define WEBHOOK_CLUSTER_CLAIMS_ADOPT_WHOLE_H

#include "webhook/cluster/ledger/servers.h"
#include "webhook/core/pool/placement.h"

struct claims;

/* Is there a whole claim among the records, at most n_records, that the uid holds? Then
 * *ret_servers are its servers, in the arena: of several whole ones it is that which the pod was
 * told, whose servers the demand names, else one of no gang that c knows as undecided, of these one
 * that follows nobody else, else one that a review promised, and of these one that its pod was seen
 * with. False also where the arena has failed: then nothing of what the pod holds looks whole, and
 * nobody may take it away for that. */
bool adopt_whole(struct servers *s, const struct claims *c, struct slice uid, size_t n_records,
	const struct demand *d, struct arena *a, const char ***ret_servers, size_t *ret_n);

#endif

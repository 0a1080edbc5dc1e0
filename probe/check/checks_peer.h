/* SPDX-License-Identifier: Apache-2.0 */
/* probe: data from one GPU to another. */
#ifndef PROBE_CHECK_CHECKS_PEER_H
#define PROBE_CHECK_CHECKS_PEER_H

#include "probe/check/checks.h"

/* Copy a pattern from one GPU's memory to the other's, directly, several times with another seed
 * each; every byte is compared where it arrives, and the median of the rates is the value. index:
 * what the runtime calls each of them here. r was begun as CHECK_P2P; skipped: "no_peer_access",
 * "different_gpus". False: a context is lost. */
bool check_peer(struct check_world *from, int from_index, struct check_world *to, int to_index,
	struct check_result *r);

#endif

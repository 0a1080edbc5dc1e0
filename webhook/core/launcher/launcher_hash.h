/* SPDX-License-Identifier: Apache-2.0 */
/* core: the fingerprint of a launcher profile. */
#ifndef WEBHOOK_CORE_LAUNCHER_LAUNCHER_HASH_H
#define WEBHOOK_CORE_LAUNCHER_LAUNCHER_HASH_H

#include "base/err.h"
#include "webhook/core/launcher/launcher.h"

/* Set p->hash: text_hash64 over a rendering of every member that decides what is written into a pod
 * or accepted from it, in a fixed order and with lengths, so that two profiles with the same hash
 * do the same. ERR_NOMEM. */
int profile_seal(struct profile *p, struct err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* core: what the leader writes into a GPUServer's status of what its gate tells: Guarded, who has
 * more than his share, who uses nothing, and GPUs on which strangers compute. Pure. */
#ifndef WEBHOOK_CORE_SERVER_SERVER_GUARD_H
#define WEBHOOK_CORE_SERVER_SERVER_GUARD_H

#include "webhook/core/server/gate_page.h"
#include "webhook/core/server/server_object.h"

/* Reasons of the condition Guarded beside those of Fresh (server_keep.h) where nothing was heard.
 */
#define GUARDED_HELD "SharesHeld"
#define GUARDED_UNTRIED "SharesUnknown"
#define GUARDED_EXCEEDED "SharesExceeded"
#define GUARDED_OTHER_SERVER "OtherServer"
#define GUARDED_OTHER_PROFILE "OtherProfile"
#define GUARDED_OTHER_MODE "OtherMode"
#define GUARDED_NOT_ASKED "NotAskedYet"
#define GUARDED_NO_GATE "NoGate"

/* Reasons of OverShare, Unused and Strangers. */
#define USE_OVER "MoreThanShare"
#define USE_UNUSED "NothingUsed"
#define USE_STRANGERS "NoClaim"
#define USE_FINE "AsClaimed"
#define USE_UNKNOWN "NotKnown"

/* A claim of which nothing was used for so long is told. */
#define USE_IDLE_S 3600

/* What a gate has told of a claim counts for so long where its next answer is not heard, and is
 * written again after this, where nothing else is to be written before: a commit a minute. */
#define USED_COUNTS_MS 120000
#define USED_AGAIN_MS 60000

/* The server's claim of this uid has been unused for long, and its pod runs as far as is known. */
bool server_guard_unused(const struct claim_record *r, const struct gate_claim *c);

/* The first that computes on this GPU, or on an instance of it, and belongs to no claim; NULL:
 * nobody does. */
const struct gate_stranger *server_guard_stranger(const struct gate_page *p, const struct gpu *g);

/* What the gate has told. True when anything changed; false with a->failed: no memory. */
bool server_guard_told(
	struct server_object *o, const struct gate_page *page, const char *now, struct arena *a);
/* It tells nothing that counts: Guarded is Unknown for that reason, and so is what is used; a GPU
 * that was closed stays so. */
bool server_guard_silent(struct server_object *o, const char *reason, const char *message,
	const char *now, struct arena *a);

/* What claims use, for who adds it up (usage_record.h), and nothing where nobody does. page NULL:
 * nobody knows. written: the status is going to be written anyway. True when anything changed. */
bool server_guard_used(
	struct server_object *o, const struct gate_page *page, int64_t wall_ms, bool written);

#endif

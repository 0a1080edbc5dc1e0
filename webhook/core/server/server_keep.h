/* SPDX-License-Identifier: Apache-2.0 */
/* core: what the leader keeps true in a GPUServer's status: its own GPUs and its conditions. Pure.
 */
#ifndef WEBHOOK_CORE_SERVER_SERVER_KEEP_H
#define WEBHOOK_CORE_SERVER_SERVER_KEEP_H

#include <stdbool.h>

#include "base/arena.h"
#include "webhook/core/server/server_object.h"

/* Reasons of the condition Fresh. */
#define FRESH_LISTED "ListedByHand"
#define FRESH_NOT_ASKED "NotAskedYet"
#define FRESH_ANSWERED "ProbeAnswered"
#define FRESH_STALE "ProbeStale"
#define FRESH_NO_ANSWER "NoAnswer"
#define FRESH_TOKEN_KEPT "TokenNotSent"
#define FRESH_SECRET_KEPT "SecretNotUsed"
#define FRESH_SECRET_MISSING "SecretMissing"

/* Reasons of the condition Unique (rule R15). */
#define UNIQUE_TWIN "HeldByAnOlderServer"
#define UNIQUE_ALONE "NoOtherHasIt"

/* Reasons of the condition Lingering (rule R13). */
#define LINGERING_PODS "PodsVanished"
#define LINGERING_NONE "NoneLingers"

/* Reasons of the condition Unstarted. */
#define UNSTARTED_PODS "PodsNotStarted"
#define UNSTARTED_NONE "PodsStarted"

/* And what Ready says of a server that has nothing of its own. */
#define READY_NOT_UNIQUE "NotUnique"

/* Does the condition Unique say something else than o->twin? */
bool server_keep_unique_due(const struct server_object *o);

/* Set the condition Fresh; reason and message must live as long as the status. now: RFC 3339. True
 * when it changed; false with a->failed: no memory. */
bool server_keep_fresh(struct server_object *o, bool fresh, const char *reason, const char *message,
	const char *now, struct arena *a);

/* Make true what follows from the rest: GPUs of a hand-listed server (missing ones without claims
 * are dropped from every server), Fresh of a hand-listed one and of one that has a probe only now,
 * Unique, Lingering, Unstarted, Ready, observedGeneration. True when anything changed; false with
 * a->failed: no memory, the status is not to be written. */
bool server_keep_status(struct server_object *o, const char *now, struct arena *a);

#endif

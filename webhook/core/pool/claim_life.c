/* SPDX-License-Identifier: Apache-2.0 */
/* core: when a claim is kept, bound or ended. */
#include "webhook/core/pool/claim_life.h"

struct claim_pace claim_pace(void)
{
	return (struct claim_pace){CLAIM_PENDING_MS, CLAIM_ASK_MS, CLAIM_RETRY_MS, CLAIM_MARGIN_MS};
}

static struct claim_verdict keep_until(int64_t ms)
{
	return (struct claim_verdict){CLAIM_KEEP, ms};
}

static struct claim_verdict ask_at(int64_t ms, int64_t now_ms)
{
	return ms > now_ms ? keep_until(ms) : (struct claim_verdict){CLAIM_ASK, now_ms};
}

/* Nobody has seen the pod. It may still come for as long as its create can live. */
static struct claim_verdict pending(
	const struct claim_sight *c, const struct claim_pace *pace, int64_t now_ms)
{
	int64_t due = c->since_ms + pace->pending_ms;

	if (c->asked_ms < due)
		return ask_at(due, now_ms);
	if (c->answer == ANSWER_GONE)
		return (struct claim_verdict){CLAIM_END, now_ms};
	return ask_at(c->asked_ms + pace->retry_ms, now_ms);
}

/* By rule R13 a kubelet may be about to end what the API server shows no more. */
static struct claim_verdict gone(
	const struct claim_sight *c, const struct claim_pace *pace, int64_t now_ms)
{
	int64_t due = c->gone_ms + c->grace_ms + pace->margin_ms;

	if (c->unplaced)
		return (struct claim_verdict){CLAIM_END, now_ms};
	if (now_ms < due)
		return (struct claim_verdict){CLAIM_LINGER, due};
	return (struct claim_verdict){c->asked_ms < due ? CLAIM_ASK : CLAIM_END, now_ms};
}

/* The pod was there once: what is gone does not come back, its uid is never used again. */
static struct claim_verdict bound(
	const struct claim_sight *c, const struct claim_pace *pace, int64_t now_ms)
{
	/* An answer from before somebody else saw the pod says nothing about what came after. */
	if (c->asked_ms == 0 || c->asked_ms < c->since_ms)
		return ask_at(c->synced ? now_ms : c->since_ms + pace->ask_ms, now_ms);
	if (c->answer == ANSWER_GONE)
		return gone(c, pace, now_ms);
	if (c->answer == ANSWER_NONE)
		return ask_at(c->asked_ms + pace->retry_ms, now_ms);
	return ask_at(c->lost_ms > c->asked_ms ? now_ms : c->asked_ms + pace->ask_ms, now_ms);
}

struct claim_verdict claim_life(
	const struct claim_sight *c, const struct claim_pace *pace, int64_t now_ms)
{
	/* Phases are final, and a uid that was ever live has been live: these answers do not age.
	 */
	if (c->seen == POD_FINISHED || c->answer == ANSWER_FINISHED)
		return (struct claim_verdict){CLAIM_END, now_ms};
	if (c->unbound && (c->seen == POD_LIVE || c->answer == ANSWER_LIVE))
		return (struct claim_verdict){CLAIM_BIND, now_ms};
	if (c->seen == POD_LIVE)
		return keep_until(INT64_MAX);
	/* By rule R12 what the watch has once shown is stored: it may go, but not come any more. */
	return c->pending && !c->lost_ms ? pending(c, pace, now_ms) : bound(c, pace, now_ms);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* certs: decides the next step of renewing certificates. Pure. */
#include "certs/rotation.h"

#include <stddef.h>

static bool exists(struct rotation_span s)
{
	return s.until > s.from;
}

static bool expired(struct rotation_span s, int64_t now)
{
	return s.until <= now;
}

static int64_t later(int64_t at, int64_t wait_s)
{
	return wait_s > 0 && at > INT64_MAX - wait_s ? INT64_MAX : at + wait_s;
}

struct rotation_policy rotation_policy_default(void)
{
	return (struct rotation_policy){ROTATION_PUBLISH_WAIT_S, ROTATION_DROP_WAIT_S};
}

int64_t rotation_due_at(struct rotation_span span)
{
	int64_t life = span.until - span.from;

	/* two thirds without overflow */
	return span.from + life / 3 * 2 + life % 3 * 2 / 3;
}

static struct rotation_step act(enum rotation_action action, int64_t now)
{
	return (struct rotation_step){action, now};
}

/* Renewing helps only when the new pair, which cannot outlive its CA, would end later than the
 * present one. */
static bool serving_due(const struct rotation_state *s, int64_t now)
{
	if (!exists(s->serving) || s->serving.from > now || expired(s->serving, now))
		return true;
	return rotation_due_at(s->serving) <= now && s->ca.until > s->serving.until;
}

/* The signing CA is gone: with a next one at hand the waits are pointless, clients refuse the
 * present pair anyway. */
static enum rotation_action without_ca(const struct rotation_state *s, int64_t now)
{
	if (!exists(s->next_ca) || expired(s->next_ca, now))
		return ROTATION_START_OVER;
	return s->next_published ? ROTATION_SWITCH_PAIR : ROTATION_PUBLISH_BOTH;
}

/* What is due for the CAs alone; *again_at is lowered to the second at which that changes. */
static enum rotation_action for_cas(const struct rotation_state *s,
	const struct rotation_policy *policy, int64_t now, int64_t *again_at)
{
	int64_t at = 0;

	if (exists(s->old_ca)) {
		at = later(s->switched_at, policy->drop_wait_s);
		if (!s->old_published || expired(s->old_ca, now) || at <= now)
			return ROTATION_DROP_OLD_CA;
		if (s->old_ca.until < at)
			at = s->old_ca.until;
	} else if (exists(s->next_ca) && !expired(s->next_ca, now)) {
		if (!s->next_published)
			return ROTATION_PUBLISH_BOTH;
		at = later(s->published_at, policy->publish_wait_s);
		if (s->next_ca.from > at)
			at = s->next_ca.from;
		if (at <= now)
			return ROTATION_SWITCH_PAIR;
	} else {
		at = rotation_due_at(s->ca);
		if (at <= now)
			return ROTATION_MAKE_NEXT_CA;
	}
	if (at < *again_at)
		*again_at = at;
	return ROTATION_NOTHING;
}

struct rotation_step rotation_decide(
	const struct rotation_state *state, const struct rotation_policy *policy, int64_t now)
{
	enum rotation_action cas = ROTATION_NOTHING;
	int64_t again_at = 0;

	if (!exists(state->ca) || expired(state->ca, now))
		return act(without_ca(state, now), now);
	if (state->ca.from > now)
		return (struct rotation_step){ROTATION_NOTHING, state->ca.from};
	if (!state->ca_published)
		return act(ROTATION_PUBLISH_CA, now);

	again_at = state->ca.until;
	cas = for_cas(state, policy, now, &again_at);
	/* switching makes a new pair too, so it need not be renewed first */
	if (cas != ROTATION_SWITCH_PAIR && serving_due(state, now))
		return act(ROTATION_RENEW_SERVING, now);
	if (cas != ROTATION_NOTHING)
		return act(cas, now);

	if (rotation_due_at(state->serving) > now && rotation_due_at(state->serving) < again_at)
		again_at = rotation_due_at(state->serving);
	if (state->serving.until < again_at)
		again_at = state->serving.until;
	return (struct rotation_step){ROTATION_NOTHING, again_at};
}

const char *rotation_action_name(enum rotation_action action)
{
	static const char *const names[] = {"nothing", "start-over", "publish-ca", "renew-serving",
		"make-next-ca", "publish-both", "switch-pair", "drop-old-ca"};

	return (size_t)action < sizeof(names) / sizeof(names[0]) ? names[action] : "unknown";
}

/* SPDX-License-Identifier: Apache-2.0 */
/* certs/rotation, certs/ossl: a table of states and the action each asks for; then a whole
 * rotation, step by step. */
#include "certs/rotation.h"
#include "test/unit/test.h"

#define NOW 1000000
#define DAY 86400
/* A span that has `past` behind it and `ahead` before it. */
#define SPAN(past, ahead)                                                                          \
	{                                                                                          \
		NOW - (past), NOW + (ahead)                                                        \
	}
#define NONE                                                                                       \
	{                                                                                          \
		0, 0                                                                               \
	}

static const struct rotation_policy policy = {100, 1000};

struct row {
	const char *name;
	struct rotation_state s;
	enum rotation_action action;
	int64_t again_at;
};

static const struct row rows[] = {
	{"nothing there", {.ca = NONE}, ROTATION_START_OVER, NOW},
	{"until before from counts as nothing", {.ca = {NOW, NOW - 1}}, ROTATION_START_OVER, NOW},
	{"all fresh: wait for the pair's two thirds",
		{.ca = SPAN(0, 9000), .serving = SPAN(0, 300), .ca_published = true},
		ROTATION_NOTHING, NOW + 200},
	{"the CA's two thirds come first",
		{.ca = SPAN(5000, 4000), .serving = SPAN(0, 3000), .ca_published = true},
		ROTATION_NOTHING, NOW + 1000},
	{"one second before two thirds",
		{.ca = SPAN(0, 9000), .serving = SPAN(199, 101), .ca_published = true},
		ROTATION_NOTHING, NOW + 1},
	{"two thirds", {.ca = SPAN(0, 9000), .serving = SPAN(200, 100), .ca_published = true},
		ROTATION_RENEW_SERVING, NOW},
	{"expired pair", {.ca = SPAN(0, 9000), .serving = SPAN(300, 0), .ca_published = true},
		ROTATION_RENEW_SERVING, NOW},
	{"no pair", {.ca = SPAN(0, 9000), .ca_published = true}, ROTATION_RENEW_SERVING, NOW},
	{"pair of the future",
		{.ca = SPAN(0, 9000), .serving = {NOW + 5, NOW + 9}, .ca_published = true},
		ROTATION_RENEW_SERVING, NOW},
	{"CA of the future: a wrong clock, do nothing",
		{.ca = {NOW + 50, NOW + 900},
			.serving = {NOW + 50, NOW + 90},
			.ca_published = true},
		ROTATION_NOTHING, NOW + 50},
	{"unpublished CA", {.ca = SPAN(0, 9000), .serving = SPAN(0, 300)}, ROTATION_PUBLISH_CA,
		NOW},
	{"unpublished CA goes before a due pair", {.ca = SPAN(0, 9000), .serving = SPAN(250, 50)},
		ROTATION_PUBLISH_CA, NOW},
	{"CA due", {.ca = SPAN(6000, 3000), .serving = SPAN(0, 300), .ca_published = true},
		ROTATION_MAKE_NEXT_CA, NOW},
	{"a due pair goes before a due CA",
		{.ca = SPAN(6000, 3000), .serving = SPAN(200, 100), .ca_published = true},
		ROTATION_RENEW_SERVING, NOW},
	{"a due pair that ends with its CA gains nothing by renewal",
		{.ca = SPAN(6000, 100), .serving = SPAN(200, 100), .ca_published = true},
		ROTATION_MAKE_NEXT_CA, NOW},
	{"next CA, unpublished",
		{.ca = SPAN(6000, 3000),
			.next_ca = SPAN(0, 9000),
			.serving = SPAN(0, 300),
			.ca_published = true},
		ROTATION_PUBLISH_BOTH, NOW},
	{"both published just now: wait",
		{.ca = SPAN(6000, 3000),
			.next_ca = SPAN(0, 9000),
			.serving = SPAN(0, 300),
			.ca_published = true,
			.next_published = true,
			.published_at = NOW},
		ROTATION_NOTHING, NOW + 100},
	{"both published long enough",
		{.ca = SPAN(6000, 3000),
			.next_ca = SPAN(0, 9000),
			.serving = SPAN(0, 300),
			.ca_published = true,
			.next_published = true,
			.published_at = NOW - 100},
		ROTATION_SWITCH_PAIR, NOW},
	{"a due pair while waiting is renewed by the old CA",
		{.ca = SPAN(6000, 3000),
			.next_ca = SPAN(0, 9000),
			.serving = SPAN(200, 100),
			.ca_published = true,
			.next_published = true,
			.published_at = NOW},
		ROTATION_RENEW_SERVING, NOW},
	{"a due pair when the switch is due is switched",
		{.ca = SPAN(6000, 3000),
			.next_ca = SPAN(0, 9000),
			.serving = SPAN(200, 100),
			.ca_published = true,
			.next_published = true,
			.published_at = NOW - 100},
		ROTATION_SWITCH_PAIR, NOW},
	{"the next CA is not valid yet: wait for it",
		{.ca = SPAN(6000, 3000),
			.next_ca = {NOW + 7, NOW + 9000},
			.serving = SPAN(0, 300),
			.ca_published = true,
			.next_published = true,
			.published_at = NOW - 100},
		ROTATION_NOTHING, NOW + 7},
	{"an expired next CA is made anew",
		{.ca = SPAN(6000, 3000),
			.next_ca = SPAN(9000, 0),
			.serving = SPAN(0, 300),
			.ca_published = true,
			.next_published = true,
			.published_at = NOW - 100},
		ROTATION_MAKE_NEXT_CA, NOW},
	{"expired CA, no other",
		{.ca = SPAN(9000, 0), .serving = SPAN(300, 0), .ca_published = true},
		ROTATION_START_OVER, NOW},
	{"expired CA, next one unpublished: publish without waiting",
		{.ca = SPAN(9000, 0),
			.next_ca = SPAN(0, 9000),
			.serving = SPAN(300, 0),
			.ca_published = true},
		ROTATION_PUBLISH_BOTH, NOW},
	{"expired CA, next one published just now: switch without waiting",
		{.ca = SPAN(9000, 0),
			.next_ca = SPAN(0, 9000),
			.serving = SPAN(300, 0),
			.ca_published = true,
			.next_published = true,
			.published_at = NOW},
		ROTATION_SWITCH_PAIR, NOW},
	{"both CAs expired",
		{.ca = SPAN(9000, 0),
			.next_ca = SPAN(9000, 0),
			.ca_published = true,
			.next_published = true},
		ROTATION_START_OVER, NOW},
	{"switched just now: the old CA stays",
		{.ca = SPAN(0, 9000),
			.old_ca = SPAN(6000, 3000),
			.serving = SPAN(0, 3000),
			.ca_published = true,
			.old_published = true,
			.switched_at = NOW},
		ROTATION_NOTHING, NOW + 1000},
	{"switched long ago: drop it",
		{.ca = SPAN(0, 9000),
			.old_ca = SPAN(6000, 3000),
			.serving = SPAN(0, 3000),
			.ca_published = true,
			.old_published = true,
			.switched_at = NOW - 1000},
		ROTATION_DROP_OLD_CA, NOW},
	{"an expired old CA is dropped at once",
		{.ca = SPAN(0, 9000),
			.old_ca = SPAN(9000, 0),
			.serving = SPAN(0, 3000),
			.ca_published = true,
			.old_published = true,
			.switched_at = NOW},
		ROTATION_DROP_OLD_CA, NOW},
	{"an old CA out of the bundle is forgotten at once",
		{.ca = SPAN(0, 9000),
			.old_ca = SPAN(6000, 3000),
			.serving = SPAN(0, 3000),
			.ca_published = true,
			.switched_at = NOW},
		ROTATION_DROP_OLD_CA, NOW},
	{"the old CA's end shortens the wait",
		{.ca = SPAN(0, 9000),
			.old_ca = SPAN(6000, 40),
			.serving = SPAN(0, 3000),
			.ca_published = true,
			.old_published = true,
			.switched_at = NOW},
		ROTATION_NOTHING, NOW + 40},
	{"a due pair goes before the old CA",
		{.ca = SPAN(0, 9000),
			.old_ca = SPAN(6000, 3000),
			.serving = SPAN(200, 100),
			.ca_published = true,
			.old_published = true,
			.switched_at = NOW - 1000},
		ROTATION_RENEW_SERVING, NOW},
	{"dates at the edge do not overflow",
		{.ca = {0, INT64_MAX},
			.old_ca = {0, INT64_MAX},
			.serving = SPAN(0, 300),
			.ca_published = true,
			.old_published = true,
			.switched_at = INT64_MAX - 5},
		ROTATION_NOTHING, NOW + 200},
};

TEST(test_table)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct rotation_step got = rotation_decide(&rows[i].s, &policy, NOW);

		if (got.action != rows[i].action || got.again_at != rows[i].again_at)
			fail_msg("%s: got %s at %+lld, want %s at %+lld", rows[i].name,
				rotation_action_name(got.action), (long long)got.again_at - NOW,
				rotation_action_name(rows[i].action),
				(long long)rows[i].again_at - NOW);
	}
}

TEST(test_due_at)
{
	static const struct {
		struct rotation_span span;
		int64_t due;
	} cases[] = {
		{{0, 3}, 2},
		{{0, 300}, 200},
		{{10, 11}, 10},
		{{10, 12}, 11},
		{{0, INT64_MAX}, INT64_MAX / 3 * 2 + INT64_MAX % 3 * 2 / 3},
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		assert_int_equal(rotation_due_at(cases[i].span), cases[i].due);
}

TEST(test_names)
{
	assert_string_equal(rotation_action_name(ROTATION_NOTHING), "nothing");
	assert_string_equal(rotation_action_name(ROTATION_DROP_OLD_CA), "drop-old-ca");
	assert_string_equal(rotation_action_name((enum rotation_action)99), "unknown");
	assert_int_equal(rotation_policy_default().publish_wait_s, ROTATION_PUBLISH_WAIT_S);
	assert_int_equal(rotation_policy_default().drop_wait_s, ROTATION_DROP_WAIT_S);
}

/* ---- years of rotation ---- */

#define CA_LIFE (100 * DAY)
#define SERVING_LIFE (30 * DAY)

static struct rotation_span sign(int64_t now, int64_t life, struct rotation_span by)
{
	int64_t until = now + life;

	return (struct rotation_span){now - 300, until < by.until ? until : by.until};
}

/* Do what the step says; the counts are of each action. */
static void obey(struct rotation_state *s, enum rotation_action action, int64_t now)
{
	struct rotation_span forever = {0, INT64_MAX};

	switch (action) {
	case ROTATION_NOTHING:
		break;
	case ROTATION_START_OVER:
		*s = (struct rotation_state){
			.ca = sign(now, CA_LIFE, forever), .ca_published = true};
		s->serving = sign(now, SERVING_LIFE, s->ca);
		break;
	case ROTATION_PUBLISH_CA:
		s->ca_published = true;
		break;
	case ROTATION_RENEW_SERVING:
		s->serving = sign(now, SERVING_LIFE, s->ca);
		break;
	case ROTATION_MAKE_NEXT_CA:
		s->next_ca = sign(now, CA_LIFE, forever);
		s->next_published = false;
		break;
	case ROTATION_PUBLISH_BOTH:
		s->next_published = true;
		s->published_at = now;
		break;
	case ROTATION_SWITCH_PAIR:
		s->old_ca = s->ca;
		s->old_published = s->ca_published;
		s->ca = s->next_ca;
		s->ca_published = s->next_published;
		s->next_ca = (struct rotation_span){0, 0};
		s->next_published = false;
		s->serving = sign(now, SERVING_LIFE, s->ca);
		s->switched_at = now;
		break;
	case ROTATION_DROP_OLD_CA:
		s->old_ca = (struct rotation_span){0, 0};
		s->old_published = false;
		break;
	}
}

/* Ten years in which the answer is asked for when it may change: no moment without a valid,
 * published chain, no busy loop, and exactly one start. */
TEST(test_years)
{
	struct rotation_policy p = rotation_policy_default();
	struct rotation_state s = {0};
	int64_t now = NOW;
	size_t acts[8] = {0};
	unsigned in_a_row = 0;

	while (now < NOW + (int64_t)3650 * DAY) {
		struct rotation_step step = rotation_decide(&s, &p, now);

		acts[step.action]++;
		obey(&s, step.action, now);
		if (step.action != ROTATION_NOTHING) {
			assert_true(++in_a_row < 5);
			continue;
		}
		in_a_row = 0;
		assert_true(step.again_at > now);
		assert_true(s.ca_published && s.ca.until > now && s.serving.until > now);
		now = step.again_at;
	}
	assert_int_equal(acts[ROTATION_START_OVER], 1);
	assert_int_equal(acts[ROTATION_PUBLISH_CA], 0);
	assert_true(acts[ROTATION_SWITCH_PAIR] >= 50 && acts[ROTATION_SWITCH_PAIR] <= 56);
	assert_int_equal(acts[ROTATION_SWITCH_PAIR], acts[ROTATION_MAKE_NEXT_CA]);
	assert_int_equal(acts[ROTATION_SWITCH_PAIR], acts[ROTATION_PUBLISH_BOTH]);
	assert_true(acts[ROTATION_RENEW_SERVING] > 100);
}

TESTS(test_table, test_due_at, test_names, test_years)

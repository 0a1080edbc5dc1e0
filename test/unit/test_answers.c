/* SPDX-License-Identifier: Apache-2.0 */
/* test: what a server answers to each golden case, to what comes of its pod, and to both in small
 * changes (vary.h), with a policy and without, is what it was before (kept.h). Runs where the tree
 * is. */
#include <cjson/cJSON.h>

#include "test/unit/core_fixture.h"
#include "test/unit/golden_fixture.h"
#include "test/unit/kept.h"
#include "test/unit/test.h"
#include "test/unit/vary.h"
#include "webhook/core/policy/policy.h"

#define STEP 41 /* one change of so many, beginning elsewhere in each case */

/* ---- a policy ---- */

static int policy(void *ctx, const struct config *config, struct slice namespace, bool picks,
	int64_t deadline_ms, struct arena *a, const struct policy **ret, struct err *err)
{
	static const char *const models[] = {"A2", "Tesla V100", "Tesla T4"};
	static const struct policy one = {.name = "one",
		.inject = true,
		.share = 100,
		.os = "ubuntu20",
		.version = "450",
		.percent = 50,
		.accepts = (1U << FOREIGN_KEYS) - 1,
		.models = (const char **)models,
		.n_models = COUNT(models),
		.gpus = 8,
		.waiting = UINT32_MAX,
		.bytes = 64000000000ULL};

	(void)ctx;
	(void)config;
	(void)namespace;
	(void)picks;
	(void)deadline_ms;
	(void)a;
	(void)err;
	*ret = &one;
	return 0;
}

static bool any(void *ctx, const struct config *config)
{
	(void)ctx;
	(void)config;
	return true;
}

static const struct policies_known policies = {.any = any, .of = policy};

/* ---- a case, and what comes of it ---- */

struct subject {
	const char *name;
	const struct golden_setup *setup;
	bool validate;
	cJSON *review;
	const struct golden_frame *frame;
};

/* A patch as people read it. */
static void note_patch(const char *reply)
{
	char *patch;

	(void)golden_verdict(reply, &patch);
	if (patch)
		kept_note(patch);
	free(patch);
}

static void answer(void *ctx)
{
	const struct subject *s = ctx;
	char *text = cJSON_PrintUnformatted(s->review);
	struct golden_answer d;

	assert_non_null(text);
	d = golden_decide(s->setup, s->validate, slice_of(text), s->frame);
	kept_say("%u, %zu claims", d.status, d.claims);
	kept_text(d.body ? d.body : "");
	if (d.status == 200 && kept_shows())
		note_patch(d.body);
	free(d.body);
	free(text);
}

/* The review as it is, and one change of STEP. */
static void part(struct subject s, const char *name, char *review)
{
	static const struct golden_frame with = {.policies = &policies};
	char group[128];
	size_t first = 0;

	for (const char *c = s.name; *c; c++)
		first += (unsigned char)*c;
	s.review = cJSON_Parse(review);
	assert_non_null(s.review);
	snprintf(group, sizeof(group), "%s:%s", s.name, name);
	kept_group(group);
	answer(&s);
	vary(s.review, first % STEP, STEP, answer, &s);
	s.frame = &with;
	answer(&s);
	vary(s.review, (first + STEP / 2) % STEP, STEP, answer, &s);
	kept_group_end();
	cJSON_Delete(s.review);
	free(review);
}

static void one_case(const struct golden_case *c, void *ctx)
{
	const struct json *j = &c->review.json;
	const struct json_node *request = json_get(j, json_root(j), SLICE("request"));
	struct slice review = json_raw(j, json_root(j)),
		     object = json_raw(j, json_get(j, request, SLICE("object")));
	struct subject s = {.name = c->name, .setup = c->setup, .validate = c->validate};
	struct golden_answer d = golden_decide(c->setup, c->validate, review, NULL);
	char *patch, *pod, *stored;

	(void)ctx;
	part(s, "review", strndup(review.at, review.len));
	(void)golden_verdict(d.body, &patch);
	if (patch && json_is_str(j, json_get(j, request, SLICE("operation")), SLICE("CREATE"))) {
		pod = strndup(object.at, object.len);
		stored = golden_stored(pod, patch);
		part(s, "again", golden_review("CREATE", stored, "null"));
		part(s, "update", golden_review("UPDATE", stored, stored));
		part(s, "apply", golden_review("UPDATE", pod, stored));
		s.validate = true;
		part(s, "validate", golden_review("CREATE", stored, "null"));
		part(s, "checked", golden_review("UPDATE", stored, stored));
		free(stored);
		free(pod);
	}
	free(patch);
	free(d.body);
}

TEST(test_answers_are_as_before)
{
	kept_begin("answers");
	golden_each(one_case, NULL);
	kept_end();
}

FIXTURE(begin)
{
	golden_begin();
	return 0;
}

FIXTURE(end)
{
	golden_end();
	return 0;
}

TESTS_WITHIN(begin, end, test_answers_are_as_before)

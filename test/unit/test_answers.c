/* SPDX-License-Identifier: Apache-2.0 */
/* test: what a server answers to each golden case, to what comes of its pod, and to both in small
 * changes (vary.h), is what it was before (kept.h): as the case has it, where its namespace picks a
 * policy, where nodes are asked for nothing, and where places come late. Runs where the tree is. */
#include <cjson/cJSON.h>

#include "base/text.h"
#include "test/unit/core_fixture.h"
#include "test/unit/golden_fixture.h"
#include "test/unit/kept.h"
#include "test/unit/test.h"
#include "test/unit/vary.h"
#include "webhook/core/policy/policy.h"

#define STEP 97 /* one change of so many, beginning elsewhere in each case */

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

/* The review, which is freed, as it is, and in one change of STEP. */
static void part(struct subject s, size_t first, char *review)
{
	s.review = cJSON_Parse(review);
	assert_non_null(s.review);
	answer(&s);
	vary(s.review, first % STEP, STEP, answer, &s);
	cJSON_Delete(s.review);
	free(review);
}

/* What comes of a pod that was injected: it is reviewed again, admitted, updated and applied. */
static void go_on(struct subject s, size_t first, const char *pod, const char *patch)
{
	char *stored = golden_stored(pod, patch);

	part(s, first + 1, golden_review("CREATE", stored, "null"));
	part(s, first + 2, golden_review("UPDATE", stored, stored));
	part(s, first + 3, golden_review("UPDATE", pod, stored));
	s.validate = true;
	part(s, first + 4, golden_review("CREATE", stored, "null"));
	part(s, first + 5, golden_review("UPDATE", stored, stored));
	free(stored);
}

static const struct {
	const char *name;
	struct golden_frame frame;
} frames[] = {{"plain", {0}}, {"policy", {.policies = &policies}},
	{"off", {.node_resource_off = true}},
	{"late", {.policies = &policies, .late_place = true}}};

static void one_case(const struct golden_case *c, void *ctx)
{
	const struct json *j = &c->review.json;
	const struct json_node *request = json_get(j, json_root(j), SLICE("request"));
	struct slice review = json_raw(j, json_root(j)),
		     object = json_raw(j, json_get(j, request, SLICE("object")));
	bool made = json_is_str(j, json_get(j, request, SLICE("operation")), SLICE("CREATE"));
	size_t first = text_hash64(slice_of(c->name)) % STEP;

	(void)ctx;
	for (size_t i = 0; i < COUNT(frames); i++, first += STEP / COUNT(frames)) {
		struct subject s = {
			.setup = c->setup, .validate = c->validate, .frame = &frames[i].frame};
		struct golden_answer d = golden_decide(c->setup, c->validate, review, s.frame);
		char group[128], *patch, *pod;

		(void)snprintf(group, sizeof(group), "%s:%s", c->name, frames[i].name);
		kept_group(group);
		part(s, first, strndup(review.at, review.len));
		(void)golden_verdict(d.body, &patch);
		if (patch && made) {
			pod = strndup(object.at, object.len);
			go_on(s, first, pod, patch);
			free(pod);
		}
		kept_group_end();
		free(patch);
		free(d.body);
	}
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

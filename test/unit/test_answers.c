/* SPDX-License-Identifier: Apache-2.0 */
/* test: what a server answers is what it answered when test/golden/answers.txt was written: each
 * golden case, what comes of its pod, and both in small changes (vary.h), with a policy and
 * without. Nothing here says that an answer is right: the golden cases do. This notices that one
 * is another than before. `UPDATE=1` writes the file anew, and SAY=FOLDER writes each answer there,
 * so that two trees can be compared. Runs where the tree is. */
#include <cjson/cJSON.h>

#include "base/base64.h"
#include "test/unit/core_fixture.h"
#include "test/unit/golden_fixture.h"
#include "test/unit/test.h"
#include "test/unit/vary.h"
#include "webhook/core/policy/policy.h"

#define KEPT "test/golden/answers.txt"
#define STEP 41 /* one change of so many, beginning elsewhere in each case */
#define TEXT_MAX (16u << 20)

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

/* ---- what is kept ---- */

static struct {
	FILE *kept, *say;
	bool update;
	unsigned others;
	unsigned long answers;
} seen;

/* A case, or what comes of it. */
struct subject {
	const char *name, *part;
	const struct golden_setup *setup;
	bool validate;
	cJSON *review;
	size_t n; /* answers */
	uint64_t digest;
	const struct golden_frame *frame;
};

/* FNV-1a, 64 bits. */
static void digest(struct subject *s, const char *text)
{
	do
		s->digest = (s->digest ^ (unsigned char)*text) * 0x100000001b3ULL;
	while (*text++);
}

/* A patch as it is read by people. */
static void say(const struct subject *s, const struct golden_answer *d)
{
	char *patch = NULL;

	if (!seen.say)
		return;
	if (d->status == 200)
		(void)golden_verdict(d->body, &patch);
	fprintf(seen.say, "%s %zu: %u, %zu claims: %s%s\n", s->part, s->n, d->status, d->claims,
		d->body ? d->body : "", patch ? patch : "");
	free(patch);
}

static void answer(void *ctx)
{
	struct subject *s = ctx;
	char *text = cJSON_PrintUnformatted(s->review), head[64];
	struct golden_answer d;

	assert_non_null(text);
	d = golden_decide(s->setup, s->validate, slice_of(text), s->frame);
	snprintf(head, sizeof(head), "%u %zu", d.status, d.claims);
	digest(s, head);
	digest(s, d.body ? d.body : "");
	s->n++;
	say(s, &d);
	free(d.body);
	free(text);
}

static void compare(const struct subject *s)
{
	char line[256], want[256] = "";

	seen.answers += s->n;
	snprintf(line, sizeof(line), "%s %s %zu %016llx\n", s->name, s->part, s->n,
		(unsigned long long)s->digest);
	if (seen.update) {
		fputs(line, seen.kept);
		return;
	}
	if (!fgets(want, sizeof(want), seen.kept) || strcmp(want, line) != 0) {
		print_message("was  %snow  %s", want[0] ? want : "nothing\n", line);
		seen.others++;
	}
}

/* The review as it is, and one change of STEP. */
static void part(struct subject s, const char *name, char *review)
{
	static const struct golden_frame with = {.policies = &policies};
	size_t first = 0;

	for (const char *c = s.name; *c; c++)
		first += (unsigned char)*c;
	s.part = name;
	s.review = cJSON_Parse(review);
	s.digest = 0xcbf29ce484222325ULL;
	assert_non_null(s.review);
	answer(&s);
	vary(s.review, first % STEP, STEP, answer, &s);
	s.frame = &with;
	answer(&s);
	vary(s.review, (first + STEP / 2) % STEP, STEP, answer, &s);
	compare(&s);
	cJSON_Delete(s.review);
	free(review);
}

/* ---- the cases ---- */

/* Where each answer of a case is written, if anybody wants to. */
static FILE *say_into(const char *name)
{
	const char *folder = getenv("SAY");
	char path[512];
	FILE *file;

	if (!folder)
		return NULL;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	return file;
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
	seen.say = say_into(c->name);
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
	if (seen.say)
		fclose(seen.say);
}

TEST(test_answers_are_as_before)
{
	seen.update = getenv("UPDATE") != NULL;
	seen.kept = fopen(KEPT, seen.update ? "w" : "r");
	if (!seen.kept)
		fail_msg(KEPT " is not there");
	golden_each(one_case, NULL);
	if (!seen.update && fgetc(seen.kept) != EOF)
		fail_msg(KEPT " has more lines than there are answers");
	assert_int_equal(fclose(seen.kept), 0);
	print_message("%lu answers\n", seen.answers);
	if (seen.others > 0)
		fail_msg("%u lines are others: docs/testing.md#answers says how to see which "
			 "answers, and how to "
			 "keep them",
			seen.others);
}

static int begin(void **state)
{
	(void)state;
	golden_begin();
	return 0;
}

static int end(void **state)
{
	(void)state;
	golden_end();
	return 0;
}

TESTS_WITHIN(begin, end, test_answers_are_as_before)

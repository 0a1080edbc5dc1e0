/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation fails, for each n, in the whole decision of every golden case, alone
 * and with all that follow; then in the validation, in the update and
 * in the taking back of what it made. The reply is
 * the right one, the same one with fewer words of explanation, or a 500 that keeps no claim; and no
 * byte is lost. Linked with --wrap for malloc, calloc and realloc. Runs where the tree is. */
#include <malloc.h>

#include "base/arena.h"
#include "base/buf.h"
#include "test/unit/golden_fixture.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"
#include "webhook/core/inject/mutate.h"

#define TEXT_MAX (16u << 20)

static struct {
	unsigned long cases, decisions, failures;
} count;

/* ---- one decision ---- */

struct failing {
	long n; /* negative: none */
	enum oom_extent extent;
};

static void begin(void *ctx)
{
	const struct failing *f = ctx;

	oom_begin(f->n, f->extent);
}

static void end(void *ctx)
{
	(void)ctx;
	(void)oom_end();
}

/* With the n-th allocation from the first byte of the body on failing, alone or with all after it.
 */
static struct golden_answer decide(const struct golden_setup *s, bool validate, struct slice review,
	long n, enum oom_extent extent)
{
	struct failing f = {n, extent};
	const struct golden_frame frame = {.begin = begin, .end = end, .ctx = &f};

	return golden_decide(s, validate, review, &frame);
}

/* Bytes that are allocated; the same before and after where nothing was lost. A sanitizer has its
 * own heap, and looks itself. */
static size_t in_use(void)
{
#ifdef __SANITIZE_ADDRESS__
	return 0;
#else
	return mallinfo2().uordblks;
#endif
}

/* Verdict, code and reason. False where a patch is: no byte of that may be another one. */
static bool gist(const char *reply, char ret[static 80])
{
	struct json j = {0};
	const struct json_node *response, *status;
	struct slice reason;
	int64_t code = 0;
	char *copy;
	bool bare;

	if (json_read_copy(&j, reply, strlen(reply), 1000000, &copy, NULL) != 0)
		return false;
	response = json_get(&j, json_root(&j), SLICE("response"));
	status = json_get(&j, response, SLICE("status"));
	reason = json_inside(&j, json_get(&j, status, SLICE("reason")));
	bare = !json_get(&j, response, SLICE("patch"));
	(void)json_int(&j, json_get(&j, status, SLICE("code")), &code);
	snprintf(ret, 80, "%d %d %.*s",
		json_is(json_get(&j, response, SLICE("allowed")), JSON_TRUE), (int)code,
		(int)reason.len, reason.at ? reason.at : "");
	free(copy);
	json_release(&j);
	return bare;
}

/* An explanation (of a refusal, in a warning) that found no memory has fewer words. */
static bool same_but_for_words(const char *have, const char *right)
{
	char said[2][80];

	return gist(have, said[0]) && gist(right, said[1]) && strcmp(said[0], said[1]) == 0;
}

static bool same(const struct golden_answer *d, const struct golden_answer *right)
{
	const char *have = d->body ? d->body : "", *want = right->body ? right->body : "";

	if (d->status != right->status || d->claims != right->claims)
		return false;
	return strcmp(have, want) == 0 || (d->status == 200 && same_but_for_words(have, want));
}

static void each_allocation(const char *name, const struct golden_setup *s, bool validate,
	struct slice review, const struct golden_answer *right, enum oom_extent extent)
{
	for (long n = 0;; n++) {
		size_t before = in_use();
		struct golden_answer d = decide(s, validate, review, n, extent);

		count.failures++;
		if (!same(&d, right) && (d.status != 500 || d.claims != 0))
			fail_msg("%s: allocation %ld: status %u, %zu claims, %s", name, n, d.status,
				d.claims, d.body ? d.body : "no body");
		free(d.body);
		if (in_use() != before)
			fail_msg("%s: allocation %ld: %zd bytes are lost", name, n,
				(ssize_t)(in_use() - before));
		if (!oom_failed())
			break;
	}
}

/* The right decision: the caller frees its body. */
static struct golden_answer all_allocations(
	const char *name, const struct golden_setup *s, bool validate, struct slice review)
{
	struct golden_answer right = decide(s, validate, review, -1, OOM_ONE);

	count.decisions++;
	each_allocation(name, s, validate, review, &right, OOM_ONE);
	each_allocation(name, s, validate, review, &right, OOM_ALL_AFTER);
	return right;
}

/* ---- the cases ---- */

/* Taken back it is as it came, or there is no memory. */
static void taken_back(const char *name, const char *pod, enum oom_extent extent)
{
	struct json j = {0};
	struct buf right, patch;
	char *copy;

	assert_int_equal(json_read_copy(&j, pod, strlen(pod), 1000000, &copy, NULL), 0);
	buf_init(&right, TEXT_MAX);
	for (long n = -1;; n++) {
		struct mutation m;
		struct err err = {0};
		struct arena a;
		bool failed;
		int rc;

		buf_init(&patch, TEXT_MAX);
		arena_init(&a, TEXT_MAX);
		oom_begin(n, extent);
		rc = mutate_undo(&j, json_root(&j), &a, n < 0 ? &right : &patch, &m, &err);
		failed = oom_end();
		count.failures++;
		if (rc == 0 ? n >= 0 && strcmp(patch.data, right.data) != 0
			    : !failed || rc != ERR_NOMEM)
			fail_msg("%s: taken back without allocation %ld: %d %s", name, n, rc,
				err.msg);
		arena_release(&a);
		buf_release(&patch);
		if (n >= 0 && !failed)
			break;
	}
	buf_release(&right);
	json_release(&j);
	free(copy);
}

/* The pod that came out is stored, validated, taken back, and applied by its user once more. */
static void go_on(
	const char *name, const struct golden_setup *s, const char *pod, const char *patch)
{
	char *stored = golden_stored(pod, patch);
	char *review = golden_review("CREATE", stored, "null");

	free(all_allocations(name, s, true, slice_of(review)).body);
	free(review);
	review = golden_review("UPDATE", pod, stored);
	free(all_allocations(name, s, false, slice_of(review)).body);
	free(review);
	taken_back(name, stored, OOM_ONE);
	taken_back(name, stored, OOM_ALL_AFTER);
	free(stored);
}

static void one_case(const struct golden_case *c, void *ctx)
{
	const struct json *j = &c->review.json, *e = &c->expect.json;
	const struct json_node *request = json_get(j, json_root(j), SLICE("request"));
	struct golden_answer right =
		all_allocations(c->name, c->setup, c->validate, json_raw(j, json_root(j)));
	char *patch;
	bool allowed;

	(void)ctx;
	assert_int_equal(right.status, 200);
	allowed = golden_verdict(right.body, &patch);
	if (allowed != json_is(json_get(e, json_root(e), SLICE("allowed")), JSON_TRUE))
		fail_msg("%s: not the golden verdict: %s", c->name, right.body);
	if (patch && json_is_str(j, json_get(j, request, SLICE("operation")), SLICE("CREATE"))) {
		struct slice object = json_raw(j, json_get(j, request, SLICE("object")));
		char *pod = strndup(object.at, object.len);

		assert_non_null(pod);
		go_on(c->name, c->setup, pod, patch);
		free(pod);
	}
	free(patch);
	free(right.body);
	count.cases++;
}

TEST(test_all_cases)
{
	golden_each(one_case, NULL);
	print_message("%lu cases, %lu decisions, %lu failing allocations\n", count.cases,
		count.decisions, count.failures);
	assert_true(count.cases > 300 && count.decisions > 2 * count.cases);
}

/* Freed memory that a thread keeps at hand counts as in use: begin anew without. */
static void without_thread_cache(char **argv)
{
	static const char tunable[] = "glibc.malloc.tcache_count=0";

	if (getenv("GLIBC_TUNABLES"))
		return;
	if (setenv("GLIBC_TUNABLES", tunable, 1) == 0)
		execv("/proc/self/exe", argv);
	perror("execv");
	exit(1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_cases)};
	int broken;

	(void)argc;
	without_thread_cache(argv);
	golden_begin();
	broken = cmocka_run_group_tests_name("golden_oom", tests, NULL, NULL);
	golden_end();
	return broken != 0;
}

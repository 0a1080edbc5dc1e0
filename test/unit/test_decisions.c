/* SPDX-License-Identifier: Apache-2.0 */
/* test: the last decisions: bounded, the youngest first, refusals not pushed out by crowds, from
 * several threads. */
#include <pthread.h>

#include "base/text.h"
#include "test/unit/test.h"
#include "webhook/edge/admission/decisions.h"

static struct decision got[4 * DECISIONS_KEPT];

static void add(struct decisions *d, enum metric_result result, const char *name)
{
	decisions_add(d, &(struct decision_note){.hook = HOOK_VALIDATE,
				 .operation = OP_CREATE,
				 .result = result,
				 .kind = SLICE("Pod"),
				 .namespace = SLICE("ml"),
				 .name = slice_of(name),
				 .reason = result == RESULT_REFUSED ? "NoCapacity" : NULL,
				 .message = SLICE("words")});
}

TEST(test_order)
{
	struct decisions *d = decisions_new();

	assert_non_null(d);
	assert_int_equal(decisions_copy(d, got, 10), 0);
	add(d, RESULT_CLAIMED, "a");
	add(d, RESULT_REFUSED, "b");
	add(d, RESULT_UNTOUCHED, "c");
	add(d, RESULT_FAILED, "d");
	assert_int_equal(decisions_copy(d, got, 10), 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(got[i].name[0], "dcba"[i]);
		assert_int_equal(got[i].number, 4 - i);
		assert_true(got[i].at_ms > 1700000000000);
	}
	assert_string_equal(got[2].reason, "NoCapacity");
	assert_string_equal(got[3].reason, "");
	assert_string_equal(got[3].message, "words");
	assert_int_equal(decisions_copy(d, got, 2), 2);
	assert_string_equal(got[1].name, "c");
	decisions_free(d);
	decisions_free(NULL);
	add(NULL, RESULT_CLAIMED, "nobody keeps it");
}

/* The API server asks again behind other hooks. */
TEST(test_asked_again)
{
	struct decisions *d = decisions_new();

	assert_non_null(d);
	add(d, RESULT_UNTOUCHED, "b");
	add(d, RESULT_PATCHED, "a");
	add(d, RESULT_PATCHED, "b");
	add(d, RESULT_UNTOUCHED, "a");
	add(d, RESULT_CLAIMED, "a");
	assert_int_equal(decisions_copy(d, got, 10), 5);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(got[i].name[0], "aabab"[i]);
		assert_int_equal(got[i].result,
			((enum metric_result[]){RESULT_CLAIMED, RESULT_PATCHED, RESULT_PATCHED,
				RESULT_UNTOUCHED, RESULT_UNTOUCHED})[i]);
		assert_int_equal(got[i].number, 5 - i);
		assert_true(i == 0 || got[i].at_ms <= got[i - 1].at_ms);
	}
	decisions_free(d);
}

static const struct decision_note patched = {.hook = HOOK_MUTATE,
	.operation = OP_CREATE,
	.result = RESULT_PATCHED,
	.kind = SLICE("Pod"),
	.namespace = SLICE("ml"),
	.name = SLICE("p")};

/* What was done to a pod, then so many others that were left alone, then this. Does what was done
 * stand above it? */
static bool stands_above(size_t others, struct decision_note again)
{
	struct decisions *d = decisions_new();
	struct decision_note other = patched;
	bool above;

	other.name = SLICE("other");
	other.result = again.result = RESULT_UNTOUCHED;
	decisions_add(d, &patched);
	for (size_t i = 0; i < others; i++)
		decisions_add(d, &other);
	decisions_add(d, &again);
	assert_int_equal(decisions_copy(d, got, COUNT(got)), others + 2);
	above = got[0].result == RESULT_PATCHED;
	assert_int_equal(got[others + 1].result, above ? RESULT_UNTOUCHED : RESULT_PATCHED);
	for (size_t i = 0; i < others + 2; i++)
		assert_int_equal(got[i].number, others + 2 - i);
	decisions_free(d);
	return above;
}

/* The same hook is asked again, of the same pod, in the same way, before many others are. */
TEST(test_the_same_again)
{
	struct decision_note other[6];

	for (size_t i = 0; i < COUNT(other); i++)
		other[i] = patched;
	other[0].hook = HOOK_VALIDATE;
	other[1].operation = OP_UPDATE;
	other[2].dry_run = true;
	other[3].kind = SLICE("PodX");
	other[4].namespace = SLICE("m");
	other[5].name = SLICE("q");
	for (size_t n = 0; n < 40; n++)
		assert_int_equal(stands_above(n, patched), n < 16);
	for (size_t i = 0; i < COUNT(other); i++)
		assert_false(stands_above(0, other[i]));
}

TEST(test_bounded)
{
	struct decisions *d = decisions_new();
	size_t n;

	add(d, RESULT_REFUSED, "refused");
	for (int i = 0; i < 10 * DECISIONS_KEPT; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "pod-%d", i);
		add(d, RESULT_CLAIMED, name);
	}
	n = decisions_copy(d, got, COUNT(got));
	assert_int_equal(n, DECISIONS_KEPT + 1);
	assert_string_equal(got[0].name, "pod-639");
	assert_string_equal(got[n - 2].name, "pod-576");
	assert_string_equal(got[n - 1].name, "refused");
	for (int i = 0; i < 10 * DECISIONS_KEPT; i++)
		add(d, RESULT_REFUSED, "more");
	assert_int_equal(decisions_copy(d, got, COUNT(got)), 2 * DECISIONS_KEPT);
	decisions_free(d);
}

/* What is too long is cut where a character ends. */
TEST(test_long)
{
	struct decisions *d = decisions_new();
	char text[2000];

	for (size_t i = 0; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "ü", 2);
	decisions_add(d, &(struct decision_note){.result = RESULT_REFUSED,
				 .kind = {text, 1900},
				 .namespace = {text, 1900},
				 .name = {text, 1900},
				 .reason = "AVeryLongReasonThatNobodyHasEverSeen",
				 .message = {text, 1900}});
	assert_int_equal(decisions_copy(d, got, 1), 1);
	assert_int_equal(strlen(got[0].name), DECISION_NAME_MAX - 2);
	assert_true(strlen(got[0].message) >= DECISION_MESSAGE_MAX - 2);
	assert_true(text_utf8(slice_of(got[0].name)) && text_utf8(slice_of(got[0].message)) &&
		    text_utf8(slice_of(got[0].kind)) && text_utf8(slice_of(got[0].namespace)));
	assert_string_equal(got[0].reason, "AVeryLongReasonThatNobodyHasEve");
	/* A claim's bytes are whole, or not there. */
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = "gpu-01/GPU-0a1b2c3d=16944988160 "[i % 32];
	for (size_t len = DECISION_MESSAGE_MAX - 40; len < DECISION_MESSAGE_MAX + 80; len++) {
		size_t n;

		decisions_add(d,
			&(struct decision_note){.result = RESULT_CLAIMED, .message = {text, len}});
		assert_int_equal(decisions_copy(d, got, 1), 1);
		n = strlen(got[0].message);
		if (len < DECISION_MESSAGE_MAX)
			assert_int_equal(n, len);
		else
			assert_string_equal(got[0].message + n - 5, "0 \xe2\x80\xa6");
	}
	/* A shorter one leaves nothing of it behind. */
	add(d, RESULT_REFUSED, "x");
	assert_int_equal(decisions_copy(d, got, 1), 1);
	assert_string_equal(got[0].name, "x");
	decisions_free(d);
}

TEST(test_write)
{
	static const char head[] = "[{\"at\":\"20";
	static const char tail[] = "Z\",\"dryRun\":false,\"hook\":\"validate\",\"operation\":"
				   "\"CREATE\",\"kind\":\"Pod\",\"namespace\":\"ml\",\"name\":"
				   "\"b\\\"<\",\"result\":\"refused\",\"reason\":\"NoCapacity\","
				   "\"message\":\"words\"},{";
	static const char three[] = "Z\",\"dryRun\":true,\"hook\":\"mutate\",\"operation\":"
				    "\"UPDATE\",\"kind\":\"\",\"namespace\":\"n\",\"name\":"
				    "\"\",\"result\":\"patched\",\"reason\":\"\",\"message\":\"\"},"
				    "{\"at\":\"20";
	struct decisions *d = decisions_new();
	struct buf out;

	buf_init(&out, 1 << 16);
	decisions_write(NULL, &out);
	decisions_write(d, &out);
	assert_string_equal(out.data, "[][]");
	add(d, RESULT_CLAIMED, "a");
	add(d, RESULT_REFUSED, "b\"<");
	buf_clear(&out);
	decisions_write(d, &out);
	assert_memory_equal(out.data, head, sizeof(head) - 1);
	assert_memory_equal(strchr(out.data, 'Z'), tail, sizeof(tail) - 1);
	assert_int_equal(out.data[out.len - 1], ']');
	decisions_add(d, &(struct decision_note){.hook = HOOK_MUTATE,
				 .operation = OP_UPDATE,
				 .result = RESULT_PATCHED,
				 .dry_run = true,
				 .namespace = SLICE("n")});
	buf_clear(&out);
	decisions_write(d, &out);
	assert_memory_equal(strchr(out.data, 'Z'), three, sizeof(three) - 1);
	assert_string_equal(out.data + out.len - 3, "\"}]");
	buf_release(&out);
	buf_init(&out, 100);
	decisions_write(d, &out);
	assert_true(out.failed);
	buf_release(&out);
	decisions_free(d);
}

static void *crowd(void *arg)
{
	for (int i = 0; i < 5000; i++)
		add(arg, i % 3 ? RESULT_CLAIMED : RESULT_REFUSED, "pod");
	return NULL;
}

TEST(test_threads)
{
	struct decisions *d = decisions_new();
	pthread_t threads[4];

	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, crowd, d), 0);
	for (int i = 0; i < 200; i++) {
		size_t n = decisions_copy(d, got, 2 * DECISIONS_KEPT);

		for (size_t k = 0; k < n; k++) {
			assert_string_equal(got[k].name, "pod");
			assert_true(k == 0 || got[k].number < got[k - 1].number);
		}
	}
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(decisions_copy(d, got, 2 * DECISIONS_KEPT), 2 * DECISIONS_KEPT);
	assert_int_equal(got[0].number, 20000);
	decisions_free(d);
}

TESTS(test_order, test_asked_again, test_the_same_again, test_bounded, test_long, test_write,
	test_threads)

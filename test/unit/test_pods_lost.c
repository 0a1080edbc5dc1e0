/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/claims/pods: for how long the table knows whom it lost, by a clock that the test sets. */
#include <time.h>

#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/claims/pods.h"

/* Of so many it knows whom it lost, however long ago; of more it forgets the older ones. */
#define MANY 4096u
#define HOUR_MS 3600000

static int64_t now_ms;
static struct pods *pods;

/* In the place of the C library's. */
int clock_gettime(clockid_t id, struct timespec *t)
{
	(void)id;
	*t = (struct timespec){now_ms / 1000, now_ms % 1000 * 1000000};
	return 0;
}

FIXTURE(set_up)
{
	now_ms = 1000000;
	pods = pods_new(NULL, NULL);
	return pods ? 0 : -1;
}

FIXTURE(tear_down)
{
	pods_free(pods);
	return 0;
}

static void tell(enum kube_change what, unsigned i)
{
	struct kube_watch_app app = pods_app(pods);
	struct json j = {0};
	char text[200], *quotes, *copy;

	(void)snprintf(
		text, sizeof(text), "{'metadata':{'name':'w','namespace':'n','uid':'%u'}}", i);
	quotes = fixture_quotes(text);
	assert_int_equal(json_read_copy(&j, quotes, strlen(quotes), 100, &copy, NULL), 0);
	assert_true(app.change(app.ctx, what, &j, json_root(&j)));
	json_release(&j);
	free(copy);
	free(quotes);
}

static void lose(unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		tell(KUBE_PUT, i);
		tell(KUBE_GONE, i);
	}
}

/* When that one was lost; 0: it is forgotten, or there. */
static int64_t lost(unsigned i)
{
	struct pod_shown pod;
	char uid[16];

	(void)snprintf(uid, sizeof(uid), "%u", i);
	pods_find(pods, slice_of(uid), &pod);
	return pod.lost_ms;
}

static void list_none(void)
{
	struct kube_watch_app app = pods_app(pods);

	app.listing(app.ctx);
	app.listed(app.ctx, "7");
}

TEST(so_many_are_known_whatever_their_age)
{
	int64_t began = now_ms;

	lose(0, MANY);
	now_ms += HOUR_MS;
	/* Whoever goes twice, or comes back and goes, is one. */
	for (unsigned i = 0; i < MANY + 10; i++)
		tell(KUBE_GONE, 0);
	for (unsigned i = 0; i < MANY + 10; i++)
		lose(1, 2);
	assert_int_equal(lost(0), began);
	assert_int_equal(lost(1), now_ms);
	for (unsigned i = 2; i < MANY; i++)
		assert_int_equal(lost(i), began);
}

/* One more: those are forgotten whose claims nobody asks about at once any more. */
TEST(of_more_the_older_ones_are_forgotten)
{
	int64_t began = now_ms;

	lose(0, MANY / 2);
	now_ms++;
	lose(MANY / 2, MANY);
	tell(KUBE_PUT, MANY + 1); /* it stays */
	now_ms = began + CLAIM_RETRY_MS;
	lose(MANY, MANY + 1);
	assert_int_equal(lost(0), began);
	now_ms++;
	lose(MANY + 2, MANY + 3);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(lost(i), i < MANY / 2 ? 0 : began + 1);
	assert_int_equal(lost(MANY), began + CLAIM_RETRY_MS);
	assert_int_equal(lost(MANY + 2), now_ms);
	tell(KUBE_GONE, MANY + 1);
	assert_int_equal(lost(MANY + 1), now_ms);
	/* Who is forgotten counts no more: there is room for as many again. */
	now_ms += HOUR_MS;
	lose(2 * MANY, 2 * MANY + MANY / 2 - 3);
	assert_int_equal(lost(MANY - 1), began + 1);
	lose(0, 1);
	assert_int_equal(lost(MANY - 1), 0);
	assert_int_equal(lost(0), now_ms);
}

/* A whole list forgets by age, however few they are. */
TEST(a_list_forgets_by_age)
{
	int64_t began = now_ms;

	lose(0, 1);
	tell(KUBE_PUT, 1);
	list_none();
	assert_int_equal(lost(1), began);
	now_ms = began + PODS_LOST_MS;
	tell(KUBE_PUT, 2);
	list_none();
	assert_int_equal(lost(0), began);
	assert_int_equal(lost(2), now_ms);
	now_ms++;
	list_none();
	assert_int_equal(lost(0), 0);
	assert_int_equal(lost(1), 0);
	assert_int_equal(lost(2), began + PODS_LOST_MS);
}

TESTS_BETWEEN(set_up, tear_down, so_many_are_known_whatever_their_age,
	of_more_the_older_ones_are_forgotten, a_list_forgets_by_age)

/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/claims/pods: what the table shows while a watch tells it things. */
#include <malloc.h>

#include "base/text.h"
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/claims/pods.h"

static unsigned changes;

static void count_change(void *ctx)
{
	(void)ctx;
	changes++;
}

static void tell(struct pods *p, enum kube_change what, const char *text)
{
	struct kube_watch_app app = pods_app(p);
	struct json j = {0};
	char *quotes = fixture_quotes(text), *copy;

	assert_int_equal(json_read_copy(&j, quotes, strlen(quotes), 1000, &copy, NULL), 0);
	/* There is memory for all of it. */
	assert_true(app.change(app.ctx, what, &j, json_root(&j)));
	json_release(&j);
	free(copy);
	free(quotes);
}

static void list(struct pods *p, bool begin)
{
	struct kube_watch_app app = pods_app(p);

	if (begin)
		app.listing(app.ctx);
	else
		app.listed(app.ctx, "7");
}

#define POD(uid, more, phase)                                                                      \
	"{'metadata':{'name':'w','namespace':'n','uid':'" uid "'" more                             \
	"},'status':{'phase':'" phase "'}}"

static struct pod_shown find(struct pods *p, const char *uid)
{
	struct pod_shown pod;

	pods_find(p, slice_of(uid), &pod);
	return pod;
}

TEST(shows_what_it_was_told)
{
	struct pods *p = pods_new(count_change, NULL);

	changes = 0;
	assert_false(pods_synced(p));
	list(p, true);
	tell(p, KUBE_PUT,
		POD("a", ",'annotations':{'poolgate.io/plan':'{\\u0022v\\u0022:1}'}", "Running"));
	tell(p, KUBE_PUT, POD("b", ",'deletionTimestamp':'2026-11-21T09:30:00Z'", "Running"));
	tell(p, KUBE_PUT, POD("c", "", "Succeeded"));
	tell(p, KUBE_PUT, POD("d", "", "Failed"));
	tell(p, KUBE_PUT, "{'metadata':{'name':'w','namespace':'n'}}");
	assert_false(pods_synced(p));
	assert_false(pods_whole(p));
	list(p, false);
	assert_true(pods_synced(p));
	assert_true(pods_whole(p));
	assert_int_equal(changes, 5);
	assert_int_equal(find(p, "a").seen, POD_LIVE);
	assert_true(find(p, "a").since_ms > 0);
	assert_int_equal(find(p, "a").lost_ms, 0);
	assert_true(find(p, "a").plan_hash == text_hash64(SLICE("{\"v\":1}")));
	assert_true(find(p, "b").plan_hash == 0);
	/* on its way out is live until it is gone */
	assert_int_equal(find(p, "b").seen, POD_LIVE);
	assert_int_equal(find(p, "c").seen, POD_FINISHED);
	assert_int_equal(find(p, "d").seen, POD_FINISHED);
	assert_int_equal(find(p, "e").seen, POD_NOT_SHOWN);
	assert_int_equal(find(p, "e").lost_ms, 0);
	assert_int_equal(find(p, "").seen, POD_NOT_SHOWN);
	/* told the same again: nobody is woken */
	tell(p, KUBE_PUT, POD("a", "", "Running"));
	assert_int_equal(changes, 5);
	tell(p, KUBE_PUT, POD("a", "", "Failed"));
	assert_int_equal(changes, 6);
	assert_int_equal(find(p, "a").seen, POD_FINISHED);
	pods_free(p);
}

TEST(remembers_whom_it_lost)
{
	struct pods *p = pods_new(count_change, NULL);

	list(p, true);
	tell(p, KUBE_PUT, POD("a", "", "Running"));
	tell(p, KUBE_PUT, POD("b", "", "Running"));
	tell(p, KUBE_PUT, POD("c", "", "Running"));
	list(p, false);
	changes = 0;
	tell(p, KUBE_GONE, POD("a", "", "Running"));
	tell(p, KUBE_GONE, POD("a", "", "Running"));
	tell(p, KUBE_GONE, POD("x", "", "Running"));
	assert_int_equal(changes, 1);
	assert_int_equal(find(p, "a").seen, POD_NOT_SHOWN);
	assert_true(find(p, "a").lost_ms > 0);
	/* what a list does not hold is lost when it ends, not before */
	list(p, true);
	tell(p, KUBE_PUT, POD("b", "", "Running"));
	assert_int_equal(find(p, "c").seen, POD_LIVE);
	list(p, false);
	assert_int_equal(find(p, "b").seen, POD_LIVE);
	assert_int_equal(find(p, "c").seen, POD_NOT_SHOWN);
	assert_true(find(p, "c").lost_ms > 0);
	/* the label is back */
	tell(p, KUBE_PUT, POD("a", "", "Running"));
	assert_int_equal(find(p, "a").seen, POD_LIVE);
	assert_int_equal(find(p, "a").lost_ms, 0);
	pods_free(p);
}

#define PLACED(uid, more, phase)                                                                   \
	"{'metadata':{'name':'w','namespace':'n','uid':'" uid "'" more                             \
	"},'spec':{'nodeName':'node-1'},'status':{'phase':'" phase "'}}"

/* Rule R13: who has surely ended, who never ran, and how long the others may. */
TEST(remembers_how_they_went)
{
	struct pods *p = pods_new(count_change, NULL);

	list(p, true);
	tell(p, KUBE_PUT, PLACED("a", "", "Running"));
	tell(p, KUBE_PUT, POD("b", "", "Pending"));
	tell(p, KUBE_PUT, PLACED("c", "", "Running"));
	tell(p, KUBE_PUT, POD("d", "", "Pending"));
	tell(p, KUBE_PUT, PLACED("e", "", "Running"));
	list(p, false);
	changes = 0;
	tell(p, KUBE_PUT, PLACED("a", ",'deletionGracePeriodSeconds':600", "Running"));
	assert_int_equal(changes, 1);
	tell(p, KUBE_PUT, PLACED("a", ",'deletionGracePeriodSeconds':5", "Running"));
	assert_int_equal(changes, 1);
	assert_int_equal(find(p, "a").grace_s, 600);
	tell(p, KUBE_GONE, PLACED("a", "", "Running"));
	assert_int_equal(find(p, "a").seen, POD_NOT_SHOWN);
	assert_int_equal(find(p, "a").grace_s, 600);
	assert_false(find(p, "a").unplaced);
	tell(p, KUBE_GONE, POD("b", "", "Pending"));
	assert_true(find(p, "b").unplaced);
	/* the end is told with the delete, or before it */
	tell(p, KUBE_GONE, PLACED("c", "", "Failed"));
	assert_int_equal(find(p, "c").seen, POD_FINISHED);
	assert_true(find(p, "c").lost_ms > 0);
	tell(p, KUBE_PUT, PLACED("e", "", "Succeeded"));
	/* whom a list does not show may have had a node, and ended or not */
	list(p, true);
	list(p, false);
	assert_int_equal(find(p, "d").seen, POD_NOT_SHOWN);
	assert_false(find(p, "d").unplaced);
	assert_int_equal(find(p, "e").seen, POD_FINISHED);
	/* etcd was restored */
	tell(p, KUBE_PUT, PLACED("e", "", "Running"));
	tell(p, KUBE_GONE, PLACED("e", "", "Running"));
	assert_int_equal(find(p, "e").seen, POD_NOT_SHOWN);
	pods_free(p);
}

#define WAITS(uid, status)                                                                         \
	"{'metadata':{'name':'w','namespace':'n','uid':'" uid "'},'status':{" status "}}"
#define WAITING(reason) "{'state':{'waiting':{'reason':'" reason "'}}}"
#define UNSCHEDULED(reason)                                                                        \
	"'conditions':[{'type':'Ready','status':'False','reason':'No'},{'type':'PodScheduled',"    \
	"'status':'False','reason':'" reason "'}]"

/* Why a pod does not run, as its status says it. */
TEST(says_what_pods_wait_for)
{
	static const struct {
		const char *status, *why;
	} rows[] = {
		{"'phase':'Running','containerStatuses':[" WAITING("CrashLoopBackOff") "]", ""},
		{"'phase':'Succeeded'", ""},
		{"", ""},
		{"'phase':'Pending'", "Pending"},
		{"'phase':'Pending'," UNSCHEDULED("Unschedulable"), "Unschedulable"},
		{"'phase':'Pending'," UNSCHEDULED("SchedulingGated"), "SchedulingGated"},
		{"'phase':'Pending','containerStatuses':[" WAITING("ContainerCreating") "]",
			"Pending"},
		{"'phase':'Pending','containerStatuses':[" WAITING(
			 "PodInitializing") "],"
					    "'initContainerStatuses':[{'state':{'running':{}}}"
					    "," WAITING("ErrImagePull") "]",
			"ErrImagePull"},
		{"'phase':'Pending','containerStatuses':[" WAITING("ContainerCreating") "," WAITING(
			 "ImagePullBackOff") "]",
			"ImagePullBackOff"},
		{"'phase':'Pending','containerStatuses':[" WAITING("no word") "," WAITING(
			 "") ",{'state':{'waiting':{'reason':7}}},7]",
			"Pending"},
		{"'phase':'Pending','containerStatuses':[" WAITING(
			 "aReasonThatIsLongerThanAnyThatThereIs") "]",
			"aReasonThatIsLongerThanAnyThatT"},
	};
	char text[600];

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct pods *p = pods_new(count_change, NULL);

		(void)snprintf(text, sizeof(text), WAITS("a", "%s"), rows[i].status);
		tell(p, KUBE_PUT, text);
		assert_string_equal(find(p, "a").why, rows[i].why);
		assert_int_equal(find(p, "a").waits_ms > 0, *rows[i].why != 0);
		changes = 0;
		tell(p, KUBE_PUT, text);
		assert_int_equal(changes, 0);
		tell(p, KUBE_PUT, POD("a", "", "Running"));
		assert_int_equal(find(p, "a").waits_ms, 0);
		tell(p, KUBE_PUT, text);
		tell(p, KUBE_GONE, text);
		assert_int_equal(find(p, "a").waits_ms, 0);
		pods_free(p);
	}
}

TEST(shows_where_they_are)
{
	struct pods *p = pods_new(count_change, NULL);

	changes = 0;
	for (unsigned i = 1; i <= 2; i++) {
		tell(p, KUBE_PUT, POD("a", "", "Running','podIP':'10.1.2.3"));
		assert_string_equal(find(p, "a").ips, "10.1.2.3");
		assert_int_equal(changes, 1);
	}
	tell(p, KUBE_PUT, POD("a", "", "Running','podIP':'10.1.2.4"));
	assert_string_equal(find(p, "a").ips, "10.1.2.4");
	tell(p, KUBE_PUT, POD("a", "", "Running"));
	assert_string_equal(find(p, "a").ips, "");
	assert_int_equal(changes, 3);
	pods_free(p);
}

static bool waits(const struct json *j, const struct json_node *object)
{
	return json_path(j, object, "spec", "gated", NULL) != NULL;
}

/* Anybody may write one into a pod that no replica reviews. */
TEST(a_plan_that_cannot_be_read_waits_for_nothing)
{
	static const char *const plans[] = {"", "x", "[]", "7", "{}", "{\\u0022v\\u0022:1}",
		"{\\u0022v\\u0022:0}", "{\\u0022v\\u0022:\\u0022\\u0022}",
		"{\\u0022v\\u0022:1,\\u0022profile\\u0022:7}",
		"{\\u0022v\\u0022:1,\\u0022profile\\u0022:\\u0022p\\u0022,\\u0022hash\\u0022:[]}"};
	const struct queue_classes classes = {0};
	char text[600];

	for (size_t i = 0; i < COUNT(plans); i++) {
		struct pods *p = pods_new(NULL, NULL);
		struct pod_waiting **list;
		size_t n;

		pods_see_waiting(p, waits, &classes);
		(void)snprintf(text, sizeof(text),
			"{'metadata':{'name':'w','namespace':'n','uid':'a','annotations':{"
			"'poolgate.io/plan':'%s'}},'spec':{'gated':1}}",
			plans[i]);
		tell(p, KUBE_PUT, text);
		assert_int_equal(find(p, "a").seen, POD_LIVE);
		assert_true(find(p, "a").waits);
		assert_true(pods_take_waiting(p, &list, &n));
		assert_int_equal(n, 0);
		pods_free(p);
	}
}

/* Nor one for which there is no room by our own bound: to list it anew would not help. */
TEST(a_plan_that_is_too_long_waits_for_nothing)
{
	const struct queue_classes classes = {0};
	struct pods *p = pods_new(NULL, NULL);
	struct pod_waiting **list;
	size_t len = 17 * (size_t)PLAN_BYTES_MAX, n;
	char *text = malloc(len + 300);
	int head;

	assert_non_null(text);
	head = snprintf(text, 300,
		"{'metadata':{'name':'w','namespace':'n','uid':'a','annotations':{"
		"'poolgate.io/plan':'");
	memset(text + head, 'x', len);
	(void)snprintf(text + head + len, 100, "\\n'}},'spec':{'gated':1}}");
	pods_see_waiting(p, waits, &classes);
	tell(p, KUBE_PUT, text);
	assert_int_equal(find(p, "a").seen, POD_LIVE);
	assert_true(pods_take_waiting(p, &list, &n));
	assert_int_equal(n, 0);
	pods_free(p);
	free(text);
}

TEST(knows_when_the_stream_is_broken)
{
	struct pods *p = pods_new(NULL, NULL);
	struct kube_watch_app app = pods_app(p);

	list(p, true);
	list(p, false);
	app.connected(app.ctx, false);
	assert_true(pods_synced(p));
	assert_false(pods_whole(p));
	app.connected(app.ctx, true);
	assert_true(pods_whole(p));
	list(p, true);
	assert_false(pods_whole(p));
	pods_free(p);
}

static bool count(void *ctx, const struct pod_shown *pod)
{
	size_t *n = ctx;

	assert_string_equal(pod->namespace, "a-namespace-of-usual-length");
	assert_int_equal(strlen(pod->uid), 36);
	return ++*n != 4000;
}

TEST(five_thousand_pods_are_small)
{
	struct pods *p = pods_new(NULL, NULL);
	size_t before = mallinfo2().uordblks, after, n = 0;
	char text[512];

	for (int round = 0; round < 2; round++) {
		list(p, true);
		for (unsigned i = 0; i < 5000; i++) {
			snprintf(text, sizeof(text),
				"{'metadata':{'name':'a-deployment-of-some-name-7d9c5b8f6-%05u',"
				"'namespace':'a-namespace-of-usual-length','uid':'%08x-8f6e-4c1d-"
				"9d55-0123456789ab'},'status':{'phase':'Running'}}",
				i, i * 2654435761u);
			tell(p, KUBE_PUT, text);
		}
		list(p, false);
		for (unsigned i = 0; i < 5000; i++) {
			snprintf(text, sizeof(text), "%08x-8f6e-4c1d-9d55-0123456789ab",
				i * 2654435761u);
			assert_int_equal(find(p, text).seen, POD_LIVE);
		}
	}
	after = mallinfo2().uordblks;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(after > before);
#endif
	assert_true(after - before < 2000000);
	pods_each(p, count, &n);
	assert_int_equal(n, 4000);
	pods_free(p);
}

TESTS(shows_what_it_was_told, remembers_whom_it_lost, remembers_how_they_went,
	says_what_pods_wait_for, shows_where_they_are, a_plan_that_is_too_long_waits_for_nothing,
	a_plan_that_cannot_be_read_waits_for_nothing, knows_when_the_stream_is_broken,
	five_thousand_pods_are_small)

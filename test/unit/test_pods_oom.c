/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/claims/pods: the n-th allocation fails, for each n, while the watch tells something new
 * of a pod that waits: it goes on waiting, and where that was not read the list is to come again.
 * Linked with --wrap for malloc, calloc and realloc. */
#include "base/json/json_read.h"
#include "test/unit/core_fixture.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"
#include "webhook/cluster/claims/pods.h"

#define Q "\\u0022"
#define PLAN                                                                                       \
	"{" Q "v" Q ":1," Q "profile" Q ":" Q "p" Q "," Q "hash" Q ":" Q "0123456789abcdef" Q      \
	"," Q "mode" Q ":" Q "full" Q "," Q "waits" Q ":true," Q "containers" Q ":[{" Q "name" Q   \
	":" Q "a" Q "," Q "kind" Q ":" Q "app" Q "," Q "amount" Q ":1," Q "percent" Q ":50," Q     \
	"units" Q ":100," Q "command" Q ":" Q "wrapped" Q "," Q "argv" Q ":7}]}"
#define POD(version)                                                                               \
	"{'metadata':{'name':'w','namespace':'n','uid':'a','resourceVersion':'" version            \
	"','creationTimestamp':'2026-11-21T09:30:00Z','annotations':{'poolgate.io/plan':'" PLAN    \
	"'}},'spec':{'gated':1}}"

static bool waits(const struct json *j, const struct json_node *object)
{
	return json_path(j, object, "spec", "gated", NULL) != NULL;
}

/* Has it been read as a whole? The n-th allocation of that fails, or none (negative). */
static bool tell(struct pods *p, const char *text, long n, bool *ret_failed)
{
	struct kube_watch_app app = pods_app(p);
	struct json j = {0};
	char *quotes = fixture_quotes(text), *copy;
	bool whole;

	assert_int_equal(json_read_copy(&j, quotes, strlen(quotes), 1000, &copy, NULL), 0);
	oom_begin(n, OOM_ONE);
	whole = app.change(app.ctx, KUBE_PUT, &j, json_root(&j));
	*ret_failed = oom_end();
	json_release(&j);
	free(copy);
	free(quotes);
	return whole;
}

TEST(who_waits_goes_on_waiting)
{
	const struct queue_classes classes = {0};
	bool failed = true;
	unsigned missed = 0;

	for (long n = 0; failed; n++) {
		struct pods *p = pods_new(NULL, NULL);
		struct pod_waiting **list;
		size_t n_list;

		pods_see_waiting(p, waits, &classes);
		assert_true(tell(p, POD("1"), -1, &failed));
		missed += !tell(p, POD("2"), n, &failed);
		assert_true(pods_take_waiting(p, &list, &n_list));
		assert_int_equal(n_list, 1);
		assert_true(slice_is(list[0]->pod.uid, "a"));
		pods_give_waiting(p, list, n_list);
		pods_free(p);
	}
	assert_true(missed > 1);
}

TESTS(who_waits_goes_on_waiting)

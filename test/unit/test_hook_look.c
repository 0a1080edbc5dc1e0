/* SPDX-License-Identifier: Apache-2.0 */
/* test: the look at our validating hook: what is read counts, what cannot be read leaves nothing
 * out. */
#include "test/unit/api_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/reconcile/hook_look.h"
#include "webhook/edge/metrics/metrics.h"

#define PATH "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/poolgate"
#define HOOKS(name)                                                                                \
	"{\"kind\":\"ValidatingWebhookConfiguration\",\"metadata\":{\"name\":\"poolgate\","        \
	"\"resourceVersion\":\"1\"},\"webhooks\":[{\"name\":\"validate.poolgate.io\","             \
	"\"matchConditions\":[{\"name\":\"c\",\"expression\":\"v in ['" name "']\"}]}]}"

static struct api *api;
static struct kube_config config;
static struct kube *kube;
static struct metrics *metrics;
static struct log log_to = {.fd = 2, .level = LOG_LEVEL_ERROR};
static struct hook_look *look;
/* under the API server's lock */
static const char *hooks; /* NULL: we may not read them; "": there is none; "away": no answer */

static int handle(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	(void)ctx;
	(void)req;
	if (!hooks)
		api_status(reply, 403, "Forbidden", "no");
	else if (!*hooks)
		api_status(reply, 404, "NotFound", "not found");
	else if (strcmp(hooks, "away") == 0)
		api_status(reply, 500, "InternalError", "no");
	else
		api_text(reply, 200, "%s", hooks);
	return 0;
}

static void change(const char *to)
{
	api_lock(api);
	hooks = to;
	api_unlock(api);
}

FIXTURE(set_up)
{
	struct err err = {0};

	hooks = HOOKS("juice-token");
	api = api_start(handle, NULL);
	api_config(api, &config);
	assert_int_equal(kube_new(&config, &kube, &err), 0);
	metrics = metrics_new(metric_table, M_COUNT);
	look = hook_look_start(&(struct hook_look_config){.kube = kube,
				       .log = &log_to,
				       .metrics = metrics,
				       .configuration = "poolgate",
				       .every_ms = 20},
		&err);
	assert_non_null(look);
	return 0;
}

FIXTURE(tear_down)
{
	hook_look_stop(look);
	kube_free(kube);
	metrics_free(metrics);
	api_stop(api);
	return 0;
}

static bool soon(const char *secret, bool covered)
{
	for (int i = 0; i < 500 && hook_look_covers(look, slice_of(secret)) != covered; i++)
		api_nap(10);
	return hook_look_covers(look, slice_of(secret)) == covered;
}

TEST(test_what_is_read_counts)
{
	uint64_t version;

	assert_true(soon("mine", false));
	assert_true(hook_look_covers(look, SLICE("juice-token")));
	assert_int_equal(metric_value(metrics, M_HOOKS_READ, 0, 0), 1);
	assert_true(api_seen_of(api, "GET", PATH) > 0);
	version = hook_look_version(look);
	assert_true(version > 0);
	api_nap(100);
	assert_int_equal(hook_look_version(look), version);
	change(HOOKS("mine"));
	assert_true(soon("mine", true));
	assert_false(hook_look_covers(look, SLICE("juice-token")));
	assert_int_equal(hook_look_version(look), version + 1);
}

TEST(test_what_cannot_be_read_leaves_nothing_out)
{
	assert_true(soon("mine", false));
	/* for a moment: the hooks are as they were */
	change("away");
	while (metric_value(metrics, M_HOOKS_READ, 0, 0) != 0)
		api_nap(5);
	assert_false(hook_look_covers(look, SLICE("mine")));
	change(NULL);
	assert_true(soon("mine", true));
	change(HOOKS("juice-token"));
	assert_true(soon("mine", false));
	change("");
	assert_true(soon("mine", true));
}

TESTS_BETWEEN(
	set_up, tear_down, test_what_is_read_counts, test_what_cannot_be_read_leaves_nothing_out)

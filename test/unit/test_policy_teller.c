/* SPDX-License-Identifier: Apache-2.0 */
/* test: the leader tells GPUPolicies in their conditions, each once. */
#include "test/unit/api_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/reconcile/policy_teller.h"

#define POLICIES "/apis/poolgate.io/v1alpha1/gpupolicies"
#define OBJECT(name, version, spec, status)                                                        \
	"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUPolicy\",\"metadata\":{\"name\":"  \
	"\"" name "\",\"resourceVersion\":\"" version "\"},\"spec\":{" spec "}" status "}"
#define KEEPS "\"accepts\":[\"nvidia.com/gpu\"],\"ties\":\"keep\""

static struct api *api;
static struct kube *kube;
static struct log log_to = {.fd = 2, .level = LOG_LEVEL_ERROR};
static char *status; /* what the policy was told last */
static bool taken;   /* the first patch is too late */

static int handle(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	(void)ctx;
	if (strcmp(req->method, "PATCH") == 0 && !taken) {
		taken = true;
		api_status(reply, 409, "Conflict", "it has changed");
	} else if (strcmp(req->method, "PATCH") == 0) {
		free(status);
		status = strdup(strstr(req->body, "\"status\":"));
		status[strlen(status) - 1] = '\0';
		api_text(reply, 200, "{}");
	} else
		api_text(reply, 200,
			"{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[%s,%s%s%s}]}",
			OBJECT("plain", "3", "", ""),
			"{\"apiVersion\":\"poolgate.io/"
			"v1alpha1\",\"kind\":\"GPUPolicy\",\"metadata\":"
			"{\"name\":\"keeps\",\"resourceVersion\":\"4\"},\"spec\":{" KEEPS "}",
			status ? "," : "", status ? status : "");
	return 0;
}

TEST(test_told_once)
{
	struct policy_teller_config cfg = {.log = &log_to, .every_ms = 5};
	struct leader_duty duty = policy_teller_duty(&cfg);
	struct kube_config config;
	struct err err = {0};
	size_t lists;
	void *running;

	api = api_start(handle, NULL);
	api_config(api, &config);
	assert_int_equal(kube_new(&config, &kube, &err), 0);
	cfg.kube = kube;
	assert_int_equal(duty.start(duty.ctx, &running, &err), 0);
	assert_true(api_wait(api, "PATCH", POLICIES "/keeps/status", 2));
	lists = api_seen_of(api, "GET", POLICIES "*");
	assert_true(api_wait(api, "GET", POLICIES "*", lists + 5));
	duty.stop(running);
	assert_int_equal(api_seen_of(api, "PATCH", "*"), 2);
	assert_non_null(strstr(status, "\"reason\":\"PolicyKeepsTies\""));
	kube_free(kube);
	api_stop(api);
	free(status);
}

TESTS(test_told_once)

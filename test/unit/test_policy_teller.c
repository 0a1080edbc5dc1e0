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

/* Patches to answer so, of status and with that reason; then as it is. */
static const struct {
	int status;
	const char *reason;
} answers[] = {{409, "Conflict"}, {404, "NotFound"}, {403, "Forbidden"}, {403, "Forbidden"},
	{409, "Conflict"}, {403, "Forbidden"}, {200, NULL}, {500, "InternalError"}, {200, NULL}};
static size_t answered;

/* A policy that is never told enough. */
static int answer_in_turn(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	(void)ctx;
	if (strcmp(req->method, "PATCH") != 0)
		api_text(reply, 200, "{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[%s]}",
			OBJECT("keeps", "4", KEEPS, ""));
	else if (answered < COUNT(answers) && answers[answered].reason)
		api_status(reply, answers[answered].status, answers[answered].reason, "no");
	else
		api_text(reply, 200, "{}");
	answered += strcmp(req->method, "PATCH") == 0;
	return 0;
}

/* That it cannot be written is told once, until it can be: but not where somebody changed or
 * deleted the policy meanwhile. */
TEST(test_what_cannot_be_written_is_told)
{
	char path[] = "/tmp/test_policy_teller_XXXXXX", text[8192] = "";
	struct log log = {.fd = mkstemp(path), .level = LOG_LEVEL_WARN};
	struct policy_teller_config cfg = {.log = &log, .every_ms = 5};
	struct leader_duty duty = policy_teller_duty(&cfg);
	struct kube_config config;
	struct err err = {0};
	size_t lines = 0;
	void *running;

	assert_true(log.fd >= 0);
	(void)unlink(path);
	api = api_start(answer_in_turn, NULL);
	api_config(api, &config);
	assert_int_equal(kube_new(&config, &kube, &err), 0);
	cfg.kube = kube;
	assert_int_equal(duty.start(duty.ctx, &running, &err), 0);
	assert_true(api_wait(api, "PATCH", POLICIES "/keeps/status", COUNT(answers)));
	duty.stop(running);
	assert_true(pread(log.fd, text, sizeof(text) - 1, 0) > 0);
	for (const char *at = text; (at = strstr(at, "could not be written")); at++)
		lines++;
	assert_int_equal(lines, 2);
	assert_null(strstr(text, "409"));
	assert_null(strstr(text, "404"));
	assert_non_null(strstr(text, "403"));
	assert_non_null(strstr(text, "500"));
	kube_free(kube);
	api_stop(api);
	(void)close(log.fd);
}

#define MANY 250

static unsigned told_of[MANY], rounds, told_in_first;

/* So many policies, which show what they were told. */
static int answer_many(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	struct buf b;
	unsigned n;

	(void)ctx;
	if (strcmp(req->method, "PATCH") == 0) {
		assert_int_equal(sscanf(req->path, POLICIES "/p%u/status", &n), 1);
		told_of[n]++;
		told_in_first += rounds == 1;
		api_text(reply, 200, "{}");
		return 0;
	}
	rounds++;
	buf_init(&b, 1 << 20);
	for (unsigned i = 0; i < MANY; i++)
		buf_fmt(&b, "%s" OBJECT("p%u", "4", "%s", ""), i ? "," : "", i,
			told_of[i] ? "" : KEEPS);
	api_text(reply, 200, "{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[%s]}", b.data);
	buf_release(&b);
	return 0;
}

/* A hundred in a round, and all of them in the end. */
TEST(test_many_are_told_in_rounds)
{
	struct policy_teller_config cfg = {.log = &log_to, .every_ms = 5};
	struct leader_duty duty = policy_teller_duty(&cfg);
	struct kube_config config;
	struct err err = {0};
	void *running;

	api = api_start(answer_many, NULL);
	api_config(api, &config);
	assert_int_equal(kube_new(&config, &kube, &err), 0);
	cfg.kube = kube;
	assert_int_equal(duty.start(duty.ctx, &running, &err), 0);
	assert_true(api_wait(api, "PATCH", POLICIES "*", MANY));
	assert_true(api_wait(api, "GET", POLICIES "*", api_seen_of(api, "GET", POLICIES "*") + 2));
	duty.stop(running);
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(told_of[i], 1);
	assert_int_equal(told_in_first, 100);
	kube_free(kube);
	api_stop(api);
}

TESTS(test_many_are_told_in_rounds, test_told_once, test_what_cannot_be_written_is_told)

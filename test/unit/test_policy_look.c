/* SPDX-License-Identifier: Apache-2.0 */
/* test: which policy a namespace picks, over an API server: watches, what is younger, what turns
 * wrong. */
#include "base/clock.h"
#include "test/unit/api_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/policy/policy_look.h"

#define POLICIES "/apis/poolgate.io/v1alpha1/gpupolicies"
#define NAMESPACES "/api/v1/namespaces"
#define POLICY(name, version, spec)                                                                \
	"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUPolicy\",\"metadata\":{\"name\":"  \
	"\"" name "\",\"resourceVersion\":\"" version "\",\"managedFields\":[]},\"spec\":{" spec   \
	"}}"
#define SPACE(name, version, labels)                                                               \
	"{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"" version                      \
	"\",\"labels\":{" labels "}}}"
#define PICKS(name) "\"poolgate.io/policy\":\"" name "\""
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define PAGE(version, items)                                                                       \
	"{\"metadata\":{\"resourceVersion\":\"" version "\"},\"items\":[" items "]}"

/* Blanks that stand in the spec of "huge", which is longer than what is kept. */
#define HUGE (300 * 1024)

static struct api *api;
static struct kube_config config;
static struct kube *kube;
static struct policy_look *look;
static struct arena arena;
static struct err err;
/* a line for what turns wrong is expected */
static struct log log_to = {.fd = 2, .level = LOG_LEVEL_ERROR};

/* A policy with so many blanks in it, malloc'ed. */
static char *wide(const char *begin, int blanks)
{
	size_t size = strlen(begin) + (size_t)blanks + 100;
	char *text = malloc(size);

	assert_non_null(text);
	(void)snprintf(text, size, "%s%*s\"share\":30}}", begin, blanks, "");
	return text;
}

#define NAMED(name, version)                                                                       \
	"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUPolicy\",\"metadata\":{\"name\":"  \
	"\"" name "\",\"resourceVersion\":\"" version "\"},\"spec\":{"

static void answer_huge(struct api_reply *reply)
{
	char *text = wide(NAMED("huge", "12"), HUGE);

	api_text(reply, 200, "%s", text);
	free(text);
}

/* Lists; watches that a test feeds; what is younger than both. */
static int handle(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	(void)ctx;
	if (strstr(req->path, "watch=")) {
		reply->stream = true;
		return 0;
	}
	if (strcmp(req->path, NAMESPACES "/young") == 0)
		api_text(reply, 200, "%s", SPACE("young", "11", PICKS("late")));
	else if (strcmp(req->path, NAMESPACES "/behind") == 0)
		api_text(reply, 200, "%s", SPACE("behind", "11", PICKS("late")));
	else if (strcmp(req->path, NAMESPACES "/free") == 0)
		api_text(reply, 200, "%s", SPACE("free", "11", ""));
	else if (strcmp(req->path, NAMESPACES "/away") == 0 ||
		 strcmp(req->path, NAMESPACES "/cut") == 0)
		api_status(reply, 500, "InternalError", "no");
	else if (strcmp(req->path, POLICIES "/late") == 0)
		api_text(reply, 200, "%s", POLICY("late", "12", "\"share\":7"));
	else if (strcmp(req->path, POLICIES "/huge") == 0)
		answer_huge(reply);
	else if (strncmp(req->path, POLICIES "?", sizeof(POLICIES)) == 0)
		api_text(reply, 200, "%s",
			PAGE("10",
				POLICY("research", "3", "\"inject\":true,\"share\":20") "," POLICY(
					"wrong", "4", "\"share\":2000")));
	else if (strncmp(req->path, NAMESPACES "?", sizeof(NAMESPACES)) == 0)
		api_text(reply, 200, "%s",
			PAGE("10",
				SPACE("ml", "5", PICKS("research")) "," SPACE("free", "6",
					"") "," SPACE("lost", "7", PICKS("gone")) "," SPACE("bad",
					"8", PICKS("wrong")) "," SPACE("behind", "9",
					"") "," SPACE("cut", "9", "") "," SPACE("empty", "9",
					PICKS(""))));
	else
		api_status(reply, 404, "NotFound", "not found");
	return 0;
}

static void begin(bool required)
{
	look = policy_look_new(
		&(struct policy_look_config){.kube = kube, .log = &log_to, .required = required},
		&err);
	assert_non_null(look);
	assert_int_equal(policy_look_start(look, &err), 0);
	for (int i = 0; i < 1000 && !policy_look_synced(look); i++)
		api_nap(5);
	assert_true(policy_look_synced(look));
	assert_true(api_wait_streams(api, NAMESPACES "*", 1));
	assert_true(api_wait_streams(api, POLICIES "*", 1));
}

FIXTURE(set_up)
{
	api = api_start(handle, NULL);
	api_config(api, &config);
	assert_int_equal(kube_new(&config, &kube, &err), 0);
	arena_init(&arena, 1 << 20);
	err_clear(&err);
	return 0;
}

FIXTURE(tear_down)
{
	policy_look_free(look);
	look = NULL;
	kube_free(kube);
	api_stop(api);
	arena_release(&arena);
	return 0;
}

/* 0 and the policy, or the error. */
static int of(const char *namespace, bool may_wait, const struct policy **ret)
{
	err_clear(&err);
	return policy_look_of(look, slice_of(namespace), false, may_wait ? clock_ms() + 5000 : 0,
		&arena, ret, &err);
}

/* The same for a review that came by the hook of namespaces that pick one. */
static int of_picked(const char *namespace, bool may_wait, const struct policy **ret)
{
	err_clear(&err);
	return policy_look_of(look, slice_of(namespace), true, may_wait ? clock_ms() + 5000 : 0,
		&arena, ret, &err);
}

/* Asked without waiting until the picture says so. */
static void soon(const char *namespace, uint32_t share)
{
	const struct policy *p = NULL;

	for (int i = 0; i < 1000; i++, api_nap(5))
		if (of(namespace, false, &p) == 0 && (p ? p->share : 0) == share)
			return;
	fail_msg("%s: %u, expected %u: %s", namespace, p ? p->share : 0, share, err.msg);
}

TEST(test_what_is_listed_is_known)
{
	const struct policy *p;

	begin(false);
	assert_int_equal(of("ml", false, &p), 0);
	assert_string_equal(p->name, "research");
	assert_true(p->inject);
	assert_int_equal(p->share, 20);
	assert_int_equal(of("free", false, &p), 0);
	assert_null(p);
	assert_int_equal(api_seen_of(api, "GET", NAMESPACES "/*"), 0);
}

/* By the label alone, and nobody is asked. */
TEST(test_what_a_label_names)
{
	begin(false);
	assert_true(slice_is(policy_look_named(look, SLICE("ml"), &arena), "research"));
	assert_true(slice_is(policy_look_named(look, SLICE("lost"), &arena), "gone"));
	assert_int_equal(policy_look_named(look, SLICE("free"), &arena).len, 0);
	assert_int_equal(policy_look_named(look, SLICE("empty"), &arena).len, 0);
	assert_int_equal(policy_look_named(look, SLICE("young"), &arena).len, 0);
	assert_int_equal(api_seen_of(api, "GET", NAMESPACES "/*"), 0);
}

TEST(test_what_changes)
{
	begin(false);
	api_push(api, POLICIES "*",
		EVENT("MODIFIED", POLICY("research", "13", "\"inject\":true,\"share\":30")));
	soon("ml", 30);
	api_push(api, NAMESPACES "*", EVENT("MODIFIED", SPACE("ml", "14", "")));
	soon("ml", 0);
	api_push(api, NAMESPACES "*",
		EVENT("ADDED", SPACE("new", "15", PICKS("research")))
			EVENT("DELETED", SPACE("free", "16", "")));
	soon("new", 30);
}

TEST(test_what_turns_wrong_stays_as_it_was)
{
	const struct policy *p;

	begin(false);
	api_push(api, POLICIES "*",
		EVENT("MODIFIED", POLICY("research", "13", "\"share\":-1"))
			EVENT("ADDED", POLICY("marker", "14", "\"share\":9")));
	api_push(api, NAMESPACES "*", EVENT("ADDED", SPACE("see", "15", PICKS("marker"))));
	soon("see", 9);
	assert_int_equal(of("ml", false, &p), 0);
	assert_int_equal(p->share, 20);
	/* one that never was right */
	assert_int_equal(of("bad", false, &p), ERR_REFUSED);
	assert_string_equal(err.reason, "NoPolicy");
	assert_non_null(strstr(err.msg, "\"wrong\""));
}

/* Of one that is gone nobody says what it was. */
TEST(test_what_is_deleted)
{
	const struct policy *p = NULL;

	begin(false);
	api_push(api, POLICIES "*",
		EVENT("DELETED", POLICY("research", "13", "\"share\":20"))
			EVENT("ADDED", POLICY("marker", "14", "\"share\":9")));
	api_push(api, NAMESPACES "*", EVENT("ADDED", SPACE("see", "15", PICKS("marker"))));
	soon("see", 9);
	assert_int_equal(of("ml", false, &p), ERR_TIMEOUT);
	assert_int_equal(of("ml", true, &p), ERR_REFUSED);
	assert_string_equal(err.reason, "NoPolicy");
	assert_non_null(strstr(err.msg, "\"research\""));
	assert_int_equal(api_seen_of(api, "GET", POLICIES "/research"), 1);
}

static void push_wide(const char *begin, int blanks)
{
	char *policy = wide(begin, blanks), *event = malloc(strlen(policy) + 100);

	assert_non_null(event);
	(void)sprintf(event, "{\"type\":\"MODIFIED\",\"object\":%s}\n", policy);
	api_push(api, POLICIES "*", event);
	free(event);
	free(policy);
}

/* What is longer than is kept is as what turns wrong: what it said before counts, and the watch
 * goes on. Of one that nobody has seen otherwise nobody knows. */
TEST(test_what_is_too_long)
{
	const struct policy *p = NULL;
	size_t lists;

	begin(false);
	lists = api_seen_of(api, "GET", POLICIES "?*");
	push_wide(NAMED("research", "13"), HUGE);
	api_push(api, POLICIES "*", EVENT("ADDED", POLICY("marker", "14", "\"share\":9")));
	api_push(api, NAMESPACES "*",
		EVENT("ADDED", SPACE("see", "15", PICKS("marker")))
			EVENT("ADDED", SPACE("wide", "16", PICKS("huge"))));
	soon("see", 9);
	assert_int_equal(of("ml", false, &p), 0);
	assert_int_equal(p->share, 20);
	assert_int_equal(api_seen_of(api, "GET", POLICIES "?*"), lists);
	soon("see", 9);
	for (int i = 0; i < 1000 && of("wide", false, &p) != ERR_TIMEOUT; i++)
		api_nap(5);
	assert_int_equal(of("wide", true, &p), ERR_NOMEM);
	/* a little less is kept */
	push_wide(NAMED("research", "17"), 200 * 1024);
	soon("ml", 30);
}

TEST(test_what_is_younger)
{
	const struct policy *p;

	begin(false);
	assert_int_equal(of("young", false, &p), ERR_TIMEOUT);
	assert_int_equal(of("young", true, &p), 0);
	assert_string_equal(p->name, "late");
	assert_int_equal(p->share, 7);
	assert_int_equal(of("lost", true, &p), ERR_REFUSED);
	assert_string_equal(err.reason, "NoPolicy");
	assert_non_null(strstr(err.msg, "\"gone\""));
	/* one that is not there picks none; one that nobody can ask for may pick any */
	assert_int_equal(of("none", true, &p), 0);
	assert_null(p);
	assert_int_equal(of("away", true, &p), ERR_TIMEOUT);
}

/* The API server has seen a label that the watch has not shown yet. */
TEST(test_a_label_that_is_younger)
{
	const struct policy *p;

	begin(false);
	assert_int_equal(of("behind", true, &p), 0);
	assert_null(p);
	/* who may not wait does not guess */
	assert_int_equal(of_picked("behind", false, &p), ERR_TIMEOUT);
	assert_int_equal(of_picked("behind", true, &p), 0);
	assert_string_equal(p->name, "late");
	/* what the API server saw is gone meanwhile */
	assert_int_equal(of_picked("free", true, &p), 0);
	assert_null(p);
	assert_int_equal(of_picked("cut", true, &p), ERR_TIMEOUT);
	/* nothing is asked for of what the picture shows, be it a label that names nothing */
	assert_int_equal(of_picked("ml", false, &p), 0);
	assert_string_equal(p->name, "research");
	assert_int_equal(of_picked("empty", true, &p), 0);
	assert_null(p);
	assert_int_equal(api_seen_of(api, "GET", NAMESPACES "/ml"), 0);
	assert_int_equal(api_seen_of(api, "GET", NAMESPACES "/empty"), 0);
}

/* Whatever there is no memory for, nobody's pod is one without a policy. */
static void with_little_memory(const char *namespace, bool may_wait)
{
	unsigned failed = 0;
	bool done = false;

	for (size_t max = 0; !done; max += 40) {
		const struct policy *p = NULL;
		struct arena little;
		struct err why = {0};
		int rc;

		arena_init(&little, max);
		rc = policy_look_of(look, slice_of(namespace), false,
			may_wait ? clock_ms() + 5000 : 0, &little, &p, &why);
		assert_true(rc == ERR_NOMEM || (rc == 0 && p));
		failed += rc != 0;
		done = rc == 0;
		arena_release(&little);
	}
	assert_true(failed > 0);
}

TEST(test_little_memory)
{
	begin(false);
	with_little_memory("ml", false);
	with_little_memory("young", true);
}

TEST(test_required)
{
	const struct policy *p;

	begin(true);
	assert_int_equal(of("free", false, &p), ERR_REFUSED);
	assert_string_equal(err.reason, "NoPolicy");
	assert_int_equal(of("ml", false, &p), 0);
}

TESTS_BETWEEN(set_up, tear_down, test_what_is_listed_is_known, test_what_is_deleted,
	test_what_is_too_long, test_what_a_label_names, test_what_changes,
	test_what_turns_wrong_stays_as_it_was, test_what_is_younger, test_a_label_that_is_younger,
	test_little_memory, test_required)

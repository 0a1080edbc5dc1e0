/* SPDX-License-Identifier: Apache-2.0 */
/* cluster/secrets/plan_key_secret: what a replica makes of the Secret, and how the leader keeps it.
 */
#include "test/unit/api_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/secrets/plan_key_secret.h"
#include "webhook/edge/metrics/metrics.h"

#define PATH "/api/v1/namespaces/poolgate-system/secrets/poolgate-plan-keys"
/* 32 bytes of 'a', of 'b' */
#define KEY_A "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE="
#define KEY_B "YmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmI="

static struct api *api;
static struct kube_config config;
static struct kube *kube;
static struct metrics *metrics;
static struct log log_to = {.fd = 2, .level = LOG_LEVEL_ERROR};
static struct plan_keys *keys, *knows_a, *knows_b;
static struct plan_key_config cfg;
static struct plan_key_look *running;
static void *leading;
/* under the API server's lock */
static const char *data; /* of the Secret; NULL: there is none; "forbidden", "away" */
static char put[2048];   /* the last body */
static int conflicts;    /* so many writes fail */

static int handle(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	(void)ctx;
	if (strcmp(req->path, PATH) != 0 || !data)
		api_status(reply, 404, "NotFound", "not found");
	else if (strcmp(data, "forbidden") == 0)
		api_status(reply, 403, "Forbidden", "no");
	else if (strcmp(data, "away") == 0)
		api_status(reply, 500, "InternalError", "no");
	else if (strcmp(req->method, "PUT") == 0 && conflicts-- > 0)
		api_status(reply, 409, "Conflict", "changed");
	else if (strcmp(req->method, "PUT") == 0)
		api_text(reply, 200, "%s", strcpy(put, req->body));
	else
		api_text(reply, 200,
			"{\"kind\":\"Secret\",\"metadata\":{\"name\":\"poolgate-plan-keys\","
			"\"labels\":{\"a\":\"b\"},\"resourceVersion\":\"7\"},\"type\":\"Opaque\"%"
			"s}",
			data);
	return 0;
}

static void change(const char *to)
{
	api_lock(api);
	data = to;
	api_unlock(api);
}

static struct plan_keys *knowing(char c)
{
	struct plan_key key = {.number = 1};
	struct plan_keys *k = plan_keys_new(NULL);

	assert_non_null(k);
	memset(key.bytes, c, sizeof(key.bytes));
	plan_keys_share(k, &key, 1, 0);
	return k;
}

FIXTURE(set_up)
{
	data = "";
	put[0] = '\0';
	conflicts = 0;
	api = api_start(handle, NULL);
	api_config(api, &config);
	assert_int_equal(kube_new(&config, &kube, NULL), 0);
	metrics = metrics_new(metric_table, M_COUNT);
	keys = plan_keys_new(NULL);
	knows_a = knowing('a');
	knows_b = knowing('b');
	assert_true(metrics && keys);
	cfg = (struct plan_key_config){.kube = kube,
		.log = &log_to,
		.metrics = metrics,
		.namespace = "poolgate-system",
		.keys = keys,
		.every_ms = 20};
	return 0;
}

FIXTURE(tear_down)
{
	plan_key_look_stop(running);
	if (leading)
		plan_key_duty(&cfg).stop(leading);
	running = NULL;
	leading = NULL;
	plan_keys_free(keys);
	plan_keys_free(knows_a);
	plan_keys_free(knows_b);
	kube_free(kube);
	metrics_free(metrics);
	api_stop(api);
	return 0;
}

/* Does it sign with the key that the other knows? */
static bool signs_as(const struct plan_keys *other)
{
	const struct plan_signer *s = plan_keys_signer(keys), *o = plan_keys_signer(other);
	unsigned char mac[MAC_BYTES];
	struct slice part = SLICE("x");
	bool good;

	assert_int_equal(s->sign(s->ctx, &part, 1, mac, NULL), 0);
	assert_int_equal(o->verify(o->ctx, &part, 1, mac, &good, NULL), 0);
	return good;
}

static bool soon(const struct plan_keys *other, bool want)
{
	for (int i = 0; i < 500 && signs_as(other) != want; i++)
		api_nap(10);
	return signs_as(other) == want;
}

TEST(test_a_replica_shares_what_is_there)
{
	change(",\"data\":{\"10\":\"" KEY_A "\",\"9\":\"" KEY_B "\"}");
	running = plan_key_look_start(&cfg, NULL);
	assert_non_null(running);
	assert_true(soon(knows_b, true));
	assert_int_equal(metric_value(metrics, M_PLAN_KEYS, 0, 0), 2);
	change(",\"data\":{\"10\":\"" KEY_A "\"}");
	assert_true(soon(knows_a, true));
	/* no answer: as it was */
	change("away");
	api_nap(100);
	assert_true(signs_as(knows_a));
	change("forbidden");
	assert_true(soon(knows_a, false));
	assert_int_equal(metric_value(metrics, M_PLAN_KEYS, 0, 0), 0);
	change(",\"data\":{\"100\":\"" KEY_A "\"}");
	assert_true(soon(knows_a, true));
	change(NULL);
	assert_true(soon(knows_a, false));
}

TEST(test_what_is_no_key_counts_for_nothing)
{
	change(",\"data\":{\"100\":\"" KEY_A "\",\"200x\":\"" KEY_B "\",\"201\":\"YQ==\","
	       "\"202\":\"?\",\"203\":1,\"\":\"" KEY_B "\",\"99999999999999999999\":\"" KEY_B
	       "\",\"9999999999999999999999999999999999999999\":\"" KEY_B "\"}");
	running = plan_key_look_start(&cfg, NULL);
	assert_non_null(running);
	assert_true(soon(knows_a, true));
	assert_int_equal(metric_value(metrics, M_PLAN_KEYS, 0, 0), 1);
}

static void lead(void)
{
	struct err err = {0};

	assert_int_equal(plan_key_duty(&cfg).start(&cfg, &leading, &err), 0);
}

/* The body that was written: once there is one. */
static const char *written(void)
{
	static char copy[sizeof(put)];

	for (int i = 0; i < 500; i++) {
		api_lock(api);
		strcpy(copy, put);
		api_unlock(api);
		if (copy[0])
			break;
		api_nap(10);
	}
	return copy;
}

TEST(test_the_leader_makes_the_first_key)
{
	const char *body;
	int n = 0;

	conflicts = 2;
	lead();
	body = written();
	(void)sscanf(body,
		"{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":"
		"\"poolgate-plan-keys\",\"labels\":{\"a\":\"b\"},\"resourceVersion\":\"7\"}"
		",\"type\":\"Opaque\",\"data\":{\"1\":\"%*43[A-Za-z0-9+/]=\"}}%n",
		&n);
	if (n == 0 || body[n])
		fail_msg("%s", body);
}

TEST(test_the_leader_rotates)
{
	const char *body;

	cfg.rotate_ms = 1;
	change(",\"data\":{\"6\":\"" KEY_A "\",\"7\":\"" KEY_B "\"}");
	lead();
	body = written();
	if (!strstr(body, "{\"6\":\"" KEY_A "\",\"7\":\"" KEY_B "\",\"8\":\""))
		fail_msg("%s", body);
}

TEST(test_the_leader_leaves_young_keys)
{
	change(",\"data\":{\"1\":\"" KEY_A "\"}");
	lead();
	api_nap(200);
	assert_true(api_seen_of(api, "GET", PATH) > 1);
	assert_int_equal(api_seen_of(api, "PUT", PATH), 0);
	change(NULL);
	api_nap(100);
	assert_int_equal(api_seen_of(api, "POST", PATH), 0);
}

TESTS_BETWEEN(set_up, tear_down, test_a_replica_shares_what_is_there,
	test_what_is_no_key_counts_for_nothing, test_the_leader_makes_the_first_key,
	test_the_leader_rotates, test_the_leader_leaves_young_keys)

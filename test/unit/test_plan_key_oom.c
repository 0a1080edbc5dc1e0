/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation fails, for each n, while the keys of plans are read: keys that are in
 * the Secret stay shared, and stay there. Linked with --wrap for malloc, calloc and realloc. */
#include "test/unit/api_fixture.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"
#include "webhook/cluster/secrets/plan_key_secret.h"
#include "webhook/edge/metrics/metrics.h"

static struct api *api;
static struct kube_config config;
static struct kube *kube;
static struct metrics *metrics;
static struct plan_keys *keys;
static struct log log_to = {.fd = 2, .level = LOG_LEVEL_ERROR};
static struct plan_key_config cfg;
static struct plan_key_look *look;
static void *leading;
/* under the API server's lock */
static int reads, writes;

/* ---- the Secret, which always has two keys ---- */

static int handle(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	(void)ctx;
	reads += strcmp(req->method, "GET") == 0;
	writes += strcmp(req->method, "GET") != 0;
	api_text(reply, 200,
		"{\"kind\":\"Secret\",\"metadata\":{\"name\":\"" PLAN_KEY_SECRET
		"\",\"resourceVersion\":\"7\"},\"type\":\"Opaque\",\"data\":{"
		"\"3\":\"YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=\","
		"\"4\":\"YmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmI=\"}}");
	return 0;
}

FIXTURE(set_up)
{
	api = api_start(handle, NULL);
	api_config(api, &config);
	assert_int_equal(kube_new(&config, &kube, NULL), 0);
	metrics = metrics_new(metric_table, M_COUNT);
	keys = plan_keys_new(NULL);
	assert_true(metrics && keys);
	cfg = (struct plan_key_config){.kube = kube,
		.log = &log_to,
		.metrics = metrics,
		.namespace = "n",
		.keys = keys,
		.every_ms = 1};
	return 0;
}

FIXTURE(tear_down)
{
	oom_end();
	plan_key_look_stop(look);
	if (leading)
		plan_key_duty(&cfg).stop(leading);
	look = NULL;
	leading = NULL;
	plan_keys_free(keys);
	metrics_free(metrics);
	kube_free(kube);
	api_stop(api);
	return 0;
}

/* Does it believe what the key of 32 of these letters has signed? */
static bool believes(char letter)
{
	struct plan_key key = {.number = 1};
	struct plan_keys *other = plan_keys_new(NULL);
	const struct plan_signer *theirs, *ours = plan_keys_signer(keys);
	unsigned char mac[MAC_BYTES];
	struct slice part = SLICE("x");
	bool good;

	assert_non_null(other);
	memset(key.bytes, letter, sizeof(key.bytes));
	plan_keys_share(other, &key, 1, 0);
	theirs = plan_keys_signer(other);
	assert_int_equal(theirs->sign(theirs->ctx, &part, 1, mac, NULL), 0);
	assert_int_equal(ours->verify(ours->ctx, &part, 1, mac, &good, NULL), 0);
	plan_keys_free(other);
	return good;
}

static int counted(const int *what)
{
	int n;

	api_lock(api);
	n = *what;
	api_unlock(api);
	return n;
}

/* A whole step of the thread lies behind us: the second answer from now on is asked for by one that
 * has begun since. */
static void steps(void)
{
	int from = counted(&reads);

	while (counted(&reads) < from + 3)
		api_nap(1);
}

static void stays(const char *thread, long n)
{
	if (counted(&writes) > 0 || !believes('a') || !believes('b') ||
		metric_value(metrics, M_PLAN_KEYS, 0, 0) != 2)
		fail_msg("%s, allocation %ld: a key is forgotten", thread, n);
}

static void each_allocation_fails(const char *thread)
{
	bool failed = true;

	steps();
	stays(thread, -1);
	for (long n = 0; failed; n++) {
		oom_begin_in(thread, n, OOM_ONE);
		steps();
		failed = oom_end();
		stays(thread, n);
	}
}

TEST(a_replica_goes_on_sharing)
{
	look = plan_key_look_start(&cfg, NULL);
	assert_non_null(look);
	each_allocation_fails("plan-keys");
}

TEST(the_leader_makes_no_other_keys)
{
	const struct leader_duty duty = plan_key_duty(&cfg);

	assert_int_equal(duty.start(duty.ctx, &leading, NULL), 0);
	each_allocation_fails("plan-key-keeper");
}

TESTS_BETWEEN(set_up, tear_down, a_replica_goes_on_sharing, the_leader_makes_no_other_keys)

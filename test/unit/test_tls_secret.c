/* SPDX-License-Identifier: Apache-2.0 */
/* test: a replica's serving pair out of a Secret: what is there at the start, and what the watch
 * brings. */
#include "test/unit/api_fixture.h"
#include "test/unit/make_pair.h"
#include "test/unit/test.h"
#include "webhook/cluster/secrets/tls_secret.h"
#include "webhook/edge/metrics/metrics.h"

#define SECRETS "/api/v1/namespaces/poolgate-system/secrets"

#define ONLY_CERT (-2) /* with a key that is junk */

static struct made_pair pairs[2];
static struct api *api;
static struct kube_config config;
static struct kube *kube;
static struct metrics *metrics;
static struct tls_identity *identity;
static struct log log_to = {.fd = 2, .level = LOG_LEVEL_ERROR};
static struct tls_secret *running;
/* under the API server's lock */
static int version, pair; /* version 0: there is no Secret; pair -1: junk */
static bool silent;       /* the stream says nothing any more */
static bool no_numbers;   /* its versions are none */
static bool overtaken;    /* the next look is answered by what was there before */
static int64_t look_every_ms;

static void show(struct buf *b)
{
	const char *cert = pair < 0 ? "junk" : pairs[pair].cert;
	const char *key = pair < 0 ? "junk" : pairs[pair].key;

	if (pair == ONLY_CERT)
		cert = pairs[0].cert;

	buf_fmt(b,
		"{\"kind\":\"Secret\",\"metadata\":{\"name\":\"poolgate-tls\",\"resourceVersion\":"
		"\"%s%d\"},"
		"\"data\":{\"tls.crt\":\"",
		no_numbers ? "x" : "", version);
	buf_base64(b, cert, strlen(cert));
	buf_str(b, "\",\"tls.key\":\"");
	buf_base64(b, key, strlen(key));
	buf_str(b, "\"}}");
}

static int handle(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	struct buf b;

	(void)ctx;
	buf_init(&b, 1 << 20);
	if (strstr(req->path, "watch=")) {
		reply->stream = true;
	} else if (strchr(req->path, '?')) {
		buf_fmt(&b,
			"{\"kind\":\"SecretList\",\"metadata\":{\"resourceVersion\":\"%d\"},"
			"\"items\":[",
			version + 1);
		if (version > 0)
			show(&b);
		buf_str(&b, "]}");
	} else if (version > 0) {
		int was = version, had = pair;

		version = overtaken ? 7 : version;
		pair = overtaken ? 1 : pair;
		show(&b);
		version = was;
		pair = had;
		overtaken = false;
	} else {
		api_status(reply, 404, "NotFound", "not found");
	}
	if (b.len > 0)
		api_text(reply, 200, "%s", b.data);
	buf_release(&b);
	return 0;
}

static void change(int to)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	api_lock(api);
	pair = to;
	version += 10;
	buf_str(&b, "{\"type\":\"MODIFIED\",\"object\":");
	show(&b);
	buf_str(&b, "}\n");
	if (!silent)
		api_push(api, SECRETS "?*", b.data);
	api_unlock(api);
	buf_release(&b);
}

FIXTURE(set_up)
{
	version = pair = 0;
	silent = no_numbers = overtaken = false;
	look_every_ms = 0;
	api = api_start(handle, NULL);
	api_config(api, &config);
	assert_int_equal(kube_new(&config, &kube, NULL), 0);
	metrics = metrics_new(metric_table, M_COUNT);
	identity = tls_identity_new();
	assert_true(metrics && identity);
	return 0;
}

FIXTURE(tear_down)
{
	tls_secret_stop(running);
	running = NULL;
	tls_identity_free(identity);
	kube_free(kube);
	api_stop(api);
	metrics_free(metrics);
	return 0;
}

static void start(void)
{
	struct tls_secret_config cfg = {.kube = kube,
		.log = &log_to,
		.metrics = metrics,
		.identity = identity,
		.namespace = "poolgate-system",
		.name = "poolgate-tls",
		.look_every_ms = look_every_ms};

	running = tls_secret_start(&cfg, NULL);
	assert_non_null(running);
	assert_true(api_wait_streams(api, SECRETS "?*", 1));
}

static bool generation(uint64_t n)
{
	struct tls_info info = {0};

	for (int i = 0; i < 250 && info.generation != n; i++) {
		api_nap(20);
		tls_identity_info(identity, &info);
	}
	return info.generation == n;
}

TEST(takes_what_is_there)
{
	version = 5;
	start();
	assert_true(generation(1));
	assert_int_equal(metric_value(metrics, M_RELOAD_OK, WHAT_CERTIFICATE, 0), 1);
	assert_true(metric_value(metrics, M_CERT_NOT_AFTER, 0, 0) > 0);
}

TEST(takes_what_comes)
{
	start();
	api_nap(200);
	assert_true(generation(0));
	change(0);
	assert_true(generation(1));
	change(1);
	assert_true(generation(2));
}

TEST(junk_changes_nothing)
{
	version = 5;
	start();
	assert_true(generation(1));
	change(-1);
	for (int i = 0; i < 250 && metric_value(metrics, M_RELOAD_OK, WHAT_CERTIFICATE, 0); i++)
		api_nap(20);
	assert_int_equal(metric_value(metrics, M_RELOAD_OK, WHAT_CERTIFICATE, 0), 0);
	assert_int_equal(metric_value(metrics, M_RELOAD_ERRORS, WHAT_CERTIFICATE, 0), 1);
	assert_true(generation(1));
	change(1);
	assert_true(generation(2));
	assert_int_equal(metric_value(metrics, M_RELOAD_OK, WHAT_CERTIFICATE, 0), 1);
}

/* A stream that was cut in silence: the looks find what it does not tell. */
TEST(looks_by_itself)
{
	version = 5;
	look_every_ms = 100;
	start();
	assert_true(generation(1));
	silent = true;
	change(1);
	assert_true(generation(2));
	/* nothing new, nothing done */
	assert_true(api_wait(api, "GET", SECRETS "/poolgate-tls",
		api_seen_of(api, "GET", SECRETS "/poolgate-tls") + 3));
	assert_true(generation(2));
	/* no answer: what is in force stays, and the next look goes on */
	for (int i = 0; i < 3; i++)
		api_expect(api, "GET", SECRETS "/poolgate-tls", 500, "{}");
	for (int i = 0; i < 250 && api_left(api) > 0; i++)
		api_nap(20);
	assert_int_equal(api_left(api), 0);
	change(0);
	assert_true(generation(3));
}

/* One look that shows an older version was overtaken by the watch; looks that stay with it say that
 * the cluster's data were restored. */
TEST(looks_believe_an_older_version)
{
	version = 50;
	look_every_ms = 100;
	start();
	assert_true(generation(1));
	silent = true;
	api_lock(api);
	overtaken = true;
	api_unlock(api);
	/* it, and one more */
	assert_true(api_wait(api, "GET", SECRETS "/poolgate-tls",
		api_seen_of(api, "GET", SECRETS "/poolgate-tls") + 3));
	assert_true(generation(1));
	api_lock(api);
	version = 7;
	pair = 1;
	api_unlock(api);
	assert_true(generation(2));
}

/* Of the same version. */
static void become(int to)
{
	size_t looks = api_seen_of(api, "GET", SECRETS "/poolgate-tls");

	api_lock(api);
	pair = to;
	api_unlock(api);
	assert_true(api_wait(api, "GET", SECRETS "/poolgate-tls", looks + 3));
}

/* What was refused is tried at each look, since its time may come; what is in force is not. */
TEST(looks_try_again_what_was_refused)
{
	version = 5;
	pair = -1;
	look_every_ms = 100;
	start();
	become(-1);
	assert_true(generation(0));
	assert_int_equal(metric_value(metrics, M_RELOAD_ERRORS, WHAT_CERTIFICATE, 0), 1);
	become(0);
	assert_true(generation(1));
	become(1);
	assert_true(generation(1));
	assert_int_equal(metric_value(metrics, M_RELOAD_ERRORS, WHAT_CERTIFICATE, 0), 1);
}

static size_t logged(const char *text)
{
	static char all[16384];
	ssize_t n = pread(log_to.fd, all, sizeof(all) - 1, 0);
	size_t times = 0;

	assert_true(n >= 0);
	all[n] = '\0';
	for (const char *at = all; (at = strstr(at, text)); at++)
		times++;
	return times;
}

/* A message names the key of the Secret that is wrong; a pair in force is told once. */
TEST(tells_what_it_took)
{
	FILE *file = tmpfile();

	assert_non_null(file);
	log_to = (struct log){.fd = fileno(file), .level = LOG_LEVEL_INFO};
	version = 5;
	pair = ONLY_CERT;
	start();
	for (int i = 0; i < 250 && !logged("cannot be used"); i++)
		api_nap(20);
	assert_int_equal(logged("poolgate-system/poolgate-tls, tls.key"), 1);
	change(-1);
	for (int i = 0; i < 250 && logged("cannot be used") < 2; i++)
		api_nap(20);
	assert_int_equal(logged("poolgate-system/poolgate-tls, tls.crt"), 1);
	assert_int_equal(logged("certificate in force"), 0);
	change(0);
	assert_true(generation(1));
	change(0);
	change(1);
	assert_true(generation(2));
	for (int i = 0; i < 250 && logged("certificate in force") < 2; i++)
		api_nap(20);
	assert_int_equal(logged("certificate in force"), 2);
	assert_int_equal(logged("\"warning\""), 0);
	tls_secret_stop(running);
	running = NULL;
	(void)fclose(file);
	log_to = (struct log){.fd = 2, .level = LOG_LEVEL_ERROR};
}

/* Versions that cannot be compared: whatever comes is new. */
TEST(takes_versions_that_are_no_numbers)
{
	no_numbers = true;
	version = 5;
	start();
	assert_true(generation(1));
	change(1);
	assert_true(generation(2));
	change(0);
	assert_true(generation(3));
}

FIXTURE(make_pairs)
{
	make_pair(&pairs[0], MADE_P256, -60, 86400, 1);
	make_pair(&pairs[1], MADE_P256, -60, 2 * 86400, 1);
	return 0;
}

TESTS_ALL(make_pairs, NULL, set_up, tear_down, takes_what_is_there, takes_what_comes,
	junk_changes_nothing, looks_by_itself, looks_believe_an_older_version,
	looks_try_again_what_was_refused, tells_what_it_took, takes_versions_that_are_no_numbers)

/* SPDX-License-Identifier: Apache-2.0 */
/* test: the probes of GPU servers asked, and what becomes of their answers; over TLS with a CA out of a Secret, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "certs/x509.h"
#include "net/http_server.h"
#include "test/unit/pool_api.h"
#include "webhook/cluster/duty.h"
#include "webhook/cluster/probe_poll.h"

#define OURS "['poolgate.io/claims']"
#define ANSWER(state, age, fit)                                                                    \
	"{\"schema\":\"gpuprobe.inventory/1\",\"age_s\":" age                                      \
	",\"stale_after_s\":30,\"state\":\"" state "\",\"gpus\":[{\"uuid\":\"GPU-1\","             \
	"\"name\":\"H200\",\"memory_total_bytes\":1000000000,\"fit\":" fit ",\"reasons\":[]}]}"
#define GOOD ANSWER("ready", "1", "true")

static struct pool_api *pool;
static struct api *probe;
static struct probe_poll_config cfg;
static const char *answer; /* under the probe's lock; NULL: 503 */
static int delay_ms;

static int play(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	(void)ctx;
	if (strcmp(req->path, PROBE_PATH) != 0)
		return 1;
	if (answer)
		api_text(reply, 200, "%s", answer);
	else
		api_text(reply, 503, "no");
	reply->delay_ms = delay_ms;
	return 0;
}

static void say(const char *text)
{
	api_lock(probe);
	answer = text;
	api_unlock(probe);
}

static int set_up(void **state)
{
	(void)state;
	answer = GOOD;
	delay_ms = 0;
	probe = api_start(play, NULL);
	pool = pool_api_new();
	cfg = (struct probe_poll_config){.kube = pool->kube,
		.servers = pool->servers,
		.log = &pool->log,
		.metrics = pool->metrics,
		.namespace = "poolgate-system",
		.every_ms = 100,
		.timeout_ms = 1000};
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	pool_api_free(pool);
	api_stop(probe);
	return 0;
}

/* more: members of spec.probe behind the URL */
static void add_server(const char *name, const char *url, const char *more)
{
	char spec[512];

	snprintf(spec, sizeof(spec), "{'address':'10.0.0.1:56001','probe':{'url':'%s'%s}}", url,
		more);
	pool_api_put(pool, name, OURS, spec, "{}");
}

static void writes_what_the_probe_says(void **state)
{
	unsigned puts;

	(void)state;
	add_server("a", api_url(probe), "");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'id':'GPU-1'", 5000));
	assert_true(pool_api_shows(pool, "a", "'reason':'ProbeAnswered'", 0));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 0));
	/* on change alone */
	puts = pool->puts;
	assert_true(api_wait(probe, "GET", PROBE_PATH, api_seen_count(probe) + 5));
	assert_int_equal(pool->puts, puts);
	assert_true(metric_value(pool->metrics, M_PROBE_POLLS, PROBE_ANSWERED, 0) > 4);
	say(ANSWER("unfit", "1", "false"));
	assert_true(pool_api_shows(pool, "a", "'reason':'NoneFit'", 5000));
}

static void three_failures_make_it_stale(void **state)
{
	unsigned puts;

	(void)state;
	add_server("a", api_url(probe), "");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
	say(NULL);
	assert_true(pool_api_shows(pool, "a", "'reason':'NoAnswer'", 5000));
	assert_true(pool_api_shows(pool, "a", "HTTP 503", 0));
	assert_true(pool_api_shows(pool, "a", "'reason':'NotFresh'", 0));
	/* what it had is remembered */
	assert_true(pool_api_shows(pool, "a", "'id':'GPU-1'", 0));
	assert_true(metric_value(pool->metrics, M_PROBE_POLLS, PROBE_FAILED, 0) >= 3);
	/* said once */
	puts = pool->puts;
	assert_true(api_wait(probe, "GET", PROBE_PATH, api_seen_count(probe) + 5));
	assert_int_equal(pool->puts, puts);
	say(GOOD);
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
}

static void two_failures_do_not(void **state)
{
	struct api_reply bad = {.status = 500};

	(void)state;
	add_server("a", api_url(probe), "");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
	api_expect_reply(probe, "GET", PROBE_PATH, &bad);
	api_expect_reply(probe, "GET", PROBE_PATH, &bad);
	for (int i = 0; i < 100 && api_left(probe) > 0; i++)
		api_nap(50);
	assert_int_equal(api_left(probe), 0);
	api_nap(300);
	assert_int_equal(pool->puts, 1);
}

static void a_probe_that_does_not_stand_by_it(void **state)
{
	(void)state;
	add_server("a", api_url(probe), "");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
	say(ANSWER("ready", "31", "true"));
	assert_true(pool_api_shows(pool, "a", "'reason':'ProbeStale'", 5000));
	assert_true(metric_value(pool->metrics, M_PROBE_POLLS, PROBE_STALE, 0) > 0);
	say("{}");
	assert_true(pool_api_shows(pool, "a", "'reason':'NoAnswer'", 5000));
}

/* Those that hang do not keep the others from being asked. */
static void asks_several_at_once(void **state)
{
	struct api *slow;

	(void)state;
	delay_ms = 5000;
	slow = probe;
	probe = api_start(play, NULL);
	for (int i = 0; i < 4; i++)
		add_server((const char *[]){"a", "b", "c", "d"}[i], api_url(slow), "");
	cfg.timeout_ms = 3000;
	delay_ms = 5000;
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(api_wait(slow, "GET", PROBE_PATH, 4));
	api_lock(probe);
	delay_ms = 0;
	api_unlock(probe);
	add_server("e", api_url(probe), "");
	assert_true(pool_api_shows(pool, "e", "'reason':'TakesClaims'", 2500));
	api_stop(slow);
}

static void sends_the_token(void **state)
{
	const struct api_request *last;

	(void)state;
	pool->token = strdup("s3cret\n");
	add_server("a", api_url(probe), ",'tokenSecret':'probe'");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
	last = api_last(probe, "GET", PROBE_PATH);
	assert_non_null(last);
	assert_string_equal(last->token, "s3cret");
	/* the Secret is not asked for each time */
	assert_true(api_wait(probe, "GET", PROBE_PATH, api_seen_count(probe) + 5));
	assert_int_equal(api_seen_of(pool->api, "GET", POOL_API_SECRETS "probe"), 1);
}

static void a_secret_that_is_missing(void **state)
{
	(void)state;
	add_server("a", api_url(probe), ",'tokenSecret':'probe'");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(
		pool, "a", "Secret poolgate-system/probe: key token is missing", 5000));
	assert_int_equal(api_seen_count(probe), 0);
}

/* ---- TLS ---- */

static enum http_outcome inventory(void *ctx, struct http_request *req, struct http_reply *reply)
{
	(void)ctx;
	(void)req;
	reply->status = 200;
	reply->content_type = "application/json";
	reply->body = strdup(GOOD);
	reply->body_len = strlen(GOOD);
	return HTTP_DONE;
}

static const struct http_route routes[] = {{PROBE_PATH, HTTP_GET, false, NULL, inventory, NULL, 0}};

static void trusts_its_own_ca_alone(void **state)
{
	struct http_config http = {.listen = "127.0.0.1:0", .identity = tls_identity_new()};
	struct http_app app = {.routes = routes, .nroutes = 1};
	struct http_server *server = NULL;
	struct certs_names names = {0};
	struct x509_pair ca, other, pair;
	struct tls_pem cert, key;
	int64_t now = clock_wall_ms() / 1000;
	char url[64];

	(void)state;
	x509_pair_init(&ca);
	x509_pair_init(&other);
	x509_pair_init(&pair);
	assert_int_equal(certs_names_ip(&names, SLICE("127.0.0.1"), NULL), 0);
	assert_int_equal(x509_make_ca(&names, now, 3600, &ca, NULL), 0);
	assert_int_equal(x509_make_ca(&names, now, 3600, &other, NULL), 0);
	assert_int_equal(x509_make_serving(&ca, &names, now, 3600, &pair, NULL), 0);
	cert = (struct tls_pem){buf_as_slice(&pair.cert), "tls.crt"};
	key = (struct tls_pem){buf_as_slice(&pair.key), "tls.key"};
	assert_int_equal(tls_identity_load_pem(http.identity, &cert, &key, NULL), 0);
	assert_int_equal(http_server_start(&http, &app, &server, NULL), 0);
	snprintf(url, sizeof(url), "https://127.0.0.1:%u", (unsigned)http_server_port(server));

	pool->ca_pem = strdup(other.cert.data);
	add_server("a", url, ",'caSecret':'probe'");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'NoAnswer'", 5000));
	/* the Secret is corrected, and read anew since the probe does not answer */
	api_lock(pool->api);
	free(pool->ca_pem);
	pool->ca_pem = strdup(ca.cert.data);
	api_unlock(pool->api);
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 9000));

	http_server_stop(server, 1000);
	tls_identity_free(http.identity);
	x509_pair_release(&ca);
	x509_pair_release(&other);
	x509_pair_release(&pair);
}

int main(void)
{
#define POLL_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		POLL_TEST(writes_what_the_probe_says),
		POLL_TEST(three_failures_make_it_stale),
		POLL_TEST(two_failures_do_not),
		POLL_TEST(a_probe_that_does_not_stand_by_it),
		POLL_TEST(asks_several_at_once),
		POLL_TEST(sends_the_token),
		POLL_TEST(a_secret_that_is_missing),
		POLL_TEST(trusts_its_own_ca_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

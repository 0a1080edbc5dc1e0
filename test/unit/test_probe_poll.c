/* SPDX-License-Identifier: Apache-2.0 */
/* test: the probes of GPU servers asked, and what becomes of their answers; over TLS with a CA out
 * of a Secret, too. */
#include "base/clock.h"
#include "test/unit/pool_api.h"
#include "test/unit/test.h"
#include "test/unit/tls_end.h"
#include "webhook/cluster/duty/duty.h"
#include "webhook/cluster/reconcile/probe_poll.h"

#define OURS "['poolgate.io/claims']"
#define ANSWER(state, age, fit)                                                                    \
	"{\"schema\":\"gpuprobe.inventory/1\",\"age_s\":" age                                      \
	",\"stale_after_s\":30,\"state\":\"" state "\",\"gpus\":[{\"uuid\":\"GPU-1\","             \
	"\"name\":\"H200\",\"memory_total_bytes\":1000000000,\"fit\":" fit ",\"reasons\":[]}]}"
#define GOOD ANSWER("ready", "1", "true")

static struct pool_api *pool;
static struct api *probe;
static struct probe_poll_config cfg;
static const char *answer; /* under the probe's lock; NULL: refusal */
static int refusal;
static int delay_ms;

static int play(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	(void)ctx;
	if (strcmp(req->path, PROBE_PATH) != 0)
		return 1;
	if (answer)
		api_text(reply, 200, "%s", answer);
	else
		api_text(reply, refusal, "no");
	reply->delay_ms = delay_ms;
	return 0;
}

static int play_dead(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	(void)ctx;
	(void)req;
	reply->delay_ms = 4000;
	return 0;
}

static void say(const char *text)
{
	api_lock(probe);
	answer = text;
	api_unlock(probe);
}

FIXTURE(set_up)
{
	answer = GOOD;
	refusal = 503;
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

FIXTURE(tear_down)
{
	pool_api_free(pool);
	api_stop(probe);
	return 0;
}

/* more: members of spec.probe behind the URL */
static void add_server(const char *name, const char *url, const char *more)
{
	char spec[512];

	snprintf(spec, sizeof(spec), "{'address':'%s:56001','probe':{'url':'%s'%s}}", name, url,
		more);
	pool_api_put(pool, name, OURS, spec, "{}");
}

TEST(writes_what_the_probe_says)
{
	unsigned puts;

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

/* What is wrong with the server as a whole stands in the condition, be its GPUs known or not. */
TEST(the_probes_own_trouble)
{
	add_server("a", api_url(probe), "");
	say("{\"schema\":\"gpuprobe.inventory/"
	    "1\",\"age_s\":1,\"stale_after_s\":30,\"state\":\"unknown\","
	    "\"trouble\":\"NO_DRIVER: no driver\",\"gpus\":[]}");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(
		pool, "a", "the probe itself knows no verdict: NO_DRIVER: no driver", 5000));
	say("{\"schema\":\"gpuprobe.inventory/"
	    "1\",\"age_s\":1,\"stale_after_s\":30,\"state\":\"unfit\","
	    "\"trouble\":\"GPU_MISSING: 7 of 8\",\"gpus\":[]}");
	assert_true(pool_api_shows(pool, "a", "the probe answers: GPU_MISSING: 7 of 8", 5000));
	assert_true(pool_api_shows(pool, "a", "'reason':'ProbeAnswered'", 0));
}

TEST(three_failures_make_it_stale)
{
	unsigned puts;

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
	/* said once, in its first words */
	puts = pool->puts;
	api_lock(probe);
	refusal = 500;
	api_unlock(probe);
	assert_true(api_wait(probe, "GET", PROBE_PATH, api_seen_count(probe) + 5));
	assert_int_equal(pool->puts, puts);
	assert_true(pool_api_shows(pool, "a", "HTTP 503", 0));
	say(GOOD);
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
}

TEST(two_failures_do_not)
{
	struct api_reply bad = {.status = 500};

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

TEST(a_probe_that_does_not_stand_by_it)
{
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
TEST(asks_several_at_once)
{
	struct api *slow;

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

#define WAS_FRESH                                                                                  \
	"{'version':1,'gpus':[],'claims':[],'conditions':[{'type':'Fresh','status':'True',"        \
	"'reason':'ProbeAnswered','message':'','lastTransitionTime':'2026-11-21T09:30:00Z'}]}"

/* Twenty that hang for four seconds each, four questions at a time: what they were known to be ages
 * meanwhile (R17), and those that answer are asked as often as before. */
TEST(what_hangs_ages_and_keeps_nobody_waiting)
{
	struct api *dead = api_start(play_dead, NULL);
	size_t asked;

	for (int i = 0; i < 20; i++) {
		char name[16], spec[128];

		snprintf(name, sizeof(name), "dead-%d", i);
		snprintf(spec, sizeof(spec), "{'address':'%s:56001','probe':{'url':'%s'}}", name,
			api_url(dead));
		pool_api_put(pool, name, OURS, spec, WAS_FRESH);
	}
	add_server("lives-1", api_url(probe), "");
	add_server("lives-2", api_url(probe), "");
	cfg.at_once = 4;
	cfg.timeout_ms = 4000;
	cfg.haste_ms = 50;
	cfg.stale_after_ms = 1500;
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(pool, "lives-1", "'reason':'TakesClaims'", 1400));
	assert_true(pool_api_shows(pool, "lives-2", "'reason':'ProbeAnswered'", 1400));
	for (int i = 0; i < 20; i++) {
		char name[16];

		snprintf(name, sizeof(name), "dead-%d", i);
		assert_true(pool_api_shows(pool, name, "'reason':'NoAnswer'", 3000));
		assert_true(pool_api_shows(pool, name, "'reason':'NotFresh'", 0));
	}
	asked = api_seen_count(probe);
	api_nap(2000);
	assert_true(api_seen_count(probe) >= asked + 20);
	assert_true(pool_api_shows(pool, "lives-1", "'reason':'TakesClaims'", 0));
	assert_true(pool_api_shows(pool, "lives-2", "'reason':'ProbeAnswered'", 0));
	api_stop(dead);
}

/* That it ages cannot be written: that is tried again a second later, until it is. */
TEST(what_hangs_and_cannot_be_told)
{
	struct api *dead = api_start(play_dead, NULL);
	char spec[128];
	size_t tried;

	snprintf(spec, sizeof(spec), "{'address':'a:56001','probe':{'url':'%s'}}", api_url(dead));
	pool_api_put(pool, "a", OURS, spec, WAS_FRESH);
	for (int i = 0; i < 2; i++)
		api_expect(pool->api, "PUT", SERVERS_PATH "/a/status", 403,
			"{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"no\",\"code\":"
			"403}");
	cfg.timeout_ms = 4000;
	cfg.stale_after_ms = 100;
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(api_wait(pool->api, "PUT", SERVERS_PATH "/a/status", 1));
	api_nap(400);
	tried = api_seen_of(pool->api, "PUT", SERVERS_PATH "/a/status");
	assert_in_range(tried, 1, 2);
	assert_true(pool_api_shows(pool, "a", "'reason':'NoAnswer'", 3000));
	assert_int_equal(api_seen_of(pool->api, "PUT", SERVERS_PATH "/a/status"), 3);
	api_stop(dead);
}

TEST(who_does_not_answer_is_asked_less_often)
{
	size_t asked;

	say(NULL);
	add_server("a", api_url(probe), "");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'NoAnswer'", 5000));
	assert_true(api_wait(probe, "GET", PROBE_PATH, 5));
	asked = api_seen_count(probe);
	api_nap(2000);
	assert_in_range(api_seen_count(probe) - asked, 2, 7);
	/* at a known pace again once it answers */
	say(GOOD);
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
	asked = api_seen_count(probe);
	api_nap(2000);
	assert_true(api_seen_count(probe) - asked >= 12);
}

/* Slower than haste allows, and sound: it is asked again with all the time there is. */
TEST(a_slow_one_is_not_dead)
{
	add_server("a", api_url(probe), "");
	cfg.haste_ms = 20;
	delay_ms = 200;
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
	assert_int_equal(metric_value(pool->metrics, M_PROBE_POLLS, PROBE_FAILED, 0), 0);
}

/* Its leader stood still behind the question: what came meanwhile is older than what it may say. */
TEST(an_answer_that_is_too_old_is_none)
{
	add_server("a", api_url(probe), "");
	cfg.stale_after_ms = 100;
	delay_ms = 200;
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(api_wait(probe, "GET", PROBE_PATH, 5));
	assert_true(pool_api_shows(pool, "a", "'reason':'NoAnswer'", 5000));
	assert_int_equal(metric_value(pool->metrics, M_PROBE_POLLS, PROBE_ANSWERED, 0), 0);
	assert_true(metric_value(pool->metrics, M_PROBE_POLLS, PROBE_FAILED, 0) > 0);
}

TEST(an_address_may_end_in_slashes)
{
	char url[100];

	(void)snprintf(url, sizeof(url), "%s///", api_url(probe));
	add_server("a", url, "");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
}

/* Once each, whatever the next question brings. */
TEST(who_is_lost_and_who_is_back_is_told)
{
	pool_api_log(pool);
	add_server("a", api_url(probe), "");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
	for (int i = 1; i <= 2; i++) {
		say(NULL);
		assert_true(pool_api_shows(pool, "a", "'reason':'NoAnswer'", 5000));
		assert_true(api_wait(probe, "GET", PROBE_PATH, api_seen_count(probe) + 3));
		assert_int_equal(pool_api_logged(pool, "are not known to be fit"), i);
		assert_int_equal(pool_api_logged(pool, "probe answers again"), i - 1);
		say(GOOD);
		assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
		assert_true(api_wait(probe, "GET", PROBE_PATH, api_seen_count(probe) + 3));
		assert_int_equal(pool_api_logged(pool, "probe answers again"), i);
	}
}

TEST(a_secret_that_is_missing)
{
	add_server("a", "https://127.0.0.1:1", ",'tokenSecret':'probe'");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(
		pool, "a", "Secret poolgate-system/probe: key token is missing", 5000));
	assert_true(pool_api_shows(pool, "a", "'reason':'SecretMissing'", 0));
	add_server("b", "https://127.0.0.1:1", ",'tokenSecret':'none'");
	assert_true(pool_api_shows(pool, "b", "Secret poolgate-system/none is missing", 5000));
	assert_true(pool_api_shows(pool, "b", "'reason':'SecretMissing'", 0));
}

static void wait_for_secret(const char *name)
{
	char path[100];

	(void)snprintf(path, sizeof(path), POOL_API_SECRETS "%s", name);
	for (int i = 0; i < 1000 && api_seen_of(pool->api, "GET", path) == 0; i++)
		api_nap(5);
	assert_true(api_seen_of(pool->api, "GET", path) > 0);
}

/* Whichever it is: the end is another one, and asked at once. */
TEST(another_secret_makes_another_end)
{
	static const struct {
		const char *name, *more[2], *secret[2];
	} rows[] = {
		{"a", {",'caSecret':'a1'", ",'caSecret':'a2'"}, {"a1", "a2"}},
		{"b", {",'tokenSecret':'b1'", ",'tokenSecret':'b2'"}, {"b1", "b2"}},
		{"c", {",'clientSecret':'c1'", ",'clientSecret':'c2'"}, {"c1", "c2"}},
	};

	cfg.every_ms = 60000;
	for (size_t i = 0; i < COUNT(rows); i++)
		add_server(rows[i].name, "https://127.0.0.1:1", rows[i].more[0]);
	pool_api_run(pool, probe_poll_duty(&cfg));
	for (size_t i = 0; i < COUNT(rows); i++)
		wait_for_secret(rows[i].secret[0]);
	for (size_t i = 0; i < COUNT(rows); i++)
		add_server(rows[i].name, "https://127.0.0.1:1", rows[i].more[1]);
	for (size_t i = 0; i < COUNT(rows); i++)
		wait_for_secret(rows[i].secret[1]);
}

/* Whoever reads the network would have it; said at once. */
TEST(a_token_stays_off_plain_http)
{
	pool->token = strdup("s3cret");
	cfg.every_ms = 60000;
	add_server("a", api_url(probe), ",'tokenSecret':'probe'");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'TokenNotSent'", 5000));
	assert_true(pool_api_shows(pool, "a", "give the probe an https URL", 0));
	assert_int_equal(api_seen_count(probe), 0);
	assert_int_equal(api_seen_of(pool->api, "GET", POOL_API_SECRETS "probe"), 0);
}

/* What was made for something else, such as a service account's token, goes to no address of
 * somebody's choice. */
TEST(a_secret_of_another_type)
{
	pool->token = strdup("s3cret");
	pool->secret_type = "kubernetes.io/service-account-token";
	cfg.every_ms = 60000;
	add_server("a", "https://127.0.0.1:1", ",'tokenSecret':'probe'");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'SecretNotUsed'", 5000));
	assert_true(pool_api_shows(pool, "a", "neither Opaque nor kubernetes.io/tls", 0));
}

/* ---- TLS ---- */

TEST(sends_the_token)
{
	struct tls_end p;

	tls_end_start(&p, GOOD);
	pool->token = strdup("s3cret \t\r\n");
	pool->ca_pem = strdup(p.ca.cert.data);
	pool->secret_type = "kubernetes.io/tls";
	add_server("a", p.url, ",'caSecret':'probe','tokenSecret':'probe'");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
	assert_non_null(strstr(p.head, "\r\nAuthorization: Bearer s3cret\r\n"));
	/* the Secret is not asked for each time: once for each key */
	for (int i = 0; i < 500 && atomic_load(&p.answered) < 6; i++)
		api_nap(20);
	assert_true(atomic_load(&p.answered) >= 6);
	assert_int_equal(api_seen_of(pool->api, "GET", POOL_API_SECRETS "probe"), 2);
	tls_end_stop(&p);
}

/* Nothing is sent for one. */
TEST(a_token_of_blanks)
{
	struct tls_end p;

	tls_end_start(&p, GOOD);
	pool->token = strdup("\n \t\r\n");
	pool->ca_pem = strdup(p.ca.cert.data);
	add_server("a", p.url, ",'caSecret':'probe','tokenSecret':'probe'");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
	assert_null(strstr(p.head, "Authorization"));
	tls_end_stop(&p);
}

TEST(shows_its_certificate)
{
	struct x509_pair own;
	struct certs_names names = {0};
	struct tls_end p;

	tls_end_start(&p, GOOD);
	x509_pair_init(&own);
	assert_int_equal(certs_names_ip(&names, SLICE("127.0.0.1"), NULL), 0);
	assert_int_equal(
		x509_make_serving(&p.ca, &names, clock_wall_ms() / 1000, 3600, &own, NULL), 0);
	pool->ca_pem = strdup(p.ca.cert.data);
	pool->cert_pem = strdup(own.cert.data);
	add_server("a", p.url, ",'caSecret':'probe','clientSecret':'probe'");
	pool_api_run(pool, probe_poll_duty(&cfg));
	/* without the key it is not asked */
	assert_true(pool_api_shows(pool, "a", "tls.key", 5000));
	assert_int_equal(atomic_load(&p.answered), 0);
	api_lock(pool->api);
	pool->key_pem = strdup(own.key.data);
	api_unlock(pool->api);
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 9000));
	assert_true(own.cert.len > 0 && strncmp(p.client, own.cert.data, 100) == 0);
	tls_end_stop(&p);
	x509_pair_release(&own);
}

TEST(trusts_its_own_ca_alone)
{
	struct x509_pair other;
	struct tls_end p;
	struct certs_names names = {0};

	tls_end_start(&p, GOOD);
	x509_pair_init(&other);
	assert_int_equal(certs_names_ip(&names, SLICE("127.0.0.1"), NULL), 0);
	assert_int_equal(x509_make_ca(&names, clock_wall_ms() / 1000, 3600, &other, NULL), 0);
	pool->ca_pem = strdup(other.cert.data);
	add_server("a", p.url, ",'caSecret':'probe'");
	pool_api_run(pool, probe_poll_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'NoAnswer'", 5000));
	/* the Secret is corrected, and read anew since the probe does not answer */
	api_lock(pool->api);
	free(pool->ca_pem);
	pool->ca_pem = strdup(p.ca.cert.data);
	api_unlock(pool->api);
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 9000));

	tls_end_stop(&p);
	x509_pair_release(&other);
}

TESTS_BETWEEN(set_up, tear_down, another_secret_makes_another_end, writes_what_the_probe_says,
	the_probes_own_trouble, three_failures_make_it_stale, two_failures_do_not,
	a_probe_that_does_not_stand_by_it, asks_several_at_once,
	what_hangs_ages_and_keeps_nobody_waiting, what_hangs_and_cannot_be_told,
	who_does_not_answer_is_asked_less_often, a_slow_one_is_not_dead,
	an_answer_that_is_too_old_is_none, an_address_may_end_in_slashes,
	who_is_lost_and_who_is_back_is_told, a_token_of_blanks, a_secret_that_is_missing,
	a_token_stays_off_plain_http, a_secret_of_another_type, sends_the_token,
	shows_its_certificate, trusts_its_own_ca_alone)

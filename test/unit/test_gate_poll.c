/* SPDX-License-Identifier: Apache-2.0 */
/* test: gates of GPU servers asked by the leader, and what becomes of what they tell. */
#include "test/unit/pool_api.h"
#include "test/unit/test.h"
#include "test/unit/tls_end.h"
#include "webhook/cluster/reconcile/probe_poll.h"
#include "webhook/core/server/gate_page.h"

#define OURS "['poolgate.io/claims']"
#define PAGE(shares, known, claims, strangers)                                                     \
	"{\"version\":1,\"server\":\"a\",\"profile\":\"lupine\",\"shares\":\"" shares              \
	"\",\"known\":" known ",\"claims\":[" claims "],\"strangers\":[" strangers "]}"
#define GOOD PAGE("held", "true", "", "")
#define CLAIM(uid, more) "{\"uid\":\"" uid "\",\"used\":1,\"known\":true,\"processes\":1," more "}"
#define OVER                                                                                       \
	CLAIM("u1", "\"overShare\":true,\"gpu\":\"gpu-0\",\"has\":9000000000,"                     \
		    "\"share\":8000000000")
#define UNUSED CLAIM("u2", "\"overShare\":false,\"unusedSeconds\":3600")
#define STRANGER "{\"pid\":7,\"gpu\":\"gpu-1\",\"known\":true,\"used\":5}"
#define STATUS "{" STATUS_REST
#define STATUS_REST                                                                                \
	"'version':1,'gpus':[{'id':'gpu-0','model':'H100','memory':16000000000,'fit':true},"       \
	"{'id':'gpu-1','model':'H100','memory':16000000000,'fit':true}],'claims':["                \
	"{'uid':'u1','namespace':'ml','name':'greedy','state':'bound','servers':['a'],'gpus':["    \
	"{'id':'gpu-0','bytes':8000000000}]},{'uid':'u2','namespace':'ml','name':'idle',"          \
	"'state':'bound','servers':['a'],'gpus':[{'id':'gpu-1','bytes':8000000000}]}]}"

/* Somebody adds up. */
#define COUNTED "{'usage':'open 2026-11-25T00:00:00Z 2026-11-25T00:00:00Z 0 0 0 0\\n'," STATUS_REST

static struct pool_api *pool;
static struct tls_end gate;
static struct probe_poll_config cfg;

static void say(const char *text)
{
	tls_end_say(&gate, text);
}

FIXTURE(set_up)
{
	tls_end_start(&gate, GOOD);
	pool = pool_api_new();
	pool->ca_pem = strdup(gate.ca.cert.data);
	pool->token = strdup("s3cret");
	cfg = (struct probe_poll_config){.kube = pool->kube,
		.servers = pool->servers,
		.log = &pool->log,
		.metrics = pool->metrics,
		.namespace = "poolgate-system",
		.every_ms = 50,
		.timeout_ms = 2000};
	return 0;
}

FIXTURE(tear_down)
{
	pool_api_free(pool);
	tls_end_stop(&gate);
	return 0;
}

/* more: behind the address, and in the gate. */
static const char *spec_of(const char *more, const char *gate_more)
{
	static char spec[512];

	(void)snprintf(spec, sizeof(spec),
		"{'address':'a:9446'%s,'gpus':[{'model':'H100','memory':'16G','count':2}],'gate':{"
		"'profile':'lupine','url':'%s','caSecret':'probe','tokenSecret':'probe'%s}}",
		more, gate.url, gate_more);
	return spec;
}

static void begin_with(const char *more, const char *status)
{
	pool_api_put(pool, "a", OURS, spec_of("", more), status);
	pool_api_run(pool, gate_poll_duty(&cfg));
}

static void begin(const char *more)
{
	begin_with(more, STATUS);
}

static void expect(const char *text)
{
	if (!pool_api_shows(pool, "a", text, 5000))
		fail_msg("no %s", text);
}

static size_t events(const char *text)
{
	size_t n = 0;

	for (size_t i = 0; i < api_seen_count(pool->api); i++) {
		const struct api_request *r = api_seen(pool->api, i);

		n += strcmp(r->method, "POST") == 0 && strstr(r->body, text);
	}
	return n;
}

static void asked_again(void)
{
	unsigned before = atomic_load(&gate.answered);

	for (int i = 0; i < 500 && atomic_load(&gate.answered) < before + 3; i++)
		api_nap(20);
	assert_true(atomic_load(&gate.answered) >= before + 3);
}

static int64_t found(enum metric_finding what)
{
	return metric_value(pool->metrics, M_GATE_FINDINGS, what, 0);
}

static bool comes_to(enum metric_finding what, int64_t n)
{
	for (int i = 0; i < 500 && found(what) != n; i++)
		api_nap(10);
	return found(what) == n;
}

TEST(a_gate_that_answers_guards)
{
	unsigned puts;

	begin("");
	expect("'type':'Guarded','status':'True'");
	assert_non_null(strstr(gate.head, "GET " GATE_PAGE_PATH " HTTP/1.1\r\n"));
	assert_non_null(strstr(gate.head, "\r\nAuthorization: Bearer s3cret\r\n"));
	puts = pool->puts;
	asked_again();
	assert_int_equal(pool->puts, puts);
	assert_true(metric_value(pool->metrics, M_GATE_POLLS, PROBE_ANSWERED, 0) > 2);
	say(PAGE("unknown", "true", "", ""));
	expect("'type':'Guarded','status':'Unknown'");
	expect("'reason':'SharesUnknown'");
	say(PAGE("exceeded", "true", "", ""));
	expect("'reason':'SharesExceeded'");
}

/* Whatever it said before: who does not answer is not known to guard. */
TEST(silence_is_unknown)
{
	static char name[2000], text[2100]; /* the gate plays it to its end */

	say(PAGE("unknown", "true", "", ""));
	begin("");
	expect("'reason':'SharesUnknown'");
	say(NULL);
	expect("'type':'Guarded','status':'Unknown'");
	expect("'reason':'NoAnswer'");
	expect("the gate answers with HTTP 503");
	expect("'type':'OverShare','status':'Unknown'");
	assert_true(comes_to(FINDING_UNKNOWN, 1));
	say(GOOD);
	expect("'type':'Guarded','status':'True'");
	assert_true(comes_to(FINDING_UNKNOWN, 0));
	/* a page that cannot be read */
	say("{\"version\":2}");
	expect("'reason':'NoAnswer'");
	expect("version");
	/* nor one whose name is none, which the status does not repeat */
	say(GOOD);
	expect("'type':'Guarded','status':'True'");
	memset(name, 'a', sizeof(name) - 1);
	(void)snprintf(text, sizeof(text),
		"{\"version\":1,\"server\":\"a\",\"profile\":\"%s\",\"known\":true}", name);
	say(text);
	expect("'reason':'NoAnswer'");
	assert_false(pool_api_shows(pool, "a", name, 0));
}

TEST(pods_are_told_once)
{
	say(PAGE("held", "true", OVER "," UNUSED, ""));
	begin("");
	expect("pods have more of its GPUs than they hold: ml/greedy (gpu-0)");
	expect("used nothing for an hour: ml/idle");
	assert_true(comes_to(FINDING_OVER_SHARE, 1) && comes_to(FINDING_UNUSED, 1));
	asked_again();
	assert_int_equal(events("has 9000 MB of gpu-0 on a for more than ten seconds, and holds "
				"8000"),
		1);
	assert_int_equal(events("MoreThanShare"), 1);
	assert_int_equal(events("HoldsUnused"), 1);
	/* nobody knows for a while: nothing is said anew */
	say(PAGE("held", "false", "", ""));
	expect("'type':'OverShare','status':'Unknown'");
	assert_true(metric_value(pool->metrics, M_GATE_POLLS, PROBE_STALE, 0) > 0);
	say(PAGE("held", "true", OVER "," UNUSED, ""));
	expect("'type':'OverShare','status':'True'");
	asked_again();
	assert_int_equal(events("MoreThanShare"), 1);
	/* it stops, and begins again */
	say(GOOD);
	expect("'type':'OverShare','status':'False'");
	assert_true(comes_to(FINDING_OVER_SHARE, 0));
	say(PAGE("held", "true", OVER, ""));
	expect("'type':'OverShare','status':'True'");
	asked_again();
	assert_int_equal(events("MoreThanShare"), 2);
}

TEST(a_stranger_closes_its_gpu_until_it_is_gone)
{
	say(PAGE("held", "true", "", STRANGER));
	begin("");
	expect("'closed':'a process that belongs to no claim computes there'");
	expect("processes that belong to no claim compute here: gpu-1");
	expect("'fit':1,");
	assert_true(comes_to(FINDING_STRANGERS, 1));
	asked_again();
	assert_int_equal(events("process 7, which belongs to no claim, computes on gpu-1, which "
				"takes nothing new until it is gone"),
		1);
	assert_int_equal(events("StrangerComputes"), 1);
	/* nobody knows: it stays closed, and nothing is said anew */
	say(NULL);
	expect("'type':'Strangers','status':'Unknown'");
	expect("'closed':");
	say(PAGE("held", "true", "", STRANGER));
	expect("'type':'Strangers','status':'True'");
	asked_again();
	assert_int_equal(events("StrangerComputes"), 1);
	say(GOOD);
	expect("'type':'Strangers','status':'False'");
	assert_false(pool_api_shows(pool, "a", "'closed':", 0));
	expect("'fit':2,");
}

TEST(a_stranger_that_is_let)
{
	say(PAGE("held", "true", "", STRANGER));
	begin(",'strangers':'tell'");
	expect("processes that belong to no claim compute here: gpu-1");
	assert_false(pool_api_shows(pool, "a", "'closed':", 0));
	asked_again();
	assert_int_equal(events("belongs to no claim, computes on gpu-1\""), 1);
}

/* Another machine's answer says nothing of this one. */
TEST(another_server)
{
	say("{\"version\":1,\"server\":\"b\",\"profile\":\"lupine\",\"shares\":\"held\",\"known\":"
	    "true,\"claims\":[" OVER "],\"strangers\":[" STRANGER "]}");
	begin("");
	expect("'reason':'OtherServer'");
	expect("the gate there is of the GPUServer b");
	asked_again();
	assert_int_equal(events("MoreThanShare") + events("StrangerComputes"), 0);
	assert_false(pool_api_shows(pool, "a", "'closed':", 0));
	assert_true(comes_to(FINDING_UNKNOWN, 1));
}

/* Of all servers together, and of those alone that are there. */
TEST(findings_are_added_up)
{
	say(PAGE("held", "true", OVER "," UNUSED, STRANGER));
	pool_api_put(pool, "b", OURS, spec_of("", ""), STATUS);
	pool_api_put(pool, "c", OURS, spec_of("", ""), STATUS);
	begin("");
	assert_true(comes_to(FINDING_UNKNOWN, 2));
	assert_true(comes_to(FINDING_OVER_SHARE, 1) && comes_to(FINDING_UNUSED, 1) &&
		    comes_to(FINDING_STRANGERS, 1));
	asked_again();
	assert_int_equal(found(FINDING_OVER_SHARE), 1);
	pool_api_spec(pool, "c", "{'address':'c:9446','gpus':[{'model':'H100','memory':'16G'}]}");
	assert_true(comes_to(FINDING_UNKNOWN, 1));
	pool_api_spec(pool, "a", "{'address':'a:9446','gpus':[{'model':'H100','memory':'16G'}]}");
	assert_true(comes_to(FINDING_STRANGERS, 0) && comes_to(FINDING_OVER_SHARE, 0));
	assert_int_equal(found(FINDING_UNKNOWN), 1);
}

/* What is used stands at the claims, where somebody adds it up, and is not written at each answer.
 */
TEST(what_is_used)
{
	unsigned puts;

	say(PAGE("held", "true", OVER, ""));
	begin_with("", COUNTED);
	expect("'state':'bound','plan':'0000000000000000','take':'0000000000000000','servers':['a'"
	       "],'used':1,'usedUntil':'20");
	puts = pool->puts;
	asked_again();
	assert_int_equal(pool->puts, puts);
	say(NULL);
	expect("'type':'OverShare','status':'Unknown'");
	assert_false(pool_api_shows(pool, "a", "usedUntil", 0));
}

TEST(what_is_used_where_nobody_adds_up)
{
	say(PAGE("held", "true", OVER, ""));
	begin("");
	expect("'type':'Guarded','status':'True'");
	assert_false(pool_api_shows(pool, "a", "usedUntil", 0));
}

/* A spec that changes is asked about at once, and not only in its turn. */
TEST(another_spec)
{
	cfg.every_ms = 3600000;
	begin("");
	expect("'type':'Guarded','status':'True','observedGeneration':1");
	pool_api_spec(pool, "a", spec_of(",'drain':true", ""));
	expect("'type':'Guarded','status':'True','observedGeneration':2");
}

/* Who leads no more has found nothing. */
TEST(another_leader)
{
	say(PAGE("held", "true", OVER, STRANGER));
	begin("");
	assert_true(comes_to(FINDING_STRANGERS, 1));
	pool->duty.stop(pool->running);
	pool->running = NULL;
	assert_int_equal(found(FINDING_STRANGERS), 0);
	assert_int_equal(found(FINDING_OVER_SHARE), 0);
}

TESTS_BETWEEN(set_up, tear_down, a_gate_that_answers_guards, silence_is_unknown, pods_are_told_once,
	a_stranger_closes_its_gpu_until_it_is_gone, a_stranger_that_is_let, another_server,
	findings_are_added_up, what_is_used, what_is_used_where_nobody_adds_up, another_spec,
	another_leader)

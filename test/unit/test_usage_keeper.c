/* SPDX-License-Identifier: Apache-2.0 */
/* test: the keeper of usage: periods begin, end at midnight, are stored and only then forgotten
 * (law P7). */
#include "base/clock.h"
#include "base/rfc3339.h"
#include "test/unit/pool_api.h"
#include "test/unit/test.h"
#include "webhook/cluster/reconcile/server_keeper.h"
#include "webhook/cluster/reconcile/usage_keeper.h"

#define SPEC "{'address':'10.0.0.1:56001','gpus':[{'model':'V100','memory':'16G'}]}"
#define OURS "['poolgate.io/claims']"
#define CLAIM                                                                                      \
	"{'uid':'p','namespace':'n','name':'w','state':'bound','plan':'00000000000000aa',"         \
	"'since':'2026-11-21T09:30:00Z','take':'0000000000000001','servers':['a'],"                \
	"'gpus':[{'id':'gpu-0','bytes':50}]}"
#define STATUS(claims, usage)                                                                      \
	"{'version':1,'gpus':[{'id':'gpu-0','model':'V100','memory':16000000000,'fit':true}],"     \
	"'claims':[" claims "],'usage':'" usage "'}"
#define CLOSED "closed 2020-01-01T00:00:00Z 2020-01-02T00:00:00Z 10 4 3 0\\n n 3 1 V100\\n"
#define OPEN "open 2020-01-02T00:00:00Z 2020-01-02T00:00:00Z 0 0 0 0\\n"
#define LATER "open 2120-01-02T00:00:00Z 2120-01-02T00:00:00Z 0 0 0 0\\n"
#define CREATED "{\"kind\":\"GPUUsage\"}"
#define DENIED                                                                                     \
	"{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Forbidden\",\"message\":\"no\"," \
	"\"code\":403}"
#define TAKEN                                                                                      \
	"{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"AlreadyExists\",\"message\":"    \
	"\"there\",\"code\":409}"

static struct pool_api *pool;
static struct usage_keeper_config cfg;

FIXTURE(set_up)
{
	pool = pool_api_new();
	cfg = (struct usage_keeper_config){.kube = pool->kube,
		.servers = pool->servers,
		.log = &pool->log,
		.metrics = pool->metrics,
		.enabled = true,
		.every_ms = 20,
		.absent_ms = 50};
	return 0;
}

FIXTURE(tear_down)
{
	pool_api_free(pool);
	return 0;
}

static void run(void)
{
	pool_api_run(pool, usage_keeper_duty(&cfg));
}

static void expect(int status, const char *body)
{
	api_expect(pool->api, "POST", USAGES_PATH, status, body);
}

/* The n-th object holds this. */
static void stored(const char *text)
{
	const struct api_request *last = api_last(pool->api, "POST", USAGES_PATH);

	assert_non_null(last);
	if (!strstr(last->body, text))
		fail_msg("%s is not in %s", text, last->body);
}

static bool lacks(const char *text)
{
	for (int i = 0; i < 500; i++) {
		if (!pool_api_shows(pool, "a", text, 0))
			return true;
		api_nap(10);
	}
	return false;
}

TEST(begins_where_claims_are_taken)
{
	pool_api_put(pool, "a", OURS, SPEC, STATUS("", ""));
	pool_api_put(pool, "b", "[]", SPEC, STATUS("", ""));
	pool_api_put(pool, "c", OURS, SPEC, STATUS("", ""));
	run();
	assert_true(pool_api_shows(pool, "a", "'usage':'open 20", 5000));
	assert_true(pool_api_shows(pool, "c", "'usage':'open 20", 5000));
	api_nap(100);
	assert_false(pool_api_shows(pool, "b", "'usage':'open", 0));
	/* and is not written again without a reason */
	assert_int_equal(pool->puts, 2);
}

/* Nobody has switched it on, and nothing was counted: nothing is written. */
TEST(off_as_shipped)
{
	cfg.enabled = false;
	pool_api_put(pool, "a", OURS, SPEC, STATUS(CLAIM, ""));
	run();
	api_nap(150);
	assert_int_equal(pool->puts, 0);
}

/* A day is over and nobody commits: the page is turned, stored, and forgotten. */
TEST(stores_a_day)
{
	pool_api_put(pool, "a", OURS, SPEC,
		STATUS(CLAIM, "open 2020-01-01T00:00:00Z 2020-01-01T00:00:00Z 0 0 0 0\\n"));
	expect(201, CREATED);
	run();
	assert_true(api_wait(pool->api, "POST", USAGES_PATH, 1));
	stored("{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUUsage\",\"metadata\":{"
	       "\"name\":\"2020-01-01-");
	stored("},\"periods\":[{\"server\":\"a\",\"uid\":\"u-1\",\"usage\":\"closed "
	       "2020-01-01T00:00:00Z 20");
	assert_true(lacks("closed"));
	assert_true(pool_api_shows(pool, "a", "'usage':'open 20", 0));
	api_nap(100);
	assert_int_equal(api_seen_of(pool->api, "POST", USAGES_PATH), 1);
}

/* What is not stored is not forgotten. */
TEST(keeps_what_it_cannot_store)
{
	pool_api_put(pool, "a", OURS, SPEC, STATUS(CLAIM, CLOSED OPEN));
	expect(403, DENIED);
	expect(500, "{}");
	expect(403, DENIED);
	run();
	assert_true(api_wait(pool->api, "POST", USAGES_PATH, 3));
	assert_true(pool_api_shows(
		pool, "a", "closed 2020-01-01T00:00:00Z 2020-01-02T00:00:00Z 10", 0));
	/* two have been counted when the third comes */
	assert_true(metric_value(pool->metrics, M_USAGE_STORES, STORE_FAILED, 0) >= 2);
	assert_int_equal(metric_value(pool->metrics, M_USAGE_STORES, STORE_DONE, 0), 0);
}

/* It died behind the object, or another leader was first. */
TEST(what_is_there_is_stored)
{
	pool_api_put(pool, "a", OURS, SPEC, STATUS(CLAIM, CLOSED LATER));
	pool_api_put(pool, "b", OURS, SPEC, STATUS("", CLOSED LATER));
	pool->puts_max = 1;
	expect(201, CREATED);
	expect(409, TAKEN);
	expect(409, TAKEN);
	expect(201, CREATED);
	run();
	/* b's is stored again until it can be forgotten */
	assert_true(api_wait(pool->api, "POST", USAGES_PATH, 2));
	assert_true(lacks("closed 2020-01-01"));
	stored("\"periods\":[{\"server\":\"b\",\"uid\":\"u-2\"");
	api_lock(pool->api);
	pool->puts_max = 0;
	api_unlock(pool->api);
}

/* That nothing can be stored is told once, until something can; what is stored, each time. */
TEST(what_cannot_be_stored_is_told)
{
	pool_api_log(pool);
	pool_api_put(pool, "a", OURS, SPEC, STATUS(CLAIM, CLOSED LATER));
	run();
	for (int i = 1; i <= 2; i++) {
		expect(403, DENIED);
		expect(500, "{}");
		expect(201, CREATED);
		pool_api_status(pool, "a", STATUS(CLAIM, CLOSED LATER));
		assert_true(api_wait(pool->api, "POST", USAGES_PATH, 3 * (size_t)i));
		assert_true(lacks("closed"));
		assert_int_equal(pool_api_logged(pool, "usage cannot be stored"), i);
		assert_int_equal(pool_api_logged(pool, "usage is stored"), i);
		api_nap(100);
	}
}

/* Somebody else has written the status meanwhile, which may have been a restore: nothing is
 * forgotten on what was stored before it. The same is stored once more, and then it is forgotten.
 */
TEST(what_was_written_between_is_stored_again)
{
	const struct api_request *first = NULL;
	size_t n;

	cfg.enabled = false;
	pool_api_put(pool, "a", OURS, SPEC, STATUS("", CLOSED));
	expect(201, CREATED);
	expect(409, TAKEN);
	api_expect(pool->api, "PUT", SERVERS_PATH "/a/status", 409,
		"{\"kind\":\"Status\",\"reason\":\"Conflict\",\"message\":\"x\",\"code\":409}");
	run();
	assert_true(lacks("closed"));
	api_nap(200);
	assert_int_equal(api_seen_of(pool->api, "POST", USAGES_PATH), 2);
	n = api_seen_count(pool->api);
	for (size_t i = 0; i < n && !first; i++)
		if (strcmp(api_seen(pool->api, i)->method, "POST") == 0)
			first = api_seen(pool->api, i);
	assert_string_equal(first->body, api_last(pool->api, "POST", USAGES_PATH)->body);
	assert_int_equal(api_seen_of(pool->api, "PUT", SERVERS_PATH "/a/status"), 2);
	assert_int_equal(metric_value(pool->metrics, M_USAGE_STORES, STORE_DONE, 0), 2);
	assert_int_equal(metric_value(pool->metrics, M_USAGE_STORES, STORE_FAILED, 0), 0);
}

/* A hundred rows, of nearly a kilobyte each. */
static void put_long(const char *name)
{
	char model[900];
	struct buf b;

	memset(model, 'V', sizeof(model));
	buf_init(&b, 1 << 20);
	buf_str(&b, "{'version':1,'gpus':[],'claims':[],'usage':'closed 2020-01-01T00:00:00Z "
		    "2020-01-02T00:00:00Z 10 4 3 0\\n");
	for (int i = 100; i < 200; i++)
		buf_fmt(&b, " n%d 3 1 %.*s\\n", i, (int)sizeof(model), model);
	buf_str(&b, "'}");
	pool_api_put(pool, name, OURS, SPEC, b.data);
	buf_release(&b);
}

/* What one object has no room for goes into another one. */
TEST(an_object_is_full)
{
	char name[] = "a";

	for (; name[0] <= 'j'; name[0]++)
		put_long(name);
	cfg.enabled = false;
	expect(201, CREATED);
	expect(201, CREATED);
	run();
	assert_true(api_wait(pool->api, "POST", USAGES_PATH, 2));
	stored("\"name\":\"2020-01-01-");
	stored("\"periods\":[{\"server\":\"j\"");
	assert_null(strstr(api_last(pool->api, "POST", USAGES_PATH)->body, "},{\"server\":"));
	for (size_t i = 0; i < api_seen_count(pool->api); i++)
		if (strcmp(api_seen(pool->api, i)->method, "POST") == 0)
			assert_in_range(api_seen(pool->api, i)->body_len, 80000, 1000000);
}

/* Each object is of one day. */
TEST(days_stand_apart)
{
	pool_api_put(pool, "a", OURS, SPEC, STATUS(CLAIM, CLOSED));
	pool_api_put(pool, "b", OURS, SPEC,
		STATUS("", "closed 2020-01-05T00:00:00Z 2020-01-06T00:00:00Z 1 1 0 0\\n"));
	cfg.enabled = false;
	expect(201, CREATED);
	expect(201, CREATED);
	run();
	assert_true(api_wait(pool->api, "POST", USAGES_PATH, 2));
	stored("\"name\":\"2020-01-05-");
	assert_true(lacks("usage"));
}

/* Switched off: what was counted is stored, and nothing begins. */
TEST(ends_when_switched_off)
{
	cfg.enabled = false;
	pool_api_put(pool, "a", OURS, SPEC,
		STATUS("", "open 2120-01-01T00:00:00Z 2120-01-01T00:00:00Z 0 0 0 0\\n"));
	expect(201, CREATED);
	run();
	assert_true(api_wait(pool->api, "POST", USAGES_PATH, 1));
	assert_true(lacks("usage"));
}

TEST(what_nobody_knows_stays)
{
	pool_api_log(pool);
	pool_api_put(pool, "a", OURS, SPEC, STATUS("", "v2 of another"));
	run();
	api_nap(150);
	assert_int_equal(pool->puts, 0);
	assert_int_equal(pool_api_logged(pool, "usage cannot be read"), 1);
}

/* Whoever writes counts, whatever he writes: here the keeper of conditions, which knows nothing of
 * it. */
TEST(each_commit_counts)
{
	static struct server_keeper_config keeper; /* for as long as the duty runs */
	char at[RFC3339_SIZE], status[1000];

	keeper = (struct server_keeper_config){
		.kube = pool->kube, .servers = pool->servers, .log = &pool->log};
	rfc3339_write(clock_wall_ms() - 100000, at);
	snprintf(status, sizeof(status), STATUS(CLAIM, "open %s %s 0 0 0 0\\n"), at, at);
	pool_api_put(pool, "a", OURS, SPEC, status);
	pool_api_run(pool, server_keeper_duty(&keeper));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
	/* 50 bytes for a hundred seconds and some */
	assert_true(pool_api_shows(pool, "a", "\\n n 5", 0));
	assert_true(pool_api_shows(pool, "a", " V100\\n'", 0));
}

/* No commit counts further than a minute beyond what the API server's clock says. */
TEST(a_clock_that_is_years_ahead)
{
	static struct server_keeper_config keeper;

	keeper = (struct server_keeper_config){
		.kube = pool->kube, .servers = pool->servers, .log = &pool->log};
	pool->header = "Date: Thu, 02 Jan 2020 00:00:10 GMT\r\n";
	pool_api_put(pool, "a", OURS, SPEC, STATUS(CLAIM, OPEN));
	pool_api_run(pool, server_keeper_duty(&keeper));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
	assert_true(pool_api_shows(
		pool, "a", "'usage':'open 2020-01-02T00:00:00Z 2020-01-02T00:01:", 0));
}

/* Nor does a period begin there, where nobody would count until then. */
TEST(begins_by_the_clock_of_both)
{
	pool->header = "date:  Thu, 02 Jan 2020 00:00:10 GMT\r\n";
	pool_api_put(pool, "a", OURS, SPEC, STATUS("", ""));
	run();
	assert_true(pool_api_shows(pool, "a", "'usage':'open 2020-01-02T00:01:", 5000));
}

/* A server goes when its last period is stored, and not before. */
TEST(the_finalizer_waits)
{
	struct server_keeper_config keeper = {
		.kube = pool->kube, .servers = pool->servers, .log = &pool->log};
	struct leader_duty duty = server_keeper_duty(&keeper);
	struct err err;
	void *running;

	pool_api_put(pool, "a", OURS, SPEC, STATUS("", OPEN));
	expect(500, "{}");
	run();
	pool_api_delete(pool, "a");
	assert_int_equal(duty.start(duty.ctx, &running, &err), 0);
	assert_true(api_wait(pool->api, "POST", USAGES_PATH, 1));
	api_nap(300);
	assert_false(pool_api_gone(pool, "a", 0));
	/* the day that was over, and what was open */
	expect(201, CREATED);
	expect(201, CREATED);
	assert_true(pool_api_gone(pool, "a", 10000));
	stored("\"usage\":\"closed 20");
	duty.stop(running);
}

TESTS_BETWEEN(set_up, tear_down, begins_where_claims_are_taken, off_as_shipped, stores_a_day,
	keeps_what_it_cannot_store, what_was_written_between_is_stored_again,
	what_is_there_is_stored, what_cannot_be_stored_is_told, an_object_is_full, days_stand_apart,
	ends_when_switched_off, what_nobody_knows_stays, each_commit_counts,
	a_clock_that_is_years_ahead, begins_by_the_clock_of_both, the_finalizer_waits)

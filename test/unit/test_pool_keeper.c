/* SPDX-License-Identifier: Apache-2.0 */
/* test: the keeper of the GPUPool: made where it is missing, written when a number changes, left
 * alone where it cannot be. */
#include "test/unit/ledger_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/reconcile/pool_keeper.h"

#define STATUS POOLS_PATH "/" POOL_NAME "/status"
#define GONE                                                                                       \
	"{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"NotFound\",\"message\":\"no\","  \
	"\"code\":404}"

static struct ledger_fixture fix;
static struct pool_keeper_config cfg;
static struct leader_duty duty;
static void *running;

FIXTURE(set_up)
{
	ledger_fixture_init(&fix);
	kube_store_server(fix.store, "a", 2, 16000, "");
	ledger_fixture_begin(&fix);
	cfg = (struct pool_keeper_config){.kube = fix.r.kube,
		.servers = fix.r.servers,
		.ledger = fix.r.ledger,
		.log = &fix.r.log,
		.pause_ms = 10,
		.absent_ms = 50};
	duty = pool_keeper_duty(&cfg);
	return 0;
}

FIXTURE(tear_down)
{
	duty.stop(running);
	if (fix.r.log.fd > 2)
		(void)close(fix.r.log.fd);
	ledger_fixture_release(&fix);
	return 0;
}

static void run(void)
{
	struct err err;

	assert_int_equal(duty.start(duty.ctx, &running, &err), 0);
}

static void expect_patches(int n)
{
	while (n-- > 0)
		api_expect(fix.api, "PATCH", STATUS, 200, "{}");
}

/* The patch says so. */
static void says(const char *text)
{
	const struct api_request *last = api_last(fix.api, "PATCH", STATUS);

	assert_non_null(last);
	assert_string_equal(last->content_type, "application/merge-patch+json");
	if (!strstr(last->body, text))
		fail_msg("%s is not in %s", text, last->body);
}

/* From here on the log is kept. */
static void keep_log(void)
{
	char path[] = "/tmp/test_pool_keeper_XXXXXX";

	fix.r.log.fd = mkstemp(path);
	fix.r.log.level = LOG_LEVEL_INFO;
	assert_true(fix.r.log.fd > 2);
	(void)unlink(path);
}

static size_t logged(const char *text)
{
	char log[8192] = "";
	size_t n = 0;

	assert_true(pread(fix.r.log.fd, log, sizeof(log) - 1, 0) >= 0);
	for (const char *at = log; (at = strstr(at, text)); at++)
		n++;
	return n;
}

/* Each once, and nothing of the other. */
static void told(size_t missing, size_t failed)
{
	assert_int_equal(logged("is not installed"), missing);
	assert_int_equal(logged("cannot be written"), failed);
}

TEST(makes_it)
{
	keep_log();
	api_expect(fix.api, "PATCH", STATUS, 404, GONE);
	api_expect(fix.api, "POST", POOLS_PATH, 201, "{}");
	expect_patches(1);
	run();
	assert_true(api_wait(fix.api, "PATCH", STATUS, 2));
	says("{\"status\":{\"servers\":1,\"ready\":1,\"gpus\":2,\"fit\":2,\"idle\":2,"
	     "\"memory\":32000,\"free\":32000,");
	says("\"since\":\"20");
	assert_string_equal(api_last(fix.api, "POST", POOLS_PATH)->body,
		"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUPool\",\"metadata\":{"
		"\"name\":\"pool\"}}");
	told(0, 0);
}

/* Another replica that believes to lead made it meanwhile. */
TEST(somebody_else_makes_it)
{
	api_expect(fix.api, "PATCH", STATUS, 404, GONE);
	api_expect(fix.api, "POST", POOLS_PATH, 409, "{}");
	expect_patches(1);
	keep_log();
	run();
	assert_true(api_wait(fix.api, "PATCH", STATUS, 2));
	told(0, 0);
}

/* Whoever could not make it does not write it, and begins anew. */
TEST(it_cannot_be_made)
{
	api_expect(fix.api, "PATCH", STATUS, 404, GONE);
	api_expect(fix.api, "POST", POOLS_PATH, 500, "{}");
	api_expect(fix.api, "PATCH", STATUS, 404, GONE);
	api_expect(fix.api, "POST", POOLS_PATH, 201, "{}");
	expect_patches(1);
	keep_log();
	run();
	assert_true(api_wait(fix.api, "PATCH", STATUS, 3));
	assert_int_equal(api_seen_of(fix.api, "POST", POOLS_PATH), 2);
	told(0, 1);
}

TEST(writes_on_change_alone)
{
	expect_patches(2);
	run();
	assert_true(api_wait(fix.api, "PATCH", STATUS, 1));
	duty.servers_changed(running);
	api_nap(100);
	assert_int_equal(api_seen_of(fix.api, "PATCH", STATUS), 1);
	ledger_must_take(&fix, "u1", "app c 1 50%");
	duty.servers_changed(running);
	assert_true(api_wait(fix.api, "PATCH", STATUS, 2));
	says("\"idle\":1,\"memory\":32000,\"free\":24000,\"largest\":16000,");
}

/* Whatever somebody else wrote there. */
TEST(writes_anew)
{
	expect_patches(3);
	cfg.every_ms = 20;
	run();
	assert_true(api_wait(fix.api, "PATCH", STATUS, 3));
}

static void since_when(char ret[static 21])
{
	const char *at = strstr(api_last(fix.api, "PATCH", STATUS)->body, "\"since\":\"");

	assert_non_null(at);
	(void)snprintf(ret, 21, "%s", at + strlen("\"since\":\""));
}

/* However often it is written: since the numbers are these. */
TEST(says_since_when)
{
	char first[21], now[21];

	expect_patches(50);
	cfg.every_ms = 1100;
	run();
	assert_true(api_wait(fix.api, "PATCH", STATUS, 1));
	since_when(first);
	assert_true(api_wait(fix.api, "PATCH", STATUS, 3));
	since_when(now);
	assert_string_equal(now, first);
	ledger_must_take(&fix, "u1", "app c 1 50%");
	duty.servers_changed(running);
	for (int i = 0; i < 500 && strcmp(now, first) == 0; i++, api_nap(10))
		since_when(now);
	assert_true(strcmp(now, first) > 0);
	says("\"idle\":1,");
}

/* Without the component there is neither kind nor right: asked from time to time, until there is.
 */
TEST(waits_for_its_component)
{
	int64_t began;

	api_expect(fix.api, "PATCH", STATUS, 403, "{}");
	api_expect(fix.api, "PATCH", STATUS, 404, "404 page not found");
	expect_patches(1);
	cfg.absent_ms = 400;
	keep_log();
	began = api_now_ms();
	run();
	assert_true(api_wait(fix.api, "PATCH", STATUS, 3));
	assert_true(api_now_ms() - began >= 790);
	assert_int_equal(api_seen_of(fix.api, "POST", "*"), 0);
	told(1, 0);
}

/* What fails once is tried again. */
TEST(tries_again)
{
	api_expect(fix.api, "PATCH", STATUS, 500, "{}");
	api_expect(fix.api, "PATCH", STATUS, 500, "{}");
	expect_patches(1);
	keep_log();
	run();
	assert_true(api_wait(fix.api, "PATCH", STATUS, 3));
	told(0, 1);
}

TESTS_BETWEEN(set_up, tear_down, makes_it, somebody_else_makes_it, it_cannot_be_made,
	writes_on_change_alone, writes_anew, says_since_when, waits_for_its_component, tries_again)

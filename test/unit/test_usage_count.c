/* SPDX-License-Identifier: Apache-2.0 */
/* test: /usage-metrics as who scrapes it sees it: whom the API server knows, who may, what is
 * counted. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "kube/kube_review.h"
#include "test/unit/http_fixture.h"
#include "test/unit/pool_api.h"
#include "test/unit/test.h"
#include "webhook/cluster/usage_count.h"

#define SPEC "{'address':'10.0.0.1:56001','gpus':[{'model':'V100','memory':'16G'}]}"
#define STATUS(sums)                                                                               \
	"{'version':1,'gpus':[],'claims':[],'usage':'open 2120-01-02T00:00:00Z "                   \
	"2120-01-02T00:00:00Z " sums "'}"
#define USER "{\"username\":\"u\",\"groups\":[\"g\"]}"
#define WHOSE(yes)                                                                                 \
	"{\"kind\":\"TokenReview\",\"status\":{\"authenticated\":" yes ",\"user\":" USER "}}"
#define MAY(yes) "{\"kind\":\"SubjectAccessReview\",\"status\":{\"allowed\":" yes "}}"
#define DENIED                                                                                     \
	"{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Forbidden\",\"message\":\"no\"," \
	"\"code\":403}"
#define VALUE(n) "total{namespace=\"n\",policy=\"-\",model=\"V100\"} " n "\n"

static struct pool_api *pool;
static struct usage_count *count;
static struct fixture http;
static char seen[65536]; /* the last answer */

static int begin(void *ctx, void **ret, struct err *err)
{
	*ret = ctx;
	return usage_count_start(count, err);
}

static void end(void *running)
{
	(void)running;
}

FIXTURE(set_up)
{
	struct usage_count_config cfg = {.every_ms = 20};
	struct http_config listen = {.listen = "127.0.0.1:0", .workers = 2};
	struct http_app app = {
		.routes = usage_routes, .nroutes = USAGE_ROUTES, .done = usage_page_done};
	struct err err = {0};

	pool = pool_api_new();
	cfg.kube = pool->kube;
	cfg.servers = pool->servers;
	cfg.log = &pool->log;
	count = usage_count_new(&cfg, &err);
	app.ctx = usage_count_page(count);
	return http_server_start(&listen, &app, &http.server, &err);
}

FIXTURE(tear_down)
{
	(void)http_server_stop(http.server, 1000);
	usage_count_free(count);
	pool_api_free(pool);
	return 0;
}

static int get_with(const char *query, const char *authorization)
{
	char request[4096];
	int fd = client_open(&http), status;

	(void)snprintf(request, sizeof(request),
		"GET /usage-metrics%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s%s%s\r\n",
		query, authorization ? "Authorization: " : "", authorization ? authorization : "",
		authorization ? "\r\n" : "");
	client_text(fd, request);
	status = client_read(fd, seen, sizeof(seen), 5000, false);
	(void)close(fd);
	return status;
}

static int get(const char *authorization)
{
	return get_with("", authorization);
}

static void answers(int whose, const char *whose_body, int may, const char *may_body)
{
	api_expect(pool->api, "POST", TOKEN_REVIEWS_PATH, whose, whose_body);
	if (may_body)
		api_expect(pool->api, "POST", ACCESS_REVIEWS_PATH, may, may_body);
}

/* What the transport says of itself is logged. */
TEST(the_transport_speaks)
{
	char path[] = "/tmp/poolgate-usage-XXXXXX", text[512];
	struct usage_page page = {0};
	struct log log;
	ssize_t n;

	log_init(&log, mkstemp(path));
	page.log = &log;
	usage_page_transport(&page, "a handshake \"broke\"");
	n = pread(log.fd, text, sizeof(text) - 1, 0);
	(void)close(log.fd);
	(void)unlink(path);
	assert_true(n > 0);
	text[n] = '\0';
	assert_non_null(strstr(text, "warn"));
	assert_non_null(strstr(text, "transport"));
	assert_non_null(strstr(text, "a handshake \\\"broke\\\""));
}

TEST(no_token)
{
	static const char *const headers[] = {NULL, "", "Bearer", "Bearer ", "Basic dTpw",
		"Token t",
		/* what no token has is asked of nobody */
		"Bearer a,b", "Bearer a=b", "Bearer ==", "Bearer \"t\"", "Bearer t\xc3\xbc"};

	for (size_t i = 0; i < COUNT(headers); i++) {
		assert_int_equal(get(headers[i]), 401);
		assert_non_null(strstr(seen, "WWW-Authenticate: Bearer"));
	}
	assert_null(api_last(pool->api, "POST", TOKEN_REVIEWS_PATH));
}

TEST(who_may)
{
	answers(201, WHOSE("true"), 201, MAY("true"));
	assert_int_equal(get("Bearer A.z-0_~+/=="), 200);
	answers(201, WHOSE("true"), 201, MAY("true"));
	assert_int_equal(get("Bearer good"), 200);
	assert_non_null(strstr(seen, "Content-Type: text/plain; version=0.0.4"));
	assert_non_null(
		strstr(seen, "poolgate_usage_pool_byte_seconds_total{state=\"capacity\"} 0\n"));
	assert_string_equal(api_last(pool->api, "POST", TOKEN_REVIEWS_PATH)->body,
		"{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenReview\",\"spec\":"
		"{\"token\":\"good\"}}");
	assert_non_null(strstr(api_last(pool->api, "POST", ACCESS_REVIEWS_PATH)->body,
		"\"user\":\"u\",\"groups\":[\"g\"],\"nonResourceAttributes\":{\"path\":\"/"
		"usage-metrics\",\"verb\":\"get\"}"));
	/* it is known now: no script is left that would answer */
	assert_int_equal(get("bearer good"), 200);
	assert_int_equal(get("Bearer other"), 503);
}

TEST(who_may_not)
{
	answers(201, WHOSE("true"), 201, MAY("false"));
	assert_int_equal(get("Bearer curious"), 403);
	assert_int_equal(get("Bearer curious"), 403);
	assert_null(strstr(seen, "poolgate_usage_promised"));
	answers(201, WHOSE("false"), 0, NULL);
	assert_int_equal(get("Bearer bad"), 401);
	assert_non_null(strstr(seen, "WWW-Authenticate: Bearer"));
	assert_int_equal(get("Bearer bad"), 401);
	assert_int_equal(api_left(pool->api), 0);
}

/* Nobody is shown anything, and the next one is asked about. */
TEST(nobody_can_say)
{
	answers(403, DENIED, 0, NULL);
	assert_int_equal(get("Bearer good"), 503);
	answers(201, WHOSE("true"), 403, DENIED);
	assert_int_equal(get("Bearer good"), 503);
	answers(401, DENIED, 0, NULL);
	assert_int_equal(get("Bearer good"), 503);
	answers(201, MAY("true"), 0, NULL);
	assert_int_equal(get("Bearer good"), 503);
	answers(201, WHOSE("true"), 201, WHOSE("true"));
	assert_int_equal(get("Bearer good"), 503);
	answers(500, "", 0, NULL);
	assert_int_equal(get("Bearer good"), 503);
	api_down(pool->api);
	assert_int_equal(get("Bearer good"), 503);
	api_up(pool->api);
	answers(201, WHOSE("true"), 201, MAY("true"));
	assert_int_equal(get("Bearer good"), 200);
}

TEST(tries_are_limited)
{
	char header[32];

	answers(201, WHOSE("true"), 201, MAY("true"));
	assert_int_equal(get("Bearer good"), 200);
	for (unsigned i = 0; i < READERS_TRIES; i++) {
		answers(201, WHOSE("false"), 0, NULL);
		(void)snprintf(header, sizeof(header), "Bearer bad-%u", i);
		assert_int_equal(get(header), 401);
	}
	assert_int_equal(get("Bearer one-more"), 429);
	assert_int_equal(get("Bearer good"), 200);
}

static bool comes_to_know(const char *token)
{
	struct readers *r = usage_count_page(count)->readers;
	enum reader word = READER_UNKNOWN;

	for (int i = 0; i < 500 && word == READER_UNKNOWN; i++) {
		api_nap(10);
		word = readers_look(r, slice_of(token), "127.0.0.1:1", clock_ms());
	}
	return word == READER_NOBODY;
}

/* Who is in a hurry is asked about no less: his token is known, and his try counts. */
TEST(a_hurry_spares_no_question)
{
	struct api_reply late = {.delay_ms = 1500};

	api_text(&late, 201, "%s", WHOSE("false"));
	api_expect_reply(pool->api, "POST", TOKEN_REVIEWS_PATH, &late);
	(void)get_with("?timeout=1s", "Bearer bad");
	assert_true(comes_to_know("bad"));
	for (unsigned i = 1; i < READERS_TRIES; i++)
		readers_note(usage_count_page(count)->readers, SLICE("x"), "127.0.0.1:1",
			READER_AWAY, clock_ms());
	assert_int_equal(get("Bearer one-more"), 429);
}

static bool comes_to(const char *text)
{
	for (int i = 0; i < 500; i++) {
		if (get("Bearer good") == 200 && strstr(seen, text))
			return true;
		api_nap(10);
	}
	return false;
}

TEST(counts)
{
	answers(201, WHOSE("true"), 201, MAY("true"));
	pool_api_put(pool, "a", "[]", SPEC, STATUS("10 10 0 0\\n n 1 1 V100\\n"));
	pool_api_run(pool, (struct leader_duty){.start = begin, .stop = end, .ctx = pool});
	api_nap(200);
	assert_int_equal(get("Bearer good"), 200);
	assert_null(strstr(seen, "namespace=\"n\""));
	pool_api_status(pool, "a", STATUS("50 10 0 2\\n n 100000000000000000001 7 V100\\n"));
	assert_true(comes_to("byte_seconds_" VALUE("100000000000000000000")));
	assert_non_null(strstr(seen, "gpu_seconds_" VALUE("6")));
	assert_non_null(strstr(seen, "{state=\"capacity\"} 40\n"));
	assert_non_null(strstr(seen, "{state=\"over\"} 2\n"));
	assert_non_null(
		strstr(seen, "byte_seconds_total{namespace=\"*\",policy=\"*\",model=\"*\"} 0\n"));
}

TESTS_BETWEEN(set_up, tear_down, the_transport_speaks, no_token, who_may, who_may_not,
	nobody_can_say, tries_are_limited, a_hurry_spares_no_question, counts)

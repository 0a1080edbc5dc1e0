/* SPDX-License-Identifier: Apache-2.0 */
/* edge/admin/plain_routes, edge/metrics/process: health, metrics, the page, the pool's JSON, and
 * what /v1/release takes for a pod. */

#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "test/unit/http_fixture.h"
#include "test/unit/make_pair.h"
#include "test/unit/test.h"
#include "webhook/edge/admin/metrics_page.h"
#include "webhook/edge/admin/plain_routes.h"
#include "webhook/edge/pool/gpu_servers.h"
#include "webhook/edge/pool/ledger_memory.h"

static struct plain_listeners plain;
static struct log quiet;

/* Append a server of two GPUs. */
static void add_server(struct buf *b, const char *name)
{
	buf_fmt(b,
		"---\napiVersion: poolgate.io/v1alpha1\nkind: GPUServer\nmetadata: {name: %s}\n"
		"spec: {address: \"%s:1\", gpus: [{model: V100, memory: 1000M, count: 2}]}\n",
		name, name);
}

/* What was written becomes the pool; releases it. */
static void set_pool(struct buf *b)
{
	struct inventory inv;
	struct err err = {0};
	struct arena a;

	arena_init(&a, 16 << 20);
	assert_int_equal(gpu_servers_parse(buf_as_slice(b), "pool.yaml", &a, &inv, NULL, &err), 0);
	assert_int_equal(ledger_memory_set_inventory(plain.ledger, &inv, &err), 0);
	arena_release(&a);
	buf_release(b);
}

FIXTURE(setup)
{
	struct buf pool;

	log_init(&quiet, -1);
	plain_listeners_init(&plain);
	plain.identity = tls_identity_new();
	plain.ledger = ledger_memory_new(0);
	plain.metrics = metrics_new(metric_table, M_COUNT);
	plain.decisions = decisions_new();
	ledger_memory_tell(plain.ledger, plain.metrics);
	plain.version = "1.2.3";
	plain.log = &quiet;
	buf_init(&pool, 1 << 20);
	add_server(&pool, "gpu-01");
	set_pool(&pool);
	return 0;
}

FIXTURE(teardown)
{
	ledger_memory_free(plain.ledger);
	metrics_free(plain.metrics);
	decisions_free(plain.decisions);
	tls_identity_free(plain.identity);
	plain_listeners_release(&plain);
	return 0;
}

/* A claim of one whole GPU for the pod ml/name. */
static void take(const char *name)
{
	struct demand_container container = {
		.name = SLICE("c"), .kind = CONTAINER_APP, .amount = 1, .percent = 100};
	struct demand demand = {.containers = &container, .n_containers = 1};
	struct claim_ask ask = {.uid = slice_of(name),
		.namespace = SLICE("ml"),
		.name = slice_of(name),
		.demand = &demand};
	struct claim_answer answer;
	struct err err = {0};
	struct arena a;

	arena_init(&a, 1 << 20);
	if (plain.ledger->ops->take(plain.ledger, &ask, &a, &answer, &err) != 0)
		fail_msg("%s", err.msg);
	arena_release(&a);
}

/* Call a route by its path, wherever it is answered. The body has the padding of a real one. */
static struct http_reply call(const char *path, const char *body)
{
	char copy[8192] = {0};
	struct http_request req = {.path = path, .body = copy, .body_len = strlen(body)};
	struct http_reply reply = {0};
	const struct http_route *route = NULL;

	assert_true(strlen(body) + HTTP_BODY_PAD < sizeof(copy));
	memcpy(copy, body, strlen(body));
	for (size_t i = 0; i < PLAIN_ROUTES; i++)
		if (strcmp(plain_routes[i].path, path) == 0)
			route = &plain_routes[i];
	for (size_t i = 0; i < ADMIN_ROUTES; i++)
		if (strcmp(admin_routes[i].path, path) == 0)
			route = &admin_routes[i];
	assert_non_null(route);
	if (route->handle(&plain, &req, &reply) == HTTP_LATER)
		assert_int_equal(route->slow(&plain, &req, &reply), HTTP_DONE);
	return reply;
}

static void expect(const char *path, const char *body, unsigned status, const char *text)
{
	struct http_reply reply = call(path, body);

	if (reply.status != status || !reply.body || !strstr(reply.body, text))
		fail_msg("%s %s: %u \"%.*s\", expected %u \"%s\"", path, body, reply.status,
			(int)reply.body_len, reply.body ? reply.body : "", status, text);
	free(reply.body);
}

TEST(test_health)
{
	expect("/livez", "", 200, "ok");
	expect("/readyz", "", 503, "starting");
	atomic_store(&plain.draining, true);
	expect("/readyz", "", 503, "draining");
	expect("/livez", "", 200, "ok");
}

static void expect_metrics(const char *text)
{
	expect("/metrics", "", 200, text);
}

TEST(test_metrics)
{
	take("a");
	expect_metrics("# TYPE poolgate_reload_ok gauge");
	expect_metrics("poolgate_pool_gpus_usable{server=\"gpu-01\"} 2");
	expect_metrics("poolgate_pool_memory_bytes{server=\"gpu-01\"} 2000000000");
	expect_metrics("poolgate_pool_claimed_bytes{server=\"gpu-01\"} 1000000000");
	expect_metrics("poolgate_pool_pending_bytes{server=\"gpu-01\"} 1000000000");
	expect_metrics("poolgate_pool_claims{server=\"gpu-01\"} 1");
	expect_metrics("\npoolgate_pool_bytes{server=\"gpu-01\",state=\"bound\"} 0\n"
		       "poolgate_pool_bytes{server=\"gpu-01\",state=\"pending\"} 1000000000\n"
		       "poolgate_pool_bytes{server=\"gpu-01\",state=\"free\"} 1000000000\n"
		       "poolgate_pool_bytes{server=\"gpu-01\",state=\"drained\"} 0\n"
		       "poolgate_pool_bytes{server=\"gpu-01\",state=\"stale\"} 0\n");
	expect_metrics(
		"\npoolgate_claims{state=\"pending\"} 1\npoolgate_claims{state=\"bound\"} 0\n");
	expect_metrics("\npoolgate_build_info{version=\"1.2.3\",compiler=\"");
	expect_metrics("\nprocess_resident_memory_bytes ");
	expect_metrics("\nprocess_start_time_seconds 1");
	expect_metrics("\npoolgate_claims_ended_total{why=\"released\"} 0\n");
	expect("/v1/release", "{\"uid\":\"a\"}", 200, "1");
	expect_metrics("\npoolgate_claims_ended_total{why=\"released\"} 1\n");
	expect_metrics("\npoolgate_claims{state=\"pending\"} 0\n");
}

/* What the transport counts, and only where there is one. */
TEST(test_transport)
{
	static const struct http_stats st = {.connections = 11,
		.in_flight = 12,
		.deferred = 13,
		.accepted = 14,
		.replies = {20, 21, 22, 23, 24, 25},
		.timed_out = 15,
		.displaced = 16,
		.deadlines = 17};
	static const char *const lines[] = {"connections 11\n", "in_flight 12\n", "deferred 13\n",
		"accepted_total 14\n", "replies_total{class=\"2xx\"} 22\n",
		"replies_total{class=\"3xx\"} 23\n", "replies_total{class=\"4xx\"} 24\n",
		"replies_total{class=\"5xx\"} 25\n", "timed_out_total 15\n", "displaced_total 16\n",
		"deadlines_total 17\n"};
	char line[64];

	for (int there = 0; there < 2; there++) {
		struct buf out;

		buf_init(&out, 1 << 20);
		metrics_page(plain.metrics, there ? &st : NULL, plain.ledger, "1", &out);
		for (size_t i = 0; i < COUNT(lines); i++) {
			(void)snprintf(line, sizeof(line), "\npoolgate_http_%s", lines[i]);
			if ((strstr(out.data, line) != NULL) != there)
				fail_msg("%d %s", there, line);
		}
		assert_null(strstr(out.data, "class=\"1xx\""));
		assert_true((strstr(out.data, "poolgate_http_") != NULL) == there);
		buf_release(&out);
	}
}

/* Those of the server that is there, from when it is shown. */
TEST(test_a_server_that_is_shown)
{
	struct fixture f;
	int fd;

	fixture_start(&f, (struct http_config){.workers = 1});
	fd = client_open(&f);
	client_text(fd, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n");
	client_gets(fd, 200);
	plain_listeners_show(&plain, f.server);
	expect_metrics("\npoolgate_http_connections 1\n");
	expect_metrics("\npoolgate_http_accepted_total 1\n");
	expect_metrics("\npoolgate_http_replies_total{class=\"2xx\"} 1\n");
	expect_metrics("\npoolgate_http_displaced_total 0\n");
	plain_listeners_show(&plain, NULL);
	(void)close(fd);
	assert_true(fixture_stop(&f, 3000));
}

static double process_number(const char *name)
{
	struct http_reply reply = call("/metrics", "");
	const char *at = strstr(reply.body, name);
	double value;

	assert_non_null(at);
	value = strtod(at + strlen(name), NULL);
	free(reply.body);
	return value;
}

/* What this process says of itself is what the system says of it. */
TEST(test_process)
{
	struct timespec cpu, now;
	struct rlimit limit;
	double began, fds, size = 0, resident = 0, page = (double)sysconf(_SC_PAGESIZE);
	int more[3];
	FILE *f;

	/* The emulator fills /proc/self/stat with zeros. */
	if (getenv("POOLGATE_UNDER_QEMU"))
		return;
	began = process_number("\nprocess_start_time_seconds ");
	assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
	/* The system's counter of starts has hundredths of a second. */
	assert_true(began <= (double)now.tv_sec + 1 && began > (double)now.tv_sec - 600);
	assert_true(began == process_number("\nprocess_start_time_seconds "));
	/* Time of both kinds: of the program and of its calls. */
	do
		assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu), 0);
	while (cpu.tv_sec == 0 && cpu.tv_nsec < 100000000);
	assert_float_equal(process_number("\nprocess_cpu_seconds_total "),
		(double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9, 0.05);
	assert_true(process_number("\nprocess_threads ") == 1);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_true(process_number("\nprocess_max_fds ") == (double)limit.rlim_cur);
	fds = process_number("\nprocess_open_fds ");
	for (size_t i = 0; i < COUNT(more); i++)
		more[i] = dup(0);
	assert_true(process_number("\nprocess_open_fds ") == fds + COUNT(more));
	for (size_t i = 0; i < COUNT(more); i++)
		(void)close(more[i]);
	f = fopen("/proc/self/statm", "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lf %lf", &size, &resident), 2);
	(void)fclose(f);
	/* A page or a stack may have come in between. */
	assert_float_equal(
		process_number("\nprocess_resident_memory_bytes "), resident * page, 8e6);
	assert_true(process_number("\nprocess_resident_memory_bytes ") > 1e6);
	assert_float_equal(process_number("\nprocess_virtual_memory_bytes "), size * page, 8e6);
	assert_true(process_number("\nprocess_virtual_memory_bytes ") >
		    process_number("\nprocess_resident_memory_bytes "));
}

/* So many servers and no more have series of their own; what is summed up is not lost. */
TEST(test_metrics_bounded)
{
	struct http_reply reply;
	struct buf b;
	size_t lines = 0;

	buf_init(&b, 1 << 20);
	for (int i = 0; i < METRIC_SERVERS_MAX + 7; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "gpu-%04d", i);
		add_server(&b, name);
	}
	set_pool(&b);
	reply = call("/metrics", "");
	for (const char *at = reply.body; (at = strstr(at, "poolgate_pool_memory_bytes{")); at++)
		lines++;
	assert_int_equal(lines, METRIC_SERVERS_MAX + 1);
	assert_non_null(strstr(
		reply.body, "poolgate_pool_memory_bytes{server=\"(others)\"} 14000000000\n"));
	assert_non_null(strstr(reply.body, "poolgate_pool_gpus_usable{server=\"(others)\"} 14\n"));
	free(reply.body);
}

/* The page is what lies in the tree, under a policy that lets its own style and script in and
 * nothing else; what it draws is said by the two others. */
TEST(test_page)
{
	static const struct http_header headers[] = {{"X-Content-Type-Options", "nosniff"},
		{"Referrer-Policy", "no-referrer"}, {"Cache-Control", "no-store"}};
	struct http_reply reply;

	take("held-by-me");
	decisions_add(plain.decisions, &(struct decision_note){.result = RESULT_REFUSED,
					       .name = SLICE("refused-me"),
					       .reason = "NoCapacity"});
	reply = call("/", "");
	assert_int_equal(reply.status, 200);
	assert_string_equal(reply.content_type, "text/html; charset=utf-8");
	assert_string_equal(reply.header[0].name, "Content-Security-Policy");
	assert_non_null(strstr(reply.header[0].value, "default-src 'none'; style-src 'sha256-"));
	for (size_t i = 0; i < COUNT(headers); i++) {
		assert_string_equal(reply.header[i + 1].name, headers[i].name);
		assert_string_equal(reply.header[i + 1].value, headers[i].value);
	}
	assert_null(strstr(reply.body, "held-by-me"));
	assert_non_null(strstr(reply.body, "<noscript>"));
	free(reply.body);
	expect("/v1/pool", "", 200, "\"name\":\"held-by-me\"");
	expect("/v1/decisions", "", 200, "{\"version\":\"1.2.3\",\"leads\":false,");
	expect("/v1/decisions", "", 200, "\"name\":\"refused-me\",\"result\":\"refused\",");
	expect("/v1/decisions", "", 200, "\"reason\":\"NoCapacity\"");
}

/* ---- by a connection ---- */

static struct fixture admin;

/* What a server of these routes answers. */
static void asks(const char *target, const char *host, int status, const char *text)
{
	char head[256];
	int fd = client_open(&admin);

	(void)snprintf(head, sizeof(head), "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, host);
	client_text(fd, head);
	client_gets(fd, status);
	if (!strstr(client_reply, text))
		fail_msg("%s of %s: expected %s: %s", target, host, text, client_reply);
	(void)close(fd);
}

static void serve_admin(void)
{
	static const struct http_config cfg = {.listen = "127.0.0.1:0", .workers = 1};
	struct http_app app = {.routes = admin_routes, .nroutes = ADMIN_ROUTES, .ctx = &plain};
	struct err err = {0};

	if (http_server_start(&cfg, &app, &admin.server, &err) != 0)
		fail_msg("%s", err.msg);
}

/* A page that calls itself by a name of its own is refused, wherever it asks. */
TEST(test_other_names)
{
	static const char *const paths[] = {"/", "/v1/pool", "/v1/decisions"};

	serve_admin();
	for (size_t i = 0; i < COUNT(paths); i++) {
		asks(paths[i], "localhost:8081", 200, "200 OK");
		asks(paths[i], "evil.example:8081", 421,
			"\r\n\r\nthis listener is asked by an address or as localhost: "
			"http://127.0.0.1:8081/\n");
	}
	assert_true(http_server_stop(admin.server, 3000));
}

#define EACH 48
#define FIRST "\"page\":1,\"each\":48,\"total\":97}"
#define SECOND "\"page\":2,\"each\":48,\"total\":97}"
#define THIRD "\"page\":3,\"each\":48,\"total\":97}"

/* Pages are numbers from 1; what is none, or is too large for one, is the first. */
TEST(test_pages_of_the_pool)
{
	static const struct {
		const char *target, *servers, *first;
	} rows[] = {
		{"/v1/pool?servers=1", FIRST, "{\"servers\":[{\"name\":\"gpu-00\""},
		{"/v1/pool?servers=2", SECOND, "{\"servers\":[{\"name\":\"gpu-48\""},
		{"/v1/pool?claims=1&servers=3", THIRD, "{\"servers\":[{\"name\":\"gpu-96\""},
		{"/v1/pool?claims=2", FIRST, "{\"servers\":[{\"name\":\"gpu-00\""},
		{"/v1/pool?servers=0", FIRST, "{\"servers\":[{\"name\":\"gpu-00\""},
		{"/v1/pool?servers=x", FIRST, "{\"servers\":[{\"name\":\"gpu-00\""},
		{"/v1/pool?servers=-2", FIRST, "{\"servers\":[{\"name\":\"gpu-00\""},
		{"/v1/pool?servers=65538", FIRST, "{\"servers\":[{\"name\":\"gpu-00\""},
	};
	struct buf b;

	buf_init(&b, 1 << 20);
	for (int i = 0; i < 2 * EACH + 1; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "gpu-%02d", i);
		add_server(&b, name);
	}
	set_pool(&b);
	serve_admin();
	for (size_t i = 0; i < COUNT(rows); i++) {
		asks(rows[i].target, "127.0.0.1", 200, rows[i].servers);
		asks(rows[i].target, "127.0.0.1", 200, rows[i].first);
	}
	asks("/v1/pool", "127.0.0.1", 200, "\"name\":\"gpu-96\"");
	assert_true(http_server_stop(admin.server, 3000));
}

static int no_view(
	struct ledger *l, bool all, struct arena *a, struct pool_view *ret, struct err *err)
{
	(void)l, (void)all, (void)a, (void)ret;
	return err_set(err, ERR_NOMEM, "no room for \"a view\"");
}

/* A picture that cannot be made is an error, in its words. */
TEST(test_no_picture)
{
	const struct ledger_ops *was = plain.ledger->ops;
	struct ledger_ops none = *was;

	none.view = no_view;
	plain.ledger->ops = &none;
	expect("/v1/pool", "", 500, "no room for \"a view\"\n");
	plain.ledger->ops = was;
	expect("/v1/pool", "", 200, "{\"servers\":");
}

static const char *troubled(void *ctx)
{
	return ctx;
}

/* What this replica says of itself. */
TEST(test_replica)
{
	static struct made_pair pair;
	char word[] = "no \"API\"", before[CLOCK_TEXT_SIZE], after[CLOCK_TEXT_SIZE];
	struct http_reply reply;
	const char *now;

	expect("/v1/decisions", "", 200,
		"\"leads\":false,\"certificateUntil\":\"\",\"trouble\":\"\",\"decisions\":");
	make_pair(&pair, MADE_P256, -60, 3600, 1);
	made_load(&pair, plain.identity);
	metric_set(plain.metrics, M_LEADER, 0, 0, 1);
	plain.unready = troubled;
	plain.unready_ctx = word;
	expect("/v1/decisions", "", 200, "\"leads\":true,\"certificateUntil\":\"20");
	expect("/v1/decisions", "", 200, "Z\",\"trouble\":\"no \\\"API\\\"\",\"decisions\":");
	(void)clock_text(clock_wall_s(), before);
	reply = call("/v1/decisions", "");
	now = strstr(reply.body, "],\"now\":\"");
	assert_non_null(now);
	now += strlen("],\"now\":\"");
	assert_true(strncmp(before, now, strlen(before)) <= 0);
	assert_true(strncmp(now, clock_text(clock_wall_s(), after), strlen(before)) <= 0);
	free(reply.body);
	/* Nobody asks for reviews here, whatever the pair is. */
	expect("/readyz", "", 503, "starting");
}

/* Ready is who serves reviews with a pair and has no trouble. */
TEST(test_ready)
{
	static struct made_pair pair;
	char word[] = "no API";
	struct fixture f;

	fixture_start(&f, (struct http_config){.workers = 1});
	plain_listeners_show(&plain, f.server);
	expect("/readyz", "", 503, "starting");
	make_pair(&pair, MADE_P256, -60, 3600, 1);
	made_load(&pair, plain.identity);
	expect("/readyz", "", 200, "ok");
	plain.unready = troubled;
	expect("/readyz", "", 200, "ok");
	plain.unready_ctx = word;
	expect("/readyz", "", 503, "no API");
	plain_listeners_show(&plain, NULL);
	expect("/readyz", "", 503, "starting");
	assert_true(fixture_stop(&f, 3000));
}

TEST(test_release)
{
	take("a");
	take("b");
	expect("/v1/pool", "", 200, "\"name\":\"a\"");
	expect("/v1/release", "{\"namespace\":\"ml\",\"name\":\"a\"}", 200, "{\"released\":1}");
	expect("/v1/release", "{\"namespace\":\"ml\",\"name\":\"a\"}", 404, "ml/a");
	expect("/v1/release", " {\"uid\": \"b\"} ", 200, "{\"released\":1}");
	expect("/v1/release", "{\"uid\":\"b\"}", 404, "b");
	expect("/v1/pool", "", 200, "\"claims\":[]");
}

TEST(test_release_wrong)
{
	static const char *const bodies[] = {"", "{", "[]", "{}", "null", "\"a\"", "{\"uid\":\"\"}",
		"{\"uid\":1}", "{\"name\":\"a\"}", "{\"namespace\":\"ml\"}",
		"{\"namespace\":\"\",\"name\":\"a\"}", "{\"namespace\":\"ml\",\"name\":null}",
		"{\"uid\":\"a\",\"name\":\"a\"}", "{\"namespace\":\"ml\",\"name\":\"a\",\"x\":1}",
		"{\"uid\":\"a\",\"uid\":\"a\"}", "{\"uid\":\"a\"}x"};
	char large[6000];

	take("a");
	for (size_t i = 0; i < COUNT(bodies); i++)
		expect("/v1/release", bodies[i], 400, "");
	memset(large, ' ', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	expect("/v1/release", large, 400, "expected {\"namespace\"");
	/* A body may have 4096 bytes. */
	memcpy(large, "{\"uid\":\"b\"}", 11);
	large[4097] = '\0';
	expect("/v1/release", large, 400, "expected {\"namespace\"");
	large[4096] = '\0';
	expect("/v1/release", large, 404, "b");
	expect("/v1/pool", "", 200, "\"name\":\"a\"");
}

TESTS_BETWEEN(setup, teardown, test_health, test_metrics, test_transport,
	test_a_server_that_is_shown, test_process, test_metrics_bounded, test_page,
	test_other_names, test_pages_of_the_pool, test_no_picture, test_replica, test_ready,
	test_release, test_release_wrong)

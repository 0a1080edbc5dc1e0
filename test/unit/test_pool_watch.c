/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin/pool_watch, kube/object_watch, kube/api_ask: the pool's watch in one thread, over a
 * scripted API server that breaks off in every way. */
#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include "deviceplugin/pool_watch.h"
#include "test/unit/api_fixture.h"
#include "test/unit/test.h"

#define BASE "/apis/poolgate.io/v1alpha1/gpuservers?includeObject=None"
#define LIST BASE "&limit=500"
#define WATCH BASE "&watch=true&allowWatchBookmarks=true&timeoutSeconds=*"
#define COLUMNS "\"columnDefinitions\":[{\"name\":\"Name\"},{\"name\":\"Fit\"}],"
#define ROW(name, fit) "{\"cells\":[\"" name "\"," fit "]}"
#define TABLE(meta, columns, rows)                                                                 \
	"{\"kind\":\"Table\",\"metadata\":{" meta "}," columns "\"rows\":[" rows "]}"
#define VERSION(v) "\"resourceVersion\":\"" v "\""
#define PAGE(v, rows) TABLE(VERSION(v), COLUMNS, rows)
#define EVENT(type, v, row)                                                                        \
	"{\"type\":\"" type                                                                        \
	"\",\"object\":" TABLE(VERSION(v), "\"columnDefinitions\":null,", row) "}\n"
#define FIRST EVENT("BOOKMARK", "11", ROW("", "null"))
#define GONE                                                                                       \
	"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"," \
	"\"message\":\"too old resource version\"}}\n"

struct fixture {
	struct api *api;
	struct kube_config config;
	struct pool_watch *w;
	struct log log;
	char log_path[40];
	struct err e;
};

static void begin(struct fixture *f, int64_t away_ms)
{
	memset(f, 0, sizeof(*f));
	(void)snprintf(f->log_path, sizeof(f->log_path), "/tmp/poolgate-test-XXXXXX");
	log_init(&f->log, mkstemp(f->log_path));
	f->api = api_start(NULL, NULL);
	api_config(f->api, &f->config);
	if (pool_watch_new(&f->config, away_ms, &f->log, &f->w, &f->e) != 0)
		fail_msg("%s", f->e.msg);
}

static void end(struct fixture *f)
{
	pool_watch_free(f->w);
	api_stop(f->api);
	(void)close(f->log.fd);
	(void)unlink(f->log_path);
}

static int logged(struct fixture *f, const char *word)
{
	static char text[65536];
	ssize_t len = pread(f->log.fd, text, sizeof(text) - 1, 0);
	int n = 0;

	text[len > 0 ? len : 0] = '\0';
	for (const char *at = text; (at = strstr(at, word)); at++)
		n++;
	return n;
}

/* As the program's loop does it. */
static void turn(struct fixture *f)
{
	struct pollfd p;
	int64_t ms = pool_watch_poll(f->w, &p);

	(void)poll(&p, 1, ms < 0 || ms > 20 ? 20 : (int)ms);
	pool_watch_turn(f->w);
}

/* Turn until it is so. */
#define UNTIL(f, condition)                                                                        \
	do {                                                                                       \
		int64_t limit_ = api_now_ms() + 15000;                                             \
		while (!(condition)) {                                                             \
			if (api_now_ms() > limit_)                                                 \
				fail_msg("never: %s", #condition);                                 \
			turn(f);                                                                   \
		}                                                                                  \
	} while (0)

static struct pool_now now(struct fixture *f)
{
	return pool_watch_now(f->w);
}

static void expect_stream(struct fixture *f, const char *first)
{
	struct api_reply r = {.stream = true, .body = strdup(first)};

	api_expect_reply(f->api, "GET", WATCH, &r);
}

/* Listed, two servers with three GPUs, and watching. */
static void watching(struct fixture *f)
{
	api_expect(f->api, "GET", LIST, 200, PAGE("10", ROW("a", "1") "," ROW("b", "2")));
	expect_stream(f, FIRST);
	assert_false(now(f).known);
	UNTIL(f, now(f).known && api_streams(f->api, WATCH) == 1);
	assert_int_equal(now(f).units, 300);
	assert_int_equal(now(f).servers, 2);
	assert_true(now(f).connected);
}

static struct fixture fix;

FIXTURE(set_up)
{
	begin(&fix, 60000);
	return 0;
}

FIXTURE(tear_down)
{
	end(&fix);
	return 0;
}

TEST(test_list_then_events)
{
	watching(&fix);
	assert_non_null(strstr(api_last(fix.api, "GET", WATCH)->path, "&resourceVersion=10"));
	api_push(fix.api, WATCH, EVENT("MODIFIED", "12", ROW("a", "4")));
	UNTIL(&fix, now(&fix).units == 600);
	api_push(fix.api, WATCH, EVENT("ADDED", "13", ROW("c", "null")));
	UNTIL(&fix, now(&fix).servers == 3);
	/* In pieces, and several at a time. */
	api_push(fix.api, WATCH,
		"{\"type\":\"DELETED\",\"object\":{\"kind\":\"Table\",\"metadata\":{" VERSION(
			"14"));
	api_push(fix.api, WATCH,
		"},\"rows\":[" ROW("a", "4") "]}}\n" EVENT("MODIFIED", "15", ROW("c", "7"))
			EVENT("DELETED", "16", ROW("b", "2")));
	UNTIL(&fix, now(&fix).units == 700);
	assert_int_equal(now(&fix).servers, 1);
	/* It ends, as watches do: on from where it was, on the same connection, and nobody hears of
	 * it. */
	api_nap(1100);
	expect_stream(&fix, "");
	api_end(fix.api, WATCH);
	UNTIL(&fix, api_seen_of(fix.api, "GET", WATCH) == 2);
	assert_non_null(strstr(api_last(fix.api, "GET", WATCH)->path, "&resourceVersion=16"));
	assert_int_equal(now(&fix).breaks, 0);
	assert_int_equal(logged(&fix, "watched"), 1);
}

/* The CRD was changed: columns come with the watch's first event alone, which is a bookmark. */
TEST(test_columns_in_a_bookmark)
{
	watching(&fix);
	api_nap(1100);
	expect_stream(
		&fix, "{\"type\":\"BOOKMARK\",\"object\":" TABLE(VERSION("12"),
			      "\"columnDefinitions\":[{\"name\":\"Fit\"},{\"name\":\"Name\"}],",
			      "{\"cells\":[null,\"\"]}") "}\n");
	api_end(fix.api, WATCH);
	UNTIL(&fix, api_streams(fix.api, WATCH) == 1 && api_seen_of(fix.api, "GET", WATCH) == 2);
	api_push(fix.api, WATCH, EVENT("MODIFIED", "13", "{\"cells\":[5,\"a\"]}"));
	UNTIL(&fix, now(&fix).units == 700);
	assert_int_equal(now(&fix).servers, 2);
	assert_int_equal(now(&fix).breaks, 0);
}

TEST(test_pages)
{
	api_expect(fix.api, "GET", LIST, 200,
		TABLE(VERSION("10") ",\"continue\":\"a/b=\"", COLUMNS, ROW("a", "1")));
	api_expect(fix.api, "GET", LIST "&continue=a%2Fb%3D", 200, PAGE("10", ROW("b", "2")));
	expect_stream(&fix, FIRST);
	UNTIL(&fix, now(&fix).known);
	assert_int_equal(now(&fix).units, 300);
	end(&fix);
	/* Too old between two pages: from the beginning. */
	begin(&fix, 60000);
	api_expect(fix.api, "GET", LIST, 200,
		TABLE(VERSION("10") ",\"continue\":\"x\"", COLUMNS, ROW("a", "1")));
	api_expect(fix.api, "GET", LIST "&continue=x", 410,
		"{\"kind\":\"Status\",\"message\":\"old\"}");
	api_expect(fix.api, "GET", LIST, 200, PAGE("20", ROW("b", "2")));
	expect_stream(&fix, FIRST);
	UNTIL(&fix, now(&fix).known);
	assert_int_equal(now(&fix).units, 200);
}

/* Who takes no notice of the limit sends everything at once. */
TEST(test_page_that_is_too_long)
{
	size_t size = 5u << 20;
	char *body = calloc(size + 1, 1);
	struct fixture f;
	int n;

	assert_non_null(body);
	n = snprintf(body, size, "{\"items\":[\"");
	memset(body + n, 'x', size - (size_t)n);
	begin(&f, 60000);
	api_expect(f.api, "GET", LIST, 200, body);
	api_expect(f.api, "GET", LIST, 200, PAGE("10", ROW("a", "1")));
	UNTIL(&f,
		logged(&f, "a page of the list is over 4 MiB; 500 GPUServers as a table are") == 1);
	assert_int_equal(logged(&f, BASE), 0);
	assert_int_equal(logged(&f, "/apis/poolgate.io/v1alpha1/gpuservers: a page"), 1);
	assert_int_equal(logged(&f, "let the plugin ask the API server itself"), 1);
	UNTIL(&f, now(&f).known);
	end(&f);
	begin(&f, 60000);
	api_expect(f.api, "GET", LIST, 500, body);
	UNTIL(&f, logged(&f, "was answered with status 500 and more than 4 MiB") == 1);
	end(&f);
	free(body);
}

TEST(test_breaks)
{
	watching(&fix);
	expect_stream(&fix, EVENT("MODIFIED", "30", ROW("a", "2")));
	api_cut(fix.api, WATCH);
	UNTIL(&fix, now(&fix).breaks == 1);
	assert_true(now(&fix).known);
	assert_false(now(&fix).connected);
	UNTIL(&fix, now(&fix).connected);
	assert_int_equal(now(&fix).units, 400);
	assert_non_null(strstr(api_last(fix.api, "GET", WATCH)->path, "&resourceVersion=11"));
	assert_int_equal(logged(&fix, "the pool is not watched"), 1);
	assert_int_equal(logged(&fix, "the pool is watched"), 2);
	/* Too old, told in the stream: a new list, without a word. */
	api_expect(fix.api, "GET", LIST, 200, PAGE("50", ROW("c", "9")));
	expect_stream(&fix, FIRST);
	api_push(fix.api, WATCH, GONE);
	UNTIL(&fix, now(&fix).units == 900 && now(&fix).servers == 1);
	assert_int_equal(now(&fix).breaks, 1);
}

TEST(test_quiet_stream_is_a_good_one)
{
	watching(&fix);
	expect_stream(&fix, "");
	api_cut(fix.api, WATCH);
	UNTIL(&fix, now(&fix).breaks == 1);
	UNTIL(&fix, now(&fix).connected);
}

TEST(test_away)
{
	int64_t began;

	end(&fix);
	begin(&fix, 1000);
	watching(&fix);
	api_down(fix.api);
	UNTIL(&fix, now(&fix).breaks == 1);
	began = api_now_ms();
	assert_true(now(&fix).known);
	UNTIL(&fix, !now(&fix).known);
	assert_in_range(api_now_ms() - began, 800, 5000);
	assert_int_equal(now(&fix).units, 300);
	expect_stream(&fix, FIRST);
	api_up(fix.api);
	UNTIL(&fix, now(&fix).known);
	assert_int_equal(now(&fix).units, 300);
	assert_int_equal(logged(&fix, "the pool is not watched"), 1);
}

TEST(test_never_there)
{
	api_down(fix.api);
	for (int64_t until = api_now_ms() + 1000; api_now_ms() < until;)
		turn(&fix);
	assert_false(now(&fix).known);
	assert_int_equal(logged(&fix, "refused"), 1);
	api_up(fix.api);
	watching(&fix);
}

TEST(test_refusals)
{
	for (int i = 0; i < 2; i++)
		api_expect(fix.api, "GET", LIST, 403,
			"{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"gpuservers is "
			"forbidden\"}");
	watching(&fix);
	assert_int_equal(logged(&fix, "gpuservers is forbidden"), 1);
	/* A watch that is refused for who we are goes on where it was; for another reason the list
	 * is made anew. */
	api_expect(fix.api, "GET", WATCH, 401, "Unauthorized");
	expect_stream(&fix, EVENT("MODIFIED", "40", ROW("a", "5")));
	api_cut(fix.api, WATCH);
	UNTIL(&fix, now(&fix).units == 700);
	assert_int_equal(api_seen_of(fix.api, "GET", LIST), 3);
	api_expect(fix.api, "GET", WATCH, 410, "{\"kind\":\"Status\",\"message\":\"too old\"}");
	api_expect(fix.api, "GET", LIST, 200, PAGE("90", ROW("q", "1")));
	expect_stream(&fix, FIRST);
	api_cut(fix.api, WATCH);
	UNTIL(&fix, now(&fix).units == 100);
}

/* Whatever is sent in the list's place: it is no list, and the next one counts. */
TEST(test_bad_lists)
{
	static const char *const bad[] = {"", "{", "[]", "{\"kind\":\"Table\"}",
		"{\"kind\":\"GPUServerList\",\"metadata\":{" VERSION("1") "},\"items\":[]}",
		TABLE("", COLUMNS, ""), TABLE(VERSION("1"), "", ROW("a", "1")),
		TABLE(VERSION("12345678901234567890123456789012345"), COLUMNS, "")};
	struct fixture f;

	for (size_t i = 0; i < COUNT(bad); i++) {
		begin(&f, 60000);
		api_expect(f.api, "GET", LIST, 200, bad[i]);
		watching(&f);
		assert_int_equal(logged(&f, "the pool is not watched"), 1);
		end(&f);
	}
}

TEST(test_bad_events)
{
	static const char *const bad[] = {"no JSON\n", "{\"type\":\"NEW\",\"object\":{}}\n",
		"{\"type\":\"ADDED\",\"object\":{\"metadata\":{}}}\n",
		"{\"type\":\"ADDED\",\"object\":{\"kind\":\"GPUServer\",\"metadata\":{" VERSION(
			"1") "}}}\n",
		EVENT("ADDED", "1", "{\"cells\":[]}")};
	struct fixture f;

	for (size_t i = 0; i < COUNT(bad); i++) {
		begin(&f, 60000);
		watching(&f);
		/* One of these may or may not be listed anew. */
		api_expect(f.api, "GET", LIST, 200, PAGE("60", ROW("z", "8")));
		expect_stream(&f, EVENT("ADDED", "70", ROW("z", "8")));
		api_push(f.api, WATCH, bad[i]);
		UNTIL(&f, now(&f).breaks == 1);
		UNTIL(&f, now(&f).connected && now(&f).units >= 800);
		end(&f);
	}
}

TEST(test_half_an_answer)
{
	struct api_reply r = {.half = true};

	r.body = strdup(PAGE("10", ROW("a", "1")));
	api_expect_reply(fix.api, "GET", LIST, &r);
	watching(&fix);
	assert_int_equal(logged(&fix, "ended within an answer"), 1);
}

#define NAME "two.addresses.test"

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __real_getaddrinfo(
	const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret);
int __wrap_getaddrinfo(
	const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret);

/* In front of libc's: NAME is 127.0.0.2 and 127.0.0.1, in this order. */
int __wrap_getaddrinfo(
	const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret)
{
	int rc;

	if (strcmp(host, NAME) != 0)
		return __real_getaddrinfo(host, port, hints, ret);
	if (hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME;
	rc = __real_getaddrinfo("127.0.0.2", port, hints, ret);
	return rc ? rc : __real_getaddrinfo("127.0.0.1", port, hints, &(*ret)->ai_next);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* Somebody who takes connections and does nothing but end. */
static int dead_listener(uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(inet_pton(AF_INET, "127.0.0.2", &a.sin_addr), 1);
	assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 8), 0);
	return fd;
}

/* What takes the place of the first address's server does not answer: the second one is tried. */
TEST(test_name_with_two_addresses)
{
	char server[128];
	int dead, fd;

	pool_watch_free(fix.w);
	(void)snprintf(
		server, sizeof(server), "http://" NAME "%s", strrchr(fix.config.server, ':'));
	fix.config.server = server;
	assert_int_equal(pool_watch_new(&fix.config, 60000, &fix.log, &fix.w, &fix.e), 0);
	dead = dead_listener((uint16_t)strtoul(strrchr(server, ':') + 1, NULL, 10));
	api_expect(fix.api, "GET", LIST, 200, PAGE("10", ROW("a", "1")));
	expect_stream(&fix, FIRST);
	turn(&fix);
	fd = accept(dead, NULL, NULL);
	(void)close(fd);
	UNTIL(&fix, now(&fix).breaks == 1);
	UNTIL(&fix, now(&fix).connected);
	assert_int_equal(now(&fix).units, 100);
	(void)close(dead);
}

TEST(test_servers_that_are_none)
{
	static const char *const bad[] = {"", "10.0.0.1:443", "ftp://a", "https://", "https://:443",
		"https://a:0", "https://a:65536", "https://a:x", "https://u@a", "https://a?b",
		"https://[::1", "https://[]:1", "https://[::1]x", "https://a b"};
	struct kube_config config = {.ca_fd = -1, .cert_fd = -1, .key_fd = -1};
	struct pool_watch *w = NULL;
	struct log log;
	struct err e;

	log_init(&log, STDERR_FILENO);
	for (size_t i = 0; i < COUNT(bad); i++) {
		config.server = bad[i];
		if (pool_watch_new(&config, 1000, &log, &w, &e) != ERR_INVALID)
			fail_msg("taken: %s", bad[i]);
	}
	config.server = "https://[::1]:6443/k8s/c-1/";
	assert_int_equal(pool_watch_new(&config, 1000, &log, &w, &e), 0);
	pool_watch_free(w);
	pool_watch_free(NULL);
}

/* As long as a name may be, and with its port as long as a header Host may be. */
TEST(test_long_servers)
{
	struct kube_config config = {.ca_fd = -1, .cert_fd = -1, .key_fd = -1};
	char server[400], zeros[100];
	struct log log;
	struct err e;

	log_init(&log, STDERR_FILENO);
	config.server = server;
	for (int n = 250; n < 320; n++) {
		struct pool_watch *w = NULL;

		(void)snprintf(server, sizeof(server), "https://%0*d/k8s", n, 0);
		assert_int_equal(
			pool_watch_new(&config, 1000, &log, &w, &e), n < 256 ? 0 : ERR_INVALID);
		pool_watch_free(w);
		w = NULL;
		/* "0…0:0…0443" */
		(void)snprintf(zeros, sizeof(zeros), "%0*d", n - 201, 443);
		(void)snprintf(server, sizeof(server), "https://%0*d:%s/k8s", 200, 0, zeros);
		assert_int_equal(
			pool_watch_new(&config, 1000, &log, &w, &e), n < 300 ? 0 : ERR_INVALID);
		pool_watch_free(w);
	}
}

TEST(test_path_and_token)
{
	char server[256];

	pool_watch_free(fix.w);
	(void)snprintf(server, sizeof(server), "%s/k8s/c-1/", api_url(fix.api));
	fix.config.server = server;
	fix.config.token = "a.b.c";
	assert_int_equal(pool_watch_new(&fix.config, 60000, &fix.log, &fix.w, &fix.e), 0);
	api_expect(fix.api, "GET", "/k8s/c-1" LIST, 200, PAGE("10", ROW("a", "1")));
	UNTIL(&fix, now(&fix).known);
	assert_string_equal(api_seen(fix.api, 0)->token, "a.b.c");
	end(&fix);
	/* What would be two lines is not sent. */
	begin(&fix, 60000);
	fix.config.token = "a\r\nX: y";
	for (int64_t until = api_now_ms() + 500; api_now_ms() < until;)
		turn(&fix);
	assert_int_equal(api_seen_count(fix.api), 0);
	assert_int_equal(logged(&fix, "the token holds"), 1);
}

TESTS_BETWEEN(set_up, tear_down, test_list_then_events, test_columns_in_a_bookmark, test_pages,
	test_page_that_is_too_long, test_breaks, test_quiet_stream_is_a_good_one, test_away,
	test_never_there, test_refusals, test_bad_lists, test_bad_events, test_half_an_answer,
	test_name_with_two_addresses, test_servers_that_are_none, test_long_servers,
	test_path_and_token)

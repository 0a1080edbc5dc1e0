/* SPDX-License-Identifier: Apache-2.0 */
/* test: lists that stay true, over a scripted API server that breaks off in every way. */
#include <fcntl.h>
#include <pthread.h>

#include "kube/kube_watch.h"
#include "test/unit/api_fixture.h"
#include "test/unit/test.h"

#define LIST "/p?limit=500"
#define WATCH "/p?watch=true&allowWatchBookmarks=true&timeoutSeconds=*"
#define PAGE(version, items)                                                                       \
	"{\"metadata\":{\"resourceVersion\":\"" version "\"},\"items\":[" items "]}"
#define OBJECT(name, version)                                                                      \
	"{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"" version "\"}}"
#define EVENT(type, name, version) "{\"type\":\"" type "\",\"object\":" OBJECT(name, version) "}\n"
#define GONE                                                                                       \
	"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"," \
	"\"message\":\"too old resource version\"}}\n"

/* What the watch told, as words: L a list begins, =N it is complete at N, +x put, -x gone, up,
 * down. */
struct fixture {
	struct api *api;
	struct kube_config config;
	struct kube *k;
	struct kube_watch *w;
	struct log log;
	char log_path[40];
	pthread_mutex_t lock;
	char told[4096];
	size_t longest; /* name */
	unsigned lacks; /* so many objects there is no memory for */
	struct err e;
};

static void tell(struct fixture *f, const char *word)
{
	pthread_mutex_lock(&f->lock);
	snprintf(f->told + strlen(f->told), sizeof(f->told) - strlen(f->told), "%s ", word);
	pthread_mutex_unlock(&f->lock);
}

static void on_listing(void *ctx)
{
	tell(ctx, "L");
}

static bool on_change(
	void *ctx, enum kube_change what, const struct json *j, const struct json_node *object)
{
	struct kube_meta meta = kube_meta(j, object);
	struct fixture *f = ctx;
	char word[64];

	if (meta.name.len > f->longest)
		f->longest = meta.name.len;
	snprintf(word, sizeof(word), "%c%.*s", what == KUBE_PUT ? '+' : '-',
		(int)(meta.name.len < 20 ? meta.name.len : 20), meta.name.at);
	tell(f, word);
	return f->lacks == 0 || f->lacks-- == 0;
}

static void on_listed(void *ctx, const char *version)
{
	char word[64];

	snprintf(word, sizeof(word), "=%s", version);
	tell(ctx, word);
}

static void on_connected(void *ctx, bool yes)
{
	tell(ctx, yes ? "up" : "down");
}

/* Wait until exactly this was told. */
static void told(struct fixture *f, const char *words)
{
	char seen[4096];

	for (int i = 0; i < 1200; i++, api_nap(5)) {
		pthread_mutex_lock(&f->lock);
		memcpy(seen, f->told, sizeof(seen));
		pthread_mutex_unlock(&f->lock);
		if (strcmp(seen, words) == 0)
			return;
	}
	fail_msg("told \"%s\", expected \"%s\"", seen, words);
}

static void fixture_init(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	pthread_mutex_init(&f->lock, NULL);
	snprintf(f->log_path, sizeof(f->log_path), "/tmp/poolgate-test-XXXXXX");
	log_init(&f->log, mkstemp(f->log_path));
	assert_true(f->log.fd >= 0);
	f->api = api_start(NULL, NULL);
	api_config(f->api, &f->config);
	if (kube_new(&f->config, &f->k, &f->e) != 0)
		fail_msg("%s", f->e.msg);
}

static void watch_start(struct fixture *f, const char *path)
{
	const struct kube_watch_app app = {f, on_listing, on_change, on_listed, on_connected};

	f->w = kube_watch_start(f->k, path, &app, &f->log, &f->e);
	if (!f->w)
		fail_msg("%s", f->e.msg);
}

static void fixture_release(struct fixture *f)
{
	kube_watch_stop(f->w);
	kube_free(f->k);
	api_stop(f->api);
	close(f->log.fd);
	unlink(f->log_path);
	pthread_mutex_destroy(&f->lock);
}

static void expect_stream(struct fixture *f, const char *first)
{
	struct api_reply r = {.stream = true, .body = strdup(first)};

	api_expect_reply(f->api, "GET", WATCH, &r);
}

/* How often a word is in the log. */
static int logged(struct fixture *f, const char *word)
{
	static char text[65536];
	ssize_t n = pread(f->log.fd, text, sizeof(text) - 1, 0);
	int found = 0;

	assert_true(n >= 0);
	text[n] = '\0';
	for (const char *at = text; (at = strstr(at, word)); at++)
		found++;
	return found;
}

static bool asked_from(struct fixture *f, const char *version)
{
	const struct api_request *last = api_last(f->api, "GET", WATCH);
	char end[64];

	snprintf(end, sizeof(end), "&resourceVersion=%s", version);
	return last && strlen(last->path) > strlen(end) &&
	       strcmp(last->path + strlen(last->path) - strlen(end), end) == 0;
}

static struct fixture fix;

FIXTURES(fixture_init, fixture_release)

TEST(test_follow)
{
	fix.config.token = "secret";
	api_expect(fix.api, "GET", LIST, 200, PAGE("10", OBJECT("a", "3") "," OBJECT("b", "4")));
	expect_stream(&fix, "");
	watch_start(&fix, "/p");
	told(&fix, "L +a +b =10 up ");
	assert_true(api_wait_streams(fix.api, WATCH, 1));
	assert_true(asked_from(&fix, "10"));
	assert_string_equal(api_last(fix.api, "GET", WATCH)->token, "secret");
	/* Two in one piece, and one in three. */
	api_push(fix.api, WATCH, EVENT("ADDED", "c", "11") EVENT("MODIFIED", "a", "12"));
	told(&fix, "L +a +b =10 up +c +a ");
	api_push(fix.api, WATCH, "{\"type\":\"DELE");
	api_nap(20);
	api_push(fix.api, WATCH, "TED\",\"object\":" OBJECT("b", "13"));
	api_nap(20);
	api_push(fix.api, WATCH, "}\n\n");
	told(&fix, "L +a +b =10 up +c +a -b ");
	/* A proper end goes on where it was, and nobody is told. */
	api_nap(1100);
	expect_stream(&fix, EVENT("ADDED", "d", "14"));
	api_end(fix.api, WATCH);
	told(&fix, "L +a +b =10 up +c +a -b +d ");
	assert_true(asked_from(&fix, "13"));
	assert_int_equal(logged(&fix, "watch"), 0);
}

/* Of a list, or of an event: it is listed anew until it is known. */
TEST(what_there_is_no_memory_for_is_read_anew)
{
	fix.lacks = 1;
	api_expect(fix.api, "GET", LIST, 200, PAGE("10", OBJECT("a", "3") "," OBJECT("b", "4")));
	api_expect(fix.api, "GET", LIST, 200, PAGE("11", OBJECT("a", "3") "," OBJECT("b", "4")));
	expect_stream(&fix, "");
	watch_start(&fix, "/p");
	told(&fix, "L +a down L +a +b =11 up ");
	assert_true(api_wait_streams(fix.api, WATCH, 1));
	pthread_mutex_lock(&fix.lock);
	fix.lacks = 1;
	pthread_mutex_unlock(&fix.lock);
	api_expect(fix.api, "GET", LIST, 200, PAGE("12", OBJECT("a", "12")));
	expect_stream(&fix, "");
	api_push(fix.api, WATCH, EVENT("MODIFIED", "a", "12"));
	told(&fix, "L +a down L +a +b =11 up +a down L +a =12 up ");
}

TEST(test_bookmark)
{
	api_expect(fix.api, "GET", "/p?labelSelector=x&limit=500", 200, PAGE("10", ""));
	api_expect_reply(fix.api, "GET", "/p?labelSelector=x&watch=true&*",
		&(struct api_reply){.stream = true, .body = strdup(EVENT("BOOKMARK", "", "99"))});
	watch_start(&fix, "/p?labelSelector=x");
	assert_true(api_wait_streams(fix.api, "/p?labelSelector=x&watch=true*", 1));
	api_nap(50);
	/* Cut: it broke, and the bookmark is where it goes on. */
	api_expect_reply(fix.api, "GET", "/p?labelSelector=x&watch=true&*",
		&(struct api_reply){.stream = true, .body = strdup(EVENT("ADDED", "a", "100"))});
	api_cut(fix.api, "/p?*");
	told(&fix, "L =10 up down up +a ");
	const char *path = api_last(fix.api, "GET", "/p?labelSelector=x&watch=true&*")->path;
	assert_non_null(strstr(path, "&resourceVersion=99"));
	assert_int_equal(logged(&fix, "the watch is broken"), 1);
	assert_int_equal(logged(&fix, "the watch is back"), 1);
}

/* As an event, and as an answer. */
TEST(test_too_old)
{
	struct api_reply gone = {0};

	api_expect(fix.api, "GET", LIST, 200, PAGE("10", OBJECT("a", "3")));
	expect_stream(&fix, EVENT("ADDED", "b", "11") GONE);
	api_expect(fix.api, "GET", LIST, 200, PAGE("20", OBJECT("c", "15")));
	api_status(&gone, 410, "Gone", "too old");
	api_expect_reply(fix.api, "GET", WATCH, &gone);
	api_expect(fix.api, "GET", LIST, 200, PAGE("30", ""));
	expect_stream(&fix, EVENT("ADDED", "d", "31"));
	watch_start(&fix, "/p");
	told(&fix, "L +a =10 up +b L +c =20 L =30 +d ");
	assert_int_equal(logged(&fix, "broken"), 0);
	assert_int_equal(api_left(fix.api), 0);
}

TEST(test_garbage)
{
	static const char *const bad[] = {"no json\n", "[]\n", "{}\n", "{\"type\":\"ADDED\"}\n",
		"{\"type\":\"NEW\",\"object\":" OBJECT("a", "1") "}\n",
		"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"x\"}}}\n",
		"{\"type\":\"ADDED\",\"object\":" OBJECT("a", "1") "}x\n",
		"{\"type\":\"ERROR\",\"object\":{}}\n",
		"{\"type\":\"ERROR\",\"object\":{\"code\":500,\"message\":\"etcd\"}}\n"};

	for (size_t i = 0; i < COUNT(bad); i++) {
		struct fixture f;

		fixture_init(&f);
		api_expect(f.api, "GET", LIST, 200, PAGE("10", ""));
		expect_stream(&f, bad[i]);
		api_expect(f.api, "GET", LIST, 200, PAGE("20", ""));
		expect_stream(&f, EVENT("ADDED", "d", "31"));
		watch_start(&f, "/p");
		told(&f, "L =10 up down L =20 up +d ");
		assert_int_equal(logged(&f, "the watch is broken"), 1);
		fixture_release(&f);
	}
}

/* The API server is away at first, then refuses, then is back. */
TEST(test_back_off)
{
	struct api_reply busy = {0};
	int64_t began;

	api_down(fix.api);
	watch_start(&fix, "/p");
	told(&fix, "L down ");
	api_status(&busy, 503, "ServiceUnavailable", "starting");
	api_expect_reply(fix.api, "GET", LIST, &busy);
	api_expect(fix.api, "GET", LIST, 200, PAGE("10", ""));
	expect_stream(&fix, "");
	began = api_now_ms();
	api_up(fix.api);
	/* Each try begins a list; one or more of them met nobody. */
	assert_true(api_wait_streams(fix.api, WATCH, 1));
	pthread_mutex_lock(&fix.lock);
	assert_non_null(strstr(fix.told, "L L =10 up "));
	pthread_mutex_unlock(&fix.lock);
	assert_true(api_now_ms() - began < 3000);
	assert_int_equal(logged(&fix, "the watch is broken"), 1);
	assert_int_equal(logged(&fix, "the watch is back"), 1);
}

/* After the watch broke, a quiet stream counts as back after a second. Refusals of the watch go on
 * from the same version. */
TEST(test_quiet)
{
	struct api_reply busy = {0}, cut = {.cut = true};

	api_expect(fix.api, "GET", LIST, 200, PAGE("10", ""));
	api_status(&busy, 429, "TooManyRequests", "later");
	api_expect_reply(fix.api, "GET", WATCH, &busy);
	api_expect_reply(fix.api, "GET", WATCH, &cut);
	api_status(&busy, 403, "Forbidden", "no");
	api_expect_reply(fix.api, "GET", WATCH, &busy);
	expect_stream(&fix, "");
	watch_start(&fix, "/p");
	told(&fix, "L =10 up down up ");
	assert_true(asked_from(&fix, "10"));
	assert_int_equal(api_seen_of(fix.api, "GET", LIST), 1);
	assert_int_equal(logged(&fix, "the watch is broken"), 1);
	/* What is wrong with the request may be the version: list anew. */
	api_status(&busy, 400, "BadRequest", "resourceVersion");
	api_expect_reply(fix.api, "GET", WATCH, &busy);
	api_expect(fix.api, "GET", LIST, 200, PAGE("20", ""));
	expect_stream(&fix, "");
	api_cut(fix.api, WATCH);
	told(&fix, "L =10 up down up down L =20 up ");
}

/* An event of 600 KB, in pieces. */
TEST(test_long_line)
{
	enum { NAME = 600000 };
	char *line = malloc(NAME + 200);

	memset(line, 'n', NAME);
	snprintf(line + NAME, 200, "\",\"resourceVersion\":\"11\"}}}\n");
	api_expect(fix.api, "GET", LIST, 200, PAGE("10", ""));
	expect_stream(&fix, "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"");
	watch_start(&fix, "/p");
	assert_true(api_wait_streams(fix.api, WATCH, 1));
	api_push(fix.api, WATCH, line);
	told(&fix, "L =10 up +nnnnnnnnnnnnnnnnnnnn ");
	assert_int_equal(fix.longest, NAME);
	api_push(fix.api, WATCH, EVENT("ADDED", "b", "12"));
	told(&fix, "L =10 up +nnnnnnnnnnnnnnnnnnnn +b ");
	free(line);
}

static void stop_in_time(struct fixture *f, int ms)
{
	int64_t began = api_now_ms();
	char before[sizeof(f->told)];

	kube_watch_stop(f->w);
	f->w = NULL;
	if (api_now_ms() - began > ms)
		fail_msg("the stop took %d ms", (int)(api_now_ms() - began));
	memcpy(before, f->told, sizeof(before));
	api_push(f->api, WATCH, EVENT("ADDED", "late", "99"));
	api_nap(20);
	assert_string_equal(f->told, before);
}

TEST(test_stop)
{
	struct api_reply late = {.delay_ms = 4000};
	struct fixture f;

	/* while a silent stream is open */
	fixture_init(&f);
	api_expect(f.api, "GET", LIST, 200, PAGE("10", ""));
	expect_stream(&f, "");
	watch_start(&f, "/p");
	assert_true(api_wait_streams(f.api, WATCH, 1));
	stop_in_time(&f, 1700);
	fixture_release(&f);
	/* in a list that does not come */
	fixture_init(&f);
	api_expect_reply(f.api, "GET", LIST, &late);
	watch_start(&f, "/p");
	told(&f, "L ");
	api_nap(50);
	stop_in_time(&f, 1700);
	fixture_release(&f);
	/* while it waits to try again */
	fixture_init(&f);
	api_down(f.api);
	watch_start(&f, "/p");
	api_nap(1500);
	stop_in_time(&f, 300);
	api_up(f.api);
	fixture_release(&f);
	kube_watch_stop(NULL);
}

/* Somebody else has seen that etcd was restored: a silent stream is cut, and what its list shows is
 * no news to others. Whoever sees it himself says so. */
TEST(test_restored)
{
	api_expect(fix.api, "GET", LIST, 200, PAGE("10", OBJECT("a", "3")));
	expect_stream(&fix, "");
	watch_start(&fix, "/p");
	told(&fix, "L +a =10 up ");
	assert_true(api_wait_streams(fix.api, WATCH, 1));
	api_expect(fix.api, "GET", LIST, 200, PAGE("7", OBJECT("b", "4")));
	expect_stream(&fix, "");
	assert_int_equal(kube_restored(fix.k), 1);
	told(&fix, "L +a =10 up down L +b =7 up ");
	assert_true(api_wait_streams(fix.api, WATCH, 1));
	assert_int_equal(kube_restores(fix.k), 1);
	api_expect(fix.api, "GET", LIST, 200, PAGE("5", ""));
	expect_stream(&fix, "");
	api_push(fix.api, WATCH, EVENT("ADDED", "late", "4"));
	told(&fix, "L +a =10 up down L +b =7 up down L =5 up ");
	assert_int_equal(kube_restores(fix.k), 2);
	assert_int_equal(logged(&fix, "versions have gone back, as after a restore"), 3);
}

static bool has_broken(unsigned n)
{
	for (int i = 0; i < 500 && kube_breaks(fix.k) < n; i++)
		api_nap(10);
	return kube_breaks(fix.k) >= n;
}

/* Each answer counts when it begins and when it ends, a list as well as a stream, also one that
 * goes on where the last one ended. */
TEST(test_breaks)
{
	api_expect(fix.api, "GET", LIST, 200, PAGE("10", ""));
	expect_stream(&fix, "");
	assert_int_equal(kube_breaks(fix.k), 0);
	watch_start(&fix, "/p");
	assert_true(has_broken(3));
	api_nap(50);
	assert_int_equal(kube_breaks(fix.k), 3);
	expect_stream(&fix, "");
	api_cut(fix.api, WATCH);
	assert_true(has_broken(5));
	told(&fix, "L =10 up down up ");
}

/* A stream that ends at once, again and again, is not asked for in a hot loop. */
static int ends_at_once(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	(void)ctx;
	if (strcmp(req->path, LIST) == 0)
		api_text(reply, 200, PAGE("10", ""));
	else
		api_text(reply, 200, "%s", "");
	return 0;
}

TEST(test_no_hot_loop)
{
	api_stop(fix.api);
	fix.api = api_start(ends_at_once, NULL);
	api_config(fix.api, &fix.config);
	watch_start(&fix, "/p");
	api_nap(1500);
	assert_in_range(api_seen_of(fix.api, "GET", WATCH), 2, 8);
	assert_int_equal(api_seen_of(fix.api, "GET", LIST), 1);
}

TESTS_BETWEEN(set_up, tear_down, test_follow, what_there_is_no_memory_for_is_read_anew,
	test_bookmark, test_too_old, test_garbage, test_back_off, test_quiet, test_long_line,
	test_stop, test_restored, test_breaks, test_no_hot_loop)

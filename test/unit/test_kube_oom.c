/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation fails, for each n, while a watch is read, a
 * reflector runs, a kubeconfig is loaded and a GPUServer comes into the picture: it is done, or
 * an error says why not and nothing has changed. Linked with --wrap for malloc,
 * calloc and realloc, and for kube_list. */
#include <fcntl.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "kube/kube_config.h"
#include "kube/reflector.h"
#include "kube/watch_reader.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"
#include "webhook/cluster/ledger/servers_picture.h"
#include "webhook/cluster/secrets/tls_secret.h"
#include "webhook/edge/metrics/metrics.h"

/* ---- a watch ---- */

#define LONG 300000

static int told(void *ctx, const struct watch_event *event, struct err *err)
{
	unsigned *n = ctx;

	(void)err;
	assert_true(event->version[0] != '\0');
	++*n;
	return 0;
}

TEST(test_watch)
{
	const size_t max = LONG + 1000;
	char *text = malloc(max);
	bool done = false;

	assert_non_null(text);
	(void)snprintf(text, max,
		"{\"type\":\"ADDED\",\"object\":{\"metadata\":{"
		"\"resourceVersion\":\"7\"}}}\n"
		"{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{"
		"\"resourceVersion\":\"8\"},"
		"\"x\":\"%0*d\"}}\n"
		"{\"type\":\"DELETED\",\"object\":{\"metadata\":{"
		"\"resourceVersion\":\"9\"}}}\n",
		LONG, 0);
	for (long n = 0; !done; n++) {
		struct watch_reader r;
		unsigned events = 0;
		size_t len = strlen(text), cut = len / 3;
		bool more;

		oom_begin(n, OOM_ONE);
		watch_reader_init(&r, told, &events);
		more = watch_reader_read(&r, (struct slice){text, cut}) &&
		       watch_reader_read(&r, (struct slice){text + cut, len - cut});
		done = !oom_end();
		assert_int_equal(more, r.err.code == 0);
		if (r.err.code == 0) {
			assert_int_equal(events, 3);
		} else {
			assert_int_equal(r.err.code, ERR_NOMEM);
			assert_true(r.err.msg[0] != '\0');
		}
		/* The next stream. */
		events = 0;
		watch_reader_reset(&r);
		assert_true(watch_reader_read(&r, slice_of(text)));
		assert_int_equal(events, 3);
		watch_reader_release(&r);
	}
	free(text);
}

/* ---- a reflector ---- */

static void on_listing(void *ctx)
{
	buf_str(ctx, "L");
}

static int on_change(void *ctx, enum kube_change what, const struct json *j,
	const struct json_node *object, struct err *err)
{
	(void)what, (void)j, (void)object, (void)err;
	buf_char(ctx, '+');
	return 0;
}

static void on_listed(void *ctx, const char *version)
{
	buf_fmt(ctx, "=%s", version);
}

static void on_connected(void *ctx, bool yes, const struct err *why)
{
	if (!yes)
		assert_int_equal(why->code, ERR_NOMEM);
	buf_str(ctx, yes ? " up " : " down ");
}

/* One answer, whatever is asked for: a list of two, or an event. */
static void answer(struct reflector *r, int64_t *now)
{
	static const char page[] = "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[{},{}]}";
	static const char event[] = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{"
				    "\"resourceVersion\":\"6\"}}}\n";
	const char *path;

	if (reflector_when(r) > *now)
		*now = reflector_when(r);
	path = reflector_ask(r, *now);
	if (!path)
		return;
	(void)reflector_head(r, 200, *now);
	(void)reflector_body(r, slice_of(strstr(path, "watch=") ? event : page), *now);
	*now += REFLECTOR_GOOD_MS;
	reflector_end(r, NULL, *now);
}

/* Once memory is back, it is as if nothing had been: all that is there is told of. */
TEST(test_reflector)
{
	struct buf told;
	const struct reflector_config cfg = {.path = "/p?x=1",
		.answer_max = 4096,
		.app = {&told, on_listing, on_change, on_listed, on_connected}};
	bool done = false;

	for (long n = 0; !done; n++) {
		struct reflector *r = NULL;
		struct err err = {0};
		char room[1024];
		int64_t now = 1;
		int rc;

		/* What is told takes memory of its own, which does not fail. */
		told = (struct buf){.data = room, .cap = sizeof(room), .max = sizeof(room) - 1};
		room[0] = '\0';
		oom_begin(n, OOM_ONE);
		rc = reflector_new(&cfg, &r, &err);
		for (int i = 0; rc == 0 && i < 2; i++)
			answer(r, &now);
		done = !oom_end();
		if (rc != 0) {
			assert_int_equal(rc, ERR_NOMEM);
			assert_true(err.msg[0] != '\0');
			continue;
		}
		for (int i = 0; i < 3; i++)
			answer(r, &now);
		assert_non_null(strstr(room, "L++=5"));
		assert_string_equal(room + told.len - 1, "+");
		if (done)
			assert_string_equal(room, "L++=5 up ++++");
		reflector_free(r);
	}
}

/* ---- a kubeconfig ---- */

/* Longer than a piece of an arena: each such word takes memory of its own, so that each copy fails
 * once. */
#define WORD 70000

/* With less memory, a file says so, or is there whole. server, namespace and token: how long each
 * is, 0 for none. */
static void assert_loads(const char *text, int len, size_t server, size_t namespace, size_t token)
{
	char path[] = "/tmp/kube-oom-XXXXXX";
	int fd = mkstemp(path);
	bool done = false;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, (size_t)len), len);
	close(fd);
	for (long n = 0; !done; n++) {
		struct kube_config c;
		struct err err = {0};
		int rc;

		oom_begin(n, OOM_ONE);
		rc = kube_config_load(path, &c, &err);
		done = !oom_end();
		if (rc != 0) {
			assert_int_equal(rc, ERR_NOMEM);
			assert_true(err.msg[0] != '\0');
		} else {
			assert_int_equal(c.server ? strlen(c.server) : 0, server);
			assert_int_equal(c.namespace ? strlen(c.namespace) : 0, namespace);
			assert_int_equal(c.token ? strlen(c.token) : 0, token);
		}
		kube_config_release(&c);
	}
	unlink(path);
}

TEST(test_kubeconfig)
{
	const size_t max = 5 * WORD;
	char *text = malloc(max);
	int len;

	assert_non_null(text);
	len = snprintf(text, max,
		"apiVersion: v1\nkind: Config\ncurrent-context: c\n"
		"contexts: [{name: c, context: {cluster: k, user: u, namespace: n%0*d}}]\n"
		"clusters: [{name: k, cluster: {server: 'https://h%0*d/', "
		"certificate-authority-data: Y2E=}}]\n"
		"users: [{name: u, user: {token: t%0*d}}]\n",
		WORD, 0, WORD, 0, WORD, 0);
	assert_loads(text, len, strlen("https://h") + WORD, WORD + 1, WORD + 1);
	/* Nothing follows that would miss the memory, too. */
	len = snprintf(text, max,
		"apiVersion: v1\nkind: Config\ncurrent-context: c\n"
		"contexts: [{name: c, context: {cluster: k}}]\n"
		"clusters: [{name: k, cluster: {server: 'https://h%0*d/'}}]\n",
		WORD, 0);
	assert_loads(text, len, strlen("https://h") + WORD, 0, 0);
	free(text);
}

/* ---- the Secret of the certificates ---- */

/* Nobody answers, which its threads may learn or not: what counts is that nothing of a start that
 * failed is left. */
TEST(test_tls_secret)
{
	struct kube_config config = {
		.server = "http://127.0.0.1:9", .ca_fd = -1, .cert_fd = -1, .key_fd = -1};
	static const struct log silent = {.fd = -1};
	struct tls_secret_config cfg = {
		.log = &silent, .namespace = "poolgate-system", .name = "poolgate-tls"};
	unsigned started = 0, refused = 0;

	cfg.metrics = metrics_new(metric_table, M_COUNT);
	cfg.identity = tls_identity_new();
	assert_true(cfg.metrics && cfg.identity);
	for (long n = 0; n < 30; n++) {
		struct tls_secret *t;
		struct err err = {0};

		assert_int_equal(kube_new(&config, &cfg.kube, NULL), 0);
		oom_begin(n, OOM_ONE);
		t = tls_secret_start(&cfg, &err);
		(void)oom_end();
		started += t != NULL;
		refused += t == NULL;
		assert_int_equal(err.code, t ? 0 : ERR_NOMEM);
		tls_secret_stop(t);
		kube_free(cfg.kube);
	}
	assert_true(started > 0);
	assert_true(refused > 3); /* itself, its names, its watch, its looks */
	tls_identity_free(cfg.identity);
	metrics_free(cfg.metrics);
}

/* ---- a server in the picture ---- */

/* Released by the caller, as the copy is freed. */
static void parse_server(long n, struct json *ret, char **ret_copy)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		"{\"apiVersion\":\"poolgate.io/"
		"v1alpha1\",\"kind\":\"GPUServer\",\"metadata\":{"
		"\"name\":\"s-%ld\",\"uid\":\"u\",\"resourceVersion\":\"%ld\"},\"spec\":{"
		"\"address\":"
		"\"h:1\",\"gpus\":[{\"model\":\"m\",\"memory\":\"1G\"}]},\"status\":{"
		"\"gpus\":[{"
		"\"id\":\"gpu-0\",\"memory\":1000000000,\"fit\":true}],\"claims\":[{"
		"\"uid\":\"c-%ld\","
		"\"state\":\"bound\",\"gpus\":[{\"id\":\"gpu-0\",\"bytes\":5}]}]}}",
		n, n + 1, n);
	assert_int_equal(json_read_copy(ret, text, strlen(text), 1000, ret_copy, NULL), 0);
}

/* With that allocation of the reading failing. */
static struct held *read_server(long n, long fails, struct err *err)
{
	char *copy = NULL;
	struct json j = {0};
	struct held *h;

	parse_server(n, &j, &copy);
	oom_begin(fails, OOM_ONE);
	h = held_read(&j, json_root(&j), err);
	(void)oom_end();
	json_release(&j);
	free(copy);
	return h;
}

TEST(test_picture)
{
	const struct log log = {.fd = 2};
	struct metrics *metrics = metrics_new(metric_table, M_COUNT);
	struct servers *s;
	bool done = false;
	size_t put = 0, refused = 0;

	/* Enough for every array to grow more than once. */
	s = servers_new(NULL, &log, metrics, NULL);
	assert_non_null(s);
	for (long n = 0; n < 400; n++) {
		struct err err = {0};
		struct held *h;
		bool in, judged;

		h = read_server(n, n % 50, &err);
		if (!h) {
			assert_int_equal(err.code, ERR_NOMEM);
			refused++;
			continue;
		}
		(void)pthread_mutex_lock(&s->lock);
		oom_begin(n / 8 % 5, OOM_ONE);
		in = servers_put(s, h);
		judged = servers_judge(s);
		(void)oom_end();
		put += in;
		refused += !in || !judged;
		assert_true(judged || servers_judge(s));
		assert_int_equal(s->inv.n_servers, put);
		assert_int_equal(s->inv.n_gpus, put);
		for (size_t i = 0; i < s->inv.n_servers; i++) {
			size_t at = inventory_nth(&s->inv, i);

			assert_int_equal(s->committed[s->inv.servers[at].first_gpu], 5);
			assert_int_equal(s->n_claims[at], 1);
		}
		for (size_t i = 0; i < s->n;)
			i += !servers_forget_at(s, i);
		(void)pthread_mutex_unlock(&s->lock);
	}
	assert_true(put > 100 && refused > 20);
	servers_free(s);
	for (long n = 0; !done; n++) {
		struct err err = {0};

		oom_begin(n, OOM_ONE);
		s = servers_new(NULL, &log, NULL, &err);
		done = !oom_end();
		assert_true(s || err.code == ERR_NOMEM);
		servers_free(s);
	}
	metrics_free(metrics);
}

static void all_are_placed(const struct servers *s)
{
	for (size_t i = 0; i < s->n; i++)
		assert_int_equal(s->entries[i]->held != NULL, s->entries[i]->placed);
}

/* Who was given no place for want of memory has one at the next look that finds some, wherever its
 * name stands among the others. */
TEST(test_a_place_that_is_given_later)
{
	const struct log log = {.fd = 2};
	struct metrics *metrics = metrics_new(metric_table, M_COUNT);
	size_t later = 0;

	for (long fails = 0; fails < 24; fails++) {
		struct servers *s = servers_new(NULL, &log, metrics, NULL);

		assert_non_null(s);
		(void)pthread_mutex_lock(&s->lock);
		for (long n = 0; n < 20; n++) {
			struct held *h = read_server(n % 2 ? 500 - n : 500 + n, -1, NULL);

			assert_non_null(h);
			oom_begin(fails, OOM_ALL_AFTER);
			(void)servers_put(s, h);
			if (servers_judge(s))
				all_are_placed(s);
			(void)oom_end();
			later += s->inv.n_servers < s->n;
			assert_true(servers_judge(s));
			all_are_placed(s);
		}
		(void)pthread_mutex_unlock(&s->lock);
		servers_free(s);
	}
	assert_true(later > 20);
	metrics_free(metrics);
}

/* ---- a list of them ---- */

static atomic_uint lists;

int __wrap_kube_list(struct kube *k, const char *path, int64_t timeout_ms, void (*begin)(void *ctx),
	kube_each *each, void *ctx, char ret_version[static 32], struct err *err);
/* One server; when the first list has been read there is no memory for the next that is asked for.
 */
int __wrap_kube_list(struct kube *k, const char *path, int64_t timeout_ms, void (*begin)(void *ctx),
	kube_each *each, void *ctx, char ret_version[static 32], struct err *err)
{
	struct json j = {0};
	char *copy = NULL;

	(void)k, (void)path, (void)timeout_ms, (void)err;
	parse_server(1, &j, &copy);
	begin(ctx);
	assert_true(each(ctx, &j, json_root(&j)));
	(void)snprintf(ret_version, 32, "9");
	json_release(&j);
	free(copy);
	if (atomic_fetch_add(&lists, 1) == 0)
		oom_begin(0, OOM_ONE);
	return 0;
}

/* What a list showed, and there was no memory for, is no reason to refuse anybody: the next list
 * is waited for. */
TEST(test_list)
{
	const struct log log = {.fd = 2};
	struct kube_config config = {
		.server = "http://127.0.0.1:9", .ca_fd = -1, .cert_fd = -1, .key_fd = -1};
	struct metrics *metrics = metrics_new(metric_table, M_COUNT);
	struct kube *kube = NULL;
	struct servers *s;
	struct err err = {0};
	size_t n;
	int rc;

	assert_int_equal(kube_new(&config, &kube, NULL), 0);
	s = servers_new(kube, &log, metrics, NULL);
	assert_non_null(s);
	assert_int_equal(servers_list_start(s, &err), 0);
	rc = servers_refresh(s, clock_ms() + 5000, &err);
	assert_int_equal(oom_end(), atomic_load(&lists) > 0);
	servers_stop(s);
	n = s->inv.n_servers;
	servers_free(s);
	kube_free(kube);
	metrics_free(metrics);
	if (atomic_load(&lists) == 0)
		skip(); /* linked without that --wrap: nobody answered */
	assert_int_equal(rc, 0);
	assert_int_equal(n, 1);
	assert_int_equal(atomic_load(&lists), 2);
}

TESTS(test_watch, test_reflector, test_kubeconfig, test_tls_secret, test_picture,
	test_a_place_that_is_given_later, test_list)

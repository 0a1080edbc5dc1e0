/* SPDX-License-Identifier: Apache-2.0 */
/* test: the picture of the GPUServers, and edits of their status, against a store that compares
 * versions. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "kube/kube_watch.h"
#include "test/unit/kube_store.h"
#include "test/unit/test.h"
#include "webhook/cluster/ledger/servers_picture.h"
#include "webhook/edge/metrics/metrics.h"

#define STATUS_OF(name) STORE_SERVERS "/" name "/status"

struct fixture {
	struct kube_store *store;
	struct api *api;
	struct kube_config config;
	struct kube *kube;
	struct log log;
	struct metrics *metrics;
	struct servers *s;
	atomic_uint changes;
	struct err e;
};

static void changed(void *ctx)
{
	struct fixture *f = ctx;

	atomic_fetch_add(&f->changes, 1);
}

static void fixture_init(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	f->store = kube_store_start();
	f->api = kube_store_api(f->store);
	log_init(&f->log, open("/dev/null", O_WRONLY | O_CLOEXEC));
	api_config(f->api, &f->config);
	assert_int_equal(kube_new(&f->config, &f->kube, &f->e), 0);
	f->metrics = metrics_new(metric_table, M_COUNT);
	kube_store_server(f->store, "a", 2, 16000, "");
	kube_store_server(f->store, "b", 1, 8000, "");
	f->s = servers_new(f->kube, &f->log, f->metrics, &f->e);
	assert_non_null(f->s);
	assert_false(servers_synced(f->s));
	assert_int_equal(servers_start(f->s, changed, f, &f->e), 0);
	for (int i = 0; i < 1000 && !servers_synced(f->s); i++)
		api_nap(5);
	assert_true(servers_synced(f->s));
}

/* The index that searches use says what the picture does. */
static bool index_is_right(struct servers *s)
{
	struct room_index fresh = {.turn = s->inv.turn};
	const struct room_entry *is, *want;
	struct room_place at, j;
	bool right = servers_judge(s);

	for (size_t i = 0; i < s->inv.n_servers; i++) {
		size_t k = inventory_nth(&s->inv, i);

		right = right && inventory_turn(&s->inv, k) == i &&
			(i == 0 || strcmp(s->inv.servers[inventory_nth(&s->inv, i - 1)].name,
					   s->inv.servers[k].name) < 0);
		room_index_add(&fresh, (uint32_t)k, s->room_claimed.bytes[k],
			s->room_claimed.most[k], s->room_claimed.free + s->room_claimed.first[k],
			s->inv.servers[k].n_gpus);
	}
	is = room_index_find(&s->index, 0, 0, 0, &at);
	want = room_index_find(&fresh, 0, 0, 0, &j);
	while (want && is && memcmp(is, want, sizeof(*is)) == 0) {
		is = room_index_next(&s->index, &at);
		want = room_index_next(&fresh, &j);
	}
	room_index_release(&fresh);
	return right && !is && !want;
}

static void check_index(struct servers *s)
{
	bool right;

	(void)pthread_mutex_lock(&s->lock);
	right = index_is_right(s);
	(void)pthread_mutex_unlock(&s->lock);
	assert_true(right);
}

static void fixture_release(struct fixture *f)
{
	check_index(f->s);
	servers_stop(f->s);
	servers_free(f->s);
	kube_free(f->kube);
	metrics_free(f->metrics);
	kube_store_stop(f->store);
	close(f->log.fd);
}

static bool note(void *ctx, const struct server_object *o)
{
	char *text = ctx;

	(void)snprintf(text + strlen(text), 256 - strlen(text), "%s%s%s", *text ? " " : "", o->name,
		o->drain ? "!" : "");
	return strcmp(o->name, "stop") != 0;
}

/* "a b": names, '!' for one that drains. */
static bool shows(struct fixture *f, const char *want)
{
	char text[256];

	for (int i = 0; i < 600; i++, api_nap(5)) {
		text[0] = '\0';
		servers_each(f->s, note, text);
		if (strcmp(text, want) == 0) {
			check_index(f->s);
			return true;
		}
	}
	print_error("%s\n", text);
	return false;
}

struct say {
	const char *message;
	int called, again;
	enum edit_result result;
};

/* Writes a condition's message. */
static enum edit_result say(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	struct say *s = ctx;
	struct condition c = {
		.type = "Ready", .status = "True", .reason = "Test", .message = s->message};

	s->called++;
	s->again += again;
	if (s->result == EDIT_GIVE_UP)
		err_set(err, ERR_CONFLICT, "no");
	if (s->result != EDIT_CHANGED)
		return s->result;
	return server_status_set_condition(&o->status, &c, "2026-01-01T00:00:00Z", a) ? EDIT_CHANGED
										      : EDIT_SAME;
}

static int edit(struct fixture *f, const char *name, struct say *s, int ms)
{
	err_clear(&f->e);
	return servers_edit(f->s, name, say, s, api_now_ms() + ms, &f->e);
}

static bool says(struct fixture *f, const char *name, const char *message)
{
	char *text = kube_store_text(f->store, name);
	bool yes = text && strstr(text, message);

	free(text);
	return yes;
}

static struct fixture fix;

FIXTURES(fixture_init, fixture_release)

TEST(test_the_picture_follows)
{
	unsigned before;

	assert_true(shows(&fix, "a b"));
	before = fix.changes;
	kube_store_server(fix.store, "ab", 1, 16000, "");
	assert_true(shows(&fix, "a ab b"));
	assert_true(fix.changes > before);
	kube_store_put(fix.store, "a",
		"{'address':'10.0.0.1:1','drain':true,'gpus':[{'model':'x','memory':'1G'}]}", NULL,
		NULL);
	assert_true(shows(&fix, "a! ab b"));
	kube_store_remove(fix.store, "b");
	assert_true(shows(&fix, "a! ab"));
	kube_store_server(fix.store, "b", 3, 16000, "");
	assert_true(shows(&fix, "a! ab b"));
	/* A broken stream is taken up where it broke. */
	kube_store_put(fix.store, "ab", NULL, NULL, "[]");
	(void)api_cut(fix.api, STORE_SERVERS "?*");
	kube_store_delete(fix.store, "ab");
	assert_true(shows(&fix, "a! b"));
}

TEST(test_edits)
{
	struct say s = {.message = "hello"};

	assert_int_equal(edit(&fix, "a", &s, 2000), 0);
	assert_true(says(&fix, "a", "hello"));
	assert_int_equal(s.called, 1);
	/* At once on what was committed, and without a write. */
	assert_int_equal(edit(&fix, "a", &s, 2000), 0);
	assert_int_equal(kube_store_writes(fix.store), 1);
	assert_int_equal(api_seen_of(fix.api, "PUT", "*"), 1);
	s.result = EDIT_GIVE_UP;
	assert_int_equal(edit(&fix, "a", &s, 2000), ERR_CONFLICT);
	assert_string_equal(fix.e.msg, "no");
	assert_int_equal(edit(&fix, "nobody", &s, 2000), ERR_NOTFOUND);
	assert_int_equal(api_seen_of(fix.api, "PUT", "*"), 1);
}

TEST(test_edit_after_others)
{
	struct say s = {.message = "second"};
	char *text;

	kube_store_hush(fix.store);
	kube_store_put(fix.store, "b", NULL,
		"{'version':1,'future':7,'gpus':[{'id':'gpu-0','memory':8000000000,'fit':true}],"
		"'conditions':[{'type':'Fresh','status':'True','reason':'First'}]}",
		NULL);
	assert_int_equal(edit(&fix, "b", &s, 2000), 0);
	assert_int_equal(s.called, 2);
	assert_int_equal(s.again, 1);
	text = kube_store_text(fix.store, "b");
	/* What the other wrote stays, unknown members too. */
	assert_non_null(strstr(text, "First"));
	assert_non_null(strstr(text, "second"));
	assert_non_null(strstr(text, "\"future\":7"));
	free(text);
	/* Deleted behind our back. */
	kube_store_remove(fix.store, "b");
	s.message = "third";
	assert_int_equal(edit(&fix, "b", &s, 2000), ERR_NOTFOUND);
	assert_true(shows(&fix, "a"));
}

/* A 404 that is not the API server's, of a proxy whose backends are away, takes no server out of
 * the picture: nothing would bring it back, since the watch has nothing to tell of it. */
TEST(test_only_the_api_server_says_gone)
{
	struct say s = {.message = "after all"};

	kube_store_mute(fix.store, true);
	api_expect(fix.api, "PUT", STATUS_OF("b"), 404, "404 page not found");
	api_expect(fix.api, "GET", STORE_SERVERS "/b", 404, "404 page not found");
	assert_int_equal(edit(&fix, "b", &s, 3000), 0);
	assert_true(says(&fix, "b", "after all"));
	assert_true(shows(&fix, "a b"));
}

TEST(test_edit_outcomes)
{
	struct say s = {.message = "one"};
	int64_t began;

	kube_store_fault(fix.store, STORE_FORBID, "PUT", STATUS_OF("a"), 0, 1);
	assert_int_equal(edit(&fix, "a", &s, 2000), ERR_IO);
	/* Something is wrong with the API server: again and again until the time is over. */
	kube_store_fault(fix.store, STORE_FAIL, "PUT", STATUS_OF("a"), 0, 3);
	assert_int_equal(edit(&fix, "a", &s, 5000), 0);
	assert_int_equal(metric_value(fix.metrics, M_COMMITS, COMMIT_UNKNOWN, 0), 3);
	s.message = "two";
	kube_store_fault(fix.store, STORE_FAIL, "PUT", STATUS_OF("a"), 0, -1);
	began = api_now_ms();
	assert_int_equal(edit(&fix, "a", &s, 400), ERR_TIMEOUT);
	assert_true(api_now_ms() - began < 700);
	kube_store_heal(fix.store);
	/* Written, and the answer lost: what is there is looked at. */
	s.message = "three";
	kube_store_fault(fix.store, STORE_CUT_AFTER, "PUT", STATUS_OF("a"), 0, 1);
	assert_int_equal(edit(&fix, "a", &s, 2000), 0);
	assert_true(says(&fix, "a", "three"));
	/* Its time was over before it began. */
	s.message = "four";
	assert_int_equal(edit(&fix, "a", &s, -1), ERR_TIMEOUT);
	api_down(fix.api);
	assert_int_equal(edit(&fix, "a", &s, 300), ERR_TIMEOUT);
	api_up(fix.api);
	assert_false(says(&fix, "a", "four"));
}

/* Nobody knows what became of a write, and the look at what is there brings what no second try
 * would mend: it is said at once. */
TEST(test_looks_that_end_edits)
{
	static const struct {
		int status;
		const char *text;
		int rc;
	} cases[] = {{403, "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"code\":403}", ERR_IO},
		{200, "{\"metadata\":", ERR_SYNTAX}, {200, "[]", ERR_SYNTAX},
		{200,
			"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUServer\","
			"\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"900\"},"
			"\"spec\":{},\"status\":{\"claims\":7}}",
			ERR_INVALID}};
	struct say s = {.message = "one"};

	for (size_t i = 0; i < COUNT(cases); i++) {
		kube_store_fault(fix.store, STORE_FAIL, "PUT", STATUS_OF("a"), 0, 1);
		api_expect(fix.api, "GET", STORE_SERVERS "/a", cases[i].status, cases[i].text);
		assert_int_equal(edit(&fix, "a", &s, 5000), cases[i].rc);
		assert_int_equal(api_seen_of(fix.api, "PUT", STATUS_OF("a")), i + 1);
		assert_int_equal(api_seen_of(fix.api, "GET", STORE_SERVERS "/a"), i + 1);
	}
}

TEST(test_unreadable)
{
	struct say s = {.message = "x"};

	kube_store_put(fix.store, "a", NULL, "{'claims':7}", NULL);
	for (int i = 0; i < 100 && edit(&fix, "a", &s, 1000) == 0; i++)
		api_nap(20);
	assert_int_equal(edit(&fix, "a", &s, 1000), ERR_INVALID);
	/* Nobody writes over it, and it is shown as it was. */
	assert_true(says(&fix, "a", "\"claims\":7"));
	assert_true(shows(&fix, "a b"));
	assert_int_equal(servers_refresh(fix.s, api_now_ms() + 2000, &fix.e), 0);
	assert_true(shows(&fix, "a b"));
	assert_int_equal(edit(&fix, "a", &s, 1000), ERR_INVALID);
	kube_store_put(fix.store, "a", NULL, "{'version':1}", NULL);
	for (int i = 0; i < 100 && edit(&fix, "a", &s, 1000) != 0; i++)
		api_nap(20);
	assert_true(says(&fix, "a", "\"message\":\"x\""));
}

/* The watch, as it would tell of this object. */
static void tell(struct fixture *f, const char *text)
{
	struct json j = {0};
	char *copy = NULL;

	assert_int_equal(json_read_copy(&j, text, strlen(text), 10000, &copy, &f->e), 0);
	servers_watch_app.change(f->s, KUBE_PUT, &j, json_root(&j));
	json_release(&j);
	free(copy);
}

static void tell_unreadable(struct fixture *f, const char *name, const char *version)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUServer\",\"metadata\":{"
		"\"name\":\"%s\",\"uid\":\"u\",\"resourceVersion\":\"%s\"},\"spec\":{},"
		"\"status\":{\"claims\":7}}",
		name, version);
	tell(f, text);
}

/* Versions decide about states that cannot be read, too: the newest is in force. */
TEST(test_unreadable_versions)
{
	struct say s = {.message = "x"};

	api_nap(200);
	assert_int_equal(edit(&fix, "a", &s, 1000), 0);
	tell_unreadable(&fix, "a", "1");
	assert_int_equal(edit(&fix, "a", &s, 1000), 0);
	tell_unreadable(&fix, "a", "1000000");
	assert_int_equal(edit(&fix, "a", &s, 1000), ERR_INVALID);
	/* A readable state, newer than what is held and older than that one. */
	kube_store_put(fix.store, "a", NULL, "{'version':1}", NULL);
	assert_int_equal(servers_refresh(fix.s, api_now_ms() + 2000, &fix.e), 0);
	tell_unreadable(&fix, "a", "1");
	assert_int_equal(edit(&fix, "a", &s, 1000), ERR_INVALID);
	tell_unreadable(&fix, "nobody", "1000000");
	assert_true(shows(&fix, "a b"));
}

/* Each event of a server that cannot be read has the same fault: it is told once, and when it comes
 * back. */
TEST(test_unreadable_is_told_once)
{
	char path[] = "/tmp/test_servers_XXXXXX", version[16], text[4096] = "", *good;
	struct fixture f;
	size_t lines = 0;
	int fd = mkstemp(path), null;

	assert_true(fd >= 0);
	(void)unlink(path);
	fixture_init(&f);
	null = f.log.fd;
	f.log.fd = fd;
	for (int i = 0; i < 10; i++) {
		(void)snprintf(version, sizeof(version), "%d", 1000000 + i);
		tell_unreadable(&f, i % 2 ? "a" : "b", version);
	}
	/* it could be read in between */
	good = kube_store_text(f.store, "a");
	tell(&f, good);
	free(good);
	tell_unreadable(&f, "a", "2000000");
	assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
	for (const char *at = text; (at = strstr(at, "cannot be read")); at++)
		lines++;
	assert_int_equal(lines, 3);
	f.log.fd = null;
	fixture_release(&f);
	(void)close(fd);
}

/* It says 500, or 429: it is asked again, but not as fast as it can say so. */
TEST(test_api_server_in_trouble)
{
	struct say s = {.message = "x"};

	kube_store_fault(fix.store, STORE_FAIL, "PUT", STATUS_OF("a"), 0, -1);
	assert_int_equal(edit(&fix, "a", &s, 1000), ERR_TIMEOUT);
	assert_in_range(api_seen_of(fix.api, "PUT", STATUS_OF("a")), 2, 11);
	kube_store_heal(fix.store);
	assert_int_equal(edit(&fix, "a", &s, 1000), 0);
}

/* There was no memory for a state, and then there is for the same one. */
TEST(test_unreadable_for_a_moment)
{
	struct say s = {.message = "x"};
	char *text, version[32];

	kube_store_hush(fix.store);
	kube_store_put(fix.store, "a", NULL, "{'version':1}", NULL);
	text = kube_store_text(fix.store, "a");
	assert_non_null(strstr(text, "\"resourceVersion\":\""));
	assert_int_equal(sscanf(strstr(text, "\"resourceVersion\":\""),
				 "\"resourceVersion\":\"%31[0-9]", version),
		1);
	free(text);
	tell_unreadable(&fix, "a", version);
	assert_int_equal(edit(&fix, "a", &s, 1000), ERR_INVALID);
	assert_int_equal(servers_refresh(fix.s, api_now_ms() + 2000, &fix.e), 0);
	assert_int_equal(edit(&fix, "a", &s, 1000), 0);
}

/* A commit's answer that nobody can read says so at once. */
TEST(test_unreadable_answer)
{
	struct say s = {.message = "x"};
	size_t asked;

	kube_store_hush(fix.store);
	kube_store_put(fix.store, "a", NULL, "{'claims':7}", NULL);
	assert_int_equal(edit(&fix, "a", &s, 1000), ERR_INVALID);
	asked = api_seen_count(fix.api);
	assert_int_equal(edit(&fix, "a", &s, 1000), ERR_INVALID);
	assert_int_equal(api_seen_count(fix.api), asked);
}

/* A list of the watch, and commits while it runs: what a commit brought is newer than the list; but
 * no commit keeps what is gone. */
TEST(test_list_and_commits)
{
	struct say s = {.message = "x"};
	char *b, version[32];

	kube_store_hush(fix.store);
	b = kube_store_text(fix.store, "b");
	(void)snprintf(
		version, sizeof(version), "%llu", (unsigned long long)servers_version(fix.s, "b"));
	/* The list was read at b's version; a was made later, as its commit shows. */
	servers_watch_app.listing(fix.s);
	assert_int_equal(edit(&fix, "a", &s, 1000), 0);
	tell(&fix, b);
	servers_watch_app.listed(fix.s, version);
	assert_true(shows(&fix, "a b"));
	assert_true(says(&fix, "a", "\"message\":\"x\""));
	s.message = "y";
	assert_int_equal(edit(&fix, "a", &s, 1000), 0);
	/* The list was read after a went, which was after the commit. */
	servers_watch_app.listing(fix.s);
	s.message = "z";
	assert_int_equal(edit(&fix, "a", &s, 1000), 0);
	kube_store_remove(fix.store, "a");
	tell(&fix, b);
	servers_watch_app.listed(fix.s, "1000000");
	assert_true(shows(&fix, "b"));
	free(b);
}

/* May claims be put on it, as far as is known? */
static bool is_open(struct fixture *f, const char *name)
{
	struct pool_view view;
	const struct gpu_server *server;
	struct arena a;
	bool open;

	arena_init(&a, 1u << 20);
	assert_int_equal(servers_view(f->s, false, &a, &view, &f->e), 0);
	server = inventory_server(&view.inventory, slice_of(name));
	assert_non_null(server);
	open = !server->drain;
	arena_release(&a);
	return open;
}

/* What the first page of a list shows may be a machine that a later page has under an older name.
 */
TEST(test_r15_half_a_list_is_hearsay)
{
	char *a, *b, *c;

	kube_store_hush(fix.store);
	kube_store_server(fix.store, "c", 1, 1000, "");
	a = kube_store_text(fix.store, "a");
	b = kube_store_text(fix.store, "b");
	c = kube_store_text(fix.store, "c");
	assert_true(is_open(&fix, "a"));
	servers_watch_app.listing(fix.s);
	tell(&fix, c);
	tell(&fix, a);
	assert_false(is_open(&fix, "c"));
	assert_true(is_open(&fix, "a"));  /* known before */
	servers_watch_app.listing(fix.s); /* begun anew, since its version was too old */
	tell(&fix, a);
	tell(&fix, b);
	tell(&fix, c);
	assert_false(is_open(&fix, "c"));
	servers_watch_app.listed(fix.s, "1000000");
	assert_true(is_open(&fix, "c"));
	assert_true(shows(&fix, "a b c"));
	free(a);
	free(b);
	free(c);
}

/* A list that the watch makes brings a server of which no review's list has told: a refusal rests
 * on the next one. What such a list has brought itself is believed when it is there. */
TEST(test_r15_hearsay_owes_a_list)
{
	uint64_t owed[3], lists;
	char *d;

	kube_store_hush(fix.store);
	kube_store_server(fix.store, "c", 1, 1000, "");
	assert_int_equal(servers_refresh(fix.s, api_now_ms() + 2000, &fix.e), 0);
	assert_true(is_open(&fix, "c"));
	kube_store_server(fix.store, "d", 1, 1000, "");
	d = kube_store_text(fix.store, "d");
	(void)pthread_mutex_lock(&fix.s->lock);
	owed[0] = fix.s->list_owed;
	(void)pthread_mutex_unlock(&fix.s->lock);
	servers_watch_app.listing(fix.s);
	tell(&fix, d);
	(void)pthread_mutex_lock(&fix.s->lock);
	owed[1] = fix.s->list_owed;
	lists = fix.s->lists[LIST_REVIEWS];
	(void)pthread_mutex_unlock(&fix.s->lock);
	assert_int_equal(lists, 1);
	assert_int_equal(owed[0], 0);
	assert_int_equal(owed[1], 2);
	assert_false(is_open(&fix, "d"));
	assert_int_equal(servers_refresh(fix.s, api_now_ms() + 2000, &fix.e), 0);
	assert_true(is_open(&fix, "d"));
	(void)pthread_mutex_lock(&fix.s->lock);
	owed[2] = fix.s->list_owed;
	(void)pthread_mutex_unlock(&fix.s->lock);
	assert_int_equal(owed[2], 2);
	free(d);
}

/* A list, made past every cache, has shown that c is gone: the watch may tell of it late. But not
 * when the watch has listed what is older than that list: then nobody knows. */
TEST(test_r16_a_list_of_the_watch_that_is_older)
{
	char *a = kube_store_text(fix.store, "a"), *b = kube_store_text(fix.store, "b"), *c;
	char version[32];

	kube_store_hush(fix.store);
	kube_store_server(fix.store, "c", 1, 1000, "");
	c = kube_store_text(fix.store, "c");
	kube_store_remove(fix.store, "c");
	assert_int_equal(servers_refresh(fix.s, api_now_ms() + 2000, &fix.e), 0);
	(void)pthread_mutex_lock(&fix.s->lock);
	(void)snprintf(version, sizeof(version), "%llu", (unsigned long long)fix.s->list_version);
	(void)pthread_mutex_unlock(&fix.s->lock);
	tell(&fix, c);
	assert_true(shows(&fix, "a b"));
	servers_watch_app.listing(fix.s);
	tell(&fix, a);
	tell(&fix, b);
	servers_watch_app.listed(fix.s, version);
	tell(&fix, c);
	assert_true(shows(&fix, "a b"));
	servers_watch_app.listing(fix.s);
	tell(&fix, a);
	tell(&fix, b);
	servers_watch_app.listed(fix.s, "1");
	tell(&fix, c);
	assert_true(shows(&fix, "a b c"));
	free(a);
	free(b);
	free(c);
}

static void *refresh(void *ret_rc)
{
	struct err e = {0};

	*(int *)ret_rc = servers_refresh(fix.s, api_now_ms() + 5000, &e);
	return NULL;
}

/* The first page of a list shows c, of which the watch tells while the second is on its way: what
 * the list brings is known by then, and it is good. */
TEST(test_what_a_list_shows_is_told_meanwhile)
{
	struct api_reply first = {.status = 200}, second = {.status = 200, .delay_ms = 500};
	char *a = kube_store_text(fix.store, "a"), *b = kube_store_text(fix.store, "b"), *c;
	size_t asked = api_seen_of(fix.api, "GET", STORE_SERVERS "?limit=*");
	int rc = ERR_INTERNAL;
	pthread_t thread;
	bool shown;

	kube_store_hush(fix.store);
	kube_store_server(fix.store, "c", 1, 1000, "");
	c = kube_store_text(fix.store, "c");
	api_text(&first, 200,
		"{\"metadata\":{\"resourceVersion\":\"1000000\",\"continue\":\"x\"},\"items\":[%s,%"
		"s]"
		"}",
		a, c);
	api_text(
		&second, 200, "{\"metadata\":{\"resourceVersion\":\"1000000\"},\"items\":[%s]}", b);
	api_expect_reply(fix.api, "GET", STORE_SERVERS "?limit=*", &first);
	api_expect_reply(fix.api, "GET", STORE_SERVERS "?limit=*", &second);
	assert_int_equal(pthread_create(&thread, NULL, refresh, &rc), 0);
	shown = api_wait(fix.api, "GET", STORE_SERVERS "?limit=*", asked + 2);
	tell(&fix, c);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(shown);
	assert_int_equal(rc, 0);
	/* once */
	assert_int_equal(api_seen_of(fix.api, "GET", STORE_SERVERS "?limit=*"), asked + 2);
	assert_true(shows(&fix, "a b c"));
	assert_true(is_open(&fix, "c"));
	free(a);
	free(b);
	free(c);
}

/* Of a text that is longer than any that is kept: that is said, for to read it once more would not
 * help; and the watch goes on. */
TEST(test_longer_than_any_that_is_kept)
{
	static const char begin[] =
		"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUServer\",\"metadata\":{"
		"\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"1000000\",\"labels\":{\"l\":\"";
	size_t size = 9u << 20;
	struct say s = {.message = "x"};
	struct json j = {0};
	char *text = malloc(size), *copy = NULL;

	assert_non_null(text);
	memset(text, 'x', size);
	memcpy(text, begin, sizeof(begin) - 1);
	(void)snprintf(text + size - 100, 100, "\"}},\"spec\":{},\"status\":{}}");
	assert_int_equal(json_read_copy(&j, text, strlen(text), 10000, &copy, &fix.e), 0);
	assert_null(held_read(&j, json_root(&j), &fix.e));
	assert_int_equal(fix.e.code, ERR_TOOBIG);
	assert_true(servers_watch_app.change(fix.s, KUBE_PUT, &j, json_root(&j)));
	assert_int_equal(edit(&fix, "a", &s, 1000), ERR_INVALID);
	json_release(&j);
	free(copy);
	free(text);
}

/* Memory was short when a place was put into the index: the next server that comes has it made
 * anew, of all. */
TEST(test_an_index_that_lacks_something)
{
	bool broken;

	(void)pthread_mutex_lock(&fix.s->lock);
	room_index_release(&fix.s->index);
	fix.s->index.broken = true;
	(void)pthread_mutex_unlock(&fix.s->lock);
	kube_store_server(fix.store, "c", 3, 8000, "");
	assert_true(shows(&fix, "a b c"));
	(void)pthread_mutex_lock(&fix.s->lock);
	broken = fix.s->index.broken;
	(void)pthread_mutex_unlock(&fix.s->lock);
	assert_false(broken);
}

TEST(test_refresh)
{
	kube_store_hush(fix.store);
	kube_store_remove(fix.store, "b");
	kube_store_server(fix.store, "c", 1, 1000, "");
	assert_int_equal(servers_refresh(fix.s, api_now_ms() + 2000, &fix.e), 0);
	assert_true(shows(&fix, "a c"));
	/* What the watch says of the past changes nothing. */
	kube_store_mute(fix.store, false);
	api_nap(200);
	assert_true(shows(&fix, "a c"));
	kube_store_fault(fix.store, STORE_FAIL, "GET", STORE_SERVERS, 0, 1);
	assert_int_equal(servers_refresh(fix.s, api_now_ms() + 2000, &fix.e), 0);
	kube_store_fault(fix.store, STORE_FAIL, "GET", STORE_SERVERS, 0, -1);
	assert_int_equal(servers_refresh(fix.s, api_now_ms() + 700, &fix.e), ERR_IO);
	kube_store_heal(fix.store);
	kube_store_fault(fix.store, STORE_SLOW, "GET", STORE_SERVERS, 600, 1);
	assert_int_equal(servers_refresh(fix.s, api_now_ms() + 300, &fix.e), ERR_TIMEOUT);
}

struct looking {
	const char *message;
	bool found;
};

static bool look_at_a(void *ctx, const struct server_object *o)
{
	struct looking *l = ctx;
	const struct condition *c = server_status_condition(&o->status, "Ready");

	if (strcmp(o->name, "a") == 0)
		l->found = c && strcmp(c->message, l->message) == 0;
	return true;
}

/* Is this what the picture holds of a? */
static bool picture_says(struct fixture *f, const char *message)
{
	struct looking l = {.message = message};

	servers_each(f->s, look_at_a, &l);
	return l.found;
}

/* The store with "old" in a's status, of which it is then robbed of "new" and of c. */
static void restore(struct fixture *f)
{
	struct say s = {.message = "old"};

	assert_int_equal(edit(f, "a", &s, 2000), 0);
	kube_store_backup(f->store);
	for (int i = 0; i < 20; i++) {
		s.message = i % 2 ? "new" : "newer";
		assert_int_equal(edit(f, "a", &s, 2000), 0);
	}
	kube_store_server(f->store, "c", 1, 1000, "");
	assert_true(shows(f, "a b c"));
	kube_store_restore(f->store);
}

/* Rule R16: the watch hears of it, lists, and believes the list though its versions are lower. */
TEST(test_restored_and_watched)
{
	struct say s = {.message = "after"};

	restore(&fix);
	assert_true(shows(&fix, "a b"));
	assert_true(picture_says(&fix, "old"));
	assert_int_equal(edit(&fix, "a", &s, 2000), 0);
	assert_true(says(&fix, "a", "after"));
	kube_store_server(fix.store, "d", 1, 1000, "");
	assert_true(shows(&fix, "a b d"));
}

/* The watch has not heard of it yet: a commit's conflict, and a review's list. */
TEST(test_restored_and_asked)
{
	struct say s = {.message = "after"};
	size_t asked;

	restore(&fix);
	asked = api_seen_of(fix.api, "PUT", "*");
	assert_int_equal(edit(&fix, "a", &s, 2000), 0);
	assert_true(says(&fix, "a", "after"));
	assert_true(api_seen_of(fix.api, "PUT", "*") - asked <= 2);
	assert_int_equal(servers_refresh(fix.s, api_now_ms() + 2000, &fix.e), 0);
	assert_true(shows(&fix, "a b"));
	assert_in_range(kube_restores(fix.kube), 1, 2);
	/* once it is known */
	asked = kube_restores(fix.kube);
	assert_int_equal(servers_refresh(fix.s, api_now_ms() + 2000, &fix.e), 0);
	assert_int_equal(kube_restores(fix.kube), asked);
}

/* The state of a server that this text shows. */
static struct held *read_held(struct fixture *f, const char *text)
{
	struct json j = {0};
	char *copy = NULL;
	struct held *h;

	assert_int_equal(json_read_copy(&j, text, strlen(text), 10000, &copy, &f->e), 0);
	h = held_read(&j, json_root(&j), &f->e);
	assert_non_null(h);
	json_release(&j);
	free(copy);
	return h;
}

/* What a commit meets is older than what was known: with it an older name of the machine may have
 * come back, of which a list tells. */
TEST(test_r15_what_a_restore_brings_back_is_hearsay)
{
	struct say s = {.message = "new"};
	struct held *h;
	char *before;

	before = kube_store_text(fix.store, "a");
	assert_int_equal(edit(&fix, "a", &s, 2000), 0);
	kube_store_hush(fix.store);
	assert_true(is_open(&fix, "a"));
	h = read_held(&fix, before);
	pthread_mutex_lock(&fix.s->lock);
	h->known = servers_find(fix.s, "a")->held->number;
	assert_true(h->number < h->known);
	assert_true(servers_put(fix.s, h));
	servers_forget(fix.s, "a");
	pthread_mutex_unlock(&fix.s->lock);
	assert_false(is_open(&fix, "a"));
	assert_int_equal(servers_refresh(fix.s, api_now_ms() + 2000, &fix.e), 0);
	assert_true(is_open(&fix, "a"));
	free(before);
}

#define HOLDS(uid, gpu)                                                                            \
	"{'uid':'" uid "','namespace':'n','name':'" uid "','state':'bound','plan':"                \
	"'0000000000000000','since':'2026-11-21T09:30:00Z','take':'00000000000000aa',"             \
	"'servers':['a'],'gpus':[{'id':'" gpu "','bytes':1000}]}"

/* The store's a from now on holds these claims, and so does the picture; as GET shows it. */
static char *holds(struct fixture *f, const char *claims)
{
	uint64_t before = servers_version(f->s, "a");

	kube_store_server(f->store, "a", 2, 16000, claims);
	for (int i = 0; i < 1000 && servers_version(f->s, "a") == before; i++)
		api_nap(5);
	assert_true(servers_version(f->s, "a") != before);
	return kube_store_text(f->store, "a");
}

/* A commit of ours meets this state of a, which nobody has shown. */
static void meet(struct fixture *f, const char *text)
{
	struct held *h = read_held(f, text);

	(void)pthread_mutex_lock(&f->s->lock);
	h->known = servers_find(f->s, "a")->held->number;
	assert_true(servers_put(f->s, h));
	(void)pthread_mutex_unlock(&f->s->lock);
}

/* What a refusal counts of a's GPU; and whether there may be more room than before. */
static uint64_t committed(struct fixture *f, size_t gpu, uint64_t *ret_room)
{
	uint64_t bytes;

	(void)pthread_mutex_lock(&f->s->lock);
	bytes = f->s->committed[f->s->inv.servers[servers_find(f->s, "a")->index].first_gpu + gpu];
	*ret_room = f->s->room;
	(void)pthread_mutex_unlock(&f->s->lock);
	return bytes;
}

/* After a restore what the watch shows counts as it comes, though its versions are lower than what
 * was shown before it. */
TEST(test_restored_and_shown)
{
	char *one = holds(&fix, HOLDS("u1", "gpu-0"));
	char *two = holds(&fix, HOLDS("u1", "gpu-0") "," HOLDS("u2", "gpu-1"));
	uint64_t room;

	free(holds(&fix, ""));
	kube_store_mute(fix.store, true);
	meet(&fix, two);
	assert_int_equal(committed(&fix, 0, &room), 0);
	tell(&fix, one);
	assert_int_equal(committed(&fix, 0, &room), 1000);
	assert_int_equal(committed(&fix, 1, &room), 0);
	tell(&fix, two);
	assert_int_equal(committed(&fix, 1, &room), 1000);
	free(one);
	free(two);
}

/* The state that a commit met is shown: where it takes less of a GPU than the one before, there may
 * be room for who is refused by what was shown. */
TEST(test_room_where_what_is_ahead_is_shown)
{
	char *one = holds(&fix, HOLDS("u1", "gpu-0")), *other;
	uint64_t before, after;

	kube_store_mute(fix.store, true);
	kube_store_server(fix.store, "a", 2, 16000, HOLDS("u2", "gpu-1"));
	other = kube_store_text(fix.store, "a");
	meet(&fix, other);
	assert_int_equal(committed(&fix, 0, &before), 1000);
	tell(&fix, other);
	assert_int_equal(committed(&fix, 0, &after), 0);
	assert_int_equal(committed(&fix, 1, &after), 1000);
	assert_true(after > before);
	free(one);
	free(other);
}

/* Conflicts that nothing explains are not answered by a storm. */
TEST(test_conflicts_without_news)
{
	struct say s = {.message = "x"};

	kube_store_fault(fix.store, STORE_CONFLICT, "PUT", STATUS_OF("a"), 0, -1);
	assert_int_equal(edit(&fix, "a", &s, 1000), ERR_TIMEOUT);
	assert_in_range(api_seen_of(fix.api, "PUT", STATUS_OF("a")), 2, 11);
	kube_store_heal(fix.store);
	assert_int_equal(edit(&fix, "a", &s, 1000), 0);
}

/* An edit in a thread, and how long it took. */
struct timed {
	struct fixture *f;
	pthread_t thread;
	const char *message;
	int patience_ms;
	int64_t took_ms;
	int rc;
};

static void *edit_timed(void *arg)
{
	struct timed *t = arg;
	struct say s = {.message = t->message};
	struct err e = {0};
	int64_t began = api_now_ms();

	t->rc = servers_edit(t->f->s, "a", say, &s, began + t->patience_ms, &e);
	t->took_ms = api_now_ms() - began;
	return NULL;
}

/* Nobody answers, and edits of different patience are written together: none waits for a more
 * patient one. */
TEST(test_patience)
{
	/* The first one keeps the others together; of those, anyone may be who writes, and writes
	 * again. */
	struct timed t[] = {{.message = "0", .patience_ms = 9000},
		{.message = "1", .patience_ms = 1000}, {.message = "2", .patience_ms = 1000},
		{.message = "3", .patience_ms = 1000}, {.message = "4", .patience_ms = 2500},
		{.message = "5", .patience_ms = 2500}, {.message = "6", .patience_ms = 4500},
		{.message = "7", .patience_ms = 4500}};

	kube_store_fault(fix.store, STORE_SLOW, "PUT", STATUS_OF("a"), 400, 1);
	kube_store_fault(fix.store, STORE_SLOW, "PUT", STATUS_OF("a"), 6000, -1);
	kube_store_fault(fix.store, STORE_SLOW, "GET", STORE_SERVERS "/a", 6000, -1);
	for (size_t i = 0; i < COUNT(t); i++) {
		t[i].f = &fix;
		assert_int_equal(pthread_create(&t[i].thread, NULL, edit_timed, &t[i]), 0);
		if (i == 0)
			assert_true(api_wait(fix.api, "PUT", STATUS_OF("a"), 1));
	}
	for (size_t i = 0; i < COUNT(t); i++)
		assert_int_equal(pthread_join(t[i].thread, NULL), 0);
	assert_int_equal(t[0].rc, 0);
	for (size_t i = 1; i < COUNT(t); i++) {
		assert_true(t[i].took_ms <= t[i].patience_ms + 1200);
		/* Who is the last one left, by some milliseconds, may find what was written with
		 * the others: his own. */
		if (t[i].rc == 0)
			continue;
		assert_int_equal(t[i].rc, ERR_TIMEOUT);
		assert_true(t[i].took_ms >= t[i].patience_ms);
	}
}

static void *hang(void *arg)
{
	struct fixture *f = arg;
	struct say s = {.message = "hanging"};
	struct err e = {0};

	assert_int_equal(servers_edit(f->s, "a", say, &s, api_now_ms() + 20000, &e), ERR_TIMEOUT);
	return NULL;
}

TEST(test_stop_ends_edits)
{
	pthread_t thread;
	int64_t began;

	kube_store_fault(fix.store, STORE_FAIL, "PUT", STATUS_OF("a"), 0, -1);
	assert_int_equal(pthread_create(&thread, NULL, hang, &fix), 0);
	assert_true(api_wait(fix.api, "PUT", STATUS_OF("a"), 1));
	began = api_now_ms();
	servers_stop(fix.s);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(api_now_ms() - began < 5000);
}

/* Where to look first is drawn for some time after a conflict, and then it is the first server
 * again. */
TEST(test_spread_ends)
{
	static const struct {
		int64_t in_ms;
		size_t first;
	} rows[] = {{60000, 1}, {-1, 0}};

	size_t before, first[COUNT(rows)];
	bool judged;

	(void)pthread_mutex_lock(&fix.s->lock);
	judged = servers_judge(fix.s);
	before = servers_usage(fix.s, true).first;
	fix.s->random = 1;
	for (size_t i = 0; i < COUNT(rows); i++) {
		fix.s->spread_until_ms = clock_ms() + rows[i].in_ms;
		first[i] = servers_usage(fix.s, true).first;
	}
	(void)pthread_mutex_unlock(&fix.s->lock);
	assert_true(judged);
	assert_int_equal(before, 0);
	for (size_t i = 0; i < COUNT(rows); i++)
		assert_int_equal(first[i], rows[i].first);
}

/* A server that has gone leaves a gap in the picture: the places behind it are as far back as
 * before. */
TEST(test_elsewhere_beside_a_gap)
{
	struct arena a;
	uint32_t *n_claims, b = 0, c = 0;
	size_t places, at = 0;

	kube_store_server(fix.store, "c", 1, 8000, "");
	assert_true(shows(&fix, "a b c"));
	kube_store_remove(fix.store, "a");
	assert_true(shows(&fix, "b c"));
	/* memory that says something else than what is written to it */
	arena_init(&a, 4096);
	memset(arena_space(&a, 1024, 1), 0xff, 1024);
	arena_reset(&a);
	(void)pthread_mutex_lock(&fix.s->lock);
	places = fix.s->inv.places;
	at = servers_find(fix.s, "c")->index;
	servers_contended(fix.s, servers_find(fix.s, "b"));
	n_claims = servers_elsewhere(fix.s, &a);
	if (n_claims) {
		b = n_claims[servers_find(fix.s, "b")->index];
		c = n_claims[at];
	}
	(void)pthread_mutex_unlock(&fix.s->lock);
	assert_int_equal(places, 3);
	assert_int_equal(at, 2);
	assert_non_null(n_claims);
	assert_int_equal(b, CLAIMS_PER_SERVER_MAX);
	assert_int_equal(c, 0);
	arena_release(&a);
}

TESTS_BETWEEN(set_up, tear_down, test_looks_that_end_edits, test_spread_ends,
	test_r15_hearsay_owes_a_list, test_r16_a_list_of_the_watch_that_is_older,
	test_what_a_list_shows_is_told_meanwhile, test_longer_than_any_that_is_kept,
	test_an_index_that_lacks_something, test_elsewhere_beside_a_gap, test_the_picture_follows,
	test_edits, test_edit_after_others, test_only_the_api_server_says_gone, test_edit_outcomes,
	test_unreadable, test_unreadable_versions, test_unreadable_is_told_once,
	test_api_server_in_trouble, test_unreadable_for_a_moment, test_unreadable_answer,
	test_list_and_commits, test_r15_half_a_list_is_hearsay, test_refresh,
	test_restored_and_watched, test_restored_and_asked, test_restored_and_shown,
	test_room_where_what_is_ahead_is_shown, test_r15_what_a_restore_brings_back_is_hearsay,
	test_conflicts_without_news, test_patience, test_stop_ends_edits)

/* SPDX-License-Identifier: Apache-2.0 */
/* kube/kube_lease: candidates over an API server with one Lease in it. Times are those of a
 * lease of one second. */
#include <pthread.h>
#include <stdatomic.h>

#include "kube/kube_lease.h"
#include "test/unit/api_fixture.h"
#include "test/unit/test.h"

#define PATH "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
#define DURATION_MS 1000
#define RENEW_MS 600
#define RETRY_MS 100
/* What a machine may add to a time, and what this one did: it may have other things to do, or stand
 * still. */
#define SLACK_MS 400
#define LATE_MS (SLACK_MS + atomic_load(&late_ms))

/* ---- how late this machine is ---- */

static _Atomic int64_t late_ms; /* the most in this test */
static atomic_bool measuring;
static pthread_t measurer;

static void *measure(void *arg)
{
	while (atomic_load(&measuring)) {
		int64_t begin = api_now_ms(), late;

		api_nap(5);
		late = api_now_ms() - begin - 5;
		if (late > atomic_load(&late_ms))
			atomic_store(&late_ms, late);
	}
	return arg;
}

/* False: it stood still for so long that nobody can say when anything was to happen. */
static bool steady(void)
{
	api_nap(20);
	return atomic_load(&late_ms) < SLACK_MS / 2;
}

/* ---- an API server with one Lease ---- */

struct fake {
	struct api *api;
	bool exists;
	int version;
	char *spec, *labels;
	/* How it behaves. */
	const char *away_for;  /* the token of a candidate whose calls get 503; "*": everybody's */
	const char *hangs_for; /* whose calls get no answer in time */
	int conflicts_of_10;   /* so many of ten writes find that somebody has just set a label */
	int cut_writes;        /* so many writes are carried out and not answered */
	int posts_left;        /* after so many POSTs everybody's calls get 503; 0: never */
	unsigned dice;
	int puts;
};

static void put_text(char **at, struct slice s)
{
	free(*at);
	*at = s.at ? strndup(s.at, s.len) : NULL;
}

static void answer(const struct fake *f, struct api_reply *reply, int status)
{
	api_text(reply, status,
		"{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/v1\",\"metadata\":{"
		"\"name\":\"l\",\"namespace\":\"ns\",\"uid\":\"u\",\"resourceVersion\":\"%d\"%s%s},"
		"\"spec\":%s}\n",
		f->version, f->labels ? ",\"labels\":" : "", f->labels ? f->labels : "", f->spec);
}

static void take_body(struct fake *f, const struct json *j)
{
	const struct json_node *root = json_root(j);

	put_text(&f->spec, json_raw(j, json_get(j, root, SLICE("spec"))));
	put_text(&f->labels, json_raw(j, json_path(j, root, "metadata", "labels", NULL)));
	f->exists = true;
	f->version++;
}

static void write_lease(struct fake *f, const struct api_request *req, struct api_reply *reply)
{
	bool put = strcmp(req->method, "PUT") == 0;
	struct json j = {0};
	struct err err = {0};
	char version[32];

	assert_int_equal(json_read(&j, req->body, req->body_len, 1000, &err), 0);
	assert_string_equal(req->content_type, "application/json");
	assert_string_equal(req->path, put ? PATH "/l" : PATH);
	f->dice = f->dice * 1664525u + 1013904223u;
	if (put && f->exists && (int)(f->dice >> 16) % 10 < f->conflicts_of_10)
		f->version++;
	(void)snprintf(version, sizeof(version), "%d", f->version);
	if (put && !f->exists)
		api_status(reply, 404, "NotFound", "no such lease");
	else if (!put && f->exists)
		api_status(reply, 409, "AlreadyExists", "there is one");
	else if (put &&
		 !json_is_str(&j, json_path(&j, json_root(&j), "metadata", "resourceVersion", NULL),
			 slice_of(version)))
		api_status(reply, 409, "Conflict", "somebody else wrote");
	else {
		take_body(f, &j);
		f->puts += put;
		if (f->cut_writes > 0) {
			f->cut_writes--;
			reply->cut = true;
		} else
			answer(f, reply, put ? 200 : 201);
	}
	json_release(&j);
}

static bool is_for(const char *who, const char *token)
{
	return who && (strcmp(who, "*") == 0 || strcmp(who, token) == 0);
}

static int handle(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	struct fake *f = ctx;

	if (is_for(f->away_for, req->token)) {
		api_status(reply, 503, "ServiceUnavailable", "away");
		return 0;
	}
	if (is_for(f->hangs_for, req->token))
		reply->delay_ms = 1500;
	if (strcmp(req->method, "GET") != 0)
		write_lease(f, req, reply);
	else if (f->exists)
		answer(f, reply, 200);
	else
		api_status(reply, 404, "NotFound", "no such lease");
	if (strcmp(req->method, "POST") == 0 && f->posts_left > 0 && --f->posts_left == 0)
		f->away_for = "*";
	return 0;
}

static struct fake *fake; /* of a test */

/* So is everybody (or the candidate with this token) served from now on: 503, no answer in time.
 * NULL: as they should be. */
static void go_away(const char *who)
{
	api_lock(fake->api);
	fake->away_for = who;
	api_unlock(fake->api);
}

static void hang(const char *who)
{
	api_lock(fake->api);
	fake->hangs_for = who;
	api_unlock(fake->api);
}

static void set_lease(const char *spec)
{
	api_lock(fake->api);
	put_text(&fake->spec, slice_of(spec));
	fake->exists = spec != NULL;
	fake->version++;
	api_unlock(fake->api);
}

/* A member of the spec as it is spelled; "" when there is none. */
static const char *spec_of(const char *key, char ret[static 128])
{
	struct json j = {0};
	struct err err = {0};
	char *copy;

	api_lock(fake->api);
	assert_non_null(fake->spec);
	assert_int_equal(json_read_copy(&j, fake->spec, strlen(fake->spec), 1000, &copy, &err), 0);
	api_unlock(fake->api);
	(void)snprintf(ret, 128, "%.*s",
		(int)json_raw(&j, json_get(&j, json_root(&j), slice_of(key))).len,
		json_get(&j, json_root(&j), slice_of(key))
			? json_raw(&j, json_get(&j, json_root(&j), slice_of(key))).at
			: "");
	free(copy);
	json_release(&j);
	return ret;
}

static void says(const char *key, const char *value)
{
	char text[128];

	if (strcmp(spec_of(key, text), value) != 0)
		fail_msg("%s is %s, expected %s", key, text, value);
}

/* ---- candidates ---- */

/* How many lead now, and the most that ever did. */
static atomic_int leaders, leaders_max;

struct candidate {
	char name[8];
	struct kube_config config;
	struct kube *kube;
	struct kube_lease *lease;
	atomic_bool leads;
	atomic_int gains, losses;
	_Atomic int64_t gained_ms, lost_ms;
};

static struct log quiet;

static void on_gained(void *ctx)
{
	struct candidate *c = ctx;
	int n = atomic_fetch_add(&leaders, 1) + 1, max = atomic_load(&leaders_max);

	while (n > max && !atomic_compare_exchange_weak(&leaders_max, &max, n))
		;
	atomic_store(&c->gained_ms, api_now_ms());
	atomic_fetch_add(&c->gains, 1);
	/* They alternate. */
	if (atomic_exchange(&c->leads, true))
		abort();
}

static void on_lost(void *ctx)
{
	struct candidate *c = ctx;

	if (!atomic_exchange(&c->leads, false))
		abort();
	atomic_store(&c->lost_ms, api_now_ms());
	atomic_fetch_add(&c->losses, 1);
	atomic_fetch_sub(&leaders, 1);
}

static void join(struct candidate *c, const char *name)
{
	struct err err = {0};
	struct kube_lease_config cfg = {.log = &quiet,
		.namespace = "ns",
		.name = "l",
		.gained = on_gained,
		.lost = on_lost,
		.ctx = c,
		.duration_s = DURATION_MS / 1000,
		.renew_ms = RENEW_MS,
		.retry_ms = RETRY_MS};

	memset(c, 0, sizeof(*c));
	(void)snprintf(c->name, sizeof(c->name), "%s", name);
	api_config(fake->api, &c->config);
	c->config.token = c->name;
	assert_int_equal(kube_new(&c->config, &c->kube, &err), 0);
	cfg.kube = c->kube;
	cfg.identity = c->name;
	c->lease = kube_lease_start(&cfg, &err);
	if (!c->lease)
		fail_msg("%s", err.msg);
}

static void leave(struct candidate *c)
{
	kube_lease_stop(c->lease);
	kube_free(c->kube);
	assert_false(atomic_load(&c->leads));
	assert_int_equal(atomic_load(&c->gains), atomic_load(&c->losses));
}

static bool leads_by(struct candidate *c, bool want, int64_t ms)
{
	int64_t end = api_now_ms() + ms;

	while (atomic_load(&c->leads) != want) {
		if (api_now_ms() > end)
			return false;
		api_nap(2);
	}
	return true;
}

#define LEADS(c) assert_true(leads_by(c, true, 5000))
#define LEADS_NOT(c) assert_true(leads_by(c, false, 5000))

static void lead(struct candidate *c, const char *name)
{
	join(c, name);
	LEADS(c);
}

FIXTURE(setup)
{
	log_init(&quiet, -1);
	atomic_store(&leaders, 0);
	atomic_store(&leaders_max, 0);
	atomic_store(&late_ms, 0);
	atomic_store(&measuring, true);
	if (pthread_create(&measurer, NULL, measure, NULL) != 0)
		return -1;
	fake = calloc(1, sizeof(*fake));
	assert_non_null(fake);
	fake->dice = 1;
	fake->api = api_start(handle, fake);
	return 0;
}

FIXTURE(teardown)
{
	atomic_store(&measuring, false);
	(void)pthread_join(measurer, NULL);
	api_stop(fake->api);
	free(fake->spec);
	free(fake->labels);
	free(fake);
	return 0;
}

/* ---- tests ---- */

TEST(alone)
{
	struct candidate a;
	char acquired[128], renewed[128], text[128];
	int64_t changed;

	lead(&a, "a");
	assert_true(kube_lease_held(a.lease));
	assert_int_equal(api_seen_of(fake->api, "POST", PATH), 1);
	says("holderIdentity", "\"a\"");
	says("leaseDurationSeconds", "1");
	says("leaseTransitions", "0");
	(void)spec_of("acquireTime", acquired);
	(void)spec_of("renewTime", renewed);
	assert_string_equal(acquired, renewed);
	assert_int_equal(strlen(acquired), strlen("\"2026-11-21T09:30:00.123456Z\""));
	changed = kube_lease_changed_ms(a.lease);
	assert_true(changed > 0);
	assert_true(api_wait(fake->api, "PUT", PATH "/l", 3));
	says("acquireTime", acquired);
	assert_string_not_equal(spec_of("renewTime", text), renewed);
	says("leaseTransitions", "0");
	assert_true(kube_lease_changed_ms(a.lease) > changed);
	/* Who leads knows the record: no GET between the writes. */
	assert_int_equal(api_seen_of(fake->api, "GET", "*"), 1);
	leave(&a);
	says("holderIdentity", "\"\"");
	says("leaseDurationSeconds", "1");
	says("leaseTransitions", "0");
	assert_int_equal(atomic_load(&a.gains), 1);
}

TEST(what_others_wrote_stays)
{
	struct candidate a;

	fake->labels = strdup("{\"team\":\"x\"}");
	set_lease("{\"holderIdentity\":\"\",\"leaseTransitions\":4,\"strategy\":\"S\"}");
	lead(&a, "a");
	says("leaseTransitions", "5");
	says("strategy", "\"S\"");
	leave(&a);
	assert_string_equal(fake->labels, "{\"team\":\"x\"}");
	says("strategy", "\"S\"");
}

TEST(released_to_the_next)
{
	struct candidate a, b;
	int64_t stopped;

	lead(&a, "a");
	join(&b, "b");
	api_nap(DURATION_MS + 300);
	assert_true(atomic_load(&a.leads));
	assert_false(atomic_load(&b.leads));
	assert_false(kube_lease_held(b.lease));
	assert_true(api_now_ms() - kube_lease_changed_ms(b.lease) < RENEW_MS);
	leave(&a);
	stopped = api_now_ms();
	LEADS(&b);
	/* Not only when a's time has passed. */
	assert_true(atomic_load(&b.gained_ms) - stopped < DURATION_MS - RETRY_MS);
	assert_true(atomic_load(&a.lost_ms) <= atomic_load(&b.gained_ms));
	says("leaseTransitions", "1");
	says("holderIdentity", "\"b\"");
	leave(&b);
	assert_int_equal(atomic_load(&leaders_max), 1);
}

/* A holder that is gone: its time runs from when we first saw its record, whatever times are in it.
 */
TEST(dead_holder)
{
	static const char *const renewed[] = {
		"1999-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"};

	for (int i = 0; i < 2; i++) {
		struct candidate a;
		char spec[256];
		int64_t start = api_now_ms(), took;

		(void)snprintf(spec, sizeof(spec),
			"{\"holderIdentity\":\"dead\",\"leaseDurationSeconds\":1,\"renewTime\":"
			"\"%s\",\"leaseTransitions\":2}",
			renewed[i]);
		set_lease(spec);
		lead(&a, "a");
		took = atomic_load(&a.gained_ms) - start;
		assert_true(took >= DURATION_MS);
		assert_true(took < DURATION_MS + LATE_MS);
		says("leaseTransitions", "3");
		leave(&a);
	}
}

TEST(a_longer_record_is_respected)
{
	struct candidate a;

	set_lease("{\"holderIdentity\":\"slow\",\"leaseDurationSeconds\":2}");
	join(&a, "a");
	api_nap(1600);
	assert_true(!atomic_load(&a.leads) || !steady());
	LEADS(&a);
	assert_true(atomic_load(&a.gained_ms) > 0);
	leave(&a);
}

/* The holder's calls fail, the other's do not. */
TEST(cannot_renew)
{
	struct candidate a, b;
	int64_t since;

	lead(&a, "a");
	join(&b, "b");
	api_nap(300);
	since = api_now_ms();
	go_away("a");
	LEADS_NOT(&a);
	assert_false(kube_lease_held(a.lease));
	if (steady())
		assert_in_range(atomic_load(&a.lost_ms) - since, RENEW_MS - RETRY_MS - SLACK_MS / 2,
			RENEW_MS + LATE_MS);
	LEADS(&b);
	assert_true(atomic_load(&b.gained_ms) >= atomic_load(&a.lost_ms));
	if (steady())
		assert_in_range(atomic_load(&b.gained_ms) - since,
			DURATION_MS - RETRY_MS - SLACK_MS / 2, DURATION_MS + LATE_MS);
	go_away(NULL);
	api_nap(500);
	assert_false(atomic_load(&a.leads));
	leave(&a);
	assert_true(atomic_load(&b.leads));
	leave(&b);
	assert_int_equal(atomic_load(&leaders_max), 1);
}

/* A call without an answer does not hold up lost(). */
TEST(hangs)
{
	struct candidate a;
	int64_t since;

	lead(&a, "a");
	since = api_now_ms();
	hang("a");
	LEADS_NOT(&a);
	assert_true(atomic_load(&a.lost_ms) - since < RENEW_MS + LATE_MS);
	hang(NULL);
	LEADS(&a);
	leave(&a);
}

/* An answer that comes later than we may lead by does not make us lead. */
TEST(too_late_to_lead)
{
	struct candidate a;

	fake->hangs_for = "a";
	join(&a, "a");
	api_nap(2500);
	assert_int_equal(atomic_load(&a.gains), 0);
	leave(&a);
}

TEST(written_but_not_answered)
{
	struct candidate a;

	/* The very first write, too. */
	fake->cut_writes = 1;
	lead(&a, "a");
	for (int i = 0; i < 3; i++) {
		api_lock(fake->api);
		fake->cut_writes = 2;
		api_unlock(fake->api);
		api_nap(400);
	}
	assert_true(atomic_load(&a.leads));
	assert_int_equal(atomic_load(&a.losses), 0);
	says("leaseTransitions", "0");
	leave(&a);
	says("holderIdentity", "\"\"");
}

/* Written, not answered, and then we end: it is given back all the same. The HTTP client asks a
 * second time when a connection that served before is cut, and the answer to that, a conflict, says
 * nothing about the first. */
TEST(unsure_at_the_end)
{
	for (int posts = 1; posts <= 2; posts++) {
		struct candidate a;
		size_t seen = api_seen_of(fake->api, "GET", PATH "/l");

		set_lease(NULL);
		api_lock(fake->api);
		fake->cut_writes = 1;
		fake->posts_left = posts;
		api_unlock(fake->api);
		join(&a, "a");
		/* The one before the POSTs, and the one that would have told. */
		assert_true(api_wait(fake->api, "GET", PATH "/l", seen + 2));
		assert_int_equal(api_seen_of(fake->api, "POST", PATH), 2 * posts);
		says("holderIdentity", "\"a\"");
		go_away(NULL);
		leave(&a);
		says("holderIdentity", "\"\"");
	}
}

/* Somebody has written a label since its last look: it is given back all the same. */
TEST(a_conflict_at_the_end)
{
	struct candidate a;

	lead(&a, "a");
	api_lock(fake->api);
	fake->version++;
	api_unlock(fake->api);
	leave(&a);
	says("holderIdentity", "\"\"");
}

TEST(deleted_under_the_holder)
{
	struct candidate a, b;

	lead(&a, "a");
	join(&b, "b");
	for (int i = 0; i < 5; i++) {
		api_nap(130);
		set_lease(NULL);
	}
	api_nap(300);
	assert_true(atomic_load(&a.leads));
	assert_int_equal(atomic_load(&a.losses), 0);
	assert_int_equal(atomic_load(&b.gains), 0);
	says("holderIdentity", "\"a\"");
	leave(&b);
	leave(&a);
}

TEST(taken_by_force)
{
	struct candidate a;
	int64_t since;

	lead(&a, "a");
	since = api_now_ms();
	set_lease("{\"holderIdentity\":\"you\",\"leaseDurationSeconds\":3600}");
	LEADS_NOT(&a);
	assert_true(atomic_load(&a.lost_ms) - since < RETRY_MS + LATE_MS);
	/* Another's lease is not ours to give back. */
	leave(&a);
	says("holderIdentity", "\"you\"");
}

TEST(conflict_storm)
{
	struct candidate c[3];
	int gains = 0;

	fake->conflicts_of_10 = 6;
	join(&c[0], "a");
	join(&c[1], "b");
	join(&c[2], "c");
	for (int i = 0; i < 12; i++) {
		int who = i % 3;
		char name[8];

		api_nap(350);
		/* Sometimes somebody goes and comes back, sometimes the API goes for a moment. */
		if (i % 2 == 0) {
			(void)snprintf(name, sizeof(name), "%s", c[who].name);
			leave(&c[who]);
			gains += atomic_load(&c[who].gains);
			join(&c[who], name);
		} else if (i % 5 == 0) {
			go_away(c[(who + 1) % 3].name);
		} else {
			go_away(NULL);
		}
	}
	api_lock(fake->api);
	fake->away_for = NULL;
	fake->conflicts_of_10 = 0;
	api_unlock(fake->api);
	api_nap(DURATION_MS + SLACK_MS);
	assert_int_equal(atomic_load(&leaders), 1);
	for (int i = 0; i < 3; i++) {
		gains += atomic_load(&c[i].gains);
		leave(&c[i]);
	}
	assert_true(gains >= 2);
	assert_int_equal(atomic_load(&leaders_max), 1);
}

TEST(away_at_the_start)
{
	struct candidate a;
	int64_t start;

	api_down(fake->api);
	join(&a, "a");
	api_nap(300);
	assert_int_equal(atomic_load(&a.gains), 0);
	assert_int_equal(kube_lease_changed_ms(a.lease), 0);
	api_up(fake->api);
	LEADS(&a);
	api_down(fake->api);
	LEADS_NOT(&a);
	start = api_now_ms();
	leave(&a);
	assert_true(api_now_ms() - start < 3500);
	api_up(fake->api);
}

TEST(ends_while_it_waits)
{
	struct candidate a;
	int64_t start;

	set_lease("{\"holderIdentity\":\"you\",\"leaseDurationSeconds\":3600}");
	join(&a, "a");
	assert_true(api_wait(fake->api, "GET", PATH "/l", 1));
	start = api_now_ms();
	leave(&a);
	assert_true(api_now_ms() - start < 1500);
	assert_int_equal(api_seen_of(fake->api, "PUT", "*"), 0);
	assert_int_equal(atomic_load(&a.gains), 0);
}

TEST(unreadable)
{
	struct candidate a;

	set_lease("{\"holderIdentity\":7}");
	join(&a, "a");
	assert_true(api_wait(fake->api, "GET", PATH "/l", 3));
	assert_int_equal(atomic_load(&a.gains), 0);
	assert_int_equal(api_seen_of(fake->api, "PUT", "*"), 0);
	set_lease("{}");
	LEADS(&a);
	leave(&a);
}

TEST(wrong_settings)
{
	struct kube_config config;
	struct kube *k;
	struct err err = {0};
	char longer[200];
	struct kube_lease_config good = {.log = &quiet,
		.namespace = "ns",
		.name = "l",
		.identity = "a",
		.gained = on_gained,
		.lost = on_lost};
	struct kube_lease_config c;

	api_config(fake->api, &config);
	assert_int_equal(kube_new(&config, &k, &err), 0);
	good.kube = k;
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		c = good;                                                                          \
		change;                                                                            \
		err_clear(&err);                                                                   \
		assert_null(kube_lease_start(&c, &err));                                           \
		assert_int_equal(err.code, ERR_INVALID);                                           \
	} while (0)
	REFUSED(c.namespace = "");
	REFUSED(c.name = "");
	REFUSED(c.identity = "");
	REFUSED(c.identity = longer);
	REFUSED(c.duration_s = 10);
	REFUSED(c.renew_ms = 2000);
	REFUSED(c.retry_ms = -1);
	kube_lease_stop(NULL);
	kube_free(k);
}

TESTS_BETWEEN(setup, teardown, alone, what_others_wrote_stays, released_to_the_next, dead_holder,
	a_longer_record_is_respected, cannot_renew, hangs, too_late_to_lead,
	written_but_not_answered, unsure_at_the_end, a_conflict_at_the_end,
	deleted_under_the_holder, taken_by_force, conflict_storm, away_at_the_start,
	ends_while_it_waits, unreadable, wrong_settings)

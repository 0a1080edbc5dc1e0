/* SPDX-License-Identifier: Apache-2.0 */
/* test: cluster/leader/leader: duties are started with a term and stopped with it, told of changes;
 * the rule for a lease that stands still. */
#include <pthread.h>
#include <stdatomic.h>

#include "test/unit/api_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/leader/leader.h"
#include "webhook/cluster/ledger/servers.h"
#include "webhook/edge/metrics/metrics.h"

#define LEASE "/apis/coordination.k8s.io/v1/namespaces/ns/leases"

/* ---- an API server that grants the lease to whoever writes, or not ---- */

struct fake {
	struct api *api;
	char *spec;
	int version;
	bool away;
};

static int handle(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	struct fake *f = ctx;
	struct json j = {0};
	struct err err = {0};

	if (strncmp(req->path, LEASE, strlen(LEASE)) != 0)
		return -1;
	if (f->away) {
		api_status(reply, 503, "ServiceUnavailable", "away");
		return 0;
	}
	if (strcmp(req->method, "GET") == 0 && !f->spec) {
		api_status(reply, 404, "NotFound", "no such lease");
		return 0;
	}
	if (strcmp(req->method, "GET") != 0) {
		struct slice spec, version;
		char now[32];

		if (json_read(&j, req->body, req->body_len, 1000, &err) != 0)
			abort();
		(void)snprintf(now, sizeof(now), "%d", f->version);
		version = json_inside(
			&j, json_path(&j, json_root(&j), "metadata", "resourceVersion", NULL));
		if (f->spec && !slice_is(version, now)) {
			api_status(reply, 409, "Conflict", "somebody else wrote");
			json_release(&j);
			return 0;
		}
		spec = json_raw(&j, json_get(&j, json_root(&j), SLICE("spec")));
		free(f->spec);
		f->spec = strndup(spec.at, spec.len);
		f->version++;
		json_release(&j);
	}
	api_text(reply, 200,
		"{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/v1\",\"metadata\":{"
		"\"name\":\"l\",\"namespace\":\"ns\",\"resourceVersion\":\"%d\"},\"spec\":%s}",
		f->version, f->spec);
	return 0;
}

static void set_away(struct fake *f, bool yes)
{
	api_lock(f->api);
	f->away = yes;
	api_unlock(f->api);
}

static void set_lease(struct fake *f, const char *spec)
{
	api_lock(f->api);
	free(f->spec);
	f->spec = strdup(spec);
	f->version++;
	api_unlock(f->api);
}

/* ---- duties that tell what became of them ---- */

#define EVENTS_MAX 200

struct happened {
	pthread_mutex_t lock;
	char events[EVENTS_MAX][16];
	int n;
};

struct toy {
	struct happened *log;
	char name;
	atomic_int fails; /* so many starts */
	atomic_int changes;
	atomic_int runs; /* 0 or 1 */
	int stop_ms;
};

static void happens(struct happened *h, char what, char who)
{
	(void)pthread_mutex_lock(&h->lock);
	if (h->n < EVENTS_MAX)
		(void)snprintf(h->events[h->n++], sizeof(h->events[0]), "%c%c", what, who);
	(void)pthread_mutex_unlock(&h->lock);
}

static int toy_start(void *ctx, void **ret, struct err *err)
{
	struct toy *t = ctx;

	if (atomic_load(&t->fails) > 0) {
		atomic_fetch_sub(&t->fails, 1);
		happens(t->log, '!', t->name);
		return err_set(err, ERR_NOMEM, "not today");
	}
	if (atomic_exchange(&t->runs, 1))
		abort();
	happens(t->log, '+', t->name);
	*ret = t;
	return 0;
}

static void toy_stop(void *running)
{
	struct toy *t = running;

	if (t->stop_ms)
		api_nap(t->stop_ms);
	if (!atomic_exchange(&t->runs, 0))
		abort();
	happens(t->log, '-', t->name);
}

static void toy_changed(void *running)
{
	struct toy *t = running;

	if (!atomic_load(&t->runs))
		abort();
	atomic_fetch_add(&t->changes, 1);
}

/* ---- a replica ---- */

static struct replica {
	struct fake fake;
	struct kube_config config;
	struct kube *kube;
	struct log log;
	struct metrics *metrics;
	struct servers *servers;
	struct happened happened;
	struct toy toy[3];
	struct leader_duty duties[3];
	struct leader *leader;
} r;

/* Its probe has said a moment ago that its GPU is well. */
static void see_server(struct servers *servers)
{
	static const char text[] =
		"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUServer\",\"metadata\":"
		"{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"1\"},\"spec\":{\"address\":"
		"\"10.0.0.1:56001\",\"probe\":{\"url\":\"https://10.0.0.1:9443\"}},\"status\":"
		"{\"version\":1,\"gpus\":[{\"id\":\"gpu-0\",\"model\":\"V100\",\"memory\":"
		"16000000000,\"fit\":true}],\"conditions\":[{\"type\":\"Fresh\",\"status\":"
		"\"True\"}]}}";
	struct err err = {0};
	struct json j = {0};
	char *copy = NULL;

	assert_int_equal(json_read_copy(&j, text, sizeof(text) - 1, 10000, &copy, &err), 0);
	servers_watch_app.listing(servers);
	servers_watch_app.change(servers, KUBE_PUT, &j, json_root(&j));
	servers_watch_app.listed(servers, "1");
	json_release(&j);
	free(copy);
}

FIXTURE(setup)
{
	struct err err = {0};

	r = (struct replica){0};
	r.fake.api = api_start(handle, &r.fake);
	api_config(r.fake.api, &r.config);
	assert_int_equal(kube_new(&r.config, &r.kube, &err), 0);
	log_init(&r.log, -1);
	r.metrics = metrics_new(metric_table, M_COUNT);
	r.servers = servers_new(r.kube, &r.log, r.metrics, &err);
	assert_non_null(r.servers);
	see_server(r.servers);
	(void)pthread_mutex_init(&r.happened.lock, NULL);
	for (int i = 0; i < 3; i++) {
		r.toy[i].log = &r.happened;
		r.toy[i].name = (char)('a' + i);
		r.duties[i] = (struct leader_duty){.name = "toy",
			.start = toy_start,
			.stop = toy_stop,
			/* One of them does not want to know. */
			.servers_changed = i == 1 ? NULL : toy_changed,
			.ctx = &r.toy[i]};
	}
	return 0;
}

FIXTURE(teardown)
{
	leader_stop(r.leader);
	servers_stop(r.servers);
	servers_free(r.servers);
	kube_free(r.kube);
	metrics_free(r.metrics);
	api_stop(r.fake.api);
	free(r.fake.spec);
	(void)pthread_mutex_destroy(&r.happened.lock);
	return 0;
}

static void begin(void)
{
	struct err err = {0};
	struct leader_config cfg = {.kube = r.kube,
		.log = &r.log,
		.metrics = r.metrics,
		.servers = r.servers,
		.namespace = "ns",
		.lease = "l",
		.identity = "me",
		.duties = r.duties,
		.n_duties = 3,
		.duration_s = 1,
		.renew_ms = 500,
		.retry_ms = 50,
		.leaderless_ms = 1500};

	r.leader = leader_start(&cfg, &err);
	if (!r.leader)
		fail_msg("%s", err.msg);
}

static void end(void)
{
	leader_stop(r.leader);
	r.leader = NULL;
}

static const char *events(char ret[static 1024])
{
	size_t at = 0;

	ret[0] = '\0';
	(void)pthread_mutex_lock(&r.happened.lock);
	for (int i = 0; i < r.happened.n; i++)
		at += (size_t)snprintf(ret + at, 1024 - at, "%s", r.happened.events[i]);
	(void)pthread_mutex_unlock(&r.happened.lock);
	return ret;
}

static bool happened(const char *want)
{
	char text[1024];

	for (int i = 0; i < 1500; i++, api_nap(2))
		if (strcmp(events(text), want) == 0)
			return true;
	print_error("%s, not %s\n", text, want);
	return false;
}

/* What a probe has said counts while somebody leads. */
static bool leaderless(void)
{
	struct pool_view view;
	struct err err = {0};
	struct arena a;
	bool yes;

	arena_init(&a, 1u << 20);
	assert_int_equal(servers_view(r.servers, false, &a, &view, &err), 0);
	assert_int_equal(view.inventory.n_servers, 1);
	yes = !view.inventory.servers[0].gpus[0].fresh;
	arena_release(&a);
	return yes;
}

static bool leaderless_by(bool want)
{
	for (int i = 0; i < 2000; i++, api_nap(2))
		if (leaderless() == want)
			return true;
	return false;
}

/* ---- tests ---- */

TEST(a_whole_term)
{
	begin();
	assert_true(happened("+a+b+c"));
	assert_true(leader_is(r.leader));
	assert_int_equal(metric_value(r.metrics, M_LEADER, 0, 0), 1);
	assert_int_equal(metric_value(r.metrics, M_LEADER_CHANGES, 0, 0), 1);
	api_nap(300);
	assert_true(happened("+a+b+c"));
	end();
	assert_true(happened("+a+b+c-c-b-a"));
	assert_int_equal(metric_value(r.metrics, M_LEADER, 0, 0), 0);
	assert_int_equal(metric_value(r.metrics, M_LEADER_CHANGES, 0, 0), 2);
	/* Given back. */
	assert_non_null(strstr(r.fake.spec, "\"holderIdentity\":\"\""));
}

/* The lease is held until the last duty has stopped. */
TEST(stopped_before_the_lease_is_given_back)
{
	size_t before;

	r.toy[0].stop_ms = 400;
	begin();
	assert_true(happened("+a+b+c"));
	before = api_seen_of(r.fake.api, "PUT", "*");
	end();
	/* Renewed meanwhile, and once more to give it back. */
	assert_true(api_seen_of(r.fake.api, "PUT", "*") - before >= 4);
	assert_non_null(strstr(r.fake.spec, "\"holderIdentity\":\"\""));
}

TEST(lost_and_gained_again)
{
	begin();
	assert_true(happened("+a+b+c"));
	set_away(&r.fake, true);
	assert_true(happened("+a+b+c-c-b-a"));
	assert_false(leader_is(r.leader));
	assert_int_equal(metric_value(r.metrics, M_LEADER, 0, 0), 0);
	set_away(&r.fake, false);
	assert_true(happened("+a+b+c-c-b-a+a+b+c"));
	assert_int_equal(metric_value(r.metrics, M_LEADER, 0, 0), 1);
	assert_int_equal(metric_value(r.metrics, M_LEADER_CHANGES, 0, 0), 3);
}

/* A term that ended and began while a duty was stopped slowly: everything begins anew. */
TEST(two_turns_while_busy)
{
	r.toy[2].stop_ms = 700;
	begin();
	assert_true(happened("+a+b+c"));
	set_lease(&r.fake, "{\"holderIdentity\":\"you\",\"leaseDurationSeconds\":3600}");
	api_nap(200);
	/* c is being stopped now. */
	set_lease(&r.fake, "{\"holderIdentity\":\"\"}");
	assert_true(happened("+a+b+c-c-b-a+a+b+c"));
}

TEST(a_duty_that_does_not_start)
{
	atomic_store(&r.toy[1].fails, 2);
	begin();
	/* The others need not wait for it. */
	assert_true(happened("+a!b+c"));
	assert_true(happened("+a!b+c!b+b"));
	end();
	assert_true(happened("+a!b+c!b+b-c-b-a"));
}

TEST(never_started_never_stopped)
{
	atomic_store(&r.toy[0].fails, 1000);
	begin();
	assert_true(happened("!a+b+c"));
	end();
	assert_true(happened("!a+b+c-c-b"));
}

TEST(another_leads)
{
	set_lease(&r.fake, "{\"holderIdentity\":\"you\",\"leaseDurationSeconds\":3600}");
	begin();
	assert_true(api_wait(r.fake.api, "GET", "*", 3));
	leader_servers_changed(r.leader);
	end();
	assert_true(happened(""));
	assert_int_equal(metric_value(r.metrics, M_LEADER_CHANGES, 0, 0), 0);
}

TEST(told_of_changes)
{
	int a, c;

	begin();
	assert_true(happened("+a+b+c"));
	api_nap(50);
	/* Once after the start. */
	a = atomic_load(&r.toy[0].changes);
	c = atomic_load(&r.toy[2].changes);
	assert_int_equal(a, 1);
	assert_int_equal(c, 1);
	for (int i = 0; i < 10; i++)
		leader_servers_changed(r.leader);
	assert_int_equal(atomic_load(&r.toy[0].changes), 11);
	assert_int_equal(atomic_load(&r.toy[2].changes), 11);
	assert_int_equal(atomic_load(&r.toy[1].changes), 0);
}

struct teller {
	struct leader *leader;
	atomic_bool ends;
};

static void *tell(void *arg)
{
	struct teller *t = arg;

	while (!atomic_load(&t->ends)) {
		leader_servers_changed(t->leader);
		api_nap(1);
	}
	return NULL;
}

/* toy_changed aborts when its duty does not run. */
TEST(told_while_terms_change)
{
	struct teller t = {0};
	pthread_t thread;

	begin();
	t.leader = r.leader;
	assert_int_equal(pthread_create(&thread, NULL, tell, &t), 0);
	for (int i = 0; i < 6; i++) {
		set_lease(&r.fake, "{\"holderIdentity\":\"you\"}");
		api_nap(120);
		set_lease(&r.fake, "{\"holderIdentity\":\"\"}");
		api_nap(120);
	}
	atomic_store(&t.ends, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(metric_value(r.metrics, M_LEADER_CHANGES, 0, 0) >= 6);
}

TEST(a_lease_that_stands_still)
{
	int64_t start = api_now_ms();

	/* A holder that is never seen to renew, and whose time is long. */
	set_lease(&r.fake, "{\"holderIdentity\":\"you\",\"leaseDurationSeconds\":3600}");
	begin();
	assert_false(leaderless());
	assert_true(leaderless_by(true));
	assert_true(api_now_ms() - start >= 1500);
	/* It shows life. */
	set_lease(&r.fake, "{\"holderIdentity\":\"you\",\"leaseDurationSeconds\":3599}");
	assert_true(leaderless_by(false));
	/* And falls silent again. */
	assert_true(leaderless_by(true));
	/* Nobody holds it: we lead, and renew. */
	set_lease(&r.fake, "{\"holderIdentity\":\"\"}");
	assert_true(leaderless_by(false));
	api_nap(2000);
	assert_false(leaderless());
}

TEST(an_api_that_is_away_is_no_sign_of_life)
{
	set_away(&r.fake, true);
	begin();
	assert_false(leaderless());
	assert_true(leaderless_by(true));
	set_away(&r.fake, false);
	assert_true(leaderless_by(false));
}

TEST(wrong_settings)
{
	struct err err = {0};
	struct leader_config cfg = {.kube = r.kube,
		.log = &r.log,
		.metrics = r.metrics,
		.servers = r.servers,
		.namespace = "ns",
		.lease = "l",
		.identity = ""};

	assert_null(leader_start(&cfg, &err));
	assert_int_equal(err.code, ERR_INVALID);
	leader_stop(NULL);
}

TESTS_BETWEEN(setup, teardown, a_whole_term, stopped_before_the_lease_is_given_back,
	lost_and_gained_again, two_turns_while_busy, a_duty_that_does_not_start,
	never_started_never_stopped, another_leads, told_of_changes, told_while_terms_change,
	a_lease_that_stands_still, an_api_that_is_away_is_no_sign_of_life, wrong_settings)

/* SPDX-License-Identifier: Apache-2.0 */
/* test: pods on an API server of their own, and the duty that keeps claims true. */
#include "test/unit/claims_api.h"

#include "base/text.h"
#include "test/unit/core_fixture.h"
#include "test/unit/test.h"
#include "webhook/cluster/claims/pods.h"

#define ONE_POD "/api/v1/namespaces/n/pods/"
#define ONE_JOB "/apis/batch/v1/namespaces/n/jobs/"
#define ALL_PODS "/api/v1/pods?"

/* ---- with the lock held ---- */

static struct pods_api_pod *find(struct claims_api *c, const char *uid)
{
	for (size_t i = 0; i < PODS_API_MAX; i++)
		if (c->pod[i].there && strcmp(c->pod[i].uid, uid) == 0)
			return &c->pod[i];
	return NULL;
}

static void show(const struct pods_api_pod *p, struct buf *out)
{
	buf_fmt(out,
		"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\","
		"\"namespace\":"
		"\"%c\",\"uid\":\"%s\",\"resourceVersion\":\"%u\","
		"\"creationTimestamp\":\"2026-11-21T09:%02u:00Z\"",
		p->name, p->namespace ? p->namespace : 'n', p->uid, p->version, p->born);
	if (p->kueue)
		buf_str(out, ",\"labels\":{\"kueue.x-k8s.io/queue-name\":\"q\"}");
	if (p->deleting)
		buf_fmt(out,
			",\"deletionTimestamp\":\"2026-11-21T09:30:00Z\","
			"\"deletionGracePeriodSeconds\":%u",
			p->grace);
	if (p->owner)
		buf_fmt(out, ",\"ownerReferences\":[%s]", p->owner);
	if (p->plan) {
		buf_str(out, ",\"annotations\":{\"poolgate.io/plan\":");
		buf_json_str(out, slice_of(p->plan));
		if (strstr(p->plan, "\"gang\":"))
			buf_str(out, ",\"poolgate.io/gang\":\"as in the "
				     "plan\",\"poolgate.io/gang-size\":\"too\"");
		if (p->place)
			buf_fmt(out, ",\"poolgate.io/place\":\"%s\"", p->place);
		if (*p->since)
			buf_fmt(out, ",\"poolgate.io/queued-since\":\"%s\"", p->since);
		buf_char(out, '}');
	}
	buf_fmt(out, "},\"spec\":{%s%s},\"status\":{\"phase\":\"%s\"%s%s}}",
		p->placed ? "\"nodeName\":\"node-1\"" : "",
		p->gated ? p->foreign ? "\"schedulingGates\":[{\"name\":\"x.io/y\"},{\"name\":"
					"\"poolgate.io/capacity\"}]"
				      : "\"schedulingGates\":[{\"name\":\"poolgate.io/capacity\"}]"
			 : "",
		p->phase, p->said ? "," : "", p->said ? p->said : "");
}

static void event(struct claims_api *c, struct pods_api_pod *p, const char *type)
{
	struct buf b;

	p->version = ++c->version;
	buf_init(&b, 1 << 20);
	buf_fmt(&b, "{\"type\":\"%s\",\"object\":", type);
	show(p, &b);
	buf_str(&b, "}\n");
	api_push(c->api, ALL_PODS "*", b.data);
	buf_release(&b);
}

static void list(struct claims_api *c, struct api_reply *reply)
{
	struct buf b;
	bool first = true;

	buf_init(&b, 1 << 20);
	buf_fmt(&b, "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"%u\"},\"items\":[",
		c->version);
	for (size_t i = 0; i < PODS_API_MAX; i++) {
		if (!c->pod[i].there || !c->pod[i].labelled)
			continue;
		if (!first)
			buf_char(&b, ',');
		first = false;
		show(&c->pod[i], &b);
	}
	buf_str(&b, "]}");
	api_text(reply, 200, "%s", b.data);
	buf_release(&b);
}

static void watch(struct claims_api *c, const char *path, struct api_reply *reply)
{
	const char *from = strstr(path, "resourceVersion=");
	unsigned long version = from ? strtoul(from + strlen("resourceVersion="), NULL, 10) : 0;
	struct buf b;

	buf_init(&b, 1 << 20);
	for (size_t i = 0; i < PODS_API_MAX; i++)
		if (c->pod[i].there && c->pod[i].labelled && c->pod[i].version > version) {
			buf_str(&b, "{\"type\":\"MODIFIED\",\"object\":");
			show(&c->pod[i], &b);
			buf_str(&b, "}\n");
		}
	reply->stream = true;
	reply->body = b.len > 0 ? strdup(b.data) : NULL;
	buf_release(&b);
}

static void get(struct claims_api *c, const char *name, struct api_reply *reply)
{
	void (*between)(struct claims_api *) = c->between;
	struct buf b;

	buf_init(&b, 1 << 20);
	for (size_t i = 0; i < PODS_API_MAX && b.len == 0; i++)
		if (c->pod[i].there && strcmp(c->pod[i].name, name) == 0)
			show(&c->pod[i], &b);
	if (c->get_status && !(c->get_true && strcmp(name, c->get_true) == 0))
		api_status(reply, c->get_status, "InternalError", "not now");
	else if (b.len == 0)
		api_status(reply, 404, "NotFound", "no such pod");
	else
		api_text(reply, 200, "%s", b.data);
	buf_release(&b);
	c->between = NULL;
	if (between)
		between(c);
}

/* The patch that brings a place, which holds only for this pod and while its gate stands. */
static void write_place(
	struct claims_api *c, const struct api_request *req, struct api_reply *reply)
{
	const char *name = req->path + strlen(ONE_POD);
	struct pods_api_pod *p = NULL;
	char uid[128];

	for (size_t i = 0; i < PODS_API_MAX; i++)
		if (c->pod[i].there && strcmp(c->pod[i].name, name) == 0)
			p = &c->pod[i];
	if (c->fate == PLACE_REFUSED)
		api_status(reply, 403, "Forbidden", "not you");
	else if (c->fate == PLACE_NOT_WRITTEN || (c->places_max && c->places >= c->places_max))
		api_status(reply, 500, "InternalError", "not now");
	else if (!p)
		api_status(reply, 404, "NotFound", "no such pod");
	else {
		snprintf(uid, sizeof(uid), "\"path\":\"/metadata/uid\",\"value\":\"%s\"", p->uid);
		if (!p->gated || !strstr(req->body, uid) ||
			strcmp(req->content_type, KUBE_JSON_PATCH) != 0)
			api_status(reply, 422, "Invalid", "the test failed");
		else {
			p->gated = false;
			c->places++;
			event(c, p, "MODIFIED");
			if (c->fate == PLACE_NOT_HEARD)
				api_status(reply, 500, "InternalError", "not now");
			else
				api_text(reply, 200, "{}");
		}
	}
}

/* {"metadata":{"uid":…,"resourceVersion":…,"annotations":{…}}}: for this state of this pod alone.
 */
static void write_since(
	struct claims_api *c, const struct api_request *req, struct api_reply *reply)
{
	const char *name = req->path + strlen(ONE_POD);
	char head[256];

	for (size_t i = 0; i < PODS_API_MAX; i++) {
		struct pods_api_pod *p = &c->pod[i];

		if (!p->there || strcmp(p->name, name) != 0)
			continue;
		snprintf(head, sizeof(head),
			"{\"metadata\":{\"uid\":\"%s\",\"resourceVersion\":\"%u\",\"annotations\":{"
			"\"poolgate.io/queued-since\":\"",
			p->uid, p->version);
		if (strncmp(req->body, head, strlen(head)) != 0) {
			api_status(reply, 409, "Conflict", "another state");
			return;
		}
		snprintf(p->since, sizeof(p->since), "%.20s", req->body + strlen(head));
		c->marked++;
		event(c, p, "MODIFIED");
		api_text(reply, 200, "{}");
		return;
	}
	api_status(reply, 404, "NotFound", "no such pod");
}

/* {"metadata":{"uid":…},"status":{"conditions":[…]}}: for this pod alone. */
static void write_condition(
	struct claims_api *c, const struct api_request *req, struct api_reply *reply)
{
	size_t len = strlen(req->path) - strlen("/status");
	const char *list = strstr(req->body, "\"conditions\":[{");
	char uid[128];

	for (size_t i = 0; i < PODS_API_MAX; i++) {
		struct pods_api_pod *p = &c->pod[i];

		if (!p->there || strlen(p->name) + strlen(ONE_POD) != len ||
			strncmp(req->path + strlen(ONE_POD), p->name, strlen(p->name)) != 0)
			continue;
		snprintf(uid, sizeof(uid), "{\"metadata\":{\"uid\":\"%s\"},", p->uid);
		if (strncmp(req->body, uid, strlen(uid)) != 0 || !list ||
			strcmp(req->content_type, KUBE_STRATEGIC_PATCH) != 0) {
			api_status(reply, 409, "Conflict", "another pod");
			return;
		}
		free(p->said);
		p->said = strndup(list, strlen(list) - 2);
		c->told++;
		event(c, p, "MODIFIED");
		api_text(reply, 200, "{}");
		return;
	}
	api_status(reply, 404, "NotFound", "no such pod");
}

/* As the API server evicts a pod that has not started: at once, where it is the one that was read.
 */
static void evict(struct claims_api *c, const struct api_request *req, struct api_reply *reply)
{
	size_t len = strlen(req->path) - strlen("/eviction");
	struct pods_api_pod *p = NULL;
	char read[256];

	for (size_t i = 0; i < PODS_API_MAX; i++)
		if (c->pod[i].there && strlen(c->pod[i].name) + strlen(ONE_POD) == len &&
			strncmp(req->path + strlen(ONE_POD), c->pod[i].name,
				strlen(c->pod[i].name)) == 0)
			p = &c->pod[i];
	if (c->evict_status) {
		api_status(reply, c->evict_status,
			c->evict_status == 404 ? "NotFound" : "TooManyRequests", "not now");
		return;
	}
	if (!p) {
		api_status(reply, 404, "NotFound", "no such pod");
		return;
	}
	snprintf(read, sizeof(read),
		"\"preconditions\":{\"uid\":\"%s\",\"resourceVersion\":\"%u\"}", p->uid,
		p->version);
	if (!strstr(req->body, read)) {
		api_status(reply, 409, "Conflict", "another pod");
		return;
	}
	event(c, p, "DELETED");
	p->there = false;
	c->evicted++;
	api_text(reply, 201, "{}");
}

static void get_job(struct claims_api *c, const char *name, struct api_reply *reply)
{
	for (size_t i = 0; i < PODS_API_JOBS; i++)
		if (c->job[i].name && strcmp(c->job[i].name, name) == 0) {
			api_text(reply, 200, "%s", c->job[i].text);
			return;
		}
	api_status(reply, 404, "NotFound", "no such Job");
}

/* Its namespace may be any letter. */
static bool is_one_pod(const char *path)
{
	size_t at = strlen("/api/v1/namespaces/");

	return strlen(path) > at && strncmp(path, ONE_POD, at) == 0 &&
	       strncmp(path + at + 1, ONE_POD + at + 1, strlen(ONE_POD) - at - 1) == 0;
}

static int handle(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	struct claims_api *c = ctx;

	if (strcmp(req->method, "POST") == 0 && strstr(req->path, "/eviction")) {
		evict(c, req, reply);
		return 0;
	}
	if (strncmp(req->path, ONE_JOB, strlen(ONE_JOB)) == 0) {
		get_job(c, req->path + strlen(ONE_JOB), reply);
		return 0;
	}
	if (strcmp(req->method, "POST") == 0) {
		api_text(reply, 201, "{}");
		return 0;
	}
	if (strcmp(req->method, "PATCH") == 0)
		reply->delay_ms = c->patch_ms;
	if (strcmp(req->method, "PATCH") == 0 && strstr(req->path, "/status"))
		write_condition(c, req, reply);
	else if (strcmp(req->method, "PATCH") == 0 &&
		 strcmp(req->content_type, KUBE_MERGE_PATCH) == 0)
		write_since(c, req, reply);
	else if (strcmp(req->method, "PATCH") == 0)
		write_place(c, req, reply);
	else if (is_one_pod(req->path))
		get(c, req->path + strlen(ONE_POD), reply);
	else if (strncmp(req->path, PODS_PATH, strlen(PODS_PATH)) != 0)
		return 1;
	else if (strstr(req->path, "watch="))
		watch(c, req->path, reply);
	else
		list(c, reply);
	return 0;
}

/* ---- what tests call ---- */

struct claims_api *claims_api_new(void)
{
	struct claims_api *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	c->version = 100;
	c->pool = pool_api_new();
	c->api = api_start(handle, c);
	api_config(c->api, &c->config);
	assert_int_equal(kube_new(&c->config, &c->kube, NULL), 0);
	c->cfg = (struct claims_config){.kube = c->kube,
		.servers = c->pool->servers,
		.log = &c->pool->log,
		.metrics = c->pool->metrics,
		.pending_ms = PENDING_MS,
		.ask_ms = ASK_MS,
		.retry_ms = 100,
		.bind_every_ms = 300,
		.margin_ms = 1,
		.grace_ms = 1,
		.adopt_after_ms = ADOPT_AFTER_MS,
		.adopt_again_ms = 400,
		.lost_after_ms = LOST_AFTER_MS};
	return c;
}

void claims_api_run(struct claims_api *c)
{
	pool_api_run(c->pool, claims_duty(&c->cfg));
	assert_true(api_wait_streams(c->api, ALL_PODS "*", 1));
	assert_true(api_wait_streams(c->pool->api, SERVERS_PATH "*", 1));
}

void claims_api_end_leader(struct claims_api *c)
{
	struct pool_api *p = c->pool;
	void *last;

	api_lock(p->api);
	last = p->running;
	p->running = NULL;
	api_unlock(p->api);
	p->duty.stop(last);
}

void claims_api_next_leader(struct claims_api *c)
{
	struct pool_api *p = c->pool;
	void *next = NULL;

	claims_api_end_leader(c);
	assert_int_equal(p->duty.start(p->duty.ctx, &next, NULL), 0);
	api_lock(p->api);
	p->running = next;
	api_unlock(p->api);
}

void claims_api_free(struct claims_api *c)
{
	pool_api_free(c->pool);
	kube_free(c->kube);
	api_stop(c->api);
	for (size_t i = 0; i < PODS_API_MAX; i++) {
		free(c->pod[i].name);
		free(c->pod[i].uid);
		free(c->pod[i].plan);
		free(c->pod[i].said);
	}
	free(c);
}

struct claims_api *api;

int claims_api_begin(void **state __attribute__((unused)))
{
	api = claims_api_new();
	return 0;
}

int claims_api_end(void **state __attribute__((unused)))
{
	claims_api_free(api);
	return 0;
}

const char *first_uid(unsigned nth)
{
	static char uids[2][16];
	static unsigned calls;
	char *uid = uids[calls++ % 2];

	for (unsigned i = 0;; i++) {
		(void)snprintf(uid, sizeof(uids[0]), "f%u", i);
		if ((text_hash64(slice_of(uid)) & 0xfff) == 0 && nth-- == 0)
			return uid;
	}
}

static void put(struct claims_api *c, const char *name, const char *uid, const char *plan,
	bool gated, bool foreign, unsigned born, const char *owner)
{
	size_t i = 0;

	api_lock(c->api);
	while (c->pod[i].name)
		assert_true(++i < PODS_API_MAX);
	c->pod[i] = (struct pods_api_pod){.name = strdup(name),
		.uid = strdup(uid),
		.plan = plan ? fixture_quotes(plan) : NULL,
		.phase = gated ? "Pending" : "Running",
		.gated = gated,
		.foreign = foreign,
		.born = born,
		.owner = owner,
		.there = true,
		.labelled = true};
	event(c, &c->pod[i], "ADDED");
	api_unlock(c->api);
}

void pod_put(struct claims_api *c, const char *name, const char *uid, const char *plan)
{
	put(c, name, uid, plan, false, false, 30, NULL);
}

void pod_put_gated(struct claims_api *c, const char *name, const char *uid, const char *plan)
{
	put(c, name, uid, plan, true, true, 30, NULL);
}

void pod_put_waiting(
	struct claims_api *c, const char *name, const char *uid, const char *plan, unsigned born)
{
	put(c, name, uid, plan, true, false, born, NULL);
}

void pod_put_owned(struct claims_api *c, const char *name, const char *uid, const char *plan,
	unsigned born, const char *references)
{
	put(c, name, uid, plan, true, false, born, references);
}

void pod_namespace(struct claims_api *c, const char *uid, char namespace)
{
	api_lock(c->api);
	find(c, uid)->namespace = namespace;
	api_unlock(c->api);
}

void pod_told_place(struct claims_api *c, const char *uid, const char *place)
{
	api_lock(c->api);
	find(c, uid)->place = place;
	event(c, find(c, uid), "MODIFIED");
	api_unlock(c->api);
}

void pod_foreign(struct claims_api *c, const char *uid, bool yes)
{
	struct pods_api_pod *p;

	api_lock(c->api);
	p = find(c, uid);
	assert_non_null(p);
	p->foreign = yes;
	event(c, p, "MODIFIED");
	api_unlock(c->api);
}

void pod_kueue(struct claims_api *c, const char *uid)
{
	api_lock(c->api);
	find(c, uid)->kueue = true;
	event(c, find(c, uid), "MODIFIED");
	api_unlock(c->api);
}

bool pod_is_marked(struct claims_api *c, const char *uid, char ret[static 32], int ms)
{
	int64_t until = api_now_ms() + ms;

	do {
		api_lock(c->api);
		memcpy(ret, find(c, uid)->since, 32);
		api_unlock(c->api);
		if (!*ret)
			api_nap(10);
	} while (!*ret && api_now_ms() < until);
	return *ret;
}

void pod_owner(struct claims_api *c, const char *uid, const char *references)
{
	api_lock(c->api);
	find(c, uid)->owner = references;
	api_unlock(c->api);
}

void evictions_fare(struct claims_api *c, int status)
{
	api_lock(c->api);
	c->evict_status = status;
	api_unlock(c->api);
}

void places_fare(struct claims_api *c, enum place_fate fate)
{
	api_lock(c->api);
	c->fate = fate;
	api_unlock(c->api);
}

bool pod_is_let_go(struct claims_api *c, const char *uid, int ms)
{
	int64_t until = api_now_ms() + ms;
	bool yes;

	do {
		api_lock(c->api);
		yes = !find(c, uid)->gated;
		api_unlock(c->api);
		if (!yes)
			api_nap(10);
	} while (!yes && api_now_ms() < until);
	return yes;
}

bool pod_is_told(struct claims_api *c, const char *uid, const char *text, int ms)
{
	int64_t until = api_now_ms() + ms;
	char *quotes = fixture_quotes(text);
	bool yes;

	do {
		const struct pods_api_pod *p;

		api_lock(c->api);
		p = find(c, uid);
		yes = p && p->said && strstr(p->said, quotes);
		api_unlock(c->api);
		if (!yes)
			api_nap(10);
	} while (!yes && api_now_ms() < until);
	free(quotes);
	return yes;
}

enum change { PHASE, STRIP, DELETE, PLACE, GONE };

static void change(
	struct claims_api *c, const char *uid, enum change what, const char *phase, unsigned grace)
{
	struct pods_api_pod *p;

	api_lock(c->api);
	p = find(c, uid);
	assert_non_null(p);
	if (what == PHASE)
		p->phase = phase;
	if (what == DELETE)
		p->deleting = true;
	if (what == DELETE)
		p->grace = grace;
	if (what == PLACE)
		p->placed = true;
	if (p->labelled)
		event(c, p, what == GONE || what == STRIP ? "DELETED" : "MODIFIED");
	if (what == STRIP)
		p->labelled = false;
	if (what == GONE)
		p->there = false;
	api_unlock(c->api);
}

void pod_phase(struct claims_api *c, const char *uid, const char *phase)
{
	change(c, uid, PHASE, phase, 0);
}

void pod_strip(struct claims_api *c, const char *uid)
{
	change(c, uid, STRIP, NULL, 0);
}

void pod_delete(struct claims_api *c, const char *uid, unsigned grace)
{
	change(c, uid, DELETE, NULL, grace);
}

void pod_place(struct claims_api *c, const char *uid)
{
	change(c, uid, PLACE, NULL, 0);
}

void pod_gone(struct claims_api *c, const char *uid)
{
	change(c, uid, GONE, NULL, 0);
}

void pod_gone_unseen(struct claims_api *c, const char *uid)
{
	api_lock(c->api);
	find(c, uid)->there = false;
	api_unlock(c->api);
}

void pod_gate_unseen(struct claims_api *c, const char *uid)
{
	api_lock(c->api);
	find(c, uid)->gated = true;
	api_unlock(c->api);
}

void pods_get_status(struct claims_api *c, int status)
{
	api_lock(c->api);
	c->get_status = status;
	api_unlock(c->api);
}

size_t claims_api_asked(struct claims_api *c)
{
	return api_seen_count(c->pool->api) + api_seen_count(c->api);
}

size_t pod_asked(struct claims_api *c, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), ONE_POD "%s", name);
	return api_seen_of(c->api, "GET", path);
}

size_t pod_events(struct claims_api *c, const char *text)
{
	size_t n = 0;

	for (size_t i = 0; i < api_seen_count(c->api); i++) {
		const struct api_request *r = api_seen(c->api, i);

		n += strcmp(r->method, "POST") == 0 && strstr(r->body, text);
	}
	return n;
}

bool pod_events_come(struct claims_api *c, const char *text, size_t n)
{
	for (int i = 0; i < SOON / 50 && pod_events(c, text) != n; i++)
		api_nap(50);
	return pod_events(c, text) == n;
}

void status_put(struct claims_api *c, const char *server, const char *status)
{
	char *quotes = fixture_quotes(status);
	unsigned version = 0;
	struct kube_call call = {.method = "PUT"};
	struct buf path, body;
	struct err err = {0};

	buf_init(&path, 1024);
	buf_init(&body, 1 << 20);
	buf_fmt(&path, SERVERS_PATH "/%s/status", server);
	do {
		api_lock(c->pool->api);
		for (size_t i = 0; i < POOL_API_MAX; i++)
			if (c->pool->server[i].there &&
				strcmp(c->pool->server[i].name, server) == 0)
				version = c->pool->server[i].version;
		api_unlock(c->pool->api);
		buf_clear(&body);
		buf_fmt(&body, "{\"metadata\":{\"resourceVersion\":\"%u\"},\"status\":%s}", version,
			quotes);
		call.path = path.data;
		call.body = buf_as_slice(&body);
	} while (kube_do(c->pool->kube, &call, NULL, &err) == ERR_CONFLICT);
	buf_release(&path);
	buf_release(&body);
	free(quotes);
}

bool status_restored(struct claims_api *c, const char *server, const char *status)
{
	size_t lists;

	api_lock(c->pool->api);
	for (size_t i = 0; i < POOL_API_MAX; i++) {
		struct pool_api_server *s = &c->pool->server[i];

		if (!s->there || strcmp(s->name, server) != 0)
			continue;
		free(s->status);
		s->status = fixture_quotes(status);
		s->version = ++c->pool->version;
	}
	api_unlock(c->pool->api);
	lists = api_seen_of(c->pool->api, "GET", SERVERS_PATH "?limit=*");
	(void)api_cut(c->api, ALL_PODS "*");
	return api_wait(c->pool->api, "GET", SERVERS_PATH "?limit=*", lists + 1);
}

bool status_has(struct claims_api *c, const char *server, const char *text, int ms)
{
	return pool_api_shows(c->pool, server, text, ms);
}

bool status_has_not(struct claims_api *c, const char *server, const char *text, int ms)
{
	int64_t until = api_now_ms() + ms;

	while (pool_api_shows(c->pool, server, text, 0)) {
		if (api_now_ms() > until)
			return false;
		api_nap(10);
	}
	return true;
}

bool status_keeps(struct claims_api *c, const char *server, const char *text, int ms)
{
	return !status_has_not(c, server, text, ms);
}

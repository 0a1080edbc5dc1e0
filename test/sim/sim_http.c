/* SPDX-License-Identifier: Apache-2.0 */
/* sim: net/http_client.h, with the model API server behind it. A request travels as a task of the
 * world: it arrives, is carried out and is answered whether or not who sent it still waits, or
 * lives. */
#include "net/http_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/sim/sim_world.h"

/* A watch to which nothing happens is told so. */
#define BOOKMARK_US (60 * SECOND)
/* Of one replica in a second. */
#define WRITES_MAX 100
/* From a look at what one knows to what is sent because of it, if nothing keeps one. */
#define SEND_US (SECOND / 20)
/* By then every replica has read the pool once. */
#define BAD_LISTS_FROM (10 * SECOND)

struct http_client {
	int unused;
};

struct weather weather;
int way[REPLICAS_MAX + 1];
uint64_t knows[REPLICAS_MAX + 1];
int64_t hears_at[REPLICAS_MAX + 1];

/* A request on its way. Its last user frees it. */
struct call {
	struct request r;
	unsigned users;
	bool done, cut;
};

struct http_client *http_client_new(struct err *err)
{
	(void)err;
	return calloc(1, sizeof(struct http_client));
}

void http_client_free(struct http_client *c)
{
	free(c);
}

static int64_t travel(void)
{
	if (sim_chance(weather.very_slow))
		return (int64_t)sim_below(60 * SECOND);
	if (sim_chance(weather.slow))
		return (int64_t)sim_below((uint64_t)weather.slow_us);
	return sim_small ? 0 : 100 + (int64_t)sim_below(3000);
}

static const char *path_of(const char *url)
{
	const char *host = strstr(url, "://");
	const char *path = host ? strchr(host + 3, '/') : NULL;

	return path ? path : url;
}

/* ---- one call ---- */

static void let_go(struct call *c)
{
	if (--c->users > 0)
		return;
	free(c->r.method);
	free(c->r.path);
	free(c->r.body);
	free(c->r.answer);
	free(c);
}

static void answer(struct call *c, long status, const char *text)
{
	c->r.status = status;
	free(c->r.answer);
	c->r.answer = strdup(text);
}

static void carry_out(struct call *c)
{
	store_carry_out(&c->r);
	sim_trace((uint64_t)c->r.status, "%s %s for r%d: %ld", c->r.method, c->r.path, c->r.owner,
		c->r.status);
}

static void finish(struct call *c)
{
	c->done = true;
	sim_wake(c);
	let_go(c);
}

/* What goes wrong before anything is done. True: that was all. */
static bool fails_before(struct call *c)
{
	if (sim_chance(weather.lost_before)) {
		c->cut = true;
	} else if (sim_chance(weather.busy)) {
		answer(c, 429, "Too many requests, please try again later.\n");
	} else if (sim_chance(weather.broken)) {
		answer(c, sim_chance(500000) ? 500 : 504,
			"{\"kind\":\"Status\",\"reason\":\"Timeout\",\"message\":\"etcdserver: "
			"request timed out\"}");
	} else if (sim_chance(weather.foreign_404)) {
		answer(c, 404, "404 page not found\n");
	} else {
		return false;
	}
	sim_trace(1, "%s %s for r%d: %ld, not carried out", c->r.method, c->r.path, c->r.owner,
		c->cut ? 0 : c->r.status);
	return true;
}

/* A list of the GPUServers that fails, or takes long. True: it fails. */
static bool bad_list(struct call *c)
{
	if (!strstr(c->r.path, "/gpuservers?") || sim_now() < BAD_LISTS_FROM ||
		!sim_chance(weather.bad_list))
		return false;
	if (sim_chance(500000)) {
		answer(c, 500, "{\"kind\":\"Status\",\"message\":\"etcdserver: leader changed\"}");
		return true;
	}
	sim_sleep((int64_t)sim_below(8 * SECOND));
	return false;
}

/* The answer comes first; what it speaks of happens later, perhaps much later. */
static void carry_out_later(struct call *c, int64_t us)
{
	unsigned epoch = store.epoch;

	sim_trace(
		2, "%s %s for r%d: 504, and carried out later", c->r.method, c->r.path, c->r.owner);
	answer(c, 504,
		"{\"kind\":\"Status\",\"reason\":\"Timeout\",\"message\":\"request did not "
		"complete within requested timeout\"}");
	c->users++;
	finish(c);
	sim_sleep(us);
	/* Its sender may hold the answer still: a copy is carried out. */
	{
		struct request copy = c->r;

		copy.answer = NULL;
		if (store.epoch == epoch)
			store_carry_out(&copy);
		free(copy.answer);
	}
	let_go(c);
}

/* Of a small world: each of the things that can become of a call. True: that was all of it. */
static bool goes_wrong(struct call *c)
{
	enum { WELL, LOST_BEFORE, LOST_AFTER, BROKEN, LATE, DIES_BEFORE, DIES_AFTER, WAYS };
	bool write = strcmp(c->r.method, "GET") != 0;

	switch (small_choose(FAULT, write ? WAYS : LATE)) {
	case LOST_BEFORE:
		c->cut = true;
		break;
	case BROKEN:
		answer(c, 500, "{\"kind\":\"Status\",\"message\":\"etcdserver: leader changed\"}");
		break;
	case LOST_AFTER:
		c->cut = true;
		carry_out(c);
		break;
	case LATE:
		carry_out_later(c, 20 * SECOND);
		return true;
	case DIES_BEFORE:
		chaos_kill(c->r.owner);
		carry_out(c);
		break;
	case DIES_AFTER:
		carry_out(c);
		chaos_kill(c->r.owner);
		break;
	default:
		return false;
	}
	finish(c);
	return true;
}

static void serve(void *arg)
{
	struct call *c = arg;
	bool write = strcmp(c->r.method, "GET") != 0;
	unsigned epoch = store.epoch;

	sim_sleep(travel());
	while (way[c->r.owner] == 2)
		sim_sleep(SECOND);
	if (way[c->r.owner] == 1 || store.epoch != epoch)
		c->cut = true;
	if (way[c->r.owner] == 3) {
		answer(c, 404, "404 page not found\n");
		finish(c);
		return;
	}
	if (sim_small && goes_wrong(c))
		return;
	if (c->cut || fails_before(c) || bad_list(c)) {
		finish(c);
		return;
	}
	if (write && sim_chance(weather.late_504)) {
		carry_out_later(c, (int64_t)sim_below(sim_chance(500000) ? 100000 : 20 * SECOND));
		return;
	}
	carry_out(c);
	if (write && sim_chance(weather.twice))
		carry_out(c);
	if (sim_chance(weather.lost_after))
		c->cut = true;
	sim_sleep(travel());
	if (way[c->r.owner] != 0 || store.epoch != epoch)
		c->cut = true;
	finish(c);
}

/* The law of pace: no replica writes as fast as it can. */
static void check_pace(int owner)
{
	static struct {
		int64_t second;
		unsigned n;
	} writes[REPLICAS_MAX + 1];

	if (writes[owner].second != sim_now() / SECOND) {
		writes[owner].second = sim_now() / SECOND;
		writes[owner].n = 0;
	}
	if (++writes[owner].n > WRITES_MAX)
		sim_fail("pace", "r%d sent more than %d writes in a second", owner, WRITES_MAX);
}

/* The API server's clock, as it stands in a head. */
static const char *date_line(void)
{
	static const char format[] = "Date: %a, %d %b %Y %H:%M:%S GMT\r\n";
	static char line[64];
	time_t now = (time_t)(sim_wall(WORLD) / SECOND);
	struct tm tm;

	(void)gmtime_r(&now, &tm);
	(void)strftime(line, sizeof(line), format, &tm);
	return line;
}

/* An answer for which there is no memory is none. */
static int whole(struct http_response *ret, struct err *err)
{
	if (!ret->body.failed && !ret->head.failed)
		return 0;
	buf_release(&ret->body);
	buf_release(&ret->head);
	return err_set(err, ERR_NOMEM, "out of memory for an answer");
}

int http_client_do(struct http_client *client, const struct http_ask *req,
	struct http_response *ret, struct err *err)
{
	struct call *c;
	int64_t until = sim_now() + req->timeout_ms * 1000, next;
	int rc = 0;

	(void)client;
	if (gate_at(req->url) >= 0)
		rc = gate_told(gate_at(req->url), req, ret, err);
	else if (probe_of(req->url) >= 0)
		rc = probe_call(probe_of(req->url), req, ret, err);
	if (gate_at(req->url) >= 0 || probe_of(req->url) >= 0)
		return rc == 0 ? whole(ret, err) : rc;
	c = calloc(1, sizeof(*c));
	sim_result->calls++;
	c->users = 2;
	c->r.method = strdup(req->method);
	c->r.path = strdup(path_of(req->url));
	c->r.body = req->body.at ? strndup(req->body.at, req->body.len) : NULL;
	c->r.owner = sim_owner();
	c->r.sent_at = sim_went_on();
	if (strcmp(req->method, "GET") != 0)
		check_pace(c->r.owner);
	sim_spawn(WORLD, "call", serve, c);
	while (!c->done && rc == 0) {
		next = sim_now() + SECOND;
		if (!sim_wait(c, next < until ? next : until) && !c->done &&
			(sim_now() >= until || (req->go_on && !req->go_on(req->go_on_ctx))))
			rc = err_set(err, ERR_TIMEOUT, "%s %s: no answer in time", req->method,
				req->url);
	}
	if (rc == 0 && c->cut) {
		rc = err_set(err, ERR_IO, "%s %s: the connection was cut", req->method, req->url);
	} else if (rc == 0) {
		ret->status = c->r.status;
		buf_init(&ret->body, req->max_bytes);
		buf_str(&ret->body, c->r.answer);
		buf_init(&ret->head, req->max_head);
		if (req->max_head > 0)
			buf_str(&ret->head, date_line());
		rc = whole(ret, err);
	}
	sim_chain(rc == 0 ? store_hash(c->r.answer) ^ (uint64_t)c->r.status : 0);
	laws_heard(sim_self(), c->r.path, rc == 0 ? c->r.status : -1);
	let_go(c);
	return rc;
}

/* ---- a stream ---- */

void http_hears(int owner)
{
	if (hears_at[owner] == FOREVER)
		hears_at[owner] = sim_now();
}

bool http_unaware(const struct request *r)
{
	int64_t heard = hears_at[r->owner];

	return heard == FOREVER || (heard && r->sent_at < heard + SEND_US);
}

/* In pieces, as a network cuts it. */
static bool hand_over(const struct http_stream *to, const char *text)
{
	size_t left = strlen(text);

	sim_chain(store_hash(text));
	while (left > 0) {
		size_t n = sim_chance(200000) ? 1 + sim_below(left) : left;

		if (!to->data(to->ctx, (struct slice){text, n}))
			return false;
		text += n;
		left -= n;
		if (left > 0)
			sim_sleep((int64_t)sim_below(2000));
	}
	return true;
}

static uint64_t parameter(const char *path, const char *name)
{
	const char *at = strstr(path, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* The events of one kind behind a version, each when the watch's lag has passed. */
static bool tell_events(
	const struct http_stream *to, struct event_log *l, uint64_t *version, int64_t lag)
{
	size_t i = l->n;

	while (i > 0 && l->events[i - 1].version > *version)
		i--;
	for (; i < l->n && l->events[i].at + lag <= sim_now(); i++) {
		uint64_t v = l->events[i].version;

		if (!hand_over(to, l->events[i].text))
			return false;
		*version = v;
		if (l == &store.log[SERVERS])
			knows[sim_owner()] = v;
	}
	return true;
}

/* Everything up to here was told: an object that is nobody's says so. */
static bool bookmark(
	const struct http_stream *to, const struct event_log *l, enum kind kind, uint64_t *version)
{
	char text[200];

	/* A version that is yet to come, after a restore of etcd. */
	if (*version > store.version)
		return true;
	if (l->n > 0 && l->events[l->n - 1].version > *version)
		return true;
	*version = store.version;
	(void)snprintf(text, sizeof(text),
		"{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"%s\",\"metadata\":{"
		"\"resourceVersion\":\"%llu\"}}}\n",
		resources[kind].kind, (unsigned long long)*version);
	return hand_over(to, text);
}

static int watch(const char *path, enum kind kind, const struct http_stream *to, struct err *err)
{
	struct event_log *l = &store.log[kind];
	uint64_t version = parameter(path, "resourceVersion=");
	int64_t end = sim_now() + (int64_t)(parameter(path, "timeoutSeconds=") + 1) * SECOND;
	int64_t lag = sim_chance(500000) ? (int64_t)sim_below((uint64_t)weather.lag_us + 1) : 0;
	int64_t told = sim_now();
	int owner = sim_owner();
	unsigned epoch = store.epoch;

	if (to->line)
		to->line(to->ctx, slice_of(date_line()));
	http_hears(owner);
	if (!to->head(to->ctx, 200))
		return 0;
	if (version < l->compacted) {
		(void)hand_over(to,
			"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,"
			"\"reason\":\"Expired\",\"message\":\"too old resource version\"}}\n");
		return 0;
	}
	if (kind == SERVERS)
		knows[owner] = version <= store.version ? version : 0;
	while (sim_now() < end) {
		if (way[owner] == 1 || way[owner] == 3 || store.epoch != epoch ||
			sim_chance(weather.cut_watch))
			return err_set(err, ERR_IO, "GET %s: the connection was cut", path);
		if (way[owner] == 0 && !tell_events(to, l, &version, lag))
			return 0;
		if (way[owner] == 0 && sim_now() - told >= BOOKMARK_US) {
			told = sim_now();
			if (!bookmark(to, l, kind, &version))
				return 0;
		}
		/* A compaction forgets what a watch that is behind has not told. */
		if (version < l->compacted && lag > 0)
			return err_set(err, ERR_IO, "GET %s: the connection was cut", path);
		if (!sim_wait(l, sim_now() + (lag > 0 ? SECOND / 10 : SECOND)) &&
			!to->go_on(to->ctx))
			return 0;
	}
	return 0;
}

int http_client_stream(struct http_client *client, const struct http_ask *req,
	const struct http_stream *to, struct err *err)
{
	const char *path = path_of(req->url);
	struct http_ask one = *req;
	struct http_response got = {0};
	int rc;

	if (strstr(path, "watch=")) {
		sim_sleep(travel());
		if (way[sim_owner()] != 0 || sim_chance(weather.lost_before))
			return err_set(err, ERR_IO, "GET %s: no connection", path);
		rc = watch(path,
			strstr(path, "/pods")          ? PODS
			: strstr(path, "/gpupolicies") ? POLICIES
			: strstr(path, "/namespaces?") ? NAMESPACES
						       : SERVERS,
			to, err);
		http_hears(sim_owner());
		return rc;
	}
	one.timeout_ms = 60000;
	one.max_bytes = 16u << 20;
	one.go_on = to->go_on;
	one.go_on_ctx = to->ctx;
	rc = http_client_do(client, &one, &got, err);
	if (rc == 0 && to->line)
		to->line(to->ctx, slice_of(date_line()));
	http_hears(sim_owner());
	if (rc == 0 && to->head(to->ctx, got.status))
		(void)hand_over(to, got.body.data ? got.body.data : "");
	buf_release(&got.body);
	return rc;
}

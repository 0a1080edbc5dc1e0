/* SPDX-License-Identifier: Apache-2.0 */
/* test: an API server with GPUServers and Secrets, and the picture of it that a replica has. */
#include "test/unit/pool_api.h"
#include "test/unit/test.h"

#include "base/json/json_read.h"

static void set(char **to, struct slice raw)
{
	free(*to);
	*to = strndup(raw.at, raw.len);
	assert_non_null(*to);
}

/* ---- with the API server's lock held ---- */

static struct pool_api_server *find(struct pool_api *p, const char *name, size_t len)
{
	for (size_t i = 0; i < POOL_API_MAX; i++)
		if (p->server[i].there && strlen(p->server[i].name) == len &&
			memcmp(p->server[i].name, name, len) == 0)
			return &p->server[i];
	return NULL;
}

static void show(const struct pool_api_server *s, struct buf *out)
{
	buf_fmt(out,
		"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUServer\",\"metadata\":{"
		"\"name\":\"%s\",\"uid\":\"u-%u\",\"resourceVersion\":\"%u\",\"generation\":%u,"
		"\"creationTimestamp\":\"2026-11-21T09:%02u:00Z\",\"finalizers\":%s%s},\"spec\":%s,"
		"\"status\":%s}",
		s->name, s->uid, s->version, s->generation, s->uid % 60, s->finalizers,
		s->deleting ? ",\"deletionTimestamp\":\"2026-11-21T09:30:00Z\"" : "", s->spec,
		s->status);
}

static void event(const struct pool_api_server *s, const char *type, struct buf *out)
{
	buf_fmt(out, "{\"type\":\"%s\",\"object\":", type);
	show(s, out);
	buf_str(out, "}\n");
}

static void changed(struct pool_api *p, struct pool_api_server *s)
{
	struct buf b;
	bool gone = s->deleting && strcmp(s->finalizers, "[]") == 0;

	s->version = ++p->version;
	buf_init(&b, 1 << 20);
	event(s, gone ? "DELETED" : "MODIFIED", &b);
	s->there = !gone;
	api_push(p->api, SERVERS_PATH "*", b.data);
	buf_release(&b);
}

static void list(struct pool_api *p, struct api_reply *reply)
{
	struct buf b;
	bool first = true;

	buf_init(&b, 1 << 20);
	buf_fmt(&b,
		"{\"kind\":\"GPUServerList\",\"metadata\":{\"resourceVersion\":\"%u\"},\"items\":[",
		p->version);
	for (size_t i = 0; i < POOL_API_MAX; i++) {
		if (!p->server[i].there)
			continue;
		if (!first)
			buf_char(&b, ',');
		first = false;
		show(&p->server[i], &b);
	}
	buf_str(&b, "]}");
	api_text(reply, 200, "%s", b.data);
	buf_release(&b);
}

static void watch(struct pool_api *p, const char *path, struct api_reply *reply)
{
	const char *from = strstr(path, "resourceVersion=");
	unsigned long version = from ? strtoul(from + strlen("resourceVersion="), NULL, 10) : 0;
	struct buf b;

	buf_init(&b, 1 << 20);
	for (size_t i = 0; i < POOL_API_MAX; i++)
		if (p->server[i].there && p->server[i].version > version)
			event(&p->server[i], "MODIFIED", &b);
	reply->stream = true;
	reply->body = b.len > 0 ? strdup(b.data) : NULL;
	buf_release(&b);
}

static void one(const struct pool_api_server *s, struct api_reply *reply)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	show(s, &b);
	api_text(reply, 200, "%s", b.data);
	buf_release(&b);
}

static void put_status(struct pool_api *p, const char *name, const char *status)
{
	struct pool_api_server *s = find(p, name, strlen(name));

	assert_non_null(s);
	free(s->status);
	s->status = fixture_quotes(status);
	changed(p, s);
}

/* Another replica is a little faster. */
static void rival(struct pool_api *p, struct pool_api_server *s, const struct api_request *req)
{
	static const char claims[] = "\"claims\":[";
	const char *at = strstr(s->status, claims);
	struct buf b;

	if (!p->rival_before || !strstr(req->body, p->rival_before))
		return;
	if (p->rival_on) {
		p->rival_before = NULL;
		put_status(p, p->rival_on, p->rival);
		return;
	}
	assert_non_null(at);
	at += strlen(claims);
	buf_init(&b, 1 << 20);
	buf_add(&b, s->status, (size_t)(at - s->status));
	buf_str(&b, p->rival);
	if (*at != ']')
		buf_str(&b, ",");
	buf_str(&b, at);
	set(&s->status, buf_as_slice(&b));
	buf_release(&b);
	p->rival_before = NULL;
	changed(p, s);
}

/* PUT of the status, or a merge patch of the finalizers: on that version alone. */
static void write_one(struct pool_api *p, struct pool_api_server *s, const struct api_request *req,
	struct api_reply *reply)
{
	struct json j = {0};
	const struct json_node *root, *part;
	char version[32];
	bool put = strcmp(req->method, "PUT") == 0;

	assert_int_equal(json_read(&j, req->body, req->body_len, 100000, NULL), 0);
	root = json_root(&j);
	if (put)
		rival(p, s, req);
	snprintf(version, sizeof(version), "%u", s->version);
	if (!json_is_str(&j, json_path(&j, root, "metadata", "resourceVersion", NULL),
		    slice_of(version))) {
		api_status(reply, 409, "Conflict", "the object has been modified");
	} else if (put && p->puts_max && p->puts >= p->puts_max) {
		api_status(reply, 403, "Forbidden", "not you");
	} else {
		part = put ? json_get(&j, root, SLICE("status"))
			   : json_path(&j, root, "metadata", "finalizers", NULL);
		assert_non_null(part);
		set(put ? &s->status : &s->finalizers, json_raw(&j, part));
		p->puts += put;
		p->patches += !put;
		changed(p, s);
		one(s, reply);
	}
	json_release(&j);
}

static void secret(const struct pool_api *p, struct api_reply *reply)
{
	struct buf b;

	buf_init(&b, 1 << 20);
	buf_fmt(&b,
		"{\"kind\":\"Secret\",\"metadata\":{\"resourceVersion\":\"1\"},\"type\":\"%s\","
		"\"data\":{\"x\":\"\"",
		p->secret_type ? p->secret_type : "Opaque");
	const struct {
		const char *key, *value;
	} data[] = {{"ca.crt", p->ca_pem}, {"token", p->token}, {"tls.crt", p->cert_pem},
		{"tls.key", p->key_pem}};

	for (size_t i = 0; i < COUNT(data); i++) {
		if (!data[i].value)
			continue;
		buf_fmt(&b, ",\"%s\":\"", data[i].key);
		buf_base64(&b, data[i].value, strlen(data[i].value));
		buf_char(&b, '"');
	}
	buf_str(&b, "}}");
	api_text(reply, 200, "%s", b.data);
	buf_release(&b);
}

static int answer(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	struct pool_api *p = ctx;
	const char *rest = req->path + strlen(SERVERS_PATH);
	struct pool_api_server *s;
	bool get = strcmp(req->method, "GET") == 0;

	if (strcmp(req->path, POOL_API_SECRETS "probe") == 0 && get) {
		secret(p, reply);
		return 0;
	}
	if (strncmp(req->path, SERVERS_PATH, strlen(SERVERS_PATH)) != 0)
		return 1;
	if (*rest != '/') {
		if (strstr(rest, "watch="))
			watch(p, rest, reply);
		else
			list(p, reply);
		return 0;
	}
	rest++;
	s = find(p, rest, strcspn(rest, "/?"));
	if (!s)
		return 1;
	if (get)
		one(s, reply);
	else
		write_one(p, s, req, reply);
	return 0;
}

static int handle(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	struct pool_api *p = ctx;

	reply->header = p->header;
	return answer(ctx, req, reply);
}

/* ---- what tests call ---- */

struct pool_api *pool_api_new(void)
{
	struct pool_api *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->version = 10;
	p->api = api_start(handle, p);
	api_config(p->api, &p->config);
	assert_int_equal(kube_new(&p->config, &p->kube, NULL), 0);
	p->metrics = metrics_new(metric_table, M_COUNT);
	assert_non_null(p->metrics);
	p->log = (struct log){.fd = 2, .level = LOG_LEVEL_ERROR};
	p->servers = servers_new(p->kube, &p->log, p->metrics, NULL);
	assert_non_null(p->servers);
	return p;
}

void pool_api_log(struct pool_api *p)
{
	char path[] = "/tmp/test_pool_api_XXXXXX";

	p->log = (struct log){.fd = mkstemp(path), .level = LOG_LEVEL_INFO};
	assert_true(p->log.fd >= 0);
	(void)unlink(path);
}

size_t pool_api_logged(const struct pool_api *p, const char *text)
{
	static char log[1 << 16];
	ssize_t len = pread(p->log.fd, log, sizeof(log) - 1, 0);
	size_t lines = 0;

	assert_in_range(len, 0, sizeof(log) - 2);
	log[len] = '\0';
	for (char *line, *rest = log; (line = strsep(&rest, "\n"));)
		lines += strstr(line, text) != NULL;
	return lines;
}

void pool_api_free(struct pool_api *p)
{
	servers_stop(p->servers);
	if (p->running)
		p->duty.stop(p->running);
	servers_free(p->servers);
	kube_free(p->kube);
	api_stop(p->api);
	metrics_free(p->metrics);
	for (size_t i = 0; i < POOL_API_MAX; i++) {
		free(p->server[i].name);
		free(p->server[i].spec);
		free(p->server[i].status);
		free(p->server[i].finalizers);
	}
	if (p->log.fd != 2)
		(void)close(p->log.fd);
	free(p->ca_pem);
	free(p->token);
	free(p->cert_pem);
	free(p->key_pem);
	free(p);
}

void pool_api_put(struct pool_api *p, const char *name, const char *finalizers, const char *spec,
	const char *status)
{
	size_t i = 0;

	api_lock(p->api);
	while (p->server[i].name)
		assert_true(++i < POOL_API_MAX);
	p->server[i] = (struct pool_api_server){.name = strdup(name),
		.spec = fixture_quotes(spec),
		.status = fixture_quotes(status),
		.finalizers = fixture_quotes(finalizers),
		.generation = 1,
		.uid = (unsigned)i + 1,
		.there = true};
	changed(p, &p->server[i]);
	api_unlock(p->api);
}

void pool_api_spec(struct pool_api *p, const char *name, const char *spec)
{
	struct pool_api_server *s;

	api_lock(p->api);
	s = find(p, name, strlen(name));
	assert_non_null(s);
	free(s->spec);
	s->spec = fixture_quotes(spec);
	s->generation++;
	changed(p, s);
	api_unlock(p->api);
}

void pool_api_status(struct pool_api *p, const char *name, const char *status)
{
	api_lock(p->api);
	put_status(p, name, status);
	api_unlock(p->api);
}

void pool_api_delete(struct pool_api *p, const char *name)
{
	struct pool_api_server *s;

	api_lock(p->api);
	s = find(p, name, strlen(name));
	assert_non_null(s);
	s->deleting = true;
	changed(p, s);
	api_unlock(p->api);
}

static void on_change(void *ctx)
{
	struct pool_api *p = ctx;

	api_lock(p->api);
	if (p->running && p->duty.servers_changed)
		p->duty.servers_changed(p->running);
	api_unlock(p->api);
}

void pool_api_run(struct pool_api *p, struct leader_duty duty)
{
	void *running = NULL;

	p->duty = duty;
	assert_int_equal(servers_start(p->servers, on_change, p, NULL), 0);
	assert_int_equal(duty.start(duty.ctx, &running, NULL), 0);
	api_lock(p->api);
	p->running = running;
	api_unlock(p->api);
}

enum what { STATUS, FINALIZERS, GONE };

static bool holds(struct pool_api *p, const char *name, enum what what, const char *text)
{
	const struct pool_api_server *s = find(p, name, strlen(name));

	switch (what) {
	case STATUS:
		return s && strstr(s->status, text);
	case FINALIZERS:
		return s && strcmp(s->finalizers, text) == 0;
	case GONE:
		return !s;
	}
	return false;
}

static bool wait_for(struct pool_api *p, const char *name, enum what what, const char *text, int ms)
{
	int64_t until = api_now_ms() + ms;
	char *want = fixture_quotes(text);
	bool yes = false;

	while (!yes) {
		bool late = api_now_ms() > until;

		api_lock(p->api);
		yes = holds(p, name, what, want);
		api_unlock(p->api);
		if (late)
			break;
		if (!yes)
			api_nap(20);
	}
	free(want);
	return yes;
}

bool pool_api_shows(struct pool_api *p, const char *name, const char *text, int ms)
{
	return wait_for(p, name, STATUS, text, ms);
}

bool pool_api_has_finalizers(struct pool_api *p, const char *name, const char *json, int ms)
{
	return wait_for(p, name, FINALIZERS, json, ms);
}

bool pool_api_gone(struct pool_api *p, const char *name, int ms)
{
	return wait_for(p, name, GONE, "", ms);
}

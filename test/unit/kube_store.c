/* SPDX-License-Identifier: Apache-2.0 */
/* test: gpuservers and pods as an API server keeps them. A thread feeds the watches, in the order of the writes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "test/unit/kube_store.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json_read.h"

#define NODES 1000000u
#define EVENTS_MAX 100000
#define FAULTS_MAX 64
#define BODY_MAX (16u << 20)
/* A stream is told of nothing before the fixture has surely taken it up. */
#define OPENING_MS 50
#define GPU_BYTES 1000000ull

struct resource {
	const char *api, *plural, *kind, *version;
};

enum { SERVERS, PODS, RESOURCES };

static const struct resource resources[RESOURCES] = {
	[SERVERS] = {"/apis/poolgate.io/v1alpha1", "gpuservers", "GPUServer",
		"poolgate.io/v1alpha1"},
	[PODS] = {"/api/v1", "pods", "Pod", "v1"},
};

/* Texts are JSON, malloc'ed. */
struct object {
	struct object *next; /* by namespace and name */
	int of;
	char *namespace, *name, *uid;
	char *more; /* further members of metadata, or "" */
	char *finalizers, *spec, *status;
	uint64_t version, generation;
	bool deleting;
};

struct event {
	int of;
	uint64_t version;
	char *text;
};

struct fault {
	enum store_fault what;
	char method[16], path[512];
	int ms, times;
};

struct late {
	struct late *next;
	int64_t due_ms;
	struct api_request req;
};

struct kube_store {
	struct api *api;
	pthread_mutex_t lock; /* everything; taken under the fixture's */
	struct object *objects;
	uint64_t version, uids;
	struct event events[EVENTS_MAX];
	size_t n_events, pushed;
	struct fault faults[FAULTS_MAX];
	size_t n_faults;
	struct late *late;
	size_t writes;
	int64_t opened_ms;
	char opened[2048]; /* the path of the stream that was opened last */
	bool muted, over, stopping;
	void (*on_write)(void *ctx, const char *name, const char *status);
	void *on_write_ctx;
	pthread_t feeder;
};

static _Noreturn void fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static _Noreturn void fatal(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	(void)fputs("store: ", stderr);
	(void)vfprintf(stderr, fmt, args);
	(void)fputc('\n', stderr);
	va_end(args);
	abort();
}

static char *own(struct slice s)
{
	char *copy = strndup(s.at ? s.at : "", s.len);

	if (!copy)
		fatal("no memory");
	return copy;
}

/* Single quotes become double ones. */
static char *quoted(const char *text)
{
	char *copy = own(slice_of(text));

	for (char *c = copy; *c; c++)
		if (*c == '\'')
			*c = '"';
	return copy;
}

static void replace(char **at, char *text)
{
	free(*at);
	*at = text;
}

static char *read_json(struct json *j, const char *text)
{
	struct err err = {0};
	char *copy;

	*j = (struct json){0};
	if (json_read_copy(j, text, strlen(text), NODES, &copy, &err) != 0)
		fatal("%s in %s", err.msg, text);
	return copy;
}

/* ---- objects ---- */

static struct object *find(struct kube_store *s, int of, struct slice namespace, struct slice name)
{
	for (struct object *o = s->objects; o; o = o->next)
		if (o->of == of && slice_is(namespace, o->namespace) && slice_is(name, o->name))
			return o;
	return NULL;
}

static struct object *find_server(struct kube_store *s, const char *name)
{
	return find(s, SERVERS, slice_of(""), slice_of(name));
}

static struct object *add(
	struct kube_store *s, int of, const char *namespace, const char *name, const char *uid)
{
	struct object *o = calloc(1, sizeof(*o)), **at = &s->objects;
	char made[32];

	if (!o)
		fatal("no memory");
	(void)snprintf(made, sizeof(made), "uid-%llu", (unsigned long long)++s->uids);
	o->of = of;
	o->namespace = own(slice_of(namespace));
	o->name = own(slice_of(name));
	o->uid = own(slice_of(uid ? uid : made));
	o->more = own(slice_of(""));
	o->finalizers = own(slice_of("[]"));
	o->spec = own(slice_of("{}"));
	o->status = own(slice_of("{}"));
	o->generation = 1;
	while (*at && (strcmp((*at)->namespace, namespace) < 0 ||
			      (strcmp((*at)->namespace, namespace) == 0 &&
				      strcmp((*at)->name, name) < 0)))
		at = &(*at)->next;
	o->next = *at;
	*at = o;
	return o;
}

static void free_object(struct object *o)
{
	free(o->namespace);
	free(o->name);
	free(o->uid);
	free(o->more);
	free(o->finalizers);
	free(o->spec);
	free(o->status);
	free(o);
}

static void render(const struct object *o, struct buf *out)
{
	const struct resource *r = &resources[o->of];

	buf_fmt(out, "{\"apiVersion\":\"%s\",\"kind\":\"%s\",\"metadata\":{\"name\":\"%s\",",
		r->version, r->kind, o->name);
	if (*o->namespace)
		buf_fmt(out, "\"namespace\":\"%s\",", o->namespace);
	buf_fmt(out,
		"\"uid\":\"%s\",\"resourceVersion\":\"%llu\",\"generation\":%llu,"
		"\"creationTimestamp\":\"2026-01-01T00:00:00Z\"",
		o->uid, (unsigned long long)o->version, (unsigned long long)o->generation);
	if (strcmp(o->finalizers, "[]") != 0)
		buf_fmt(out, ",\"finalizers\":%s", o->finalizers);
	if (o->deleting)
		buf_str(out, ",\"deletionTimestamp\":\"2026-01-02T00:00:00Z\"");
	if (*o->more)
		buf_fmt(out, ",%s", o->more);
	buf_fmt(out, "},\"spec\":%s,\"status\":%s}", o->spec, o->status);
}

static char *text_of(const struct object *o)
{
	struct buf out;

	buf_init(&out, BODY_MAX);
	render(o, &out);
	if (out.failed)
		fatal("no memory");
	return out.data;
}

/* It has changed: a new version, and an event. */
static void tell(struct kube_store *s, struct object *o, const char *type)
{
	struct event *e = &s->events[s->n_events];
	char *text;

	if (s->n_events == EVENTS_MAX)
		fatal("too many events");
	o->version = ++s->version;
	text = text_of(o);
	*e = (struct event){.of = o->of, .version = o->version};
	if (asprintf(&e->text, "{\"type\":\"%s\",\"object\":%s}\n", type, text) < 0)
		fatal("no memory");
	free(text);
	s->n_events++;
}

static void drop(struct kube_store *s, struct object *o)
{
	struct object **at = &s->objects;

	tell(s, o, "DELETED");
	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	free_object(o);
}

static void delete (struct kube_store *s, struct object *o)
{
	if (strcmp(o->finalizers, "[]") == 0) {
		drop(s, o);
	} else if (!o->deleting) {
		o->deleting = true;
		tell(s, o, "MODIFIED");
	}
}

/* ---- what must never be ---- */

static int64_t bytes_of(const struct json *j, const struct json_node *v, const char *key)
{
	int64_t n = 0;

	if (!json_int(j, json_get(j, v, slice_of(key)), &n) || n < 0)
		fatal("a status without a number for %s: %s", key, j->text);
	return n;
}

static void check_gpu(const struct json *j, const struct json_node *status,
	const struct json_node *gpu, const char *server)
{
	struct slice id = json_inside(j, json_get(j, gpu, SLICE("id")));
	int64_t sum = 0, memory = bytes_of(j, gpu, "memory");

	JSON_EACH(j, json_get(j, status, SLICE("claims")), claim)
	{
		JSON_EACH(j, json_get(j, claim, SLICE("gpus")), part)
		{
			if (json_is_str(j, json_get(j, part, SLICE("id")), id))
				sum += bytes_of(j, part, "bytes");
		}
	}
	if (sum > memory)
		fatal("%.*s of %s is promised twice: %lld of %lld bytes: %s", (int)id.len, id.at,
			server, (long long)sum, (long long)memory, j->text);
}

/* No GPU over its memory, no uid twice, not more claims than a server may have. */
static void check_status(const struct kube_store *s, const char *server, const char *text)
{
	struct json j;
	char *copy = read_json(&j, text);
	const struct json_node *status = json_root(&j), *claims;

	claims = json_get(&j, status, SLICE("claims"));
	JSON_EACH(&j, json_get(&j, status, SLICE("gpus")), gpu)
	{
		if (!s->over)
			check_gpu(&j, status, gpu, server);
	}
	JSON_EACH(&j, claims, a)
	{
		struct slice uid = json_inside(&j, json_get(&j, a, SLICE("uid")));

		for (const struct json_node *b = json_next(&j, claims, a); b;
			b = json_next(&j, claims, b))
			if (json_is_str(&j, json_get(&j, b, SLICE("uid")), uid))
				fatal("%.*s is there twice: %s", (int)uid.len, uid.at, text);
	}
	if (claims && claims->count > 256)
		fatal("%s has %u claims", server, claims->count);
	json_release(&j);
	free(copy);
}

/* ---- requests ---- */

struct target {
	int of;
	struct slice namespace, name, sub; /* name.len 0: the collection */
};

static bool next_part(struct slice *path, struct slice *ret)
{
	const char *slash;

	if (path->len == 0 || path->at[0] != '/')
		return false;
	path->at++;
	path->len--;
	slash = memchr(path->at, '/', path->len);
	*ret = (struct slice){path->at, slash ? (size_t)(slash - path->at) : path->len};
	path->at += ret->len;
	path->len -= ret->len;
	return true;
}

static bool parse_path(struct slice path, struct target *ret)
{
	struct slice part;

	for (int of = 0; of < RESOURCES; of++) {
		size_t n = strlen(resources[of].api);
		struct slice rest = {path.at + n, path.len - (path.len < n ? path.len : n)};

		*ret = (struct target){.of = of,
			.namespace = slice_of(""),
			.name = slice_of(""),
			.sub = slice_of("")};
		if (path.len < n || memcmp(path.at, resources[of].api, n) != 0 ||
			!next_part(&rest, &part))
			continue;
		if (slice_is(part, "namespaces") &&
			(!next_part(&rest, &ret->namespace) || !next_part(&rest, &part)))
			continue;
		if (!slice_is(part, resources[of].plural))
			continue;
		(void)(next_part(&rest, &ret->name) && next_part(&rest, &ret->sub));
		return true;
	}
	return false;
}

/* A parameter's number in the query, or 0. */
static uint64_t parameter(const char *query, const char *name)
{
	const char *at = query ? strstr(query, name) : NULL;

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void answer_object(const struct object *o, int status, struct api_reply *reply)
{
	reply->status = status;
	reply->body = text_of(o);
}

static void list(struct kube_store *s, const struct target *t, struct api_reply *reply)
{
	struct buf out;
	bool first = true;

	buf_init(&out, BODY_MAX);
	buf_fmt(&out,
		"{\"apiVersion\":\"%s\",\"kind\":\"%sList\",\"metadata\":{\"resourceVersion\":"
		"\"%llu\"},\"items\":[",
		resources[t->of].version, resources[t->of].kind, (unsigned long long)s->version);
	for (const struct object *o = s->objects; o; o = o->next) {
		if (o->of != t->of || (t->namespace.len && !slice_is(t->namespace, o->namespace)))
			continue;
		if (!first)
			buf_char(&out, ',');
		first = false;
		render(o, &out);
	}
	buf_str(&out, "]}");
	if (out.failed)
		fatal("no memory");
	reply->status = 200;
	reply->body = out.data;
}

/* What was told already comes at once, the rest as it is told to all. */
static void open_watch(struct kube_store *s, const struct target *t, const struct api_request *req,
	struct api_reply *reply)
{
	uint64_t from = parameter(strchr(req->path, '?'), "resourceVersion=");
	struct buf out;

	if (from == 0)
		fatal("a watch without a resourceVersion: %s", req->path);
	buf_init(&out, BODY_MAX);
	for (size_t i = 0; i < s->pushed; i++)
		if (s->events[i].of == t->of && s->events[i].version > from)
			buf_str(&out, s->events[i].text);
	if (out.failed)
		fatal("no memory");
	*reply = (struct api_reply){.status = 200, .stream = true, .body = out.data};
	s->opened_ms = api_now_ms();
	(void)snprintf(s->opened, sizeof(s->opened), "%s", req->path);
}

/* The status as PUT brings it. */
static void put_status(
	struct kube_store *s, struct object *o, const struct json *j, struct api_reply *reply)
{
	const struct json_node *meta = json_get(j, json_root(j), SLICE("metadata"));
	const struct json_node *uid = json_get(j, meta, SLICE("uid"));
	struct slice version = json_inside(j, json_get(j, meta, SLICE("resourceVersion")));
	char held[32];
	char *status;

	(void)snprintf(held, sizeof(held), "%llu", (unsigned long long)o->version);
	if (version.len == 0) {
		api_status(reply, 422, "Invalid", "metadata.resourceVersion: must be specified");
		return;
	}
	if (!slice_is(version, held) || (uid && !json_is_str(j, uid, slice_of(o->uid)))) {
		api_status(reply, 409, "Conflict", "the object has been modified");
		return;
	}
	status = own(json_raw(j, json_get(j, json_root(j), SLICE("status"))));
	if (strcmp(status, o->status) == 0) {
		free(status);
	} else {
		replace(&o->status, status);
		s->writes++;
		check_status(s, o->name, o->status);
		tell(s, o, "MODIFIED");
		if (s->on_write)
			s->on_write(s->on_write_ctx, o->name, o->status);
	}
	answer_object(o, 200, reply);
}

/* A merge patch of finalizers or spec, or a PUT of both. */
static void change_main(
	struct kube_store *s, struct object *o, const struct json *j, struct api_reply *reply)
{
	const struct json_node *root = json_root(j), *meta = json_get(j, root, SLICE("metadata"));
	const struct json_node *list = json_get(j, meta, SLICE("finalizers"));
	struct slice version = json_inside(j, json_get(j, meta, SLICE("resourceVersion")));
	char held[32];

	(void)snprintf(held, sizeof(held), "%llu", (unsigned long long)o->version);
	if (version.len && !slice_is(version, held)) {
		api_status(reply, 409, "Conflict", "the object has been modified");
		return;
	}
	if (list)
		replace(&o->finalizers,
			json_is(list, JSON_ARRAY) ? own(json_raw(j, list)) : own(slice_of("[]")));
	if (json_get(j, root, SLICE("spec"))) {
		replace(&o->spec, own(json_raw(j, json_get(j, root, SLICE("spec")))));
		o->generation++;
	}
	if (o->deleting && strcmp(o->finalizers, "[]") == 0) {
		answer_object(o, 200, reply);
		drop(s, o);
		return;
	}
	tell(s, o, "MODIFIED");
	answer_object(o, 200, reply);
}

static void create(
	struct kube_store *s, const struct target *t, const struct json *j, struct api_reply *reply)
{
	const struct json_node *root = json_root(j), *meta = json_get(j, root, SLICE("metadata"));
	struct slice name = json_inside(j, json_get(j, meta, SLICE("name")));
	const struct json_node *list = json_get(j, meta, SLICE("finalizers"));
	char *ns = own(t->namespace), *called = own(name);
	struct object *o;

	if (find(s, t->of, t->namespace, name)) {
		api_status(reply, 409, "AlreadyExists", "it exists already");
	} else {
		o = add(s, t->of, ns, called, NULL);
		replace(&o->spec, own(json_raw(j, json_get(j, root, SLICE("spec")))));
		if (list)
			replace(&o->finalizers, own(json_raw(j, list)));
		tell(s, o, "ADDED");
		answer_object(o, 201, reply);
	}
	free(ns);
	free(called);
}

static void on_object(struct kube_store *s, const struct target *t, const struct api_request *req,
	struct object *o, const struct json *j, struct api_reply *reply)
{
	bool status = slice_is(t->sub, "status");

	if (strcmp(req->method, "GET") == 0) {
		answer_object(o, 200, reply);
	} else if (strcmp(req->method, "PUT") == 0 && status) {
		put_status(s, o, j, reply);
	} else if (!status &&
		   (strcmp(req->method, "PUT") == 0 || strcmp(req->method, "PATCH") == 0)) {
		change_main(s, o, j, reply);
	} else if (strcmp(req->method, "DELETE") == 0) {
		answer_object(o, 200, reply);
		delete (s, o);
	} else {
		api_status(reply, 405, "MethodNotAllowed", "the store does not do that");
	}
}

/* Lock held. Not 0: no resource of ours. */
static int carry_out(struct kube_store *s, const struct api_request *req, struct api_reply *reply)
{
	const char *query = strchr(req->path, '?');
	struct target t;
	struct object *o;
	struct json j = {0};

	if (!parse_path((struct slice){req->path, strcspn(req->path, "?")}, &t))
		return -1;
	if (req->body_len && json_read(&j, req->body, req->body_len, NODES, NULL) != 0)
		fatal("no JSON: %s", req->body);
	o = t.name.len ? find(s, t.of, t.namespace, t.name) : NULL;
	if (t.name.len && !o)
		api_status(reply, 404, "NotFound", "there is none of this name");
	else if (t.name.len)
		on_object(s, &t, req, o, &j, reply);
	else if (strcmp(req->method, "POST") == 0)
		create(s, &t, &j, reply);
	else if (strcmp(req->method, "GET") == 0 && query && strstr(query, "watch="))
		open_watch(s, &t, req, reply);
	else
		list(s, &t, reply);
	json_release(&j);
	return 0;
}

/* ---- faults ---- */

static bool fits(const char *pattern, const char *path)
{
	size_t n = strlen(pattern), len = strcspn(path, "?");

	if (n > 0 && pattern[n - 1] == '*')
		return len >= n - 1 && memcmp(pattern, path, n - 1) == 0;
	return n == len && memcmp(pattern, path, len) == 0;
}

static struct fault *next_fault(struct kube_store *s, const struct api_request *req)
{
	for (size_t i = 0; i < s->n_faults; i++) {
		struct fault *f = &s->faults[i];

		if (f->times == 0 || strcmp(f->method, req->method) != 0 ||
			!fits(f->path, req->path))
			continue;
		if (f->times > 0)
			f->times--;
		return f;
	}
	return NULL;
}

static void do_later(struct kube_store *s, const struct api_request *req, int ms)
{
	struct late *l = calloc(1, sizeof(*l));

	if (!l)
		fatal("no memory");
	l->due_ms = api_now_ms() + ms;
	l->req = (struct api_request){.method = own(slice_of(req->method)),
		.path = own(slice_of(req->path)),
		.body = calloc(1, req->body_len + JSON_PAD),
		.body_len = req->body_len};
	if (!l->req.body)
		fatal("no memory");
	memcpy(l->req.body, req->body, req->body_len);
	l->next = s->late;
	s->late = l;
}

static void free_late(struct late *l)
{
	free(l->req.method);
	free(l->req.path);
	free(l->req.body);
	free(l);
}

static int on_request(void *ctx, const struct api_request *req, struct api_reply *reply)
{
	struct kube_store *s = ctx;
	struct fault *f;
	int rc = 0;

	(void)pthread_mutex_lock(&s->lock);
	f = next_fault(s, req);
	if (f && f->what == STORE_CONFLICT)
		api_status(reply, 409, "Conflict", "the object has been modified");
	else if (f && f->what == STORE_FAIL)
		api_status(reply, 500, "InternalError", "the store was told to fail");
	else if (f && f->what == STORE_FORBID)
		api_status(reply, 403, "Forbidden", "the store was told to refuse");
	else if (f && f->what == STORE_CUT_LATE)
		do_later(s, req, f->ms);
	else if (!f || f->what != STORE_CUT_BEFORE)
		rc = carry_out(s, req, reply);
	if (f && f->what == STORE_SLOW)
		reply->delay_ms = f->ms;
	if (f && (f->what == STORE_CUT_BEFORE || f->what == STORE_CUT_AFTER ||
			 f->what == STORE_CUT_LATE))
		reply->cut = true;
	(void)pthread_mutex_unlock(&s->lock);
	return rc;
}

void kube_store_fault(struct kube_store *s, enum store_fault what, const char *method,
	const char *path, int ms, int times)
{
	struct fault *f;

	(void)pthread_mutex_lock(&s->lock);
	if (s->n_faults == FAULTS_MAX)
		fatal("too many faults");
	f = &s->faults[s->n_faults++];
	*f = (struct fault){.what = what, .ms = ms, .times = times};
	(void)snprintf(f->method, sizeof(f->method), "%s", method);
	(void)snprintf(f->path, sizeof(f->path), "%s", path);
	(void)pthread_mutex_unlock(&s->lock);
}

void kube_store_heal(struct kube_store *s)
{
	(void)pthread_mutex_lock(&s->lock);
	s->n_faults = 0;
	(void)pthread_mutex_unlock(&s->lock);
}

/* ---- watches ---- */

/* The next event that may be told. Lock held; NULL: none now. */
static const struct event *next_event(struct kube_store *s)
{
	if (s->muted || s->pushed == s->n_events)
		return NULL;
	if (api_now_ms() < s->opened_ms + OPENING_MS)
		return NULL;
	/* On a machine that stands still the stream may not be there yet; one that is gone already is not waited for. */
	if (s->opened[0] && api_streams(s->api, s->opened) == 0 &&
		api_now_ms() < s->opened_ms + 1000)
		return NULL;
	return &s->events[s->pushed++];
}

static struct late *next_late(struct kube_store *s)
{
	for (struct late **at = &s->late; *at; at = &(*at)->next)
		if ((*at)->due_ms <= api_now_ms()) {
			struct late *l = *at;

			*at = l->next;
			return l;
		}
	return NULL;
}

static void *feed(void *arg)
{
	struct kube_store *s = arg;

	(void)pthread_mutex_lock(&s->lock);
	while (!s->stopping) {
		const struct event *e = next_event(s);
		struct late *l = next_late(s);
		struct api_reply reply = {0};

		if (l) {
			(void)carry_out(s, &l->req, &reply);
			free(reply.body);
			free_late(l);
		}
		if (e) {
			const struct resource *r = &resources[e->of];
			char path[256];

			/* With the lock: a watch that opens now gets it in its first bytes. */
			(void)snprintf(path, sizeof(path), "%s/%s?*", r->api, r->plural);
			(void)api_push(s->api, path, e->text);
			continue;
		}
		(void)pthread_mutex_unlock(&s->lock);
		api_nap(2);
		(void)pthread_mutex_lock(&s->lock);
	}
	(void)pthread_mutex_unlock(&s->lock);
	return NULL;
}

void kube_store_mute(struct kube_store *s, bool yes)
{
	(void)pthread_mutex_lock(&s->lock);
	s->muted = yes;
	(void)pthread_mutex_unlock(&s->lock);
}

/* ---- for tests ---- */

struct kube_store *kube_store_start(void)
{
	struct kube_store *s = calloc(1, sizeof(*s));

	if (!s || pthread_mutex_init(&s->lock, NULL) != 0)
		fatal("no memory");
	s->version = 100;
	s->api = api_start(on_request, s);
	if (pthread_create(&s->feeder, NULL, feed, s) != 0)
		fatal("no thread");
	return s;
}

void kube_store_stop(struct kube_store *s)
{
	struct object *o;
	struct late *l;

	(void)pthread_mutex_lock(&s->lock);
	s->stopping = true;
	(void)pthread_mutex_unlock(&s->lock);
	(void)pthread_join(s->feeder, NULL);
	api_stop(s->api);
	while ((o = s->objects)) {
		s->objects = o->next;
		free_object(o);
	}
	while ((l = s->late)) {
		s->late = l->next;
		free_late(l);
	}
	for (size_t i = 0; i < s->n_events; i++)
		free(s->events[i].text);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}

struct api *kube_store_api(struct kube_store *s)
{
	return s->api;
}

void kube_store_put(struct kube_store *s, const char *name, const char *spec, const char *status,
	const char *finalizers)
{
	struct object *o;
	bool made;

	(void)pthread_mutex_lock(&s->lock);
	o = find_server(s, name);
	made = !o;
	if (made)
		o = add(s, SERVERS, "", name, NULL);
	else if (spec)
		o->generation++;
	if (spec)
		replace(&o->spec, quoted(spec));
	if (status)
		replace(&o->status, quoted(status));
	if (finalizers)
		replace(&o->finalizers, quoted(finalizers));
	tell(s, o, made ? "ADDED" : "MODIFIED");
	(void)pthread_mutex_unlock(&s->lock);
}

void kube_store_server(
	struct kube_store *s, const char *name, unsigned gpus, uint64_t mb, const char *claims)
{
	struct buf spec, status;

	buf_init(&spec, BODY_MAX);
	buf_init(&status, BODY_MAX);
	buf_fmt(&spec,
		"{'address':'10.0.0.1:56001','gpus':[{'model':'V100','memory':'%lluM','count':%u}]"
		"}",
		(unsigned long long)mb, gpus);
	buf_str(&status, "{'version':1,'gpus':[");
	for (unsigned i = 0; i < gpus; i++)
		buf_fmt(&status, "%s{'id':'gpu-%u','model':'V100','memory':%llu,'fit':true}",
			i ? "," : "", i, (unsigned long long)(mb * GPU_BYTES));
	buf_fmt(&status, "],'claims':[%s]}", claims);
	if (spec.failed || status.failed)
		fatal("no memory");
	kube_store_put(s, name, spec.data, status.data, "['poolgate.io/claims']");
	buf_release(&spec);
	buf_release(&status);
}

void kube_store_delete(struct kube_store *s, const char *name)
{
	struct object *o;

	(void)pthread_mutex_lock(&s->lock);
	o = find_server(s, name);
	if (o)
		delete (s, o);
	(void)pthread_mutex_unlock(&s->lock);
}

void kube_store_pod(struct kube_store *s, const char *namespace, const char *name, const char *uid,
	const char *phase, const char *more)
{
	struct object *o;
	char status[128];

	(void)snprintf(status, sizeof(status), "{\"phase\":\"%s\"}", phase ? phase : "Pending");
	(void)pthread_mutex_lock(&s->lock);
	o = find(s, PODS, slice_of(namespace), slice_of(name));
	if (o && (!uid || strcmp(uid, o->uid) != 0)) {
		drop(s, o);
		o = NULL;
	}
	if (uid) {
		bool made = !o;

		if (made)
			o = add(s, PODS, namespace, name, uid);
		if (more)
			replace(&o->more, quoted(more));
		replace(&o->status, own(slice_of(status)));
		tell(s, o, made ? "ADDED" : "MODIFIED");
	}
	(void)pthread_mutex_unlock(&s->lock);
}

char *kube_store_text(struct kube_store *s, const char *server)
{
	const struct object *o;
	char *text;

	(void)pthread_mutex_lock(&s->lock);
	o = find_server(s, server);
	text = o ? text_of(o) : NULL;
	(void)pthread_mutex_unlock(&s->lock);
	return text;
}

size_t kube_store_claims(struct kube_store *s, const char *server, const char *uid)
{
	size_t n = 0;

	(void)pthread_mutex_lock(&s->lock);
	for (const struct object *o = s->objects; o; o = o->next) {
		struct json j;
		char *copy;

		if (o->of != SERVERS || (server && strcmp(server, o->name) != 0))
			continue;
		copy = read_json(&j, o->status);
		JSON_EACH(&j, json_get(&j, json_root(&j), SLICE("claims")), claim)
		{
			n += !uid ||
			     json_is_str(&j, json_get(&j, claim, SLICE("uid")), slice_of(uid));
		}
		json_release(&j);
		free(copy);
	}
	(void)pthread_mutex_unlock(&s->lock);
	return n;
}

bool kube_store_wait_claims(struct kube_store *s, const char *server, const char *uid, size_t n)
{
	for (int i = 0; i < 1000; i++, api_nap(5))
		if (kube_store_claims(s, server, uid) == n)
			return true;
	return false;
}

size_t kube_store_writes(struct kube_store *s)
{
	size_t n;

	(void)pthread_mutex_lock(&s->lock);
	n = s->writes;
	(void)pthread_mutex_unlock(&s->lock);
	return n;
}

void kube_store_on_write(struct kube_store *s,
	void (*fn)(void *ctx, const char *name, const char *status), void *ctx)
{
	(void)pthread_mutex_lock(&s->lock);
	s->on_write = fn;
	s->on_write_ctx = ctx;
	(void)pthread_mutex_unlock(&s->lock);
}

void kube_store_allow_over(struct kube_store *s)
{
	(void)pthread_mutex_lock(&s->lock);
	s->over = true;
	(void)pthread_mutex_unlock(&s->lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test: requests to the store, carried out as an API server does. */
#include "test/unit/kube_store_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

	for (int of = 0; of < STORE_RESOURCES; of++) {
		size_t n = strlen(store_resources[of].api);
		struct slice rest = {path.at + n, path.len - (path.len < n ? path.len : n)};

		*ret = (struct target){.of = of,
			.namespace = slice_of(""),
			.name = slice_of(""),
			.sub = slice_of("")};
		if (path.len < n || memcmp(path.at, store_resources[of].api, n) != 0 ||
			!next_part(&rest, &part))
			continue;
		if (slice_is(part, "namespaces") &&
			(!next_part(&rest, &ret->namespace) || !next_part(&rest, &part)))
			continue;
		if (!slice_is(part, store_resources[of].plural))
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
	reply->body = store_text_of(o);
}

static void list(struct kube_store *s, const struct target *t, struct api_reply *reply)
{
	struct buf out;
	bool first = true;

	buf_init(&out, BODY_MAX);
	buf_fmt(&out,
		"{\"apiVersion\":\"%s\",\"kind\":\"%sList\",\"metadata\":{\"resourceVersion\":"
		"\"%llu\"},\"items\":[",
		store_resources[t->of].version, store_resources[t->of].kind,
		(unsigned long long)s->version);
	for (const struct object *o = s->objects; o; o = o->next) {
		if (o->of != t->of || (t->namespace.len && !slice_is(t->namespace, o->namespace)))
			continue;
		if (!first)
			buf_char(&out, ',');
		first = false;
		store_render(o, &out);
	}
	buf_str(&out, "]}");
	if (out.failed)
		store_fatal("no memory");
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
		store_fatal("a watch without a resourceVersion: %s", req->path);
	buf_init(&out, BODY_MAX);
	/* As an API server whose etcd was restored: it waits for that version, and says in
	 * bookmarks where it is. */
	if (from > s->version)
		buf_fmt(&out,
			"{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":"
			"\"%llu\"}}}\n",
			(unsigned long long)s->version);
	for (size_t i = 0; i < s->pushed; i++)
		if (s->events[i].of == t->of && s->events[i].version > from)
			buf_str(&out, s->events[i].text);
	if (out.failed)
		store_fatal("no memory");
	*reply = (struct api_reply){.status = 200, .stream = true, .body = out.data};
	s->opened_ms = api_now_ms();
	(void)snprintf(s->opened, sizeof(s->opened), "%s", req->path);
}

/* The status as PUT brings it; of a policy, all of whose members are brought, as a merge patch
 * does. */
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
	status = store_own(json_raw(j, json_get(j, json_root(j), SLICE("status"))));
	if (strcmp(status, o->status) == 0) {
		free(status);
	} else {
		store_replace(&o->status, status);
		s->writes++;
		if (o->of == STORE_OF_SERVERS)
			store_check_status(s, o->name, o->status);
		store_tell(s, o, "MODIFIED");
		if (s->on_write && o->of == STORE_OF_SERVERS)
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
		store_replace(&o->finalizers, json_is(list, JSON_ARRAY)
						      ? store_own(json_raw(j, list))
						      : store_own(slice_of("[]")));
	if (json_get(j, root, SLICE("spec"))) {
		store_replace(&o->spec, store_own(json_raw(j, json_get(j, root, SLICE("spec")))));
		o->generation++;
	}
	if (o->deleting && strcmp(o->finalizers, "[]") == 0) {
		answer_object(o, 200, reply);
		store_drop(s, o);
		return;
	}
	store_tell(s, o, "MODIFIED");
	answer_object(o, 200, reply);
}

static void create(
	struct kube_store *s, const struct target *t, const struct json *j, struct api_reply *reply)
{
	const struct json_node *root = json_root(j), *meta = json_get(j, root, SLICE("metadata"));
	struct slice name = json_inside(j, json_get(j, meta, SLICE("name")));
	const struct json_node *list = json_get(j, meta, SLICE("finalizers"));
	char *ns = store_own(t->namespace), *called = store_own(name);
	struct object *o;

	if (store_find(s, t->of, t->namespace, name)) {
		api_status(reply, 409, "AlreadyExists", "it exists already");
	} else {
		o = store_add(s, t->of, ns, called, NULL);
		store_replace(&o->spec, store_own(json_raw(j, json_get(j, root, SLICE("spec")))));
		if (list)
			store_replace(&o->finalizers, store_own(json_raw(j, list)));
		store_tell(s, o, "ADDED");
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
	} else if (status &&
		   strcmp(req->method, o->of == STORE_OF_POLICIES ? "PATCH" : "PUT") == 0) {
		put_status(s, o, j, reply);
	} else if (!status &&
		   (strcmp(req->method, "PUT") == 0 || strcmp(req->method, "PATCH") == 0)) {
		change_main(s, o, j, reply);
	} else if (strcmp(req->method, "DELETE") == 0) {
		answer_object(o, 200, reply);
		store_delete(s, o);
	} else {
		api_status(reply, 405, "MethodNotAllowed", "the store does not do that");
	}
}

int store_carry_out(struct kube_store *s, const struct api_request *req, struct api_reply *reply)
{
	const char *query = strchr(req->path, '?');
	struct target t;
	struct object *o;
	struct json j = {0};

	if (!parse_path((struct slice){req->path, strcspn(req->path, "?")}, &t))
		return -1;
	if (req->body_len && json_read(&j, req->body, req->body_len, NODES, NULL) != 0)
		store_fatal("no JSON: %s", req->body);
	o = t.name.len ? store_find(s, t.of, t.namespace, t.name) : NULL;
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

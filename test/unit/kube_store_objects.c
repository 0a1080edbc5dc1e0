/* SPDX-License-Identifier: Apache-2.0 */
/* test: the store's objects, their events, and what must never stand in a status. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "test/unit/kube_store_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct resource store_resources[STORE_RESOURCES] = {
	[STORE_OF_SERVERS] = {"/apis/poolgate.io/v1alpha1", "gpuservers", "GPUServer",
		"poolgate.io/v1alpha1"},
	[STORE_OF_POLICIES] = {"/apis/poolgate.io/v1alpha1", "gpupolicies", "GPUPolicy",
		"poolgate.io/v1alpha1"},
	[STORE_OF_PODS] = {"/api/v1", "pods", "Pod", "v1"},
};

_Noreturn void store_fatal(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	(void)fputs("store: ", stderr);
	(void)vfprintf(stderr, fmt, args);
	(void)fputc('\n', stderr);
	va_end(args);
	abort();
}

char *store_own(struct slice s)
{
	char *copy = strndup(s.at ? s.at : "", s.len);

	if (!copy)
		store_fatal("no memory");
	return copy;
}

char *store_quoted(const char *text)
{
	char *copy = store_own(slice_of(text));

	for (char *c = copy; *c; c++)
		if (*c == '\'')
			*c = '"';
	return copy;
}

void store_replace(char **at, char *text)
{
	free(*at);
	*at = text;
}

char *store_read_json(struct json *j, const char *text)
{
	struct err err = {0};
	char *copy;

	*j = (struct json){0};
	if (json_read_copy(j, text, strlen(text), NODES, &copy, &err) != 0)
		store_fatal("%s in %s", err.msg, text);
	return copy;
}

/* ---- objects ---- */

struct object *store_find(struct kube_store *s, int of, struct slice namespace, struct slice name)
{
	for (struct object *o = s->objects; o; o = o->next)
		if (o->of == of && slice_is(namespace, o->namespace) && slice_is(name, o->name))
			return o;
	return NULL;
}

struct object *store_find_server(struct kube_store *s, const char *name)
{
	return store_find(s, STORE_OF_SERVERS, slice_of(""), slice_of(name));
}

struct object *store_add(
	struct kube_store *s, int of, const char *namespace, const char *name, const char *uid)
{
	struct object *o = calloc(1, sizeof(*o)), **at = &s->objects;
	char made[32];

	if (!o)
		store_fatal("no memory");
	(void)snprintf(made, sizeof(made), "uid-%llu", (unsigned long long)++s->uids);
	o->made = s->uids;
	o->of = of;
	o->namespace = store_own(slice_of(namespace));
	o->name = store_own(slice_of(name));
	o->uid = store_own(slice_of(uid ? uid : made));
	o->more = store_own(slice_of(""));
	o->finalizers = store_own(slice_of("[]"));
	o->spec = store_own(slice_of("{}"));
	o->status = store_own(slice_of("{}"));
	o->generation = 1;
	while (*at && (strcmp((*at)->namespace, namespace) < 0 ||
			      (strcmp((*at)->namespace, namespace) == 0 &&
				      strcmp((*at)->name, name) < 0)))
		at = &(*at)->next;
	o->next = *at;
	*at = o;
	return o;
}

void store_free_object(struct object *o)
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

void store_render(const struct object *o, struct buf *out)
{
	const struct resource *r = &store_resources[o->of];

	buf_fmt(out, "{\"apiVersion\":\"%s\",\"kind\":\"%s\",\"metadata\":{\"name\":\"%s\",",
		r->version, r->kind, o->name);
	if (*o->namespace)
		buf_fmt(out, "\"namespace\":\"%s\",", o->namespace);
	buf_fmt(out,
		"\"uid\":\"%s\",\"resourceVersion\":\"%llu\",\"generation\":%llu,"
		"\"creationTimestamp\":\"2026-01-01T%02llu:%02llu:%02lluZ\"",
		o->uid, (unsigned long long)o->version, (unsigned long long)o->generation,
		(unsigned long long)(o->made / 3600 % 24), (unsigned long long)(o->made / 60 % 60),
		(unsigned long long)(o->made % 60));
	if (strcmp(o->finalizers, "[]") != 0)
		buf_fmt(out, ",\"finalizers\":%s", o->finalizers);
	if (o->deleting)
		buf_str(out, ",\"deletionTimestamp\":\"2026-01-02T00:00:00Z\"");
	if (*o->more)
		buf_fmt(out, ",%s", o->more);
	buf_fmt(out, "},\"spec\":%s,\"status\":%s}", o->spec, o->status);
}

char *store_text_of(const struct object *o)
{
	struct buf out;

	buf_init(&out, BODY_MAX);
	store_render(o, &out);
	if (out.failed)
		store_fatal("no memory");
	return out.data;
}

void store_tell(struct kube_store *s, struct object *o, const char *type)
{
	struct event *e = &s->events[s->n_events];
	char *text;

	if (s->n_events == EVENTS_MAX)
		store_fatal("too many events");
	o->version = ++s->version;
	text = store_text_of(o);
	*e = (struct event){.of = o->of, .version = o->version};
	if (asprintf(&e->text, "{\"type\":\"%s\",\"object\":%s}\n", type, text) < 0)
		store_fatal("no memory");
	free(text);
	s->n_events++;
	(void)pthread_cond_signal(&s->feed);
}

void store_drop(struct kube_store *s, struct object *o)
{
	struct object **at = &s->objects;

	store_tell(s, o, "DELETED");
	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	store_free_object(o);
}

void store_delete(struct kube_store *s, struct object *o)
{
	if (strcmp(o->finalizers, "[]") == 0) {
		store_drop(s, o);
	} else if (!o->deleting) {
		o->deleting = true;
		store_tell(s, o, "MODIFIED");
	}
}

/* ---- what must never be ---- */

static int64_t bytes_of(const struct json *j, const struct json_node *v, const char *key)
{
	int64_t n = 0;

	if (!json_int(j, json_get(j, v, slice_of(key)), &n) || n < 0)
		store_fatal("a status without a number for %s: %s", key, j->text);
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
		store_fatal("%.*s of %s is promised twice: %lld of %lld bytes: %s", (int)id.len,
			id.at, server, (long long)sum, (long long)memory, j->text);
}

void store_check_status(const struct kube_store *s, const char *server, const char *text)
{
	struct json j;
	char *copy = store_read_json(&j, text);
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
				store_fatal("%.*s is there twice: %s", (int)uid.len, uid.at, text);
	}
	if (claims && claims->count > 256)
		store_fatal("%s has %u claims", server, claims->count);
	json_release(&j);
	free(copy);
}

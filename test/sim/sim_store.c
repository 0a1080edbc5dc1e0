/* SPDX-License-Identifier: Apache-2.0 */
/* sim: objects as an API server keeps them: versions, compare-and-swap, the status subresource, finalizers, lists by page, events. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/sim_api.h"
#include "test/sim/sim_laws.h"

/* Lists of which a page was asked for, and what was not told yet. */
#define LISTS_MAX 64

static const struct {
	const char *collection, *api_version, *kind;
	bool namespaced;
} resources[KINDS] = {
	[SERVERS] = {"/apis/poolgate.io/v1alpha1/gpuservers", "poolgate.io/v1alpha1", "GPUServer",
		false},
	[PODS] = {"/api/v1/pods", "v1", "Pod", true},
	[LEASES] = {"/apis/coordination.k8s.io/v1/leases", "coordination.k8s.io/v1", "Lease", true},
};

struct store store;
static struct {
	uint64_t id, version;
	int64_t until;
	size_t n, at;
	char **items;
} lists[LISTS_MAX];
static uint64_t lists_made;

/* ---- objects ---- */

cJSON *store_at(cJSON *o, const char *a, const char *b)
{
	o = cJSON_GetObjectItemCaseSensitive(o, a);
	return o && b ? cJSON_GetObjectItemCaseSensitive(o, b) : o;
}

struct object *store_first(enum kind kind)
{
	struct object *o = store.objects;

	while (o && o->kind != kind)
		o = o->next;
	return o;
}

struct object *store_next(struct object *o)
{
	enum kind kind = o->kind;

	do
		o = o->next;
	while (o && o->kind != kind);
	return o;
}

struct object *store_find(enum kind kind, const char *namespace, const char *name)
{
	struct object *o = store_first(kind);

	while (o && (strcmp(o->name, name) != 0 || strcmp(o->namespace, namespace) != 0))
		o = store_next(o);
	return o;
}

static void set_text(cJSON *o, const char *name, const char *value)
{
	cJSON_DeleteItemFromObjectCaseSensitive(o, name);
	cJSON_AddStringToObject(o, name, value);
}

/* What the laws and the trace are told of an object's state. */
uint64_t store_hash(const char *text)
{
	uint64_t h = UINT64_C(14695981039346656037);

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
	return h;
}

static void tell(struct object *o, const char *type, const char *who)
{
	struct event_log *l = &store.log[o->kind];
	cJSON *meta = store_at(o->doc, "metadata", NULL);
	char version[24];
	size_t size;

	o->version = ++store.version;
	(void)snprintf(version, sizeof(version), "%llu", (unsigned long long)o->version);
	set_text(meta, "resourceVersion", version);
	cJSON_DeleteItemFromObjectCaseSensitive(meta, "generation");
	cJSON_AddNumberToObject(meta, "generation", (double)o->generation);
	free(o->text);
	o->text = cJSON_PrintUnformatted(o->doc);
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 256;
		l->events = realloc(l->events, l->cap * sizeof(struct event));
	}
	size = strlen(o->text) + 64;
	l->events[l->n] = (struct event){o->version, sim_now(), type, malloc(size)};
	(void)snprintf(
		l->events[l->n++].text, size, "{\"type\":\"%s\",\"object\":%s}\n", type, o->text);
	store.chain =
		(store.chain ^ store_hash(l->events[l->n - 1].text)) * UINT64_C(0x9E3779B97F4A7C15);
	sim_trace(store_hash(o->text), "%s %s %s %s v%s%s%s", who, type, resources[o->kind].kind,
		o->name, version, sim_tracing() && o->kind != LEASES ? " " : "",
		!sim_tracing()       ? ""
		: o->kind == SERVERS ? laws_say(o)
		: o->kind == PODS    ? o->uid + 24
				     : "");
	sim_wake(l);
}

struct object *store_add(enum kind kind, const char *namespace, const char *name, const char *uid,
	cJSON *doc, const char *who)
{
	struct object *o = calloc(1, sizeof(*o)), **at = &store.objects;
	cJSON *meta = store_at(doc, "metadata", NULL);
	char made[40];

	while (*at && strcmp((*at)->name, name) < 0)
		at = &(*at)->next;
	(void)snprintf(made, sizeof(made), "10000000-0000-4000-8000-%012llx",
		(unsigned long long)++store.uids);
	*o = (struct object){.next = *at,
		.kind = kind,
		.namespace = strdup(namespace),
		.name = strdup(name),
		.uid = strdup(uid ? uid : made),
		.generation = 1,
		.doc = doc};
	*at = o;
	if (!meta)
		meta = cJSON_AddObjectToObject(doc, "metadata");
	set_text(meta, "name", name);
	if (*namespace)
		set_text(meta, "namespace", namespace);
	/* No two in one second: the time tells who came first. */
	store.created = store.created < sim_now() / SECOND ? sim_now() / SECOND : store.created + 1;
	(void)snprintf(made, sizeof(made), "2026-11-23T%02d:%02d:%02dZ",
		(int)(store.created / 3600 % 24), (int)(store.created / 60 % 60),
		(int)(store.created % 60));
	set_text(meta, "creationTimestamp", made);
	set_text(meta, "uid", o->uid);
	set_text(doc, "apiVersion", resources[kind].api_version);
	set_text(doc, "kind", resources[kind].kind);
	laws_read(o);
	tell(o, "ADDED", who);
	return o;
}

void store_changed(struct object *o, const char *who)
{
	if (o->kind == SERVERS) {
		laws_before_write(o);
		laws_read(o);
	}
	tell(o, "MODIFIED", who);
	if (o->kind == SERVERS)
		laws_after_write(o, who);
}

static void free_object(struct object *o);

void store_remove(struct object *o, const char *who)
{
	struct object **at = &store.objects;

	while (*at != o)
		at = &(*at)->next;
	*at = o->next;
	tell(o, "DELETED", who);
	if (o->kind == SERVERS)
		laws_after_removal(o);
	free_object(o);
}

void store_delete(struct object *o, const char *who)
{
	if (cJSON_GetArraySize(store_at(o->doc, "metadata", "finalizers")) == 0) {
		store_remove(o, who);
	} else if (!o->deleting) {
		o->deleting = true;
		o->generation++;
		set_text(store_at(o->doc, "metadata", NULL), "deletionTimestamp",
			"2027-01-15T08:00:00Z");
		store_changed(o, who);
	}
}

void store_compact(void)
{
	for (int k = 0; k < KINDS; k++)
		store.log[k].compacted = store.version;
	for (int i = 0; i < LISTS_MAX; i++)
		lists[i].until = 0;
}

/* ---- etcd ---- */

/* More versions than a run makes. */
#define BUMP 1000000

static struct {
	struct object *objects;
	uint64_t version;
	bool bumped;
} backup;

static struct object *copy_of(const struct object *o)
{
	struct object *to = calloc(1, sizeof(*to));

	*to = *o;
	to->next = NULL;
	to->view = NULL;
	to->namespace = strdup(o->namespace);
	to->name = strdup(o->name);
	to->uid = strdup(o->uid);
	to->doc = cJSON_Duplicate(o->doc, true);
	to->text = strdup(o->text);
	return to;
}

static void free_object(struct object *o)
{
	cJSON_Delete(o->doc);
	free(o->namespace);
	free(o->name);
	free(o->uid);
	free(o->text);
	free(o->view);
	free(o);
}

void store_backup(bool bumped)
{
	struct object **at = &backup.objects;

	for (struct object *o = store.objects; o; o = o->next) {
		*at = copy_of(o);
		at = &(*at)->next;
	}
	backup.version = store.version;
	backup.bumped = bumped;
	if (!bumped)
		store.version += BUMP;
}

bool store_restore(void)
{
	if (!backup.objects)
		return false;
	for (struct object *o; (o = store.objects);) {
		store.objects = o->next;
		free_object(o);
	}
	store.objects = backup.objects;
	backup.objects = NULL;
	store.version = backup.bumped ? store.version + BUMP : backup.version;
	store.epoch++;
	for (int k = 0; k < KINDS; k++)
		store.log[k].n = 0;
	store_compact();
	for (struct object *o = store.objects; o; o = o->next)
		laws_read(o);
	laws_restored();
	return true;
}

/* ---- answers ---- */

static void answer_status(struct request *r, long status, const char *reason, const char *message)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
		"\"message\":\"%s\",\"reason\":\"%s\",\"code\":%ld}",
		message, reason, status);
	r->status = status;
	free(r->answer);
	r->answer = strdup(text);
}

static void answer_object(struct request *r, long status, const struct object *o)
{
	r->status = status;
	r->answer = strdup(o->text);
}

static void answer_page(struct request *r, enum kind kind, size_t slot)
{
	size_t size = 512, from = lists[slot].at, to = from + weather.page;
	char next[64] = "";
	char *at;

	if (to > lists[slot].n)
		to = lists[slot].n;
	for (size_t i = from; i < to; i++)
		size += strlen(lists[slot].items[i]) + 1;
	if (to < lists[slot].n)
		(void)snprintf(next, sizeof(next), ",\"continue\":\"%llu\"",
			(unsigned long long)lists[slot].id);
	r->status = 200;
	r->answer = malloc(size);
	at = r->answer + snprintf(r->answer, size,
				 "{\"kind\":\"%sList\",\"apiVersion\":\"%s\",\"metadata\":{"
				 "\"resourceVersion\":\"%llu\"%s},"
				 "\"items\":[",
				 resources[kind].kind, resources[kind].api_version,
				 (unsigned long long)lists[slot].version, next);
	for (size_t i = from; i < to; i++)
		at += sprintf(at, "%s%s", i > from ? "," : "", lists[slot].items[i]);
	(void)strcpy(at, "]}");
	lists[slot].at = to;
}

static void list(struct request *r, enum kind kind, const char *query)
{
	const char *token = query ? strstr(query, "continue=") : NULL;
	uint64_t id = token ? strtoull(token + 9, NULL, 10) : ++lists_made;
	size_t slot = id % LISTS_MAX, n = 0;

	if (token && (lists[slot].id != id || sim_now() > lists[slot].until)) {
		answer_status(r, 410, "Expired", "The provided continue parameter is too old");
		return;
	}
	if (!token) {
		for (size_t i = 0; i < lists[slot].n; i++)
			free(lists[slot].items[i]);
		for (struct object *o = store_first(kind); o; o = store_next(o))
			n++;
		lists[slot].items = realloc(lists[slot].items, (n + 1) * sizeof(char *));
		lists[slot].id = id;
		lists[slot].version = store.version;
		lists[slot].until = sim_now() + 60 * SECOND;
		lists[slot].n = lists[slot].at = 0;
		for (struct object *o = store_first(kind); o; o = store_next(o))
			lists[slot].items[lists[slot].n++] = strdup(o->text);
	}
	answer_page(r, kind, slot);
}

/* ---- writes ---- */

static const char *who_writes(const struct request *r)
{
	static const char *const names[] = {"world", "r1", "r2", "r3", "r4"};

	return names[r->owner];
}

/* Of the body's metadata: is what it names what is there? */
static bool matches(struct request *r, const struct object *o, cJSON *body)
{
	const char *uid = cJSON_GetStringValue(store_at(body, "metadata", "uid"));
	const char *version = cJSON_GetStringValue(store_at(body, "metadata", "resourceVersion"));

	if ((uid && strcmp(uid, o->uid) != 0) ||
		(version && strtoull(version, NULL, 10) != o->version)) {
		answer_status(r, 409, "Conflict",
			"the object has been modified; please apply your changes to the latest "
			"version");
		return false;
	}
	if (!version && strcmp(r->method, "PUT") == 0) {
		answer_status(r, 422, "Invalid",
			"metadata.resourceVersion: must be specified for an update");
		return false;
	}
	return true;
}

/* One member of a document is replaced by that of the body. A write that changes nothing makes no version. */
static void replace(struct request *r, struct object *o, cJSON *body, const char *member)
{
	cJSON *to = cJSON_DetachItemFromObjectCaseSensitive(body, member);

	if (to && !cJSON_Compare(to, store_at(o->doc, member, NULL), true)) {
		cJSON_DeleteItemFromObjectCaseSensitive(o->doc, member);
		cJSON_AddItemToObject(o->doc, member, to);
		if (strcmp(member, "spec") == 0 && o->kind != LEASES)
			o->generation++;
		store_changed(o, who_writes(r));
	} else {
		cJSON_Delete(to);
	}
	answer_object(r, 200, o);
}

/* A merge patch of the main resource: finalizers are all that anybody here changes by one. */
static void patch(struct request *r, struct object *o, cJSON *body)
{
	cJSON *meta = store_at(o->doc, "metadata", NULL);
	cJSON *to = cJSON_DetachItemFromObjectCaseSensitive(
		store_at(body, "metadata", NULL), "finalizers");

	cJSON_DeleteItemFromObjectCaseSensitive(meta, "finalizers");
	if (cJSON_GetArraySize(to) > 0)
		cJSON_AddItemToObject(meta, "finalizers", to);
	else
		cJSON_Delete(to);
	if (o->deleting && !store_at(meta, "finalizers", NULL)) {
		answer_object(r, 200, o);
		store_remove(o, who_writes(r));
		return;
	}
	store_changed(o, who_writes(r));
	answer_object(r, 200, o);
}

static void create(struct request *r, enum kind kind, const char *namespace, cJSON *body)
{
	const char *name = cJSON_GetStringValue(store_at(body, "metadata", "name"));

	if (name && store_find(kind, namespace, name)) {
		answer_status(r, 409, "AlreadyExists", "it exists already");
		return;
	}
	answer_object(r, 201,
		store_add(kind, namespace, name ? name : "", NULL, cJSON_Duplicate(body, true),
			who_writes(r)));
}

/* ---- requests ---- */

struct target {
	enum kind kind;
	char namespace[64], name[64], sub[16];
};

/* "/api/v1/namespaces/ml/pods/web-0/status" */
static bool parse(const char *path, struct target *ret)
{
	size_t len = strcspn(path, "?");
	char text[512], *part, *rest;

	if (len >= sizeof(text))
		return false;
	memcpy(text, path, len);
	text[len] = '\0';
	for (int k = 0; k < KINDS; k++) {
		const char *plural = strrchr(resources[k].collection, '/');
		size_t n = (size_t)(plural - resources[k].collection);
		char copy[512];

		*ret = (struct target){.kind = (enum kind)k};
		if (strncmp(text, resources[k].collection, n) != 0 || text[n] != '/')
			continue;
		(void)strcpy(copy, text + n + 1);
		part = strtok_r(copy, "/", &rest);
		if (part && strcmp(part, "namespaces") == 0) {
			part = strtok_r(NULL, "/", &rest);
			(void)snprintf(
				ret->namespace, sizeof(ret->namespace), "%s", part ? part : "");
			part = strtok_r(NULL, "/", &rest);
		}
		if (!part || strcmp(part, plural + 1) != 0)
			continue;
		part = strtok_r(NULL, "/", &rest);
		(void)snprintf(ret->name, sizeof(ret->name), "%s", part ? part : "");
		part = part ? strtok_r(NULL, "/", &rest) : NULL;
		(void)snprintf(ret->sub, sizeof(ret->sub), "%s", part ? part : "");
		return true;
	}
	return false;
}

static void on_object(struct request *r, const struct target *t, cJSON *body)
{
	struct object *o = store_find(t->kind, t->namespace, t->name);

	if (!o)
		answer_status(r, 404, "NotFound", "there is none of this name");
	else if (strcmp(r->method, "GET") == 0)
		answer_object(r, 200, o);
	else if (!body)
		answer_status(r, 400, "BadRequest", "no body");
	else if (!matches(r, o, body))
		return;
	else if (strcmp(r->method, "PATCH") == 0 && !t->sub[0])
		patch(r, o, body);
	else if (strcmp(r->method, "PUT") == 0)
		replace(r, o, body, strcmp(t->sub, "status") == 0 ? "status" : "spec");
	else
		answer_status(r, 405, "MethodNotAllowed", "the model does not do that");
}

void store_carry_out(struct request *r)
{
	cJSON *body = r->body ? cJSON_Parse(r->body) : NULL;
	struct target t;

	free(r->answer);
	r->answer = NULL;
	if (!parse(r->path, &t)) {
		/* Events are told to nobody here. */
		if (strcmp(r->method, "POST") == 0)
			answer_status(r, 201, "", "");
		else
			answer_status(r, 404, "NotFound",
				"the server could not find the requested resource");
	} else if (t.name[0]) {
		on_object(r, &t, body);
	} else if (strcmp(r->method, "POST") == 0) {
		create(r, t.kind, t.namespace, body);
	} else {
		list(r, t.kind, strchr(r->path, '?'));
	}
	cJSON_Delete(body);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* sim: objects as an API server keeps them, with versions and the events of watches, and etcd's
 * compaction, backup and restore. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/sim_api.h"
#include "test/sim/sim_world.h"

const struct resource resources[KINDS] = {
	[SERVERS] = {"/apis/poolgate.io/v1alpha1/gpuservers", "poolgate.io/v1alpha1", "GPUServer"},
	[PODS] = {"/api/v1/pods", "v1", "Pod"},
	[SECRETS] = {"/api/v1/secrets", "v1", "Secret"},
	[USAGES] = {"/apis/poolgate.io/v1alpha1/gpuusages", "poolgate.io/v1alpha1", "GPUUsage"},
	[POLICIES] = {"/apis/poolgate.io/v1alpha1/gpupolicies", "poolgate.io/v1alpha1",
		"GPUPolicy"},
	[NAMESPACES] = {"/api/v1/namespaces", "v1", "Namespace"},
	[LEASES] = {"/apis/coordination.k8s.io/v1/leases", "coordination.k8s.io/v1", "Lease"},
};

struct store store;

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
	if (o->kind != LEASES) {
		cJSON_DeleteItemFromObjectCaseSensitive(meta, "generation");
		cJSON_AddNumberToObject(meta, "generation", (double)o->generation);
	}
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
		!sim_tracing()        ? ""
		: o->kind == SERVERS  ? laws_say(o)
		: o->kind == PODS     ? o->uid + 24
		: o->kind == POLICIES ? caps_say(o)
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
	(void)snprintf(made, sizeof(made), "2027-01-15T%02d:%02d:%02dZ",
		(int)(8 + store.created / 3600), (int)(store.created / 60 % 60),
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
	if (o->kind == POLICIES)
		caps_written(o);
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

void store_mark_deleted(struct object *o, const char *who)
{
	if (!o->deleting)
		o->generation++;
	o->deleting = true;
	set_text(store_at(o->doc, "metadata", NULL), "deletionTimestamp", "2027-01-15T08:00:00Z");
	store_changed(o, who);
}

void store_delete(struct object *o, const char *who)
{
	if (cJSON_GetArraySize(store_at(o->doc, "metadata", "finalizers")) == 0)
		store_remove(o, who);
	else if (!o->deleting)
		store_mark_deleted(o, who);
}

void store_compact(void)
{
	for (int k = 0; k < KINDS; k++)
		store.log[k].compacted = store.version;
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
	for (int i = 1; i <= REPLICAS_MAX; i++)
		hears_at[i] = FOREVER;
	for (int k = 0; k < KINDS; k++)
		store.log[k].n = 0;
	store_compact();
	for (struct object *o = store.objects; o; o = o->next)
		laws_read(o);
	laws_restored();
	caps_restored();
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* sim: requests as an API server answers them: compare-and-swap, the status subresource,
 * finalizers, lists by page. `make sim-faithful` compares the answers with those of a real one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/sim_world.h"

/* Lists of which a page was asked for, and what was not told yet. */
#define LISTS_MAX 64
/* Of a pod that names none. */
#define GRACE_S 30

static struct {
	uint64_t id, version;
	unsigned epoch;
	int64_t until;
	size_t n;
	char **items;
} lists[LISTS_MAX];
static uint64_t lists_made;

/* ---- answers ---- */

static void answer_status(struct request *r, long status, const char *reason, const char *message)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"%s\","
		"\"message\":\"%s\",\"reason\":\"%s\",\"code\":%ld}",
		status < 300 ? "Success" : "Failure", message, reason, status);
	r->status = status;
	free(r->answer);
	r->answer = strdup(text);
}

static void answer_object(struct request *r, long status, const struct object *o)
{
	r->status = status;
	free(r->answer);
	r->answer = strdup(o->text);
}

static bool answer_conflict(struct request *r)
{
	answer_status(r, 409, "Conflict",
		"the object has been modified; please apply your changes to the latest version");
	return false;
}

/* ---- lists ---- */

static const char *parameter(const char *query, const char *name)
{
	const char *at = query ? strstr(query, name) : NULL;

	return at ? at + strlen(name) : NULL;
}

/* Objects from the from-th on, of which at most so many fit on the page. */
static void answer_page(struct request *r, enum kind kind, size_t slot, size_t from, size_t page)
{
	size_t size = 512, n = lists[slot].n, to = n - from > page ? from + page : n;
	char next[64] = "";
	char *at;

	for (size_t i = from; i < to; i++)
		size += strlen(lists[slot].items[i]) + 1;
	if (to < n)
		(void)snprintf(next, sizeof(next), ",\"continue\":\"%llu.%zu\"",
			(unsigned long long)lists[slot].id, to);
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
}

/* What is there now, for all pages of a list. */
static size_t begin_list(enum kind kind)
{
	uint64_t id = ++lists_made;
	size_t slot = id % LISTS_MAX, n = 0;

	for (size_t i = 0; i < lists[slot].n; i++)
		free(lists[slot].items[i]);
	for (struct object *o = store_first(kind); o; o = store_next(o))
		n++;
	lists[slot].items = realloc(lists[slot].items, (n + 1) * sizeof(char *));
	lists[slot].id = id;
	lists[slot].version = store.version;
	lists[slot].epoch = store.epoch;
	lists[slot].until = sim_now() + 60 * SECOND;
	lists[slot].n = 0;
	for (struct object *o = store_first(kind); o; o = store_next(o))
		lists[slot].items[lists[slot].n++] = strdup(o->text);
	return slot;
}

static void list(struct request *r, enum kind kind, const char *query)
{
	const char *token = parameter(query, "continue="), *limit = parameter(query, "limit=");
	size_t page = limit ? strtoul(limit, NULL, 10) : 0, slot, from = 0;
	char *end = NULL;
	uint64_t id = token ? strtoull(token, &end, 10) : 0;

	if (page == 0 || page > weather.page)
		page = weather.page;
	if (token && *end != '.') {
		answer_status(r, 400, "BadRequest", "continue key is not valid");
		return;
	}
	slot = id % LISTS_MAX;
	if (token && (lists[slot].id != id || lists[slot].epoch != store.epoch ||
			     lists[slot].version <= store.log[kind].compacted ||
			     sim_now() > lists[slot].until)) {
		answer_status(r, 410, "Expired", "The provided continue parameter is too old");
		return;
	}
	if (token)
		from = strtoul(end + 1, NULL, 10);
	else
		slot = begin_list(kind);
	answer_page(r, kind, slot, from, page);
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

	if (version && strtoull(version, NULL, 10) != o->version)
		return answer_conflict(r);
	if (uid && strcmp(uid, o->uid) != 0) {
		if (strcmp(r->method, "PATCH") != 0)
			return answer_conflict(r);
		answer_status(r, 422, "Invalid", "metadata.uid: field is immutable");
		return false;
	}
	if (!version && strcmp(r->method, "PUT") == 0) {
		answer_status(r, 422, "Invalid",
			"metadata.resourceVersion: must be specified for an update");
		return false;
	}
	return true;
}

/* A member of a document becomes that, which is taken over; NULL, or an empty list or object of
 * metadata: there is none. True: it was another. */
static bool take_member(cJSON *to, const char *name, cJSON *value)
{
	cJSON *was = store_at(to, name, NULL);

	if (value && cJSON_GetArraySize(value) == 0) {
		cJSON_Delete(value);
		value = NULL;
	}
	if (value && was ? cJSON_Compare(value, was, true) : !value && !was) {
		cJSON_Delete(value);
		return false;
	}
	cJSON_DeleteItemFromObjectCaseSensitive(to, name);
	if (value)
		cJSON_AddItemToObject(to, name, value);
	return true;
}

/* RFC 7396. NULL: nothing is left. */
static cJSON *merged(const cJSON *was, const cJSON *patch)
{
	cJSON *to, *one;

	if (!cJSON_IsObject(patch))
		return cJSON_IsNull(patch) ? NULL : cJSON_Duplicate(patch, true);
	to = cJSON_IsObject(was) ? cJSON_Duplicate(was, true) : cJSON_CreateObject();
	cJSON_ArrayForEach(one, patch)
	{
		cJSON *value = merged(cJSON_GetObjectItemCaseSensitive(to, one->string), one);

		cJSON_DeleteItemFromObjectCaseSensitive(to, one->string);
		if (value)
			cJSON_AddItemToObject(to, one->string, value);
	}
	return to;
}

/* What that member is to be by a PUT, or by a merge patch, of this body. */
static cJSON *wanted(struct request *r, const cJSON *was, const cJSON *body, const char *name)
{
	const cJSON *now = cJSON_GetObjectItemCaseSensitive(was, name),
		    *to = cJSON_GetObjectItemCaseSensitive(body, name);

	if (strcmp(r->method, "PATCH") == 0)
		return to ? merged(now, to) : now ? cJSON_Duplicate(now, true) : NULL;
	return to ? cJSON_Duplicate(to, true) : NULL;
}

/* An object that is deleted takes no further finalizer. */
static bool more_finalizers(const cJSON *was, const cJSON *now)
{
	const cJSON *a, *b;

	cJSON_ArrayForEach(a, now)
	{
		bool found = false;

		cJSON_ArrayForEach(b, was) found = found || cJSON_Compare(a, b, true);
		if (!found)
			return true;
	}
	return false;
}

/* The last finalizer of what is deleted goes: the answer shows it without, as it would have been
 * written; the watches show it as it was. */
static void remove_last(struct request *r, struct object *o)
{
	cJSON *shown = cJSON_Duplicate(o->doc, true);

	cJSON_DeleteItemFromObjectCaseSensitive(store_at(shown, "metadata", NULL), "finalizers");
	r->status = 200;
	r->answer = cJSON_PrintUnformatted(shown);
	cJSON_Delete(shown);
	store_remove(o, who_writes(r));
}

/* PUT and PATCH. A write that changes nothing makes no version. */
static void change(struct request *r, struct object *o, cJSON *body, bool status)
{
	static const char *const members[] = {"labels", "annotations"};
	cJSON *meta = store_at(o->doc, "metadata", NULL), *to = store_at(body, "metadata", NULL);
	cJSON *finalizers;
	bool changed = false;

	if (status) {
		cJSON *now = wanted(r, o->doc, body, "status");
		cJSON *patch = store_at(body, "status", "conditions");

		if (o->kind == PODS && strcmp(r->method, "PATCH") == 0 && patch)
			cJSON_ReplaceItemInObjectCaseSensitive(now, "conditions",
				patch_conditions(store_at(o->doc, "status", "conditions"), patch));
		changed = take_member(o->doc, "status", now);
	} else {
		finalizers = wanted(r, meta, to, "finalizers");
		if (o->deleting &&
			more_finalizers(store_at(meta, "finalizers", NULL), finalizers)) {
			cJSON_Delete(finalizers);
			answer_status(r, 422, "Invalid",
				"metadata.finalizers: no new finalizers can be added if the object "
				"is being deleted");
			return;
		}
		if (o->deleting && cJSON_GetArraySize(finalizers) == 0) {
			cJSON_Delete(finalizers);
			remove_last(r, o);
			return;
		}
		changed = take_member(meta, "finalizers", finalizers);
		for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
			changed |= take_member(meta, members[i], wanted(r, meta, to, members[i]));
		if (o->kind == SECRETS)
			changed |= take_member(o->doc, "data", wanted(r, o->doc, body, "data"));
		if (take_member(o->doc, "spec", wanted(r, o->doc, body, "spec"))) {
			changed = true;
			o->generation++;
		}
	}
	if (changed)
		store_changed(o, who_writes(r));
	answer_object(r, 200, o);
}

/* A JSON patch, of which all applies or nothing does. */
static void patch_pod(struct request *r, struct object *o, const cJSON *ops)
{
	cJSON *now = patch_apply(o->doc, ops);
	bool held = pod_is_held(o->doc);

	if (!now) {
		answer_status(r, 422, "Invalid",
			"the server rejected our request due to an error in our request");
		return;
	}
	if (cJSON_Compare(now, o->doc, true)) {
		cJSON_Delete(now);
	} else {
		cJSON_Delete(o->doc);
		o->doc = now;
		if (held && !pod_is_held(now)) {
			laws_may_go(o, who_writes(r), http_unaware(r));
			laws_let_go(o);
		}
		store_changed(o, who_writes(r));
	}
	answer_object(r, 200, o);
}

static void leave_slip(struct request *r, struct object *o, cJSON *slip)
{
	if (slip_left(o, slip, who_writes(r), http_unaware(r)))
		answer_object(r, 200, o);
	else
		answer_status(r, 422, "Invalid", "the pod waits for no such slip");
}

static void create(struct request *r, enum kind kind, const char *namespace, cJSON *body)
{
	const char *name = cJSON_GetStringValue(store_at(body, "metadata", "name"));
	cJSON *doc;

	if (name && store_find(kind, namespace, name)) {
		answer_status(r, 409, "AlreadyExists", "it exists already");
		return;
	}
	doc = cJSON_Duplicate(body, true);
	cJSON_DeleteItemFromObjectCaseSensitive(doc, "status");
	if (kind == PODS)
		cJSON_AddStringToObject(cJSON_AddObjectToObject(doc, "status"), "phase", "Pending");
	answer_object(
		r, 201, store_add(kind, namespace, name ? name : "", NULL, doc, who_writes(r)));
}

/* For how long a pod's node may end it; 0: there is none that would. */
static int grace_of(const struct object *o, cJSON *options)
{
	const char *phase = cJSON_GetStringValue(store_at(o->doc, "status", "phase"));
	cJSON *asked = store_at(options, "gracePeriodSeconds", NULL),
	      *own = store_at(o->doc, "spec", "terminationGracePeriodSeconds");

	if (o->kind != PODS || !store_at(o->doc, "spec", "nodeName") ||
		(phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0)))
		return 0;
	return asked ? asked->valueint : own ? own->valueint : GRACE_S;
}

/* As it is when it has gone. */
static void answer_last(struct request *r, const struct object *o)
{
	cJSON *shown = cJSON_Duplicate(o->doc, true);
	char version[24];

	(void)snprintf(version, sizeof(version), "%llu", (unsigned long long)store.version + 1);
	cJSON_ReplaceItemInObjectCaseSensitive(
		store_at(shown, "metadata", NULL), "resourceVersion", cJSON_CreateString(version));
	r->status = 200;
	r->answer = cJSON_PrintUnformatted(shown);
	cJSON_Delete(shown);
}

/* A pod says first how long it has, also if that is no time at all. */
static void delete_pod(struct request *r, struct object *o, cJSON *options)
{
	int grace = grace_of(o, options);
	cJSON *meta = store_at(o->doc, "metadata", NULL);
	cJSON *was = store_at(meta, "deletionGracePeriodSeconds", NULL);

	if (!o->deleting || (was && was->valueint > grace)) {
		cJSON_DeleteItemFromObjectCaseSensitive(meta, "deletionGracePeriodSeconds");
		cJSON_AddNumberToObject(meta, "deletionGracePeriodSeconds", grace);
		store_mark_deleted(o, who_writes(r));
	}
	if (grace > 0 || store_at(meta, "finalizers", NULL)) {
		answer_object(r, 200, o);
		return;
	}
	answer_last(r, o);
	store_remove(o, who_writes(r));
}

static void delete (struct request *r, struct object *o, cJSON *options)
{
	if (o->kind == PODS) {
		delete_pod(r, o, options);
	} else if (store_at(o->doc, "metadata", "finalizers")) {
		store_delete(o, who_writes(r));
		answer_object(r, 200, o);
	} else {
		answer_status(r, 200, "", "");
		store_delete(o, who_writes(r));
	}
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
		if (k != NAMESPACES && part && strcmp(part, "namespaces") == 0) {
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

/* A Lease can be made by PUT. */
static void put_lease(struct request *r, const struct target *t, cJSON *body)
{
	if (store_at(body, "metadata", "uid"))
		(void)answer_conflict(r);
	else
		create(r, t->kind, t->namespace, body);
}

static void on_object(struct request *r, const struct target *t, cJSON *body)
{
	struct object *o = store_find(t->kind, t->namespace, t->name);

	if (!o && t->kind == LEASES && body && strcmp(r->method, "PUT") == 0)
		put_lease(r, t, body);
	else if (!o)
		answer_status(r, 404, "NotFound", "there is none of this name");
	else if (strcmp(r->method, "GET") == 0)
		answer_object(r, 200, o);
	else if (strcmp(r->method, "DELETE") == 0)
		delete (r, o, body);
	else if (!body)
		answer_status(r, 400, "BadRequest", "no body");
	else if (o->kind == PODS && cJSON_IsArray(body) && strcmp(r->method, "PATCH") == 0)
		patch_pod(r, o, body);
	else if (o->kind == PODS && slips_on && strcmp(t->sub, "slip") == 0)
		leave_slip(r, o, body);
	else if (!matches(r, o, body))
		return;
	else if (strcmp(r->method, "PATCH") == 0 || strcmp(r->method, "PUT") == 0)
		change(r, o, body, strcmp(t->sub, "status") == 0);
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
	sim_said("%s: %s %s %ld %s", who_writes(r), r->method, r->path, r->status,
		r->body ? r->body : "");
	cJSON_Delete(body);
}

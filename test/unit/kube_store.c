/* SPDX-License-Identifier: Apache-2.0 */
/* test: gpuservers and pods as an API server keeps them: what tests call. */
#include "test/unit/kube_store_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"

#define GPU_BYTES 1000000ull

struct kube_store *kube_store_start(void)
{
	struct kube_store *s = calloc(1, sizeof(*s));

	if (!s || pthread_mutex_init(&s->lock, NULL) != 0 || thread_cond_init(&s->feed) != 0)
		store_fatal("no memory");
	s->version = 100;
	s->api = api_start(store_on_request, s);
	if (pthread_create(&s->feeder, NULL, store_feed, s) != 0)
		store_fatal("no thread");
	return s;
}

static void free_objects(struct object *list)
{
	for (struct object *o = list, *next; o; o = next) {
		next = o->next;
		store_free_object(o);
	}
}

void kube_store_stop(struct kube_store *s)
{
	struct late *l;

	(void)pthread_mutex_lock(&s->lock);
	s->stopping = true;
	(void)pthread_cond_signal(&s->feed);
	(void)pthread_mutex_unlock(&s->lock);
	(void)pthread_join(s->feeder, NULL);
	api_stop(s->api);
	free_objects(s->objects);
	free_objects(s->backup);
	while ((l = s->late)) {
		s->late = l->next;
		store_free_late(l);
	}
	for (size_t i = 0; i < s->n_events; i++)
		free(s->events[i].text);
	(void)pthread_cond_destroy(&s->feed);
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
	o = store_find_server(s, name);
	made = !o;
	if (made)
		o = store_add(s, STORE_OF_SERVERS, "", name, NULL);
	else if (spec)
		o->generation++;
	if (spec)
		store_replace(&o->spec, store_quoted(spec));
	if (status)
		store_replace(&o->status, store_quoted(status));
	if (finalizers)
		store_replace(&o->finalizers, store_quoted(finalizers));
	store_tell(s, o, made ? "ADDED" : "MODIFIED");
	(void)pthread_mutex_unlock(&s->lock);
}

void kube_store_server(
	struct kube_store *s, const char *name, unsigned gpus, uint64_t mb, const char *claims)
{
	struct buf spec, status;

	buf_init(&spec, BODY_MAX);
	buf_init(&status, BODY_MAX);
	buf_fmt(&spec,
		"{'address':'%s:56001','gpus':[{'model':'V100','memory':'%lluM','count':%u}]}",
		name, (unsigned long long)mb, gpus);
	buf_str(&status, "{'version':1,'gpus':[");
	for (unsigned i = 0; i < gpus; i++)
		buf_fmt(&status, "%s{'id':'gpu-%u','model':'V100','memory':%llu,'fit':true}",
			i ? "," : "", i, (unsigned long long)(mb * GPU_BYTES));
	buf_fmt(&status, "],'claims':[%s]}", claims);
	if (spec.failed || status.failed)
		store_fatal("no memory");
	kube_store_put(s, name, spec.data, status.data, "['poolgate.io/claims']");
	buf_release(&spec);
	buf_release(&status);
}

void kube_store_delete(struct kube_store *s, const char *name)
{
	struct object *o;

	(void)pthread_mutex_lock(&s->lock);
	o = store_find_server(s, name);
	if (o)
		store_delete(s, o);
	(void)pthread_mutex_unlock(&s->lock);
}

void kube_store_remove(struct kube_store *s, const char *name)
{
	kube_store_put(s, name, NULL, NULL, "[]");
	kube_store_delete(s, name);
}

void kube_store_pod(struct kube_store *s, const char *namespace, const char *name, const char *uid,
	const char *phase, const char *more)
{
	struct object *o;
	char status[128];

	(void)snprintf(status, sizeof(status), "{\"phase\":\"%s\"}", phase ? phase : "Pending");
	(void)pthread_mutex_lock(&s->lock);
	o = store_find(s, STORE_OF_PODS, slice_of(namespace), slice_of(name));
	if (o && (!uid || strcmp(uid, o->uid) != 0)) {
		store_drop(s, o);
		o = NULL;
	}
	if (uid) {
		bool made = !o;

		if (made)
			o = store_add(s, STORE_OF_PODS, namespace, name, uid);
		if (more)
			store_replace(&o->more, store_quoted(more));
		store_replace(&o->status, store_own(slice_of(status)));
		store_tell(s, o, made ? "ADDED" : "MODIFIED");
	}
	(void)pthread_mutex_unlock(&s->lock);
}

void kube_store_policy(struct kube_store *s, const char *name, const char *spec)
{
	struct object *o;
	bool made;

	(void)pthread_mutex_lock(&s->lock);
	o = store_find(s, STORE_OF_POLICIES, slice_of(""), slice_of(name));
	if (o && !spec) {
		store_drop(s, o);
		o = NULL;
	}
	made = spec && !o;
	if (made)
		o = store_add(s, STORE_OF_POLICIES, "", name, NULL);
	else if (o)
		o->generation++;
	if (o) {
		store_replace(&o->spec, store_quoted(spec));
		store_tell(s, o, made ? "ADDED" : "MODIFIED");
	}
	(void)pthread_mutex_unlock(&s->lock);
}

void kube_store_policy_status(struct kube_store *s, const char *name, const char *status)
{
	struct object *o;

	(void)pthread_mutex_lock(&s->lock);
	o = store_find(s, STORE_OF_POLICIES, slice_of(""), slice_of(name));
	if (!o)
		store_fatal("no policy %s", name);
	store_replace(&o->status, store_quoted(status));
	store_tell(s, o, "MODIFIED");
	(void)pthread_mutex_unlock(&s->lock);
}

char *kube_store_policy_says(struct kube_store *s, const char *name, const char *member)
{
	const struct json_node *v;
	struct object *o;
	struct json j;
	char *copy, *says;

	(void)pthread_mutex_lock(&s->lock);
	o = store_find(s, STORE_OF_POLICIES, slice_of(""), slice_of(name));
	copy = store_read_json(&j, o ? o->status : "{}");
	v = json_get(&j, json_root(&j), slice_of(member));
	says = store_own(json_is(v, JSON_STRING) ? json_inside(&j, v)
			 : v                     ? json_raw(&j, v)
						 : slice_of(""));
	json_release(&j);
	free(copy);
	(void)pthread_mutex_unlock(&s->lock);
	return says;
}

char *kube_store_text(struct kube_store *s, const char *server)
{
	const struct object *o;
	char *text;

	(void)pthread_mutex_lock(&s->lock);
	o = store_find_server(s, server);
	text = o ? store_text_of(o) : NULL;
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

		if (o->of != STORE_OF_SERVERS || (server && strcmp(server, o->name) != 0))
			continue;
		copy = store_read_json(&j, o->status);
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

void kube_store_backup(struct kube_store *s)
{
	struct object **at = &s->backup;

	(void)pthread_mutex_lock(&s->lock);
	for (const struct object *o = s->objects; o; o = o->next) {
		*at = malloc(sizeof(**at));
		if (!*at)
			store_fatal("no memory");
		**at = *o;
		(*at)->namespace = store_own(slice_of(o->namespace));
		(*at)->name = store_own(slice_of(o->name));
		(*at)->uid = store_own(slice_of(o->uid));
		(*at)->more = store_own(slice_of(o->more));
		(*at)->finalizers = store_own(slice_of(o->finalizers));
		(*at)->spec = store_own(slice_of(o->spec));
		(*at)->status = store_own(slice_of(o->status));
		at = &(*at)->next;
	}
	*at = NULL;
	s->backup_version = s->version;
	(void)pthread_mutex_unlock(&s->lock);
}

void kube_store_restore(struct kube_store *s)
{
	struct object *gone;

	(void)pthread_mutex_lock(&s->lock);
	gone = s->objects;
	s->objects = s->backup;
	s->backup = NULL;
	s->version = s->backup_version;
	while (s->n_events > 0 && s->events[s->n_events - 1].version > s->version)
		free(s->events[--s->n_events].text);
	s->pushed = s->pushed < s->n_events ? s->pushed : s->n_events;
	(void)pthread_mutex_unlock(&s->lock);
	free_objects(gone);
	(void)api_cut(s->api, "*");
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

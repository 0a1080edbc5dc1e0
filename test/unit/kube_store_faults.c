/* SPDX-License-Identifier: Apache-2.0 */
/* test: what goes wrong on the way to the store, and its watches: a thread feeds them, in the order
 * of the writes. */
#include "test/unit/kube_store_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"

/* A stream is told of nothing before the fixture has surely taken it up. */
#define OPENING_MS 50
/* The thread that feeds it is told when there is something for it. */
#define IDLE_MS 60000

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
		store_fatal("no memory");
	l->due_ms = api_now_ms() + ms;
	l->req = (struct api_request){.method = store_own(slice_of(req->method)),
		.path = store_own(slice_of(req->path)),
		.body = calloc(1, req->body_len + JSON_PAD),
		.body_len = req->body_len};
	if (!l->req.body)
		store_fatal("no memory");
	memcpy(l->req.body, req->body, req->body_len);
	l->next = s->late;
	s->late = l;
	(void)pthread_cond_signal(&s->feed);
}

void store_free_late(struct late *l)
{
	free(l->req.method);
	free(l->req.path);
	free(l->req.body);
	free(l);
}

int store_on_request(void *ctx, const struct api_request *req, struct api_reply *reply)
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
		rc = store_carry_out(s, req, reply);
	reply->delay_ms = f && f->what == STORE_SLOW ? f->ms : -1;
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
		store_fatal("too many faults");
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
	/* On a machine that stands still the stream may not be there yet; one that is gone already
	 * is not waited for. */
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

/* When there may be something to do that nobody says. Lock held. */
static int64_t next_ms(const struct kube_store *s)
{
	int64_t now = api_now_ms(), ret = now + IDLE_MS;

	for (const struct late *l = s->late; l; l = l->next)
		ret = l->due_ms < ret ? l->due_ms : ret;
	if (s->muted || s->pushed == s->n_events)
		return ret;
	/* It waits for a stream, which says nothing. */
	if (now >= s->opened_ms + OPENING_MS)
		return now + 2;
	return s->opened_ms + OPENING_MS < ret ? s->opened_ms + OPENING_MS : ret;
}

void *store_feed(void *arg)
{
	struct kube_store *s = arg;

	(void)pthread_mutex_lock(&s->lock);
	while (!s->stopping) {
		const struct event *e = next_event(s);
		struct late *l = next_late(s);
		struct api_reply reply = {0};

		if (l) {
			(void)store_carry_out(s, &l->req, &reply);
			free(reply.body);
			store_free_late(l);
		}
		if (e) {
			const struct resource *r = &store_resources[e->of];
			char path[256];

			/* With the lock: a watch that opens now gets it in its first bytes. */
			(void)snprintf(path, sizeof(path), "%s/%s?*", r->api, r->plural);
			(void)api_push(s->api, path, e->text);
			continue;
		}
		if (!l)
			(void)thread_wait_until(&s->feed, &s->lock, next_ms(s));
	}
	(void)pthread_mutex_unlock(&s->lock);
	return NULL;
}

void kube_store_mute(struct kube_store *s, bool yes)
{
	(void)pthread_mutex_lock(&s->lock);
	s->muted = yes;
	(void)pthread_cond_signal(&s->feed);
	(void)pthread_mutex_unlock(&s->lock);
}

void kube_store_hush(struct kube_store *s)
{
	api_nap(200);
	kube_store_mute(s, true);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* edge: a bounded memory of what images start. */
#include "webhook/edge/image/image_look.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "net/mac.h"
#include "webhook/core/image/image_doc.h"
#include "webhook/core/pod/pod.h"
#include "webhook/edge/image/registry_client.h"

/* Of one image's words as they are kept, and of one pod's credentials. */
#define KEPT_BYTES_MAX (128 * 1024)
#define LOGIN_BYTES_MAX (256 * 1024)

/* One image under one name, for one set of platforms and credentials. */
struct kept {
	unsigned char key[MAC_BYTES];
	bool used, busy; /* busy: somebody asks for it now */
	int64_t until_ms;
	int64_t had_ms; /* the time in which it could not be found out; INT64_MAX: not for want of
			   time */
	struct arena a; /* of what follows */
	struct image_start start;
	const char *failed; /* the sentence, when it could not be found out */
};

struct image_look {
	struct image_look_config cfg;
	pthread_mutex_t lock;
	pthread_cond_t done; /* something is busy no more */
	unsigned waiting;    /* threads in image_look_find */
	struct kept kept[IMAGE_LOOK_KEPT];
};

static int64_t real_ms(void)
{
	return clock_ms();
}

struct image_look *image_look_new(const struct image_look_config *config, struct err *err)
{
	struct image_look *l = calloc(1, sizeof(*l));
	pthread_condattr_t attr;

	if (!l) {
		(void)err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	l->cfg = *config;
	l->cfg.ask = l->cfg.ask ? l->cfg.ask : registry_ask;
	l->cfg.now_ms = l->cfg.now_ms ? l->cfg.now_ms : real_ms;
	(void)pthread_mutex_init(&l->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&l->done, &attr);
	(void)pthread_condattr_destroy(&attr);
	return l;
}

void image_look_free(struct image_look *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < IMAGE_LOOK_KEPT; i++)
		arena_release(&l->kept[i].a);
	(void)pthread_cond_destroy(&l->done);
	(void)pthread_mutex_destroy(&l->lock);
	free(l);
}

bool image_look_allows(const struct registry *all, size_t n, struct slice image)
{
	struct image_name name;
	struct arena a;
	bool yes;

	arena_init_small(&a, 4096, 512);
	yes = image_name_read(image, &a, &name, NULL) == 0 && image_registry(all, n, &name);
	arena_release(&a);
	return yes;
}

/* The architectures that the pod may run on, by its node selector and required node affinity. */
static unsigned arches_of(const struct pod *pod)
{
	unsigned set = 0;
	const char *where;

	for (unsigned i = 0; i < IMAGE_ARCHES; i++)
		if (pod_allows_arch(pod, slice_of(image_arch_name(i)), &where))
			set |= 1u << i;
	return set;
}

/* ---- keys ---- */

static void part(struct buf *b, struct slice s)
{
	buf_u64(b, s.len);
	buf_char(b, ':');
	buf_slice(b, s);
}

static void parts(struct buf *b, const struct slice *list, size_t n)
{
	buf_char(b, ' ');
	buf_u64(b, n);
	for (size_t i = 0; i < n; i++)
		part(b, list[i]);
}

/* Who may read an image is the registry's to say: what one credential was shown is for nobody with
 * another. Nor is what was believed under settings of before believed now. */
static int make_key(
	const struct registry_question *q, unsigned char ret[MAC_BYTES], struct err *err)
{
	const struct registry *r = q->registry;
	struct buf b;
	int rc;

	buf_init(&b, LOGIN_BYTES_MAX);
	part(&b, q->name->host);
	part(&b, q->name->repository);
	part(&b, q->name->tag);
	part(&b, q->name->digest);
	buf_u64(&b, q->arches);
	parts(&b, r->tokens, r->n_tokens);
	parts(&b, r->manifests, r->n_manifests);
	parts(&b, r->storage, r->n_storage);
	parts(&b, r->addresses, r->n_addresses);
	part(&b, slice_of(r->ca));
	for (size_t i = 0; i < q->logins->n; i++) {
		part(&b, q->logins->list[i].user);
		part(&b, q->logins->list[i].password);
	}
	rc = b.failed ? err_set(err, ERR_NOMEM, "out of memory")
		      : mac_digest(buf_as_slice(&b), ret, err);
	if (b.data)
		mac_wipe(b.data, b.cap);
	buf_release(&b);
	return rc;
}

/* ---- what is kept; under the lock ---- */

static struct kept *find(struct image_look *l, const unsigned char *key)
{
	for (size_t i = 0; i < IMAGE_LOOK_KEPT; i++)
		if (l->kept[i].used && memcmp(l->kept[i].key, key, MAC_BYTES) == 0)
			return &l->kept[i];
	return NULL;
}

/* A place for another: one that is free, else the one whose time ends first. Those that are busy
 * are fewer than all. */
static struct kept *make_room(struct image_look *l)
{
	struct kept *best = NULL;

	for (size_t i = 0; i < IMAGE_LOOK_KEPT; i++) {
		struct kept *k = &l->kept[i];

		if (!k->used) {
			arena_release(&k->a);
			arena_init_small(&k->a, KEPT_BYTES_MAX, 512);
			return k;
		}
		if (!k->busy && (!best || k->until_ms < best->until_ms))
			best = k;
	}
	return best;
}

static int tell(const struct kept *k, struct arena *a, struct image_start *ret, struct err *err)
{
	if (k->failed)
		return err_set(err, ERR_REFUSED, "%s", k->failed);
	(void)image_start_copy(a, &k->start, ret);
	return a->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

/* Keep what came of it; what memory was missing for is forgotten. */
static void keep(struct kept *k, int64_t now_ms, int rc, const struct image_start *start,
	const struct err *err, bool by_digest)
{
	bool known = rc == 0 || rc == ERR_REFUSED || rc == ERR_TIMEOUT;

	arena_reset(&k->a);
	k->busy = false;
	k->failed = rc == 0 ? NULL : arena_strdup(&k->a, slice_of(err->msg));
	if (rc == 0)
		(void)image_start_copy(&k->a, start, &k->start);
	k->used = known && !k->a.failed;
	k->until_ms = now_ms + (rc != 0            ? IMAGE_LOOK_FAILED_MS
				       : by_digest ? IMAGE_LOOK_DIGEST_MS
						   : IMAGE_LOOK_TAG_MS);
}

static void wait_until(struct image_look *l, int64_t deadline_ms)
{
	struct timespec t = {.tv_sec = deadline_ms / 1000, .tv_nsec = deadline_ms % 1000 * 1000000};

	(void)pthread_cond_timedwait(&l->done, &l->lock, &t);
}

/* ---- one question ---- */

static int ask_now(struct image_look *l, struct kept *k, const struct registry_question *q,
	struct arena *a, struct image_start *ret, struct err *err)
{
	int64_t left_ms = q->deadline_ms - l->cfg.now_ms();
	int rc;

	k->used = k->busy = true;
	(void)pthread_mutex_unlock(&l->lock);
	rc = l->cfg.ask(q, a, ret, err);
	(void)pthread_mutex_lock(&l->lock);
	k->had_ms = rc == ERR_TIMEOUT ? left_ms : INT64_MAX;
	keep(k, l->cfg.now_ms(), rc, ret, err, q->name->digest.at != NULL);
	(void)pthread_cond_broadcast(&l->done);
	if (rc == ERR_TIMEOUT)
		rc = err->code = ERR_REFUSED;
	return rc;
}

/* What one had no time to find out is no answer for whoever has twice the time: a pod that comes
 * late would else speak for all. */
static bool is_answer(const struct kept *k, int64_t now_ms, int64_t deadline_ms)
{
	return now_ms < k->until_ms && (deadline_ms - now_ms) / 2 < k->had_ms;
}

/* Kept, being asked for by another, or ours to ask for. */
static int find_or_ask(struct image_look *l, const struct registry_question *q, struct arena *a,
	struct image_start *ret, struct err *err)
{
	unsigned char key[MAC_BYTES];
	struct kept *k;
	int rc = make_key(q, key, err);

	if (rc != 0)
		return rc;
	(void)pthread_mutex_lock(&l->lock);
	while ((k = find(l, key)) && k->busy && l->cfg.now_ms() < q->deadline_ms)
		wait_until(l, q->deadline_ms);
	if (k && k->busy) {
		rc = err_set(err, ERR_REFUSED, "its registry did not answer in time");
	} else if (k && is_answer(k, l->cfg.now_ms(), q->deadline_ms)) {
		rc = tell(k, a, ret, err);
	} else {
		k = k ? k : make_room(l);
		memcpy(k->key, key, sizeof(key));
		rc = ask_now(l, k, q, a, ret, err);
	}
	(void)pthread_mutex_unlock(&l->lock);
	return rc;
}

/* Who waits takes a worker from reviews that wait for claims: not all may. */
static bool enter(struct image_look *l)
{
	bool yes;

	(void)pthread_mutex_lock(&l->lock);
	yes = l->waiting < l->cfg.at_once;
	l->waiting += yes;
	(void)pthread_mutex_unlock(&l->lock);
	return yes;
}

static void leave(struct image_look *l)
{
	(void)pthread_mutex_lock(&l->lock);
	l->waiting--;
	(void)pthread_mutex_unlock(&l->lock);
}

static int look(struct image_look *l, const struct registry_question *asked,
	const struct image_ask *ask, struct arena *a, struct image_start *ret, struct err *err)
{
	struct pull_logins logins = {0};
	struct registry_question q = *asked;
	struct err why = {0};
	struct arena secret;
	int rc = 0;

	arena_init_small(&secret, LOGIN_BYTES_MAX, 4096);
	q.logins = &logins;
	if (l->cfg.logins.find)
		rc = l->cfg.logins.find(
			l->cfg.logins.ctx, ask, q.name, q.deadline_ms, &secret, &logins, &why);
	if (rc == 0 && secret.failed)
		rc = ERR_NOMEM;
	rc = rc != 0 ? err_set(err, ERR_NOMEM, "out of memory") : find_or_ask(l, &q, a, ret, err);
	if (rc == ERR_REFUSED && logins.n == 0 && why.code != ERR_NONE) {
		struct err first = *err;

		rc = err_set(err, ERR_REFUSED, "%.300s; %.200s", first.msg, why.msg);
	}
	for (size_t i = 0; i < logins.n; i++) {
		mac_wipe((void *)(uintptr_t)logins.list[i].user.at, logins.list[i].user.len);
		mac_wipe(
			(void *)(uintptr_t)logins.list[i].password.at, logins.list[i].password.len);
	}
	arena_release(&secret);
	return rc;
}

int image_look_find(struct image_look *l, const struct registry *all, size_t n,
	const struct image_ask *ask, int64_t deadline_ms, struct arena *a, struct image_start *ret,
	struct err *err)
{
	struct registry_question q = {.deadline_ms = deadline_ms};
	struct image_name name;
	int rc = image_name_read(ask->image, a, &name, err);

	if (rc != 0)
		return rc == ERR_NOMEM ? rc : err_set(err, ERR_REFUSED, "its name cannot be read");
	q.name = &name;
	q.registry = image_registry(all, n, &name);
	q.arches = arches_of(ask->pod);
	if (!q.registry)
		return err_set(err, ERR_REFUSED, "its registry may not be asked");
	if (!enter(l))
		return err_set(err, ERR_REFUSED,
			"too many images are being looked at; create the pod again");
	rc = look(l, &q, ask, a, ret, err);
	leave(l);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: looks at pods that wait for GPUs. Replicas that do not lead have no picture of pods:
 * they ask, and keep the answer for a while. */
#include "webhook/cluster/ledger/waiting_look.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "kube/kube_object.h"
#include "webhook/core/pod/late.h"
#include "webhook/core/pod/queue_read.h"

/* A pod that waits has no node. */
#define PATH                                                                                       \
	"/api/v1/pods?labelSelector=poolgate.io%2Finjected%3Dtrue&fieldSelector=spec.nodeName%3D"  \
	"%2Cstatus.phase%3DPending"
#define LIST_MAX_MS 700
/* Of what is told of all of them; of reading one. */
#define ROWS_MAX (4u << 20)
#define POD_MAX ((size_t)PLAN_BYTES_MAX * 16)

struct looking {
	struct waiting_seen seen;
	bool words;                  /* rows are wanted */
	struct arena arena, scratch; /* of the rows; of the pod that is read */
	struct pool_waiting *rows;
	size_t n_rows;
};

void waiting_look_init(struct waiting_look *w)
{
	*w = (struct waiting_look){0};
	(void)pthread_mutex_init(&w->lock, NULL);
	buf_init(&w->told, POOL_WAITING_BYTES);
	buf_init(&w->posted, POOL_WAITING_BYTES);
}

void waiting_look_release(struct waiting_look *w)
{
	buf_release(&w->told);
	buf_release(&w->posted);
	(void)pthread_mutex_destroy(&w->lock);
}

static void begin(void *ctx)
{
	struct looking *l = ctx;

	l->seen.n = l->n_rows = 0;
	l->seen.more = false;
	if (!l->words)
		return;
	arena_reset(&l->arena);
	l->rows = arena_array(&l->arena, WAITING_LOOK_MAX, sizeof(*l->rows));
}

static void read_asks(struct looking *l, const struct json *j, const struct json_node *object,
	struct pool_waiting *row)
{
	struct arena *a = &l->scratch;
	struct demand demand;
	struct plan plan;
	struct pod pod;
	int rc;

	pod_glance(j, object, &pod);
	rc = plan_read(pod_annotation(&pod, ANN_PLAN, a), a, &plan, NULL);
	if (rc == 0)
		rc = plan_demand(&plan, false, a, &demand, NULL);
	if (rc == 0)
		row->asks = pool_waiting_asks(&demand, &l->arena);
	if (rc == ERR_NOMEM)
		a->failed = true;
}

/* As the pod says it: what it asks, and what it was told last. */
static void note(struct looking *l, const struct json *j, const struct json_node *object)
{
	const struct json_node *said =
		json_find(j, json_path(j, object, "status", "conditions", NULL), "type",
			SLICE(LATE_CONDITION), false, NULL);
	const struct queue_classes none = {0};
	struct pool_waiting *row;
	struct queue_pod pod = {0};
	struct slice why;

	arena_reset(&l->scratch);
	why = json_str(j, json_get(j, said, SLICE("message")), &l->scratch);
	/* who has its turn waits no more */
	if (json_is_str(j, json_get(j, said, SLICE("status")), SLICE("True")) ||
		!queue_read(j, object, &none, &l->scratch, &pod, NULL))
		return;
	row = &l->rows[l->n_rows++];
	*row = (struct pool_waiting){.namespace = arena_slice(&l->arena, pod.namespace),
		.name = arena_slice(&l->arena, pod.name),
		.gang = arena_slice(&l->arena, pod.gang),
		.why = arena_slice(&l->arena, pool_waiting_why(why)),
		.since_ms = pod.since_ms};
	read_asks(l, j, object, row);
}

static bool each(void *ctx, const struct json *j, const struct json_node *pod)
{
	struct looking *l = ctx;
	struct waiting_seen *seen = &l->seen;
	const struct json_node *gates = late_gates(j, pod);

	if (!late_is_held(j, pod) || gates->count != 1)
		return true;
	seen->more = seen->n == WAITING_LOOK_MAX;
	if (seen->more)
		return false;
	seen->namespaces[seen->n++] = text_hash64(kube_meta(j, pod).namespace);
	if (l->rows)
		note(l, j, pod);
	/* Nobody is told half; for one that is too large to be read the others are not kept back.
	 */
	if (l->rows && l->scratch.failed && !l->scratch.full)
		l->arena.failed = true;
	return true;
}

static int by_age(const void *a, const void *b)
{
	const struct pool_waiting *x = a, *y = b;

	return (x->since_ms > y->since_ms) - (x->since_ms < y->since_ms);
}

static void write_rows(struct looking *l, struct buf *out)
{
	if (l->n_rows)
		qsort(l->rows, l->n_rows, sizeof(*l->rows), by_age);
	pool_waiting_begin(out, false);
	for (size_t i = 0; i < l->n_rows && i < POOL_WAITING_MAX; i++)
		pool_waiting_add(out, &l->rows[i]);
	pool_waiting_end(out, l->n_rows, l->seen.more);
	if (l->arena.failed || out->failed)
		buf_clear(out);
}

/* The lock is held before and after. */
static void look(struct waiting_look *w, bool words)
{
	struct looking l = {.words = words};
	struct err err = {0};
	char version[32];
	int rc;

	w->looking = true;
	(void)pthread_mutex_unlock(&w->lock);
	arena_init(&l.arena, ROWS_MAX);
	arena_init(&l.scratch, POD_MAX);
	rc = kube_list(w->kube, PATH, LIST_MAX_MS, begin, each, &l, version, &err);
	(void)pthread_mutex_lock(&w->lock);
	w->looking = false;
	w->known = rc == 0 || l.seen.more;
	w->seen = l.seen;
	w->due_ms = clock_ms() + WAITING_LOOK_AGAIN_MS;
	if (words) {
		w->tell_due_ms = w->due_ms;
		buf_clear(&w->told);
	}
	if (words && w->known)
		write_rows(&l, &w->told);
	arena_release(&l.scratch);
	arena_release(&l.arena);
}

bool waiting_look_count(void *ctx, struct slice namespace, struct waiters_count *ret)
{
	struct waiting_look *w = ctx;
	uint64_t own = text_hash64(namespace);
	bool known;

	(void)pthread_mutex_lock(&w->lock);
	if (!w->looking && clock_ms() >= w->due_ms)
		look(w, false);
	known = w->known;
	*ret = (struct waiters_count){.all = w->seen.n, .more = w->seen.more};
	for (size_t i = 0; i < w->seen.n; i++)
		ret->here += w->seen.namespaces[i] == own;
	(void)pthread_mutex_unlock(&w->lock);
	return known;
}

struct slice waiting_look_tell(void *ctx, struct arena *a)
{
	struct waiting_look *w = ctx;
	struct slice text = SLICE("null");

	(void)pthread_mutex_lock(&w->lock);
	if (clock_ms() < w->until_ms) {
		text = buf_as_slice(&w->posted);
	} else {
		if (!w->looking && clock_ms() >= w->tell_due_ms)
			look(w, true);
		/* while another looks, what was seen long ago is not for now */
		if (w->told.len && clock_ms() < w->tell_due_ms + WAITING_LOOK_AGAIN_MS)
			text = buf_as_slice(&w->told);
	}
	text = arena_slice(a, text);
	(void)pthread_mutex_unlock(&w->lock);
	return text;
}

void waiting_look_post(struct waiting_look *w, struct buf *list)
{
	struct buf before;

	(void)pthread_mutex_lock(&w->lock);
	before = w->posted;
	w->posted = *list;
	w->until_ms = list->len && !list->failed ? clock_ms() + WAITING_LOOK_POSTED_MS : 0;
	(void)pthread_mutex_unlock(&w->lock);
	*list = before;
	buf_release(list);
}

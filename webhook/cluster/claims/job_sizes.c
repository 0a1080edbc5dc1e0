/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the Job that made a pod, and gangs as large as theirs says: see job_sizes.h. */
#include "webhook/cluster/claims/job_sizes.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json/json_keys.h"
#include "webhook/cluster/duty/side_by_side.h"
#include "webhook/core/pod/queue_read.h"

/* ---- the Job of a pod ---- */

#define SCRATCH_MAX 4096
#define CALL_MS 5000

int job_get(struct kube *k, struct slice namespace, struct slice name, struct slice uid,
	struct kube_answer *ret, struct err *err)
{
	struct kube_place at = {.api = "/apis/batch/v1", .plural = "jobs"};
	struct arena a;
	int rc;

	*ret = (struct kube_answer){0};
	arena_init(&a, SCRATCH_MAX);
	at.namespace = arena_strdup(&a, namespace);
	at.name = arena_strdup(&a, name);
	rc = a.failed ? err_set(err, ERR_NOMEM, "out of memory for the name of a Job")
		      : kube_get_at(k, at, CALL_MS, ret, err);
	if (kube_says_gone(rc, err) ||
		(rc == 0 && !slice_eq(kube_meta(&ret->json, json_root(&ret->json)).uid, uid)))
		rc = err_set(err, ERR_CONFLICT, "its Job is gone");
	arena_release(&a);
	return rc;
}

/* ---- sizes ---- */

/* So many at a time, and then none for so long. */
#define ASK_MAX 256
#define ASK_EVERY_MS 1000
#define AGAIN_MS 5000
/* Where we may not read Jobs. */
#define REFUSED_MS 60000
#define BUCKETS 4096
/* Of lists of who waits. */
#define LIST_MAX ((size_t)64 << 20)

/* Pods of another namespace, or that name another Job by the same uid, have one of their own. */
struct job_size {
	struct job_size *next;
	struct slice namespace, name, uid;
	int64_t asked_ms; /* 0: never */
	int64_t again_ms; /* it is asked from then on */
	uint32_t size;    /* 0: it could not be read */
	uint32_t round;   /* the last in which somebody waited with it */
	size_t turn;      /* among those of its namespace that are to be asked */
	char text[];
};

struct job_sizes {
	struct kube *kube;
	const struct log *log;
	uint32_t round;
	int64_t more_ms; /* so many were asked, and more are from then on */
	size_t asked;
	struct job_size *bucket[BUCKETS];
};

/* Of one word more, so that nobody outside can make two that collide. */
static uint64_t hash_of(uint64_t hash, struct slice word)
{
	struct json_seed seed = json_seed();

	for (size_t i = 0; i < word.len; i++)
		hash = json_mix(hash ^ (unsigned char)word.at[i] ^ seed.a, seed.b | 1);
	return hash;
}

static struct slice keep(char **at, struct slice word)
{
	struct slice kept = {*at, word.len};

	if (word.len)
		memcpy(*at, word.at, word.len);
	*at += word.len;
	return kept;
}

/* NULL: out of memory. */
static struct job_size *size_of(struct job_sizes *all, const struct pod_waiting *pod)
{
	struct slice namespace = pod->pod.namespace, name = pod->job, uid = pod->pod.owner;
	uint64_t hash = hash_of(hash_of(hash_of(0, uid), name), namespace);
	struct job_size **at = &all->bucket[hash % BUCKETS], *s;
	char *text;

	for (s = *at; s; s = s->next)
		if (slice_eq(s->uid, uid) && slice_eq(s->name, name) &&
			slice_eq(s->namespace, namespace))
			return s;
	s = calloc(1, sizeof(*s) + uid.len + name.len + namespace.len);
	if (!s)
		return NULL;
	text = s->text;
	s->namespace = keep(&text, namespace);
	s->name = keep(&text, name);
	s->uid = keep(&text, uid);
	s->next = *at;
	return *at = s;
}

static void forget(struct job_sizes *all, bool these_too)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct job_size **at = &all->bucket[i]; *at;) {
			struct job_size *s = *at;

			if (these_too || s->round != all->round) {
				*at = s->next;
				free(s);
			} else {
				at = &s->next;
			}
		}
}

/* ---- who is asked ---- */

struct asking {
	struct job_sizes *all;
	const struct duty *self;
	struct job_size **due;
	size_t n;
	atomic_bool away; /* nobody answers: the others are not asked now */
};

static int by_namespace(const void *a, const void *b)
{
	const struct job_size *const *x = a, *const *y = b;
	int order = slice_order((*x)->namespace, (*y)->namespace);

	return order ? order
		     : ((*x)->asked_ms > (*y)->asked_ms) - ((*x)->asked_ms < (*y)->asked_ms);
}

static int by_turn(const void *a, const void *b)
{
	const struct job_size *const *x = a, *const *y = b;

	if ((*x)->turn != (*y)->turn)
		return (*x)->turn < (*y)->turn ? -1 : 1;
	return ((*x)->asked_ms > (*y)->asked_ms) - ((*x)->asked_ms < (*y)->asked_ms);
}

/* One of each namespace, and then the next: first who was never asked, then who was asked longest
 * ago. */
static void put_in_order(struct asking *q)
{
	if (q->n == 0)
		return;
	qsort(q->due, q->n, sizeof(struct job_size *), by_namespace);
	for (size_t i = 0; i < q->n; i++)
		q->due[i]->turn = i > 0 && slice_eq(q->due[i]->namespace, q->due[i - 1]->namespace)
					  ? q->due[i - 1]->turn + 1
					  : 0;
	qsort(q->due, q->n, sizeof(struct job_size *), by_turn);
}

static void ask_one(void *ctx, size_t i)
{
	struct asking *q = ctx;
	struct job_size *s = q->due[i];
	struct kube_answer job;
	struct err err = {0};
	int rc;

	if (atomic_load(&q->away) || duty_stopping(q->self))
		return;
	rc = job_get(q->all->kube, s->namespace, s->name, s->uid, &job, &err);
	if (rc == ERR_TIMEOUT || rc == ERR_IO)
		atomic_store(&q->away, true);
	s->asked_ms = clock_ms();
	s->again_ms = s->asked_ms + (rc == ERR_REFUSED ? REFUSED_MS : AGAIN_MS);
	s->size = rc == 0 ? queue_job_size(&job.json, json_root(&job.json)) : 0;
	kube_answer_release(&job);
	if (rc == 0)
		return;
	log_line(q->all->log, LOG_LEVEL_WARN, "how large a gang is cannot be read from its Job",
		log_slice("namespace", s->namespace), log_slice("name", s->name),
		log_str("error", err.msg));
}

static void ask_all(struct asking *q)
{
	struct job_sizes *all = q->all;
	int64_t now = clock_ms();

	if (now >= all->more_ms)
		all->asked = 0;
	if (q->n > ASK_MAX - all->asked)
		q->n = ASK_MAX - all->asked;
	if (q->n == 0)
		return;
	run_side_by_side(q->n, ask_one, q);
	all->asked = atomic_load(&q->away) ? ASK_MAX : all->asked + q->n;
	all->more_ms = clock_ms() + ASK_EVERY_MS;
}

struct job_sizes *job_sizes_new(struct kube *k, const struct log *log)
{
	struct job_sizes *all = calloc(1, sizeof(*all));

	if (all) {
		all->kube = k;
		all->log = log;
	}
	return all;
}

int64_t job_sizes_read(struct job_sizes *all, const struct duty *self,
	struct pod_waiting *const *list, struct queue_pod *pods, size_t n)
{
	struct asking q = {.all = all, .self = self};
	struct job_size **of;
	int64_t now = clock_ms(), next = INT64_MAX;
	struct arena a;

	all->round++;
	arena_init(&a, LIST_MAX);
	of = arena_array(&a, n, sizeof(struct job_size *));
	q.due = arena_array(&a, n, sizeof(struct job_size *));
	for (size_t i = 0; !a.failed && i < n; i++) {
		of[i] = pods[i].gang_job && list[i]->job.at ? size_of(all, list[i]) : NULL;
		if (!of[i] || of[i]->round == all->round)
			continue;
		of[i]->round = all->round;
		if (now >= of[i]->again_ms)
			q.due[q.n++] = of[i];
	}
	put_in_order(&q);
	ask_all(&q);
	now = clock_ms();
	for (size_t i = 0; !a.failed && i < n; i++)
		if (of[i]) {
			int64_t again = of[i]->again_ms > now ? of[i]->again_ms : all->more_ms;

			next = again < next ? again : next;
			pods[i].gang_size = of[i]->size;
		}
	arena_release(&a);
	forget(all, false);
	return next;
}

void job_sizes_free(struct job_sizes *all)
{
	if (!all)
		return;
	forget(all, true);
	free(all);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate plan`: who starts on what is left, as the leader and the validator decide it. */
#include <stdlib.h>
#include <string.h>

#include "webhook/cli/plan_impl.h"

#define WHY_MAX (1u << 16)

static int no_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory while planning");
}

/* The policy of a namespace whose pods wait or start; NULL: none that is known. */
static const struct policy *policy_at(struct plan_job *job, struct slice namespace)
{
	const struct policy *p = NULL;
	struct err ignored = {0};

	/* it was asked before, when the pod was looked at */
	(void)policy_of(job->uses.of, namespace, &job->pool.arena, &p, &ignored);
	return p;
}

/* Count what a pod that starts takes. False: out of memory. */
static bool take(struct plan_job *job, const struct placement *where, struct slice namespace)
{
	size_t last = SIZE_MAX;
	uint64_t bytes = 0;

	for (size_t i = 0; i < where->n_holds; i++) {
		const struct hold *h = &where->holds[i];

		job->claimed[job->pool.inv.servers[h->server].first_gpu + h->gpu] += h->bytes;
		job->n_claims[h->server] += h->server != last;
		last = h->server;
		bytes += h->bytes;
	}
	return pool_read_add_share(&job->pool, namespace, bytes) &&
	       policy_use_add(
		       &job->uses, policy_at(job, namespace), namespace, policy_use_sum(where));
}

/* What is missing for this work, as it is now. */
static bool note_missing(struct plan_job *job, struct plan_work *w)
{
	struct pool_missing *all =
		pool_missing_find(&job->pool.inv, &job->pool.usage, w->demand, &w->n_missing);

	w->missing = arena_copy(&job->pool.arena, all, w->n_missing, sizeof(*all));
	free(all);
	return w->missing != NULL;
}

/* ---- those who wait ---- */

/* Does it start, too, with its gang or as itself? */
static bool starts_with(
	const struct plan_job *job, const struct queue_round *round, size_t i, size_t of)
{
	const struct queue_pod *p = &job->queue[i], *first = &job->queue[of];

	return round->entries[i].verdict == QUEUE_START &&
	       (i == of || (p->gang.at && first->gang.at && slice_eq(p->gang, first->gang) &&
				   slice_eq(p->namespace, first->namespace)));
}

/* The caps of its policy do not leave what it, or its gang as a whole, would take: it is barred, as
 * the leader bars it. False: out of memory. */
static bool bar(struct plan_job *job, const struct queue_round *round, size_t i)
{
	struct queue_pod *p = &job->queue[i];
	const struct policy *policy = policy_at(job, p->namespace);
	struct account_sum wants = {0};
	struct err err = {0};
	int rc;

	if (!policy || !policy_is_capped(policy))
		return true;
	for (size_t k = 0; k < job->n_queue; k++)
		if (starts_with(job, round, k, i)) {
			struct account_sum one = policy_use_sum(&round->entries[k].where);

			wants.gpus += one.gpus;
			wants.bytes += one.bytes;
		}
	rc = policy_use_leaves(&job->uses, policy, p->namespace, wants, &err);
	for (size_t k = 0; rc == ERR_REFUSED && k < job->n_queue; k++)
		if (starts_with(job, round, k, i))
			job->queue[k].barred = arena_slice(&job->pool.arena, slice_of(err.msg));
	return rc != ERR_NOMEM && !job->pool.arena.failed;
}

/* The first of its gang that starts, or it itself. */
static bool is_first(const struct plan_job *job, const struct queue_round *round, size_t i)
{
	size_t k = job->queue[i].gang.at ? 0 : i;

	while (!starts_with(job, round, k, i))
		k++;
	return k == i;
}

static bool starts(const struct plan_job *job, const struct queue_round *round, size_t i)
{
	return round->entries[i].verdict == QUEUE_START && !job->queue[i].barred.at;
}

/* Who starts leaves the queue. False: out of memory. */
static bool start(struct plan_job *job, const struct queue_round *round)
{
	size_t n = 0;
	bool ok = true;

	for (size_t i = 0; ok && i < job->n_queue; i++) {
		if (round->entries[i].verdict != QUEUE_START)
			continue;
		ok = !is_first(job, round, i) || bar(job, round, i);
		if (!ok || job->queue[i].barred.at)
			continue;
		ok = take(job, &round->entries[i].where, job->queue[i].namespace);
		if (job->work_of[i] != SIZE_MAX)
			job->works[job->work_of[i]].started++;
	}
	for (size_t i = 0; i < job->n_queue; i++) {
		if (starts(job, round, i))
			continue;
		job->queue[n] = job->queue[i];
		job->work_of[n++] = job->work_of[i];
	}
	job->n_queue = n;
	return ok;
}

int plan_settle(struct plan_job *job, struct err *err)
{
	struct queue_round round = {.n_start = 1};
	struct pool_read *pool = &job->pool;

	while (job->n_queue > 0 && round.n_start > 0) {
		struct queue_world world = pool_read_world(pool);

		arena_reset(&job->scratch);
		if (queue_decide(&world, job->queue, job->n_queue, false, &job->scratch, &round,
			    err) != 0)
			return err->code;
		pool->n_kept = round.n_keep;
		pool->kept =
			arena_copy(&pool->arena, round.keep, round.n_keep, sizeof(*round.keep));
		if (!pool->kept || !start(job, &round))
			return no_memory(err);
	}
	return 0;
}

/* Put the copies of a work among those who wait. */
static int enqueue(struct plan_job *job, size_t work, struct err *err)
{
	struct plan_work *w = &job->works[work];
	struct arena *a = &job->pool.arena;
	size_t need = job->n_queue + w->looked, cap = 2 * need;

	if (need > job->cap_queue) {
		struct queue_pod *queue = arena_array(a, cap, sizeof(*queue));
		size_t *work_of = arena_array(a, cap, sizeof(*work_of));

		if (!queue || !work_of)
			return no_memory(err);
		for (size_t i = 0; i < job->n_queue; i++) {
			queue[i] = job->queue[i];
			work_of[i] = job->work_of[i];
		}
		job->queue = queue;
		job->work_of = work_of;
		job->cap_queue = cap;
	}
	for (size_t i = 0; i < w->looked; i++) {
		struct queue_pod *p = &job->queue[job->n_queue];

		*p = w->pod;
		/* among those of one age the uid decides: theirs go by the order of the manifests
		 */
		p->uid = slice_of(arena_fmt(a, "~plan-%08zu-%08zu", work, i));
		if (!p->uid.at)
			return no_memory(err);
		job->work_of[job->n_queue++] = work;
	}
	return 0;
}

/* ---- one work ---- */

/* Who does not wait finds what is kept for others taken, as a replica's picture of the pool shows
 * it. NULL: out of memory. */
static const uint64_t *claimed_and_kept(struct plan_job *job, struct arena *a)
{
	const struct pool_read *pool = &job->pool;
	uint64_t *all = arena_copy(a, job->claimed, pool->inv.n_gpus, sizeof(*all));

	for (size_t i = 0; all && i < pool->n_kept; i++) {
		const struct queue_kept *k = &pool->kept[i];
		uint64_t *one = &all[pool->inv.servers[k->server].first_gpu + k->gpu];

		*one = k->bytes < UINT64_MAX - *one ? *one + k->bytes : UINT64_MAX;
	}
	return all;
}

/* Copy by copy, until one finds no room: the others ask the same. */
static int place_now(struct plan_job *job, struct plan_work *w, struct err *err)
{
	struct err why = {0};
	struct placement where;

	while (w->started < w->looked) {
		struct usage use = job->pool.usage;

		arena_reset(&job->scratch);
		use.claimed = claimed_and_kept(job, &job->scratch);
		if (!use.claimed)
			return no_memory(err);
		if (placement_find(&job->pool.inv, &use, w->demand, &job->scratch, &where, &why) !=
				0 ||
			policy_use_leaves(&job->uses, w->policy, w->namespace,
				policy_use_sum(&where), &why) != 0)
			break;
		if (!take(job, &where, w->namespace))
			return no_memory(err);
		w->started++;
	}
	if (why.code == 0)
		return 0;
	w->why = slice_of(arena_strdup(&job->pool.arena, slice_of(why.msg)));
	if (why.code == ERR_NOMEM || !w->why.at)
		return no_memory(err);
	return strcmp(why.reason, "PolicyFull") == 0 || note_missing(job, w) ? 0 : no_memory(err);
}

int plan_place(struct plan_job *job, struct err *err)
{
	size_t last = job->n_works - 1;
	struct plan_work *w = &job->works[last];
	struct err why = {0};
	int rc;

	arena_reset(&job->scratch);
	rc = queue_could_ever(&job->pool.inv, w->demand, &job->scratch, &why);
	if (rc == ERR_NOMEM)
		return no_memory(err);
	w->looked = w->copies < PLAN_COPIES_MAX ? (size_t)w->copies : PLAN_COPIES_MAX;
	if (rc != 0) {
		w->verdict = PLAN_NEVER;
		w->why = slice_of(arena_strdup(&job->pool.arena, slice_of(why.msg)));
		return w->why.at ? 0 : no_memory(err);
	}
	if (!w->waits)
		return place_now(job, w, err);
	rc = enqueue(job, last, err);
	return rc == 0 ? plan_settle(job, err) : rc;
}

/* ---- all of it ---- */

/* What is told of a work is told of its first copy in the order; who has no place comes last. */
static bool is_sooner(const struct queue_entry *e, const struct plan_work *w)
{
	return !w->why.at || (e->place && (!w->place || e->place < w->place));
}

static int note_wait(struct plan_job *job, const struct queue_world *world,
	const struct queue_round *round, size_t i, struct err *err)
{
	struct plan_work *w = &job->works[job->work_of[i]];
	const struct queue_entry *e = &round->entries[i];
	struct buf why;

	if (!is_sooner(e, w))
		return 0;
	buf_init(&why, WHY_MAX);
	queue_say(world, job->queue, job->n_queue, round, i, &why);
	w->why = arena_slice(&job->pool.arena, buf_as_slice(&why));
	w->place = e->place;
	w->depth = round->depth;
	w->n_missing = 0;
	if (e->verdict == QUEUE_NEVER && w->started == 0)
		w->verdict = PLAN_NEVER;
	else if (e->verdict == QUEUE_NO_ROOM && !note_missing(job, w))
		w->why = (struct slice){0};
	buf_release(&why);
	return w->why.at ? 0 : no_memory(err);
}

int plan_finish(struct plan_job *job, struct err *err)
{
	struct queue_world world = pool_read_world(&job->pool);
	struct queue_round round;
	int rc = 0;

	if (job->n_queue == 0)
		return 0;
	if (queue_decide(&world, job->queue, job->n_queue, true, &job->pool.arena, &round, err) !=
		0)
		return err->code;
	for (size_t i = 0; rc == 0 && i < job->n_queue; i++)
		if (job->work_of[i] != SIZE_MAX)
			rc = note_wait(job, &world, &round, i, err);
	return rc;
}

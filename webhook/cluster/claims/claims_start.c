/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: who is let go (laws W3, W5 of waiting): each pod whose turn the queue says it is gets
 * its claim, written as any other claim is, all of a gang or none. The gate falls afterwards, when
 * the claim stands (claims_place.c). */
#include <stdlib.h>

#include "base/clock.h"
#include "base/json/json_number.h"
#include "webhook/cluster/claims/claims_queue_impl.h"
#include "webhook/edge/metrics/metrics.h"

#define SCRATCH_MAX (1u << 20)
#define SCRATCH_USUAL 2048
/* Claims that one round writes: the next is not far. */
#define STARTS_MAX 256

struct starting {
	struct adoption a;
	const struct pod_waiting *pod;
	struct starting *next; /* of its gang */
	bool *started;
	size_t place; /* in the order of the queue, where a cap leaves some of it to others; 0: it
			 does not */
	int rc;
	struct err err;
};

static int start_gang(struct starting *first, struct err *err)
{
	struct adoption **members;
	size_t n = 0;

	for (const struct starting *s = first; s; s = s->next)
		n++;
	members = arena_array(&first->a.arena, n, sizeof(struct adoption *));
	if (!members)
		return err_set(err, ERR_NOMEM, "out of memory for the claims of a gang");
	n = 0;
	for (struct starting *s = first; s; s = s->next)
		members[n++] = &s->a;
	return gang_write(members, n, err);
}

static void start_one(void *ctx, size_t i)
{
	struct queueing *q = ctx;
	struct starting *first = q->units[i];
	int rc;

	if (duty_stopping(q->c->self))
		rc = err_set(&first->err, ERR_TIMEOUT, "this replica does not lead any more");
	else if (first->next)
		rc = start_gang(first, &first->err);
	else
		rc = adopt_write(&first->a, &first->err);
	for (struct starting *s = first; s; s = s->next) {
		s->rc = rc;
		s->err = first->err;
	}
}

static void settle(struct queueing *q, const struct starting *s)
{
	const struct claims_config *cfg = q->c->cfg;
	const struct holder *h = s->a.who;
	int64_t waited = clock_wall_ms() - s->pod->pod.since_ms;

	if (s->rc == 0) {
		q->n_started++;
		*s->started = true;
		metric_observe(cfg->metrics, M_WAIT_SECONDS, 0, 0, waited > 0 ? waited * 1000 : 0);
		log_line(cfg->log, LOG_LEVEL_INFO, "pod has its turn", log_str("uid", h->uid),
			log_str("namespace", h->namespace), log_str("name", h->name),
			log_str("server", s->a.servers[0]), log_int("waited_ms", waited));
		return;
	}
	if (s->rc == ERR_REFUSED) {
		claims_bar(q->c, h->namespace, s->err.msg);
		return;
	}
	/* Somebody else has taken it: the next round decides on what is left. */
	claims_until(q->c, clock_ms() + (s->rc == ERR_CONFLICT ? 0 : CLAIMS_AWAY_MS));
	if (s->rc != ERR_CONFLICT)
		log_line(cfg->log, LOG_LEVEL_WARN, "pod cannot be given its claim yet",
			log_str("uid", h->uid), log_str("namespace", h->namespace),
			log_str("name", h->name), log_str("error", s->err.msg));
}

/* The unit of a gang's other members; NULL: it is the first of it, or goes alone. */
static struct starting *unit_of(const struct queueing *q, const struct queue_pod *pod)
{
	for (size_t i = 0; pod->gang.at && pod->gang_let_go == 0 && i < q->n_units; i++) {
		const struct queue_pod *first = &q->units[i]->pod->pod;

		if (first->gang.at && slice_eq(first->namespace, pod->namespace) &&
			queue_compare_gang(first, pod) == 0)
			return q->units[i];
	}
	return NULL;
}

/* By the queue's order where there are caps, else by server. */
static int by_turn(const void *a, const void *b)
{
	const struct starting *const *x = a, *const *y = b;
	size_t first = (*x)->a.where.servers[0], second = (*y)->a.where.servers[0];

	if ((*x)->place != (*y)->place)
		return (*x)->place < (*y)->place ? -1 : 1;
	return (first > second) - (first < second);
}

static bool is_capped(const struct queueing *q, const struct queue_pod *pod)
{
	return q->capped && q->capped[pod - q->pods];
}

/* Who starts, in the queue's order. NULL: out of memory. */
static size_t *by_place(struct queueing *q)
{
	size_t *order = arena_array(&q->arena, q->round.n_start, sizeof(*order));

	for (size_t i = 0; order && i < q->n; i++)
		if (q->round.entries[i].verdict == QUEUE_START)
			order[q->round.entries[i].place - 1] = i;
	return order;
}

/* Claims of gangs say what each of them asks; those of who begins, what all of these do. */
static void note_begun(struct queueing *q)
{
	struct gpu largest = queue_largest(&q->pool.inventory);

	for (size_t i = 0; i < q->n_units; i++) {
		bool begins = q->units[i]->a.began.size && !q->units[i]->a.began.bytes;
		uint64_t bytes = 0;

		for (struct starting *s = q->units[i]; s; s = s->next) {
			struct gang_began *of = &s->a.began;

			of->like = begins ? largest.bytes : of->like;
			of->asks = of->key ? queue_size_in(&s->pod->demand, of, &largest) : 0;
			bytes = of->asks < JSON_INT_MAX - bytes ? bytes + of->asks : JSON_INT_MAX;
		}
		for (struct starting *s = q->units[i]; s && begins; s = s->next)
			s->a.began.bytes = bytes;
	}
}

/* All members of a gang, or none. Server by server: edits that wait for the same one share a
 * write; but where there are caps, who has what they leave is not for a server's name to say. */
void start_all(struct queueing *q)
{
	const struct slice nobody = {0};
	const size_t *order = by_place(q);

	q->starts = arena_array(&q->arena, q->round.n_start, sizeof(*q->starts));
	q->units = arena_array(&q->arena, q->round.n_start, sizeof(struct starting *));
	q->started = arena_array(&q->arena, q->n, sizeof(*q->started));
	for (size_t k = 0; !q->arena.failed && k < q->round.n_start; k++) {
		struct starting *s = &q->starts[q->n_starts], *first;
		size_t i = order[k], before = q->round.entries[i].before;

		first = unit_of(q, &q->pods[i]);
		if (!first && q->n_starts >= STARTS_MAX)
			continue;
		*s = (struct starting){.pod = q->list[i],
			.next = first ? first->next : NULL,
			.started = &q->started[i],
			.place = is_capped(q, &q->pods[i]) ? k + 1 : 0,
			.a = {.c = q->c,
				.who = q->who[i],
				.turn = true,
				.behind = before == SIZE_MAX ? nobody : q->pods[before].uid,
				.kept = q->world.kept,
				.n_kept = q->world.n_kept,
				.grace_s = q->list[i]->grace_s,
				.plan_hash = q->list[i]->plan_hash,
				.began = q->pods[i].gang_began,
				.pool.inventory = q->pool.inventory,
				.where = q->round.entries[i].where}};
		arena_init_small(&s->a.arena, SCRATCH_MAX, SCRATCH_USUAL);
		q->n_starts++;
		if (first)
			first->next = s;
		else
			q->units[q->n_units++] = s;
	}
	note_begun(q);
	if (q->n_units)
		qsort(q->units, q->n_units, sizeof(struct starting *), by_turn);
	run_side_by_side(q->n_units, start_one, q);
	for (size_t i = 0; i < q->n_starts; i++) {
		settle(q, &q->starts[i]);
		arena_release(&q->starts[i].a.arena);
	}
	if (q->round.n_start > q->n_starts)
		claims_until(q->c, clock_ms());
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: gives pods that wait for their turn a claim (laws W3, W5 to W7 of waiting): the queue
 * decides, and what it says is written as any other claim is. The gate falls afterwards, when the
 * claim stands (claims_place.c). What a leader that died has left half done is taken back, and
 * decided anew. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "webhook/cluster/claims/claims_impl.h"
#include "webhook/core/validate/validate.h"
#include "webhook/edge/metrics/metrics.h"

/* A picture of 1000 servers with 8 GPUs each takes about 3 MB, what is decided about 10 000 pods
 * about as much. */
#define ROUND_MAX (256u << 20)
#define SCRATCH_MAX (1u << 20)
#define SCRATCH_USUAL 2048
/* Claims that one round writes: the next is not far. */
#define STARTS_MAX 256
#define RESERVE_MS 600000
/* Pods are told why they wait so often, and so many at once: words take a search more. */
#define WHY_EVERY_MS 1000
#define WHY_MAX 16

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

struct queueing {
	struct claims *c;
	struct pod_waiting *
		*list; /* who waits; from n on those who have a claim, or leave, or wait no more */
	size_t n, n_list;
	struct arena arena;
	struct holder **who;
	struct pool_view pool;
	struct queue_pod *pods;
	struct demand *demands;
	struct queue_share *shares; /* of the namespaces of those who wait, by name */
	struct policy_law *laws;    /* one for each */
	size_t n_shares;
	struct queue_world world;
	struct queue_round round;
	struct starting *starts;
	size_t n_starts;
	struct starting **units; /* of each gang one */
	size_t n_units;
	bool *started;
	size_t n_started;
	bool words;   /* it says why who waits does */
	bool written; /* something has changed in the picture since it was looked at */
};

/* ---- who waits ---- */

static struct holder *holder_of(struct queueing *q, const struct queue_pod *pod)
{
	struct holder *h = claims_find(q->c, pod->uid);
	const char *uid, *namespace, *name;

	if (h) {
		h->round = q->c->round;
		return holder_rest(h) ? h : NULL;
	}
	uid = arena_strdup(&q->arena, pod->uid);
	namespace = arena_strdup(&q->arena, pod->namespace);
	name = arena_strdup(&q->arena, pod->name);
	h = uid && namespace && name ? claims_holder(q->c, uid, namespace, name) : NULL;
	return h && holder_rest(h) ? h : NULL;
}

/* Who has a whole claim waits for nothing but its gate to fall. *ret_halves: how many have a part
 * of one. False: out of memory. */
static bool find_waiting(struct queueing *q, size_t *ret_halves)
{
	size_t i = 0;

	*ret_halves = 0;
	q->who = arena_array(&q->arena, q->n, sizeof(struct holder *));
	while (q->who && i < q->n) {
		struct pod_waiting *one = q->list[i];
		bool waits = !one->let_go && !one->leaving;
		struct holder *h = waits ? holder_of(q, &one->pod) : NULL;

		if (waits && !h)
			return false;
		if (!waits || (holder_complete(h) && !h->undecided)) {
			q->list[i] = q->list[--q->n];
			q->list[q->n] = one;
			continue;
		}
		*ret_halves += h->n_records > 0;
		q->who[i++] = h;
	}
	return q->who != NULL;
}

/* ---- what is left of another leader's claim ---- */

/* Two claims stand of two leaders, or a part of one. The first is kept where it is whole; all else
 * goes, and of several servers the first goes first (R19). */
static int mend_one(struct claims *c, struct holder *h, struct err *err)
{
	struct adoption a = {.c = c, .who = h};
	int rc;

	arena_init(&a.arena, SCRATCH_MAX);
	if (!adopt_has_whole(&a))
		a.n_servers = 0;
	rc = a.arena.failed ? (int)err_set(err, ERR_NOMEM, "out of memory for a claim")
			    : adopt_drop_elsewhere(&a, err);
	arena_release(&a.arena);
	if (rc == 0)
		log_line(c->cfg->log, LOG_LEVEL_WARN,
			"half a claim of a pod that waits is taken back", log_str("uid", h->uid),
			log_str("namespace", h->namespace), log_str("name", h->name));
	return rc;
}

/* Judged on a list that was made after they were seen: what stands on another server may be the
 * other half. */
static bool mend_halves(struct queueing *q)
{
	struct claims *c = q->c;
	struct err err = {0};

	if (!claims_look_anew(c))
		return false;
	for (size_t i = 0; i < q->n && !duty_stopping(c->self); i++) {
		struct holder *h = q->who[i];

		if (h->n_records == 0 || (holder_complete(h) && !h->undecided))
			continue;
		if ((h->undecided ? gang_take_back(c, h, &err) : mend_one(c, h, &err)) < 0)
			claims_until(c, clock_ms() + CLAIMS_AWAY_MS);
	}
	return claims_look(c);
}

/* ---- the round ---- */

static int by_namespace(const void *a, const void *b)
{
	struct slice x = ((const struct queue_share *)a)->namespace;
	struct slice y = ((const struct queue_share *)b)->namespace;
	int order = memcmp(x.at, y.at, x.len < y.len ? x.len : y.len);

	return order ? order : (x.len > y.len) - (x.len < y.len);
}

static struct queue_share *share_of(const struct queueing *q, struct slice namespace)
{
	struct queue_share key = {.namespace = namespace};

	return q->n_shares ? bsearch(&key, q->shares, q->n_shares, sizeof(key), by_namespace)
			   : NULL;
}

static bool see_held(void *ctx, const struct server_object *o)
{
	struct queueing *q = ctx;

	for (size_t i = 0; i < o->status.n_claims; i++) {
		const struct claim *claim = &o->status.claims[i].claim;
		struct queue_share *s = share_of(q, slice_of(claim->namespace));

		for (size_t k = 0; s && k < claim->n_parts; k++)
			if (__builtin_add_overflow(s->bytes, claim->parts[k].bytes, &s->bytes))
				s->bytes = UINT64_MAX;
	}
	return true;
}

/* What each namespace of those who wait holds now. */
static void count_shares(struct queueing *q)
{
	size_t n = 0;

	q->shares = arena_array(&q->arena, q->n, sizeof(*q->shares));
	for (size_t i = 0; q->shares && i < q->n; i++)
		q->shares[i].namespace = q->pods[i].namespace;
	if (!q->shares)
		return;
	qsort(q->shares, q->n, sizeof(*q->shares), by_namespace);
	for (size_t i = 0; i < q->n; i++)
		if (n == 0 || !slice_eq(q->shares[n - 1].namespace, q->shares[i].namespace))
			q->shares[n++] = q->shares[i];
	q->n_shares = n;
	servers_each(q->c->cfg->servers, see_held, q);
}

/* As a review would hold them to it: whole servers are the profile's to say, where the plan does
 * not. */
static void read_demands(struct queueing *q)
{
	const struct config_source *from = &q->c->cfg->source;
	const struct config *now = from->acquire ? from->acquire(from->ctx) : NULL;

	q->pods = arena_array(&q->arena, q->n, sizeof(*q->pods));
	q->demands = arena_array(&q->arena, q->n, sizeof(*q->demands));
	for (size_t i = 0; q->pods && q->demands && i < q->n; i++) {
		const struct pod_waiting *one = q->list[i];

		q->demands[i] = one->demand;
		q->demands[i].whole_servers = validate_whole_servers(now, &one->plan);
		q->pods[i] = one->pod;
		/* as it was read it knows nothing of whole servers; 0: they are compared */
		q->pods[i].asks = one->pod.asks << 1 | q->demands[i].whole_servers;
		q->pods[i].demand = &q->demands[i];
	}
	if (now)
		from->release(from->ctx, now);
}

/* By law P1 the policy that the namespace picks now, whatever the plan was made by. */
static void read_policies(struct queueing *q)
{
	struct claims *c = q->c;

	if (!c->cfg->policies)
		return;
	q->laws = arena_array(&q->arena, q->n_shares, sizeof(*q->laws));
	for (size_t i = 0; q->laws && i < q->n_shares; i++)
		if (!policy_law_of(c, q->shares[i].namespace, &q->arena, &q->laws[i]))
			return;
	accounts_note_waiting(c->cfg->accounts, NULL);
	for (size_t i = 0; q->laws && i < q->n; i++) {
		const struct policy_law *law =
			&q->laws[share_of(q, q->pods[i].namespace) - q->shares];

		if (law->policy)
			accounts_note_waiting(c->cfg->accounts, law->policy->name);
		if (!policy_law_apply(law, &q->demands[i], &q->pods[i], &q->arena))
			return;
	}
	if (q->laws)
		accounts_noted_all(c->cfg->accounts);
}

static int decide(struct queueing *q, struct err *err)
{
	const struct claims_config *cfg = q->c->cfg;
	struct queue_kept *kept;
	struct queue_world w = {.now_ms = clock_wall_ms(),
		.reserve_ms = cfg->reserve_ms ? cfg->reserve_ms : RESERVE_MS};

	read_demands(q);
	if (q->arena.failed)
		return err_set(err, ERR_NOMEM, "out of memory for the queue");
	count_shares(q);
	read_policies(q);
	/* First what takes calls: the picture is not to be old. */
	job_sizes(q->c, q->list, q->pods, q->n);
	if (servers_view(cfg->servers, false, &q->arena, &q->pool, err) < 0)
		return err->code;
	if (q->arena.failed || !gang_count(q->c, q->list + q->n, q->n_list - q->n,
				       &q->pool.inventory, q->pods, q->n, &q->arena))
		return err_set(err, ERR_NOMEM, "out of memory for the queue");
	w.inventory = &q->pool.inventory;
	w.usage = &q->pool.usage;
	w.shares = q->shares;
	w.n_shares = q->n_shares;
	if (keep_read(q->c, &q->pool.inventory, &q->arena, &kept, &w.n_kept, err) < 0)
		return err->code;
	w.kept = kept;
	q->world = w;
	return queue_decide(&q->world, q->pods, q->n, q->words, &q->arena, &q->round, err);
}

/* ---- claims ---- */

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
	const struct queue_share *s = q->laws ? share_of(q, pod->namespace) : NULL;
	const struct policy *p = s ? q->laws[s - q->shares].policy : NULL;

	return p && policy_is_capped(p);
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

/* All members of a gang, or none. Server by server: edits that wait for the same one share a
 * write; but where there are caps, who has what they leave is not for a server's name to say. */
static void start_all(struct queueing *q)
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
				.gang_size = gang_size_of(&q->pods[i]),
				.pool.inventory = q->pool.inventory,
				.where = q->round.entries[i].where}};
		arena_init_small(&s->a.arena, SCRATCH_MAX, SCRATCH_USUAL);
		q->n_starts++;
		if (first)
			first->next = s;
		else
			q->units[q->n_units++] = s;
	}
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

/* ---- why ---- */

struct telling {
	struct queueing *q;
	size_t *who;
	char (*text)[WHY_BYTES];
	size_t n;
};

static void tell_one(void *ctx, size_t i)
{
	struct telling *t = ctx;
	size_t at = t->who[i];

	if (!duty_stopping(t->q->c->self))
		why_tell(t->q->c, t->q->who[at], t->q->list[at], &t->q->round.entries[at],
			t->text[i]);
}

/* Those who have it now, if they were told that they wait, and some of those who do: the next round
 * waits for it. */
static void tell(struct queueing *q)
{
	struct telling t = {.q = q};
	size_t waiting = 0, most = q->n_starts + WHY_MAX;
	struct buf b;

	t.who = arena_array(&q->arena, most, sizeof(*t.who));
	t.text = arena_array(&q->arena, most, sizeof(*t.text));
	if (q->arena.failed)
		return;
	for (size_t i = 0; i < q->n; i++) {
		bool has = q->round.entries[i].verdict == QUEUE_START;

		if ((has ? !q->started[i] : !q->words || waiting == WHY_MAX) ||
			!why_is_due(q->who[i], q->list[i], &q->round.entries[i]))
			continue;
		waiting += !has;
		buf_init(&b, WHY_BYTES);
		queue_say(&q->world, q->pods, q->n, &q->round, i, &b);
		(void)snprintf(t.text[t.n], WHY_BYTES, "%s", b.data ? b.data : "");
		buf_release(&b);
		t.who[t.n++] = i;
	}
	run_side_by_side(t.n, tell_one, &t);
	if (waiting == WHY_MAX)
		claims_until(q->c, clock_ms() + WHY_EVERY_MS);
}

static void wait_on(struct queueing *q)
{
	int64_t next = q->round.next_ms;

	queue_meter(q->c->cfg->metrics, q->pods, q->n, &q->round, q->world.now_ms);
	if (next != INT64_MAX && next - clock_wall_ms() < CLAIMS_IDLE_MS)
		claims_until(q->c, clock_ms() + next - clock_wall_ms());
}

static void run(struct queueing *q)
{
	struct claims *c = q->c;
	struct err err = {0};
	size_t halves;
	bool good;

	q->words = clock_ms() >= c->why_ms;
	good = find_waiting(q, &halves);

	/* The first look of a leader: the last one's claims may not be in its picture yet. */
	if (good && (halves > 0 || !c->queue_begun)) {
		if (!mend_halves(q))
			return;
		c->queue_begun = true;
		good = find_waiting(q, &halves);
		if (good && halves > 0) {
			claims_until(c, clock_ms());
			return;
		}
	}
	if (!good || decide(q, &err) < 0) {
		log_text(c->cfg->log, LOG_LEVEL_ERROR, "out of memory for the queue");
		claims_until(c, clock_ms() + CLAIMS_AWAY_MS);
		return;
	}
	start_all(q);
	if (q->arena.failed)
		return;
	/* Who has his claim waits for nobody who is told why he waits. */
	if (q->n_started > 0 && claims_look(c))
		claims_place(c);
	if (q->round.head == SIZE_MAX)
		q->written |= keep_write(c, &q->pool.inventory, NULL, NULL, 0);
	else
		q->written |= keep_write(c, &q->pool.inventory, &q->pods[q->round.head],
			q->round.keep, q->round.n_keep);
	since_write(c, q->who, q->list, q->started, q->n);
	tell(q);
	if (q->words) {
		c->why_ms = clock_ms() + WHY_EVERY_MS;
		queue_show(c, &q->world, q->pods, q->n, &q->round, &q->arena);
	}
	wait_on(q);
}

bool claims_queue(struct claims *c)
{
	struct queueing q = {.c = c};
	size_t n;

	if (!pods_synced(c->pods))
		return false;
	q.list = pods_take_waiting(c->pods, &n);
	q.n = q.n_list = n;
	arena_init(&q.arena, ROUND_MAX);
	if (n > 0)
		run(&q);
	else {
		queue_meter(c->cfg->metrics, NULL, 0, NULL, 0);
		queue_show_none(c, true);
		if (c->cfg->accounts) {
			accounts_note_waiting(c->cfg->accounts, NULL);
			accounts_noted_all(c->cfg->accounts);
		}
		q.written = keep_write(c, NULL, NULL, NULL, 0);
	}
	arena_release(&q.arena);
	pods_give_waiting(c->pods, q.list, n);
	return q.written;
}

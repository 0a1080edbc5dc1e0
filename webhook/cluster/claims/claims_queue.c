/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: a round of the queue of pods that wait for their turn (laws W3, W5 to W7 of waiting):
 * who waits, what the queue decides about them, and what follows from it, one step after the other.
 * What a leader that died has left half done is taken back first, and decided anew. */
#include <stdlib.h>

#include "base/clock.h"
#include "webhook/cluster/claims/claims_queue_impl.h"
#include "webhook/core/validate/validate.h"

/* A picture of 1000 servers with 8 GPUs each takes about 3 MB, what is decided about 10 000 pods
 * about as much. */
#define ROUND_MAX (256u << 20)
#define SCRATCH_MAX (1u << 20)
#define RESERVE_MS 600000

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

/* Who has a whole claim waits for nothing but its gate to fall. False: out of memory. */
static bool find_waiting(struct queueing *q)
{
	size_t i = 0;

	q->n_halves = 0;
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
		q->n_halves += h->n_records > 0;
		/* it is counted as one that waits */
		h->seated = true;
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
 * other half. What cannot be taken back now is tried again (halves_ms). */
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
		(void)(h->undecided ? gang_take_back(c, h, &err) : mend_one(c, h, &err));
	}
	return claims_look(c);
}

/* ---- what is decided ---- */

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
		const struct queue_share *s = share_of(q, slice_of(claim->namespace));

		if (s)
			account_sum_add(&q->held[s - q->shares], claim);
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
	q->held = arena_array(&q->arena, q->n, sizeof(*q->held));
	if (!q->shares || !q->held)
		return;
	qsort(q->shares, q->n, sizeof(*q->shares), by_namespace);
	for (size_t i = 0; i < q->n; i++)
		if (n == 0 || !slice_eq(q->shares[n - 1].namespace, q->shares[i].namespace))
			q->shares[n++] = q->shares[i];
	q->n_shares = n;
	servers_each(q->c->cfg->servers, see_held, q);
	for (size_t i = 0; i < n; i++)
		q->shares[i].bytes = q->held[i].bytes;
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
	struct policy_law *laws; /* one for each of the shares */

	if (!c->cfg->policies)
		return;
	laws = arena_array(&q->arena, q->n_shares, sizeof(*laws));
	q->capped = arena_array(&q->arena, q->n, sizeof(*q->capped));
	for (size_t i = 0; laws && i < q->n_shares; i++)
		if (!policy_law_of(c, q->shares[i].namespace, &q->arena, &laws[i]))
			return;
	if (laws)
		policy_laws_count(laws, q->shares, q->held, q->n_shares, &q->arena);
	accounts_note_waiting(c->cfg->accounts, NULL);
	for (size_t i = 0; laws && q->capped && i < q->n; i++) {
		const struct policy_law *law = &laws[share_of(q, q->pods[i].namespace) - q->shares];

		if (law->policy)
			accounts_note_waiting(c->cfg->accounts, law->policy->name);
		if (!policy_law_apply(law, &q->demands[i], &q->pods[i], &q->arena))
			return;
		/* What it has of a claim counts already. */
		if (q->who[i]->n_records == 0)
			policy_law_cap(law, &q->pods[i], &q->arena);
		q->capped[i] = policy_is_capped(law->policy);
	}
	if (laws && q->capped)
		accounts_noted_all(c->cfg->accounts);
}

/* Of gangs that are as large as their Job says. */
static void job_sizes(
	struct claims *c, struct pod_waiting *const *list, struct queue_pod *pods, size_t n)
{
	claims_until(c, job_sizes_read(c->jobs, c->self, list, pods, n));
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
	if (keep_read(q->c, &q->pool.inventory, &q->arena, &q->kept, &kept, &w.n_kept, err) < 0)
		return err->code;
	w.kept = kept;
	q->world = w;
	return queue_decide(&q->world, q->pods, q->n, q->words, &q->arena, &q->round, err);
}

/* ---- one step after the other ---- */

static void wait_on(struct queueing *q)
{
	int64_t next = q->round.next_ms;

	queue_meter(q->c->cfg->metrics, q->pods, q->n, &q->round, q->world.now_ms);
	if (next != INT64_MAX && next - clock_wall_ms() < CLAIMS_IDLE_MS)
		claims_until(q->c, clock_ms() + next - clock_wall_ms());
}

/* What was decided last stays as it is, what is kept and who is told what, and soon there is
 * another round. */
static void leave_out(struct claims *c)
{
	log_text(c->cfg->log, LOG_LEVEL_ERROR, "out of memory for the queue");
}

static void run(struct queueing *q)
{
	struct claims *c = q->c;
	struct err err = {0};
	bool good, halves;

	q->words = clock_ms() >= c->why_ms;
	good = find_waiting(q);
	halves = q->n_halves > 0 && clock_ms() >= c->halves_ms;

	/* The first look of a leader: the last one's claims may not be in its picture yet. */
	if (good && (halves || !c->queue_begun)) {
		if (!mend_halves(q))
			return;
		c->queue_begun = true;
		good = find_waiting(q);
		c->halves_ms = q->n_halves > 0 ? clock_ms() + CLAIMS_AWAY_MS : 0;
	}
	/* Others have their turn all the same. */
	if (q->n_halves > 0)
		claims_until(c, c->halves_ms);
	if (!good || decide(q, &err) < 0) {
		leave_out(c);
		return;
	}
	start_all(q);
	if (q->arena.failed)
		return;
	/* Whom a cap has refused is barred in the next round, which is not far: it has the words.
	 */
	q->words = q->words && !q->refused;
	/* Who has his claim waits for nobody who is told why he waits. */
	if (q->n_started > 0 && claims_look(c))
		claims_place(c);
	/* The head may be one who stands behind that cap: a round without him is not far. */
	if (!q->refused)
		q->written |= keep_write(c, &q->kept, &q->pool.inventory,
			q->round.head == SIZE_MAX ? NULL : &q->pods[q->round.head], q->round.keep,
			q->round.n_keep);
	since_write(c, q->who, q->list, q->started, q->n);
	why_tell(q);
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
	if (!pods_take_waiting(c->pods, &q.list, &n)) {
		leave_out(c);
		return false;
	}
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
		q.written = keep_write(c, NULL, NULL, NULL, NULL, 0);
	}
	arena_release(&q.arena);
	pods_give_waiting(c->pods, q.list, n);
	return q.written;
}

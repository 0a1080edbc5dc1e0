/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: which GPUs a review asks for, by this replica's picture, and when a refusal is final
 * (rules R4 and R6). */
#include "base/clock.h"
#include "webhook/cluster/ledger/ledger_kube_impl.h"
#include "webhook/core/pool/queue.h"

/* How long a review waits for others' commits before it looks again. */
#define LOOK_AGAIN_MS 50

/* The placement as records, one for each server; reserved at once. Lock held. */
static int reserve(struct take *t, const struct placement *p, struct err *err)
{
	struct servers *s = t->l->servers;
	const char **names = arena_array(t->arena, p->n_holds, sizeof(*names));

	t->n = 0;
	t->records = arena_array(t->arena, p->n_holds, sizeof(*t->records));
	t->reserved = arena_array(t->arena, p->n_holds, sizeof(*t->reserved));
	if (!names || !t->records || !t->reserved)
		return ledger_no_memory(err);
	for (size_t i = 0; i < p->n_holds; i++) {
		const struct gpu_server *server = &s->inv.servers[p->holds[i].server];
		struct claim_record *r;

		if (i == 0 || p->holds[i].server != p->holds[i - 1].server) {
			r = &t->records[t->n];
			*r = (struct claim_record){
				.claim = {.key = t->uid,
					.namespace = t->namespace,
					.name = t->name,
					.state = CLAIM_PENDING,
					.plan_hash = t->ask->plan_hash,
					.since_ms = clock_wall_ms(),
					.parts = arena_array(
						t->arena, server->n_gpus, sizeof(*r->claim.parts))},
				.take = t->ticket,
				.grace_s = t->ask->grace_s,
				.servers = names};
			names[t->n++] = arena_strdup(t->arena, slice_of(server->name));
		}
		r = &t->records[t->n - 1];
		if (t->arena->failed)
			return ledger_no_memory(err);
		r->claim.parts[r->claim.n_parts++] = (struct claim_part){.server = names[t->n - 1],
			.gpu = arena_strdup(t->arena, slice_of(server->gpus[p->holds[i].gpu].id)),
			.bytes = p->holds[i].bytes};
	}
	if (t->arena->failed)
		return ledger_no_memory(err);
	for (size_t i = 0; i < t->n; i++) {
		struct server_entry *e = servers_find(s, names[i]);

		t->records[i].n_servers = t->n;
		t->reserved[i] = (struct reservation){.next = e->reserved, .claim = &t->records[i]};
		e->reserved = &t->reserved[i];
		s->n_reserved++;
		servers_recount(s, e);
	}
	return 0;
}

/* Lock held. */
void take_unreserve(struct take *t)
{
	struct servers *s = t->l->servers;

	for (size_t i = 0; i < t->n; i++) {
		struct server_entry *e = servers_find(s, t->records[i].servers[i]);
		struct reservation **at = e ? &e->reserved : NULL;

		while (at && *at && *at != &t->reserved[i])
			at = &(*at)->next;
		if (!at || !*at)
			continue;
		*at = (*at)->next;
		s->n_reserved--;
		servers_recount(s, e);
	}
	t->n = 0;
	(void)pthread_cond_broadcast(&s->cond);
}

/* Take what uid holds out of the sums. Lock held. */
static void subtract(const struct servers *s, const char *uid, uint64_t *sums)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct held *h = s->entries[i]->held;
		ptrdiff_t at = h ? server_status_claim(&h->object.status, slice_of(uid)) : -1;
		const struct claim *c;

		if (at < 0)
			continue;
		c = &h->object.status.claims[at].claim;
		for (size_t k = 0; k < c->n_parts; k++) {
			ptrdiff_t g =
				server_status_gpu(&h->object.status, slice_of(c->parts[k].gpu));
			uint64_t *sum =
				g < 0 ? NULL
				      : &sums[s->inv.servers[s->entries[i]->index].first_gpu +
						(size_t)g];

			if (sum)
				*sum -= c->parts[k].bytes < *sum ? c->parts[k].bytes : *sum;
		}
	}
}

/* The picture without what this claim replaces. Lock held. False: out of memory. */
static bool without_old(struct take *t, struct usage *use)
{
	const struct servers *s = t->l->servers;
	uint64_t *sums;

	if (!t->half)
		return true;
	sums = arena_copy(&t->scratch, use->claimed, s->inv.gpu_places, sizeof(*sums));
	use->claimed = sums;
	use->room = NULL;
	if (!sums || s->inv.n_gpus == 0)
		return sums != NULL;
	subtract(s, t->uid, sums);
	return true;
}

/* Rule R14: what may have made room is reason enough to decide again, without the list that a "no"
 * rests on. Lock held, and let go meanwhile. */
static enum take_next wait_for_news(struct take *t, int64_t deadline_ms, int *rc, struct err *err)
{
	struct servers *s = t->l->servers;
	int64_t soon = clock_ms() + LOOK_AGAIN_MS;
	uint64_t room = s->room;

	while (s->list_good < t->list && (s->room == room || clock_ms() < soon)) {
		int64_t until = s->room == room || soon > deadline_ms ? deadline_ms : soon;

		if (servers_list_hopeless(s, t->list, deadline_ms)) {
			*rc = servers_list_error(s, t->list, err);
			*rc = *rc == ERR_NOMEM ? ERR_NOMEM : ledger_away(err);
			return NEXT_DONE;
		}
		(void)servers_wait(s, until);
	}
	return NEXT_DECIDE;
}

/* What others on this replica are about to commit may yet come to nothing, and what they have
 * committed is newer than the rest until it is shown: no refusal rests on either. Where that takes
 * long the next one rests on another list. Lock held, and let go meanwhile. */
static void wait_for_others(struct take *t, int64_t deadline_ms)
{
	struct servers *s = t->l->servers;
	int64_t until = clock_ms() + LOOK_AGAIN_MS;
	uint64_t room = s->room;

	while (s->room == room && (s->n_reserved || s->n_ahead) &&
		servers_wait(s, until < deadline_ms ? until : deadline_ms))
		;
	if (s->n_reserved || s->n_ahead)
		t->list = 0;
}

/* The list has come on which a "no" rests (rule R4). Lock held. */
static bool list_came(struct take *t, int64_t deadline_ms)
{
	const struct servers *s = t->l->servers;

	/* What is not believed takes no claims, though it may have room. */
	if (!t->list || t->list < s->list_owed)
		t->list = servers_want_list(t->l->servers, deadline_ms);
	/* A later one is coming in: the picture is newer in part, and may show as full a pool that
	 * never was. */
	if (s->list_comes_in && t->list < s->lists[LIST_REVIEWS])
		t->list = s->lists[LIST_REVIEWS];
	return t->l->servers->list_good >= t->list;
}

static uint64_t bytes_of(const struct placement *p)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->n_holds; i++)
		sum += p->holds[i].bytes;
	return sum;
}

/* GPUs were found: reserve them. Lock held, and let go where that is refused. */
static enum take_next use_found(
	struct take *t, const struct placement *p, int64_t deadline_ms, int *rc, struct err *err)
{
	if (take_is_phantom(t, bytes_of(p), err)) {
		*rc = ERR_REFUSED;
		if (list_came(t, deadline_ms))
			return NEXT_DONE;
		take_drop_copy(t);
		return wait_for_news(t, deadline_ms, rc, err);
	}
	*rc = reserve(t, p, err);
	return *rc == 0 ? NEXT_COMMIT : NEXT_DONE;
}

/* ---- decisions on a copy, without the lock ---- */

/* Does nobody hold anything for this uid yet? The lock was let go. */
static bool still_nothing(struct take *t)
{
	struct take_held f;

	return take_find(t, &f) && f.n == 0;
}

/* The search, or its reasons, take longer than others may wait for the lock. Lock held, and let go
 * meanwhile. */
static enum take_next decide_aside(struct take *t, int64_t deadline_ms, int *rc, struct err *err)
{
	struct servers *s = t->l->servers;
	bool came = t->list && list_came(t, deadline_ms);
	struct placement p = {0};
	struct copy c;

	err_clear(err);
	t->copies++;
	*rc = take_decide_on_copy(t, true, deadline_ms, &c, &p, err);
	if (*rc == 0)
		return still_nothing(t) && copy_holds_now(s, &c.view, &p)
			       ? use_found(t, &p, deadline_ms, rc, err)
			       : NEXT_DECIDE;
	if (*rc != ERR_REFUSED)
		return NEXT_DONE;
	if (!came)
		return list_came(t, deadline_ms) ? NEXT_DECIDE
						 : wait_for_news(t, deadline_ms, rc, err);
	if (c.reserved)
		*rc = take_decide_on_copy(t, false, deadline_ms, &c, &p, err);
	if (*rc == 0 && clock_ms() < deadline_ms) {
		take_drop_copy(t);
		wait_for_others(t, deadline_ms);
	}
	if (*rc == 0 || (*rc == ERR_REFUSED && !c.still))
		return NEXT_DECIDE;
	if (*rc != ERR_REFUSED)
		return NEXT_DONE;
	return take_waits_for_end(t, deadline_ms) ? NEXT_DECIDE : NEXT_DONE;
}

/* ---- by the picture itself ---- */

/* Refused by the picture as it is: is that final? Lock held, and let go meanwhile. */
static enum take_next refused(
	struct take *t, const struct usage *use, int64_t deadline_ms, int *rc, struct err *err)
{
	struct servers *s = t->l->servers;
	struct usage committed = servers_usage(s, false);
	struct placement p;

	if (!list_came(t, deadline_ms))
		return wait_for_news(t, deadline_ms, rc, err);
	if (!without_old(t, &committed)) {
		*rc = ledger_no_memory(err);
		return NEXT_DONE;
	}
	committed.budget = use->budget;
	*rc = s->n_reserved || s->n_ahead
		      ? placement_find(&s->inv, &committed, t->ask->demand, &t->scratch, &p, NULL)
		      : ERR_REFUSED;
	if (*rc == ERR_TIMEOUT)
		return decide_aside(t, deadline_ms, rc, err);
	/* Also where the deadline has passed by now: that is no refusal for want of room. */
	if (*rc == 0) {
		wait_for_others(t, deadline_ms);
		return NEXT_DECIDE;
	}
	/* Now that it may be read, in words. */
	*rc = placement_find(&s->inv, use, t->ask->demand, &t->scratch, &p, err);
	if (*rc == ERR_TIMEOUT)
		return decide_aside(t, deadline_ms, rc, err);
	return *rc != ERR_REFUSED || !take_waits_for_end(t, deadline_ms) ? NEXT_DONE : NEXT_DECIDE;
}

/* Find GPUs, where it costs nothing away from servers that another replica writes to. Lock held. As
 * placement_find, but without words. */
static int find(struct take *t, const struct usage *use, struct placement *ret)
{
	struct servers *s = t->l->servers;
	const struct demand *d = t->ask->demand;
	struct usage elsewhere = *use;

	elsewhere.n_claims = servers_elsewhere(s, &t->scratch);
	if (elsewhere.n_claims &&
		placement_find(&s->inv, &elsewhere, d, &t->scratch, ret, NULL) == 0 &&
		ret->n_servers == 1)
		return 0;
	return placement_find(&s->inv, use, d, &t->scratch, ret, NULL);
}

/* The picture is there, and true. Lock held. */
static int look(struct take *t, struct err *err)
{
	struct servers *s = t->l->servers;

	err_clear(err);
	arena_reset(&t->scratch);
	if (!s->synced)
		return err_reason(err, ERR_REFUSED, "ApiServerAway",
			"this replica has not read the GPU pool yet; create the pod again");
	return servers_judge(s) ? 0 : ledger_no_memory(err);
}

int take_could_ever(struct take *t, int64_t deadline_ms, struct err *err)
{
	bool came, still;
	int rc;

	while (clock_ms() < deadline_ms) {
		rc = look(t, err);
		if (rc != 0)
			return rc;
		if (queue_few_hold(&t->l->servers->inv, t->ask->demand, &t->scratch))
			return 0;
		came = t->list && list_came(t, deadline_ms);
		rc = take_could_by_all(t, deadline_ms, &still, err);
		if (rc != ERR_REFUSED || (came && still))
			return rc;
		if (!list_came(t, deadline_ms) &&
			wait_for_news(t, deadline_ms, &rc, err) == NEXT_DONE)
			return rc;
	}
	return err_set(err, ERR_TIMEOUT, "the deadline passed before the pool could be read");
}

/* Find GPUs and reserve them. Lock held, and let go meanwhile. */
enum take_next take_decide(struct take *t, int64_t deadline_ms, int *rc, struct err *err)
{
	struct servers *s = t->l->servers;
	struct usage use;
	struct placement p;

	*rc = look(t, err);
	if (*rc != 0)
		return NEXT_DONE;
	use = servers_usage(s, true);
	/* a half claim is rare, and of a pod with several servers */
	use.budget = t->half || t->copies >= COPIES_MAX ? 0 : s->looks_at_once;
	*rc = without_old(t, &use) ? find(t, &use, &p) : ERR_NOMEM;
	if (*rc == ERR_TIMEOUT)
		return decide_aside(t, deadline_ms, rc, err);
	if (*rc == ERR_REFUSED)
		return refused(t, &use, deadline_ms, rc, err);
	if (*rc == 0)
		return use_found(t, &p, deadline_ms, rc, err);
	(void)ledger_no_memory(err);
	return NEXT_DONE;
}

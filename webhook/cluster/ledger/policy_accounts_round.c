/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: an account is read, raised for all that wait, counted anew where it is full, and written
 * by compare-and-swap. The count is of a list that begins after the account was read (law P6): what
 * was raised before stands in that list or has its name in the account, and what is raised later
 * makes the write a conflict. */
#include <stdlib.h>

#include "base/clock.h"
#include "webhook/cluster/ledger/policy_accounts_impl.h"

#define SCRATCH_MAX ((size_t)32 << 20)
/* One call, when nobody is in a hurry. */
#define CALL_MS 5000
/* Where replicas write in turn, what was read so long ago is another's by now: to ask is cheaper
 * than to be told so. */
#define OTHERS_MS 5000
#define FRESH_MS 10
/* Whoever would fit but for what was counted ahead waits so long for it to end. */
#define PATIENCE_MS 4000

/* ---- the account ---- */

/* As it was read. What somebody has broken by hand is counted anew. */
static int load(struct round *r)
{
	struct account_entry *e = r->e;
	int rc = account_read(buf_as_slice(&e->text), &r->arena, &r->account, &r->err);

	if (rc == ERR_SYNTAX)
		log_line(r->x->log, LOG_LEVEL_WARN,
			"the account of a GPUPolicy cannot be read, and is counted anew",
			log_str("policy", e->name));
	if (rc == ERR_NOMEM)
		return rc;
	r->changed = rc == ERR_SYNTAX;
	for (size_t i = 0; i < r->n_closed; i++) {
		if (!account_close(&r->account, r->closed[i]->uid, r->closed[i]->take))
			continue;
		r->changed = true;
		for (size_t k = 0; k < r->n_named; k++)
			if (r->named[k].instead == r->closed[i]->take)
				account_name(&r->account, &r->named[k], &r->arena);
	}
	return 0;
}

/* Read it anew, and the claims behind it. */
static int load_counted(struct round *r)
{
	int rc = account_get(r);

	if (rc == 0)
		rc = servers_refresh(r->x->servers, r->deadline_ms, &r->err);
	if (rc == 0)
		rc = load(r);
	/* Under another spec it was not counted, or there was no cap. */
	if (rc == 0 && r->account.generation != r->e->generation)
		rc = account_know_all(r);
	for (size_t i = 0; rc == 0 && i < r->n; i++)
		if (!account_know(&r->account, r->list[i]->ask->namespace, &r->arena))
			rc = account_no_memory(&r->err);
	if (rc == 0)
		rc = account_count_claims(r);
	r->counted = rc == 0;
	return rc;
}

/* Who fits is counted in. *ret_unfit: others are left, who have been passed already, or whom
 * nobody passes. */
static void raise_all(struct round *r, bool *ret_unfit)
{
	bool unfit = false, passed = false, any = false;

	for (size_t i = 0; i < r->n; i++) {
		struct raise *one = r->list[i];

		one->said = account_raise(
			&r->account, &r->e->caps, r->e->generation, one->ask, &r->arena);
		any = any || one->said == ACCOUNT_RAISED;
		if (one->said != ACCOUNT_FULL && one->said != ACCOUNT_UNKNOWN)
			continue;
		unfit = true;
		r->full |= one->said == ACCOUNT_FULL;
		passed = passed || one->passed;
	}
	r->changed |= any;
	*ret_unfit = unfit && (passed || !any);
}

/* ---- who waits ---- */

static void finish(struct raise *one, int rc, const struct err *err)
{
	one->rc = rc;
	if (rc != 0 && one->err)
		*one->err = *err;
	one->finished = true;
}

static void finish_all(struct round *r, int rc)
{
	for (size_t i = 0; i < r->n; i++)
		if (!r->list[i]->finished)
			finish(r->list[i], rc, &r->err);
}

static bool is_to_wait(const struct round *r, const struct raise *one)
{
	return !one->ask->at_once && clock_ms() - one->since_ms < PATIENCE_MS &&
	       ahead_hides(r, one->ask);
}

/* Written, or there was nothing to write. */
static void settle(struct round *r, bool written)
{
	struct err err;

	for (size_t i = 0; i < r->n; i++) {
		struct raise *one = r->list[i];

		if (one->said == ACCOUNT_RAISED || one->said == ACCOUNT_THERE) {
			if (written)
				finish(one, 0, NULL);
		} else if (r->counted && is_to_wait(r, one)) {
			one->passed = r->rest = true;
		} else if (r->counted) {
			/* It is true of the moment of the count, whatever became of the write. */
			err = (struct err){0};
			finish(one, account_refuse(&r->account, &r->e->caps, one->ask, &err), &err);
		} else {
			one->passed = true;
		}
	}
}

/* Their names came with the write that has closed this take. */
static void are_named(struct account_entry *e, uint64_t after)
{
	for (struct own_take *t = e->takes; t; t = t->next)
		if (t->after == after)
			t->after = 0;
}

/* Their names are out of it. */
static void forget_closed(struct round *r)
{
	for (size_t i = 0; i < r->n_closed; i++) {
		struct own_take **at = &r->e->takes;

		while (*at != r->closed[i])
			at = &(*at)->next;
		are_named(r->e, r->closed[i]->take);
		*at = r->closed[i]->next;
		free(r->closed[i]);
	}
	r->n_closed = 0;
}

/* Nobody could be asked, or the answer was no. True: there is no use in waiting. */
static bool gave_up(struct round *r, int rc)
{
	if (kube_says_gone(rc, &r->err)) {
		r->gone = true;
		rc = err_reason(&r->err, ERR_REFUSED, "NoPolicy",
			"there is no GPUPolicy %s any more, which the namespace picks by the "
			"label " LABEL_POLICY,
			r->e->name);
	} else if (rc == ERR_REFUSED) {
		rc = (int)(r->err.code = ERR_IO);
		r->err.reason[0] = '\0';
	} else if (rc != ERR_NOMEM && rc != ERR_INVALID && rc != ERR_SYNTAX) {
		return false;
	}
	finish_all(r, rc);
	r->vain = !r->gone && rc != ERR_NOMEM;
	return true;
}

/* Has another replica written it by now? */
static bool is_others(const struct account_entry *e)
{
	int64_t now = clock_ms();

	return e->others_ms && now - e->others_ms < OTHERS_MS && now - e->read_ms > FRESH_MS;
}

/* Without the lock. True: something came of it. */
static bool work(struct round *r)
{
	bool unfit = false;
	/* That there is no cap is nothing that a write would tell from what is there by now. */
	bool usable = r->e->known && policy_is_capped(&r->e->caps) && !is_others(r->e);
	int rc = usable ? 0 : account_get(r);

	if (rc != 0)
		return gave_up(r, rc);
	if (!policy_is_capped(&r->e->caps)) {
		finish_all(r, 0);
		return true;
	}
	rc = load(r);
	if (rc == 0)
		raise_all(r, &unfit);
	if (rc == 0 && unfit)
		rc = load_counted(r);
	if (rc != 0)
		return gave_up(r, rc);
	if (r->counted)
		raise_all(r, &unfit);
	else if (!unfit && !r->full)
		ahead_open(r);
	if (r->arena.failed)
		return gave_up(r, account_no_memory(&r->err));
	if (r->changed)
		rc = account_put(r, r->e->waiting);
	if (rc == ERR_CONFLICT)
		r->e->others_ms = clock_ms();
	r->written = rc == 0;
	settle(r, rc == 0);
	return rc == 0 || rc == ERR_CONFLICT || gave_up(r, rc);
}

/* Lock held. False: out of memory. */
static bool gather_closed(struct round *r)
{
	size_t n = 0, named = 0;

	ahead_end(r->e);
	for (const struct own_take *t = r->e->takes; t; t = t->next) {
		n += t->closed;
		named += t->after != 0;
	}
	r->closed = arena_array(&r->arena, n, sizeof(struct own_take *));
	r->named = arena_array(&r->arena, named, sizeof(*r->named));
	if (!r->closed || !r->named)
		return false;
	for (struct own_take *t = r->e->takes; t; t = t->next)
		if (t->closed)
			r->closed[r->n_closed++] = t;
		else if (t->after)
			r->named[r->n_named++] = (struct account_ask){.uid = t->uid,
				.namespace = t->namespace,
				.take = t->take,
				.instead = t->after,
				.wants = t->wants};
	return true;
}

/* Lock held: those who wait, and have time. False: out of memory. */
static bool gather(struct round *r)
{
	struct account_entry *e = r->e;
	int64_t now = clock_ms();
	size_t n = 0;

	r->deadline_ms = now + CALL_MS;
	r->may_ahead = r->x->janitor && now >= e->none_ahead_ms;
	for (const struct raise *one = e->queue; one; one = one->next)
		n++;
	r->list = arena_array(&r->arena, n, sizeof(struct raise *));
	if (!r->list || !gather_closed(r))
		return false;
	for (struct raise *one = e->queue; one; one = one->next) {
		if (one->done || one->deadline_ms <= now)
			continue;
		one->listed = true;
		r->list[r->n++] = one;
		if (one->deadline_ms < r->deadline_ms)
			r->deadline_ms = one->deadline_ms;
	}
	return true;
}

/* Lock held: from now on nothing of theirs is touched. */
static void let_go(struct round *r)
{
	for (size_t i = 0; i < r->n; i++) {
		r->list[i]->done = r->list[i]->finished;
		r->list[i]->listed = false;
	}
}

bool account_round(struct accounts *x, struct account_entry *e)
{
	struct round r = {.x = x, .e = e};
	bool good = false;

	arena_init(&r.arena, SCRATCH_MAX);
	if (gather(&r)) {
		(void)pthread_mutex_unlock(&x->lock);
		good = work(&r);
		(void)pthread_mutex_lock(&x->lock);
		let_go(&r);
		ahead_stop_another(e);
		if (r.full)
			ahead_stop(e);
		ahead_opened(&r);
		e->vain_ms = r.vain ? clock_ms() : 0;
		/* Where it is known now, it is without them; one that is gone names nobody. */
		if (r.gone || (good && e->known))
			forget_closed(&r);
	}
	arena_release(&r.arena);
	return good && !r.rest;
}

/* ---- a leader's count ---- */

struct caring {
	struct round *r;
	const struct account_care *care;
};

/* Without them something is another than before, though they may be all. */
static void drop_over(struct caring *caring)
{
	struct account *c = &caring->r->account;

	for (size_t i = c->n_flights; i-- > 0;)
		if (caring->care->is_over(caring->care->ctx, caring->r->e->name, &c->flights[i]))
			caring->r->changed |=
				account_close(c, c->flights[i].uid, c->flights[i].take);
}

/* In the state that was read; over the claims as they are shown. */
static int look_over(struct caring *c)
{
	struct round *r = c->r;
	int rc = load(r);

	if (rc != 0 || !policy_is_capped(&r->e->caps))
		return rc;
	drop_over(c);
	rc = account_know_all(r);
	if (rc == 0)
		rc = account_count_claims(r);
	if (rc == 0)
		r->changed |= account_drop_left(r);
	return rc;
}

int account_care_for(struct accounts *x, struct account_entry *e, const struct account_care *care,
	const uint32_t *waiting, int64_t deadline_ms, struct err *err)
{
	struct round r = {.x = x, .e = e, .deadline_ms = deadline_ms};
	struct caring caring = {.r = &r, .care = care};
	int rc;

	arena_init(&r.arena, SCRATCH_MAX);
	(void)pthread_mutex_lock(&x->lock);
	rc = gather_closed(&r) ? 0 : account_no_memory(&r.err);
	(void)pthread_mutex_unlock(&x->lock);
	if (rc == 0)
		rc = account_get(&r);
	if (rc == 0)
		rc = look_over(&caring);
	if (rc == 0 && r.changed) {
		rc = servers_refresh(x->servers, deadline_ms, &r.err);
		if (rc == 0)
			rc = look_over(&caring);
	}
	if (rc == 0 && (r.changed || (waiting && e->waiting != *waiting)))
		rc = account_put(&r, waiting ? *waiting : e->waiting);
	(void)pthread_mutex_lock(&x->lock);
	if (rc == 0)
		forget_closed(&r);
	(void)pthread_mutex_unlock(&x->lock);
	if (rc != 0)
		*err = r.err;
	arena_release(&r.arena);
	return rc;
}

int account_fetch(struct accounts *x, struct account_entry *e, int64_t deadline_ms, struct err *err)
{
	struct round r = {.x = x, .e = e, .deadline_ms = deadline_ms};
	int rc;

	arena_init(&r.arena, SCRATCH_MAX);
	rc = account_get(&r);
	if (rc != 0) {
		(void)gave_up(&r, rc);
		rc = (int)r.err.code;
		*err = r.err;
	}
	arena_release(&r.arena);
	return rc;
}

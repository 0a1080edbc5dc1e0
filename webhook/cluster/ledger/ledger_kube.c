/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the shared ledger: a review's way to its claim, try after try: decide, commit on each
 * server by compare-and-swap, answer. */
#include "webhook/cluster/ledger/ledger_kube.h"

#include "base/clock.h"
#include "base/text.h"
#include "webhook/cluster/ledger/ledger_kube_impl.h"
#include "webhook/edge/metrics/metrics.h"

/* Nobody can say whether a byte is free: no. Another try by whoever created the pod heals it. */
int ledger_away(struct err *err)
{
	struct err why = *err;

	return err_reason(err, ERR_REFUSED, "ApiServerAway",
		"the ledger of the GPU pool, which lives in the cluster's GPUServer objects, could "
		"not be reached in time; nothing is held, create the pod again (%s)",
		why.msg[0] ? why.msg : "no answer");
}

/* ---- commit ---- */

struct add {
	const struct take *t;
	const struct claim_record *record;
	uint64_t base; /* the version that the last write follows; 0: none was begun */
	bool over;     /* in the place of somebody else's part */
};

static enum edit_result add_claim(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	struct add *add = ctx;
	const struct take *t = add->t;
	ptrdiff_t i = server_status_claim(&o->status, slice_of(t->uid));

	(void)again;
	if (i >= 0 && o->status.claims[i].take == add->record->take)
		return EDIT_SAME;
	/* Another review of this uid came in between: whatever it holds, a reply may rest on it. */
	if (i >= 0 && !take_may_replace_on(t, o->name, &o->status.claims[i])) {
		err_set(err, ERR_CONFLICT, "the pod holds a claim since a moment ago");
		return EDIT_GIVE_UP;
	}
	if (server_claim_fits(o, &add->record->claim, slice_of(t->uid), err) != 0)
		return EDIT_GIVE_UP;
	i = server_status_claim(&o->status, slice_of(t->uid));
	if (i >= 0) {
		add->over = !take_is_mine(t, o->status.claims[i].take);
		server_status_remove_claim(&o->status, (size_t)i);
	}
	if (!server_status_add_claim(&o->status, add->record, a)) {
		err_set(err, ERR_NOMEM, "out of memory in the ledger");
		return EDIT_GIVE_UP;
	}
	add->base = kube_version_number(slice_of(o->version));
	return EDIT_CHANGED;
}

/* What this take has written goes back; but not where it replaced somebody else's, whose reply may
 * rest on it: that is the leader's. */
static void give_back(struct take *t, size_t n)
{
	const char *const *names = t->records[0].servers;

	while (!t->over && n-- > 0)
		take_back_later(t->l, t->uid, t->ticket, names[n], 0);
}

/* Rule R19: the first of somebody's half claim goes before anything takes its place: from then on
 * its owner cannot make it whole. */
static enum edit_result displace(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	struct add *add = ctx;
	ptrdiff_t i = server_status_claim(&o->status, slice_of(add->t->uid));

	(void)again;
	(void)a;
	if (i < 0 || take_is_mine(add->t, o->status.claims[i].take))
		return EDIT_SAME;
	if (!take_may_replace_on(add->t, o->name, &o->status.claims[i])) {
		err_set(err, ERR_CONFLICT, "the pod holds a claim since a moment ago");
		return EDIT_GIVE_UP;
	}
	server_status_remove_claim(&o->status, (size_t)i);
	add->over = true;
	return EDIT_CHANGED;
}

struct withdrawal {
	const char *uid;
	uint64_t take;
};

/* What an earlier try of this review has left of a claim, by its take. */
static enum edit_result withdraw(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	const struct withdrawal *w = ctx;
	ptrdiff_t i = server_status_claim(&o->status, slice_of(w->uid));

	(void)again;
	(void)a;
	if (i < 0)
		return EDIT_SAME;
	if (o->status.claims[i].take != w->take ||
		o->status.claims[i].claim.state != CLAIM_PENDING) {
		err_set(err, ERR_CONFLICT, "another review of the pod has taken its claim over");
		return EDIT_GIVE_UP;
	}
	server_status_remove_claim(&o->status, (size_t)i);
	return EDIT_CHANGED;
}

/* Another review may be taking over, part by part, the claim of which these are left (rule R1), and
 * have its first part already. It finds that they are not there, or we that it has them. */
static int withdraw_all(struct take *t, int64_t deadline_ms, struct err *err)
{
	bool shared = false;
	int rc = 0;

	for (size_t i = 0; i < t->n_old; i++)
		shared = shared || (t->old[i].head && !take_is_mine(t, t->old[i].take));
	for (size_t i = 0; shared && rc == 0 && i < t->n_old; i++) {
		struct withdrawal w = {t->uid, t->old[i].take};

		if (!take_is_mine(t, w.take))
			continue;
		rc = servers_edit(t->l->servers, t->old[i].server, withdraw, &w, deadline_ms, err);
		rc = rc == ERR_NOTFOUND ? 0 : rc;
	}
	return rc;
}

static int displace_all(struct take *t, int64_t deadline_ms, struct err *err)
{
	struct add add = {.t = t};
	int rc = withdraw_all(t, deadline_ms, err);

	for (size_t i = 0; rc == 0 && i < t->n_old; i++) {
		if (!t->old[i].head || take_is_mine(t, t->old[i].take))
			continue;
		rc = servers_edit(
			t->l->servers, t->old[i].server, displace, &add, deadline_ms, err);
		rc = rc == ERR_NOTFOUND ? 0 : rc;
	}
	t->over = t->over || add.over;
	return rc;
}

/* Rule R19: this makes the claim whole, or finds that another review of this uid was in between. */
static enum edit_result make_whole(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	struct add *add = ctx;
	ptrdiff_t i = server_status_claim(&o->status, slice_of(add->t->uid));

	(void)again;
	(void)a;
	if (i < 0 || o->status.claims[i].take != add->record->take) {
		err_set(err, ERR_CONFLICT, "another review of the pod took its place");
		return EDIT_GIVE_UP;
	}
	if (!o->status.claims[i].open)
		return EDIT_SAME;
	o->status.claims[i].open = false;
	add->base = kube_version_number(slice_of(o->version));
	return EDIT_CHANGED;
}

static int say_whole(struct take *t, int64_t deadline_ms, struct err *err)
{
	const char *head = t->records[0].servers[0];
	struct add add = {.t = t, .record = &t->records[0]};
	int rc = servers_edit(t->l->servers, head, make_whole, &add, deadline_ms, err);

	if (rc == 0)
		return 0;
	if (add.base && !t->over)
		take_back_later(t->l, t->uid, t->ticket, head, add.base);
	give_back(t, t->n);
	return rc;
}

/* Law P6, before anything is written: the policy's account counts it. */
static int raise_account(struct take *t, int64_t deadline_ms, struct err *err)
{
	const struct policy *p = t->ask->policy;
	struct account_ask ask = {
		.uid = t->uid, .namespace = t->namespace, .take = t->ticket, .instead = t->instead};
	int rc;

	if (!policy_is_capped(p))
		return 0;
	for (size_t i = 0; i < t->n; i++)
		account_sum_add(&ask.wants, &t->records[i].claim);
	rc = accounts_raise(t->l->accounts, p->name, &ask, deadline_ms, err);
	accounts_close(t->l->accounts, t->instead);
	t->instead = 0;
	return rc;
}

/* What came of it is known, or whoever takes it back will know. */
static void settle_account(struct take *t, int rc, bool written)
{
	if (rc == 0)
		accounts_close(t->l->accounts, t->ticket);
	else if (!written && !t->over)
		t->instead = t->ticket;
	else if (t->over)
		accounts_leave(t->l->accounts, t->ticket);
}

/* Without the lock: each server in the order of names, and of several the first once more. When one
 * fails the parts are taken back later. *ret_written: a write was begun. */
static int commit_all(struct take *t, int64_t deadline_ms, bool *ret_written, struct err *err)
{
	const char *const *names = t->records[0].servers;
	struct add add = {.t = t};
	size_t i;
	int rc = displace_all(t, deadline_ms, err);

	*ret_written = false;
	if (rc != 0)
		return rc;
	t->records[0].open = t->n > 1;
	for (i = 0; rc == 0 && i < t->n; i++) {
		add = (struct add){.t = t, .record = &t->records[i]};
		rc = servers_edit(t->l->servers, names[i], add_claim, &add, deadline_ms, err);
		t->over = t->over || add.over;
		*ret_written = *ret_written || add.base;
	}
	if (rc == 0)
		return t->n > 1 ? say_whole(t, deadline_ms, err) : 0;
	/* The last one was not confirmed: it may stand all the same, or stand soon. */
	i--;
	if (add.base && !add.over)
		take_back_later(t->l, t->uid, t->ticket, names[i], add.base);
	give_back(t, i);
	return rc;
}

static int all_parts(struct take *t, struct claim_answer *ret, struct err *err)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += t->records[i].claim.n_parts;
	ret->parts = arena_array(t->arena, n, sizeof(*ret->parts));
	if (!ret->parts)
		return ledger_no_memory(err);
	ret->n_parts = 0;
	for (size_t i = 0; i < t->n; i++)
		for (size_t k = 0; k < t->records[i].claim.n_parts; k++)
			ret->parts[ret->n_parts++] = t->records[i].claim.parts[k];
	return 0;
}

/* ---- take ---- */

static bool one_is_unreadable(const struct take *t)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct server_entry *e =
			servers_find(t->l->servers, t->records[i].servers[i]);

		if (e && e->unreadable)
			return true;
	}
	return false;
}

/* One try. Lock held, and let go meanwhile. NEXT_DECIDE: try again. */
static enum take_next try_once(
	struct take *t, int64_t deadline_ms, int *rc, struct claim_answer *ret, struct err *err)
{
	struct servers *s = t->l->servers;
	struct take_held f;
	bool wait = false, shared = false, written = false, asked;
	enum take_next next;

	if (!take_find(t, &f)) {
		*rc = ledger_no_memory(err);
		return NEXT_DONE;
	}
	if (f.whole) {
		*rc = take_answer_from(t, &f, deadline_ms, ret, err);
		return *rc == ERR_CONFLICT || *rc == ERR_NOTFOUND ? NEXT_DECIDE : NEXT_DONE;
	}
	*rc = take_half(t, &f, deadline_ms, &wait, err);
	if (*rc != 0 || wait)
		return *rc == 0 ? NEXT_DECIDE : NEXT_DONE;
	if (take_name_is_taken(t, deadline_ms, &asked, err)) {
		*rc = ERR_REFUSED;
		return NEXT_DONE;
	}
	if (asked)
		return NEXT_DECIDE;
	next = take_decide(t, deadline_ms, rc, err);
	if (next != NEXT_COMMIT)
		return next;
	*rc = all_parts(t, ret, err);
	if (*rc == 0 && !t->ask->dry_run && !take_wrote(t))
		*rc = ledger_no_memory(err);
	if (*rc != 0 || t->ask->dry_run) {
		take_unreserve(t);
		return NEXT_DONE;
	}
	(void)pthread_mutex_unlock(&s->lock);
	/* While this one writes the next one decides, on a copy of its own. */
	arena_reset(&t->copy);
	*rc = raise_account(t, deadline_ms, err);
	if (*rc == 0) {
		*rc = commit_all(t, deadline_ms, &written, err);
		settle_account(t, *rc, written);
	}
	(void)pthread_mutex_lock(&s->lock);
	t->list = 0;
	/* Somebody broke a server's status a moment ago; others may do. */
	if (*rc == ERR_INVALID && one_is_unreadable(t))
		*rc = ERR_CONFLICT;
	if (*rc == 0 && !take_settle(t, &shared)) {
		give_back(t, t->n);
		*rc = ERR_CONFLICT;
	}
	take_unreserve(t);
	if (*rc == 0) {
		ret->ticket = t->over || shared ? 0 : t->ticket;
		return NEXT_DONE;
	}
	return *rc == ERR_CONFLICT || *rc == ERR_NOTFOUND ? NEXT_DECIDE : NEXT_DONE;
}

/* Whom we are asked for is stored, and asked for under these names: an API server sends none that
 * it would not take itself, and whoever else asks must not leave behind what nobody can ask for, or
 * what makes the status too large for etcd. */
static bool can_be_asked_for(const struct claim_ask *ask)
{
	return claim_ask_bounded(ask) && text_dns_label(ask->namespace) &&
	       text_dns_subdomain(ask->name);
}

static int kube_take(struct ledger *base, const struct claim_ask *ask, struct arena *a,
	struct claim_answer *ret, struct err *err)
{
	struct ledger_kube *l = (struct ledger_kube *)base;
	struct take t = {.l = l, .ask = ask, .arena = a};
	int64_t deadline = ask->deadline_ms ? ask->deadline_ms : clock_ms() + TAKE_MS;
	enum take_next next = NEXT_DECIDE;
	int rc = 0;

	if (ask->uid.len == 0)
		return err_set(err, ERR_INVALID,
			"found a pod without metadata.uid, expected the validating review of an "
			"API "
			"server: in a cluster claims are kept by the pod's uid");
	if (!can_be_asked_for(ask))
		return err_set(err, ERR_INVALID,
			"found a pod whose uid, namespace or name none can have, expected the "
			"validating review of an API server");
	t.uid = arena_strdup(a, ask->uid);
	t.namespace = arena_strdup(a, ask->namespace);
	t.name = arena_strdup(a, ask->name);
	if (!t.uid || !t.namespace || !t.name)
		return ledger_no_memory(err);
	*ret = (struct claim_answer){0};
	arena_init(&t.scratch, a->max);
	arena_init(&t.copy, a->max);
	(void)pthread_mutex_lock(&l->servers->lock);
	while (next == NEXT_DECIDE) {
		/* Each try is another take, so that what takes one back cannot end the next. */
		t.ticket = l->replica | (atomic_fetch_add(&l->last, 1) + 1);
		if (clock_ms() >= deadline) {
			rc = err_set(
				err, ERR_TIMEOUT, "the deadline passed while others were first");
			break;
		}
		next = try_once(&t, deadline, &rc, ret, err);
	}
	(void)pthread_mutex_unlock(&l->servers->lock);
	if (t.instead) {
		accounts_close(l->accounts, t.instead);
		duty_wake(l->janitor);
	}
	arena_release(&t.scratch);
	arena_release(&t.copy);
	/* ERR_INVALID: the API server takes no such status, which is nothing that the pod's user
	 * could mend. */
	if (rc == ERR_TIMEOUT || rc == ERR_IO || rc == ERR_INVALID)
		rc = ledger_away(err);
	return rc;
}

static int kube_could_ever(
	struct ledger *base, const struct claim_ask *ask, struct arena *a, struct err *err)
{
	struct ledger_kube *l = (struct ledger_kube *)base;
	struct take t = {.l = l, .ask = ask, .arena = a};
	int64_t deadline = ask->deadline_ms ? ask->deadline_ms : clock_ms() + TAKE_MS;
	int rc;

	arena_init(&t.scratch, a->max);
	arena_init(&t.copy, a->max);
	(void)pthread_mutex_lock(&l->servers->lock);
	rc = take_could_ever(&t, deadline, err);
	(void)pthread_mutex_unlock(&l->servers->lock);
	arena_release(&t.scratch);
	arena_release(&t.copy);
	if (rc == 0 && ask->policy && ask->policy->waiting != UINT32_MAX)
		rc = accounts_may_wait(l->accounts, ask->policy, ask->dry_run, deadline, err);
	return rc == ERR_TIMEOUT || rc == ERR_IO ? ledger_away(err) : rc;
}

static int kube_release(struct ledger *base, struct slice uid, struct slice namespace,
	struct slice name, size_t *ret_n, struct err *err)
{
	(void)base;
	(void)uid;
	(void)namespace;
	(void)name;
	*ret_n = 0;
	return err_set(err, ERR_INVALID,
		"in a cluster a claim ends with its pod: delete the pod, and it ends within "
		"seconds");
}

const struct ledger_ops ledger_kube_ops = {
	.take = kube_take,
	.could_ever = kube_could_ever,
	.undo = kube_undo,
	.release = kube_release,
	.count = kube_count,
	.view = kube_view,
};

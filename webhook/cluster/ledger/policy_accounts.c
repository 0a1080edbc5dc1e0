/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: who waits for the account of a policy, and one of them who works for all. */
#include "webhook/cluster/ledger/policy_accounts.h"

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "webhook/cluster/ledger/policy_accounts_impl.h"

/* One's whole account: some thousands of namespaces. */
#define TEXT_MAX ((size_t)1 << 20)
/* Between two tries while the API server cannot be asked. */
#define AWAY_PAUSE_MS 100
/* The number of those who wait is asked for again. */
#define WAITING_OLD_MS 1000
#define VAIN_MS 60000

struct accounts *accounts_new(
	struct kube *k, struct servers *s, const struct log *log, struct err *err)
{
	struct accounts *x = calloc(1, sizeof(*x));
	pthread_condattr_t attr;

	if (!x) {
		err_set(err, ERR_NOMEM, "out of memory for accounts of policies");
		return NULL;
	}
	x->kube = k;
	x->servers = s;
	x->log = log;
	(void)pthread_mutex_init(&x->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&x->cond, &attr);
	(void)pthread_condattr_destroy(&attr);
	return x;
}

void accounts_free(struct accounts *x)
{
	struct account_entry *e;
	struct own_take *t;
	struct ahead *h;
	struct unsure *u;

	if (!x)
		return;
	while ((u = x->unsure)) {
		x->unsure = u->next;
		free(u);
	}
	while ((e = x->entries)) {
		x->entries = e->next;
		while ((t = e->takes)) {
			e->takes = t->next;
			free(t);
		}
		while ((h = e->aheads)) {
			e->aheads = h->next;
			free(h);
		}
		buf_release(&e->text);
		free(e);
	}
	(void)pthread_cond_destroy(&x->cond);
	(void)pthread_mutex_destroy(&x->lock);
	free(x);
}

void accounts_set_policies(struct accounts *x, const struct policy_source *shown)
{
	x->policies = shown;
}

void accounts_set_janitor(struct accounts *x, struct duty *janitor)
{
	(void)pthread_mutex_lock(&x->lock);
	x->janitor = janitor;
	(void)pthread_mutex_unlock(&x->lock);
}

uint64_t accounts_new_take(void)
{
	uint64_t take = 0;

	if (getrandom(&take, sizeof(take), 0) != (ssize_t)sizeof(take))
		take = (uint64_t)clock_wall_ms();
	return take ? take : 1;
}

/* Lock held. NULL: out of memory. */
static struct account_entry *entry_of(struct accounts *x, const char *policy)
{
	struct account_entry *e = x->entries;
	size_t size = strlen(policy) + 1;

	while (e && strcmp(e->name, policy) != 0)
		e = e->next;
	if (e)
		return e;
	e = calloc(1, sizeof(*e) + size);
	if (!e)
		return NULL;
	memcpy(e->name, policy, size);
	e->queue_end = &e->queue;
	buf_init(&e->text, TEXT_MAX);
	e->next = x->entries;
	x->entries = e;
	return e;
}

/* Lock held, and let go meanwhile. */
static void wait_until(struct accounts *x, int64_t ms)
{
	struct timespec at = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	(void)pthread_cond_timedwait(&x->cond, &x->lock, &at);
}

/* Lock held, and let go meanwhile; it belongs to the caller afterwards. False: the time is over. */
static bool take_over(struct accounts *x, struct account_entry *e, int64_t deadline_ms)
{
	while (e->busy && clock_ms() < deadline_ms)
		wait_until(x, deadline_ms);
	if (e->busy)
		return false;
	e->busy = true;
	return true;
}

static void hand_on(struct accounts *x, struct account_entry *e)
{
	ahead_stop_another(e);
	e->busy = false;
	(void)pthread_cond_broadcast(&x->cond);
}

static void leave(struct account_entry *e, const struct raise *r)
{
	struct raise **at = &e->queue;

	while (*at && *at != r)
		at = &(*at)->next;
	if (!*at)
		return;
	*at = r->next;
	if (!*at)
		e->queue_end = at;
}

static struct own_take *note_take(struct account_entry *e, const struct account_ask *ask)
{
	size_t size = strlen(ask->uid) + 1, more = strlen(ask->namespace) + 1;
	struct own_take *t = calloc(1, sizeof(*t) + size + more);

	if (!t)
		return NULL;
	t->take = ask->take;
	t->wants = ask->wants;
	memcpy(t->uid, ask->uid, size);
	t->namespace = memcpy(t->uid + size, ask->namespace, more);
	t->next = e->takes;
	e->takes = t;
	return t;
}

/* Lock held, and let go meanwhile. */
static void wait_or_work(struct accounts *x, struct account_entry *e, struct raise *r)
{
	int64_t rest;

	/* He who works for us is not left, but ends with the most impatient one's time. */
	if (e->busy) {
		rest = clock_ms() + AWAY_PAUSE_MS;
		wait_until(x, r->listed && rest > r->deadline_ms ? rest : r->deadline_ms);
		return;
	}
	e->busy = true;
	if (!account_round(x, e)) {
		rest = clock_ms() + AWAY_PAUSE_MS;
		while (clock_ms() < rest && clock_ms() < r->deadline_ms)
			wait_until(x, rest < r->deadline_ms ? rest : r->deadline_ms);
	}
	hand_on(x, e);
}

int accounts_raise(struct accounts *x, const char *policy, const struct account_ask *ask,
	int64_t deadline_ms, struct err *err)
{
	struct raise r = {
		.ask = ask, .deadline_ms = deadline_ms, .since_ms = clock_ms(), .err = err};
	struct account_entry *e;
	struct own_take *t;

	(void)pthread_mutex_lock(&x->lock);
	e = entry_of(x, policy);
	t = e ? note_take(e, ask) : NULL;
	if (!t) {
		(void)pthread_mutex_unlock(&x->lock);
		return err_set(err, ERR_NOMEM, "out of memory for the account of a policy");
	}
	if (ahead_use(e, t, ask)) {
		(void)pthread_mutex_unlock(&x->lock);
		return 0;
	}
	*e->queue_end = &r;
	e->queue_end = &r.next;
	/* Whoever finds nobody at work works for all. */
	while (!r.done && (r.listed || clock_ms() < deadline_ms))
		wait_or_work(x, e, &r);
	leave(e, &r);
	if (!r.done)
		r.rc = err_set(err, ERR_TIMEOUT,
			"the account of the GPUPolicy %s could not be confirmed in time", policy);
	/* What was not confirmed may have been written. */
	if (r.rc != 0)
		t->closed = true;
	(void)pthread_mutex_unlock(&x->lock);
	return r.rc;
}

static void settle(struct accounts *x, uint64_t take, bool lost)
{
	(void)pthread_mutex_lock(&x->lock);
	for (struct account_entry *e = x->entries; e; e = e->next)
		for (struct own_take **at = &e->takes; *at;) {
			struct own_take *t = *at;

			if (t->take != take || t->closed) {
				at = &t->next;
				continue;
			}
			if (t->by)
				ahead_let_go(t, lost);
			if (!t->by && (!lost || t->after)) {
				t->closed = !lost;
				at = &t->next;
				continue;
			}
			*at = t->next;
			free(t);
		}
	(void)pthread_mutex_unlock(&x->lock);
}

void accounts_close(struct accounts *x, uint64_t take)
{
	settle(x, take, false);
}

void accounts_close_after(struct accounts *x, uint64_t take, const char *server, uint64_t version)
{
	size_t size = strlen(server) + 1;
	struct unsure *u = malloc(sizeof(*u) + size);

	if (!u) {
		accounts_leave(x, take);
		return;
	}
	*u = (struct unsure){.take = take, .base = version};
	memcpy(u->server, server, size);
	(void)pthread_mutex_lock(&x->lock);
	u->next = x->unsure;
	x->unsure = u;
	for (struct account_entry *e = x->entries; e; e = e->next)
		for (struct own_take *t = e->takes; t; t = t->next)
			t->unsure |= t->take == take;
	(void)pthread_mutex_unlock(&x->lock);
}

/* Of those whose server has another version nothing can land any more. */
static void close_unsure(struct accounts *x)
{
	struct unsure *list, *u;

	(void)pthread_mutex_lock(&x->lock);
	list = x->unsure;
	x->unsure = NULL;
	(void)pthread_mutex_unlock(&x->lock);
	while ((u = list)) {
		uint64_t version = servers_version(x->servers, u->server);

		list = u->next;
		if (version == 0 || version > u->base)
			accounts_close(x, u->take);
		else
			accounts_close_after(x, u->take, u->server, u->base);
		free(u);
	}
}

void accounts_leave(struct accounts *x, uint64_t take)
{
	settle(x, take, true);
}

void accounts_stop_ahead(struct accounts *x)
{
	(void)pthread_mutex_lock(&x->lock);
	for (struct account_entry *e = x->entries; e; e = e->next)
		ahead_stop(e);
	(void)pthread_mutex_unlock(&x->lock);
}

void accounts_note_waiting(struct accounts *x, const char *policy)
{
	struct account_entry *e;

	(void)pthread_mutex_lock(&x->lock);
	for (e = x->entries; !policy && e; e = e->next)
		e->noting = 0;
	e = policy ? entry_of(x, policy) : NULL;
	if (e)
		e->noting++;
	(void)pthread_mutex_unlock(&x->lock);
}

void accounts_noted_all(struct accounts *x)
{
	(void)pthread_mutex_lock(&x->lock);
	for (struct account_entry *e = x->entries; e; e = e->next)
		e->noted = e->noting;
	x->noted = true;
	(void)pthread_mutex_unlock(&x->lock);
}

void accounts_noted_none(struct accounts *x)
{
	(void)pthread_mutex_lock(&x->lock);
	x->noted = false;
	(void)pthread_mutex_unlock(&x->lock);
}

int accounts_may_wait(struct accounts *x, const struct policy *policy, bool dry_run,
	int64_t deadline_ms, struct err *err)
{
	struct account_entry *e;
	int rc = 0;

	(void)pthread_mutex_lock(&x->lock);
	e = entry_of(x, policy->name);
	if (!e || !take_over(x, e, deadline_ms)) {
		(void)pthread_mutex_unlock(&x->lock);
		return e ? err_set(err, ERR_TIMEOUT, "the GPUPolicy %s could not be read in time",
				   policy->name)
			 : err_set(err, ERR_NOMEM, "out of memory for the account of a policy");
	}
	(void)pthread_mutex_unlock(&x->lock);
	if (!e->known || clock_ms() - e->read_ms > WAITING_OLD_MS)
		rc = account_fetch(x, e, deadline_ms, err);
	if (rc == 0 && e->caps.waiting != UINT32_MAX && e->waiting + e->let_in >= e->caps.waiting)
		rc = err_reason(err, ERR_REFUSED, "PolicyFull",
			"the GPUPolicy %s lets %u pods of its namespaces wait at once "
			"(spec.allow.waiting), and %u do; create the pod again when one of them "
			"has had its turn",
			e->name, (unsigned)e->caps.waiting, (unsigned)(e->waiting + e->let_in));
	if (rc == 0 && !dry_run)
		e->let_in++;
	(void)pthread_mutex_lock(&x->lock);
	hand_on(x, e);
	(void)pthread_mutex_unlock(&x->lock);
	return rc;
}

static bool has_closed(const struct account_entry *e)
{
	for (const struct own_take *t = e->takes; t; t = t->next)
		if (t->closed)
			return true;
	return false;
}

/* It was asked in vain a moment ago, as of one that has turned wrong: what is closed waits for
 * whoever comes, or for a minute. */
static bool is_in_vain(const struct account_entry *e)
{
	return e->vain_ms && clock_ms() - e->vain_ms < VAIN_MS;
}

bool accounts_flush(struct accounts *x, int64_t deadline_ms)
{
	bool all = true;

	close_unsure(x);
	(void)pthread_mutex_lock(&x->lock);
	/* Entries stay, and new ones come in front. */
	for (struct account_entry *e = x->entries; e; e = e->next) {
		ahead_end(e);
		/* As long as something is given of what is counted ahead, more will come. */
		if (is_in_vain(e))
			continue;
		if (!ahead_runs(e) && has_closed(e) && take_over(x, e, deadline_ms)) {
			(void)account_round(x, e);
			hand_on(x, e);
		}
		all = all && !has_closed(e) && !e->aheads;
	}
	(void)pthread_mutex_unlock(&x->lock);
	return all;
}

int accounts_repair(struct accounts *x, const char *policy, const struct account_care *care,
	int64_t deadline_ms, struct err *err)
{
	struct account_entry *e;
	uint32_t waiting;
	bool noted;
	int rc;

	close_unsure(x);
	(void)pthread_mutex_lock(&x->lock);
	e = entry_of(x, policy);
	if (!e)
		rc = err_set(err, ERR_NOMEM, "out of memory for the account of a policy");
	else if (!take_over(x, e, deadline_ms))
		rc = err_set(err, ERR_TIMEOUT, "the account of %s is at work", policy);
	else {
		waiting = e->noted;
		noted = x->noted;
		(void)pthread_mutex_unlock(&x->lock);
		rc = account_care_for(x, e, care, noted ? &waiting : NULL, deadline_ms, err);
		(void)pthread_mutex_lock(&x->lock);
		hand_on(x, e);
	}
	(void)pthread_mutex_unlock(&x->lock);
	return rc;
}

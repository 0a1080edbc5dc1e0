/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the shared ledger's other half: claims whose "allowed" was never sent go back (rule R3).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "webhook/cluster/ledger/ledger_kube_impl.h"
#include "webhook/edge/metrics/metrics.h"

#define EDIT_MS 5000
#define PAUSE_MS 500
/* Longer than that and the leader has dropped the claim itself (rule R5). */
#define GIVE_UP_MS 120000

struct undo {
	struct undo *next;
	uint64_t ticket, base;
	int64_t since_ms;
	bool undecided; /* the write may land yet */
	bool removed;   /* the last edit takes it away */
	char *server;
	char uid[]; /* and behind it the server's name */
};

static void later(
	struct ledger_kube *l, const char *uid, const struct undo *what, const char *server)
{
	size_t uid_size = strlen(uid) + 1, name_size = strlen(server) + 1;
	struct undo *u = malloc(sizeof(*u) + uid_size + name_size);

	/* Without memory it is left to the leader. */
	if (!u)
		return;
	*u = *what;
	u->since_ms = clock_ms();
	memcpy(u->uid, uid, uid_size);
	u->server = u->uid + uid_size;
	memcpy(u->server, server, name_size);
	(void)pthread_mutex_lock(&l->lock);
	u->next = l->undos;
	l->undos = u;
	(void)pthread_mutex_unlock(&l->lock);
	duty_wake(l->janitor);
}

void take_back_later(
	struct ledger_kube *l, const char *uid, uint64_t ticket, const char *server, uint64_t base)
{
	later(l, uid, &(struct undo){.ticket = ticket, .base = base}, server);
}

void kube_undo(struct ledger *base, uint64_t ticket)
{
	struct ledger_kube *l = (struct ledger_kube *)base;
	struct servers *s = l->servers;

	if (ticket == 0)
		return;
	(void)pthread_mutex_lock(&s->lock);
	/* What is said last is done first, and the first of several servers decides (rule R19). */
	for (size_t i = s->n; i-- > 0;) {
		const struct held *h = s->entries[i]->held;
		const char *name = s->entries[i]->name;

		for (size_t k = 0; h && k < h->object.status.n_claims; k++) {
			const struct claim_record *r = &h->object.status.claims[k];

			if (r->take == ticket)
				take_back_later(l, r->claim.key, ticket, name, 0);
		}
	}
	(void)pthread_mutex_unlock(&s->lock);
}

/* Only what this very take wrote, and only while nobody has seen its pod. */
static enum edit_result remove_claim(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	struct undo *u = ctx;
	ptrdiff_t i = server_status_claim(&o->status, slice_of(u->uid));

	(void)again;
	(void)a;
	u->undecided = u->removed = false;
	if (i < 0 || o->status.claims[i].take != u->ticket) {
		u->undecided = kube_version_number(slice_of(o->version)) <= u->base;
		if (!u->undecided)
			return EDIT_SAME;
		err_set(err, ERR_TIMEOUT, "a write that was not confirmed may land yet");
		return EDIT_GIVE_UP;
	}
	if (o->status.claims[i].claim.state != CLAIM_PENDING)
		return EDIT_SAME;
	server_status_remove_claim(&o->status, (size_t)i);
	u->removed = true;
	return EDIT_CHANGED;
}

static struct undo *pop_all(struct ledger_kube *l)
{
	struct undo *list;

	(void)pthread_mutex_lock(&l->lock);
	list = l->undos;
	l->undos = NULL;
	(void)pthread_mutex_unlock(&l->lock);
	return list;
}

static void push(struct ledger_kube *l, struct undo *u)
{
	(void)pthread_mutex_lock(&l->lock);
	u->next = l->undos;
	l->undos = u;
	(void)pthread_mutex_unlock(&l->lock);
}

/* Is it the last of that take? */
static bool was_last(struct ledger_kube *l, const struct undo *rest, uint64_t ticket)
{
	bool found = false;

	(void)pthread_mutex_lock(&l->lock);
	for (const struct undo *u = l->undos; u && !found; u = u->next)
		found = u->ticket == ticket;
	(void)pthread_mutex_unlock(&l->lock);
	for (const struct undo *u = rest; u && !found; u = u->next)
		found = u->ticket == ticket;
	return !found;
}

/* By law P6 its name goes out of its policy's account when nothing of it can land any more. */
static void settle_account(struct ledger_kube *l, const struct undo *u, int rc)
{
	if (rc != 0 && rc != ERR_NOTFOUND)
		accounts_leave(l->accounts, u->ticket);
	else if (was_last(l, u->next, u->ticket))
		accounts_close(l->accounts, u->ticket);
}

/* One round over all that is to be taken back. True: nothing is left. */
static bool take_back(struct ledger_kube *l, int64_t deadline_ms)
{
	struct undo *list = pop_all(l);
	bool all = true;

	while (list) {
		struct undo *u = list;
		struct err err = {0};
		int64_t now = clock_ms(), end = now + EDIT_MS;
		int rc;

		list = u->next;
		if (deadline_ms && end > deadline_ms)
			end = deadline_ms;
		rc = servers_edit(l->servers, u->server, remove_claim, u, end, &err);
		if ((rc == ERR_TIMEOUT || rc == ERR_IO) && now - u->since_ms < GIVE_UP_MS) {
			push(l, u);
			all = false;
			continue;
		}
		if (rc != 0 && rc != ERR_NOTFOUND && !u->undecided)
			log_line(l->log, LOG_LEVEL_WARN,
				"a claim was not taken back, the leader will drop it",
				log_str("uid", u->uid), log_str("server", u->server),
				log_str("error", err.msg));
		if (rc == 0 && u->removed && l->metrics)
			metric_add(l->metrics, M_CLAIMS_ENDED, END_UNSENT, 0, 1);
		settle_account(l, u, rc);
		free(u);
	}
	return all;
}

static int64_t janitor(void *ctx, struct duty *d)
{
	struct ledger_kube *l = ctx;

	(void)d;
	return take_back(l, 0) && accounts_flush(l->accounts, clock_ms() + EDIT_MS) ? 60000
										    : PAUSE_MS;
}

struct ledger *ledger_kube_new(struct servers *s, struct kube *k, unsigned pending_share,
	const struct log *log, struct metrics *metrics, struct err *err)
{
	struct ledger_kube *l = calloc(1, sizeof(*l));
	uint32_t random = 0;

	if (!l) {
		err_set(err, ERR_NOMEM, "out of memory for the ledger");
		return NULL;
	}
	l->base.ops = &ledger_kube_ops;
	l->base.may_wait = true;
	l->servers = s;
	l->kube = k;
	l->pending_share = pending_share;
	l->log = log;
	l->metrics = metrics;
	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		random = (uint32_t)clock_ms();
	l->replica = (uint64_t)random << 32;
	(void)pthread_mutex_init(&l->lock, NULL);
	l->accounts = accounts_new(k, s, log, err);
	l->janitor = l->accounts ? duty_start("janitor", janitor, l, err) : NULL;
	if (!l->janitor) {
		accounts_free(l->accounts);
		(void)pthread_mutex_destroy(&l->lock);
		free(l);
		return NULL;
	}
	accounts_set_janitor(l->accounts, l->janitor);
	return &l->base;
}

void ledger_kube_free(struct ledger *base, int64_t wait_ms)
{
	struct ledger_kube *l = (struct ledger_kube *)base;
	int64_t deadline = clock_ms() + wait_ms;
	struct undo *left;

	if (!l)
		return;
	accounts_set_janitor(l->accounts, NULL);
	duty_stop(l->janitor);
	l->janitor = NULL;
	accounts_stop_ahead(l->accounts);
	/* The watch may be behind what was written a moment ago. */
	if (l->undos)
		(void)servers_refresh(l->servers, deadline, NULL);
	(void)take_back(l, deadline);
	(void)accounts_flush(l->accounts, deadline);
	while ((left = l->undos)) {
		l->undos = left->next;
		free(left);
	}
	accounts_free(l->accounts);
	(void)pthread_mutex_destroy(&l->lock);
	free(l);
}

struct accounts *ledger_kube_accounts(struct ledger *base)
{
	return ((struct ledger_kube *)base)->accounts;
}

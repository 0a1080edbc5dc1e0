/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what a replica counts ahead in an account. Where several come at once and the caps are
 * far, one write counts those who will come next, too: they are given parts of it for seconds
 * and wait for nobody. So the account is never less than what stands (law P6); it may be more by
 * what is left of it, and by what stands twice, until its name has gone and the claims are counted
 * anew. That is kept away from the caps: nobody is refused for it (ahead_hides). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "webhook/cluster/ledger/policy_accounts_impl.h"

/* The name of it in the account: no pod's uid. */
#define AHEAD_UID "ahead"
#define AHEAD_MS 3000
/* So many times what came at once, if the caps leave so many times that. */
#define AHEAD_TIMES 16
#define APART_TIMES 8
/* After it was full nothing is counted ahead for so long. */
#define FULL_MS 10000

static bool take_from(struct account_sum *left, struct account_sum wants)
{
	if (left->gpus < wants.gpus || left->bytes < wants.bytes)
		return false;
	left->gpus -= wants.gpus;
	left->bytes -= wants.bytes;
	return true;
}

bool ahead_use(struct account_entry *e, struct own_take *t, const struct account_ask *ask)
{
	int64_t now = clock_ms();
	struct ahead *h = e->aheads;

	while (h && (now >= h->until_ms || strcmp(h->namespace, ask->namespace) != 0 ||
			    !take_from(&h->left, ask->wants)))
		h = h->next;
	if (!h)
		return false;
	h->users++;
	t->by = h;
	return true;
}

void ahead_let_go(struct own_take *t, bool lost)
{
	t->by->users--;
	t->by->lost |= lost;
}

bool ahead_runs(const struct account_entry *e)
{
	int64_t now = clock_ms();
	const struct ahead *h = e->aheads;

	while (h && now >= h->until_ms)
		h = h->next;
	return h != NULL;
}

void ahead_stop(struct account_entry *e)
{
	for (struct ahead *h = e->aheads; h; h = h->next)
		h->until_ms = 0;
	e->none_ahead_ms = clock_ms() + FULL_MS;
}

bool ahead_is_named(const struct account_entry *e)
{
	int64_t now = clock_ms();
	char word[32];

	for (const struct ahead *h = e->aheads; h; h = h->next) {
		(void)snprintf(word, sizeof(word), " %" PRIu64 " ", h->take);
		if (now < h->until_ms && !strstr(e->text.data, word))
			return false;
	}
	return true;
}

void ahead_stop_another(struct account_entry *e)
{
	if (e->another)
		ahead_stop(e);
	e->another = false;
}

/* Its name goes with the next write; of one that is lost, when a leader has seen it for long. */
static void close_name(struct account_entry *e, const struct ahead *h)
{
	struct own_take **at = &e->takes, *t;

	while (*at && (*at)->take != h->take)
		at = &(*at)->next;
	t = *at;
	if (!t)
		return;
	t->closed = true;
	if (h->lost) {
		*at = t->next;
		free(t);
	}
}

/* What came of a write that was not confirmed may be unknown for minutes: that is no reason to keep
 * more than what it wants. */
static void name_unsure(struct account_entry *e, struct ahead *h)
{
	unsigned n = 0;

	for (const struct own_take *t = e->takes; t; t = t->next)
		n += t->by == h && t->unsure;
	if (h->lost || n < h->users)
		return;
	for (struct own_take *t = e->takes; t; t = t->next)
		if (t->by == h) {
			t->by = NULL;
			t->after = h->take;
		}
	h->users = 0;
}

void ahead_end(struct account_entry *e)
{
	int64_t now = clock_ms();

	for (struct ahead *h = e->aheads; h; h = h->next)
		if (h->users && (!h->left.gpus || now >= h->until_ms))
			name_unsure(e, h);
	for (struct ahead **at = &e->aheads; *at;) {
		struct ahead *h = *at;

		if (h->users || (h->left.gpus && now < h->until_ms)) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		close_name(e, h);
		free(h);
	}
}

/* Of those whom this round has raised: the namespace of the first that is not alone, or comes soon
 * after such as were not, and what all there want. NULL: each is alone. */
static const char *company(const struct round *r, struct account_sum *ret)
{
	size_t enough = clock_ms() - r->e->ahead_ms < 2 * AHEAD_MS ? 1 : 2;

	for (size_t i = 0; i < r->n; i++) {
		const char *namespace = r->list[i]->ask->namespace;
		size_t n = 0;

		*ret = (struct account_sum){0};
		for (size_t k = 0; k < r->n; k++) {
			if (r->list[k]->said != ACCOUNT_RAISED ||
				strcmp(r->list[k]->ask->namespace, namespace) != 0)
				continue;
			n++;
			ret->gpus += r->list[k]->ask->wants.gpus;
			ret->bytes += r->list[k]->ask->wants.bytes;
		}
		if (n >= enough)
			return namespace;
	}
	return NULL;
}

static struct account_sum times(struct account_sum s, uint64_t n)
{
	return (struct account_sum){s.gpus * n, s.bytes * n};
}

void ahead_open(struct round *r)
{
	struct account_ask ask = {.uid = AHEAD_UID, .take = accounts_new_take()};
	struct account_sum each = {0};
	const char *namespace = r->may_ahead ? company(r, &each) : NULL;
	uint64_t n = namespace ? AHEAD_TIMES : 0;
	size_t size = namespace ? strlen(namespace) + 1 : 0;

	while (n > 0 && !account_fits(&r->account, &r->e->caps, times(each, n * APART_TIMES)))
		n--;
	if (n == 0)
		return;
	r->ahead = calloc(1, sizeof(*r->ahead) + size);
	r->ahead_take = calloc(1, sizeof(*r->ahead_take) + sizeof(AHEAD_UID));
	if (!r->ahead || !r->ahead_take)
		return;
	memcpy(r->ahead->namespace, namespace, size);
	memcpy(r->ahead_take->uid, AHEAD_UID, sizeof(AHEAD_UID));
	r->ahead->take = r->ahead_take->take = ask.take;
	r->ahead->left = ask.wants = times(each, n);
	/* By the time before the write: how long that takes, nobody knows. */
	r->e->ahead_ms = clock_ms();
	r->ahead->until_ms = r->e->ahead_ms + AHEAD_MS;
	ask.namespace = r->ahead->namespace;
	(void)account_raise(&r->account, &r->e->caps, r->e->generation, &ask, &r->arena);
}

void ahead_opened(struct round *r)
{
	struct account_entry *e = r->e;

	if (!r->ahead || !r->ahead_take) {
		free(r->ahead);
		free(r->ahead_take);
		return;
	}
	r->ahead_take->next = e->takes;
	e->takes = r->ahead_take;
	/* What was not confirmed may have been written. */
	r->ahead_take->closed = !r->written;
	if (!r->written) {
		free(r->ahead);
		return;
	}
	r->ahead->next = e->aheads;
	e->aheads = r->ahead;
	duty_wake(r->x->janitor);
}

bool ahead_hides(const struct round *r, const struct account_ask *ask)
{
	struct account_row all = {.held = account_held(&r->account)};
	const struct account without = {.rows = &all, .n_rows = 1};

	for (size_t i = 0; i < r->account.n_flights; i++)
		if (strcmp(r->account.flights[i].uid, AHEAD_UID) == 0 &&
			!take_from(&all.held, r->account.flights[i].held))
			return false;
	return account_fits(&without, &r->e->caps, ask->wants);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the policies of namespaces say to the leader: who of those that wait may have his
 * turn (law P1), and that what it gives is counted in their accounts first (law P6). */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "webhook/cluster/claims/claims_impl.h"
#include "webhook/core/policy/policy_bound.h"

/* After a cap was full: then its pods are tried again. */
#define BAR_MS 1000
#define SCRATCH_MAX (1u << 20)

/* A policy whose cap was full a moment ago. */
struct policy_bar {
	struct policy_bar *next;
	struct account_sum wants; /* of whom it refused */
	int64_t until_ms;
	char why[sizeof(((struct err *)0)->msg)];
	char name[];
};

/* ---- bars ---- */

/* The lock held, or on the thread of the claims alone. */
static struct policy_bar *bar_of(const struct claims *c, const char *policy)
{
	struct policy_bar *b = c->bars;

	while (b && strcmp(b->name, policy) != 0)
		b = b->next;
	return b;
}

/* wants: of whom it refused; NULL: nobody knows. */
static void set_bar(
	struct claims *c, const char *policy, const struct account_sum *wants, const char *why)
{
	size_t size = strlen(policy) + 1;
	struct policy_bar *b;

	(void)pthread_mutex_lock(&c->bars_lock);
	b = bar_of(c, policy);
	if (!b && (b = calloc(1, sizeof(*b) + size))) {
		memcpy(b->name, policy, size);
		b->wants = (struct account_sum){UINT64_MAX, UINT64_MAX};
		b->next = c->bars;
		c->bars = b;
	}
	if (b) {
		b->until_ms = clock_ms() + BAR_MS;
		b->wants = wants ? *wants : b->wants;
		(void)snprintf(b->why, sizeof(b->why), "%s", why);
	}
	(void)pthread_mutex_unlock(&c->bars_lock);
}

/* Was one refused a moment ago who asked no more than this? ERR_REFUSED, as he was. */
static int look_at_bar(
	struct claims *c, const char *policy, struct account_sum wants, struct err *err)
{
	const struct policy_bar *b;
	int rc = 0;

	(void)pthread_mutex_lock(&c->bars_lock);
	b = bar_of(c, policy);
	if (b && clock_ms() < b->until_ms && wants.gpus >= b->wants.gpus &&
		wants.bytes >= b->wants.bytes)
		rc = err_reason(err, ERR_REFUSED, "PolicyFull", "%s", b->why);
	(void)pthread_mutex_unlock(&c->bars_lock);
	return rc;
}

void claims_bar(struct claims *c, const char *namespace, const char *why)
{
	const struct policy *p = NULL;
	struct err err = {0};
	struct arena a;

	arena_init(&a, SCRATCH_MAX);
	(void)policy_of(c->cfg->policies, slice_of(namespace), &a, &p, &err);
	if (p)
		set_bar(c, p->name, NULL, why);
	claims_until(c, clock_ms() + BAR_MS);
	arena_release(&a);
}

void claims_bars_free(struct claims *c)
{
	struct policy_bar *b;

	while ((b = c->bars)) {
		c->bars = b->next;
		free(b);
	}
}

/* ---- accounts ---- */

static struct account_sum sum_of(struct adoption *const *members, size_t n)
{
	struct account_sum sum = {0};

	for (size_t i = 0; i < n; i++) {
		const struct placement *w = &members[i]->where;

		sum.gpus += w->n_holds;
		for (size_t k = 0; k < w->n_holds; k++)
			sum.bytes += w->holds[k].bytes;
	}
	return sum;
}

int claims_raise(struct adoption *const *members, size_t n, uint64_t *ret_take, struct err *err)
{
	const struct adoption *first = members[0];
	const struct claims_config *cfg = first->c->cfg;
	struct account_ask ask = {.uid = first->who->uid,
		.namespace = first->who->namespace,
		.take = accounts_new_take(),
		.wants = sum_of(members, n),
		.forced = !first->turn,
		/* the next round asks again, and others stand behind it in this one */
		.at_once = true};
	const struct policy *p = NULL;
	struct arena a;
	int rc;

	*ret_take = 0;
	arena_init(&a, SCRATCH_MAX);
	rc = policy_of(cfg->policies, slice_of(ask.namespace), &a, &p, err);
	if (rc == 0 && p && !ask.forced)
		rc = look_at_bar(first->c, p->name, ask.wants, err);
	/* Who runs already is nobody's, where its namespace has no policy to be counted in. */
	if (rc == ERR_REFUSED && ask.forced)
		rc = 0;
	if (rc == 0 && p && policy_is_capped(p)) {
		rc = accounts_raise(cfg->accounts, p->name, &ask, clock_ms() + CLAIMS_CALL_MS, err);
		*ret_take = ask.take;
	}
	if (rc == ERR_REFUSED && *ret_take && strcmp(err->reason, "PolicyFull") == 0)
		set_bar(first->c, p->name, &ask.wants, err->msg);
	arena_release(&a);
	/* Without a claim what it uses would be promised to others: that is worse than a count that
	 * the keeper of the account puts right. */
	if (ask.forced && rc != 0 && rc != ERR_CONFLICT) {
		log_line(cfg->log, LOG_LEVEL_WARN, "a running pod is in no account yet",
			log_str("uid", ask.uid), log_str("namespace", ask.namespace),
			log_str("error", err->msg));
		err_clear(err);
		*ret_take = 0;
		rc = 0;
	}
	return rc;
}

void claims_raised(struct adoption *const *members, size_t n, uint64_t take)
{
	struct accounts *accounts = members[0]->c->cfg->accounts;

	if (take == 0)
		return;
	/* After one that failed no other was begun. */
	for (size_t i = 0; i < n; i++)
		if (members[i]->unsure_base) {
			accounts_close_after(
				accounts, take, members[i]->unsure_on, members[i]->unsure_base);
			return;
		}
	accounts_close(accounts, take);
}

/* ---- those who wait ---- */

bool policy_law_of(
	const struct claims *c, struct slice namespace, struct arena *a, struct policy_law *ret)
{
	const struct policy_bar *bar;
	struct err err = {0};

	*ret = (struct policy_law){0};
	if (policy_of(c->cfg->policies, namespace, a, &ret->policy, &err) < 0)
		ret->barred = arena_slice(a, slice_of(err.msg));
	/* nobody raises anything meanwhile */
	bar = ret->policy ? bar_of(c, ret->policy->name) : NULL;
	if (bar && clock_ms() < bar->until_ms)
		ret->barred = slice_of(bar->why);
	ret->bound = policy_bound(ret->policy, a);
	return !a->failed;
}

bool policy_law_apply(
	const struct policy_law *law, struct demand *d, struct queue_pod *pod, struct arena *a)
{
	struct err err = {0};

	d->bound = law->bound;
	/* They are not alike any more where the policies differ. */
	if (law->bound)
		pod->asks = 0;
	policy_order(law->policy, pod);
	pod->barred = law->barred;
	if (policy_allows_launcher(law->policy, d->launcher, &err) < 0)
		pod->barred = arena_slice(a, slice_of(err.msg));
	return !a->failed;
}

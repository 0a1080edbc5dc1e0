/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the policies of namespaces say to the leader: who of those that wait may have his
 * turn (law P1), and that what it gives is counted in their accounts first (law P6). */
#include <string.h>

#include "webhook/cluster/claims/claims_impl.h"
#include "webhook/core/policy/policy_bound.h"

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
	const struct account_ask ask = {.uid = first->who->uid,
		.namespace = first->who->namespace,
		.take = accounts_new_take(),
		.wants = sum_of(members, n),
		.forced = !first->turn,
		/* the next round asks again, and others stand behind it in this one */
		.at_once = true};

	return policy_caps_raise(&first->c->caps, &ask, ret_take, err);
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

void claims_bar(struct claims *c, const char *namespace, const char *why)
{
	claims_until(c, policy_caps_bar(&c->caps, namespace, why));
}

/* ---- those who wait ---- */

bool policy_law_of(
	const struct claims *c, struct slice namespace, struct arena *a, struct policy_law *ret)
{
	const char *barred;
	struct err err = {0};

	*ret = (struct policy_law){0};
	if (policy_of(c->cfg->policies, namespace, a, &ret->policy, &err) < 0)
		ret->barred = arena_slice(a, slice_of(err.msg));
	/* nobody raises anything meanwhile */
	barred = ret->policy ? policy_caps_barred(&c->caps, ret->policy->name) : NULL;
	if (barred)
		ret->barred = slice_of(barred);
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

/* ---- caps ---- */

/* The account of that policy, which another namespace may have by now. NULL: out of memory. */
static struct account *account_of(
	const struct policy_law *laws, size_t i, size_t n, struct arena *a)
{
	struct account *account;

	for (size_t k = 0; k < i; k++)
		if (laws[k].account && strcmp(laws[k].policy->name, laws[i].policy->name) == 0)
			return laws[k].account;
	account = arena_array(a, 1, sizeof(*account));
	if (account)
		account->rows = arena_array(a, n, sizeof(*account->rows));
	return account && account->rows ? account : NULL;
}

void policy_laws_count(struct policy_law *laws, const struct queue_share *shares,
	const struct account_sum *held, size_t n, struct arena *a)
{
	for (size_t i = 0; i < n; i++) {
		const char *namespace;
		struct account *account;

		if (!policy_is_capped(laws[i].policy))
			continue;
		namespace = arena_strdup(a, shares[i].namespace);
		account = account_of(laws, i, n, a);
		if (!account || !namespace)
			return;
		account->rows[account->n_rows++] = (struct account_row){namespace, held[i]};
		laws[i].account = account;
	}
}

/* Two containers may have parts of one GPU, and what a percentage is of is not known yet. */
static struct account_sum takes_at_least(const struct demand *d)
{
	struct account_sum least = {0};

	for (size_t i = 0; i < d->n_containers; i++) {
		const struct demand_container *c = &d->containers[i];
		uint64_t bytes;

		if (c->amount > least.gpus)
			least.gpus = c->amount;
		if (__builtin_mul_overflow(c->memory_mb, c->amount * UINT64_C(1000000), &bytes) ||
			__builtin_add_overflow(least.bytes, bytes + (c->percent > 0), &least.bytes))
			least.bytes = UINT64_MAX;
	}
	return least;
}

void policy_law_cap(const struct policy_law *law, struct queue_pod *pod, struct arena *a)
{
	struct account_ask ask = {.wants = takes_at_least(pod->demand)};
	struct err err = {0};

	if (!law->account || pod->barred.at || account_fits(law->account, law->policy, ask.wants))
		return;
	(void)account_refuse(law->account, law->policy, &ask, &err);
	pod->barred = arena_slice(a, slice_of(err.msg));
}

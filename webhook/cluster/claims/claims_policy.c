/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the policies of namespaces say to the leader: who of those that wait may have his
 * turn (law P1), and that what it gives is counted in their accounts first (law P6). */
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

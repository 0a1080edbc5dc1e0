/* SPDX-License-Identifier: Apache-2.0 */
/* edge: a policy's caps in the ledger of a single process (law P6): everything is counted at each
 * take, under its lock, so that no account can be wrong. */
#include "webhook/core/policy/policy_account.h"
#include "webhook/edge/pool/ledger_memory_impl.h"

struct counting {
	const struct policy_source *policies;
	const struct policy *policy;
	struct arena *arena;
	struct account account; /* rows for the namespaces that pick the policy */
	const char *namespace;  /* of the last claim */
	bool counts;            /* it is one of these */
	int rc;
	struct err *err;
};

/* Without a policy, or with one that cannot be had, it is none of this one's. */
static bool picks(struct counting *n, const char *namespace)
{
	const struct policy *other = NULL;
	struct err ignored = {0};
	int rc = policy_of(n->policies, slice_of(namespace), n->arena, &other, &ignored);

	if (rc == ERR_NOMEM)
		n->rc = memory_lacks_room(n->err);
	return rc == 0 && other && strcmp(other->name, n->policy->name) == 0;
}

/* Claims come in the order of their namespaces. */
static void count_one(void *ctx, const struct claim *c)
{
	struct counting *n = ctx;
	if (!n->namespace || strcmp(n->namespace, c->namespace) != 0) {
		n->namespace = c->namespace;
		n->counts = n->rc == 0 && picks(n, c->namespace);
		if (n->counts)
			n->account.rows[n->account.n_rows++] =
				(struct account_row){.namespace = c->namespace};
	}
	if (n->counts)
		account_sum_add(&n->account.rows[n->account.n_rows - 1].held, c);
}

int memory_within_caps(struct ledger_memory *m, const struct claim_ask *ask, const struct claim *c,
	struct arena *a, struct err *err)
{
	struct counting n = {
		.policies = ask->policies, .policy = ask->policy, .arena = a, .err = err};
	struct account_ask wants = {.namespace = c->namespace};

	if (!policy_is_capped(ask->policy))
		return 0;
	account_sum_add(&wants.wants, c);
	n.account.rows = arena_array(a, m->claims.n, sizeof(*n.account.rows));
	if (!n.account.rows)
		return memory_lacks_room(err);
	claim_table_each(&m->claims, count_one, &n);
	if (n.rc != 0 || account_fits(&n.account, ask->policy, wants.wants))
		return n.rc;
	return account_refuse(&n.account, ask->policy, &wants, err);
}

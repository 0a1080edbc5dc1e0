/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: which namespaces an account has rows for, and what the claims of the GPUServers say they
 * hold. */
#include "webhook/cluster/ledger/policy_accounts_impl.h"

/* A policy as large as its schema lets it be. */
#define POLICY_MAX ((size_t)1 << 20)

int account_no_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory for the account of a policy");
}

/* ---- rows ---- */

/* Is it known of the namespace that it picks this policy, or that it does not? Of one that is gone
 * neither is. */
static bool is_known(const struct round *r, const char *namespace, bool picks)
{
	const struct policy *p = NULL;
	struct err err = {0};
	struct arena a;
	bool yes;
	int rc;

	arena_init(&a, POLICY_MAX);
	rc = policy_of(r->x->policies, slice_of(namespace), &a, &p, &err);
	yes = (rc == 0 || rc == ERR_REFUSED) &&
	      (rc == 0 && p && strcmp(p->name, r->e->name) == 0) == picks;
	arena_release(&a);
	return yes;
}

static bool know_server(void *ctx, const struct server_object *o)
{
	struct round *r = ctx;

	for (size_t i = 0; i < o->status.n_claims && !r->arena.failed; i++) {
		const char *namespace = o->status.claims[i].claim.namespace;

		if (account_knows(&r->account, namespace) || !is_known(r, namespace, true))
			continue;
		namespace = arena_strdup(&r->arena, slice_of(namespace));
		if (namespace)
			(void)account_know(&r->account, namespace, &r->arena);
	}
	return !r->arena.failed;
}

int account_know_all(struct round *r)
{
	servers_each(r->x->servers, know_server, r);
	return r->arena.failed ? account_no_memory(&r->err) : 0;
}

/* Of whom it is not known he is counted for the policy that he had, as long as he holds something.
 */
static bool keep_row(void *ctx, const struct account_row *row)
{
	return row->held.gpus || row->held.bytes ? !is_known(ctx, row->namespace, false)
						 : is_known(ctx, row->namespace, true);
}

bool account_drop_left(struct round *r)
{
	return account_drop(&r->account, keep_row, r);
}

/* ---- count ---- */

struct counting {
	struct round *r;
	struct account_count n;
};

static bool count_server(void *ctx, const struct server_object *o)
{
	struct counting *c = ctx;

	c->n.partly = c->n.partly || servers_unreadable(c->r->x->servers, o->name);
	for (size_t i = 0; i < o->status.n_claims; i++) {
		const struct claim_record *one = &o->status.claims[i];
		struct account_sum holds = {0};

		account_sum_add(&holds, &one->claim);
		account_count_add(&c->n, one->claim.namespace, one->claim.key, one->take, holds);
	}
	return true;
}

int account_count_claims(struct round *r)
{
	struct counting c = {.r = r};

	if (!account_count_begin(&c.n, &r->account, &r->arena))
		return account_no_memory(&r->err);
	c.n.partly = servers_partly(r->x->servers);
	servers_each(r->x->servers, count_server, &c);
	r->changed |= account_count_end(&c.n, r->e->generation);
	return 0;
}

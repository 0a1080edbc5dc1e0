/* SPDX-License-Identifier: Apache-2.0 */
/* core: the servers of a pod whose launcher is told them when it is created. */
#include "webhook/core/inject/mutate_impl.h"
#include "webhook/core/policy/policy_bound.h"

/* The servers were picked before a later hook added a container, and the others know them already.
 */
static int place_again(struct making *m, struct err *err)
{
	struct plan *plan = m->in.plan;
	struct ledger *l = m->world->ledger;
	struct placement where;
	struct pool_view view;
	struct demand d;

	plan->servers = m->before.servers;
	plan->addresses = m->before.addresses;
	plan->n_servers = m->before.n_servers;
	if (!l)
		return 0;
	if (l->ops->view(l, false, m->in.a, &view, err) < 0 ||
		plan_demand(plan, m->in.profile->whole_servers, m->in.a, &d, err) < 0)
		return err->code;
	if (placement_find(&view.inventory, &view.usage, &d, m->in.a, &where, err) == 0 ||
		err->code != ERR_REFUSED)
		return err->code;
	return err_reason(err, ERR_REFUSED, "NoCapacity",
		"a container that asks for GPUs was added by another hook after this pod's GPU "
		"servers had been chosen, and "
		"it does not fit on them; let the container be part of the pod from the start");
}

int mutate_place(struct making *m, struct err *err)
{
	const struct profile *p = m->in.profile;
	struct plan *plan = m->in.plan;
	struct ledger *l = m->world->ledger;
	struct placement where;
	struct pool_view view;
	struct demand d;

	if (!p->servers_placed || plan->late.values)
		return 0;
	if (m->in.before)
		return place_again(m, err);
	if (!l)
		return err_reason(err, ERR_REFUSED, "NoServer",
			"the launcher \"%.*s\" is told which GPU servers to use, and no pool is "
			"known here; give one with --pool",
			(int)p->name.len, p->name.at);
	if (l->ops->view(l, false, m->in.a, &view, err) < 0 ||
		plan_demand(plan, p->whole_servers, m->in.a, &d, err) < 0)
		return err->code;
	d.one_server = p->one_server;
	d.no_ipv4 = p->no_ipv4;
	d.no_ipv6 = p->no_ipv6;
	d.bound = policy_bound(m->policy, m->in.a);
	if (placement_find(&view.inventory, &view.usage, &d, m->in.a, &where, err) < 0)
		return err->code;
	if (p->gate.port && where.n_servers > PROFILE_GATE_SERVERS)
		return err_reason(err, ERR_REFUSED, "NoCapacity",
			"its GPUs are on %zu servers, and a pod reaches %d through their gates; "
			"ask "
			"for fewer GPUs",
			where.n_servers, PROFILE_GATE_SERVERS);
	plan->servers = arena_array(m->in.a, where.n_servers, sizeof(*plan->servers));
	plan->addresses = arena_array(m->in.a, where.n_servers, sizeof(*plan->addresses));
	if (!plan->servers || !plan->addresses)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < where.n_servers; i++) {
		const struct gpu_server *s = &view.inventory.servers[where.servers[i]];

		plan->servers[i] = slice_of(s->name);
		plan->addresses[i] = slice_of(s->address);
	}
	plan->n_servers = where.n_servers;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* core: bounds of a policy on launchers, servers and models, and the order of those that wait. */
#include "webhook/core/policy/policy_bound.h"

#include "base/buf.h"

/* Names that a refusal lists. */
#define SAY_MAX 8

const struct pool_bound *policy_bound(const struct policy *p, struct arena *a)
{
	struct pool_bound *b;

	if (!p || (p->n_servers == 0 && p->n_models == 0))
		return NULL;
	b = arena_alloc(a, sizeof(*b));
	if (b)
		*b = (struct pool_bound){.policy = p->name,
			.servers = p->servers,
			.n_servers = p->n_servers,
			.models = p->models,
			.n_models = p->n_models};
	return b;
}

int policy_allows_launcher(const struct policy *p, struct slice launcher, struct err *err)
{
	struct buf b;
	int rc;

	for (size_t i = 0; p && i < p->n_launchers; i++)
		if (slice_is(launcher, p->launchers[i]))
			return 0;
	if (!p || p->n_launchers == 0)
		return 0;
	buf_init(&b, 400);
	for (size_t i = 0; i < p->n_launchers && i < SAY_MAX; i++)
		buf_fmt(&b, "%s%s", i ? ", " : "", p->launchers[i]);
	if (p->n_launchers > SAY_MAX)
		buf_str(&b, ", …");
	rc = err_reason(err, ERR_REFUSED, "PolicyBound",
		"the GPUPolicy %s allows its namespaces no pods of the launcher %.*s "
		"(spec.allow.launchers: %s); choose another one, or ask whoever keeps the policy",
		p->name, (int)(launcher.len < 63 ? launcher.len : 63),
		launcher.at ? launcher.at : "", b.data ? b.data : "");
	buf_release(&b);
	return rc;
}

void policy_order(const struct policy *p, struct queue_pod *pod)
{
	if (p && !pod->classed)
		pod->priority = p->priority;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges policies, who picks them, and what bounds keys that they take out of pods. */
#include <string.h>

#include "webhook/cli/doctor/doctor_impl.h"
#include "webhook/core/policy/policy.h"

static const struct doctor_policy *find(const struct doctor_facts *f, const char *name)
{
	DOCTOR_EACH(struct doctor_policy, &f->policies, p)
	if (strcmp(p->name, name) == 0)
		return p;
	return NULL;
}

/* What the policy of the namespace takes out of pods; NULL: it picks none. */
static const struct doctor_policy *picked_by(const struct doctor_facts *f, const char *namespace)
{
	DOCTOR_EACH(struct doctor_pick, &f->picks, p)
	if (strcmp(p->namespace, namespace) == 0)
		return find(f, p->policy);
	return NULL;
}

static void judge_policies(const struct doctor_facts *f, struct doctor_report *r)
{
	DOCTOR_EACH(struct doctor_policy, &f->policies, p)
	if (p->why)
		doctor_wrong(r, doctor_fmt(r, "kubectl edit gpupolicy %s", p->name),
			"the GPUPolicy %s cannot be read, so that what it said before counts, or "
			"pods are refused: %s: %s",
			p->name, p->path, p->why);
	DOCTOR_EACH(struct doctor_pick, &f->picks, p)
	if (f->policies.sight.state == SIGHT_THERE && !find(f, p->policy))
		doctor_wrong(r,
			doctor_fmt(
				r, "kubectl label namespace %s poolgate.io/policy-", p->namespace),
			"the namespace %s picks the GPUPolicy %s, which does not exist: its pods "
			"that ask for GPUs are refused",
			p->namespace, p->policy);
}

/* Kubernetes counts what a pod asks its node for. */
static void judge_bounds(const struct doctor_facts *f, const struct doctor_list *bounds,
	const char *kind, const char *plural, struct doctor_report *r)
{
	size_t lines = 0;

	DOCTOR_EACH(struct doctor_bound, bounds, b)
	{
		const struct doctor_policy *p = picked_by(f, b->namespace);

		for (unsigned k = 0; p && k < FOREIGN_KEYS; k++) {
			if (!(b->keys & p->accepts & 1U << k) || lines++ >= DOCTOR_PLACE_LINES_MAX)
				continue;
			doctor_wrong(r,
				doctor_fmt(r, "kubectl -n %s edit %s %s", b->namespace, plural,
					b->name),
				"the %s %s in %s is over %s, which the GPUPolicy %s takes out of "
				"pods: it counts none of them",
				kind, b->name, b->namespace, foreign_key_name((enum foreign_key)k),
				p->name);
		}
	}
	if (lines > DOCTOR_PLACE_LINES_MAX)
		doctor_wrong(r, NULL, "and %zu more of this kind", lines - DOCTOR_PLACE_LINES_MAX);
}

void doctor_policies(const struct doctor_facts *f, struct doctor_report *r)
{
	const struct doctor_list *lists[] = {&f->policies, &f->picks, &f->quotas, &f->ranges};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		if (lists[i]->sight.state == SIGHT_MISSING)
			doctor_wrong(r, doctor_apply(f, r, "policies"),
				"%s is not served: namespaces cannot pick a policy",
				lists[i]->sight.what);
		else if (lists[i]->sight.state != SIGHT_NOT_ASKED)
			(void)sight_there(&lists[i]->sight, r);
	judge_policies(f, r);
	judge_bounds(f, &f->quotas, "ResourceQuota", "resourcequota", r);
	judge_bounds(f, &f->ranges, "LimitRange", "limitrange", r);
	if (f->policies.sight.state == SIGHT_THERE && !doctor_group_troubled(r))
		doctor_ok(r,
			"%zu namespaces pick one of %zu policies, and no quota or limit of theirs "
			"is over a key that it takes out of pods",
			f->picks.n, f->policies.n);
}

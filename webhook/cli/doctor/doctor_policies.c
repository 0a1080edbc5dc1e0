/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges policies, who picks them, and what bounds keys that they take out of pods. */
#include <string.h>

#include "webhook/cli/doctor/doctor_facts.h"
#include "webhook/core/policy/policy_account.h"
#include "webhook/core/policy/policy_bound.h"

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
			if (!(b->keys & p->policy.accepts & 1U << k) ||
				lines++ >= DOCTOR_PLACE_LINES_MAX)
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

/* Has a server that can be read a GPU that pods of the policy may have, fit or not? */
static bool has_gpu(const struct doctor_facts *f, const struct policy *p, struct doctor_report *r)
{
	const struct pool_bound *b = policy_bound(p, r->arena);

	DOCTOR_EACH(struct doctor_server, &f->servers, s)
	{
		struct gpu_server shown;

		/* what cannot be told, for want of memory or because it cannot be read, is no fault
		 */
		if (s->why || server_object_inventory(&s->object, r->arena, &shown, NULL) != 0)
			return true;
		for (size_t i = 0; inventory_server_within(&shown, b) && i < shown.n_gpus; i++)
			if (inventory_gpu_within(&shown.gpus[i], b))
				return true;
	}
	return false;
}

/* What its namespaces hold, by the claims. */
static struct account_sum held(const struct doctor_facts *f, const struct doctor_policy *p)
{
	struct account_sum sum = {0};

	DOCTOR_EACH(struct doctor_server, &f->servers, s)
	for (size_t i = 0; !s->why && i < s->object.status.n_claims; i++) {
		const struct claim *c = &s->object.status.claims[i].claim;

		if (c->namespace && picked_by(f, c->namespace) == p)
			account_sum_add(&sum, c);
	}
	return sum;
}

/* A cap that is reached is no fault. */
static void say_used(
	const struct doctor_facts *f, const struct doctor_policy *p, struct doctor_report *r)
{
	struct account_sum sum = held(f, p);
	const char *gpus = "", *bytes = "";

	if (p->policy.gpus != UINT32_MAX)
		gpus = doctor_fmt(r, " of %u", (unsigned)p->policy.gpus);
	if (p->policy.bytes != UINT64_MAX)
		bytes = doctor_fmt(r, " of %llu", (unsigned long long)(p->policy.bytes / 1000000));
	doctor_ok(r, "the namespaces of the GPUPolicy %s hold %llu%s GPUs and %llu%s MB%s", p->name,
		(unsigned long long)sum.gpus, gpus, (unsigned long long)(sum.bytes / 1000000),
		bytes,
		sum.gpus >= p->policy.gpus || sum.bytes >= p->policy.bytes
			? ": their next pods are refused (PolicyFull), or wait"
			: "");
}

static void judge_allowed(const struct doctor_facts *f, struct doctor_report *r)
{
	size_t lines = 0;

	/* without servers there is more to say of them */
	if (f->servers.sight.state != SIGHT_THERE || f->servers.n == 0)
		return;
	DOCTOR_EACH(struct doctor_policy, &f->policies, p)
	{
		bool chooses = p->policy.n_servers > 0 || p->policy.n_models > 0;

		if (p->why || lines >= DOCTOR_PLACE_LINES_MAX)
			continue;
		if (chooses && !has_gpu(f, &p->policy, r)) {
			lines++;
			doctor_wrong(r, doctor_fmt(r, "kubectl edit gpupolicy %s", p->name),
				"no server has a GPU that the GPUPolicy %s allows "
				"(spec.allow.servers, spec.allow.models): the pods of its "
				"namespaces are refused",
				p->name);
		}
		if (policy_is_capped(&p->policy)) {
			lines++;
			say_used(f, p, r);
		}
	}
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
	judge_allowed(f, r);
	judge_bounds(f, &f->quotas, "ResourceQuota", "resourcequota", r);
	judge_bounds(f, &f->ranges, "LimitRange", "limitrange", r);
	if (f->policies.sight.state == SIGHT_THERE && !doctor_group_troubled(r))
		doctor_ok(r,
			"%zu namespaces pick one of %zu policies, and no quota or limit of theirs "
			"is over a key that it takes out of pods",
			f->picks.n, f->policies.n);
}

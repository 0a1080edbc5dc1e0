/* SPDX-License-Identifier: Apache-2.0 */
/* core: the mutating decision about a pod that is being created. */
#include "webhook/core/inject/mutate_impl.h"

#include "base/text.h"
#include "webhook/core/inject/ties.h"
#include "webhook/core/pod/foreign.h"
#include "webhook/core/pod/gate_end.h"
#include "webhook/core/pod/keys.h"
#include "webhook/core/pod/late.h"
#include "webhook/core/pod/plan_ties.h"
#include "webhook/core/pod/pod_policy.h"

static int untouched(struct mutation *ret, const char *why)
{
	ret->patched = false;
	ret->why_not = why;
	return 0;
}

/* A number that no container has had before: what was rendered for those keeps theirs. */
static uint32_t next_slot(const struct making *m, uint32_t *io)
{
	bool taken = true;

	while (taken) {
		taken = false;
		for (size_t i = 0; m->in.before && i < m->before.n_containers; i++)
			taken = taken || m->before.containers[i].slot == *io;
		*io += taken;
	}
	return (*io)++;
}

/* What share of each GPU a container gets that does not say it; by keys of others it is read so. */
static void default_share(const struct making *m, struct gpu_request *r)
{
	if (!m->policy || m->policy->percent == 0 || !r->asks || r->foreign ||
		gpu_request_says_share(r))
		return;
	r->percent = m->policy->percent;
	r->units = gpu_units(r->amount, r->percent, 0, 0);
}

/* One planned container per container of the pod that asks, or that the earlier plan holds. */
static int plan_containers(struct making *m, struct err *err)
{
	struct plan *plan = m->in.plan;
	size_t n = m->pod.n_containers;
	uint32_t slot = 0;

	plan->containers = arena_array(m->in.a, n, sizeof(*plan->containers));
	m->requests = arena_array(m->in.a, n, sizeof(*m->requests));
	if (!plan->containers || !m->requests)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const struct pod_container *c = &m->pod.containers[i];
		struct plan_container *pc = &plan->containers[plan->n_containers];
		struct gpu_request *r = &m->requests[i];
		const struct plan_container *old =
			m->in.before ? plan_container(m->in.before, c->name) : NULL;

		struct foreign_terms terms = old && old->foreign
						     ? foreign_terms_again(old, plan->total_mb)
						     : foreign_terms(m->policy, plan->total_mb);

		if (foreign_read(m->pod.j, c->node, &terms, m->in.a, m->in.warnings, r, err) < 0)
			return err_in(err, "%s", c->path + 1);
		if (!r->asks) {
			if (old)
				plan->containers[plan->n_containers++] = *old;
			continue;
		}
		if (!old)
			default_share(m, r);
		*pc = old ? *old
			  : (struct plan_container){.name = c->name,
				    .kind = c->kind,
				    .amount = r->amount,
				    .percent = r->percent,
				    .memory_mb = r->memory_mb,
				    .units = r->units,
				    .foreign = r->foreign,
				    .slot = plan->late.values && !old ? next_slot(m, &slot) : 0};
		plan->n_containers++;
	}
	if (plan->n_containers <= PLAN_CONTAINERS_MAX)
		return 0;
	err_set(err, ERR_INVALID, "%zu containers ask for GPUs, expected at most %d",
		plan->n_containers, PLAN_CONTAINERS_MAX);
	return err_in(err, "spec/containers");
}

/* What ties a pod that is converted to GPU nodes goes once, when the first of its containers is. */
static int take_ties(struct making *m, struct err *err)
{
	struct plan *plan = m->in.plan;
	bool converts = false;

	if (m->in.before)
		plan->ties = m->in.before->ties;
	for (size_t i = 0; i < m->pod.n_containers; i++)
		converts = converts || m->requests[i].foreign;
	if (!converts || !plan_ties_none(&plan->ties))
		return 0;
	if (m->policy && foreign_check_rest(&m->pod, m->policy->accepts, m->in.a, err) < 0)
		return err->code;
	return m->policy && m->policy->keep_ties
		       ? 0
		       : ties_take(&m->pod, m->in.a, &m->patch, &plan->ties, err);
}

static int write_patch(struct making *m, struct buf *out, struct err *err)
{
	struct plan *plan = m->in.plan;
	size_t k = 0;

	patch_begin(&m->patch, out);
	m->in.patch = &m->patch;
	for (size_t i = 0; i < m->pod.n_containers && k < plan->n_containers; i++) {
		const struct pod_container *c = &m->pod.containers[i];
		struct plan_container *pc = &plan->containers[k];

		if (!slice_eq(pc->name, c->name))
			continue;
		k++;
		if (!m->requests[i].asks)
			continue;
		if (profile_expresses(m->in.profile, pc->amount, pc->percent, pc->memory_mb, err) <
			0) {
			err_in(err, "resources");
			return err_in(err, "%s", c->path + 1);
		}
		if (m->in.before && plan_container(m->in.before, c->name)
				? inject_again(&m->in, c, &m->requests[i], pc, err) < 0
				: inject_container(&m->in, c, &m->requests[i], pc, err) < 0)
			return err->code;
	}
	if (take_ties(m, err) < 0 || inject_pod(&m->in, err) < 0)
		return err->code;
	patch_end(&m->patch);
	if (out->full)
		return err_set(err, ERR_TOOBIG, "the patch does not fit into %zu bytes", out->max);
	return out->failed || m->in.a->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

/* What is wrong with the pod itself is told before a pool that is full, for which it would wait in
 * vain. */
static int place_or_tell(struct making *m, struct buf *out, struct err *err)
{
	struct slice stand_in = SLICE("server");
	struct err wrong = {0};

	if (mutate_place(m, err) == 0 || err->code != ERR_REFUSED || m->in.before)
		return err->code;
	m->in.plan->servers = m->in.plan->addresses = &stand_in;
	m->in.plan->n_servers = 1;
	if (write_patch(m, out, &wrong) < 0)
		*err = wrong;
	m->in.plan->n_servers = 0;
	return err->code;
}

/* Everything after the question whether the pod concerns us at all. */
static int make(struct making *m, struct buf *out, struct err *err)
{
	const char *where;
	bool missing;

	if (!foreign_any_asks(&m->pod, m->in.before, m->policy ? m->policy->accepts : 0)) {
		if (!m->in.before && !pod_policy_decides(&m->pod, m->in.a))
			warn_add(m->in.warnings, m->in.a,
				ANN_SWITCH " is on, but no container asks for " RES_AMOUNT
					   "; nothing is injected");
		return untouched(m->ret, "no container asks");
	}
	if (pod_is_windows(&m->pod, &where)) {
		err_set(err, ERR_INVALID,
			"a Windows pod cannot run the launcher; remove the annotation " ANN_SWITCH
			", or run the pod on Linux");
		return err_in(err, "%s", where);
	}
	if (mutate_choose_profile(m, err) < 0 || mutate_choose_client(m, &missing, err) < 0)
		return err->code;
	if (m->in.a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (!missing && m->in.client->arch.at &&
		!pod_allows_arch(&m->pod, m->in.client->arch, &where)) {
		err_set(err, ERR_INVALID,
			"the launcher \"%.*s\" has programs for %.*s, and the pod excludes such "
			"nodes; "
			"let it run on them, or choose another client",
			(int)m->in.profile->name.len, m->in.profile->name.at,
			(int)m->in.client->arch.len, m->in.client->arch.at);
		return err_in(err, "%s", where);
	}
	/* Left as it is, such a pod would run on a GPU of its node. */
	if (missing && m->policy && foreign_first(&m->pod, m->policy->accepts))
		return err_reason(err, ERR_REFUSED, "NoLauncher",
			"the namespace's policy \"%s\" has it converted, and nobody says for which "
			"client: its operator has to set spec.defaults.os and version, or the pod "
			"the annotations " ANN_OS " and " ANN_VERSION,
			m->policy->name);
	if (missing) {
		warn_add(m->in.warnings, m->in.a,
			"not injected: set the annotations " ANN_OS " and " ANN_VERSION);
		return untouched(m->ret, "no client chosen");
	}
	m->in.plan->profile = m->in.profile->name;
	m->in.plan->total_mb = m->in.before ? m->before.total_mb : m->world->config->total_gpu_mb;
	m->in.plan->node_resource_off =
		m->in.before ? m->before.node_resource_off : m->world->config->node_resource_off;
	if (mutate_choose_waiting(m, err) < 0 || plan_containers(m, err) < 0 ||
		mutate_choose_filters(m, err) < 0 || place_or_tell(m, out, err) < 0)
		return err->code;
	m->in.plan->version = PLAN_VERSION;
	m->in.plan->hash = m->in.profile->hash;
	m->in.plan->full = m->in.before ? m->before.full : m->mode == SWITCH_FULL;
	if (write_patch(m, out, err) < 0 || mutate_check_images(m, err) < 0)
		return err->code;
	m->ret->patched = true;
	m->ret->plan_hash = m->in.plan_hash;
	return 0;
}

/* The keys that another version of ours has put on the pod. */
static const struct plan *listed_keys(const struct making *m, struct slice namespace)
{
	return m->in.before && m->before.n_keys > 0 &&
			       plan_is_genuine(m->world->signer, namespace, &m->before, m->in.a)
		       ? &m->before
		       : NULL;
}

/* A plan that goes on from another gets no proof: that one may be forged, and what was rendered for
 * it was rendered elsewhere. */
static int make_proven(struct making *m, struct buf *out, struct err *err)
{
	int rc;

	if (!m->world->signer || m->in.before)
		return make(m, out, err);
	buf_init(&m->rendered, PLAN_RENDERED_MAX);
	m->in.signer = m->world->signer;
	m->in.rendered = &m->rendered;
	rc = make(m, out, err);
	buf_release(&m->rendered);
	return rc;
}

/* On or off, and by which policy. That of a pod that says off itself, or that asks for nothing, is
 * not looked up: none of its concern may refuse it. */
static int choose_mode(struct making *m, struct slice namespace, struct arena *a, struct err *err)
{
	struct err malformed = {0};
	struct pod p;

	m->mode = pod_switch_of(&m->pod, a);
	if (!m->world->policies || pod_is_exempt(&m->pod, namespace) || a->failed)
		return a->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
	if (m->mode == SWITCH_OFF &&
		(!pod_policy_decides(&m->pod, a) ||
			pod_read(m->pod.j, m->pod.root, a, &p, &malformed) < 0 ||
			!foreign_any_asks(&p, NULL, FOREIGN_ALL)))
		return a->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
	if (policy_of(m->world->policies, namespace, a, &m->policy, err) < 0)
		return err->code;
	m->ret->policy = m->policy;
	m->mode = pod_policy_switch(&m->pod, m->policy, namespace, m->world->owned, a);
	return a->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

int mutate_create(const struct mutate_world *world, const struct json *j,
	const struct json_node *pod, struct slice namespace, struct arena *a, struct buf *patch,
	struct mutation *ret, struct err *err)
{
	struct making m = {.world = world, .ret = ret};
	struct slice status, plan;

	*ret = (struct mutation){0};
	pod_glance(j, pod, &m.pod);
	if (choose_mode(&m, namespace, a, err) < 0)
		return err->code;
	if (m.mode == SWITCH_OFF)
		return untouched(ret, "switch off");
	if (pod_is_exempt(&m.pod, namespace))
		return untouched(ret, "exempt");
	status = pod_annotation(&m.pod, ANN_STATUS, a);
	plan = pod_annotation(&m.pod, ANN_PLAN, a);
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (!plan.at && status.at && text_ieq(status, SLICE("injected")))
		return untouched(ret, "already injected");
	m.in = (struct injection){.pod = &m.pod,
		.plan = &ret->plan,
		.a = a,
		.warnings = &ret->warnings,
		.images = world->images,
		.namespace = namespace};
	if (plan.at) {
		/* a plan that cannot be read is the validator's to refuse: it says where it is
		 * wrong */
		if (plan_read(plan, a, &m.before, err) < 0)
			return err->code == ERR_NOMEM ? err->code
						      : untouched(ret, "unreadable plan");
		m.in.before = &m.before;
	}
	if (pod_read(j, pod, a, &m.pod, err) < 0 ||
		keys_check(&m.pod, listed_keys(&m, namespace), a, err) < 0)
		return err->code;
	if (!m.in.before &&
		(late_check_plain(&m.pod, err) < 0 || gate_end_check_plain(&m.pod, a, err) < 0))
		return err->code;
	keys_warn(&m.pod, false, a, m.in.warnings);
	return make_proven(&m, patch, err);
}

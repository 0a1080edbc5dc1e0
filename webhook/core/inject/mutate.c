/* SPDX-License-Identifier: Apache-2.0 */
/* core: the mutating decision about a pod that is being created. */
#include "webhook/core/inject/mutate.h"

#include "base/text.h"
#include "webhook/core/inject/inject.h"
#include "webhook/core/inject/ties.h"
#include "webhook/core/pod/foreign.h"
#include "webhook/core/pod/gate_end.h"
#include "webhook/core/pod/keys.h"
#include "webhook/core/pod/late.h"
#include "webhook/core/pod/plan_ties.h"
#include "webhook/core/pod/pod_policy.h"
#include "webhook/core/pod/queue_read.h"
#include "webhook/core/policy/policy_bound.h"
#include "webhook/core/pool/filter.h"

/* What the steps below share. */
struct making {
	const struct mutate_world *world;
	const struct policy *policy; /* of the namespace; NULL: it picks none */
	struct injection in;
	struct pod pod;
	struct plan before;
	struct patch patch;
	enum pod_switch mode;
	struct mutation *ret;
	struct gpu_request *requests; /* per container of the pod */
	struct buf rendered;
};

static int untouched(struct mutation *ret, const char *why)
{
	ret->patched = false;
	ret->why_not = why;
	return 0;
}

static int refuse_profile(const struct config *c, struct slice name, struct err *err)
{
	char known[256] = "";
	size_t n = 0;

	for (size_t i = 0; i < c->n_profiles; i++) {
		struct slice s = c->profiles[i].name;

		if (n + s.len + 3 >= sizeof(known))
			break;
		if (i > 0) {
			known[n++] = ',';
			known[n++] = ' ';
		}
		memcpy(known + n, s.at, s.len);
		n += s.len;
		known[n] = '\0';
	}
	err_set(err, ERR_INVALID, "found \"%.*s\", expected a launcher that is configured here: %s",
		(int)(name.len > 60 ? 60 : name.len), name.at, known[0] ? known : "there is none");
	return err_in(err, "metadata/annotations/poolgate.io~1launcher");
}

/* The pod's word, or its policy's, in the member of that name; a plan has heard both already. */
#define WORD(m, key, member)                                                                       \
	pod_policy_word(&(m)->pod, key, (m)->policy ? (m)->policy->member : NULL, (m)->in.a)

/* Which profile: the plan's, the annotation's, the policy's, the configured default. */
static int choose_profile(struct making *m, struct err *err)
{
	const struct config *c = m->world->config;
	struct slice name = WORD(m, ANN_LAUNCHER, launcher);

	if (m->in.before)
		name = m->before.profile;
	m->in.profile = name.at ? config_profile(c, name) : c->default_profile;
	if (!m->in.profile && name.at && !m->in.before && m->policy &&
		!pod_annotation(&m->pod, ANN_LAUNCHER, m->in.a).at)
		return err_reason(err, ERR_REFUSED, "NoLauncher",
			"the namespace's policy \"%s\" names the launcher \"%.*s\", which is not "
			"configured here: its operator has to name another in spec.defaults",
			m->policy->name, (int)(name.len > 60 ? 60 : name.len), name.at);
	if (!m->in.profile && name.at)
		return refuse_profile(c, name, err);
	if (!m->in.profile)
		return err_reason(err, ERR_REFUSED, "NoLauncher",
			"no launcher is configured on this server, so it cannot start anything on "
			"a remote GPU; the operator "
			"has to give it a client catalogue and sidecar config, or a launcher "
			"profile");
	if (m->in.before && m->before.hash != m->in.profile->hash)
		return err_reason(err, ERR_REFUSED, "ProfileChanged",
			"the launcher \"%.*s\" was changed while this pod was being admitted; "
			"create it again",
			(int)m->in.profile->name.len, m->in.profile->name.at);
	return 0;
}

static int refuse_client(
	const struct profile *p, struct slice os, struct slice version, struct err *err)
{
	char known[360] = "";
	size_t n = 0;

	for (size_t i = 0; i < p->n_clients; i++) {
		struct slice o = p->clients[i].os, v = p->clients[i].version;

		if (n + o.len + v.len + 4 >= sizeof(known))
			break;
		if (i > 0) {
			known[n++] = ',';
			known[n++] = ' ';
		}
		memcpy(known + n, o.at, o.len);
		n += o.len;
		known[n++] = '/';
		memcpy(known + n, v.at, v.len);
		n += v.len;
		known[n] = '\0';
	}
	err_set(err, ERR_INVALID,
		"Could not find Bitfusion client info for os \"%.*s\" and version \"%.*s\"; "
		"os/version known here: %s",
		(int)(os.len > 40 ? 40 : os.len), os.at, (int)(version.len > 40 ? 40 : version.len),
		version.at, known);
	return err_in(err, "metadata/annotations");
}

/* *ret_missing: the annotations that would choose one are not there. */
static int choose_client(struct making *m, bool *ret_missing, struct err *err)
{
	const struct profile *p = m->in.profile;
	struct slice os = {0}, version = {0};

	*ret_missing = false;
	if (p->by_client) {
		os = m->in.before ? m->before.os : WORD(m, ANN_OS, os);
		version =
			m->in.before ? m->before.version_of_client : WORD(m, ANN_VERSION, version);
		*ret_missing = os.len == 0 || version.len == 0;
		if (*ret_missing)
			return 0;
	}
	m->in.client = profile_client(p, os, version);
	if (!m->in.client)
		return refuse_client(p, os, version, err);
	if (p->by_client) {
		m->in.plan->os = os;
		m->in.plan->version_of_client = version;
	}
	return 0;
}

/* The image of its client that nobody has set. What is wrong with the pod itself is told before. */
static int check_images(struct making *m, struct err *err)
{
	const struct profile_client *c = m->in.client;
	const char *text;

	for (size_t i = 0; !m->in.before && i < c->n_inits; i++) {
		struct slice image = c->inits[i].image;

		if (!image_is_unset(image))
			continue;
		text = arena_fmt(m->in.a,
			"the launcher \"%.*s\" would run the image %.*s, which stands for the "
			"client's own: its operator must set it (docs/operating.md, Install)",
			(int)m->in.profile->name.len, m->in.profile->name.at,
			(int)(image.len < 200 ? image.len : 200), image.at);
		if (!text)
			return err_set(err, ERR_NOMEM, "out of memory");
		if (!m->world->preview)
			return err_reason(err, ERR_REFUSED, "ImageNotSet", "%s", text);
		warn_add_long(m->in.warnings, m->in.a, slice_of(text));
	}
	return 0;
}

static int read_filters(struct making *m, struct err *err)
{
	struct plan *plan = m->in.plan;

	if (m->in.before) {
		plan->filters = m->before.filters;
		plan->n_filters = m->before.n_filters;
		return 0;
	}
	if (filter_words(pod_annotation(&m->pod, ANN_FILTER, m->in.a), m->in.a, &plan->filters,
		    &plan->n_filters, err) != 0)
		return err_in(err, "metadata/annotations/bitfusion-client~1filter");
	return 0;
}

/* Tokens that the pool does not understand select nothing there; say so once. */
static int warn_filters(struct making *m, struct err *err)
{
	const struct plan *plan = m->in.plan;
	struct pool_view view;
	struct ledger *l = m->world->ledger;

	if (plan->n_filters == 0 || !l)
		return 0;
	if (l->ops->view(l, false, m->in.a, &view, err) < 0)
		return err->code;
	for (size_t i = 0; i < plan->n_filters; i++) {
		struct filter f = filter_of(plan->filters[i]);

		if (!inventory_knows_filter(&view.inventory, &f))
			warn_add(m->in.warnings, m->in.a,
				"filter \"%.*s\" selects nothing in the pool; it goes to the "
				"launcher alone",
				(int)(f.token.len > 40 ? 40 : f.token.len), f.token.at);
	}
	return 0;
}

/* The place comes late: with the plan before, or where the leader brings places to pods that wait
 * for them. */
static int choose_late(struct making *m, struct err *err)
{
	const struct profile *p = m->in.profile;

	if (m->in.before)
		m->in.plan->late = m->before.late;
	else if (m->world->config->late_place && p->servers_placed)
		m->in.plan->late = plan_late_of(p);
	else if (p->needs_late)
		return err_reason(err, ERR_REFUSED, "NoLauncher",
			"the launcher \"%.*s\" is told which GPUs to use, and that is known here "
			"to "
			"nobody when a pod is created; the operator has to install "
			"components/waiting",
			(int)p->name.len, p->name.at);
	return m->in.plan->late.values ? late_check_node(&m->pod, err) : 0;
}

/* Does its owner want it to wait, or whoever runs the pool? */
static bool wants_to_wait(const struct making *m)
{
	const struct config *c = m->world->config;
	struct slice word = WORD(m, ANN_WHEN_FULL, when_full);

	if (word.at)
		return slice_is(word, "wait");
	return c->late_place && (c->when_full == WHEN_FULL_WAIT ||
					(c->when_full == WHEN_FULL_OWNED &&
						(m->world->owned || pod_controller(&m->pod))));
}

/* Members wait for one another, whoever owns them. */
static int choose_gang(struct making *m, struct err *err)
{
	struct plan *plan = m->in.plan;
	struct slice word = pod_annotation(&m->pod, ANN_WHEN_FULL, m->in.a);

	if (m->in.before) {
		plan->gang = m->before.gang;
		plan->gang_size = m->before.gang_size;
		return 0;
	}
	if (!queue_gang_of(&m->pod, m->in.a, &plan->gang, &plan->gang_size))
		return err_set(err, ERR_NOMEM, "out of memory");
	if (!plan->gang.at)
		return 0;
	if (!m->world->config->late_place) {
		err_set(err, ERR_INVALID,
			"the pods of a gang wait for one another, and pods cannot wait for GPUs "
			"here: "
			"the operator has to install components/waiting; leave " ANN_GANG
			" and " ANN_GANG_SIZE " out to have each pod started alone");
		return err_in(err, "metadata/annotations/poolgate.io~1gang");
	}
	if (word.at && !slice_is(word, "wait")) {
		err_set(err, ERR_INVALID,
			"found \"%.*s\", and the pods of a gang (" ANN_GANG
			") wait for one another; write wait, or leave it out",
			(int)(word.len > 60 ? 60 : word.len), word.at);
		return err_in(err, "metadata/annotations/poolgate.io~1when-full");
	}
	return late_check_node(&m->pod, err);
}

/* It comes without a claim, and the leader lets it go in its turn (law W2). */
static void choose_waiting(struct making *m)
{
	struct plan *plan = m->in.plan;

	if (m->in.before || plan->gang.at) {
		plan->waits = m->in.before ? m->before.waits : true;
		return;
	}
	if (!wants_to_wait(m))
		return;
	plan->waits =
		m->world->config->late_place && !json_get(m->pod.j, m->pod.spec, SLICE("nodeName"));
	if (!m->world->config->late_place)
		warn_add(m->in.warnings, m->in.a,
			"pods cannot wait for GPUs here (" ANN_WHEN_FULL
			"): when none is free it is refused");
	else if (!plan->waits)
		warn_add(m->in.warnings, m->in.a,
			"a pod with spec.nodeName cannot wait for GPUs (" ANN_WHEN_FULL
			"): when none is free it is refused");
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

/* placement: servers. Pick them now, since their addresses are written into the pod. */
static int place(struct making *m, struct err *err)
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

	if (place(m, err) == 0 || err->code != ERR_REFUSED || m->in.before)
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
	if (choose_profile(m, err) < 0 || choose_client(m, &missing, err) < 0)
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
	if (choose_late(m, err) < 0 || choose_gang(m, err) < 0)
		return err->code;
	choose_waiting(m);
	if (plan_containers(m, err) < 0 || read_filters(m, err) < 0 || warn_filters(m, err) < 0 ||
		place_or_tell(m, out, err) < 0)
		return err->code;
	m->in.plan->version = PLAN_VERSION;
	m->in.plan->hash = m->in.profile->hash;
	m->in.plan->full = m->in.before ? m->before.full : m->mode == SWITCH_FULL;
	if (write_patch(m, out, err) < 0 || check_images(m, err) < 0)
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

/* SPDX-License-Identifier: Apache-2.0 */
/* core: what a mutation chooses for a pod: launcher, client, filters, and whether it waits. */
#include "webhook/core/inject/mutate_impl.h"
#include "webhook/core/pod/keys.h"
#include "webhook/core/pod/late.h"
#include "webhook/core/pod/pod_policy.h"
#include "webhook/core/pod/queue_read.h"
#include "webhook/core/pool/filter.h"

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

int mutate_choose_profile(struct making *m, struct err *err)
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

int mutate_choose_client(struct making *m, bool *ret_missing, struct err *err)
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

int mutate_check_images(struct making *m, struct err *err)
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

int mutate_choose_filters(struct making *m, struct err *err)
{
	return read_filters(m, err) < 0 ? err->code : warn_filters(m, err);
}

/* The place comes late: with the plan before, or where the leader brings places to pods that wait
 * for them. */
static int choose_late(struct making *m, struct err *err)
{
	const struct profile *p = m->in.profile;

	m->in.plan->gate_port = p->gate.port;
	m->in.plan->by_address = p->gate.by_address;
	m->in.plan->guarded = m->in.before ? m->before.guarded : profile_guarded(p);
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
	if (plan->gang_size == 0 && !m->world->owned && queue_check_job(&m->pod, err) < 0)
		return err->code;
	return late_check_node(&m->pod, err);
}

/* It comes without a claim, and the leader lets it go in its turn (law W2). */
static void choose_turn(struct making *m)
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

int mutate_choose_waiting(struct making *m, struct err *err)
{
	if (choose_late(m, err) < 0 || choose_gang(m, err) < 0)
		return err->code;
	choose_turn(m);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* core: hold a pod against the plan that it carries. Whoever may create pods may have written the
 * plan, its profile and hash too: admitted is what this replica would write now, word for word, or
 * what a replica that shares our keys has proven to have written (rule R18). */
#include "base/quantity.h"
#include "base/text.h"
#include "webhook/core/inject/inject.h"
#include "webhook/core/pod/foreign.h"
#include "webhook/core/pod/gate_end.h"
#include "webhook/core/pod/late.h"
#include "webhook/core/pod/queue_read.h"
#include "webhook/core/pod/rendered.h"
#include "webhook/core/validate/validate_check.h"

int check_in(struct checking *c, const struct pod_container *pc, const char *where)
{
	err_in(c->err, "%s", where);
	return err_in(c->err, "%s", pc->path + 1);
}

static bool units_are(const struct json *j, const struct json_node *v, uint64_t units)
{
	struct slice s = json_is(v, JSON_STRING) ? json_inside(j, v) : json_raw(j, v);
	struct quantity q;

	return v && quantity_parse(s, &q, NULL) == 0 && q.nano == (__int128_t)units * 1000000000;
}

static int check_resources(
	struct checking *c, const struct pod_container *pc, const struct plan_container *plan)
{
	static const char *const sides[] = {"limits", "requests"};
	uint64_t units = gpu_units(plan->amount, plan->percent, plan->memory_mb, c->plan->total_mb);

	if (units != plan->units) {
		MISMATCH(c,
			"the plan says %llu units for container \"%.*s\", but what it asks comes "
			"to %llu",
			(unsigned long long)plan->units, (int)plan->name.len, plan->name.at,
			(unsigned long long)units);
		return err_in(c->err, PLAN_PATH);
	}
	for (size_t i = 0; i < 2; i++) {
		const struct json_node *side =
			json_path(c->pod->j, pc->node, "resources", sides[i], NULL);
		const struct json_node *v = json_get(c->pod->j, side, SLICE(RES_UNITS));

		if (c->plan->node_resource_off ? !v : units_are(c->pod->j, v, units))
			continue;
		MISMATCH(c, "%s must be %llu, as in the plan; found %.*s", RES_UNITS,
			(unsigned long long)(c->plan->node_resource_off ? 0 : units),
			v ? (int)(v->len > 40 ? 40 : v->len) : 7,
			v ? json_raw(c->pod->j, v).at : "nothing");
		return check_in(c, pc, arena_fmt(c->a, "resources/%s", sides[i]));
	}
	return 0;
}

static int missing(struct checking *c, struct slice name, const char *what, const char *where)
{
	MISMATCH(c, "the injected %s %.*s is missing", what, (int)(name.len > 100 ? 100 : name.len),
		name.at);
	return err_in(c->err, "%s", where);
}

/* What the profile renders in the pod or a container: its name or path, and the whole object. */
struct part {
	struct slice name, json;
};

/* Such parts are in the array, as they were rendered. */
static int check_parts(struct checking *c, const struct json_node *array, const char *key,
	const struct part *parts, size_t n, const char *what, const char *where)
{
	struct slice *names = arena_array(c->a, n, sizeof(*names));
	struct json_hit *hits = arena_array(c->a, n, sizeof(*hits));

	for (size_t i = 0; parts && names && i < n; i++)
		names[i] = parts[i].name;
	if (!parts || !names || !hits ||
		json_find_each(c->pod->j, array, key, names, n, false, c->a, hits) != 0)
		return err_set(c->err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		if (!hits[i].node)
			return missing(c, names[i], what, where);
		if (rendered_there(parts[i].json, c->pod->j, hits[i].node, c->a))
			continue;
		if (c->a->failed)
			return err_set(c->err, ERR_NOMEM, "out of memory");
		MISMATCH(c, "the injected %s %.*s is not as it was injected", what,
			(int)(names[i].len > 100 ? 100 : names[i].len), names[i].at);
		return err_in(c->err, "%s/%zu", where, hits[i].index);
	}
	return 0;
}

/* One variable that the profile sets or puts in front must be there. */
static int check_var(struct checking *c, const struct pod_container *pc, const struct launch *l,
	const struct profile_env *e, const struct json_hit *hit)
{
	const struct json *j = c->pod->j;
	const struct json_node *var = hit->node;
	struct slice value = json_str(j, json_get(j, var, SLICE("value")), c->a);
	struct slice ours;

	if (profile_env_refers(e) && inject_refers(j, var, e))
		return 0;
	if (e->field.at) {
		MISMATCH(c, "%.*s must come from the pod's %.*s, as the launcher needs it",
			(int)e->name.len, e->name.at, (int)e->field.len, e->field.at);
		return check_in(c, pc, var ? arena_fmt(c->a, "env/%zu", hit->index) : "env");
	}
	if (e->secret.at) {
		MISMATCH(c,
			"%.*s must come from the key %.*s of the Secret %.*s, as the launcher "
			"needs it",
			(int)e->name.len, e->name.at, (int)e->secret_key.len, e->secret_key.at,
			(int)e->secret.len, e->secret.at);
		return check_in(c, pc, var ? arena_fmt(c->a, "env/%zu", hit->index) : "env");
	}
	ours = template_render(e->value, l, (struct slice){0}, c->a);
	ours = inject_join(ours, e->separator, SLICE(""), c->a);
	if (!ours.at)
		return err_set(c->err, ERR_NOMEM, "out of memory");
	if (value.at && slice_starts(value, ours) &&
		(value.len == ours.len ||
			(e->prepend && slice_starts((struct slice){value.at + ours.len,
							    value.len - ours.len},
					       e->separator))))
		return 0;
	MISMATCH(c, "%.*s must %s \"%.*s\", as the launcher needs it", (int)e->name.len, e->name.at,
		e->prepend ? "begin with" : "be", (int)(ours.len > 200 ? 200 : ours.len), ours.at);
	return check_in(c, pc, var ? arena_fmt(c->a, "env/%zu", hit->index) : "env");
}

/* What the profile writes for this request must be there. */
static int check_env(struct checking *c, const struct pod_container *pc, const struct launch *l)
{
	const struct json_node *env = json_get(c->pod->j, pc->node, SLICE("env"));
	size_t n = c->profile->n_env;
	struct slice *names = arena_array(c->a, n, sizeof(*names));
	struct json_hit *hits = arena_array(c->a, n, sizeof(*hits));

	for (size_t i = 0; names && i < n; i++)
		names[i] = c->profile->env[i].name;
	if (!names || !hits ||
		json_find_each(c->pod->j, env, "name", names, n, true, c->a, hits) != 0)
		return err_set(c->err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		if (launch_times(l, c->profile->env[i].when) &&
			check_var(c, pc, l, &c->profile->env[i], &hits[i]) < 0)
			return c->err->code;
	return 0;
}

/* Each variable that reads the place is there, once: what refers to it takes the last one that
 * stands in front. */
static int check_late_env(
	struct checking *c, const struct pod_container *pc, const struct plan_container *plan)
{
	const struct json_node *env = json_get(c->pod->j, pc->node, SLICE("env"));

	for (size_t v = 0; v < LATE_VALUES; v++) {
		struct slice name = slice_of(late_variable((enum late_value)v));
		size_t first = 0, last = 0;

		if (!(c->plan->late.values & 1u << v))
			continue;
		if (json_find(c->pod->j, env, "name", name, false, &first) &&
			late_reads(c->pod->j, json_find(c->pod->j, env, "name", name, true, &last),
				(enum late_value)v, plan->slot, c->a) &&
			first == last)
			continue;
		MISMATCH(c,
			"%.*s must stand here once and read the annotation that poolgate writes "
			"for this container",
			(int)name.len, name.at);
		return check_in(c, pc, "env");
	}
	return 0;
}

static int check_mounts(struct checking *c, const struct pod_container *pc)
{
	const struct json_node *mounts = json_get(c->pod->j, pc->node, SLICE("volumeMounts"));
	size_t n = c->profile->n_mounts;
	struct part *parts = arena_array(c->a, n, sizeof(*parts));

	for (size_t i = 0; parts && i < n; i++)
		parts[i] = (struct part){c->profile->mounts[i].path, c->profile->mounts[i].json};
	return check_parts(c, mounts, "mountPath", parts, n, "mount", "volumeMounts") < 0
		       ? err_in(c->err, "%s", pc->path + 1)
		       : 0;
}

static int check_container(struct checking *c, const struct plan_container *plan)
{
	const struct pod_container *pc = pod_container(c->pod, plan->name);
	struct launch l;

	if (!pc || pc->kind != plan->kind) {
		MISMATCH(c, "the pod has no such container \"%.*s\" as the plan speaks of",
			(int)(plan->name.len > 100 ? 100 : plan->name.len), plan->name.at);
		return err_in(c->err, PLAN_PATH);
	}
	l = inject_launch(c->profile, c->client, c->plan, plan);
	if (profile_expresses(c->profile, plan->amount, plan->percent, plan->memory_mb, c->err) < 0)
		return check_in(c, pc, "resources");
	if (check_resources(c, pc, plan) < 0 || check_command(c, pc, plan, &l) < 0 ||
		check_mounts(c, pc) < 0 || check_late_env(c, pc, plan) < 0 ||
		check_void(c, pc, plan) < 0)
		return c->err->code;
	return check_env(c, pc, &l);
}

/* Containers that the plan does not speak of must hold nothing of ours. */
static int check_others(struct checking *c)
{
	for (size_t i = 0; i < c->pod->n_containers; i++) {
		const struct pod_container *pc = &c->pod->containers[i];
		const struct json_node *res = json_get(c->pod->j, pc->node, SLICE("resources"));

		const struct plan_container *plan = plan_container(c->plan, pc->name);

		if (gpu_request_asks(c->pod->j, pc->node) ||
			(plan && plan->foreign && foreign_asks(c->pod->j, pc->node, FOREIGN_ALL))) {
			err_reason(c->err, ERR_REFUSED, "NotInjected", CHECK_NOT_SEEN);
			return check_in(c, pc, "resources");
		}
		if (plan)
			continue;
		if (json_path(c->pod->j, res, "limits", RES_UNITS, NULL) ||
			json_path(c->pod->j, res, "requests", RES_UNITS, NULL)) {
			MISMATCH(c,
				RES_UNITS " is set, but the plan does not speak of this container");
			return check_in(c, pc, "resources");
		}
	}
	return 0;
}

static int check_pod_parts(struct checking *c)
{
	const struct json *j = c->pod->j;
	const struct json_node *inits = json_get(j, c->pod->spec, SLICE("initContainers"));
	size_t n = c->profile->n_volumes, m = c->client->n_inits;
	struct part *volumes = arena_array(c->a, n, sizeof(*volumes));
	struct part *added = arena_array(c->a, m, sizeof(*added));

	for (size_t i = 0; volumes && i < n; i++)
		volumes[i] =
			(struct part){c->profile->volumes[i].name, c->profile->volumes[i].json};
	for (size_t i = 0; added && i < m; i++)
		added[i] = (struct part){c->client->inits[i].name, c->client->inits[i].json};
	if (check_parts(c, c->pod->volumes, "name", volumes, n, "volume", "spec/volumes") < 0)
		return c->err->code;
	return check_parts(c, inits, "name", added, m, "init container", "spec/initContainers");
}

/* Does the plan name servers as its launcher wants them? */
static int check_placed(struct checking *c)
{
	bool late = c->profile->servers_placed && c->config->late_place;
	struct plan_late want = late ? plan_late_of(c->profile) : (struct plan_late){0};

	if (!plan_late_same(&want, &c->plan->late)) {
		MISMATCH(c,
			"the launcher \"%.*s\" is told its servers %s here, and the plan was made "
			"otherwise; create the pod again from its own manifest",
			(int)c->plan->profile.len, c->plan->profile.at,
			late ? "when its claim stands" : "when the pod is created");
		return err_in(c->err, PLAN_PATH);
	}
	if (c->plan->waits && !c->config->late_place) {
		MISMATCH(c, "pods do not wait for GPUs here, and the plan says that this one does; "
			    "create "
			    "the pod again from its own manifest");
		return err_in(c->err, PLAN_PATH);
	}
	if ((c->profile->servers_placed && !late) != (c->plan->n_servers > 0)) {
		MISMATCH(c, "the launcher \"%.*s\" %s", (int)c->plan->profile.len,
			c->plan->profile.at,
			c->plan->n_servers ? "chooses its servers itself; the plan must not"
					   : "is told its servers, and the plan names none");
		return err_in(c->err, PLAN_PATH);
	}
	if (c->profile->gate.port != c->plan->gate_port ||
		(c->plan->gate_port && !slice_eq(pod_annotation(c->pod, ANN_GATE_CA, c->a),
					       c->profile->gate.ca))) {
		MISMATCH(c,
			"the launcher \"%.*s\" goes through gates in another way, or to others, "
			"than the plan and the annotation " ANN_GATE_CA " say",
			(int)c->plan->profile.len, c->plan->profile.at);
		return err_in(c->err, PLAN_PATH);
	}
	if (gate_end_check_pull(c->pod, c->plan, c->profile->gate.pull_secret, c->err) < 0)
		return c->err->code;
	if (profile_guarded(c->profile) != c->plan->guarded) {
		MISMATCH(c,
			"the launcher \"%.*s\" %s its GPU servers' gates, and the plan says "
			"otherwise",
			(int)c->plan->profile.len, c->plan->profile.at,
			c->plan->guarded ? "does not leave shares to" : "leaves shares to");
		return err_in(c->err, PLAN_PATH);
	}
	if (c->profile->one_server && c->plan->n_servers > 1) {
		MISMATCH(c,
			"the launcher \"%.*s\" reaches one GPU server per pod; the plan names %zu",
			(int)c->plan->profile.len, c->plan->profile.at, c->plan->n_servers);
		return err_in(c->err, PLAN_PATH);
	}
	return 0;
}

/* The servers that the mutator picked are the pool's, under the addresses that the pod was given.
 */
static int check_servers(struct checking *c, struct ledger *ledger)
{
	struct pool_view view;

	if (c->plan->n_servers == 0 || !ledger)
		return 0;
	if (ledger->ops->view(ledger, false, c->a, &view, c->err) < 0)
		return c->err->code;
	for (size_t i = 0; i < c->plan->n_servers; i++) {
		const struct gpu_server *s = inventory_server(&view.inventory, c->plan->servers[i]);

		if (s && slice_is(c->plan->addresses[i], s->address))
			continue;
		return err_reason(c->err, ERR_REFUSED, "ServerTaken",
			"the GPU server \"%.*s\" that was chosen is no longer in the pool under "
			"this address: create the pod "
			"again, and another one is chosen",
			(int)(c->plan->servers[i].len > 100 ? 100 : c->plan->servers[i].len),
			c->plan->servers[i].at);
	}
	return 0;
}

static int check_marks(struct checking *c)
{
	struct slice status = pod_annotation(c->pod, ANN_STATUS, c->a);

	if (!json_is_str(c->pod->j, json_get(c->pod->j, c->pod->labels, SLICE(LABEL_INJECTED)),
		    SLICE("true"))) {
		MISMATCH(c, "the label " LABEL_INJECTED
			    " must be \"true\", since the pod carries a plan");
		return err_in(c->err, "metadata/labels/poolgate.io~1injected");
	}
	if (!status.at || !text_ieq(status, SLICE("injected"))) {
		MISMATCH(c, "the annotation " ANN_STATUS
			    " must be \"injected\", since the pod carries a plan");
		return err_in(c->err, "metadata/annotations/auto-management~1status");
	}
	return 0;
}

/* What the leader reads of the gang stands in the plan; its owner reads it on the pod. */
static int check_gang(struct checking *c)
{
	struct slice gang;
	uint32_t size;

	if (!queue_gang_of(c->pod, c->a, &gang, &size))
		return err_set(c->err, ERR_NOMEM, "out of memory");
	if (!gang.at && !c->plan->gang.at)
		return 0;
	if (gang.at && c->plan->gang.at && slice_eq(gang, c->plan->gang) &&
		size == c->plan->gang_size && (size || queue_job_of(c->pod, c->a).at))
		return 0;
	MISMATCH(c, "the gang in the plan is not the one that " ANN_GANG " and " ANN_GANG_SIZE
		    " name; create the pod again from its own manifest");
	return err_in(c->err, PLAN_PATH);
}

/* The plan and the pod against what this replica would write now. */
static int check_plan(struct checking *c, const struct mutate_world *world)
{
	const struct plan *plan = c->plan;
	struct err *err = c->err;

	c->client = profile_client(c->profile, plan->os, plan->version_of_client);
	if (!c->client) {
		MISMATCH(c, "the launcher \"%.*s\" has no such client as the plan names",
			(int)plan->profile.len, plan->profile.at);
		return err_in(err, PLAN_PATH);
	}
	if (plan->total_mb != world->config->total_gpu_mb) {
		MISMATCH(c,
			"the plan counts units by GPUs of %llu MB, but TOTAL_GPU_MEMORY is %llu MB "
			"here; create the pod again from its own manifest",
			(unsigned long long)plan->total_mb,
			(unsigned long long)world->config->total_gpu_mb);
		return err_in(err, PLAN_PATH);
	}
	if (plan->node_resource_off != world->config->node_resource_off) {
		MISMATCH(c,
			"the plan was made where nodeResource is %s, and here it is %s; create the "
			"pod again from its own manifest",
			plan->node_resource_off ? "false" : "true",
			plan->node_resource_off ? "true" : "false");
		return err_in(err, PLAN_PATH);
	}
	if (check_marks(c) < 0 || check_gang(c) < 0 || check_others(c) < 0)
		return err->code;
	for (size_t i = 0; i < plan->n_containers; i++)
		if (check_container(c, &plan->containers[i]) < 0)
			return err->code;
	if (check_pod_parts(c) < 0 || check_placed(c) < 0 || check_servers(c, world->ledger) < 0)
		return err->code;
	return c->a->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

static int profile_changed(const struct checking *c)
{
	err_clear(c->err);
	err_reason(c->err, ERR_REFUSED, "ProfileChanged",
		"the plan was made for a launcher \"%.*s\" that is not the one of this "
		"server; create the pod again from its own manifest",
		(int)(c->plan->profile.len > 100 ? 100 : c->plan->profile.len),
		c->plan->profile.at);
	return err_in(c->err, PLAN_PATH);
}

/* The same for a plan whose proof holds: what was rendered is as it was, and its own figures are
 * believed. What no replica renders is looked at here, too. */
static int check_proven(struct checking *c, const struct mutate_world *world)
{
	if (check_marks(c) < 0 || check_gang(c) < 0 || check_others(c) < 0)
		return c->err->code;
	for (size_t i = 0; i < c->plan->n_containers; i++) {
		const struct plan_container *pc = &c->plan->containers[i];

		if (check_resources(c, pod_container(c->pod, pc->name), pc) < 0)
			return c->err->code;
	}
	return check_servers(c, world->ledger);
}

int validate_plan(const struct mutate_world *world, const struct pod *pod, struct slice namespace,
	const struct plan *plan, struct arena *a, enum proof *ret_proof, struct err *err)
{
	struct checking c = {.pod = pod, .plan = plan, .config = world->config, .a = a, .err = err};
	int rc;

	c.profile = config_profile(world->config, plan->profile);
	/* What changed in the profile may be another client's: as long as this pod is as we would
	 * write it, that is not its fault. */
	rc = c.profile ? check_plan(&c, world) : profile_changed(&c);
	if (rc == 0 || rc == ERR_NOMEM || rc == ERR_INTERNAL)
		return rc;
	*ret_proof = plan_judge(world->signer, namespace, pod, plan, a);
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (*ret_proof == PROOF_HOLDS) {
		err_clear(err);
		return check_proven(&c, world);
	}
	if (c.profile && c.profile->hash != plan->hash && strcmp(err->reason, "PlanMismatch") == 0)
		return profile_changed(&c);
	return rc;
}

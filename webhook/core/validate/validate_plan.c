/* SPDX-License-Identifier: Apache-2.0 */
/* core: hold a pod against the plan that it carries. Whoever may create pods may have written the
 * plan, its profile and hash too: admitted is what this replica would write now, word for word, or
 * what a replica that shares our keys has proven to have written (rule R18). */
#include "base/text.h"
#include "webhook/core/pod/foreign.h"
#include "webhook/core/pod/gate_end.h"
#include "webhook/core/pod/queue_read.h"
#include "webhook/core/validate/validate_check.h"

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
	struct check_part *volumes = arena_array(c->a, n, sizeof(*volumes));
	struct check_part *added = arena_array(c->a, m, sizeof(*added));

	for (size_t i = 0; volumes && i < n; i++)
		volumes[i] = (struct check_part){
			c->profile->volumes[i].name, c->profile->volumes[i].json};
	for (size_t i = 0; added && i < m; i++)
		added[i] = (struct check_part){c->client->inits[i].name, c->client->inits[i].json};
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
	/* a replica of before does not say so in the plan */
	if (c->profile->gate.by_address && gate_end_network(c->pod, true, c->err) < 0)
		return c->err->code;
	if (c->profile->gate.port != c->plan->gate_port ||
		c->profile->gate.by_address != c->plan->by_address ||
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

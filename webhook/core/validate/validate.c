/* SPDX-License-Identifier: Apache-2.0 */
/* core: the validating decision. */
#include "webhook/core/validate/validate.h"

#include <stdlib.h>

#include "base/text.h"
#include "webhook/core/pod/foreign.h"
#include "webhook/core/pod/gate_end.h"
#include "webhook/core/pod/gpu_request.h"
#include "webhook/core/pod/keys.h"
#include "webhook/core/pod/late.h"
#include "webhook/core/pod/pod_policy.h"
#include "webhook/core/validate/validate_check.h"

static int not_injected(const struct pod_container *c, struct slice status, struct err *err)
{
	if (status.at && text_ieq(status, SLICE("injected")))
		err_reason(err, ERR_REFUSED, "NotInjected",
			"asks for GPUs, but the annotation " ANN_STATUS
			" says that this was done already, and there is no plan; remove that "
			"annotation and create the pod again");
	else
		err_reason(err, ERR_REFUSED, "NotInjected",
			"asks for GPUs, but was not injected: the mutating hook did not answer; "
			"create it again");
	err_in(err, "resources");
	return err_in(err, "%s", c->path + 1);
}

/* Does the container hold bitfusion.io/gpu? */
static bool has_units(const struct json *j, const struct json_node *container)
{
	const struct json_node *res = json_get(j, container, SLICE("resources"));

	return json_path(j, res, "limits", RES_UNITS, NULL) ||
	       json_path(j, res, "requests", RES_UNITS, NULL);
}

static const struct pod_container *first_asking(const struct pod *p)
{
	for (size_t i = 0; i < p->n_containers; i++)
		if (gpu_request_asks(p->j, p->containers[i].node))
			return &p->containers[i];
	return NULL;
}

/* Will the pod wait for a resource that no node offers? */
static bool held_up(const struct pod *p)
{
	for (size_t i = 0; i < p->n_containers; i++)
		if (gpu_request_holds_up(p->j, p->containers[i].node))
			return true;
	return false;
}

static const struct pod_container *first_with_units(const struct pod *p)
{
	for (size_t i = 0; i < p->n_containers; i++)
		if (has_units(p->j, p->containers[i].node))
			return &p->containers[i];
	return NULL;
}

/* The annotations that choose the client are missing: the mutating hook lets such a pod pass, and
 * so do we. */
static bool client_missing(
	const struct config *c, const struct pod *pod, const struct policy *policy, struct arena *a)
{
	static const struct policy none;
	const struct policy *by = policy ? policy : &none;
	struct slice name = pod_policy_word(pod, ANN_LAUNCHER, by->launcher, a);
	const struct profile *p = name.at ? config_profile(c, name) : c->default_profile;

	return p && p->by_client &&
	       (pod_policy_word(pod, ANN_OS, by->os, a).len == 0 ||
		       pod_policy_word(pod, ANN_VERSION, by->version, a).len == 0);
}

/* A pod that asks and was not injected: what the policy of its namespace wants. */
static int wanted(const struct mutate_world *world, const struct pod *p, struct slice namespace,
	struct arena *a, const struct policy **ret, enum pod_switch *ret_mode, struct err *err)
{
	*ret = NULL;
	*ret_mode = pod_switch_of(p, a);
	if (*ret_mode == SWITCH_OFF && !pod_policy_decides(p, a))
		return 0;
	if (policy_of(world->policies, namespace, a, ret, err) < 0)
		return err->code;
	*ret_mode = pod_policy_switch(p, *ret, namespace, false, a);
	return a->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

/* A pod without a plan. */
static int validate_plain(const struct mutate_world *world, const struct pod *p,
	struct slice namespace, struct arena *a, struct validation *ret, struct err *err)
{
	const struct pod_container *asking = first_asking(p), *units = first_with_units(p),
				   *others = NULL;
	const struct policy *policy = NULL;
	enum pod_switch mode = SWITCH_OFF;
	bool on;

	if ((asking || foreign_first(p, FOREIGN_ALL)) &&
		wanted(world, p, namespace, a, &policy, &mode, err) < 0)
		return err->code;
	on = mode != SWITCH_OFF;
	if (!asking && on && policy)
		asking = others = foreign_first(p, policy->accepts);
	if (late_check_plain(p, err) < 0)
		return err->code;
	if (json_get(p->j, p->labels, SLICE(LABEL_INJECTED))) {
		err_reason(err, ERR_REFUSED, "PlanMissing",
			"says that the pod was injected, but the annotation " ANN_PLAN
			" is missing; remove the label and create the pod again");
		return err_in(err, "metadata/labels/poolgate.io~1injected");
	}
	ret->local = asking && on && policy && policy->local_on_outage && pod_policy_decides(p, a);
	if (ret->local)
		warn_add_long(&ret->warnings, a,
			slice_of(arena_fmt(a,
				"not injected: the mutating hook did not answer, and the policy "
				"\"%s\" lets such pods pass (onOutage: local)",
				policy->name)));
	else if (asking && on && (others || !client_missing(world->config, p, policy, a)))
		return not_injected(asking, pod_annotation(p, ANN_STATUS, a), err);
	if (units) {
		err_reason(err, ERR_REFUSED, "GpuWithoutPlan",
			RES_UNITS
			" is computed by poolgate and counted in its pool; ask for " RES_AMOUNT
			" with the annotation " ANN_SWITCH " instead");
		err_in(err, "resources");
		return err_in(err, "%s", units->path + 1);
	}
	if (asking && on && !ret->local)
		warn_add(&ret->warnings, a,
			"not injected: set the annotations " ANN_OS " and " ANN_VERSION);
	else if (asking && !on)
		warn_add(&ret->warnings, a,
			"no node offers %s: the pod will wait; set the annotation %s", RES_AMOUNT,
			ANN_SWITCH);
	/* a pod that names its node never meets the scheduler, and a kubelet drops resources that
	 * it does not know */
	return held_up(p) && !json_get(p->j, p->spec, SLICE("nodeName"))
		       ? 0
		       : check_secrets(world->config, p, err);
}

static bool mentions_us(const struct config *c, const struct pod *p, struct arena *a)
{
	struct err ignored;

	return pod_switch_of(p, a) != SWITCH_OFF || first_asking(p) ||
	       foreign_first(p, FOREIGN_ALL) || first_with_units(p) ||
	       json_get(p->j, p->labels, SLICE(LABEL_INJECTED)) || late_is_held(p->j, p->root) ||
	       check_secrets(c, p, &ignored) < 0;
}

bool validate_whole_servers(const struct config *c, const struct plan *plan)
{
	const struct profile *p = c ? config_profile(c, plan->profile) : NULL;

	if (plan->late.values)
		return plan->late.whole_servers;
	return p ? p->whole_servers : plan->n_servers > 0;
}

/* A part of it was converted or injected, and another asks by a key that its policy accepts: a
 * later hook has added it, or the plan is somebody's own. It would have GPUs of the pool and of its
 * node.
 */
static int check_rest(const struct mutate_world *world, const struct pod *p, struct slice namespace,
	struct arena *a, struct err *err)
{
	const struct policy *policy = NULL;
	const struct pod_container *c;

	if (!foreign_first(p, FOREIGN_ALL))
		return 0;
	if (policy_of(world->policies, namespace, a, &policy, err) < 0)
		return err->code;
	c = policy ? foreign_first(p, policy->accepts) : NULL;
	if (!c)
		return 0;
	err_reason(err, ERR_REFUSED, "NotInjected", CHECK_NOT_SEEN);
	err_in(err, "resources");
	return err_in(err, "%s", c->path + 1);
}

/* Rule R13: for so long its claim may have to be kept after a delete that nobody sees the end of.
 */
static int check_grace(const struct config *c, const struct pod *p, struct err *err)
{
	uint32_t grace = pod_grace(p->j, p->root);

	if (c->max_grace_s == 0 || grace <= c->max_grace_s)
		return 0;
	err_set(err, ERR_INVALID,
		"found %u, expected at most %u for a pod that asks for GPUs: so long its GPUs may "
		"have to be kept after it was deleted by force",
		grace, c->max_grace_s);
	return err_in(err, "spec/terminationGracePeriodSeconds");
}

/* The keys that nobody knows here: has another version of ours put them on the pod, as a genuine
 * plan says? *err is forgotten then. */
static bool keys_of_plan(const struct mutate_world *world, const struct pod *p,
	struct slice namespace, struct slice text, struct arena *a, struct err *err)
{
	struct err again = {0};
	struct plan plan;

	if (err->code != ERR_INVALID || !text.at || plan_read(text, a, &plan, &again) < 0 ||
		plan.n_keys == 0 || !plan_is_genuine(world->signer, namespace, &plan, a) ||
		keys_check(p, &plan, a, &again) < 0)
		return false;
	err_clear(err);
	return true;
}

int validate_create(const struct mutate_world *world, const struct json *j,
	const struct json_node *pod, struct slice namespace, struct arena *a,
	struct validation *ret, struct err *err)
{
	struct pod p;
	struct slice plan;
	int rc;

	*ret = (struct validation){0};
	pod_glance(j, pod, &p);
	if (pod_is_exempt(&p, namespace))
		return 0;
	plan = pod_annotation(&p, ANN_PLAN, a);
	rc = pod_read(j, pod, a, &p, err);
	/* a malformed pod that does not concern us is the API server's to refuse; one that is
	 * merely large is not */
	if (rc < 0)
		return rc == ERR_NOMEM || rc == ERR_TOOBIG || plan.at ||
				       pod_switch_of(&p, a) != SWITCH_OFF
			       ? rc
			       : 0;
	if (pod_switch_of(&p, a) == SWITCH_OFF)
		keys_warn(&p, true, a, &ret->warnings);
	else if (keys_check(&p, NULL, a, err) < 0 &&
		 !keys_of_plan(world, &p, namespace, plan, a, err))
		return err->code;
	if (!plan.at && !a->failed && mentions_us(world->config, &p, a))
		return validate_plain(world, &p, namespace, a, ret, err);
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (!plan.at)
		return 0;
	if (plan_read(plan, a, &ret->plan, err) < 0) {
		char why[400];

		if (err->code == ERR_NOMEM)
			return err->code;
		memcpy(why, err->msg, sizeof(why) - 1);
		why[sizeof(why) - 1] = '\0';
		err_reason(err, ERR_REFUSED, "PlanUnreadable", "is no plan that poolgate wrote: %s",
			why);
		return err_in(err, "metadata/annotations/poolgate.io~1plan");
	}
	if (late_check_create(&p, &ret->plan, a, err) < 0 ||
		gate_end_check_create(&p, &ret->plan, a, err) < 0 ||
		validate_plan(world, &p, namespace, &ret->plan, a, &ret->proof, err) < 0 ||
		check_rest(world, &p, namespace, a, err) < 0)
		return err->code;
	if (check_grace(world->config, &p, err) < 0)
		return err->code;
	ret->claims = true;
	ret->profile = config_profile(world->config, ret->plan.profile);
	ret->plan_hash = text_hash64(plan);
	return plan_demand(&ret->plan, validate_whole_servers(world->config, &ret->plan), a,
		&ret->demand, err);
}

struct pair {
	struct slice key;
	struct slice value; /* absent for what is no string */
};

static int by_key(const void *a, const void *b)
{
	struct slice x = ((const struct pair *)a)->key, y = ((const struct pair *)b)->key;
	int order = memcmp(x.at, y.at, x.len < y.len ? x.len : y.len);

	return order ? order : (x.len > y.len) - (x.len < y.len);
}

/* The members whose keys are ours, sorted: a stranger may send many. NULL when the arena ran out.
 */
static struct pair *ours_of(
	const struct json *j, const struct json_node *map, struct arena *a, size_t *ret_n)
{
	struct pair *ours;
	size_t n = 0;

	JSON_MEMBERS(j, map, k)
	n += k->escaped || slice_starts(json_inside(j, k), SLICE(OURS_PREFIX));
	ours = arena_array(a, n, sizeof(*ours));
	n = 0;
	if (!ours)
		return NULL;
	JSON_MEMBERS(j, map, k)
	{
		struct slice key = json_str(j, k, a);

		if (key.at && slice_starts(key, SLICE(OURS_PREFIX)))
			ours[n++] = (struct pair){key, json_str(j, json_value(k), a)};
	}
	qsort(ours, n, sizeof(*ours), by_key);
	*ret_n = n;
	return ours;
}

/* Do both maps hold the same members of ours? False too when the arena ran out. */
static bool same_ours(const struct json *j, const struct json_node *a, const struct json_node *b,
	struct arena *arena)
{
	size_t n, m;
	struct pair *x = ours_of(j, a, arena, &n), *y = ours_of(j, b, arena, &m);

	if (!x || !y || n != m)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!slice_eq(x[i].key, y[i].key) || !slice_eq(x[i].value, y[i].value))
			return false;
	return true;
}

static int check_marks_kept(const struct review *r, struct arena *a, struct err *err)
{
	struct pod now, was;

	pod_glance(r->j, r->object, &now);
	pod_glance(r->j, r->old_object, &was);
	if (!same_ours(r->j, now.annotations, was.annotations, a)) {
		if (a->failed)
			return err_set(err, ERR_NOMEM, "out of memory");
		err_reason(err, ERR_REFUSED, "PlanChanged",
			"annotations under " OURS_PREFIX
			" cannot be changed while the pod lives: its claim rests on them");
		return err_in(err, "metadata/annotations");
	}
	if (!same_ours(r->j, now.labels, was.labels, a)) {
		if (a->failed)
			return err_set(err, ERR_NOMEM, "out of memory");
		err_reason(err, ERR_REFUSED, "PlanChanged",
			"labels under " OURS_PREFIX
			" cannot be changed while the pod lives: its claim rests on them");
		return err_in(err, "metadata/labels");
	}
	return a->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

/* A pod that should have been injected when it was made. Its end must never depend on us. */
static int check_not_waiting(
	const struct mutate_world *world, const struct review *r, struct arena *a, struct err *err)
{
	const struct pod_container *asking;
	struct pod p;

	pod_glance(r->j, r->object, &p);
	if (pod_switch_of(&p, a) == SWITCH_OFF || pod_is_exempt(&p, r->namespace) ||
		pod_annotation(&p, ANN_PLAN, a).at ||
		json_path(r->j, r->object, "metadata", "deletionTimestamp", NULL) ||
		client_missing(world->config, &p, NULL, a) ||
		pod_read(r->j, r->object, a, &p, err) < 0)
		return 0;
	asking = first_asking(&p);
	if (!asking)
		return 0;
	err_reason(err, ERR_REFUSED, "NotInjected",
		"asks for GPUs, but was not injected when it was created, and that cannot be made "
		"good while it lives; delete "
		"the pod and create it again");
	err_in(err, "resources");
	return err_in(err, "%s", asking->path + 1);
}

/* A typo that an update brings. */
static int check_keys(const struct review *r, struct arena *a, struct err *err)
{
	struct pod now, was;

	pod_glance(r->j, r->object, &now);
	pod_glance(r->j, r->old_object, &was);
	return pod_switch_of(&now, a) == SWITCH_OFF || pod_is_exempt(&now, r->namespace)
		       ? 0
		       : keys_check_update(&now, &was, a, err);
}

int validate_update(
	const struct mutate_world *world, const struct review *r, struct arena *a, struct err *err)
{
	if (check_marks_kept(r, a, err) < 0 ||
		late_check_update(r->j, r->object, r->old_object, err) < 0)
		return err->code;
	if (slice_is(r->subresource, "ephemeralcontainers"))
		return check_ephemeral_secrets(world->config, r, a, err);
	if (r->subresource.len > 0)
		return 0;
	return check_keys(r, a, err) < 0 ? err->code : check_not_waiting(world, r, a, err);
}

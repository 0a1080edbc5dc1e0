/* SPDX-License-Identifier: Apache-2.0 */
/* core: hold one container of a pod against the plan: its resources, variables and mounts are what
 * this replica would write now. */
#include "base/quantity.h"
#include "base/text.h"
#include "webhook/core/inject/inject.h"
#include "webhook/core/pod/late.h"
#include "webhook/core/validate/validate_check.h"

static bool units_are(const struct json *j, const struct json_node *v, uint64_t units)
{
	struct slice s = json_is(v, JSON_STRING) ? json_inside(j, v) : json_raw(j, v);
	struct quantity q;

	return v && quantity_parse(s, &q, NULL) == 0 && q.nano == (__int128_t)units * 1000000000;
}

int check_resources(
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
	struct check_part *parts = arena_array(c->a, n, sizeof(*parts));

	for (size_t i = 0; parts && i < n; i++)
		parts[i] =
			(struct check_part){c->profile->mounts[i].path, c->profile->mounts[i].json};
	return check_parts(c, mounts, "mountPath", parts, n, "mount", "volumeMounts") < 0
		       ? err_in(c->err, "%s", pc->path + 1)
		       : 0;
}

int check_container(struct checking *c, const struct plan_container *plan)
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

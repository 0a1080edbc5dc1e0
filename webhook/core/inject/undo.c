/* SPDX-License-Identifier: Apache-2.0 */
/* core: take an injection back, by the plan that the pod carries. */
#include <stdlib.h>

#include "webhook/core/inject/inject.h"
#include "webhook/core/inject/mutate.h"
#include "webhook/core/inject/ties.h"
#include "webhook/core/pod/gate_end.h"
#include "webhook/core/pod/late.h"

/* One undoing. Removals shift what stands behind them, so each array is walked from its end. */
struct undoing {
	struct pod pod;
	struct plan plan;
	struct patch patch;
	struct arena *a;
	struct err *err;
};

static int not_as_planned(struct undoing *u, const char *path, const char *what)
{
	err_set(u->err, ERR_INVALID, "is not as the plan in " ANN_PLAN " says: %s", what);
	return err_in(u->err, "%s", path + 1);
}

/* Remove the elements whose `key` is listed (of several with one name the last one, which is ours);
 * the whole array when we made it and nothing else is in it. */
static int remove_elements(struct undoing *u, const char *path, const struct json_node *array,
	const char *key, const struct slice *names, size_t n, bool made)
{
	const struct json *j = u->pod.j;
	size_t count = json_is(array, JSON_ARRAY) ? array->count : 0, i = 0, hits = 0;
	bool *hit = arena_array(u->a, count, sizeof(*hit));

	if (!hit)
		return err_set(u->err, ERR_NOMEM, "out of memory");
	for (size_t k = 0; k < n; k++)
		if (json_find(j, array, key, names[k], true, &i) && !hit[i]) {
			hit[i] = true;
			hits++;
		}
	if (made && hits == count && json_is(array, JSON_ARRAY)) {
		patch_remove(&u->patch, path, (struct slice){0});
		return 0;
	}
	for (i = count; i-- > 0;)
		if (hit[i])
			patch_remove_at(&u->patch, path, i, (struct slice){0});
	return 0;
}

/* asked: the members as the plan remembers them, a JSON object; or absent. */
static int undo_side(struct undoing *u, const struct pod_container *c, bool limits,
	struct slice asked, bool made)
{
	const char *side = limits ? "limits" : "requests";
	const char *path =
		pod_path(u->a, c->path, limits ? "/resources/limits" : "/resources/requests");
	const struct json_node *here = json_path(u->pod.j, c->node, "resources", side, NULL);
	struct json j = {0};
	char *copy = NULL;
	int rc = 0;

	if (!path)
		return err_set(u->err, ERR_NOMEM, "out of memory");
	if (!u->plan.node_resource_off && !json_get(u->pod.j, here, SLICE(RES_UNITS)))
		return not_as_planned(u, path, "bitfusion.io/gpu is missing");
	if (made && here->count == 1) {
		patch_remove(&u->patch, path, (struct slice){0});
		return 0;
	}
	if (!u->plan.node_resource_off)
		patch_remove(&u->patch, path, SLICE(RES_UNITS));
	if (!asked.at)
		return 0;
	/* An API server leaves out what is empty. */
	if (!json_is(here, JSON_OBJECT))
		patch_add(&u->patch, path, (struct slice){0}, SLICE("{}"));
	rc = json_read_copy(&j, asked.at, asked.len, 64, &copy, u->err);
	JSON_MEMBERS(&j, json_root(&j), k)
	patch_add(&u->patch, path, json_str(&j, k, u->a), json_raw(&j, json_value(k)));
	json_release(&j);
	free(copy);
	return rc;
}

static int undo_command(
	struct undoing *u, const struct pod_container *c, const struct plan_container *pc)
{
	const struct json_node *command = json_get(u->pod.j, c->node, SLICE("command"));
	size_t n = pc->argv + (pc->command == COMMAND_SHELL ? 2U : 0U);
	const char *path = pod_path(u->a, c->path, "/command");

	if (pc->command != COMMAND_WRAPPED && pc->command != COMMAND_SHELL)
		return 0;
	if (!path)
		return err_set(u->err, ERR_NOMEM, "out of memory");
	if (!json_is(command, JSON_ARRAY) || command->count <= n)
		return not_as_planned(
			u, path, "the launcher's words are not in front of the command");
	if (pc->image.at && command->count != n + pc->image_words)
		return not_as_planned(
			u, path, "behind the launcher's words stand others than its image's");
	if (pc->image.at) {
		patch_remove(&u->patch, path, (struct slice){0});
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		patch_remove(&u->patch, path, SLICE("0"));
	return 0;
}

static int undo_env(
	struct undoing *u, const struct pod_container *c, const struct plan_container *pc)
{
	const struct json *j = u->pod.j;
	const struct json_node *env = json_get(j, c->node, SLICE("env"));
	const char *path = pod_path(u->a, c->path, "/env");
	struct slice *gone = arena_array(u->a, pc->n_env, sizeof(*gone));
	size_t n_gone = 0;

	if (!path || !gone)
		return err_set(u->err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < pc->n_env; i++) {
		const struct plan_env *pe = &pc->env[i];
		size_t index = 0;

		if (!json_find(j, env, "name", pe->name, true, &index))
			return not_as_planned(u, path, "a variable that was injected is missing");
		if (pe->had && !pe->was.at) {
			patch_remove_at(&u->patch, path, index, SLICE("value"));
			continue;
		}
		if (pe->had) {
			patch_open_at(&u->patch, "add", path, index, SLICE("value"));
			buf_char(u->patch.out, '"');
			buf_slice(u->patch.out, pe->was);
			buf_char(u->patch.out, '"');
			patch_close(&u->patch);
			continue;
		}
		gone[n_gone++] = pe->name;
	}
	if (remove_elements(u, path, env, "name", gone, n_gone, pc->made_env) < 0)
		return u->err->code;
	for (size_t i = 0; i < pc->n_env; i++) {
		size_t index = 0, before = 0;

		if (!pc->env[i].moved.at ||
			!json_find(j, env, "name", pc->env[i].moved, true, &index))
			continue;
		for (size_t k = 0; k < n_gone; k++) {
			size_t at = 0;

			before += json_find(j, env, "name", gone[k], true, &at) && at < index;
		}
		patch_open_at(&u->patch, "replace", path, index - before, SLICE("name"));
		buf_json_str(u->patch.out, pc->env[i].name);
		patch_close(&u->patch);
	}
	return 0;
}

static int undo_container(struct undoing *u, const struct plan_container *pc)
{
	const struct pod_container *c = pod_container(&u->pod, pc->name);
	const char *mounts = c ? pod_path(u->a, c->path, "/volumeMounts") : NULL;

	if (!c)
		return not_as_planned(u, "/spec/containers", "a container of the plan is missing");
	if (!mounts)
		return err_set(u->err, ERR_NOMEM, "out of memory");
	if (undo_side(u, c, true, pc->asked_limits, pc->made_limits) < 0 ||
		undo_side(u, c, false, pc->asked_requests, pc->made_requests) < 0 ||
		undo_command(u, c, pc) < 0 || undo_env(u, c, pc) < 0)
		return u->err->code;
	return remove_elements(u, mounts, json_get(u->pod.j, c->node, SLICE("volumeMounts")),
		"mountPath", pc->mounts, pc->n_mounts, pc->made_mounts);
}

/* A pod that has started has none any more. */
static int undo_gate(struct undoing *u)
{
	struct slice gate = SLICE(LATE_GATE);

	return plan_is_gated(&u->plan) && late_is_held(u->pod.j, u->pod.root)
		       ? remove_elements(u, "/spec/schedulingGates",
				 late_gates(u->pod.j, u->pod.root), "name", &gate, 1,
				 u->plan.made_gates)
		       : 0;
}

static int undo_pull_secret(struct undoing *u)
{
	return u->plan.pull_secret.at
		       ? remove_elements(u, "/spec/imagePullSecrets", pod_pull_secrets(&u->pod),
				 "name", &u->plan.pull_secret, 1, u->plan.made_pull_secrets)
		       : 0;
}

/* An annotation that only some injections add. */
static bool is_added(const struct undoing *u, struct slice key)
{
	return (plan_is_gated(&u->plan) && late_is_leaders(key)) ||
	       (u->plan.gate_port && gate_end_key(key));
}

static bool all_ours(const struct undoing *u)
{
	JSON_MEMBERS(u->pod.j, u->pod.annotations, k)
	{
		struct slice key = json_str(u->pod.j, k, u->a);

		if (!key.at ||
			!(slice_is(key, ANN_PLAN) || slice_is(key, ANN_STATUS) || is_added(u, key)))
			return false;
	}
	return true;
}

static void undo_marks(struct undoing *u)
{
	const struct json_node *metadata = json_get(u->pod.j, u->pod.root, SLICE("metadata"));

	if (u->plan.made_labels && u->pod.labels && u->pod.labels->count == 1)
		patch_remove(&u->patch, "/metadata/labels", (struct slice){0});
	else if (json_get(u->pod.j, u->pod.labels, SLICE(LABEL_INJECTED)))
		patch_remove(&u->patch, "/metadata/labels", SLICE(LABEL_INJECTED));
	if (u->plan.made_annotations && !u->plan.status_was.at && all_ours(u)) {
		patch_remove(&u->patch, "/metadata/annotations", (struct slice){0});
		if (u->plan.made_metadata && u->pod.labels && metadata->count == 2 &&
			u->pod.labels->count == 1)
			patch_remove(&u->patch, "/metadata", (struct slice){0});
		return;
	}
	JSON_MEMBERS(u->pod.j, u->pod.annotations, k)
	{
		struct slice key = json_str(u->pod.j, k, u->a);

		if (key.at && is_added(u, key))
			patch_remove(&u->patch, "/metadata/annotations", key);
	}
	patch_remove(&u->patch, "/metadata/annotations", SLICE(ANN_PLAN));
	if (u->plan.status_was.at)
		patch_add_str(
			&u->patch, "/metadata/annotations", SLICE(ANN_STATUS), u->plan.status_was);
	else if (json_get(u->pod.j, u->pod.annotations, SLICE(ANN_STATUS)))
		patch_remove(&u->patch, "/metadata/annotations", SLICE(ANN_STATUS));
}

int mutate_undo(const struct json *j, const struct json_node *pod, struct arena *a,
	struct buf *patch, struct mutation *ret, struct err *err)
{
	struct undoing u = {.a = a, .err = err};
	struct slice plan;

	*ret = (struct mutation){0};
	pod_glance(j, pod, &u.pod);
	plan = pod_annotation(&u.pod, ANN_PLAN, a);
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (!plan.at) {
		ret->why_not = "no plan";
		return 0;
	}
	if (plan_read(plan, a, &u.plan, err) < 0)
		return err_in(err, "metadata/annotations/poolgate.io~1plan");
	if (pod_read(j, pod, a, &u.pod, err) < 0)
		return err->code;
	patch_begin(&u.patch, patch);
	for (size_t i = 0; i < u.plan.n_containers; i++)
		if (undo_container(&u, &u.plan.containers[i]) < 0)
			return err->code;
	if (remove_elements(&u, "/spec/volumes", u.pod.volumes, "name", u.plan.volumes,
		    u.plan.n_volumes, u.plan.made_volumes) < 0 ||
		remove_elements(&u, "/spec/initContainers",
			json_get(j, u.pod.spec, SLICE("initContainers")), "name", u.plan.inits,
			u.plan.n_inits, u.plan.made_inits) < 0 ||
		undo_pull_secret(&u) < 0 || undo_gate(&u) < 0 ||
		ties_give_back(&u.pod, &u.plan.ties, a, &u.patch, err) < 0)
		return err->code;
	undo_marks(&u);
	patch_end(&u.patch);
	if (patch->full)
		return err_set(
			err, ERR_TOOBIG, "the patch does not fit into %zu bytes", patch->max);
	if (patch->failed || a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	ret->patched = true;
	ret->plan = u.plan;
	return 0;
}

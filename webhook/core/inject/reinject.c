/* SPDX-License-Identifier: Apache-2.0 */
/* core: an update that brings the user's own manifest back over an injected pod: restore what was
 * injected from the live pod, value for value, since the API server lets no update change it. */
#include "base/quantity.h"
#include "base/text.h"
#include "webhook/core/inject/inject.h"
#include "webhook/core/inject/mutate.h"
#include "webhook/core/inject/ties.h"
#include "webhook/core/launcher/config.h"
#include "webhook/core/pod/foreign.h"
#include "webhook/core/pod/late.h"

/* One restoration: the new object, the live one, and the plan that the live one carries. */
struct restoring {
	const struct config *config;
	struct pod now;
	struct pod live;
	struct plan plan;
	struct patch patch;
	struct arena *a;
	struct err *err;
};

static int out_of_memory(struct restoring *r)
{
	return err_set(r->err, ERR_NOMEM, "out of memory");
}

/* The request must be what the plan says: a pod's GPUs cannot be changed while it lives. */
static int check_same(struct restoring *r, const struct pod_container *c,
	const struct plan_container *pc, struct gpu_request *req, struct warnings *w)
{
	struct foreign_terms terms = foreign_terms_again(pc, r->plan.total_mb);

	if (foreign_read(r->now.j, c->node, &terms, r->a, w, req, r->err) < 0)
		return err_in(r->err, "%s", c->path + 1);
	/* one that holds the units and asks for nothing is as in the live pod */
	if (req->asks ? inject_asks_same(req, pc) : req->units_at.limit || req->units_at.request)
		return 0;
	err_reason(r->err, ERR_REFUSED, "RequestChanged",
		"asks for other GPUs than the pod was admitted with (%u GPUs with %llu %s each), "
		"or "
		"for none; "
		"that cannot be changed while "
		"it lives: delete the pod and create it again",
		pc->amount, pc->percent ? pc->percent : (unsigned long long)pc->memory_mb,
		pc->percent ? "percent" : "MB");
	err_in(r->err, "resources");
	return err_in(r->err, "%s", c->path + 1);
}

/* A key of others as in the live pod: none, or the zero that a LimitRange gave. */
static void restore_foreign(
	struct restoring *r, const char *path, const struct json_node *live_side, struct slice key)
{
	const struct json_node *had = json_get(r->live.j, live_side, key);

	if (had)
		patch_add(&r->patch, path, key, json_raw(r->live.j, had));
	else
		patch_remove(&r->patch, path, key);
}

static int restore_side(struct restoring *r, const struct pod_container *c,
	const struct pod_container *live, const struct gpu_request *req, bool limits)
{
	const char *side = limits ? "limits" : "requests";
	const char *path =
		pod_path(r->a, c->path, limits ? "/resources/limits" : "/resources/requests");
	const struct json_node *was =
		json_path(r->live.j, live->node, "resources", side, RES_UNITS, NULL);
	const struct json_node *here = json_path(r->now.j, c->node, "resources", side, NULL);
	const struct json_node *units = json_get(r->now.j, here, SLICE(RES_UNITS));
	const struct {
		const char *name;
		const struct gpu_resource *at;
	} asked[] = {{RES_AMOUNT, &req->amount_at}, {RES_NUM, &req->num_at},
		{RES_PERCENT, &req->percent_at}, {RES_MEMORY, &req->memory_at}};

	if (!path)
		return out_of_memory(r);
	for (size_t i = 0; i < 4; i++)
		if (limits ? asked[i].at->limit : asked[i].at->request)
			patch_remove(&r->patch, path, slice_of(asked[i].name));
	for (size_t k = 0; k < FOREIGN_KEYS; k++)
		if (limits ? req->foreign_at[k].limit : req->foreign_at[k].request)
			restore_foreign(r, path,
				json_path(r->live.j, live->node, "resources", side, NULL),
				slice_of(foreign_key_name((enum foreign_key)k)));
	if (!was && units)
		patch_remove(&r->patch, path, SLICE(RES_UNITS));
	if (!was || (units && slice_eq(json_raw(r->now.j, units), json_raw(r->live.j, was))))
		return 0;
	if (!json_is(here, JSON_OBJECT))
		patch_add(&r->patch, path, (struct slice){0}, SLICE("{}"));
	patch_add(&r->patch, path, SLICE(RES_UNITS), json_raw(r->live.j, was));
	return 0;
}

/* The words that a container is started with: command, then args. */
struct words {
	const struct json *j;
	const struct json_node *command, *args;
	size_t n;
	struct slice *raw;
};

static bool read_words(
	const struct json *j, const struct json_node *container, struct arena *a, struct words *ret)
{
	const struct json_node *parts[] = {
		json_get(j, container, SLICE("command")), json_get(j, container, SLICE("args"))};
	size_t n = 0;

	*ret = (struct words){.j = j, .command = parts[0], .args = parts[1]};
	for (size_t i = 0; i < 2; i++)
		n += json_is(parts[i], JSON_ARRAY) ? parts[i]->count : 0;
	ret->raw = arena_array(a, n + 1, sizeof(*ret->raw));
	for (size_t i = 0; ret->raw && i < 2; i++) {
		if (!json_is(parts[i], JSON_ARRAY))
			continue;
		JSON_EACH(j, parts[i], word)
		{
			ret->raw[ret->n++] = json_raw(j, word);
		}
	}
	return ret->raw != NULL;
}

/* Which of the live pod's words is the launcher; n when none is, or nobody can tell. */
static size_t find_launcher(const struct restoring *r, const struct words *was)
{
	const struct profile *p = r->config ? config_profile(r->config, r->plan.profile) : NULL;
	const struct json_node *parts[] = {was->command, was->args};
	size_t at = 0;

	for (size_t i = 0; p && p->kind == PROFILE_WRAP && i < 2; i++) {
		if (!json_is(parts[i], JSON_ARRAY))
			continue;
		JSON_EACH(was->j, parts[i], word)
		{
			if (slice_eq(text_basename(json_str(was->j, word, r->a)), p->basename))
				return at;
			at++;
		}
	}
	return was->n;
}

/* Are the words from `at` on, up to `end`, those of the new object from `from` on? */
static bool same_words(const struct words *was, size_t at, size_t end, const struct words *here,
	size_t from, size_t n)
{
	if (at > end || end - at != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!slice_eq(was->raw[at + i], here->raw[from + i]))
			return false;
	return true;
}

static bool same_node(const struct json *j, const struct json_node *v, const struct json *other,
	const struct json_node *w)
{
	return v && w && slice_eq(json_raw(j, v), json_raw(other, w));
}

/* Another hook has put words in front of ours, in the command, or has made all of it arguments of
 * its own program. When the new command is what stands behind our words, both come back as they are
 * in the live pod. */
static void restore_wrapped(struct restoring *r, const struct pod_container *c,
	const struct words *was, const struct words *here, size_t front)
{
	size_t users = find_launcher(r, was) + front, own = was->command->count;
	size_t n = here->command->count;
	bool args;

	if (users >= was->n)
		return;
	if (users <= own) {
		if (same_words(was, users, own, here, 0, n))
			patch_add(&r->patch, c->path, SLICE("command"),
				json_raw(was->j, was->command));
		return;
	}
	args = same_node(was->j, was->args, here->j, here->args);
	if (users - front < own || was->n - users < n ||
		!same_words(was, users, users + n, here, 0, n) ||
		!(args || same_words(was, users + n, was->n, here, n, here->n - n)))
		return;
	patch_add(&r->patch, c->path, SLICE("command"), json_raw(was->j, was->command));
	if (!args)
		patch_add(&r->patch, c->path, SLICE("args"), json_raw(was->j, was->args));
}

/* The user's manifest has no command, and the live one's came from the image. Where another hook
 * has made arguments of it, the new object's stand behind them. */
static void restore_image(struct restoring *r, const struct pod_container *c,
	const struct words *was, const struct words *here)
{
	size_t own = was->command->count, n = here->n;
	bool args = (json_absent(was->args) && json_absent(here->args)) ||
		    same_node(was->j, was->args, here->j, here->args);

	if (!args && (was->n - own < n || !same_words(was, was->n - n, was->n, here, 0, n)))
		return;
	patch_add(&r->patch, c->path, SLICE("command"), json_raw(was->j, was->command));
	if (!args && was->args)
		patch_add(&r->patch, c->path, SLICE("args"), json_raw(was->j, was->args));
	else if (!args)
		patch_remove(&r->patch, c->path, SLICE("args"));
}

/* Put the live pod's own first words in front again, if that makes the command what it is in the
 * live pod. */
static int restore_command(struct restoring *r, const struct pod_container *c,
	const struct pod_container *live, const struct plan_container *pc)
{
	size_t front = pc->argv + (pc->command == COMMAND_SHELL ? 2U : 0U);
	const char *path = pod_path(r->a, c->path, "/command");
	struct words was, here;

	if (pc->command != COMMAND_WRAPPED && pc->command != COMMAND_SHELL)
		return 0;
	if (!path || !read_words(r->live.j, live->node, r->a, &was) ||
		!read_words(r->now.j, c->node, r->a, &here))
		return out_of_memory(r);
	if (pc->image.at && json_is(was.command, JSON_ARRAY) && json_absent(here.command)) {
		restore_image(r, c, &was, &here);
		return 0;
	}
	if (!json_is(was.command, JSON_ARRAY) || !json_is(here.command, JSON_ARRAY) ||
		same_node(was.j, was.command, here.j, here.command))
		return 0;
	if (was.command->count != here.command->count + front) {
		restore_wrapped(r, c, &was, &here, front);
		return 0;
	}
	for (size_t i = 0; i < front; i++)
		patch_add_at(&r->patch, path, i, was.raw[i]);
	return 0;
}

/* Restore elements of an array that are told apart by `key`: those in `names` that the new object
 * lacks. */
static int restore_elements(struct restoring *r, const char *path, const struct json_node *here,
	const struct json_node *was, const char *key, const struct slice *names, size_t n)
{
	size_t count = json_is(here, JSON_ARRAY) ? here->count : 0;
	bool made = json_is(here, JSON_ARRAY);
	struct json_hit *old = arena_array(r->a, n, sizeof(*old));
	struct json_hit *now = arena_array(r->a, n, sizeof(*now));

	if (!old || !now || json_find_each(r->live.j, was, key, names, n, true, r->a, old) != 0 ||
		json_find_each(r->now.j, here, key, names, n, false, r->a, now) != 0)
		return out_of_memory(r);
	for (size_t i = 0; i < n; i++) {
		size_t index = old[i].index < count ? old[i].index : count;

		if (!old[i].node || now[i].node)
			continue;
		if (!made)
			patch_add(&r->patch, path, (struct slice){0}, SLICE("[]"));
		made = true;
		patch_add_at(&r->patch, path, index, json_raw(r->live.j, old[i].node));
		count++;
	}
	return 0;
}

/* One variable that the plan knows: back to what it is in the live pod, unless the user changed it:
 * then the API server shall say so. */
static void restore_var(struct restoring *r, const char *path, const struct plan_env *pe,
	const struct json_hit *old, const struct json_hit *var)
{
	struct slice value = json_inside(r->now.j, json_get(r->now.j, var->node, SLICE("value")));
	bool users = pe->had && slice_eq(value, pe->was);

	if (!old->node || !var->node ||
		slice_eq(json_raw(r->live.j, old->node), json_raw(r->now.j, var->node)))
		return;
	if (users || pe->moved.at) {
		patch_open_at(&r->patch, "replace", path, var->index, (struct slice){0});
		buf_slice(r->patch.out, json_raw(r->live.j, old->node));
		patch_close(&r->patch);
	}
}

static int restore_env(struct restoring *r, const struct pod_container *c,
	const struct pod_container *live, const struct plan_container *pc)
{
	const struct json_node *was = json_get(r->live.j, live->node, SLICE("env"));
	const struct json_node *here = json_get(r->now.j, c->node, SLICE("env"));
	const char *path = pod_path(r->a, c->path, "/env");
	struct slice *names = arena_array(r->a, pc->n_env * 2, sizeof(*names));
	struct json_hit *old = arena_array(r->a, pc->n_env, sizeof(*old));
	struct json_hit *now = arena_array(r->a, pc->n_env, sizeof(*now));
	size_t n = 0;

	if (!path || !names || !old || !now)
		return out_of_memory(r);
	for (size_t i = 0; i < pc->n_env; i++)
		names[i] = pc->env[i].name;
	if (json_find_each(r->live.j, was, "name", names, pc->n_env, true, r->a, old) != 0 ||
		json_find_each(r->now.j, here, "name", names, pc->n_env, true, r->a, now) != 0)
		return out_of_memory(r);
	for (size_t i = 0; i < pc->n_env; i++)
		restore_var(r, path, &pc->env[i], &old[i], &now[i]);
	for (size_t i = 0; i < pc->n_env; i++) {
		if (pc->env[i].moved.at)
			names[n++] = pc->env[i].moved;
		names[n++] = pc->env[i].name;
	}
	return restore_elements(r, path, here, was, "name", names, n);
}

static int restore_container(struct restoring *r, const struct pod_container *c,
	const struct plan_container *pc, struct warnings *w)
{
	const struct pod_container *live = pod_container(&r->live, pc->name);
	const char *mounts = pod_path(r->a, c->path, "/volumeMounts");
	struct gpu_request req;

	if (!live)
		return 0;
	if (!mounts)
		return out_of_memory(r);
	if (check_same(r, c, pc, &req, w) < 0 || restore_side(r, c, live, &req, true) < 0 ||
		restore_side(r, c, live, &req, false) < 0 || restore_command(r, c, live, pc) < 0 ||
		restore_env(r, c, live, pc) < 0)
		return r->err->code;
	return restore_elements(r, mounts, json_get(r->now.j, c->node, SLICE("volumeMounts")),
		json_get(r->live.j, live->node, SLICE("volumeMounts")), "mountPath", pc->mounts,
		pc->n_mounts);
}

static void restore_mark(struct restoring *r, const char *map, const struct json_node *here,
	const struct json_node *was, const char *key)
{
	const struct json_node *old = json_get(r->live.j, was, slice_of(key));
	const struct json_node *now = json_get(r->now.j, here, slice_of(key));

	if (old && !(now && slice_eq(json_raw(r->now.j, now), json_raw(r->live.j, old))))
		patch_add(&r->patch, map, slice_of(key), json_raw(r->live.j, old));
}

/* Our other annotations, and the gate where it still stands before the live pod. */
static int restore_late(struct restoring *r)
{
	struct slice gate = SLICE(LATE_GATE);

	JSON_MEMBERS(r->live.j, r->live.annotations, k)
	{
		const char *key = arena_strdup(r->a, json_str(r->live.j, k, r->a));

		if (!key)
			return out_of_memory(r);
		if (late_is_leaders(slice_of(key)))
			restore_mark(r, "/metadata/annotations", r->now.annotations,
				r->live.annotations, key);
	}
	return restore_elements(r, "/spec/schedulingGates", late_gates(r->now.j, r->now.root),
		late_gates(r->live.j, r->live.root), "name", &gate, 1);
}

static int restore_pod(struct restoring *r)
{
	const struct json_node *was = json_get(r->live.j, r->live.spec, SLICE("initContainers"));
	const struct json_node *here = json_get(r->now.j, r->now.spec, SLICE("initContainers"));

	if (restore_elements(r, "/spec/volumes", r->now.volumes, r->live.volumes, "name",
		    r->plan.volumes, r->plan.n_volumes) < 0 ||
		restore_elements(r, "/spec/initContainers", here, was, "name", r->plan.inits,
			r->plan.n_inits) < 0 ||
		restore_elements(r, "/spec/imagePullSecrets", pod_pull_secrets(&r->now),
			pod_pull_secrets(&r->live), "name", &r->plan.pull_secret,
			r->plan.pull_secret.at ? 1 : 0) < 0)
		return r->err->code;
	if (!r->now.labels && r->live.labels)
		patch_add(&r->patch, "/metadata/labels", (struct slice){0}, SLICE("{}"));
	restore_mark(r, "/metadata/labels", r->now.labels, r->live.labels, LABEL_INJECTED);
	if (!r->now.annotations)
		patch_add(&r->patch, "/metadata/annotations", (struct slice){0}, SLICE("{}"));
	restore_mark(
		r, "/metadata/annotations", r->now.annotations, r->live.annotations, ANN_STATUS);
	restore_mark(r, "/metadata/annotations", r->now.annotations, r->live.annotations, ANN_PLAN);
	restore_mark(
		r, "/metadata/annotations", r->now.annotations, r->live.annotations, ANN_GATE_CA);
	restore_mark(r, "/metadata/annotations", r->now.annotations, r->live.annotations,
		ANN_GATE_SERVERS);
	return plan_is_gated(&r->plan) ? restore_late(r) : 0;
}

static int untouched(struct mutation *ret, const char *why)
{
	ret->why_not = why;
	return 0;
}

int mutate_update(const struct config *config, const struct json *j, const struct json_node *pod,
	const struct json_node *old, struct slice namespace, struct arena *a, struct buf *patch,
	struct mutation *ret, struct err *err)
{
	struct restoring r = {.config = config, .a = a, .err = err};
	struct slice plan;

	*ret = (struct mutation){0};
	pod_glance(j, pod, &r.now);
	pod_glance(j, old, &r.live);
	plan = pod_annotation(&r.live, ANN_PLAN, a);
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (!plan.at || pod_is_exempt(&r.live, namespace))
		return untouched(ret, "not injected before");
	if (plan_read(plan, a, &r.plan, err) < 0 || pod_read(j, old, a, &r.live, err) < 0)
		return err->code == ERR_NOMEM ? err->code : untouched(ret, "unreadable plan");
	if (pod_read(j, pod, a, &r.now, err) < 0)
		return err->code;
	if (!foreign_any_asks(&r.now, &r.plan, 0))
		return untouched(ret, "no container asks");
	patch_begin(&r.patch, patch);
	for (size_t i = 0; i < r.plan.n_containers; i++) {
		const struct pod_container *c = pod_container(&r.now, r.plan.containers[i].name);

		if (c && restore_container(&r, c, &r.plan.containers[i], &ret->warnings) < 0)
			return err->code;
	}
	if (restore_pod(&r) < 0 ||
		ties_take_again(&r.now, &r.live, &r.plan.ties, a, &r.patch, err) < 0)
		return err->code;
	patch_end(&r.patch);
	if (patch->full)
		return err_set(
			err, ERR_TOOBIG, "the patch does not fit into %zu bytes", patch->max);
	if (patch->failed || a->failed)
		return out_of_memory(&r);
	ret->patched = r.patch.n > 0;
	ret->plan = r.plan;
	ret->plan_hash = text_hash64(plan);
	ret->why_not = ret->patched ? NULL : "nothing to restore";
	err_clear(err);
	return 0;
}

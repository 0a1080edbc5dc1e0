/* SPDX-License-Identifier: Apache-2.0 */
/* core: warn about workloads whose pods would be refused. */
#include "webhook/core/validate/workload.h"

#include "webhook/core/pod/keys.h"
#include "webhook/core/pod/pod_policy.h"
#include "webhook/core/pool/placement.h"
#include "webhook/core/pool/queue.h"

/* Copies that are counted at the most: each costs a look at the whole pool, and the user learns
 * nothing more. */
#define COPIES_MAX 100

static int64_t count_of(const struct json *j, const struct json_node *spec, const char *key)
{
	int64_t n;

	return json_int(j, json_get(j, spec, slice_of(key)), &n) && n >= 0 ? n : 1;
}

bool workload_read(const struct json *j, const struct json_node *object, struct slice kind,
	struct workload *ret)
{
	static const struct {
		const char *kind, *count;
	} kinds[] = {{"Deployment", "replicas"}, {"StatefulSet", "replicas"},
		{"ReplicaSet", "replicas"}, {"ReplicationController", "replicas"},
		{"DaemonSet", NULL}, {"Job", "parallelism"}};
	const struct json_node *spec = json_get(j, object, SLICE("spec"));
	const char *count = NULL;
	bool known = slice_is(kind, "CronJob");
	struct pod whole;

	if (known) {
		spec = json_path(j, spec, "jobTemplate", "spec", NULL);
		count = "parallelism";
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (slice_is(kind, kinds[i].kind)) {
			known = true;
			count = kinds[i].count;
		}
	if (slice_is(kind, "PodTemplate")) {
		known = true;
		spec = object;
	}
	ret->template = json_get(j, spec, SLICE("template"));
	ret->replicas = count ? count_of(j, spec, count) : 1;
	ret->there = 0;
	ret->deadline = slice_is(kind, "Deployment")                 ? "progressDeadlineSeconds"
			: count && strcmp(count, "parallelism") == 0 ? "activeDeadlineSeconds"
								     : NULL;
	if (ret->deadline && !json_get(j, spec, slice_of(ret->deadline)))
		ret->deadline = NULL;
	ret->job = slice_is(kind, "Job") || slice_is(kind, "CronJob");
	ret->ordered =
		slice_is(kind, "StatefulSet") &&
		!json_is_str(j, json_get(j, spec, SLICE("podManagementPolicy")), SLICE("Parallel"));
	pod_glance(j, object, &whole);
	ret->switched = json_get(j, whole.annotations, SLICE(ANN_SWITCH)) != NULL;
	return known && json_is(ret->template, JSON_OBJECT);
}

void workload_was(
	const struct json *j, const struct json_node *old, struct slice kind, struct workload *w)
{
	struct workload was;

	if (workload_read(j, old, kind, &was) &&
		slice_eq(json_raw(j, was.template), json_raw(j, w->template)))
		w->there = was.replicas < w->replicas ? was.replicas : w->replicas;
}

/* The whole refusal in as many warnings as it takes, since what to do stands at its end. */
static void warn_why(struct warnings *w, struct arena *a, const char *fate, const char *what,
	const char *where, const char *msg)
{
	warn_add_long(
		w, a, slice_of(arena_fmt(a, "its pods would %s%s%s: %s", fate, what, where, msg)));
}

static void warn_refusal(
	struct warnings *w, struct arena *a, const char *what, const char *where, const char *msg)
{
	warn_why(w, a, "be refused", what, where, msg);
}

/* Who applies it sees none of the others: how many they are, and by what turns go. */
static void warn_others(const struct mutate_world *world, struct slice namespace, struct arena *a,
	struct warnings *warnings)
{
	const struct waiters *w = world->waiters;
	struct waiters_count n;

	if (!w || !w->count(w->ctx, namespace, &n) || n.all == 0)
		return;
	warn_add(warnings, a,
		"%s%zu pod%s for GPUs already, %zu of this namespace: turns go by priority, by "
		"what "
		"each namespace holds, and by age",
		n.more ? "more than " : "", n.all, n.all == 1 ? " waits" : "s wait", n.here);
}

/* Members that are never there together wait for one another (W11). */
static void warn_gang(
	const struct workload *w, struct plan *plan, struct arena *a, struct warnings *warnings)
{
	if (plan->gang.at && plan->gang_size == 0 && !w->job)
		warn_add(warnings, a,
			"its pods would be refused: no Job makes them, that could say how many its "
			"gang has");
	if (plan->gang.at && plan->gang_size == 0)
		plan->gang_size =
			w->replicas < GANG_SIZE_MAX ? (uint32_t)w->replicas : GANG_SIZE_MAX;
	if (plan->gang.at && w->ordered && w->replicas > 1 && plan->gang_size > 1)
		warn_add(warnings, a,
			"its gang never starts: a StatefulSet makes its pods one by one; set "
			"podManagementPolicy: Parallel");
	else if (plan->gang.at && w->replicas < plan->gang_size)
		warn_add(warnings, a,
			"it makes %lld of the %u pods of its gang; they wait until somebody makes "
			"the others",
			(long long)w->replicas, (unsigned)plan->gang_size);
}

/* Those for which there is no room now wait, unless there never will be. */
static int warn_waiting(const struct mutate_world *world, struct slice namespace,
	const struct workload *w, const struct pool_view *view, const struct plan *plan,
	const struct demand *d, size_t fit, bool maybe_more, struct arena *a,
	struct warnings *warnings, struct err *err)
{
	struct placement where;
	bool never = false;

	if (fit > 0 && fit < plan->gang_size)
		warn_add(warnings, a,
			"%s%zu of the %u pods of its gang would find free GPUs now; they start "
			"together when all do",
			maybe_more ? "at least " : "", fit, (unsigned)plan->gang_size);
	else if (fit > 0)
		warn_add(warnings, a,
			"%s%zu of %lld %spods would find free GPUs now; the others wait for their "
			"turn",
			maybe_more ? "at least " : "", fit, (long long)(w->replicas - w->there),
			w->there ? "more " : "");
	else if ((never = (queue_could_ever(&view->inventory, d, a, err) < 0)))
		warn_refusal(warnings, a, ": ", err->reason, err->msg);
	else if (placement_find(&view->inventory, &view->usage, d, a, &where, err) < 0)
		warn_why(warnings, a, "wait for their turn", " now: ", err->reason, err->msg);
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	err_clear(err);
	if (!never)
		warn_others(world, namespace, a, warnings);
	if (w->deadline)
		warn_add(warnings, a, "%s runs while its pods wait for GPUs", w->deadline);
	return 0;
}

static int warn_room(const struct mutate_world *world, struct slice namespace,
	const struct workload *w, const struct plan *plan, struct arena *a,
	struct warnings *warnings, struct err *err)
{
	const struct profile *p = config_profile(world->config, plan->profile);
	int64_t more = w->replicas - w->there;
	size_t want = more > COPIES_MAX ? COPIES_MAX : (size_t)more, fit;
	struct pool_view view;
	struct placement where;
	struct demand d;
	bool maybe_more;

	if (!world->ledger || want == 0)
		return 0;
	if (world->ledger->ops->view(world->ledger, false, a, &view, err) < 0 ||
		plan_demand(plan, p && p->whole_servers, a, &d, err) < 0)
		return err->code;
	/* Each pod is given servers of its own: those in the plan are the first pod's. */
	if (d.n_servers > 0 && p) {
		d.one_server = p->one_server;
		d.no_ipv4 = p->no_ipv4;
		d.no_ipv6 = p->no_ipv6;
	}
	d.n_servers = 0;
	fit = placement_copies(&view.inventory, &view.usage, &d, want, a, &maybe_more);
	if (fit >= want)
		return 0;
	if (plan->waits)
		return warn_waiting(
			world, namespace, w, &view, plan, &d, fit, maybe_more, a, warnings, err);
	if (fit > 0 && maybe_more)
		warn_add(warnings, a,
			"at least %zu of %lld %spods would be admitted now; the search was ended "
			"there, since its budget was used up",
			fit, (long long)more, w->there ? "more " : "");
	else if (fit > 0 || placement_find(&view.inventory, &view.usage, &d, a, &where, err) == 0)
		warn_add(warnings, a,
			"%zu of %lld %spods would be admitted now; the others have to wait for "
			"free GPUs",
			fit, (long long)more, w->there ? "more " : "");
	else
		warn_refusal(warnings, a, " now: ", err->reason, err->msg);
	err_clear(err);
	return 0;
}

/* Its pods would not be touched. */
static int warn_off(const struct json *j, const struct workload *w, struct pod *pod,
	struct slice namespace, struct arena *a, struct warnings *warnings, struct err *err)
{
	if (w->switched)
		warn_add(warnings, a,
			ANN_SWITCH " stands on the workload itself; its pods take annotations "
				   "from the template's metadata");
	if (!pod_is_exempt(pod, namespace) && pod_read(j, w->template, a, pod, err) == 0)
		keys_warn(pod, true, a, warnings);
	err_clear(err);
	return a->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

int workload_warn(const struct mutate_world *world, const struct json *j, const struct workload *w,
	struct slice namespace, struct arena *a, struct warnings *warnings, struct err *err)
{
	struct mutate_world theirs = *world;
	struct mutation m;
	struct pod pod;
	struct buf patch;
	int rc;

	theirs.owned = true;
	pod_glance(j, w->template, &pod);
	buf_init(&patch, 1024 * 1024);
	rc = mutate_create(&theirs, j, w->template, namespace, a, &patch, &m, err);
	buf_release(&patch);
	if (rc == ERR_NOMEM)
		return rc;
	if (rc < 0) {
		warn_refusal(warnings, a, ": ", err->path[0] ? err->path : err->reason, err->msg);
		err_clear(err);
		return 0;
	}
	if (!m.patched && pod_switch_of(&pod, a) == SWITCH_OFF)
		return warn_off(j, w, &pod, namespace, a, warnings, err);
	for (size_t i = 0; i < m.warnings.n; i++)
		warn_add(warnings, a, "%.*s", (int)m.warnings.text[i].len, m.warnings.text[i].at);
	if (!m.patched)
		return 0;
	if (m.policy && m.policy->share < 100 && pod_policy_decides(&pod, a))
		warn_add(warnings, a,
			"the policy \"%s\" injects %u of 100 groups of pods: its pods may be among "
			"the others",
			m.policy->name, (unsigned)m.policy->share);
	warn_gang(w, &m.plan, a, warnings);
	return warn_room(world, namespace, w, &m.plan, a, warnings, err);
}

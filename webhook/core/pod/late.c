/* SPDX-License-Identifier: Apache-2.0 */
/* core: variables, annotations and the gate of a place that comes late. */
#include "webhook/core/pod/late.h"

#include "webhook/core/review/patch.h"

#define GATES_PATH "/spec/schedulingGates"

/* Behind "poolgate.io/place-N." */
static const char *const annotations[LATE_VALUES] = {
	[LATE_SERVERS] = "servers",
	[LATE_SERVER_HOST] = "server-host",
	[LATE_GPUS] = "gpus",
	[LATE_GPU_INDEXES] = "gpu-indexes",
};

const char *late_field(enum late_value v, uint32_t slot, struct arena *a)
{
	return arena_fmt(a, "metadata.annotations['" ANN_PLACE "-%u.%s']", slot, annotations[v]);
}

bool late_reads(const struct json *j, const struct json_node *var, enum late_value v, uint32_t slot,
	struct arena *a)
{
	const char *field = late_field(v, slot, a);

	return field &&
	       json_is_str(j, json_path(j, var, "valueFrom", "fieldRef", "fieldPath", NULL),
		       slice_of(field));
}

bool late_is_leaders(struct slice key)
{
	const size_t n = sizeof(ANN_PLACE) - 1;

	if (slice_is(key, ANN_QUEUED_SINCE))
		return true;
	return slice_starts(key, SLICE(ANN_PLACE)) && (key.len == n || key.at[n] == '-');
}

const struct json_node *late_gates(const struct json *j, const struct json_node *object)
{
	const struct json_node *gates = json_path(j, object, "spec", "schedulingGates", NULL);

	return json_is(gates, JSON_ARRAY) ? gates : NULL;
}

bool late_is_held(const struct json *j, const struct json_node *object)
{
	return json_find(j, late_gates(j, object), "name", SLICE(LATE_GATE), false, NULL) != NULL;
}

/* ---- reviews ---- */

static bool brings_leaders(const struct pod *p, struct arena *a)
{
	JSON_MEMBERS(p->j, p->annotations, k)
	{
		struct slice key = json_str(p->j, k, a);

		if (key.at && late_is_leaders(key))
			return true;
	}
	return false;
}

int late_check_node(const struct pod *p, struct err *err)
{
	if (!json_get(p->j, p->spec, SLICE("nodeName")))
		return 0;
	err_set(err, ERR_INVALID,
		"a pod whose GPUs are chosen after it was created waits behind a scheduling gate, "
		"and "
		"the API server takes no gate with a node that is chosen already; use "
		"spec.nodeSelector, such as kubernetes.io/hostname, instead");
	return err_in(err, "spec/nodeName");
}

int late_check_create(
	const struct pod *p, const struct plan *plan, struct arena *a, struct err *err)
{
	bool held = late_is_held(p->j, p->root);

	if (brings_leaders(p, a)) {
		err_reason(err, ERR_REFUSED, "PlanMismatch",
			"annotations " ANN_PLACE "… and " ANN_QUEUED_SINCE
			" are written by poolgate while the pod waits, and were there before; "
			"create the pod from its own manifest");
		return err_in(err, "metadata/annotations");
	}
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (plan->late.values && late_check_node(p, err) < 0)
		return err->code;
	if (plan->waits && json_get(p->j, p->spec, SLICE("nodeName")))
		return late_check_node(p, err);
	if (held == plan_is_gated(plan))
		return 0;
	err_reason(err, ERR_REFUSED, "PlanMismatch",
		held ? "the plan knows of no scheduling gate " LATE_GATE
		       ", which nobody would take away"
		     : "the scheduling gate " LATE_GATE
		       " is missing: the pod would start before its GPUs are chosen; create it "
		       "from its own manifest");
	return err_in(err, "spec/schedulingGates");
}

int late_check_plain(const struct pod *p, struct err *err)
{
	if (!late_is_held(p->j, p->root))
		return 0;
	err_set(err, ERR_INVALID,
		"the scheduling gate " LATE_GATE
		" is put before pods by poolgate, which takes it from none that brings it along; "
		"leave it out");
	return err_in(err, "spec/schedulingGates");
}

int late_check_update(const struct json *j, const struct json_node *now,
	const struct json_node *was, struct err *err)
{
	if (!late_is_held(j, was) || late_is_held(j, now))
		return 0;
	err_reason(err, ERR_REFUSED, "PlanChanged",
		"the scheduling gate " LATE_GATE
		" is taken away by poolgate alone, when it has written down which GPUs the pod "
		"has");
	return err_in(err, "spec/schedulingGates");
}

/* ---- the leader ---- */

static void write_value(struct patch *patch, const char *key, struct slice value, struct arena *a)
{
	if (!key)
		a->failed = true;
	else
		patch_add_str(patch, "/metadata/annotations", slice_of(key), value);
}

/* For the pod with this uid, while the gate with that number is ours. */
static void write_patch(struct slice uid, size_t gate, const struct plan *plan,
	const struct gpu_place *place, struct arena *a, struct buf *out)
{
	struct patch patch;

	patch_begin(&patch, out);
	patch_open(&patch, "test", "/metadata/uid", (struct slice){0});
	buf_json_str(out, uid);
	patch_close(&patch);
	patch_open_at(&patch, "test", GATES_PATH, gate, SLICE("name"));
	buf_json_str(out, SLICE(LATE_GATE));
	patch_close(&patch);
	if (place)
		write_value(&patch, ANN_PLACE, place->all, a);
	if (place && place->gates.at)
		write_value(&patch, ANN_GATE_SERVERS, place->gates, a);
	for (size_t i = 0; place && i < plan->n_containers; i++)
		for (size_t v = 0; v < LATE_VALUES; v++)
			if (plan->late.values & 1u << v)
				write_value(&patch,
					arena_fmt(a, ANN_PLACE "-%u.%s", plan->containers[i].slot,
						annotations[v]),
					place->containers[i].value[v], a);
	patch_remove_at(&patch, GATES_PATH, gate, (struct slice){0});
	patch_end(&patch);
}

bool late_patch(const struct json *j, const struct json_node *object, const struct plan *plan,
	const struct gpu_place *place, struct arena *a, struct buf *out)
{
	struct slice uid = json_str(j, json_path(j, object, "metadata", "uid", NULL), a);
	size_t gate;

	if (!uid.at || !json_find(j, late_gates(j, object), "name", SLICE(LATE_GATE), false, &gate))
		return false;
	write_patch(uid, gate, plan, place, a, out);
	return true;
}

void late_patch_last(struct slice uid, const struct plan *plan, const struct gpu_place *place,
	struct arena *a, struct buf *out)
{
	write_patch(uid, 0, plan, place, a, out);
}

int late_servers(
	const struct pod *p, struct arena *a, struct slice **ret, size_t *ret_n, struct err *err)
{
	struct slice text = pod_annotation(p, ANN_PLACE, a);
	struct slice *list = arena_array(a, text.len / 2 + 1, sizeof(*list));
	size_t n = 0;

	if (!list || a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	while (text.len > 0) {
		const char *comma = memchr(text.at, ',', text.len), *slash;
		struct slice one = {text.at, comma ? (size_t)(comma - text.at) : text.len};

		slash = memchr(one.at, '/', one.len);
		if (!slash || slash == one.at)
			return err_set(err, ERR_INVALID,
				"its annotation " ANN_PLACE " is none that poolgate writes");
		text = (struct slice){
			one.at + one.len + (comma != NULL), text.len - one.len - (comma != NULL)};
		one.len = (size_t)(slash - one.at);
		if (n == 0 || !slice_eq(list[n - 1], one))
			list[n++] = one;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

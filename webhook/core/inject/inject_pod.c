/* SPDX-License-Identifier: Apache-2.0 */
/* core: inject into the pod around the containers: volumes, init containers, label and annotations.
 */
#include "base/quantity.h"
#include "base/text.h"
#include "webhook/core/inject/inject.h"
#include "webhook/core/pod/gate_end.h"
#include "webhook/core/pod/late.h"

/* A plan of one container or two takes one allocation. */
#define PLAN_BYTES_USUAL 1024

static bool listed(const struct slice *list, size_t n, struct slice name)
{
	for (size_t i = 0; i < n; i++)
		if (slice_eq(list[i], name))
			return true;
	return false;
}

static int inject_volumes(struct injection *in, struct err *err)
{
	size_t n = in->profile->n_volumes;
	struct json_hit *hits = arena_array(in->a, n, sizeof(*hits));

	in->plan->volumes = arena_array(in->a, n, sizeof(*in->plan->volumes));
	for (size_t i = 0; in->plan->volumes && i < n; i++)
		in->plan->volumes[i] = in->profile->volumes[i].name;
	if (!in->plan->volumes || !hits ||
		json_find_each(in->pod->j, in->pod->volumes, "name", in->plan->volumes, n, false,
			in->a, hits) != 0)
		return err_set(err, ERR_NOMEM, "out of memory");
	in->plan->n_volumes = n;
	in->plan->made_volumes = in->before && in->before->made_volumes;
	if (n > 0 && !in->pod->volumes) {
		in->plan->made_volumes = true;
		patch_add(in->patch, "/spec/volumes", (struct slice){0}, SLICE("[]"));
	}
	for (size_t i = 0; i < n; i++) {
		struct slice name = in->profile->volumes[i].name;

		if (!hits[i].node) {
			patch_add(in->patch, "/spec/volumes", SLICE("-"),
				in->profile->volumes[i].json);
			continue;
		}
		if (in->before && listed(in->before->volumes, in->before->n_volumes, name))
			continue;
		err_reason(err, ERR_REFUSED, "VolumeCollision",
			"the pod has a volume named \"%.*s\", which is the name of one that the "
			"launcher \"%.*s\" needs; rename "
			"yours",
			(int)name.len, name.at, (int)in->profile->name.len, in->profile->name.at);
		return err_in(err, "spec/volumes/%zu", hits[i].index);
	}
	return 0;
}

/* The largest value of a resource so far, as it is spelled; absent when nobody has it. */
struct most {
	struct slice text;
	struct quantity value;
};

static void add_value(const struct json *j, const struct json_node *v, struct most *m)
{
	struct slice s = json_is(v, JSON_STRING) ? json_inside(j, v) : json_raw(j, v);
	struct quantity q;

	/* Containers of one pod often ask for the same, which needs no second reading. */
	if (!v || (m->text.at && slice_eq(s, m->text)) || quantity_parse(s, &q, NULL) < 0 ||
		(m->text.at && quantity_cmp(q, m->value) <= 0))
		return;
	*m = (struct most){s, q};
}

/* What init containers are given: cpu and memory of limits and of requests. */
struct room {
	struct most limit_cpu, limit_memory, request_cpu, request_memory;
};

/* The maximum over the app containers in each dimension. */
static struct room room_of(const struct pod *p)
{
	struct room ret = {0};

	for (size_t i = 0; i < p->n_containers; i++) {
		const struct json_node *res, *limits, *requests;

		if (p->containers[i].kind != CONTAINER_APP)
			continue;
		res = json_get(p->j, p->containers[i].node, SLICE("resources"));
		limits = json_get(p->j, res, SLICE("limits"));
		requests = json_get(p->j, res, SLICE("requests"));
		add_value(p->j, json_get(p->j, limits, SLICE("cpu")), &ret.limit_cpu);
		add_value(p->j, json_get(p->j, limits, SLICE("memory")), &ret.limit_memory);
		add_value(p->j, json_get(p->j, requests, SLICE("cpu")), &ret.request_cpu);
		add_value(p->j, json_get(p->j, requests, SLICE("memory")), &ret.request_memory);
	}
	return ret;
}

/* A request never exceeds its limit, or core validation refuses the pod. */
static struct slice at_most(struct slice request, struct slice limit)
{
	struct quantity r, l;

	if (request.at && limit.at && !slice_eq(request, limit) &&
		quantity_parse(request, &r, NULL) == 0 && quantity_parse(limit, &l, NULL) == 0 &&
		quantity_cmp(r, l) > 0)
		return limit;
	return request;
}

static void write_side(struct buf *out, const char *side, struct slice cpu, struct slice memory,
	struct slice other, bool *first)
{
	bool first_member = true;

	if (!cpu.at && !memory.at && !other.at)
		return;
	buf_str(out, *first ? "\"" : ",\"");
	buf_str(out, side);
	buf_str(out, "\":{");
	*first = false;
	if (cpu.at) {
		buf_str(out, "\"cpu\":");
		buf_json_str(out, cpu);
		first_member = false;
	}
	if (memory.at) {
		buf_str(out, first_member ? "\"memory\":" : ",\"memory\":");
		buf_json_str(out, memory);
		first_member = false;
	}
	if (other.at) {
		if (!first_member)
			buf_char(out, ',');
		buf_slice(out, other);
	}
	buf_char(out, '}');
}

/* The init container's object with resources: what the operator wrote, else the maximum over the
 * app containers in each dimension, absent dimensions left out. */
static void write_init(const struct profile_init *init, const struct room *room, struct buf *out)
{
	struct slice cpu = init->limit_cpu.at ? init->limit_cpu : room->limit_cpu.text;
	struct slice memory = init->limit_memory.at ? init->limit_memory : room->limit_memory.text;
	struct slice req_cpu = init->request_cpu.at ? init->request_cpu : room->request_cpu.text;
	struct slice req_memory =
		init->request_memory.at ? init->request_memory : room->request_memory.text;
	bool first = true;

	buf_add(out, init->json.at, init->json.len - 1);
	if (init->resources.at) {
		buf_str(out, ",\"resources\":");
		buf_slice(out, init->resources);
		buf_char(out, '}');
		return;
	}
	if (cpu.at || memory.at || req_cpu.at || req_memory.at || init->other_limits.at ||
		init->other_requests.at) {
		buf_str(out, ",\"resources\":{");
		write_side(out, "limits", cpu, memory, init->other_limits, &first);
		write_side(out, "requests", at_most(req_cpu, cpu), at_most(req_memory, memory),
			init->other_requests, &first);
		buf_char(out, '}');
	}
	buf_char(out, '}');
}

static int check_init_name(
	const struct injection *in, struct slice name, bool *ret_ours, struct err *err)
{
	const struct pod_container *c = pod_container(in->pod, name);

	*ret_ours = c && in->before && listed(in->before->inits, in->before->n_inits, name);
	if (!c || *ret_ours)
		return 0;
	err_reason(err, ERR_REFUSED, "ContainerCollision",
		"the pod has a container named \"%.*s\", which is the name of an init container "
		"that the launcher \"%.*s\" "
		"needs; rename yours",
		(int)name.len, name.at, (int)in->profile->name.len, in->profile->name.at);
	return err_in(err, "%s", c->path + 1);
}

/* In front of the pod's own, so that these may use the GPU already. */
static int inject_inits(struct injection *in, struct err *err)
{
	size_t n = in->client->n_inits, at = 0;
	struct room room = {0};

	if (n > 0)
		room = room_of(in->pod);
	in->plan->inits = arena_array(in->a, n, sizeof(*in->plan->inits));
	if (!in->plan->inits)
		return err_set(err, ERR_NOMEM, "out of memory");
	in->plan->made_inits = in->before && in->before->made_inits;
	if (n > 0 && !in->pod->has_inits) {
		in->plan->made_inits = true;
		patch_add(in->patch, "/spec/initContainers", (struct slice){0}, SLICE("[]"));
	}
	for (size_t i = 0; i < n; i++) {
		const struct profile_init *init = &in->client->inits[i];
		bool ours;

		if (check_init_name(in, init->name, &ours, err) < 0)
			return err->code;
		in->plan->inits[in->plan->n_inits++] = init->name;
		if (ours)
			continue;
		patch_open_at(in->patch, "add", "/spec/initContainers", at, (struct slice){0});
		write_init(init, &room, in->patch->out);
		patch_close(in->patch);
		at++;
	}
	return 0;
}

/* The pod waits until it has a claim, or until its place is written. */
static void inject_gate(struct injection *in)
{
	const struct json_node *gates = late_gates(in->pod->j, in->pod->root);

	if (!plan_is_gated(in->plan))
		return;
	in->plan->made_gates = in->before ? in->before->made_gates : !gates;
	if (!gates)
		patch_add(in->patch, "/spec/schedulingGates", (struct slice){0}, SLICE("[]"));
	if (!late_is_held(in->pod->j, in->pod->root))
		patch_add(in->patch, "/spec/schedulingGates", SLICE("-"),
			SLICE("{\"name\":\"" LATE_GATE "\"}"));
}

/* What its end reads; a place that comes late brings the servers. */
static int inject_end(struct injection *in, struct err *err)
{
	const struct profile_gate *gate = &in->profile->gate;
	struct slice servers;

	if (gate->by_address)
		return gate_end_network(in->pod, true, err);
	if (!gate->port)
		return 0;
	if (gate_end_fits(in->pod, gate->port, err) < 0)
		return err->code;
	proof_gate(in->rendered, gate->ca);
	patch_add_str(in->patch, "/metadata/annotations", SLICE(ANN_GATE_CA), gate->ca);
	if (in->plan->late.values)
		return 0;
	servers = gate_end_servers(in->plan->addresses, in->plan->n_servers, in->a);
	if (!servers.at)
		return err_set(err, ERR_NOMEM, "out of memory");
	patch_add_str(in->patch, "/metadata/annotations", SLICE(ANN_GATE_SERVERS), servers);
	return 0;
}

/* For the image of the end, unless the pod has it already. */
static void inject_pull_secret(struct injection *in)
{
	struct slice name = in->profile->gate.pull_secret;
	const struct plan *before = in->before;

	if (!name.at)
		return;
	if (pod_pulls_with(in->pod, name)) {
		if (!before || !before->pull_secret.at || !slice_eq(before->pull_secret, name))
			return;
		in->plan->made_pull_secrets = before->made_pull_secrets;
	} else {
		in->plan->made_pull_secrets = before && before->made_pull_secrets;
		if (!pod_pull_secrets(in->pod)) {
			in->plan->made_pull_secrets = true;
			patch_add(in->patch, "/spec/imagePullSecrets", (struct slice){0},
				SLICE("[]"));
		}
		patch_open(in->patch, "add", "/spec/imagePullSecrets", SLICE("-"));
		buf_str(in->patch->out, "{\"name\":");
		buf_json_str(in->patch->out, name);
		buf_char(in->patch->out, '}');
		patch_close(in->patch);
	}
	in->plan->pull_secret = name;
	proof_pull(in->rendered, name);
}

static int inject_marks(struct injection *in, struct err *err)
{
	struct slice status = pod_annotation(in->pod, ANN_STATUS, in->a);
	struct buf text;

	if (in->before)
		in->plan->status_was = in->before->status_was;
	else if (status.at)
		in->plan->status_was = status;
	in->plan->made_labels = in->before ? in->before->made_labels : !in->pod->labels;
	if (in->pod->labels)
		patch_add_str(in->patch, "/metadata/labels", SLICE(LABEL_INJECTED), SLICE("true"));
	else
		patch_add(in->patch, "/metadata/labels", (struct slice){0},
			SLICE("{\"" LABEL_INJECTED "\":\"true\"}"));
	patch_add_str(in->patch, "/metadata/annotations", SLICE(ANN_STATUS), SLICE("injected"));
	buf_init(&text, PLAN_BYTES_MAX);
	buf_reserve(&text, PLAN_BYTES_USUAL);
	plan_write(in->plan, &text);
	if (in->rendered &&
		plan_prove(in->signer, in->namespace, in->client, in->rendered, &text, err) < 0) {
		buf_release(&text);
		return err->code;
	}
	if (text.failed) {
		bool full = text.full;

		buf_release(&text);
		if (!full)
			return err_set(err, ERR_NOMEM, "out of memory");
		return err_reason(err, ERR_REFUSED, "TooManyContainers",
			"the plan for this pod does not fit into %d bytes of an annotation; let "
			"fewer containers ask for GPUs",
			PLAN_BYTES_MAX);
	}
	in->plan_hash = text_hash64(buf_as_slice(&text));
	patch_add_str(in->patch, "/metadata/annotations", SLICE(ANN_PLAN), buf_as_slice(&text));
	buf_release(&text);
	return 0;
}

/* A pod that is injected by a policy may have none yet. */
static void inject_annotations(struct injection *in)
{
	const struct pod *p = in->pod;

	in->plan->made_annotations = in->before ? in->before->made_annotations : !p->annotations;
	in->plan->made_metadata = in->before && in->before->made_metadata;
	if (p->annotations)
		return;
	if (!json_is(json_get(p->j, p->root, SLICE("metadata")), JSON_OBJECT)) {
		in->plan->made_metadata = true;
		patch_add(in->patch, "/metadata", (struct slice){0}, SLICE("{}"));
	}
	patch_add(in->patch, "/metadata/annotations", (struct slice){0}, SLICE("{}"));
}

int inject_pod(struct injection *in, struct err *err)
{
	inject_annotations(in);
	if (inject_volumes(in, err) < 0 || inject_inits(in, err) < 0 || inject_end(in, err) < 0)
		return err->code;
	inject_pull_secret(in);
	inject_gate(in);
	return inject_marks(in, err);
}

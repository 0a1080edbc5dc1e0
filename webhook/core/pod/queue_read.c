/* SPDX-License-Identifier: Apache-2.0 */
/* core: a pod that waits, read for the queue. */
#include "webhook/core/pod/queue_read.h"

#include "base/rfc3339.h"
#include "base/text.h"
#include "webhook/core/pod/late.h"

#define GANG_NAME_MAX 63
/* A group of Kueue's. */
#define LABEL_GROUP "kueue.x-k8s.io/pod-group-name"
#define ANN_GROUP_COUNT "kueue.x-k8s.io/pod-group-total-count"

static bool counts(
	const struct queue_classes *classes, const struct json *j, const struct json_node *class)
{
	for (size_t i = 0; i < classes->n; i++)
		if (json_is_str(j, class, classes->names[i]))
			return true;
	return false;
}

static void read_priority(const struct json *j, const struct json_node *spec,
	const struct queue_classes *classes, struct queue_pod *ret)
{
	ret->priority = 0;
	ret->classed = counts(classes, j, json_get(j, spec, SLICE("priorityClassName"))) &&
		       json_int(j, json_get(j, spec, SLICE("priority")), &ret->priority);
}

/* A gate of somebody else's. */
static bool has_foreign(const struct json *j, const struct json_node *object)
{
	JSON_EACH(j, late_gates(j, object), gate)
	{
		if (!json_is_str(j, json_get(j, gate, SLICE("name")), SLICE(LATE_GATE)))
			return true;
	}
	return false;
}

static uint32_t size_of(struct slice text)
{
	uint64_t n;

	return text.len && text_u64(text, GANG_SIZE_MAX, &n) ? (uint32_t)n : 0;
}

bool queue_gang_of(const struct pod *p, struct arena *a, struct slice *ret, uint32_t *ret_size)
{
	struct slice size = pod_annotation(p, ANN_GANG_SIZE, a);

	if (slice_is(size, "group")) {
		*ret = json_str(p->j, json_get(p->j, p->labels, SLICE(LABEL_GROUP)), a);
		size = pod_annotation(p, ANN_GROUP_COUNT, a);
	} else {
		*ret = pod_annotation(p, ANN_GANG, a);
	}
	*ret_size = size_of(size);
	return !a->failed;
}

static const struct json_node *job_of(const struct pod *p)
{
	const struct json_node *owner = pod_controller(p);

	return json_is_str(p->j, json_get(p->j, owner, SLICE("apiVersion")), SLICE("batch/v1")) &&
			       json_is_str(p->j, json_get(p->j, owner, SLICE("kind")), SLICE("Job"))
		       ? owner
		       : NULL;
}

int queue_check_job(const struct pod *p, struct err *err)
{
	if (job_of(p))
		return 0;
	err_set(err, ERR_INVALID,
		"found \"job\", and no Job made this pod: write how many pods its gang has");
	return err_in(err, "metadata/annotations/poolgate.io~1gang-size");
}

struct slice queue_job_of(const struct pod *p, struct arena *a)
{
	return json_str(p->j, json_get(p->j, job_of(p), SLICE("name")), a);
}

uint32_t queue_job_size(const struct json *j, const struct json_node *object)
{
	int64_t size = 1, most;

	(void)json_int(j, json_path(j, object, "spec", "parallelism", NULL), &size);
	if (json_int(j, json_path(j, object, "spec", "completions", NULL), &most) && most < size)
		size = most;
	return size < 1 ? 1 : size < GANG_SIZE_MAX ? (uint32_t)size : GANG_SIZE_MAX;
}

bool queue_read(const struct json *j, const struct json_node *object,
	const struct queue_classes *classes, struct arena *a, struct queue_pod *ret, bool *ret_mark)
{
	const struct json_node *meta = json_get(j, object, SLICE("metadata"));
	struct pod pod;
	bool kueue;
	int64_t since;

	pod_glance(j, object, &pod);
	ret->uid = json_str(j, json_get(j, meta, SLICE("uid")), a);
	ret->namespace = json_str(j, json_get(j, meta, SLICE("namespace")), a);
	ret->name = json_str(j, json_get(j, meta, SLICE("name")), a);
	read_priority(j, json_get(j, object, SLICE("spec")), classes, ret);
	ret->foreign = has_foreign(j, object);
	ret->since_ms = 0;
	(void)rfc3339_read(
		json_inside(j, json_get(j, meta, SLICE("creationTimestamp"))), &ret->since_ms);
	(void)queue_gang_of(&pod, a, &ret->gang, &ret->gang_size);
	ret->gang_job = slice_is(pod_annotation(&pod, ANN_GANG_SIZE, a), "job");
	ret->owner = json_inside(j, json_get(j, pod_controller(&pod), SLICE("uid")));
	kueue = !json_absent(json_get(j, pod.labels, SLICE(LABEL_KUEUE))) && !ret->foreign;
	if (ret_mark)
		*ret_mark = false;
	if (kueue && rfc3339_read(pod_annotation(&pod, ANN_QUEUED_SINCE, a), &since))
		/* nobody makes himself older than he is */
		ret->since_ms = since > ret->since_ms ? since : ret->since_ms;
	else if (ret_mark)
		*ret_mark = kueue;
	return !a->failed;
}

static void add_slices(struct buf *b, struct slice s)
{
	buf_fmt(b, "%zu:", s.len);
	buf_slice(b, s);
}

uint64_t queue_asks(const struct demand *d, struct json_seed seed)
{
	static const char pad[JSON_PAD];
	uint64_t hash = 0;
	struct buf b;

	buf_init(&b, 1u << 20);
	buf_fmt(&b, "%zu %zu %zu %d%d%d%d%d%d ", d->n_containers, d->n_filters, d->n_servers,
		d->whole_servers, d->no_ipv4, d->no_ipv6, d->one_server, d->guarded, d->gate_by);
	add_slices(&b, d->launcher);
	for (size_t i = 0; i < d->n_containers; i++) {
		const struct demand_container *c = &d->containers[i];

		buf_fmt(&b, "%d %u %u %llu ", (int)c->kind, (unsigned)c->amount,
			(unsigned)c->percent, (unsigned long long)c->memory_mb);
		/* refusals name it */
		if (d->n_containers > 1)
			add_slices(&b, c->name);
	}
	for (size_t i = 0; i < d->n_filters; i++)
		add_slices(&b, d->filters[i].token);
	for (size_t i = 0; i < d->n_servers; i++)
		add_slices(&b, d->servers[i]);
	buf_add(&b, pad, sizeof(pad));
	if (!b.failed)
		hash = json_hash(seed, b.data, b.len - sizeof(pad));
	buf_release(&b);
	return hash;
}

/* Up to so many bytes of a text are shown. */
static int shown(struct slice s)
{
	return s.len < 40 ? (int)s.len : 40;
}

/* A number that says how many of a group ask for GPUs is the user's word: Kueue counts all. */
static int check_group(const struct pod *p, struct arena *a, struct err *err)
{
	struct slice name;
	uint32_t size;

	if (!queue_gang_of(p, a, &name, &size))
		return err_set(err, ERR_NOMEM, "out of memory");
	if (name.len && size)
		return 0;
	err_set(err, ERR_INVALID,
		"found \"group\", and the pod does not say which one of Kueue's: expected the "
		"label " LABEL_GROUP " and the annotation " ANN_GROUP_COUNT ", from 1 to %d",
		GANG_SIZE_MAX);
	return err_in(err, "metadata/annotations/poolgate.io~1gang-size");
}

int queue_check_gang(const struct pod *p, struct arena *a, struct err *err)
{
	struct slice name = pod_annotation(p, ANN_GANG, a);
	struct slice size = pod_annotation(p, ANN_GANG_SIZE, a);

	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (!name.at && !size.at)
		return 0;
	if (!name.at && slice_is(size, "group"))
		return check_group(p, a, err);
	if (!name.at || name.len == 0 || name.len > GANG_NAME_MAX) {
		err_set(err, ERR_INVALID,
			"found %s, expected the name of the gang that the pod belongs to, of 1 to "
			"%d "
			"characters",
			!name.at   ? "nothing"
			: name.len ? "a longer one"
				   : "\"\"",
			GANG_NAME_MAX);
		return err_in(err, "metadata/annotations/poolgate.io~1gang");
	}
	if (size_of(size) == 0 && !slice_is(size, "job")) {
		err_set(err, ERR_INVALID,
			"found %s%.*s%s, expected how many pods the gang \"%.*s\" has, from 1 to "
			"%d, or job; or group, without " ANN_GANG,
			size.at ? "\"" : "", size.at ? shown(size) : 7,
			size.at ? size.at : "nothing", size.at ? "\"" : "", shown(name), name.at,
			GANG_SIZE_MAX);
		return err_in(err, "metadata/annotations/poolgate.io~1gang-size");
	}
	return 0;
}

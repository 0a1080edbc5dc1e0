/* SPDX-License-Identifier: Apache-2.0 */
/* core: reads a probe's inventory; brings it into a GPUServer's status. */
#include "webhook/core/server/probe_inventory.h"

#include <string.h>

#include "base/text.h"

static const char *const states[] = {"ready", "degraded", "unfit", "unknown"};

static int wrong(struct err *err, const char *key, const char *want, const struct json_node *v)
{
	err_set(err, ERR_INVALID, "should be %s, not %s", want, json_type_name(v));
	return err_in(err, "%s", key);
}

static int read_text(const struct json *j, const struct json_node *object, const char *key,
	struct arena *a, const char **ret, struct err *err)
{
	const struct json_node *v = json_get(j, object, slice_of(key));

	if (!json_is(v, JSON_STRING) || v->len <= 2)
		return wrong(err, key, "a text that is not empty", v);
	*ret = arena_strdup(a, json_str(j, v, a));
	return *ret ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

/* Other programs than ours may leave it out: "". */
static int read_more(const struct json *j, const struct json_node *object, const char *key,
	size_t max, struct arena *a, const char **ret, struct err *err)
{
	const struct json_node *v = json_get(j, object, slice_of(key));
	struct slice text = json_is(v, JSON_STRING) ? json_str(j, v, a) : SLICE("");

	if (!json_absent(v) && !json_is(v, JSON_STRING))
		return wrong(err, key, "a text or null", v);
	text.len = text_utf8_cut(text, max);
	*ret = arena_strdup(a, text);
	return *ret ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static int read_count(const struct json *j, const struct json_node *object, const char *key,
	int64_t *ret, struct err *err)
{
	const struct json_node *v = json_get(j, object, slice_of(key));

	return json_int(j, v, ret) && *ret >= 0 ? 0
						: wrong(err, key, "a whole number from 0 on", v);
}

static int read_why(const struct json *j, const struct json_node *object, struct arena *a,
	struct probe_gpu *g, struct err *err)
{
	const struct json_node *v = json_get(j, object, SLICE("reasons"));

	if (!json_is(v, JSON_ARRAY))
		return wrong(err, "reasons", "an array", v);
	g->why = "";
	JSON_EACH(j, v, e)
	{
		struct slice text = json_str(j, e, a);

		if (!json_is(e, JSON_STRING))
			return wrong(err, "reasons", "an array of texts", e);
		if (!g->fit)
			g->why = arena_fmt(a, "%s%s%.*s", g->why, *g->why ? "; " : "",
				(int)text.len, text.at ? text.at : "");
		if (!g->why)
			return err_set(err, ERR_NOMEM, "out of memory");
	}
	if (!g->fit && !*g->why)
		g->why = "the probe calls it unfit";
	return 0;
}

static int read_gpu(const struct json *j, const struct json_node *object, struct arena *a,
	struct probe_gpu *g, struct err *err)
{
	const struct json_node *fit = json_get(j, object, SLICE("fit"));
	int64_t bytes = 0;
	int rc = read_text(j, object, "uuid", a, &g->id, err);

	if (rc == 0)
		rc = read_more(j, object, "parent_uuid", PROBE_UUID_MAX, a, &g->parent, err);
	if (rc == 0)
		rc = read_text(j, object, "name", a, &g->model, err);
	if (rc == 0)
		rc = read_count(j, object, "memory_total_bytes", &bytes, err);
	if (rc != 0)
		return rc;
	if (!json_is(fit, JSON_TRUE) && !json_is(fit, JSON_FALSE))
		return wrong(err, "fit", "true or false", fit);
	g->fit = json_is(fit, JSON_TRUE);
	g->bytes = (uint64_t)bytes;
	if (g->fit && g->bytes == 0) {
		err_set(err, ERR_INVALID, "a GPU that is fit has memory");
		return err_in(err, "memory_total_bytes");
	}
	return read_why(j, object, a, g, err);
}

static bool has_gpu(const struct probe_inventory *inv, const char *id)
{
	for (size_t i = 0; i < inv->n_gpus; i++)
		if (strcmp(inv->gpus[i].id, id) == 0)
			return true;
	return false;
}

static int read_gpus(const struct json *j, const struct json_node *v, struct arena *a,
	struct probe_inventory *inv, struct err *err)
{
	if (!json_is(v, JSON_ARRAY))
		return wrong(err, "gpus", "an array", v);
	if (v->count > SERVER_GPUS_MAX)
		return err_set(err, ERR_TOOBIG, "%u GPUs; one server has at most %d",
			(unsigned)v->count, SERVER_GPUS_MAX);
	inv->gpus = arena_array(a, v->count, sizeof(*inv->gpus));
	if (!inv->gpus)
		return err_set(err, ERR_NOMEM, "out of memory");
	JSON_EACH(j, v, e)
	{
		struct probe_gpu g = {0};
		int rc = read_gpu(j, e, a, &g, err);

		if (rc == 0 && has_gpu(inv, g.id)) {
			rc = err_set(err, ERR_INVALID, "two GPUs have this UUID");
			err_in(err, "uuid");
		}
		if (rc != 0)
			return err_in(err, "gpus/%zu", inv->n_gpus);
		inv->gpus[inv->n_gpus++] = g;
	}
	return 0;
}

static int read_state(
	const struct json *j, const struct json_node *v, enum probe_state *ret, struct err *err)
{
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		if (json_is_str(j, v, slice_of(states[i]))) {
			*ret = (enum probe_state)i;
			return 0;
		}
	}
	return wrong(err, "state", "\"ready\", \"degraded\", \"unfit\" or \"unknown\"", v);
}

int probe_inventory_read(
	const struct json *j, struct arena *a, struct probe_inventory *ret, struct err *err)
{
	const struct json_node *root = json_root(j);
	int rc;

	*ret = (struct probe_inventory){0};
	if (!json_is_str(j, json_get(j, root, SLICE("schema")), SLICE(PROBE_SCHEMA)))
		return err_set(err, ERR_SYNTAX,
			"no inventory of a probe: its schema is not "
			"\"" PROBE_SCHEMA "\"");
	rc = read_state(j, json_get(j, root, SLICE("state")), &ret->state, err);
	if (rc == 0)
		rc = read_count(j, root, "age_s", &ret->age_s, err);
	if (rc == 0)
		rc = read_count(j, root, "stale_after_s", &ret->stale_after_s, err);
	if (rc == 0)
		rc = read_more(j, root, "trouble", PROBE_TROUBLE_MAX, a, &ret->trouble, err);
	return rc != 0 ? rc : read_gpus(j, json_get(j, root, SLICE("gpus")), a, ret, err);
}

bool probe_inventory_fresh(const struct probe_inventory *inv)
{
	return inv->state != PROBE_UNKNOWN && inv->age_s <= inv->stale_after_s;
}

static bool same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool same_gpu(const struct gpu *a, const struct gpu *b)
{
	return same_text(a->id, b->id) && same_text(a->parent, b->parent) &&
	       same_text(a->model, b->model) && a->bytes == b->bytes && a->fit == b->fit &&
	       a->missing == b->missing && same_text(a->why, b->why);
}

bool server_status_from_probe(
	struct server_object *o, const struct probe_inventory *inv, struct arena *a)
{
	struct server_status *s = &o->status;
	struct gpu_status *gpus = arena_array(a, inv->n_gpus + s->n_gpus, sizeof(*gpus));
	size_t n = 0;
	bool same;

	if (!gpus)
		return false;
	for (size_t i = 0; i < inv->n_gpus; i++) {
		const struct probe_gpu *p = &inv->gpus[i];
		ptrdiff_t old = server_status_gpu(s, slice_of(p->id));

		if (old >= 0)
			gpus[n] = s->gpus[old];
		gpus[n].gpu.id = p->id;
		gpus[n].gpu.parent = p->parent;
		gpus[n].gpu.model = p->model;
		gpus[n].gpu.bytes = p->bytes;
		gpus[n].gpu.fit = p->fit;
		gpus[n].gpu.missing = false;
		gpus[n++].gpu.why = p->why;
	}
	for (size_t i = 0; i < s->n_gpus; i++) {
		if (has_gpu(inv, s->gpus[i].gpu.id) || server_status_claimed(s, i) == 0)
			continue;
		gpus[n] = s->gpus[i];
		gpus[n++].gpu.missing = true;
	}
	same = n == s->n_gpus;
	for (size_t i = 0; same && i < n; i++)
		same = same_gpu(&gpus[i].gpu, &s->gpus[i].gpu);
	if (same)
		return false;
	s->gpus = gpus;
	s->n_gpus = n;
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* core: reads a probe's inventory; brings it into a GPUServer's status. */
#include "webhook/core/server/probe_inventory.h"

#include <string.h>

#include "base/text.h"
#include "webhook/core/server/server_object_impl.h"

static bool has_gpu(const struct probe_gpu *gpus, size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(gpus[i].id, id) == 0)
			return true;
	return false;
}

static int check_gpu(struct json_reader *r, const struct json_node *v, const void *list, size_t i)
{
	const struct probe_gpu *gpus = list;

	(void)v;
	if (i == SERVER_GPUS_MAX)
		return err_set(
			r->err, ERR_TOOBIG, "one server has at most %d GPUs", SERVER_GPUS_MAX);
	if (gpus[i].fit && gpus[i].bytes == 0) {
		(void)err_set(r->err, ERR_INVALID, "a GPU that is fit has memory");
		return err_in(r->err, "memory_total_bytes");
	}
	if (!has_gpu(gpus, i, gpus[i].id))
		return 0;
	(void)err_set(r->err, ERR_INVALID, "two GPUs have this UUID");
	return err_in(r->err, "uuid");
}

static const struct json_field probe_gpu_fields[] = {
	REC_STR(probe_gpu, id, "uuid", REC_NEEDED),
	REC_STR(probe_gpu, parent, "parent_uuid"),
	REC_STR(probe_gpu, model, "name", REC_NEEDED),
	REC_COUNT(probe_gpu, bytes, "memory_total_bytes", REC_NEEDED),
	REC_BOOL(probe_gpu, fit, "fit", REC_NEEDED),
	REC_STRS(probe_gpu, reasons, "reasons", REC_NEEDED),
};
JSON_RECORD(probe_gpu_record, probe_gpu, probe_gpu_fields, 0);

static const char *const states[] = {"ready", "degraded", "unfit", "unknown", NULL};
/* Other programs than ours may leave out what is not needed. */
static const struct json_field inventory_fields[] = {
	REC_WORD(probe_inventory, state, "state", REC_NEEDED, .words = states,
		.expected = "\"ready\", \"degraded\", \"unfit\" or \"unknown\""),
	REC_LONG(probe_inventory, age_s, "age_s", REC_NEEDED),
	REC_LONG(probe_inventory, stale_after_s, "stale_after_s", REC_NEEDED),
	REC_STR(probe_inventory, trouble, "trouble"),
	REC_LIST(probe_inventory, gpus, probe_gpu, "gpus", REC_NEEDED, .check = check_gpu),
};
JSON_RECORD(inventory_record, probe_inventory, inventory_fields, 0);

static const char *cut(const char *text, size_t max, struct arena *a)
{
	return strlen(text) <= max
		       ? text
		       : arena_strdup(a, (struct slice){text, text_utf8_cut(slice_of(text), max)});
}

/* What follows from other members; NULL where memory is out. */
static const char *why_unfit(const struct probe_gpu *g, struct arena *a)
{
	const char *why = "";

	for (size_t i = 0; !g->fit && why && i < g->n_reasons; i++)
		why = arena_fmt(a, "%s%s%s", why, *why ? "; " : "", g->reasons[i]);
	return g->fit || !why || *why ? why : "the probe calls it unfit";
}

int probe_inventory_read(
	const struct json *j, struct arena *a, struct probe_inventory *ret, struct err *err)
{
	const struct json_node *root = json_root(j);
	struct json_reader r = {.j = j, .a = a, .err = err};
	int rc;

	*ret = (struct probe_inventory){0};
	if (!json_is_str(j, json_get(j, root, SLICE("schema")), SLICE(PROBE_SCHEMA)))
		return err_set(err, ERR_SYNTAX,
			"no inventory of a probe: its schema is not "
			"\"" PROBE_SCHEMA "\"");
	if ((rc = json_record_read(&r, root, &inventory_record, ret)) != 0)
		return rc;
	ret->trouble = cut(ret->trouble, PROBE_TROUBLE_MAX, a);
	for (size_t i = 0; i < ret->n_gpus; i++) {
		ret->gpus[i].parent = cut(ret->gpus[i].parent, PROBE_UUID_MAX, a);
		ret->gpus[i].why = why_unfit(&ret->gpus[i], a);
	}
	return a->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

bool probe_inventory_fresh(const struct probe_inventory *inv)
{
	return inv->state != PROBE_UNKNOWN && inv->age_s <= inv->stale_after_s;
}

bool server_status_from_probe(
	struct server_object *o, const struct probe_inventory *inv, struct arena *a)
{
	struct gpu *gpus = arena_array(a, inv->n_gpus, sizeof(*gpus));

	for (size_t i = 0; gpus && i < inv->n_gpus; i++) {
		const struct probe_gpu *p = &inv->gpus[i];

		gpus[i] = (struct gpu){.id = p->id,
			.parent = p->parent,
			.model = p->model,
			.bytes = p->bytes,
			.fit = p->fit,
			.why = p->why};
	}
	return gpus && server_status_replace_gpus(&o->status, gpus, inv->n_gpus, a);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* probe: two reports of bench, read. */
#include "probe/show/compare.h"

#include <math.h>
#include <stdlib.h>

#include "base/json/json_record.h"

#define NODES_MAX (1u << 20)

struct measure {
	char id[64], status[16];
	double value;
};

static const struct json_field measure_fields[] = {
	REC_TEXT(measure, id, "id", REC_NEEDED),
	REC_TEXT(measure, status, "status", REC_NEEDED),
	REC_DOUBLE(measure, value, "value"),
};
JSON_RECORD(measure_record, measure, measure_fields, 0);

static int read_checks(struct json_reader *r, const struct json_node *v, void *to)
{
	struct compare_gpu *gpu = to;
	size_t i = 0;

	if (!json_is(v, JSON_ARRAY))
		return json_record_wrong(r, v, "checks", "an array");
	JSON_EACH(r->j, v, e)
	{
		struct measure m = {.value = (double)NAN};
		enum check_id id;

		if (json_record_read(r, e, &measure_record, &m) != 0)
			return err_in(r->err, "checks/%zu", i);
		if (check_by_name(m.id, &id) && m.value > 0 &&
			(strcmp(m.status, "pass") == 0 || strcmp(m.status, "warn") == 0))
			gpu->value[id] = m.value;
		i++;
	}
	return 0;
}

static const char *place_name(unsigned i)
{
	return i == 0 ? "local" : "remote";
}

static int read_place(struct json_reader *r, const struct json_node *v, void *to)
{
	struct compare_gpu *gpu = to;

	gpu->remote = json_is_str(r->j, v, slice_of(place_name(1)));
	return gpu->remote || json_is_str(r->j, v, slice_of(place_name(0)))
		       ? 0
		       : json_record_wrong(r, v, "location", "local or remote");
}

static const struct json_own checks = {.read = read_checks};
static const struct json_own place = {.read = read_place};
static const struct json_field compare_gpu_fields[] = {
	REC_TEXT(compare_gpu, uuid, "uuid"),
	REC_TEXT(compare_gpu, name, "name"),
	REC_OWN(place, "location", REC_NEEDED, .expected = "local or remote"),
	REC_OWN(checks, "checks", REC_NEEDED, .expected = "the checks of a GPU"),
};
JSON_RECORD(compare_gpu_record, compare_gpu, compare_gpu_fields, 0);

static const struct json_field host_fields[] = {REC_TEXT(compare_side, host, "name")};
JSON_RECORD(host_record, compare_side, host_fields, 0);

static const struct json_field side_fields[] = {
	REC_WITHIN(host_record, "host", REC_NEEDED),
	REC_BOOL(compare_side, complete, "complete", REC_NEEDED),
	REC_ARRAY(compare_side, gpus, compare_gpu, "gpus", REC_NEEDED),
};
JSON_RECORD(side_record, compare_side, side_fields, 0);

/* What kind of document it is, before anything else is believed of it. */
static int check_head(struct json_reader *r, const struct json_node *root)
{
	const struct json_node *schema = json_get(r->j, root, SLICE("schema")),
			       *command = json_get(r->j, root, SLICE("command"));

	if (!json_is_str(r->j, schema, SLICE(REPORT_SCHEMA)))
		return json_record_wrong(r, schema, "schema",
			"\"" REPORT_SCHEMA "\", as `gpuprobe bench --json` writes it");
	if (!json_is_str(r->j, command, SLICE("bench")))
		return json_record_wrong(r, command, "command",
			"\"bench\": only `gpuprobe bench --json` measures what is compared");
	return 0;
}

int compare_read(struct slice text, struct compare_side *ret, struct err *err)
{
	struct err own = {0};
	struct json j = {0};
	struct json_reader r = {.j = &j, .err = err ? err : &own};
	char *copy;
	int rc = json_read_copy(&j, text.at, text.len, NODES_MAX, &copy, r.err);

	*ret = (struct compare_side){.n_gpus = 0};
	for (size_t i = 0; i < REPORT_GPUS_MAX; i++)
		for (size_t k = 0; k < CHECK_COUNT; k++)
			ret->gpus[i].value[k] = (double)NAN;
	if (rc == 0)
		rc = check_head(&r, json_root(&j));
	if (rc == 0)
		rc = json_record_read(&r, json_root(&j), &side_record, ret);
	if (rc == 0 && ret->n_gpus == 0)
		rc = err_set(r.err, ERR_INVALID, "it has no GPU, expected at least one");
	free(copy);
	json_release(&j);
	return rc;
}

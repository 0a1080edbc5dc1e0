/* SPDX-License-Identifier: Apache-2.0 */
/* probe: thresholds and reference rates as a file, read and written. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json/json_record.h"
#include "probe/result/thresholds.h"

#define SCHEMA "gpuprobe.thresholds/1"
#define FILE_MAX (1u << 20)
#define NODES_MAX 65536u
#define REFERENCES_MAX 256
#define NAME_FORM "a text that is not empty and not so long"

static int read_file(const char *file, struct buf *out, struct err *err)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return err_set(err, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "%s: %s", file,
			strerror(errno));
	rc = files_drain(fd, out);
	if (rc == ERR_IO)
		(void)err_set(err, ERR_IO, "%s: %s", file, strerror(errno));
	else if (rc != 0)
		rc = err_set(err, ERR_TOOBIG, "%s: more than %u bytes", file, FILE_MAX);
	(void)close(fd);
	return rc;
}

static int need_check(struct json_reader *r, const struct json_node *key, enum check_id *ret)
{
	const char *name = arena_strdup(r->a, json_str(r->j, key, r->a));

	if (r->a->failed)
		return err_set(r->err, ERR_NOMEM, "out of memory");
	return check_by_name(name, ret)
		       ? 0
		       : json_record_wrong(r, key, "", "a check, such as bench.mem_read");
}

#define SHARE(member)                                                                              \
	REC_DOUBLE(threshold, member, #member, .max = 1, .expected = "a share from 0 to 1")
static const struct json_field threshold_fields[] = {SHARE(warn_below), SHARE(fail_below)};
JSON_RECORD_CLOSED(threshold_record, threshold, threshold_fields);

static int read_shares(struct json_reader *r, const struct json_node *v, struct threshold *ret)
{
	int rc;

	if (!json_is(v, JSON_OBJECT))
		return json_record_wrong(r, v, "", "an object");
	rc = json_record_read(r, v, &threshold_record, ret);
	if (rc == 0 && ret->warn_below < ret->fail_below)
		rc = err_set(r->err, ERR_INVALID,
			"warn_below is %g, which is less than fail_below, %g", ret->warn_below,
			ret->fail_below);
	return rc;
}

static int read_checks(struct json_reader *r, const struct json_node *checks, void *to)
{
	struct thresholds *t = to;

	if (!json_is(checks, JSON_OBJECT))
		return json_record_wrong(r, checks, "checks", "an object");
	JSON_MEMBERS(r->j, checks, k)
	{
		bool peers = json_is_str(r->j, k, SLICE("peers"));
		struct slice name = json_inside(r->j, k);
		enum check_id id = CHECK_COUNT;
		int rc = peers ? 0 : need_check(r, k, &id);

		if (rc == 0)
			rc = read_shares(r, json_value(k), peers ? &t->peers : &t->of[id]);
		if (rc != 0)
			return err_in(r->err, "checks/%.*s", (int)name.len, name.at);
		if (!peers)
			t->given[id] = true;
	}
	return 0;
}

static int read_rates(struct json_reader *r, const struct json_node *rates, void *to)
{
	struct reference *ret = to;

	for (size_t i = 0; i < CHECK_COUNT; i++)
		ret->rate[i] = (double)NAN;
	if (!json_is(rates, JSON_OBJECT))
		return json_record_wrong(r, rates, "rates", "an object of rates");
	JSON_MEMBERS(r->j, rates, k)
	{
		const struct json_node *v = json_value(k);
		double rate = json_is(v, JSON_NUMBER) ? strtod(r->j->text + v->at, NULL) : 0;
		enum check_id id;

		if (need_check(r, k, &id) != 0)
			return err_in(r->err, "rates");
		if (!(rate >= 1e-9 && rate <= 1e30)) {
			(void)json_record_wrong(r, v, check_kind(id)->id, "a rate above 0");
			return err_in(r->err, "rates");
		}
		ret->rate[id] = rate;
	}
	return 0;
}

/* The whole list: what is not in it is no longer fatal. */
static int read_fatal_xids(struct json_reader *r, const struct json_node *list, void *to)
{
	struct thresholds *t = to;

	if (!json_is(list, JSON_ARRAY))
		return json_record_wrong(r, list, "fatal_xids", "an array of XIDs");
	t->n_fatal_xids = 0;
	JSON_EACH(r->j, list, e)
	{
		int64_t xid = 0;

		if (t->n_fatal_xids == FATAL_XIDS_MAX) {
			(void)err_set(r->err, ERR_TOOBIG, "more than %d XIDs", FATAL_XIDS_MAX);
			return err_in(r->err, "fatal_xids");
		}
		if (!json_int(r->j, e, &xid) || xid < 1 || xid > XID_MAX)
			return json_record_wrong(
				r, e, "fatal_xids", "an XID, a whole number from 1 to 99999");
		t->fatal_xids[t->n_fatal_xids++] = (int)xid;
	}
	t->fatal_xids_given = true;
	return 0;
}

static int read_schema(struct json_reader *r, const struct json_node *v, void *to)
{
	(void)to;
	return json_is_str(r->j, v, SLICE(SCHEMA))
		       ? 0
		       : json_record_wrong(r, v, "schema", "\"" SCHEMA "\"");
}

static int check_reference(
	struct json_reader *r, const struct json_node *v, const void *list, size_t i)
{
	const struct reference *all = list;

	return all[i].name[0]
		       ? 0
		       : json_record_wrong(r, json_get(r->j, v, SLICE("name")), "name", NAME_FORM);
}

static const struct json_own schema = {read_schema, NULL}, checks = {read_checks, NULL},
			     rates = {read_rates, NULL}, fatal_xids = {read_fatal_xids, NULL};
static const struct json_field reference_fields[] = {
	REC_TEXT(reference, name, "name", REC_NEEDED, .expected = NAME_FORM),
	REC_LONG(reference, memory_total_bytes, "memory_total_bytes", REC_NEEDED, .min = 1,
		.expected = "a number of bytes"),
	REC_OWN(rates, "rates", REC_NEEDED, .expected = "an object of rates"),
};
JSON_RECORD_CLOSED(reference_record, reference, reference_fields);

static const struct json_field file_fields[] = {
	REC_OWN(schema, "schema", REC_NEEDED, .expected = "\"" SCHEMA "\""),
	REC_OWN(checks, "checks"),
	REC_LIST(thresholds, references, reference, "references", .max = REFERENCES_MAX,
		.expected = "an array of at most 256", .check = check_reference),
	REC_OWN(fatal_xids, "fatal_xids"),
};
JSON_RECORD_CLOSED(file_record, thresholds, file_fields);

int thresholds_read(struct thresholds *t, const char *file, struct err *err)
{
	struct err own = {0};
	struct json j = {0};
	struct json_reader r = {.j = &j, .a = &t->arena, .err = &own};
	struct buf text;
	char *copy = NULL;
	int rc;

	buf_init(&text, FILE_MAX);
	rc = read_file(file, &text, &own);
	if (rc == 0) {
		rc = json_read_copy(
			&j, text.data ? text.data : "", text.len, NODES_MAX, &copy, &own);
		if (rc == 0 && !json_is(json_root(&j), JSON_OBJECT))
			rc = json_record_wrong(&r, json_root(&j), "", "an object");
		if (rc == 0)
			rc = json_record_read(&r, json_root(&j), &file_record, t);
		if (rc != 0 && err)
			(void)err_set(err, own.code, "%s: %s%s%s", file, own.path,
				own.path[0] ? ": " : "", own.msg);
	} else if (err) {
		*err = own;
	}
	free(copy);
	json_release(&j);
	buf_release(&text);
	return rc;
}

/* Rates that another run can be compared with: measured here, and not found too low. */
static bool worth_keeping(const struct check_result *r)
{
	return r && thresholds_is_rate(r->id) && isfinite(r->value) && r->value > 0 &&
	       r->status == STATUS_PASS;
}

void thresholds_write(const struct report *r, struct buf *out)
{
	bool some = false;

	buf_str(out, "{\"schema\": \"" SCHEMA "\", \"references\": [");
	for (size_t i = 0; i < r->n_gpus; i++) {
		const struct gpu_report *gpu = &r->gpus[i];
		bool rated = false, again = false;

		for (size_t k = 0; k < i; k++) /* one entry for each model: the first */
			again = again ||
				(strcmp(r->gpus[k].name, gpu->name) == 0 &&
					r->gpus[k].memory_total_bytes == gpu->memory_total_bytes);
		if (again || !gpu->fit)
			continue;
		buf_fmt(out, "%s\n  {\"name\": ", some ? "," : "");
		buf_json_str(out, slice_of(gpu->name));
		buf_fmt(out, ", \"memory_total_bytes\": %lld, \"rates\": {",
			(long long)gpu->memory_total_bytes);
		for (int id = 0; id < CHECK_COUNT; id++) {
			if (!worth_keeping(gpu->checks[id]))
				continue;
			buf_fmt(out, "%s\"%s\": %.6e", rated ? ", " : "",
				check_kind((enum check_id)id)->id, gpu->checks[id]->value);
			rated = true;
		}
		buf_str(out, "}}");
		some = true;
	}
	buf_str(out, "]}\n");
}

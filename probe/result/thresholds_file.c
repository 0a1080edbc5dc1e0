/* SPDX-License-Identifier: Apache-2.0 */
/* probe: thresholds and reference rates as a file, read and written. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json/json_read.h"
#include "probe/result/thresholds.h"

#define SCHEMA "gpuprobe.thresholds/1"
#define FILE_MAX (1u << 20)
#define NODES_MAX 65536u
#define REFERENCES_MAX 256

static int read_file(const char *file, struct buf *out, struct err *err)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = 1;

	if (fd < 0)
		return err_set(err, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "%s: %s", file,
			strerror(errno));
	while (n > 0 && !out->failed) {
		char chunk[4096];

		n = read(fd, chunk, sizeof(chunk));
		if (n > 0)
			buf_add(out, chunk, (size_t)n);
		else if (n < 0 && errno == EINTR)
			n = 1;
	}
	int failed = n < 0 ? errno : 0;

	(void)close(fd);
	if (failed)
		return err_set(err, ERR_IO, "%s: %s", file, strerror(failed));
	if (out->failed)
		return err_set(err, ERR_TOOBIG, "%s: more than %u bytes", file, FILE_MAX);
	return 0;
}

/* The file while it is read. */
struct reading {
	const struct json *j;
	struct err *err;
};

static int wrong(
	struct reading *in, const struct json_node *found, const char *key, const char *form)
{
	struct slice raw = json_raw(in->j, found);

	(void)err_set(in->err, ERR_INVALID, "found %.*s, expected %s",
		raw.at ? (int)(raw.len < 60 ? raw.len : 60) : 7, raw.at ? raw.at : "nothing", form);
	return key ? err_in(in->err, "%s", key) : ERR_INVALID;
}

/* Only these members; keys ends with NULL. */
static int known(struct reading *in, const struct json_node *object, const char *const *keys)
{
	if (!json_is(object, JSON_OBJECT))
		return wrong(in, object, NULL, "an object");
	JSON_MEMBERS(in->j, object, k)
	{
		bool found = false;

		for (size_t i = 0; keys[i] && !found; i++)
			found = json_is_str(in->j, k, slice_of(keys[i]));
		if (!found)
			return wrong(in, k, NULL, "a member that is known here");
	}
	return 0;
}

static int as_number(struct reading *in, const struct json_node *v, const char *key, double least,
	double most, const char *form, double *ret)
{
	struct slice raw = json_raw(in->j, v);
	char digits[64];
	double number;

	if (!json_is(v, JSON_NUMBER) || raw.len >= sizeof(digits))
		return wrong(in, v, key, form);
	memcpy(digits, raw.at, raw.len);
	digits[raw.len] = '\0';
	number = strtod(digits, NULL);
	if (!(number >= least && number <= most))
		return wrong(in, v, key, form);
	*ret = number;
	return 0;
}

/* A string's value into ret[size]. */
static int as_text(
	struct reading *in, const struct json_node *v, const char *key, char *ret, size_t size)
{
	struct buf text;
	bool fits;

	if (v && !json_is(v, JSON_STRING) && !key)
		return wrong(in, v, key, "a text");
	buf_init(&text, size - 1);
	json_decode(in->j, v, &text);
	fits = !text.failed && text.len > 0;
	if (fits) {
		memcpy(ret, text.data, text.len);
		ret[text.len] = '\0';
	}
	buf_release(&text);
	return fits ? 0 : wrong(in, v, key, "a text that is not empty and not so long");
}

static int need_check(struct reading *in, const struct json_node *key, enum check_id *ret)
{
	char name[64];

	if (as_text(in, key, NULL, name, sizeof(name)) != 0 || !check_by_name(name, ret))
		return wrong(in, key, NULL, "a check, such as bench.mem_read");
	return 0;
}

static int read_shares(struct reading *in, const struct json_node *v, struct threshold *ret)
{
	static const char *const keys[] = {"warn_below", "fail_below", NULL};
	static const char form[] = "a share from 0 to 1";
	const struct json_node *warn, *fail;
	int rc = known(in, v, keys);

	if (rc != 0)
		return rc;
	warn = json_get(in->j, v, slice_of(keys[0]));
	fail = json_get(in->j, v, slice_of(keys[1]));
	if (warn && (rc = as_number(in, warn, keys[0], 0, 1, form, &ret->warn_below)) != 0)
		return rc;
	if (fail && (rc = as_number(in, fail, keys[1], 0, 1, form, &ret->fail_below)) != 0)
		return rc;
	if (ret->warn_below < ret->fail_below)
		return err_set(in->err, ERR_INVALID,
			"warn_below is %g, which is less than fail_below, %g", ret->warn_below,
			ret->fail_below);
	return 0;
}

static int read_checks(struct reading *in, const struct json_node *checks, struct thresholds *t)
{
	if (checks && !json_is(checks, JSON_OBJECT))
		return wrong(in, checks, NULL, "an object");
	JSON_MEMBERS(in->j, checks, k)
	{
		const struct json_node *shares = json_value(k);
		struct slice name = json_inside(in->j, k);
		enum check_id id = CHECK_COUNT;
		int rc;

		if (json_is_str(in->j, k, SLICE("peers")))
			rc = read_shares(in, shares, &t->peers);
		else if ((rc = need_check(in, k, &id)) == 0)
			rc = read_shares(in, shares, &t->of[id]);
		if (rc == 0 && !json_is_str(in->j, k, SLICE("peers")))
			t->given[id] = true;
		if (rc != 0)
			return err_in(in->err, "%.*s", (int)name.len, name.at);
	}
	return 0;
}

static int read_rates(struct reading *in, const struct json_node *rates, struct reference *ret)
{
	if (!json_is(rates, JSON_OBJECT))
		return wrong(in, rates, "rates", "an object of rates");
	JSON_MEMBERS(in->j, rates, k)
	{
		enum check_id id;
		int rc = need_check(in, k, &id);

		if (rc == 0)
			rc = as_number(in, json_value(k), check_kind(id)->id, 1e-9, 1e30,
				"a rate above 0", &ret->rate[id]);
		if (rc != 0)
			return err_in(in->err, "rates");
	}
	return 0;
}

static int read_reference(struct reading *in, const struct json_node *v, struct reference *ret)
{
	static const char *const keys[] = {"name", "memory_total_bytes", "rates", NULL};
	const struct json_node *memory;
	int rc = known(in, v, keys);

	for (size_t i = 0; i < CHECK_COUNT; i++)
		ret->rate[i] = (double)NAN;
	if (rc == 0)
		rc = as_text(in, json_get(in->j, v, slice_of(keys[0])), keys[0], ret->name,
			sizeof(ret->name));
	if (rc != 0)
		return rc;
	memory = json_get(in->j, v, slice_of(keys[1]));
	if (!json_int(in->j, memory, &ret->memory_total_bytes) || ret->memory_total_bytes <= 0)
		return wrong(in, memory, keys[1], "a number of bytes");
	return read_rates(in, json_get(in->j, v, slice_of(keys[2])), ret);
}

static int read_references(struct reading *in, const struct json_node *list, struct thresholds *t)
{
	size_t n = 0;

	if (!list)
		return 0;
	if (!json_is(list, JSON_ARRAY))
		return wrong(in, list, NULL, "an array");
	JSON_EACH(in->j, list, e)
	n++;
	if (n > REFERENCES_MAX)
		return err_set(in->err, ERR_TOOBIG, "%zu references, expected at most %d", n,
			REFERENCES_MAX);
	t->references = calloc(n ? n : 1, sizeof(*t->references));
	if (!t->references)
		return err_set(in->err, ERR_NOMEM, "out of memory");
	JSON_EACH(in->j, list, e)
	{
		if (read_reference(in, e, &t->references[t->n_references]) != 0)
			return err_in(in->err, "%zu", t->n_references);
		t->n_references++;
	}
	return 0;
}

/* The whole list: what is not in it is no longer fatal. */
static int read_fatal_xids(struct reading *in, const struct json_node *list, struct thresholds *t)
{
	if (!list)
		return 0;
	if (!json_is(list, JSON_ARRAY))
		return wrong(in, list, NULL, "an array of XIDs");
	t->n_fatal_xids = 0;
	JSON_EACH(in->j, list, e)
	{
		int64_t xid = 0;

		if (t->n_fatal_xids == FATAL_XIDS_MAX)
			return err_set(in->err, ERR_TOOBIG, "more than %d XIDs", FATAL_XIDS_MAX);
		if (!json_int(in->j, e, &xid) || xid < 1 || xid > XID_MAX)
			return wrong(in, e, NULL, "an XID, a whole number from 1 to 99999");
		t->fatal_xids[t->n_fatal_xids++] = (int)xid;
	}
	t->fatal_xids_given = true;
	return 0;
}

static int read_root(struct reading *in, struct thresholds *t)
{
	static const char *const keys[] = {"schema", "checks", "references", "fatal_xids", NULL};
	const struct json_node *root = json_root(in->j), *schema;
	int rc = known(in, root, keys);

	if (rc != 0)
		return rc;
	schema = json_get(in->j, root, slice_of(keys[0]));
	if (!json_is_str(in->j, schema, SLICE(SCHEMA)))
		return wrong(in, schema, keys[0], "\"" SCHEMA "\"");
	if (read_checks(in, json_get(in->j, root, slice_of(keys[1])), t) != 0)
		return err_in(in->err, "%s", keys[1]);
	if (read_references(in, json_get(in->j, root, slice_of(keys[2])), t) != 0)
		return err_in(in->err, "%s", keys[2]);
	if (read_fatal_xids(in, json_get(in->j, root, slice_of(keys[3])), t) != 0)
		return err_in(in->err, "%s", keys[3]);
	return 0;
}

int thresholds_read(struct thresholds *t, const char *file, struct err *err)
{
	struct err own = {0};
	struct json j = {0};
	struct reading in = {&j, &own};
	struct buf text;
	char *copy = NULL;
	int rc;

	buf_init(&text, FILE_MAX);
	rc = read_file(file, &text, &own);
	if (rc == 0) {
		rc = json_read_copy(
			&j, text.data ? text.data : "", text.len, NODES_MAX, &copy, &own);
		if (rc == 0)
			rc = read_root(&in, t);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* probe: thresholds and reference rates as a file, read and written. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/yaml.h"
#include "base/yaml_config.h"
#include "probe/thresholds.h"

#define SCHEMA "gpuprobe.thresholds/1"
#define FILE_MAX (1u << 20)
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

/* A number, at least `least` and at most `most`. */
static int as_number(const struct yaml_node *node, double least, double most, const char *form,
	double *ret, struct err *err)
{
	struct slice text;
	char digits[64], found[80], *end;
	int rc = yaml_as_text(node, &text, err);

	if (rc != 0)
		return rc;
	if (text.len == 0 || text.len >= sizeof(digits) ||
		strspn(text.at, "0123456789+-.eE") < text.len)
		return yaml_err(node, err, ERR_INVALID, "found %s, expected %s",
			yaml_found(node, found), form);
	memcpy(digits, text.at, text.len);
	digits[text.len] = '\0';
	*ret = strtod(digits, &end);
	if (*end != '\0' || !(*ret >= least && *ret <= most))
		return yaml_err(node, err, ERR_INVALID, "found %s, expected %s",
			yaml_found(node, found), form);
	return 0;
}

static int need_check(const struct yaml_node *key, enum check_id *ret, struct err *err)
{
	const char *name;
	int rc = yaml_as_cstr(key, &name, err);

	if (rc == 0 && !check_by_name(name, ret))
		return yaml_err(key, err, ERR_INVALID,
			"unknown check \"%s\", expected one such as bench.mem_read", name);
	return rc;
}

static int read_shares(const struct yaml_node *node, struct threshold *ret, struct err *err)
{
	static const char form[] = "a share from 0 to 1";
	const struct yaml_node *warn = yaml_get(node, "warn_below");
	const struct yaml_node *fail = yaml_get(node, "fail_below");
	int rc = yaml_as_map(node, err);

	if (rc == 0)
		rc = yaml_known(node, err, "warn_below", "fail_below", NULL);
	if (rc == 0 && warn)
		rc = as_number(warn, 0, 1, form, &ret->warn_below, err);
	if (rc == 0 && fail)
		rc = as_number(fail, 0, 1, form, &ret->fail_below, err);
	if (rc == 0 && ret->warn_below < ret->fail_below)
		return yaml_err(node, err, ERR_INVALID,
			"warn_below is %g, which is less than fail_below, %g", ret->warn_below,
			ret->fail_below);
	return rc;
}

static int read_checks(struct thresholds *t, const struct yaml_node *checks, struct err *err)
{
	YAML_MEMBERS(checks, k)
	{
		enum check_id id;
		int rc = 0;

		if (yaml_is_str(k, "peers")) {
			rc = read_shares(k->next, &t->peers, err);
		} else {
			rc = need_check(k, &id, err);
			if (rc == 0)
				rc = read_shares(k->next, &t->of[id], err);
		}
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int read_reference(const struct yaml_node *node, struct reference *ret, struct err *err)
{
	struct yaml_node *name, *rates, *memory;
	const char *text;
	int rc = yaml_as_map(node, err);

	for (size_t i = 0; i < CHECK_COUNT; i++)
		ret->rate[i] = (double)NAN;
	if (rc == 0)
		rc = yaml_known(node, err, "name", "memory_total_bytes", "rates", NULL);
	if (rc == 0)
		rc = yaml_need(node, "name", &name, err);
	if (rc == 0)
		rc = yaml_as_cstr(name, &text, err);
	if (rc == 0 && strlen(text) >= sizeof(ret->name))
		return yaml_err(name, err, ERR_INVALID, "a GPU's name of more than %zu bytes",
			sizeof(ret->name) - 1);
	if (rc == 0)
		memcpy(ret->name, text, strlen(text) + 1);
	if (rc == 0)
		rc = yaml_need(node, "memory_total_bytes", &memory, err);
	if (rc == 0)
		rc = yaml_as_int(memory, 1, INT64_MAX, &ret->memory_total_bytes, err);
	if (rc == 0)
		rc = yaml_need(node, "rates", &rates, err);
	if (rc == 0)
		rc = yaml_as_map(rates, err);
	if (rc != 0)
		return rc;
	YAML_MEMBERS(rates, k)
	{
		enum check_id id;

		rc = need_check(k, &id, err);
		if (rc == 0)
			rc = as_number(k->next, 1e-9, 1e30, "a rate above 0", &ret->rate[id], err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int read_references(struct thresholds *t, const struct yaml_node *list, struct err *err)
{
	int rc = 0;

	if (list->count > REFERENCES_MAX)
		return yaml_err(list, err, ERR_TOOBIG, "%u references, expected at most %d",
			list->count, REFERENCES_MAX);
	t->references = calloc(list->count ? list->count : 1, sizeof(*t->references));
	if (!t->references)
		return err_set(err, ERR_NOMEM, "out of memory");
	YAML_EACH(list, item)
	{
		rc = read_reference(item, &t->references[t->n_references], err);
		if (rc != 0)
			return rc;
		t->n_references++;
	}
	return 0;
}

static int read_root(struct thresholds *t, const struct yaml_node *root, struct err *err)
{
	struct yaml_node *schema, *checks = NULL, *references = NULL;
	char found[80];
	int rc = yaml_as_map(root, err);

	if (rc == 0)
		rc = yaml_known(root, err, "schema", "checks", "references", NULL);
	if (rc == 0)
		rc = yaml_need_as(root, "schema", SCHEMA, &schema, err);
	if (rc == 0 && !yaml_is_str(schema, SCHEMA))
		return yaml_err(schema, err, ERR_INVALID, "found %s, expected \"%s\"",
			yaml_found(schema, found), SCHEMA);
	if (rc == 0)
		rc = yaml_get_map(root, "checks", &checks, err);
	if (rc == 0 && checks)
		rc = read_checks(t, checks, err);
	if (rc == 0)
		rc = yaml_get_seq(root, "references", &references, err);
	if (rc == 0 && references)
		rc = read_references(t, references, err);
	return rc;
}

int thresholds_read(struct thresholds *t, const char *file, struct err *err)
{
	struct arena arena;
	struct yaml_stream docs;
	struct buf text;
	int rc;

	arena_init(&arena, YAML_ARENA_MAX);
	buf_init(&text, FILE_MAX);
	rc = read_file(file, &text, err);
	if (rc == 0)
		rc = yaml_parse(&arena, file, buf_as_slice(&text), YAML_NO_ALIASES, &docs, err);
	if (rc == 0 && docs.count != 1)
		rc = err_set(err, ERR_INVALID, "%s: %zu documents, expected one", file, docs.count);
	if (rc == 0)
		rc = read_root(t, docs.first->root, err);
	buf_release(&text);
	arena_release(&arena);
	return rc;
}

/* Rates that another run can be compared with: measured here, and not found too low. */
static bool worth_keeping(const struct check_result *r)
{
	return r && r->unit && isfinite(r->value) && r->value > 0 && r->status == STATUS_PASS &&
	       r->id != CHECK_REMOTE_RTT && r->id != CHECK_REMOTE_BANDWIDTH;
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

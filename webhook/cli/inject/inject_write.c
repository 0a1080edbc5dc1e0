/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what becomes of a manifest: new texts of files that are written in place, held until
 * nothing can be refused any more; a pod's patch as a patch of the document that the pod is in;
 * and a warning of annotations of ours that are no strings, which YAML makes of `on` and 400. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json/json_read.h"
#include "base/yaml/yaml_find.h"
#include "base/yaml/yaml_scalar.h"
#include "webhook/cli/inject/inject.h"
#include "webhook/core/pod/plan.h"

/* ---- texts ---- */

int inject_hold(struct inject_job *job, const char *path, struct slice text, struct err *err)
{
	size_t all = text.len;
	struct inject_held *grown, held;

	for (size_t i = 0; i < job->n_held; i++)
		all += job->held[i].len;
	if (all > INJECT_OUT_MAX)
		return err_set(err, ERR_TOOBIG, "%s: the output is too large", path);
	grown = realloc(job->held, (job->n_held + 1) * sizeof(grown[0]));
	if (grown)
		job->held = grown;
	held = (struct inject_held){strdup(path), malloc(text.len + 1), text.len};
	if (!grown || !held.path || !held.text) {
		free(held.path);
		free(held.text);
		return err_set(err, ERR_NOMEM, "%s: out of memory", path);
	}
	memcpy(held.text, text.at, text.len);
	job->held[job->n_held++] = held;
	return 0;
}

int inject_write_held(struct inject_job *job, struct err *err)
{
	struct err why = {0};

	for (size_t i = 0; i < job->n_held; i++) {
		const struct inject_held *h = &job->held[i];

		if (files_replace(h->path, (struct slice){h->text, h->len}, &why) != 0)
			return err_set(err, why.code, "%s; %zu of %zu changed files are written",
				why.msg, i, job->n_held);
		if (job->verbose)
			(void)fprintf(stderr, "poolgate %s: %s: written\n", job->verb, h->path);
	}
	return 0;
}

void inject_release_held(struct inject_job *job)
{
	for (size_t i = 0; i < job->n_held; i++) {
		free(job->held[i].path);
		free(job->held[i].text);
	}
	free(job->held);
}

/* ---- a pod's patch ---- */

/* Nodes of one patch. */
#define PATCH_NODES_MAX 100000

static void write_operation(
	const struct json *j, const struct json_node *op, struct slice pointer, struct buf *out)
{
	bool first = true;

	buf_char(out, '{');
	JSON_MEMBERS(j, op, k)
	{
		const struct json_node *v = json_value(k);

		if (!first)
			buf_char(out, ',');
		first = false;
		buf_slice(out, json_raw(j, k));
		buf_char(out, ':');
		if (json_is_str(j, k, SLICE("path")) && json_is(v, JSON_STRING)) {
			buf_char(out, '"');
			buf_json_esc(out, pointer);
			buf_slice(out, json_inside(j, v));
			buf_char(out, '"');
		} else {
			buf_slice(out, json_raw(j, v));
		}
	}
	buf_char(out, '}');
}

int inject_prefix_patch(struct slice patch, struct slice pointer, struct buf *out, struct err *err)
{
	struct json j;
	char *copy = NULL;
	bool first = true;
	int rc;

	json_init(&j);
	rc = json_read_copy(&j, patch.at, patch.len, PATCH_NODES_MAX, &copy, err);
	JSON_EACH(&j, json_root(&j), op)
	{
		if (!first)
			buf_char(out, ',');
		first = false;
		write_operation(&j, op, pointer, out);
	}
	json_release(&j);
	free(copy);
	return rc;
}

/* ---- warnings ---- */

static bool is_ours(struct slice name)
{
	return slice_is(name, ANN_SWITCH) || slice_is(name, ANN_STATUS) ||
	       slice_starts(name, SLICE("bitfusion-client/")) ||
	       slice_starts(name, SLICE("poolgate.io/"));
}

/* What a value is that the API server refuses; NULL for a string, and for null, which it takes for
 * an empty one. */
static const char *not_a_string(const struct yaml_node *value)
{
	struct yaml_value v;

	if (!yaml_is(value, YAML_SCALAR))
		return yaml_is(value, YAML_MAP) ? "a mapping" : "a sequence";
	if (yaml_meaning(value, &v, NULL) != 0 || v.type == YAML_STRING || v.type == YAML_NULL)
		return NULL;
	return yaml_type_name(v.type);
}

void inject_say_types(const struct inject_job *job, const struct manifest_pod *pod)
{
	const struct yaml_node *via = NULL;
	const struct yaml_node *annotations =
		yaml_follow(yaml_follow(pod->node, "metadata", &via), "annotations", &via);

	YAML_MEMBERS(annotations, key)
	{
		const struct yaml_node *value = yaml_target(key->next, &via);
		struct yaml_value name;
		const char *what = NULL;

		if (!yaml_is_merge(key) && yaml_key(key, &name, NULL) == 0 && is_ours(name.text))
			what = not_a_string(value);
		if (!what)
			continue;
		inject_say_place(job, pod, key->line);
		(void)fprintf(stderr,
			"warning: annotation %.*s is %s; the API server accepts strings alone: "
			"quote it\n",
			(int)name.text.len, name.text.at, what);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: one manifest: read, mutated pod by pod, written in the form that was asked for. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/text.h"
#include "base/yaml/yaml.h"
#include "base/yaml/yaml_find.h"
#include "base/yaml/yaml_json.h"
#include "base/yaml/yaml_patch.h"
#include "base/yaml/yaml_splice.h"
#include "webhook/cli/inject/diff.h"
#include "webhook/cli/inject/inject.h"
#include "webhook/edge/admission/engine.h"

#define TEXT_MAX (4 * (size_t)YAML_BYTES_MAX)

struct file {
	struct inject_job *job;
	const char *path;
	struct arena arena;
	struct buf text;    /* as it was read */
	struct buf patches; /* for patches: what is written */
	struct yaml_stream docs;
	bool changed;
};

static void complain(const struct file *f, const struct err *err)
{
	(void)fprintf(stderr, "poolgate %s: %s\n", f->job->verb, err->msg);
}

/* ---- reading ---- */

static int read_text(struct file *f, struct err *err)
{
	bool input = strcmp(f->path, "-") == 0;
	int fd = input ? STDIN_FILENO : open(f->path, O_RDONLY | O_CLOEXEC);
	int rc;

	if (fd < 0)
		return err_set(err, ERR_IO, "%s: %s", f->path, strerror(errno));
	rc = files_drain(fd, &f->text);
	if (rc == ERR_IO)
		(void)err_set(
			err, ERR_IO, "%s: %s", input ? "standard input" : f->path, strerror(errno));
	else if (rc != 0)
		rc = err_set(err, ERR_TOOBIG, "%s: more than %u bytes",
			input ? "standard input" : f->path, YAML_BYTES_MAX);
	if (!input)
		(void)close(fd);
	if (rc == 0)
		rc = yaml_parse(
			&f->arena, f->path, buf_as_slice(&f->text), YAML_ANY, &f->docs, err);
	return rc;
}

/* ---- pods ---- */

uint32_t inject_line(const struct manifest_pod *pod, struct slice path)
{
	const struct yaml_node *via = NULL;
	struct yaml_node *node = pod->node;
	uint32_t line = pod->line;

	while (node && path.len > 1) {
		const char *end = memchr(path.at + 1, '/', path.len - 1);
		struct slice name = {path.at + 1, (end ? (size_t)(end - path.at) : path.len) - 1};
		uint64_t index;

		line = node->line ? node->line : line;
		if (node->kind == YAML_SEQ)
			node = text_u64(name, UINT32_MAX, &index) ? yaml_at(node, index) : NULL;
		else
			node = yaml_find(node, name, &via);
		node = yaml_target(node, &via);
		path.at += name.len + 1;
		path.len -= name.len + 1;
	}
	return node && node->line ? node->line : line;
}

void inject_say_place(const struct inject_job *job, const struct manifest_pod *pod, uint32_t line)
{
	struct err text = {0};

	/* kinds and names are other people's texts; an error's message is fit for a terminal */
	err_set(&text, ERR_NONE, "%s:%u: %.*s%s%.*s", pod->node->doc->file, line,
		(int)pod->kind.len, pod->kind.at, pod->name.len ? "/" : "", (int)pod->name.len,
		pod->name.at);
	(void)fprintf(stderr, "poolgate %s: %s: ", job->verb, text.msg);
}

bool inject_is_our_fault(const struct err *err)
{
	return err->code == ERR_NOMEM || err->code == ERR_INTERNAL || err->code == ERR_IO ||
	       err->code == ERR_SYNTAX || err->code == ERR_TOOBIG;
}

static int refuse(const struct file *f, const struct manifest_pod *pod, const struct err *err)
{
	inject_say_place(f->job, pod, inject_line(pod, slice_of(err->path)));
	/* the pointer into the document is digits and our own words */
	if (err->path[0])
		(void)fprintf(
			stderr, "%.*s%s: ", (int)pod->pointer.len, pod->pointer.at, err->path);
	(void)fprintf(stderr, "%s\n", err->msg);
	return inject_is_our_fault(err) ? INJECT_UNREADABLE : INJECT_REFUSED;
}

static void say_warnings(const struct file *f, const struct manifest_pod *pod, struct slice lines)
{
	while (lines.len > 0) {
		const char *end = memchr(lines.at, '\n', lines.len);
		size_t len = end ? (size_t)(end - lines.at) : lines.len;

		inject_say_place(f->job, pod, pod->line);
		(void)fprintf(stderr, "warning: %.*s\n", (int)len, lines.at);
		lines.at += len + (end ? 1 : 0);
		lines.len -= len + (end ? 1 : 0);
	}
}

/* Ask the engine about one pod; its patch goes into patch. */
static int decide(const struct file *f, const struct manifest_pod *pod, struct buf *patch)
{
	struct buf json, warnings;
	const char *why_not = NULL;
	struct err err = {0};
	int code = INJECT_DONE, rc;

	buf_init(&json, TEXT_MAX);
	buf_init(&warnings, 65536);
	rc = yaml_to_json(pod->node, YAML_JSON_COMPACT, &json, &err);
	if (rc != 0) {
		complain(f, &err);
		code = INJECT_UNREADABLE;
	} else {
		struct slice namespace = pod->namespace.at ? pod->namespace : f->job->namespace;

		if (f->job->world)
			inject_say_types(f->job, pod);
		if (f->job->world)
			rc = engine_inject(f->job->world, buf_as_slice(&json), namespace, patch,
				&warnings, &why_not, &err);
		else
			rc = engine_uninject(buf_as_slice(&json), patch, &why_not, &err);
		say_warnings(f, pod, buf_as_slice(&warnings));
		if (rc != 0)
			code = refuse(f, pod, &err);
	}
	if (code == INJECT_DONE && why_not && f->job->verbose) {
		inject_say_place(f->job, pod, pod->line);
		(void)fprintf(stderr, "unchanged: %s\n", why_not);
	}
	buf_release(&json);
	buf_release(&warnings);
	return code;
}

/* A patch of a pod that only an alias or a merge key leads to goes by the pod's place in the
 * document, so that it is written out there. */
static int apply(struct file *f, struct yaml_doc *doc, const struct manifest_pod *pod,
	struct slice patch, bool first)
{
	struct buf placed;
	struct err err = {0};
	int rc;

	buf_init(&placed, TEXT_MAX);
	rc = inject_prefix_patch(patch, pod->pointer, &placed, &err);
	if (rc == 0 && f->job->form == INJECT_PATCH) {
		buf_str(&f->patches, first ? "" : ",");
		buf_slice(&f->patches, buf_as_slice(&placed));
	} else if (rc == 0 && pod->via) {
		struct buf whole;

		buf_init(&whole, TEXT_MAX);
		buf_char(&whole, '[');
		buf_slice(&whole, buf_as_slice(&placed));
		buf_char(&whole, ']');
		rc = yaml_patch(doc->root, buf_as_slice(&whole), &err);
		buf_release(&whole);
	} else if (rc == 0) {
		rc = yaml_patch(pod->node, patch, &err);
	}
	buf_release(&placed);
	f->changed = true;
	if (rc == 0)
		return INJECT_DONE;
	complain(f, &err);
	return INJECT_UNREADABLE;
}

/* An object that stays as it is, and what its author may have expected. */
static void say_other(const struct file *f, const struct manifest_pod *object)
{
	const struct yaml_node *key = object->stray;

	if (!f->job->world || (!key && !f->job->verbose))
		return;
	inject_say_place(f->job, object, key ? key->line : object->line);
	if (key)
		(void)fprintf(stderr,
			"warning: %.*s has no effect here: it belongs into a pod or a pod template "
			"({metadata, spec: {containers: […]}}), annotations into its metadata\n",
			(int)key->text.len, key->text.at);
	else
		(void)fputs("unchanged: no pod template in it\n", stderr);
}

/* Decide about all pods before one is changed: they may share values. */
static int change_pods(struct file *f, struct yaml_doc *doc, const struct manifest_pods *pods)
{
	struct buf *patch = calloc(pods->n, sizeof(patch[0]));
	int worst = patch ? INJECT_DONE : INJECT_UNREADABLE;
	bool first = true;

	for (size_t i = 0; patch && i < pods->n; i++) {
		int code;

		buf_init(&patch[i], TEXT_MAX);
		code = decide(f, &pods->at[i], &patch[i]);
		worst = code > worst ? code : worst;
	}
	buf_char(&f->patches, '[');
	for (size_t i = 0; patch && i < pods->n; i++) {
		if (worst == INJECT_DONE && patch[i].len > 2) { /* not empty, and not "[]" */
			worst = apply(f, doc, &pods->at[i], buf_as_slice(&patch[i]), first);
			first = false;
		}
		buf_release(&patch[i]);
	}
	buf_str(&f->patches, "]\n");
	free(patch);
	return worst;
}

static int look_at(const struct file *f, const struct manifest_pods *pods)
{
	int worst = INJECT_DONE;

	for (size_t i = 0; i < pods->n; i++) {
		int code = f->job->look(f->job, f->job->ctx, &pods->at[i]);

		worst = code > worst ? code : worst;
	}
	return worst;
}

static int change_document(struct file *f, struct yaml_doc *doc)
{
	struct manifest_pods pods = {0};
	struct err err = {0};

	if (manifest_pods(doc, &pods, &err) != 0) {
		complain(f, &err);
		return INJECT_UNREADABLE;
	}
	for (size_t i = 0; i < pods.n_others; i++)
		say_other(f, &pods.others[i]);
	if (f->job->look)
		return look_at(f, &pods);
	return pods.n > 0 ? change_pods(f, doc, &pods) : INJECT_DONE;
}

/* ---- writing ---- */

static bool read_as_json(const struct file *f)
{
	return f->docs.first && f->docs.first->json;
}

static int write_json(const struct file *f, struct buf *out, struct err *err)
{
	int rc = 0;

	for (const struct yaml_doc *doc = f->docs.first; rc == 0 && doc; doc = doc->next) {
		if (yaml_absent(doc->root))
			continue; /* nothing between two markers */
		rc = yaml_to_json(doc->root, YAML_JSON_PRETTY, out, err);
		buf_char(out, '\n');
	}
	return rc;
}

static int write_diff(struct file *f, struct slice after, struct buf *out, struct err *err)
{
	const char *name = f->docs.first ? f->docs.first->file : f->path;
	char after_name[512];

	(void)snprintf(after_name, sizeof(after_name), "%s (%sed)", name, f->job->verb);
	return diff_unified(
		buf_as_slice(&f->text), after, name, after_name, f->job->colour, out, err);
}

/* Set texts of several files apart. */
static void separate(struct inject_job *job, const struct yaml_doc *doc, struct slice *next)
{
	struct buf *out = job->out;

	if (!job->wrote || next->len == 0)
		return;
	if (slice_starts(*next, SLICE("\xef\xbb\xbf"))) /* belongs to the beginning alone */
		*next = (struct slice){next->at + 3, next->len - 3};
	if (out->len > 0 && out->data[out->len - 1] != '\n')
		buf_char(out, '\n');
	if (doc && doc->directives)
		buf_str(out, "...\n"); /* directives need the end of what is above them */
	else if (doc && !doc->start_marked)
		buf_str(out, "---\n");
}

/* What a file becomes, in the form that was asked for. */
static int make_result(struct file *f, struct buf *out, struct err *err)
{
	enum inject_form form = f->job->form;
	bool json = read_as_json(f);

	if (form == INJECT_PATCH)
		buf_slice(out, buf_as_slice(&f->patches));
	else if (form == INJECT_YAML && json)
		return yaml_from_json_text(&f->docs, out, err);
	else if (form == INJECT_JSON && !json)
		return write_json(f, out, err);
	else if (!f->changed)
		buf_slice(out, buf_as_slice(&f->text));
	else
		return yaml_splice(&f->docs, buf_as_slice(&f->text), out, err);
	return 0;
}

static int write_result(struct file *f, struct err *err)
{
	struct inject_job *job = f->job;
	bool yaml = job->form == INJECT_YAML || (job->form == INJECT_AS_READ && !read_as_json(f));
	struct buf out, diff;
	struct slice text;
	int rc;

	buf_init(&out, TEXT_MAX);
	buf_init(&diff, TEXT_MAX);
	rc = make_result(f, &out, err);
	text = buf_as_slice(&out);
	if (rc == 0 && job->form == INJECT_DIFF) {
		rc = write_diff(f, text, &diff, err);
		text = buf_as_slice(&diff);
	}
	if (rc == 0 && job->in_place) {
		if (f->changed)
			rc = inject_hold(job, f->path, text, err);
	} else if (rc == 0) {
		separate(job, yaml ? f->docs.first : NULL, &text);
		buf_slice(job->out, text);
		job->wrote = job->wrote || text.len > 0;
	}
	if (rc == 0 && (out.failed || diff.failed || job->out->failed))
		rc = err_set(err, ERR_TOOBIG, "%s: the output is too large", f->path);
	buf_release(&out);
	buf_release(&diff);
	return rc;
}

static int work(struct file *f, struct err *err)
{
	int worst = INJECT_DONE;

	if (read_text(f, err) != 0)
		return INJECT_UNREADABLE;
	for (struct yaml_doc *doc = f->docs.first; doc; doc = doc->next) {
		int code = change_document(f, doc);

		worst = code > worst ? code : worst;
	}
	if (worst == INJECT_DONE && !f->job->look && write_result(f, err) != 0)
		worst = INJECT_UNREADABLE;
	return worst;
}

int inject_file(struct inject_job *job, const char *path)
{
	struct file f = {.job = job, .path = path};
	struct err err = {0};
	int code;

	arena_init(&f.arena, YAML_ARENA_MAX);
	buf_init(&f.text, YAML_BYTES_MAX);
	buf_init(&f.patches, TEXT_MAX);
	code = work(&f, &err);
	if (err.code != ERR_NONE)
		complain(&f, &err);
	buf_release(&f.patches);
	buf_release(&f.text);
	arena_release(&f.arena);
	return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: one manifest: read, mutated pod by pod, written in the form that was asked for. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/yaml.h"
#include "base/yaml_emit.h"
#include "base/yaml_find.h"
#include "base/yaml_json.h"
#include "base/yaml_patch.h"
#include "webhook/cli/diff.h"
#include "webhook/cli/inject.h"
#include "webhook/edge/engine.h"

#define TEXT_MAX (4 * (size_t)YAML_BYTES_MAX)

struct file {
	struct inject_job *job;
	const char *path;
	struct arena arena;
	struct buf text;    /* as it was read */
	struct buf before;  /* for a diff: as we would write it unchanged */
	struct buf patches; /* for patches: what is written */
	struct yaml_stream docs;
	bool changed;
};

static void complain(const struct file *f, const struct err *err)
{
	(void)fprintf(stderr, "poolgate %s: %s\n", f->job->verb, err->msg);
}

/* ---- reading ---- */

static int read_all(int fd, const char *path, struct buf *out, struct err *err)
{
	for (;;) {
		ssize_t n;

		if (!buf_reserve(out, 65536))
			return err_set(
				err, ERR_TOOBIG, "%s: more than %u bytes", path, YAML_BYTES_MAX);
		n = read(fd, out->data + out->len, 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, ERR_IO, "%s: %s", path, strerror(errno));
		if (n == 0)
			return 0;
		out->len += (size_t)n;
		out->data[out->len] = '\0';
	}
}

static int read_text(struct file *f, struct err *err)
{
	bool input = strcmp(f->path, "-") == 0;
	int fd = input ? STDIN_FILENO : open(f->path, O_RDONLY | O_CLOEXEC);
	int rc;

	if (fd < 0)
		return err_set(err, ERR_IO, "%s: %s", f->path, strerror(errno));
	rc = read_all(fd, input ? "standard input" : f->path, &f->text, err);
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

static int refuse(const struct file *f, const struct manifest_pod *pod, const struct err *err)
{
	bool our_fault = err->code == ERR_NOMEM || err->code == ERR_INTERNAL ||
			 err->code == ERR_IO || err->code == ERR_SYNTAX || err->code == ERR_TOOBIG;

	inject_say_place(f->job, pod, inject_line(pod, slice_of(err->path)));
	/* the pointer into the document is digits and our own words */
	if (err->path[0])
		(void)fprintf(
			stderr, "%.*s%s: ", (int)pod->pointer.len, pod->pointer.at, err->path);
	(void)fprintf(stderr, "%s\n", err->msg);
	return our_fault ? INJECT_UNREADABLE : INJECT_REFUSED;
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

static int apply(struct file *f, const struct manifest_pod *pod, struct slice patch)
{
	struct err err = {0};
	int rc = 0;

	if (pod->via)
		rc = yaml_err(pod->via, &err, ERR_REFUSED,
			"%s leads to the pod of %.*s %.*s, which must be changed; write it out "
			"there",
			pod->via->kind == YAML_ALIAS ? "an alias" : "a merge key",
			(int)pod->kind.len, pod->kind.at, (int)pod->name.len, pod->name.at);
	if (rc == 0 && f->job->form == INJECT_PATCH) {
		if (f->changed && f->patches.len > 0 && f->patches.data[f->patches.len - 1] != '[')
			buf_char(&f->patches, ',');
		rc = inject_prefix_patch(patch, pod->pointer, &f->patches, &err);
	}
	if (rc == 0)
		rc = yaml_patch(pod->node, patch, &err);
	f->changed = true;
	if (rc == 0)
		return INJECT_DONE;
	complain(f, &err);
	return rc == ERR_REFUSED ? INJECT_REFUSED : INJECT_UNREADABLE;
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

static int change_document(struct file *f, struct yaml_doc *doc)
{
	struct manifest_pods pods = {0};
	struct err err = {0};
	int worst = INJECT_DONE;

	if (manifest_pods(doc, &pods, &err) != 0) {
		complain(f, &err);
		return INJECT_UNREADABLE;
	}
	for (size_t i = 0; i < pods.n_others; i++)
		say_other(f, &pods.others[i]);
	if (pods.n > 0)
		buf_char(&f->patches, '[');
	for (size_t i = 0; i < pods.n; i++) {
		struct buf patch;
		int code;

		buf_init(&patch, TEXT_MAX);
		code = decide(f, &pods.at[i], &patch);
		if (code == INJECT_DONE && patch.len > 2) /* not empty, and not "[]" */
			code = apply(f, &pods.at[i], buf_as_slice(&patch));
		buf_release(&patch);
		worst = code > worst ? code : worst;
	}
	if (pods.n > 0)
		buf_str(&f->patches, "]\n");
	return worst;
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
		const struct yaml_node *root = doc->root;
		/* JSON on one line stays on one line */
		bool one_line = doc->json && root->first && root->first->line == root->line;

		if (yaml_absent(root))
			continue; /* nothing between two markers */
		rc = yaml_to_json(root, one_line ? YAML_JSON_COMPACT : YAML_JSON_PRETTY, out, err);
		buf_char(out, '\n');
	}
	return rc;
}

/* What was written must read as what was meant: a manifest is no place for a guess. */
static int check_written(struct file *f, struct slice written, struct err *err)
{
	struct yaml_stream again;
	struct arena arena;
	int rc;

	arena_init(&arena, YAML_ARENA_MAX);
	rc = yaml_parse(&arena, f->path, written, YAML_ANY, &again, err);
	if (rc != 0 || !yaml_same_streams(&f->docs, &again))
		rc = err_set(err, ERR_INTERNAL,
			"%s: cannot be written back exactly as it was read; -o json and -o patch "
			"can",
			f->path);
	arena_release(&arena);
	return rc;
}

static bool has_crlf(struct slice text)
{
	const char *end = text.len ? memchr(text.at, '\n', text.len) : NULL;

	return end && end > text.at && end[-1] == '\r';
}

static int write_yaml(struct file *f, struct buf *out, struct err *err)
{
	struct buf plain;
	int rc;

	buf_init(&plain, TEXT_MAX);
	rc = yaml_emit(&f->docs, &plain, err);
	if (rc == 0)
		rc = check_written(f, buf_as_slice(&plain), err);
	if (rc == 0 && has_crlf(buf_as_slice(&f->text))) {
		for (size_t i = 0; i < plain.len; i++) {
			if (plain.data[i] == '\n')
				buf_char(out, '\r');
			buf_char(out, plain.data[i]);
		}
	} else if (rc == 0) {
		buf_slice(out, buf_as_slice(&plain));
	}
	buf_release(&plain);
	return rc;
}

static int write_diff(struct file *f, struct buf *out, struct err *err)
{
	const char *name = f->docs.first ? f->docs.first->file : f->path;
	struct buf after;
	char after_name[512];
	int rc;

	buf_init(&after, TEXT_MAX);
	(void)snprintf(after_name, sizeof(after_name), "%s (%sed)", name, f->job->verb);
	rc = read_as_json(f) ? write_json(f, &after, err) : yaml_emit(&f->docs, &after, err);
	if (rc == 0)
		rc = diff_unified(
			buf_as_slice(&f->before), buf_as_slice(&after), name, after_name, out, err);
	buf_release(&after);
	return rc;
}

/* Set texts of several files apart. */
static void separate(struct inject_job *job, bool yaml, struct slice next)
{
	bool marked = slice_starts(next, SLICE("---"));
	struct buf *out = job->out;

	if (!job->wrote || next.len == 0)
		return;
	if (out->len > 0 && out->data[out->len - 1] != '\n')
		buf_char(out, '\n');
	if (yaml && slice_starts(next, SLICE("%")))
		buf_str(out, "...\n"); /* directives need the end of what is above them */
	else if (yaml && !marked)
		buf_str(out, "---\n");
}

static int write_result(struct file *f, struct err *err)
{
	struct inject_job *job = f->job;
	bool json = job->form == INJECT_JSON || (job->form == INJECT_AS_READ && read_as_json(f));
	bool manifest = job->form != INJECT_PATCH && job->form != INJECT_DIFF;
	struct slice text = buf_as_slice(&f->text);
	struct buf out;
	int rc = 0;

	buf_init(&out, TEXT_MAX);
	if (job->form == INJECT_PATCH)
		buf_slice(&out, buf_as_slice(&f->patches));
	else if (job->form == INJECT_DIFF)
		rc = write_diff(f, &out, err);
	else if (!f->changed && json == read_as_json(f))
		buf_slice(&out, text);
	else
		rc = json ? write_json(f, &out, err) : write_yaml(f, &out, err);
	if (rc == 0) {
		separate(job, manifest && !json, buf_as_slice(&out));
		buf_slice(job->out, buf_as_slice(&out));
		job->wrote = job->wrote || out.len > 0;
		if (out.failed || job->out->failed)
			rc = err_set(err, ERR_TOOBIG, "%s: the output is too large", f->path);
	}
	buf_release(&out);
	return rc;
}

static int work(struct file *f, struct err *err)
{
	int worst = INJECT_DONE;

	if (read_text(f, err) != 0)
		return INJECT_UNREADABLE;
	if (f->job->form == INJECT_DIFF &&
		(read_as_json(f) ? write_json(f, &f->before, err)
				 : yaml_emit(&f->docs, &f->before, err)) != 0)
		return INJECT_UNREADABLE;
	for (struct yaml_doc *doc = f->docs.first; doc; doc = doc->next) {
		int code = change_document(f, doc);

		worst = code > worst ? code : worst;
	}
	if (worst == INJECT_DONE && write_result(f, err) != 0)
		worst = INJECT_UNREADABLE;
	return worst;
}

int inject_file(struct inject_job *job, const char *path)
{
	struct file f = {.job = job, .path = path};
	struct err err = {0};
	int code;

	arena_init(&f.arena, YAML_ARENA_MAX);
	buf_init(&f.text, YAML_BYTES_MAX + 65536);
	buf_init(&f.before, TEXT_MAX);
	buf_init(&f.patches, TEXT_MAX);
	code = work(&f, &err);
	if (err.code != ERR_NONE)
		complain(&f, &err);
	buf_release(&f.patches);
	buf_release(&f.before);
	buf_release(&f.text);
	arena_release(&f.arena);
	return code;
}

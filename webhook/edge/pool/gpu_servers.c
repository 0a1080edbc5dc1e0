/* SPDX-License-Identifier: Apache-2.0 */
/* edge: files and directories of GPUServer documents. */
#include "webhook/edge/pool/gpu_servers_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/files.h"

void gpu_servers_warn(struct loader *l, const struct declared *d, const char *fmt, ...)
{
	char text[512];
	va_list args;

	if (!l->warnings)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	buf_fmt(l->warnings, "%s:%u: %s\n", d->file, (unsigned)d->line, text);
}

static int by_name(const void *a, const void *b)
{
	const struct declared *x = a, *y = b;

	return strcmp(x->server.name, y->server.name);
}

/* Rule R15: its GPUs would be promised twice. */
static int refuse_twins(const struct loader *l, struct inventory *inv, struct err *err)
{
	bool any;
	int rc = inventory_find_twins(inv, l->arena, &any, err);

	for (size_t i = 0; rc == 0 && any && i < l->n; i++)
		if (inv->servers[i].twin)
			rc = err_set(err, ERR_INVALID,
				"%s:%u: /spec/address: found \"%.80s\", expected another address "
				"than every other GPUServer's: %s",
				l->list[i].file, (unsigned)l->list[i].line, inv->servers[i].address,
				inv->servers[i].twin);
	return rc;
}

/* Sort, look for names that come twice, and hand over. */
static int finish(struct loader *l, struct inventory *ret, struct err *err)
{
	struct gpu_server *servers = arena_array(l->arena, l->n, sizeof(*servers));
	struct inventory inv;
	size_t n_gpus = 0;
	int rc;

	if (!servers)
		return err_set(err, ERR_NOMEM, "out of memory while reading GPU servers");
	if (l->n > 1)
		qsort(l->list, l->n, sizeof(*l->list), by_name);
	for (size_t i = 0; i < l->n; i++) {
		const struct declared *d = &l->list[i];

		if (i > 0 && strcmp(d->server.name, d[-1].server.name) == 0)
			return err_set(err, ERR_INVALID,
				"%s:%u: /metadata/name: \"%.80s\" is the name of the GPUServer at "
				"%s:%u, too: names must be unique",
				d->file, (unsigned)d->line, d->server.name, d[-1].file,
				(unsigned)d[-1].line);
		servers[i] = d->server;
		servers[i].first_gpu = n_gpus;
		n_gpus += d->server.n_gpus;
	}
	inv = (struct inventory){.servers = servers, .n_servers = l->n, .n_gpus = n_gpus};
	rc = refuse_twins(l, &inv, err);
	if (rc == 0)
		*ret = inv;
	return rc;
}

/* All documents of a text into the list. The tree goes, what is kept of it was copied. */
static int read_text(struct loader *l, struct slice text, const char *name, struct err *err)
{
	struct yaml_stream stream;
	struct arena tree;
	bool any = false;
	int rc;

	arena_init(&tree, YAML_ARENA_MAX);
	rc = yaml_parse(&tree, name, text, YAML_NO_ALIASES, &stream, err);
	for (struct yaml_doc *doc = rc == 0 ? stream.first : NULL; doc && rc == 0;
		doc = doc->next) {
		any |= !yaml_absent(doc->root);
		rc = gpu_servers_read(l, doc, err);
	}
	/* An empty file is more likely half written than meant: a pool that shall be empty says
	 * `items: []`. */
	if (rc == 0 && !any)
		rc = err_set(err, ERR_INVALID,
			"%s: holds no document; expected GPUServers (" GPU_SERVERS_API
			") or a List of them",
			name);
	arena_release(&tree);
	return rc;
}

static int read_file(struct loader *l, const char *path, struct err *err)
{
	struct buf text;
	int rc;

	buf_init(&text, YAML_BYTES_MAX);
	rc = files_read(path, &text, err);
	if (rc == 0)
		rc = read_text(l, buf_as_slice(&text), path, err);
	buf_release(&text);
	return rc;
}

int gpu_servers_load(const char *path, struct arena *a, struct inventory *ret, struct buf *warnings,
	struct err *err)
{
	struct loader l = {.arena = a, .warnings = warnings};
	struct file_list files;
	int rc = files_list(path, a, &files, err);

	if (rc == 0 && files.n == 0)
		rc = err_set(
			err, ERR_INVALID, "%s holds no file named *.yaml, *.yml or *.json", path);
	for (size_t i = 0; rc == 0 && i < files.n; i++)
		rc = read_file(&l, files.path[i], err);
	if (rc == 0)
		rc = finish(&l, ret, err);
	free(l.list);
	return rc;
}

int gpu_servers_parse(struct slice text, const char *name, struct arena *a, struct inventory *ret,
	struct buf *warnings, struct err *err)
{
	struct loader l = {.arena = a, .warnings = warnings};
	int rc = read_text(&l, text, name, err);

	if (rc == 0)
		rc = finish(&l, ret, err);
	free(l.list);
	return rc;
}

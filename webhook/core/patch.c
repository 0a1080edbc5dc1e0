/* SPDX-License-Identifier: Apache-2.0 */
/* core: write JSON patch operations. */
#include "webhook/core/patch.h"

void patch_begin(struct patch *p, struct buf *out)
{
	p->out = out;
	p->n = 0;
}

void patch_end(struct patch *p)
{
	if (p->n > 0)
		buf_char(p->out, ']');
}

/* False when there is no path. */
static bool start(struct patch *p, struct slice op, const char *path)
{
	if (!path) {
		p->out->failed = true;
		return false;
	}
	buf_slice(p->out, p->n++ == 0 ? SLICE("[{\"op\":\"") : SLICE(",{\"op\":\""));
	buf_slice(p->out, op);
	buf_slice(p->out, SLICE("\",\"path\":\""));
	buf_str(p->out, path);
	return true;
}

static void add_index(struct patch *p, size_t index)
{
	buf_char(p->out, '/');
	buf_u64(p->out, index);
}

static void add_key(struct patch *p, struct slice key)
{
	if (!key.at)
		return;
	buf_char(p->out, '/');
	buf_pointer_seg(p->out, key);
}

void patch_open(struct patch *p, const char *op, const char *path, struct slice key)
{
	if (!start(p, slice_of(op), path))
		return;
	add_key(p, key);
	buf_slice(p->out, SLICE("\",\"value\":"));
}

void patch_open_at(
	struct patch *p, const char *op, const char *path, size_t index, struct slice key)
{
	if (!start(p, slice_of(op), path))
		return;
	add_index(p, index);
	add_key(p, key);
	buf_slice(p->out, SLICE("\",\"value\":"));
}

void patch_close(struct patch *p)
{
	buf_char(p->out, '}');
}

void patch_add(struct patch *p, const char *path, struct slice key, struct slice value)
{
	patch_open(p, "add", path, key);
	buf_slice(p->out, value);
	patch_close(p);
}

void patch_replace(struct patch *p, const char *path, struct slice key, struct slice value)
{
	patch_open(p, "replace", path, key);
	buf_slice(p->out, value);
	patch_close(p);
}

void patch_remove(struct patch *p, const char *path, struct slice key)
{
	if (!start(p, SLICE("remove"), path))
		return;
	add_key(p, key);
	buf_slice(p->out, SLICE("\"}"));
}

void patch_remove_at(struct patch *p, const char *path, size_t index, struct slice key)
{
	if (!start(p, SLICE("remove"), path))
		return;
	add_index(p, index);
	add_key(p, key);
	buf_slice(p->out, SLICE("\"}"));
}

void patch_add_str(struct patch *p, const char *path, struct slice key, struct slice value)
{
	patch_open(p, "add", path, key);
	buf_json_str(p->out, value);
	patch_close(p);
}

void patch_add_at(struct patch *p, const char *path, size_t index, struct slice value)
{
	patch_open_at(p, "add", path, index, (struct slice){0});
	buf_slice(p->out, value);
	patch_close(p);
}

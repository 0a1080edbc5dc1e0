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

static void start(struct patch *p, const char *op, const char *path)
{
	buf_str(p->out, p->n++ == 0 ? "[{\"op\":\"" : ",{\"op\":\"");
	buf_str(p->out, op);
	buf_str(p->out, "\",\"path\":\"");
	buf_str(p->out, path);
}

static void key_and_value(struct patch *p, struct slice key)
{
	if (key.at) {
		buf_char(p->out, '/');
		buf_pointer_seg(p->out, key);
	}
	buf_str(p->out, "\",\"value\":");
}

void patch_open(struct patch *p, const char *op, const char *path, struct slice key)
{
	start(p, op, path);
	key_and_value(p, key);
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
	start(p, "remove", path);
	if (key.at) {
		buf_char(p->out, '/');
		buf_pointer_seg(p->out, key);
	}
	buf_str(p->out, "\"}");
}

void patch_add_str(struct patch *p, const char *path, struct slice key, struct slice value)
{
	patch_open(p, "add", path, key);
	buf_json_str(p->out, value);
	patch_close(p);
}

void patch_add_at(struct patch *p, const char *path, size_t index, struct slice value)
{
	start(p, "add", path);
	buf_char(p->out, '/');
	buf_u64(p->out, index);
	buf_str(p->out, "\",\"value\":");
	buf_slice(p->out, value);
	patch_close(p);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* core: write JSON patch operations. */
#include "webhook/core/review/patch.h"

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

static char *put(char *at, const char *bytes, size_t len)
{
	memcpy(at, bytes, len);
	return at + len;
}

#define PUT(at, lit) put(at, lit, sizeof(lit) - 1)

/* False when there is no path, or no room. */
static bool start(struct patch *p, const char *op, const char *path)
{
	size_t op_len = strlen(op), path_len = path ? strlen(path) : 0;
	size_t len = sizeof("[{\"op\":\"\",\"path\":\"") - 1 + op_len + path_len;
	char *at;

	if (!path)
		p->out->failed = true;
	/* A patch has many operations: ask for room once for all that each begins with. */
	if (!path || (!buf_has_room(p->out, len) && !buf_reserve(p->out, len)))
		return false;
	at = p->out->data + p->out->len;
	at = p->n++ == 0 ? PUT(at, "[{\"op\":\"") : PUT(at, ",{\"op\":\"");
	at = put(at, op, op_len);
	at = PUT(at, "\",\"path\":\"");
	at = put(at, path, path_len);
	*at = '\0';
	p->out->len += len;
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
	if (!start(p, op, path))
		return;
	add_key(p, key);
	buf_slice(p->out, SLICE("\",\"value\":"));
}

void patch_open_at(
	struct patch *p, const char *op, const char *path, size_t index, struct slice key)
{
	if (!start(p, op, path))
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

void patch_remove(struct patch *p, const char *path, struct slice key)
{
	if (!start(p, "remove", path))
		return;
	add_key(p, key);
	buf_slice(p->out, SLICE("\"}"));
}

void patch_remove_at(struct patch *p, const char *path, size_t index, struct slice key)
{
	if (!start(p, "remove", path))
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

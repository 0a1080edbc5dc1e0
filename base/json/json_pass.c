/* SPDX-License-Identifier: Apache-2.0 */
/* base: what a pass of the strict JSON reader seldom does. */
#include "base/json/json_pass.h"

#include <stdlib.h>
#include <string.h>

#include "base/json/json_string.h"

uint32_t json_grow_nodes(const struct json_pass *r, size_t p)
{
	uint32_t cap = r->j->cap < JSON_FIRST_NODES ? JSON_FIRST_NODES : r->j->cap;
	struct json_node *node;

	if (r->j->cap >= r->max) {
		err_set(r->src.err, ERR_TOOBIG,
			"at byte %zu: more than %u values and keys, which is the most accepted", p,
			r->max);
		return 0;
	}
	if (r->j->cap >= JSON_FIRST_NODES)
		cap = cap < JSON_NODES_MAX / 2 ? cap * 2 : JSON_NODES_MAX;
	if (cap > r->max)
		cap = r->max;
	node = realloc(r->j->node, cap * sizeof(*node));
	if (!node) {
		json_refuse(&r->src, ERR_NOMEM, r->src.text + p,
			"no memory for the nodes of this document");
		return 0;
	}
	r->j->node = node;
	r->j->cap = cap;
	return cap;
}

bool json_grow_hashes(struct json_pass *r)
{
	uint32_t cap = r->hash_cap * 2; /* hashes are fewer than nodes: no overflow */
	uint64_t *old = r->hash == r->first_hash ? NULL : r->hash;
	uint64_t *hash = realloc(old, cap * sizeof(*hash));

	if (!hash) {
		err_set(r->src.err, ERR_NOMEM, "no memory for the hashes of %u keys", cap);
		return false;
	}
	if (!old)
		memcpy(hash, r->first_hash, sizeof(r->first_hash));
	r->hash = hash;
	r->hash_cap = cap;
	return true;
}

struct json_odd_string json_read_odd_string(
	struct json_pass *r, size_t open, const uint32_t *quote, const uint32_t *odd)
{
	const char *text = r->src.text, *p = text + open + 1;
	unsigned holds = 0;

	for (;;) {
		size_t end;

		if (*quote == open)
			quote++;
		end = *quote;
		for (; *odd < end && *odd != JSON_NO_ODD; odd++) {
			const char *at = text + *odd;

			/* Before the string, or part of what was read with the last. */
			if (at < p)
				continue;
			if (*at == '\\' && (at[1] == '"' || at[1] == '\\')) {
				holds |= JSON_ESCAPED;
				p = at + 2;
				continue;
			}
			p = json_string_odd(&r->src, text + open, at, &holds);
			if (!p)
				return (struct json_odd_string){0};
		}
		if (end != JSON_NO_QUOTE)
			return (struct json_odd_string){end, quote + 1, odd, holds};
		if (!json_index_next(&r->index)) {
			json_refuse_byte(&r->src, r->src.end, text + open);
			return (struct json_odd_string){0};
		}
		quote = r->index.quote;
		odd = r->index.odd;
	}
}

/* Two spellings of a key must have one hash. It is of the key spelled with a backslash before each
 * quote and backslash, and nothing else escaped: as most keys of managedFields stand there already.
 * This one, its quotes at open and end, does not, so it is spelled anew. */
const uint64_t *json_hash_odd(struct json_pass *r, size_t open, size_t end)
{
	size_t len = end - open + 1, room = len + JSON_SLACK, n, m = 0;
	char *out;

	if (!buf_reserve(&r->key, 3 * room)) {
		err_set(r->src.err, ERR_NOMEM, "no memory for a key of %zu bytes", len);
		return NULL;
	}
	n = json_unescape(r->src.text + open + 1, r->src.text + end, r->key.data);
	out = r->key.data + room;
	for (size_t i = 0; i < n; i++) {
		char c = r->key.data[i];

		if (c == '"' || c == '\\')
			out[m++] = '\\';
		out[m++] = c;
	}
	r->odd_hash = json_hash(r->seed, out, m);
	return &r->odd_hash;
}

bool json_check_narrow(const struct json_pass *r, const struct json_level *object, uint32_t key,
	uint64_t h, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (r->hash[object->first + i] == h &&
			json_keys_compare(r->j, object->node, key, r->src.err) < 0)
			return false;
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* base: what one pass of the strict JSON reader has, and what it seldom does: room, strings with
 * escapes or non-ASCII characters, keys whose hashes meet. For json_read.c alone. */
#ifndef BASE_JSON_JSON_PASS_H
#define BASE_JSON_JSON_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json/json_index.h"
#include "base/json/json_keys.h"
#include "base/json/json_read.h"
#include "base/json/json_refuse.h"

/* In an object of up to so many keys a new key is looked for among those before it; a wider one is
 * checked at its end. */
#define JSON_NARROW_KEYS 32
/* Hashes of open objects that need no allocation; the open objects of a pod's review hold fewer. */
#define JSON_FIRST_HASHES 256
#define JSON_FIRST_NODES 512
/* More the count of a node cannot say. */
#define JSON_NODES_MAX ((1U << 28) - 1)

/* An open array or object. */
struct json_level {
	uint32_t node;
	uint32_t count; /* of an array: elements so far; an object's hashes are counted */
	uint32_t first; /* of an object: where its keys' hashes begin */
	bool object;
	uint64_t seen; /* of an object: bit h % 64 is set for each hash h */
};

/* What one pass has. The json's text and node are right at any time, its count at the end. */
struct json_pass {
	struct json *j;
	struct json_source src;
	uint32_t max; /* nodes that are allowed */
	struct json_seed seed;
	uint64_t *hash; /* of the keys of all open objects, the innermost last */
	uint32_t hash_cap;
	struct buf key; /* room for a key with its escapes decoded; its len stays 0 */
	uint64_t odd_hash;
	struct json_index index;
	struct json_level level[JSON_DEPTH_MAX + 1]; /* the first stands for none */
	uint64_t first_hash[JSON_FIRST_HASHES];
};

/* Make room for more nodes than the json has room for: the new room, or 0 with the error set
 * (ERR_NOMEM, ERR_TOOBIG). A value stands at byte p. */
uint32_t json_grow_nodes(const struct json_pass *r, size_t p);

/* Make room for more hashes. False with the error set: ERR_NOMEM. */
bool json_grow_hashes(struct json_pass *r);

/* A string that is more than its ends. */
struct json_odd_string {
	size_t end;                  /* the closing quote; 0: refused */
	const uint32_t *quote, *odd; /* of the index, behind it */
	unsigned holds;              /* JSON_ESCAPED, JSON_ODD */
};

/* Read the string whose opening quote is byte open and that holds odd bytes or ends in another
 * window. quote and odd are the first of the index that were not passed yet. Refuses with
 * ERR_SYNTAX. */
struct json_odd_string json_read_odd_string(
	struct json_pass *r, size_t open, const uint32_t *quote, const uint32_t *odd);

/* The hash of a key that holds JSON_ODD, its quotes at bytes open and end: that of its other
 * spellings. It is the pass's and lasts until the next call. NULL with the error set: ERR_NOMEM. */
const uint64_t *json_hash_odd(struct json_pass *r, size_t open, size_t end);

/* Is the key at node index key, whose hash is h, another than each of the n before it in its
 * object? If not, the error is set: ERR_SYNTAX, ERR_NOMEM. */
bool json_check_narrow(const struct json_pass *r, const struct json_level *object, uint32_t key,
	uint64_t h, uint32_t n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* base: the strict reader for JSON that comes from outside. One pass checks everything and notes
 * where each value stands; nothing is copied, so numbers and strings keep their spelling and can go
 * into a patch as they are. */
#ifndef BASE_JSON_JSON_READ_H
#define BASE_JSON_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* Bytes that the caller provides behind the text, all zero: they replace bounds checks. */
#define JSON_PAD 16
/* More than any Kubernetes object needs (a CRD schema reaches about 40); bounds the stacks of every
 * reader. */
#define JSON_DEPTH_MAX 64

enum json_type {
	JSON_NULL,
	JSON_FALSE,
	JSON_TRUE,
	JSON_NUMBER,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT
};

/* One value, in the order of the text. An object's members are a key node (JSON_STRING) followed by
 * its value node. */
struct json_node {
	uint32_t at;          /* offset of the first byte; of a string, of its opening quote */
	uint32_t len;         /* bytes of the whole value, a string's quotes included */
	uint32_t next;        /* index of the node after this value and all that is in it */
	uint32_t type : 3;    /* enum json_type */
	uint32_t escaped : 1; /* a string that holds a backslash */
	uint32_t count : 28;  /* members of an object, elements of an array */
};

/* A read document. text and node are borrowed by everything that points into it. */
struct json {
	const char *text;
	size_t len;
	struct json_node *node; /* node[0] is the root; owned, kept between reads so that a worker
				   allocates once */
	uint32_t count;
	uint32_t cap;
};

/* An empty reader: zero it (`= {0}`) or call this. */
void json_init(struct json *j);

/* Free the nodes. Does not touch the text. */
void json_release(struct json *j);

/* Read text[0..len), behind which JSON_PAD zero bytes must stand. At most max_nodes values (keys
 * count). Refused, with the byte offset in err: anything RFC 8259 refuses, a BOM, bytes behind the
 * value, bad UTF-8, lone surrogates, \u0000, duplicate keys (after decoding escapes) in any object,
 * numbers that overflow a double (1e400), depth over JSON_DEPTH_MAX. ERR_SYNTAX, ERR_TOOBIG (nodes,
 * depth) or ERR_NOMEM; j then holds no nodes (count 0). */
int json_read(struct json *j, const char *text, size_t len, uint32_t max_nodes, struct err *err);

/* As json_read, for text without the padding: copies it; *ret_copy (NUL-terminated, padded) is the
 * caller's to free() after the last use of j, and is NULL on error. */
int json_read_copy(struct json *j, const char *text, size_t len, uint32_t max_nodes,
	char **ret_copy, struct err *err);

/* ---- looking into what was read; what is called for each member of wide objects is inline ---- */

/* The root, or NULL when nothing was read. */
static inline const struct json_node *json_root(const struct json *j)
{
	return j->count > 0 ? j->node : NULL;
}

/* v is not NULL and of this type. */
static inline bool json_is(const struct json_node *v, enum json_type type)
{
	return v && v->type == type;
}

/* NULL or JSON null: Kubernetes treats both as absent. */
static inline bool json_absent(const struct json_node *v)
{
	return !v || v->type == JSON_NULL;
}

/* Walk: the first element of an array or the first KEY of an object, NULL when empty or v is NULL
 * or neither. */
static inline const struct json_node *json_first(const struct json *j, const struct json_node *v)
{
	(void)j;
	return v && (v->type == JSON_ARRAY || v->type == JSON_OBJECT) && v->count > 0 ? v + 1
										      : NULL;
}

/* The node after `at` within parent: the next element, or, when at is a key's VALUE, the next key.
 * NULL at the end. */
static inline const struct json_node *json_next(
	const struct json *j, const struct json_node *parent, const struct json_node *at)
{
	return at->next < parent->next ? &j->node[at->next] : NULL;
}

/* The value that belongs to a key node. */
static inline const struct json_node *json_value(const struct json_node *key)
{
	return key + 1;
}

/* for each element e of array v (nothing when v is NULL or no array) */
#define JSON_EACH(j, v, e)                                                                         \
	for (const struct json_node *e##_in = (v), *e = json_is(e##_in, JSON_ARRAY)                \
								? json_first(j, e##_in)            \
								: NULL;                            \
		e; e = json_next(j, e##_in, e))
/* for each member of object v: k is the key node, json_value(k) its value */
#define JSON_MEMBERS(j, v, k)                                                                      \
	for (const struct json_node *k##_in = (v), *k = json_is(k##_in, JSON_OBJECT)               \
								? json_first(j, k##_in)            \
								: NULL;                            \
		k; k = json_next(j, k##_in, json_value(k)))

/* The value of a member, or NULL when v is NULL, no object, or has no such key. Case matters. Keys
 * with escapes are compared decoded. Looks through the members in order: walk wide objects with
 * json_first/json_next instead. */
const struct json_node *json_get(const struct json *j, const struct json_node *v, struct slice key);

/* json_get along a path: json_path(j, v, "spec", "containers", NULL). */
const struct json_node *json_path(const struct json *j, const struct json_node *v, ...)
	__attribute__((sentinel));

/* The element of an array of objects whose member `key` is the string `value`; NULL when there is
 * none. The last one when `last`. *ret_index (may be NULL): its index. */
const struct json_node *json_find(const struct json *j, const struct json_node *array,
	const char *key, struct slice value, bool last, size_t *ret_index);

/* An element that json_find_each found: NULL for none. */
struct json_hit {
	const struct json_node *node;
	size_t index;
};

/* json_find for n names in one pass: hits[i] is what json_find(j, array, key, names[i], last)
 * finds. However many names there are, an element costs the logarithm of their number. The arena
 * gives room for an order of the names. 0 or ERR_NOMEM. */
int json_find_each(const struct json *j, const struct json_node *array, const char *key,
	const struct slice *names, size_t n, bool last, struct arena *a, struct json_hit *hits);

/* The value as it is spelled, quotes included. Absent slice for NULL. */
static inline struct slice json_raw(const struct json *j, const struct json_node *v)
{
	return v ? (struct slice){j->text + v->at, v->len} : (struct slice){NULL, 0};
}

/* The inside of a string as it is spelled: equal to its value unless v->escaped. Absent for NULL or
 * no string. */
static inline struct slice json_inside(const struct json *j, const struct json_node *v)
{
	return json_is(v, JSON_STRING) ? (struct slice){j->text + v->at + 1, v->len - 2}
				       : (struct slice){NULL, 0};
}

/* json_spells of a string that holds escapes. */
bool json_is_str_escaped(const struct json *j, const struct json_node *v, struct slice value);

/* json_is_str of what is known to be a string, such as a key. */
static inline bool json_spells(const struct json *j, const struct json_node *v, struct slice value)
{
	if (v->escaped)
		return json_is_str_escaped(j, v, value);
	return v->len == value.len + 2 && bytes_eq(j->text + v->at + 1, value.at, value.len);
}

/* Is v a string (a key too) with this value, escapes decoded? */
static inline bool json_is_str(const struct json *j, const struct json_node *v, struct slice value)
{
	return json_is(v, JSON_STRING) && json_spells(j, v, value);
}

/* Append a string's decoded value (escapes resolved, UTF-8). Nothing for other types. */
void json_decode(const struct json *j, const struct json_node *v, struct buf *out);
/* A string's decoded value: points into the text when it holds no escapes, else into the arena.
 * Absent slice for NULL, no string, or when the arena ran out (it remembers that). */
struct slice json_str(const struct json *j, const struct json_node *v, struct arena *a);
/* An integral number within ±2^53, also spelled 1e3 or 2.0. False for anything else. */
bool json_int(const struct json *j, const struct json_node *v, int64_t *ret);
/* "array", "object", "string", "number", "true", "false", "null"; "nothing" for NULL. For messages.
 */
const char *json_type_name(const struct json_node *v);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* base: the one pass of the strict JSON reader: checks every byte and notes where each value stands. */
#include "base/json_read.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_keys.h"
#include "base/json_number.h"
#include "base/json_refuse.h"
#include "base/json_scan.h"
#include "base/json_string.h"

/* In an object of up to so many keys a new key is looked for among those before it; a wider one is checked at its end. */
#define NARROW_KEYS 32
/* Hashes of open objects that need no allocation; the open objects of a pod's review hold fewer. */
#define FIRST_HASHES 256
#define FIRST_NODES 512
/* More the count of a node cannot say. */
#define NODES_MAX ((1U << 28) - 1)

/* An open array or object. */
struct level {
	uint32_t node;
	uint32_t count;
	uint32_t first; /* of an object: where its keys' hashes begin */
	bool object;
	uint64_t seen; /* of an object: bit h % 64 is set for each hash h */
};

struct pass {
	struct json *j; /* its text and node are right at any time, its count at the end */
	struct json_source src;
	struct json_node *node;
	uint32_t count;
	uint32_t limit; /* nodes there is room for */
	uint32_t max;   /* nodes that are allowed */
	uint32_t depth;
	struct json_seed seed;
	uint64_t *hash; /* of the keys of all open objects, the innermost last */
	uint32_t hashes;
	uint32_t hash_cap;
	unsigned holds; /* of the string that was read last: JSON_ESCAPED, JSON_ODD */
	struct buf key; /* room for a key with its escapes decoded; its len stays 0 */
	struct level level[JSON_DEPTH_MAX + 1];
	uint64_t first_hash[FIRST_HASHES];
};

/* ---- nodes and hashes ---- */

__attribute__((noinline)) static bool grow_nodes(struct pass *r, const char *p)
{
	uint32_t cap = r->j->cap < FIRST_NODES ? FIRST_NODES : r->j->cap;
	struct json_node *node;

	if (r->limit >= r->max) {
		err_set(r->src.err, ERR_TOOBIG,
			"at byte %zu: more than %u values and keys, which is the most accepted",
			(size_t)(p - r->src.text), r->max);
		return false;
	}
	if (r->j->cap >= FIRST_NODES)
		cap = cap < NODES_MAX / 2 ? cap * 2 : NODES_MAX;
	if (cap > r->max)
		cap = r->max;
	node = realloc(r->j->node, cap * sizeof(*node));
	if (!node) {
		json_refuse(&r->src, ERR_NOMEM, p, "no memory for the nodes of this document");
		return false;
	}
	r->node = node;
	r->j->node = node;
	r->j->cap = cap;
	r->limit = cap;
	return true;
}

/* Note a value that stands at p..end. Containers get len, next and count when they close. */
static inline bool add_node(
	struct pass *r, const char *p, const char *end, enum json_type type, bool escaped)
{
	uint32_t at = r->count;

	if (at == r->limit && !grow_nodes(r, p))
		return false;
	r->node[at] = (struct json_node){
		.at = (uint32_t)(p - r->src.text),
		.len = (uint32_t)(end - p),
		.next = at + 1,
		.type = type & 7U,
		.escaped = escaped & 1U,
	};
	r->count = at + 1;
	return true;
}

__attribute__((noinline)) static bool grow_hashes(struct pass *r)
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

/* ---- strings ---- */

/* From the opening quote to behind the closing one; notes the node. */
static inline const char *read_string(struct pass *r, const char *open)
{
	const char *p = json_plain(open + 1);

	r->holds = 0;
	if (__builtin_expect(*p == '"', 1)) {
		p++;
	} else {
		p = json_string_rest(&r->src, open, p, &r->holds);
		if (!p)
			return NULL;
	}
	return add_node(r, open, p, JSON_STRING, r->holds != 0) ? p : NULL;
}

/* ---- keys ---- */

/* Two spellings of a key must have one hash. It is of the key spelled with a backslash before each quote and backslash, and nothing else
 * escaped: as most keys of managedFields stand there already. This one does not, so it is spelled anew. */
__attribute__((noinline)) static bool hash_odd(
	struct pass *r, const struct json_node *key, uint64_t *ret)
{
	const char *p = r->src.text + key->at;
	size_t room = (size_t)key->len + JSON_SLACK, n, m = 0;
	char *out;

	if (!buf_reserve(&r->key, 3 * room)) {
		err_set(r->src.err, ERR_NOMEM, "no memory for a key of %u bytes", key->len);
		return false;
	}
	n = json_unescape(p + 1, p + key->len - 1, r->key.data);
	out = r->key.data + room;
	for (size_t i = 0; i < n; i++) {
		char c = r->key.data[i];

		if (c == '"' || c == '\\')
			out[m++] = '\\';
		out[m++] = c;
	}
	*ret = json_hash(r->seed, out, m);
	return true;
}

/* Is the key that was noted last among those before it? True when it is new. */
static inline bool check_key(struct pass *r, struct level *object)
{
	uint32_t at = r->count - 1;
	const struct json_node *key = &r->node[at];
	uint64_t h, bit;

	if (__builtin_expect(r->holds & JSON_ODD, 0)) {
		if (!hash_odd(r, key, &h))
			return false;
	} else {
		h = json_hash(r->seed, r->src.text + key->at + 1, key->len - 2);
	}
	bit = UINT64_C(1) << (h % 64);
	if ((object->seen & bit) && r->hashes - object->first < NARROW_KEYS) {
		for (uint32_t i = object->first; i < r->hashes; i++)
			if (r->hash[i] == h &&
				json_keys_compare(r->j, object->node, at, r->src.err) < 0)
				return false;
	}
	object->seen |= bit;
	if (r->hashes == r->hash_cap && !grow_hashes(r))
		return false;
	r->hash[r->hashes++] = h;
	return true;
}

/* From a key's opening quote to behind its colon. what is what would have been accepted. */
static inline const char *read_key(
	struct pass *r, struct level *object, const char *p, const char *what)
{
	if (*p != '"')
		return json_expected(&r->src, p, what);
	p = read_string(r, p);
	if (!p || !check_key(r, object))
		return NULL;
	object->count++;
	if (*p != ':')
		p = json_blanks(p);
	return *p == ':' ? p + 1 : json_expected(&r->src, p, "':' behind the key");
}

/* ---- values ---- */

static inline struct level *open_level(struct pass *r, const char *p, enum json_type type)
{
	struct level *l = &r->level[r->depth + 1];

	if (r->depth == JSON_DEPTH_MAX) {
		err_set(r->src.err, ERR_TOOBIG,
			"at byte %zu: nested deeper than %d levels, which is the most accepted",
			(size_t)(p - r->src.text), JSON_DEPTH_MAX);
		return NULL;
	}
	if (!add_node(r, p, p, type, false))
		return NULL;
	r->depth++;
	*l = (struct level){
		.node = r->count - 1, .object = type == JSON_OBJECT, .first = r->hashes};
	return l;
}

/* A container of which nothing but its brackets is there: most of managedFields. Too deep ones take the long way, to be refused. */
static inline bool is_empty(const struct pass *r, const char *p)
{
	return p[1] == *p + 2 && r->depth < JSON_DEPTH_MAX;
}

/* end is behind the closing bracket. */
static inline bool close_level(struct pass *r, const char *end)
{
	struct level *l = &r->level[r->depth];
	struct json_node *n = &r->node[l->node];
	uint32_t keys = r->hashes - l->first;

	n->len = (uint32_t)(end - r->src.text) - n->at;
	n->next = r->count;
	n->count = l->count & NODES_MAX;
	if (keys > NARROW_KEYS &&
		json_keys_check(r->j, l->node, r->hash + l->first, keys, r->src.err) < 0)
		return false;
	r->hashes = l->first;
	r->depth--;
	return true;
}

static inline const char *read_number(struct pass *r, const char *p)
{
	const char *at = p, *tail = p, *end = json_number_end(p, &tail, &at);

	if (!end)
		return json_expected(&r->src, at, "a digit");
	/* Under 300 digits without an exponent no number is too large. */
	if ((tail != end || end - p > 300) && !json_number_finite(p, tail, end))
		return json_refuse(&r->src, ERR_SYNTAX, p, "a number larger than a double can be");
	return add_node(r, p, end, JSON_NUMBER, false) ? end : NULL;
}

static inline const char *read_word(
	struct pass *r, const char *p, const char *word, size_t len, enum json_type type)
{
	if (memcmp(p, word, len) != 0)
		return json_expected(
			&r->src, p, "a value (true, false and null are the only words)");
	return add_node(r, p, p + len, type, false) ? p + len : NULL;
}

/* A number, a string or a word. */
static inline const char *read_scalar(struct pass *r, const char *p)
{
	switch (*p) {
	case '"':
		return read_string(r, p);
	case 't':
		return read_word(r, p, "true", 4, JSON_TRUE);
	case 'f':
		return read_word(r, p, "false", 5, JSON_FALSE);
	case 'n':
		return read_word(r, p, "null", 4, JSON_NULL);
	default:
		if (*p == '-' || (*p >= '0' && *p <= '9'))
			return read_number(r, p);
		return json_expected(&r->src, p, "a value");
	}
}

/* Behind a value: over the brackets that close there to where the next value begins, or, when the root is complete, to
 * its end; *ret_done tells which. */
static inline const char *read_after(struct pass *r, const char *p, bool *ret_done)
{
	while (r->depth > 0) {
		struct level *l = &r->level[r->depth];
		bool object = l->object;

		/* Documents from programs have no blanks: what is expected is looked for first, here and elsewhere. */
		if (*p != ',')
			p = json_blanks(p);
		if (*p == ',') {
			p++;
			if (object) {
				if (*p != '"')
					p = json_blanks(p);
				return read_key(r, l, p, "a key in '\"' behind the ','");
			}
			l->count++;
			return p;
		}
		if (*p != (object ? '}' : ']'))
			return json_expected(&r->src, p, object ? "',' or '}'" : "',' or ']'");
		if (!close_level(r, ++p))
			return NULL;
	}
	*ret_done = true;
	return p;
}

/* From the first byte of the root to behind its last. */
static const char *read_root(struct pass *r, const char *p)
{
	bool done = false;

	while (p && !done) {
		struct level *l;

		if (*p != '"')
			p = json_blanks(p);
		if (*p == '"') {
			p = read_string(r, p);
		} else if ((*p == '{' || *p == '[') && is_empty(r, p)) {
			p = add_node(r, p, p + 2, *p == '{' ? JSON_OBJECT : JSON_ARRAY, false)
				    ? p + 2
				    : NULL;
		} else if (*p == '{') {
			l = open_level(r, p, JSON_OBJECT);
			p = json_blanks(p + 1);
			if (!l)
				return NULL;
			if (*p != '}') {
				p = read_key(r, l, p, "a key in '\"' or '}'");
				continue;
			}
		} else if (*p == '[') {
			l = open_level(r, p, JSON_ARRAY);
			p = json_blanks(p + 1);
			if (!l)
				return NULL;
			if (*p != ']') {
				l->count++;
				continue;
			}
		} else {
			p = read_scalar(r, p);
		}
		if (p)
			p = read_after(r, p, &done);
	}
	return p;
}

/* ---- the door ---- */

void json_init(struct json *j)
{
	*j = (struct json){0};
}

void json_release(struct json *j)
{
	free(j->node);
	*j = (struct json){0};
}

int json_read(struct json *j, const char *text, size_t len, uint32_t max_nodes, struct err *err)
{
	struct pass r;
	struct err own;
	const char *p;

	r.j = j;
	r.src = (struct json_source){text, text + len, err ? err : &own};
	r.node = j->node;
	r.count = 0;
	r.max = max_nodes < NODES_MAX ? max_nodes : NODES_MAX;
	r.limit = j->cap < r.max ? j->cap : r.max;
	r.depth = 0;
	r.seed = json_seed();
	r.hash = r.first_hash;
	r.hashes = 0;
	r.hash_cap = FIRST_HASHES;
	r.holds = 0;
	buf_init(&r.key, 3 * (len + JSON_SLACK));
	j->text = text;
	j->len = len;
	j->count = 0;
	if (len > UINT32_MAX - JSON_PAD)
		p = json_refuse(&r.src, ERR_TOOBIG, text, "a text of more than 4 GiB");
	else if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
		p = json_refuse(
			&r.src, ERR_SYNTAX, text, "a byte order mark; JSON is sent without one");
	else
		p = read_root(&r, text);
	if (p && (p = json_blanks(p)) != r.src.end)
		p = json_expected(&r.src, p, "nothing more behind the value");
	if (r.hash != r.first_hash)
		free(r.hash);
	buf_release(&r.key);
	if (!p)
		return r.src.err->code;
	j->count = r.count;
	return 0;
}

int json_read_copy(struct json *j, const char *text, size_t len, uint32_t max_nodes,
	char **ret_copy, struct err *err)
{
	char *copy = len < SIZE_MAX - JSON_PAD ? malloc(len + JSON_PAD) : NULL;
	int rc;

	*ret_copy = NULL;
	if (!copy) {
		j->count = 0;
		return err_set(err, ERR_NOMEM, "no memory to copy a text of %zu bytes", len);
	}
	if (len)
		memcpy(copy, text, len);
	memset(copy + len, 0, JSON_PAD);
	rc = json_read(j, copy, len, max_nodes, err);
	if (rc < 0) {
		free(copy);
		return rc;
	}
	*ret_copy = copy;
	return 0;
}

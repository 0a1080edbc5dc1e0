/* SPDX-License-Identifier: Apache-2.0 */
/* base: the one pass of the strict JSON reader: checks every byte and notes where each value
 * stands. */
#include "base/json/json_read.h"

#include <stdlib.h>
#include <string.h>

#include "base/json/json_number.h"
#include "base/json/json_pass.h"
#include "base/json/json_scan.h"
#include "base/json/json_string.h"
#include "base/text.h"

/* Where a pass is. Only inlined functions are given its address, so that it stays in registers:
 * this is most of the reader's speed. */
struct spot {
	const char *text;
	size_t p;                          /* offset in the text */
	struct json_node *node, *node_end; /* where the next one goes, and the end of the room */
	uint32_t count;                    /* nodes noted */
	struct json_level *level;
	uint64_t *hash, *hash_end;   /* where the next key's goes, and the end of the room */
	const uint32_t *quote, *odd; /* of the index: the first that were not passed yet */
};

#define INLINE static inline __attribute__((always_inline))
#define RARE(x) __builtin_expect(x, 0)

INLINE void pass_blanks(struct spot *s)
{
	s->p = (size_t)(json_blanks(s->text + s->p) - s->text);
}

/* ---- nodes and hashes ---- */

/* Note a value that stands from byte p to s->p. Containers get len, next and count when they close.
 */
INLINE bool add_node(
	const struct json_pass *r, struct spot *s, size_t p, enum json_type type, bool escaped)
{
	struct json_node *n = s->node;

	if (RARE(n == s->node_end)) {
		uint32_t cap = json_grow_nodes(r, p);

		if (cap == 0)
			return false;
		n = r->j->node + s->count;
		s->node_end = r->j->node + cap;
	}
	n->at = (uint32_t)p;
	n->len = (uint32_t)(s->p - p);
	n->next = ++s->count;
	n->type = type & 7U;
	n->escaped = escaped & 1U;
	n->count = 0;
	s->node = n + 1;
	return true;
}

INLINE bool add_hash(struct json_pass *r, struct spot *s, uint64_t h)
{
	*s->hash++ = h;
	if (RARE(s->hash == s->hash_end)) {
		uint32_t n = r->hash_cap;

		if (!json_grow_hashes(r))
			return false;
		s->hash = r->hash + n;
		s->hash_end = r->hash + r->hash_cap;
	}
	return true;
}

/* ---- strings ---- */

/* From the opening quote to behind the closing one, and note the node. *ret_holds is what it holds.
 */
INLINE bool read_string(struct json_pass *r, struct spot *s, unsigned *ret_holds)
{
	size_t open = s->p, end = s->quote[1];

	*ret_holds = 0;
	if (*s->odd < end) {
		struct json_odd_string got = json_read_odd_string(r, open, s->quote, s->odd);

		if (RARE(got.end == 0))
			return false;
		*ret_holds = got.holds;
		s->quote = got.quote;
		s->odd = got.odd;
		s->p = got.end + 1;
		return add_node(r, s, open, JSON_STRING, got.holds != 0);
	}
	s->quote += 2;
	s->p = end + 1;
	return add_node(r, s, open, JSON_STRING, false);
}

/* ---- keys ---- */

INLINE bool check_key(struct json_pass *r, struct spot *s, uint64_t h)
{
	struct json_level *l = s->level;

	if (RARE(l->seen >> (h & 63) & 1)) {
		uint32_t n = (uint32_t)(s->hash - r->hash) - l->first;

		if (n < JSON_NARROW_KEYS && !json_check_narrow(r, l, s->count - 1, h, n))
			return false;
	}
	l->seen |= UINT64_C(1) << (h & 63);
	return add_hash(r, s, h);
}

/* From a key's opening quote to behind its colon. what is what would have been accepted. */
INLINE bool read_key(struct json_pass *r, struct spot *s, const char *what)
{
	size_t open = s->p;
	unsigned holds;
	uint64_t h;

	if (RARE(s->text[open] != '"'))
		return json_expected(&r->src, s->text + open, what);
	if (!read_string(r, s, &holds))
		return false;
	if (RARE(holds & JSON_ODD)) {
		const uint64_t *odd = json_hash_odd(r, open, s->p - 1);

		if (!odd)
			return false;
		h = *odd;
	} else {
		h = json_hash(r->seed, s->text + open + 1, s->p - open - 2);
	}
	if (!check_key(r, s, h))
		return false;
	if (RARE(s->text[s->p] != ':')) {
		pass_blanks(s);
		if (s->text[s->p] != ':')
			return json_expected(&r->src, s->text + s->p, "':' behind the key");
	}
	s->p++;
	return true;
}

/* ---- values ---- */

INLINE bool is_full(const struct json_pass *r, const struct spot *s)
{
	return s->level == r->level + JSON_DEPTH_MAX;
}

INLINE bool open_level(struct json_pass *r, struct spot *s, enum json_type type)
{
	if (RARE(is_full(r, s))) {
		err_set(r->src.err, ERR_TOOBIG,
			"at byte %zu: nested deeper than %d levels, which is the most accepted",
			s->p, JSON_DEPTH_MAX);
		return false;
	}
	*++s->level = (struct json_level){.node = s->count,
		.object = type == JSON_OBJECT,
		.first = (uint32_t)(s->hash - r->hash)};
	s->p++;
	if (!add_node(r, s, s->p - 1, type, false))
		return false;
	pass_blanks(s);
	return true;
}

/* A container of which nothing but its brackets is there: most of managedFields. Too deep ones take
 * the long way, to be refused. */
INLINE bool is_empty(const struct json_pass *r, const struct spot *s)
{
	return s->text[s->p + 1] == s->text[s->p] + 2 && !is_full(r, s);
}

INLINE bool read_empty(const struct json_pass *r, struct spot *s)
{
	size_t p = s->p;

	s->p = p + 2;
	return s->text[p] == '{' ? add_node(r, s, p, JSON_OBJECT, false)
				 : add_node(r, s, p, JSON_ARRAY, false);
}

/* s->p is at the closing bracket. */
INLINE bool close_level(const struct json_pass *r, struct spot *s)
{
	struct json_level *l = s->level;
	struct json_node *n = &r->j->node[l->node];
	const uint64_t *first = r->hash + l->first;
	uint32_t keys = (uint32_t)(s->hash - first);

	s->p++;
	n->len = (uint32_t)s->p - n->at;
	n->next = s->count;
	n->count = (l->object ? keys : l->count) & JSON_NODES_MAX;
	if (RARE(keys > JSON_NARROW_KEYS) &&
		json_keys_check(r->j, l->node, first, keys, r->src.err) < 0)
		return false;
	s->hash -= keys;
	s->level--;
	return true;
}

INLINE bool read_number(const struct json_pass *r, struct spot *s)
{
	const char *p = s->text + s->p, *at = p, *tail = p, *end = json_number_end(p, &tail, &at);

	if (!end)
		return json_expected(&r->src, at, "a digit");
	/* Under 300 digits without an exponent no number is too large. */
	if ((tail != end || end - p > 300) && !json_number_finite(p, tail, end))
		return json_refuse(&r->src, ERR_SYNTAX, p, "a number larger than a double can be");
	s->p = (size_t)(end - s->text);
	return add_node(r, s, (size_t)(p - s->text), JSON_NUMBER, false);
}

INLINE bool read_word(const struct json_pass *r, struct spot *s, const char *word, size_t len,
	enum json_type type)
{
	size_t p = s->p;

	if (memcmp(s->text + p, word, len) != 0)
		return json_expected(
			&r->src, s->text + p, "a value (true, false and null are the only words)");
	s->p = p + len;
	return add_node(r, s, p, type, false);
}

/* A number or a word. */
INLINE bool read_scalar(const struct json_pass *r, struct spot *s)
{
	char c = s->text[s->p];

	switch (c) {
	case 't':
		return read_word(r, s, "true", 4, JSON_TRUE);
	case 'f':
		return read_word(r, s, "false", 5, JSON_FALSE);
	case 'n':
		return read_word(r, s, "null", 4, JSON_NULL);
	default:
		if (c == '-' || text_is_digit(c))
			return read_number(r, s);
		return json_expected(&r->src, s->text + s->p, "a value");
	}
}

/* Behind a value: over the brackets that close there to where the next value begins, or, when the
 * root is complete, to its end: then no level is open. */
INLINE bool read_after(struct json_pass *r, struct spot *s)
{
	while (s->level != r->level) {
		bool object = s->level->object;

		/* Documents from programs have no blanks: what is expected is looked for first,
		 * here and elsewhere. */
		if (s->text[s->p] != ',')
			pass_blanks(s);
		if (s->text[s->p] == ',') {
			s->p++;
			if (object) {
				if (s->text[s->p] != '"')
					pass_blanks(s);
				return read_key(r, s, "a key in '\"' behind the ','");
			}
			s->level->count++;
			return true;
		}
		if (s->text[s->p] != (object ? '}' : ']'))
			return json_expected(
				&r->src, s->text + s->p, object ? "',' or '}'" : "',' or ']'");
		if (!close_level(r, s))
			return false;
	}
	return true;
}

/* From an opening bracket to the first value behind it; *ret_closed tells that there is none. */
INLINE bool read_open(struct json_pass *r, struct spot *s, bool *ret_closed)
{
	bool object = s->text[s->p] == '{';

	if (object ? !open_level(r, s, JSON_OBJECT) : !open_level(r, s, JSON_ARRAY))
		return false;
	*ret_closed = s->text[s->p] == (object ? '}' : ']');
	if (*ret_closed)
		return true;
	if (object)
		return read_key(r, s, "a key in '\"' or '}'");
	s->level->count = 1;
	return true;
}

/* From the first byte of the root to behind its last. */
INLINE bool read_root(struct json_pass *r, struct spot *s)
{
	do {
		bool good, closed;
		unsigned holds;

		if (s->text[s->p] != '"')
			pass_blanks(s);
		if (s->text[s->p] == '"') {
			good = read_string(r, s, &holds);
		} else if (s->text[s->p] != '{' && s->text[s->p] != '[') {
			good = read_scalar(r, s);
		} else if (is_empty(r, s)) {
			good = read_empty(r, s);
		} else {
			good = read_open(r, s, &closed);
			if (good && !closed)
				continue;
		}
		if (!good || !read_after(r, s))
			return false;
	} while (s->level != r->level);
	return true;
}

/* The whole text: one value, and nothing but blanks around it. */
static bool read_text(struct json_pass *r)
{
	uint32_t room = r->j->cap < r->max ? r->j->cap : r->max;
	struct spot s = {
		.text = r->src.text,
		.node = room ? r->j->node : NULL,
		.node_end = room ? r->j->node + room : NULL,
		.level = r->level,
		.hash = r->hash,
		.hash_end = r->hash + r->hash_cap,
		.quote = r->index.quote,
		.odd = r->index.odd,
	};

	json_index_init(&r->index, r->src.text, (size_t)(r->src.end - r->src.text));
	if (!read_root(r, &s))
		return false;
	pass_blanks(&s);
	if (s.text + s.p != r->src.end)
		return json_expected(&r->src, s.text + s.p, "nothing more behind the value");
	r->j->count = s.count;
	return true;
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
	/* It is written before it is read; zeroing its 12 KB would cost more than reading a small
	 * document. */
	struct json_pass r __attribute__((uninitialized));
	struct err own;
	bool good = false;

	r.j = j;
	r.src = (struct json_source){text, text + len, err ? err : &own};
	r.max = max_nodes < JSON_NODES_MAX ? max_nodes : JSON_NODES_MAX;
	r.seed = json_seed();
	r.hash = r.first_hash;
	r.hash_cap = JSON_FIRST_HASHES;
	buf_init(&r.key, 3 * (len + JSON_SLACK));
	j->text = text;
	j->len = len;
	j->count = 0;
	if (len > UINT32_MAX - JSON_PAD)
		json_refuse(&r.src, ERR_TOOBIG, text, "a text of more than 4 GiB");
	else if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
		json_refuse(
			&r.src, ERR_SYNTAX, text, "a byte order mark; JSON is sent without one");
	else
		good = read_text(&r);
	if (r.hash != r.first_hash)
		free(r.hash);
	buf_release(&r.key);
	return good ? 0 : r.src.err->code;
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

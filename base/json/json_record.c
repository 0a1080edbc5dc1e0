/* SPDX-License-Identifier: Apache-2.0 */
/* base: structs read from JSON, by the tables that say how they are spelled. */
#include "base/json/json_record.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json_keys.h"
#include "base/rfc3339.h"
#include "base/text.h"

/* Bytes of foreign text that a message repeats. */
#define FOUND_MAX 60

static int no_memory(struct json_reader *r)
{
	return err_set(r->err, ERR_NOMEM, "out of memory while reading JSON");
}

int json_record_wrong(
	struct json_reader *r, const struct json_node *v, const char *key, const char *expected)
{
	struct slice raw = v ? json_raw(r->j, v) : SLICE("nothing");
	size_t n = text_utf8_cut(raw, FOUND_MAX);

	(void)err_set(r->err, ERR_INVALID, "found %.*s%s, expected %s", (int)n, raw.at,
		n < raw.len ? "…" : "", expected);
	return err_in(r->err, "%s", key);
}

static int64_t most(const struct json_field *f)
{
	if (f->max != 0)
		return f->max;
	return f->kind == REC_KIND_INT ? INT_MAX : f->kind == REC_KIND_U32 ? UINT32_MAX : INT64_MAX;
}

const char *json_record_word(const struct json_field *f, unsigned i)
{
	if (f->word)
		return i <= (unsigned)f->max ? f->word(i) : NULL;
	return f->words[i];
}

/* What is wrong with the value of a row. */
static int wrong(struct json_reader *r, const struct json_node *v, const struct json_field *f)
{
	static const char *const forms[] = {
		[REC_KIND_STR] = "a string",
		[REC_KIND_BOOL] = "true or false",
		[REC_KIND_HEX] = "16 hex digits",
		[REC_KIND_BITS] = "0x and hex digits",
		[REC_KIND_TIME] = "a time such as \"2026-11-21T09:30:00Z\"",
		[REC_KIND_WORD] = "a known word",
		[REC_KIND_STRS] = "strings",
		[REC_KIND_LIST] = "a list",
		[REC_KIND_ARRAY] = "a list",
		[REC_KIND_OBJECT] = "an object",
		[REC_KIND_OWN] = "something else",
	};
	const char *form = f->expected ? f->expected : forms[f->kind];
	bool number = f->kind >= REC_KIND_INT && f->kind <= REC_KIND_DOUBLE;
	char text[96];

	if (f->kind == REC_KIND_STR && !f->expected && f->flags & REC_NEEDED)
		form = "a string that is not empty";
	if (!form && f->kind == REC_KIND_TEXT)
		(void)snprintf(text, sizeof(text), "a string of less than %zu bytes", f->n_at);
	else if (!form && number && (f->min != 0 || f->max != 0))
		(void)snprintf(text, sizeof(text), "a %snumber from %lld to %lld",
			f->kind == REC_KIND_DOUBLE ? "" : "whole ", (long long)f->min,
			(long long)most(f));
	else
		(void)snprintf(text, sizeof(text), "a %snumber that is not negative",
			f->kind == REC_KIND_DOUBLE ? "" : "whole ");
	return json_record_wrong(r, v, f->key, form ? form : text);
}

static void *member(void *of, size_t at)
{
	return (char *)of + at;
}

static int read_text(
	struct json_reader *r, const struct json_node *v, const struct json_field *f, char *to)
{
	struct buf text;
	int rc = 0;

	if (!json_is(v, JSON_STRING))
		return wrong(r, v, f);
	buf_init(&text, f->n_at - 1);
	json_decode(r->j, v, &text);
	if (text.failed)
		rc = text.full ? wrong(r, v, f) : no_memory(r);
	memset(to, 0, f->n_at);
	if (rc == 0 && text.len > 0)
		memcpy(to, text.data, text.len);
	buf_release(&text);
	return rc;
}

/* Where it would be remembered: another one of that place takes it over, whatever a document says.
 */
static size_t place_of(struct slice s)
{
	const uint64_t by = UINT64_C(0x9E3779B97F4A7C15);
	uint64_t h = s.len;
	size_t i = 0;

	for (; i + 8 <= s.len; i += 8)
		h = json_mix(h ^ json_load64(s.at + i), by);
	for (; i < s.len; i++)
		h = json_mix(h ^ (unsigned char)s.at[i], by);
	return h % JSON_READER_TEXTS;
}

/* The string in the arena, once where it is found again. NULL: out of memory. */
static const char *keep_text(struct json_reader *r, const struct json_node *v)
{
	struct slice s = json_str(r->j, v, r->a);
	size_t at = place_of(s);

	if (!r->texts[at] || !slice_is(s, r->texts[at]))
		r->texts[at] = arena_strdup(r->a, s);
	return r->texts[at];
}

static int read_str(
	struct json_reader *r, const struct json_node *v, const struct json_field *f, void *to)
{
	const char *text;

	if (!json_is(v, JSON_STRING) || (f->flags & REC_NEEDED && v->len == 2))
		return wrong(r, v, f);
	text = keep_text(r, v);
	if (!text || r->a->failed)
		return no_memory(r);
	if (f->good && !f->good(text))
		return wrong(r, v, f);
	memcpy(to, &text, sizeof(text));
	return 0;
}

static int read_whole(
	struct json_reader *r, const struct json_node *v, const struct json_field *f, void *to)
{
	int64_t n;
	uint32_t narrow;

	if (!json_int(r->j, v, &n) || n < f->min || n > most(f))
		return wrong(r, v, f);
	narrow = (uint32_t)n;
	if (f->kind == REC_KIND_INT || f->kind == REC_KIND_U32)
		memcpy(to, &narrow, sizeof(narrow));
	else
		memcpy(to, &n, sizeof(n));
	return 0;
}

static int read_double(
	struct json_reader *r, const struct json_node *v, const struct json_field *f, void *to)
{
	/* A delimiter stands behind a number, and a NUL byte behind the text. */
	double d = json_is(v, JSON_NUMBER) ? strtod(json_raw(r->j, v).at, NULL) : (double)NAN;

	if (!(d >= (f->min == INT64_MIN ? -DBL_MAX : (double)f->min) &&
		    d <= (f->max ? (double)f->max : DBL_MAX)))
		return wrong(r, v, f);
	memcpy(to, &d, sizeof(d));
	return 0;
}

/* The digits of n words, the last word first. */
static int read_hex(
	struct json_reader *r, const struct json_node *v, const struct json_field *f, uint64_t *to)
{
	static const char digits[] = "0123456789abcdef";
	struct slice s = json_inside(r->j, v);
	size_t n = f->kind == REC_KIND_BITS ? f->n_at : 1;
	size_t least = f->kind == REC_KIND_HEX && f->min ? (size_t)f->min : 16 * n;

	if (f->kind == REC_KIND_BITS && slice_starts(s, SLICE("0x")))
		s = (struct slice){s.at + 2, s.len - 2};
	else if (f->kind == REC_KIND_BITS)
		s.len = 0;
	memset(to, 0, n * sizeof(*to));
	if (s.len < least || s.len > 16 * n)
		return wrong(r, v, f);
	for (size_t i = 0; i < s.len; i++) {
		const char *digit = memchr(digits, s.at[i], 16);

		if (!digit)
			return wrong(r, v, f);
		to[n - 1 - i / 16] = to[n - 1 - i / 16] << 4 | (uint64_t)(digit - digits);
	}
	return 0;
}

static int read_word(
	struct json_reader *r, const struct json_node *v, const struct json_field *f, void *to)
{
	const char *word;

	for (unsigned i = 0; (word = json_record_word(f, i)) != NULL; i++) {
		if (!json_is_str(r->j, v, slice_of(word)))
			continue;
		memcpy(to, &i, sizeof(i));
		return 0;
	}
	return wrong(r, v, f);
}

/* Element i of a list. */
static int read_element(struct json_reader *r, const struct json_node *e,
	const struct json_field *f, char *list, size_t i)
{
	int rc;

	if (f->kind == REC_KIND_STRS) {
		const char *text = json_is(e, JSON_STRING) ? keep_text(r, e) : NULL;

		memcpy(list + i * sizeof(text), &text, sizeof(text));
		if (!json_is(e, JSON_STRING))
			return json_record_wrong(r, e, f->key, "strings");
		if (r->a->failed)
			return no_memory(r);
		return f->good && !f->good(text) ? wrong(r, e, f) : 0;
	}
	if (json_is(e, JSON_OBJECT)) {
		rc = json_record_read(r, e, f->record, list + i * f->record->size);
		if (rc == 0 && f->check)
			rc = f->check(r, e, list, i);
	} else {
		rc = json_record_wrong(r, e, "", "an object");
	}
	return rc == ERR_INVALID ? err_in(r->err, "%s/%zu", f->key, i) : rc;
}

/* How long it is says more than how it begins. */
static int too_many(struct json_reader *r, const struct json_node *v, const struct json_field *f)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "at most %lld", (long long)f->max);
	(void)err_set(r->err, ERR_INVALID, "found a list of %u, expected %s", v->count,
		f->expected ? f->expected : text);
	return err_in(r->err, "%s", f->key);
}

int json_record_list(
	struct json_reader *r, const struct json_node *v, const struct json_field *f, void *to)
{
	bool array = f->kind == REC_KIND_ARRAY;
	unsigned count;
	size_t n = 0;
	char *list;

	if (json_is(v, JSON_ARRAY) && f->max && v->count > f->max)
		return too_many(r, v, f);
	if (!json_is(v, JSON_ARRAY) || (f->max && v->count < f->min))
		return wrong(r, v, f);
	list = array ? member(to, f->at)
		     : arena_array(r->a, v->count,
			       f->kind == REC_KIND_STRS ? sizeof(char *) : f->record->size);
	if (!list)
		return no_memory(r);
	JSON_EACH(r->j, v, e)
	{
		int rc = read_element(r, e, f, list, n);

		if (rc != 0)
			return rc;
		n++;
	}
	count = (unsigned)n;
	if (array) {
		memcpy(member(to, f->n_at), &count, sizeof(count));
		return 0;
	}
	memcpy(member(to, f->at), &list, sizeof(list));
	memcpy(member(to, f->n_at), &n, sizeof(n));
	return 0;
}

/* A value that is there; null only where the row is needed. */
static int read_field(
	struct json_reader *r, const struct json_node *v, const struct json_field *f, void *of)
{
	void *to = member(of, f->at);
	bool yes = json_is(v, JSON_TRUE);
	int64_t ms;
	int rc;

	switch (f->kind) {
	case REC_KIND_STR:
		return read_str(r, v, f, to);
	case REC_KIND_TEXT:
		return read_text(r, v, f, to);
	case REC_KIND_INT:
	case REC_KIND_U32:
	case REC_KIND_LONG:
	case REC_KIND_COUNT:
		return read_whole(r, v, f, to);
	case REC_KIND_DOUBLE:
		return read_double(r, v, f, to);
	case REC_KIND_BOOL:
		memcpy(to, &yes, sizeof(yes));
		return yes || json_is(v, JSON_FALSE) ? 0 : wrong(r, v, f);
	case REC_KIND_HEX:
	case REC_KIND_BITS:
		return read_hex(r, v, f, to);
	case REC_KIND_TIME:
		if (!rfc3339_read(json_inside(r->j, v), &ms))
			return wrong(r, v, f);
		memcpy(to, &ms, sizeof(ms));
		return 0;
	case REC_KIND_WORD:
		return read_word(r, v, f, to);
	case REC_KIND_STRS:
	case REC_KIND_LIST:
	case REC_KIND_ARRAY:
		return json_record_list(r, v, f, of);
	case REC_KIND_OBJECT:
		if (!json_is(v, JSON_OBJECT))
			return wrong(r, v, f);
		rc = json_record_read(r, v, f->record, to);
		return rc == ERR_INVALID ? err_in(r->err, "%s", f->key) : rc;
	case REC_KIND_OWN:
		break;
	}
	return f->own->read(r, v, of);
}

static const struct json_field *find(
	const struct json_record *rec, const struct json *j, const struct json_node *key)
{
	for (size_t i = 0; i < rec->n; i++)
		if (json_spells(j, key, slice_of(rec->field[i].key)))
			return &rec->field[i];
	return NULL;
}

int json_record_rest(struct json_reader *r, const struct json_node *v,
	const struct json_record *rec, struct slice *ret)
{
	struct buf b;
	int rc = 0;

	buf_init(&b, v->len);
	JSON_MEMBERS(r->j, v, k)
	{
		if (find(rec, r->j, k))
			continue;
		if (b.len > 0)
			buf_char(&b, ',');
		buf_slice(&b, json_raw(r->j, k));
		buf_char(&b, ':');
		buf_slice(&b, json_raw(r->j, json_value(k)));
	}
	*ret = b.len ? arena_slice(r->a, buf_as_slice(&b)) : (struct slice){0};
	if (b.failed || r->a->failed)
		rc = no_memory(r);
	buf_release(&b);
	return rc;
}

int json_record_read(
	struct json_reader *r, const struct json_node *v, const struct json_record *rec, void *to)
{
	static const char empty[] = "", *const none = empty;
	uint64_t seen = 0;
	bool unknown = false;

	for (const struct json_field *f = rec->field; f < rec->field + rec->n; f++)
		if (f->kind == REC_KIND_STR && !(f->flags & REC_OR_NULL))
			memcpy(member(to, f->at), &none, sizeof(none));
	JSON_MEMBERS(r->j, v, k)
	{
		const struct json_field *f = find(rec, r->j, k);
		int rc;

		if (!f && rec->closed)
			return json_record_wrong(r, k, "", "a member that is known here");
		unknown = unknown || !f;
		if (!f || (json_absent(json_value(k)) && !(f->flags & REC_NEEDED)))
			continue;
		seen |= UINT64_C(1) << (f - rec->field);
		rc = read_field(r, json_value(k), f, to);
		if (rc != 0)
			return rc;
	}
	for (size_t i = 0; i < rec->n; i++)
		if (rec->field[i].flags & REC_NEEDED && !(seen >> i & 1))
			return wrong(r, NULL, &rec->field[i]);
	return unknown && rec->rest_at ? json_record_rest(r, v, rec, member(to, rec->rest_at)) : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* base: structs written as JSON, by the tables that say how they are spelled. */
#include "base/json/json_record.h"

#include <math.h>
#include <string.h>

#include "base/json/json_number.h"
#include "base/rfc3339.h"

static const void *const_member(const void *of, size_t at)
{
	return (const char *)of + at;
}

/* A whole number, sign included. */
static int64_t whole(const struct json_field *f, const void *at)
{
	uint32_t narrow;
	int64_t n;

	if (f->kind != REC_KIND_INT && f->kind != REC_KIND_U32) {
		memcpy(&n, at, sizeof(n));
		return n;
	}
	memcpy(&narrow, at, sizeof(narrow));
	return f->kind == REC_KIND_INT ? (int)narrow : (int64_t)narrow;
}

/* What is more than that would make all of it unreadable. */
static uint64_t count_of(const void *at)
{
	uint64_t n;

	memcpy(&n, at, sizeof(n));
	return n < JSON_INT_MAX ? n : JSON_INT_MAX;
}

static void write_double(double d, struct buf *out)
{
	/* Seventeen digits bring every double back. */
	if (isfinite(d))
		buf_fmt(out, "%.17g", d);
	else
		buf_str(out, "null");
}

static void write_hex(const struct json_field *f, const void *at, struct buf *out)
{
	uint64_t n;

	buf_str(out, f->kind == REC_KIND_BITS ? "\"0x" : "\"");
	for (size_t i = f->kind == REC_KIND_BITS ? f->n_at : 1; i-- > 0;) {
		memcpy(&n, (const char *)at + i * sizeof(n), sizeof(n));
		buf_fmt(out, "%016llx", (unsigned long long)n);
	}
	buf_char(out, '"');
}

static void write_list(const struct json_field *f, const void *from, struct buf *out)
{
	const char *list;
	unsigned count;
	size_t n;

	if (f->kind == REC_KIND_ARRAY) {
		list = const_member(from, f->at);
		memcpy(&count, const_member(from, f->n_at), sizeof(count));
		n = count;
	} else {
		memcpy(&list, const_member(from, f->at), sizeof(list));
		memcpy(&n, const_member(from, f->n_at), sizeof(n));
	}
	buf_char(out, '[');
	for (size_t i = 0; i < n; i++) {
		const char *text;

		if (i > 0)
			buf_char(out, ',');
		if (f->kind != REC_KIND_STRS) {
			json_record_write(f->record, list + i * f->record->size, out);
			continue;
		}
		memcpy(&text, list + i * sizeof(text), sizeof(text));
		buf_json_str(out, slice_of(text));
	}
	buf_char(out, ']');
}

static void write_value(const struct json_field *f, const void *from, struct buf *out)
{
	const void *at = const_member(from, f->at);
	char time[RFC3339_SIZE];
	const char *text;
	unsigned word;
	double d;

	switch (f->kind) {
	case REC_KIND_STR:
		memcpy(&text, at, sizeof(text));
		buf_json_str(out, slice_of(text ? text : ""));
		return;
	case REC_KIND_TEXT:
		buf_json_str(out, (struct slice){at, strnlen(at, f->n_at)});
		return;
	case REC_KIND_INT:
	case REC_KIND_U32:
	case REC_KIND_LONG:
		buf_i64(out, whole(f, at));
		return;
	case REC_KIND_COUNT:
		buf_u64(out, count_of(at));
		return;
	case REC_KIND_DOUBLE:
		memcpy(&d, at, sizeof(d));
		write_double(d, out);
		return;
	case REC_KIND_BOOL:
		buf_str(out, *(const bool *)at ? "true" : "false");
		return;
	case REC_KIND_HEX:
	case REC_KIND_BITS:
		write_hex(f, at, out);
		return;
	case REC_KIND_TIME:
		rfc3339_write(whole(f, at), time);
		buf_json_str(out, slice_of(time));
		return;
	case REC_KIND_WORD:
		memcpy(&word, at, sizeof(word));
		buf_json_str(out, slice_of(json_record_word(f, word)));
		return;
	case REC_KIND_STRS:
	case REC_KIND_LIST:
	case REC_KIND_ARRAY:
		write_list(f, from, out);
		return;
	case REC_KIND_OBJECT:
		json_record_write(f->record, at, out);
		return;
	case REC_KIND_OWN:
		break;
	}
	f->own->write(from, out);
}

/* Is it what REC_OMIT leaves out? */
static bool is_empty(const struct json_field *f, const void *at)
{
	const char *text;
	double d;
	size_t n;

	switch (f->kind) {
	case REC_KIND_STR:
		memcpy(&text, at, sizeof(text));
		return !text || !*text;
	case REC_KIND_TEXT:
		return !*(const char *)at;
	case REC_KIND_BOOL:
		return !*(const bool *)at;
	case REC_KIND_DOUBLE:
		memcpy(&d, at, sizeof(d));
		return !isfinite(d);
	case REC_KIND_INT:
	case REC_KIND_U32:
	case REC_KIND_LONG:
	case REC_KIND_TIME:
		return f->min < 0 ? whole(f, at) < 0 : whole(f, at) == 0;
	case REC_KIND_COUNT:
	case REC_KIND_HEX:
	case REC_KIND_BITS:
		return whole(f, at) == 0;
	case REC_KIND_STRS:
	case REC_KIND_LIST:
		memcpy(&n, (const char *)at - f->at + f->n_at, sizeof(n));
		return n == 0;
	case REC_KIND_WORD:
	case REC_KIND_ARRAY:
	case REC_KIND_OBJECT:
	case REC_KIND_OWN:
		break;
	}
	return false;
}

void json_record_write(const struct json_record *rec, const void *from, struct buf *out)
{
	struct slice rest = {0};
	char before = '{';

	for (const struct json_field *f = rec->field; f < rec->field + rec->n; f++) {
		if (f->flags & REC_OMIT && is_empty(f, const_member(from, f->at)))
			continue;
		buf_char(out, before);
		buf_char(out, '"');
		buf_str(out, f->key);
		buf_str(out, "\":");
		write_value(f, from, out);
		before = ',';
	}
	if (rec->rest_at)
		memcpy(&rest, const_member(from, rec->rest_at), sizeof(rest));
	if (rest.len > 0) {
		buf_char(out, before);
		buf_slice(out, rest);
		before = ',';
	}
	if (before == '{')
		buf_char(out, '{');
	buf_char(out, '}');
}

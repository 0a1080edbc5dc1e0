/* SPDX-License-Identifier: Apache-2.0 */
/* base: a document is a table. Each member of a struct is said once, with its key, its type and its
 * bounds; one reader and one writer follow from that, and so does which members are known.
 *
 *   static const struct json_field gpu_fields[] = {
 *           REC_STR(gpu, id, "id", REC_NEEDED),
 *           REC_COUNT(gpu, bytes, "memory", .min = 1, .expected = "the memory in bytes"),
 *   };
 *   JSON_RECORD(gpu_record, gpu, gpu_fields, 0);
 *
 * A row that names a member of another type than it reads does not compile, and neither does a
 * table with more rows than a reader can keep in mind. */
#ifndef BASE_JSON_JSON_RECORD_H
#define BASE_JSON_JSON_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_read.h"

/* In brackets the member's type. */
enum json_kind {
	REC_KIND_STR,  /* a string in the arena (const char *); absent: "" */
	REC_KIND_TEXT, /* a string in an array (char[n]) */
	REC_KIND_INT, /* whole numbers (int, uint32_t, int64_t, uint64_t), from 0 on where no bounds
			 are named */
	REC_KIND_U32,
	REC_KIND_LONG,
	REC_KIND_COUNT,
	REC_KIND_DOUBLE, /* a number (double), from 0 on; NAN is written as null, and null is read
			    as absent */
	REC_KIND_BOOL,   /* (bool) */
	REC_KIND_HEX,    /* 16 hexadecimal digits, or from min on (uint64_t) */
	REC_KIND_BITS,   /* "0x" and 16 hexadecimal digits for each word, the last word first
			    (uint64_t, or uint64_t[n]) */
	REC_KIND_TIME,   /* RFC 3339 (int64_t, milliseconds since 1970) */
	REC_KIND_WORD,   /* one of some words (an enum) */
	REC_KIND_STRS,   /* a list of strings (const char **, and n_MEMBER) */
	REC_KIND_LIST,   /* a list of records (struct x *, and n_MEMBER) */
	REC_KIND_ARRAY,  /* the same within the struct (struct x[max], and unsigned n_MEMBER) */
	REC_KIND_OBJECT, /* a record within (struct x), or more members of the same struct */
	REC_KIND_OWN     /* read and written by functions */
};

enum {
	REC_NEEDED = 1, /* absent is an error, and so is an empty string */
	REC_OMIT = 2,   /* not written when it is zero, empty, negative or NAN */
	REC_OR_NULL = 4 /* a string: absent is NULL */
};

/* So many texts that were read last are remembered. */
#define JSON_READER_TEXTS 256

struct json_reader {
	const struct json *j;
	struct arena *a; /* what is read lives here; may be NULL where no row needs it */
	struct err *err; /* not NULL */
	void *top;       /* the outermost struct, for functions of rows */
	/* Of what is read: ids, models and names stand in one document many times, and are in the
	 * arena once. */
	const char *texts[JSON_READER_TEXTS];
};

struct json_record;

/* A row's own functions. read: v is there and not null; to is the struct. 0 or an error with its
 * path from the key on. write: the value alone. */
struct json_own {
	int (*read)(struct json_reader *r, const struct json_node *v, void *to);
	void (*write)(const void *from, struct buf *out);
};

struct json_field {
	const char *key;
	unsigned flags; /* behind the key: so do rows name them */
	enum json_kind kind;
	size_t at;   /* offset of the member */
	size_t n_at; /* of a list's count; a text's size */
	union {
		const struct json_record *record;
		const char *const *words; /* NULL behind the last */
		const struct json_own *own;
	};
	int64_t min, max; /* bounds of a number or of a list's length; 0, 0: those of its type */
	const char *expected;        /* behind "expected "; NULL: as the kind says */
	bool (*good)(const char *s); /* of a string, or of each of a list */
	const char *(*word)(
		unsigned); /* of a word, instead of words: the first max + 1 have names */
	/* Of a list: may element i be where it is? v is the element. */
	int (*check)(struct json_reader *r, const struct json_node *v, const void *list, size_t i);
};

struct json_record {
	const struct json_field *field;
	size_t n, size;
	size_t rest_at;
	bool closed;
};

#define JSON_RECORD_FIELDS_MAX 64

/* rest_at: the offset of a struct slice that keeps members we do not know (`"a":1,"b":[]`), or 0:
 * they are passed over. */
#define JSON_RECORD(name, tag, fields, rest_at)                                                    \
	_Static_assert(sizeof(fields) / sizeof((fields)[0]) <= JSON_RECORD_FIELDS_MAX,             \
		"a bit for each member");                                                          \
	static const struct json_record name = JSON_RECORD_OF(tag, fields, rest_at)
/* The same for a record that other files use, too. */
#define JSON_RECORD_OF(tag, fields, rest_at)                                                       \
	{                                                                                          \
		fields, sizeof(fields) / sizeof((fields)[0]), sizeof(struct tag), rest_at, false   \
	}
/* The same of a document that people write: a member that no row names is refused. */
#define JSON_RECORD_CLOSED(name, tag, fields)                                                      \
	_Static_assert(sizeof(fields) / sizeof((fields)[0]) <= JSON_RECORD_FIELDS_MAX,             \
		"a bit for each member");                                                          \
	static const struct json_record name = {                                                   \
		fields, sizeof(fields) / sizeof((fields)[0]), sizeof(struct tag), 0, true}

/* The offset of a member that is of this very type. */
#define REC_AT(tag, member, type)                                                                  \
	_Generic(((struct tag *)NULL)->member, type : offsetof(struct tag, member))
#define REC_ROW(tag, member, type, k, ...)                                                         \
	{                                                                                          \
		.kind = (k), .at = REC_AT(tag, member, type), .key = __VA_ARGS__                   \
	}

/* Behind the member: the key, then, where wanted, flags and other members of struct json_field by
 * their names. */
#define REC_STR(tag, member, ...) REC_ROW(tag, member, const char *, REC_KIND_STR, __VA_ARGS__)
#define REC_INT(tag, member, ...) REC_ROW(tag, member, int, REC_KIND_INT, __VA_ARGS__)
#define REC_U32(tag, member, ...) REC_ROW(tag, member, uint32_t, REC_KIND_U32, __VA_ARGS__)
#define REC_LONG(tag, member, ...) REC_ROW(tag, member, int64_t, REC_KIND_LONG, __VA_ARGS__)
#define REC_COUNT(tag, member, ...) REC_ROW(tag, member, uint64_t, REC_KIND_COUNT, __VA_ARGS__)
#define REC_DOUBLE(tag, member, ...) REC_ROW(tag, member, double, REC_KIND_DOUBLE, __VA_ARGS__)
#define REC_BOOL(tag, member, ...) REC_ROW(tag, member, bool, REC_KIND_BOOL, __VA_ARGS__)
#define REC_HEX(tag, member, ...) REC_ROW(tag, member, uint64_t, REC_KIND_HEX, __VA_ARGS__)
/* at: the first of n words. */
#define REC_BITS(tag, at_, n, ...)                                                                 \
	{                                                                                          \
		.kind = REC_KIND_BITS, .at = REC_AT(tag, at_, uint64_t), .n_at = (n),              \
		.key = __VA_ARGS__                                                                 \
	}
#define REC_TIME(tag, member, ...) REC_ROW(tag, member, int64_t, REC_KIND_TIME, __VA_ARGS__)
/* An enum without negative values is an unsigned to the compiler. */
#define REC_WORD(tag, member, ...) REC_ROW(tag, member, unsigned, REC_KIND_WORD, __VA_ARGS__)
#define REC_TEXT(tag, member, ...)                                                                 \
	{                                                                                          \
		.kind = REC_KIND_TEXT,                                                             \
		.at = _Generic(&((struct tag *)NULL)->member,                                      \
			       char(*)[sizeof(((struct tag *)NULL)->member)]                       \
			       : offsetof(struct tag, member)),                                    \
		.n_at = sizeof(((struct tag *)NULL)->member), .key = __VA_ARGS__                   \
	}
#define REC_STRS(tag, member, ...)                                                                 \
	{                                                                                          \
		.kind = REC_KIND_STRS, .at = REC_AT(tag, member, const char **),                   \
		.n_at = REC_AT(tag, n_##member, size_t), .key = __VA_ARGS__                        \
	}
/* Elements are `struct element`, said by `element_record`. */
#define REC_LIST(tag, member, element, ...)                                                        \
	{                                                                                          \
		.kind = REC_KIND_LIST, .at = REC_AT(tag, member, struct element *),                \
		.n_at = REC_AT(tag, n_##member, size_t), .record = &element##_record,              \
		.key = __VA_ARGS__                                                                 \
	}
#define REC_ARRAY(tag, member, element, ...)                                                       \
	{                                                                                          \
		.kind = REC_KIND_ARRAY, .at = REC_AT(tag, member[0], struct element),              \
		.n_at = REC_AT(tag, n_##member, unsigned), .record = &element##_record,            \
		.max = sizeof(((struct tag *)NULL)->member) / sizeof(struct element),              \
		.key = __VA_ARGS__                                                                 \
	}
#define REC_OBJECT(tag, member, inner, ...)                                                        \
	{                                                                                          \
		.kind = REC_KIND_OBJECT, .at = REC_AT(tag, member, struct inner),                  \
		.record = &inner##_record, .key = __VA_ARGS__                                      \
	}
/* An object whose members are members of the struct that this row is of. */
#define REC_WITHIN(rec, ...)                                                                       \
	{                                                                                          \
		.kind = REC_KIND_OBJECT, .record = &(rec), .key = __VA_ARGS__                      \
	}
#define REC_OWN(functions, ...)                                                                    \
	{                                                                                          \
		.kind = REC_KIND_OWN, .own = &(functions), .key = __VA_ARGS__                      \
	}

/* Read an object into the struct, where absent members stay as they are (but strings: see above);
 * members that no row names are passed over, or kept or refused where the record says so.
 * ERR_INVALID with path, what was found and what is accepted; ERR_NOMEM. */
int json_record_read(
	struct json_reader *r, const struct json_node *v, const struct json_record *rec, void *to);

/* Read a list into `to`, the pointer at f->at and the count at f->n_at; for functions of rows. The
 * same errors, with the key. */
int json_record_list(
	struct json_reader *r, const struct json_node *v, const struct json_field *f, void *to);

/* The members of v that no row names, in the arena; absent for none. ERR_NOMEM. */
int json_record_rest(struct json_reader *r, const struct json_node *v,
	const struct json_record *rec, struct slice *ret);

/* Append the struct as an object. */
void json_record_write(const struct json_record *rec, const void *from, struct buf *out);

/* The i-th word of a row of words; NULL: there are no more. */
const char *json_record_word(const struct json_field *f, unsigned i);

/* Set "found 5, expected a string" with that key as its path. Returns ERR_INVALID. */
int json_record_wrong(
	struct json_reader *r, const struct json_node *v, const char *key, const char *expected);

#endif

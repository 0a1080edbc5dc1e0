/* SPDX-License-Identifier: Apache-2.0 */
/* base: JSON documents of our own as trees: reports, and objects that we build. cJSON is used in json_doc.c only. What comes
 * from outside and is only read goes to json_read instead. */
#ifndef BASE_JSON_DOC_H
#define BASE_JSON_DOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/* Any value. The one that was parsed or made is owned by who got it, the others by the value they are in. */
struct json_doc;

/* Nodes of a text that is parsed: 64 bytes each and their strings. */
#define JSON_DOC_NODES_MAX 200000u

/* Read text, with all of json_read's refusals first. Numbers become doubles: json_doc_int() says which are exact. ERR_SYNTAX,
 * ERR_TOOBIG or ERR_NOMEM. */
int json_doc_parse(struct slice text, struct json_doc **ret, struct err *err);

/* Free a value that is in no other. NULL-safe. */
void json_doc_free(struct json_doc *doc);

/* A new empty object or array, or NULL. */
struct json_doc *json_doc_object(void);
struct json_doc *json_doc_array(void);

/* Add a member at the end of an object. False: out of memory, object or value is NULL, or a string holds a NUL byte; so a builder
 * may add all and look at the results at the end. A key that is there already is not looked for. json_doc_set takes the value
 * over in every case; raw is JSON text that goes out as it is. */
bool json_doc_set(struct json_doc *object, const char *key, struct json_doc *value);
bool json_doc_set_str(struct json_doc *object, const char *key, struct slice value);
bool json_doc_set_int(struct json_doc *object, const char *key, int64_t value);
bool json_doc_set_bool(struct json_doc *object, const char *key, bool value);
bool json_doc_set_null(struct json_doc *object, const char *key);
bool json_doc_set_raw(struct json_doc *object, const char *key, struct slice json);

/* The same at the end of an array. */
bool json_doc_push(struct json_doc *array, struct json_doc *value);
bool json_doc_push_str(struct json_doc *array, struct slice value);
bool json_doc_push_int(struct json_doc *array, int64_t value);
bool json_doc_push_raw(struct json_doc *array, struct slice json);

/* A member by its exact key, or NULL; NULL for NULL and for what is no object. */
struct json_doc *json_doc_get(const struct json_doc *object, const char *key);
/* The first element or member, the one after it, NULL at the end. */
struct json_doc *json_doc_first(const struct json_doc *of);
struct json_doc *json_doc_next(const struct json_doc *item);
/* How many elements or members. */
size_t json_doc_count(const struct json_doc *of);
/* A member's key; NULL for an element. */
const char *json_doc_key(const struct json_doc *member);

bool json_doc_is_object(const struct json_doc *v);
bool json_doc_is_array(const struct json_doc *v);
/* NULL or null. */
bool json_doc_absent(const struct json_doc *v);

/* The value when it is of this type (int: integral and within ±2^53); else false and *ret as it was. The string lives as long as
 * the tree. */
bool json_doc_str(const struct json_doc *v, struct slice *ret);
bool json_doc_int(const struct json_doc *v, int64_t *ret);
bool json_doc_bool(const struct json_doc *v, bool *ret);

/* Append the value, compact. ERR_NOMEM, also when doc is NULL (a builder ran out), or ERR_TOOBIG (out->max). */
int json_doc_print(const struct json_doc *doc, struct buf *out, struct err *err);

#endif

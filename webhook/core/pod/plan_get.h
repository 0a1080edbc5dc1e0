/* SPDX-License-Identifier: Apache-2.0 */
/* core: single members of a plan's JSON, each of its kind and within its bounds. For plan_read.c
 * alone. */
#ifndef WEBHOOK_CORE_POD_PLAN_GET_H
#define WEBHOOK_CORE_POD_PLAN_GET_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json/json_read.h"

/* What the readers of a plan share. */
struct plan_reader {
	const struct json *j;
	struct arena *a; /* what is read lives here */
	struct err *err; /* not NULL */
};

/* ERR_INVALID: v stands at key, and something else is expected there. Lists and objects hold what
 * the pod's variables were: they are not quoted. */
int plan_bad(
	struct plan_reader *r, const struct json_node *v, const char *key, const char *expected);

/* Each of these reads the member `key`, a SLICE of a literal, of an object: 0, or ERR_INVALID with
 * the key in front, ERR_NOMEM. What is absent leaves zero, where nothing else is said. */

int plan_get_str(struct plan_reader *r, const struct json_node *obj, struct slice key,
	bool required, struct slice *ret);
int plan_get_uint(struct plan_reader *r, const struct json_node *obj, struct slice key, int64_t min,
	int64_t max, uint64_t *ret);
/* Is it there, and so? */
int plan_get_bool(
	struct plan_reader *r, const struct json_node *obj, struct slice key, bool so, bool *ret);
/* An array of at most max elements; absent is fine, NULL. What costs time for each of them is
 * bounded here. */
int plan_get_array(struct plan_reader *r, const struct json_node *obj, struct slice key, size_t max,
	const struct json_node **ret);
/* Such an array of strings. */
int plan_get_list(struct plan_reader *r, const struct json_node *obj, struct slice key, size_t max,
	struct slice **ret, size_t *ret_n);
/* A list of names, each once: what is found by one name is written once. */
int plan_get_names(struct plan_reader *r, const struct json_node *obj, struct slice key,
	struct slice **ret, size_t *ret_n);
/* *made[i]: "made" has names[i]; others there are nothing to us. */
int plan_get_made(struct plan_reader *r, const struct json_node *obj, const char *const *names,
	bool **made, size_t n);
/* One of n words, by its number; it must be there. */
int plan_get_word(struct plan_reader *r, const struct json_node *obj, struct slice key,
	const char *const *words, size_t n, const char *expected, size_t *ret);
/* An object, as it is written. */
int plan_get_object(
	struct plan_reader *r, const struct json_node *obj, struct slice key, struct slice *ret);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* base: config values out of a YAML tree, with errors that name file, line, path, what was found
 * and what is accepted: `poolgate.yaml:12: /pool/claimTtl: found "abc", expected a duration such as
 * 90s`.
 *
 * yaml_get_X(map, key, ret, err): an absent or null key leaves *ret as it is (the default) and
 * returns 0; test with yaml_get() where absence matters, demand with yaml_need(). yaml_as_X(node,
 * …) is for a value at hand and refuses null. map may be NULL or null: then every key is absent.
 * All return 0, ERR_INVALID, or ERR_NOMEM where memory is taken; *ret is written only on success.
 * Slices point into the tree. */
#ifndef BASE_YAML_YAML_CONFIG_H
#define BASE_YAML_YAML_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "base/text.h"
#include "base/yaml/yaml.h"

/* Refuse a map that has keys other than these (NULL-terminated list): "unknown key "x" (did you
 * mean "y"?), known keys: …". Refuses a node that is no map; NULL and null pass. */
int yaml_known(const struct yaml_node *map, struct err *err, ...) __attribute__((sentinel));
int yaml_known_list(
	const struct yaml_node *map, const char *const *keys, size_t n, struct err *err);

/* The value of a key that must be there and not null. */
int yaml_need(
	const struct yaml_node *map, const char *key, struct yaml_node **ret, struct err *err);
/* The same; what would be accepted is said when it is missing: "/kind: found nothing, expected
 * GPUServer". Both name a key of the same letters in another case. */
int yaml_need_as(const struct yaml_node *map, const char *key, const char *expected,
	struct yaml_node **ret, struct err *err);
/* A key that must hold exactly this word. */
int yaml_need_word(const struct yaml_node *map, const char *key, const char *word, struct err *err);

/* A map or sequence at a key: NULL into *ret when absent or null. */
int yaml_get_map(
	const struct yaml_node *map, const char *key, struct yaml_node **ret, struct err *err);
int yaml_get_seq(
	const struct yaml_node *map, const char *key, struct yaml_node **ret, struct err *err);
int yaml_as_map(const struct yaml_node *node, struct err *err);
int yaml_as_seq(const struct yaml_node *node, struct err *err);

/* A string; `450` without quotes is refused with the advice to quote it. */
int yaml_get_str(const struct yaml_node *map, const char *key, struct slice *ret, struct err *err);
int yaml_as_str(const struct yaml_node *node, struct slice *ret, struct err *err);
/* As yaml_*_str, copied NUL-terminated into the tree's arena; refuses a NUL inside. */
int yaml_get_cstr(const struct yaml_node *map, const char *key, const char **ret, struct err *err);
int yaml_as_cstr(const struct yaml_node *node, const char **ret, struct err *err);
/* Any scalar by its spelling (450 gives "450", 3.10 gives "3.10"); null is refused. */
int yaml_as_text(const struct yaml_node *node, struct slice *ret, struct err *err);

/* A whole number in min..max. */
int yaml_get_int(const struct yaml_node *map, const char *key, int64_t min, int64_t max,
	int64_t *ret, struct err *err);
int yaml_as_int(
	const struct yaml_node *node, int64_t min, int64_t max, int64_t *ret, struct err *err);

/* true or false, as yaml_scalar.h has it. */
int yaml_get_bool(const struct yaml_node *map, const char *key, bool *ret, struct err *err);
int yaml_as_bool(const struct yaml_node *node, bool *ret, struct err *err);

/* "90s", "1h30m", "250ms", "0" as milliseconds; a bare number other than 0 is refused. */
int yaml_get_duration(const struct yaml_node *map, const char *key, int64_t min_ms, int64_t max_ms,
	int64_t *ret_ms, struct err *err);
int yaml_as_duration(const struct yaml_node *node, int64_t min_ms, int64_t max_ms, int64_t *ret_ms,
	struct err *err);

/* A Kubernetes quantity, quoted or not: 16160Mi, "2", 0.5. */
int yaml_as_quantity(const struct yaml_node *node, struct quantity *ret, struct err *err);

/* One of n words; *ret is its index. */
int yaml_get_choice(const struct yaml_node *map, const char *key, const char *const *words,
	size_t n, size_t *ret, struct err *err);
int yaml_as_choice(const struct yaml_node *node, const char *const *words, size_t n, size_t *ret,
	struct err *err);

/* A sequence of strings, as an array in the tree's arena. */
int yaml_get_strs(const struct yaml_node *map, const char *key, struct slice **ret, size_t *ret_n,
	struct err *err);
int yaml_as_strs(const struct yaml_node *node, struct slice **ret, size_t *ret_n, struct err *err);

#endif

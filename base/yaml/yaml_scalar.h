/* SPDX-License-Identifier: Apache-2.0 */
/* base: what a scalar means, as kubectl takes it (sigs.k8s.io/yaml, its goyaml.v2 resolve.go;
 * YAML 1.1 booleans). */
#ifndef BASE_YAML_YAML_SCALAR_H
#define BASE_YAML_YAML_SCALAR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"
#include "base/yaml/yaml.h"

enum yaml_type { YAML_NULL, YAML_BOOL, YAML_INT, YAML_FLOAT, YAML_STRING };

/* Bytes that hold the normal form of any number. */
#define YAML_NUMBER_MAX 40

/* text points to the node's own bytes (strings, numbers read as JSON), to a constant, or into num.
 */
struct yaml_value {
	enum yaml_type type;
	struct slice text; /* "null", "true", "384", "3.1", "1e+21": JSON; a string's bytes as they
			      are */
	bool finite;       /* false for .inf and .nan, which JSON cannot say */
	char num[YAML_NUMBER_MAX];
};

/* What a spelling without tag and quotes means. Do not copy *ret by assignment: text may point into
 * it. */
void yaml_resolve(struct slice spelling, struct yaml_value *ret);

/* What a scalar node means, its quotes and tag considered. An explicit tag that the value
 * contradicts (`!!int abc`, `!!bool 3`) is ERR_INVALID with the place; so is !!binary. Other tags
 * (`!mine`) make a string. */
int yaml_meaning(const struct yaml_node *scalar, struct yaml_value *ret, struct err *err);

/* What a map key means: keys are strings in JSON (`y` is "true", 1 is "1"). ERR_INVALID for null,
 * for whole numbers above 2^63-1 and for .inf and .nan, as kubectl refuses or garbles them;
 * ERR_INVALID for collections and aliases. */
int yaml_key(const struct yaml_node *key, struct yaml_value *ret, struct err *err);

/* "null", "a boolean", "a whole number", "a number", "a string" */
const char *yaml_type_name(enum yaml_type type);

/* May s be written as a plain scalar, in a block or flow context alike, and still mean the same
 * string? Stricter than YAML needs: when in doubt, no. Also no for what YAML 1.2 or other readers
 * would take for something else. */
bool yaml_plain_safe(struct slice s);

/* A double in Go's JSON spelling (strconv 'f', 'e' below 1e-6 and from 1e21). Returns the length.
 */
size_t yaml_float_text(double v, char out[static YAML_NUMBER_MAX]);

#endif

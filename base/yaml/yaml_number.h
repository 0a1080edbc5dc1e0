/* SPDX-License-Identifier: Apache-2.0 */
/* base: numbers as Go reads and writes them, for yaml_scalar alone. */
#ifndef BASE_YAML_YAML_NUMBER_H
#define BASE_YAML_YAML_NUMBER_H

#include <stdbool.h>

#include "base/slice.h"
#include "base/yaml/yaml_scalar.h"

/* Is this spelling, whose first byte is a digit, a sign or a point, a number to goyaml.v2? Then
 * *ret says which. */
bool yaml_number(struct slice spelling, struct yaml_value *ret);

/* Rewrite *ret for a float (text: its JSON form) that is a map key: strconv.FormatFloat(v, 'g', -1,
 * 32), which is what sigs.k8s.io/yaml does. False when it does not fit a 32-bit float. */
bool yaml_key_float(struct slice text, struct yaml_value *ret);

#endif

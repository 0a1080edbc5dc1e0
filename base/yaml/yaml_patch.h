/* SPDX-License-Identifier: Apache-2.0 */
/* base: a JSON patch applied to a YAML tree, which otherwise stays as it was read. */
#ifndef BASE_YAML_YAML_PATCH_H
#define BASE_YAML_YAML_PATCH_H

#include "base/err.h"
#include "base/slice.h"
#include "base/yaml/yaml.h"

/* Apply the RFC 6902 operations add, replace and remove in `patch` (JSON text) below `base`, which
 * is a document's root or any node in it: pointers begin there. New collections get block style
 * where their surroundings have it. An alias or a merge key that leads to a place is written out
 * there; before a value changes that aliases show elsewhere, too, it is written out where they are.
 * yaml_splice writes the changes into the text. ERR_SYNTAX: patch is no JSON. ERR_INVALID: no
 * patch, an unknown operation, a bad pointer. ERR_NOTFOUND: a place that does not exist.
 * ERR_TOOBIG, ERR_NOMEM. Operations before the one that failed stay applied. */
int yaml_patch(struct yaml_node *base, struct slice patch, struct err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* base: where things stand in the text that a tree was read from, for yaml_splice alone. Offsets
 * are bytes behind a BOM. */
#ifndef BASE_YAML_YAML_PLACE_H
#define BASE_YAML_YAML_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "base/yaml/yaml.h"

/* ---- lines ---- */

/* The byte at i, NUL behind the text. */
char yaml_place_char(struct slice text, size_t i);
bool yaml_place_is_blank(char c);
/* A newline or carriage return, or the end of the text. */
bool yaml_place_is_break(struct slice text, size_t i);
size_t yaml_place_line_begin(struct slice text, size_t i);
/* Does only indentation stand in front of i on its line? */
bool yaml_place_begins_line(struct slice text, size_t i);
/* The break behind what follows on the line of a unit that ends at i: blanks and a comment. i where
 * anything else follows. */
size_t yaml_place_line_end(struct slice text, size_t i);
/* Behind blanks, breaks and comments from i on, and behind `also` as often as it comes. */
size_t yaml_place_skip_gap(struct slice text, size_t i, char also);

/* ---- nodes ---- */

/* Was it read as a collection in block style? */
bool yaml_place_was_block(const struct yaml_node *node);
/* The scalar, alias or collection in brackets that a node ended with. */
const struct yaml_node *yaml_place_end_node(const struct yaml_node *node);
/* Behind the last byte of a node, without the empty lines that may follow a block scalar. */
size_t yaml_place_end(struct slice text, const struct yaml_node *node);

/* ---- units: members with their keys, elements with their dashes; numbered as they were read
 * (`was`) ---- */

/* Nodes of a unit: 2 in a map, else 1. */
size_t yaml_place_per_unit(const struct yaml_node *in);
const struct yaml_node *yaml_place_next_unit(
	const struct yaml_node *in, const struct yaml_node *unit);
size_t yaml_place_unit_start(struct slice text, const struct yaml_node *in, size_t unit);
size_t yaml_place_unit_stop(struct slice text, const struct yaml_node *in, size_t unit);
/* Has a patch taken it away? */
bool yaml_place_unit_gone(const struct yaml_node *in, size_t unit);

#endif

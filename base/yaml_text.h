/* SPDX-License-Identifier: Apache-2.0 */
/* base: one scalar in one of YAML's five spellings, for yaml_emit alone. */
#ifndef BASE_YAML_TEXT_H
#define BASE_YAML_TEXT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"
#include "base/yaml.h"

/* Where a scalar stands. */
enum yaml_context {
	YAML_IN_BLOCK, /* a value */
	YAML_IN_FLOW,  /* a value between brackets */
	YAML_IN_KEY    /* a key, in block or flow context: one line */
};

/* The style to write text in: `wanted` where it can say this text there, else single or double quotes. */
enum yaml_style yaml_text_style(
	enum yaml_style wanted, struct slice text, enum yaml_context context);

/* Append text in a style that yaml_text_style() allowed. Further lines begin at column (from 0) `indent`, which is the
 * column of the collection around it plus 2. No newline behind it, but after YAML_LITERAL and YAML_FOLDED one has been
 * written. */
void yaml_text_write(struct buf *out, enum yaml_style style, struct slice text, unsigned indent);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* base: a YAML tree as text again: order, styles, spelling of plain scalars, anchors, tags, markers and indentation as
 * they were read; comments, blank lines and the places of folds are gone. */
#ifndef BASE_YAML_EMIT_H
#define BASE_YAML_EMIT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/yaml.h"

/* Append all documents. Reading the result gives an equal tree. Documents that were read as JSON are written in block
 * style, strings plain where that is safe. ERR_TOOBIG when out->max or memory ran out. */
int yaml_emit(const struct yaml_stream *stream, struct buf *out, struct err *err);

#endif

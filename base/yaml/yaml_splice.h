/* SPDX-License-Identifier: Apache-2.0 */
/* base: what yaml_patch changed, written into the text that the tree was read from. */
#ifndef BASE_YAML_YAML_SPLICE_H
#define BASE_YAML_YAML_SPLICE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/yaml/yaml.h"

/* Append text, which docs were read from, with what has changed in them since. Every byte outside
 * the changed members and elements stays. What comes is written as its surroundings are:
 * indentation, brackets, ends of lines; JSON stays JSON. The first new member of a map takes the
 * place of the first one that went, with the comment behind it; of other values that go, the
 * comment on their last line goes along. The result is read again and must be the same tree: if it
 * is not, ERR_INTERNAL, and out holds nothing new. ERR_TOOBIG when out->max ran out, ERR_NOMEM. */
int yaml_splice(
	const struct yaml_stream *docs, struct slice text, struct buf *out, struct err *err);

/* Append a document that was read as JSON as YAML in block style, strings plain where that is safe;
 * read again, as above. */
int yaml_from_json_text(const struct yaml_stream *docs, struct buf *out, struct err *err);

#endif

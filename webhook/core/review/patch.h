/* SPDX-License-Identifier: Apache-2.0 */
/* core: writing a JSON patch (RFC 6902) operation by operation, straight into a buffer. */
#ifndef WEBHOOK_CORE_REVIEW_PATCH_H
#define WEBHOOK_CORE_REVIEW_PATCH_H

#include <stddef.h>

#include "base/buf.h"
#include "base/slice.h"

/* Operations are applied in the order in which they are written: whoever inserts into an array
 * shifts what is behind. */
struct patch {
	struct buf *out;
	size_t n; /* operations written */
};

/* Start writing into out. */
void patch_begin(struct patch *p, struct buf *out);
/* Close the array; a patch without operations leaves out as it was before patch_begin. */
void patch_end(struct patch *p);

/* Where a path is NULL (the arena ran out while it was made), nothing is written and the buffer
 * counts as failed. */

/* One operation. path: a JSON pointer that is ready (from constants, indexes and container paths);
 * key: a last segment that is escaped here, absent for none. value: JSON text. */
void patch_add(struct patch *p, const char *path, struct slice key, struct slice value);
void patch_remove(struct patch *p, const char *path, struct slice key);

/* As patch_add, with a string as the value, escaped here. */
void patch_add_str(struct patch *p, const char *path, struct slice key, struct slice value);

/* For values that are written in pieces: open, append JSON text to p->out, close. */
void patch_open(struct patch *p, const char *op, const char *path, struct slice key);
void patch_close(struct patch *p);

/* The same at path/index, and below it at key unless that is absent. */
void patch_add_at(struct patch *p, const char *path, size_t index, struct slice value);
void patch_remove_at(struct patch *p, const char *path, size_t index, struct slice key);
void patch_open_at(
	struct patch *p, const char *op, const char *path, size_t index, struct slice key);

#endif

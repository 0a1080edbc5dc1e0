/* SPDX-License-Identifier: Apache-2.0 */
/* A document in its small changes, one at a time. Of JSON: each member and element gone, or of
 * another kind; each text one byte long, or one longer; each number the next, its negative, or
 * zero; each element twice, and each two neighbours in each other's place. */
#ifndef TEST_UNIT_VARY_H
#define TEST_UNIT_VARY_H

#include <stddef.h>

#include "base/slice.h"

struct cJSON;

/* Calls `each` while the document is changed, for one change of `step`, beginning with change
 * number `first`, which counts from 0. Afterwards it is as it was. */
void vary(struct cJSON *document, size_t first, size_t step, void (*each)(void *ctx), void *ctx);

/* A text in its small changes: at places from `first` on, `step` bytes from each to the next, a
 * byte gone, a byte twice, and others in its place. `each` is given a copy of exactly that length.
 */
void vary_text(struct slice text, size_t first, size_t step, void (*each)(struct slice text));

#endif

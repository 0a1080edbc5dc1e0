/* SPDX-License-Identifier: Apache-2.0 */
/* core: the annotation bitfusion-client/filter as words. */
#ifndef WEBHOOK_CORE_POOL_FILTER_H
#define WEBHOOK_CORE_POOL_FILTER_H

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

/* Words that one pod may give; each becomes words on a command line. */
#define FILTERS_MAX 64
#define FILTER_BYTES_MAX 4096

/* Split the annotation's text (absent: no words) into words separated by blanks. A value in double
 * quotes may hold blanks: gpu.model="Tesla V100" is the word `gpu.model=Tesla V100`; quotes
 * elsewhere are part of the word. The words live in the arena or borrow from text. ERR_INVALID
 * without a path (too many words or bytes, a quoted value without its end), or ERR_NOMEM. */
int filter_words(
	struct slice text, struct arena *a, struct slice **ret, size_t *ret_n, struct err *err);

#endif

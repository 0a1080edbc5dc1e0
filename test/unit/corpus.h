/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds of the fuzz targets as texts for tests, which run where the tree is. */
#ifndef TEST_UNIT_CORPUS_H
#define TEST_UNIT_CORPUS_H

#include "base/slice.h"

/* What a reader makes of each seed of test/fuzz/corpus/NAME, and of its small changes (vary.h),
 * some `places` places in each, is what it was (kept.h): a group for each seed. say: says what it
 * makes of a text. */
void corpus_kept(const char *name, size_t places, void (*say)(struct slice text));

#endif

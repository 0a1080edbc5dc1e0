/* SPDX-License-Identifier: Apache-2.0 */
/* test: what an analyzer that sees one file at a time cannot know: that these return the code they
 * are given, which is never 0. Without it every failing call looks as if it might have succeeded.
 * Never compiled into the program. */
#ifndef TEST_LINT_MODEL_H
#define TEST_LINT_MODEL_H

/* It comes before the file's first line: the file's own word about _GNU_SOURCE would be too late.
 */
#define _GNU_SOURCE
#include "base/err.h"
#include "base/yaml/yaml.h"
#undef _GNU_SOURCE

#define err_set(err, code, ...) (err_set((err), (code), __VA_ARGS__), (int)(code))
#define err_reason(err, code, ...) (err_reason((err), (code), __VA_ARGS__), (int)(code))
#define err_in(...) (err_in(__VA_ARGS__), (int)ERR_INVALID)
#define yaml_err(node, err, code, ...) (yaml_err((node), (err), (code), __VA_ARGS__), (int)(code))
#define yaml_unexpected(...) (yaml_unexpected(__VA_ARGS__), (int)ERR_INVALID)

#endif

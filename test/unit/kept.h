/* SPDX-License-Identifier: Apache-2.0 */
/* What a program said when a file of test/unit/kept was written, as digests, a line for each
 * group: a test that compares with it says that something is another than before, not that it is
 * right. UPDATE=1 in the environment writes the file anew; SAY=FOLDER writes all that is said
 * there, a file for each group, so that two trees can be compared. Runs where the tree is. */
#ifndef TEST_UNIT_KEPT_H
#define TEST_UNIT_KEPT_H

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"

/* Opens FILE.txt; kept_end closes it, and fails where a line is another, or is missing. */
void kept_begin(const char *file);
void kept_end(void);

/* A group, by its name: what is said between these two is one line. Names hold no blank. */
void kept_group(const char *name);
void kept_group_end(void);

/* One more thing that is said, as it is or as printf has it. */
void kept_text(const char *text);
void kept_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A text of that name that need not be there; what a call returned, and its error. */
void kept_slice(const char *name, struct slice s);
void kept_err(int rc, const struct err *err);

/* Said to people alone, with SAY: kept_shows(). */
bool kept_shows(void);
void kept_note(const char *text);

#endif

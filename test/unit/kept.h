/* SPDX-License-Identifier: Apache-2.0 */
/* What a program said when a file of test/unit/kept was written, as digests, a line for each
 * group: a test that compares with it says that something is another than before, not that it is
 * right. With UPDATE set in the environment the file is written anew; with SAY=FOLDER all that is
 * said stands there, a file for each group, so that two trees can be compared. Runs where the tree
 * is. */
#ifndef TEST_UNIT_KEPT_H
#define TEST_UNIT_KEPT_H

#include <stdbool.h>

/* Opens FILE.txt; kept_end closes it, and fails where a line is another, or is missing. */
void kept_begin(const char *file);
void kept_end(void);

/* A group, by its name: what is said between these two is one line. Names hold no blank. */
void kept_group(const char *name);
void kept_group_end(void);

/* One more thing that is said, as it is or as printf has it. */
void kept_text(const char *text);
void kept_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Said to people alone, with SAY: kept_shows(). */
bool kept_shows(void);
void kept_note(const char *text);

#endif

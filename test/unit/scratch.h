/* SPDX-License-Identifier: Apache-2.0 */
/* test: a folder of a test's own, and the files in it. */
#ifndef TEST_UNIT_SCRATCH_H
#define TEST_UNIT_SCRATCH_H

/* For TESTS_BETWEEN or TESTS_WITHIN: makes the folder; removes it with all that is in it. */
int scratch_begin(void **state);
int scratch_end(void **state);

/* A path in the folder, the folder itself for "". Of these paths the last 64 stay. */
const char *scratch(const char *name);

/* Write a file anywhere, or write it anew; the test fails where it cannot be written. */
void write_text(const char *path, const char *text);
/* The same in the folder; its path. */
const char *scratch_file(const char *name, const char *text);

#endif

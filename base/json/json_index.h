/* SPDX-License-Identifier: Apache-2.0 */
/* base: the first look of the strict JSON reader at a text: where quotes stand, and bytes inside
 * strings that need a second look. It goes over the text block by block, without a branch for each
 * byte, so that the reader need not search for the end of a string before it can go on. For
 * json_read.c alone. */
#ifndef BASE_JSON_JSON_INDEX_H
#define BASE_JSON_JSON_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that are looked at in one go: the lists of a window lie in the nearest cache. */
#define JSON_BLOCK 64
#define JSON_WINDOW (16 * JSON_BLOCK)
/* More places than are found are written at a list's end. */
#define JSON_LIST_SLACK 8
/* The ends of the two lists: larger than any place, and the second smaller than the first. */
#define JSON_NO_QUOTE UINT32_MAX
#define JSON_NO_ODD (UINT32_MAX - 1)

struct json_index {
	const char *text; /* borrowed */
	uint32_t len;
	uint32_t next;    /* where the next window begins */
	uint64_t escaped; /* 1: its first byte stands behind a backslash that escapes it */
	bool avx2; /* the CPU has it, and BMI and POPCNT; to try the other way, make it false */
	/* Offsets in the text, in order. Of each '"' that no backslash escapes; two JSON_NO_QUOTE
	 * behind them. */
	uint32_t quote[JSON_WINDOW + JSON_LIST_SLACK];
	/* Of each backslash, control character and byte of a non-ASCII character, wherever it
	 * stands; JSON_NO_ODD behind them. */
	uint32_t odd[JSON_WINDOW + JSON_LIST_SLACK];
};

/* Begin with text[0..len), len below JSON_NO_ODD: both lists are empty. */
void json_index_init(struct json_index *x, const char *text, size_t len);

/* Make the lists anew, of the next window. False at the end of the text. */
bool json_index_next(struct json_index *x);

#endif

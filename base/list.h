/* SPDX-License-Identifier: Apache-2.0 */
/* base: lists that grow: a pointer, how many objects it holds, how many it has room for. All three
 * begin as zeroes. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

/* Room for one object more behind the n of the list. Where there is none the list moves to one
 * twice as long, whose new places hold anything: free() it. False when out of memory: the list is
 * what it was. cap is a size_t; arguments are named more than once. */
#define LIST_ROOM(list, n, cap) LIST_ROOM_IN(NULL, list, n, cap)
/* The same in an arena, where what it was stays, too. */
#define LIST_ROOM_IN(a, list, n, cap)                                                              \
	((n) < (cap) || list_grow(a, &(list), &(cap), sizeof(__typeof__(*(list)))))

/* What these two do with a full list: list is the address of the pointer, size that of an object.
 */
bool list_grow(struct arena *a, void *list, size_t *cap, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* base: lists that grow. */
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

#define FIRST 16

bool list_grow(struct arena *a, void *list, size_t *cap, size_t size)
{
	/* no object is larger than half of the address space */
	size_t more = *cap ? 2 * *cap : FIRST;
	void *was, *now;

	memcpy(&was, list, sizeof(was));
	now = a ? arena_space(a, more, size) : realloc(was, more * size);
	if (!now)
		return false;
	if (a && was)
		memcpy(now, was, *cap * size);
	memcpy(list, &now, sizeof(now));
	*cap = more;
	return true;
}

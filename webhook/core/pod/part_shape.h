/* SPDX-License-Identifier: Apache-2.0 */
/* core: which members of an object were rendered. By that list the same members are found again in
 * a pod, whatever the API server's defaults and other hooks have put beside them, by a replica that
 * does not know the profile. */
#ifndef WEBHOOK_CORE_POD_PART_SHAPE_H
#define WEBHOOK_CORE_POD_PART_SHAPE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json/json_read.h"

/* Append the shape of an object and ';'. A member is its key; an object's own members follow in (),
 * and those of each object of an array in [], parted by ';'. Other members are parted by ','.
 * "name,secret(secretName,items[key,path]);" False when it cannot be written: a key that holds one
 * of these, or is no printable ASCII. */
bool shape_write(const struct json *j, const struct json_node *object, struct buf *out);

/* Shapes one after the other, while they are read. Whoever makes pods may have written them. */
struct shape_reader {
	struct slice left;
	size_t looks; /* at members of objects that it may still cost */
	struct arena *a;
	bool bad; /* no shape, or too dear; sticks */
};

/* Begin with the first; shapes and arena are borrowed. */
struct shape_reader shape_reader(struct slice shapes, struct arena *a);

/* Take the next shape and append the values that the object has at its places, so that the same
 * values give the same bytes however they are spelled: what says nothing is absent, quantities are
 * compared by value, arrays of objects may go on behind those that the shape knows, arrays of words
 * are whole. object NULL: all are absent. */
void shape_values(struct shape_reader *r, const struct json *j, const struct json_node *object,
	struct buf *out);

#endif

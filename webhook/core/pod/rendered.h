/* SPDX-License-Identifier: Apache-2.0 */
/* core: is what a profile renders still in a pod, word for word, whatever the API server's defaults
 * and other hooks have added to it? */
#ifndef WEBHOOK_CORE_POD_RENDERED_H
#define WEBHOOK_CORE_POD_RENDERED_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/json/json_read.h"

/* ours: an object of the profile as compact JSON. Each of its members is in `found`, with the same
 * value: objects and arrays of objects may have got more, arrays of words must be the same. What
 * says nothing (null, false, 0, "", []) may be absent, as the API server leaves it out. False too
 * when the arena ran out, which it remembers. */
bool rendered_there(
	struct slice ours, const struct json *j, const struct json_node *found, struct arena *a);

#endif

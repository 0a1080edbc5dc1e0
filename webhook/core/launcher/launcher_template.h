/* SPDX-License-Identifier: Apache-2.0 */
/* core: the templates of a profile document and the conditions under which they are written, read
 * and checked. */
#ifndef WEBHOOK_CORE_LAUNCHER_LAUNCHER_TEMPLATE_H
#define WEBHOOK_CORE_LAUNCHER_LAUNCHER_TEMPLATE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/yaml/yaml.h"
#include "webhook/core/launcher/launcher.h"

/* What p has to know before: clients. Errors are ERR_INVALID with the place, or ERR_NOMEM. */

/* The template at this node, copied into the arena: with known places alone, and those that have no
 * value for every request ({fraction}, {memory_mb}, …) only where `when` gives them one. */
int template_read(const struct yaml_node *node, enum word_when when, const struct profile *p,
	struct arena *a, struct slice *ret, struct err *err);

/* The key "if" of an entry (fraction, memory, filter); *io stays as it is when there is none. */
int template_when(const struct yaml_node *map, enum word_when *io, struct err *err);

/* A request that fills every place, to see what templates give for a client. Borrows both. */
struct launch template_sample(const struct profile *p, const struct profile_client *c);

/* Does any template of the profile hold this place? */
bool profile_has(const struct profile *p, const char *place);

#endif

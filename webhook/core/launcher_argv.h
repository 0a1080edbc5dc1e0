/* SPDX-License-Identifier: Apache-2.0 */
/* core: the templates of a profile document (argv, options, env), read and checked. */
#ifndef WEBHOOK_CORE_LAUNCHER_ARGV_H
#define WEBHOOK_CORE_LAUNCHER_ARGV_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/yaml.h"
#include "webhook/core/launcher.h"

/* Words of one argv, and environment variables of one profile. */
#define PROFILE_WORDS_MAX 256

/* What p has to know before: clients. `spec` is the document's spec. All ERR_INVALID with the place, or ERR_NOMEM. */

/* argv, separator, launcher, options, shell: demanded of a wrap profile, refused elsewhere. */
int argv_read(const struct yaml_node *spec, struct arena *a, struct profile *p, struct err *err);

/* env: demanded of a profile that does not wrap. */
int env_read(const struct yaml_node *spec, struct arena *a, struct profile *p, struct err *err);

/* Does any template of the profile hold this place? */
bool profile_has(const struct profile *p, const char *place);

#endif

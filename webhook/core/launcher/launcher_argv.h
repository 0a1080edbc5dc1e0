/* SPDX-License-Identifier: Apache-2.0 */
/* core: argv and options of a profile document, read and checked. */
#ifndef WEBHOOK_CORE_LAUNCHER_LAUNCHER_ARGV_H
#define WEBHOOK_CORE_LAUNCHER_LAUNCHER_ARGV_H

#include "base/arena.h"
#include "base/err.h"
#include "base/yaml/yaml.h"
#include "webhook/core/launcher/launcher.h"

/* Words of one argv. */
#define PROFILE_WORDS_MAX 256

/* argv, separator, launcher, options, shell: demanded of a wrap profile, refused elsewhere. p must
 * know its clients; spec is the document's. ERR_INVALID with the place, ERR_NOMEM. */
int argv_read(const struct yaml_node *spec, struct arena *a, struct profile *p, struct err *err);

#endif

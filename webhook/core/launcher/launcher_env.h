/* SPDX-License-Identifier: Apache-2.0 */
/* core: env of a profile document, read and checked. */
#ifndef WEBHOOK_CORE_LAUNCHER_LAUNCHER_ENV_H
#define WEBHOOK_CORE_LAUNCHER_LAUNCHER_ENV_H

#include "base/arena.h"
#include "base/err.h"
#include "base/yaml/yaml.h"
#include "webhook/core/launcher/launcher.h"

/* env: demanded of a profile that does not wrap. p must know its clients; spec is the document's.
 * ERR_INVALID with the place, ERR_NOMEM. */
int env_read(const struct yaml_node *spec, struct arena *a, struct profile *p, struct err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* core: the init containers of a profile, read from YAML and rendered once for each client. */
#ifndef WEBHOOK_CORE_LAUNCHER_LAUNCHER_INITS_H
#define WEBHOOK_CORE_LAUNCHER_LAUNCHER_INITS_H

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/yaml/yaml.h"
#include "webhook/core/launcher/launcher.h"

/* What is put into the texts of an init container. */
struct inits_fill {
	/* {client.NAME} in the strings of command, args and env[].value; other braces stay as they
	 * are. */
	const struct profile_value *values;
	size_t n_values;
	/* In command[2] the first `word` becomes `by`; absent: no such thing. */
	struct slice word;
	struct slice by;
};

/* Init containers for one client: objects with name (a DNS label, each once) and image;
 * volumeMounts as in parts_mounts; resources are taken apart. ERR_INVALID, ERR_NOMEM. */
int inits_read(const struct yaml_node *seq, const struct inits_fill *fill,
	const struct profile_volume *volumes, size_t n_volumes, struct arena *a,
	struct profile_init **ret, size_t *ret_n, struct err *err);

#endif

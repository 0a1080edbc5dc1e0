/* SPDX-License-Identifier: Apache-2.0 */
/* core: a launcher profile out of its document (apiVersion poolgate.io/v1alpha1, kind
 * LauncherProfile); the schema is docs/launchers.md. */
#ifndef WEBHOOK_CORE_LAUNCHER_LAUNCHER_LOAD_H
#define WEBHOOK_CORE_LAUNCHER_LAUNCHER_LOAD_H

#include "base/arena.h"
#include "base/err.h"
#include "base/yaml/yaml.h"
#include "webhook/core/launcher/launcher.h"

#define POOLGATE_API_VERSION "poolgate.io/v1alpha1"
#define LAUNCHER_KIND "LauncherProfile"

/* Read one document. Everything is copied into the arena; ret is written only on success. Every
 * error names file, line, path, what was found and what is accepted: ERR_INVALID (also unknown
 * keys), ERR_TOOBIG (an object over 256 KiB), ERR_NOMEM. */
int launcher_load(
	const struct yaml_node *root, struct arena *a, struct profile *ret, struct err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* core: the profile "bitfusion", out of the two files that the origin's users have: the client
 * catalogue and the sidecar config, read unchanged. Here and in the names of the annotations the
 * word Bitfusion stands; nowhere else. */
#ifndef WEBHOOK_CORE_LAUNCHER_LAUNCHER_BITFUSION_H
#define WEBHOOK_CORE_LAUNCHER_LAUNCHER_BITFUSION_H

#include "base/arena.h"
#include "base/err.h"
#include "base/yaml/yaml.h"
#include "webhook/core/launcher/launcher.h"

#define BITFUSION_PROFILE "bitfusion"

/* catalogue: {BitfusionClients: [{BitfusionVersion, OSVersion, BinaryPath, EnvVariable}]}; of
 * entries for the same pair the later one wins. sidecar: {initContainers, containers, volumes}: all
 * init containers and volumes are used, of the containers the first one's volumeMounts alone. In
 * command[2] of each init container the first BITFUSION_CLIENT_OPT_PATH becomes the client's
 * /opt/bitfusion/... (EnvVariable up to /opt/bitfusion, then "/opt/bitfusion/" and a star). Keys
 * that the origin does not know are left alone, as it does. shell: what runs one-string commands,
 * one word ("sh"). Everything is copied into the arena; ret is written only on success. ERR_INVALID
 * with file, line and path; ERR_TOOBIG, ERR_NOMEM. */
int launcher_bitfusion(const struct yaml_node *catalogue, const struct yaml_node *sidecar,
	struct slice shell, struct arena *a, struct profile *ret, struct err *err);

#endif

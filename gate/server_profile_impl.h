/* SPDX-License-Identifier: Apache-2.0 */
/* gate: what the readers of ServerProfiles share. */
#ifndef GATE_SERVER_PROFILE_IMPL_H
#define GATE_SERVER_PROFILE_IMPL_H

#include "base/yaml/yaml_config.h"
#include "gate/server_profile.h"

/* spec.mode and spec.session, spec.usage and spec.mps; ERR_INVALID. */
int server_profile_read_use(
	const struct yaml_node *spec, struct server_profile *p, struct err *err);

#endif

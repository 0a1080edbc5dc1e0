/* SPDX-License-Identifier: Apache-2.0 */
/* core: the pod's end of a gate (docs/gpugate.md) out of a profile document: a native sidecar, its
 * token and its CAs. */
#ifndef WEBHOOK_CORE_LAUNCHER_LAUNCHER_GATE_H
#define WEBHOOK_CORE_LAUNCHER_LAUNCHER_GATE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/yaml/yaml.h"
#include "webhook/core/launcher/launcher.h"

/* Of the CAs' PEM: it stands in an annotation of each pod, and all of an object's may have 256 KiB.
 */
#define GATE_CA_MAX (32u << 10)

/* spec.gate of the document, where it is there: sets p->gate, and adds the sidecar to the init
 * containers of each client, behind the profile's own, and its two volumes to the profile's. p must
 * know its clients, parts and placement. ERR_INVALID with the place, ERR_NOMEM. */
int gate_read(const struct yaml_node *spec, struct arena *a, struct profile *p, struct err *err);

#endif

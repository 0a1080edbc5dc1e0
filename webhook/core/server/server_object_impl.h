/* SPDX-License-Identifier: Apache-2.0 */
/* core: what the files of server_object share. */
#ifndef WEBHOOK_CORE_SERVER_SERVER_OBJECT_IMPL_H
#define WEBHOOK_CORE_SERVER_SERVER_OBJECT_IMPL_H

#include "webhook/core/server/server_object.h"

/* Does the server take no new claims whatever its GPUs are: draining, being deleted, without the
 * finalizer? */
bool server_object_drains(const struct server_object *o);
/* Are the verdicts on its GPUs recent? */
bool server_object_fresh(const struct server_object *o);

#endif

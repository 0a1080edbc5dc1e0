/* SPDX-License-Identifier: Apache-2.0 */
/* core: what the files of server_object share. */
#ifndef WEBHOOK_CORE_SERVER_SERVER_OBJECT_IMPL_H
#define WEBHOOK_CORE_SERVER_SERVER_OBJECT_IMPL_H

#include "base/json/json_record.h"
#include "webhook/core/server/server_object.h"

/* ---- server_object_status.c ---- */

/* How a status is spelled. It is written as a member of its server_object. */
extern const struct json_record server_status_record;

/* ---- server_status.c ---- */

/* Does GPU i (index into status.gpus) take new claims, as far as it has room? */
bool server_gpu_usable(const struct server_object *o, size_t i);
/* Rule R10: these are the server's GPUs now, whose strings the status borrows. What it has beside
 * one that was there stays; GPUs that have vanished stay behind them as missing, while a claim is
 * on them. True when that differs from the status (then it was changed). False with a->failed when
 * out of memory. */
bool server_status_replace_gpus(
	struct server_status *s, const struct gpu *gpus, size_t n, struct arena *a);

#endif

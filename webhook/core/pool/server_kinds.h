/* SPDX-License-Identifier: Apache-2.0 */
/* core: servers that differ by nothing but name, address and labels are of one kind: whoever looks
 * for GPUs by model or launcher asks each kind once, not each server. What labels and addresses say
 * is server_words'. */
#ifndef WEBHOOK_CORE_POOL_SERVER_KINDS_H
#define WEBHOOK_CORE_POOL_SERVER_KINDS_H

#include "webhook/core/pool/inventory.h"

/* Of servers that are all made differently kinds help nobody: one beyond so many has none. */
#define SERVER_KINDS_MAX 1024

struct server_kind;

/* Zero is an empty table. Not thread-safe. */
struct server_kinds {
	/* One of each kind, as filters and launchers see it: models, launchers, and an address of
	 * the family. The first is nobody's, and those that no server is of any more have no GPUs.
	 */
	struct gpu_server *servers;
	struct server_kind *kinds;
	size_t n; /* of both, the first included */
};

/* The kind of the server, which had that one before (0: none). What is kept of it is a copy. 0:
 * there are too many kinds, or memory ran out: it must be asked itself. */
uint32_t server_kinds_take(struct server_kinds *k, uint32_t had, const struct gpu_server *s);
/* A server of that kind has gone. 0: it had none. */
void server_kinds_drop(struct server_kinds *k, uint32_t kind);
/* Are two of one kind? */
bool server_kinds_alike(const struct gpu_server *a, const struct gpu_server *b);
/* Frees; the table is empty afterwards. */
void server_kinds_release(struct server_kinds *k);

#endif

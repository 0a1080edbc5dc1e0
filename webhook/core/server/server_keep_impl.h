/* SPDX-License-Identifier: Apache-2.0 */
/* core: what the files that keep a GPUServer's conditions share. */
#ifndef WEBHOOK_CORE_SERVER_SERVER_KEEP_IMPL_H
#define WEBHOOK_CORE_SERVER_SERVER_KEEP_IMPL_H

#include "webhook/core/server/server_keep.h"

/* The most that is said of a claim. */
#define SERVER_SAID_SIZE 160

/* Is this claim to be named in a condition? ret says what about it. */
typedef bool server_name_fn(
	const void *ctx, const struct claim_record *r, char ret[static SERVER_SAID_SIZE]);

/* "ml/web-0 until 2026-11-24T03:40:00Z, ml/web-1 until …, and 2 more"; NULL: there is none. */
const char *server_keep_names(
	const struct server_status *s, server_name_fn *fn, const void *ctx, struct arena *a);

/* A condition that most servers never have a word of in their status: `yes`, with the names behind
 * its message, or `no` where it has been there. */
bool server_keep_rare(struct server_object *o, const struct condition *yes,
	const struct condition *no, const char *names, const char *now, struct arena *a);

/* Conditions of the gate where nothing was heard of it: a new one, or one that is no more. */
bool server_guard_keep(struct server_object *o, const char *now, struct arena *a);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* core: what the files of server_object share. */
#ifndef WEBHOOK_CORE_SERVER_OBJECT_IMPL_H
#define WEBHOOK_CORE_SERVER_OBJECT_IMPL_H

#include "webhook/core/server_object.h"

/* What the readers share. */
struct server_reader {
	const struct json *j;
	struct arena *a;
	struct err *err;
};

/* `found X, expected Y` at the path of that key. ERR_INVALID. */
int server_bad(
	struct server_reader *r, const struct json_node *v, const char *key, const char *expected);

/* A member of that type, copied into the arena where it is a string. One that is absent leaves *ret as it was, and is an error when
 * it is required. uint: within 0..2^53. list: its elements are counted into ret_n. 0, ERR_INVALID with the path, ERR_NOMEM. */
int server_get_str(struct server_reader *r, const struct json_node *obj, const char *key,
	bool required, const char **ret);
int server_get_uint(struct server_reader *r, const struct json_node *obj, const char *key,
	bool required, uint64_t *ret);
int server_get_int(
	struct server_reader *r, const struct json_node *obj, const char *key, int64_t *ret);
int server_get_bool(
	struct server_reader *r, const struct json_node *obj, const char *key, bool *ret);
int server_get_list(struct server_reader *r, const struct json_node *obj, const char *key,
	const struct json_node **ret, size_t *ret_n);

/* An array of n zeroed objects in the arena, also for n = 0. NULL: ERR_NOMEM is set. */
void *server_room(struct server_reader *r, size_t n, size_t size);

/* The status of the object (absent: empty), whose name is o->name. */
int server_status_read(struct server_reader *r, const struct json_node *status, const char *name,
	struct server_status *ret);

/* Does the server take no new claims whatever its GPUs are: draining, being deleted, without the finalizer? */
bool server_object_drains(const struct server_object *o);
/* Are the verdicts on its GPUs recent? */
bool server_object_fresh(const struct server_object *o);

#endif

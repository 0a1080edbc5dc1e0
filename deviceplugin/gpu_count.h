/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: how many GPUs of the pool take claims, kept from what the API server says of its
 * GPUServers. Pure.
 *
 * It is asked for tables (Accept: application/json;as=Table;v=v1;g=meta.k8s.io,
 * includeObject=None), as kubectl is: a line of a few cells for each server instead of an object
 * with all its claims, which every node would else be sent at every claim. */
#ifndef DEVICEPLUGIN_GPU_COUNT_H
#define DEVICEPLUGIN_GPU_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json/json_read.h"

/* More servers are no pool that one list of devices could stand for. */
#define GPU_COUNT_SERVERS_MAX 65536u
/* More GPUs of one server are a mistake, which counts as none. */
#define GPU_COUNT_FIT_MAX 65536

struct gpu_count_server {
	char *name;
	uint32_t fit;
};

struct gpu_count {
	struct gpu_count_server *server; /* sorted by name */
	size_t n, cap;
	uint64_t fit; /* sum over all servers */
	bool known_columns;
	uint32_t name_column, fit_column;
};

/* Zero it (`= {0}`) to begin; this frees what it holds and makes it empty. */
void gpu_count_release(struct gpu_count *c);

/* Take in a table: the rows are servers that are there as they are now, or, with gone, that are no
 * more. A table without column definitions has those of the one before it. A cell without a number
 * counts as none: nobody has written that server's status yet. ERR_SYNTAX: it is no table of
 * GPUServers; ERR_INVALID: it has no column Fit (an old CRD); ERR_TOOBIG; ERR_NOMEM. After an error
 * some rows are taken in. */
int gpu_count_table(struct gpu_count *c, const struct json *j, const struct json_node *table,
	bool gone, struct err *err);

/* The column definitions of a table alone, if it has any. ERR_INVALID, ERR_SYNTAX: as above. */
int gpu_count_columns(
	struct gpu_count *c, const struct json *j, const struct json_node *table, struct err *err);

#endif

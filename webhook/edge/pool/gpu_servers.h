/* SPDX-License-Identifier: Apache-2.0 */
/* edge: GPUServer documents (poolgate.io/v1alpha1) from a file or a directory as an inventory. */
#ifndef WEBHOOK_EDGE_POOL_GPU_SERVERS_H
#define WEBHOOK_EDGE_POOL_GPU_SERVERS_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "webhook/core/pool/inventory.h"

#define GPU_SERVERS_API "poolgate.io/v1alpha1"
#define GPU_SERVERS_KIND "GPUServer"

/* An inventory in memory is copied and searched as a whole; a pool beyond this wants a cluster. */
#define GPU_SERVERS_MAX 10000
/* All GPUs of a server stand in one object's status. */
#define GPU_SERVERS_GPUS_MAX 256
/* Entries of spec.gpus say how many alike: more than a chassis holds is a slip. */
#define GPU_SERVERS_COUNT_MAX 64
/* Names of a server's launchers. */
#define GPU_SERVERS_LAUNCHERS_MAX 64

/* Read one file, or every *.yaml, *.yml and *.json of a directory in the order of their names
 * (hidden ones are skipped). A file holds any number of GPUServer documents, or a List of them. The
 * inventory lives in the arena alone; GPUs that are listed by hand are fit and fresh and get the
 * ids gpu-0 and on. status is ignored. warnings (may be NULL) gets a line with '\n' for what is
 * accepted but likely not meant, such as a server whose GPUs are only known when its probe has been
 * polled. ERR_NOTFOUND and ERR_IO (cannot be read), ERR_SYNTAX, ERR_INVALID, ERR_REFUSED (aliases),
 * ERR_TOOBIG, ERR_NOMEM; the message names file, line, path, what was found and what is accepted.
 */
int gpu_servers_load(const char *path, struct arena *a, struct inventory *ret, struct buf *warnings,
	struct err *err);

/* The same from a text; name stands for the file in messages. */
int gpu_servers_parse(struct slice text, const char *name, struct arena *a, struct inventory *ret,
	struct buf *warnings, struct err *err);

#endif

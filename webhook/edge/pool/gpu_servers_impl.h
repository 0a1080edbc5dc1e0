/* SPDX-License-Identifier: Apache-2.0 */
/* edge: shared by the two halves of gpu_servers: files (gpu_servers.c) and documents
 * (gpu_servers_doc.c). */
#ifndef WEBHOOK_EDGE_POOL_GPU_SERVERS_IMPL_H
#define WEBHOOK_EDGE_POOL_GPU_SERVERS_IMPL_H

#include "base/yaml/yaml.h"
#include "webhook/edge/pool/gpu_servers.h"

/* A server and where it was written. */
struct declared {
	struct gpu_server server; /* everything in it lives in loader.arena */
	const char *file;
	uint32_t line;
};

struct loader {
	struct arena *arena;   /* the caller's */
	struct buf *warnings;  /* may be NULL */
	struct declared *list; /* malloc'ed */
	size_t n, cap;
};

/* Read one document (a GPUServer, or a List of them) into the list. Same errors as
 * gpu_servers_load. */
int gpu_servers_read(struct loader *l, struct yaml_doc *doc, struct err *err);

/* Put "FILE:LINE: …\n" among the warnings. */
void gpu_servers_warn(struct loader *l, const struct declared *d, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what `gpuprobe serve` answers. */
#ifndef PROBE_SERVE_SERVE_ROUTES_H
#define PROBE_SERVE_SERVE_ROUTES_H

#include <pthread.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "net/http_server.h"
#include "probe/show/fleet.h"

#define SERVE_BYTES_MAX (16u << 20)

/* Between the threads that look and those that answer. */
struct serve_shared {
	pthread_mutex_t lock; /* of fleet, report and token */
	struct fleet fleet;
	struct buf report; /* the last verify's, as JSON; empty: none yet */
	struct buf token;  /* who asks must show it; empty: nobody must */
	struct log *log;
	char tag[32]; /* of the last inventory; the I/O thread's alone */
	bool nvml;    /* the last look was answered; the looking thread's alone */
};

void serve_shared_init(struct serve_shared *s, struct log *log);

/* Read the token again. file NULL: none is asked for. On an error the one in force stays:
 * ERR_NOTFOUND, ERR_IO, ERR_INVALID: empty, or more than one line. */
int serve_read_token(struct serve_shared *s, const char *file, struct err *err);

/* GET /v1/inventory, /v1/report, /metrics, /healthz, /readyz; their context is a struct
 * serve_shared. */
extern const struct http_route serve_routes[];
extern const size_t serve_n_routes;

/* For struct http_app: a sentence of the transport's. */
void serve_transport(void *ctx, const char *msg);

#endif

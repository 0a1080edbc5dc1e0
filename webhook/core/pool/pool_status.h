/* SPDX-License-Identifier: Apache-2.0 */
/* core: the pool in a few numbers, for everybody who may see that there is one: no server, no pod
 * and no claim is named. It is the status of a GPUPool. */
#ifndef WEBHOOK_CORE_POOL_POOL_STATUS_H
#define WEBHOOK_CORE_POOL_POOL_STATUS_H

#include "base/buf.h"
#include "webhook/core/pool/ledger.h"

/* More models than so many are counted in the sums alone. */
#define POOL_MODELS_MAX 64

/* What the GPUs of one model come to. Sizes in MB (10^6 bytes), rounded down. */
struct pool_model {
	const char *model;
	uint64_t gpus;
	uint64_t fit;     /* of these: can take claims now */
	uint64_t idle;    /* of these: nobody holds anything on them */
	uint64_t memory;  /* of all */
	uint64_t free;    /* of those that are fit: what nobody holds */
	uint64_t largest; /* the largest free part of one GPU */
};

struct pool_status {
	uint64_t servers;
	uint64_t ready;            /* of these: with a GPU that can take claims now */
	struct pool_model all;     /* the sums; its model is "" */
	struct pool_model *models; /* by name */
	size_t n_models;
	const char *since; /* RFC 3339: when a number changed last; NULL: not said */
};

/* Sum up a view, whose claims are not looked at. models lives in the arena, its names are the
 * view's; since is NULL. ERR_NOMEM. */
int pool_status_of(
	const struct pool_view *v, struct arena *a, struct pool_status *ret, struct err *err);

/* Append it as a JSON object: {"servers", "ready", "gpus", "fit", "idle", "memory", "free",
 * "largest", "models": [{"model", "gpus", …}], "since"}. */
void pool_status_write(const struct pool_status *s, struct buf *out);

#endif

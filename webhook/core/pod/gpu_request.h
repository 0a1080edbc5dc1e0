/* SPDX-License-Identifier: Apache-2.0 */
/* core: what a container asks of the pool, read from its resources. */
#ifndef WEBHOOK_CORE_POD_GPU_REQUEST_H
#define WEBHOOK_CORE_POD_GPU_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "base/quantity.h"
#include "webhook/core/policy/policy.h"
#include "webhook/core/review/review.h"

#define RES_UNITS "bitfusion.io/gpu"
#define RES_AMOUNT "bitfusion.io/gpu-amount"
#define RES_NUM "bitfusion.io/gpu-num"
#define RES_PERCENT "bitfusion.io/gpu-percent"
#define RES_MEMORY "bitfusion.io/gpu-memory"

/* One of the resource members that a request is made of, as it stands in limits and in requests. */
struct gpu_resource {
	const struct json_node *limit; /* value nodes, NULL where absent */
	const struct json_node *request;
};

/* A container's request. */
struct gpu_request {
	bool asks;          /* holds at least one of gpu-amount, gpu-num, gpu-percent, gpu-memory */
	uint32_t amount;    /* GPUs */
	uint32_t percent;   /* 1..100, fractions rounded up; 0 when asked by memory */
	uint64_t memory_mb; /* megabytes (10^6 bytes, truncated) per GPU; 0 when asked by percent */
	uint64_t units; /* bitfusion.io/gpu: percent × amount, or ceil(MB × amount × 100 / total MB)
			 */
	const struct json_node *limits; /* resources.limits and requests, NULL where absent */
	const struct json_node *requests;
	struct gpu_resource amount_at, num_at, percent_at, memory_at, units_at;
	/* 1 << enum foreign_key for each key of others that it asks by (foreign.h), and where those
	 * stand; 0: it asks by ours. */
	unsigned foreign;
	struct gpu_resource foreign_at[FOREIGN_KEYS];
};

/* Does this container hold any of the asking resources, in limits or in requests? */
bool gpu_request_asks(const struct json *j, const struct json_node *container);

/* Does it ask for more than zero of any of them? Such a pod waits for ever where no node offers
 * them; one that asks for zero runs. */
bool gpu_request_holds_up(const struct json *j, const struct json_node *container);

/* Does it say what share of each GPU it wants, in percent or as memory? Else it is whole ones, or
 * what the policy of its namespace says. */
bool gpu_request_says_share(const struct gpu_request *r);

/* Read it. total_mb: TOTAL_GPU_MEMORY in MB, 0 when it is not set (then memory is refused, naming
 * the setting). A value in limits alone or requests alone counts for both, as API defaulting leaves
 * it; different ones are refused. Quantities by Kubernetes' rules, in exact integers. Percent
 * beside memory is checked, then memory wins with a warning. gpu-num is another name for
 * gpu-amount; both with different values are refused. ERR_INVALID with the path below the container
 * ("/resources/limits/…") and the value found; nothing in ret then. */
int gpu_request_read(const struct json *j, const struct json_node *container, uint64_t total_mb,
	struct arena *a, struct warnings *w, struct gpu_request *ret, struct err *err);

/* For foreign.h: the one value that limits and requests give together; *ret_text, as it is spelled,
 * is absent when neither is there. ERR_INVALID without a path, ERR_NOMEM. And the path of a
 * resource with this name below the container, put in front of what err has; returns its code. */
int gpu_resource_read(const struct json *j, const struct gpu_resource *r, struct arena *a,
	struct quantity *ret, struct slice *ret_text, struct err *err);
int gpu_resource_in(struct err *err, const struct gpu_resource *r, const char *name);

/* The units of a request (see above); 0 when it cannot be computed (memory with total_mb 0). */
uint64_t gpu_units(uint32_t amount, uint32_t percent, uint64_t memory_mb, uint64_t total_mb);

#endif

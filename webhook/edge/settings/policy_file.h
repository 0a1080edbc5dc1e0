/* SPDX-License-Identifier: Apache-2.0 */
/* edge: policies from files: GPUPolicy documents, and namespaces with the labels that pick them. */
#ifndef WEBHOOK_EDGE_SETTINGS_POLICIES_FILE_H
#define WEBHOOK_EDGE_SETTINGS_POLICIES_FILE_H

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "webhook/core/policy/policy.h"

#define POLICIES_MAX 1000
#define POLICIES_NAMESPACES_MAX 10000

/* A namespace picks a policy of that name, which may not be there. */
struct policy_pick {
	const char *namespace, *policy;
};

struct policies {
	struct policy *all;
	size_t n;
	struct policy_pick *picks;
	size_t n_picks;
	uint64_t hash; /* of all that was read; 0: nothing was */
};

/* Read one file, or every *.yaml, *.yml and *.json of a folder: any number of GPUPolicy and
 * Namespace documents, or Lists of them. What is kept lives in the arena. A member of a policy that
 * nobody knows is refused, as kubectl would. ERR_NOTFOUND, ERR_IO, ERR_SYNTAX, ERR_INVALID,
 * ERR_REFUSED (aliases), ERR_TOOBIG, ERR_NOMEM; the message names file, line, path, what was found
 * and what is expected. */
int policies_load(const char *path, struct arena *a, struct policies *ret, struct err *err);

/* `of` of a struct policy_source; ctx is the struct policies. */
int policies_of(void *ctx, struct slice namespace, struct arena *a, const struct policy **ret,
	struct err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* core: the configuration as decisions need it: an immutable snapshot, built from texts that others
 * have read. */
#ifndef WEBHOOK_CORE_LAUNCHER_CONFIG_H
#define WEBHOOK_CORE_LAUNCHER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "webhook/core/launcher/launcher.h"

/* What becomes of a pod that does not say it (poolgate.io/when-full). Of consequence only where the
 * leader takes gates away. */
enum when_full {
	WHEN_FULL_OWNED, /* one that a controller owns waits, since nobody reads its refusal; a bare
			    one is refused */
	WHEN_FULL_WAIT,
	WHEN_FULL_REFUSE
};
#define WHEN_FULLS 3

struct registry; /* webhook/core/image/image.h */

/* What decides about pods. Everything lives in the arena that was given to the functions below. */
struct config {
	uint64_t total_gpu_mb; /* TOTAL_GPU_MEMORY: the nominal GPU that bitfusion.io/gpu units are
				  counted by; 0: not set */
	struct profile *profiles;
	size_t n_profiles;
	const struct profile *default_profile; /* NULL when there is no profile */
	bool late_place; /* the leader writes places and takes gates away: profiles that are told
			    their servers are told late */
	enum when_full when_full;
	bool node_resource_off; /* injected pods ask their node for no bitfusion.io/gpu (default
				   false) */
	uint32_t max_grace_s; /* pods that ask, and whose grace period is longer, are refused (rule
				 R13); 0: none is */
	struct registry *registries; /* those whose images may be looked at */
	size_t n_registries;
	bool secret_without_claim; /* refuse pods that mount a client's secret and ask for nothing
				      (default true) */
};

/* The profile of that name, or NULL. */
const struct profile *config_profile(const struct config *c, struct slice name);

/* TOTAL_GPU_MEMORY as its users write it: a plain number is megabytes ("16160"), with a suffix it
 * is a quantity of bytes ("16G", "16160Mi"). Whole megabytes, at least 1, at most 10^9. ERR_INVALID
 * with what is accepted. */
int config_total_memory(struct slice text, uint64_t *ret_mb, struct err *err);

#endif

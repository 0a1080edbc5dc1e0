/* SPDX-License-Identifier: Apache-2.0 */
/* core: the steps of a mutation (mutate.h): what is chosen, and where a pod that is told its
 * servers has its GPUs. Used by mutate alone. Each step goes on from the plan that the pod carries,
 * if it carries one: what was chosen then stays. All return 0, or err's code. */
#ifndef WEBHOOK_CORE_INJECT_MUTATE_IMPL_H
#define WEBHOOK_CORE_INJECT_MUTATE_IMPL_H

#include "webhook/core/inject/inject.h"
#include "webhook/core/inject/mutate.h"

/* What the steps share. */
struct making {
	const struct mutate_world *world;
	const struct policy *policy; /* of the namespace; NULL: it picks none */
	struct injection in;
	struct pod pod;
	struct plan before;
	struct patch patch;
	enum pod_switch mode;
	struct mutation *ret;
	struct gpu_request *requests; /* per container of the pod */
	struct buf rendered;
};

/* Which profile: the plan's, the annotation's, the policy's, the configured default. ERR_INVALID:
 * none of that name; ERR_REFUSED: there is none, or it was changed since the plan was made. */
int mutate_choose_profile(struct making *m, struct err *err);

/* The client of m's profile. *ret_missing: the annotations that would choose one are not there.
 * ERR_INVALID: none of those words. */
int mutate_choose_client(struct making *m, bool *ret_missing, struct err *err);

/* The image of its client that nobody has set: ERR_REFUSED, or in a preview a warning. Asked last:
 * what is wrong with the pod itself is told before. */
int mutate_check_images(struct making *m, struct err *err);

/* The pod's filters, and a warning for each that the pool does not understand: it selects nothing
 * there. ERR_INVALID: words that cannot be read. */
int mutate_choose_filters(struct making *m, struct err *err);

/* Does the place come late, or does the pod wait for others or for its turn (law W2)? Reads the
 * profile; ERR_INVALID: words that contradict each other or what is installed; ERR_REFUSED: the
 * profile needs what is not installed. */
int mutate_choose_waiting(struct making *m, struct err *err);

/* placement: servers. Picks them now, since their addresses are written into the pod; a no-op where
 * the profile is not told its servers, or is told them late. ERR_REFUSED: no room, no pool. */
int mutate_place(struct making *m, struct err *err);

#endif

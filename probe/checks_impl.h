/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what the checks share: errors of the runtime, memory that is given back, kernels by name. */
#ifndef PROBE_CHECKS_IMPL_H
#define PROBE_CHECKS_IMPL_H

#include "probe/checks.h"
#include "probe/kernels/kernels.h"

/* Blocks of a grid for each multiprocessor. */
#define BLOCKS_PER_SM 8

/* True for RT_SUCCESS. Else the result says so, with the call's name and the number: a failure when a healthy GPU cannot cause such an error, else an error. */
bool cuda_ok(struct check_world *w, struct check_result *r, int error, const char *call);

/* Can the context still be used after what r says? Errors of a running GPU stay with it. */
bool cuda_usable(const struct check_result *r);

/* Blocks for a grid that fills this GPU. */
unsigned grid_of(const struct check_world *w);

/* Launch a kernel of the library by its name on the world's stream. */
bool launch(struct check_world *w, struct check_result *r, const char *name, unsigned blocks,
	void **args);

/* Wait for the stream. */
bool finish(struct check_world *w, struct check_result *r);

/* What kernels have left at `found`, after they are done. False: the result says why, and *ret is no pass. */
bool read_findings(struct check_world *w, struct check_result *r, const void *found,
	struct kernel_findings *ret);

/* GPU seconds between two events of the stream around what start() did: the median of `runs` after one that does not count; NAN when one of
 * them is no number. False: the result says why. */
bool median_time(struct check_world *w, struct check_result *r, unsigned runs,
	bool (*start)(struct check_world *, struct check_result *, void *), void *arg,
	double *ret_seconds);

#endif

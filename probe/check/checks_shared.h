/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what the checks share: errors of the runtime, memory that is given back, kernels by name.
 */
#ifndef PROBE_CHECK_CHECKS_SHARED_H
#define PROBE_CHECK_CHECKS_SHARED_H

#include "probe/check/checks.h"
#include "probe/kernels/kernels.h"

/* Blocks of a grid for each multiprocessor. */
#define BLOCKS_PER_SM 8

/* True for RT_SUCCESS. Else the result says so, with the call's name and the number: a failure when
 * a healthy GPU cannot cause such an error, else an error. */
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

/* What kernels have left at `found`, after they are done. False: the result says why, and *ret is
 * no pass. */
bool read_findings(struct check_world *w, struct check_result *r, const void *found,
	struct kernel_findings *ret);

/* What the blocks of this GPU's grid have left since it was made, and what they should have. */
struct work {
	struct kernel_work *at;  /* on the GPU */
	struct kernel_work *got; /* after work_read */
	uint64_t *wanted;        /* cells of each block */
	uint32_t blocks;
};

/* Zeroed, for grid_of(w) blocks; every launch that is counted in it is told by work_add. False: the
 * result says why. To be released in any case. */
bool work_init(struct check_world *w, struct check_result *r, struct work *k);
void work_add(struct work *k, uint64_t cells, uint32_t shift);
/* The same number of cells by each block. */
void work_add_each(struct work *k, uint64_t cells);
/* Read it, after the stream is done. False: the result says why. */
bool work_read(struct check_world *w, struct check_result *r, struct work *k);
/* After work_read: did each block do all of it, and no more? False: then the result has failed. */
bool work_complete(const struct work *k, struct check_result *r, const char *kernels);
void work_release(struct check_world *w, const struct check_result *r, struct work *k);

/* Write the pattern of this seed to so many cells at `at`; or compare them with it, with blocks
 * shifted. Both are counted in k, and waited for. found: on the GPU. */
bool fill_cells(struct check_world *w, struct check_result *r, void *at, uint64_t cells,
	uint64_t seed, struct work *k);
bool check_cells(struct check_world *w, struct check_result *r, void *at, uint64_t cells,
	uint64_t seed, uint32_t shift, void *found, struct work *k);

/* Findings on the GPU, zeroed. False: the result says why. */
bool begin_findings(struct check_world *w, struct check_result *r, void **ret);

/* What is timed. start() puts a run of it on the stream; after(), which may be NULL, looks at what
 * that run did before the next. Both false: the result says why. */
struct timed {
	bool (*start)(struct check_world *w, struct check_result *r, void *arg);
	bool (*after)(struct check_world *w, struct check_result *r, void *arg);
	void *arg;
};

/* The middle one of n values, n >= 1, which it sorts; NAN when one of them is no number. */
double median(double *values, unsigned n);

/* GPU seconds between two events of the stream around what start() did: the median of five after
 * one that does not count; NAN when one of them is no number. False: the result says why. */
bool median_time(struct check_world *w, struct check_result *r, const struct timed *timed,
	double *ret_seconds);

/* Measure `amount` of work, in units of `unit`, and judge its rate, up to three times: one slow
 * measurement is no proof, and the best one counts. False: the result says why. */
bool measure_rate(struct check_world *w, struct check_result *r, double amount, const char *unit,
	const struct timed *timed);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test: probe/check/checks_*.c in a unit test: a world for them over the fake runtime, in which
 * things can be spoiled (spoiled_rt.h). */
#ifndef TEST_UNIT_CHECK_FIXTURE_H
#define TEST_UNIT_CHECK_FIXTURE_H

#include "probe/check/checks_shared.h"
#include "test/unit/spoiled_rt.h"

/* A check that asks the runtime for anything. ends: of its calls and launches so many at each
 * end are spoiled, and some between; 0: none, since another check is the same in small. */
struct subject {
	enum check_id id;
	bool (*check)(struct check_world *w, struct check_result *r);
	unsigned ends;
};
#define SUBJECTS 24
extern const struct subject subjects[SUBJECTS];

/* What a world points to, to be changed between a_world() and ask(). */
extern struct worker_job check_job;
extern struct gpu_report check_gpu, check_peer_gpu;
extern unsigned stop_at; /* the check is told to end when it asks so often; 0: never */
extern unsigned times_asked;
/* What the check has said: first and last of how long its next step may take; how far it is. */
extern double first_within_s, within_s;
extern char progress_words[64];

/* For TESTS_WITHIN. */
int check_begin_group(void **state);
int check_end_group(void **state);

/* `verify` of 3 MiB of the first GPU of this scenario, which is told to be a healthy one of two
 * multiprocessors. */
struct check_world a_world(const char *scenario);

/* The same of a pair of healthy GPUs. */
struct check_world healthy_world(void);

/* What a scenario says of such a GPU. */
#define HEALTHY "\"peers\": true, \"sms\": 2, \"memory_mib\": 2048, \"free_mib\": 2000"

/* The scenario of a pair whose first GPU is told more. */
#define WORLD(more) "{\"launch_us\": 0, \"devices\": [{" HEALTHY more "}, {" HEALTHY "}]}"

/* The result of a check, which also tells whether the context can still be used, and gives all
 * back if it can. */
struct check_result ask(struct check_world *w, enum check_id id);

const char *check_title(enum check_id id);

#endif

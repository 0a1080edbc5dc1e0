/* SPDX-License-Identifier: Apache-2.0 */
/* sim: what the files of the laws share: GPUServers as the laws see them (sim_view.c), and the
 * attempts (sim_reviews.c). */
#ifndef TEST_SIM_SIM_VIEW_H
#define TEST_SIM_SIM_VIEW_H

#include "test/sim/sim_world.h"

#define GPUS_MAX 16
#define CLAIMS_MAX 128
#define SPAN_MAX 6

struct part {
	int gpu;
	uint64_t bytes;
};

struct seen_claim {
	int who; /* number of the attempt */
	char state;
	bool open; /* not all of it is written yet (R19) */
	unsigned n_servers, n_parts;
	char servers[SPAN_MAX][24];
	struct part parts[GPUS_MAX];
	uint64_t since; /* the version that brought it */
	int64_t at;     /* when that was */
	/* What it says of its pod's gang (W11): which, how many began, what these asked, counted as
	 * of a GPU that is so large, and what this one does. 0: it does not say. */
	struct seat {
		uint64_t key, size, bytes, like, asks;
	} seat;
};

struct view {
	bool takes;  /* it carries the finalizer, and is not being deleted or drained */
	bool opened; /* it has carried the finalizer */
	char address[24];
	char created[24];   /* what is earlier comes first */
	bool future;        /* it has a member of a later version's (R11) */
	int64_t phantom_at; /* a claim ended here last whose pod was let in and never came; 0: none
			       did */
	int n_gpus, n_claims, n_kept;
	struct {
		char id[16];
		uint64_t bytes;
		bool fit, missing;
	} gpus[GPUS_MAX];
	struct seen_claim claims[CLAIMS_MAX];
	struct {
		int who, gpu;
		uint64_t bytes;
	} kept[GPUS_MAX];   /* of GPUs for pods that have waited for long (W6) */
	int64_t kept_since; /* for that one, and as much */
	int64_t idle_since; /* it is kept for nobody who waits; 0: it is not */
};

/* ---- sim_view.c ---- */

/* The attempt whose uid this is; -1: no pod's. */
int number_of(const char *uid);
const struct view *view_of(const struct object *o);
/* -1: its status does not list it. */
int gpu_of(const struct view *v, const char *id);
/* Is there an older server with its address, that is to say, the same machine? */
bool has_older(const struct object *o);
/* Bytes of that GPU that are promised. */
uint64_t sum_of(const struct view *v, int gpu);
/* Bytes of that GPU that are kept for others than this one. */
uint64_t kept_of(const struct view *v, int gpu, int who);
const struct seen_claim *claim_of(const struct view *v, int who);
/* Does it hold a claim that is whole: on each server that the claim names, and said to be so? */
bool holds_whole(int who);
/* On how many GPUs does it hold a part, all servers together? */
unsigned parts_of(int who);

/* Before the write that is judged. */
const struct view *before_view(const struct object *o);

/* ---- sim_gangs.c ---- */

/* The claim of a gang's pod says of it what is so. */
void gang_seat(const struct seen_claim *c, const char *who);

/* ---- sim_usage.c ---- */

/* As the laws have it (sim_laws.h). Is something wrong with it though nothing fails: it is not
 * counted, or what has ended is not stored? */
void usage_before_write(const struct object *o);
void usage_after_write(const struct object *o, const char *who);
void usage_after_removal(const struct object *o);
bool usage_owed(const struct object *o);

/* ---- sim_reviews.c ---- */

extern struct attempt attempts[ATTEMPTS_MAX];
extern int n_attempts;
/* Has it a right to a claim that was promised? */
bool must_hold(const struct attempt *a);
/* Something was written: who is reviewed, or waits for adoption, may fit now, or no more. */
void note_room(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* gate: one server process for each claim that is used: started when its pod first comes in, ended
 * with its claim, and found again by a gate that was killed and comes back. Each has a loopback
 * address and a folder of its own, and a parent (gate/process/keep.h) that its whole family ends
 * with. */
#ifndef GATE_CHILDREN_H
#define GATE_CHILDREN_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/log.h"
#include "gate/picture.h"
#include "gate/server_profile.h"

/* Servers at the same time, with those that are being ended. */
#define CHILDREN_MAX 1024

struct children;

struct children_config {
	const struct server_profile *profile;
	const char *state_dir; /* ours alone; a folder and a file for each claim */
	const struct log *log;
	int loop;
};

/* Everything in config is borrowed. Finds what another gate has left: those of this very profile
 * are kept until children_claims() knows better, others are ended. ERR_NOTFOUND (the account),
 * ERR_IO (the folder), ERR_INVALID (not ours alone), ERR_CONFLICT (another gate's), ERR_NOMEM. */
int children_new(const struct children_config *config, struct children **ret, struct err *err);
/* NULL-safe. The processes live on. */
void children_free(struct children *s);

/* The server of this claim is wanted: where it listens, once it does. One that has ended, while
 * what came of it has not, is ended. */
enum children_answer { CHILDREN_WAIT, CHILDREN_READY, CHILDREN_FAILED };
enum children_answer children_want(struct children *all, const struct picture_claim *claim,
	struct sockaddr_in *ret, struct err *err);
/* A connection to that one begins (+1) or has ended (-1). */
void children_used(struct children *all, const char *uid, int change);

/* Whose claims these are not, and whose claim has become another, are ended. */
void children_claims(struct children *all, const struct picture *p);
/* Is the server of this claim one that is ended so? Another is not started before it is gone. */
bool children_over(const struct children *all, const char *uid);
/* End all. */
void children_end(struct children *all);

/* The uid of the claim whose server this process came of; NULL: of none. */
const char *children_of(const struct children *all, pid_t pid);
/* The claim's server takes more than its share: it is ended, and may start again after a while. */
void children_overdone(struct children *all, const char *uid);

/* ---- a self-test (gate/selftest.h) ---- */

/* The uid of its claim, which is no pod's. */
#define CHILDREN_TRY "self-test"

struct children_tried {
	pid_t pid;   /* 0: there is none */
	int in, out; /* of its standard input and output, ours; out does not block */
};
/* Start `gpugate try SHARE` as a server of such a claim would be: its account, folder, environment;
 * no server starts on the claim's GPUs until children_tried(). ERR_IO, ERR_INVALID, ERR_NOMEM; then
 * there is none. */
int children_try(struct children *all, const struct picture_claim *claim, const char *share,
	struct children_tried *ret, struct err *err);
/* Does a server that is being ended, or a self-test, still have a GPU of this claim? */
bool children_held(const struct children *all, const struct picture_claim *claim);
/* End it, and all that came of it. Nothing where there is none. */
void children_tried(struct children *all, struct children_tried *t);

/* Do what is due; milliseconds until more is, -1: nothing is. */
int64_t children_turn(struct children *all);

struct children_facts {
	size_t running, ending, stuck; /* stuck: of ending, as MPS does not answer */
	size_t under_mps;              /* of ending: MPS is asked first */
	bool apart;                    /* each has an account of its own */
	uint64_t starts, failures;     /* that did not start, or ended by themselves */
};
struct children_facts children_facts(const struct children *all);

/* A GPU that a server which is stuck has: ID of the GPU, and uid of its claim. */
struct children_stuck {
	struct slice gpu;
	const char *uid;
};
/* So many at most, until children_turn(); how many these are. */
size_t children_stuck(const struct children *all, struct children_stuck *ret, size_t max);

#endif

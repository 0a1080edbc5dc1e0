/* SPDX-License-Identifier: Apache-2.0 */
/* core: what a gate tells at /usage: whom it is, and what is used of its GPUs. gpugate writes it,
 * the leader reads it. Pure. */
#ifndef WEBHOOK_CORE_SERVER_GATE_PAGE_H
#define WEBHOOK_CORE_SERVER_GATE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_read.h"

#define GATE_PAGE_VERSION 1
#define GATE_PAGE_PATH "/usage"
/* Of strangers so many are told: one is enough to close a GPU. */
#define GATE_PAGE_STRANGERS_MAX 256

/* By what a gate knows a pod. */
enum gate_mode {
	GATE_MODE_TOKEN,  /* a token that is bound to it */
	GATE_MODE_ADDRESS /* the address that its connection comes from */
};
/* Their names, and a NULL. */
extern const char *const gate_modes[];

/* Does the profile hold a claim to its memory? */
enum gate_shares {
	GATE_SHARES_UNKNOWN, /* nobody has tried, or could not */
	GATE_SHARES_HELD,
	GATE_SHARES_EXCEEDED
};

struct gate_claim {
	const char *uid;
	uint64_t used; /* bytes of all GPUs, contexts included, as far as NVML tells */
	bool known;    /* of each of its processes */
	uint32_t processes;
	bool over;           /* more than its share of a GPU for ten seconds */
	const char *gpu;     /* on which; "": on none */
	uint64_t has, share; /* there */
	bool stuck;          /* its server is to be ended, has this GPU, and MPS does not answer: in
				rows of their own behind the others, one for each GPU */
	int64_t unused_s;    /* so long it has had no process on a GPU */
};

/* A process on one of the GPUs that belongs to no claim. */
struct gate_stranger {
	int pid;
	const char *gpu;
	bool known;
	uint64_t used;
};

/* Texts live in the arena of whoever made it. */
struct gate_page {
	int64_t version;
	const char *server, *profile; /* names of the GPUServer and of the ServerProfile; of a gate
					 of before they were told: "" */
	unsigned mode;                /* enum gate_mode */
	unsigned shares;              /* enum gate_shares */
	bool known;                   /* the last look is recent: else the rest says nothing */
	int64_t looked_ms;            /* since 1970; 0: nobody has looked */
	struct gate_claim *claims;    /* those that let their pod in, and others with processes */
	size_t n_claims;
	struct gate_stranger *strangers;
	size_t n_strangers;
};

/* ERR_INVALID with its path, also for a version that is not ours; ERR_NOMEM. */
int gate_page_read(const struct json *j, struct arena *a, struct gate_page *ret, struct err *err);
void gate_page_write(const struct gate_page *p, struct buf *out);

/* The claim of this uid, or NULL. */
const struct gate_claim *gate_page_claim(const struct gate_page *p, struct slice uid);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* gate: what each claim's processes take of its GPUs, and who computes there without a claim:
 * judged from one look after the other. Pure. */
#ifndef GATE_USAGE_H
#define GATE_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "gate/picture.h"
#include "webhook/core/server/gate_page.h"

/* More than its share for so long is told, and ends its server where the operator wants that: what
 * is given back at once was no theft. */
#define USAGE_OVER_MS 10000

/* Looks that are further apart say nothing of the time between. */
#define USAGE_GAP_MS 60000

#define USAGE_GPUS_MAX PICTURE_GPUS_MAX

/* One look, as `gpugate gpus` writes it: a line of JSON. */
struct usage_process {
	int pid;
	bool known;     /* NVML tells what it has */
	uint64_t bytes; /* with what its context takes */
};
struct usage_gpu {
	const char *id; /* UUID of the GPU, or of an instance */
	struct usage_process *processes;
	size_t n_processes;
};
struct usage_look {
	struct usage_gpu *gpus;
	size_t n_gpus;
	const char *error; /* why there are none; "": they could be looked at */
};

/* A look as a line, without its end; and back, with what it says in the arena: ERR_SYNTAX,
 * ERR_INVALID, ERR_TOOBIG, ERR_NOMEM. */
void usage_look_write(const struct usage_look *look, struct buf *out);
int usage_look_read(struct slice line, struct arena *a, struct usage_look *ret, struct err *err);

/* What a claim may take. */
struct usage_rules {
	uint64_t context_bytes;  /* that an empty context takes: each process is allowed one beside
				    the share */
	unsigned margin_percent; /* of the share */
};

/* A claim that lets its pod in, or of which processes were seen. */
struct usage_claim {
	const char *uid;
	uint64_t used; /* of all GPUs, contexts included */
	bool known;    /* of each process */
	uint32_t processes;
	int64_t since_ms;    /* on some GPU it has more than its share since then; 0: on none */
	bool over;           /* for USAGE_OVER_MS */
	bool told;           /* it was over at the look before */
	int64_t used_ms;     /* when it last had a process on a GPU, or was first seen */
	const char *gpu;     /* the first on which it has */
	uint64_t has, share; /* there */
};

/* A process on one of our GPUs that belongs to no claim. */
struct usage_stranger {
	int pid;
	const char *gpu;
	bool known;
	uint64_t bytes;
	bool told; /* it was there at the look before */
};

/* Zero it to begin. Everything lives in the arena. */
struct gate_usage {
	struct arena arena;
	struct usage_claim *claims;
	size_t n_claims;
	struct usage_stranger *strangers;
	size_t n_strangers;
	uint64_t used; /* by claims; bytes that are known */
	size_t n_over;
	int64_t looked_ms; /* 0: nobody has */
};

/* Who a process is. */
struct usage_who {
	void *ctx;
	/* The uid of the claim whose server it came of; NULL: of none. */
	const char *(*claim)(void *ctx, pid_t pid);
	/* It has ended meanwhile, or is of an account that may compute without a claim. */
	bool (*passes)(void *ctx, pid_t pid);
};

/* What follows from a look at that time, with what was known before. ERR_NOMEM: *u is as it was. */
int usage_judge(struct gate_usage *u, const struct usage_look *look, const struct picture *p,
	const struct usage_rules *rules, const struct usage_who *who, int64_t now_ms,
	struct err *err);
/* Nothing is known any more. */
void usage_release(struct gate_usage *u);

/* Claims and strangers of the page, in the arena. False: no memory. */
bool usage_page(const struct gate_usage *u, int64_t now_ms, struct arena *a, struct gate_page *ret);

#endif

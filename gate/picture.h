/* SPDX-License-Identifier: Apache-2.0 */
/* gate: who may come in, out of this server's own GPUServer. Pure. */
#ifndef GATE_PICTURE_H
#define GATE_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "gate/bearer.h"

/* GPUs of one server. */
#define PICTURE_GPUS_MAX 256

struct picture_gpu {
	const char *id;
	uint64_t bytes, of_bytes; /* the claim's, and all that it has */
};

/* A claim that lets its pod in. */
struct picture_claim {
	const char *uid, *namespace, *name;
	struct picture_gpu *gpu; /* each once, in the order of the claim */
	size_t n_gpus;
};

/* An address that a claim says its pod has. */
struct picture_address {
	unsigned char at[16]; /* an IPv4 one as IPv6 has it */
	const char *uid;
	bool shut_out; /* the claim lets nobody in */
};

/* Zero it to begin. Strings live in the arena. */
struct picture {
	struct arena arena;
	struct picture_claim *claim;
	size_t n_claims;
	struct picture_address *address;
	size_t n_addresses;
	size_t shut_out; /* claims that let nobody in: of pods that are gone (rule R13), or that are
			    not written in full (R19) */
	bool gated;      /* it says that there is a gate, us, so that shares are tried */
	struct picture_gpu spare; /* a fit GPU that nobody has a claim on; id NULL: there is none */
};

/* The picture that an object gives, in place of the one that is there. ERR_INVALID, ERR_SYNTAX: it
 * cannot be read, and nobody is let in by it; ERR_NOMEM. After an error *p is as it was. */
int picture_read(
	struct picture *p, const struct json *j, const struct json_node *object, struct err *err);
/* Nobody may come in. */
void picture_release(struct picture *p);

/* The claim of this pod; NULL: it has none. */
const struct picture_claim *picture_claim(const struct picture *p, const char *uid);
/* The uid of the pod at this address, spelled in any way. NULL: of none, or none that is let in; or
 * of more than one claim, whatever these are: *ret_several. */
const char *picture_at(const struct picture *p, const char *address, bool *ret_several);

#endif

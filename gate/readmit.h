/* SPDX-License-Identifier: Apache-2.0 */
/* gate: who has been reviewed, for the time in which the API server cannot be asked. Pure. A pod
 * comes in again by it only with the very token that was reviewed, and while that has not expired;
 * how long it is asked at all is the operator's word. */
#ifndef GATE_READMIT_H
#define GATE_READMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "gate/picture.h"
#include "net/mac.h"

/* Pods that are remembered; whose token ends first makes room. */
#define READMIT_MAX 1024

struct readmit_pod {
	char uid[BEARER_UID_MAX];       /* "": nobody */
	unsigned char token[MAC_BYTES]; /* its digest */
	int64_t expires_s;
};

/* Zero it to begin. */
struct readmit {
	struct readmit_pod pod[READMIT_MAX];
};

/* The API server has vouched for this pod's token. */
void readmit_put(struct readmit *r, const char *uid, const unsigned char token[MAC_BYTES],
	int64_t expires_s);
/* Was this very token reviewed for it, and has it not expired? */
bool readmit_may(const struct readmit *r, const char *uid, const unsigned char token[MAC_BYTES],
	int64_t now_s);
/* Forget whoever has no claim any more. */
void readmit_claims(struct readmit *r, const struct picture *p);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* gate: what a service account token says of itself, and what the API server says of it. Pure:
 * nothing here verifies a signature. */
#ifndef GATE_BEARER_H
#define GATE_BEARER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "base/slice.h"

/* Whom a token must be for. */
#define BEARER_AUDIENCE "gpugate"
/* A pod's uid; one that is longer, or holds other than letters, digits and '-', is nobody's. */
#define BEARER_UID_MAX 64

/* As the token tells it, which anybody could have written: good for asking whether it is worth a
 * review. */
struct bearer {
	char uid[BEARER_UID_MAX]; /* the pod that it is bound to */
	int64_t expires_s;        /* seconds since 1970 */
};

/* Read the middle part of a JWT. ERR_SYNTAX: it is no token of a service account; ERR_NOTFOUND: it
 * is bound to no pod; ERR_NOMEM. */
int bearer_read(struct slice token, struct bearer *ret, struct err *err);

/* Append the TokenReview to POST. */
void bearer_ask(struct slice token, struct buf *out);

/* What the API server answered, read: 0 when it vouches for the token, for our audience and for a
 * pod, whose uid is copied. ERR_REFUSED, with its reason: it does not; ERR_SYNTAX: it is no
 * TokenReview. */
int bearer_reviewed(const struct json *j, char ret_uid[static BEARER_UID_MAX], struct err *err);

#endif

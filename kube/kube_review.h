/* SPDX-License-Identifier: Apache-2.0 */
/* kube: a TokenReview (whose is this token?) and a SubjectAccessReview (may he do that?), written
 * and read. Pure: nothing here verifies a signature. */
#ifndef KUBE_KUBE_REVIEW_H
#define KUBE_KUBE_REVIEW_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "base/slice.h"

#define TOKEN_REVIEWS_PATH "/apis/authentication.k8s.io/v1/tokenreviews"
#define ACCESS_REVIEWS_PATH "/apis/authorization.k8s.io/v1/subjectaccessreviews"

/* Append the TokenReview to POST; it holds the secret. audience NULL: the API server's own. */
void token_review_write(struct slice token, const char *audience, struct buf *out);

/* What the API server answered: status.user, when it vouches for the token and for that audience.
 * ERR_REFUSED, with its reason: it does not; ERR_SYNTAX: it is no TokenReview. */
int token_review_read(const struct json *j, const char *audience, const struct json_node **ret_user,
	struct err *err);

/* Append the SubjectAccessReview to POST: may that user do `verb` to the URL with that path? user
 * as token_review_read gives it. */
void access_review_write(const struct json *j, const struct json_node *user, const char *path,
	const char *verb, struct buf *out);

/* 0: he may. ERR_REFUSED: he may not, or the API server does not know; ERR_SYNTAX: it is no
 * SubjectAccessReview. */
int access_review_read(const struct json *j, struct err *err);

#endif

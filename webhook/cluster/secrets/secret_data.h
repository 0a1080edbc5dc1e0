/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what stands in a Secret. */
#ifndef WEBHOOK_CLUSTER_SECRETS_SECRET_DATA_H
#define WEBHOOK_CLUSTER_SECRETS_SECRET_DATA_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "kube/kube.h"

/* GET a Secret, past every cache; timeout_ms 0: as long as kube_get() has it. Errors as kube_do,
 * but a 404 of something between us and the API server is ERR_IO. ret is inited here and released
 * with secret_release() in every case. */
int secret_get(struct kube *k, const char *namespace, const char *name, int64_t timeout_ms,
	struct kube_answer *ret, struct err *err);

/* Append the beginning of a Secret, up to within its metadata: its name, and the version of it that
 * was read (status 404: it did not exist). */
void secret_begin(
	struct buf *out, const char *namespace, const char *name, const struct kube_answer *was);
/* Write what secret_begin() has begun over what was read, or make it. Wipes and releases the body
 * in every case. Errors as kube_do. */
int secret_put(struct kube *k, const char *namespace, const char *name,
	const struct kube_answer *was, struct buf *body, struct err *err);

/* Is it of a type that people put keys and tokens of their own into: Opaque or kubernetes.io/tls?
 * Others are not to be passed on: a token of a service account, a registry's password. */
bool secret_is_plain(const struct json *j, const struct json_node *secret);

/* kube_answer_release() after overwriting the bytes; a zeroed answer is fine. */
void secret_release(struct kube_answer *a);

/* Append the bytes behind a key of a Secret's data. ERR_NOTFOUND: no such key, or nothing behind
 * it; ERR_SYNTAX: no base64; ERR_TOOBIG (out's max), ERR_NOMEM. The message names the key. */
int secret_value(const struct json *j, const struct json_node *secret, const char *key,
	struct buf *out, struct err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: one question to one probe or gate: its CA and token out of Secrets, its answer read. For
 * probe_poll.c. */
#ifndef WEBHOOK_CLUSTER_RECONCILE_PROBE_ASK_H
#define WEBHOOK_CLUSTER_RECONCILE_PROBE_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "kube/kube.h"
#include "webhook/core/server/server_object.h"

/* Secrets as they were read, for all that ask. */
struct probe_secrets;

/* Borrowed. NULL: no memory. */
struct probe_secrets *probe_secrets_new(struct kube *k, const char *namespace);
/* When nobody asks any more. NULL-safe. */
void probe_secrets_free(struct probe_secrets *s);

struct probe_question {
	struct server_end end; /* as in the spec; client_secret: our certificate and key (tls.crt,
				  tls.key) */
	const char *who;       /* is asked: "probe", for messages */
	const char *path;
	/* What its answer says, into ret, with strings in the arena. */
	int (*read)(const struct json *j, struct arena *a, void *ret, struct err *err);
	int64_t timeout_ms;
	bool doubtful; /* the last one failed: read the Secrets anew, unless that was a moment ago
			*/
	bool (*go_on)(void *ctx); /* asked about once a second; false ends the question */
	void *go_on_ctx;
};

/* Ask. ERR_TIMEOUT, ERR_IO: no answer; ERR_REFUSED: another
 * status than 200, or with a reason: it was not asked, since a token would go over plain HTTP
 * (FRESH_TOKEN_KEPT), or a Secret is of a type that is not for this (FRESH_SECRET_KEPT);
 * ERR_SYNTAX, ERR_INVALID, ERR_TOOBIG: none that can be read; ERR_NOTFOUND: a Secret or its key is
 * missing; ERR_NOMEM. Any thread. */
int probe_ask(struct probe_secrets *s, const struct probe_question *q, struct arena *a, void *ret,
	struct err *err);

#endif

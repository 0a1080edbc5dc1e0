/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the files of the duty that copies the client's Secrets share. One thread, the
 * duty's. */
#ifndef WEBHOOK_CLUSTER_SECRETS_SECRET_SYNC_IMPL_H
#define WEBHOOK_CLUSTER_SECRETS_SECRET_SYNC_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "kube/kube.h"
#include "webhook/cluster/duty/duty.h"
#include "webhook/cluster/secrets/secret_places.h"
#include "webhook/cluster/secrets/secret_sync.h"

/* A Secret holds 1 MiB at most, a third more as base64. */
#define SECRET_BODY_MAX ((size_t)4 << 20)
#define SECRET_ASK_MAX 1024

/* ---- secret_record.c: the source ---- */

struct secret_source {
	struct buf
		value[SECRET_KINDS]; /* base64, as the API server writes it; empty: there is none */
	bool three;                  /* each from a Secret of its own */
	uint64_t generation;         /* counts changes; 0: never read */
};

void secret_source_init(struct secret_source *s);
/* Overwrites the bytes. */
void secret_source_release(struct secret_source *s);
/* Read it past every cache. On error io is as it was: kube_do's errors, ERR_INVALID (not of type
 * Opaque, or without any of the keys), ERR_NOMEM. */
int secret_source_read(
	const struct secret_sync_config *cfg, struct secret_source *io, struct err *err);

/* ---- secret_copies.c ---- */

/* What was found and done in one namespace. */
struct secret_fill {
	size_t written, foreign;
	const char *foreign_name; /* of the first that is not ours */
	/* Called once before the first write, when it is not NULL; an error ends the filling. */
	int (*before)(void *ctx, struct err *err);
	void *ctx;
};

/* Make the copies what the source is. ERR_REFUSED: our account may not; ERR_CONFLICT: somebody else
 * wrote in between; others as kube_do. */
int secret_copies_fill(const struct secret_sync_config *cfg, const char *namespace,
	const struct secret_source *from, struct secret_fill *io, struct err *err);
/* Delete those that are ours. Errors as above; then some may still be there. */
int secret_copies_drop(const struct secret_sync_config *cfg, const char *namespace,
	size_t *ret_dropped, struct err *err);

/* ---- secret_record.c ---- */

/* Each namespace of the record, NUL-terminated. Errors of kube_do: ERR_NOTFOUND when there is no
 * record. */
int secret_record_read(const struct secret_sync_config *cfg,
	void (*each)(void *ctx, const char *namespace), void *ctx, struct err *err);
/* Add the namespace, or take it out. Errors of kube_do, ERR_TOOBIG, ERR_NOMEM. */
int secret_record_change(
	const struct secret_sync_config *cfg, const char *namespace, bool add, struct err *err);

/* ---- secret_sync.c, secret_serve.c ---- */

#define SECRET_EXCEPT_MAX 6

struct secret_sync {
	struct duty *duty;
	struct secret_sync_config cfg; /* defaults filled in */
	struct places places;
	struct secret_source source;
	const char *except[SECRET_EXCEPT_MAX];
	char source_namespace[64];
	int64_t source_ms; /* when to look at the source again */
	bool source_ok;    /* at the last look */
	enum err_code source_failed, record_failed;
	int64_t record_ms; /* when to read the record again */
	bool record_read;  /* ever */
	bool too_many_told;
	int64_t until_ms; /* of this tick: when to come again */
};

/* Fill a namespace, or empty one that holds no claim any more; both set when to look at it again.
 */
void secret_fill_place(struct secret_sync *k, struct secret_place *p);
void secret_empty_place(struct secret_sync *k, struct secret_place *p);
/* Log, once for each kind of error, that the record cannot be read or written. */
void secret_tell_record(struct secret_sync *k, const struct err *err);

#endif

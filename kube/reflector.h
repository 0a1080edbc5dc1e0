/* SPDX-License-Identifier: Apache-2.0 */
/* kube: a list that stays true: list, then watch from there, again and again. Pure: it has no
 * thread, socket or clock. Whoever drives it asks what to GET, sends that, hands over what comes,
 * and is told of objects. One answer is on its way at a time:
 *
 *     path = reflector_ask(r, now)        NULL: nothing to ask before reflector_when(r)
 *     reflector_head(r, status, now)      the answer begins
 *     reflector_body(r, bytes, now)       each piece of it
 *     reflector_tick(r, now)              reflector_when(r) has come
 *     reflector_end(r, why, now)          the answer has ended
 *
 * Times are milliseconds of a clock that never goes back. */
#ifndef KUBE_REFLECTOR_H
#define KUBE_REFLECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json/json_read.h"
#include "base/slice.h"
#include "kube/kube_object.h"

/* Each page of a list comes within this time; a watch without a byte for so long is broken. */
#define REFLECTOR_PAGE_MS 60000
#define REFLECTOR_SILENCE_MS 90000
/* A stream that lived this long was no failure when it ends, and is taken for good when nothing has
 * come yet. */
#define REFLECTOR_GOOD_MS 1000
/* The first wait after an error; each further one in a row is twice as long, up to the last. Up to
 * a half of it is left out by chance. */
#define REFLECTOR_WAIT_FIRST_MS 200
#define REFLECTOR_WAIT_LAST_MS 5000

struct reflector;

/* Who is told. */
struct reflector_app {
	void *ctx;
	/* A whole list begins: what is not put until listed() no longer exists. Also called when
	 * one is begun anew. */
	void (*listing)(void *ctx);
	/* An object, valid for the call. An error, with err set, ends the answer, and the list is
	 * made anew. */
	int (*change)(void *ctx, enum kube_change what, const struct json *j,
		const struct json_node *object, struct err *err);
	/* The list is complete, at this resourceVersion. */
	void (*listed)(void *ctx, const char *version);
	/* The watch runs (a list is complete, an event came, or a stream has been open for
	 * REFLECTOR_GOOD_MS), or it broke, and why (else NULL). Told when it changes. That a
	 * version is too old, or a stream ends, is the course of things. */
	void (*connected)(void *ctx, bool yes, const struct err *why);
	/* The list that is about to be told of is consistent, and older than what was seen before:
	 * etcd was restored from a backup (ledger rule R16), and nothing that was known counts by
	 * its version. May be NULL. */
	void (*restored)(void *ctx);
};

/* Borrowed for the call, but for the advice. */
struct reflector_config {
	const char *path; /* what to list and watch: "/api/v1/pods?labelSelector=…", with a query or
			     without */
	/* Tables are asked for: a page of the list, and what an event holds, is told of as one
	 * object, a table of rows. */
	bool tables;
	size_t answer_max; /* bytes of a page, or of an answer that is an error */
	const char
		*advice; /* what to do about a page that is longer, for the error; NULL: nothing */
	uint64_t seed;   /* of the dice for waits and for how long a watch lasts */
	struct reflector_app app;
};

/* ERR_NOMEM. The first list is due at once. */
int reflector_new(const struct reflector_config *cfg, struct reflector **ret, struct err *err);
/* NULL-safe. */
void reflector_free(struct reflector *r);

/* When there is something to do though nothing comes: between two answers, when to ask for the
 * next; within one, when to tick. */
int64_t reflector_when(const struct reflector *r);

/* The path to GET now, valid until reflector_end(); NULL: nothing to ask yet, or an answer is on
 * its way. 410 lists anew, and so does any answer that may be the version's fault; a watch that
 * ends goes on at the last version it was told of, bookmarks included. */
const char *reflector_ask(struct reflector *r, int64_t now_ms);

/* The answer's head has come; may be said more than once. Here and below false means that the
 * answer is of no more use: cut it off and call reflector_end(). */
bool reflector_head(struct reflector *r, long status, int64_t now_ms);
/* The next bytes of its body. */
bool reflector_body(struct reflector *r, struct slice bytes, int64_t now_ms);
/* Time has passed. */
bool reflector_tick(struct reflector *r, int64_t now_ms);

/* What it watches from may be a version that a restore of etcd has taken back, as somebody else has
 * seen: it lists anew. A list that is on its way goes on. Said before reflector_ask(), or while an
 * answer comes, which then is of no more use by the next call. */
void reflector_anew(struct reflector *r);

/* The answer is over, once for each path that was given out. why: what became of it when it did not
 * come in full (no connection, no credentials, cut off by the other side); NULL when it did, or was
 * cut off for false. */
void reflector_end(struct reflector *r, const struct err *why, int64_t now_ms);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* kube: the record in a Lease (coordination.k8s.io/v1), read and written, and what a candidate does
 * about it. Pure. As client-go's leaderelection: a record expires by the candidate's own clock,
 * counted from when it last changed; the times in it are for people alone. */
#ifndef KUBE_LEASE_RECORD_H
#define KUBE_LEASE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json/json_read.h"
#include "base/slice.h"

#define LEASE_API "coordination.k8s.io/v1"
/* A MicroTime: "2026-11-21T09:30:00.123456Z" and its NUL. */
#define LEASE_TIME_SIZE 32

/* What a Lease says. Everything in an arena. */
struct lease_record {
	const char *holder;             /* "": nobody */
	int64_t duration_s;             /* 0: not said */
	int64_t transitions;            /* how often the holder changed */
	const char *acquired, *renewed; /* as written; "": not said */
	struct slice metadata; /* as it was read, resourceVersion included; absent: a Lease that is
				  still to be made */
	struct slice rest; /* members of spec that we do not know: `"a":1,"b":{}`; absent: none */
};

/* Read a Lease object into the arena. ERR_SYNTAX: it is none; ERR_INVALID with the path: a member
 * of another type, or no resourceVersion; ERR_NOMEM. */
int lease_record_read(const struct json *j, const struct json_node *object, struct arena *a,
	struct lease_record *ret, struct err *err);

/* Do they say the same? Metadata does not count: a label is no sign of life. */
bool lease_record_same(const struct lease_record *a, const struct lease_record *b);

/* What a candidate knows. */
struct lease_sight {
	const struct lease_record *record; /* as last seen; NULL: never */
	bool there;                        /* false: by the latest look there is no such Lease */
	int64_t changed_ms; /* monotonic: when record, as it is now, was first seen */
};

enum lease_step {
	LEASE_CREATE,  /* there is none: make it */
	LEASE_ACQUIRE, /* nobody holds it, or its holder was silent for too long: take it */
	LEASE_RENEW,   /* it is ours: write it anew */
	LEASE_WAIT     /* somebody else holds it */
};

/* What to do at now_ms (the clock of changed_ms). duration_ms is for records that name none.
 * ret_until_ms gets when to decide anew though nothing changes: with LEASE_WAIT the end of the
 * holder's time, else now_ms. A Lease that was deleted under its holder is made anew by the holder
 * at once, by others when its time has passed. */
enum lease_step lease_decide(const struct lease_sight *s, const char *identity, int64_t duration_ms,
	int64_t now_ms, int64_t *ret_until_ms);

/* The record to write for such a step (not LEASE_WAIT); strings are borrowed, time is a MicroTime.
 */
struct lease_record lease_record_next(const struct lease_record *old, enum lease_step step,
	const char *identity, int64_t duration_s, const char *time);
/* The record that gives the lease back: nobody, for one second. */
struct lease_record lease_record_released(const struct lease_record *old, const char *time);

/* The object, for POST and PUT. namespace and name are for one without metadata. */
void lease_record_write(
	const struct lease_record *r, const char *namespace, const char *name, struct buf *out);

/* Microseconds since 1970 (not negative, year at most 9999) as a MicroTime. */
void lease_time_write(int64_t us, char ret[static LEASE_TIME_SIZE]);

#endif

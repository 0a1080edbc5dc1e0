/* SPDX-License-Identifier: Apache-2.0 */
/* core: what was promised of a GPUServer, and used, by namespace and model, as one text in its
 * status (law P7). Pure.
 *
 * Between two commits a status does not change, so whoever commits adds, before he changes
 * anything, what has stood there since the commit before: bytes times seconds. Nothing is ever
 * subtracted, and in each period, exactly,
 *
 *   namespaces - over + free + unfit = capacity.
 *
 * Time is the committing replica's clock of the day in whole seconds, and never goes back: one
 * whose clock is behind adds nothing. Claims whose pod nobody has seen count as free.
 *
 * What pods use of it is added the same way, where a gate tells: what stands at a claim counts from
 * the commit that wrote it until the next one, and no longer than it says. Beside it the row has of
 * how many of its promised byte-seconds that is known; of the rest nobody knows, be it that nothing
 * was used.
 *
 *   closed 2026-11-24T00:00:00Z 2026-11-25T00:00:00Z CAPACITY FREE UNFIT OVER
 *    team-a BYTE-SECONDS[/USED/KNOWN] GPU-SECONDS Tesla V100-PCIE-16GB
 *   open 2026-11-25T00:00:00Z 2026-11-25T09:30:07Z CAPACITY FREE UNFIT OVER
 *
 * A period is known by the server's uid and its beginning. It ends at midnight (UTC) and stands as
 * closed, so that it can be stored by who likes, and as often as he likes, until it is dropped. */
#ifndef WEBHOOK_CORE_SERVER_USAGE_RECORD_H
#define WEBHOOK_CORE_SERVER_USAGE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "webhook/core/server/server_object.h"

#define USAGE_DAY_S 86400
/* Of a closed period so many rows stay, those with most; the rest is one, of USAGE_OTHERS. */
#define USAGE_ROWS_KEPT 100
/* A period with so many rows is closed before its day is over. */
#define USAGE_ROWS_FULL 500
/* Where it cannot be, since the one before is not stored: from here on new ones are "others". */
#define USAGE_ROWS_MAX 1000
/* What a text begins with that has a closed period. */
#define USAGE_CLOSED "closed"
/* No namespace and no model is called so. */
#define USAGE_OTHERS "*"
/* What no policy is called: the namespace picks none. */
#define USAGE_NO_POLICY "-"

/* Byte-seconds. All that a status can say, for all the time that can be told, is less than 2^112:
 * what a GPU has and what a part holds are at most 2^53 bytes (json_int), a status of 8 MiB has
 * fewer than 2^21 of them, and a time of RFC 3339 is less than 2^38 seconds. So the sums of 2^15
 * servers fit as well. What somebody wrote into a status by hand may be more: sums end at the
 * largest number. */
__extension__ typedef unsigned __int128 usage_sum;
/* Digits of the largest, and the end. */
#define USAGE_SUM_SIZE 40

struct usage_row {
	const char *namespace;
	const char *model;
	usage_sum byte_s;
	usage_sum gpu_s; /* each GPU counts whole, be it that a part of it is held */
	usage_sum used;  /* byte-seconds, in the time that is known */
	usage_sum known; /* so many of byte_s are of that time; never more than these */
};

struct usage_period {
	int64_t from_s, at_s; /* since 1970: its beginning; until when it has counted */
	usage_sum capacity, free, unfit, over; /* byte-seconds: of the GPUs that are listed; of what
						  nobody holds of them, where they take claims, and
						  where not; what claims hold beyond */
	struct usage_row *rows;                /* by namespace, then model */
	size_t n_rows, room;
};

struct usage_record {
	bool has_closed, has_open;
	struct usage_period closed, open;
};

usage_sum usage_plus(usage_sum a, usage_sum b);
void usage_sum_write(usage_sum n, char ret[static USAGE_SUM_SIZE]);
/* Add the sums of `more`. */
void usage_row_add(struct usage_row *to, const struct usage_row *more);

/* As strcmp, by namespace, then model. */
int usage_row_compare(const struct usage_row *r, const char *namespace, const char *model);
/* The row of these two; NULL: there is none. *ret_at is where it is, or would be. */
struct usage_row *usage_row_find(
	const struct usage_period *p, const char *namespace, const char *model, size_t *ret_at);
/* The row of these two, which is made if it is not there (texts are not copied). NULL: out of
 * memory. */
struct usage_row *usage_row(
	struct usage_period *p, const char *namespace, const char *model, struct arena *a);

/* Read a text; "" is a record without periods. Everything lives in the arena. ERR_INVALID: it is
 * of another version, or somebody has edited it; ERR_NOMEM. On error ret is as it was. */
int usage_record_read(
	struct slice text, struct arena *a, struct usage_record *ret, struct err *err);
void usage_record_write(const struct usage_record *u, struct buf *out);

/* Add what has stood in `before` since the open period counted last, and close that where its day
 * is over or it has too many rows, unless a closed one stands. Nothing when there is none. False:
 * out of memory, u is not to be used. */
bool usage_record_advance(
	struct usage_record *u, const struct server_object *before, int64_t now_s, struct arena *a);
/* End the open period as it is, with what lies beyond USAGE_ROWS_KEPT as one row. */
void usage_record_close(struct usage_record *u, struct arena *a);

/* ---- the same on an object's status.usage ---- */

/* To be called by whoever commits, on the state that the commit is made from, before anything of it
 * is changed. A text that cannot be read stays as it is. False: out of memory. */
bool server_usage_advance(struct server_object *o, int64_t wall_ms, struct arena *a);

/* What the leader does. True when the text has changed; false with a->failed: out of memory.
 * begin: a period, where none is open and the text can be read. end: close the open one, where no
 * closed one stands. drop: forget the closed one, if it is this text. */
bool server_usage_begin(struct server_object *o, int64_t wall_ms, struct arena *a);
bool server_usage_end(struct server_object *o, struct arena *a);
bool server_usage_drop(struct server_object *o, const char *closed, struct arena *a);

/* The text of the closed period alone, and when that began. NULL: there is none, or a->failed. */
const char *server_usage_closed(
	const struct server_object *o, struct arena *a, int64_t *ret_from_s);

/* Is there something in it that is not stored yet? What cannot be read is nobody's. */
bool server_usage_unstored(const struct server_object *o, struct arena *a);

#endif

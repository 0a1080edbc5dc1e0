/* SPDX-License-Identifier: Apache-2.0 */
/* core: when a claim is kept, bound or ended (ledger rules R5 and R6). Pure: what is known goes in,
 * what to do comes out. */
#ifndef WEBHOOK_CORE_POOL_CLAIM_LIFE_H
#define WEBHOOK_CORE_POOL_CLAIM_LIFE_H

#include <stdbool.h>
#include <stdint.h>

/* A create lives at most 34 s in the API server: so long may a pod come after its claim. */
#define CLAIM_PENDING_MS 45000
/* Between two questions about a pod that the watch does not show. */
#define CLAIM_ASK_MS 15000
/* After a question without an answer. */
#define CLAIM_RETRY_MS 2000
/* A kubelet hears of a delete, and a GPU is free again after its last process, within so long. */
#define CLAIM_MARGIN_MS 15000

struct claim_pace {
	int64_t pending_ms, ask_ms, retry_ms, margin_ms;
};

/* What the watch shows of the pod of that very uid. Another pod of the same name says nothing: two
 * creates of one name may both be on their way. */
enum pod_seen {
	POD_NOT_SHOWN,
	POD_LIVE,    /* there, whatever its deletionTimestamp */
	POD_FINISHED /* Succeeded or Failed */
};

/* What a GET past the cache said. */
enum pod_answer {
	ANSWER_NONE, /* not asked, or no answer came */
	ANSWER_GONE, /* 404, or another uid has the name */
	ANSWER_LIVE,
	ANSWER_FINISHED
};

/* What one leader knows of one claim. Times are its CLOCK_MONOTONIC in milliseconds. */
struct claim_sight {
	int64_t since_ms; /* when this leader first had the claim in view as it is: pending, or
			     bound; taken by this review */
	int64_t lost_ms;  /* when the watch lost this uid; 0: it did not */
	int64_t asked_ms; /* when the last GET was begun; 0: none was */
	int64_t gone_ms;  /* when the first of the GETs was begun that have said GONE ever since; 0:
			     none has */
	int64_t grace_ms; /* so long its processes may run on after a delete */
	enum pod_seen seen : 8;
	enum pod_answer answer : 8; /* to that GET */
	bool pending;  /* nobody has seen the pod: no part of the claim is bound or adopted */
	bool unbound;  /* some part of it still says pending */
	bool synced;   /* the watch of pods has had a whole list */
	bool unplaced; /* the watch has told its delete, and it had no node then: nothing of it ever
			  ran */
};

enum claim_act {
	CLAIM_KEEP,   /* as it is; look again at until_ms */
	CLAIM_ASK,    /* GET the pod by name, past the cache, now */
	CLAIM_BIND,   /* mark as bound what is pending */
	CLAIM_LINGER, /* keep it, say that it lingers until until_ms, and look again then */
	CLAIM_END     /* take it out, naming its uid */
};

struct claim_verdict {
	enum claim_act act;
	int64_t until_ms; /* INT64_MAX: nothing happens before something changes */
};

/* The defaults. */
struct claim_pace claim_pace(void);

/* R5: a pending claim ends only by a GET that was begun pending_ms after the claim came in view; a
 * pod of its uid that is or was there binds or ends it at any time, and one that the watch has
 * shown and lost is asked for at once (R12). R6: a bound one ends when that uid is finished, or by
 * a GET that was begun after it was known to be bound; while the watch does not show the uid it is
 * asked for at once, then every ask_ms. R13: a pod that is gone, and that nobody saw end (seen
 * stays POD_FINISHED behind a delete), may run on where it had a node: for its grace period and
 * margin_ms, after which it is asked for once more. The caller acts on CLAIM_ASK by setting
 * asked_ms, answer and gone_ms and deciding again; when an end could not be written because
 * somebody else wrote, it clears the first two. */
struct claim_verdict claim_life(
	const struct claim_sight *c, const struct claim_pace *pace, int64_t now_ms);

#endif

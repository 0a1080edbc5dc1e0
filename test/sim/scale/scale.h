/* SPDX-License-Identifier: Apache-2.0 */
/* sim/scale: what the files of the large simulation share. README.md beside it says what is real
 * and what is modelled. One thread; times are microseconds of virtual time since the day began. A
 * slot is a GPU of the pool: server × GPUS + its number there. */
#ifndef TEST_SIM_SCALE_SCALE_H
#define TEST_SIM_SCALE_SCALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "webhook/core/pool/placement.h"

#define GPUS 8
#define MS INT64_C(1000)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define DAY (1440 * MINUTE)
#define MINUTES 1440
#define REPLICAS_MAX 8

/* ---- scale_trace.c: chance, and pods as the trace has them ---- */

struct chance {
	uint64_t state;
};

uint64_t chance_next(struct chance *c);
/* 0 <= it < 1 */
double chance_unit(struct chance *c);
/* Exponentially distributed. */
int64_t chance_wait(struct chance *c, int64_t mean_us);

enum pod_state { POD_TO_COME, POD_WAITS, POD_LIVES, POD_REFUSED, POD_ENDED };

struct pod {
	int64_t comes_us; /* 0 of those that stand when the day begins */
	int64_t life_us;
	uint8_t amount;  /* GPUs */
	uint8_t percent; /* of each */
	uint8_t state;
	uint8_t n_parts;
	uint32_t parts[GPUS]; /* its slots, in their order */
};

struct day {
	struct pod *pods; /* the standing ones first, then by comes_us */
	size_t n, n_standing;
	double stretch; /* what the lives of the trace are multiplied by */
};

/* A day of n pods for so many servers whose mean demand is `load` of the pool. The rate of creates
 * is lowest at midnight and swings by `swing` around its mean. */
struct day day_make(uint64_t seed, size_t servers, size_t n, double load, double swing);

/* ---- scale_pool.c: the pool, and the product's placement on it ---- */

/* What somebody believes of every server. */
struct state {
	uint64_t *claimed;  /* per slot */
	uint32_t *n_claims; /* per server */
	uint32_t *version;  /* per server */
};

/* How long something took on this machine, in eighths of powers of two of a microsecond. */
#define TIMES 256

struct times {
	uint64_t n, at[TIMES];
};

/* Microseconds. */
double times_median(const struct times *t);

struct pool {
	struct inventory inv;
	uint64_t gpu_bytes;
	uint64_t *nothing; /* per slot: nothing is pending, which only messages read */
	struct arena arena, scratch;
	struct times found, none; /* of decisions that found GPUs, and that found none */
};

void pool_init(struct pool *p, size_t servers);
struct state state_new(const struct pool *p);
void state_copy(const struct pool *p, struct state *to, const struct state *from);
uint64_t pod_bytes(const struct pool *p, const struct pod *pod);
/* The product's placement_find(). True: pod->parts are the slots. */
bool pool_find(struct pool *p, const uint64_t *claimed, const uint32_t *n_claims, size_t first,
	struct pod *pod);
/* Have enough GPUs room for it? For a pod of one container that is all that placement_find() can
 * want, and in a tenth of its time. */
bool pool_has_room(const struct pool *p, const uint64_t *claimed, const uint32_t *n_claims,
	const struct pod *pod);
/* Give the pod its parts on this server, or take them: sign is 1 or -1. */
void state_add(
	const struct pool *p, struct state *s, size_t server, const struct pod *pod, int sign);
/* Would they fit? As server_claim_fits() has it. */
bool state_fits(const struct pool *p, const uint64_t *claimed, uint32_t n_claims, size_t server,
	const struct pod *pod);

/* ---- scale_offline.c: what a pool could hold whose pods may be moved at every moment ---- */

/* Who lives, by size. */
struct crowd {
	uint32_t share[101]; /* pods on a part of one GPU, by its percent */
	uint32_t whole;      /* GPUs that are taken whole */
	uint64_t percent;    /* all that is taken */
};

void crowd_add(struct crowd *c, const struct pod *pod, int sign);
/* GPUs that best fit, largest first, needs for all of them: so many are enough. */
size_t crowd_gpus(const struct crowd *c);

struct offline {
	double demand[MINUTES]; /* of all pods if there were room for all, of the pool */
	double load[MINUTES];   /* of those admitted whenever all who live can be packed */
	uint32_t refused[MINUTES];
};

void offline_run(const struct day *d, size_t gpus, struct offline *ret);

/* ---- scale_events.c: what happens next ---- */

enum event_kind {
	EVENT_PUT,    /* of a commit, at the API server */
	EVENT_ANSWER, /* of that PUT, or of the GET behind a conflict, at its replica */
	EVENT_GET,    /* behind a conflict, at the API server */
	EVENT_WATCH,  /* the next event of a replica's watch */
	EVENT_LIST_BEGIN,
	EVENT_LIST,   /* at the API server */
	EVENT_LISTED, /* at its replica */
	EVENT_LOOK,   /* a review that waits looks again */
	EVENT_SEEN,   /* the leader sees that a pod is there */
	EVENT_END,
	EVENT_ROUND, /* the leader writes */
	EVENT_MINUTE
};

struct event {
	int64_t at_us;
	uint64_t order;
	enum event_kind kind;
	uint32_t replica;
	uint64_t stamp; /* of EVENT_LOOK: void when it is not the take's */
	void *what;
};

void event_push(struct event e);
bool event_pop(struct event *ret);
int64_t event_next_us(void);
void event_clear(void);

/* ---- scale_world.c: the API server, the replicas and their pictures ---- */

enum edit_kind { EDIT_ADD, EDIT_WHOLE, EDIT_REMOVE, EDIT_BIND, EDIT_END };

struct edit {
	struct edit *next;
	enum edit_kind kind;
	bool again; /* it was tried, and somebody else had written */
	struct pod *pod;
	struct pod was; /* EDIT_REMOVE: what is taken back */
	struct take *take;
};

/* What a review is about to commit on one server. */
struct reservation {
	struct reservation *next;
	const struct pod *pod;
	uint32_t landed; /* the version that holds it; 0: none yet */
};

struct entry {
	struct edit *queue, **end;
	struct reservation *reserved;
	int64_t contended_until_us;
	bool busy;
	bool bind_due; /* the leader's */
};

/* One server at one moment. */
struct news {
	struct news *next;
	int64_t at_us;
	uint32_t server, version, n_claims;
	uint64_t claimed[GPUS];
};

struct replica {
	uint32_t number;
	struct state committed;
	uint64_t *claimed; /* and reserved */
	uint32_t *n_claims;
	struct entry *entries;
	size_t n_reserved;
	uint64_t room; /* counts what may have made room */
	int64_t contended_until_us, spread_until_us;
	size_t first;
	uint32_t *elsewhere;
	struct news *watch, *watch_last;
	struct state list; /* what the last list said */
	uint64_t lists_begun, list_good, list_wanted;
	int64_t list_began_us;
	bool listing, list_due;
	struct take *waiting;
};

/* One review's way to its claim. */
struct take {
	struct take *next; /* of those that wait */
	struct replica *r;
	struct pod *pod;
	struct pod plan; /* its parts are what is being committed */
	struct reservation reserved[GPUS];
	uint32_t servers[GPUS];
	uint32_t n, step;
	int64_t came_us, soon_us;
	uint64_t list, room, stamp;
	bool waits, for_anything, looks;
	bool was_full; /* since it came there was a moment without room for it */
};

struct settings {
	uint64_t seed;
	size_t servers, pods;
	uint32_t replicas;
	double load, swing;
	int64_t watch_us; /* mean delay of a watch */
};

struct minute {
	double load, idle; /* claimed, and on GPUs that nobody uses, of the pool */
	uint32_t refused, movable;
};

struct tally {
	uint64_t admitted, refused, late, untrue, movable;
	uint64_t tries;                 /* decisions that went to the API server */
	uint64_t puts, conflicts;       /* of reviews */
	uint64_t leads, lead_conflicts; /* PUTs of the leader */
	uint64_t lists, hash;
	/* Summed over refusals: what is free of the pool, and GPUs that packing all anew would
	 * leave empty. */
	double refused_free, refused_spare;
	uint64_t refused_by[101 + GPUS];
	struct minute minutes[MINUTES];
	uint32_t *answer_ms; /* of each review, as far as n_answers */
	size_t n_answers;
};

/* What a pod holds on one server. */
struct part {
	struct pod *pod;
	uint32_t server;
};

struct world {
	struct settings set;
	struct pool *pool;
	struct day *day;
	struct state truth;
	struct crowd crowd; /* who holds a claim */
	uint32_t room[101]; /* GPUs by the percent of them that is free in truth */
	struct chance chance;
	struct replica replicas[REPLICAS_MAX];
	int64_t now_us;
	struct tally tally;
	struct part *ends; /* that the leader has seen and not written */
	size_t n_ends, cap_ends;
	uint32_t *binds; /* servers on which a claim is to be marked as bound */
	size_t n_binds;
	int64_t bind_us;
	uint64_t stamps;
};

extern struct world world;

/* truth: of the standing pods; copied. */
void world_begin(
	const struct settings *set, struct pool *p, struct day *d, const struct state *truth);
void world_run(void);
void world_end(void);
/* A law is broken: the program ends, and says when. */
void world_law(const char *broken) __attribute__((noreturn));
/* Counts into the hash of the run. */
void world_note(uint64_t what, uint64_t of);
/* A newer state of a server into a replica's picture. */
void picture_put(struct replica *r, const struct news *n);
/* Count anew what is taken of a server. */
void picture_count(struct replica *r, uint32_t server);
void picture_watch(struct replica *r);
/* Count the GPUs of a server by what is free of them: sign is 1 or -1. */
void world_room(uint32_t server, int sign);
/* The truth has changed: tell every replica. */
void world_tell(uint32_t server);
struct news news_of(const struct state *s, uint32_t server);

/* ---- scale_commit.c: edits of a server's status that share one compare-and-swap ---- */

void edit_submit(struct replica *r, uint32_t server, struct edit *e);
/* Begin what waits for this server, unless somebody is at it. */
void commit_kick(struct replica *r, uint32_t server);
void commit_event(const struct event *e);
/* Put it into the queue alone: it goes with the next commit. */
void edit_queue(struct replica *r, uint32_t server, struct edit *e);

/* ---- scale_take.c ---- */

void take_begin(struct replica *r, struct pod *pod);
/* An edit of the take has been committed, or given up. */
void take_done(struct take *t, bool written);
void take_look(const struct event *e);
/* The truth has changed: was that a moment without room for somebody who waits? */
void take_truth(void);
/* The picture has changed, or a list has come: who waits may look again. */
void take_news(struct replica *r);
void list_event(const struct event *e);

/* ---- scale_leader.c ---- */

void leader_seen(struct pod *pod);
void leader_ended(struct pod *pod);
/* Its end on this server could not be written. */
void leader_again(struct pod *pod, uint32_t server);
void leader_round(void);

/* ---- scale_report.c ---- */

/* json may be NULL. */
void report_begin(
	const struct settings *set, const struct day *d, const struct offline *o, FILE *json);
/* The run that has just ended. cpu: seconds of this machine. */
void report_run(double cpu, bool first, FILE *json);
/* False: the file could not be written. */
bool report_end(FILE *json);

#endif

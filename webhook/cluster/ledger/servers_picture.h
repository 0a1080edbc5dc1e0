/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the picture of the GPUServers, for those who decide by it and hold its lock meanwhile;
 * everybody else looks at it through servers.h. */
#ifndef WEBHOOK_CLUSTER_LEDGER_SERVERS_PICTURE_H
#define WEBHOOK_CLUSTER_LEDGER_SERVERS_PICTURE_H

#include <pthread.h>

#include "webhook/cluster/duty/duty.h"
#include "webhook/cluster/duty/repeat.h"
#include "webhook/cluster/duty/uid_set.h"
#include "webhook/cluster/ledger/servers.h"
#include "webhook/core/pool/server_kinds.h"
#include "webhook/core/pool/server_words.h"

/* One state of one GPUServer, with the memory it lives in. */
struct held {
	struct arena arena;
	struct server_object object;
	struct gpu_server shown;
	uint64_t number; /* of its resourceVersion */
	/* Rule R16: the number of the state that was known when somebody asked, past every cache,
	 * for what this is: it takes its place even where its own number is lower, as after a
	 * restore of etcd. 0: nobody did. */
	uint64_t known;
	bool told;       /* the watch showed it: what was there before it is known, too */
	uint64_t listed; /* the same once this list of reviews has come in as a whole; 0: none has
			    shown it */
};

/* A claim that this replica has decided on and is about to commit: it counts, so that the next
 * review does not choose the same bytes. */
struct reservation {
	struct reservation *next;
	const struct claim_record *claim; /* the part on this server */
};

/* Lists of all servers: the watch's own, and that of reviews (servers_list.c). */
enum server_list { LIST_WATCH, LIST_REVIEWS, SERVER_LISTS };

struct server_entry {
	char *name;
	struct held *held;   /* NULL: there is no such server (any more) */
	uint64_t unreadable; /* number of its newest state, which cannot be read: held is an older
				one, and takes nothing; 0: it can */
	uint64_t listed;     /* number of the watch's list that has shown it last */
	/* What was known when a list began, once that has changed since: the number of the list,
	 * and that of held. See servers_known(). */
	struct known_before {
		uint64_t list, number;
	} known[SERVER_LISTS];
	size_t index;  /* in inv.servers, when placed; it stays */
	bool placed;   /* it has a place there, for as many GPUs as held has */
	bool ahead;    /* held takes more than what was shown of it last: see committed */
	uint64_t base; /* number of the state that counts in committed; 0: it is from before a
			  restore */
	struct edit *queue, **queue_end; /* servers_commit.c's */
	bool busy;                       /* somebody commits its edits */
	struct reservation *reserved;
	int64_t contended_until_ms; /* another replica was first a moment ago: better to go
				       elsewhere */
	struct server_entry *next_contended;
	unsigned users; /* edits that wait */
};

/* Lists by GPU that the picture has. */
#define PICTURE_LISTS 6

struct servers {
	struct kube *kube;
	const struct log *log;
	struct metrics *metrics;
	struct kube_watch *watch;
	struct duty *lister;
	void (*changed)(void *ctx);
	void *changed_ctx;

	pthread_mutex_t lock;
	pthread_cond_t cond; /* an edit is done, the picture has changed, a list has ended */
	/* Guarded by lock: */
	struct server_entry **entries; /* sorted by name */
	size_t n, cap;
	bool synced, stopping, leaderless;
	bool watch_lists;             /* the watch reads a list */
	bool copied;                  /* a review decides on a copy */
	uint64_t lists[SERVER_LISTS]; /* numbers of the last ones that were begun */
	size_t at_once, looks_at_once;
	/* The picture: those with a state, and what is taken of their GPUs. True after
	 * servers_judge() alone. */
	struct inventory inv;
	uint32_t *order, *turn;                      /* of inv */
	size_t cap_servers, cap_gpus[PICTURE_LISTS]; /* of the lists by GPU, one by one */
	struct spare {
		uint32_t index, gpus; /* it has places for so many GPUs */
	} * spare;                    /* places that servers have left */
	size_t n_spare;
	bool place_due;       /* memory was short when a server was to be given its place */
	struct arena twins;   /* the sentences of rule R15 in the picture */
	struct uid_set marks; /* of R15: the addresses and GPUs of all servers */
	bool twins_due;       /* two have the same, and something has changed since it was judged */
	uint64_t *claimed;    /* committed, and reserved */
	/* Rule R4: without what is reserved, and of a server that is ahead as the watch or a list
	 * of reviews has shown it last. What one write has brought is newer than the rest, and may
	 * show as full a pool that never was. */
	uint64_t *committed;
	uint64_t *pending;
	uint64_t *kept; /* for pods that wait (W6): part of claimed and committed */
	uint32_t *n_claims;
	/* Room beside what is claimed, and beside what is committed. */
	struct pool_room room_claimed, room_committed;
	uint32_t *first, *gpus, *usable;
	uint32_t *width; /* for so many GPUs there are places from first on */
	size_t widest;
	uint64_t *gpu_bytes, *most_claimed, *most_committed, *left_claimed, *left_committed;
	struct room_index index; /* of room_claimed */
	struct server_kinds kinds;
	struct server_words words;
	uint32_t *kind;             /* of inv */
	size_t n_reserved, n_ahead; /* reservations; servers that are ahead */
	struct uid_set uids;        /* of the committed claims */
	struct uid_set names;       /* "namespace/name" of their pods */
	struct uid_set phantoms;    /* namespaces of rule R12 */
	struct repeat unreadables;  /* told in the log */
	/* While replicas come into each other's way each begins its search at a place of its own.
	 */
	uint64_t random;
	int64_t spread_until_ms;
	struct server_entry *contended; /* those to which that happened */
	/* Fresh lists, which have numbers: */
	uint64_t list_good, list_failed; /* of the last one that came, that did not */
	uint64_t list_wanted;            /* by somebody who waits until list_wanted_ms */
	int64_t list_wanted_ms, list_due_ms;
	uint64_t list_owed; /* of the first that shows whether hearsay is true that no such list has
			       brought: a write's answer, or a list of the watch */
	bool list_comes_in; /* the picture is newer in part: of the list that was begun last */
	uint64_t list_version; /* of the last that has come in: a server that it lacks has gone,
				  whatever older states of it the watch still tells */
	struct err list_err;   /* of list_failed */
	bool list_partly;      /* of list_good: one of them could not be read */
	uint64_t room;         /* counts what may have made room in the picture */
};

/* Without the lock, which fn has, and which others are given every now and then: what fn sees of
 * one server is true at one moment, of two of them perhaps at two. Servers that come or go
 * meanwhile are seen or not. fn: false ends it. False: out of memory, the picture may say too
 * little. */
typedef bool servers_walk_fn(void *ctx, const struct server_entry *e);
bool servers_walk(struct servers *s, servers_walk_fn *fn, void *ctx);

/* Without the lock: a copy of the picture for placement_find(), with what is kept for those who
 * wait; with_reserved: as servers_usage(). Without claims. ERR_NOMEM. */
int servers_copy(struct servers *s, bool with_reserved, struct arena *a, struct pool_view *ret,
	struct err *err);

/* ---- with the lock held ---- */

/* The entry of that name, or NULL. */
struct server_entry *servers_find(const struct servers *s, const char *name);
/* Take a state over (it is freed when an older one than what is held, but for h->known). False: out
 * of memory, it is freed. */
bool servers_put(struct servers *s, struct held *h);
/* Free the entry of a server that is gone and that nobody waits for: at this place, or of this
 * name. False: it stays. */
bool servers_forget_at(struct servers *s, size_t at);
void servers_forget(struct servers *s, const char *name);
/* How many claims the picture holds for pods of this name, at most (uid_set_count). */
uint32_t servers_name_holds(const struct servers *s, const char *namespace, const char *name);
/* Did a claim of that namespace end a moment ago whose pod never came (rule R12)? */
bool servers_phantom(const struct servers *s, struct slice namespace);
/* Bring the picture up to date with the servers that there are, and by rule R15 make unfit what
 * older servers have, in it and in the objects. Costs nothing unless servers or GPUs have changed.
 * To be called before either is believed. False: out of memory, neither may be. */
bool servers_judge(struct servers *s);
/* The picture for placement_find; with_reserved: what this replica is about to commit counts, too.
 */
struct usage servers_usage(const struct servers *s, bool with_reserved);
/* What was found on a copy, in the picture as it is now. False: it has changed there. */
bool copy_holds_now(const struct servers *s, const struct pool_view *v, struct placement *p);
/* Another replica has written this server first. For a moment claims had better go elsewhere, and
 * for longer this replica begins its search somewhere else than at the first name. */
void servers_contended(struct servers *s, struct server_entry *e);
/* usage.n_claims, in the arena, with every server that is contended shown as full. NULL: none is,
 * or no memory. */
uint32_t *servers_elsewhere(struct servers *s, struct arena *a);
/* What is taken of its GPUs has changed: count it anew; a server that has no place yet is counted
 * when it is given one. s->room rises where more may be free than before. */
void servers_recount(struct servers *s, struct server_entry *e);
/* Wait for anything to happen, until then. False: the time has come. */
bool servers_wait(struct servers *s, int64_t deadline_ms);

/* Without the lock: read a state. NULL with err: ERR_INVALID, ERR_SYNTAX, ERR_NOMEM. */
struct held *held_read(const struct json *j, const struct json_node *object, struct err *err);
void held_free(struct held *h);

/* ---- lists, past every cache ---- */

/* Without the lock: begin to make those that are wanted, until servers_stop(). ERR_NOMEM,
 * ERR_INTERNAL. */
int servers_list_start(struct servers *s, struct err *err);
/* With the lock held: a list that is begun after this call is wanted until then; its number. It is
 * good once s->list_good has come that far, and s->cond says so. */
uint64_t servers_want_list(struct servers *s, int64_t deadline_ms);
/* With the lock held: will it not come in time, or never? And why; ERR_TIMEOUT, or what kube_list
 * said. */
bool servers_list_hopeless(const struct servers *s, uint64_t list, int64_t deadline_ms);
int servers_list_error(const struct servers *s, uint64_t list, struct err *err);

#endif

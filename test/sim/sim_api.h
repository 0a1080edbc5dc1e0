/* SPDX-License-Identifier: Apache-2.0 */
/* sim: the model API server. sim_store.c keeps objects, sim_requests.c carries requests out, each
 * in no time; sim_http.c is the way there and back, with all that can go wrong on it, in the place
 * of net/http_client. */
#ifndef TEST_SIM_SIM_API_H
#define TEST_SIM_SIM_API_H

#include <cjson/cJSON.h>

#include "test/sim/sim.h"

enum kind { SERVERS, PODS, LEASES, SECRETS, USAGES, POLICIES, NAMESPACES, KINDS };

extern const struct resource {
	const char *collection, *api_version, *kind;
} resources[KINDS];

/* An object as etcd keeps it. text is what GET shows. */
struct object {
	struct object *next;
	enum kind kind;
	char *namespace, *name, *uid;
	uint64_t version, generation;
	bool deleting;
	cJSON *doc;
	char *text;
	void *view; /* the laws' own: what a GPUServer's status says */
};

/* What happened to an object, for watches. */
struct event {
	uint64_t version;
	int64_t at;
	const char *type;
	char *text; /* a line of a watch */
};

struct event_log {
	struct event *events;
	size_t n, cap;
	uint64_t compacted; /* events up to this version are forgotten */
};

struct store {
	struct object *objects;
	uint64_t version, uids;
	uint64_t chain;  /* of everything that was ever written, in its order */
	int64_t created; /* the second in which the last one was made */
	struct event_log log[KINDS];
	unsigned
		epoch; /* of the API server's process: what was on its way to another one is lost */
};
extern struct store store;

/* A request as it arrives, and its answer. Texts are malloc'ed. */
struct request {
	char *method, *path, *body;
	int owner;       /* who asks */
	int64_t sent_at; /* or before its sender was kept from sending it */
	long status;
	char *answer;
};

struct object *store_find(enum kind kind, const char *namespace, const char *name);
struct object *store_first(enum kind kind);
struct object *store_next(struct object *o);
/* Make one of this document, which it takes over; uid NULL: a new one. Watches are told. */
struct object *store_add(enum kind kind, const char *namespace, const char *name, const char *uid,
	cJSON *doc, const char *who);
/* Its doc was changed: a new version. who: for the trace. */
void store_changed(struct object *o, const char *who);
/* It has a deletionTimestamp from now on. */
void store_mark_deleted(struct object *o, const char *who);
/* As DELETE does: gone, or deleting while it has finalizers. */
void store_delete(struct object *o, const char *who);
/* Gone, whatever it carries. */
void store_remove(struct object *o, const char *who);
/* Watches that are behind have to list anew. */
void store_compact(void);
/* A backup of etcd, and its restore, with the API server started anew. bumped: it is restored by
 * --bump-revision --mark-compacted, so that the version of the whole does not go back, only those
 * of the objects do; otherwise so much is written since that no version comes twice within a run,
 * which no client could tell. False: there is no backup. */
void store_backup(bool bumped);
bool store_restore(void);
/* Carry it out now: status and answer. */
void store_carry_out(struct request *r);
/* ---- sim_patch.c ---- */

/* A copy of the document to which this JSON patch is applied; NULL: one of its operations does not
 * apply. */
cJSON *patch_apply(const cJSON *doc, const cJSON *ops);
/* A status's conditions (NULL: none) with these merged into them, one by type. */
cJSON *patch_conditions(const cJSON *was, const cJSON *patch);

cJSON *store_at(cJSON *o, const char *a, const char *b);
uint64_t store_hash(const char *text);

/* What goes wrong on the way, in so many of a million requests, and how long things take; drawn by
 * each seed. */
struct weather {
	unsigned lost_before, lost_after; /* cut: without effect, with it */
	unsigned slow, very_slow;         /* up to slow_us, up to a minute */
	int64_t slow_us;
	unsigned busy, broken; /* 429 or 500 or 504 without effect */
	unsigned late_504;     /* 504, 500, and carried out all the same, at once or later */
	unsigned twice;        /* the request is sent twice */
	unsigned foreign_404;  /* something between says 404 */
	unsigned cut_watch;    /* of the moments of a watch */
	unsigned bad_list;     /* 500 to a list of GPUServers, or up to eight seconds for it */
	int64_t lag_us;        /* of watches, at most */
	size_t page;           /* objects on one page of a list, at most */
};
extern struct weather weather;

/* The way between this replica and the API server: 0 open, 1 refused, 2 silent, 3 a proxy answers
 * 404 to everything. */
extern int way[REPLICAS_MAX + 1];

/* Up to this version the watch of GPUServers has told this replica everything; 0: nobody knows. */
extern uint64_t knows[REPLICAS_MAX + 1];

/* When the first watch of this replica began or ended behind a restore of etcd, or it was started
 * anew: from then on it may know of it. FOREVER: not yet; 0: there was no restore. */
extern int64_t hears_at[REPLICAS_MAX + 1];
void http_hears(int owner);
/* Was this sent before its sender could know of a restore, or had he looked before and been kept
 * from sending it? */
bool http_unaware(const struct request *r);

#endif

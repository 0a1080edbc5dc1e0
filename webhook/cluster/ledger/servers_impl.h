/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: what the files that keep the picture of the GPUServers share (servers*.c). */
#ifndef WEBHOOK_CLUSTER_LEDGER_SERVERS_IMPL_H
#define WEBHOOK_CLUSTER_LEDGER_SERVERS_IMPL_H

#include "webhook/cluster/ledger/servers_picture.h"

struct edit {
	struct edit *next;
	server_edit_fn *fn;
	void *ctx;
	int64_t deadline_ms;
	bool again, changed, done;
	int rc;
	struct err *err;
};

/* After so much work others are given the lock: a server is one, and its claims. What is done for
 * each takes some microseconds. */
#define SERVERS_AT_ONCE 32
/* What a search may look at meanwhile: half a millisecond. Nearly all need less. */
#define LOOKS_AT_ONCE 10000
#define CLAIMS_A_SERVER 8

/* The number of the state that is known of it, 0: none. */
static inline uint64_t entry_number(const struct server_entry *e)
{
	return e->held ? e->held->number : 0;
}

/* The number of the state that was known of it when the list that was begun last began. Nobody goes
 * through all servers to note that. */
static inline uint64_t servers_known(
	const struct servers *s, const struct server_entry *e, enum server_list list)
{
	return e->known[list].list == s->lists[list] ? e->known[list].number : entry_number(e);
}

/* ---- with the lock held ---- */

/* In a loop over the entries: this one, at this place, has been looked at. Where it is afterwards:
 * others may have had the lock for a moment, in which this entry stays, and the rest may change.
 * *work: what was done since, from 0. */
size_t servers_breathe(struct servers *s, size_t at, size_t *work);
/* A new one, without a state. NULL: out of memory. */
struct server_entry *servers_add(struct servers *s, const char *name);
/* A state with this number that cannot be read: when it is the newest, what was known before stays,
 * and takes nothing new. */
void servers_put_unreadable(struct servers *s, const char *name, uint64_t number);
/* The server does not exist any more. Its entry stays, for those who wait, until it is forgotten.
 */
void servers_drop(struct servers *s, struct server_entry *e);

/* ---- the rest ---- */

/* Without the lock: tell the listener. */
void servers_tell(struct servers *s);

/* ---- servers_room.c ---- */

/* Count what is taken of its GPUs anew. It has its place; known: it was counted there before, so
 * the index has what was free. */
void servers_count(struct servers *s, struct server_entry *e, bool known);
/* Give a server that has a state its place in the picture, and count it there. No other one moves.
 * False: out of memory. */
bool servers_place(struct servers *s, struct server_entry *e);
/* It has gone, or has another number of GPUs now. */
void servers_unplace(struct servers *s, struct server_entry *e);
/* Is the state that it has one that nobody has shown yet? It is to be counted after that. */
void servers_set_ahead(struct servers *s, struct server_entry *e, bool yes);
/* The watch, or a list of reviews, has shown this state of a server, the one that it has or an
 * older one. */
void servers_show(struct servers *s, struct server_entry *e, const struct held *h);

/* ---- servers_watch.c ---- */

/* Without the lock: a state that nobody here understands. */
void servers_put_broken(struct servers *s, struct kube_meta m, const struct err *err);

#endif

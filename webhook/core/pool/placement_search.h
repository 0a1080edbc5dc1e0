/* SPDX-License-Identifier: Apache-2.0 */
/* core: the state of one search for GPUs. Shared by placement.c, which searches, pass after pass,
 * placement_ask.c, which says what may be used, placement_place.c and placement_spread.c, which
 * place one container, and placement_refusal.c, which explains why nothing was found; nobody else
 * includes it. */
#ifndef WEBHOOK_CORE_POOL_PLACEMENT_SEARCH_H
#define WEBHOOK_CORE_POOL_PLACEMENT_SEARCH_H

#include "webhook/core/pool/placement.h"

/* Bytes of the megabyte that launchers and messages count in. */
#define PLACEMENT_MB 1000000u

/* What one decision may look at: servers, GPUs of those that it looks at more closely, and moves
 * while they are ordered, of which each takes some seventy instructions. Work and not time, so that
 * the same question has the same answer everywhere. */
#define SEARCH_WORK_MAX 500000u

/* A GPU that may be used: usable, selected, not full, its server open for claims. */
struct slot {
	uint64_t bytes; /* its memory */
	uint64_t free;  /* not held by other pods */
	uint32_t gpu;   /* index on its server */
	uint32_t own;   /* index in search.owns; 0 when this pod holds nothing of it */
};

/* The slots of one server. Where a pod takes whole servers, or has names of servers, all that it
 * may use have one from the start; else a server is given one when something of it is, and up to
 * then is looked at in the room of the pool. */
struct bin {
	uint32_t server; /* index in the inventory */
	uint32_t turn;   /* by name */
	uint32_t first;  /* index of its first slot */
	uint32_t n;
	bool own;     /* this pod uses it already */
	bool settled; /* a copy of the pod before this one has taken of it */
};

/* What this pod holds of one slot. */
struct own {
	uint64_t held;  /* by app and restartable containers together */
	uint64_t early; /* by the restartable ones that run when the init container at hand does */
	uint64_t peak;  /* the most at any moment: what is claimed in the end */
};

/* A slot that can hold one GPU's part of the container at hand, and how gladly. */
struct choice {
	uint64_t growth; /* by how much the pod's claim on it would grow (init containers alone) */
	uint64_t left;   /* bytes that would stay free */
	uint32_t slot;
};

struct search {
	const struct inventory *inv;
	const struct usage *use;
	const struct demand *d;
	const struct filter **known; /* the filters that the pool understands */
	size_t n_known;
	/* Words that a server which has a kind must have: those of the policy, of which there are
	 * n_bound, then those of filters. */
	struct word_test {
		const uint32_t *of; /* per server */
		uint32_t word;      /* 0: no server has it */
	} * tests;
	size_t n_tests, n_bound;
	struct pool_room room;
	struct slot *slots;
	size_t n_slots;
	struct bin *bins;
	size_t n_bins;
	uint32_t *bin_of; /* per server: 1 + index of its bin; 0: it has none */
	bool listed;      /* what has no bin cannot be used */
	bool few;         /* so it is since filters or the policy leave so few servers */
	bool named;       /* a filter has a name: no server but this one can be selected */
	size_t only;      /* SIZE_MAX: there is none of that name */
	bool picky; /* its launcher cannot use every server: addresses, or servers that are for
		       others */
	bool asks;  /* there are filters, or servers that the launcher cannot use */
	uint8_t *selected; /* per server: 1 + what search_selected() has found; 0: it was not asked.
			      NULL: nothing is asked */
	uint8_t *kinds;    /* the same per kind of server, for search_kind() */
	bool *told;        /* per kind, for say_existing() */
	uint32_t *within;  /* per kind that was asked: its GPUs that the policy allows */
	/* What is looked at: so many servers by name, beginning with this one: usage.first; or one
	 * alone. */
	size_t from, span;
	uint32_t *rooms;  /* per server, for search_spread(): how many of its GPUs can hold the
			     container; 0 once it was there */
	struct own *owns; /* from 1 */
	uint32_t n_owns, max_owns;
	uint32_t **picks; /* per container its slots */
	size_t *order;    /* app and restartable containers in falling order of bytes */
	size_t n_order;
	struct choice *best, *other; /* room for one server's choices, twice */
	bool together;               /* prefer servers that this pod uses already */
	bool split;    /* there is room, but not on one server, as the demand wants it */
	bool never;    /* the pool would not hold it if nobody else used it */
	size_t failed; /* the container that found no place */
	uint64_t work; /* what was looked at: from the budget on the search finds nothing more */
	uint64_t budget;
	bool hurried;   /* the budget is less than SEARCH_WORK_MAX: who needs more is told so */
	bool late;      /* and what is left to do would read the whole pool */
	bool concluded; /* one pass ended within the budget: a refusal can say what is free */
	size_t taken_server; /* index in d->servers of a server that cannot be used whole, or
				n_servers */
};

/* Ready to search: everything is taken from the arena. copies: how many of the pod are to be
 * placed. 0 or ERR_NOMEM. */
int search_init(struct search *s, const struct inventory *inv, const struct usage *use,
	const struct demand *d, size_t copies, struct arena *a);

/* Find the filters that the pool understands, and whether servers must be asked at all. ERR_NOMEM.
 */
int search_know(struct search *s, struct arena *a);

/* Give the server, which has none, a bin, for as long as this pod uses it or, by search_drop_bin(),
 * for a moment. */
struct bin *search_add_bin(struct search *s, size_t server);
void search_drop_bin(struct search *s);
/* What may be used, for those who say what is free to this container: all GPUs that have room for
 * it and, where these are fewer than it asks for, of each size so many as have most. False: out of
 * memory. */
bool search_add_roomy(struct search *s, const struct demand_container *c, struct arena *a);

/* May the server, which has so many, have one claim more, of this pod? Small ones leave one for
 * each GPU of which more than half is free: else 256 of them, on three GPUs, would close the others
 * to everybody. */
bool search_claims_left(const struct search *s, size_t server, uint32_t n_claims);
/* Is the server open for the demand, but for its filters? */
bool search_open(const struct search *s, size_t server);

/* Do address, launchers and filters select all, none or some of a server's GPUs? */
enum selected { SELECTED_NONE, SELECTED_SOME, SELECTED_ALL };
/* Has the server, which has a kind, the words of the first n tests? */
static inline bool search_words(const struct search *s, size_t server, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s->tests[i].word == 0 || s->tests[i].of[server] != s->tests[i].word)
			return false;
	return true;
}

/* Of a filter by label or address. */
struct word_test search_test(const struct inventory *inv, const struct filter *f);

/* As far as its name, its words and its kind tell, whatever claims there are; SOME: it must be
 * asked itself. */
enum selected search_ask_kind(const struct search *s, uint32_t kind);
static inline enum selected search_kind(const struct search *s, size_t server)
{
	uint32_t kind = inventory_kind(s->inv, server);

	if (!s->asks)
		return SELECTED_ALL;
	if (s->named && server != s->only)
		return SELECTED_NONE;
	if (kind == 0)
		return SELECTED_SOME;
	if (!search_words(s, server, s->n_tests))
		return SELECTED_NONE;
	return s->kinds[kind] ? (enum selected)(s->kinds[kind] - 1) : search_ask_kind(s, kind);
}
/* Of those that have room. */
enum selected search_selected(struct search *s, size_t server);
/* Are its GPUs that take claims of one size, all of them selected whatever claims there are? */
static inline bool search_alike(const struct search *s, size_t server)
{
	return s->room.bytes[server] != 0 && search_kind(s, server) == SELECTED_ALL;
}

/* Forget what this pod was given, and the bins that were made for that. */
void search_forget(struct search *s);

/* The servers in the order in which they are looked at: i from 0 to s->span - 1. */
static inline size_t search_server(const struct search *s, size_t i)
{
	size_t at = s->from + i;

	return inventory_nth(s->inv, at < s->inv->n_servers ? at : at - s->inv->n_servers);
}

/* The server's bin, or NULL. */
static inline struct bin *search_bin(const struct search *s, size_t server)
{
	return s->bin_of[server] ? &s->bins[s->bin_of[server] - 1] : NULL;
}

/* Bytes of a GPU of that size that the container needs; 0 when it cannot use such a GPU. Inline, as
 * is the next: they are asked for every GPU of the pool. */
static inline uint64_t search_need(const struct demand_container *c, uint64_t bytes)
{
	if (c->percent)
		/* floor(bytes * percent / 100) without overflow */
		return bytes / 100 * c->percent + bytes % 100 * c->percent / 100;
	return c->memory_mb > UINT64_MAX / PLACEMENT_MB ? UINT64_MAX : c->memory_mb * PLACEMENT_MB;
}

/* Bytes of the slot that the container could have beside what its pod holds at the same time. */
static inline uint64_t search_room(
	const struct search *s, const struct demand_container *c, const struct slot *slot)
{
	if (slot->own == 0)
		return slot->free;
	return slot->free -
	       (c->kind == CONTAINER_INIT ? s->owns[slot->own].early : s->owns[slot->own].held);
}

/* Place one container: on one server, the one that fits best, else over several. False: nowhere,
 * and it is s->failed. */
bool search_place(struct search *s, size_t container);

/* The same over several servers, as few as can be: each part of a claim is a commit of its own in a
 * cluster. False: they have not enough. */
bool search_spread(struct search *s, size_t container);

/* The best choices of a bin for the container, at most want, best first; at equality the earlier
 * GPU. How many there are. */
uint32_t search_choose(struct search *s, const struct demand_container *c, const struct bin *bin,
	uint32_t want, struct choice *out);

/* GPUs of a server without a bin that have room, as far as can be told without its filters. */
struct glance {
	uint64_t need;        /* of each; 0: they are not of one size */
	uint64_t least, most; /* that would be left of one */
	uint32_t fit;         /* so many have room */
};

/* False: none has. *bytes: the size of GPU that ret->need is for; 0 before the first look. */
bool search_glance(struct search *s, const struct demand_container *c, size_t server,
	uint64_t *bytes, struct glance *ret);
/* How many GPUs of that server can hold the container. */
uint32_t search_count(
	struct search *s, const struct demand_container *c, size_t server, const struct glance *g);
/* Give the container so many GPUs of that server, the best. */
void search_give(struct search *s, size_t container, size_t server, uint32_t want, uint32_t given);

/* How many servers are looked at before this one. */
static inline size_t search_turn(const struct search *s, size_t server)
{
	size_t turn = inventory_turn(s->inv, server);

	return turn >= s->from ? turn - s->from : turn + s->inv->n_servers - s->from;
}

/* Does the pod have names of servers, or take whole ones? */
static inline bool search_by_server(const struct search *s)
{
	return s->d->n_servers > 0 || s->d->whole_servers;
}

/* Is what has no bin found in the index of the pool? */
static inline bool search_by_index(const struct search *s)
{
	return s->room.index && !s->listed && s->span == s->inv->n_servers;
}

/* How many slots could hold one GPU's part of the container now. */
size_t search_count_room(const struct search *s, const struct demand_container *c);

/* The last answer of search_selects: neighbours are mostly alike, and a GPU's model is all that
 * filters see of it. */
struct memo {
	const struct gpu_server *server; /* NULL: nothing remembered */
	const char *model;
	bool selected;
};

/* Can the launcher use the server's address? A name counts as one of either family. */
bool search_reaches(const struct demand *d, const struct gpu_server *server);

/* Are GPUs of one server told apart? */
static inline bool search_filters(const struct search *s)
{
	return s->n_known > 0 || (s->d->bound && s->d->bound->n_models > 0);
}

/* Can the launcher use it: reach its address, and be placed there? The same for all of one kind. */
static inline bool search_usable(const struct demand *d, const struct gpu_server *server)
{
	return inventory_admits(server, d->launcher) && search_reaches(d, server) &&
	       (!d->guarded || server->guarded) && !inventory_other_gate(server, d->gate_by);
}

/* Does the policy allow it, too? */
static inline bool search_suits(const struct demand *d, const struct gpu_server *server)
{
	return search_usable(d, server) && inventory_server_within(server, d->bound);
}

/* Does the policy allow the server? How many of its GPUs, then? */
static inline bool search_within(const struct search *s, size_t server)
{
	return inventory_kind(s->inv, server)
		       ? search_words(s, server, s->n_bound)
		       : inventory_server_within(&s->inv->servers[server], s->d->bound);
}
uint32_t search_gpus_within(const struct search *s, size_t server);

/* Can the launcher use the server, and do the filters select this GPU? m starts zeroed. */
bool search_selects(const struct search *s, const struct gpu_server *server, const struct gpu *gpu,
	struct memo *m);

/* Explain a search that failed: sets err to ERR_REFUSED with reason and sentence and returns it. */
int placement_refuse(const struct search *s, struct err *err);

#endif

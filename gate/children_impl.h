/* SPDX-License-Identifier: Apache-2.0 */
/* gate: what children*.c and child_*.c share. */
#ifndef GATE_CHILDREN_IMPL_H
#define GATE_CHILDREN_IMPL_H

#include "gate/children.h"
#include "gate/loop.h"
#include "gate/process/cgroup.h"

/* The addresses of servers: 127.91.x.y. One that no server has tells whether any listens on all of
 * them. */
#define CHILDREN_NET "127.91"
#define CHILDREN_NOBODY CHILDREN_NET ".255.254"

enum child_state { CHILD_DOWN, CHILD_STARTING, CHILD_UP, CHILD_ENDING, CHILD_TRYING };

/* A claim that was used. */
struct child {
	struct children *all;
	char uid[BEARER_UID_MAX];
	unsigned slot; /* its address; where it stands in all */
	char address[24];
	char *share; /* its GPUs and how much of each, as text; owned */
	enum child_state state;
	bool over; /* its claim is */
	pid_t pid; /* of its parent, gpugate keep; 0 while ENDING: that one has ended */
	int pidfd;
	uint64_t began;   /* when its parent did, as family_began says */
	uint64_t profile; /* hash of the one that it was started by */
	char *cgroup;     /* its folder; owned; NULL: there is none */
	int listener;     /* what it was given to listen at, until it is up; else -1 */
	bool mps;         /* its parent has MPS end its clients before it kills anybody */
	bool ends;        /* it was told to: the next gate ends it, too */
	bool stuck;       /* that has not answered in time */
	/* Somebody is left in that: what it was, and how its parent ended. */
	enum child_state was;
	int status;
	struct loop_watch watch;
	int64_t until_ms; /* STARTING: when that has taken too long; ENDING: when it is ended by
			     force */
	int64_t again_ms; /* it failed, and may start again then */
	int64_t since_ms; /* UP since */
	int64_t idle_ms;  /* nobody is connected since */
	size_t connections;
	unsigned failures; /* in a row */
	char why[160];     /* it is down */
};

struct children {
	struct children_config cfg;
	int lock;      /* our folder: while it is open no other gate begins */
	bool switches; /* to the profile's account: */
	uid_t uid;
	gid_t gid;
	struct cgroup_home cgroups;
	unsigned accounts; /* from that one on, one for each slot; 0: one for all */
	struct child *server[CHILDREN_MAX];
	size_t top; /* behind it there is none */
	struct children_facts facts;
};

/* Whose process it is. */
static inline uid_t child_uid(const struct child *s)
{
	return s->all->uid + (s->all->accounts ? s->slot : 0);
}
static inline gid_t child_gid(const struct child *s)
{
	return s->all->gid + (s->all->accounts ? s->slot : 0);
}

/* ---- children.c ---- */

/* Not in the list yet; NULL: no memory. */
struct child *child_new(struct children *all, const char *uid);
void child_free(struct child *s);
/* Into the list, at its slot, whose address it gets. */
void child_put(struct children *all, struct child *s);
/* Have it end. */
void child_end(struct child *s);
void child_say(const struct child *s, enum log_level level, const char *what);

/* ---- child_listen.c ---- */

/* Does somebody listen there? */
bool child_listens(const char *address, uint16_t port);
/* Open what it is given to listen at, with a connection of ours in the queue. ERR_IO; child_reap()
 * closes it. */
int child_open(struct child *s, struct err *err);
/* Does it take connections? Where it was given its socket: has it taken ours. */
bool child_accepts(const struct child *s);

/* ---- child_end.c ---- */

/* Ask its parent to end it; by force: end them all now. */
void child_stop(struct child *s, bool by_force);
/* The parent has ended: its status. */
int child_reap(struct child *s);
/* Close it, if it is open. */
void child_close(int *fd);
/* The same, of its pidfd, of which the loop tells nothing more. */
void child_close_pidfd(struct child *s);

/* ---- child_process.c ---- */

/* Its folder, its process, and the file by which another gate finds it. With share: `gpugate try`
 * in the server's place, and our ends of its input and output, of which the last does not block.
 * ERR_IO, ERR_INVALID, ERR_NOMEM. */
int child_start(struct child *s, const struct picture_claim *claim, const char *share,
	int *ret_ends, struct err *err);
/* Take up what the file tells: false when there is no such process any more, though some of what it
 * started may be left. */
bool child_find(struct child *s, const char *uid);
/* Its file tells that it is to end. */
void child_mark(struct child *s);
/* Everything that it had is removed. False: not yet, since some of its processes are left, which
 * are ended. */
bool child_clear(struct child *s);

#endif

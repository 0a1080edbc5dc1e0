/* SPDX-License-Identifier: Apache-2.0 */
/* sim: what the files of the simulator share. README.md beside it says what is simulated and what
 * is real. One process runs one seed, on one thread of the system; times are microseconds of the
 * true time, which no replica sees. */
#ifndef TEST_SIM_SIM_H
#define TEST_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECOND INT64_C(1000000)
#define FOREVER INT64_MAX
/* Owners of tasks: the world outside the replicas, and replicas from 1 on. */
#define WORLD 0
#define REPLICAS_MAX 4

/* ---- sim_sched.c: tasks, time and chance ---- */

/* Begin: from here on everything follows from the seed. preempt: the switch at a point is taken
 * once in so many times. */
void sim_begin(uint64_t seed, bool trace);
void sim_preempt(uint64_t once_in);

uint64_t sim_random(void);
/* 0 <= it < n */
uint64_t sim_below(uint64_t n);
bool sim_chance(unsigned per_million);
int64_t sim_now(void);

/* Start a task. It begins when the scheduler chooses it. Returns its number, never 0. */
uint64_t sim_spawn(int owner, const char *name, void (*fn)(void *), void *arg);
void sim_name(uint64_t number, const char *name);
int sim_owner(void);
/* The number of the task that calls, and its name. */
uint64_t sim_self(void);
const char *sim_self_name(void);
/* Is a task of that number still there? */
bool sim_is_there(uint64_t number);
/* Let the others have a chance. */
void sim_point(void);
/* The caller was kept from going on since then, by a lock that another had. When it did what it did
 * just before, as far as it was not kept longer than some milliseconds: now, or before that. */
void sim_kept(int64_t since);
int64_t sim_went_on(void);
void sim_sleep(int64_t us);
/* Wait for sim_wake(what), until then. False: the time has come. */
bool sim_wait(const void *what, int64_t until_us);
void sim_wake(const void *what);

/* Faults of a process: every task of this owner is gone at once (the caller, too, if it is one of
 * them); none of it runs for a while; fn(owner) is called at its n-th point from now, by the task
 * that has come there. */
void sim_kill(int owner);
void sim_freeze(int owner, int64_t us);
void sim_trap(int owner, uint64_t points, void (*fn)(int owner));

/* The clocks of a replica: monotonic time since its start and the time of day. ppm: how much too
 * fast it is. */
void sim_clock(int owner, int64_t ppm, int64_t wall_off_us);
int64_t sim_mono(int owner);
/* The true time at which its monotonic clock will show that. */
int64_t sim_true(int owner, int64_t mono_us);
int64_t sim_wall(int owner);
/* The times of day of all replicas are that much later. */
void sim_wall_shift(int64_t us);

/* One line of the trace, and always a part of the hash: n is what tells this event from others. */
void sim_trace(uint64_t n, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool sim_tracing(void);
/* A law is broken: the run ends here. */
_Noreturn void sim_fail(const char *law, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* What a run tells the process that began it. */
struct sim_result {
	uint64_t seed, hash, steps, switches, events, pods, yes, no, calls, kills;
	uint64_t said, n_said; /* a digest of what was said outside, and how much that was */
	int64_t virtual_us;
	uint64_t faults; /* that it had, as a set of bits */
	int failed;      /* 0: the run went well */
	char law[32], why[900];
};
extern struct sim_result *sim_result;

/* ---- the state of a run, for telling two of them apart (sim_small.c) ---- */

/* What the calling task has received from others: a value, an answer, a lock that somebody held
 * before. Heaps have no form of their own by which two could be compared; two tasks that began
 * alike and received the same are in the same state. */
void sim_chain(uint64_t n);
uint64_t sim_chain_now(void);
/* Of all tasks, in the order in which they would go on, of the time, and of what those that have
 * ended left under locks. */
uint64_t sim_state(void);
/* Of all locks: who held each last. */
uint64_t sim_locks(void);
/* The chain of the i-th task that is ready. */
uint64_t sim_state_ready(unsigned i);

/* The run is over: note how it went. */
void sim_done(void);

/* What is left out of a seed's run: faults, as a set of bits; pods behind the first so many, 0:
 * none. salt: after what was drawn at the beginning chance goes another way; 0: it goes on. */
struct sim_cut {
	uint64_t without, pods, salt;
};
extern struct sim_cut sim_cut;
void sim_salt(uint64_t salt);

/* ---- sim_wrap.c ---- */

/* Whoever naps is kept from going on. */
extern bool sim_naps;

/* ---- sim_steady.c ---- */

/* Who goes on is not left to chance: each goes on until it waits, and those who are ready go in
 * their order. What replicas say outside then follows from the seed and from what they decide,
 * however many locks they take. */
extern bool sim_steady;
/* Something is said outside. Nothing happens in a run that is not steady. */
void sim_said(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Seeds whose runs are over, in their order, against a file that was written by the same; anew: it
 * is written. Returns how many are others. */
size_t steady_compare(const struct sim_result *runs, size_t n, const char *file, bool anew);

/* ---- sim.c ---- */

/* One seed in a process of its own. */
struct sim_result sim_once(uint64_t seed, const struct sim_cut *cut, bool trace);

/* ---- sim_shrink.c ---- */

/* Look for a smaller run that breaks the same law, and say how to see it. failed: what is known of
 * it. */
void sim_shrink(const struct sim_result *failed, const struct sim_cut *cut);
/* "kill,trap": the set of bits, or false. */
bool sim_cut_read(const char *names, uint64_t *ret);

/* ---- sim_small.c ---- */

/* Instead of a seed: every way that a small world can go, within bounds. Nothing is left to chance
 * in it. */
extern bool sim_small;
int small_main(int argc, char **argv);
/* Which of n ways is gone from here; 0 is the usual one, any other costs one of the bound of its
 * kind. */
enum choice { SWITCH, FAULT };
unsigned small_choose(enum choice kind, unsigned n);
/* A law is broken: say by which choices. */
void small_failed(const char *law, const char *why);

/* ---- sim_faithful.c ---- */

/* Instead of a seed: the model API server answers the requests of the standard input, and a replica
 * with these settings reviews. */
int faithful_main(int argc, char **argv);

/* ---- sim_run.c ---- */

/* The whole of one seed; returns when it is over. */
void sim_run(uint64_t seed, bool trace);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* sim: tasks as coroutines of one thread, virtual time, and a seeded scheduler that chooses who
 * goes on. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "test/sim/sim.h"

#define TASKS_MAX 600
#define STACK_BYTES (512u * 1024)
#define GUARD_BYTES 4096u
/* A run that takes more is going round in circles. */
#define STEPS_MAX 30000000u
/* What one step takes at most, of virtual time. */
#define STEP_US 20
/* What takes longer was kept from going on. */
#define PROMPT_US 10000
#define WALL_START (INT64_C(1800000000) * SECOND)

enum state { FREE, READY, WAITS };

struct task {
	jmp_buf at;
	ucontext_t first;
	bool fresh; /* it has not run on its stack yet */
	char *stack;
	uint64_t number;
	int owner, error;
	enum state state;
	const void *what;
	int64_t until;
	bool timed_out;
	uint64_t chain;
	int64_t kept_from, kept_until; /* sim_kept() */
	void (*fn)(void *);
	void *arg;
	char name[16];
};

struct process {
	int64_t frozen_until, ppm, wall_off;
	uint64_t trap_in;
	void (*trap)(int owner);
};

static struct {
	uint64_t random[2], preempt, numbers, hash;
	int64_t now, next_wake, wall_shift;
	struct task tasks[TASKS_MAX];
	size_t n_tasks, n_ready;
	struct task *ready[TASKS_MAX], *self;
	struct process process[REPLICAS_MAX + 1];
	bool trace, running;
} s;

static struct sim_result own_result;
struct sim_result *sim_result = &own_result;
struct sim_cut sim_cut;

/* ---- chance ---- */

/* xorshift128+ */
uint64_t sim_random(void)
{
	uint64_t a = s.random[0], b = s.random[1];

	if (sim_small)
		return sim_chain_now();
	s.random[0] = b;
	a ^= a << 23;
	s.random[1] = a ^ b ^ (a >> 18) ^ (b >> 5);
	return s.random[1] + b;
}

uint64_t sim_below(uint64_t n)
{
	return n && !sim_small ? (sim_random() >> 11) % n : 0;
}

bool sim_chance(unsigned per_million)
{
	return per_million > 0 && !sim_small && sim_below(1000000) < per_million;
}

static void mix(uint64_t n)
{
	s.hash = (s.hash ^ n) * UINT64_C(0x9E3779B97F4A7C15);
	s.hash ^= s.hash >> 29;
}

/* ---- states ---- */

static uint64_t mixed(uint64_t a, uint64_t b)
{
	a = (a ^ b) * UINT64_C(0x9E3779B97F4A7C15);
	return a ^ a >> 31;
}

void sim_chain(uint64_t n)
{
	if (s.self)
		s.self->chain = mixed(s.self->chain, n);
}

uint64_t sim_chain_now(void)
{
	return s.self ? s.self->chain : 0;
}

uint64_t sim_state_ready(unsigned i)
{
	return s.ready[i]->chain;
}

uint64_t sim_state(void)
{
	uint64_t state = mixed(mixed(s.self->chain, (uint64_t)s.now), sim_locks()), waits = 0;

	for (size_t i = 0; i < s.n_ready; i++)
		state = mixed(state, s.ready[i]->chain);
	/* In which place of the table a task is says nothing. */
	for (size_t i = 0; i < s.n_tasks; i++)
		if (s.tasks[i].state == WAITS)
			waits += mixed(s.tasks[i].chain, (uint64_t)s.tasks[i].until);
	return mixed(state, waits);
}

/* ---- time ---- */

int64_t sim_now(void)
{
	return s.now;
}

void sim_clock(int owner, int64_t ppm, int64_t wall_off_us)
{
	s.process[owner].ppm = ppm;
	s.process[owner].wall_off = wall_off_us;
}

/* Each begins at a time of its own, so that no two agree by accident. */
static int64_t mono_start(int owner)
{
	return (owner + 1) * 1000 * SECOND;
}

int64_t sim_mono(int owner)
{
	return mono_start(owner) + s.now + s.now * s.process[owner].ppm / 1000000;
}

int64_t sim_true(int owner, int64_t mono_us)
{
	int64_t want = mono_us - mono_start(owner), rate = 1000000 + s.process[owner].ppm;

	if (mono_us > INT64_MAX / 4)
		return FOREVER;
	return want <= 0 ? 0 : want * 1000000 / rate + 2;
}

int64_t sim_wall(int owner)
{
	return WALL_START + sim_mono(owner) + s.process[owner].wall_off + s.wall_shift;
}

void sim_wall_shift(int64_t us)
{
	s.wall_shift = us;
}

/* ---- tasks ---- */

static void make_ready(struct task *t)
{
	t->state = READY;
	t->what = NULL;
	s.ready[s.n_ready++] = t;
}

static void wake_due(void)
{
	int64_t next = FOREVER;

	for (size_t i = 0; i < s.n_tasks; i++) {
		struct task *t = &s.tasks[i];

		if (t->state != WAITS)
			continue;
		if (t->until <= s.now) {
			t->timed_out = true;
			make_ready(t);
		} else if (t->until < next) {
			next = t->until;
		}
	}
	s.next_wake = next;
}

/* In a small world, and in a steady one, who is left keeps his place in the queue. */
static struct task *take_ready(size_t i)
{
	struct task *t = s.ready[i];

	s.n_ready--;
	if (sim_small || sim_steady)
		memmove(&s.ready[i], &s.ready[i + 1], (s.n_ready - i) * sizeof(s.ready[0]));
	else
		s.ready[i] = s.ready[s.n_ready];
	return t;
}

static struct task *choose(void)
{
	for (;;) {
		struct task *t;
		size_t i;

		if (s.n_ready == 0) {
			if (s.next_wake == FOREVER)
				wake_due();
			if (s.n_ready == 0 && s.next_wake == FOREVER)
				sim_fail("liveness", "every task waits, and for nothing");
			if (s.n_ready == 0 && s.now < s.next_wake)
				s.now = s.next_wake;
		}
		if (s.now >= s.next_wake)
			wake_due();
		if (s.n_ready == 0)
			continue;
		i = sim_small    ? small_choose(SWITCH, (unsigned)s.n_ready)
		    : sim_steady ? 0
				 : sim_below(s.n_ready);
		t = take_ready(i);
		if (s.process[t->owner].frozen_until <= s.now)
			return t;
		/* Its process stands still: it comes back where it was. */
		t->state = WAITS;
		t->what = NULL;
		t->until = s.process[t->owner].frozen_until;
		if (t->until < s.next_wake)
			s.next_wake = t->until;
	}
}

static void change_to(struct task *t)
{
	struct task *was = s.self;

	was->error = errno;
	sim_result->switches++;
	mix(t->number ^ (uint64_t)s.now << 20);
	if (t != was && _setjmp(was->at) == 0) {
		s.self = t;
		if (t->fresh) {
			t->fresh = false;
			(void)setcontext(&t->first);
		}
		_longjmp(t->at, 1);
	}
	errno = s.self->error;
}

/* The caller has said what it waits for, or that it is ready, or over. */
static void give_way(void)
{
	int error = errno;
	struct task *t = choose();

	errno = error;
	change_to(t);
}

/* The caller goes behind those who are ready, but for this one. */
static void go_on_with(unsigned i)
{
	struct task *t = take_ready(i);

	make_ready(s.self);
	change_to(t);
}

/* A task that is over leaves its stack to the next one. */
static void task_main(void)
{
	for (;;) {
		s.self->fn(s.self->arg);
		s.self->state = FREE;
		sim_wake((const void *)(uintptr_t)s.self->number);
		give_way();
	}
}

static void new_stack(struct task *t)
{
	if (!t->stack) {
		t->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
		if (t->stack == MAP_FAILED || mprotect(t->stack, GUARD_BYTES, PROT_NONE) != 0)
			sim_fail("simulator", "no memory for a stack");
	}
	(void)getcontext(&t->first);
	t->first.uc_stack.ss_sp = t->stack;
	t->first.uc_stack.ss_size = STACK_BYTES;
	t->first.uc_link = NULL;
	makecontext(&t->first, task_main, 0);
	t->fresh = true;
}

uint64_t sim_spawn(int owner, const char *name, void (*fn)(void *), void *arg)
{
	struct task *t = NULL;

	for (size_t i = 1; i < s.n_tasks && !t; i++)
		if (s.tasks[i].state == FREE && &s.tasks[i] != s.self)
			t = &s.tasks[i];
	if (!t) {
		if (s.n_tasks == TASKS_MAX)
			sim_fail("simulator", "more than %d tasks", TASKS_MAX);
		t = &s.tasks[s.n_tasks++];
		new_stack(t);
	}
	t->number = ++s.numbers;
	sim_chain((uint64_t)*name);
	t->chain = mixed(s.self->chain, (uint64_t)owner);
	t->owner = owner;
	t->fn = fn;
	t->arg = arg;
	t->timed_out = false;
	t->kept_from = t->kept_until = 0;
	t->error = 0;
	(void)snprintf(t->name, sizeof(t->name), "%s", name);
	make_ready(t);
	return t->number;
}

void sim_name(uint64_t number, const char *name)
{
	for (size_t i = 0; i < s.n_tasks; i++)
		if (s.tasks[i].number == number)
			(void)snprintf(s.tasks[i].name, sizeof(s.tasks[i].name), "%s", name);
}

int sim_owner(void)
{
	return s.self ? s.self->owner : WORLD;
}

uint64_t sim_self(void)
{
	return s.self->number;
}

const char *sim_self_name(void)
{
	return s.self->name;
}

bool sim_is_there(uint64_t number)
{
	for (size_t i = 0; i < s.n_tasks; i++)
		if (s.tasks[i].state != FREE && s.tasks[i].number == number)
			return true;
	return false;
}

static void count_step(void)
{
	struct process *p = &s.process[s.self->owner];

	sim_chain(1);
	if (++sim_result->steps > STEPS_MAX)
		sim_fail("liveness", "no end after %u steps", STEPS_MAX);
	if (p->trap_in > 0 && --p->trap_in == 0)
		p->trap(s.self->owner);
}

static void point(void)
{
	count_step();
	if (sim_small) {
		unsigned i = s.n_ready ? small_choose(SWITCH, (unsigned)s.n_ready + 1) : 0;

		if (i == 0)
			return;
		go_on_with(i - 1);
		return;
	}
	if (sim_steady || sim_below(s.preempt) != 0)
		return;
	s.now += (int64_t)sim_below(STEP_US);
	/* Now and then a thread gets no processor for long. */
	if (sim_below(400) == 0) {
		sim_sleep((int64_t)sim_below(1u << sim_below(22)));
		return;
	}
	make_ready(s.self);
	give_way();
}

void sim_point(void)
{
	int64_t since = s.now;

	if (!s.running)
		return;
	point();
	sim_kept(since);
}

void sim_kept(int64_t since)
{
	struct task *t = s.self;

	if (s.now - since < PROMPT_US)
		return;
	if (since - t->kept_until >= PROMPT_US)
		t->kept_from = since;
	t->kept_until = s.now;
}

int64_t sim_went_on(void)
{
	return s.now - s.self->kept_until < PROMPT_US ? s.self->kept_from : s.now;
}

bool sim_wait(const void *what, int64_t until_us)
{
	if (!s.running)
		sim_fail("simulator", "something waits before the simulation runs");
	count_step();
	sim_chain((uint64_t)until_us);
	s.self->state = WAITS;
	s.self->what = what;
	s.self->until = until_us;
	s.self->timed_out = false;
	if (until_us < s.next_wake)
		s.next_wake = until_us;
	give_way();
	sim_chain(s.self->timed_out);
	return !s.self->timed_out;
}

void sim_sleep(int64_t us)
{
	(void)sim_wait(NULL, s.now + (us > 0 ? us : 0));
}

void sim_wake(const void *what)
{
	for (size_t i = 0; what && i < s.n_tasks; i++)
		if (s.tasks[i].state == WAITS && s.tasks[i].what == what)
			make_ready(&s.tasks[i]);
}

/* ---- faults of a process ---- */

void sim_kill(int owner)
{
	size_t n = 0;

	sim_result->kills++;
	s.process[owner].trap_in = 0;
	s.process[owner].frozen_until = 0;
	for (size_t i = 0; i < s.n_ready; i++)
		if (s.ready[i]->owner != owner)
			s.ready[n++] = s.ready[i];
	s.n_ready = n;
	for (size_t i = 1; i < s.n_tasks; i++) {
		struct task *t = &s.tasks[i];

		if (t->owner != owner || t->state == FREE)
			continue;
		if (t != s.self) {
			t->state = FREE;
			t->owner = WORLD;
			new_stack(t);
		}
	}
	if (s.self->owner == owner) {
		/* Our own stack begins anew at its top, far above where we are, and we never come
		 * back. */
		s.self->state = FREE;
		s.self->owner = WORLD;
		new_stack(s.self);
		s.self = choose();
		if (s.self->fresh) {
			s.self->fresh = false;
			(void)setcontext(&s.self->first);
		}
		_longjmp(s.self->at, 1);
	}
}

void sim_freeze(int owner, int64_t us)
{
	s.process[owner].frozen_until = s.now + us;
}

void sim_trap(int owner, uint64_t points, void (*fn)(int owner))
{
	s.process[owner].trap_in = points;
	s.process[owner].trap = fn;
}

/* ---- begin and end ---- */

void sim_salt(uint64_t salt)
{
	s.random[0] ^= salt * UINT64_C(0x9E3779B97F4A7C15);
}

void sim_preempt(uint64_t once_in)
{
	s.preempt = once_in;
}

void sim_begin(uint64_t seed, bool trace)
{
	s.random[0] = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
	s.random[1] = seed ^ UINT64_C(0xD1B54A32D192ED03);
	for (int i = 0; i < 16; i++)
		(void)sim_random();
	s.preempt = 4;
	s.next_wake = FOREVER;
	s.trace = trace;
	/* The caller is the first task, on the process' own stack. */
	s.n_tasks = 1;
	s.self = &s.tasks[0];
	s.self->number = ++s.numbers;
	s.self->state = READY;
	(void)snprintf(s.self->name, sizeof(s.self->name), "run");
	s.running = true;
}

bool sim_tracing(void)
{
	return s.trace;
}

static void print_head(void)
{
	(void)printf("%11.6f %s%d %-14s ", (double)s.now / 1e6, s.self->owner ? "r" : "w",
		s.self->owner, s.self->name);
}

void sim_trace(uint64_t n, const char *fmt, ...)
{
	va_list args;

	sim_result->events++;
	mix(n);
	if (!s.trace)
		return;
	print_head();
	va_start(args, fmt);
	(void)vprintf(fmt, args);
	va_end(args);
	(void)putchar('\n');
}

void sim_done(void)
{
	sim_result->hash = s.hash;
	sim_result->virtual_us = s.now;
}

void sim_fail(const char *law, const char *fmt, ...)
{
	va_list args;

	sim_done();
	sim_result->failed = 1;
	(void)snprintf(sim_result->law, sizeof(sim_result->law), "%s", law);
	va_start(args, fmt);
	(void)vsnprintf(sim_result->why, sizeof(sim_result->why), fmt, args);
	va_end(args);
	if (s.trace) {
		print_head();
		(void)printf("BROKEN: %s: %s\n", law, sim_result->why);
		(void)fflush(stdout);
	}
	if (sim_small)
		small_failed(sim_result->law, sim_result->why);
	_exit(1);
}

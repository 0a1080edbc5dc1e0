/* SPDX-License-Identifier: Apache-2.0 */
/* sim: seeds, each in a process of its own, and what became of them.
 *   sim [--first N] [--seeds N] [--seconds N] [--jobs N]    runs; ends at the first that fails
 *       --go-on           at the end of all
 *       --shrink          looks for a smaller run that breaks the law of the first
 *       --only 11:9-10    seeds that leave 9 or 10 when divided by 11
 *   sim --trace N [--without kill,trap] [--pods N] [--salt N]
 *                                       one seed, or less of it, with every event
 *   sim --steady FILE [--seeds N]       runs that leave nothing to the scheduler say what they said
 *                                       when FILE was written; --anew: writes it. With --steadily
 *                                       --without trap --trace N shows what is said
 *   sim --small ...                     every way that a small world can go (sim_small.c)
 *   sim --faithful [--pool FILE ...]    the model API server alone (sim_faithful.c)
 *   sim --twice N                       this many seeds twice: the hashes must be the same */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/sim/sim_world.h"

#define JOBS_MAX 64
/* A run that hangs where no scheduler sees it. */
#define RUN_S 120

struct total {
	uint64_t seeds, steps, switches, events, pods, yes, no, calls, kills;
	double virtual_s;
};

/* The seeds that leave such a rest: others need not be run. */
static struct {
	unsigned long long of, from, to;
} only = {1, 0, 0};

static struct sim_result *results;
static pid_t running[JOBS_MAX];

int __real_clock_gettime(clockid_t id, struct timespec *ret);

static double now_s(void)
{
	struct timespec t;

	(void)__real_clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static pid_t begin(int slot, uint64_t seed, const struct sim_cut *cut, bool trace)
{
	pid_t pid;

	(void)fflush(stdout);
	results[slot] = (struct sim_result){.seed = seed, .failed = -1};
	pid = fork();
	if (pid == 0) {
		sim_result = &results[slot];
		sim_cut = *cut;
		(void)alarm(RUN_S);
		if (trace)
			(void)setvbuf(stdout, NULL, _IOLBF, 0);
		sim_run(seed, trace);
		sim_result->failed = 0;
		(void)fflush(stdout);
		_exit(0);
	}
	return pid;
}

/* What a process that ended otherwise than by itself has to say. */
static void judge(struct sim_result *r, int status)
{
	if (r->failed == 0 || r->failed == 1)
		return;
	r->failed = 1;
	(void)snprintf(r->law, sizeof(r->law), "crash");
	(void)snprintf(r->why, sizeof(r->why),
		WIFSIGNALED(status) ? "the process was ended by signal %d"
				    : "the process ended with %d",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static int wait_one(void)
{
	int status;
	pid_t pid = wait(&status);

	for (int i = 0; i < JOBS_MAX; i++)
		if (running[i] == pid && pid > 0) {
			running[i] = 0;
			judge(&results[i], status);
			return i;
		}
	return -1;
}

static void add(struct total *t, const struct sim_result *r)
{
	t->seeds++;
	t->steps += r->steps;
	t->switches += r->switches;
	t->events += r->events;
	t->pods += r->pods;
	t->yes += r->yes;
	t->no += r->no;
	t->calls += r->calls;
	t->kills += r->kills;
	t->virtual_s += (double)r->virtual_us / 1e6;
}

static void tell_failure(const struct sim_result *r)
{
	(void)printf("FAILED seed %llu: %s: %s\n  again, with its trace: make sim SEED=%llu%s%s\n",
		(unsigned long long)r->seed, r->law, r->why, (unsigned long long)r->seed,
		slips_on ? " SLIPS=1" : "", lean_on ? " LEAN=1" : "");
}

static uint64_t next_from(uint64_t seed)
{
	while (seed % only.of < only.from || seed % only.of > only.to)
		seed++;
	return seed;
}

/* What the command line says. */
struct options {
	uint64_t first, seeds, trace, same, jobs;
	double seconds;
	bool go_on, shrink, anew;
	const char *steady;
	struct sim_cut cut;
};

/* The seeds that are asked for. each: may be NULL; how each of them went. */
static int many(const struct options *o, struct sim_result *each)
{
	struct sim_result failure = {0};
	double start = now_s(), took;
	uint64_t next = next_from(o->first);
	struct total t = {0};
	int busy = 0, failed = 0, slot;

	for (;;) {
		bool more = next - o->first < o->seeds && (failed == 0 || o->go_on) &&
			    (o->seconds <= 0 || now_s() - start < o->seconds);

		if (more && busy < (int)o->jobs) {
			for (slot = 0; running[slot]; slot++)
				;
			running[slot] = begin(slot, next, &o->cut, false);
			next = next_from(next + 1);
			busy++;
			continue;
		}
		if (busy == 0)
			break;
		slot = wait_one();
		if (slot < 0)
			continue;
		busy--;
		add(&t, &results[slot]);
		if (each)
			each[results[slot].seed - o->first] = results[slot];
		if (results[slot].failed) {
			if (failed++ == 0)
				failure = results[slot];
			tell_failure(&results[slot]);
		}
	}
	took = now_s() - start;
	(void)printf("%llu seeds from %llu, %d failed; %.1f s, %.0f s virtual; %.0f steps a second "
		     "and job\n",
		(unsigned long long)t.seeds, (unsigned long long)o->first, failed, took,
		t.virtual_s, (double)t.steps / took / (double)o->jobs);
	(void)printf("%llu steps, %llu switches, %llu events, %llu pods, %llu yes, %llu no, %llu "
		     "calls, %llu kills\n",
		(unsigned long long)t.steps, (unsigned long long)t.switches,
		(unsigned long long)t.events, (unsigned long long)t.pods, (unsigned long long)t.yes,
		(unsigned long long)t.no, (unsigned long long)t.calls, (unsigned long long)t.kills);
	if (failed && o->shrink)
		sim_shrink(&failure, &o->cut);
	return failed ? 1 : 0;
}

struct sim_result sim_once(uint64_t seed, const struct sim_cut *cut, bool trace)
{
	running[0] = begin(0, seed, cut, trace);
	while (wait_one() < 0)
		;
	return results[0];
}

static int traced(uint64_t seed, const struct sim_cut *cut)
{
	struct sim_result r = sim_once(seed, cut, true);

	if (r.failed)
		tell_failure(&r);
	(void)printf("seed %llu: %s, hash %016llx, %llu steps, %llu events\n",
		(unsigned long long)seed, r.failed ? "failed" : "passed",
		(unsigned long long)r.hash, (unsigned long long)r.steps,
		(unsigned long long)r.events);
	return r.failed;
}

static int twice(uint64_t first, uint64_t n)
{
	for (uint64_t seed = first; seed < first + n; seed++) {
		struct sim_cut whole = {0};
		uint64_t a = sim_once(seed, &whole, false).hash,
			 b = sim_once(seed, &whole, false).hash;

		if (a != b) {
			(void)printf(
				"FAILED seed %llu: two runs have the hashes %016llx and %016llx\n",
				(unsigned long long)seed, (unsigned long long)a,
				(unsigned long long)b);
			return 1;
		}
	}
	(void)printf("%llu seeds twice: the same hashes\n", (unsigned long long)n);
	return 0;
}

/* Runs in which nothing is left to the scheduler, against what they said before. */
static int steady(struct options o)
{
	struct sim_result *each = calloc(o.seeds, sizeof(*each));
	size_t others;

	sim_steady = true;
	o.first = 1;
	o.go_on = true;
	/* It comes at a number of locks. */
	if (!each || !sim_cut_read("trap", &o.cut.without) || many(&o, each) != 0)
		return 1;
	others = steady_compare(each, o.seeds, o.steady, o.anew);
	free(each);
	if (others > 0)
		(void)printf(
			"%zu of %llu runs say something else than when %s was written: "
			"docs/testing.md#kept-answers says how to see what, and how to keep it\n",
			others, (unsigned long long)o.seeds, o.steady);
	return others > 0;
}

static bool read_flag(struct options *o, const char *name)
{
	const struct {
		const char *name;
		bool *flag;
	} flags[] = {{"--go-on", &o->go_on}, {"--shrink", &o->shrink}, {"--slips", &slips_on},
		{"--lean", &lean_on}, {"--anew", &o->anew}, {"--steadily", &sim_steady}};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (strcmp(name, flags[i].name) == 0)
			return *flags[i].flag = true;
	return false;
}

static bool read_option(struct options *o, const char *name, const char *value)
{
	const struct {
		const char *name;
		uint64_t *number;
	} numbers[] = {{"--first", &o->first}, {"--seeds", &o->seeds}, {"--trace", &o->trace},
		{"--twice", &o->same}, {"--jobs", &o->jobs}, {"--pods", &o->cut.pods},
		{"--salt", &o->cut.salt}};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (strcmp(name, numbers[i].name) == 0) {
			*numbers[i].number = strtoull(value, NULL, 10);
			return true;
		}
	if (strcmp(name, "--seconds") == 0)
		o->seconds = strtod(value, NULL);
	else if (strcmp(name, "--steady") == 0)
		o->steady = value;
	else if (strcmp(name, "--without") == 0)
		return sim_cut_read(value, &o->cut.without);
	else
		return strcmp(name, "--only") == 0 &&
		       sscanf(value, "%llu:%llu-%llu", &only.of, &only.from, &only.to) == 3 &&
		       only.from <= only.to && only.to < only.of;
	return true;
}

int main(int argc, char **argv)
{
	struct options o = {.first = 1, .seeds = UINT64_MAX, .jobs = 1};
	const char *mode = argc > 1 ? argv[1] : "";
	bool small = strcmp(mode, "--small") == 0, faithful = strcmp(mode, "--faithful") == 0;

	for (int i = 1; i < argc && !small && !faithful; i++) {
		if (read_flag(&o, argv[i]))
			continue;
		if (i + 1 == argc || !read_option(&o, argv[i], argv[i + 1]))
			return fprintf(stderr,
				       "sim: %s: expected --first, --seeds, --seconds, --jobs, "
				       "--trace, --twice, --go-on, --shrink, --slips, --lean, "
				       "--pods, --salt, --steady FILE, --anew, --steadily, --only "
				       "11:9-10, or --without and names of faults\n",
				       argv[i]),
			       2;
		i++;
	}
	o.jobs = o.jobs >= 1 && o.jobs <= JOBS_MAX ? o.jobs : 1;
	results = mmap(NULL, JOBS_MAX * sizeof(*results), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (results == MAP_FAILED)
		return 2;
	replicas_prepare();
	if (faithful)
		return faithful_main(argc - 2, argv + 2);
	if (small)
		return small_main(argc - 2, argv + 2);
	if (o.trace)
		return traced(o.trace, &o.cut);
	if (o.same)
		return twice(o.first, o.same);
	if (o.seeds == UINT64_MAX && o.seconds <= 0)
		o.seeds = 100;
	if (o.steady)
		return steady(o);
	return many(&o, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* sim: seeds, each in a process of its own, and what became of them.
 *   sim [--first N] [--seeds N] [--seconds N] [--jobs N]    runs; ends at the first that fails
 *       --go-on           at the end of all
 *       --shrink          looks for a smaller run that breaks the law of the first
 *       --only 11:9-10    seeds that leave 9 or 10 when divided by 11
 *   sim --trace N [--without kill,trap] [--pods N] [--salt N]
 *                                       one seed, or less of it, with every event
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

/* shrink: of the first that fails a smaller run is sought. */
static int many(uint64_t first, uint64_t n, double seconds, int jobs, bool go_on, bool shrink)
{
	static const struct sim_cut whole;
	struct sim_result failure = {0};
	double start = now_s(), took;
	uint64_t next = next_from(first);
	struct total t = {0};
	int busy = 0, failed = 0, slot;

	for (;;) {
		bool more = next - first < n && (failed == 0 || go_on) &&
			    (seconds <= 0 || now_s() - start < seconds);

		if (more && busy < jobs) {
			for (slot = 0; running[slot]; slot++)
				;
			running[slot] = begin(slot, next, &whole, false);
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
		if (results[slot].failed) {
			if (failed++ == 0)
				failure = results[slot];
			tell_failure(&results[slot]);
		}
	}
	took = now_s() - start;
	(void)printf("%llu seeds from %llu, %d failed; %.1f s, %.0f s virtual; %.0f steps a second "
		     "and job\n",
		(unsigned long long)t.seeds, (unsigned long long)first, failed, took, t.virtual_s,
		(double)t.steps / took / jobs);
	(void)printf("%llu steps, %llu switches, %llu events, %llu pods, %llu yes, %llu no, %llu "
		     "calls, %llu kills\n",
		(unsigned long long)t.steps, (unsigned long long)t.switches,
		(unsigned long long)t.events, (unsigned long long)t.pods, (unsigned long long)t.yes,
		(unsigned long long)t.no, (unsigned long long)t.calls, (unsigned long long)t.kills);
	if (failed && shrink)
		sim_shrink(&failure, &whole);
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

int main(int argc, char **argv)
{
	uint64_t first = 1, seeds = UINT64_MAX, trace = 0, same = 0;
	double seconds = 0;
	int jobs = 1;
	bool go_on = false, shrink = false, small = argc > 1 && strcmp(argv[1], "--small") == 0,
	     faithful = argc > 1 && strcmp(argv[1], "--faithful") == 0;
	struct sim_cut cut = {0};

	for (int i = 1; i < argc && !small && !faithful; i++) {
		uint64_t n = i + 1 < argc ? strtoull(argv[i + 1], NULL, 10) : 0;

		if (strcmp(argv[i], "--go-on") == 0) {
			go_on = true;
			continue;
		}
		if (strcmp(argv[i], "--shrink") == 0) {
			shrink = true;
			continue;
		}
		if (strcmp(argv[i], "--slips") == 0) {
			slips_on = true;
			continue;
		}
		if (strcmp(argv[i], "--lean") == 0) {
			lean_on = true;
			continue;
		}
		if (strcmp(argv[i], "--first") == 0)
			first = n;
		else if (strcmp(argv[i], "--seeds") == 0)
			seeds = n;
		else if (strcmp(argv[i], "--seconds") == 0)
			seconds = (double)n;
		else if (strcmp(argv[i], "--jobs") == 0)
			jobs = n >= 1 && n <= JOBS_MAX ? (int)n : 1;
		else if (strcmp(argv[i], "--trace") == 0)
			trace = n;
		else if (strcmp(argv[i], "--twice") == 0)
			same = n;
		else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc &&
			 sscanf(argv[i + 1], "%llu:%llu-%llu", &only.of, &only.from, &only.to) ==
				 3 &&
			 only.from <= only.to && only.to < only.of)
			;
		else if (strcmp(argv[i], "--pods") == 0)
			cut.pods = n;
		else if (strcmp(argv[i], "--salt") == 0)
			cut.salt = n;
		else if (strcmp(argv[i], "--without") == 0 && i + 1 < argc &&
			 sim_cut_read(argv[i + 1], &cut.without))
			;
		else
			return fprintf(stderr,
				       "sim: %s: expected --first, --seeds, --seconds, --jobs, "
				       "--trace, --twice, --go-on, --shrink, --slips, --lean, "
				       "--pods, --salt, --only "
				       "11:9-10, or --without and names of faults\n",
				       argv[i]),
			       2;
		i++;
	}
	results = mmap(NULL, JOBS_MAX * sizeof(*results), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (results == MAP_FAILED)
		return 2;
	replicas_prepare();
	if (faithful)
		return faithful_main(argc - 2, argv + 2);
	if (small)
		return small_main(argc - 2, argv + 2);
	if (trace)
		return traced(trace, &cut);
	if (same)
		return twice(first, same);
	if (seeds == UINT64_MAX && seconds <= 0)
		seeds = 100;
	return many(first, seeds, seconds, jobs, go_on, shrink);
}

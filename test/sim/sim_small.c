/* SPDX-License-Identifier: Apache-2.0 */
/* sim: every way that a small world can go: two replicas, two servers, three pods. The usual way is
 * that whoever is ready first goes on until he waits, and that every call is carried out and
 * answered. Each point at which another task could go on, and each call, is a choice; all runs are
 * made that differ from the usual way in at most so many of them (delay bounding: Emmi, Qadeer,
 * Rakamaric, POPL 2011).
 *
 * A choice is a fork: the child goes the other way, its parent goes on. A state that was there
 * already, with as much left of the bounds, is not gone on from again. Two states are one when the
 * same was written to the store in the same order, the laws remember the same, and all tasks have
 * received the same and are in the same order (sim_chain), and what those that have ended left
 * under locks. What tasks hand each other by atomics alone is not seen by that: the number of a
 * take, and flags that say that something is to end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/sim/sim_world.h"

#define TABLE_BITS 26
/* Of the states on a way on which nothing is chosen any more. */
#define TOLD_ONE_IN 16
#define PODS_MAX 3
#define STEPS_OFF_MAX 8
#define TIMEOUT_US (5 * SECOND)
/* By then one leads, and both have read the pool. */
#define BEGIN_US (25 * SECOND)

enum fate {
	LIVES,
	LOST,
	LEAVES
}; /* after yes: it is stored; its create fails; it was there before, and is deleted now */

/* What happens at one moment. twin: who reviews the same uid beside it, 0: nobody. */
struct plan {
	const char *name;
	unsigned gpus[2];
	struct {
		const char *name;
		int shape, replica, twin;
		enum fate fate;
	} pods[PODS_MAX];
};

/* Numbers of shapes[]: 1 half, 2 most, 3 one, 4 two, 5 pair. */
static const struct plan plans[] = {
	{"three pods, room for two", {1, 1},
		{{"a", 2, 1, 0, LIVES}, {"b", 2, 2, 0, LIVES}, {"c", 2, 1, 0, LIVES}}},
	{"one uid in both replicas", {1, 1},
		{{"a", 2, 1, 2, LIVES}, {"b", 2, 2, 0, LIVES}, {"c", 3, 1, 0, LOST}}},
	{"two over both servers", {1, 1},
		{{"a", 4, 1, 0, LIVES}, {"b", 4, 2, 0, LIVES}, {"c", 1, 1, 0, LIVES}}},
	{"one uid over both servers, in both replicas", {1, 1},
		{{"a", 4, 1, 2, LIVES}, {"b", 2, 2, 0, LOST}, {"c", 5, 2, 0, LIVES}}},
	{"a name that is given again", {1, 1},
		{{"a", 3, 1, 0, LEAVES}, {"a", 3, 2, 0, LIVES}, {"c", 3, 1, 0, LIVES}}},
};

static struct shared {
	uint64_t states, ends, met;
	unsigned busy;
	int failed;
	bool full;
	char law[32], why[900], path[200];
	uint64_t table[UINT64_C(1) << TABLE_BITS];
} * shared;

bool sim_small;
static const struct plan *plan;
static bool open_now, beside; /* choices are made; this process was not waited for */
static unsigned left[2], jobs, children, points;
static struct {
	unsigned point, way;
} path[STEPS_OFF_MAX], follow[STEPS_OFF_MAX];
static unsigned n_path, n_follow;

/* ---- states ---- */

static uint64_t mixed(uint64_t a, uint64_t b)
{
	a = (a ^ b) * UINT64_C(0x9E3779B97F4A7C15);
	return a ^ a >> 29;
}

/* False: it was there before. */
static bool is_new(uint64_t key)
{
	uint64_t i = key >> (64 - TABLE_BITS), there;

	key += key == 0;
	for (;; i = (i + 1) & ((UINT64_C(1) << TABLE_BITS) - 1)) {
		there = 0;
		if (__atomic_compare_exchange_n(&shared->table[i], &there, key, false,
			    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			break;
		if (there == key) {
			__atomic_fetch_add(&shared->met, 1, __ATOMIC_RELAXED);
			return false;
		}
	}
	if (__atomic_add_fetch(&shared->states, 1, __ATOMIC_RELAXED) > UINT64_C(3)
									       << (TABLE_BITS - 2))
		shared->full = true;
	return true;
}

static uint64_t state_now(enum choice kind)
{
	uint64_t state = mixed(mixed(sim_state(), store.chain), laws_state());

	return mixed(state, (uint64_t)kind << 32 | left[SWITCH] << 8 | left[FAULT]);
}

/* ---- ways ---- */

static void say_path(char *to, size_t size)
{
	size_t n = 0;

	*to = '\0';
	for (unsigned i = 0; i < n_path && n < size; i++)
		n += (size_t)snprintf(
			to + n, size - n, "%s%u:%u", i ? "," : "", path[i].point, path[i].way);
}

void small_failed(const char *law, const char *why)
{
	int none = 0;

	if (!__atomic_compare_exchange_n(
		    &shared->failed, &none, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return;
	(void)snprintf(shared->law, sizeof(shared->law), "%s", law);
	(void)snprintf(shared->why, sizeof(shared->why), "%s", why);
	say_path(shared->path, sizeof(shared->path));
}

static void see_off(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		small_failed("crash", strsignal(WTERMSIG(status)));
}

_Noreturn static void end_here(void)
{
	for (; children > 0; children--)
		see_off(-1);
	if (beside)
		__atomic_sub_fetch(&shared->busy, 1, __ATOMIC_SEQ_CST);
	_exit(0);
}

/* True in the child, which goes the other way. */
static bool branch(void)
{
	bool is_beside = __atomic_add_fetch(&shared->busy, 1, __ATOMIC_SEQ_CST) < jobs;
	pid_t pid;

	if (!is_beside)
		__atomic_sub_fetch(&shared->busy, 1, __ATOMIC_SEQ_CST);
	pid = fork();
	if (pid < 0)
		sim_fail("simulator", "fork: %s", strerror(errno));
	if (pid == 0) {
		beside = is_beside;
		children = 0;
		return true;
	}
	if (is_beside)
		children++;
	else
		see_off(pid);
	return false;
}

unsigned small_choose(enum choice kind, unsigned n)
{
	uint64_t here;

	if (!open_now)
		return 0;
	points++;
	if (n_follow > 0) {
		for (unsigned i = 0; i < n_follow; i++)
			if (follow[i].point == points) {
				sim_trace(30, "another way: %u of %u", follow[i].way, n);
				return follow[i].way;
			}
		return 0;
	}
	if (shared->failed || shared->full)
		end_here();
	here = state_now(kind);
	/* There whoever meets an earlier way stays on it, so that one of the next states tells it
	 * as well. */
	if (left[SWITCH] + left[FAULT] == 0 && here % TOLD_ONE_IN != 0)
		return 0;
	if (!is_new(here))
		end_here();
	for (unsigned other = 1; other < n && left[kind] > 0; other++) {
		if (!is_new(mixed(here, other)) || !branch())
			continue;
		left[kind]--;
		path[n_path].point = points;
		path[n_path++].way = other;
		return other;
	}
	return 0;
}

/* ---- the small world ---- */

static struct attempt *pods[PODS_MAX];
static unsigned answered;

static void give_up(struct attempt *a)
{
	a->dropped_at = sim_now();
	laws_dead(a);
}

static void after_yes(struct attempt *a, enum fate fate)
{
	cJSON *doc;

	if (fate == LOST || store_find(PODS, a->namespace, a->name)) {
		give_up(a);
		return;
	}
	doc = cJSON_Parse(a->shape->pods[a->writer][a->config]);
	cJSON_AddStringToObject(cJSON_AddObjectToObject(doc, "status"), "phase", "Running");
	laws_stored(a);
	(void)store_add(PODS, "ml", a->name, a->uid, doc, "create");
}

static void leave(struct attempt *a)
{
	if (!pod_of(a))
		return;
	a->ended_at = sim_now();
	laws_dead(a);
	store_remove(pod_of(a), "user");
}

struct twin {
	struct attempt *a;
	int owner;
	bool done;
	enum verdict said;
};

static void ask_beside(void *arg)
{
	struct twin *t = arg;

	t->said = replica_review(t->owner, t->a, TIMEOUT_US);
	t->done = true;
	sim_wake(t);
}

static void create(void *arg)
{
	int i = (int)(intptr_t)arg;
	struct attempt *a = pods[i];
	static struct twin twins[PODS_MAX];
	struct twin *t = &twins[i];
	enum verdict said;

	if (plan->pods[i].twin) {
		*t = (struct twin){.a = a, .owner = plan->pods[i].twin};
		sim_spawn(WORLD, "twin", ask_beside, t);
	}
	said = replica_review(plan->pods[i].replica, a, TIMEOUT_US);
	while (plan->pods[i].twin && !t->done)
		(void)sim_wait(t, FOREVER);
	if (plan->pods[i].twin && t->said != VERDICT_NONE)
		said = t->said;
	sim_chain(store.chain ^ said);
	if (said == VERDICT_YES)
		after_yes(a, plan->pods[i].fate);
	else
		give_up(a);
	answered++;
	sim_wake(&answered);
}

static void delete (void *arg)
{
	sim_chain(store.chain);
	leave(arg);
	answered++;
	sim_wake(&answered);
}

static void make_world(void)
{
	char text[200], name[8];

	weather = (struct weather){.page = 500};
	replicas = 2;
	pending_share = 25;
	for (int i = 0; i < 2; i++) {
		(void)snprintf(name, sizeof(name), "gpu-%d", i);
		(void)snprintf(text, sizeof(text),
			"{\"spec\":{\"address\":\"10.0.0.%d:56001\",\"gpus\":[{\"model\":\"Tesla "
			"V100\",\"memory\":\"16G\",\"count\":%u}]}}",
			i, plan->gpus[i]);
		(void)store_add(SERVERS, "", name, NULL, cJSON_Parse(text), "admin");
	}
	for (int i = 1; i <= replicas; i++)
		replica_start(i);
	sim_sleep(BEGIN_US);
	for (int i = 0; i < PODS_MAX; i++) {
		pods[i] = laws_attempt(&shapes[plan->pods[i].shape], plan->pods[i].name);
		if (plan->pods[i].fate != LEAVES)
			continue;
		if (replica_review(plan->pods[i].replica, pods[i], TIMEOUT_US) != VERDICT_YES)
			sim_fail("simulator", "there is no room for the pod that is to leave");
		after_yes(pods[i], LIVES);
	}
	sim_sleep(SECOND);
}

static void run(void)
{
	sim_begin(1, n_follow > 0);
	make_world();
	open_now = true;
	for (int i = 0; i < PODS_MAX; i++)
		sim_spawn(WORLD, "create", plan->pods[i].fate == LEAVES ? delete : create,
			plan->pods[i].fate == LEAVES ? (void *)pods[i] : (void *)(intptr_t)i);
	while (answered < PODS_MAX)
		(void)sim_wait(&answered, FOREVER);
	open_now = false;
	/* What was sent late lands; whoever was killed is there again. */
	sim_sleep(25 * SECOND);
	for (int i = 0; i < PODS_MAX; i++)
		leave(pods[i]);
	run_calm();
	sim_done();
	__atomic_fetch_add(&shared->ends, 1, __ATOMIC_RELAXED);
}

/* ---- the command ---- */

static bool read_path(const char *text)
{
	while (*text && n_follow < STEPS_OFF_MAX) {
		int n = 0;

		if (sscanf(text, "%u:%u%n", &follow[n_follow].point, &follow[n_follow].way, &n) < 2)
			return false;
		n_follow++;
		text += n;
		text += *text == ',';
	}
	return *text == '\0';
}

/* Of all processes that have ended. */
static long cpu_seconds(void)
{
	struct rusage u;

	(void)getrusage(RUSAGE_CHILDREN, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec;
}

/* One plan, in a process of its own. False: a law is broken. A space that is larger than the table
 * breaks none: how much of it was seen is told. */
static bool explore(size_t i, unsigned switches, unsigned faults)
{
	long before = cpu_seconds();
	static struct sim_result own;
	bool well;
	pid_t pid;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (shared == MAP_FAILED)
		return perror("sim"), false;
	(void)fflush(stdout);
	pid = fork();
	if (pid == 0) {
		plan = &plans[i];
		left[SWITCH] = switches;
		left[FAULT] = faults;
		shared->busy = 1;
		beside = true;
		sim_result = &own;
		if (n_follow > 0)
			(void)setvbuf(stdout, NULL, _IOLBF, 0);
		run();
		(void)fflush(stdout);
		end_here();
	}
	see_off(pid);
	(void)printf("%zu %s: %llu states, %llu times one that was there already, %llu ends%s; "
		     "%ld s of one core\n",
		i + 1, plans[i].name, (unsigned long long)shared->states,
		(unsigned long long)shared->met, (unsigned long long)shared->ends,
		shared->failed ? ""
		: shared->full ? "; NOT ALL: there are more states than the table holds"
			       : "; all",
		cpu_seconds() - before);
	if (shared->failed)
		(void)printf("FAILED %s: %s: %s\n  again, with its trace: sim --small --plan %zu "
			     "--path %s\n",
			plans[i].name, shared->law, shared->why, i + 1, shared->path);
	well = !shared->failed;
	(void)munmap(shared, sizeof(*shared));
	return well;
}

int small_main(int argc, char **argv)
{
	unsigned switches = 2, faults = 1, only = 0;
	int failed = 0;

	jobs = 1;
	for (int i = 0; i + 1 < argc; i += 2) {
		unsigned n = (unsigned)strtoul(argv[i + 1], NULL, 10);

		if (strcmp(argv[i], "--plan") == 0)
			only = n;
		else if (strcmp(argv[i], "--switches") == 0)
			switches = n;
		else if (strcmp(argv[i], "--faults") == 0)
			faults = n;
		else if (strcmp(argv[i], "--jobs") == 0)
			jobs = n;
		else if (strcmp(argv[i], "--path") != 0 || !read_path(argv[i + 1]))
			return fprintf(stderr,
				       "sim: %s %s: expected --plan, --switches, --faults or "
				       "--jobs and a "
				       "number, or --path and POINT:WAY,...\n",
				       argv[i], argv[i + 1]),
			       2;
	}
	if (switches + faults > STEPS_OFF_MAX)
		return fprintf(stderr, "sim: at most %d choices in all\n", STEPS_OFF_MAX), 2;
	sim_small = true;
	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++)
		if ((only == 0 || only == i + 1) && !explore(i, switches, faults))
			failed = 1;
	return failed;
}

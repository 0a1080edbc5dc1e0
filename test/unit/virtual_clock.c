/* SPDX-License-Identifier: Apache-2.0 */
/* test: a clock that goes on only while nobody computes. A program that is linked with this file
 * asks it, instead of the C library, what time it is, and to nap, to poll and to wait for a
 * condition until a time; so do the libraries that it uses. Time stands still while any thread of
 * the program runs or could run, however busy the machine is; when all of them sleep it leaps to
 * the first time that one of them waits for. A minute of waiting takes a second, and a machine that
 * stalls lets no time pass.
 *
 * That all sleep is the kernel's word: each thread's state, and that none was switched between two
 * looks. What the kernel itself has still to do (bytes between two of the program's sockets) it
 * does within microseconds; a leap waits a hundredth of its length for it, at most LEAP_WAIT.
 *
 * For programs of one process: of others' work nothing is known here. It knows no usleep(),
 * select(), epoll_wait() or other waits with a time: a loop of such until a time has come never
 * ends. */
#define _GNU_SOURCE 1 /* RUSAGE_THREAD, ppoll */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define NEVER INT64_MAX
/* Between two looks, the longer the more of them saw somebody run. */
#define LOOK_FIRST (SECOND / 20000)
#define LOOK_LAST (SECOND / 1000)
/* Of a leap so much is waited in truth: a part of its length, and at most so long. */
#define LEAP_PART 100
#define LEAP_WAIT (SECOND / 200)
/* What is kept back for longer the other end does not want to read. */
#define KEPT_BACK (SECOND / 4)
/* How often a thread is told that its time has come before it may be left behind: it may have been
 * on its way to sleep, or need a lock that another thread keeps through a wait of its own. */
#define TELLS 3
/* What poll() is given on the stack. */
#define POLL_FEW 32

/* One thread that waits: for its condition, or in poll() with this event as its last. */
struct wait {
	int64_t until;
	pthread_cond_t *cond;
	int event; /* -1: it waits for the condition */
	unsigned told;
	struct wait *next;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t waiting; /* somebody waits */
	struct wait *first;
	int64_t now, wall_ahead; /* nanoseconds: of the clock that only goes on; what the other is
				    ahead */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .waiting = PTHREAD_COND_INITIALIZER};

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	abort();
}

/* ---- the machine's time ---- */

static int64_t of(const struct timespec *t)
{
	if (t->tv_sec >= NEVER / SECOND)
		return NEVER;
	return (int64_t)t->tv_sec * SECOND + t->tv_nsec;
}

static int64_t true_time(clockid_t id)
{
	struct timespec t;

	must(syscall(SYS_clock_gettime, id, &t) == 0, "clock_gettime");
	return of(&t);
}

static void true_nap(int64_t ns)
{
	struct timespec t = {.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};

	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

/* ---- do all sleep? ---- */

/* Of all other threads, those that have ended among them. Ours are counted first: what is added in
 * between makes it too many, never too few. */
static int64_t switches(void)
{
	struct rusage ours, all;

	must(getrusage(RUSAGE_THREAD, &ours) == 0, "getrusage");
	must(getrusage(RUSAGE_SELF, &all) == 0, "getrusage");
	return (int64_t)all.ru_nvcsw + all.ru_nivcsw - ours.ru_nvcsw - ours.ru_nivcsw;
}

/* Does this thread sleep, or has it ended? */
static bool sleeps(const char *thread)
{
	char path[300], text[512];
	const char *state_at;
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%s/stat", thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	if (n <= 0)
		return true;
	text[n] = '\0';
	state_at = strrchr(text, ')'); /* a thread's name may hold anything */
	return state_at && strchr("SZX", state_at[2]);
}

/* A thread that is seen asleep, and was not switched since this count was taken, has slept ever
 * since: if that is true of all, there was a moment in which all slept. */
static bool all_sleep(int64_t count)
{
	char own[32];
	DIR *d;
	const struct dirent *e;
	bool yes = switches() == count;

	if (!yes)
		return false;
	d = opendir("/proc/self/task");
	must(d != NULL, "/proc/self/task");
	(void)snprintf(own, sizeof(own), "%ld", syscall(SYS_gettid));
	while (yes && (e = readdir(d)))
		yes = *e->d_name == '.' || strcmp(e->d_name, own) == 0 || sleeps(e->d_name);
	(void)closedir(d);
	return yes && switches() == count;
}

/* Does the kernel keep bytes back that the program has sent? It does for some milliseconds where
 * small pieces are sent one behind the other, until the other end has told of the first. */
static bool kept_back(void)
{
	DIR *d = opendir("/proc/self/fd");
	const struct dirent *e;
	int unsent = 0;

	must(d != NULL, "/proc/self/fd");
	while (unsent == 0 && (e = readdir(d)))
		if (*e->d_name != '.' &&
			ioctl((int)strtol(e->d_name, NULL, 10), SIOCOUTQNSD, &unsent) != 0)
			unsent = 0;
	(void)closedir(d);
	return unsent > 0;
}

/* Do packets between two sockets of this machine wait for a processor? */
static bool under_way(void)
{
	FILE *f = fopen("/proc/net/softnet_stat", "re");
	unsigned waiting = 0;
	char line[512];

	while (f && waiting == 0 && fgets(line, sizeof(line), f)) {
		unsigned column = 0;

		/* The twelfth is the length of a processor's queue; older kernels have none. */
		for (char *rest = line, *word; (word = strsep(&rest, " \n")) && column < 12;)
			if (++column == 12)
				waiting = (unsigned)strtoul(word, NULL, 16);
	}
	if (f)
		(void)fclose(f);
	return waiting > 0;
}

/* ---- who waits ---- */

static void tell(struct wait *w)
{
	w->told++;
	if (w->event < 0)
		(void)pthread_cond_broadcast(w->cond);
	else
		(void)eventfd_write(w->event, 1);
}

/* Under the lock. Some may have to be told again. */
static bool tell_due(void)
{
	bool any = false;

	for (struct wait *w = state.first; w; w = w->next)
		if (w->until <= state.now && w->told < TELLS) {
			tell(w);
			any = true;
		}
	return any;
}

/* Under the lock: the first time that is to come, or NEVER. */
static int64_t next_time(void)
{
	int64_t next = NEVER;

	for (const struct wait *w = state.first; w; w = w->next)
		if (w->until > state.now && w->until < next)
			next = w->until;
	return next;
}

/* How long the kernel is given before time may go on. */
static int64_t patience(int64_t look)
{
	int64_t next, ret = LEAP_WAIT;

	(void)pthread_mutex_lock(&state.lock);
	while (!state.first)
		(void)pthread_cond_wait(&state.waiting, &state.lock);
	next = next_time();
	if (next != NEVER && (next - state.now) / LEAP_PART < ret)
		ret = (next - state.now) / LEAP_PART;
	(void)pthread_mutex_unlock(&state.lock);
	return ret > look ? ret : look;
}

/* All sleep. */
static void go_on(void)
{
	(void)pthread_mutex_lock(&state.lock);
	if (!tell_due() && next_time() != NEVER) {
		state.now = next_time();
		(void)tell_due();
	}
	(void)pthread_mutex_unlock(&state.lock);
}

static void *keep(void *arg)
{
	int64_t look = LOOK_FIRST, since = 0, last = -1;

	(void)arg;
	for (;;) {
		int64_t wait = patience(look), count = switches();

		if (count != last)
			since = true_time(CLOCK_MONOTONIC);
		last = count;
		true_nap(wait);
		if (all_sleep(count) && (!(under_way() || kept_back()) ||
						true_time(CLOCK_MONOTONIC) - since > KEPT_BACK)) {
			go_on();
			look = LOOK_FIRST;
		} else if (look < LOOK_LAST)
			look *= 2;
	}
	return NULL;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;
	sigset_t all, before;

	state.now = true_time(CLOCK_MONOTONIC);
	state.wall_ahead = true_time(CLOCK_REALTIME) - state.now;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	must(pthread_create(&thread, NULL, keep, NULL) == 0, "thread");
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_detach(thread);
}

/* Under the lock. */
static void add(struct wait *w)
{
	w->next = state.first;
	state.first = w;
	(void)pthread_cond_signal(&state.waiting);
}

/* Under the lock. Has its time come? */
static bool take_out(const struct wait *w)
{
	struct wait **at = &state.first;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	return w->until <= state.now;
}

static int64_t after(int64_t ns)
{
	return ns > NEVER - state.now ? NEVER : state.now + ns;
}

/* ---- what the program and its libraries call ---- */

int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
	bool wall = clock_id == CLOCK_REALTIME || clock_id == CLOCK_REALTIME_COARSE, begun;
	int64_t now;

	if (!wall && clock_id != CLOCK_MONOTONIC && clock_id != CLOCK_MONOTONIC_COARSE &&
		clock_id != CLOCK_MONOTONIC_RAW && clock_id != CLOCK_BOOTTIME)
		return (int)syscall(SYS_clock_gettime, clock_id, tp);
	(void)pthread_mutex_lock(&state.lock);
	begun = state.now != 0;
	now = state.now + (wall ? state.wall_ahead : 0);
	(void)pthread_mutex_unlock(&state.lock);
	if (!begun)
		return (int)syscall(SYS_clock_gettime, clock_id, tp);
	*tp = (struct timespec){.tv_sec = now / SECOND, .tv_nsec = now % SECOND};
	return 0;
}

time_t time(time_t *timer)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	if (timer)
		*timer = t.tv_sec;
	return t.tv_sec;
}

/* Which clock the condition goes by it does not tell: it is the one that is nearer to that time. */
int pthread_cond_timedwait(
	pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *abstime)
{
	struct wait w = {.until = of(abstime), .cond = cond, .event = -1};
	bool late;
	int rc = 0;

	(void)pthread_mutex_lock(&state.lock);
	if (w.until != NEVER && w.until > state.now + state.wall_ahead / 2)
		w.until -= state.wall_ahead;
	late = w.until <= state.now;
	if (!late)
		add(&w);
	(void)pthread_mutex_unlock(&state.lock);
	if (late) {
		/* The C library lets it go in this case, too. */
		(void)pthread_mutex_unlock(mutex);
		(void)sched_yield();
		(void)pthread_mutex_lock(mutex);
		return ETIMEDOUT;
	}
	rc = pthread_cond_wait(cond, mutex);
	(void)pthread_mutex_lock(&state.lock);
	late = take_out(&w);
	(void)pthread_mutex_unlock(&state.lock);
	return rc == 0 && late ? ETIMEDOUT : rc;
}

int nanosleep(const struct timespec *requested_time, struct timespec *remaining)
{
	pthread_cond_t over = PTHREAD_COND_INITIALIZER;
	struct wait w = {.cond = &over, .event = -1};

	(void)remaining;
	(void)pthread_mutex_lock(&state.lock);
	w.until = after(of(requested_time));
	add(&w);
	while (w.until > state.now)
		(void)pthread_cond_wait(&over, &state.lock);
	(void)take_out(&w);
	(void)pthread_mutex_unlock(&state.lock);
	(void)pthread_cond_destroy(&over);
	return 0;
}

/* With its event as the last of them. */
static int poll_with(struct pollfd *fds, nfds_t n, struct wait *w)
{
	int rc;

	fds[n] = (struct pollfd){.fd = w->event, .events = POLLIN};
	rc = ppoll(fds, n + 1, NULL, NULL);
	return rc > 0 && fds[n].revents ? rc - 1 : rc;
}

int poll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	struct pollfd few[POLL_FEW], *copy = few;
	struct wait w = {.event = -1};
	int rc, error;

	if (timeout <= 0)
		return ppoll(fds, nfds, timeout < 0 ? NULL : &(struct timespec){0}, NULL);
	w.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	must(w.event >= 0, "eventfd");
	if (nfds >= POLL_FEW) {
		copy = malloc((nfds + 1) * sizeof(*copy));
		must(copy != NULL, "memory");
	}
	if (nfds > 0)
		memcpy(copy, fds, nfds * sizeof(*copy));
	(void)pthread_mutex_lock(&state.lock);
	w.until = after(timeout * (SECOND / 1000));
	add(&w);
	(void)pthread_mutex_unlock(&state.lock);
	rc = poll_with(copy, nfds, &w);
	error = errno;
	(void)pthread_mutex_lock(&state.lock);
	(void)take_out(&w);
	(void)pthread_mutex_unlock(&state.lock);
	(void)close(w.event);
	if (nfds > 0)
		memcpy(fds, copy, nfds * sizeof(*copy));
	if (copy != few)
		free(copy);
	errno = error;
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* probe: one process per GPU, seen from outside. */
#define _GNU_SOURCE
#include "probe/worker/workers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/runtime/rt.h"
#include "probe/worker/worker_start.h"
#include "probe/worker/workers_impl.h"

/* How long workers that were told to stop may take; one that watches NVML, for its last look; and
 * one that has closed its pipe, to end. */
#define STOP_LIMIT_MS 1000
#define WATCH_LIMIT_MS 10000
#define EXIT_LIMIT_MS 500
#define LOOK_AT_ENDING_MS 2

/* ---- ends ---- */

/* Processes that did not end in time: killed, and maybe unkillable. What can be reaped is reaped at
 * the next run. */
#define UNREAPED_MAX 256
static struct {
	pthread_mutex_t lock;
	pid_t pid[UNREAPED_MAX];
	size_t n;
} unreaped = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void leave_behind(pid_t pid)
{
	(void)pthread_mutex_lock(&unreaped.lock);
	if (unreaped.n < UNREAPED_MAX)
		unreaped.pid[unreaped.n++] = pid;
	(void)pthread_mutex_unlock(&unreaped.lock);
}

static void reap_left_behind(void)
{
	size_t kept = 0;

	(void)pthread_mutex_lock(&unreaped.lock);
	for (size_t i = 0; i < unreaped.n; i++)
		if (waitpid(unreaped.pid[i], NULL, WNOHANG) == 0)
			unreaped.pid[kept++] = unreaped.pid[i];
	unreaped.n = kept;
	(void)pthread_mutex_unlock(&unreaped.lock);
}

static void close_pipe(struct running *w)
{
	if (w->fd >= 0)
		(void)close(w->fd);
	w->fd = -1;
}

/* Not one that is waited for: it may hang in the driver. */
static void kill_worker(struct running *w)
{
	close_pipe(w);
	w->ending = false;
	if (w->pid == 0)
		return;
	(void)kill(w->pid, SIGKILL);
	if (waitpid(w->pid, NULL, WNOHANG) == 0)
		leave_behind(w->pid);
	w->pid = 0;
}

/* How it ended, unless that was to be. got: what waitpid() said. */
static void judge_end(struct crowd *c, struct running *w, pid_t got, int status)
{
	const char *phase = w->phase[0] ? w->phase : "start";
	char message[320];

	w->ending = false;
	if (w->finished || c->stopping || w->leaving)
		return;
	if (got == w->pid && WIFSIGNALED(status))
		(void)snprintf(message, sizeof(message),
			"the worker was killed by signal %d (%s) in %s", WTERMSIG(status),
			strsignal(WTERMSIG(status)), phase);
	else if (got == w->pid)
		(void)snprintf(message, sizeof(message), "the worker ended with status %d in %s",
			WEXITSTATUS(status), phase);
	else
		(void)snprintf(message, sizeof(message), "the worker fell silent in %s", phase);
	crowd_note(c, w, CODE_WORKER_DIED, 0, message);
}

/* A fresh process in the place of one whose context was spoilt. */
static void start_again(struct crowd *c, struct running *w)
{
	struct err err = {0};

	w->again = w->ending = w->finished = false;
	w->phase[0] = '\0';
	w->pid = 0;
	buf_clear(&w->in);
	w->limit = crowd_after(c->config->phase_limit_s);
	if (worker_start(c->config->program, w->job, &w->pid, &w->fd, &err) != 0)
		crowd_note(c, w, CODE_WORKER_DIED, 0, err.msg);
}

/* One look at a worker whose pipe is closed. */
static void look_at_ending(struct crowd *c, struct running *w)
{
	int status = 0;
	pid_t got = waitpid(w->pid, &status, WNOHANG);

	if (got == 0 && clock_ms() < w->limit)
		return;
	if (w->again && !c->stopping && !w->leaving) {
		if (got == 0)
			kill_worker(w);
		start_again(c, w);
		return;
	}
	judge_end(c, w, got, status);
	if (got == 0)
		kill_worker(w);
	w->pid = 0;
}

/* Its deadline has passed. */
static void late(struct crowd *c, struct running *w)
{
	char message[320];

	kill_worker(w);
	if (c->stopping || (w->leaving && w->job->task != TASK_NVML_WATCH))
		return;
	(void)snprintf(message, sizeof(message), "no answer in time in %s",
		w->phase[0] ? w->phase : "start");
	crowd_note(c, w, CODE_HANG, 0, message);
}

/* Tell one to end, and give it a moment for it. */
static void dismiss(struct running *w, int64_t ms)
{
	if (w->fd < 0)
		return;
	if (!w->leaving)
		(void)kill(w->pid, SIGTERM);
	w->leaving = true;
	w->limit = clock_ms() + ms;
}

static void stop_all(struct crowd *c, enum workers_end how)
{
	c->stopping = true;
	c->how = how;
	for (size_t i = 0; i < c->n; i++)
		dismiss(&c->all[i], STOP_LIMIT_MS);
}

/* Those that only watch go when all others have gone. */
static void dismiss_watchers(struct crowd *c)
{
	for (size_t i = 0; i < c->n; i++)
		if ((c->all[i].again && c->all[i].ending) ||
			(c->all[i].fd >= 0 &&
				(c->all[i].job->task != TASK_NVML_WATCH || c->all[i].leaving)))
			return;
	for (size_t i = 0; i < c->n; i++)
		dismiss(&c->all[i], WATCH_LIMIT_MS);
}

/* ---- processes ---- */

static void read_more(struct crowd *c, struct running *w)
{
	ssize_t n;

	do {
		if (!buf_reserve(&w->in, 8192)) {
			crowd_note(
				c, w, CODE_WORKER_DIED, 0, "the worker wrote a line without end");
			kill_worker(w);
			return;
		}
		n = read(w->fd, w->in.data + w->in.len, 8192);
		if (n > 0) {
			w->in.len += (size_t)n;
			crowd_take_lines(c, w);
		}
		if (w->refused) {
			kill_worker(w);
			return;
		}
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n < 0 && errno == EAGAIN)
		return;
	close_pipe(w);
	w->ending = true;
	w->limit = clock_ms() + EXIT_LIMIT_MS;
}

/* How long nothing needs to be looked at, in ms. */
static int patience(const struct crowd *c)
{
	int64_t next = c->ends && !c->stopping ? c->ends : INT64_MAX, now = clock_ms();

	for (size_t i = 0; i < c->n; i++) {
		if (c->all[i].ending)
			return LOOK_AT_ENDING_MS;
		if (c->all[i].fd >= 0 && c->all[i].limit < next)
			next = c->all[i].limit;
	}
	return next <= now ? 0 : next - now > 60000 ? 60000 : (int)(next - now);
}

/* One look at all. False: all have ended. */
static bool look(struct crowd *c, struct pollfd *fds)
{
	nfds_t n = 0;
	bool ending = false, asks;
	int64_t now;

	dismiss_watchers(c);
	for (size_t i = 0; i < c->n; i++) {
		ending = ending || c->all[i].ending;
		if (c->all[i].fd >= 0)
			fds[n++] = (struct pollfd){.fd = c->all[i].fd, .events = POLLIN};
	}
	if (n == 0 && !ending)
		return false;
	asks = c->config->stop_fd >= 0 && !c->stopping;
	if (asks)
		fds[n++] = (struct pollfd){.fd = c->config->stop_fd, .events = POLLIN};
	(void)poll(fds, n, patience(c)); /* what it cannot say leaves revents empty */
	if (asks && (fds[n - 1].revents & POLLIN))
		stop_all(c, WORKERS_STOPPED);
	for (size_t i = 0, k = 0; i < c->n; i++) {
		if (c->all[i].fd >= 0 && fds[k++].revents)
			read_more(c, &c->all[i]);
		else if (c->all[i].ending)
			look_at_ending(c, &c->all[i]);
	}
	now = clock_ms();
	if (c->ends && !c->stopping && now >= c->ends)
		stop_all(c, WORKERS_TIMED_OUT);
	for (size_t i = 0; i < c->n; i++)
		if (c->all[i].fd >= 0 && now >= c->all[i].limit)
			late(c, &c->all[i]);
	return true;
}

static int run_apart(struct crowd *c, struct err *err)
{
	struct pollfd *fds = calloc(c->n + 1, sizeof(*fds));
	int rc = 0;

	if (!fds)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < c->n && rc == 0; i++) {
		struct running *w = &c->all[i];

		w->limit = crowd_after(c->config->phase_limit_s);
		rc = worker_start(c->config->program, w->job, &w->pid, &w->fd, err);
	}
	for (bool more = rc == 0; more;)
		more = look(c, fds);
	for (size_t i = 0; i < c->n && rc != 0; i++)
		kill_worker(&c->all[i]);
	free(fds);
	return rc;
}

/* ---- in this process ---- */

/* For the one worker that runs here: has the run's time passed, or was it told to end? */
static bool is_over(void *arg)
{
	struct crowd *c = arg;
	struct pollfd stop = {.fd = c->config->stop_fd, .events = POLLIN};

	if (!c->stopping && stop.fd >= 0 && poll(&stop, 1, 0) > 0)
		stop_all(c, WORKERS_STOPPED);
	if (!c->stopping && c->ends && clock_ms() >= c->ends)
		stop_all(c, WORKERS_TIMED_OUT);
	return c->stopping;
}

/* Lines go through a file in memory, since a pipe holds only some of them. */
static int run_here(struct crowd *c, struct running *w, struct err *err)
{
	struct rt rt;
	struct err why = {0};
	char chunk[4096];
	ssize_t n;
	int fd = memfd_create("gpuprobe", MFD_CLOEXEC);

	if (fd < 0)
		return err_set(err, ERR_IO, "memfd_create: %s", strerrordesc_np(errno));
	if (w->job->task == TASK_NVML)
		(void)worker_nvml(w->job, fd, is_over, c);
	else if ((w->job->cudart ? rt_dlopen(w->job->cudart, &rt, &why) : rt_default(&rt, &why)) !=
		 0)
		crowd_note(c, w, CODE_NO_RUNTIME, 0, why.msg);
	else
		(void)worker_run(&rt, w->job, fd, is_over, c);
	(void)lseek(fd, 0, SEEK_SET);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0 && !w->in.failed && !w->refused) {
		buf_add(&w->in, chunk, (size_t)n);
		crowd_take_lines(c, w);
	}
	(void)close(fd);
	return w->in.failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

/* ---- the run ---- */

int workers_run(const struct workers_config *config, struct report *r, enum workers_end *ret_end,
	struct err *err)
{
	struct crowd c = {.config = config, .r = r, .n = config->n_jobs, .how = WORKERS_DONE};
	int rc = 0;

	*ret_end = WORKERS_DONE;
	reap_left_behind();
	c.all = calloc(c.n ? c.n : 1, sizeof(*c.all));
	if (!c.all)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (config->total_limit_s > 0)
		c.ends = crowd_after(config->total_limit_s);
	for (size_t i = 0; i < c.n; i++) {
		c.all[i].job = &config->jobs[i];
		c.all[i].gpu = config->jobs[i].task == TASK_GPU ? config->gpus[i] : -1;
		c.all[i].link = config->jobs[i].task == TASK_PAIR ? config->gpus[i] : -1;
		c.all[i].fd = -1;
		buf_init(&c.all[i].in, WIRE_LINE_MAX + 16384);
	}
	if (config->in_process) {
		for (size_t i = 0; i < c.n && rc == 0 && !is_over(&c); i++)
			rc = run_here(&c, &c.all[i], err);
	} else {
		rc = run_apart(&c, err);
	}
	for (size_t i = 0; i < c.n; i++) {
		/* it hung at its end, or the run was over: there was no second process */
		if (c.all[i].again)
			r->gpus[c.all[i].gpu].first_try.was = false;
		crowd_note_held(&c, &c.all[i]);
		buf_release(&c.all[i].in);
	}
	free(c.all);
	*ret_end = c.how;
	if (rc == 0 && c.failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* probe: one process per GPU, seen from outside. */
#define _GNU_SOURCE
#include "probe/workers.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe/worker_start.h"
#include "probe/worker_wire.h"

/* How long workers that were told to stop may take, and how long one that has closed its pipe may take to end. */
#define STOP_LIMIT_MS 1000
#define EXIT_LIMIT_MS 500
#define PROGRESS_EVERY_MS 100

struct running {
	const struct worker_job *job;
	int gpu; /* place in r->gpus; -1: a scout */
	pid_t pid;
	int fd;        /* -1: over */
	int64_t limit; /* clock in ms when it is late */
	struct buf in;
	char phase[96];
	double done;
	bool finished; /* its last line came */
	bool leaving;  /* it was told to end */
};

struct crowd {
	const struct workers_config *config;
	struct report *r;
	struct running *all;
	size_t n;
	int64_t ends; /* of the whole run; 0: never */
	int64_t shown;
	bool stopping;
	bool failed; /* no memory */
};

static int64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t after(double seconds)
{
	return now_ms() + (int64_t)(seconds * 1000);
}

static void note(struct crowd *c, const struct running *w, enum probe_code code, int cuda,
	const char *message)
{
	int gpu = w->gpu < 0 ? -1 : c->r->gpus[w->gpu].index;

	if (!report_add_error(c->r, gpu, code, cuda, "%s", message))
		c->failed = true;
}

/* ---- lines ---- */

/* A GPU that was described: a scout's is new, another's is better known now. */
static void take_gpu(struct crowd *c, const struct running *w, const struct gpu_report *found)
{
	struct gpu_report *gpu = w->gpu < 0 ? report_add_gpu(c->r) : &c->r->gpus[w->gpu];
	struct gpu_report known;

	if (!gpu) {
		c->failed = true;
		return;
	}
	known = *gpu;
	*gpu = *found;
	memcpy(gpu->checks, known.checks, sizeof(gpu->checks));
	if (w->gpu >= 0) {
		gpu->index = known.index;
		gpu->remote = known.remote;
		gpu->processes = known.processes;
		gpu->utilization_percent = known.utilization_percent;
	}
}

/* Of all GPUs together. */
static double done_so_far(const struct crowd *c)
{
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		if (c->all[i].job->task != TASK_GPU)
			continue;
		sum += c->all[i].done;
		n++;
	}
	return n ? sum / (double)n : 0;
}

static void take_line(struct crowd *c, struct running *w, struct slice text)
{
	struct wire_line line;
	struct err err = {0};

	if (wire_read(text, &line, &err) != 0) {
		char message[320];

		(void)snprintf(message, sizeof(message),
			"the worker wrote what cannot be read: %.200s", err.msg);
		note(c, w, CODE_WORKER_DIED, 0, message);
		return;
	}
	if (!w->leaving)
		w->limit =
			after(line.kind == WIRE_WITHIN ? line.seconds : c->config->phase_limit_s);
	switch (line.kind) {
	case WIRE_RUNTIME:
		c->r->driver_cuda = line.driver;
		c->r->cudart = line.runtime;
		c->r->cuda = line.devices;
		(void)snprintf(c->r->link, sizeof(c->r->link), "%s", line.link);
		break;
	case WIRE_GPU:
		take_gpu(c, w, &line.gpu);
		break;
	case WIRE_WITHIN:
		(void)snprintf(w->phase, sizeof(w->phase), "%s", line.text);
		break;
	case WIRE_CHECK:
		if (w->gpu >= 0 && !report_set_check(&c->r->gpus[w->gpu], &line.check))
			c->failed = true;
		break;
	case WIRE_PROGRESS:
		w->done = line.done;
		if (c->config->progress && now_ms() - c->shown >= PROGRESS_EVERY_MS) {
			c->shown = now_ms();
			c->config->progress(c->config->arg, done_so_far(c), line.text);
		}
		break;
	case WIRE_ERROR:
		note(c, w, line.error.code, line.error.cuda_error, line.error.message);
		break;
	case WIRE_NVML:
		c->r->nvml = line.devices >= 0;
		c->r->nvml_count = line.devices;
		(void)snprintf(c->r->driver_version, sizeof(c->r->driver_version), "%.31s",
			line.devices >= 0 ? line.text : "");
		break;
	case WIRE_STATE:
		if (c->config->state)
			c->config->state(c->config->arg, &line.state);
		break;
	case WIRE_DONE:
		w->finished = true;
		w->done = 1;
		break;
	}
}

/* Take the whole lines out of what has come. */
static void take_lines(struct crowd *c, struct running *w)
{
	size_t from = 0;

	for (size_t i = 0; i < w->in.len; i++) {
		if (w->in.data[i] != '\n')
			continue;
		take_line(c, w, (struct slice){w->in.data + from, i - from});
		from = i + 1;
	}
	if (from > 0) {
		memmove(w->in.data, w->in.data + from, w->in.len - from);
		w->in.len -= from;
	}
}

/* ---- processes ---- */

static int start(struct crowd *c, struct running *w, struct err *err)
{
	w->limit = after(c->config->phase_limit_s);
	return worker_start(c->config->program, w->job, &w->pid, &w->fd, err);
}

static void end(struct running *w)
{
	if (w->fd >= 0)
		(void)close(w->fd);
	w->fd = -1;
}

/* Its pipe is closed: it has ended, or will in a moment. One that did not finish is told, with how it ended. */
static void ended(struct crowd *c, struct running *w)
{
	int64_t until = now_ms() + EXIT_LIMIT_MS;
	char message[320];
	int status = 0;
	pid_t got = 0;

	end(w);
	while (got == 0 && now_ms() < until) {
		struct timespec nap = {.tv_nsec = 2000000};

		got = waitpid(w->pid, &status, WNOHANG);
		if (got == 0 && w->finished)
			return;
		if (got == 0)
			(void)nanosleep(&nap, NULL);
	}
	if (w->finished || c->stopping || w->leaving)
		return;
	if (got == w->pid && WIFSIGNALED(status))
		(void)snprintf(message, sizeof(message),
			"the worker was killed by signal %d (%s) in %s", WTERMSIG(status),
			strsignal(WTERMSIG(status)), w->phase);
	else if (got == w->pid)
		(void)snprintf(message, sizeof(message), "the worker ended with status %d in %s",
			WEXITSTATUS(status), w->phase);
	else
		(void)snprintf(message, sizeof(message), "the worker fell silent in %s", w->phase);
	note(c, w, CODE_WORKER_DIED, 0, message);
}

static void read_more(struct crowd *c, struct running *w)
{
	ssize_t n;

	do {
		if (!buf_reserve(&w->in, 8192)) {
			note(c, w, CODE_WORKER_DIED, 0, "the worker wrote a line without end");
			(void)kill(w->pid, SIGKILL);
			end(w);
			return;
		}
		n = read(w->fd, w->in.data + w->in.len, 8192);
		if (n > 0) {
			w->in.len += (size_t)n;
			take_lines(c, w);
		}
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n == 0 || errno != EAGAIN)
		ended(c, w);
}

/* Its deadline has passed: killed, and not waited for. */
static void late(struct crowd *c, struct running *w)
{
	char message[320];

	(void)kill(w->pid, SIGKILL);
	end(w);
	(void)waitpid(w->pid, NULL, WNOHANG);
	if (c->stopping || w->leaving)
		return;
	(void)snprintf(message, sizeof(message), "no answer in time in %s",
		w->phase[0] ? w->phase : "start");
	note(c, w, CODE_HANG, 0, message);
}

/* Tell one to end, and give it a moment for it. */
static void dismiss(struct running *w)
{
	if (w->fd < 0 || w->leaving)
		return;
	w->leaving = true;
	(void)kill(w->pid, SIGTERM);
	w->limit = now_ms() + STOP_LIMIT_MS;
}

static void stop_all(struct crowd *c)
{
	c->stopping = true;
	for (size_t i = 0; i < c->n; i++)
		dismiss(&c->all[i]);
}

/* Those that only watch go when all others have gone. */
static void dismiss_watchers(struct crowd *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->all[i].fd >= 0 && c->all[i].job->task != TASK_NVML_WATCH)
			return;
	for (size_t i = 0; i < c->n; i++)
		dismiss(&c->all[i]);
}

/* ---- the run ---- */

/* How long nothing needs to be looked at. */
static int patience(const struct crowd *c)
{
	int64_t next = c->ends && !c->stopping ? c->ends : INT64_MAX, now = now_ms();

	for (size_t i = 0; i < c->n; i++)
		if (c->all[i].fd >= 0 && c->all[i].limit < next)
			next = c->all[i].limit;
	return next <= now ? 0 : next - now > 60000 ? 60000 : (int)(next - now);
}

/* One look at all. False: all have ended. */
static bool look(struct crowd *c, struct pollfd *fds, enum workers_end *how)
{
	size_t n = 0;
	int64_t now;

	dismiss_watchers(c);
	for (size_t i = 0; i < c->n; i++)
		if (c->all[i].fd >= 0)
			fds[n++] = (struct pollfd){.fd = c->all[i].fd, .events = POLLIN};
	if (n == 0)
		return false;
	if (c->config->stop_fd >= 0 && !c->stopping)
		fds[n++] = (struct pollfd){.fd = c->config->stop_fd, .events = POLLIN};
	if (poll(fds, n, patience(c)) < 0 && errno != EINTR)
		return false;
	if (c->config->stop_fd >= 0 && !c->stopping && (fds[n - 1].revents & POLLIN)) {
		*how = WORKERS_STOPPED;
		stop_all(c);
	}
	for (size_t i = 0, k = 0; i < c->n; i++) {
		if (c->all[i].fd < 0)
			continue;
		if (fds[k++].revents)
			read_more(c, &c->all[i]);
	}
	now = now_ms();
	if (c->ends && !c->stopping && now >= c->ends) {
		*how = WORKERS_TIMED_OUT;
		stop_all(c);
	}
	for (size_t i = 0; i < c->n; i++)
		if (c->all[i].fd >= 0 && now >= c->all[i].limit)
			late(c, &c->all[i]);
	return true;
}

/* In this process: lines go through a file in memory, since a pipe holds only some of them. */
static int run_here(struct crowd *c, struct running *w, struct err *err)
{
	struct rt rt;
	char chunk[4096];
	ssize_t n;
	int fd = memfd_create("gpuprobe", MFD_CLOEXEC), rc;

	if (fd < 0)
		return err_set(err, ERR_IO, "memfd_create: %s", strerrordesc_np(errno));
	rc = w->job->cudart ? rt_dlopen(w->job->cudart, &rt, err) : rt_default(&rt, err);
	if (w->job->task == TASK_NVML)
		(void)worker_nvml(w->job, fd, NULL, NULL);
	else if (rc != 0)
		note(c, w, CODE_RUNTIME_INCOMPLETE, 0, err ? err->msg : "no CUDA runtime");
	else
		(void)worker_run(&rt, w->job, fd, NULL, NULL);
	(void)lseek(fd, 0, SEEK_SET);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
		buf_add(&w->in, chunk, (size_t)n);
		take_lines(c, w);
	}
	(void)close(fd);
	return w->in.failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

static int run_apart(struct crowd *c, enum workers_end *how, struct err *err)
{
	struct pollfd *fds = calloc(c->n + 1, sizeof(*fds));
	int rc = fds ? 0 : err_set(err, ERR_NOMEM, "out of memory");

	for (size_t i = 0; i < c->n && rc == 0; i++)
		rc = start(c, &c->all[i], err);
	if (rc != 0) {
		for (size_t i = 0; i < c->n; i++)
			if (c->all[i].fd >= 0)
				(void)kill(c->all[i].pid, SIGKILL);
	}
	while (rc == 0 && look(c, fds, how))
		continue;
	free(fds);
	return rc;
}

int workers_run(const struct workers_config *config, struct report *r, enum workers_end *ret_end,
	struct err *err)
{
	struct crowd c = {.config = config, .r = r, .n = config->n_jobs};
	int rc = 0;

	*ret_end = WORKERS_DONE;
	c.all = calloc(c.n ? c.n : 1, sizeof(*c.all));
	if (!c.all)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (config->total_limit_s > 0)
		c.ends = after(config->total_limit_s);
	for (size_t i = 0; i < c.n; i++) {
		c.all[i].job = &config->jobs[i];
		c.all[i].gpu = config->jobs[i].task == TASK_GPU ? config->gpus[i] : -1;
		c.all[i].fd = -1;
		buf_init(&c.all[i].in, WIRE_LINE_MAX + 16384);
	}
	if (config->in_process) {
		for (size_t i = 0; i < c.n && rc == 0; i++)
			rc = run_here(&c, &c.all[i], err);
	} else {
		rc = run_apart(&c, ret_end, err);
	}
	for (size_t i = 0; i < c.n; i++) {
		end(&c.all[i]);
		buf_release(&c.all[i].in);
	}
	free(c.all);
	if (rc == 0 && c.failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	return rc;
}

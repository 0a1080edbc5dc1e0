/* SPDX-License-Identifier: Apache-2.0 */
/* gate: the process that looks at GPUs, as seen by the gate: started, heard, ended. */
#define _GNU_SOURCE
#include "gate/gpus.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "gate/loop.h"

#define LINE_MAX_BYTES (4u << 20)
#define ARENA_MAX (32u << 20)
/* After one has ended by itself; and after the next one has, too. */
#define AGAIN_MS 5000
#define AGAIN_LATER_MS 60000

struct gpus {
	struct gpus_config cfg;
	pid_t pid; /* 0: none; one that was ended stays until it is reaped */
	int fd;    /* -1: nobody is heard */
	struct loop_watch watch;
	struct buf line;
	int64_t heard_ms, again_ms;
	bool told; /* that it failed */
};

static void stop(struct gpus *g)
{
	if (g->fd >= 0)
		(void)close(g->fd);
	g->fd = -1;
	if (g->pid > 0)
		(void)kill(g->pid, SIGKILL);
	buf_clear(&g->line);
	g->again_ms = clock_ms() + (g->told ? AGAIN_LATER_MS : AGAIN_MS);
}

/* A call into the driver that cannot be ended may hold it: then there is no second one. */
static bool reaped(struct gpus *g)
{
	if (g->pid > 0 && waitpid(g->pid, NULL, WNOHANG) == 0)
		return false;
	g->pid = 0;
	return true;
}

static void fail(struct gpus *g, const char *why)
{
	if (!g->told)
		log_line(g->cfg.log, LOG_LEVEL_WARN, "what is used of the GPUs is not known",
			log_str("error", why));
	stop(g);
	g->told = true;
}

static void hear_line(struct gpus *g, struct slice line)
{
	struct usage_look look;
	struct err err = {0};
	struct arena a;

	arena_init_small(&a, ARENA_MAX, 4096);
	g->heard_ms = clock_ms();
	if (usage_look_read(line, &a, &look, &err) != 0)
		fail(g, err.msg);
	else if (look.error[0])
		fail(g, look.error);
	else
		g->cfg.looked(g->cfg.ctx, &look);
	g->told = g->told && g->fd < 0;
	arena_release(&a);
}

/* What is whole of what has come. */
static void hear_lines(struct gpus *g)
{
	const char *end;

	while (g->fd >= 0 && (end = memchr(g->line.data, '\n', g->line.len)) != NULL) {
		size_t len = (size_t)(end - g->line.data);

		hear_line(g, (struct slice){g->line.data, len});
		if (g->fd < 0)
			return;
		g->line.len -= len + 1;
		memmove(g->line.data, end + 1, g->line.len);
	}
}

static void hear(void *ctx, uint32_t events)
{
	struct gpus *g = ctx;
	char piece[8192];
	ssize_t n;

	(void)events;
	while (g->fd >= 0) {
		n = read(g->fd, piece, sizeof(piece));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		buf_slice(&g->line, (struct slice){piece, n > 0 ? (size_t)n : 0});
		if (n <= 0 || g->line.failed) {
			fail(g, n <= 0 ? "the process that looks has ended" : "a look is too long");
			return;
		}
		hear_lines(g);
	}
}

/* In the child. It ends with us, whatever becomes of us. */
static void become_looker(const struct gpus *g, int out)
{
	char every[32];

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)snprintf(every, sizeof(every), "%lldms", (long long)g->cfg.every_ms);
	(void)dup2(out, STDOUT_FILENO);
	(void)close_range(3, ~0U, 0);
	(void)execl("/proc/self/exe", "gpugate", "gpus", "--every", every,
		g->cfg.nvml ? "--nvml" : NULL, g->cfg.nvml, NULL);
	_exit(127);
}

static int start(struct gpus *g, struct err *err)
{
	int ends[2], rc;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return err_set(err, ERR_IO, "pipe: %s", strerrordesc_np(errno));
	(void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
	g->pid = fork();
	if (g->pid == 0)
		become_looker(g, ends[1]);
	(void)close(ends[1]);
	g->fd = ends[0];
	rc = g->pid > 0 ? loop_add(g->cfg.loop, g->fd, &g->watch, err)
			: err_set(err, ERR_IO, "fork: %s", strerrordesc_np(errno));
	g->heard_ms = clock_ms();
	return rc;
}

int64_t gpus_turn(struct gpus *g)
{
	int64_t now = clock_ms(), patience = 3 * g->cfg.every_ms;
	struct err err = {0};

	patience = patience < GPUS_SILENT_MS ? GPUS_SILENT_MS : patience;
	if (g->fd >= 0 && now - g->heard_ms >= patience)
		fail(g, "NVML has not answered for long");
	if (g->fd < 0 && now >= g->again_ms) {
		if (!reaped(g))
			g->again_ms = now + AGAIN_MS;
		else if (start(g, &err) != 0)
			fail(g, err.msg);
	}
	now = clock_ms();
	return g->fd >= 0          ? g->heard_ms + patience - now
	       : g->again_ms > now ? g->again_ms - now
				   : 0;
}

int gpus_new(const struct gpus_config *config, struct gpus **ret, struct err *err)
{
	struct gpus *g = calloc(1, sizeof(*g));

	if (!g)
		return err_set(err, ERR_NOMEM, "out of memory");
	g->cfg = *config;
	g->fd = -1;
	g->watch = (struct loop_watch){.ready = hear, .ctx = g};
	buf_init(&g->line, LINE_MAX_BYTES);
	*ret = g;
	return 0;
}

void gpus_free(struct gpus *g)
{
	if (!g)
		return;
	stop(g);
	(void)reaped(g);
	buf_release(&g->line);
	free(g);
}

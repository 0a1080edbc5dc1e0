/* SPDX-License-Identifier: Apache-2.0 */
/* test: a gRPC server with methods of its own, and clients of it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "test/unit/grpc_fixture.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	abort();
}

/* ---- the server's side ---- */

static enum grpc_status echo(void *ctx, struct slice request, struct buf *reply, struct err *err)
{
	struct grpc_fixture *f = ctx;

	(void)err;
	f->calls++;
	buf_slice(reply, request);
	return GRPC_OK;
}

static enum grpc_status size(void *ctx, struct slice request, struct buf *reply, struct err *err)
{
	char *text = strndup(request.at, request.len);
	size_t n = strtoul(text, NULL, 10);

	(void)ctx, (void)err;
	free(text);
	for (size_t i = 0; i < n; i++)
		buf_char(reply, 'x');
	return GRPC_OK;
}

static enum grpc_status fail(void *ctx, struct slice request, struct buf *reply, struct err *err)
{
	(void)ctx, (void)request;
	buf_str(reply, "is not sent");
	(void)err_set(err, ERR_INVALID, "déjà 100%% \"so\"");
	return GRPC_FAILED_PRECONDITION;
}

static enum grpc_status watch(
	void *ctx, struct grpc_stream *stream, struct slice request, struct err *err)
{
	struct grpc_fixture *f = ctx;

	must(f->n_open < FIXTURE_STREAMS, "streams");
	f->open[f->n_open++] = stream;
	f->opened++;
	if (request.len > 0)
		must(grpc_stream_show(stream, request, err) == 0, "show");
	return GRPC_OK;
}

static enum grpc_status deny(
	void *ctx, struct grpc_stream *stream, struct slice request, struct err *err)
{
	(void)ctx;
	must(grpc_stream_show(stream, request, err) == 0, "show");
	(void)err_set(err, ERR_REFUSED, "not today");
	return GRPC_UNAVAILABLE;
}

static void closed(void *ctx, struct grpc_stream *stream)
{
	struct grpc_fixture *f = ctx;
	size_t i = 0;

	while (i < f->n_open && f->open[i] != stream)
		i++;
	must(i < f->n_open, "closed twice, or never opened");
	f->open[i] = f->open[--f->n_open];
	f->closed++;
}

const struct grpc_method grpc_fixture_methods[] = {
	{"/test.T/Echo", echo, NULL, NULL},
	{"/test.T/Size", size, NULL, NULL},
	{"/test.T/Fail", fail, NULL, NULL},
	{"/test.T/Watch", NULL, watch, closed},
	{"/test.T/Deny", NULL, deny, closed},
	{0},
};

int grpc_fixture_start(void **state)
{
	struct grpc_fixture *f = calloc(1, sizeof(*f));
	struct err err = {0};

	must(f != NULL, "calloc");
	strcpy(f->folder, "/tmp/grpc-XXXXXX");
	must(mkdtemp(f->folder) != NULL, "mkdtemp");
	(void)snprintf(f->path, sizeof(f->path), "%s/plugin.sock", f->folder);
	log_init(&f->log, memfd_create("log", 0));
	if (grpc_server_new(f->path, grpc_fixture_methods, f, &f->log, &f->server, &err) != 0) {
		(void)fprintf(stderr, "%s\n", err.msg);
		return -1;
	}
	*state = f;
	return 0;
}

int grpc_fixture_end(void **state)
{
	struct grpc_fixture *f = *state;

	grpc_server_free(f->server, 0);
	must(f->opened == f->closed && f->n_open == 0, "a stream without its end");
	(void)unlink(f->path);
	must(rmdir(f->folder) == 0, "rmdir");
	(void)close(f->log.fd);
	free(f);
	return 0;
}

void grpc_fixture_restart(struct grpc_fixture *f)
{
	grpc_server_free(f->server, 0);
	must(grpc_server_new(f->path, grpc_fixture_methods, f, &f->log, &f->server, NULL) == 0,
		"again");
}

char *grpc_fixture_log(struct grpc_fixture *f)
{
	off_t len = lseek(f->log.fd, 0, SEEK_END);
	char *text = calloc(1, (size_t)len + 1);

	must(text && pread(f->log.fd, text, (size_t)len, 0) == len, "log");
	return text;
}

size_t grpc_fixture_memory(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/* ---- turning ---- */

bool grpc_fixture_turn(
	struct grpc_fixture *f, struct peer *p, bool (*cond)(void *arg), void *arg, int ms)
{
	int64_t until = clock_ms() + ms;

	for (;;) {
		struct pollfd fd[2] = {{.fd = -1}, {.fd = -1}};
		int64_t left = until - clock_ms();
		int due;

		if (p) {
			peer_write(p);
			while (peer_read(p))
				peer_write(p);
		}
		due = f->no_server_turn ? -1 : grpc_server_turn(f->server);
		if (cond && cond(arg))
			return true;
		if (left <= 0)
			return false;
		if (due >= 0 && due < left)
			left = due;
		fd[0] = (struct pollfd){
			.fd = f->no_server_turn ? -1 : grpc_server_fd(f->server), .events = POLLIN};
		if (p && !p->gone && !p->deaf)
			fd[1] = (struct pollfd){.fd = p->fd, .events = POLLIN};
		(void)poll(fd, 2, (int)left);
	}
}

static bool is_quiet(struct grpc_fixture *f, struct peer *p)
{
	struct pollfd fd[2] = {{.fd = grpc_server_fd(f->server), .events = POLLIN}, {.fd = -1}};

	if (p && !p->gone) {
		if (nghttp2_session_want_write(p->session))
			return false;
		fd[1] = (struct pollfd){.fd = p->deaf ? -1 : p->fd, .events = POLLIN};
	}
	return poll(fd, 2, 0) == 0;
}

void grpc_fixture_settle(struct grpc_fixture *f, struct peer *p)
{
	do {
		if (p)
			(void)grpc_fixture_turn(f, p, NULL, NULL, 0);
		else
			(void)grpc_server_turn(f->server);
	} while (!is_quiet(f, p));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test: an API server that plays what a test tells it: everything that its connections' threads
 * share stands under one lock. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* vasprintf, accept4 */
#endif
#include "test/unit/api_fixture_impl.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

void api_must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	abort();
}

void *api_some(void *p)
{
	api_must(p != NULL, "memory");
	return p;
}

void api_nap(int ms)
{
	struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};

	(void)nanosleep(&t, NULL);
}

int64_t api_now_ms(void)
{
	return clock_ms();
}

bool api_fits(const char *pattern, const char *text)
{
	size_t n = strlen(pattern);

	if (n > 0 && pattern[n - 1] == '*')
		return strncmp(pattern, text, n - 1) == 0;
	return strcmp(pattern, text) == 0;
}

void api_text(struct api_reply *reply, int status, const char *fmt, ...)
{
	va_list args;

	reply->status = status;
	va_start(args, fmt);
	api_must(vasprintf(&reply->body, fmt, args) >= 0, "vasprintf");
	va_end(args);
}

void api_status(struct api_reply *reply, int status, const char *reason, const char *message)
{
	api_text(reply, status,
		"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
		"\"message\":\"%s\",\"reason\":\"%s\",\"code\":%d}\n",
		message, reason, status);
}

/* ---- the server ---- */

static void *accept_all(void *arg)
{
	struct api *a = arg;
	int listener;

	pthread_mutex_lock(&a->lock);
	listener = a->listener;
	pthread_mutex_unlock(&a->lock);
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			return NULL;
		api_take(a, fd);
	}
}

/* A socket at our port, at any when there is none yet. */
static int bound(struct api *a)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)a->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(addr);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	api_must(fd >= 0, "socket");
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	api_must(bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0, "bind");
	api_must(getsockname(fd, (struct sockaddr *)&addr, &len) == 0, "getsockname");
	if (a->port == 0) { /* else others may be reading them */
		a->port = ntohs(addr.sin_port);
		(void)snprintf(a->url, sizeof(a->url), "http://127.0.0.1:%d", a->port);
	}
	return fd;
}

void api_up(struct api *a)
{
	int fd = bound(a);

	api_must(listen(fd, 128) == 0, "listen");
	pthread_mutex_lock(&a->lock);
	a->listener = fd;
	pthread_mutex_unlock(&a->lock);
	api_must(pthread_create(&a->acceptor, NULL, accept_all, a) == 0, "thread");
}

void api_down(struct api *a)
{
	int fd;

	pthread_mutex_lock(&a->lock);
	fd = a->listener;
	a->listener = -1;
	pthread_mutex_unlock(&a->lock);
	if (fd >= 0) {
		(void)shutdown(fd, SHUT_RDWR);
		(void)pthread_join(a->acceptor, NULL);
		close(fd);
	}
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < CONNECTIONS; i++) {
		if (a->connection[i].fd >= 0)
			(void)shutdown(a->connection[i].fd, SHUT_RDWR);
		a->connection[i].held = NULL;
	}
	(void)pthread_cond_broadcast(&a->let_go);
	pthread_mutex_unlock(&a->lock);
	for (size_t i = 0; i < CONNECTIONS; i++) {
		if (a->connection[i].started)
			(void)pthread_join(a->connection[i].thread, NULL);
		a->connection[i].started = false;
	}
}

struct api *api_start(api_handle *handle, void *ctx)
{
	struct api *a = api_some(calloc(1, sizeof(*a)));

	a->handle = handle;
	a->ctx = ctx;
	a->listener = -1;
	for (size_t i = 0; i < CONNECTIONS; i++)
		a->connection[i].fd = -1;
	api_must(pthread_mutex_init(&a->handling, NULL) == 0, "mutex");
	api_must(pthread_mutex_init(&a->lock, NULL) == 0, "mutex");
	api_must(thread_cond_init(&a->let_go) == 0, "condition");
	a->place = bound(a);
	api_up(a);
	return a;
}

void api_stop(struct api *a)
{
	if (!a)
		return;
	api_down(a);
	(void)close(a->place);
	for (size_t i = 0; i < a->nseen; i++)
		api_request_free(a->seen[i]);
	for (size_t i = 0; i < a->scripts; i++) {
		free(a->script[i].method);
		free(a->script[i].path);
		free(a->script[i].reply.body);
	}
	(void)pthread_cond_destroy(&a->let_go);
	(void)pthread_mutex_destroy(&a->handling);
	(void)pthread_mutex_destroy(&a->lock);
	free(a);
}

const char *api_url(const struct api *a)
{
	return a->url;
}

void api_config(const struct api *a, struct kube_config *ret)
{
	*ret = (struct kube_config){.server = a->url, .ca_fd = -1, .cert_fd = -1, .key_fd = -1};
}

/* ---- scripts ---- */

void api_expect_reply(
	struct api *a, const char *method, const char *path, const struct api_reply *reply)
{
	struct script *s;

	pthread_mutex_lock(&a->lock);
	api_must(a->scripts < SCRIPTS_MAX, "too many scripts");
	s = &a->script[a->scripts++];
	s->method = api_some(strdup(method));
	s->path = api_some(strdup(path));
	s->reply = *reply;
	pthread_mutex_unlock(&a->lock);
}

void api_expect(struct api *a, const char *method, const char *path, int status, const char *body)
{
	struct api_reply reply = {.status = status, .body = api_some(strdup(body ? body : ""))};

	api_expect_reply(a, method, path, &reply);
}

size_t api_left(struct api *a)
{
	size_t n = 0;

	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < a->scripts; i++)
		n += !a->script[i].used;
	pthread_mutex_unlock(&a->lock);
	return n;
}

/* ---- streams ---- */

enum stream_act { COUNT, PUSH, END, CUT };

static size_t each_stream(struct api *a, const char *path, enum stream_act act, const char *text)
{
	size_t n = 0;

	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < CONNECTIONS; i++) {
		struct connection *c = &a->connection[i];

		if (c->fd < 0 || !c->streaming || !api_fits(path, c->path))
			continue;
		n++;
		if (act == PUSH)
			(void)api_send_chunk(c->fd, text);
		if (act == END)
			(void)api_send_all(c->fd, "0\r\n\r\n", 5);
		if (act == CUT)
			(void)shutdown(c->fd, SHUT_RDWR);
		if (act == END || act == CUT)
			c->streaming = false;
	}
	pthread_mutex_unlock(&a->lock);
	return n;
}

size_t api_push(struct api *a, const char *path, const char *text)
{
	return each_stream(a, path, PUSH, text);
}

size_t api_end(struct api *a, const char *path)
{
	return each_stream(a, path, END, NULL);
}

size_t api_cut(struct api *a, const char *path)
{
	return each_stream(a, path, CUT, NULL);
}

size_t api_streams(struct api *a, const char *path)
{
	return each_stream(a, path, COUNT, NULL);
}

bool api_wait_streams(struct api *a, const char *path, size_t n)
{
	for (int i = 0; i < 1000; i++, api_nap(5))
		if (api_streams(a, path) >= n)
			return true;
	return false;
}

void api_let_go(struct api *a, const char *method, const char *path)
{
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < CONNECTIONS; i++) {
		const struct api_request **held = &a->connection[i].held;

		if (*held && api_fits(method, (*held)->method) && api_fits(path, (*held)->path))
			*held = NULL;
	}
	(void)pthread_cond_broadcast(&a->let_go);
	pthread_mutex_unlock(&a->lock);
}

/* ---- the log ---- */

size_t api_seen_count(struct api *a)
{
	size_t n;

	pthread_mutex_lock(&a->lock);
	n = a->nseen;
	pthread_mutex_unlock(&a->lock);
	return n;
}

const struct api_request *api_seen(struct api *a, size_t i)
{
	const struct api_request *r;

	pthread_mutex_lock(&a->lock);
	r = i < a->nseen ? a->seen[i] : NULL;
	pthread_mutex_unlock(&a->lock);
	return r;
}

size_t api_seen_of(struct api *a, const char *method, const char *path)
{
	size_t n = 0;

	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < a->nseen; i++)
		n += api_fits(method, a->seen[i]->method) && api_fits(path, a->seen[i]->path);
	pthread_mutex_unlock(&a->lock);
	return n;
}

const struct api_request *api_last(struct api *a, const char *method, const char *path)
{
	const struct api_request *r = NULL;

	pthread_mutex_lock(&a->lock);
	for (size_t i = a->nseen; i-- > 0 && !r;)
		if (api_fits(method, a->seen[i]->method) && api_fits(path, a->seen[i]->path))
			r = a->seen[i];
	pthread_mutex_unlock(&a->lock);
	return r;
}

bool api_wait(struct api *a, const char *method, const char *path, size_t n)
{
	for (int i = 0; i < 1000; i++, api_nap(5))
		if (api_seen_of(a, method, path) >= n)
			return true;
	return false;
}

void api_lock(struct api *a)
{
	pthread_mutex_lock(&a->handling);
}

void api_unlock(struct api *a)
{
	pthread_mutex_unlock(&a->handling);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test: an API server that plays what a test tells it: a thread per connection, everything shared under one lock. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strcasestr, vasprintf */
#endif
#include "test/unit/api_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS 256
#define SEEN_MAX 20000
#define SCRIPTS_MAX 4096
#define PAD 16

struct script {
	char *method, *path;
	struct api_reply reply;
	bool used;
};

struct connection {
	struct api *api;
	pthread_t thread;
	int fd; /* -1: free or closed */
	bool started;
	bool streaming;
	char path[2048]; /* of the stream */
};

struct api {
	api_handle *handle;
	void *ctx;
	char url[64];
	int port;
	pthread_mutex_t handling; /* held while handle runs; taken before lock */
	pthread_mutex_t lock;     /* everything below */
	pthread_t acceptor;
	int listener; /* -1: down */
	struct connection connection[CONNECTIONS];
	struct script script[SCRIPTS_MAX];
	size_t scripts;
	struct api_request *seen[SEEN_MAX];
	size_t nseen;
};

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	abort();
}

static void *some(void *p)
{
	must(p != NULL, "memory");
	return p;
}

void api_nap(int ms)
{
	struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};

	(void)nanosleep(&t, NULL);
}

int64_t api_now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool fits(const char *pattern, const char *text)
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
	must(vasprintf(&reply->body, fmt, args) >= 0, "vasprintf");
	va_end(args);
}

void api_status(struct api_reply *reply, int status, const char *reason, const char *message)
{
	api_text(reply, status,
		"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
		"\"message\":\"%s\",\"reason\":\"%s\",\"code\":%d}\n",
		message, reason, status);
}

/* ---- sockets ---- */

static bool send_all(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		text += n;
		len -= (size_t)n;
	}
	return true;
}

static bool send_chunk(int fd, const char *text)
{
	char head[32];
	size_t len = strlen(text);

	if (len == 0)
		return true; /* an empty chunk would be the end */
	(void)snprintf(head, sizeof(head), "%zx\r\n", len);
	return send_all(fd, head, strlen(head)) && send_all(fd, text, len) &&
	       send_all(fd, "\r\n", 2);
}

/* The value of a header line, malloc'ed; "" when there is none. */
static char *header_of(const char *head, const char *name)
{
	const char *at = strcasestr(head, name);

	if (!at)
		return some(strdup(""));
	at += strlen(name);
	return some(strndup(at, strcspn(at, "\r\n")));
}

static void request_free(struct api_request *r)
{
	free(r->method);
	free(r->path);
	free(r->token);
	free(r->content_type);
	free(r->body);
	free(r);
}

static struct api_request *parse(const char *head, const char *body, size_t len)
{
	struct api_request *r = some(calloc(1, sizeof(*r)));
	size_t method = strcspn(head, " ");
	const char *path = head + method + (head[method] == ' ');

	r->method = some(strndup(head, method));
	r->path = some(strndup(path, strcspn(path, " \r\n")));
	r->token = header_of(head, "\r\nAuthorization: Bearer ");
	r->content_type = header_of(head, "\r\nContent-Type: ");
	r->body = some(calloc(1, len + PAD));
	memcpy(r->body, body, len);
	r->body_len = len;
	return r;
}

/* Read one request. What comes behind it on the connection is not expected: clients wait for the answer. NULL at the end. */
static struct api_request *read_request(int fd)
{
	size_t cap = 65536, len = 0, want;
	char *text = some(malloc(cap));
	struct api_request *r = NULL;

	for (;;) {
		ssize_t n;
		char *end, *length;

		if (len + 1 == cap)
			text = some(realloc(text, cap *= 2));
		n = recv(fd, text + len, cap - 1 - len, 0);
		if (n <= 0)
			break;
		len += (size_t)n;
		text[len] = '\0';
		end = strstr(text, "\r\n\r\n");
		if (!end)
			continue;
		length = strcasestr(text, "\r\nContent-Length:");
		want = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
		if (len - (size_t)(end + 4 - text) < want)
			continue;
		end[2] = '\0';
		r = parse(text, end + 4, want);
		break;
	}
	free(text);
	return r;
}

/* ---- answers ---- */

static void answer_of(struct api *a, const struct api_request *req, struct api_reply *reply)
{
	bool found = false;

	pthread_mutex_lock(&a->lock);
	must(a->nseen < SEEN_MAX, "too many requests");
	for (size_t i = 0; i < a->scripts && !found; i++) {
		struct script *s = &a->script[i];

		if (s->used || !fits(s->method, req->method) || !fits(s->path, req->path))
			continue;
		s->used = found = true;
		*reply = s->reply;
		s->reply.body = NULL;
	}
	pthread_mutex_unlock(&a->lock);
	if (!found && a->handle) {
		pthread_mutex_lock(&a->handling);
		found = a->handle(a->ctx, req, reply) == 0;
		pthread_mutex_unlock(&a->handling);
	}
	if (!found) {
		free(reply->body);
		*reply = (struct api_reply){0};
		api_status(reply, 404, "NotFound", "nothing is scripted for this");
	}
}

/* False: the connection is over. */
static bool send_reply(struct connection *c, const struct api_request *req, struct api_reply *reply)
{
	struct api *a = c->api;
	const char *body = reply->body ? reply->body : "";
	char head[4096];
	bool ok;

	if (reply->delay_ms)
		api_nap(reply->delay_ms);
	if (reply->cut && !reply->stream)
		return false;
	(void)snprintf(head, sizeof(head),
		"HTTP/1.1 %d Word\r\nContent-Type: application/json\r\n%s",
		reply->status ? reply->status : 200, reply->header ? reply->header : "");
	if (!reply->stream) {
		size_t len = strlen(body);

		(void)snprintf(head + strlen(head), sizeof(head) - strlen(head),
			"Content-Length: %zu\r\n\r\n", len);
		ok = send_all(c->fd, head, strlen(head)) &&
		     send_all(c->fd, body, reply->half ? len / 2 : len);
		return ok && !reply->half;
	}
	(void)snprintf(head + strlen(head), sizeof(head) - strlen(head),
		"Transfer-Encoding: chunked\r\n\r\n");
	pthread_mutex_lock(&a->lock);
	ok = send_all(c->fd, head, strlen(head)) && send_chunk(c->fd, body);
	if (ok && !reply->cut) {
		c->streaming = true;
		(void)snprintf(c->path, sizeof(c->path), "%s", req->path);
	}
	pthread_mutex_unlock(&a->lock);
	return ok && !reply->cut;
}

static void *serve(void *arg)
{
	struct connection *c = arg;
	struct api *a = c->api;
	struct api_request *req;
	bool go_on = true;

	while (go_on && (req = read_request(c->fd))) {
		struct api_reply reply = {0};

		answer_of(a, req, &reply);
		/* Seen only now, so that whoever waits for it finds what it changed. */
		pthread_mutex_lock(&a->lock);
		a->seen[a->nseen++] = req;
		pthread_mutex_unlock(&a->lock);
		go_on = send_reply(c, req, &reply);
		free(reply.body);
	}
	pthread_mutex_lock(&a->lock);
	close(c->fd);
	c->fd = -1;
	c->streaming = false;
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

/* ---- the server ---- */

static void take(struct api *a, int fd)
{
	int one = 1;
	struct connection *c = NULL;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < CONNECTIONS && !c; i++)
		if (a->connection[i].fd < 0)
			c = &a->connection[i];
	must(c != NULL, "too many connections");
	if (c->started)
		(void)pthread_join(c->thread, NULL); /* it has closed its socket and ends */
	c->api = a;
	c->fd = fd;
	c->streaming = false;
	c->started = true;
	must(pthread_create(&c->thread, NULL, serve, c) == 0, "thread");
	pthread_mutex_unlock(&a->lock);
}

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
		take(a, fd);
	}
}

void api_up(struct api *a)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)a->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(addr);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0, "socket");
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	must(bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0, "bind");
	must(listen(fd, 128) == 0, "listen");
	must(getsockname(fd, (struct sockaddr *)&addr, &len) == 0, "getsockname");
	if (a->port == 0) { /* else others may be reading them */
		a->port = ntohs(addr.sin_port);
		(void)snprintf(a->url, sizeof(a->url), "http://127.0.0.1:%d", a->port);
	}
	pthread_mutex_lock(&a->lock);
	a->listener = fd;
	pthread_mutex_unlock(&a->lock);
	must(pthread_create(&a->acceptor, NULL, accept_all, a) == 0, "thread");
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
	for (size_t i = 0; i < CONNECTIONS; i++)
		if (a->connection[i].fd >= 0)
			(void)shutdown(a->connection[i].fd, SHUT_RDWR);
	pthread_mutex_unlock(&a->lock);
	for (size_t i = 0; i < CONNECTIONS; i++) {
		if (a->connection[i].started)
			(void)pthread_join(a->connection[i].thread, NULL);
		a->connection[i].started = false;
	}
}

struct api *api_start(api_handle *handle, void *ctx)
{
	struct api *a = some(calloc(1, sizeof(*a)));

	a->handle = handle;
	a->ctx = ctx;
	a->listener = -1;
	for (size_t i = 0; i < CONNECTIONS; i++)
		a->connection[i].fd = -1;
	must(pthread_mutex_init(&a->handling, NULL) == 0, "mutex");
	must(pthread_mutex_init(&a->lock, NULL) == 0, "mutex");
	api_up(a);
	return a;
}

void api_stop(struct api *a)
{
	if (!a)
		return;
	api_down(a);
	for (size_t i = 0; i < a->nseen; i++)
		request_free(a->seen[i]);
	for (size_t i = 0; i < a->scripts; i++) {
		free(a->script[i].method);
		free(a->script[i].path);
		free(a->script[i].reply.body);
	}
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
	must(a->scripts < SCRIPTS_MAX, "too many scripts");
	s = &a->script[a->scripts++];
	s->method = some(strdup(method));
	s->path = some(strdup(path));
	s->reply = *reply;
	pthread_mutex_unlock(&a->lock);
}

void api_expect(struct api *a, const char *method, const char *path, int status, const char *body)
{
	struct api_reply reply = {.status = status, .body = some(strdup(body ? body : ""))};

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

		if (c->fd < 0 || !c->streaming || !fits(path, c->path))
			continue;
		n++;
		if (act == PUSH)
			(void)send_chunk(c->fd, text);
		if (act == END)
			(void)send_all(c->fd, "0\r\n\r\n", 5);
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
		n += fits(method, a->seen[i]->method) && fits(path, a->seen[i]->path);
	pthread_mutex_unlock(&a->lock);
	return n;
}

const struct api_request *api_last(struct api *a, const char *method, const char *path)
{
	const struct api_request *r = NULL;

	pthread_mutex_lock(&a->lock);
	for (size_t i = a->nseen; i-- > 0 && !r;)
		if (fits(method, a->seen[i]->method) && fits(path, a->seen[i]->path))
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

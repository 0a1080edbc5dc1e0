/* SPDX-License-Identifier: Apache-2.0 */
/* test: the connections of api_fixture: a thread for each reads requests, finds their answers and
 * sends these. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strcasestr */
#endif
#include "test/unit/api_fixture_impl.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/thread.h"

#define PAD 16
/* Not at once: whoever waits for too short a time hears nothing. */
#define MOMENT_MS 3

/* ---- sockets ---- */

bool api_send_all(int fd, const char *text, size_t len)
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

bool api_send_chunk(int fd, const char *text)
{
	char head[32];
	size_t len = strlen(text);

	if (len == 0)
		return true; /* an empty chunk would be the end */
	(void)snprintf(head, sizeof(head), "%zx\r\n", len);
	return api_send_all(fd, head, strlen(head)) && api_send_all(fd, text, len) &&
	       api_send_all(fd, "\r\n", 2);
}

/* The value of a header line, malloc'ed; "" when there is none. */
static char *header_of(const char *head, const char *name)
{
	const char *at = strcasestr(head, name);

	if (!at)
		return api_some(strdup(""));
	at += strlen(name);
	return api_some(strndup(at, strcspn(at, "\r\n")));
}

void api_request_free(struct api_request *r)
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
	struct api_request *r = api_some(calloc(1, sizeof(*r)));
	size_t method = strcspn(head, " ");
	const char *path = head + method + (head[method] == ' ');

	r->method = api_some(strndup(head, method));
	r->path = api_some(strndup(path, strcspn(path, " \r\n")));
	r->token = header_of(head, "\r\nAuthorization: Bearer ");
	r->content_type = header_of(head, "\r\nContent-Type: ");
	r->body = api_some(calloc(1, len + PAD));
	memcpy(r->body, body, len);
	r->body_len = len;
	return r;
}

/* Read one request. What comes behind it on the connection is not expected: clients wait for the
 * answer. NULL at the end. */
static struct api_request *read_request(int fd)
{
	size_t cap = 65536, len = 0, want;
	char *text = api_some(malloc(cap));
	struct api_request *r = NULL;

	for (;;) {
		ssize_t n;
		char *end, *length;

		if (len + 1 == cap)
			text = api_some(realloc(text, cap *= 2));
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
	api_must(a->nseen < SEEN_MAX, "too many requests");
	for (size_t i = 0; i < a->scripts && !found; i++) {
		struct script *s = &a->script[i];

		if (s->used || !api_fits(s->method, req->method) || !api_fits(s->path, req->path))
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

/* So long, or until api_let_go(). */
static void hold(struct connection *c, int ms)
{
	struct api *a = c->api;
	int64_t until_ms = api_now_ms() + ms;

	pthread_mutex_lock(&a->lock);
	while (c->held && thread_wait_until(&a->let_go, &a->lock, until_ms) == 0)
		;
	c->held = NULL;
	pthread_mutex_unlock(&a->lock);
}

/* False: the connection is over. */
static bool send_reply(struct connection *c, const struct api_request *req, struct api_reply *reply)
{
	struct api *a = c->api;
	const char *body = reply->body ? reply->body : "";
	char head[4096];
	bool ok;

	if (reply->delay_ms == 0)
		api_nap(MOMENT_MS);
	else if (reply->delay_ms > 0)
		hold(c, reply->delay_ms);
	if (reply->cut && !reply->stream)
		return false;
	(void)snprintf(head, sizeof(head),
		"HTTP/1.1 %d Word\r\nContent-Type: application/json\r\n%s",
		reply->status ? reply->status : 200, reply->header ? reply->header : "");
	if (!reply->stream) {
		size_t len = strlen(body);

		(void)snprintf(head + strlen(head), sizeof(head) - strlen(head),
			"Content-Length: %zu\r\n\r\n", len);
		ok = api_send_all(c->fd, head, strlen(head)) &&
		     api_send_all(c->fd, body, reply->half ? len / 2 : len);
		return ok && !reply->half;
	}
	(void)snprintf(head + strlen(head), sizeof(head) - strlen(head),
		"Transfer-Encoding: chunked\r\n\r\n");
	pthread_mutex_lock(&a->lock);
	ok = api_send_all(c->fd, head, strlen(head)) && api_send_chunk(c->fd, body);
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
		c->held = reply.delay_ms > 0 ? req : NULL;
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

void api_take(struct api *a, int fd)
{
	int one = 1;
	struct connection *c = NULL;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < CONNECTIONS && !c; i++)
		if (a->connection[i].fd < 0)
			c = &a->connection[i];
	api_must(c != NULL, "too many connections");
	if (c->started)
		(void)pthread_join(c->thread, NULL); /* it has closed its socket and ends */
	c->api = a;
	c->fd = fd;
	c->streaming = false;
	c->started = true;
	api_must(pthread_create(&c->thread, NULL, serve, c) == 0, "thread");
	pthread_mutex_unlock(&a->lock);
}

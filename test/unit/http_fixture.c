/* SPDX-License-Identifier: Apache-2.0 */
/* test: a server on 127.0.0.1 with an application that counts, and raw clients for it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strcasestr */
#endif
#include "test/unit/http_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

#include "test/unit/test.h"

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	abort();
}

void nap_ms(int ms)
{
	struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
	(void)nanosleep(&t, NULL);
}

static void echo(struct http_request *req, struct http_reply *reply)
{
	reply->status = 200;
	reply->content_type = "application/json";
	for (int i = 0; req->body && i < HTTP_BODY_PAD; i++)
		must(req->body[req->body_len + (size_t)i] == 0, "padding");
	reply->body = malloc(req->body_len + 1);
	must(reply->body != NULL, "malloc");
	if (req->body_len)
		memcpy(reply->body, req->body, req->body_len);
	reply->body_len = req->body_len;
}

static void note(struct fixture *f, struct http_request *req)
{
	atomic_fetch_add(&f->handled, 1);
	req->user = strdup("user");
	const char *arg = http_request_arg(req, "name");
	pthread_mutex_lock(&f->lock);
	(void)snprintf(f->seen, sizeof(f->seen), "%s|%s|%s|%d", req->path, arg ? arg : "-",
		req->peer, (int)(req->deadline_ms - req->received_ms));
	pthread_mutex_unlock(&f->lock);
}

static enum http_outcome handle_echo(void *ctx, struct http_request *req, struct http_reply *reply)
{
	note(ctx, req);
	echo(req, reply);
	reply->header[0] = (struct http_header){"X-Test", "yes"};
	return HTTP_DONE;
}

static enum http_outcome handle_later(void *ctx, struct http_request *req, struct http_reply *reply)
{
	(void)reply;
	note(ctx, req);
	return HTTP_LATER;
}

static enum http_outcome slow_later(void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct fixture *f = ctx;
	atomic_fetch_add(&f->slow, 1);
	for (int i = 0; i < 1000 && !atomic_load(&f->gate); i++)
		nap_ms(5);
	must(strcmp(req->path, "/later") == 0 && !http_request_arg(req, "name"),
		"request in slow()");
	echo(req, reply);
	return HTTP_DONE;
}

static enum http_outcome handle_nothing(
	void *ctx, struct http_request *req, struct http_reply *reply)
{
	(void)reply;
	note(ctx, req);
	return HTTP_DONE; /* an empty reply is the application's bug: 500 */
}

static enum http_outcome handle_large(void *ctx, struct http_request *req, struct http_reply *reply)
{
	note(ctx, req);
	reply->status = 200;
	reply->content_type = "application/json";
	reply->body = calloc(1, FIXTURE_LARGE);
	must(reply->body != NULL, "calloc");
	reply->body_len = FIXTURE_LARGE;
	return HTTP_DONE;
}

static const struct http_route routes[] = {
	{"/echo", HTTP_POST, false, "application/json", handle_echo, NULL, 1, false},
	{"/later", HTTP_POST, false, "application/json", handle_later, slow_later, 2, false},
	{"/noslow", HTTP_POST, false, NULL, handle_later, NULL, 3, false},
	{"/nothing", HTTP_GET, false, NULL, handle_nothing, NULL, 4, false},
	{"/livez", HTTP_GET, false, NULL, handle_echo, NULL, 5, false},
	{"/livez", HTTP_DELETE, false, NULL, handle_echo, NULL, 6, false},
	{"/open", HTTP_GET, false, NULL, handle_echo, NULL, 8, true},
	{"/large", HTTP_GET, false, NULL, handle_large, NULL, 9, false},
	{"/v1/", HTTP_GET, true, NULL, handle_echo, NULL, 7, false},
};

static void on_queued(void *ctx, struct http_request *req, bool queued)
{
	struct fixture *f = ctx;
	atomic_store(&f->status, (int)req->status);
	atomic_fetch_add(queued ? &f->queued : &f->undone, 1);
}

static void on_done(void *ctx, struct http_request *req)
{
	struct fixture *f = ctx;
	free(req->user);
	atomic_fetch_add(&f->done, 1);
}

static void on_log(void *ctx, const char *msg)
{
	struct fixture *f = ctx;
	atomic_fetch_add(&f->logged, 1);
	pthread_mutex_lock(&f->lock);
	(void)snprintf(f->last_log, sizeof(f->last_log), "%s", msg);
	pthread_mutex_unlock(&f->lock);
}

void fixture_start(struct fixture *f, struct http_config cfg)
{
	struct err err = {0};
	struct http_app app = {
		routes, sizeof(routes) / sizeof(routes[0]), f, on_queued, on_done, on_log};
	memset(f, 0, sizeof(*f));
	must(pthread_mutex_init(&f->lock, NULL) == 0, "mutex");
	if (!cfg.listen)
		cfg.listen = "127.0.0.1:0";
	int rc = http_server_start(&cfg, &app, &f->server, &err);
	if (rc != 0)
		(void)fprintf(stderr, "%s\n", err.msg);
	must(rc == 0, "http_server_start");
}

bool fixture_stop(struct fixture *f, unsigned timeout_ms)
{
	if (!f->server)
		return true;
	bool clean = http_server_stop(f->server, timeout_ms);
	f->server = NULL;
	(void)pthread_mutex_destroy(&f->lock);
	return clean;
}

bool fixture_wait(atomic_int *counter, int value)
{
	for (int i = 0; i < 600; i++) {
		if (atomic_load(counter) >= value)
			return true;
		nap_ms(5);
	}
	return false;
}

bool fixture_idle(struct fixture *f)
{
	struct http_stats st = {0};
	for (int i = 0; i < 600; i++) {
		http_server_stats(f->server, &st);
		if (st.connections == 0 && st.in_flight == 0 && st.deferred == 0)
			return true;
		nap_ms(5);
	}
	return false;
}

bool fixture_saw(struct fixture *f, const char *text)
{
	pthread_mutex_lock(&f->lock);
	bool saw = strstr(f->seen, text) != NULL;
	pthread_mutex_unlock(&f->lock);
	return saw;
}

int client_open(const struct fixture *f)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_port = htons(http_server_port(f->server)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(fd >= 0, "socket");
	must(connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0, "connect");
	return fd;
}

void client_send(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);
		if (n <= 0)
			return; /* the server has closed; the test looks at its reply */
		text += n;
		len -= (size_t)n;
	}
}

void client_text(int fd, const char *text)
{
	client_send(fd, text, strlen(text));
}

void client_post(int fd, const char *path, const char *body, size_t len)
{
	char head[512];
	(void)snprintf(head, sizeof(head),
		"POST %s HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: "
		"%zu\r\n\r\n",
		path, len);
	client_text(fd, head);
	client_send(fd, body, len);
}

/* Is the reply in ret complete? */
static bool complete(const char *ret, size_t len, bool head)
{
	const char *end = strstr(ret, "\r\n\r\n");
	if (!end)
		return false;
	const char *cl = strcasestr(ret, "\r\nContent-Length:");
	size_t body = cl && cl < end && !head ? strtoul(cl + 17, NULL, 10) : 0;
	return len >= (size_t)(end + 4 - ret) + body;
}

int client_read(int fd, char *ret, size_t size, int timeout_ms, bool head)
{
	size_t len = 0;
	int64_t until = http_now_ms() + timeout_ms;
	ret[0] = '\0';
	while (len + 1 < size && !complete(ret, len, head)) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t left = until - http_now_ms();
		if (left <= 0 || poll(&p, 1, (int)left) == 0)
			return -1;
		ssize_t n = recv(fd, ret + len, size - 1 - len, 0);
		if (n <= 0)
			return 0;
		len += (size_t)n;
		ret[len] = '\0';
	}
	return (int)strtol(ret + 9, NULL, 10);
}

char client_reply[262144];

void client_gets(int fd, int status)
{
	int got = client_read(fd, client_reply, sizeof(client_reply), 2000, false);
	if (got != status)
		fail_msg("status %d, expected %d: %.400s", got, status, client_reply);
}

void client_posts(int fd, const char *path, const char *body, size_t len, int status)
{
	client_post(fd, path, body, len);
	client_gets(fd, status);
}

bool client_closed(int fd, int timeout_ms)
{
	char junk[4096];
	int64_t until = http_now_ms() + timeout_ms;
	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int64_t left = until - http_now_ms();
		if (left <= 0 || poll(&p, 1, (int)left) == 0)
			return false;
		if (recv(fd, junk, sizeof(junk), 0) <= 0)
			return true;
	}
}

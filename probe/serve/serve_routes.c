/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what `gpuprobe serve` answers. */
#define _GNU_SOURCE
#include "probe/serve/serve_routes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/metric.h"
#include "base/text.h"

#define TOKEN_MAX 4096

void serve_shared_init(struct serve_shared *s, struct log *log)
{
	*s = (struct serve_shared){.lock = PTHREAD_MUTEX_INITIALIZER, .log = log};
	buf_init(&s->report, SERVE_BYTES_MAX);
	buf_init(&s->token, TOKEN_MAX);
}

void serve_transport(void *ctx, const char *msg)
{
	struct serve_shared *s = ctx;

	log_line(s->log, LOG_LEVEL_INFO, "transport", log_str("message", msg));
}

/* ---- the token ---- */

int serve_read_token(struct serve_shared *s, const char *file, struct err *err)
{
	char text[TOKEN_MAX];
	ssize_t n;
	int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;

	if (!file)
		return 0;
	if (fd < 0)
		return err_set(err, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "%s: %s", file,
			strerrordesc_np(errno));
	n = read(fd, text, sizeof(text));
	if (n < 0)
		(void)err_set(err, ERR_IO, "%s: %s", file, strerrordesc_np(errno));
	(void)close(fd);
	if (n < 0)
		return ERR_IO;
	while (n > 0 && strchr(" \t\r\n", text[n - 1]))
		n--;
	if (n < 8 || (size_t)n >= sizeof(text) - 1 || memchr(text, '\n', (size_t)n))
		return err_set(err, ERR_INVALID,
			"%s: expected one line with a token of 8 to %d bytes", file, TOKEN_MAX - 2);
	(void)pthread_mutex_lock(&s->lock);
	buf_clear(&s->token);
	buf_add(&s->token, text, (size_t)n);
	(void)pthread_mutex_unlock(&s->lock);
	explicit_bzero(text, sizeof(text));
	return s->token.failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

/* As long as the token, whatever was sent. */
static bool same_token(struct slice token, const char *sent)
{
	size_t len = strlen(sent);
	unsigned differ = len != token.len;

	for (size_t i = 0; i < token.len; i++)
		differ |= (unsigned char)token.at[i] ^ (unsigned char)(i < len ? sent[i] : 0);
	return differ == 0;
}

/* True: it may ask. Else the reply says so. */
static bool is_allowed(
	struct serve_shared *s, const struct http_request *req, struct http_reply *reply)
{
	const char *sent = http_request_header(req, "Authorization");
	bool allowed;

	(void)pthread_mutex_lock(&s->lock);
	allowed = s->token.len == 0 || (sent && strncasecmp(sent, "Bearer ", 7) == 0 &&
					       same_token(buf_as_slice(&s->token), sent + 7));
	(void)pthread_mutex_unlock(&s->lock);
	if (!allowed) {
		http_reply_text(reply, 401, "a bearer token is asked for");
		reply->header[0] = (struct http_header){"WWW-Authenticate", "Bearer"};
	}
	return allowed;
}

/* ---- answers ---- */

static void reply_buf(struct http_reply *reply, struct buf *b, const char *type)
{
	if (b->failed) {
		buf_release(b);
		http_reply_text(reply, 500, "out of memory");
		return;
	}
	reply->status = 200;
	reply->content_type = type;
	reply->body = buf_take(b, &reply->body_len);
}

static enum http_outcome inventory(void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct serve_shared *s = ctx;
	const char *known = http_request_header(req, "If-None-Match");
	struct buf out;

	if (!is_allowed(s, req, reply))
		return HTTP_DONE;
	buf_init(&out, SERVE_BYTES_MAX);
	(void)pthread_mutex_lock(&s->lock);
	fleet_inventory(&s->fleet, clock_wall_s(), &out);
	(void)pthread_mutex_unlock(&s->lock);
	(void)snprintf(s->tag, sizeof(s->tag), "\"%016llx\"",
		(unsigned long long)text_hash64(buf_as_slice(&out)));
	if (known && !out.failed && strcmp(known, s->tag) == 0) {
		buf_release(&out);
		reply->status = 304;
	} else {
		reply_buf(reply, &out, "application/json");
	}
	reply->header[0] = (struct http_header){"ETag", s->tag};
	reply->header[1] = (struct http_header){"Cache-Control", "no-store"};
	return HTTP_DONE;
}

static enum http_outcome report(void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct serve_shared *s = ctx;
	struct buf out;

	if (!is_allowed(s, req, reply))
		return HTTP_DONE;
	buf_init(&out, SERVE_BYTES_MAX);
	(void)pthread_mutex_lock(&s->lock);
	buf_slice(&out, buf_as_slice(&s->report));
	(void)pthread_mutex_unlock(&s->lock);
	if (out.len == 0 && !out.failed) {
		buf_release(&out);
		http_reply_text(reply, 503, "there is no report yet");
	} else {
		reply_buf(reply, &out, "application/json");
	}
	return HTTP_DONE;
}

static enum http_outcome metrics(void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct serve_shared *s = ctx;
	struct buf out;

	if (!is_allowed(s, req, reply))
		return HTTP_DONE;
	buf_init(&out, SERVE_BYTES_MAX);
	(void)pthread_mutex_lock(&s->lock);
	fleet_metrics(&s->fleet, clock_wall_s(), &out);
	(void)pthread_mutex_unlock(&s->lock);
	reply_buf(reply, &out, METRIC_CONTENT_TYPE);
	return HTTP_DONE;
}

static enum http_outcome healthz(void *ctx, struct http_request *req, struct http_reply *reply)
{
	(void)ctx;
	(void)req;
	http_reply_text(reply, 200, "ok");
	return HTTP_DONE;
}

static enum http_outcome readyz(void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct serve_shared *s = ctx;
	const char *why;

	(void)req;
	(void)pthread_mutex_lock(&s->lock);
	why = fleet_unready(&s->fleet, clock_wall_s());
	(void)pthread_mutex_unlock(&s->lock);
	http_reply_text(reply, why ? 503 : 200, why ? why : "ok");
	return HTTP_DONE;
}

const struct http_route serve_routes[] = {
	{.path = "/v1/inventory", .method = HTTP_GET, .handle = inventory},
	{.path = "/v1/report", .method = HTTP_GET, .handle = report},
	{.path = "/metrics", .method = HTTP_GET, .handle = metrics},
	{.path = "/healthz", .method = HTTP_GET, .handle = healthz, .open = true},
	{.path = "/readyz", .method = HTTP_GET, .handle = readyz, .open = true}};
const size_t serve_n_routes = sizeof(serve_routes) / sizeof(serve_routes[0]);

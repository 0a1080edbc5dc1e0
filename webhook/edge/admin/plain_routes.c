/* SPDX-License-Identifier: Apache-2.0 */
/* edge: health, the page and what it draws, the release of claims; metrics by those who write them.
 */
#include "webhook/edge/admin/plain_routes.h"

#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json/json_read.h"
#include "base/text.h"
#include "webhook/edge/admin/admin_guard.h"
#include "webhook/edge/admin/metrics_page.h"
#include "webhook/edge/admin/page.h"
#include "webhook/edge/pool/pool_report.h"

#define METRICS_BYTES_MAX (16u * 1024 * 1024)
#define DECISIONS_BYTES_MAX (1u * 1024 * 1024)
#define POOL_BYTES_MAX (64u * 1024 * 1024)
#define VIEW_ARENA_MAX (256u * 1024 * 1024)
/* {"namespace", "name"}: 253 bytes each. */
#define RELEASE_BYTES_MAX 4096
#define RELEASE_NODES_MAX 32
/* Both numbers of a page go to the worker in one word. */
#define PAGE_BITS 16
#define PAGE_MAX ((1u << PAGE_BITS) - 1)

static enum http_outcome reply_buf(struct http_reply *reply, struct buf *b, const char *type)
{
	if (b->failed) {
		buf_release(b);
		http_reply_text(reply, 500, "out of memory");
		return HTTP_DONE;
	}
	reply->status = 200;
	reply->content_type = type;
	reply->body = buf_take(b, &reply->body_len);
	return HTTP_DONE;
}

void plain_listeners_init(struct plain_listeners *p)
{
	*p = (struct plain_listeners){.lock = PTHREAD_MUTEX_INITIALIZER};
}

void plain_listeners_release(struct plain_listeners *p)
{
	(void)pthread_mutex_destroy(&p->lock);
}

void plain_listeners_show(struct plain_listeners *p, struct http_server *server)
{
	(void)pthread_mutex_lock(&p->lock);
	p->main = server;
	(void)pthread_mutex_unlock(&p->lock);
}

/* The TLS server's numbers. False when there is none. */
static bool transport_stats(struct plain_listeners *p, struct http_stats *ret)
{
	bool there;

	(void)pthread_mutex_lock(&p->lock);
	there = p->main != NULL;
	if (there)
		http_server_stats(p->main, ret);
	(void)pthread_mutex_unlock(&p->lock);
	return there;
}

static enum http_outcome livez(void *ctx, struct http_request *req, struct http_reply *reply)
{
	(void)ctx;
	(void)req;
	http_reply_text(reply, 200, "ok");
	return HTTP_DONE;
}

static enum http_outcome readyz(void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct plain_listeners *p = ctx;
	struct http_stats st;
	struct tls_info info;
	const char *why = NULL;

	(void)req;
	if (atomic_load(&p->draining))
		http_reply_text(reply, 503, "draining: this server is about to end");
	else if (!transport_stats(p, &st) || !tls_identity_info(p->identity, &info))
		http_reply_text(reply, 503, "starting: reviews are not served yet");
	else if (p->unready && (why = p->unready(p->unready_ctx)))
		http_reply_text(reply, 503, why);
	else
		http_reply_text(reply, 200, "ok");
	return HTTP_DONE;
}

static enum http_outcome metrics(void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct plain_listeners *p = ctx;
	struct http_stats st;
	bool serves = transport_stats(p, &st);
	struct buf out;

	(void)req;
	buf_init(&out, METRICS_BYTES_MAX);
	metrics_page(p->metrics, serves ? &st : NULL, p->ledger, p->version, &out);
	return reply_buf(reply, &out, METRIC_CONTENT_TYPE);
}

/* ---- the pool ---- */

/* The page that an argument names, from 1; what is no number is the first. */
static uintptr_t page_arg(const char *arg)
{
	uint64_t n;

	return text_u64(slice_of(arg), PAGE_MAX, &n) && n > 0 ? (uintptr_t)n : 1;
}

static enum http_outcome pool_now(void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct plain_listeners *p = ctx;
	uintptr_t pages = (uintptr_t)req->user;
	struct pool_page page = {.servers = pages >> PAGE_BITS, .claims = pages & PAGE_MAX};
	struct slice waiting = {0};
	struct pool_view view;
	struct err err = {0};
	struct arena a;
	struct buf out;
	int rc;

	req->user = NULL;
	buf_init(&out, POOL_BYTES_MAX);
	arena_init(&a, VIEW_ARENA_MAX);
	/* First what may take a call: the picture of the pool is not to be old. */
	if (p->waiting.tell)
		waiting = p->waiting.tell(p->waiting.ctx, &a);
	rc = p->ledger->ops->view(p->ledger, true, &a, &view, &err);
	if (rc == 0)
		rc = pages ? pool_report_page(&view, waiting, &page, &a, &out, &err)
			   : pool_report_write(&view, waiting, &out, &err);
	arena_release(&a);
	if (rc != 0) {
		buf_release(&out);
		http_reply_text(reply, 500, err.msg);
		return HTTP_DONE;
	}
	return reply_buf(reply, &out, "application/json");
}

/* A worker writes it: a large pool's report takes longer than a review should wait. */
static enum http_outcome pool(void *ctx, struct http_request *req, struct http_reply *reply)
{
	const char *servers = http_request_arg(req, "servers");
	const char *claims = http_request_arg(req, "claims");

	(void)ctx;
	if (!admin_allows(req, reply))
		return HTTP_DONE;
	if (servers || claims)
		req->user = (void *)(page_arg(servers) << PAGE_BITS | page_arg(claims));
	return HTTP_LATER;
}

/* ---- the page, and what this replica decided ---- */

static enum http_outcome page(void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct buf out;
	size_t n = 0;

	(void)ctx;
	if (!admin_allows(req, reply))
		return HTTP_DONE;
	buf_init(&out, page_html_len);
	buf_add(&out, page_html, page_html_len);
	reply->header[n++] = (struct http_header){"Content-Security-Policy", page_policy};
	reply->header[n++] = (struct http_header){"X-Content-Type-Options", "nosniff"};
	reply->header[n++] = (struct http_header){"Referrer-Policy", "no-referrer"};
	reply->header[n] = (struct http_header){"Cache-Control", "no-store"};
	return reply_buf(reply, &out, "text/html; charset=utf-8");
}

static enum http_outcome decisions_now(
	void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct plain_listeners *p = ctx;
	const char *trouble = p->unready ? p->unready(p->unready_ctx) : NULL;
	bool leads = metric_value(p->metrics, M_LEADER, 0, 0) == 1;
	char until[CLOCK_TEXT_SIZE] = "", now[CLOCK_TEXT_SIZE];
	struct tls_info tls;
	struct buf out;

	(void)req;
	if (tls_identity_info(p->identity, &tls))
		(void)clock_text(tls.not_after, until);
	buf_init(&out, DECISIONS_BYTES_MAX);
	buf_str(&out, "{\"version\":");
	buf_json_str(&out, slice_of(p->version));
	buf_fmt(&out,
		",\"leads\":%s,\"certificateUntil\":\"%s\",\"trouble\":", leads ? "true" : "false",
		until);
	buf_json_str(&out, slice_of(trouble));
	buf_str(&out, ",\"decisions\":");
	decisions_write(p->decisions, &out);
	/* Last: nothing in it is younger. */
	buf_fmt(&out, ",\"now\":\"%s\"}\n", clock_text(clock_wall_s(), now));
	return reply_buf(reply, &out, "application/json");
}

static enum http_outcome decisions(void *ctx, struct http_request *req, struct http_reply *reply)
{
	(void)ctx;
	return admin_allows(req, reply) ? HTTP_LATER : HTTP_DONE;
}

/* ---- ends of claims ---- */

static const char release_usage[] = "expected {\"namespace\": \"N\", \"name\": \"P\"} or {\"uid\": "
				    "\"U\"}, strings that are not "
				    "empty";

/* What shall be released, out of the body. False: it is something else. */
static bool read_release(const struct json *j, struct arena *a, struct slice *uid,
	struct slice *namespace, struct slice *name)
{
	const struct json_node *root = json_root(j);
	const struct json_node *n_uid, *n_namespace, *n_name;
	unsigned known = 0;

	if (!json_is(root, JSON_OBJECT))
		return false;
	n_uid = json_get(j, root, SLICE("uid"));
	n_namespace = json_get(j, root, SLICE("namespace"));
	n_name = json_get(j, root, SLICE("name"));
	known += n_uid != NULL;
	known += n_namespace != NULL;
	known += n_name != NULL;
	*uid = json_str(j, n_uid, a);
	*namespace = json_str(j, n_namespace, a);
	*name = json_str(j, n_name, a);
	if (known != root->count)
		return false;
	return n_uid ? known == 1 && uid->len > 0
		     : known == 2 && namespace->len > 0 && name->len > 0;
}

static void release_json(struct plain_listeners *p, const struct json *j, struct http_request *req,
	struct http_reply *reply)
{
	struct slice uid, namespace, name;
	struct err err = {0};
	struct arena a;
	struct buf out;
	size_t n = 0;
	int rc;

	arena_init(&a, RELEASE_BYTES_MAX * 4);
	if (!read_release(j, &a, &uid, &namespace, &name)) {
		arena_release(&a);
		http_reply_text(reply, 400, release_usage);
		return;
	}
	rc = p->ledger->ops->release(p->ledger, uid, namespace, name, &n, &err);
	log_line(p->log, LOG_LEVEL_INFO, "release", log_slice("uid", uid),
		log_slice("namespace", namespace), log_slice("name", name),
		log_int("released", (int64_t)n), log_str("peer", req->peer),
		log_str("error", rc != 0 ? err.msg : NULL));
	arena_release(&a);
	if (rc != 0) {
		http_reply_text(reply, rc == ERR_NOTFOUND ? 404 : 500, err.msg);
		return;
	}
	buf_init(&out, 256);
	buf_fmt(&out, "{\"released\":%zu}\n", n);
	(void)reply_buf(reply, &out, "application/json");
}

static enum http_outcome release_now(void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct json j = {0};
	struct err err = {0};

	if (req->body_len == 0 || req->body_len > RELEASE_BYTES_MAX) {
		http_reply_text(reply, 400, release_usage);
		return HTTP_DONE;
	}
	if (json_read(&j, req->body, req->body_len, RELEASE_NODES_MAX, &err) != 0)
		http_reply_text(reply, 400, err.msg);
	else
		release_json(ctx, &j, req, reply);
	json_release(&j);
	return HTTP_DONE;
}

static enum http_outcome release(void *ctx, struct http_request *req, struct http_reply *reply)
{
	const struct plain_listeners *p = ctx;

	if (!admin_allows(req, reply))
		return HTTP_DONE;
	return p->ledger->may_wait ? HTTP_LATER : release_now(ctx, req, reply);
}

const struct http_route plain_routes[PLAIN_ROUTES] = {
	{.path = "/livez", .method = HTTP_GET, .handle = livez},
	{.path = "/readyz", .method = HTTP_GET, .handle = readyz},
	{.path = "/metrics", .method = HTTP_GET, .handle = metrics},
};

const struct http_route admin_routes[ADMIN_ROUTES] = {
	{.path = "/", .method = HTTP_GET, .handle = page},
	{.path = "/v1/decisions", .method = HTTP_GET, .handle = decisions, .slow = decisions_now},
	{.path = "/v1/pool", .method = HTTP_GET, .handle = pool, .slow = pool_now},
	/* The media type keeps a web page that somebody visits on this machine from posting here.
	 */
	{.path = "/v1/release",
		.method = HTTP_POST,
		.content_type = "application/json",
		.handle = release,
		.slow = release_now},
};

// SPDX-License-Identifier: Apache-2.0
// edge: health, metrics, the pool and the release of claims.
#include "webhook/edge/plain_routes.h"

#include <stddef.h>
#include <string.h>

#include "base/buf.h"
#include "base/json_read.h"
#include "webhook/edge/metrics.h"
#include "webhook/edge/pool_report.h"

#define METRICS_BYTES_MAX (16u * 1024 * 1024)
#define POOL_BYTES_MAX (64u * 1024 * 1024)
#define VIEW_ARENA_MAX (256u * 1024 * 1024)
/* {"namespace", "name"}: 253 bytes each. */
#define RELEASE_BYTES_MAX 4096
#define RELEASE_NODES_MAX 32

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

void plain_init(struct plain *p)
{
	*p = (struct plain){.lock = PTHREAD_MUTEX_INITIALIZER};
}

void plain_release(struct plain *p)
{
	(void)pthread_mutex_destroy(&p->lock);
}

void plain_show(struct plain *p, struct http_server *server)
{
	(void)pthread_mutex_lock(&p->lock);
	p->main = server;
	(void)pthread_mutex_unlock(&p->lock);
}

/* The TLS server's numbers. False when there is none. */
static bool transport_stats(struct plain *p, struct http_stats *ret)
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
	struct plain *p = ctx;
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

/* ---- metrics ---- */

static void add_transport(struct buf *out, const struct http_stats *st)
{
	static const char *const classes[] = {"", "1xx", "2xx", "3xx", "4xx", "5xx"};

	metric_head(out, "poolgate_http_connections", "Open TLS connections.", METRIC_GAUGE);
	metric_sample(out, "poolgate_http_connections", NULL, 0, st->connections, 1);
	metric_head(out, "poolgate_http_in_flight", "Requests being answered.", METRIC_GAUGE);
	metric_sample(out, "poolgate_http_in_flight", NULL, 0, st->in_flight, 1);
	metric_head(
		out, "poolgate_http_accepted_total", "TLS connections accepted.", METRIC_COUNTER);
	metric_sample(out, "poolgate_http_accepted_total", NULL, 0, (int64_t)st->accepted, 1);
	metric_head(
		out, "poolgate_http_replies_total", "Replies by class of status.", METRIC_COUNTER);
	for (size_t i = 2; i < sizeof(classes) / sizeof(classes[0]); i++) {
		struct slice labels[] = {SLICE("class"), slice_of(classes[i])};

		metric_sample(
			out, "poolgate_http_replies_total", labels, 2, (int64_t)st->replies[i], 1);
	}
	metric_head(out, "poolgate_http_timed_out_total",
		"Connections cut because headers, body or reply took too long.", METRIC_COUNTER);
	metric_sample(out, "poolgate_http_timed_out_total", NULL, 0, (int64_t)st->timed_out, 1);
	metric_head(out, "poolgate_http_deadlines_total",
		"Requests answered 500 because their time was over.", METRIC_COUNTER);
	metric_sample(out, "poolgate_http_deadlines_total", NULL, 0, (int64_t)st->deadlines, 1);
}

/* Sums over one server's GPUs. */
struct server_sums {
	int64_t fit, bytes, claimed, pending, claims;
};

static struct server_sums sum_up(const struct pool_view *v, size_t index)
{
	const struct gpu_server *s = &v->inventory.servers[index];
	struct server_sums sums = {.claims = v->usage.n_claims[index]};

	for (size_t g = 0; g < s->n_gpus; g++) {
		sums.fit += inventory_usable(s, &s->gpus[g]);
		sums.bytes += (int64_t)s->gpus[g].bytes;
		sums.claimed += (int64_t)v->usage.claimed[s->first_gpu + g];
		sums.pending += (int64_t)v->usage.pending[s->first_gpu + g];
	}
	return sums;
}

static void add_pool(struct buf *out, const struct pool_view *v)
{
	static const struct {
		const char *name, *help;
		size_t at;
	} rows[] = {
		{"poolgate_pool_gpus_usable", "GPUs that can take a claim.",
			offsetof(struct server_sums, fit)},
		{"poolgate_pool_memory_bytes", "Memory of all GPUs.",
			offsetof(struct server_sums, bytes)},
		{"poolgate_pool_claimed_bytes", "Memory that is promised to pods.",
			offsetof(struct server_sums, claimed)},
		{"poolgate_pool_pending_bytes",
			"Memory of it that is promised to pods admitted less than 45 s ago.",
			offsetof(struct server_sums, pending)},
		{"poolgate_pool_claims", "Claims.", offsetof(struct server_sums, claims)},
	};

	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		metric_head(out, rows[r].name, rows[r].help, METRIC_GAUGE);
		for (size_t i = 0; i < v->inventory.n_servers; i++) {
			struct slice labels[] = {
				SLICE("server"), slice_of(v->inventory.servers[i].name)};
			struct server_sums sums = sum_up(v, i);
			int64_t value;

			memcpy(&value, (const char *)&sums + rows[r].at, sizeof(value));
			metric_sample(out, rows[r].name, labels, 2, value, 1);
		}
	}
}

static enum http_outcome metrics(void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct plain *p = ctx;
	struct http_stats st;
	struct pool_view view;
	struct err err = {0};
	struct arena a;
	struct buf out;

	(void)req;
	buf_init(&out, METRICS_BYTES_MAX);
	arena_init(&a, VIEW_ARENA_MAX);
	metrics_render(p->metrics, &out);
	if (transport_stats(p, &st))
		add_transport(&out, &st);
	if (p->ledger->ops->view(p->ledger, false, &a, &view, &err) == 0)
		add_pool(&out, &view);
	arena_release(&a);
	return reply_buf(reply, &out, METRIC_CONTENT_TYPE);
}

/* ---- the pool ---- */

static enum http_outcome pool_now(void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct plain *p = ctx;
	struct pool_view view;
	struct err err = {0};
	struct arena a;
	struct buf out;
	int rc;

	(void)req;
	buf_init(&out, POOL_BYTES_MAX);
	arena_init(&a, VIEW_ARENA_MAX);
	rc = p->ledger->ops->view(p->ledger, true, &a, &view, &err);
	if (rc == 0)
		rc = pool_report_write(&view, &out, &err);
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
	(void)ctx;
	(void)req;
	(void)reply;
	return HTTP_LATER;
}

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

static void release_json(
	struct plain *p, const struct json *j, struct http_request *req, struct http_reply *reply)
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
	const struct plain *p = ctx;

	return p->ledger->may_wait ? HTTP_LATER : release_now(ctx, req, reply);
}

const struct http_route plain_routes[PLAIN_ROUTES] = {
	{.path = "/livez", .method = HTTP_GET, .handle = livez},
	{.path = "/readyz", .method = HTTP_GET, .handle = readyz},
	{.path = "/metrics", .method = HTTP_GET, .handle = metrics},
};

const struct http_route admin_routes[ADMIN_ROUTES] = {
	{.path = "/v1/pool", .method = HTTP_GET, .handle = pool, .slow = pool_now},
	/* The media type keeps a web page that somebody visits on this machine from posting here. */
	{.path = "/v1/release",
		.method = HTTP_POST,
		.content_type = "application/json",
		.handle = release,
		.slow = release_now},
};

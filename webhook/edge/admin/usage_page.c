/* SPDX-License-Identifier: Apache-2.0 */
/* edge: who may read usage, and usage as metrics. */
#include "webhook/edge/admin/usage_page.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/metric.h"
#include "base/text.h"

#define PAGE_BYTES_MAX (16u * 1024 * 1024)
/* Tokens of accounts have about a kilobyte; headers end at 24. */
#define TOKEN_MAX 16384

/* A request that goes to a worker. */
struct asked {
	enum reader word;
	char peer[sizeof((struct http_request){0}.peer)];
	size_t len;
	char token[];
};

/* ---- metrics ---- */

#define BYTE_SECONDS "poolgate_usage_promised_byte_seconds_total"
#define GPU_SECONDS "poolgate_usage_promised_gpu_seconds_total"
#define USED "poolgate_usage_used_byte_seconds_total"
#define KNOWN "poolgate_usage_known_byte_seconds_total"
#define POOL "poolgate_usage_pool_byte_seconds_total"

/* The others have none. */
static struct slice label(const char *text)
{
	return slice_of(text ? text : USAGE_OTHERS);
}

static void add_total(struct buf *out, const char *name, const struct usage_total *t, usage_sum n)
{
	const struct slice labels[] = {SLICE("namespace"), label(t->namespace), SLICE("policy"),
		label(t->policy), SLICE("model"), label(t->model)};
	char text[USAGE_SUM_SIZE];

	usage_sum_write(n, text);
	metric_sample_text(out, name, labels, sizeof(labels) / sizeof(labels[0]), text);
}

/* A sum of rows, at that offset. */
static void add_totals(struct buf *out, const char *name, const char *help,
	const struct usage_totals *t, size_t at)
{
	metric_head(out, name, help, METRIC_COUNTER);
	for (size_t i = 0; i <= t->n; i++) {
		const struct usage_total *total = i < t->n ? &t->at[i] : &t->others;
		usage_sum n;

		memcpy(&n, (const char *)&total->sum + at, sizeof(n));
		add_total(out, name, total, n);
	}
}

static void add_pool(struct buf *out, const char *state, usage_sum n)
{
	const struct slice labels[] = {SLICE("state"), slice_of(state)};
	char text[USAGE_SUM_SIZE];

	usage_sum_write(n, text);
	metric_sample_text(out, POOL, labels, sizeof(labels) / sizeof(labels[0]), text);
}

void usage_totals_write(const struct usage_totals *t, struct buf *out)
{
	add_totals(out, BYTE_SECONDS,
		"Bytes of GPUs times the seconds for which claims held them, since this replica "
		"looks.",
		t, offsetof(struct usage_row, byte_s));
	add_totals(out, GPU_SECONDS,
		"Seconds for which claims held GPUs, each whole, be it that a part was held.", t,
		offsetof(struct usage_row, gpu_s));
	add_totals(out, USED,
		"Bytes of GPUs times the seconds for which programs used them, where a gate told.",
		t, offsetof(struct usage_row, used));
	add_totals(out, KNOWN,
		"Of the promised byte-seconds, those of which it is known what was used.", t,
		offsetof(struct usage_row, known));
	metric_head(out, POOL,
		"What the pool had; what nobody held of it, on GPUs that took claims (free) and "
		"on others (unfit); what claims held beyond it (over).",
		METRIC_COUNTER);
	add_pool(out, "capacity", t->capacity);
	add_pool(out, "free", t->free);
	add_pool(out, "unfit", t->unfit);
	add_pool(out, "over", t->over);
}

/* ---- who may ---- */

/* A b64token of RFC 6750, as all tokens are that anybody gives. */
static bool is_token(struct slice s)
{
	size_t n = 0;

	while (s.len && s.at[s.len - 1] == '=')
		s.len--;
	while (n < s.len && (text_is_alnum(s.at[n]) || strchr("-._~+/", s.at[n])))
		n++;
	return s.len && n == s.len;
}

/* The token in the header; absent: there is none. */
static struct slice bearer_of(const struct http_request *req)
{
	const char *header = http_request_header(req, "Authorization");
	struct slice rest = slice_of(header), scheme, token;

	if (!header || !text_word(&rest, &scheme) || !text_ieq(scheme, SLICE("Bearer")) ||
		!text_word(&rest, &token) || token.len > TOKEN_MAX || !is_token(token))
		return (struct slice){0};
	return token;
}

static enum http_outcome refuse(struct http_reply *reply, enum reader word)
{
	static const struct {
		unsigned status;
		const char *says;
	} words[] = {
		[READER_NOBODY] = {401,
			"expected Authorization: Bearer with a token that the API server knows"},
		[READER_NO] = {403, "this account may not get " USAGE_PAGE_PATH
				    ": bind the ClusterRole poolgate-usage-metrics-reader to it"},
		[READER_AWAY] = {503, "the API server cannot be asked about the token now"},
		[READER_TRIES] = {429, "too many tokens of this address were not let in"},
	};

	http_reply_text(reply, words[word].status, words[word].says);
	if (word == READER_NOBODY)
		reply->header[0] = (struct http_header){"WWW-Authenticate", "Bearer"};
	return HTTP_DONE;
}

static enum http_outcome look(void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct usage_page *p = ctx;
	struct slice token = bearer_of(req);
	enum reader word =
		token.at ? readers_look(p->readers, token, req->peer, clock_ms()) : READER_NOBODY;
	struct asked *asked;

	if (word != READER_YES && word != READER_UNKNOWN)
		return refuse(reply, word);
	asked = malloc(sizeof(*asked) + token.len);
	if (!asked) {
		http_reply_text(reply, 500, "out of memory");
		return HTTP_DONE;
	}
	*asked = (struct asked){.word = word, .len = token.len};
	memcpy(asked->peer, req->peer, sizeof(asked->peer));
	memcpy(asked->token, token.at, token.len);
	req->user = asked;
	return HTTP_LATER;
}

static enum http_outcome page(void *ctx, struct http_request *req, struct http_reply *reply)
{
	struct usage_page *p = ctx;
	const struct asked *asked = req->user;
	const struct slice token = {asked->token, asked->len};
	enum reader word = asked->word;
	struct buf out;

	if (word == READER_UNKNOWN) {
		word = p->ask(p->ctx, token);
		readers_note(p->readers, token, asked->peer, word, clock_ms());
	}
	if (word != READER_YES)
		return refuse(reply, word);
	buf_init(&out, PAGE_BYTES_MAX);
	p->write(p->ctx, &out);
	if (out.failed) {
		buf_release(&out);
		http_reply_text(reply, 500, "out of memory");
		return HTTP_DONE;
	}
	reply->status = 200;
	reply->content_type = METRIC_CONTENT_TYPE;
	reply->body = buf_take(&out, &reply->body_len);
	return HTTP_DONE;
}

void usage_page_done(void *ctx, struct http_request *req)
{
	struct asked *asked = req->user;

	(void)ctx;
	if (asked)
		explicit_bzero(asked->token, asked->len);
	free(asked);
	req->user = NULL;
}

void usage_page_transport(void *ctx, const char *msg)
{
	const struct usage_page *p = ctx;

	log_line(p->log, LOG_LEVEL_WARN, "transport", log_str("msg", msg));
}

const struct http_route usage_routes[USAGE_ROUTES] = {
	{.path = USAGE_PAGE_PATH, .method = HTTP_GET, .handle = look, .slow = page}};

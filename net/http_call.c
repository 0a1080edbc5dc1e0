/* SPDX-License-Identifier: Apache-2.0 */
/* net: bodies that grow as bytes arrive, within a budget over all connections, and handlers called
 * exactly once. */
#include "net/http_call.h"

#include <stdlib.h>
#include <string.h>

#include "net/http_rules.h"

struct http_call *http_call_new(
	const struct http_app *app, struct http_bodies *bodies, const char *peer)
{
	struct http_call *call = calloc(1, sizeof(*call));
	if (!call)
		return NULL;
	call->app = app;
	call->bodies = bodies;
	size_t len = strnlen(peer, sizeof(call->req.peer) - 1);
	memcpy(call->req.peer, peer, len);
	return call;
}

static void body_free(struct http_call *call)
{
	if (call->body_cap)
		atomic_fetch_sub(&call->bodies->bytes, call->body_cap);
	free(call->req.body);
	call->req.body = NULL;
	call->req.body_len = 0;
	call->body_cap = 0;
}

/* Room for need bytes and the padding. Returns 0, or the status to refuse with. */
static unsigned body_room(struct http_call *call, size_t need)
{
	struct http_bodies *b = call->bodies;
	if (need > b->max)
		return 413;
	if (need <= call->body_cap)
		return 0;
	size_t cap = http_body_grow(call->body_cap, need, call->promised, b->max);
	size_t more = cap - call->body_cap;
	if (atomic_fetch_add(&b->bytes, more) + more > b->total) {
		atomic_fetch_sub(&b->bytes, more);
		return 500;
	}
	char *body = realloc(call->req.body, cap + HTTP_BODY_PAD);
	if (!body) {
		atomic_fetch_sub(&b->bytes, more);
		return 500;
	}
	call->req.body = body;
	call->body_cap = cap;
	return 0;
}

unsigned http_call_body_add(struct http_call *call, const char *bytes, size_t len)
{
	unsigned status = body_room(call, call->req.body_len + len);
	if (status) {
		body_free(call);
		return status;
	}
	memcpy(call->req.body + call->req.body_len, bytes, len);
	call->req.body_len += len;
	return 0;
}

struct http_call *http_call_of(struct http_job *job)
{
	return (struct http_call *)(void *)((char *)job - offsetof(struct http_call, job));
}

enum http_outcome http_call_handle(struct http_call *call)
{
	if (call->req.body)
		memset(call->req.body + call->req.body_len, 0, HTTP_BODY_PAD);
	call->handled = true;
	return call->req.route->handle(call->app->ctx, &call->req, &call->reply);
}

void http_call_slow(struct http_call *call)
{
	http_handler *slow = call->req.route->slow;
	if (!slow || slow(call->app->ctx, &call->req, &call->reply) == HTTP_LATER)
		http_reply_text(&call->reply, 500, http_sentence(500));
}

void http_call_tell(struct http_call *call, bool queued)
{
	if (!call->handled || call->told)
		return;
	call->told = true;
	if (call->app->queued)
		call->app->queued(call->app->ctx, &call->req, queued);
}

void http_call_reset(struct http_call *call)
{
	http_call_tell(call, false);
	if (call->handled && call->app->done)
		call->app->done(call->app->ctx, &call->req);
	body_free(call);
	free(call->reply.body);
	call->reply = (struct http_reply){0};
	call->handled = false;
	call->told = false;
	call->req.user = NULL;
	call->req.status = 0;
}

void http_call_free(struct http_call *call)
{
	if (!call)
		return;
	http_call_reset(call);
	free(call);
}

void http_reply_text(struct http_reply *reply, unsigned status, const char *sentence)
{
	size_t len = strlen(sentence);
	free(reply->body);
	*reply = (struct http_reply){.status = status, .body = malloc(len + 2)};
	if (!reply->body) {
		/* No words left; at least never a success that says nothing. */
		reply->status = status < 400 ? 500 : status;
		return;
	}
	memcpy(reply->body, sentence, len);
	memcpy(reply->body + len, "\n", 2);
	reply->body_len = len + 1;
}

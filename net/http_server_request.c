/* SPDX-License-Identifier: Apache-2.0 */
/* net: one connection and its requests, step by step, as libmicrohttpd calls us. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* POLLRDHUP */
#endif
#include "net/http_server_impl.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- replies ---- */

static bool add_headers(
	struct MHD_Response *r, const struct http_server *s, const struct http_reply *reply)
{
	const char *type = reply->content_type ? reply->content_type : "text/plain; charset=utf-8";
	bool ok = MHD_add_response_header(r, "Content-Type", type) == MHD_YES;
	for (size_t i = 0; i < HTTP_REPLY_HEADERS && reply->header[i].name; i++)
		ok = ok && MHD_add_response_header(
				   r, reply->header[i].name, reply->header[i].value) == MHD_YES;
	if (reply->close || atomic_load_explicit(&s->draining, memory_order_relaxed))
		ok = ok && MHD_add_response_header(r, "Connection", "close") == MHD_YES;
	return ok;
}

/* Give the reply to the transport; its body is gone afterwards, whatever happens. */
static enum MHD_Result send_reply(struct conn *c, struct http_reply *reply)
{
	struct http_server *s = c->server;
	static char nothing[1];
	struct MHD_Response *r =
		reply->body ? MHD_create_response_from_buffer(
				      reply->body_len, reply->body, MHD_RESPMEM_MUST_FREE)
			    : MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
	if (!r) {
		free(reply->body);
		reply->body = NULL;
		return MHD_NO;
	}
	reply->body = NULL;
	enum MHD_Result rc = MHD_NO;
	if (add_headers(r, s, reply))
		rc = MHD_queue_response(c->mhd, reply->status, r);
	if (rc == MHD_YES && c->posted && reply->body_len > 0)
		tls_hold_next(&c->hold);
	MHD_destroy_response(r);
	if (rc == MHD_YES) {
		c->replied = true;
		unsigned class = reply->status / 100;
		atomic_fetch_add_explicit(
			&s->replies[class < 6 ? class : 5], 1, memory_order_relaxed);
		c->replied_ms = http_now_ms();
		http_guard_due(&c->watch, c->replied_ms + s->cfg.send_ms);
		http_place_set(&s->places, &c->place, HTTP_STAGE_SENDING);
	}
	return rc;
}

/* The answer of this server itself. */
static enum MHD_Result send_refusal(struct conn *c, unsigned status, bool close)
{
	struct http_reply reply = {0};
	const char *sentence = http_sentence(status);
	char takes[160];
	if (status == 415) {
		(void)snprintf(takes, sizeof(takes), "%s; it takes %s", sentence,
			c->match.route->content_type);
		sentence = takes;
	}
	if (status == 403 && c->client.refusal)
		sentence = c->client.refusal;
	if (c->unclear)
		sentence = c->unclear;
	http_server_say(c->server, c->client.name[0] ? "%u to %s (%s): %s" : "%u to %s%s: %s",
		status, c->peer, c->client.name, sentence);
	http_reply_text(&reply, status, sentence);
	reply.close = close;
	if (status == 405)
		reply.header[0] = (struct http_header){"Allow", c->match.allow};
	return send_reply(c, &reply);
}

/* Has the request's time passed? Its client does not wait any more, or is about to stop. */
static bool too_late(struct conn *c)
{
	if (http_now_ms() < c->call->req.deadline_ms)
		return false;
	atomic_fetch_add(&c->server->late, 1);
	return true;
}

/* Who does not read its reply keeps it in memory. False: there is no room for one so large. */
static bool hold_reply(struct conn *c, size_t len)
{
	struct http_server *s = c->server;
	if (len <= s->cfg.body_small)
		return true;
	if (len > s->cfg.body_total - s->replies_held)
		return false;
	s->replies_held += len;
	c->reply_held = len;
	return true;
}

/* The answer of a handler. */
static enum MHD_Result send_call(struct conn *c)
{
	struct http_call *call = c->call;
	if (too_late(c) || !hold_reply(c, call->reply.body_len)) {
		call->req.status = 500;
		http_call_tell(call, false);
		return send_refusal(c, 500, false);
	}
	if (call->reply.status < 200 || call->reply.status > 599)
		http_reply_text(&call->reply, 500, http_sentence(500));
	call->req.status = call->reply.status;
	enum MHD_Result rc = send_reply(c, &call->reply);
	http_call_tell(call, rc == MHD_YES);
	return rc;
}

/* ---- one request, step by step ---- */

static const char *header(struct conn *c, const char *name)
{
	return MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, name);
}

/* Is this client not let in? What there is to be had is not told to it either. */
static bool is_barred(struct conn *c)
{
	const struct http_route *route = c->match.route;
	if (!c->server->cfg.clients || (route && route->open))
		return false;
	return tls_trust_refusal(c->server->cfg.clients, &c->tls, &c->client) != NULL;
}

static enum MHD_Result on_header(
	void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
	(void)kind;
	http_framing_add(cls, name, value ? value : "");
	return MHD_YES;
}

/* The headers are there: decide what can be decided without the body. */
static enum MHD_Result on_headers(struct conn *c, const char *url, const char *method)
{
	struct http_server *s = c->server;
	if (!c->call)
		c->call = http_call_new(&s->app, &s->bodies, c->peer);
	if (!c->call)
		return MHD_NO;
	struct http_request *req = &c->call->req;
	req->received_ms = http_now_ms();
	http_guard_due(&c->watch, req->received_ms + s->cfg.body_ms);
	http_match(s->app.routes, s->app.nroutes, method, url, &c->match);
	c->posted = strcmp(method, MHD_HTTP_METHOD_POST) == 0;
	req->route = c->match.route;
	req->path = url;
	req->transport = c->mhd;
	req->content_type = header(c, "Content-Type");
	req->deadline_ms = http_deadline(req->received_ms,
		MHD_lookup_connection_value(c->mhd, MHD_GET_ARGUMENT_KIND, "timeout"),
		s->cfg.deadline_ms, s->cfg.deadline_max_ms);
	struct http_framing framing = {0};
	(void)MHD_get_connection_values(c->mhd, MHD_HEADER_KIND, on_header, &framing);
	c->unclear = framing.refusal;
	if (c->unclear)
		return send_refusal(c, 400, true);
	c->refuse = c->match.status;
	if (is_barred(c))
		c->refuse = 403;
	c->discarded = 0;
	if (!c->refuse && req->route->method == HTTP_POST && req->route->content_type &&
		!http_media_type_is(req->content_type, req->route->content_type))
		c->refuse = 415;
	c->call->promised = header(c, "Transfer-Encoding")
				    ? 0
				    : http_content_length(header(c, "Content-Length"));
	bool small = c->call->promised > 0 && c->call->promised <= s->cfg.body_small;
	c->call->bodies = small ? &s->small_bodies : &s->bodies;
	if (!c->refuse && c->call->promised > s->cfg.body_max)
		c->refuse = 413;
	/* A client that sends regardless reads our answer only after its last byte: take that much,
	 * but not any amount. One that waits for "100 Continue" is told at once. */
	if (c->refuse && c->call->promised > 0 &&
		(c->call->promised > 2 * (uint64_t)s->cfg.body_max || header(c, "Expect")))
		return send_refusal(c, c->refuse, true);
	return MHD_YES;
}

static enum MHD_Result on_body(struct conn *c, const char *bytes, size_t *len)
{
	if (!c->refuse)
		c->refuse = http_call_body_add(c->call, bytes, *len);
	if (c->refuse)
		c->discarded += *len;
	if (c->discarded > 2 * (uint64_t)c->server->cfg.body_max)
		return MHD_NO;
	*len = 0;
	return MHD_YES;
}

/* Nobody noticed while the connection was suspended: has the client hung up (or closed its sending
 * side, which no client of an admission hook does)? Its reply would be lost, so what the handler
 * took must be given back. */
static bool client_gone(const struct conn *c)
{
	struct pollfd p = {.fd = c->watch.fd, .events = POLLRDHUP};
	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* The connection goes on. False when its job was given up: the call is its worker's then. */
static bool settle(struct conn *c)
{
	c->suspended = false;
	if (!http_guard_gave_up(&c->server->guard, &c->watch))
		return true;
	c->call = NULL;
	return false;
}

static enum MHD_Result on_resumed(struct conn *c)
{
	if (!settle(c))
		return send_refusal(c, 500, false);
	if (client_gone(c)) {
		http_call_tell(c->call, false);
		return MHD_NO;
	}
	return send_call(c);
}

static enum MHD_Result defer(struct conn *c)
{
	struct http_server *s = c->server;
	struct http_call *call = c->call;
	if (s->cfg.workers == 0) {
		http_call_slow(call);
		return send_call(c);
	}
	/* in_flight was raised before this look at stopping, and http_server_stop raises stopping
	 * before it looks at in_flight: it can never close under a suspended connection, which
	 * would end the process. */
	if (atomic_load(&s->stopping)) {
		http_call_tell(call, false);
		return send_refusal(c, 500, true);
	}
	call->req.path = call->req.route->path;
	call->req.content_type = NULL;
	call->req.transport = NULL;
	c->suspended = true;
	MHD_suspend_connection(c->mhd);
	if (http_guard_defer(&s->guard, &c->watch, &call->job, call->req.deadline_ms))
		return MHD_YES;
	http_reply_text(&call->reply, 500, http_sentence(500));
	MHD_resume_connection(c->mhd);
	return MHD_YES;
}

/* The body is whole. */
static enum MHD_Result on_request(struct conn *c)
{
	struct http_call *call = c->call;
	const struct http_route *route = c->match.route;
	http_guard_due(&c->watch, 0);
	http_place_set(&c->server->places, &c->place, HTTP_STAGE_BUSY);
	if (c->refuse)
		return send_refusal(c, c->refuse, false);
	if (route->method == HTTP_POST && route->content_type && call->req.body_len == 0)
		return send_refusal(c, 400, false);
	if (too_late(c))
		return send_refusal(c, 500, false);
	call->req.whole_us = http_now_us();
	return http_call_handle(call) == HTTP_LATER ? defer(c) : send_call(c);
}

static struct conn *conn_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	return info ? info->socket_context : NULL;
}

/* What is returned becomes the request's pointer. */
void *http_server_on_line(void *cls, const char *uri, struct MHD_Connection *mhd)
{
	(void)cls, (void)uri;
	struct conn *c = conn_of(mhd);
	int64_t due = c ? http_now_ms() + c->server->cfg.header_ms : 0;
	if (c)
		c->begun = true;
	/* From an idle connection's patience down to that with a line that is on its way; never up.
	 */
	if (c && due < atomic_load(&c->watch.due_ms))
		http_guard_due(&c->watch, due);
	return NULL;
}

enum MHD_Result http_server_on_access(void *cls, struct MHD_Connection *mhd, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_len,
	void **req_cls)
{
	(void)cls, (void)version;
	struct conn *c = *req_cls;
	if (!c) {
		c = conn_of(mhd);
		if (!c)
			return MHD_NO;
		*req_cls = c;
		c->in_flight = c->requested = true;
		c->replied = false;
		atomic_fetch_add(&c->server->in_flight, 1);
		http_place_set(&c->server->places, &c->place, HTTP_STAGE_RECEIVING);
		return on_headers(c, url, method);
	}
	if (*upload_len > 0)
		return on_body(c, upload, upload_len);
	return c->suspended ? on_resumed(c) : on_request(c);
}

/* A request ended before its reply was sent: who, and at what point? */
static void say_broken(struct conn *c)
{
	const struct http_config *cfg = &c->server->cfg;
	bool cut = atomic_load(&c->watch.cut);
	if (c->replied && cut)
		http_server_say(c->server, "%s: closed: it did not read its reply in %g s", c->peer,
			cfg->send_ms / 1000.0);
	else if (c->replied)
		http_server_say(
			c->server, "%s: the client went away before it had its reply", c->peer);
	else if (cut)
		http_server_say(c->server,
			"%s: closed: the request's body was not there after %g s", c->peer,
			cfg->body_ms / 1000.0);
	else if (c->refuse)
		http_server_say(c->server, "%s: closed: %s", c->peer, http_sentence(c->refuse));
	else
		http_server_say(c->server, "%s: the client went away in the middle of its request",
			c->peer);
}

void http_server_on_completed(
	void *cls, struct MHD_Connection *mhd, void **req_cls, enum MHD_RequestTerminationCode code)
{
	(void)cls, (void)mhd;
	struct conn *c = *req_cls;
	if (!c)
		return;
	*req_cls = NULL;
	if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK &&
		code != MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN)
		say_broken(c);
	/* Resumed by http_server_stop and closed before it could answer. */
	if (c->suspended)
		(void)settle(c);
	if (c->call)
		http_call_reset(c->call);
	c->server->replies_held -= c->reply_held;
	c->reply_held = 0;
	http_server_await(c);
	http_place_set(&c->server->places, &c->place, HTTP_STAGE_IDLE);
	/* Where everybody was being answered when the last place was taken, nobody could go. */
	if (code == MHD_REQUEST_TERMINATED_COMPLETED_OK && http_places_full(&c->server->places))
		http_server_make_room(c->server, NULL);
	if (c->in_flight) {
		c->in_flight = false;
		atomic_fetch_sub(&c->server->in_flight, 1);
	}
}

void http_server_resume(void *ctx, void *handle)
{
	(void)ctx;
	MHD_resume_connection(handle);
}

const char *http_request_arg(const struct http_request *req, const char *name)
{
	return req->transport
		       ? MHD_lookup_connection_value(req->transport, MHD_GET_ARGUMENT_KIND, name)
		       : NULL;
}

const char *http_request_header(const struct http_request *req, const char *name)
{
	return req->transport ? MHD_lookup_connection_value(req->transport, MHD_HEADER_KIND, name)
			      : NULL;
}

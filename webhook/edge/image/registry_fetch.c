/* SPDX-License-Identifier: Apache-2.0 */
/* edge: one request to a registry, or to where it leads: who may be connected to, and what a
 * request carries there; and what a registry, or who gives out its tokens, wants to know of
 * whoever asks. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json/json_read.h"
#include "net/address.h"
#include "webhook/edge/image/registry_impl.h"

static bool hosts_have(struct hosts hosts, struct slice host)
{
	for (size_t i = 0; i < hosts.n; i++)
		if (slice_eq(hosts.list[i], host))
			return true;
	return false;
}

/* ---- tokens ---- */

static bool is_token(struct slice t)
{
	for (size_t i = 0; i < t.len; i++)
		if (t.at[i] <= ' ' || t.at[i] > '~')
			return false;
	return t.len > 0;
}

static int read_token(struct asking *s, const struct http_response *res)
{
	struct json j = {0};
	struct slice token;
	char *copy = NULL;
	int rc = json_read_copy(
		&j, res->body.data ? res->body.data : "", res->body.len, 1000, &copy, NULL);

	token = json_str(&j, json_get(&j, json_root(&j), SLICE("token")), &s->a);
	if (!token.at)
		token = json_str(&j, json_get(&j, json_root(&j), SLICE("access_token")), &s->a);
	if (rc == 0 && is_token(token))
		s->token = arena_strdup(&s->a, token);
	if (copy)
		explicit_bzero(copy, res->body.len);
	json_release(&j);
	free(copy);
	if (rc == ERR_NOMEM || s->a.failed)
		return registry_no_memory(s);
	return s->token ? 0 : registry_say(s, "what gives out its tokens answered with none");
}

/* Who gives out its tokens, if the operator has said so. What is asked for is ours alone to say: a
 * query of the registry's could want more. */
static int read_realm(struct asking *s, struct slice realm, struct https_url *ret)
{
	const struct hosts tokens = {s->q->registry->tokens, s->q->registry->n_tokens};
	const char *what;

	if (!https_url_read(realm, ret))
		return registry_say(s, "it sends for a token to what is no https URL");
	if (memchr(ret->rest.at, '?', ret->rest.len))
		return registry_say(s, "it sends for a token to a URL with a query of its own");
	if (slice_eq(ret->host, s->api) || hosts_have(tokens, ret->host))
		return 0;
	what = arena_fmt(&s->a,
		"it sends for a token to %.*s, which the operator has not listed for it (tokens)",
		(int)(ret->host.len < 100 ? ret->host.len : 100), ret->host.at);
	return what ? registry_say(s, what) : registry_no_memory(s);
}

/* Ask who gives out tokens for one to read this image with: never for more than that, whatever the
 * registry would have us ask for. */
static int fetch_token(struct asking *s, const struct http_challenge *c)
{
	const struct registry *r = s->q->registry;
	struct carries with = {
		.basic = true, .max = REGISTRY_TOKEN_MAX, .named = {r->tokens, r->n_tokens}};
	struct http_response res = {0};
	struct https_url url;
	struct buf rest;
	int rc = read_realm(s, c->realm, &url);

	if (rc != 0)
		return rc;
	buf_init(&rest, REGISTRY_HEAD_MAX);
	buf_slice(&rest, url.rest);
	buf_char(&rest, '?');
	if (c->service.at) {
		buf_str(&rest, "service=");
		buf_percent(&rest, c->service);
		buf_char(&rest, '&');
	}
	buf_str(&rest, "scope=repository%3A");
	buf_percent(&rest, s->q->name->repository);
	buf_str(&rest, "%3Apull");
	url.rest = buf_as_slice(&rest);
	rc = rest.failed ? registry_no_memory(s) : registry_fetch(s, &url, &with, &res);
	if (rc == 0)
		rc = res.status == 200 ? read_token(s, &res) : registry_bad_status(s, res.status);
	buf_release(&rest);
	registry_release(&res);
	return rc;
}

/* A Bearer, else a Basic. */
static int read_challenge(
	struct asking *s, const struct http_response *res, struct http_challenge *ret)
{
	struct slice head = buf_as_slice(&res->head), value;
	struct http_challenge c, best = {0};
	bool any = false;

	for (size_t i = 0; (value = http_head_value(head, "WWW-Authenticate", i)).at; i++)
		if (http_challenge_read(value, &s->a, &c) && (!any || c.bearer > best.bearer)) {
			best = c;
			any = true;
		}
	*ret = best;
	if (s->a.failed)
		return registry_no_memory(s);
	return any && (!best.bearer || best.realm.at)
		       ? 0
		       : registry_say(s, "it wants a kind of credential that is not known here");
}

int registry_realm(struct asking *s, const struct http_response *res)
{
	struct http_challenge c;
	struct https_url url;
	int rc = read_challenge(s, res, &c);

	return rc == 0 && c.bearer ? read_realm(s, c.realm, &url) : rc;
}

int registry_authorize(struct asking *s, const struct http_response *res)
{
	struct http_challenge best;
	int rc = read_challenge(s, res, &best);

	if (rc != 0)
		return rc;
	if (best.bearer)
		return fetch_token(s, &best);
	if (!s->basic)
		return registry_bad_status(s, 401);
	s->sends_basic = true;
	return 0;
}

/* ---- requests ---- */

int registry_say(struct asking *s, const char *what)
{
	return err_set(s->err, ERR_REFUSED, "the registry %.*s cannot be asked: %s",
		(int)s->q->registry->host.len, s->q->registry->host.at, what);
}

/* Nothing was learnt of the image: whoever has more time may ask anew. */
static int too_late(struct asking *s)
{
	s->late = true;
	(void)registry_say(s, "it did not answer in time");
	s->err->code = ERR_TIMEOUT;
	return ERR_TIMEOUT;
}

int registry_no_memory(struct asking *s)
{
	return err_set(s->err, ERR_NOMEM, "out of memory for a registry");
}

int registry_bad_status(struct asking *s, long status)
{
	char text[64];

	if (status == 401 || status == 403) {
		s->denied = true;
		return registry_say(s, s->login ? "it refuses the pod's credential for this image"
						: "it lets nobody read this image without a "
						  "credential");
	}
	if (status == 404)
		return registry_say(s, "it has no such image");
	if (status == 429)
		return registry_say(s, "it has been asked too often (HTTP 429)");
	(void)snprintf(text, sizeof(text), "it answered HTTP %ld", status);
	return registry_say(s, text);
}

/* ---- who may be asked ---- */

struct slice registry_api(const struct registry *r)
{
	return slice_is(r->host, "docker.io") ? SLICE("registry-1.docker.io") : r->host;
}

/* Where a connection goes: to a host that the operator named, or to another. */
struct target {
	const struct registry *registry;
	bool named;
};

static bool may_connect(void *ctx, const struct sockaddr *address)
{
	const struct target *t = ctx;

	if (address_is_public(address))
		return true;
	for (size_t i = 0; t->named && i < t->registry->n_addresses; i++)
		if (address_in_range(address, t->registry->addresses[i]))
			return true;
	return false;
}

/* ---- one request ---- */

static int failed(struct asking *s, const struct err *why)
{
	if (why->code == ERR_NOMEM)
		return registry_no_memory(s);
	s->barred = why->code == ERR_REFUSED;
	return why->code == ERR_TIMEOUT ? too_late(s) : registry_say(s, why->msg);
}

int registry_fetch(struct asking *s, const struct https_url *url, const struct carries *with,
	struct http_response *ret)
{
	const struct registry *r = s->q->registry;
	struct target to = {.registry = r,
		.named = slice_eq(url->host, s->api) || hosts_have(with->named, url->host)};
	const char *headers[3] = {0};
	struct http_ask req = {.method = "GET",
		.headers = headers,
		.ca_file = to.named ? r->ca : NULL,
		.timeout_ms = s->q->deadline_ms - clock_ms(),
		.max_bytes = with->max,
		.max_head = REGISTRY_HEAD_MAX,
		.may_connect = may_connect,
		.may_connect_ctx = &to,
		.trouble = &s->trouble};
	struct err why = {0};
	size_t n = 0;

	if (req.timeout_ms <= 0)
		return too_late(s);
	if (++s->requests > REGISTRY_REQUESTS_MAX)
		return registry_say(s, "it wants to be asked too often for one image");
	if (with->accept)
		headers[n++] = with->accept;
	if (with->basic && s->basic)
		headers[n++] = s->basic;
	if (with->token)
		req.bearer = s->token;
	req.name = arena_fmt(&s->a, "%.*s", (int)url->host.len, url->host.at);
	req.url = arena_fmt(&s->a, "https://%.*s%.*s", (int)url->host.len, url->host.at,
		(int)url->rest.len, url->rest.at);
	if (!req.url || !req.name)
		return registry_no_memory(s);
	return http_client_do(s->client, &req, ret, &why) == 0 ? 0 : failed(s, &why);
}

void registry_release(struct http_response *r)
{
	if (r->body.data)
		explicit_bzero(r->body.data, r->body.len);
	buf_release(&r->body);
	buf_release(&r->head);
}

/* ---- redirects ---- */

static bool is_redirect(long status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* What only the registry's word vouches for comes from hosts that the operator named. */
static int check_host(struct asking *s, const struct redirect *r, struct slice host)
{
	const char *what;

	if (r->bound || slice_eq(host, s->api) || hosts_have(r->with.named, host))
		return 0;
	what = arena_fmt(&s->a,
		"it sends for %s to %.*s, which the operator has not listed for it (manifests)",
		r->what, (int)(host.len < 100 ? host.len : 100), host.at);
	return what ? registry_say(s, what) : registry_no_memory(s);
}

/* Where the redirect that was answered leads to. */
static int read_location(struct asking *s, const struct redirect *r, struct slice host,
	const struct http_response *res, struct https_url *ret)
{
	struct slice to = http_head_value(buf_as_slice(&res->head), "Location", 0);
	const char *what;

	to = to.len > 0 ? arena_slice(&s->a, to) : SLICE("");
	if (to.len > 1 && to.at[0] == '/' && to.at[1] != '/')
		to = slice_of(arena_fmt(
			&s->a, "https://%.*s%.*s", (int)host.len, host.at, (int)to.len, to.at));
	if (s->a.failed)
		return registry_no_memory(s);
	if (https_url_read(to, ret))
		return check_host(s, r, ret->host);
	what = arena_fmt(&s->a, "it sends for %s to what is no https URL", r->what);
	return what ? registry_say(s, what) : registry_no_memory(s);
}

int registry_follow(struct asking *s, const struct redirect *r, struct http_response *io)
{
	struct slice host = s->api;
	const char *what;

	for (unsigned i = 0; is_redirect(io->status); i++) {
		struct https_url url;
		int rc;

		if (i == REGISTRY_REDIRECTS_MAX) {
			what = arena_fmt(
				&s->a, "it sends for %s elsewhere again and again", r->what);
			return what ? registry_say(s, what) : registry_no_memory(s);
		}
		if ((rc = read_location(s, r, host, io, &url)) != 0)
			return rc;
		registry_release(io);
		*io = (struct http_response){0};
		if ((rc = registry_fetch(s, &url, &r->with, io)) != 0)
			return rc;
		host = url.host;
	}
	return 0;
}

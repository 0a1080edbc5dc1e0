/* SPDX-License-Identifier: Apache-2.0 */
/* edge: what a registry, or who gives out its tokens, wants to know of whoever asks. */
#include <stdlib.h>

#include "base/json/json_read.h"
#include "webhook/edge/image/registry_impl.h"

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

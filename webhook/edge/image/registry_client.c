/* SPDX-License-Identifier: Apache-2.0 */
/* edge: questions to a registry, with libcurl below net/http_client.h. */
#include "webhook/edge/image/registry_client.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "net/address.h"
#include "net/http_client.h"
#include "net/http_head.h"
#include "net/mac.h"
#include "webhook/core/image/image_doc.h"

#define NODES_MAX 100000
#define ARENA_MAX (32u * 1024 * 1024)

/* One question on its way. */
struct asking {
	const struct registry_question *q;
	const struct pull_login *login; /* that is tried; NULL: none */
	struct http_client *client;
	struct arena a;
	struct slice api; /* the host that is asked */
	char *token;      /* NULL: none was given */
	const char *
		basic; /* Authorization's line, for the registry itself or who gives its tokens; NULL: no login */
	bool sends_basic; /* the registry itself wants it */
	bool denied;      /* it might be another login's to read */
	unsigned requests;
	struct err *err;
};

static int say(struct asking *s, const char *what)
{
	return err_set(s->err, ERR_REFUSED, "the registry %.*s cannot be asked: %s",
		(int)s->q->registry->host.len, s->q->registry->host.at, what);
}

static int no_memory(struct asking *s)
{
	return err_set(s->err, ERR_NOMEM, "out of memory for a registry");
}

/* ---- who may be asked ---- */

static bool listed(const struct slice *list, size_t n, struct slice host)
{
	for (size_t i = 0; i < n; i++)
		if (slice_eq(list[i], host))
			return true;
	return false;
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

/* What a request carries. */
struct carries {
	const char *accept; /* a header's line; NULL: none */
	bool token, basic;
	size_t max;
};

static int failed(struct asking *s, const struct err *why)
{
	if (why->code == ERR_NOMEM)
		return no_memory(s);
	return say(s, why->code == ERR_TIMEOUT ? "it did not answer in time" : why->msg);
}

static int fetch(struct asking *s, const struct https_url *url, const struct carries *with,
	struct http_response *ret)
{
	const struct registry *r = s->q->registry;
	struct target to = {.registry = r,
		.named = slice_eq(url->host, s->api) || listed(r->tokens, r->n_tokens, url->host) ||
			 listed(r->storage, r->n_storage, url->host)};
	const char *headers[3] = {0};
	struct http_request req = {.method = "GET",
		.headers = headers,
		.ca_file = to.named ? r->ca : NULL,
		.timeout_ms = s->q->deadline_ms - clock_ms(),
		.max_bytes = with->max,
		.max_head = REGISTRY_HEAD_MAX,
		.may_connect = may_connect,
		.may_connect_ctx = &to};
	struct err why = {0};
	size_t n = 0;

	if (req.timeout_ms <= 0)
		return say(s, "it did not answer in time");
	if (++s->requests > REGISTRY_REQUESTS_MAX)
		return say(s, "it wants to be asked too often for one image");
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
		return no_memory(s);
	return http_client_do(s->client, &req, ret, &why) == 0 ? 0 : failed(s, &why);
}

static void release(struct http_response *r)
{
	if (r->body.data)
		explicit_bzero(r->body.data, r->body.len);
	buf_release(&r->body);
	buf_release(&r->head);
}

/* What an answer without the thing asked for says. */
static int bad_status(struct asking *s, long status)
{
	char text[64];

	if (status == 401 || status == 403) {
		s->denied = true;
		return say(s, s->login ? "it refuses the pod's credential for this image"
				       : "it lets nobody read this image without a credential");
	}
	if (status == 404)
		return say(s, "it has no such image");
	if (status == 429)
		return say(s, "it has been asked too often (HTTP 429)");
	(void)snprintf(text, sizeof(text), "it answered HTTP %ld", status);
	return say(s, text);
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
		return no_memory(s);
	return s->token ? 0 : say(s, "what gives out its tokens answered with none");
}

/* Ask who gives out tokens for one to read this image with: never for more than that, whatever the registry would have us ask for. */
static int fetch_token(struct asking *s, const struct http_challenge *c)
{
	const struct registry *r = s->q->registry;
	struct carries with = {.basic = true, .max = REGISTRY_TOKEN_MAX};
	struct http_response res = {0};
	struct https_url url;
	struct buf rest;
	int rc;

	if (!https_url_read(c->realm, &url))
		return say(s, "it sends for a token to what is no https URL");
	if (!slice_eq(url.host, s->api) && !listed(r->tokens, r->n_tokens, url.host)) {
		const char *what = arena_fmt(&s->a,
			"it sends for a token to %.*s, which the operator has not listed for it",
			(int)(url.host.len < 100 ? url.host.len : 100), url.host.at);

		return what ? say(s, what) : no_memory(s);
	}
	buf_init(&rest, REGISTRY_HEAD_MAX);
	buf_slice(&rest, url.rest);
	buf_char(&rest, memchr(url.rest.at, '?', url.rest.len) ? '&' : '?');
	if (c->service.at) {
		buf_str(&rest, "service=");
		buf_percent(&rest, c->service);
		buf_char(&rest, '&');
	}
	buf_str(&rest, "scope=repository%3A");
	buf_percent(&rest, s->q->name->repository);
	buf_str(&rest, "%3Apull");
	url.rest = buf_as_slice(&rest);
	rc = rest.failed ? no_memory(s) : fetch(s, &url, &with, &res);
	if (rc == 0)
		rc = res.status == 200 ? read_token(s, &res) : bad_status(s, res.status);
	buf_release(&rest);
	release(&res);
	return rc;
}

/* The registry wants to know who asks. */
static int authorize(struct asking *s, const struct http_response *res)
{
	struct slice head = buf_as_slice(&res->head), value;
	struct http_challenge c, best = {0};
	bool any = false;

	for (size_t i = 0; (value = http_head_value(head, "WWW-Authenticate", i)).at; i++)
		if (http_challenge_read(value, &s->a, &c) && (!any || c.bearer > best.bearer)) {
			best = c;
			any = true;
		}
	if (s->a.failed)
		return no_memory(s);
	if (!any || (best.bearer && !best.realm.at))
		return say(s, "it wants a kind of credential that is not known here");
	if (best.bearer)
		return fetch_token(s, &best);
	if (!s->basic)
		return bad_status(s, 401);
	s->sends_basic = true;
	return 0;
}

/* ---- documents ---- */

/* GET below the repository, with a credential where one is wanted. */
static int get(struct asking *s, const char *kind, struct slice which, const char *accept,
	size_t max, struct http_response *ret)
{
	struct carries with = {.accept = accept, .max = max};
	const struct image_name *n = s->q->name;
	struct https_url url = {.host = s->api};
	int rc;

	url.rest = slice_of(arena_fmt(&s->a, "/v2/%.*s/%s/%.*s", (int)n->repository.len,
		n->repository.at, kind, (int)which.len, which.at));
	if (!url.rest.at)
		return no_memory(s);
	with.token = true;
	with.basic = s->sends_basic;
	rc = fetch(s, &url, &with, ret);
	if (rc != 0 || ret->status != 401 || s->token || s->sends_basic)
		return rc;
	rc = authorize(s, ret);
	release(ret);
	*ret = (struct http_response){0};
	with.basic = s->sends_basic;
	return rc == 0 ? fetch(s, &url, &with, ret) : rc;
}

static bool is_redirect(long status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* A blob may lie elsewhere. Nobody there gets a credential. */
static int follow(struct asking *s, size_t max, struct http_response *io)
{
	struct carries bare = {.max = max};
	struct slice host = s->api;

	for (unsigned i = 0; is_redirect(io->status); i++) {
		struct slice to = http_head_value(buf_as_slice(&io->head), "Location", 0);
		struct https_url url;
		int rc;

		to = to.len > 0 ? arena_slice(&s->a, to) : SLICE("");
		if (to.len > 1 && to.at[0] == '/' && to.at[1] != '/')
			to = slice_of(arena_fmt(&s->a, "https://%.*s%.*s", (int)host.len, host.at,
				(int)to.len, to.at));
		if (s->a.failed)
			return no_memory(s);
		if (i == REGISTRY_REDIRECTS_MAX)
			return say(s, "it sends for a blob elsewhere again and again");
		if (!https_url_read(to, &url))
			return say(s, "it sends for a blob to what is no https URL");
		release(io);
		*io = (struct http_response){0};
		rc = fetch(s, &url, &bare, io);
		if (rc != 0)
			return rc;
		host = url.host;
	}
	return 0;
}

static void digest_text(const unsigned char *digest, char ret[static IMAGE_DIGEST_LEN + 1])
{
	static const char hex[] = "0123456789abcdef";
	char *at = ret + 7;

	memcpy(ret, "sha256:", 7);
	for (size_t i = 0; i < MAC_BYTES; i++) {
		*at++ = hex[digest[i] >> 4];
		*at++ = hex[digest[i] & 15];
	}
	*at = '\0';
}

/* The bytes are those that the digest names (absent: whatever came), and of that size. They move into the arena and are read there. */
static int read_document(struct asking *s, const struct http_response *res,
	const struct image_part *want, struct json *j, struct slice *ret_digest)
{
	unsigned char digest[MAC_BYTES];
	char text[IMAGE_DIGEST_LEN + 1];
	struct slice body = buf_as_slice(&res->body);
	char *copy;
	int rc;

	if (mac_digest(body, digest, s->err) != 0)
		return no_memory(s);
	digest_text(digest, text);
	*ret_digest = arena_slice(&s->a, slice_of(text));
	copy = arena_alloc(&s->a, body.len + JSON_PAD);
	if (!copy || s->a.failed)
		return no_memory(s);
	if (want && want->digest.at && !slice_is(want->digest, text))
		return say(s, "it answered with other bytes than the digest names");
	if (want && want->size > 0 && want->size != body.len)
		return say(s, "it answered with another number of bytes than it said");
	if (body.len > 0)
		memcpy(copy, body.at, body.len);
	rc = json_read(j, copy, body.len, NODES_MAX, NULL);
	if (rc == ERR_NOMEM)
		return no_memory(s);
	return rc == 0 ? 0 : say(s, "it answered with what cannot be read as JSON");
}

/* A manifest or an index. */
static int get_manifest(struct asking *s, const struct image_part *want, struct slice which,
	struct image_manifest *ret, struct slice *ret_digest)
{
	struct http_response res = {0};
	struct slice head, named, type;
	struct json j = {0};
	int rc = get(s, "manifests", which, "Accept: " IMAGE_ACCEPT, REGISTRY_DOCUMENT_MAX, &res);

	if (rc == 0 && res.status != 200)
		rc = bad_status(s, res.status);
	if (rc == 0)
		rc = read_document(s, &res, want, &j, ret_digest);
	head = buf_as_slice(&res.head);
	named = http_head_value(head, "Docker-Content-Digest", 0);
	type = http_media_type(http_head_value(head, "Content-Type", 0));
	if (rc == 0 && named.at && !slice_eq(named, *ret_digest))
		rc = say(s, "it answered with other bytes than its digest names");
	if (rc == 0) {
		rc = image_manifest_read(&j, type, s->q->arches, &s->a, ret, s->err);
		if (rc == ERR_REFUSED) {
			struct err why = *s->err;

			rc = say(s, why.msg);
		}
	}
	json_release(&j);
	release(&res);
	return rc;
}

static int get_config(struct asking *s, const struct image_part *want, struct image_config *ret)
{
	struct http_response res = {0};
	struct json j = {0};
	struct slice digest;
	int rc;

	if (want->size > REGISTRY_DOCUMENT_MAX)
		return say(s, "its configuration is too long");
	rc = get(s, "blobs", want->digest, NULL, REGISTRY_DOCUMENT_MAX, &res);
	if (rc == 0)
		rc = follow(s, REGISTRY_DOCUMENT_MAX, &res);
	if (rc == 0 && res.status != 200)
		rc = bad_status(s, res.status);
	if (rc == 0)
		rc = read_document(s, &res, want, &j, &digest);
	if (rc == 0) {
		rc = image_config_read(&j, &s->a, ret, s->err);
		if (rc == ERR_REFUSED) {
			struct err why = *s->err;

			rc = say(s, why.msg);
		}
	}
	json_release(&j);
	release(&res);
	return rc;
}

/* One image of an index: it must be what the index says. */
static int get_platform(struct asking *s, const struct image_part *part, struct image_start *ret)
{
	struct image_manifest m;
	struct image_config c;
	struct slice digest;
	int rc = get_manifest(s, part, part->digest, &m, &digest);

	if (rc == 0 && m.index)
		rc = say(s, "its index names another index");
	if (rc == 0)
		rc = get_config(s, &m.config, &c);
	if (rc == 0 && !slice_eq(c.arch, part->arch))
		rc = say(s, "its index says another platform than the image's configuration");
	*ret = c.start;
	return rc;
}

static int get_all(struct asking *s, const struct image_manifest *index, struct image_start *ret)
{
	struct image_start other;
	int rc;

	if (index->n_parts > REGISTRY_PLATFORMS_MAX)
		return say(s,
			"its index has images for too many of the platforms that the pod may run "
			"on; say which by the pod's node selector kubernetes.io/arch");
	rc = get_platform(s, &index->parts[0], ret);
	for (size_t i = 1; rc == 0 && i < index->n_parts; i++) {
		rc = get_platform(s, &index->parts[i], &other);
		if (rc == 0 && !image_start_same(ret, &other))
			rc = say(s,
				"the image starts something else on each of the platforms that the "
				"pod may run on; say which by the pod's node selector "
				"kubernetes.io/arch");
	}
	return rc;
}

static int look(struct asking *s, struct image_start *ret)
{
	const struct image_name *n = s->q->name;
	struct image_part want = {.digest = n->digest};
	struct slice which = n->digest.at ? n->digest : n->tag, digest = {0};
	struct image_manifest m = {0};
	struct image_config c = {0};
	int rc = get_manifest(s, &want, which, &m, &digest);

	if (rc == 0)
		rc = m.index ? get_all(s, &m, &c.start) : get_config(s, &m.config, &c);
	*ret = c.start;
	ret->digest = digest;
	return rc;
}

/* ---- one login after the other ---- */

static int copy_words(struct arena *a, struct slice **words, size_t n)
{
	struct slice *copy = arena_array(a, n, sizeof(*copy));

	for (size_t i = 0; copy && i < n; i++)
		copy[i] = arena_slice(a, (*words)[i]);
	*words = copy;
	return a->failed ? -1 : 0;
}

static int make_basic(struct asking *s, char **ret, size_t *ret_len)
{
	struct buf plain, line;
	int rc;

	buf_init(&plain, REGISTRY_HEAD_MAX);
	buf_init(&line, 2 * REGISTRY_HEAD_MAX);
	buf_slice(&plain, s->login->user);
	buf_char(&plain, ':');
	buf_slice(&plain, s->login->password);
	buf_str(&line, "Authorization: Basic ");
	buf_base64(&line, plain.data, plain.len);
	rc = plain.failed || line.failed ? no_memory(s) : 0;
	if (plain.data)
		mac_wipe(plain.data, plain.cap);
	buf_release(&plain);
	if (rc == 0)
		*ret = buf_take(&line, ret_len);
	buf_release(&line);
	s->basic = *ret;
	return rc;
}

static int ask_as(const struct registry_question *q, const struct pull_login *login,
	struct arena *a, bool *ret_denied, struct image_start *ret, struct err *err)
{
	struct asking s = {.q = q,
		.login = login,
		.api = slice_is(q->registry->host, "docker.io") ? SLICE("registry-1.docker.io")
								: q->registry->host,
		.err = err};
	char *basic = NULL;
	size_t len = 0;
	int rc = 0;

	arena_init(&s.a, ARENA_MAX);
	s.client = http_client_new(err);
	if (!s.client)
		rc = err->code == ERR_NOMEM ? no_memory(&s) : say(&s, "libcurl cannot be loaded");
	if (rc == 0 && login)
		rc = make_basic(&s, &basic, &len);
	if (rc == 0)
		rc = look(&s, ret);
	if (rc == 0) {
		ret->digest = arena_slice(a, ret->digest);
		if (copy_words(a, &ret->entrypoint, ret->n_entrypoint) < 0 ||
			copy_words(a, &ret->cmd, ret->n_cmd) < 0)
			rc = no_memory(&s);
	}
	*ret_denied = s.denied;
	if (s.token)
		mac_wipe(s.token, strlen(s.token));
	if (basic)
		mac_wipe(basic, len);
	free(basic);
	http_client_free(s.client);
	arena_release(&s.a);
	return rc;
}

int registry_ask(const struct registry_question *q, struct arena *a, struct image_start *ret,
	struct err *err)
{
	bool denied = false;
	int rc;

	*ret = (struct image_start){0};
	if (q->logins->n == 0)
		return ask_as(q, NULL, a, &denied, ret, err);
	for (size_t i = 0; i < q->logins->n; i++) {
		rc = ask_as(q, &q->logins->list[i], a, &denied, ret, err);
		if (rc == 0 || !denied)
			return rc;
	}
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* edge: one question to a registry, as one login after the other, with libcurl below
 * net/http_client.h. */
#include "webhook/edge/image/registry_client.h"

#include <stdio.h>
#include <stdlib.h>

#include "net/mac.h"
#include "webhook/core/image/image_doc.h"
#include "webhook/edge/image/registry_impl.h"

/* ---- an image ---- */

/* What a question may take for the index, tokens and words, and what for one platform's documents:
 * half of the workers ask at one time. */
#define ARENA_MAX (2u * 1024 * 1024)

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
	rc = plain.failed || line.failed ? registry_no_memory(s) : 0;
	if (plain.data)
		mac_wipe(plain.data, plain.cap);
	buf_release(&plain);
	if (rc == 0)
		*ret = buf_take(&line, ret_len);
	buf_release(&line);
	s->basic = *ret;
	return rc;
}

/* requests: how many this question has cost; told on from login to login. */
static int ask_as(const struct registry_question *q, const struct pull_login *login,
	unsigned *io_requests, struct arena *a, bool *ret_denied, struct image_start *ret,
	struct err *err)
{
	struct asking s = {.q = q,
		.login = login,
		.api = registry_api(q->registry),
		.requests = *io_requests,
		.err = err};
	char *basic = NULL;
	size_t len = 0;
	int rc = 0;

	arena_init(&s.a, ARENA_MAX);
	arena_init(&s.doc, ARENA_MAX);
	s.client = http_client_new(err);
	if (!s.client)
		rc = err->code == ERR_NOMEM ? registry_no_memory(&s)
					    : registry_say(&s, "libcurl cannot be loaded");
	if (rc == 0 && login)
		rc = make_basic(&s, &basic, &len);
	if (rc == 0)
		rc = registry_look(&s, ret);
	if (rc == 0 && image_start_copy(a, ret, ret) != 0)
		rc = registry_no_memory(&s);
	*ret_denied = s.denied;
	*io_requests = s.requests;
	if (s.token)
		mac_wipe(s.token, strlen(s.token));
	if (basic)
		mac_wipe(basic, len);
	free(basic);
	http_client_free(s.client);
	arena_release(&s.doc);
	arena_release(&s.a);
	return rc;
}

int registry_ask(const struct registry_question *q, struct arena *a, struct image_start *ret,
	struct err *err)
{
	unsigned requests = 0;
	bool denied = false;
	int rc;

	*ret = (struct image_start){0};
	if (q->logins->n == 0)
		return ask_as(q, NULL, &requests, a, &denied, ret, err);
	for (size_t i = 0; i < q->logins->n; i++) {
		rc = ask_as(q, &q->logins->list[i], &requests, a, &denied, ret, err);
		if (rc == 0 || !denied)
			return rc;
	}
	return rc;
}

/* ---- a registry without an image ---- */

#define CHECK_ARENA_MAX (1024u * 1024)

static enum registry_trouble trouble_of(const struct asking *s)
{
	if (s->barred)
		return REGISTRY_ADDRESS;
	if (s->late)
		return REGISTRY_SILENT;
	return s->trouble == HTTP_TROUBLE_NAME          ? REGISTRY_NAME
	       : s->trouble == HTTP_TROUBLE_CERTIFICATE ? REGISTRY_CERTIFICATE
							: REGISTRY_SILENT;
}

/* 200, or whom it wants to know; a registry that has its tags elsewhere may have this there, too.
 */
static enum registry_trouble judge(struct asking *s, struct http_response *res)
{
	const struct registry *r = s->q->registry;
	const struct redirect to = {.what = "its start",
		.with = {.max = REGISTRY_DOCUMENT_MAX, .named = {r->manifests, r->n_manifests}}};
	char text[64];

	if (res->status == 401)
		return registry_realm(s, res) == 0 ? REGISTRY_WELL : REGISTRY_REALM;
	if (registry_follow(s, &to, res) != 0)
		return REGISTRY_OTHER;
	if (res->status == 200 || res->status == 401)
		return REGISTRY_WELL;
	(void)snprintf(text, sizeof(text), "it answers HTTP %ld at /v2/", res->status);
	(void)registry_say(s, text);
	return REGISTRY_OTHER;
}

int registry_check(
	const struct registry *r, int64_t deadline_ms, enum registry_trouble *ret, struct err *err)
{
	const struct registry_question q = {.registry = r, .deadline_ms = deadline_ms};
	const struct carries with = {.max = REGISTRY_DOCUMENT_MAX};
	struct asking s = {.q = &q, .api = registry_api(r), .err = err};
	struct https_url url = {.host = s.api, .rest = SLICE("/v2/")};
	struct http_response res = {0};

	*ret = REGISTRY_WELL;
	arena_init(&s.a, CHECK_ARENA_MAX);
	s.client = http_client_new(err);
	if (!s.client)
		*ret = REGISTRY_OTHER;
	else
		*ret = registry_fetch(&s, &url, &with, &res) == 0 ? judge(&s, &res)
								  : trouble_of(&s);
	registry_release(&res);
	http_client_free(s.client);
	arena_release(&s.a);
	return *ret != REGISTRY_WELL && err->code == ERR_NOMEM ? ERR_NOMEM : 0;
}

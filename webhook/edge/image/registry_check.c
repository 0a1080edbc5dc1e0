/* SPDX-License-Identifier: Apache-2.0 */
/* edge: looks at a registry without an image. */
#include "webhook/edge/image/registry_check.h"

#include <stdio.h>

#include "webhook/edge/image/registry_impl.h"

#define ARENA_MAX (1024u * 1024)

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
	arena_init(&s.a, ARENA_MAX);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* edge: one question to a registry, as one login after the other, with libcurl below
 * net/http_client.h. */
#include "webhook/edge/image/registry_client.h"

#include <stdlib.h>

#include "net/mac.h"
#include "webhook/core/image/image_doc.h"
#include "webhook/edge/image/registry_impl.h"

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

/* SPDX-License-Identifier: Apache-2.0 */
/* gate: tokens and their reviews, read. Pure. */
#include "gate/bearer.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/text.h"
#include "kube/kube_review.h"

/* A token's middle part has about 500 bytes and 20 values. */
#define PAYLOAD_MAX 8192
#define NODES_MAX 512
#define POD_UID "authentication.kubernetes.io/pod-uid"

static int no_token(struct err *err)
{
	return err_set(err, ERR_SYNTAX, "what was shown is no token of a service account");
}

/* A pod's uid, which will name a folder. */
static bool take_uid(struct slice uid, char ret[static BEARER_UID_MAX])
{
	if (!uid.at || uid.len == 0 || uid.len >= BEARER_UID_MAX)
		return false;
	for (size_t i = 0; i < uid.len; i++)
		if (!text_is_alnum(uid.at[i]) && (uid.at[i] != '-' || i == 0))
			return false;
	memcpy(ret, uid.at, uid.len);
	ret[uid.len] = '\0';
	return true;
}

/* base64url without padding, between the two points. */
static int decode(struct slice token, struct buf *out, struct err *err)
{
	const char *from = memchr(token.at, '.', token.len), *to;
	struct buf text;
	int rc;

	if (!from)
		return no_token(err);
	from++;
	to = memchr(from, '.', (size_t)(token.at + token.len - from));
	if (!to)
		return no_token(err);
	buf_init(&text, PAYLOAD_MAX);
	for (; from < to; from++)
		buf_char(&text, (char)(*from == '-' ? '+' : *from == '_' ? '/' : *from));
	while (text.len % 4 != 0 && !text.failed)
		buf_char(&text, '=');
	rc = text.failed ? no_token(err) : base64_decode(buf_as_slice(&text), out, err);
	buf_release(&text);
	return rc == 0 || rc == ERR_NOMEM ? rc : no_token(err);
}

static int take(const struct json *j, struct bearer *ret, struct err *err)
{
	const struct json_node *pod = json_path(j, json_root(j), "kubernetes.io", "pod", NULL);
	struct bearer b = {0};

	if (!json_int(j, json_get(j, json_root(j), SLICE("exp")), &b.expires_s))
		return no_token(err);
	if (!take_uid(json_inside(j, json_get(j, pod, SLICE("uid"))), b.uid))
		return err_set(err, ERR_NOTFOUND,
			"the token is bound to no pod, expected a projected one with audience %s",
			BEARER_AUDIENCE);
	*ret = b;
	return 0;
}

int bearer_read(struct slice token, struct bearer *ret, struct err *err)
{
	struct buf payload;
	struct json j = {0};
	char *copy = NULL;
	int rc;

	buf_init(&payload, PAYLOAD_MAX);
	rc = token.len > 0 ? decode(token, &payload, err) : no_token(err);
	if (rc == 0)
		rc = json_read_copy(
			&j, payload.data ? payload.data : "", payload.len, NODES_MAX, &copy, err);
	if (rc == 0)
		rc = take(&j, ret, err);
	else if (rc != ERR_NOMEM)
		rc = no_token(err);
	json_release(&j);
	free(copy);
	buf_release(&payload);
	return rc;
}

void bearer_ask(struct slice token, struct buf *out)
{
	token_review_write(token, BEARER_AUDIENCE, out);
}

int bearer_reviewed(const struct json *j, char ret_uid[static BEARER_UID_MAX], struct err *err)
{
	const struct json_node *user, *uids;
	int rc = token_review_read(j, BEARER_AUDIENCE, &user, err);

	if (rc != 0)
		return rc;
	uids = json_path(j, user, "extra", POD_UID, NULL);
	if (!json_is(uids, JSON_ARRAY) || uids->count != 1 ||
		!take_uid(json_inside(j, json_first(j, uids)), ret_uid))
		return err_set(err, ERR_REFUSED, "the API server names no pod for the token");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* kube: what the API server is asked of tokens and rights, and what it answers. */
#include "kube/kube_review.h"

void token_review_write(struct slice token, const char *audience, struct buf *out)
{
	buf_str(out, "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenReview\","
		     "\"spec\":{\"token\":");
	buf_json_str(out, token);
	if (audience) {
		buf_str(out, ",\"audiences\":[");
		buf_json_str(out, slice_of(audience));
		buf_char(out, ']');
	}
	buf_str(out, "}}");
}

static bool lists(const struct json *j, const struct json_node *array, struct slice value)
{
	JSON_EACH(j, array, e)
	{
		if (json_is_str(j, e, value))
			return true;
	}
	return false;
}

/* Of an answer of that kind its status; NULL: it is none. */
static const struct json_node *status_of(const struct json *j, const char *kind)
{
	const struct json_node *root = json_root(j), *status = json_get(j, root, SLICE("status"));

	return json_is_str(j, json_get(j, root, SLICE("kind")), slice_of(kind)) &&
			       json_is(status, JSON_OBJECT)
		       ? status
		       : NULL;
}

int token_review_read(const struct json *j, const char *audience, const struct json_node **ret_user,
	struct err *err)
{
	const struct json_node *status = status_of(j, "TokenReview");
	struct slice why = json_inside(j, json_get(j, status, SLICE("error")));

	if (!status)
		return err_set(err, ERR_SYNTAX, "the API server's answer is no TokenReview");
	if (!json_is(json_get(j, status, SLICE("authenticated")), JSON_TRUE))
		return err_set(err, ERR_REFUSED, "the API server does not know the token: %.*s",
			why.len ? (int)why.len : 9, why.len ? why.at : "no reason");
	/* A server that does not know of audiences says none, and has not looked. */
	if (audience && !lists(j, json_get(j, status, SLICE("audiences")), slice_of(audience)))
		return err_set(
			err, ERR_REFUSED, "the token is for another audience than %s", audience);
	*ret_user = json_get(j, status, SLICE("user"));
	return 0;
}

/* A member, spelled as it was read; absent ones stay so. */
static void copy(const struct json *j, const struct json_node *user, const char *from,
	const char *to, struct buf *out)
{
	const struct json_node *v = json_get(j, user, slice_of(from));

	if (json_absent(v))
		return;
	buf_fmt(out, "\"%s\":", to);
	buf_slice(out, json_raw(j, v));
	buf_char(out, ',');
}

void access_review_write(const struct json *j, const struct json_node *user, const char *path,
	const char *verb, struct buf *out)
{
	buf_str(out, "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SubjectAccessReview\","
		     "\"spec\":{");
	copy(j, user, "username", "user", out);
	copy(j, user, "uid", "uid", out);
	copy(j, user, "groups", "groups", out);
	copy(j, user, "extra", "extra", out);
	buf_str(out, "\"nonResourceAttributes\":{\"path\":");
	buf_json_str(out, slice_of(path));
	buf_str(out, ",\"verb\":");
	buf_json_str(out, slice_of(verb));
	buf_str(out, "}}}");
}

int access_review_read(const struct json *j, struct err *err)
{
	const struct json_node *status = status_of(j, "SubjectAccessReview");

	if (!status)
		return err_set(
			err, ERR_SYNTAX, "the API server's answer is no SubjectAccessReview");
	/* What is denied outright is never allowed, whatever else stands there. */
	if (!json_is(json_get(j, status, SLICE("allowed")), JSON_TRUE) ||
		json_is(json_get(j, status, SLICE("denied")), JSON_TRUE))
		return err_set(err, ERR_REFUSED, "the API server does not allow it");
	return 0;
}

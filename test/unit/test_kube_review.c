/* SPDX-License-Identifier: Apache-2.0 */
/* test: what the API server is asked of tokens and rights, and what it answers. Answers to a
 * question with an audience: test_gate_bearer. */
#include "kube/kube_review.h"
#include "test/unit/test.h"

#define USER                                                                                       \
	"{\"username\":\"a\\\"b\",\"uid\":\"u\",\"groups\":[\"g\",\"h\"],"                         \
	"\"extra\":{\"k/x\":[\"v\"]}}"
#define TOKEN(rest) "{\"kind\":\"TokenReview\",\"status\":{" rest "}}"
#define ACCESS(rest) "{\"kind\":\"SubjectAccessReview\",\"status\":{" rest "}}"

static struct json doc;
static char *text;
static struct err err;

static void load(const char *json)
{
	assert_int_equal(json_read_copy(&doc, json, strlen(json), 100, &text, &err), 0);
}

static void unload(void)
{
	json_release(&doc);
	free(text);
}

TEST(asks_whose_it_is)
{
	struct buf out;

	buf_init(&out, 1000);
	token_review_write(SLICE("a\"b"), NULL, &out);
	assert_string_equal(out.data,
		"{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenReview\",\"spec\":"
		"{\"token\":\"a\\\"b\"}}");
	buf_release(&out);
}

static int whose(const char *json)
{
	const struct json_node *user;
	int rc;

	load(json);
	rc = token_review_read(&doc, NULL, &user, &err);
	unload();
	return rc;
}

TEST(hears_whose_it_is)
{
	assert_int_equal(whose(TOKEN("\"authenticated\":true,\"user\":" USER)), 0);
	assert_int_equal(whose(TOKEN("\"authenticated\":false,\"user\":" USER)), ERR_REFUSED);
	assert_int_equal(whose(TOKEN("\"user\":" USER)), ERR_REFUSED);
	assert_int_equal(whose(TOKEN("\"authenticated\":\"true\"")), ERR_REFUSED);
	assert_string_equal(err.msg, "the API server does not know the token: no reason");
	assert_int_equal(whose(TOKEN("\"error\":\"it is too old\"")), ERR_REFUSED);
	assert_string_equal(err.msg, "the API server does not know the token: it is too old");
	assert_int_equal(whose(ACCESS("\"authenticated\":true")), ERR_SYNTAX);
}

/* The user goes from one answer into the next question as he was spelled. */
TEST(asks_whether_he_may)
{
	const struct json_node *user;
	struct buf out;

	buf_init(&out, 1000);
	load(TOKEN("\"authenticated\":true,\"user\":" USER));
	assert_int_equal(token_review_read(&doc, NULL, &user, &err), 0);
	access_review_write(&doc, user, "/a", "get", &out);
	assert_string_equal(out.data,
		"{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SubjectAccessReview\","
		"\"spec\":{\"user\":\"a\\\"b\",\"uid\":\"u\",\"groups\":[\"g\",\"h\"],\"extra\":"
		"{\"k/x\":[\"v\"]},\"nonResourceAttributes\":{\"path\":\"/a\",\"verb\":\"get\"}}}");
	unload();
	buf_clear(&out);
	load(TOKEN("\"authenticated\":true,\"user\":{\"username\":\"x\",\"groups\":null}"));
	assert_int_equal(token_review_read(&doc, NULL, &user, &err), 0);
	access_review_write(&doc, user, "/a", "get", &out);
	assert_non_null(strstr(out.data, "\"spec\":{\"user\":\"x\",\"nonResourceAttributes\""));
	unload();
	buf_release(&out);
}

static int may(const char *json)
{
	int rc;

	load(json);
	rc = access_review_read(&doc, &err);
	unload();
	return rc;
}

TEST(hears_whether_he_may)
{
	assert_int_equal(may(ACCESS("\"allowed\":true")), 0);
	assert_int_equal(may(ACCESS("\"allowed\":true,\"denied\":false")), 0);
	assert_int_equal(may(ACCESS("\"allowed\":true,\"denied\":true")), ERR_REFUSED);
	assert_int_equal(may(ACCESS("\"allowed\":false,\"reason\":\"no\"")), ERR_REFUSED);
	assert_int_equal(may(ACCESS("\"allowed\":1")), ERR_REFUSED);
	assert_int_equal(may(ACCESS("")), ERR_REFUSED);
	assert_int_equal(may(TOKEN("\"allowed\":true")), ERR_SYNTAX);
	assert_int_equal(may("{\"kind\":\"Status\",\"status\":\"Failure\"}"), ERR_SYNTAX);
}

TESTS(asks_whose_it_is, hears_whose_it_is, asks_whether_he_may, hears_whether_he_may)

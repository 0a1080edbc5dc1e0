/* SPDX-License-Identifier: Apache-2.0 */
/* test: what a token says of itself, and what the API server says of it. */
#include "gate/bearer.h"
#include "test/unit/test.h"

#define POD(uid) "{\"exp\":1900000000,\"kubernetes.io\":{\"pod\":{\"uid\":\"" uid "\"}}}"

/* A JWT around this payload, as they are written: base64url without padding. */
static char *jwt(const char *payload)
{
	struct buf out;
	char *text;

	buf_init(&out, 65536);
	buf_base64(&out, payload, strlen(payload));
	while (out.len > 0 && out.data[out.len - 1] == '=')
		out.len--;
	for (size_t i = 0; i < out.len; i++)
		out.data[i] = (char)(out.data[i] == '+'   ? '-'
				     : out.data[i] == '/' ? '_'
							  : out.data[i]);
	text = malloc(out.len + 16);
	(void)sprintf(text, "e30.%.*s.c2ln", (int)out.len, out.data ? out.data : "");
	buf_release(&out);
	return text;
}

static int read_payload(const char *payload, struct bearer *ret, struct err *e)
{
	char *text = jwt(payload);
	int rc = bearer_read(slice_of(text), ret, e);

	free(text);
	return rc;
}

TEST(test_token)
{
	struct bearer b;
	struct err e;

	assert_int_equal(read_payload(POD("0f3b-A9"), &b, &e), 0);
	assert_string_equal(b.uid, "0f3b-A9");
	assert_int_equal(b.expires_s, 1900000000);
	/* Bytes that are - and _ in base64url. */
	assert_int_equal(
		read_payload(
			"{\"x\":\"\xc3\xbf\xc3\xbe\xc3\xbf\xc3\xbf\xef\xbf\xbe?>>~~\",\"exp\":1,"
			"\"kubernetes.io\":{\"pod\":{\"uid\":\"a\"}}}",
			&b, &e),
		0);
	assert_string_equal(b.uid, "a");
}

TEST(test_no_token)
{
	static const char *const texts[] = {"", ".", "..", "a.b", "a.!.c", "a.e30.c", "a.e3.c",
		"e30.bnVsbA.c", "e30.W10.c", "e30.eyJleHAiOiIxIn0.c"};
	static const struct {
		const char *payload;
		int code;
	} cases[] = {
		{"{\"exp\":1}", ERR_NOTFOUND},
		{"{\"exp\":1,\"kubernetes.io\":{\"namespace\":\"a\"}}", ERR_NOTFOUND},
		{"{\"exp\":1,\"kubernetes.io\":{\"pod\":{\"uid\":7}}}", ERR_NOTFOUND},
		{POD(""), ERR_NOTFOUND},
		{POD("../../etc"), ERR_NOTFOUND},
		{POD("-rf"), ERR_NOTFOUND},
		{POD("a\\u002fb"), ERR_NOTFOUND},
		{POD("0123456789012345678901234567890123456789012345678901234567890123"),
			ERR_NOTFOUND},
		{"{\"exp\":1.5,\"kubernetes.io\":{\"pod\":{\"uid\":\"a\"}}}", ERR_SYNTAX},
		{"{\"exp\":1,\"exp\":2}", ERR_SYNTAX},
	};
	struct bearer b;
	struct err e;

	for (size_t i = 0; i < COUNT(texts); i++)
		assert_int_equal(bearer_read(slice_of(texts[i]), &b, &e), ERR_SYNTAX);
	for (size_t i = 0; i < COUNT(cases); i++)
		assert_int_equal(read_payload(cases[i].payload, &b, &e), cases[i].code);
}

TEST(test_question)
{
	struct buf out;

	buf_init(&out, 1000);
	bearer_ask(SLICE("a\"b"), &out);
	assert_string_equal(out.data,
		"{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenReview\",\"spec\":"
		"{\"token\":\"a\\\"b\",\"audiences\":[\"gpugate\"]}}");
	buf_release(&out);
}

#define ANSWER(rest) "{\"kind\":\"TokenReview\",\"status\":{" rest "}}"
#define EXTRA(uids) "\"user\":{\"extra\":{\"authentication.kubernetes.io/pod-uid\":" uids "}}"
#define YES "\"authenticated\":true,"
#define OURS "\"audiences\":[\"x\",\"gpugate\"],"

TEST(test_answer)
{
	static const struct {
		const char *text;
		int code;
		const char *says;
	} cases[] = {
		{ANSWER(YES OURS EXTRA("[\"a-1\"]")), 0, NULL},
		{ANSWER("\"authenticated\":false,\"error\":\"gone\""), ERR_REFUSED, "gone"},
		{ANSWER(""), ERR_REFUSED, "no reason"},
		{ANSWER("\"authenticated\":\"true\"," OURS EXTRA("[\"a\"]")), ERR_REFUSED, "know"},
		{ANSWER(YES EXTRA("[\"a\"]")), ERR_REFUSED, "audience"},
		{ANSWER(YES "\"audiences\":[\"gpugat\"]," EXTRA("[\"a\"]")), ERR_REFUSED,
			"audience"},
		{ANSWER(YES "\"audiences\":\"gpugate\"," EXTRA("[\"a\"]")), ERR_REFUSED,
			"audience"},
		{ANSWER(YES OURS EXTRA("[]")), ERR_REFUSED, "no pod"},
		{ANSWER(YES OURS EXTRA("[\"a\",\"b\"]")), ERR_REFUSED, "no pod"},
		{ANSWER(YES OURS EXTRA("\"a\"")), ERR_REFUSED, "no pod"},
		{ANSWER(YES OURS EXTRA("[\"a/b\"]")), ERR_REFUSED, "no pod"},
		{ANSWER(YES OURS "\"user\":{}"), ERR_REFUSED, "no pod"},
		{"{\"kind\":\"Status\",\"status\":{}}", ERR_SYNTAX, "no TokenReview"},
		{"{\"kind\":\"TokenReview\",\"status\":7}", ERR_SYNTAX, "no TokenReview"},
		{"[]", ERR_SYNTAX, "no TokenReview"},
	};
	char uid[BEARER_UID_MAX];
	struct err e;

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct json j = {0};
		char *copy;

		assert_int_equal(
			json_read_copy(&j, cases[i].text, strlen(cases[i].text), 100, &copy, &e),
			0);
		assert_int_equal(bearer_reviewed(&j, uid, &e), cases[i].code);
		if (cases[i].says)
			assert_non_null(strstr(e.msg, cases[i].says));
		else
			assert_string_equal(uid, "a-1");
		json_release(&j);
		free(copy);
	}
}

TESTS(test_token, test_no_token, test_question, test_answer)

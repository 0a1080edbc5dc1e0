/* SPDX-License-Identifier: Apache-2.0 */
/* test: base64, read strictly. */
#include "base/base64.h"
#include "test/unit/test.h"

TEST(test_good)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"", ""},
		{"Zg==", "f"},
		{"Zm8=", "fo"},
		{"Zm9v", "foo"},
		{"Zm9vYg==", "foob"},
		{"Zm9v\nYmE=\r\n", "fooba"},
		{"Zm9vYmFy", "foobar"},
		{"+/+/", "\xfb\xff\xbf"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err e = {0};
		struct buf b;

		buf_init(&b, 100);
		buf_str(&b, "<");
		assert_int_equal(base64_decode(slice_of(cases[i].in), &b, &e), 0);
		assert_int_equal(b.len, strlen(cases[i].out) + 1);
		assert_string_equal(b.data + 1, cases[i].out);
		buf_release(&b);
	}
}

TEST(test_bad)
{
	static const struct {
		const char *in;
		const char *at;
	} cases[] = {
		{"Z", "byte 1"},
		{"Zg", "byte 2"},
		{"Zg=", "byte 3"},
		{"=", "byte 0"},
		{"Z===", "byte 1"},
		{"Zh==", "byte 3"}, /* bits left over */
		{"Zm9=", "byte 3"},
		{"a=Gk", "byte 1"},
		{"Zg=a", "byte 3"},
		{"Zg==Zg==", "byte 4"},
		{"Zg==\n=", "byte 5"},
		{"Zm 9v", "byte 2"},
		{"Zm9-", "byte 3"},
		{"Zm9_", "byte 3"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct err e = {0};
		struct buf b;

		buf_init(&b, 100);
		buf_str(&b, "<");
		assert_int_equal(base64_decode(slice_of(cases[i].in), &b, &e), ERR_SYNTAX);
		if (!strstr(e.msg, cases[i].at))
			fail_msg("%s: %s", cases[i].in, e.msg);
		assert_string_equal(b.data, "<");
		buf_release(&b);
	}
}

TEST(test_limit)
{
	struct err e = {0};
	struct buf b;

	buf_init(&b, 4);
	assert_int_equal(base64_decode(SLICE("Zm9vYg=="), &b, &e), 0);
	assert_string_equal(b.data, "foob");
	buf_clear(&b);
	assert_int_equal(base64_decode(SLICE("Zm9vYmE="), &b, &e), ERR_TOOBIG);
	assert_int_equal(b.len, 0);
	buf_release(&b);
}

/* Every byte there and back. */
TEST(test_round)
{
	unsigned char bytes[256];
	struct buf text, back;
	struct err e = {0};

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(i * 167 + 13);
	for (size_t n = 0; n <= sizeof(bytes); n++) {
		buf_init(&text, 1000);
		buf_init(&back, 1000);
		buf_base64(&text, bytes, n);
		assert_int_equal(base64_decode(buf_as_slice(&text), &back, &e), 0);
		assert_int_equal(back.len, n);
		assert_true(n == 0 || memcmp(back.data, bytes, n) == 0);
		buf_release(&text);
		buf_release(&back);
	}
}

TESTS(test_good, test_bad, test_limit, test_round)

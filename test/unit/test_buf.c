/* SPDX-License-Identifier: Apache-2.0 */
/* test: base/buf. */
#include "base/buf.h"
#include "test/unit/test.h"

#define TEXT(lit) lit, sizeof(lit) - 1

TEST(starts_empty_and_allocates_nothing)
{
	struct buf b;

	buf_init(&b, 10);
	assert_null(b.data);
	assert_int_equal(b.len, 0);
	assert_string_equal(buf_as_slice(&b).at, "");
	buf_add(&b, NULL, 0);
	buf_slice(&b, (struct slice){NULL, 0});
	assert_null(b.data);
	assert_false(b.failed);
	buf_release(&b);
}

TEST(appends_of_every_kind)
{
	struct buf b;

	buf_init(&b, 1000);
	buf_str(&b, "a");
	buf_char(&b, 'b');
	buf_slice(&b, SLICE("cd"));
	buf_add(&b, "e\0f", 3);
	buf_u64(&b, 0);
	buf_u64(&b, UINT64_MAX);
	buf_char(&b, ' ');
	buf_i64(&b, INT64_MIN);
	buf_i64(&b, -1);
	buf_i64(&b, INT64_MAX);
	buf_fmt(&b, " %s=%d", "x", 5);
	assert_false(b.failed);
	assert_memory_equal(b.data,
		"abcde\0f018446744073709551615 -9223372036854775808-19223372036854775807 x=5",
		b.len + 1);
	buf_clear(&b);
	assert_string_equal(b.data, "");
	assert_int_equal(b.len, 0);
	buf_release(&b);
	assert_null(b.data);
	assert_int_equal(b.max, 1000);
}

TEST(grows_by_doubling)
{
	struct buf b;
	size_t growths = 0, cap = 0;

	buf_init(&b, 1 << 20);
	for (int i = 0; i < 1 << 20; i++) {
		buf_char(&b, (char)('a' + i % 26));
		growths += b.cap != cap;
		cap = b.cap;
	}
	assert_false(b.failed);
	assert_true(growths < 20);
	assert_int_equal(b.len, 1 << 20);
	for (int i = 0; i < 1 << 20; i++)
		assert_int_equal(b.data[i], 'a' + i % 26);
	assert_true(cap <= (1 << 20) + 1);
	buf_release(&b);
}

/* Two bytes or more, by one of six ways. */
static void append(struct buf *b, int way)
{
	switch (way) {
	case 0:
		buf_str(b, "ef");
		break;
	case 1:
		buf_slice(b, SLICE("ef"));
		break;
	case 2:
		buf_u64(b, 12);
		break;
	case 3:
		buf_i64(b, -12);
		break;
	case 4:
		buf_fmt(b, "%d%d", 1, 2);
		break;
	default:
		buf_base64(b, "x", 1);
		break;
	}
}

/* Each way to append: what does not fit leaves the contents as they were, and nothing is appended
 * any more. */
TEST(maximum_holds_and_failure_sticks)
{
	for (int way = 0; way < 9; way++) {
		struct buf b;

		buf_init(&b, 5);
		buf_str(&b, "abcde");
		assert_false(b.failed);
		buf_clear(&b);
		buf_str(&b, "abcd");
		switch (way) {
		case 6:
			assert_false(buf_reserve(&b, 2));
			break;
		case 7:
			assert_false(buf_reserve(&b, SIZE_MAX));
			break;
		case 8:
			buf_char(&b, 'e');
			buf_char(&b, 'f');
			break;
		default:
			append(&b, way);
			break;
		}
		assert_true(b.failed);
		assert_string_equal(b.data, way == 8 ? "abcde" : "abcd");
		buf_char(&b, 'x');
		assert_string_equal(b.data, way == 8 ? "abcde" : "abcd");
		assert_null(buf_take(&b, NULL));
		assert_null(b.data);
		assert_false(b.failed);
		buf_release(&b);
	}
}

/* Nor what would fit. */
TEST(failure_sticks_beside_room)
{
	for (int way = 0; way < 10; way++) {
		struct buf b;

		buf_init(&b, 100);
		buf_str(&b, "abcd");
		assert_false(buf_reserve(&b, SIZE_MAX));
		switch (way) {
		case 6:
			buf_json_str(&b, SLICE("e"));
			break;
		case 7:
			buf_percent(&b, SLICE("e"));
			break;
		case 8:
			buf_pointer_seg(&b, SLICE("e"));
			break;
		case 9:
			buf_char(&b, 'e');
			break;
		default:
			append(&b, way);
			break;
		}
		assert_true(b.failed);
		assert_int_equal(b.len, 4);
		assert_string_equal(b.data, "abcd");
		buf_release(&b);
	}
}

TEST(exact_fit)
{
	struct buf b;

	buf_init(&b, 300);
	for (int i = 0; i < 30; i++)
		buf_fmt(&b, "%010d", i);
	assert_false(b.failed);
	assert_int_equal(b.len, 300);
	assert_int_equal(b.cap, 301);
	buf_fmt(&b, "%s", "");
	assert_false(b.failed);
	buf_release(&b);
	buf_init(&b, 0);
	buf_str(&b, "");
	assert_false(b.failed);
	buf_char(&b, 'a');
	assert_true(b.failed);
	buf_release(&b);
}

TEST(json_strings)
{
	static const struct {
		const char *in;
		size_t len;
		const char *out;
	} cases[] = {
		{TEXT(""), "\"\""},
		{TEXT("plain"), "\"plain\""},
		{TEXT("a\"b\\c/"), "\"a\\\"b\\\\c/\""},
		{TEXT("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\""},
		{TEXT("\x01\x1f\x7f"), "\"\\u0001\\u001f\x7f\""},
		{TEXT("a\0b"), "\"a\\u0000b\""},
		{TEXT("\xc3\xa9\xf0\x9f\x98\x80<>&"), "\"\xc3\xa9\xf0\x9f\x98\x80<>&\""},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf b;

		buf_init(&b, 100);
		buf_json_str(&b, (struct slice){cases[i].in, cases[i].len});
		assert_string_equal(b.data, cases[i].out);
		buf_clear(&b);
		buf_json_esc(&b, (struct slice){cases[i].in, cases[i].len});
		assert_int_equal(b.len, strlen(cases[i].out) - 2);
		buf_release(&b);
	}
}

TEST(pointer_segments)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"spec", "spec"},
		{"auto-management/bitfusion", "auto-management~1bitfusion"},
		{"~/~1", "~0~1~01"},
		{"a\"/\\\n", "a\\\"~1\\\\\\n"},
		{"/", "~1"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf b;

		buf_init(&b, 100);
		buf_pointer_seg(&b, slice_of(cases[i].in));
		assert_string_equal(b.data, cases[i].out);
		buf_release(&b);
	}
}

/* The test vectors of RFC 4648, section 10, and all byte values. */
TEST(base64)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"", ""},
		{"f", "Zg=="},
		{"fo", "Zm8="},
		{"foo", "Zm9v"},
		{"foob", "Zm9vYg=="},
		{"fooba", "Zm9vYmE="},
		{"foobar", "Zm9vYmFy"},
		{"\xff\xfe\xfd", "//79"},
		{"\xfb\xff", "+/8="},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf b;

		buf_init(&b, 100);
		buf_base64(&b, cases[i].in, strlen(cases[i].in));
		assert_string_equal(buf_as_slice(&b).at, cases[i].out);
		assert_int_equal(b.len, strlen(cases[i].out));
		buf_release(&b);
	}
}

/* One byte after the other, as the RFCs say it. */
static void naive_escape(char *out, const unsigned char *in, size_t len, bool pointer)
{
	static const char special[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";

	for (size_t i = 0; i < len; i++) {
		unsigned char c = in[i];
		const char *at = memchr(special, c, sizeof(special) - 1);

		if (pointer && (c == '~' || c == '/'))
			out += snprintf(out, 8, "~%d", c == '/');
		else if (at)
			out += snprintf(out, 8, "\\%c", letters[at - special]);
		else
			out += snprintf(out, 8, c < 0x20 ? "\\u%04x" : "%c", c);
	}
	*out = '\0';
}

static void naive_string(char *out, const unsigned char *in, size_t len)
{
	*out = '"';
	naive_escape(out + 1, in, len, false);
	strcat(out, "\"");
}

static void naive_base64(char *out, const unsigned char *in, size_t len)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned bits = 0, n = 0;

	for (size_t i = 0; i < len; i++) {
		bits = bits << 8 | in[i];
		for (n += 8; n >= 6; n -= 6)
			*out++ = letters[bits >> (n - 6) & 63];
	}
	if (n > 0)
		*out++ = letters[bits << (6 - n) & 63];
	for (; len % 3 != 0; len++)
		*out++ = '=';
	*out = '\0';
}

/* Every length around the vectors' width, in memory that ends with the bytes, by the naive ways
 * above. */
TEST(fast_ways_agree_with_the_slow)
{
	static char want[6 * 320 + 16];
	uint32_t draw = 7;

	for (size_t len = 1; len < 300; len++) {
		for (int round = 0; round < 8; round++) {
			unsigned char *in = malloc(len);
			struct buf b;

			for (size_t i = 0; i < len; i++) {
				draw = draw * 1664525 + 1013904223;
				/* rounds differ in how many bytes are special */
				in[i] = (unsigned char)(draw >> 8 & 7) < (unsigned)round
						? "\"\\~/\n\x01\x7f\x80"[draw >> 16 & 7]
						: (unsigned char)(draw >> 24);
				if (in[i] == 0)
					in[i] = round & 1 ? 'a' : 0x1f;
			}
			for (int way = 0; way < 4; way++) {
				buf_init(&b, sizeof(want));
				/* Also with more room than any text takes. */
				if (round & 1)
					buf_reserve(&b, sizeof(want));
				if (way == 0)
					buf_base64(&b, in, len);
				else if (way == 1)
					buf_json_esc(&b, (struct slice){(char *)in, len});
				else if (way == 2)
					buf_pointer_seg(&b, (struct slice){(char *)in, len});
				else
					buf_json_str(&b, (struct slice){(char *)in, len});
				if (way == 0)
					naive_base64(want, in, len);
				else if (way == 3)
					naive_string(want, in, len);
				else
					naive_escape(want, in, len, way == 2);
				assert_int_equal(b.len, strlen(want));
				assert_string_equal(b.data, want);
				buf_release(&b);
			}
			free(in);
		}
	}
}

/* Of every length around the pieces that it looks at, with and without a byte that is not plain:
 * nothing behind the text is looked at. */
TEST(plain_as_far_as_it_goes)
{
	char text[1100];

	for (size_t len = 0; len <= 1030; len += len % 128 < 2 || len % 128 > 125 ? 1 : 31) {
		memset(text, 'a', sizeof(text));
		assert_int_equal(buf_json_plain((struct slice){text, len}), len);
		for (size_t at = 0; at < len; at += at % 128 < 2 || at % 128 > 125 ? 1 : 31) {
			text[at] = '"';
			assert_int_equal(buf_json_plain((struct slice){text, len}), at);
			text[at] = 'a';
		}
	}
}

TEST(hands_its_bytes_over)
{
	struct buf b;
	size_t len = 99;
	char *s;

	buf_init(&b, 100);
	s = buf_take(&b, &len);
	assert_string_equal(s, "");
	assert_int_equal(len, 0);
	free(s);
	buf_str(&b, "abc");
	s = buf_take(&b, &len);
	assert_string_equal(s, "abc");
	assert_int_equal(len, 3);
	free(s);
	assert_null(b.data);
	assert_int_equal(b.max, 100);
	buf_str(&b, "d");
	s = buf_take(&b, NULL);
	assert_string_equal(s, "d");
	free(s);
}

TEST(percent_encoding)
{
	struct buf b;

	buf_init(&b, 256);
	buf_percent(&b, (struct slice){"aZ09-._~ /%&=+\0\xc3\xa4", 17});
	assert_string_equal(b.data, "aZ09-._~%20%2F%25%26%3D%2B%00%C3%A4");
	buf_release(&b);
}

TESTS(starts_empty_and_allocates_nothing, appends_of_every_kind, grows_by_doubling,
	maximum_holds_and_failure_sticks, failure_sticks_beside_room, exact_fit, json_strings,
	pointer_segments, percent_encoding, base64, fast_ways_agree_with_the_slow,
	plain_as_far_as_it_goes, hands_its_bytes_over)

/* SPDX-License-Identifier: Apache-2.0 */
/* test: what strangers chose stays text in HTML; figures for people. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "webhook/edge/html.h"

#define COUNT(x) (sizeof(x) / sizeof((x)[0]))

static void expect(struct buf *b, const char *want, const char *what)
{
	if (b->len != strlen(want) || (b->len && memcmp(b->data, want, b->len) != 0))
		fail_msg("%s: \"%s\", expected \"%s\"", what, b->data ? b->data : "", want);
	buf_release(b);
}

static void test_text(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"", ""},
		{"gpu-01", "gpu-01"},
		{"<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"},
		{"\"><img src=x onerror='a'>", "&quot;&gt;&lt;img src=x onerror=&#39;a&#39;&gt;"},
		{"&amp;`", "&amp;amp;&#96;"},
		{"Grüße 東京 🚀", "Grüße 東京 🚀"},
		{"a\nb\tc\x7f", "a\\u000ab\\u0009c\\u007f"},
		/* Right-to-left override, zero width space, soft hyphen, a mark of the plane of tags. */
		{"gpu\xe2\x80\xae"
		 "10",
			"gpu\\u202e10"},
		{"a\xe2\x80\x8b\xc2\xad\xf3\xa0\x80\x81", "a\\u200b\\u00ad\\ue0001"},
		{"\xc2\x85", "\\u0085"},
		/* No UTF-8: a byte alone, an overlong '<', a surrogate, a cut sequence. */
		{"a\xff"
		 "b",
			"a\xef\xbf\xbd"
			"b"},
		{"\xc0\xbc", "\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
	};
	struct buf b;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		buf_init(&b, 1024);
		html_str(&b, cases[i].in);
		expect(&b, cases[i].out, cases[i].in);
	}
	buf_init(&b, 1024);
	html_text(&b, (struct slice){0});
	html_text(&b, (struct slice){"<\0>", 3});
	expect(&b, "&lt;\\u0000&gt;", "NUL");
}

/* No byte, and no pair of bytes, leaves a character of markup. */
static void test_every_pair(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 1024);
	for (int i = 0; i < 256 * 256; i++) {
		char in[2] = {(char)(i >> 8), (char)(i & 0xff)};

		buf_clear(&b);
		html_text(&b, (struct slice){in, 2});
		assert_false(b.failed);
		assert_null(strpbrk(b.data, "<>\"'`"));
		for (const char *amp = b.data; (amp = strchr(amp, '&')); amp++)
			assert_non_null(strchr(amp, ';'));
		for (size_t k = 0; k < b.len; k++)
			assert_true((unsigned char)b.data[k] >= 0x20);
	}
	buf_release(&b);
}

static void test_cut(void **state)
{
	static const struct {
		const char *in;
		size_t max;
		const char *out;
	} cases[] = {{"abc", 3, "abc"}, {"abcd", 3, "abc\xe2\x80\xa6"},
		{"<<", 1, "&lt;\xe2\x80\xa6"}, {"üü", 2, "üü"}, {"üüü", 2, "üü\xe2\x80\xa6"},
		{"", 0, ""}, {"a", 0, "\xe2\x80\xa6"}};
	struct buf b;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		buf_init(&b, 1024);
		html_cut(&b, slice_of(cases[i].in), cases[i].max);
		expect(&b, cases[i].out, cases[i].in);
	}
}

static void test_bytes(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *out;
	} cases[] = {{0, "0"}, {1, "&lt;1 MB"}, {999999, "&lt;1 MB"}, {1000000, "1 MB"},
		{950000000, "950 MB"}, {999999999, "999 MB"}, {1000000000, "1 GB"},
		{16944988160, "16.9 GB"}, {85899345920, "85.9 GB"}, {99960000000, "100 GB"},
		{173000000000, "173 GB"}, {1300000000000, "1.3 TB"}, {UINT64_MAX, "18446744 TB"}};
	struct buf b;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		buf_init(&b, 1024);
		html_bytes(&b, cases[i].bytes);
		expect(&b, cases[i].out, cases[i].out);
	}
}

static void test_bytes_of(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 1024);
	html_bytes_of(&b, 5900000000, 16900000000);
	buf_char(&b, ';');
	html_bytes_of(&b, 950000000, 16900000000);
	buf_char(&b, ';');
	html_bytes_of(&b, 0, 16900000000);
	buf_char(&b, ';');
	html_bytes_of(&b, 5, 5);
	expect(&b, "5.9 of 16.9 GB;950 MB of 16.9 GB;0 of 16.9 GB;&lt;1 MB of &lt;1 MB", "of");
}

static void test_percent(void **state)
{
	static const struct {
		uint64_t part, whole;
		const char *out;
	} cases[] = {{0, 0, "0.00%"}, {5, 0, "0.00%"}, {0, 7, "0.00%"}, {1, 8, "12.50%"},
		{1, 3, "33.33%"}, {7, 7, "100.00%"}, {9, 7, "100.00%"},
		{UINT64_MAX / 2, UINT64_MAX, "50.00%"}, {UINT64_MAX - 1, UINT64_MAX, "100.00%"}};
	struct buf b;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		buf_init(&b, 1024);
		html_percent(&b, cases[i].part, cases[i].whole);
		expect(&b, cases[i].out, cases[i].out);
	}
}

static void test_times(void **state)
{
	static const struct {
		int64_t ms;
		const char *out;
	} cases[] = {{-5, "0 s"}, {999, "0 s"}, {59999, "59 s"}, {60000, "1 min"},
		{3599999, "59 min"}, {3600000, "1 h 0 min"}, {7500000, "2 h 5 min"},
		{86400000, "1 d 0 h"}, {INT64_MAX, "106751991167 d 7 h"}};
	struct buf b;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		buf_init(&b, 1024);
		html_age(&b, cases[i].ms);
		expect(&b, cases[i].out, cases[i].out);
	}
	buf_init(&b, 1024);
	html_time(&b, 1817114400000);
	expect(&b, "2027-08-01T10:00:00Z", "time");
	buf_init(&b, 1024);
	html_time(&b, INT64_MAX);
	assert_true(b.len < 32);
	buf_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_every_pair),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_bytes_of),
		cmocka_unit_test(test_percent),
		cmocka_unit_test(test_times),
	};

	return cmocka_run_group_tests_name("html", tests, NULL, NULL) != 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test: base/err. */
#include "base/err.h"
#include "base/slice.h"
#include "base/text.h"
#include "test/unit/test.h"

TEST(sets_code_and_message)
{
	struct err err = {0};

	assert_int_equal(err_reason(&err, ERR_REFUSED, "NotInjected", "pod %s", "a"), ERR_REFUSED);
	assert_string_equal(err.reason, "NotInjected");
	assert_string_equal(err.msg, "pod a");
	err_in(&err, "spec");
	assert_int_equal(err_set(&err, ERR_INVALID, "found %d", 7), ERR_INVALID);
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.msg, "found 7");
	assert_string_equal(err.path, "");
	assert_string_equal(err.reason, "");
	err_in(&err, "spec");
	assert_int_equal(err_reason(&err, ERR_IO, "Why", "n"), ERR_IO);
	assert_string_equal(err.path, "");
	assert_string_equal(err.msg, "n");
}

TEST(clear_leaves_nothing)
{
	struct err err = {0};

	err_reason(&err, ERR_REFUSED, "NotInjected", "pod %s", "a");
	err_in(&err, "spec");
	err_clear(&err);
	assert_int_equal(err.code, ERR_NONE);
	assert_string_equal(err.path, "");
	assert_string_equal(err.reason, "");
	assert_string_equal(err.msg, "");
}

TEST(works_without_an_error_to_fill)
{
	assert_int_equal(err_set(NULL, ERR_IO, "x"), ERR_IO);
	assert_int_equal(err_reason(NULL, ERR_TOOBIG, "R", "x"), ERR_TOOBIG);
	assert_int_equal(err_in(NULL, "spec"), ERR_INTERNAL);
	err_clear(NULL);
}

TEST(message_may_quote_itself)
{
	struct err err = {0};

	err_reason(&err, ERR_IO, "Why", "disk full");
	err_reason(&err, ERR_IO, err.reason, "cannot save: %s", err.msg);
	assert_string_equal(err.msg, "cannot save: disk full");
	assert_string_equal(err.reason, "Why");
}

TEST(message_is_printable)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"a\nb\tc", "a?b?c"},
		{"\x1b[31m\x7f", "?[31m?"},
		{"gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80"},
		{"\xff\xc3(", "?\?("},
		{"\xed\xa0\x80", "???"},
		/* one byte to some terminals, two in UTF-8: CSI; what turns or hides text */
		{"\xc2\x9b[31m \xc2\xa0", "?[31m \xc2\xa0"},
		{"a\xe2\x80\xae\x62\xe2\x80\x8b\xef\xbb\xbf\xf3\xa0\x80\xa1", "a?b???"},
	};
	struct err err = {0};

	for (size_t i = 0; i < COUNT(cases); i++) {
		err_set(&err, ERR_INVALID, "%s", cases[i].in);
		assert_string_equal(err.msg, cases[i].out);
	}
}

/* What the C library cannot put into words is no message, not half a one. */
TEST(message_that_cannot_be_made)
{
	static const wchar_t none[] = {0x110000, 0};
	struct err err = {0};

	assert_int_equal(err_set(&err, ERR_IO, "before"), ERR_IO);
	assert_int_equal(err_set(&err, ERR_INVALID, "the name %ls", none), ERR_INVALID);
	assert_int_equal(err.code, ERR_INVALID);
	assert_string_equal(err.msg, "");
}

static void expect_cut(const char *msg, const char *text, size_t len)
{
	size_t n = strlen(msg);

	assert_true(n <= 639 && n > 639 - len);
	assert_memory_equal(msg, text, n);
	assert_true(text_utf8(slice_of(msg)));
}

/* Texts of two-, three- and four-byte characters that are longer, that just fit and that just do
 * not, shifted by one byte at a time: the cut never leaves half a one. */
TEST(message_is_cut_between_characters)
{
	static const char *const characters[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
	struct err err = {0};

	for (size_t c = 0; c < 3; c++) {
		size_t len = strlen(characters[c]);

		for (size_t shift = 0; shift < 4; shift++) {
			char text[1000] = "abcd";
			size_t at = shift;

			while (at + len < sizeof(text)) {
				memcpy(text + at, characters[c], len);
				at += len;
				text[at] = '\0';
				err_set(&err, ERR_INVALID, "%s", text);
				if (at < 640)
					assert_string_equal(err.msg, text);
				else
					expect_cut(err.msg, text, len);
			}
		}
	}
}

TEST(reason_is_cut)
{
	struct err err = {0};

	err_reason(&err, ERR_INVALID, "AVeryLongReasonWordThatDoesNotFitInside", "x");
	assert_int_equal(strlen(err.reason), 31);
}

TEST(path_grows_at_the_front)
{
	struct err err = {0};

	err_set(&err, ERR_INVALID, "x");
	assert_int_equal(err_in(&err, "command"), ERR_INVALID);
	assert_string_equal(err.path, "/command");
	err_in(&err, "containers/%d", 2);
	err_in(&err, "%s", "");
	err_in(&err, "spec");
	assert_string_equal(err.path, "/spec/containers/2/command");
	assert_string_equal(err.msg, "x");
}

TEST(long_path_keeps_its_end)
{
	struct err err = {0};

	err_set(&err, ERR_INVALID, "x");
	err_in(&err, "end");
	for (int i = 0; i < 100; i++) {
		err_in(&err, "\xc3\xa9%d\xc3\xa9", i);
		assert_true(strlen(err.path) < sizeof(err.path));
		assert_true(text_utf8(slice_of(err.path)));
	}
	assert_non_null(strstr(err.path, "/\xc3\xa9"
					 "0\xc3\xa9/end"));
}

/* A path of every length about the most: its last 191 bytes, and the reason stays. */
TEST(path_is_cut_where_it_no_longer_fits)
{
	for (int n = 80; n < 100; n++) {
		struct err err = {0};
		char whole[256];
		size_t len = (size_t)snprintf(whole, sizeof(whole), "/%0*d/%0100d", n, 1, 2);

		err_reason(&err, ERR_INVALID, "Why", "x");
		err_in(&err, "%0100d", 2);
		assert_int_equal(err_in(&err, "%0*d", n, 1), ERR_INVALID);
		assert_string_equal(err.path, whole + (len > 191 ? len - 191 : 0));
		assert_string_equal(err.reason, "Why");
		assert_string_equal(err.msg, "x");
	}
}

TESTS(sets_code_and_message, clear_leaves_nothing, works_without_an_error_to_fill,
	message_may_quote_itself, message_is_printable, message_that_cannot_be_made,
	message_is_cut_between_characters, reason_is_cut, path_grows_at_the_front,
	long_path_keeps_its_end, path_is_cut_where_it_no_longer_fits)

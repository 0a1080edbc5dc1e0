/* SPDX-License-Identifier: Apache-2.0 */
/* test: base/json/json_index: the lists say what a plain loop over the bytes says, whatever stands
 * at the ends of blocks and windows; and json_read, which rests on them. */
#include "base/json/json_index.h"
#include "base/json/json_read.h"
#include "test/unit/test.h"

#define TEXT_MAX (3 * JSON_WINDOW)

static uint32_t random_state = 2463534242U;

static uint32_t draw(uint32_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state % below;
}

/* A text of few kinds of bytes; the fewer plain ones, the more runs of backslashes. */
static size_t make_text(char *text, uint32_t plain)
{
	static const char kinds[] = {'\\', '\\', '\\', '"', '"', '\n', '\xC3', '\xFF', '\x1F'};
	size_t len = draw(TEXT_MAX);

	for (size_t i = 0; i < len; i++) {
		uint32_t kind = draw((uint32_t)sizeof(kinds) + plain);

		text[i] = kind < sizeof(kinds) ? kinds[kind] : 'a';
	}
	memset(text + len, 0, JSON_PAD);
	return len;
}

/* What the lists of one window must hold, by a loop over its bytes. */
static void check_window(const struct json_index *x, size_t from, size_t to, bool *escaped)
{
	size_t quotes = 0, odds = 0;

	for (size_t i = from; i < to; i++) {
		unsigned char c = (unsigned char)x->text[i];

		if (c == '"' && !*escaped)
			assert_int_equal(x->quote[quotes++], i);
		if (c == '\\' || c < 0x20 || c >= 0x80)
			assert_int_equal(x->odd[odds++], i);
		*escaped = c == '\\' && !*escaped;
	}
	assert_int_equal(x->quote[quotes], JSON_NO_QUOTE);
	assert_int_equal(x->quote[quotes + 1], JSON_NO_QUOTE);
	assert_int_equal(x->odd[odds], JSON_NO_ODD);
}

TEST(lists_are_those_of_a_plain_loop)
{
	struct json_index x;
	char *text = malloc(TEXT_MAX + JSON_PAD);

	assert_non_null(text);
	for (uint32_t round = 0; round < 600; round++) {
		size_t len = make_text(text, round % 3 == 0 ? 0 : round), at = 0;
		bool escaped = false;

		json_index_init(&x, text, len);
		x.avx2 = x.avx2 && round % 2 == 0;
		assert_int_equal(x.quote[1], JSON_NO_QUOTE);
		assert_int_equal(x.odd[0], JSON_NO_ODD);
		while (json_index_next(&x)) {
			size_t to = len - at < JSON_WINDOW ? len : at + JSON_WINDOW;

			check_window(&x, at, to, &escaped);
			at = to;
		}
		assert_int_equal(at, len);
	}
	free(text);
}

/* What a string is to hold, at the place where the window ends. */
static const char *const pieces[] = {"x", "\\\"", "\\\\", "\\\\\\\"", "\\u003c", "\\ud83d\\ude00",
	"\xC3\xA9", "\xF0\x9F\x98\x80"};

/* `["aaa…<piece>","b"]`, the piece before that many bytes. */
static size_t put_string(char *text, size_t before, const char *piece)
{
	size_t n = 0, len = strlen(piece);

	memcpy(text, "[\"", 2);
	for (n = 2; n < before; n++)
		text[n] = 'a';
	memcpy(text + n, piece, len);
	memcpy(text + n + len, "\",\"b\"]", 6);
	memset(text + n + len + 6, 0, JSON_PAD);
	return n + len + 6;
}

TEST(strings_cross_the_ends_of_windows)
{
	char *text = malloc(TEXT_MAX + JSON_PAD);
	struct json j = {0};
	struct err err = {0};

	assert_non_null(text);
	for (size_t i = 0; i < COUNT(pieces); i++)
		for (size_t before = 2; before < 2 * JSON_WINDOW + 20; before++) {
			size_t len = put_string(text, before, pieces[i]);

			assert_int_equal(json_read(&j, text, len, 10, &err), 0);
			assert_int_equal(j.count, 3);
			assert_int_equal(j.node[1].len, before + strlen(pieces[i]));
			assert_int_equal(j.node[1].escaped, pieces[i][0] == '\\');
			assert_int_equal(j.node[2].at, len - 4);
		}
	json_release(&j);
	free(text);
}

/* A string that never ends, or holds what it must not, is refused where that is, in whichever
 * window. */
TEST(refusals_name_the_place_in_any_window)
{
	char *text = malloc(TEXT_MAX + JSON_PAD);
	struct json j = {0};
	struct err err = {0};

	assert_non_null(text);
	for (size_t before = 2; before < 2 * JSON_WINDOW + 20; before += 7) {
		char place[40];
		size_t len = put_string(text, before, "\x01");

		(void)snprintf(place, sizeof(place), "at byte %zu:", before);
		assert_int_equal(json_read(&j, text, len, 10, &err), ERR_SYNTAX);
		assert_non_null(strstr(err.msg, place));
		memset(text + before, 0, JSON_PAD);
		assert_int_equal(json_read(&j, text, before, 10, &err), ERR_SYNTAX);
		assert_string_equal(
			err.msg, "at byte 1: the string that begins here has no closing '\"'");
		assert_int_equal(j.count, 0);
	}
	json_release(&j);
	free(text);
}

TESTS(lists_are_those_of_a_plain_loop, strings_cross_the_ends_of_windows,
	refusals_name_the_place_in_any_window)

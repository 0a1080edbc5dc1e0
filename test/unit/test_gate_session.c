/* SPDX-License-Identifier: Apache-2.0 */
/* test: the first request of a connection, and whose it says that it is. */
#include <nghttp2/nghttp2.h>

#include "gate/session.h"
#include "test/unit/test.h"

#define UID "11111111-2222-3333-4444-555555555555"
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SETTINGS "\0\0\0\4\0\0\0\0\0"
/* x-s: u, a new name, never indexed */
#define ONE "\x10\3x-s\1u"
#define OTHER "\x10\3x-s\1v"

static enum session_word judge(const void *bytes, size_t len)
{
	return session_judge((struct slice){bytes, len}, SLICE("x-s"), SLICE("u"));
}

static nghttp2_nv header(const char *name, const char *value)
{
	return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
		strlen(value), NGHTTP2_NV_FLAG_NONE};
}

/* What a client shows that speaks by the library that LUPINE's does: whose, or "" for no header. */
static size_t client_says(const char *uid, char ret[4096])
{
	const nghttp2_nv headers[] = {header(":method", "POST"), header(":scheme", "http"),
		header(":authority", "gpu-01:14833"), header(":path", "/"),
		header("x-lupine-session", uid)};
	const nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20};
	nghttp2_session_callbacks *none;
	nghttp2_session *client;
	const uint8_t *piece;
	size_t len = 0;
	ssize_t n;

	assert_int_equal(nghttp2_session_callbacks_new(&none), 0);
	assert_int_equal(nghttp2_session_client_new(&client, none, NULL), 0);
	assert_int_equal(nghttp2_submit_settings(client, NGHTTP2_FLAG_NONE, &entry, 1), 0);
	assert_int_equal(nghttp2_submit_window_update(client, NGHTTP2_FLAG_NONE, 0, 1 << 20), 0);
	assert_true(nghttp2_submit_request(client, NULL, headers, *uid ? 5 : 4, NULL, NULL) > 0);
	while ((n = nghttp2_session_mem_send(client, &piece)) > 0) {
		assert_true(len + (size_t)n <= 4096);
		memcpy(ret + len, piece, (size_t)n);
		len += (size_t)n;
	}
	nghttp2_session_del(client);
	nghttp2_session_callbacks_del(none);
	return len;
}

/* However little of it has come, nothing is said too early, and nothing is taken back. */
TEST(test_what_a_client_says)
{
	static const struct {
		const char *uid;
		enum session_word word;
	} cases[] = {{UID, SESSION_OURS}, {"", SESSION_MISSING}, {UID "5", SESSION_FORGED},
		{"11111111", SESSION_FORGED}};
	char bytes[4096];

	for (size_t i = 0; i < COUNT(cases); i++) {
		size_t len = client_says(cases[i].uid, bytes), from = 0;

		for (size_t n = 0; n <= len; n++) {
			enum session_word word = session_judge(
				(struct slice){bytes, n}, SLICE("x-lupine-session"), SLICE(UID));

			if (word == SESSION_MORE) {
				assert_int_equal(from, 0);
				continue;
			}
			assert_int_equal(word, cases[i].word);
			from = from ? from : n;
		}
		assert_true(from > sizeof(PREFACE));
	}
}

struct spoken {
	const char *bytes;
	size_t len;
	enum session_word word;
};

static void judge_all(const struct spoken *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		enum session_word word = judge(cases[i].bytes, cases[i].len);

		if (word != cases[i].word)
			fail_msg("case %zu: %d", i, (int)word);
	}
}

TEST(test_frames)
{
	static const struct spoken cases[] = {
#define SAYS(word, text) {PREFACE text, sizeof(PREFACE text) - 1, SESSION_##word}
		SAYS(OURS, SETTINGS "\0\0\7\1\4\0\0\0\1" ONE),
		SAYS(MISSING, SETTINGS "\0\0\1\1\4\0\0\0\1\x82"),
		SAYS(FORGED, SETTINGS "\0\0\7\1\4\0\0\0\1" OTHER),
		/* once so and once otherwise, in any order, is nobody's */
		SAYS(FORGED, SETTINGS "\0\0\x0e\1\4\0\0\0\1" ONE OTHER),
		SAYS(FORGED, SETTINGS "\0\0\x0e\1\4\0\0\0\1" OTHER ONE),
		SAYS(OURS, SETTINGS "\0\0\x0e\1\4\0\0\0\1" ONE ONE),
		/* padding, a priority, both; more of them than there is room for */
		SAYS(OURS, SETTINGS "\0\0\x0a\1\x0c\0\0\0\1\2" ONE "\0\0"),
		SAYS(OURS, SETTINGS "\0\0\x0c\1\x24\0\0\0\1\0\0\0\0\1" ONE),
		SAYS(OURS, SETTINGS "\0\0\x0e\1\x2c\0\0\0\1\1\0\0\0\0\1" ONE "\0"),
		SAYS(BROKEN, SETTINGS "\0\0\1\1\x0c\0\0\0\1\1"),
		SAYS(BROKEN, SETTINGS "\0\0\0\1\x0c\0\0\0\1"),
		SAYS(BROKEN, SETTINGS "\0\0\4\1\x24\0\0\0\1\0\0\0\0"),
		/* in two pieces, with nothing between them */
		SAYS(OURS, SETTINGS "\0\0\3\1\0\0\0\0\1\x10\3x"
				    "\0\0\4\x09\4\0\0\0\1-s\1u"),
		SAYS(MORE, SETTINGS "\0\0\7\1\0\0\0\0\1" ONE),
		SAYS(FORGED, SETTINGS "\0\0\7\1\0\0\0\0\1" ONE "\0\0\7\x09\4\0\0\0\1" OTHER),
		SAYS(BROKEN, SETTINGS "\0\0\7\1\0\0\0\0\1" ONE "\0\0\0\x09\4\0\0\0\3"),
		SAYS(BROKEN, SETTINGS "\0\0\7\1\0\0\0\0\1" ONE SETTINGS),
		/* what asks for nothing goes before, known or not */
		SAYS(OURS, SETTINGS SETTINGS "\0\0\4\x08\0\0\0\0\0"
					     "\0\0\1\0"
					     "\0\0\2\x99\0\0\0\0\7ab"
					     "\0\0\7\1\4\0\0\0\1" ONE),
		SAYS(BROKEN, SETTINGS "\0\0\1\0\0\0\0\0\1x"),
		SAYS(BROKEN, SETTINGS "\0\0\0\5\4\0\0\0\1"),
		SAYS(BROKEN, SETTINGS "\0\0\7\x09\4\0\0\0\1" ONE),
		SAYS(BROKEN, SETTINGS "\0\0\7\1\4\0\0\0\2" ONE),
		SAYS(BROKEN, "\0\0\7\1\4\0\0\0\1" ONE),
		SAYS(BROKEN, "\0\0\0\4\0\0\0\0\1"),
		/* longer than anybody has agreed on; no HPACK; cut in the middle of a header */
		SAYS(BROKEN, SETTINGS "\0\x40\1\4\0\0\0\0\0"),
		SAYS(BROKEN, SETTINGS "\0\0\1\1\4\0\0\0\1\x80"),
		SAYS(BROKEN, SETTINGS "\0\0\5\1\4\0\0\0\1\x10\3x-s"),
	};

	judge_all(cases, COUNT(cases));
	assert_int_equal(judge("", 0), SESSION_MORE);
}

/* HTTP/1 is read in one way alone. */
TEST(test_heads)
{
	static const struct spoken cases[] = {
#define READS(word, text) {text, sizeof(text) - 1, SESSION_##word}
#define LINE "HEAD / HTTP/1.1\r\n"
		READS(OURS, LINE "Host: a\r\nX-S: u\r\n\r\n"),
		READS(OURS, LINE "x-s:\t u \t\r\nX-s:u\r\n\r\nbody"),
		READS(OURS, "POST /a HTTP/1.0\r\nx-s:u\r\n\r\n"),
		READS(MISSING, LINE "\r\n"),
		READS(MISSING, LINE "x-s2: u\r\nx: x-s: u\r\n\r\nx-s: u\r\n"),
		READS(FORGED, LINE "x-s: v\r\n"),
		READS(FORGED, LINE "x-s: uu\r\n\r\n"),
		READS(FORGED, LINE "x-s:\r\n\r\n"),
		READS(FORGED, LINE "x-s: u\r\nX-S: v\r\n\r\n"),
		READS(FORGED, LINE "x-s: u, u\r\n\r\n"),
		READS(MORE, LINE "x-s: u\r\n"),
		READS(MORE, "P"),
		READS(MORE, "PRI * HTTP/1"),
		READS(MORE, LINE "x-s: v\r"),
		READS(BROKEN, "PRI * HTTP/2.0\r\nx-s: u\r\n\r\n"),
		READS(BROKEN, "\x16\3\1"),
		READS(BROKEN, "env\n"),
		READS(BROKEN, "HEAD / HTTP/1.1\nx-s: u\n\n"),
		READS(BROKEN, "HEAD /\r\n"),
		READS(BROKEN, "HEAD HTTP/1.1\r\n"),
		READS(BROKEN, "HEAD  HTTP/1.1\r\n"),
		READS(BROKEN, "HEAD / a HTTP/1.1\r\n"),
		READS(BROKEN, "HEAD / HTTP/1.2\r\n"),
		READS(BROKEN, LINE "x-s : u\r\n\r\n"),
		READS(BROKEN, LINE " x-s: u\r\n\r\n"),
		READS(BROKEN, LINE "a: b\r\n x-s: u\r\n\r\n"),
		READS(BROKEN, LINE ": u\r\n\r\n"),
		READS(BROKEN, LINE "x-s\r\n\r\n"),
		READS(BROKEN, LINE "x-s: u\n\r\n"),
		READS(BROKEN, LINE "a: b\rx-s: u\r\n\r\n"),
		READS(BROKEN, LINE "a: \0\r\nx-s: u\r\n\r\n"),
	};

	judge_all(cases, COUNT(cases));
}

/* It does not go on for ever. */
TEST(test_bound)
{
	static char bytes[SESSION_BYTES_MAX];
	size_t len = sizeof(PREFACE) - 1;

	memcpy(bytes, PREFACE, len);
	for (; len + 9 <= sizeof(bytes); len += 9)
		memcpy(bytes + len, SETTINGS, 9);
	assert_int_equal(judge(bytes, sizeof(bytes) - 1), SESSION_MORE);
	assert_int_equal(judge(bytes, sizeof(bytes)), SESSION_BROKEN);
}

/* Nor in more pieces than anybody needs, empty ones among them. */
TEST(test_pieces)
{
	static const char begin[] = PREFACE SETTINGS "\0\0\0\1\0\0\0\0\1",
			  more[] = "\0\0\0\x09\0\0\0\0\1", end[] = "\0\0\7\x09\4\0\0\0\1" ONE;

	for (size_t n = 7; n <= 8; n++) {
		char bytes[256];
		size_t len = sizeof(begin) - 1;

		memcpy(bytes, begin, len);
		for (size_t i = 0; i < n; i++, len += sizeof(more) - 1)
			memcpy(bytes + len, more, sizeof(more) - 1);
		memcpy(bytes + len, end, sizeof(end) - 1);
		assert_int_equal(judge(bytes, len), SESSION_MORE);
		assert_int_equal(judge(bytes, len + sizeof(end) - 1),
			n == 7 ? SESSION_OURS : SESSION_BROKEN);
	}
}

TESTS(test_what_a_client_says, test_frames, test_heads, test_bound, test_pieces)

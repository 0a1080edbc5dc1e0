/* SPDX-License-Identifier: Apache-2.0 */
/* test: base/text. */
#include "base/text.h"
#include "test/unit/test.h"

TEST(whole_numbers)
{
	static const struct {
		const char *in;
		uint64_t max;
		bool ok;
		uint64_t n;
	} cases[] = {
		{"0", 0, true, 0},
		{"007", 10, true, 7},
		{"100", 100, true, 100},
		{"101", 100, false, 0},
		{"18446744073709551615", UINT64_MAX, true, UINT64_MAX},
		{"18446744073709551616", UINT64_MAX, false, 0},
		{"99999999999999999999999", UINT64_MAX, false, 0},
		{"", 9, false, 0},
		{"-1", 9, false, 0},
		{"+1", 9, false, 0},
		{" 1", 9, false, 0},
		{"1 ", 9, false, 0},
		{"1.0", 9, false, 0},
		{"1e1", 99, false, 0},
		{"0x1", 9, false, 0},
		{"\xef\xbc\x91", 9, false, 0},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		uint64_t n = 77;

		if (text_u64(slice_of(cases[i].in), cases[i].max, &n) != cases[i].ok)
			fail_msg("\"%s\"", cases[i].in);
		assert_int_equal(n, cases[i].ok ? cases[i].n : 77);
	}
	assert_false(text_u64((struct slice){NULL, 0}, 9, &(uint64_t){0}));
}

/* Of all bytes ten are digits, wherever they stand. */
TEST(bytes_of_whole_numbers)
{
	for (unsigned byte = 0; byte < 256; byte++)
		for (size_t at = 0; at < 3; at++) {
			char text[] = "111";
			uint64_t n = 7;
			bool digit = byte >= '0' && byte <= '9';

			text[at] = (char)byte;
			if (text_u64((struct slice){text, 3}, UINT64_MAX, &n) != digit)
				fail_msg("byte %u at %zu", byte, at);
			assert_true(digit || n == 7);
		}
}

TEST(durations)
{
	static const struct {
		const char *in;
		int64_t ms; /* -1: refused */
	} cases[] = {
		{"0", 0},
		{"0s", 0},
		{"5s", 5000},
		{"250ms", 250},
		{"1.5s", 1500},
		{".5s", 500},
		{"1.s", 1000},
		{"1h30m", 5400000},
		{"1h1m1s1ms", 3661001},
		{"10m", 600000},
		{"1us", 1},
		{"1\xc2\xb5s", 1},
		{"1\xce\xbcs", 1},
		{"1000us", 1},
		{"1001us", 2},
		{"1ns", 1},
		{"0.1ns", 0},
		{"0.000001s", 1},
		{"1.0000000000000000000000001s", 1000},
		{"2562047h47m16.854775807s", INT64_C(9223372036855)},
		{"2562047h47m16.854775808s", -1},
		{"9223372036854775807ns", INT64_C(9223372036855)},
		{"9223372036854775808ns", -1},
		{"99999999999999999999s", -1},
		{"3000000h", -1},
		{"", -1},
		{"5", -1},
		{"s", -1},
		{".s", -1},
		{".", -1},
		{"-5s", -1},
		{"+5s", -1},
		{"5 s", -1},
		{" 5s", -1},
		{"5s ", -1},
		{"5S", -1},
		{"5d", -1},
		{"5sec", -1},
		{"1.2.3s", -1},
		{"1h30", -1},
		{"00", -1},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		int64_t ms = -1;
		bool ok = text_duration_ms(slice_of(cases[i].in), &ms);

		if (ok != (cases[i].ms >= 0) || ms != cases[i].ms)
			fail_msg("\"%s\": %d %lld", cases[i].in, ok, (long long)ms);
	}
}

TEST(case_insensitive)
{
	assert_true(text_ieq(SLICE("Injected"), SLICE("iNJECTED")));
	assert_true(text_ieq(SLICE(""), SLICE("")));
	assert_false(text_ieq(SLICE("a"), SLICE("ab")));
	assert_false(text_ieq(SLICE("["), SLICE("{")));
	assert_false(text_ieq(SLICE("@"), SLICE("`")));
	/* Not by Unicode: neither E with an accent nor the Kelvin sign. */
	assert_false(text_ieq(SLICE("\xc3\x89"), SLICE("\xc3\xa9")));
	assert_false(text_ieq(SLICE("\xe2\x84\xaa"), SLICE("k")));
}

TEST(utf8)
{
	static const char *const good[] = {"", "abc", "\x7f", "\xc2\x80", "\xdf\xbf",
		"\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80",
		"\xf4\x8f\xbf\xbf"};
	static const char *const bad[] = {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3(",
		"\xe0\x9f\xbf", "\xe2\x82", "\xe2\x28\xa1", "\xed\xa0\x80", "\xed\xbf\xbf",
		"\xf0\x8f\xbf\xbf", "\xf0\x9f\x98", "\xf0\x9f\x28\x80", "\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80", "\xfe", "\xff", "ab\xff"};

	for (size_t i = 0; i < COUNT(good); i++)
		assert_true(text_utf8(slice_of(good[i])));
	for (size_t i = 0; i < COUNT(bad); i++)
		if (text_utf8(slice_of(bad[i])))
			fail_msg("bad case %zu is accepted", i);
}

TEST(utf8_cut)
{
	static const struct {
		const char *in;
		size_t max, cut;
	} cases[] = {
		{"abc", 5, 3},
		{"abc", 3, 3},
		{"abc", 2, 2},
		{"abc", 0, 0},
		{"a\xc3\xa9z", 2, 1},
		{"a\xc3\xa9z", 3, 3},
		{"\xe2\x82\xac\xe2\x82\xac", 5, 3},
		{"\xe2\x82\xac\xe2\x82\xac", 4, 3},
		{"\xe2\x82\xac", 2, 0},
		{"\xf0\x9f\x98\x80x", 3, 0},
		{"x\xf0\x9f\x98\x80x", 4, 1},
		{"x\xf0\x9f\x98\x80x", 5, 5},
		/* No UTF-8: nothing to keep whole. */
		{"\x80\x80\x80\x80\x80\x80", 4, 4},
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		assert_int_equal(text_utf8_cut(slice_of(cases[i].in), cases[i].max), cases[i].cut);
	assert_int_equal(text_utf8_cut((struct slice){NULL, 0}, 5), 0);
}

TEST(base_names)
{
	static const char *const cases[][2] = {{"/usr/bin/bitfusion", "bitfusion"},
		{"bitfusion", "bitfusion"}, {"./x", "x"}, {"bin/", ""}, {"/", ""}, {"", ""},
		{"a//b", "b"}};

	for (size_t i = 0; i < COUNT(cases); i++)
		assert_true(slice_is(text_basename(slice_of(cases[i][0])), cases[i][1]));
	assert_null(text_basename((struct slice){NULL, 0}).at);
}

TEST(words)
{
	struct slice rest = SLICE(" \t one\ntwo\r\f\vthree  "), word;

	assert_true(text_word(&rest, &word));
	assert_true(slice_is(word, "one"));
	assert_true(text_word(&rest, &word));
	assert_true(slice_is(word, "two"));
	assert_true(text_word(&rest, &word));
	assert_true(slice_is(word, "three"));
	assert_false(text_word(&rest, &word));
	assert_true(slice_is(word, "three"));
	rest = (struct slice){NULL, 0};
	assert_false(text_word(&rest, &word));
	/* A no-break space separates nothing. */
	rest = SLICE("a\xc2\xa0"
		     "b");
	assert_true(text_word(&rest, &word));
	assert_int_equal(word.len, 4);
}

TEST(dns_labels)
{
	static const char *const good[] = {"a", "0", "a-b", "0a", "my-pod-1",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
	static const char *const bad[] = {"", "-", "-a", "a-", "A", "a.b", "a_b", "a b", "\xc3\xa9",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};

	for (size_t i = 0; i < COUNT(good); i++)
		assert_true(text_dns_label(slice_of(good[i])));
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_false(text_dns_label(slice_of(bad[i])));
}

/* Test vectors of the FNV authors (draft-eastlake-fnv). */
TEST(hashes)
{
	assert_true(text_hash64(SLICE("")) == UINT64_C(0xcbf29ce484222325));
	assert_true(text_hash64(SLICE("a")) == UINT64_C(0xaf63dc4c8601ec8c));
	assert_true(text_hash64(SLICE("foobar")) == UINT64_C(0x85944171f73967e8));
	/* around the turns of eight bytes */
	assert_true(text_hash64(SLICE("chongo was here!\n")) == UINT64_C(0x46810940eff5f915));
	for (size_t n = 0; n < 40; n++) {
		const char text[] = "abcdefghijklmnopqrstuvwxyz\xff\x80\x01 ABCDEFGHIJ";
		uint64_t slow = UINT64_C(0xcbf29ce484222325);

		for (size_t i = 0; i < n; i++)
			slow = (slow ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
		assert_true(text_hash64((struct slice){text, n}) == slow);
	}
	assert_true(text_hash64((struct slice){0}) == UINT64_C(0xcbf29ce484222325));
}

TEST(listen_addresses)
{
	static const struct {
		const char *in, *host;
		unsigned port;
	} good[] = {
		{"127.0.0.1:8443", "127.0.0.1", 8443},
		{":8080", "", 8080},
		{"localhost:1", "localhost", 1},
		{"[::1]:65535", "::1", 65535},
		{"[::]:0", "::", 0},
		{"[fe80::1%eth0]:80", "fe80::1%eth0", 80},
		{"my-host.example_x:80", "my-host.example_x", 80},
	};
	static const char *const bad[] = {"", ":", "8443", "127.0.0.1",
		"127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:http", "::1:80",
		"[::1]", "[::1]80", "[::1:80", "[]:80", "[localhost]:80", "a b:80", "a:80 ",
		"http://a:80", "a:080000",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:80"};
	char host[64];
	uint16_t port;

	for (size_t i = 0; i < COUNT(good); i++) {
		assert_int_equal(text_host_port(slice_of(good[i].in), host, &port, NULL), 0);
		assert_string_equal(host, good[i].host);
		assert_int_equal(port, good[i].port);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct err err = {0};

		port = 7;
		if (text_host_port(slice_of(bad[i]), host, &port, &err) != ERR_INVALID)
			fail_msg("\"%s\" is accepted", bad[i]);
		assert_int_equal(port, 7);
		assert_non_null(strstr(err.msg, "ADDR:PORT"));
		assert_non_null(strstr(err.msg, bad[i]));
	}
}

/* Every byte in a name, in an address of the sixth version and in a port. */
TEST(bytes_of_listen_addresses)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

	for (int c = 1; c < 256; c++) {
		bool plain = strchr(letters, c) || strchr(".-_", c);
		char name[8], v6[16], port[8], host[64];
		uint16_t n;

		snprintf(name, sizeof(name), "a%cb:80", c);
		snprintf(v6, sizeof(v6), "[:%cb]:80", c);
		snprintf(port, sizeof(port), "a:1%c", c);
		if ((text_host_port(slice_of(name), host, &n, NULL) == 0) != plain)
			fail_msg("%s", name);
		if ((text_host_port(slice_of(v6), host, &n, NULL) == 0) !=
			(plain || c == ':' || c == '%'))
			fail_msg("%s", v6);
		if ((text_host_port(slice_of(port), host, &n, NULL) == 0) != (c >= '0' && c <= '9'))
			fail_msg("%s", port);
	}
}

TEST(dns_subdomains)
{
	static const char *const good[] = {"a", "0", "job-7.train", "a.b.c", "x0-1"};
	static const char *const bad[] = {"", ".", "..", "a.", ".a", "a..b", "-a", "a-", "a-.b",
		"a.-b", "A", "a_b", "a/b", "a b", "\xc3\xa4", "a?b", "%2e"};
	char longest[255];
	for (size_t i = 0; i < COUNT(good); i++)
		assert_true(text_dns_subdomain(slice_of(good[i])));
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_false(text_dns_subdomain(slice_of(bad[i])));
	memset(longest, 'a', sizeof(longest));
	assert_true(text_dns_subdomain((struct slice){longest, 253}));
	assert_false(text_dns_subdomain((struct slice){longest, 254}));
	assert_false(text_dns_subdomain((struct slice){NULL, 0}));
}

TEST(ips)
{
	static const char *const good[] = {"10.1.2.3", "0.0.0.0", "::", "fd00::3",
		"::ffff:10.1.2.3", "1111:2222:3333:4444:5555:6666:123.123.123.123"};
	static const char *const bad[] = {"", "10.1.2", "10.1.2.256", "10.1.2.3 ", "10.1.2.3:80",
		"10.1.2.3,fd00::3", "[::1]", "fe80::1%eth0", "localhost",
		"1111:2222:3333:4444:5555:6666:1123.123.123.123"};
	unsigned char at[16], again[16];

	for (size_t i = 0; i < COUNT(good); i++)
		assert_true(text_ip(slice_of(good[i]), at));
	for (size_t i = 0; i < COUNT(bad); i++)
		assert_false(text_ip(slice_of(bad[i]), at));
	assert_false(text_ip((struct slice){"10.1.2.3\0", 9}, at));
	assert_false(text_ip((struct slice){NULL, 0}, at));
	/* spelled in either way it is one */
	assert_true(text_ip(SLICE("10.1.2.3"), at));
	assert_true(text_ip(SLICE("0:0::ffff:0a01:203"), again));
	assert_memory_equal(at, again, sizeof(at));
}

/* How far a word may be from the one that was meant: changed, added and left out at each end and in
 * the middle; the nearest, of equals the first. */
TEST(nearest_words)
{
#define LONG "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuv"
	static const char *const known[] = {"lamp", "label", "cable", "Cables", LONG, LONG "w"};
	static const struct {
		const char *word, *meant;
	} cases[] = {
		{"lamp", "lamp"},
		{"LAMP", "lamp"},
		{"xamp", "lamp"},
		{"lamx", "lamp"},
		{"lxmp", "lamp"},
		{"xxmp", NULL},
		{"lmp", "lamp"},
		{"lam", "lamp"},
		{"amp", "lamp"},
		{"la", NULL},
		{"lamps", "lamp"},
		{"label", "label"},
		{"lable", "cable"},
		{"lxxel", "label"},
		{"xabex", "label"},
		{"xxxel", NULL},
		{"la-bel", "label"},
		{"--label", "label"},
		{"labelxx", "label"},
		{"labelxxx", NULL},
		{"cables", "Cables"},
		{"cablexx", "cable"},
		{"", NULL},
		{"x" LONG, NULL},
		{LONG, LONG},
		{LONG "w", NULL},
		{"xxcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuv", LONG},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		const char *meant = text_nearest(slice_of(cases[i].word), known, COUNT(known));

		if (meant != cases[i].meant &&
			(!meant || !cases[i].meant || strcmp(meant, cases[i].meant) != 0))
			fail_msg("%s: %s", cases[i].word, meant ? meant : "none");
	}
}

/* Each byte there is, whatever the locale. */
TEST(letters_and_digits)
{
	static const char digits[] = "0123456789", lower[] = "abcdefghijklmnopqrstuvwxyz",
			  upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	for (int i = 0; i < 256; i++) {
		char c = (char)i;
		bool digit = c && strchr(digits, c), small = c && strchr(lower, c);
		const char *large = c ? strchr(upper, c) : NULL;

		assert_int_equal(text_is_digit(c), digit);
		assert_int_equal(text_is_lower(c), small);
		assert_int_equal(text_is_upper(c), large != NULL);
		assert_int_equal(text_is_letter(c), small || large);
		assert_int_equal(text_is_alnum(c), small || large || digit);
		assert_int_equal(text_is_lower_alnum(c), small || digit);
		assert_int_equal(text_to_lower(c), large ? lower[large - upper] : c);
	}
}

TESTS(letters_and_digits, whole_numbers, bytes_of_whole_numbers, durations, case_insensitive, utf8,
	utf8_cut, base_names, words, dns_labels, dns_subdomains, ips, hashes, listen_addresses,
	bytes_of_listen_addresses, nearest_words)

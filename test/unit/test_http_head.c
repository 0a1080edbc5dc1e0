/* SPDX-License-Identifier: Apache-2.0 */
/* net/http_head: heads, URLs and challenges of strangers. */
#include "net/http_head.h"

#include "test/unit/test.h"

TEST(values_of_a_head)
{
	static const struct slice head =
		SLICE("HTTP/1.1 401 no\r\nLocation:  https://a/b \r\n"
		      "WWW-Authenticate: Basic\r\nx: y\r\n"
		      "www-authenticate:\tBearer realm=\"r\"\r\nNo colon\r\n\r\n");

	assert_true(slice_is(http_head_value(head, "location", 0), "https://a/b"));
	assert_true(slice_is(http_head_value(head, "WWW-Authenticate", 0), "Basic"));
	assert_true(slice_is(http_head_value(head, "WWW-Authenticate", 1), "Bearer realm=\"r\""));
	assert_null(http_head_value(head, "WWW-Authenticate", 2).at);
	assert_null(http_head_value(head, "No", 0).at);
	assert_null(http_head_value((struct slice){0}, "x", 0).at);
	assert_true(slice_is(http_media_type(SLICE("a/b; charset=x")), "a/b"));
	assert_true(slice_is(http_media_type(SLICE("a/b")), "a/b"));
	assert_int_equal(http_media_type((struct slice){0}).len, 0);
}

TEST(urls_that_can_be_read_in_one_way)
{
	static const struct {
		const char *text, *host, *rest;
	} rows[] = {{"https://a.example/x?y=z&q", "a.example", "/x?y=z&q"},
		{"https://a.example", "a.example", ""}, {"https://a:443/", "a", "/"},
		{"https://a:5000/v2/", "a:5000", "/v2/"}, {"https://127.0.0.1/", "127.0.0.1", "/"},
		{"https://a/@b", "a", "/@b"}, {"https://a:65535", "a:65535", ""}};
	static const char *const bad[] = {"", "http://a/", "HTTPS://a/", "https:/a", "https://",
		"https:///x", "https://A/", "https://u@a/", "https://u:p@a/", "https://a:/",
		"https://a:b/", "https://a:123456/", "https://a?x", "https://a#f", "https://a/#f",
		"https://a\\b/", "https://a/ b", "https://a/\n", "https://[::1]/", "https://a%00b/",
		"https://a/\x7f", "https://\xc3\xa4/", "//a/b", "file:///x", "https://a:5000x/",
		"https://a:0443/", "https://a:0/", "https://a:65536/", "https://a./", "https://.a/",
		"https://a..b/", "https://./", "https://a.:5000/", "https://a/<", "https://a/{",
		"https://a/|", "https://a/^", "https://a/`"};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct https_url url;

		assert_true(https_url_read(slice_of(rows[i].text), &url));
		assert_true(slice_is(url.host, rows[i].host));
		assert_true(slice_eq(url.rest, slice_of(rows[i].rest)));
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct https_url url;

		if (https_url_read(slice_of(bad[i]), &url))
			fail_msg("%s was taken", bad[i]);
	}
}

TEST(hosts)
{
	static const char *const good[] = {"a", "a.example", "a:5000", "127.0.0.1", "a-b.c:1"};
	static const char *const bad[] = {"", "A", "a:443", "a:0443", "a/", "a/b", "u@a", "a.", ".",
		"*.a", "a b", "https://a", "a:", "a:99999", "[::1]", "a?", "a#"};
	static char longest[600];

	for (size_t i = 0; i < COUNT(good); i++)
		assert_true(https_host_good(slice_of(good[i])));
	for (size_t i = 0; i < COUNT(bad); i++)
		if (https_host_good(slice_of(bad[i])))
			fail_msg("taken: %s", bad[i]);
	assert_false(https_host_good((struct slice){"a\0b", 3}));
	for (size_t n = 1; n < sizeof(longest); n++) {
		longest[n - 1] = 'a';
		assert_int_equal(https_host_good((struct slice){longest, n}), n <= 253);
	}
}

TEST(challenges)
{
	static const struct {
		const char *text;
		int kind; /* 'b' Bearer, 'c' Basic, 0 none */
		const char *realm, *service;
	} rows[] = {{"Bearer realm=\"https://a/t\",service=\"s\",scope=\"x:y:pull,push\"", 'b',
			    "https://a/t", "s"},
		{"bearer Realm=r , SERVICE = \"a \\\"b\\\" c\"", 'b', "r", "a \"b\" c"},
		{"Basic realm=\"x\"", 'c', "x", NULL}, {"Basic", 'c', NULL, NULL},
		{"Basic realm=\"x\", Bearer realm=\"y\"", 'b', "y", NULL},
		{"Bearer realm=\"y\", Basic realm=\"x\"", 'b', "y", NULL},
		{"Bearer realm=\"y\",realm=\"z\"", 'b', "y", NULL},
		{"Digest realm=\"x\", nonce=\"n\"", 0, NULL, NULL}, {"", 0, NULL, NULL},
		{"Bearer realm=\"open", 0, NULL, NULL}, {"Bearer realm=\"open\\", 0, NULL, NULL},
		{"@", 0, NULL, NULL}, {"Negotiate, Basic realm=r", 'c', "r", NULL},
		{"Bearer realm=", 'b', "", NULL}, {", ,Bearer service=s", 'b', NULL, "s"}};
	struct arena a;

	arena_init(&a, 65536);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct http_challenge c = {0};
		bool found = http_challenge_read(slice_of(rows[i].text), &a, &c);

		if (found != (rows[i].kind != 0))
			fail_msg("row %zu: %s", i, rows[i].text);
		if (!found)
			continue;
		assert_int_equal(c.bearer, rows[i].kind == 'b');
		assert_true(slice_eq(c.realm, slice_of(rows[i].realm)));
		assert_true(slice_eq(c.service, slice_of(rows[i].service)));
	}
	arena_release(&a);
}

/* Each byte that a host, and that a port may hold, and no other. */
TEST(bytes_of_hosts_and_ports)
{
	for (int c = 1; c < 256; c++) {
		char host[] = "axa", port[] = "a:1x";
		bool digit = c >= '0' && c <= '9';

		host[1] = port[3] = (char)c;
		/* a colon begins a port, and "a" is none */
		if (https_host_good(slice_of(host)) !=
			(digit || (c >= 'a' && c <= 'z') || c == '-' || c == '.'))
			fail_msg("the byte %d in a host", c);
		if (https_host_good(slice_of(port)) != digit)
			fail_msg("the byte %d in a port", c);
	}
}

/* Each byte that a token may hold (RFC 9110, 5.6.2), and no other. */
TEST(tokens)
{
	static const char others[] = "\"(),/:;<=>?@[\\]{}\x7f\x80 \t\n";

	for (int c = 1; c < 256; c++) {
		bool may = c > ' ' && c < 0x7f && !strchr(others, c);
		char text[] = "Bearer realm=ab, service=x";
		struct http_challenge got;
		struct arena a;

		arena_init(&a, 1 << 12);
		text[strlen("Bearer realm=a")] = (char)c;
		if ((http_challenge_read(slice_of(text), &a, &got) && got.realm.len == 2) != may)
			fail_msg("the byte %d is %s", c, may ? "not taken" : "taken");
		arena_release(&a);
	}
}

/* However many strings a challenge quotes, it takes no more memory than its own length. */
TEST(a_challenge_takes_no_more_than_it_is_long)
{
	enum { LENGTH = 16000 };
	static char text[LENGTH + 1];
	struct http_challenge c;
	struct arena a;

	for (size_t i = 0; i + 5 <= LENGTH; i += 5)
		memcpy(text + i, "a=\"\",", 5);
	arena_init(&a, (size_t)16 * LENGTH);
	assert_false(http_challenge_read(slice_of(text), &a, &c));
	assert_false(a.failed);
	arena_release(&a);
}

TESTS(values_of_a_head, urls_that_can_be_read_in_one_way, hosts, bytes_of_hosts_and_ports,
	challenges, tokens, a_challenge_takes_no_more_than_it_is_long)

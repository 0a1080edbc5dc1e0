/* SPDX-License-Identifier: Apache-2.0 */
/* test: which Host headers the admin listener answers. */
#include "test/unit/test.h"
#include "webhook/edge/admin/admin_guard.h"

/* 60 bytes: names have room for 63. */
#define LONG "a.name.that.nobody.has.is.as.long.as.a.name.here.may.be.and."

TEST(test_hosts)
{
	/* Whoever asked last has no part in it. */
	static const char *const before[] = {"evil.example:1", "10.0.0.7:1", "[::1]:1"};
	static const struct {
		const char *host, *peer;
		bool allowed;
	} cases[] = {
		{NULL, "127.0.0.1:4000", true},
		{"127.0.0.1:8081", "127.0.0.1:4000", true},
		{"127.0.0.1", "127.0.0.1:4000", true},
		{"localhost:18081", "127.0.0.1:4000", true},
		{"LocalHost", "[::1]:4000", true},
		{"[::1]:8081", "[::1]:4000", true},
		{"[::1]", "[::1]:4000", true},
		{"10.0.0.7:8081", "127.0.0.1:4000", true},
		{"evil.example:8081", "127.0.0.1:4000", false},
		{"evil.example", "[::1]:4000", false},
		{"localhost.evil.example:8081", "127.0.0.1:4000", false},
		{"127.0.0.1.evil.example", "127.9.9.9:4000", false},
		{"evil.example:8081", "[::ffff:127.0.0.1]:4000", false},
		{"", "127.0.0.1:4000", false},
		{":8081", "127.0.0.1:4000", false},
		{"[", "127.0.0.1:4000", false},
		{"127.0.0.1:8081:1", "127.0.0.1:4000", false},
		{"[]", "127.0.0.1:4000", false},
		{"[::1", "127.0.0.1:4000", false},
		{"::1]", "127.0.0.1:4000", false},
		{"[::g]", "127.0.0.1:4000", false},
		{"[2001:db8:1111:2222:3333:4444:255.255.255.255]:65535", "127.0.0.1:4000", true},
		{LONG "123", "127.0.0.1:4000", false},
		{LONG "1234", "127.0.0.1:4000", false},
		{LONG "123:8081", "127.0.0.1:4000", false},
		{LONG "1234:8081", "127.0.0.1:4000", false},
		/* Whoever opened the listener to a network has a name for it. */
		{"pool.example:8081", "10.0.0.7:4000", true},
		{"pool.example:8081", "12.7.0.7:4000", true},
		{"pool.example:8081", "128.0.0.1:4000", true},
		{"pool.example:8081", "[::12]:4000", true},
		{"pool.example:8081", "[::1:1]:4000", true},
		{"pool.example:8081", "[::ffff:12.7.0.1]:4000", true},
		{"pool.example:8081", "[::ffff:128.0.0.1]:4000", true},
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		for (size_t k = 0; k < COUNT(before); k++) {
			(void)admin_host_allowed(before[k], "127.0.0.1:4000");
			if (admin_host_allowed(cases[i].host, cases[i].peer) != cases[i].allowed)
				fail_msg("%s from %s behind %s: expected %d", cases[i].host,
					cases[i].peer, before[k], cases[i].allowed);
		}
}

TESTS(test_hosts)

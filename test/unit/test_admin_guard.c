/* SPDX-License-Identifier: Apache-2.0 */
/* test: which Host headers the admin listener answers. */
#include "test/unit/test.h"
#include "webhook/edge/admin/admin_guard.h"

TEST(test_hosts)
{
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
		/* Whoever opened the listener to a network has a name for it. */
		{"pool.example:8081", "10.0.0.7:4000", true},
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		if (admin_host_allowed(cases[i].host, cases[i].peer) != cases[i].allowed)
			fail_msg("%s from %s: expected %d", cases[i].host, cases[i].peer,
				cases[i].allowed);
}

TESTS(test_hosts)

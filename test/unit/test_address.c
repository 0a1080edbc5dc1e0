/* SPDX-License-Identifier: Apache-2.0 */
/* net/address: which addresses a stranger may name. */
#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "test/unit/test.h"

static struct sockaddr_storage address_of(const char *text)
{
	struct sockaddr_storage s = {0};
	struct sockaddr_in *v4 = (void *)&s;
	struct sockaddr_in6 *v6 = (void *)&s;

	if (strchr(text, ':')) {
		s.ss_family = AF_INET6;
		assert_int_equal(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
	} else {
		s.ss_family = AF_INET;
		assert_int_equal(inet_pton(AF_INET, text, &v4->sin_addr), 1);
	}
	return s;
}

static bool is_public(const char *text)
{
	struct sockaddr_storage s = address_of(text);

	return address_is_public((const struct sockaddr *)&s);
}

static bool in_range(const char *text, const char *range)
{
	struct sockaddr_storage s = address_of(text);

	return address_in_range((const struct sockaddr *)&s, slice_of(range));
}

/* The first and the last address of each special range, and their neighbours outside. */
TEST(special_addresses_are_not_public)
{
	static const char *const inner[] = {"0.0.0.0", "0.255.255.255", "10.0.0.0",
		"10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1", "127.255.255.255",
		"169.254.0.0", "169.254.169.254", "169.254.255.255", "172.16.0.0", "172.31.255.255",
		"192.0.0.0", "192.0.0.255", "192.0.2.1", "192.88.99.1", "192.168.0.0",
		"192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.1", "203.0.113.1",
		"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1", "::2",
		"::ffff:10.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0.0.0.0",
		"::10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b:1::8.8.8.8",
		"64:ff9b::192.168.1.1", "100::1", "fc00::1", "fdff:ffff::1", "fe80::1", "febf::1",
		"fec0::1", "ff02::1", "2001::1", "2001:1ff:ffff::1", "2001:db8::1",
		"2002:a00:1::", "2002:808:808::", "3fff::1", "3fff:fff:ffff::1", "4000::1",
		"1fff::1"};

	for (size_t i = 0; i < COUNT(inner); i++)
		if (is_public(inner[i]))
			fail_msg("%s counts as public", inner[i]);
}

TEST(others_are_public)
{
	static const char *const outer[] = {"1.0.0.0", "9.255.255.255", "11.0.0.0",
		"100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255",
		"169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0",
		"192.0.3.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0",
		"198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255",
		"203.0.114.0", "223.255.255.255", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8",
		"2001:200::1", "2001:db7:ffff::1", "2001:db9::1", "2003::1", "2606:4700::1",
		"3ffe::1", "3fff:1000::1"};

	for (size_t i = 0; i < COUNT(outer); i++)
		if (!is_public(outer[i]))
			fail_msg("%s counts as inner", outer[i]);
}

TEST(other_families_are_nothing)
{
	struct sockaddr_un path = {.sun_family = AF_UNIX, .sun_path = "/run/docker.sock"};
	struct sockaddr_storage none = {0};

	assert_false(address_is_public((const struct sockaddr *)&path));
	assert_false(address_is_public((const struct sockaddr *)&none));
	assert_false(address_in_range((const struct sockaddr *)&path, SLICE("0.0.0.0/0")));
	assert_false(address_in_range((const struct sockaddr *)&path, SLICE("::/0")));
	/* whatever its bytes would be in one of ours */
	none = address_of("2606:4700::1");
	none.ss_family = AF_UNIX;
	assert_false(address_is_public((const struct sockaddr *)&none));
}

TEST(ranges)
{
	static const char *const bad[] = {"", "10.0.0.0/", "10.0.0.0/33", "10.0.0/8", "/8", "x",
		"::1/129", "10.0.0.0/8 ", "10.0.0.0/-1", "1.2.3.4/08x", "fe80::1%eth0"};

	assert_true(in_range("10.2.3.4", "10.2.0.0/16"));
	assert_false(in_range("10.3.0.0", "10.2.0.0/16"));
	assert_true(in_range("10.2.128.1", "10.2.128.0/17"));
	assert_false(in_range("10.2.127.255", "10.2.128.0/17"));
	assert_true(in_range("127.0.0.1", "127.0.0.1"));
	assert_false(in_range("127.0.0.2", "127.0.0.1"));
	assert_true(in_range("9.9.9.9", "0.0.0.0/0"));
	assert_false(in_range("fd00::1", "0.0.0.0/0"));
	assert_true(in_range("::ffff:10.2.3.4", "10.2.0.0/16"));
	assert_false(in_range("::ffff:10.2.3.4", "::/0"));
	assert_true(in_range("fd00:1::5", "fd00:1::/32"));
	assert_false(in_range("fd00:2::5", "fd00:1::/32"));
	for (size_t i = 0; i < COUNT(bad); i++) {
		assert_false(address_range_good(slice_of(bad[i])));
		assert_false(in_range("10.0.0.1", bad[i]));
	}
	assert_false(address_range_good((struct slice){"10.0.0.0\0/8", 11}));
}

static uint64_t peer_of(const char *text)
{
	struct sockaddr_storage s = address_of(text);

	return address_peer(&s);
}

TEST(peers)
{
	assert_true(peer_of("10.0.0.1") == peer_of("::ffff:10.0.0.1"));
	assert_true(peer_of("10.0.0.1") != peer_of("10.0.0.2"));
	assert_true(peer_of("fd00:1::1") == peer_of("fd00:1::2"));
	assert_true(peer_of("fd00:1::1") != peer_of("fd00:1:0:1::1"));
	assert_true(peer_of("::1") != 0);
}

static uint64_t host_of(const char *text, uint64_t secret)
{
	struct sockaddr_storage s = address_of(text);

	return address_host(&s, secret);
}

/* Of the last two addresses the numbers would be one, were the halves joined by what is known to
 * all: fd00:2:: ^ fd00:1:: is what the hosts, times an odd number, differ by. */
TEST(hosts)
{
	assert_true(host_of("10.0.0.1", 1) == host_of("::ffff:10.0.0.1", 1));
	assert_true(host_of("10.0.0.1", 1) != host_of("10.0.0.2", 1));
	assert_true(host_of("fd00:1::1", 1) == host_of("fd00:1::1", 1));
	assert_true(host_of("fd00:1::1", 1) != host_of("fd00:1::1", 2));
	assert_true(host_of("fd00:1::1", 1) != host_of("fd00:1::2", 1));
	assert_true(host_of("fd00:1::1", 1) != host_of("fd00:1:0:1::1", 1));
	assert_true(host_of("fd00:1::1", 1) != peer_of("fd00:1::1"));
	assert_true(host_of("::", 1) != 0);
	for (uint64_t secret = 0; secret < 100; secret++)
		assert_true(
			host_of("fd00:1::1", secret) != host_of("fd00:2::b7:59a6:cba5", secret));
}

static uint64_t network_of(const char *text)
{
	struct sockaddr_storage s = address_of(text);

	return address_network(&s);
}

TEST(networks)
{
	assert_true(network_of("10.0.0.1") == 0 && network_of("::ffff:10.0.0.1") == 0);
	assert_true(network_of("fd00:1::1") == network_of("fd00:1::2"));
	assert_true(network_of("fd00:1::1") != network_of("fd00:1:0:1::1"));
	assert_true(network_of("::1") != 0);
}

TESTS(special_addresses_are_not_public, others_are_public, other_families_are_nothing, ranges,
	peers, hosts, networks)

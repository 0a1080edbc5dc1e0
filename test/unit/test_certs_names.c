/* SPDX-License-Identifier: Apache-2.0 */
/* unit: certs/certs_names. */
#include "certs/certs_names.h"
#include "test/unit/test.h"

#define LABEL63 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NAME253                                                                                    \
	LABEL63 "." LABEL63 "." LABEL63 "."                                                        \
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct {
	struct slice in;
	const char *out; /* NULL: refused */
	const char *says;
} dns[] = {
	{SLICE("localhost"), "localhost", NULL},
	{SLICE("Poolgate.Poolgate-System.SVC"), "poolgate.poolgate-system.svc", NULL},
	{SLICE("10-0-0-1.ns.pod"), "10-0-0-1.ns.pod", NULL},
	{SLICE("1.example"), "1.example", NULL},
	{SLICE(NAME253), NAME253, NULL},
	{SLICE(NAME253 "a"), NULL, "254 octets"},
	{SLICE(""), NULL, "0 octets"},
	{{NULL, 0}, NULL, "0 octets"},
	{SLICE("10.0.0.1"), NULL, "use --ip"},
	{SLICE("::1"), NULL, "use --ip"},
	{SLICE("1.2.3"), NULL, "DNS name"},
	{SLICE("42"), NULL, "DNS name"},
	{SLICE("*.example.com"), NULL, "one server"},
	{SLICE("a..b"), NULL, "DNS name"},
	{SLICE("a.b."), NULL, "DNS name"},
	{SLICE(".a"), NULL, "DNS name"},
	{SLICE("-a.b"), NULL, "DNS name"},
	{SLICE("a_b"), NULL, "DNS name"},
	{SLICE("a b"), NULL, "DNS name"},
	{SLICE("a\0b"), NULL, "DNS name"},
	{SLICE("a\n"), NULL, "DNS name"},
	{SLICE("b\xc3\xbc"
	       "cher.example"),
		NULL, "DNS name"},
	{SLICE(LABEL63 "a"), NULL, "DNS name"},
};

TEST(test_dns)
{
	for (size_t i = 0; i < COUNT(dns); i++) {
		struct certs_names names = {0};
		struct err err = {0};
		int code = certs_names_dns(&names, dns[i].in, &err);

		if (dns[i].out) {
			assert_int_equal(code, 0);
			assert_int_equal(names.count, 1);
			assert_int_equal(names.name[0].kind, CERTS_NAME_DNS);
			assert_string_equal(names.name[0].text, dns[i].out);
			assert_int_equal(names.name[0].ip_len, 0);
		} else {
			assert_int_equal(code, ERR_INVALID);
			assert_int_equal(names.count, 0);
			assert_non_null(strstr(err.msg, dns[i].says));
		}
	}
}

static const struct {
	struct slice in;
	const char *out; /* NULL: refused */
	uint8_t len;
} ip[] = {
	{SLICE("127.0.0.1"), "127.0.0.1", 4},
	{SLICE("::1"), "::1", 16},
	{SLICE("FD00:0:0::7"), "fd00::7", 16},
	{SLICE("::ffff:10.0.0.1"), "::ffff:10.0.0.1", 16},
	{SLICE(""), NULL, 0},
	{{NULL, 0}, NULL, 0},
	{SLICE("127.1"), NULL, 0},
	{SLICE("010.0.0.1"), NULL, 0},
	{SLICE("256.0.0.1"), NULL, 0},
	{SLICE("10.0.0.0/8"), NULL, 0},
	{SLICE("[::1]"), NULL, 0},
	{SLICE("fe80::1%eth0"), NULL, 0},
	{SLICE("127.0.0.1\0"), NULL, 0},
	{SLICE("localhost"), NULL, 0},
	{SLICE("0000:0000:0000:0000:0000:0000:0000:0000:0000:0000"), NULL, 0},
};

TEST(test_ip)
{
	for (size_t i = 0; i < COUNT(ip); i++) {
		struct certs_names names = {0};
		struct err err = {0};
		int code = certs_names_ip(&names, ip[i].in, &err);

		if (ip[i].out) {
			assert_int_equal(code, 0);
			assert_int_equal(names.name[0].kind, CERTS_NAME_IP);
			assert_int_equal(names.name[0].ip_len, ip[i].len);
			assert_string_equal(names.name[0].text, ip[i].out);
		} else {
			assert_int_equal(code, ERR_INVALID);
			assert_int_equal(names.count, 0);
			assert_non_null(strstr(err.msg, "10.0.0.7"));
		}
	}
}

TEST(test_octets)
{
	static const uint8_t bytes[17] = {10, 0, 0, 7};
	struct certs_names names = {0};

	assert_int_equal(certs_names_octets(&names, bytes, 4, NULL), 0);
	assert_int_equal(certs_names_octets(&names, bytes, 16, NULL), 0);
	assert_int_equal(certs_names_octets(&names, bytes, 0, NULL), ERR_INVALID);
	assert_int_equal(certs_names_octets(&names, bytes, 17, NULL), ERR_INVALID);
	assert_string_equal(names.name[0].text, "10.0.0.7");
	assert_string_equal(names.name[1].text, "a00:7::");
}

TEST(test_service)
{
	struct certs_names names = {0};
	struct err err = {0};

	assert_int_equal(certs_names_service(&names, SLICE("poolgate"), SLICE("gpu"), &err), 0);
	assert_string_equal(names.name[0].text, "poolgate.gpu.svc");
	assert_int_equal(certs_names_service(&names, SLICE(LABEL63), SLICE(LABEL63), &err), 0);
	assert_int_equal(
		certs_names_service(&names, SLICE("a.b"), SLICE("gpu"), &err), ERR_INVALID);
	assert_non_null(strstr(err.msg, "Service"));
	assert_int_equal(certs_names_service(&names, SLICE("a"), SLICE(""), &err), ERR_INVALID);
	assert_non_null(strstr(err.msg, "namespace"));
	assert_int_equal(names.count, 2);
}

TEST(test_set)
{
	struct certs_names names = {0};
	struct err err = {0};
	char name[16];

	/* once each, an address and a name of the same text apart */
	assert_int_equal(certs_names_dns(&names, SLICE("a.b"), &err), 0);
	assert_int_equal(certs_names_dns(&names, SLICE("A.B"), &err), 0);
	assert_int_equal(certs_names_ip(&names, SLICE("::1"), &err), 0);
	assert_int_equal(certs_names_ip(&names, SLICE("0::1"), &err), 0);
	assert_int_equal(names.count, 2);
	for (int i = 2; i < CERTS_NAMES_MAX; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		assert_int_equal(certs_names_dns(&names, slice_of(name), &err), 0);
	}
	assert_int_equal(certs_names_dns(&names, SLICE("one-more"), &err), ERR_TOOBIG);
	assert_int_equal(certs_names_dns(&names, SLICE("a.b"), &err), 0);
	assert_int_equal(names.count, CERTS_NAMES_MAX);
}

TESTS(test_dns, test_ip, test_octets, test_service, test_set)

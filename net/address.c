/* SPDX-License-Identifier: Apache-2.0 */
/* net: kinds of addresses, by IANA's registries of special-purpose addresses. */
#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/text.h"

/* An address without its family's clothes: 4 bytes or 16. */
struct bare {
	unsigned char at[16];
	size_t len;
};

struct prefix {
	const char *text; /* its leading bytes */
	size_t bits;
};

#define PREFIX(bytes, bits)                                                                        \
	{                                                                                          \
		bytes, bits                                                                        \
	}

/* What no stranger may name. */
static const struct prefix inner4[] = {
	PREFIX("\x00", 8), PREFIX("\x0a", 8), PREFIX("\x64\x40", 10), PREFIX("\x7f", 8),
	PREFIX("\xa9\xfe", 16), PREFIX("\xac\x10", 12), PREFIX("\xc0\x00\x00", 24),
	PREFIX("\xc0\x00\x02", 24), PREFIX("\xc0\x58\x63", 24), PREFIX("\xc0\xa8", 16),
	PREFIX("\xc6\x12", 15), PREFIX("\xc6\x33\x64", 24), PREFIX("\xcb\x00\x71", 24),
	PREFIX("\xe0", 3), /* multicast, reserved, broadcast */
};
static const struct prefix inner6[] = {
	PREFIX("\x20\x01\x00", 23),     /* IETF's own: Teredo, ORCHID, benchmarks */
	PREFIX("\x20\x01\x0d\xb8", 32), /* documentation */
	PREFIX("\x20\x02", 16),         /* 6to4 */
	PREFIX("\x3f\xff\x00", 20),     /* documentation */
};
static const struct prefix global6 = PREFIX("\x20", 3);
static const struct prefix mapped = PREFIX("\0\0\0\0\0\0\0\0\0\0\xff\xff", 96);
static const struct prefix nat64 = PREFIX("\x00\x64\xff\x9b\0\0\0\0\0\0\0\0", 96);

static bool begins(const unsigned char *at, const void *with, size_t bits)
{
	unsigned char mask = (unsigned char)(0xff00u >> bits % 8);

	return memcmp(at, with, bits / 8) == 0 &&
	       (bits % 8 == 0 ||
		       ((at[bits / 8] ^ ((const unsigned char *)with)[bits / 8]) & mask) == 0);
}

static bool among(const struct bare *b, const struct prefix *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (begins(b->at, list[i].text, list[i].bits))
			return true;
	return false;
}

/* An IPv4 address inside of an IPv6 one is what will be reached. */
static bool undress(const struct sockaddr *address, struct bare *ret)
{
	*ret = (struct bare){0};
	if (address->sa_family == AF_INET) {
		ret->len = 4;
		memcpy(ret->at, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
		return true;
	}
	if (address->sa_family != AF_INET6)
		return false;
	ret->len = 16;
	memcpy(ret->at, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
	if (among(ret, &mapped, 1) || among(ret, &nat64, 1)) {
		memmove(ret->at, ret->at + 12, 4);
		ret->len = 4;
	}
	return true;
}

bool address_is_public(const struct sockaddr *address)
{
	struct bare b;

	if (!undress(address, &b))
		return false;
	if (b.len == 4)
		return !among(&b, inner4, sizeof(inner4) / sizeof(inner4[0]));
	return among(&b, &global6, 1) && !among(&b, inner6, sizeof(inner6) / sizeof(inner6[0]));
}

static bool read_range(struct slice text, struct bare *ret, size_t *ret_bits)
{
	const char *slash = text.len > 0 ? memchr(text.at, '/', text.len) : NULL;
	size_t len = slash ? (size_t)(slash - text.at) : text.len;
	char name[INET6_ADDRSTRLEN];
	uint64_t bits;

	*ret = (struct bare){0};
	if (len == 0 || len >= sizeof(name) || memchr(text.at, '\0', len))
		return false;
	memcpy(name, text.at, len);
	name[len] = '\0';
	ret->len = memchr(name, ':', len) ? 16 : 4;
	if (inet_pton(ret->len == 16 ? AF_INET6 : AF_INET, name, ret->at) != 1)
		return false;
	*ret_bits = ret->len * 8;
	if (slash) {
		if (!text_u64((struct slice){slash + 1, text.len - len - 1}, ret->len * 8, &bits))
			return false;
		*ret_bits = bits;
	}
	return true;
}

bool address_range_good(struct slice text)
{
	struct bare b;
	size_t bits;

	return read_range(text, &b, &bits);
}

bool address_in_range(const struct sockaddr *address, struct slice range)
{
	struct bare b, from;
	size_t bits;

	return undress(address, &b) && read_range(range, &from, &bits) && b.len == from.len &&
	       begins(b.at, from.at, bits);
}

uint64_t address_peer(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *v4 = (const void *)address;
	const struct sockaddr_in6 *v6 = (const void *)address;
	uint64_t key = 0;
	uint32_t last;

	if (address->ss_family == AF_INET)
		return UINT64_C(1) << 32 | v4->sin_addr.s_addr;
	if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		memcpy(&last, &v6->sin6_addr.s6_addr[12], sizeof(last));
		return UINT64_C(1) << 32 | last;
	}
	memcpy(&key, &v6->sin6_addr, sizeof(key));
	return key ? key : 1;
}

/* Each bit of it changes half of what comes out (the end of SplitMix64). */
static uint64_t mixed(uint64_t x)
{
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

uint64_t address_network(const struct sockaddr_storage *address)
{
	const struct sockaddr_in6 *v6 = (const void *)address;

	if (address->ss_family == AF_INET || IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
		return 0;
	return address_peer(address);
}

uint64_t address_host(const struct sockaddr_storage *address, uint64_t secret)
{
	const struct sockaddr_in6 *v6 = (const void *)address;
	uint64_t key = address_peer(address), host;

	if (!address_network(address))
		return key;
	memcpy(&host, &v6->sin6_addr.s6_addr[8], sizeof(host));
	key = mixed(key ^ mixed(host ^ secret));
	return key ? key : 1;
}

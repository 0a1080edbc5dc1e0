/* SPDX-License-Identifier: Apache-2.0 */
/* net: kinds of addresses. Pure. A server that asks where strangers say may be led to what only it
 * can reach. */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/slice.h"

/* Is it an address of the public Internet, one machine's? Not so: loopback, link-local, private,
 * shared (RFC 6598), unspecified, multicast, reserved, for documentation; in IPv6 also
 * unique-local, 6to4, Teredo, and whatever is not global unicast. An IPv4 address in an IPv6 one
 * (mapped, NAT64) is judged as the IPv4 address. False for other families. */
bool address_is_public(const struct sockaddr *address);

/* Is text a range of addresses, "10.2.0.0/16", "fd00:1::/32", or one address? */
bool address_range_good(struct slice text);

/* Is the address in that range? An IPv4 address in an IPv6 one counts as the IPv4 address. False
 * for what is no range. */
bool address_in_range(const struct sockaddr *address, struct slice range);

/* Whom net/peers takes it for: of IPv6 the first 64 bits. An IPv4 address in an IPv6 one counts as
 * the IPv4 address. Never 0. */
uint64_t address_peer(const struct sockaddr_storage *address);
/* The same for one address: of IPv6 all 128 bits. With a random secret nobody can choose addresses
 * whose numbers are those of others. */
uint64_t address_host(const struct sockaddr_storage *address, uint64_t secret);
/* The network that whoever has the address may have all of: of IPv6 the first 64 bits; 0: none. */
uint64_t address_network(const struct sockaddr_storage *address);

#endif

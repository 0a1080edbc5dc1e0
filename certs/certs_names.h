/* SPDX-License-Identifier: Apache-2.0 */
/* certs: the names and addresses that a serving certificate stands for (its SANs). */
#ifndef CERTS_CERTS_NAMES_H
#define CERTS_CERTS_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

/* One admission server has a service name, a few aliases and addresses; more than this is a
 * mistake. */
#define CERTS_NAMES_MAX 32
/* Octets of a DNS name in text, without a final dot (RFC 1035 section 2.3.4). */
#define CERTS_DNS_MAX 253

enum certs_name_kind { CERTS_NAME_DNS, CERTS_NAME_IP };

struct certs_name {
	enum certs_name_kind kind;
	char text[CERTS_DNS_MAX + 1]; /* lower case; an address in its canonical spelling */
	uint8_t ip[16];               /* network order, ip_len octets */
	uint8_t ip_len;               /* 4 or 16; 0 for DNS */
};

/* Zero it (`= {0}`) for an empty set. Holds each name once, in the order of adding. */
struct certs_names {
	size_t count;
	struct certs_name name[CERTS_NAMES_MAX];
};

/* Add one server's DNS name; upper case is lowered. ERR_INVALID for anything that is not 1 to 253
 * octets of DNS-1123 labels (so no wildcard, no final dot, no underscore) and for what reads as an
 * IPv4 address; ERR_TOOBIG when full. */
int certs_names_dns(struct certs_names *names, struct slice name, struct err *err);

/* Add an IPv4 or IPv6 address in text, without brackets, zone or prefix length. ERR_INVALID,
 * ERR_TOOBIG. */
int certs_names_ip(struct certs_names *names, struct slice addr, struct err *err);

/* Add an address of 4 or 16 octets. ERR_INVALID for another length, ERR_TOOBIG. */
int certs_names_octets(struct certs_names *names, const uint8_t *ip, size_t len, struct err *err);

/* Add what an API server calls a Service by: "service.namespace.svc". ERR_INVALID unless both are
 * DNS-1123 labels. */
int certs_names_service(
	struct certs_names *names, struct slice service, struct slice ns, struct err *err);

#endif

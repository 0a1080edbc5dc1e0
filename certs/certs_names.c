/* SPDX-License-Identifier: Apache-2.0 */
/* certs: checks names and addresses before they reach a certificate. */
#include "certs/certs_names.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "base/text.h"

/* Inputs go into messages; this much of them is enough to recognise one. */
#define SHOWN_MAX 80

static int shown(struct slice s)
{
	return (int)(s.len < SHOWN_MAX ? s.len : SHOWN_MAX);
}

static int add(struct certs_names *names, const struct certs_name *name, struct err *err)
{
	for (size_t i = 0; i < names->count; i++)
		if (names->name[i].kind == name->kind &&
			strcmp(names->name[i].text, name->text) == 0)
			return 0;
	if (names->count == CERTS_NAMES_MAX)
		return err_set(err, ERR_TOOBIG,
			"more than %d names in one certificate; leave some out", CERTS_NAMES_MAX);
	names->name[names->count++] = *name;
	return 0;
}

/* Are all labels DNS-1123, and is the last one no number? (A name that ends in a number is read as
 * an address.) */
static bool is_dns(struct slice s)
{
	bool digits = true;

	for (;;) {
		const char *dot = memchr(s.at, '.', s.len);
		struct slice label = {s.at, dot ? (size_t)(dot - s.at) : s.len};

		if (!text_dns_label(label))
			return false;
		if (!dot) {
			for (size_t i = 0; i < label.len; i++)
				digits = digits && text_is_digit(label.at[i]);
			return !digits;
		}
		s.len -= label.len + 1;
		s.at = dot + 1;
	}
}

int certs_names_dns(struct certs_names *names, struct slice name, struct err *err)
{
	struct certs_name n = {.kind = CERTS_NAME_DNS};
	uint8_t ip[16];

	if (!name.at || name.len == 0 || name.len > CERTS_DNS_MAX)
		return err_set(err, ERR_INVALID, "a DNS name of %zu octets; 1 to %d are accepted",
			name.len, CERTS_DNS_MAX);
	for (size_t i = 0; i < name.len; i++)
		n.text[i] = text_to_lower(name.at[i]);
	if (is_dns((struct slice){n.text, name.len}))
		return add(names, &n, err);
	if (memchr(n.text, '\0', name.len) == NULL &&
		(inet_pton(AF_INET, n.text, ip) == 1 || inet_pton(AF_INET6, n.text, ip) == 1))
		return err_set(
			err, ERR_INVALID, "\"%s\" is an address, not a DNS name; use --ip", n.text);
	return err_set(err, ERR_INVALID,
		"\"%.*s\" is not the DNS name of one server; labels of a-z, 0-9 and '-' joined by "
		"dots are accepted, such as poolgate.poolgate-system.svc",
		shown(name), name.at);
}

int certs_names_octets(struct certs_names *names, const uint8_t *ip, size_t len, struct err *err)
{
	struct certs_name n = {.kind = CERTS_NAME_IP};

	if (len != 4 && len != 16)
		return err_set(
			err, ERR_INVALID, "an address of %zu octets; 4 or 16 are accepted", len);
	memcpy(n.ip, ip, len);
	n.ip_len = (uint8_t)len;
	if (!inet_ntop(len == 4 ? AF_INET : AF_INET6, ip, n.text, sizeof(n.text)))
		return err_set(err, ERR_INTERNAL, "an address could not be written as text");
	return add(names, &n, err);
}

int certs_names_ip(struct certs_names *names, struct slice addr, struct err *err)
{
	char text[INET6_ADDRSTRLEN] = "";
	uint8_t ip[16];

	if (addr.at && addr.len > 0 && addr.len < sizeof(text) &&
		memchr(addr.at, '\0', addr.len) == NULL) {
		memcpy(text, addr.at, addr.len);
		if (inet_pton(AF_INET, text, ip) == 1)
			return certs_names_octets(names, ip, 4, err);
		if (inet_pton(AF_INET6, text, ip) == 1)
			return certs_names_octets(names, ip, 16, err);
	}
	return err_set(err, ERR_INVALID,
		"\"%.*s\" is not an IP address; accepted are such as 10.0.0.7 and fd00::7, "
		"without brackets or prefix length",
		shown(addr), addr.at ? addr.at : "");
}

int certs_names_service(
	struct certs_names *names, struct slice service, struct slice ns, struct err *err)
{
	struct certs_name n = {.kind = CERTS_NAME_DNS};
	size_t at = 0;

	if (!text_dns_label(service))
		return err_set(err, ERR_INVALID,
			"\"%.*s\" is not a Service's name; 1 to 63 of a-z, 0-9 and '-' are "
			"accepted",
			shown(service), service.at ? service.at : "");
	if (!text_dns_label(ns))
		return err_set(err, ERR_INVALID,
			"\"%.*s\" is not a namespace; 1 to 63 of a-z, 0-9 and '-' are accepted",
			shown(ns), ns.at ? ns.at : "");
	memcpy(n.text, service.at, service.len);
	at = service.len;
	n.text[at++] = '.';
	memcpy(n.text + at, ns.at, ns.len);
	at += ns.len;
	memcpy(n.text + at, ".svc", sizeof(".svc"));
	return add(names, &n, err);
}

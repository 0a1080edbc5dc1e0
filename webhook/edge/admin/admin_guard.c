/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the Host header on the admin listener. */
#include "webhook/edge/admin/admin_guard.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/text.h"

static bool loopback(const char *peer)
{
	return strncmp(peer, "127.", 4) == 0 || strncmp(peer, "[::1]", 5) == 0 ||
	       strncmp(peer, "[::ffff:127.", 12) == 0;
}

bool admin_host_allowed(const char *host, const char *peer)
{
	char name[64];
	struct in6_addr v6;
	struct in_addr v4;
	struct slice s = slice_of(host);
	uint16_t port;

	if (!host || !loopback(peer))
		return true;
	if (text_host_port(s, name, &port, NULL) == 0)
		s = slice_of(name);
	if (s.len > 2 && s.at[0] == '[' && s.at[s.len - 1] == ']')
		s = (struct slice){s.at + 1, s.len - 2};
	if (s.len == 0 || s.len >= sizeof(name))
		return false;
	memmove(name, s.at, s.len);
	name[s.len] = '\0';
	return text_ieq(slice_of(name), SLICE("localhost")) || inet_pton(AF_INET, name, &v4) == 1 ||
	       inet_pton(AF_INET6, name, &v6) == 1;
}

bool admin_allows(const struct http_request *req, struct http_reply *reply)
{
	if (admin_host_allowed(http_request_header(req, "Host"), req->peer))
		return true;
	http_reply_text(reply, 421,
		"this listener is asked by an address or as localhost: http://127.0.0.1:8081/");
	return false;
}

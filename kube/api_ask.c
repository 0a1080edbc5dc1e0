/* SPDX-License-Identifier: Apache-2.0 */
/* kube: where the API server is, and what is said to it. */
#include "kube/api_ask.h"

#include <string.h>

#include "base/text.h"

/* ---- where to ---- */

static int no_url(const char *server, struct err *err)
{
	return err_set(err, ERR_INVALID,
		"%s is no URL of an API server; expected https://HOST[:PORT][/PATH]", server);
}

/* "[::1]:6443", "10.96.0.1", "host:443": the host, and the port if there is one. */
static bool split(struct slice authority, struct slice *ret_host, struct slice *ret_port)
{
	const char *end = authority.at + authority.len, *close, *colon;

	*ret_port = (struct slice){0};
	if (authority.len > 0 && authority.at[0] == '[') {
		close = memchr(authority.at, ']', authority.len);
		if (!close || (close + 1 < end && close[1] != ':'))
			return false;
		*ret_host = (struct slice){authority.at + 1, (size_t)(close - authority.at - 1)};
		if (close + 1 < end)
			*ret_port = (struct slice){close + 2, (size_t)(end - close - 2)};
		return ret_host->len > 0;
	}
	colon = memchr(authority.at, ':', authority.len);
	*ret_host = authority;
	if (colon) {
		ret_host->len = (size_t)(colon - authority.at);
		*ret_port = (struct slice){colon + 1, (size_t)(end - colon - 1)};
	}
	return ret_host->len > 0;
}

static bool plain(const char *s)
{
	for (; *s; s++)
		if (*s <= ' ' || *s == 0x7f || *s == '@' || *s == '?' || *s == '#')
			return false;
	return true;
}

int api_server_init(
	struct api_server *s, const struct kube_config *config, const char *agent, struct err *err)
{
	const char *server = config->server, *at;
	bool tls = strncmp(server, "https://", 8) == 0;
	uint64_t number = tls ? 443 : 80;
	struct slice authority, host, port;

	*s = (struct api_server){.config = config, .agent = agent};
	if (!plain(server) || (!tls && strncmp(server, "http://", 7) != 0))
		return no_url(server, err);
	at = server + (tls ? 8 : 7);
	authority = (struct slice){at, strcspn(at, "/")};
	if (!split(authority, &host, &port) || host.len >= sizeof(s->host) ||
		authority.len >= sizeof(s->authority) ||
		(port.at && (!text_u64(port, 65535, &number) || number == 0)))
		return no_url(server, err);
	memcpy(s->host, host.at, host.len);
	memcpy(s->authority, authority.at, authority.len);
	s->prefix = authority.at + authority.len;
	s->prefix_len = (int)strlen(s->prefix);
	while (s->prefix_len > 0 && s->prefix[s->prefix_len - 1] == '/')
		s->prefix_len--;
	s->target = (struct client_target){.host = s->host,
		.port = (uint16_t)number,
		.tls = tls,
		.ca_file = config->ca_file,
		.cert_file = config->cert_file,
		.key_file = config->key_file};
	return 0;
}

/* ---- what ---- */

static int add_token(const struct kube_config *config, struct buf *out, struct err *err)
{
	struct buf token;
	int rc = kube_config_token(config, &token, err);

	for (size_t i = 0; i < token.len && rc == 0; i++)
		if (token.data[i] < 0x20 || token.data[i] == 0x7f)
			rc = err_set(err, ERR_INVALID, "the token holds what no token holds");
	if (rc == 0 && token.len > 0)
		buf_fmt(out, "Authorization: Bearer %s\r\n", token.data);
	if (token.data)
		explicit_bzero(token.data, token.len);
	buf_release(&token);
	return rc;
}

int api_ask_write(
	const struct api_server *s, const struct api_ask *ask, struct buf *out, struct err *err)
{
	int rc;

	buf_fmt(out,
		"%s %.*s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s/" POOLGATE_VERSION
		"\r\nAccept: %s\r\n",
		ask->body.at ? "POST" : "GET", s->prefix_len, s->prefix, ask->path, s->authority,
		s->agent, ask->accept);
	if (ask->body.at)
		buf_fmt(out, "Content-Type: " API_JSON "\r\nContent-Length: %zu\r\n",
			ask->body.len);
	rc = add_token(s->config, out, err);
	buf_str(out, "\r\n");
	buf_slice(out, ask->body);
	if (rc == 0 && out->failed)
		rc = err_set(err, ERR_NOMEM, "out of memory for a request");
	return rc;
}

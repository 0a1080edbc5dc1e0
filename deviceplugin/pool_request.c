/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: the requests of the pool's watch, and where they go. */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "deviceplugin/pool_watch_impl.h"
#include "net/http_client.h"

/* Servers on one page of a list: a row has about 100 bytes. */
#define PAGE 500
/* A watch is asked to end after 4 to 6 minutes, so that not all nodes come back at one time; then the token is read anew, too. */
#define WATCH_S 240
#define WATCH_SPREAD_S 120

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

int pool_target(struct pool_watch *w, struct err *err)
{
	const char *server = w->config->server, *at;
	struct slice authority, host, port;
	uint64_t number;

	w->target.tls = strncmp(server, "https://", 8) == 0;
	if (!plain(server) || (!w->target.tls && strncmp(server, "http://", 7) != 0))
		return no_url(server, err);
	at = server + (w->target.tls ? 8 : 7);
	authority = (struct slice){at, strcspn(at, "/")};
	number = w->target.tls ? 443 : 80;
	if (!split(authority, &host, &port) || host.len >= sizeof(w->host) ||
		authority.len >= sizeof(w->authority) ||
		(port.at && (!text_u64(port, 65535, &number) || number == 0)))
		return no_url(server, err);
	memcpy(w->host, host.at, host.len);
	memcpy(w->authority, authority.at, authority.len);
	w->prefix = authority.at + authority.len;
	w->prefix_len = (int)strlen(w->prefix);
	while (w->prefix_len > 0 && w->prefix[w->prefix_len - 1] == '/')
		w->prefix_len--;
	w->target.host = w->host;
	w->target.port = (uint16_t)number;
	w->target.ca_file = w->config->ca_file;
	w->target.cert_file = w->config->cert_file;
	w->target.key_file = w->config->key_file;
	return 0;
}

/* ---- what ---- */

static int add_token(const struct pool_watch *w, struct buf *out, struct err *err)
{
	struct buf token;
	int rc = kube_config_token(w->config, &token, err);

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

static void add_query(const struct pool_watch *w, struct buf *out)
{
	buf_str(out, POOL_PATH "?includeObject=None");
	if (w->watching) {
		buf_fmt(out,
			"&watch=true&allowWatchBookmarks=true&timeoutSeconds=%u&resourceVersion=%s",
			WATCH_S + (unsigned)pool_dice(WATCH_SPREAD_S), w->version);
		return;
	}
	buf_fmt(out, "&limit=%d", PAGE);
	if (w->page.len > 0) {
		buf_str(out, "&continue=");
		buf_percent(out, buf_as_slice(&w->page));
	}
}

int pool_ask(struct pool_watch *w, bool (*on_body)(void *ctx, struct slice piece), struct err *err)
{
	struct buf out;
	int rc;

	buf_init(&out, 256 * 1024);
	buf_fmt(&out, "GET %.*s", w->prefix_len, w->prefix);
	add_query(w, &out);
	buf_fmt(&out,
		" HTTP/1.1\r\nHost: %s\r\nUser-Agent: poolgate-device-plugin/" POOLGATE_VERSION
		"\r\nAccept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n",
		w->authority);
	rc = add_token(w, &out, err);
	buf_str(&out, "\r\n");
	if (rc == 0 && out.failed)
		rc = err_set(err, ERR_NOMEM, "out of memory for a request");
	if (rc == 0)
		rc = client_socket_send(w->socket, buf_as_slice(&out), err);
	if (out.data)
		explicit_bzero(out.data, out.len);
	buf_release(&out);
	if (rc != 0)
		return rc;
	buf_clear(&w->body);
	w->body.max = POOL_PAGE_MAX;
	watch_reader_reset(&w->reader);
	http_answer_init(&w->answer, on_body, w);
	w->asked = true;
	w->asked_ms = w->heard_ms = clock_ms();
	return 0;
}

/* ---- what is no answer ---- */

int pool_too_long(const struct pool_watch *w, struct err *err)
{
	if (!w->body.full)
		return err_set(
			err, ERR_NOMEM, "out of memory for an answer of %s", w->config->server);
	if (w->answer.status != 200)
		return err_set(err, ERR_TOOBIG,
			"GET %s" POOL_PATH " was answered with status %d and more than %u MiB",
			w->config->server, (int)w->answer.status, POOL_PAGE_MAX >> 20);
	return err_set(err, ERR_TOOBIG,
		"GET %s" POOL_PATH
		": a page of the list is over %u MiB; %d GPUServers as a table are "
		"a tenth of that, so limit or the table was not understood: let the plugin ask the "
		"API "
		"server itself, or a proxy that passes its query and Accept on",
		w->config->server, POOL_PAGE_MAX >> 20, PAGE);
}

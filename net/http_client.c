/* SPDX-License-Identifier: Apache-2.0 */
/* net: HTTP requests through libcurl. */
#include "net/http_client.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "net/http_client_lib.h"

/* A connection that carries a silent stream is probed by the kernel after this long, and then this
 * often. */
#define KEEPALIVE_IDLE_S 30L
#define KEEPALIVE_EACH_S 10L

struct http_client {
	const struct http_client_lib *lib;
	CURL *easy;
	char error[CURL_ERROR_SIZE];
	struct buf body, head;
	bool too_big;
	bool barred; /* an address was refused by whoever asked */
	/* Of the call that runs. */
	const struct http_ask *req;
	const struct http_stream *to; /* NULL: the answer is collected in body */
	bool headed;                  /* the head is whole */
	bool stopped;                 /* by whoever asked, in a callback */
	bool no_server;               /* the certificate is another's than a server's */
};

struct http_client *http_client_new(struct err *err)
{
	const struct http_client_lib *lib = http_client_lib(err);
	struct http_client *c;

	if (!lib)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (c) {
		c->lib = lib;
		c->easy = lib->easy_init();
	}
	if (!c || !c->easy) {
		free(c);
		err_set(err, ERR_NOMEM, "out of memory for an HTTP client");
		return NULL;
	}
	return c;
}

void http_client_free(struct http_client *c)
{
	if (!c)
		return;
	c->lib->easy_cleanup(c->easy);
	buf_release(&c->body);
	buf_release(&c->head);
	free(c);
}

/* MAXFILESIZE does not see chunked answers, so the bytes are counted here, too. */
static size_t on_body(const char *bytes, size_t size, size_t n, void *arg)
{
	struct http_client *c = arg;

	if (size * n > c->body.max - c->body.len) {
		c->too_big = true;
		return 0;
	}
	buf_add(&c->body, bytes, size * n);
	return c->body.failed ? 0 : size * n;
}

/* A short return ends the call. */
static size_t on_stream(const char *bytes, size_t size, size_t n, void *arg)
{
	struct http_client *c = arg;

	c->stopped = !c->to->data(c->to->ctx, (struct slice){bytes, size * n});
	return c->stopped ? 0 : size * n;
}

/* Each line of the head, the empty one at its end too; those of a 1xx answer before it, and of a
 * trailer. */
static size_t on_header(const char *bytes, size_t size, size_t n, void *arg)
{
	struct http_client *c = arg;
	long status = 0;

	if (c->to->line && !c->headed)
		c->to->line(c->to->ctx, (struct slice){bytes, size * n});
	if (c->headed || (bytes[0] != '\r' && bytes[0] != '\n') ||
		c->lib->easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK ||
		status < 200)
		return size * n;
	c->headed = true;
	c->stopped = !c->to->head(c->to->ctx, status);
	return c->stopped ? 0 : size * n;
}

/* Keep the lines of a head; a first line behind a whole one begins another. */
static size_t on_head_line(const char *bytes, size_t size, size_t n, void *arg)
{
	struct http_client *c = arg;
	struct slice line = {bytes, size * n};

	if (c->headed && slice_starts(line, SLICE("HTTP/")))
		buf_clear(&c->head);
	c->headed = line.len > 0 && (line.at[0] == '\r' || line.at[0] == '\n');
	buf_slice(&c->head, line);
	c->too_big = c->too_big || c->head.full;
	return c->head.failed ? 0 : line.len;
}

/* The address is the one that the socket will be connected to: no name is looked up in between. */
static curl_socket_t on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
	struct http_client *c = arg;

	(void)purpose;
	if (!c->req->may_connect(c->req->may_connect_ctx, &to->addr)) {
		c->barred = true;
		return CURL_SOCKET_BAD;
	}
	return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/* Called at least once a second, whether something moves or not. Not 0 ends the call. */
static int on_progress(
	void *arg, curl_off_t dltotal, curl_off_t dlnow, curl_off_t ultotal, curl_off_t ulnow)
{
	struct http_client *c = arg;

	(void)dltotal, (void)dlnow, (void)ultotal, (void)ulnow;
	/* Called once more at the very end: what was decided before stays. */
	if (c->to ? !c->to->go_on(c->to->ctx) : !c->req->go_on(c->req->go_on_ctx))
		c->stopped = true;
	return c->stopped;
}

/* A connection is there. A cluster's CA signs clients, too, with names that they asked for: whoever
 * shows such a certificate is no server. libcurl does not look (7.88). Once for each connection:
 * one that is refused here is not kept. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the type is libcurl's */
static int on_connected(void *arg, char *ip, char *own_ip, int port, int own_port)
{
	static char purpose[] = GNUTLS_KP_TLS_WWW_SERVER;
	struct http_client *c = arg;
	struct curl_tlssessioninfo *tls = NULL;
	gnutls_typed_vdata_st server = {.type = GNUTLS_DT_KEY_PURPOSE_OID};
	unsigned status = 0;
	long made = 1;

	(void)ip, (void)own_ip, (void)port, (void)own_port;
	if (c->lib->easy_getinfo(c->easy, CURLINFO_NUM_CONNECTS, &made) == CURLE_OK && made == 0)
		return CURL_PREREQFUNC_OK;
	if (c->lib->easy_getinfo(c->easy, CURLINFO_TLS_SSL_PTR, &tls) == CURLE_OK && tls &&
		tls->backend == CURLSSLBACKEND_GNUTLS && tls->internals) {
		server.data = (unsigned char *)purpose;
		if (gnutls_certificate_verify_peers(tls->internals, &server, 1, &status) == 0 &&
			status == 0)
			return CURL_PREREQFUNC_OK;
	}
	c->no_server = true;
	return CURL_PREREQFUNC_ABORT;
}

static bool clean(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

static int check(const struct http_ask *req, struct err *err)
{
	bool ok = clean(req->method) && clean(req->url) && (!req->bearer || clean(req->bearer));

	for (size_t i = 0; req->headers && req->headers[i]; i++)
		ok &= clean(req->headers[i]);
	if (!ok)
		return err_set(err, ERR_INVALID,
			"%s %s: a control character in the method, the URL, a header or the token",
			req->method, req->url);
	if (strncmp(req->url, "http://", 7) != 0 && strncmp(req->url, "https://", 8) != 0)
		return err_set(err, ERR_INVALID,
			"%s: not a URL that can be asked: expected http://… or https://…",
			req->url);
	return 0;
}

/* The header list, with an empty Expect: a large body would else wait a second for leave to be
 * sent. */
static struct curl_slist *headers(const struct http_client_lib *lib, const struct http_ask *req)
{
	struct curl_slist *list = lib->slist_append(NULL, "Expect:"), *more;

	for (size_t i = 0; list && req->headers && req->headers[i]; i++) {
		more = lib->slist_append(list, req->headers[i]);
		if (!more)
			lib->slist_free_all(list);
		list = more;
	}
	return list;
}

/* How the connection is made. */
static void set_transport(struct http_client *c, const struct http_ask *req)
{
	const struct http_client_lib *lib = c->lib;
	CURL *easy = c->easy;
	int64_t connect_ms = req->connect_ms > 0 ? req->connect_ms : req->timeout_ms;

	/* Without this libcurl uses signals for time limits, which a threaded program cannot have.
	 */
	lib->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	/* Nor is a name waited for longer than that: what looks it up ends by itself. */
	lib->easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	lib->easy_setopt(easy, CURLOPT_PROXY, ""); /* not what the environment says */
	lib->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	lib->easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	lib->easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	lib->easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2); /* at least */
	if (req->ca_file) {
		/* The default path would trust every CA of the system beside the file, and costs 20
		 * ms a connection. */
		lib->easy_setopt(easy, CURLOPT_CAPATH, NULL);
		lib->easy_setopt(easy, CURLOPT_CAINFO, req->ca_file);
	}
	if (req->cert_file)
		lib->easy_setopt(easy, CURLOPT_SSLCERT, req->cert_file);
	if (req->key_file)
		lib->easy_setopt(easy, CURLOPT_SSLKEY, req->key_file);
	/* There is no limit by default. */
	if (!c->to) {
		lib->easy_setopt(easy, CURLOPT_TIMEOUT_MS,
			(long)(req->timeout_ms > 0 ? req->timeout_ms : 1));
		/* what is promised is not waited for; a HEAD promises what never comes */
		if (strcmp(req->method, "HEAD") != 0)
			lib->easy_setopt(
				easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)(req->max_bytes + 1));
	}
	lib->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(connect_ms > 0 ? connect_ms : 1));
	lib->easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	lib->easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
	lib->easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_EACH_S);
	lib->easy_setopt(easy, CURLOPT_FRESH_CONNECT, req->fresh ? 1L : 0L);
	if (req->may_connect) {
		lib->easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_socket);
		lib->easy_setopt(easy, CURLOPT_OPENSOCKETDATA, c);
	}
	lib->easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, req->insecure ? 0L : 1L);
	lib->easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, req->insecure ? 0L : 2L);
	if (strncmp(req->url, "https://", 8) == 0 && !req->insecure) {
		lib->easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
		lib->easy_setopt(easy, CURLOPT_PREREQDATA, c);
	}
}

static void set_request(struct http_client *c, const struct http_ask *req, struct curl_slist *list)
{
	const struct http_client_lib *lib = c->lib;
	CURL *easy = c->easy;

	lib->easy_setopt(easy, CURLOPT_URL, req->url);
	lib->easy_setopt(easy, CURLOPT_HTTPHEADER, list);
	lib->easy_setopt(easy, CURLOPT_USERAGENT, "poolgate");
	if (strcmp(req->method, "HEAD") == 0) {
		lib->easy_setopt(easy, CURLOPT_NOBODY, 1L);
	} else if (req->body.at || strcmp(req->method, "POST") == 0) {
		lib->easy_setopt(easy, CURLOPT_POSTFIELDS, req->body.at ? req->body.at : "");
		lib->easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)req->body.len);
		lib->easy_setopt(easy, CURLOPT_CUSTOMREQUEST, req->method);
	} else if (strcmp(req->method, "GET") != 0) {
		lib->easy_setopt(easy, CURLOPT_CUSTOMREQUEST, req->method);
	}
	if (req->bearer) {
		lib->easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
		lib->easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, req->bearer);
	}
	lib->easy_setopt(easy, CURLOPT_WRITEFUNCTION, c->to ? on_stream : on_body);
	lib->easy_setopt(easy, CURLOPT_WRITEDATA, c);
	if (c->to || req->max_head > 0) {
		lib->easy_setopt(easy, CURLOPT_HEADERFUNCTION, c->to ? on_header : on_head_line);
		lib->easy_setopt(easy, CURLOPT_HEADERDATA, c);
	}
	if (c->to || req->go_on) {
		lib->easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
		lib->easy_setopt(easy, CURLOPT_XFERINFODATA, c);
		lib->easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
	}
	lib->easy_setopt(easy, CURLOPT_ERRORBUFFER, c->error);
}

static enum http_trouble trouble_of(const struct http_client *c, CURLcode rc)
{
	if (rc == CURLE_COULDNT_RESOLVE_HOST)
		return HTTP_TROUBLE_NAME;
	return c->no_server || rc == CURLE_PEER_FAILED_VERIFICATION ||
			       rc == CURLE_SSL_CACERT_BADFILE
		       ? HTTP_TROUBLE_CERTIFICATE
		       : HTTP_TROUBLE_OTHER;
}

/* What libcurl says as an error of ours. */
static int failure(
	const struct http_client *c, const struct http_ask *req, CURLcode rc, struct err *err)
{
	const char *text = *c->error ? c->error : c->lib->easy_strerror(rc);
	const char *verb = req->name ? "" : req->method, *gap = req->name ? "" : " ";
	const char *name = req->name ? req->name : req->url;

	if (req->trouble)
		*req->trouble = trouble_of(c, rc);
	if (c->stopped)
		return err_set(err, ERR_TIMEOUT, "%s%s%s: given up", verb, gap, name);
	if (c->no_server)
		return err_set(err, ERR_IO,
			"%s%s%s: the certificate that was shown is not for servers (extended key "
			"usage)",
			verb, gap, name);
	if (c->too_big || rc == CURLE_FILESIZE_EXCEEDED)
		return err_set(err, ERR_TOOBIG, "%s%s%s: the answer is over %zu bytes", verb, gap,
			name, c->head.full ? req->max_head : req->max_bytes);
	if (rc == CURLE_OUT_OF_MEMORY || c->body.failed || c->head.failed)
		return err_set(err, ERR_NOMEM, "%s%s%s: out of memory", verb, gap, name);
	if (c->barred && rc == CURLE_COULDNT_CONNECT)
		return err_set(err, ERR_REFUSED,
			"%s%s%s: its name stands for an address that may not be asked", verb, gap,
			name);
	if (rc == CURLE_OPERATION_TIMEDOUT)
		return err_set(
			err, ERR_TIMEOUT, "%s%s%s: no answer in time: %s", verb, gap, name, text);
	if (rc == CURLE_URL_MALFORMAT)
		return err_set(err, ERR_INVALID, "%s%s%s: not a URL that can be asked: %s", verb,
			gap, name, text);
	return err_set(err, ERR_IO, "%s%s%s: %s", verb, gap, name, text);
}

/* Send the request; what comes back is in c->body or was handed to `to`. */
static int perform(struct http_client *c, const struct http_ask *req, const struct http_stream *to,
	long *ret_status, struct err *err)
{
	int code = check(req, err);
	struct curl_slist *list;
	CURLcode rc;

	if (code != 0)
		return code;
	list = headers(c->lib, req);
	if (!list)
		return err_set(err, ERR_NOMEM, "%s %s: out of memory", req->method, req->url);
	c->lib->easy_reset(c->easy); /* options go, connections stay */
	buf_release(&c->body);
	buf_init(&c->body, to ? 0 : req->max_bytes);
	buf_release(&c->head);
	buf_init(&c->head, req->max_head);
	c->req = req;
	c->to = to;
	c->too_big = c->headed = c->stopped = c->no_server = c->barred = false;
	c->error[0] = '\0';
	set_transport(c, req);
	set_request(c, req, list);
	rc = c->lib->easy_perform(c->easy);
	if (rc == CURLE_OK)
		rc = c->lib->easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, ret_status);
	c->lib->slist_free_all(list);
	if (rc == CURLE_OK || (to && c->stopped))
		return 0;
	code = failure(c, req, rc, err);
	buf_release(&c->body);
	return code;
}

int http_client_do(struct http_client *c, const struct http_ask *req, struct http_response *ret,
	struct err *err)
{
	long status = 0;
	int code = perform(c, req, NULL, &status, err);

	if (code != 0)
		return code;
	ret->status = status;
	ret->body = c->body;
	ret->head = c->head;
	buf_init(&c->body, 0);
	buf_init(&c->head, 0);
	return 0;
}

int http_client_stream(struct http_client *c, const struct http_ask *req,
	const struct http_stream *to, struct err *err)
{
	long status = 0;

	return perform(c, req, to, &status, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* net: HTTP requests through libcurl, which is loaded when it is first needed. */
#include "net/http_client.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Linked, libcurl costs every process 3 MB of resident memory, and 4.9 MB once it is initialised (the server without it takes
 * about 9 MB), though most never call out. So it is loaded by the first http_client_new(). The functions' types are
 * those of the header it was built with. */
#define LIBRARY "libcurl-gnutls.so.4"
#define PACKAGE "libcurl3-gnutls"

static struct {
	__typeof__(&curl_global_init) global_init;
	__typeof__(&curl_easy_init) easy_init;
	__typeof__(&curl_easy_cleanup) easy_cleanup;
	__typeof__(&curl_easy_reset) easy_reset;
	/* In parentheses: the header has macros of these names. */
	__typeof__(&(curl_easy_setopt)) easy_setopt;
	__typeof__(&(curl_easy_getinfo)) easy_getinfo;
	__typeof__(&curl_easy_perform) easy_perform;
	__typeof__(&curl_easy_strerror) easy_strerror;
	__typeof__(&curl_slist_append) slist_append;
	__typeof__(&curl_slist_free_all) slist_free_all;
	bool loaded;
	char why[200]; /* why not */
} lib;

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* One function of the library into its pointer. */
static bool symbol(void *handle, const char *name, void *ret_pointer)
{
	void *found = dlsym(handle, name);

	/* ISO C has no conversion from object to function pointers; POSIX promises that they look alike. */
	memcpy(ret_pointer, &found, sizeof(found));
	return found != NULL;
}

static void say_why(const char *text)
{
	struct buf b;

	buf_init(&b, sizeof(lib.why) - 1);
	buf_str(&b, text ? text : "unknown reason");
	if (b.data)
		memcpy(lib.why, b.data, b.len + 1);
	buf_release(&b);
}

static void load(void)
{
	void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!handle || !symbol(handle, "curl_global_init", &lib.global_init) ||
		!symbol(handle, "curl_easy_init", &lib.easy_init) ||
		!symbol(handle, "curl_easy_cleanup", &lib.easy_cleanup) ||
		!symbol(handle, "curl_easy_reset", &lib.easy_reset) ||
		!symbol(handle, "curl_easy_setopt", &lib.easy_setopt) ||
		!symbol(handle, "curl_easy_getinfo", &lib.easy_getinfo) ||
		!symbol(handle, "curl_easy_perform", &lib.easy_perform) ||
		!symbol(handle, "curl_easy_strerror", &lib.easy_strerror) ||
		!symbol(handle, "curl_slist_append", &lib.slist_append) ||
		!symbol(handle, "curl_slist_free_all", &lib.slist_free_all)) {
		say_why(dlerror());
		return;
	}
	if (lib.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		say_why("curl_global_init failed");
		return;
	}
	lib.loaded = true;
}

struct http_client {
	CURL *easy;
	char error[CURL_ERROR_SIZE];
	struct buf body;
	bool too_big;
};

struct http_client *http_client_new(struct err *err)
{
	struct http_client *c;

	pthread_once(&once, load);
	if (!lib.loaded) {
		err_set(err, ERR_IO, "cannot load " LIBRARY " (package " PACKAGE "): %s", lib.why);
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (c)
		c->easy = lib.easy_init();
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
	lib.easy_cleanup(c->easy);
	buf_release(&c->body);
	free(c);
}

/* MAXFILESIZE does not see chunked answers, so the bytes are counted here. */
static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
	struct http_client *c = arg;

	if (size * n > c->body.max - c->body.len) {
		c->too_big = true;
		return 0;
	}
	buf_add(&c->body, bytes, size * n);
	return c->body.failed ? 0 : size * n;
}

static bool clean(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	return true;
}

static int check(const struct http_request *req, struct err *err)
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

/* The header list, with an empty Expect: a large body would else wait a second for leave to be sent. */
static struct curl_slist *headers(const struct http_request *req)
{
	struct curl_slist *list = lib.slist_append(NULL, "Expect:"), *more;

	for (size_t i = 0; list && req->headers && req->headers[i]; i++) {
		more = lib.slist_append(list, req->headers[i]);
		if (!more)
			lib.slist_free_all(list);
		list = more;
	}
	return list;
}

/* How the connection is made. */
static void set_transport(CURL *easy, const struct http_request *req)
{
	/* Without this libcurl uses signals for time limits, which a threaded program cannot have. */
	lib.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	lib.easy_setopt(easy, CURLOPT_PROXY, ""); /* not what the environment says */
	lib.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	lib.easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	lib.easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	lib.easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2); /* at least */
	/* The default path trusts every CA of the system beside the file, and costs 20 ms a connection. */
	lib.easy_setopt(easy, CURLOPT_CAPATH, NULL);
	if (req->ca_file)
		lib.easy_setopt(easy, CURLOPT_CAINFO, req->ca_file);
	/* There is no limit by default. */
	lib.easy_setopt(
		easy, CURLOPT_TIMEOUT_MS, (long)(req->timeout_ms > 0 ? req->timeout_ms : 1));
	lib.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
		(long)(req->connect_ms > 0    ? req->connect_ms
			: req->timeout_ms > 0 ? req->timeout_ms
					      : 1));
	lib.easy_setopt(easy, CURLOPT_FRESH_CONNECT, req->fresh ? 1L : 0L);
}

static void set_request(
	struct http_client *c, const struct http_request *req, struct curl_slist *list)
{
	CURL *easy = c->easy;

	lib.easy_setopt(easy, CURLOPT_URL, req->url);
	lib.easy_setopt(easy, CURLOPT_HTTPHEADER, list);
	lib.easy_setopt(easy, CURLOPT_USERAGENT, "poolgate");
	if (strcmp(req->method, "HEAD") == 0) {
		lib.easy_setopt(easy, CURLOPT_NOBODY, 1L);
	} else if (req->body.at || strcmp(req->method, "POST") == 0) {
		lib.easy_setopt(easy, CURLOPT_POSTFIELDS, req->body.at ? req->body.at : "");
		lib.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)req->body.len);
		lib.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, req->method);
	} else if (strcmp(req->method, "GET") != 0) {
		lib.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, req->method);
	}
	if (req->bearer) {
		lib.easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
		lib.easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, req->bearer);
	}
	lib.easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	lib.easy_setopt(easy, CURLOPT_WRITEDATA, c);
	lib.easy_setopt(easy, CURLOPT_ERRORBUFFER, c->error);
}

/* What libcurl says as an error of ours. */
static int failure(
	const struct http_client *c, const struct http_request *req, CURLcode rc, struct err *err)
{
	const char *text = *c->error ? c->error : lib.easy_strerror(rc);

	if (c->too_big)
		return err_set(err, ERR_TOOBIG, "%s %s: the answer is over %zu bytes", req->method,
			req->url, req->max_bytes);
	if (rc == CURLE_OUT_OF_MEMORY || c->body.failed)
		return err_set(err, ERR_NOMEM, "%s %s: out of memory", req->method, req->url);
	if (rc == CURLE_OPERATION_TIMEDOUT)
		return err_set(err, ERR_TIMEOUT, "%s %s: no answer in time: %s", req->method,
			req->url, text);
	if (rc == CURLE_URL_MALFORMAT)
		return err_set(err, ERR_INVALID, "%s %s: not a URL that can be asked: %s",
			req->method, req->url, text);
	return err_set(err, ERR_IO, "%s %s: %s", req->method, req->url, text);
}

int http_client_do(struct http_client *c, const struct http_request *req, struct http_response *ret,
	struct err *err)
{
	int code = check(req, err);
	struct curl_slist *list;
	long status = 0;
	CURLcode rc;

	if (code != 0)
		return code;
	list = headers(req);
	if (!list)
		return err_set(err, ERR_NOMEM, "%s %s: out of memory", req->method, req->url);
	lib.easy_reset(c->easy); /* options go, connections stay */
	buf_release(&c->body);
	buf_init(&c->body, req->max_bytes);
	c->too_big = false;
	c->error[0] = '\0';
	set_transport(c->easy, req);
	set_request(c, req, list);
	rc = lib.easy_perform(c->easy);
	if (rc == CURLE_OK)
		rc = lib.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	lib.slist_free_all(list);
	if (rc != CURLE_OK) {
		code = failure(c, req, rc, err);
		buf_release(&c->body);
		return code;
	}
	ret->status = status;
	ret->body = c->body;
	buf_init(&c->body, 0);
	return 0;
}

void http_client_escape(struct buf *out, struct slice s)
{
	static const char hex[] = "0123456789ABCDEF";

	for (size_t i = 0; i < s.len; i++) {
		unsigned char ch = (unsigned char)s.at[i];

		if ((ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z') ||
			(ch >= '0' && ch <= '9') || (ch && strchr("-._~", ch))) {
			buf_char(out, (char)ch);
		} else {
			buf_char(out, '%');
			buf_char(out, hex[ch >> 4]);
			buf_char(out, hex[ch & 15]);
		}
	}
}

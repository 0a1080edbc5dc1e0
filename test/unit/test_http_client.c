/* SPDX-License-Identifier: Apache-2.0 */
/* test: requests to a small server of our own that answers by path, and to what does not answer. */
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "net/http_client.h"
#include "test/unit/test.h"

static int port, connections;

static void say(int fd, const char *text)
{
	size_t len = strlen(text);

	assert_int_equal(send(fd, text, len, MSG_NOSIGNAL), len);
}

/* Read one request, body included. False at the end of the connection. */
static bool read_request(int fd, char *text, size_t size)
{
	size_t len = 0;

	for (;;) {
		const char *end, *length;
		ssize_t n = recv(fd, text + len, size - 1 - len, 0);

		if (n <= 0)
			return false;
		len += (size_t)n;
		text[len] = '\0';
		end = strstr(text, "\r\n\r\n");
		length = strstr(text, "Content-Length: ");
		if (end && (!length || strlen(end + 4) >= strtoul(length + 16, NULL, 10)))
			return true;
	}
}

/* One connection: what the path asks for. */
static void *serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char text[8192], reply[8400];

	while (read_request(fd, text, sizeof(text))) {
		if (strncmp(text, "HEAD ", 5) == 0) {
			say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n");
		} else if (strstr(text, " /echo")) {
			snprintf(reply, sizeof(reply),
				"HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(text),
				text);
			say(fd, reply);
		} else if (strstr(text, " /missing")) {
			say(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nnope\n");
		} else if (strstr(text, " /moved")) {
			say(fd, "HTTP/1.1 302 Found\r\nLocation: /echo\r\nContent-Length: "
				"0\r\n\r\n");
		} else if (strstr(text, " /chunks")) {
			say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
			for (int i = 0; i < 100; i++)
				say(fd, "10\r\n0123456789abcdef\r\n");
			say(fd, "0\r\n\r\n");
		} else if (strstr(text, " /short")) {
			say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
			break;
		} else if (strstr(text, " /garbage")) {
			say(fd, "what?\r\n");
			break;
		} else if (strstr(text, " /hints")) {
			say(fd, "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 200 "
				"OK\r\nContent-Length: 1\r\n\r\nx");
		} else if (strstr(text, " /close")) {
			break;
		} else if (strstr(text, " /sleep")) {
			recv(fd, text, 1, 0); /* until the client gives up */
			break;
		}
	}
	close(fd);
	return NULL;
}

static void *listen_on(void *arg)
{
	int fd = (int)(intptr_t)arg;

	for (;;) {
		int one = accept(fd, NULL, NULL);
		pthread_t t;

		if (one < 0)
			return NULL;
		connections++;
		pthread_create(&t, NULL, serve, (void *)(intptr_t)one);
		pthread_detach(t);
	}
}

FIXTURE(setup)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	pthread_t t;

	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	port = ntohs(addr.sin_port);
	pthread_create(&t, NULL, listen_on, (void *)(intptr_t)fd);
	pthread_detach(t);
	return 0;
}

static struct fixture {
	struct http_client *c;
	struct http_ask req;
	struct http_response res;
	struct err e;
	char url[256];
} f;

FIXTURE(set_up)
{
	f = (struct fixture){
		.req = {.method = "GET", .url = f.url, .timeout_ms = 5000, .max_bytes = 4096}};
	f.c = http_client_new(&f.e);
	if (!f.c)
		fail_msg("%s", f.e.msg);
	return 0;
}

FIXTURE(tear_down)
{
	buf_release(&f.res.body);
	http_client_free(f.c);
	return 0;
}

/* Ask; the answer before it is forgotten. With an error there is nothing to release. */
static int ask(void)
{
	int rc;

	buf_release(&f.res.body);
	rc = http_client_do(f.c, &f.req, &f.res, &f.e);
	if (rc)
		assert_null(f.res.body.data);
	return rc;
}

static int get(const char *path)
{
	snprintf(f.url, sizeof(f.url), "http://127.0.0.1:%d%s", port, path);
	return ask();
}

TEST(test_get)
{
	static const char *const lines[] = {"X-One: 1", "Accept: application/json", NULL};

	f.req.headers = lines;
	f.req.bearer = "secret";
	assert_int_equal(get("/echo?x=1"), 0);
	assert_int_equal(f.res.status, 200);
	assert_ptr_equal(strstr(f.res.body.data, "GET /echo?x=1 HTTP/1.1\r\n"), f.res.body.data);
	assert_non_null(strstr(f.res.body.data, "X-One: 1\r\n"));
	assert_non_null(strstr(f.res.body.data, "Accept: application/json\r\n"));
	assert_non_null(strstr(f.res.body.data, "Authorization: Bearer secret\r\n"));
	assert_non_null(strstr(f.res.body.data, "User-Agent: poolgate\r\n"));
	/* nothing of one request stays for the next; the connection does */
	f.req.headers = NULL;
	f.req.bearer = NULL;
	connections = 0;
	assert_int_equal(get("/echo"), 0);
	assert_null(strstr(f.res.body.data, "X-One"));
	assert_null(strstr(f.res.body.data, "Authorization"));
	assert_int_equal(connections, 0);
	f.req.fresh = true;
	assert_int_equal(get("/echo"), 0);
	assert_int_equal(connections, 1);
}

TEST(test_send)
{
	static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE"};
	static char large[2000];
	char line[32];

	memset(large, 'x', sizeof(large) - 1);
	f.req.body = slice_of(large);
	for (size_t i = 0; i < 4; i++) {
		f.req.method = methods[i];
		assert_int_equal(get("/echo"), 0);
		snprintf(line, sizeof(line), "%s /echo ", methods[i]);
		assert_ptr_equal(strstr(f.res.body.data, line), f.res.body.data);
		assert_non_null(strstr(f.res.body.data, "Content-Length: 1999\r\n"));
		assert_null(strstr(f.res.body.data, "Expect"));
		assert_non_null(strstr(f.res.body.data, large));
	}
	/* without a body */
	f.req.body = (struct slice){0};
	f.req.method = "POST";
	assert_int_equal(get("/echo"), 0);
	assert_non_null(strstr(f.res.body.data, "Content-Length: 0\r\n"));
	f.req.method = "DELETE";
	assert_int_equal(get("/echo"), 0);
	assert_ptr_equal(strstr(f.res.body.data, "DELETE "), f.res.body.data);
	assert_null(strstr(f.res.body.data, "Content-Length"));
}

TEST(test_status)
{
	assert_int_equal(get("/missing"), 0);
	assert_int_equal(f.res.status, 404);
	assert_string_equal(f.res.body.data, "nope\n");
	assert_int_equal(get("/moved"), 0);
	assert_int_equal(f.res.status, 302);
	assert_int_equal(f.res.body.len, 0);
}

TEST(test_limits)
{
	f.req.max_bytes = 1600;
	assert_int_equal(get("/chunks"), 0);
	assert_int_equal(f.res.body.len, 1600);
	f.req.max_bytes = 1599;
	assert_int_equal(get("/chunks"), ERR_TOOBIG);
	assert_non_null(strstr(f.e.msg, "1599"));
	/* the same of what says beforehand how long it is */
	f.req.max_bytes = strlen("nope\n");
	assert_int_equal(get("/missing"), 0);
	assert_string_equal(f.res.body.data, "nope\n");
	f.req.max_bytes--;
	assert_int_equal(get("/missing"), ERR_TOOBIG);
	f.req.timeout_ms = 100;
	assert_int_equal(get("/sleep"), ERR_TIMEOUT);
	assert_non_null(strstr(f.e.msg, "GET http://127.0.0.1"));
}

/* What a HEAD says of a length is none of what it answers; others of the same client are bounded.
 */
TEST(test_head)
{
	for (int i = 0; i < 2; i++) {
		f.req.method = "HEAD";
		f.req.max_bytes = strlen("nope\n");
		assert_int_equal(get("/long"), 0);
		assert_int_equal(f.res.status, 200);
		assert_int_equal(f.res.body.len, 0);
		f.req.method = "GET";
		assert_int_equal(get("/missing"), 0);
		assert_string_equal(f.res.body.data, "nope\n");
		f.req.max_bytes--;
		assert_int_equal(get("/missing"), ERR_TOOBIG);
	}
}

/* Of several heads the last one is kept, and the whole of it counts. */
TEST(test_last_head)
{
	static const char last[] = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n";

	for (int i = 0; i < 2; i++) {
		f.req.max_head = sizeof(last) - 1 + 40;
		assert_int_equal(get("/hints"), 0);
		assert_int_equal(f.res.status, 200);
		assert_string_equal(f.res.head.data, last);
		assert_int_equal(f.res.head.len, strlen(last));
		assert_string_equal(f.res.body.data, "x");
		buf_release(&f.res.head);
	}
	f.req.max_head = 60; /* less than the first one */
	assert_int_equal(get("/hints"), 0);
	buf_release(&f.res.head);
	f.req.max_head = sizeof(last) - 2;
	assert_int_equal(get("/hints"), ERR_TOOBIG);
	f.req.max_head = 0;
	assert_int_equal(get("/hints"), 0);
	assert_null(f.res.head.data);
}

/* The addresses that were asked about, and whether they may be. */
static struct gate {
	unsigned asked;
	bool open;
	struct sockaddr_in last;
} gate;

static bool may_connect(void *ctx, const struct sockaddr *address)
{
	struct gate *g = ctx;

	g->asked++;
	memcpy(&g->last, address, sizeof(g->last));
	return g->open;
}

/* Each connection is asked about by its address, and one that stands is not. */
TEST(test_addresses_that_may_not_be_asked)
{
	enum http_trouble trouble = HTTP_TROUBLE_NAME;
	int before = connections;

	gate = (struct gate){0};
	f.req.may_connect = may_connect;
	f.req.may_connect_ctx = &gate;
	f.req.trouble = &trouble;
	assert_int_equal(get("/missing"), ERR_REFUSED);
	assert_non_null(strstr(f.e.msg, "its name stands for an address that may not be asked"));
	assert_int_equal(trouble, HTTP_TROUBLE_OTHER);
	assert_int_equal(gate.asked, 1);
	assert_int_equal(gate.last.sin_family, AF_INET);
	assert_int_equal(gate.last.sin_port, htons((uint16_t)port));
	assert_int_equal(gate.last.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	assert_int_equal(connections, before);
	gate.open = true;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(get("/missing"), 0);
		assert_int_equal(gate.asked, 2);
	}
	f.req.url = "http://127.0.0.1:1/"; /* another reason, though it might have been asked */
	assert_int_equal(ask(), ERR_IO);
	assert_int_equal(gate.asked, 3);
}

/* Where a call ended: at the name, at a certificate, elsewhere. */
TEST(test_troubles)
{
	enum http_trouble trouble;
	char url[128] = "http://";

	f.req.trouble = &trouble;
	memset(url + 7, 'a', 64); /* longer than a part of a name may be */
	memcpy(url + 71, ".test/", 7);
	f.req.url = url;
	trouble = HTTP_TROUBLE_OTHER;
	assert_int_equal(ask(), ERR_IO);
	assert_int_equal(trouble, HTTP_TROUBLE_NAME);
	f.req.url = f.url;
	assert_int_equal(get("/close"), ERR_IO);
	assert_int_equal(trouble, HTTP_TROUBLE_OTHER);
	snprintf(f.url, sizeof(f.url), "https://127.0.0.1:%d/echo", port);
	f.req.ca_file = "/nonexistent/ca.crt";
	assert_int_equal(ask(), ERR_IO);
	assert_int_equal(trouble, HTTP_TROUBLE_CERTIFICATE);
	f.req.trouble = NULL;
	assert_int_equal(ask(), ERR_IO);
}

TEST(test_failures)
{
	static const char *const bad[] = {"/a\nb", "/a\x7f"};
	static const char *const split[] = {"X: 1\r\nY: 2", NULL};

	setenv("http_proxy", "http://127.0.0.1:1", 1); /* is not asked */
	assert_int_equal(get("/missing"), 0);
	unsetenv("http_proxy");
	assert_int_equal(get("/short"), ERR_IO);
	assert_int_equal(get("/garbage"), ERR_IO);
	assert_int_equal(get("/close"), ERR_IO);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(get(bad[i]), ERR_INVALID);
	f.req.headers = split;
	assert_int_equal(get("/echo"), ERR_INVALID);
	f.req.headers = NULL;

	f.req.url = "http://127.0.0.1:1/";
	assert_int_equal(ask(), ERR_IO);
	assert_non_null(strstr(f.e.msg, "GET http://127.0.0.1:1/"));
	f.req.url = "file:///etc/hostname";
	assert_int_equal(ask(), ERR_INVALID);
	f.req.url = "http://[";
	assert_int_equal(ask(), ERR_INVALID);
	/* TLS to what speaks none, and a CA file that is not there */
	snprintf(f.url, sizeof(f.url), "https://127.0.0.1:%d/echo", port);
	f.req.url = f.url;
	f.req.timeout_ms = 2000;
	assert_int_not_equal(ask(), 0);
	f.req.ca_file = "/nonexistent/ca.crt";
	assert_int_equal(ask(), ERR_IO);
	http_client_free(NULL);
}

TESTS_ALL(setup, NULL, set_up, tear_down, test_get, test_send, test_status, test_limits, test_head,
	test_last_head, test_addresses_that_may_not_be_asked, test_troubles, test_failures)

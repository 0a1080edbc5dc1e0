/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation fails, for each n, while a client asks a status server over TLS, both
 * in this thread: who cannot go on says so, and whoever comes next is served. Linked with --wrap
 * for malloc, calloc and realloc. */
#include <dirent.h>

#include "base/clock.h"
#include "net/status_server.h"
#include "net/tls_identity.h"
#include "test/unit/make_pair.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"

#define WAIT_MS 20000
#define METRICS "a_metric 1\n"

static char ca_file[] = "/tmp/poolgate-sockets-XXXXXX";
static struct tls_identity *identity;

FIXTURE(begin)
{
	static struct made_pair pair;
	int fd = mkstemp(ca_file);

	make_pair(&pair, MADE_P256, -60, 86400, 1);
	identity = tls_identity_new();
	made_load(&pair, identity);
	assert_int_equal(write(fd, pair.cert, strlen(pair.cert)), strlen(pair.cert));
	return close(fd);
}

FIXTURE(finish)
{
	tls_identity_free(identity);
	return unlink(ca_file);
}

static void metrics(void *ctx, struct buf *out)
{
	(void)ctx;
	buf_str(out, METRICS);
}

static unsigned descriptors(void)
{
	DIR *all = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(all);
	while (readdir(all))
		n++;
	(void)closedir(all);
	return n;
}

struct talk {
	struct server_tls *tls;
	struct status_server *server;
	struct client_socket *client;
	char heard[1024];
	size_t n;
};

static int begin_talk(struct talk *t, bool tls, struct err *err)
{
	struct status_app app = {.metrics = metrics};
	struct client_target to = {.host = "127.0.0.1",
		.tls = tls,
		.ca_file = ca_file,
		.name = tls ? "localhost" : NULL};
	int rc;

	app.tls = t->tls = tls ? server_tls_new(identity) : NULL;
	if (tls && !t->tls)
		return err_set(err, ERR_NOMEM, "no server");
	rc = status_server_new("127.0.0.1:0", &app, &t->server, err);
	if (rc != 0)
		return rc;
	to.port = status_server_port(t->server);
	rc = client_socket_open(&to, &t->client, err);
	return rc != 0 ? rc
		       : client_socket_send(
				 t->client, SLICE("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), err);
}

/* Until the client has heard the end, or an error. */
static int go_on(struct talk *t, struct err *err)
{
	int64_t until = clock_ms() + WAIT_MS;
	bool end = false;
	int rc = 0;

	while (rc == 0 && !end) {
		struct pollfd all[STATUS_POLL_MAX + 1];
		int64_t ms;
		size_t n = status_server_poll(t->server, all, &ms), len = 1;

		all[n] = (struct pollfd){.fd = client_socket_fd(t->client),
			.events = client_socket_events(t->client)};
		(void)poll(all, n + 1, ms < 0 || ms > 1000 ? 1000 : (int)ms);
		status_server_turn(t->server);
		rc = client_socket_turn(t->client, err);
		while (rc == 0 && !end && len > 0 && client_socket_ready(t->client)) {
			rc = client_socket_read(t->client, t->heard + t->n,
				sizeof(t->heard) - 1 - t->n, &len, &end, err);
			t->n += rc == 0 ? len : 0;
		}
		assert_true(clock_ms() < until);
	}
	return rc;
}

static void talk_with(bool tls)
{
	unsigned open = descriptors();
	bool any = true;

	for (long n = 0; any; n++) {
		struct talk t = {0};
		struct err err = {0};
		int rc;

		oom_begin(n, OOM_ONE);
		rc = begin_talk(&t, tls, &err);
		if (rc == 0)
			rc = go_on(&t, &err);
		client_socket_free(t.client);
		status_server_free(t.server);
		server_tls_free(t.tls);
		any = oom_end();
		assert_true((rc != 0) == (err.msg[0] != '\0'));
		assert_true(any || rc == 0);
		if (!any)
			assert_non_null(strstr(t.heard, "\r\n\r\n" METRICS));
		assert_int_equal(descriptors(), open);
	}
}

TEST(a_status_server)
{
	talk_with(false);
}

TEST(a_status_server_over_tls)
{
	talk_with(true);
}

TESTS_WITHIN(begin, finish, a_status_server, a_status_server_over_tls)

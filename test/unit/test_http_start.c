/* SPDX-License-Identifier: Apache-2.0 */
/* test: net/http_server, net/http_guard: a server whose n-th thread cannot be made is none, and
 * leaves nothing. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "net/http_server.h"
#include "test/unit/test.h"

static int left = -1; /* threads that can be made; below 0: any number */

/* In place of the C library's. */
int pthread_create(
	pthread_t *newthread, const pthread_attr_t *attr, void *(*start_routine)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	void *found = dlsym(RTLD_NEXT, "pthread_create");

	memcpy(&real, &found, sizeof(real));
	if (left == 0)
		return errno = EAGAIN;
	left -= left > 0;
	return real(newthread, attr, start_routine, arg);
}

/* What stands in a folder of /proc. */
static size_t count(const char *path)
{
	DIR *d = opendir(path);
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

/* A thread that was joined may be there for a moment. */
static void are_alone(size_t threads)
{
	for (int i = 0; i < 5000 && count("/proc/self/task") != threads; i++)
		(void)poll(NULL, 0, 1);
	assert_int_equal(count("/proc/self/task"), threads);
}

/* Threads of this process that no signal may come to. */
static size_t deaf_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	size_t n = 0;

	assert_non_null(d);
	while ((e = readdir(d))) { // NOLINT(concurrency-mt-unsafe): this stream is ours alone
		char path[300], text[4096] = "";
		const char *blocked;
		FILE *f;

		(void)snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		(void)!fread(text, 1, sizeof(text) - 1, f);
		(void)fclose(f);
		blocked = strstr(text, "SigBlk:");
		n += blocked && strtoull(blocked + 7, NULL, 16) >> (SIGTERM - 1) & 1;
	}
	(void)closedir(d);
	return n;
}

static enum http_outcome livez(void *ctx, struct http_request *req, struct http_reply *reply)
{
	(void)ctx, (void)req;
	http_reply_text(reply, 200, "ok");
	return HTTP_DONE;
}

static const struct http_route routes[] = {{.path = "/livez", .method = HTTP_GET, .handle = livez}};
static const struct http_app app = {.routes = routes, .nroutes = COUNT(routes)};

#define WORKERS 2
/* Beside the workers one that watches and one of the daemon. */
#define THREADS (WORKERS + 2)

TEST(test_each_thread)
{
	static const struct http_config cfg = {.listen = "127.0.0.1:0", .workers = WORKERS};
	struct http_server *server = NULL;
	size_t threads, files;
	sigset_t before, after;
	struct err err = {0};

	assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
	/* What the first one leaves behind in libraries stays. */
	assert_int_equal(http_server_start(&cfg, &app, &server, &err), 0);
	assert_true(http_server_stop(server, 1000));
	threads = count("/proc/self/task");
	files = count("/proc/self/fd");
	for (int n = 0; n < THREADS; n++) {
		int rc;

		server = NULL;
		err_clear(&err);
		left = n;
		rc = http_server_start(&cfg, &app, &server, &err);
		left = -1;
		assert_null(server);
		assert_int_equal(rc, n < THREADS - 1 ? ERR_IO : ERR_INTERNAL);
		assert_string_equal(err.msg,
			n < THREADS - 1
				? "cannot start the server's threads: Resource temporarily "
				  "unavailable"
				: "cannot start the server on 127.0.0.1:0: Resource temporarily "
				  "unavailable");
		are_alone(threads);
		assert_int_equal(count("/proc/self/fd"), files);
		assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
		for (int signal = 1; signal < 32; signal++)
			assert_int_equal(sigismember(&before, signal), sigismember(&after, signal));
	}
	left = THREADS;
	assert_int_equal(http_server_start(&cfg, &app, &server, &err), 0);
	assert_int_equal(left, 0);
	left = -1;
	assert_int_equal(count("/proc/self/task"), threads + THREADS);
	(void)poll(NULL, 0, 50); /* a thread that has not begun is deaf, too */
	assert_int_equal(deaf_threads(), THREADS);
	assert_true(http_server_stop(server, 1000));
	are_alone(threads);
	assert_int_equal(count("/proc/self/fd"), files);
}

TESTS(test_each_thread)

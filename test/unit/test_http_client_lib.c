/* SPDX-License-Identifier: Apache-2.0 */
/* test: net/http_client_lib: a library that cannot be loaded, or that is another, is said, and
 * nothing is asked. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "net/http_client.h"
#include "net/http_client_lib.h"
#include "test/unit/scratch.h"
#include "test/unit/test.h"

#define NOT_STARTED 77
#define HEAD "cannot load libcurl-gnutls.so.4 (package libcurl3-gnutls): "

/* 0 where both, and a client, say the same of why, which has this in it. */
static int unloaded(const char *part)
{
	for (int i = 0; i < 2; i++) {
		struct err err = {0}, of_client = {0};
		struct http_client *c = NULL;

		if (http_client_lib(&err))
			return 1;
		if (err.code != ERR_IO || strncmp(err.msg, HEAD, strlen(HEAD)) != 0 ||
			!strstr(err.msg, part)) {
			(void)fprintf(stderr, "%s\n", err.msg);
			return 2;
		}
		c = http_client_new(&of_client);
		if (c || of_client.code != ERR_IO || strcmp(err.msg, of_client.msg) != 0)
			return 3;
	}
	return 0;
}

/* How the child ended. */
static int end_of(pid_t child)
{
	int status = 0;

	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* A process that may open no file. What is loaded stays, so each is another process. */
TEST(test_it_cannot_be_opened)
{
	pid_t child = fork();

	if (child == 0) {
		static const struct rlimit none = {0, 0};

		_exit(setrlimit(RLIMIT_NOFILE, &none) != 0
				? 9
				: unloaded("libcurl-gnutls.so.4: cannot open"));
	}
	assert_int_equal(end_of(child), 0);
}

/* A file of that name that is another library, the one of the tests. */
TEST(test_it_is_another)
{
	static const char mark[] = "POOLGATE_TEST_OTHER_LIBRARY";
	char self[4096] = "";
	pid_t child;
	int status;
	Dl_info info;

	if (getenv(mark)) {
		assert_int_equal(unloaded("undefined symbol: curl_global_init"), 0);
		return;
	}
	assert_true(dladdr(dlsym(RTLD_DEFAULT, "cmocka_set_message_output"), &info) != 0);
	assert_int_equal(symlink(info.dli_fname, scratch("libcurl-gnutls.so.4")), 0);
	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	child = fork();
	if (child == 0) {
		/* Its own tests are no others of this program. */
		if (!freopen("/dev/null", "w", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
			_exit(7);
		if (setenv(mark, "1", 1) != 0 || setenv("LD_LIBRARY_PATH", scratch(""), 1) != 0)
			_exit(8);
		(void)execl(self, "test_http_client_lib", "test_it_is_another", NULL);
		_exit(NOT_STARTED);
	}
	status = end_of(child);
	if (status == NOT_STARTED)
		skip(); /* by an emulator, which the kernel does not know */
	assert_int_equal(status, 0);
}

TESTS_WITHIN(scratch_begin, scratch_end, test_it_cannot_be_opened, test_it_is_another)

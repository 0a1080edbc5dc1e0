/* SPDX-License-Identifier: Apache-2.0 */
/* test: the end is told by a descriptor, each signal once, and a peer that is gone ends nobody. */
#include "base/signals.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "test/unit/test.h"

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

TEST(the_end_is_told)
{
	struct err err = {0};
	int fd = -1, gone[2];

	assert_int_equal(signals_open(&fd, &err), 0);
	assert_false(readable(fd));
	assert_null(signals_came(fd));
	assert_int_equal(kill(getpid(), SIGTERM), 0);
	assert_true(readable(fd));
	assert_string_equal(signals_came(fd), "TERM");
	assert_null(signals_came(fd));
	assert_int_equal(kill(getpid(), SIGINT), 0);
	assert_string_equal(signals_came(fd), "INT");
	assert_int_equal(pipe(gone), 0);
	(void)close(gone[0]);
	assert_int_equal(write(gone[1], "x", 1), -1);
	assert_int_equal(errno, EPIPE);
	(void)close(gone[1]);
	(void)close(fd);
}

TESTS(the_end_is_told)

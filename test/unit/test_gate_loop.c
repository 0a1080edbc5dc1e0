/* SPDX-License-Identifier: Apache-2.0 */
/* test: of what a loop tells, and of what not. */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gate/loop.h"
#include "test/unit/test.h"

#define PATIENCE_MS 30000

static void count(void *ctx, uint32_t events)
{
	(void)events;
	++*(unsigned *)ctx;
}

TEST(test_descriptor_that_a_child_has)
{
	unsigned told = 0;
	struct loop_watch w = {.ready = count, .ctx = &told};
	int loop, ends[2], childs;

	assert_int_equal(loop_open(&loop, NULL), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(loop_add(loop, ends[0], &w, NULL), 0);
	(void)loop_turn(loop, 0);
	assert_int_equal(told, 1);
	/* What a fork does, too. */
	childs = dup(ends[0]);
	assert_true(childs >= 0);
	loop_drop(loop, ends[0]);
	assert_int_equal(close(ends[0]), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	(void)loop_turn(loop, 0);
	assert_int_equal(told, 1);
	(void)close(childs);
	(void)close(ends[1]);
	(void)close(loop);
}

TEST(test_what_was_asked_for)
{
	unsigned told = 0;
	struct loop_watch w = {.ready = count, .ctx = &told};
	int loop, ends[2];
	char byte;

	assert_int_equal(loop_open(&loop, NULL), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	assert_int_equal(loop_add(loop, ends[0], &w, NULL), 0);
	assert_int_equal(loop_ask(loop, ends[0], &w, EPOLLIN, NULL), 0);
	assert_int_equal(loop_turn(loop, 0), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	/* For as long as there is something. */
	for (unsigned i = 1; i <= 3; i++) {
		assert_int_equal(loop_turn(loop, 0), 1);
		assert_int_equal(told, i);
	}
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(loop_turn(loop, 0), 0);
	/* That all is over is told once to whoever wants nothing. */
	assert_int_equal(loop_ask(loop, ends[0], &w, EPOLLET, NULL), 0);
	(void)close(ends[1]);
	assert_int_equal(loop_turn(loop, 0), 1);
	assert_int_equal(loop_turn(loop, 0), 0);
	(void)close(ends[0]);
	(void)close(loop);
}

TEST(test_others_come_and_go)
{
	struct loop_others o;
	int loop, one[2], two[2];

	assert_int_equal(loop_open(&loop, NULL), 0);
	assert_int_equal(loop_others_open(loop, &o, NULL), 0);
	assert_int_equal(pipe(one), 0);
	assert_int_equal(pipe(two), 0);
	struct pollfd fds[] = {{.fd = one[0], .events = POLLIN}, {.fd = -1, .events = POLLIN},
		{.fd = two[0], .events = POLLIN}};

	assert_true(loop_others_are(&o, fds, COUNT(fds)));
	assert_int_equal(loop_turn(loop, 0), 0);
	assert_int_equal(write(one[1], "x", 1), 1);
	assert_int_equal(write(two[1], "x", 1), 1);
	assert_int_equal(loop_turn(loop, PATIENCE_MS), 1);
	assert_true(loop_others_are(&o, fds, COUNT(fds)));
	assert_int_equal(loop_turn(loop, PATIENCE_MS), 1);
	/* Nobody asks for those that are ready any more. */
	assert_true(loop_others_are(&o, &fds[1], 1));
	assert_int_equal(loop_turn(loop, 0), 0);
	/* Another one gets the number of one that was asked for all the time. */
	assert_true(loop_others_are(&o, fds, 1));
	assert_int_equal(dup2(two[0], one[0]), one[0]);
	assert_true(loop_others_are(&o, fds, 1));
	assert_int_equal(loop_turn(loop, PATIENCE_MS), 1);
	loop_others_close(&o);
	assert_int_equal(loop_turn(loop, 0), 0);
	(void)close(loop);
	for (size_t i = 0; i < 2; i++) {
		(void)close(one[i]);
		(void)close(two[i]);
	}
}

/* Whoever cannot be waited for is named. */
TEST(test_other_that_is_no_stream)
{
	struct pollfd fds[] = {
		{.fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC), .events = POLLIN}};
	struct loop_others o;
	int loop;

	assert_true(fds[0].fd >= 0);
	assert_int_equal(loop_open(&loop, NULL), 0);
	assert_int_equal(loop_others_open(loop, &o, NULL), 0);
	assert_false(loop_others_are(&o, fds, 1));
	assert_true(loop_others_are(&o, NULL, 0));
	loop_others_close(&o);
	(void)close(loop);
	(void)close(fds[0].fd);
}

TESTS(test_descriptor_that_a_child_has, test_what_was_asked_for, test_others_come_and_go,
	test_other_that_is_no_stream)

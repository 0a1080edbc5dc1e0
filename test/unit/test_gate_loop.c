/* SPDX-License-Identifier: Apache-2.0 */
/* test: of what is closed nothing is told, also where another process still has it. */
#include <sys/socket.h>
#include <unistd.h>

#include "gate/loop.h"
#include "test/unit/test.h"

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

TESTS(test_descriptor_that_a_child_has)

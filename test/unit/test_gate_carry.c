/* SPDX-License-Identifier: Apache-2.0 */
/* test: what a connection's two sides are when bytes begin to be carried. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gate/carry.h"
#include "test/unit/test.h"

static unsigned unanswered_ms(int fd)
{
	unsigned ms;
	socklen_t len = sizeof(ms);

	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &len), 0);
	return ms;
}

/* A side that answers and does not read, for however long, is none that is gone. */
TEST(test_who_does_not_read)
{
	int pod = socket(AF_INET, SOCK_STREAM, 0), plain = socket(AF_INET, SOCK_STREAM, 0), on = 0;
	socklen_t len = sizeof(on);
	struct client_socket *s;
	struct carry c;

	assert_int_equal(client_socket_accept(pod, "a pod", NULL, &s, NULL), 0);
	client_socket_keepalive(plain);
	assert_true(unanswered_ms(pod) > 0 && unanswered_ms(plain) > 0);
	carry_begin(&c, s, plain);
	assert_true(unanswered_ms(pod) == 0 && unanswered_ms(plain) == 0);
	assert_int_equal(getsockopt(plain, SOL_SOCKET, SO_KEEPALIVE, &on, &len), 0);
	assert_true(on);
	carry_release(&c);
	client_socket_free(s);
	(void)close(plain);
}

TESTS(test_who_does_not_read)

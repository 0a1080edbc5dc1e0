/* SPDX-License-Identifier: Apache-2.0 */
/* net/peers, gate/readmit: tries of peers, and pods that come again. */
#include "gate/readmit.h"
#include "net/peers.h"
#include "test/unit/test.h"

TEST(test_tries)
{
	static struct peers p;

	p = (struct peers){.per_minute = 3};
	for (int i = 0; i < 3; i++) {
		assert_true(peers_may(&p, 5, 1000));
		peers_failed(&p, 5, 1000);
	}
	assert_false(peers_may(&p, 5, 1000));
	assert_true(peers_may(&p, 6, 1000));
	/* One is forgotten in each third of a minute. */
	assert_false(peers_may(&p, 5, 20999));
	assert_true(peers_may(&p, 5, 21000));
	peers_failed(&p, 5, 21000);
	assert_false(peers_may(&p, 5, 21001));
	assert_true(peers_may(&p, 5, 200000));
}

TEST(test_any_number_of_tries)
{
	static struct peers p;

	p = (struct peers){0};
	for (int i = 0; i < 1000; i++)
		peers_failed(&p, 5, 1000);
	assert_true(peers_may(&p, 5, 1000));
}

/* However many there are: who fails now is remembered, and nobody is taken for another. */
TEST(test_crowd_of_peers)
{
	static struct peers p;

	p = (struct peers){.per_minute = 1};
	for (uint64_t k = 1; k < 100000; k++) {
		assert_true(peers_may(&p, k, (int64_t)k));
		peers_failed(&p, k, (int64_t)k);
		assert_false(peers_may(&p, k, (int64_t)k));
	}
}

static void token_of(unsigned char ret[MAC_BYTES], int c)
{
	memset(ret, c, MAC_BYTES);
}

TEST(test_pods_that_come_again)
{
	static struct readmit r;
	struct picture_claim claim = {.uid = "a"};
	struct picture p = {.claim = &claim, .n_claims = 1};
	unsigned char one[MAC_BYTES], other[MAC_BYTES];

	r = (struct readmit){0};
	token_of(one, 1);
	token_of(other, 2);
	assert_false(readmit_may(&r, "a", one, 10));
	readmit_put(&r, "a", one, 100);
	readmit_put(&r, "b", one, 200);
	assert_true(readmit_may(&r, "a", one, 99));
	assert_false(readmit_may(&r, "a", one, 100));
	assert_false(readmit_may(&r, "a", other, 99));
	assert_false(readmit_may(&r, "c", one, 99));
	/* The last token counts. */
	readmit_put(&r, "a", other, 300);
	assert_false(readmit_may(&r, "a", one, 99));
	assert_true(readmit_may(&r, "a", other, 299));
	readmit_claims(&r, &p);
	assert_true(readmit_may(&r, "a", other, 99));
	assert_false(readmit_may(&r, "b", one, 99));
}

TEST(test_crowd_of_pods)
{
	static struct readmit r;
	unsigned char one[MAC_BYTES];
	char uid[16];

	r = (struct readmit){0};
	token_of(one, 1);
	for (int i = 0; i < 3 * READMIT_MAX; i++) {
		(void)snprintf(uid, sizeof(uid), "pod-%d", i);
		readmit_put(&r, uid, one, 1000 + i);
		assert_true(readmit_may(&r, uid, one, 999));
	}
	assert_false(readmit_may(&r, "pod-0", one, 999));
}

TESTS(test_tries, test_any_number_of_tries, test_crowd_of_peers, test_pods_that_come_again,
	test_crowd_of_pods)

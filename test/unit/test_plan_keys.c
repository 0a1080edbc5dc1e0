/* SPDX-License-Identifier: Apache-2.0 */
/* net/mac and edge/admission/plan_keys: digests, MACs, and which key signs and which is believed
 * when. */
#include "test/unit/test.h"

#include "base/clock.h"
#include "webhook/edge/admission/plan_keys.h"

static void expect_hex(const unsigned char got[MAC_BYTES], const char *want)
{
	char hex[2 * MAC_BYTES + 1];

	for (size_t i = 0; i < MAC_BYTES; i++)
		snprintf(hex + 2 * i, 3, "%02x", got[i]);
	assert_string_equal(hex, want);
}

/* FIPS 180-2, "abc"; RFC 4231, test cases 1 and 2: a short key is one with zeros behind. */
TEST(test_known_answers)
{
	unsigned char got[MAC_BYTES], key[MAC_BYTES] = {0};
	struct slice hi = SLICE("Hi There"),
		     what[] = {SLICE("what do ya"), SLICE(""), SLICE(" want for nothing?")};

	assert_int_equal(mac_digest(SLICE("abc"), got, NULL), 0);
	expect_hex(got, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	memset(key, 0x0b, 20);
	assert_int_equal(mac_sign(key, &hi, 1, got, NULL), 0);
	expect_hex(got, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
	memset(key, 0, sizeof(key));
	memcpy(key, "Jefe", 4);
	assert_int_equal(mac_sign(key, what, 3, got, NULL), 0);
	expect_hex(got, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(test_keys_are_random_and_wiped)
{
	unsigned char one[MAC_BYTES] = {0}, other[MAC_BYTES] = {0}, zero[MAC_BYTES] = {0};

	assert_int_equal(mac_key_new(one, NULL), 0);
	assert_int_equal(mac_key_new(other, NULL), 0);
	assert_false(mac_equal(one, other));
	assert_false(mac_equal(one, zero));
	mac_wipe(one, sizeof(one));
	assert_true(mac_equal(one, zero));
}

TEST(test_which_key_signs)
{
	static const struct plan_key keys[] = {
		{.seen_ms = 100000}, {.seen_ms = 500000}, {.seen_ms = 900000}};

	/* just started: the oldest, which others have */
	assert_int_equal(plan_keys_signing(keys, 3, 100000), 0);
	assert_int_equal(plan_keys_signing(keys, 3, 559999), 0);
	assert_int_equal(plan_keys_signing(keys, 3, 560000), 1);
	assert_int_equal(plan_keys_signing(keys, 3, 959999), 1);
	assert_int_equal(plan_keys_signing(keys, 3, 960000), 2);
	assert_int_equal(plan_keys_signing(keys, 0, 960000), 0);
}

/* When each key was first seen, in seconds; 0 ends. Afterwards: their numbers. */
#define TIMES 10
static const struct {
	const char *about;
	int64_t now, seen[TIMES], numbers[TIMES];
	bool same;
} rotations[] = {
	{"none: the first", 5000, {0}, {1}, false},
	{"young: stays alone", 5000, {4000}, {1}, true},
	{"an hour old: a successor", 7600, {4000}, {1, 2}, false},
	{"the successor waits and signs, the first is believed still", 7959, {4000, 7600}, {1, 2},
		true},
	{"and no more", 7960, {4000, 7600}, {2}, false},
	{"nobody looked for a day", 90000, {4000, 7600}, {2, 3}, false},
	{"another leader, who has just seen both", 7600, {7600, 7600}, {1, 2}, true},
	{"more than anybody makes", 5000, {1, 2, 3, 4, 5, 6, 7, 4999}, {1, 2, 3, 4, 5, 6, 7, 8},
		true},
};

TEST(test_rotation)
{
	unsigned char fresh[MAC_BYTES] = "fresh";

	for (size_t i = 0; i < COUNT(rotations); i++) {
		struct plan_key now[PLAN_KEYS_MAX] = {0};
		size_t n = 0, m = 0, old;
		bool changed = false;

		for (; rotations[i].seen[n]; n++)
			now[n] = (struct plan_key){
				.number = n + 1, .seen_ms = rotations[i].seen[n] * 1000};
		old = n;
		n = plan_keys_next(now, n, rotations[i].now * 1000, 3600000, fresh, &changed);
		if (changed == rotations[i].same)
			fail_msg("%s", rotations[i].about);
		for (; rotations[i].numbers[m]; m++)
			if (m >= n || (int64_t)now[m].number != rotations[i].numbers[m] ||
				(now[m].bytes[0] == 'f') != (now[m].number > old))
				fail_msg("%s: key %zu", rotations[i].about, m);
		assert_int_equal(n, m);
	}
}

static int sign(const struct plan_keys *k, unsigned char ret[MAC_BYTES])
{
	const struct plan_signer *s = plan_keys_signer(k);
	struct slice parts[] = {SLICE("ab"), SLICE("c")};

	return s->sign(s->ctx, parts, 2, ret, NULL);
}

static bool believes(const struct plan_keys *k, const unsigned char mac[MAC_BYTES])
{
	const struct plan_signer *s = plan_keys_signer(k);
	struct slice part = SLICE("abc");

	bool good = false;

	assert_int_equal(s->verify(s->ctx, &part, 1, mac, &good, NULL), 0);
	return good;
}

/* Alone each believes itself; with a key in common each other; what was signed before that is its
 * own still. */
TEST(test_replicas)
{
	struct plan_keys *one = plan_keys_new(NULL), *other = plan_keys_new(NULL);
	struct plan_key first = {.number = 1, .bytes = "first"};
	struct plan_key both[] = {first, {.number = 2, .bytes = "second"}};
	int64_t now = clock_ms();
	unsigned char alone[MAC_BYTES], shared[MAC_BYTES], later[MAC_BYTES];

	assert_non_null(one);
	assert_non_null(other);
	assert_int_equal(sign(one, alone), 0);
	assert_true(believes(one, alone));
	assert_false(believes(other, alone));
	plan_keys_share(one, &first, 1, now);
	plan_keys_share(other, &first, 1, now);
	assert_int_equal(sign(one, shared), 0);
	assert_false(mac_equal(alone, shared));
	assert_true(believes(one, shared));
	assert_true(believes(other, shared));
	assert_true(believes(one, alone));
	assert_false(believes(other, alone));
	/* the second signs once it has been seen for long enough, the first is believed as long as
	 * it is there */
	plan_keys_share(one, both, 2, now - PLAN_KEY_WAIT_MS + 30000);
	assert_int_equal(sign(one, later), 0);
	assert_true(mac_equal(shared, later));
	plan_keys_share(one, &first, 1, now);
	plan_keys_share(one, both, 2, now - PLAN_KEY_WAIT_MS);
	plan_keys_share(one, both, 2, now);
	assert_int_equal(sign(one, later), 0);
	assert_false(mac_equal(shared, later));
	assert_false(believes(other, later));
	plan_keys_share(other, both, 2, now);
	assert_true(believes(other, later));
	assert_true(believes(other, shared));
	plan_keys_share(other, &both[1], 1, now);
	assert_false(believes(other, shared));
	plan_keys_share(other, NULL, 0, now);
	assert_false(believes(other, later));
	plan_keys_free(one);
	plan_keys_free(other);
}

/* Each is as old as this replica knows it, by number and bytes. */
TEST(each_key_is_as_old_as_it_is_known)
{
	struct plan_key keys[PLAN_KEYS_MAX] = {0}, other;
	struct plan_keys *k = plan_keys_new(NULL);

	for (size_t n = 1; n <= COUNT(keys); n++) {
		keys[n - 1].number = n;
		keys[n - 1].bytes[0] = (unsigned char)n;
		plan_keys_share(k, keys, n, 1000 * (int64_t)n);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(keys[i].seen_ms, 1000 * (i + 1));
	}
	for (size_t i = 0; i < COUNT(keys); i++) {
		other = keys[i];
		other.number += 100;
		plan_keys_share(k, &other, 1, 77);
		assert_int_equal(other.seen_ms, 77);
		plan_keys_share(k, keys, COUNT(keys), 5);
		other = keys[i];
		other.bytes[MAC_BYTES - 1] ^= 1;
		plan_keys_share(k, &other, 1, 78);
		assert_int_equal(other.seen_ms, 78);
		plan_keys_share(k, keys, COUNT(keys), 5);
	}
	plan_keys_free(k);
}

/* Of too many the youngest stay. */
TEST(test_too_many_keys)
{
	struct plan_key many[PLAN_KEYS_MAX + 2] = {0};
	struct plan_keys *k = plan_keys_new(NULL), *last = plan_keys_new(NULL);
	unsigned char mac[MAC_BYTES];

	for (size_t i = 0; i < COUNT(many); i++)
		many[i].number = i + 1, many[i].bytes[0] = (unsigned char)i;
	plan_keys_share(k, many, COUNT(many), clock_ms() - PLAN_KEY_WAIT_MS);
	plan_keys_share(last, &many[COUNT(many) - 1], 1, clock_ms());
	assert_int_equal(sign(k, mac), 0);
	assert_true(believes(last, mac));
	plan_keys_free(k);
	plan_keys_free(last);
	plan_keys_free(NULL);
}

TESTS(test_known_answers, test_keys_are_random_and_wiped, test_which_key_signs, test_rotation,
	test_replicas, each_key_is_as_old_as_it_is_known, test_too_many_keys)

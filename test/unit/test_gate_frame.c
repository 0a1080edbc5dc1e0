/* SPDX-License-Identifier: Apache-2.0 */
/* test: the frame that each end of a gate shows the other. */
#include "gate/frame.h"
#include "test/unit/test.h"

/* Feed bytes as they are asked for. *ret_taken: how many were. */
static int feed(struct frame *f, struct slice bytes, size_t step, size_t *ret_taken, struct err *e)
{
	size_t at = 0, wants;
	int rc = 0;

	*f = (struct frame){0};
	while (rc == 0 && (wants = frame_wants(f)) > 0 && at < bytes.len) {
		size_t n = wants < step ? wants : step;

		n = n < bytes.len - at ? n : bytes.len - at;
		memcpy(f->bytes + f->have, bytes.at + at, n);
		at += n;
		rc = frame_got(f, n, e);
	}
	*ret_taken = at;
	return rc;
}

TEST(test_what_is_written_is_read)
{
	static char body[FRAME_BODY_MAX + 10];
	static const size_t lens[] = {0, 1, 255, 256, 1100, FRAME_BODY_MAX};
	static struct frame f;
	struct err e;
	struct buf out;
	size_t taken;

	memset(body, 'x', sizeof(body));
	for (size_t i = 0; i < COUNT(lens); i++) {
		for (size_t step = 1; step < 20000; step *= 7) {
			buf_init(&out, 20000);
			frame_write(FRAME_HELLO, (struct slice){body, lens[i]}, &out);
			buf_str(&out, "behind");
			assert_int_equal(feed(&f, buf_as_slice(&out), step, &taken, &e), 0);
			assert_int_equal(frame_wants(&f), 0);
			assert_int_equal(taken, FRAME_HEAD + lens[i]);
			assert_int_equal(frame_word(&f), FRAME_HELLO);
			assert_int_equal(frame_body(&f).len, lens[i]);
			assert_memory_equal(frame_body(&f).at, body, lens[i]);
			buf_release(&out);
		}
	}
}

TEST(test_long_sentence_is_cut)
{
	static char body[FRAME_BODY_MAX + 10];
	struct buf out;

	buf_init(&out, 20000);
	frame_write(FRAME_BUSY, (struct slice){body, sizeof(body)}, &out);
	assert_int_equal(out.len, FRAME_HEAD + FRAME_BODY_MAX);
	buf_release(&out);
}

/* Refused at the first byte that cannot be right. */
TEST(test_what_is_no_frame)
{
	static const struct {
		struct slice bytes;
		int code;
		size_t taken;
	} cases[] = {
		{SLICE("G"), ERR_SYNTAX, 1},
		{SLICE("gpuX\1\1\0\0"), ERR_SYNTAX, 4},
		{SLICE("gpug\2\1\0\0"), ERR_SYNTAX, 5},
		{SLICE("gpug\0\1\0\0"), ERR_SYNTAX, 5},
		{SLICE("gpug\1\1\x20\1"), ERR_TOOBIG, 8},
		{SLICE("gpug\1\1\xff\xff"), ERR_TOOBIG, 8},
		{SLICE("gpug\1\1\0\2x"), 0, 9},
		{SLICE("gpug\1\x63\0\0"), 0, 8},
	};
	static struct frame f;
	struct err e;
	size_t taken;

	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(feed(&f, cases[i].bytes, 1, &taken, &e), cases[i].code);
		assert_int_equal(taken, cases[i].taken);
		if (cases[i].code == 0)
			assert_int_equal(frame_wants(&f), i == 6 ? 1 : 0);
	}
	assert_int_equal(frame_word(&f), 0x63);
}

TESTS(test_what_is_written_is_read, test_long_sentence_is_cut, test_what_is_no_frame)

/* SPDX-License-Identifier: Apache-2.0 */
/* probe/result/evidence, probe/check/march: what kernels leave is judged by all of it, and
 * what is planned reaches all that it is to. */
#include "probe/check/march.h"
#include "probe/check/worker_wire.h"
#include "probe/kernels/pattern.h"
#include "probe/result/evidence.h"
#include "test/unit/test.h"

/* ---- findings ---- */

TEST(any_part_of_the_findings_counts)
{
	struct kernel_findings f;

	memset(&f, 0, sizeof(f));
	assert_int_equal(evidence_wrong_cells(&f), 0);
	assert_int_equal(evidence_records(&f), 0);
	f.wrong_cells = 5;
	assert_int_equal(evidence_wrong_cells(&f), 5);
	/* an atomic was lost: of the cells, of the records, of bits */
	f = (struct kernel_findings){.kept = 3};
	assert_int_equal(evidence_wrong_cells(&f), 3);
	assert_int_equal(evidence_records(&f), 3);
	f = (struct kernel_findings){.bits_0_to_1 = 1};
	assert_int_equal(evidence_wrong_cells(&f), 1);
	f = (struct kernel_findings){.bits_1_to_0 = 1};
	assert_int_equal(evidence_wrong_cells(&f), 1);
	f = (struct kernel_findings){.wrong_cells = 0};
	f.mismatch[4].got.hi = 1;
	assert_int_equal(evidence_wrong_cells(&f), 5);
	assert_int_equal(evidence_records(&f), 5);
	/* what is as it should be is no record */
	f.mismatch[6].expected = f.mismatch[6].got = (struct kernel_cell){1, 2};
	assert_int_equal(evidence_records(&f), 5);
	f.mismatch[15].expected.lo = 1;
	assert_int_equal(evidence_records(&f), KERNEL_MISMATCHES_MAX);
	f = (struct kernel_findings){.wrong_cells = 100, .kept = 100};
	assert_int_equal(evidence_records(&f), KERNEL_MISMATCHES_MAX);
	assert_int_equal(evidence_wrong_cells(&f), 100);
	/* what was not copied */
	memset(&f, 0xff, sizeof(f));
	assert_true(evidence_wrong_cells(&f) > 0);
}

TEST(who_is_to_find_all_must_tell_of_all)
{
	struct kernel_findings all = {.wrong_cells = 4096, .bits_0_to_1 = 300000, .kept = 4096}, f;

	all.bits_1_to_0 = 4096 * 128 - all.bits_0_to_1;
	assert_true(evidence_all_wrong(&all, 4096));
	f = all;
	f.wrong_cells--;
	assert_false(evidence_all_wrong(&f, 4096));
	f = all;
	f.kept++;
	assert_false(evidence_all_wrong(&f, 4096));
	f = all;
	f.bits_1_to_0--;
	assert_false(evidence_all_wrong(&f, 4096));
	f = all;
	f.bits_0_to_1++;
	assert_false(evidence_all_wrong(&f, 4096));
	assert_false(evidence_all_wrong(&all, 4095));
	/* few enough for records, and one more is there */
	f = (struct kernel_findings){.wrong_cells = 2, .bits_0_to_1 = 256, .kept = 2};
	assert_true(evidence_all_wrong(&f, 2));
	f.mismatch[2].got.lo = 1;
	assert_false(evidence_all_wrong(&f, 2));
}

/* Garbage, too, is a result that the parent can read: else the GPU's fault would look like one of
 * the worker. */
TEST(whatever_is_left_can_be_told)
{
	struct wire_line line = {.kind = WIRE_CHECK}, again;
	struct kernel_findings f;
	struct err err = {0};
	struct buf text;

	memset(&f, 0xff, sizeof(f));
	for (unsigned i = 0; i < KERNEL_MISMATCHES_MAX; i++)
		f.mismatch[i].got.lo = i;
	check_begin(&line.check, CHECK_MEM_PATTERN);
	line.check.errors = (int64_t)evidence_wrong_cells(&f);
	assert_true(line.check.errors > 0);
	evidence_keep(&line.check, &f);
	assert_int_equal(line.check.n_memory, KERNEL_MISMATCHES_MAX);
	assert_true(line.check.bits_0_to_1 > 0 && line.check.bits_1_to_0 > 0);
	check_fail(&line.check, CODE_MEMORY_ERRORS, "wrong");
	buf_init(&text, WIRE_LINE_MAX);
	wire_write(&line, &text);
	if (wire_read((struct slice){text.data, text.len - 1}, &again, &err) != 0)
		fail_msg("%s", err.msg);
	assert_int_equal(again.check.errors, line.check.errors);
	assert_true(again.check.memory[15].offset == line.check.memory[15].offset);
	buf_release(&text);
}

/* ---- work ---- */

TEST(shares_are_those_of_the_kernels)
{
	static const uint64_t sizes[] = {0, 1, 2047, 2048, 2049, 10000, 65536, 1000003};

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (uint32_t blocks = 1; blocks < 20; blocks += 3) {
			for (uint32_t shift = 0; shift < 45; shift += 11) {
				uint64_t all = 0;

				for (uint32_t b = 0; b < blocks; b++) {
					uint64_t own = 0, step = (uint64_t)blocks * KERNEL_TILE;

					for (uint64_t at = (uint64_t)((b + shift) % blocks) *
							   KERNEL_TILE;
						at < sizes[s]; at += step)
						own += sizes[s] - at < KERNEL_TILE ? sizes[s] - at
										   : KERNEL_TILE;
					assert_int_equal(
						evidence_share(sizes[s], blocks, b, shift), own);
					all += own;
				}
				assert_int_equal(all, sizes[s]);
			}
		}
	}
}

TEST(each_block_must_have_done_all)
{
	struct kernel_work work[3] = {{4096, 0}, {2048, 0}, {2048, 0}};
	const uint64_t wanted[3] = {4096, 2048, 2048};

	assert_int_equal(evidence_short_block(work, wanted, 3), 3);
	assert_int_equal(evidence_short_block(work, wanted, 2), 2);
	assert_int_equal(evidence_short_block(work, wanted, 0), 0);
	work[2].cells = 2047;
	assert_int_equal(evidence_short_block(work, wanted, 3), 2);
	work[1].cells = 0;
	assert_int_equal(evidence_short_block(work, wanted, 3), 1);
	/* as much in all, by another block */
	work[0].cells += 2049;
	assert_int_equal(evidence_short_block(work, wanted, 3), 0);
}

TEST(each_block_must_have_read_all)
{
	struct kernel_work read[2] = {{0, 30}, {0, 12}}, checked[2] = {{0, 10}, {0, 4}};

	assert_int_equal(evidence_misread_block(read, checked, 2, 3), 2);
	assert_int_equal(evidence_misread_block(read, checked, 1, 3), 1);
	assert_int_equal(evidence_misread_block(read, checked, 2, 2), 0);
	read[1].sum ^= 1;
	assert_int_equal(evidence_misread_block(read, checked, 2, 3), 1);
	/* modulo 2^64 */
	checked[0].sum = ~0ull;
	read[0].sum = 0ull - 3;
	read[1].sum = 12;
	assert_int_equal(evidence_misread_block(read, checked, 2, 3), 2);
}

/* ---- the sample ---- */

/* Eight blocks a multiprocessor, dealt out in turn: every lane of every warp of every
 * multiprocessor, whatever their number. */
TEST(sample_reaches_every_lane)
{
	for (uint32_t sms = 1; sms <= 160; sms++) {
		unsigned char *lanes = calloc(sms, KERNEL_THREADS), *warps = calloc(sms, 8);
		uint32_t n = 0;

		assert_true(lanes && warps);
		for (uint32_t i = 0; i < sms * 8 * KERNEL_THREADS; i++) {
			if (!evidence_in_sample(i, KERNEL_THREADS, sms))
				continue;
			n++;
			lanes[i / KERNEL_THREADS % sms * KERNEL_THREADS + i % KERNEL_THREADS]++;
		}
		assert_int_equal(n, sms * KERNEL_THREADS);
		for (uint32_t i = 0; i < sms * KERNEL_THREADS; i++)
			assert_int_equal(lanes[i], 1);
		for (uint32_t i = 0; i < sms * 8 * 8; i++)
			warps[i / 8 % sms * 8 + i % 8] += evidence_in_sample(i, 8, sms);
		for (uint32_t i = 0; i < sms * 8; i++)
			assert_int_equal(warps[i], 1);
		free(lanes);
		free(warps);
	}
	/* a GPU that does not say how many it has */
	assert_true(evidence_in_sample(0, KERNEL_THREADS, 0));
}

/* ---- the march ---- */

static unsigned bit_of(struct kernel_cell c, unsigned bit)
{
	return (unsigned)((bit < 64 ? c.lo : c.hi) >> bit % 64 & 1);
}

/* Any two bits of a cell are equal under one background and different under another, so that the
 * one that follows the other shows. */
TEST(backgrounds_tell_all_bits_apart)
{
	for (unsigned a = 0; a < 128; a++) {
		for (unsigned b = 0; b < a; b++) {
			unsigned seen = 0;

			for (unsigned n = 0; n < MARCH_BACKGROUNDS; n++) {
				struct kernel_cell c = march_background(n);

				seen |= 1u << (bit_of(c, a) ^ bit_of(c, b));
			}
			assert_int_equal(seen, 3);
		}
	}
}

/* Each pass expects what the one before left; every background and pattern is checked; all bits
 * rise and fall upwards and downwards. */
TEST(march_is_whole)
{
	unsigned checked = 0, now = 0, patterns = 0, turned[2] = {0, 0}, read = 0;
	uint64_t seed = 0;

	for (unsigned i = 0; i < MARCH_PASSES; i++) {
		struct kernel_cell old = march_background(march[i].expect),
				   new = march_background(march[i].next);

		if (march[i].rewrite == MARCH_FILL) {
			assert_true(i == 0 || march[i - 1].rewrite == MARCH_READ);
			assert_true(patterns == 0 || march_seed(i, 7) != seed);
			seed = march_seed(i, 7);
			patterns++;
			now = march[i].next;
			continue;
		}
		assert_true(march_seed(i, 7) == seed);
		assert_int_equal(march[i].expect, now);
		checked |= 1u << march[i].expect;
		read += 1 + (march[i].rewrite == MARCH_READ_AGAIN);
		if (march[i].rewrite == MARCH_READ)
			continue;
		now = march[i].next;
		if ((old.lo ^ new.lo) == ~0ull && (old.hi ^ new.hi) == ~0ull)
			turned[march[i].down]++;
	}
	assert_int_equal(checked, (1u << MARCH_BACKGROUNDS) - 1);
	assert_true(turned[0] >= 2 && turned[1] >= 1);
	assert_int_equal(patterns, 3);
	assert_int_equal(read, 25); /* as docs/gpuprobe.md says of a bad cell */
	assert_int_equal(march[0].rewrite, MARCH_FILL);
	assert_true(march_seed(0, 7) == 7);
	assert_true(march_seed(12, 7) == 7 + PATTERN_ODD_INVERTED);
	assert_int_equal(march[MARCH_PASSES - 1].rewrite, MARCH_READ);
}

/* What a warp writes at once has no order: any bit of two neighbouring cells meets in equal and in
 * different values, and so does the inverse. */
TEST(neighbours_meet_in_all_values)
{
	for (uint64_t cell = 0; cell < 1000; cell++) {
		for (unsigned bit = 0; bit < 128; bit++) {
			unsigned seen = 0;

			for (unsigned i = 0; i < MARCH_PASSES; i++) {
				uint64_t seed = march_seed(i, 7);

				if (march[i].rewrite == MARCH_READ_AGAIN && march[i].next == 0)
					seen |= 1u << (bit_of(pattern_cell(cell, seed), bit) ^
							bit_of(pattern_cell(cell + 1, seed), bit));
			}
			assert_int_equal(seen, 3);
		}
	}
}

TEST(another_multiprocessor_checks)
{
	for (int sms = 2; sms <= 160; sms++)
		for (unsigned pass = 0; pass + 1 < MARCH_PASSES; pass++)
			assert_int_not_equal(march_shift(pass, sms) % (unsigned)sms,
				march_shift(pass + 1, sms) % (unsigned)sms);
	assert_int_equal(march_shift(3, 1), 0);
	assert_int_equal(march_shift(3, -1), 0);
}

TESTS(any_part_of_the_findings_counts, who_is_to_find_all_must_tell_of_all,
	whatever_is_left_can_be_told, shares_are_those_of_the_kernels,
	each_block_must_have_done_all, each_block_must_have_read_all, sample_reaches_every_lane,
	backgrounds_tell_all_bits_apart, march_is_whole, neighbours_meet_in_all_values,
	another_multiprocessor_checks)

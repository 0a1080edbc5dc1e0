/* SPDX-License-Identifier: Apache-2.0 */
/* test: the memory of the fake CUDA runtime's devices. What a kernel fills is remembered as what it
 * is (pattern, seed, inverted or not) rather than kept, so that a GPU of 80 GB costs nothing; small
 * buffers and single cells are real. */
#include "test/probe/fake_cudart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "probe/kernels/pattern.h"
#include "probe/runtime/rt.h"

#define CELL sizeof(struct kernel_cell)
/* From so many bytes on a fill is remembered, not made. */
#define SYMBOLIC_LEAST (4u << 20)
/* Smaller allocations lie where no fault is. */
#define PHYSICAL_LEAST (1u << 20)
#define NOWHERE UINT64_MAX

int fake_alloc(struct fake_device *d, void **at, size_t bytes)
{
	struct fake_memory **next = &d->memory, *m;
	uint64_t rounded = (bytes + 511) & ~511ull, physical = 0;

	if (bytes == 0)
		return RT_INVALID_VALUE;
	if (d->used + rounded > d->free || d->used + rounded > d->allocatable)
		return RT_OUT_OF_MEMORY;
	m = calloc(1, sizeof(*m));
	if (!m)
		return RT_OUT_OF_MEMORY;
	m->at = mmap(NULL, rounded, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m->at == MAP_FAILED) {
		free(m);
		return RT_OUT_OF_MEMORY;
	}
	m->bytes = rounded;
	/* the first gap that is large enough; the list is in this order */
	for (; *next && bytes >= PHYSICAL_LEAST; next = &(*next)->next) {
		if ((*next)->physical - physical >= rounded)
			break;
		physical = (*next)->physical + (*next)->bytes;
	}
	while (*next && bytes < PHYSICAL_LEAST)
		next = &(*next)->next;
	m->physical = bytes >= PHYSICAL_LEAST ? physical : NOWHERE;
	m->next = *next;
	*next = m;
	d->used += rounded;
	*at = m->at;
	return 0;
}

static void release(struct fake_memory *m)
{
	(void)munmap(m->at, m->bytes);
	free(m->written);
	free(m);
}

int fake_free(struct fake_device *d, void *at)
{
	for (struct fake_memory **m = &d->memory; *m; m = &(*m)->next) {
		struct fake_memory *found = *m;

		if (found->at != at)
			continue;
		*m = found->next;
		d->used -= found->bytes;
		if (d->clears > 0) {
			double takes = (double)found->bytes / d->clears;

			d->cleared_s = fmax(d->cleared_s, d->now_s) + takes;
			d->host_s = fmax(d->host_s, clock_s()) + takes;
		}
		release(found);
		return 0;
	}
	return RT_INVALID_VALUE;
}

void fake_free_all(struct fake_device *d)
{
	while (d->memory)
		(void)fake_free(d, d->memory->at);
}

struct fake_memory *fake_find(struct fake_device *d, const void *at)
{
	for (struct fake_memory *m = d->memory; m; m = m->next) {
		if ((const char *)at >= m->at && (const char *)at < m->at + m->bytes)
			return m;
	}
	return NULL;
}

/* ---- what stands in a cell ---- */

static struct kernel_cell flipped(struct kernel_cell c, struct kernel_cell flip)
{
	return (struct kernel_cell){c.lo ^ flip.lo, c.hi ^ flip.hi};
}

static bool remembered(const struct fake_memory *m, uint64_t cell)
{
	if (!m->symbolic || cell < m->from || cell - m->from >= m->cells)
		return false;
	for (size_t i = 0; i < m->n_written; i++) {
		if (m->written[i] == cell)
			return false;
	}
	return true;
}

static struct kernel_cell *real_cell(struct fake_memory *m, uint64_t cell)
{
	return (struct kernel_cell *)m->at + cell;
}

static struct kernel_cell value(struct fake_memory *m, uint64_t cell)
{
	if (remembered(m, cell))
		return flipped(pattern_cell(m->first + cell - m->from, m->seed), m->flip);
	return *real_cell(m, cell);
}

/* Put what is remembered of these cells into the real memory. */
static void make_real(struct fake_memory *m, uint64_t from, uint64_t cells)
{
	for (uint64_t i = from; i < from + cells; i++)
		*real_cell(m, i) = value(m, i);
}

static void forget(struct fake_memory *m)
{
	free(m->written);
	m->written = NULL;
	m->n_written = 0;
	m->symbolic = false;
}

static bool overlaps(const struct fake_memory *m, uint64_t from, uint64_t cells)
{
	return m->symbolic && from < m->from + m->cells && m->from < from + cells;
}

static bool covers(const struct fake_memory *m, uint64_t from, uint64_t cells)
{
	return from <= m->from && from + cells >= m->from + m->cells;
}

/* These cells will be written, all of them. */
static void before_write(struct fake_memory *m, uint64_t from, uint64_t cells)
{
	if (!overlaps(m, from, cells))
		return;
	if (!covers(m, from, cells))
		make_real(m, m->from, m->cells);
	forget(m);
}

static void first_and_count(struct fake_memory *m, const void *at, size_t bytes, uint64_t *ret_from,
	uint64_t *ret_cells)
{
	size_t offset = (size_t)((const char *)at - m->at);

	*ret_from = offset / CELL;
	*ret_cells = (offset + bytes + CELL - 1) / CELL - *ret_from;
}

void fake_host_reads(struct fake_device *d, const void *at, size_t bytes)
{
	struct fake_memory *m = fake_find(d, at);
	uint64_t from, cells;

	if (!m)
		return;
	first_and_count(m, at, bytes, &from, &cells);
	if (overlaps(m, from, cells))
		make_real(m, from, cells);
}

void fake_host_writes(struct fake_device *d, const void *at, size_t bytes)
{
	struct fake_memory *m = fake_find(d, at);
	uint64_t from, cells;
	uint64_t *longer;

	if (!m)
		return;
	first_and_count(m, at, bytes, &from, &cells);
	if (!overlaps(m, from, cells))
		return;
	if (cells > 4096) {
		before_write(m, from, cells);
		return;
	}
	make_real(m, from, cells);
	longer = realloc(m->written, (m->n_written + cells) * sizeof(*longer));
	if (!longer)
		fake_die("no memory");
	m->written = longer;
	for (uint64_t i = 0; i < cells; i++)
		m->written[m->n_written++] = from + i;
}

/* ---- faults ---- */

static bool flip_in(
	const struct fake_flip *f, const struct fake_memory *m, uint64_t from, uint64_t cells)
{
	uint64_t base = m->physical / CELL;

	return m->physical != NOWHERE && f->cell >= base + from && f->cell < base + from + cells;
}

/* A kernel has written these cells. */
static void flips_written(
	struct fake_device *d, struct fake_memory *m, uint64_t from, uint64_t cells)
{
	for (size_t i = 0; i < d->n_flips; i++) {
		struct fake_flip *f = &d->flips[i];

		if (f->kind != FLIP_ONCE || !flip_in(f, m, from, cells))
			continue;
		f->in = f->left > 0;
		f->left -= f->in;
	}
}

static void change(struct kernel_cell *c, unsigned bit, int to)
{
	uint64_t *half = bit < 64 ? &c->lo : &c->hi, mask = 1ull << (bit % 64);

	if (to < 0)
		*half ^= mask;
	else
		*half = to ? *half | mask : *half & ~mask;
}

/* What a read of the cell gives. */
static struct kernel_cell read_cell(
	struct fake_device *d, struct fake_memory *m, uint64_t cell, struct kernel_cell stored)
{
	for (size_t i = 0; i < d->n_flips; i++) {
		struct fake_flip *f = &d->flips[i];

		if (!flip_in(f, m, cell, 1))
			continue;
		if (f->kind == FLIP_STUCK_0 || f->kind == FLIP_STUCK_1) {
			change(&stored, f->bit, f->kind == FLIP_STUCK_1);
		} else if (f->kind == FLIP_ONCE ? f->in : f->left > 0) {
			change(&stored, f->bit, -1);
			f->left -= f->kind == FLIP_TRANSIENT;
		}
	}
	return stored;
}

void fake_report(struct kernel_findings *out, uint64_t cell, struct kernel_cell expected,
	struct kernel_cell got, struct kernel_cell again)
{
	out->wrong_cells++;
	out->bits_0_to_1 += (uint64_t)(__builtin_popcountll(got.lo & ~expected.lo) +
				       __builtin_popcountll(got.hi & ~expected.hi));
	out->bits_1_to_0 += (uint64_t)(__builtin_popcountll(~got.lo & expected.lo) +
				       __builtin_popcountll(~got.hi & expected.hi));
	if (out->kept < KERNEL_MISMATCHES_MAX)
		out->mismatch[out->kept] = (struct kernel_mismatch){cell, expected, got, again};
	out->kept++;
}

/* ---- fill and check ---- */

void fake_fill(struct fake_device *d, void *at, uint64_t first, uint64_t cells, uint64_t seed,
	struct kernel_cell flip)
{
	struct fake_memory *m = fake_find(d, at);
	uint64_t from = m ? (uint64_t)((char *)at - m->at) / CELL : 0;

	if (!m || (from + cells) * CELL > m->bytes)
		fake_die("gp_fill behind the end of its memory");
	before_write(m, from, cells);
	if (cells * CELL >= SYMBOLIC_LEAST) {
		m->symbolic = true;
		m->from = from;
		m->cells = cells;
		m->first = first;
		m->seed = seed;
		m->flip = flip;
	} else {
		for (uint64_t i = 0; i < cells; i++)
			*real_cell(m, from + i) = flipped(pattern_cell(first + i, seed), flip);
	}
	flips_written(d, m, from, cells);
}

/* Put a cell into memory of which the rest is remembered. */
static void put_cell(
	struct fake_device *d, struct fake_memory *m, uint64_t cell, struct kernel_cell c)
{
	fake_host_writes(d, real_cell(m, cell), CELL);
	*real_cell(m, cell) = c;
}

static bool changes_on_the_way(struct fake_device *from, const struct fake_device *to, size_t bytes)
{
	struct fake_peer_wrong *w = &from->peer_wrong;

	if (w->left == 0 || w->offset >= bytes || (w->peer >= 0 && to != &fake()->devices[w->peer]))
		return false;
	w->left -= w->left > 0;
	return true;
}

void fake_send(struct fake_device *from, const void *source, struct fake_device *to, void *target,
	size_t bytes)
{
	struct fake_memory *a = fake_find(from, source), *b = fake_find(to, target);
	uint64_t first, last, cells;

	first_and_count(a, source, bytes, &first, &cells);
	first_and_count(b, target, bytes, &last, &cells);
	before_write(b, last, cells);
	if (a->symbolic && !b->symbolic && first >= a->from &&
		first + cells <= a->from + a->cells && cells * CELL >= SYMBOLIC_LEAST) {
		b->symbolic = true;
		b->from = last;
		b->cells = cells;
		b->first = a->first + first - a->from;
		b->seed = a->seed;
		b->flip = a->flip;
		for (size_t i = 0; i < a->n_written; i++)
			if (a->written[i] >= first && a->written[i] - first < cells)
				put_cell(to, b, last + a->written[i] - first,
					*real_cell(a, a->written[i]));
		for (size_t i = 0; i < from->n_flips; i++) {
			uint64_t cell = from->flips[i].cell - a->physical / CELL;

			if (flip_in(&from->flips[i], a, first, cells))
				put_cell(to, b, last + cell - first,
					read_cell(from, a, cell, value(a, cell)));
		}
	} else {
		fake_host_reads(from, source, bytes);
		memcpy(target, source, bytes);
	}
	if (changes_on_the_way(from, to, bytes)) {
		uint64_t cell = last + from->peer_wrong.offset / CELL;
		struct kernel_cell c = value(b, cell);

		change(&c, from->peer_wrong.bit, -1);
		put_cell(to, b, cell, c);
	}
	flips_written(to, b, last, cells);
}

static void check_cell(struct fake_device *d, struct fake_memory *m, uint64_t at, uint64_t cell,
	struct kernel_cell expected, struct kernel_findings *out)
{
	struct kernel_cell stored = value(m, at), got = read_cell(d, m, at, stored);

	if (got.lo != expected.lo || got.hi != expected.hi)
		fake_report(out, cell, expected, got, read_cell(d, m, at, stored));
}

/* Only cells that may differ from what is remembered: written over by the host, or faulty. */
static void check_remembered(struct fake_device *d, struct fake_memory *m, uint64_t from,
	uint64_t cells, struct kernel_findings *out)
{
	for (size_t i = 0; i < m->n_written + d->n_flips; i++) {
		uint64_t at = i < m->n_written
				      ? m->written[i]
				      : d->flips[i - m->n_written].cell - m->physical / CELL;
		bool twice = i >= m->n_written &&
			     (!flip_in(&d->flips[i - m->n_written], m, from, cells) ||
				     !remembered(m, at));

		for (size_t k = 0; k + m->n_written < i && !twice; k++)
			twice = d->flips[k].cell == d->flips[i - m->n_written].cell;
		if (!twice && at >= from && at - from < cells)
			check_cell(d, m, at, m->first + at - m->from,
				flipped(pattern_cell(m->first + at - m->from, m->seed), m->flip),
				out);
	}
}

void fake_check(struct fake_device *d, void *at, uint64_t first, uint64_t cells, uint64_t seed,
	struct kernel_cell flip, struct kernel_findings *out)
{
	struct fake_memory *m = fake_find(d, at);
	uint64_t from = m ? (uint64_t)((char *)at - m->at) / CELL : 0;

	if (!m || (from + cells) * CELL > m->bytes)
		fake_die("gp_check behind the end of its memory");
	if (m->symbolic && from >= m->from && from + cells <= m->from + m->cells &&
		m->first + from - m->from == first && m->seed == seed && m->flip.lo == flip.lo &&
		m->flip.hi == flip.hi) {
		check_remembered(d, m, from, cells, out);
	} else {
		for (uint64_t i = 0; i < cells; i++)
			check_cell(d, m, from + i, first + i,
				flipped(pattern_cell(first + i, seed), flip), out);
	}
}

void fake_copy(struct fake_device *d, void *to, void *from, uint64_t cells)
{
	struct fake_memory *a = fake_find(d, from), *b = fake_find(d, to);

	if (a && b && a != b)
		fake_send(d, from, d, to, cells * CELL);
	else
		fake_die("gp_copy within one allocation");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* probe: evidence that kernels leave. */
#include "probe/result/evidence.h"

#define WARP 32
#define WARPS (KERNEL_THREADS / WARP)
/* Of memory, as results tell of it (struct check_result). */
#define PAGE_BYTES 65536

static bool is_record(const struct kernel_mismatch *m)
{
	return (m->expected.lo ^ m->got.lo) != 0 || (m->expected.hi ^ m->got.hi) != 0;
}

/* What a GPU says that it counted, at most EVIDENCE_MOST. */
static uint64_t evidence_count(uint64_t n)
{
	return n < EVIDENCE_MOST ? n : EVIDENCE_MOST;
}

unsigned evidence_records(const struct kernel_findings *f)
{
	unsigned n = f->kept < KERNEL_MISMATCHES_MAX ? f->kept : KERNEL_MISMATCHES_MAX;

	for (unsigned i = n; i < KERNEL_MISMATCHES_MAX; i++)
		if (is_record(&f->mismatch[i]))
			n = i + 1;
	return n;
}

uint64_t evidence_wrong_cells(const struct kernel_findings *f)
{
	uint64_t most = f->wrong_cells > f->kept ? f->wrong_cells : f->kept;
	unsigned records = evidence_records(f);

	if (most < records)
		most = records;
	return most == 0 && (f->bits_0_to_1 | f->bits_1_to_0) != 0 ? 1 : evidence_count(most);
}

bool evidence_all_wrong(const struct kernel_findings *f, uint64_t cells)
{
	uint64_t records = cells < KERNEL_MISMATCHES_MAX ? cells : KERNEL_MISMATCHES_MAX;

	return f->wrong_cells == cells && f->kept == (uint32_t)cells &&
	       evidence_records(f) == records &&
	       f->bits_0_to_1 + f->bits_1_to_0 == cells * sizeof(struct kernel_cell) * 8;
}

_Static_assert(KERNEL_MISMATCHES_MAX <= CHECK_RECORDS_MAX, "room for all");

void evidence_keep(struct check_result *r, const struct kernel_findings *f)
{
	uint64_t pages[KERNEL_MISMATCHES_MAX];
	unsigned kept = evidence_records(f), n_pages = 0;

	for (unsigned i = 0; i < kept; i++) {
		const struct kernel_mismatch *m = &f->mismatch[i];
		uint64_t offset = m->cell < EVIDENCE_MOST / sizeof(struct kernel_cell)
					  ? m->cell * sizeof(struct kernel_cell)
					  : EVIDENCE_MOST;
		uint64_t page = offset / PAGE_BYTES;
		unsigned k = 0;

		r->memory[i] = (struct memory_error){.offset = offset,
			.expected = {m->expected.lo, m->expected.hi},
			.got = {m->got.lo, m->got.hi},
			.again = {m->again.lo, m->again.hi}};
		while (k < n_pages && pages[k] != page)
			k++;
		if (k == n_pages)
			pages[n_pages++] = page;
	}
	r->n_memory = kept;
	r->bits_0_to_1 = (int64_t)evidence_count(f->bits_0_to_1);
	r->bits_1_to_0 = (int64_t)evidence_count(f->bits_1_to_0);
	if (evidence_wrong_cells(f) <= kept) /* with more than are kept nobody has counted them */
		r->pages = n_pages;
}

uint64_t evidence_share(uint64_t cells, uint32_t blocks, uint32_t block, uint32_t shift)
{
	uint64_t tiles = cells / KERNEL_TILE, rest = cells % KERNEL_TILE;
	uint32_t first = (uint32_t)(((uint64_t)block + shift) % blocks);
	uint64_t share = tiles / blocks + (first < tiles % blocks);

	return share * KERNEL_TILE + (tiles % blocks == first ? rest : 0);
}

uint32_t evidence_short_block(
	const struct kernel_work *work, const uint64_t *wanted, uint32_t blocks)
{
	uint32_t b = 0;

	while (b < blocks && work[b].cells == wanted[b])
		b++;
	return b;
}

uint32_t evidence_misread_block(const struct kernel_work *read, const struct kernel_work *checked,
	uint32_t blocks, uint64_t times)
{
	uint32_t b = 0;

	while (b < blocks && read[b].sum == checked[b].sum * times)
		b++;
	return b;
}

bool evidence_in_sample(uint32_t chain, uint32_t each, uint32_t multiprocessors)
{
	uint32_t sms = multiprocessors ? multiprocessors : 1;
	uint32_t block = chain / each, warp = (block / sms + block % sms) % WARPS;

	return chain % each / (each / WARPS) == warp;
}

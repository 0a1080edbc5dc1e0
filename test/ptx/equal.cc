// SPDX-License-Identifier: Apache-2.0
// ptx: every kernel of gpuprobe against the C that says what it shall compute (probe/kernels/*.h): `equal FILE.ptx...`. Sizes around
// each bound of the kernels, any number of blocks, seeds, shifts and folds; planted wrong cells; what was read, written and computed
// is counted, and that no thread touched what another one was at. PTX_DEVICE describes the GPU, SEED=n makes other numbers.
//
// Prints a line for each file; exit status 1 when anything differs.
#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

extern "C" {
#include "probe/kernels/exact.h"
}
#include "test/ptx/device.h"

using ptx::Counts;
using std::vector;

static ptx::Module *module;
static std::mt19937_64 numbers;
static uint64_t compared, wrong;

constexpr uint64_t WRONG_SHOWN = 20;
static const uint64_t sizes[] = {0, 1, 2, 31, 255, 256, 257, 1000, 2047, 2048, 2049, 2303, 2304,
	4095, 4096, 4097, 8191, 10000, 16384, 40961};
static const unsigned grids[] = {1, 2, 3, 7, 32};

__attribute__((format(printf, 2, 3))) static void expect(bool right, const char *format, ...)
{
	va_list args;

	compared++;
	if (right || wrong++ >= WRONG_SHOWN)
		return;
	va_start(args, format);
	printf("  WRONG: ");
	vprintf(format, args);
	putchar('\n');
	va_end(args);
}

// ---- the GPU ----

static ptx::Device &gpu()
{
	return ptx::gpus().devices[0];
}

static Counts &counts()
{
	return gpu().machine.counts;
}

template <class... Args> static void run(const char *kernel, unsigned blocks, Args... args)
{
	void *pointers[] = {(void *)&args..., nullptr};
	int error = gpu().machine.launch(*module, kernel, blocks, KERNEL_THREADS, pointers);

	expect(error == 0, "%s: error %d, %s", kernel, error, gpu().machine.error.c_str());
}

// Memory of the GPU, which is the host's. Given back at the end of its scope.
template <class T> struct Buffer {
	T *at = nullptr;
	size_t n;

	explicit Buffer(size_t count) : n(count ? count : 1)
	{
		void *p = nullptr;

		if (ptx::take(gpu(), n * sizeof(T), &p) != 0) {
			printf("the device has too little memory: PTX_DEVICE=\"mem=64M\" at "
			       "least\n");
			exit(2);
		}
		at = (T *)p;
	}
	~Buffer()
	{
		ptx::give_back(gpu(), at);
	}
	Buffer(const Buffer &) = delete;
	Buffer &operator=(const Buffer &) = delete;
	T &operator[](size_t i)
	{
		return at[i];
	}
	void clear()
	{
		memset((void *)at, 0, n * sizeof(T));
	}
};

// ---- memory ----

static bool same(kernel_cell a, kernel_cell b)
{
	return a.lo == b.lo && a.hi == b.hi;
}

static kernel_cell pattern(uint64_t cell, uint64_t seed, uint64_t invert)
{
	kernel_cell c = pattern_cell(cell, seed);

	return {c.lo ^ invert, c.hi ^ invert};
}

// A piece of memory that a kernel works on, and what belongs in it.
struct Piece {
	uint64_t cells, first, seed, invert;
	unsigned blocks;
	Buffer<kernel_cell> at;
	Buffer<kernel_findings> found;
	Buffer<kernel_work> work;

	Piece(uint64_t n, unsigned grid)
	    : cells(n), first(grid == 3     ? numbers()
				: grid == 7 ? (1ull << 32) - 5
					    : numbers() % 100000),
	      seed(numbers()), invert(numbers() & 1 ? ~0ull : 0), blocks(grid), at(n), found(1),
	      work(grid)
	{
	}
	kernel_cell expected(uint64_t i, uint64_t inverted) const
	{
		return pattern(first + i, seed, inverted);
	}
	void fill()
	{
		uint32_t shift = (uint32_t)numbers() % 50;

		work.clear();
		run("gp_fill", blocks, at.at, first, cells, seed, invert, invert, shift, work.at);
		did_all("gp_fill", shift);
	}
	// What stands there is ^ inverted; what is written then, ^ the inverse of that.
	void check(uint64_t inverted, uint32_t rewrite)
	{
		uint32_t shift = (uint32_t)numbers() % 50, down = numbers() & 1;

		uint64_t read = counts().load_bytes;

		found.clear();
		work.clear();
		run("gp_check", blocks, at.at, first, cells, seed, inverted, inverted, shift, down,
			rewrite, ~inverted, ~inverted, found.at, work.at);
		did_all("gp_check", shift);
		read = counts().load_bytes - read;
		expect(read == 16 * (cells * (rewrite == 2 ? 2 : 1) + found.at->wrong_cells),
			"gp_check: %" PRIu64 " cells, rewrite %u: %" PRIu64 " bytes read", cells,
			rewrite, read);
	}
	// Each block has counted the cells of its tiles.
	void did_all(const char *kernel, uint32_t shift)
	{
		vector<uint64_t> share(blocks);

		for (uint64_t i = 0; i < cells; i++)
			share[(i / KERNEL_TILE % blocks + blocks * 50ull - shift) % blocks]++;
		for (unsigned b = 0; b < blocks; b++)
			expect(work[b].cells == share[b],
				"%s: block %u of %u handled %" PRIu64 " of %" PRIu64 " cells",
				kernel, b, blocks, work[b].cells, share[b]);
	}
	void holds(uint64_t inverted, const char *after)
	{
		for (uint64_t i = 0; i < cells; i++)
			expect(same(at[i], expected(i, inverted)),
				"%s: cell %" PRIu64 " of %" PRIu64 ", %u blocks", after, i, cells,
				blocks);
	}
	void nothing(const char *what) const
	{
		const kernel_findings &f = *found.at;

		expect(f.wrong_cells == 0 && f.kept == 0 && f.bits_0_to_1 == 0 &&
				f.bits_1_to_0 == 0,
			"%s: %" PRIu64 " wrong cells found where none is", what, f.wrong_cells);
	}
};

static uint64_t bits_of(kernel_cell c)
{
	return (uint64_t)(__builtin_popcountll(c.lo) + __builtin_popcountll(c.hi));
}

static void flip_bits(kernel_cell *c)
{
	kernel_cell was = *c;

	for (uint64_t k = 1 + numbers() % 3; k > 0; k--) {
		uint64_t bit = numbers() % 128;

		(bit < 64 ? c->lo : c->hi) ^= 1ull << bit % 64;
	}
	if (same(*c, was))
		c->lo ^= 1;
}

// Every cell of the small pieces, some of the others, the first and the last of all.
static std::set<uint64_t> some_cells(uint64_t cells)
{
	std::set<uint64_t> r;

	for (uint64_t i = 0; i < (cells < 300 ? cells : 1 + numbers() % 40); i++)
		r.insert(cells < 300 ? i : numbers() % cells);
	if (cells)
		r.insert({0, cells - 1});
	return r;
}

static void planted(Piece &p)
{
	std::set<uint64_t> cells = some_cells(p.cells), told;
	uint64_t up = 0, down = 0;
	const kernel_findings &f = *p.found.at;

	for (uint64_t i : cells) {
		kernel_cell e = p.expected(i, p.invert);

		flip_bits(&p.at[i]);
		up += bits_of({p.at[i].lo & ~e.lo, p.at[i].hi & ~e.hi});
		down += bits_of({~p.at[i].lo & e.lo, ~p.at[i].hi & e.hi});
	}
	vector<kernel_cell> before(p.at.at, p.at.at + p.cells);
	p.check(p.invert, 1 + numbers() % 2);
	expect(f.wrong_cells == cells.size() && f.kept == cells.size(),
		"gp_check found %" PRIu64 " of %zu", f.wrong_cells, cells.size());
	expect(f.bits_0_to_1 == up && f.bits_1_to_0 == down, "gp_check: bits that rose and fell");
	for (uint32_t k = 0; k < std::min(f.kept, (uint32_t)KERNEL_MISMATCHES_MAX); k++) {
		const kernel_mismatch &m = f.mismatch[k];
		uint64_t i = m.cell - p.first;

		expect(cells.count(i) && told.insert(i).second &&
				same(m.expected, p.expected(i, p.invert)) &&
				same(m.got, before[i]) && same(m.again, before[i]),
			"gp_check: record %u", k);
	}
	p.holds(~p.invert, "gp_check's rewriting");
	p.check(~p.invert, 0);
	p.nothing("gp_check of the complement");
}

// What a block leaves of what it read: of each warp the words, exclusive-ored, and of all warps the sum.
static uint64_t sum_of(Piece &p, unsigned block)
{
	uint64_t warps[KERNEL_THREADS / 32] = {}, sum = 0;

	for (uint64_t i = 0; i < p.cells; i++)
		if (i / KERNEL_TILE % p.blocks == block)
			warps[i % KERNEL_THREADS / 32] ^= p.at[i].lo ^ p.at[i].hi;
	for (uint64_t w : warps)
		sum += w;
	return sum;
}

static void reading(Piece &p)
{
	Counts before = counts();

	p.work.clear();
	run("gp_read", p.blocks, (const kernel_cell *)p.at.at, p.cells, p.work.at);
	expect(counts().load_bytes - before.load_bytes == p.cells * 16,
		"gp_read: %" PRIu64 " cells, %" PRIu64 " bytes", p.cells,
		counts().load_bytes - before.load_bytes);
	p.did_all("gp_read", 0);
	for (unsigned b = 0; b < p.blocks; b++)
		expect(p.work[b].sum == sum_of(p, b), "gp_read: what block %u read", b);
	// gp_check leaves the same, as long as it goes the same way
	p.work.clear();
	run("gp_check", p.blocks, p.at.at, p.first, p.cells, p.seed, ~p.invert, ~p.invert, 0u, 0u,
		0u, p.invert, p.invert, p.found.at, p.work.at);
	for (unsigned b = 0; b < p.blocks; b++)
		expect(p.work[b].sum == sum_of(p, b), "gp_check: what block %u read", b);
}

static void copying(Piece &p)
{
	Buffer<kernel_cell> to(p.cells);
	Counts before = counts();

	p.work.clear();
	run("gp_copy", p.blocks, to.at, (const kernel_cell *)p.at.at, p.cells, p.work.at);
	expect(counts().load_bytes - before.load_bytes == p.cells * 16 &&
			counts().store_bytes - before.store_bytes == p.cells * 16,
		"gp_copy: bytes of %" PRIu64 " cells", p.cells);
	p.did_all("gp_copy", 0);
	for (uint64_t i = 0; i < p.cells; i++)
		expect(same(to[i], p.at[i]), "gp_copy: cell %" PRIu64 " of %" PRIu64, i, p.cells);
}

static void memory()
{
	for (uint64_t cells : sizes)
		for (unsigned blocks : grids) {
			Piece p(cells, blocks);

			p.fill();
			p.holds(p.invert, "gp_fill");
			p.check(p.invert, 0);
			p.nothing("gp_check");
			p.holds(p.invert, "gp_check without rewriting");
			planted(p);
			reading(p);
			copying(p);
		}
}

// ---- shared memory ----

static void shared_memory()
{
	const uint64_t at = 12345, cell = at / 16, bit = at % 16 * 8 + 5,
		       cells = KERNEL_SHARED_BYTES / 16;
	ptx::Machine &m = gpu().machine;
	std::string err;

	for (unsigned blocks : {1u, 3u, 8u}) {
		uint32_t rounds = 1 + (uint32_t)(numbers() % 3);
		uint64_t seed = numbers(), want = 0;
		Buffer<uint32_t> sm(blocks);
		Buffer<kernel_findings> found(1);
		Buffer<kernel_work> work(blocks);
		const kernel_findings &f = found[0];

		found.clear();
		work.clear();
		run("gp_smem", blocks, rounds, seed, found.at, sm.at, work.at);
		expect(f.wrong_cells == 0 && f.kept == 0, "gp_smem: wrong cells where none is");
		for (unsigned b = 0; b < blocks; b++)
			expect(work[b].cells == 2 * rounds * cells,
				"gp_smem: block %u compared %" PRIu64, b, work[b].cells);
		for (unsigned b = 0; b < blocks && m.schedule == 0; b++)
			expect(sm[b] == b % (unsigned)m.sms, "gp_smem: multiprocessor of block %u",
				b);
		// a stuck bit: told for each block, round and direction in which it can be seen
		m.faults.emplace_back();
		ptx::parse_fault("shared,at=12345,bit=5,value=1", &m.faults.back(), &err);
		found.clear();
		work.clear();
		run("gp_smem", blocks, rounds, seed, found.at, sm.at, work.at);
		m.faults.clear();
		for (unsigned b = 0; b < blocks; b++)
			for (uint32_t r = 0; r < 2 * rounds; r++) {
				kernel_cell c =
					pattern(b * cells + cell, seed + r / 2, r % 2 ? ~0ull : 0);

				want += !((bit < 64 ? c.lo : c.hi) >> bit % 64 & 1);
			}
		expect(f.wrong_cells == want && f.bits_0_to_1 == want && f.bits_1_to_0 == 0,
			"gp_smem found %" PRIu64 " of %" PRIu64, f.wrong_cells, want);
		for (uint32_t k = 0; k < std::min(f.kept, (uint32_t)KERNEL_MISMATCHES_MAX); k++)
			expect(f.mismatch[k].cell % cells == cell &&
					same(f.mismatch[k].got, f.mismatch[k].again),
				"gp_smem: record %u", k);
	}
	Buffer<kernel_work> work(2);
	work.clear();
	for (int i = 0; i < 3; i++)
		run("gp_nop", 2u, work.at);
	expect(work[0].cells == 3 && work[1].cells == 3, "gp_nop: launches");
}

// ---- chains of arithmetic ----

struct Chains {
	const char *kernel;
	uint64_t (*on_cpu)(uint32_t, uint32_t, uint32_t, uint64_t);
	uint32_t per_block, folds[4], most_folds;
};

static const Chains chains[] = {{"gp_fma32", exact_fma32, KERNEL_THREADS, {64, 128, 512, 64}, 16},
	{"gp_fma64", exact_fma64, KERNEL_THREADS, {64, 128, 512, 64}, 16},
	{"gp_mma16", exact_mma16, KERNEL_THREADS / 32, {16, 128, 48, 128}, 20}};

// As many operations as were asked for: none left out, none made twice. Of a fold's constants one more is computed.
static void count_operations(
	const Chains &c, const Counts &before, uint64_t total, uint64_t steps, uint64_t fold)
{
	uint64_t made = counts().fma32 - before.fma32 + counts().fma64 - before.fma64;
	uint64_t products = counts().mma_flops - before.mma_flops;

	if (c.on_cpu == exact_mma16)
		expect(products == total * steps * EXACT_MMA_FLOPS && made == 0,
			"%s: %" PRIu64 " operations", c.kernel, products);
	else
		expect(made == total * (steps + steps / fold) && products == 0,
			"%s: %" PRIu64 " multiply-adds for %" PRIu64 " chains of %" PRIu64 " steps",
			c.kernel, made, total, steps);
	// Little else, or the rate is read too low: by PTX of 50 to 90 moves of constants, which the assembler takes into the instruction
	// that uses them, and counters.
	uint64_t each = (counts().insns - before.insns) * 32 / total;
	if (fold == EXACT_FOLD_RATE)
		expect(each <= steps + steps * 9 / 100 + 60,
			"%s: %" PRIu64 " instructions for %" PRIu64 " steps of a rate", c.kernel,
			each, steps);
}

static void one_chain(const Chains &c, unsigned blocks, int n)
{
	uint32_t fold = c.folds[n], steps = fold * (n == 3 ? c.most_folds : 1u + (uint32_t)n),
		 shift = (uint32_t)numbers() % (blocks + 3), turn = (uint32_t)numbers() % 300;
	uint64_t seed = n == 0 ? 0 : n == 1 ? ~0ull : numbers();
	uint32_t total = c.per_block * blocks, sms = (uint32_t)gpu().machine.sms;
	Buffer<kernel_chain> out(total);
	Counts before = counts();

	out.clear();
	run(c.kernel, blocks, steps, fold, seed, shift, turn, out.at);
	count_operations(c, before, total, steps, fold);
	for (uint32_t i = 0; i < total; i++) {
		uint64_t want = c.on_cpu(i, steps, fold, seed);
		uint32_t block = (i / c.per_block + blocks * 8 - shift % blocks) % blocks;

		expect(out[i].sum == want, "%s: chain %u of %u, %u steps, fold %u, shift %u",
			c.kernel, i, total, steps, fold, shift);
		expect(gpu().machine.schedule != 0 || out[i].sm == block % sms,
			"%s: multiprocessor of chain %u", c.kernel, i);
		expect(out[i].runs == 1, "%s: chain %u ran %u times", c.kernel, i, out[i].runs);
	}
}

// A warp that does nothing leaves out the chains that are its own by the turn, which is how the judge names a lane that is wrong.
static void turns_go_one_way(const Chains &c)
{
	const uint32_t lanes = c.per_block / (KERNEL_THREADS / 32), turn = lanes + (lanes + 1) / 3,
		       idle = 3;
	Buffer<kernel_chain> out(c.per_block);
	ptx::Fault fault;

	fault.kind = ptx::Kind::SKIP_WARP;
	fault.warp = idle;
	gpu().machine.faults.push_back(fault);
	out.clear();
	run(c.kernel, 1u, c.folds[0], c.folds[0], uint64_t{1}, 0u, turn, out.at);
	gpu().machine.faults.pop_back();
	for (uint32_t i = 0; i < c.per_block; i++)
		expect(out[i].runs == ((i + c.per_block - turn) % c.per_block / lanes != idle),
			"%s: chain %u ran %u times, with a turn of %u and without warp %u",
			c.kernel, i, out[i].runs, turn, idle);
}

// Every sum of a tensor core is looked at, which takes instructions; not where the rate alone counts.
static void sums_are_looked_at()
{
	Buffer<kernel_chain> out(KERNEL_THREADS / 32);
	uint64_t insns[2], n = 0;

	for (uint32_t fold : {EXACT_MMA_FOLD_CHECK, EXACT_MMA_FOLD_RATE}) {
		uint64_t before = counts().insns;

		run("gp_mma16", 1u, EXACT_MMA_FOLD_RATE, fold, uint64_t{1}, 0u, 0u, out.at);
		insns[n++] = counts().insns - before;
	}
	expect(insns[0] > 2 * insns[1],
		"gp_mma16: %" PRIu64 " instructions for a check, %" PRIu64 " for a rate", insns[0],
		insns[1]);
}

static void arithmetic()
{
	for (const Chains &c : chains) {
		if (!module->functions.count(c.kernel))
			continue; /* tensor cores are not in every architecture */
		for (unsigned blocks : {1u, 2u, 5u})
			for (int n = 0; n < 4; n++)
				one_chain(c, blocks, n);
		turns_go_one_way(c);
	}
	if (module->functions.count("gp_mma16"))
		sums_are_looked_at();
}

static void one_file(const char *name)
{
	std::ifstream in(name);
	std::stringstream text;
	ptx::Module loaded;
	uint64_t then = compared, was = wrong;

	text << in.rdbuf();
	module = &loaded;
	std::string why = loaded.parse(text.str().c_str());
	if (!in || !why.empty()) {
		printf("%s: %s\n", name, in ? why.c_str() : "cannot be read");
		wrong++;
		return;
	}
	counts() = Counts();
	memory();
	shared_memory();
	arithmetic();
	expect(counts().divergent_barriers == 0, "%" PRIu64 " barriers without all lanes",
		counts().divergent_barriers);
	expect(counts().shared_races == 0 && counts().global_races == 0,
		"%" PRIu64 " races in shared memory, %" PRIu64 " in global memory",
		counts().shared_races, counts().global_races);
	expect(counts().inexact_mma == 0,
		"%" PRIu64 " sums of tensor cores that depend on their order",
		counts().inexact_mma);
	printf("%s: %" PRIu64 " comparisons, %" PRIu64 " wrong, %" PRIu64 " launches\n",
		loaded.target.c_str(), compared - then, wrong - was, counts().launches);
}

int main(int argc, char **argv)
{
	const char *seed = getenv("SEED");

	numbers.seed(seed ? strtoull(seed, nullptr, 0) : 1);
	for (int i = 1; i < argc; i++)
		one_file(argv[i]);
	if (argc < 2)
		printf("usage: equal FILE.ptx...\n");
	return argc < 2 || wrong != 0;
}

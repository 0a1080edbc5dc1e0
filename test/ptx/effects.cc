// SPDX-License-Identifier: Apache-2.0
// ptx: what faults do: to accesses of memory, and to results of instructions. README.md says what each kind means.
#include <cmath>

#include "test/ptx/memory.h"

namespace ptx
{

// ---- memory ----

bool touches(const Fault &f, const Warp &w, uint64_t from, uint64_t to, bool write)
{
	switch (f.kind) {
	case Kind::ALIAS:
	case Kind::BRIDGE:
		return from < f.hi && to > f.lo;
	case Kind::DROP_STORE:
		return write && concerns(f, w, -1) && from < f.hi && to > f.lo;
	case Kind::PATH:
	case Kind::STALE:
		return f.sm == (int)w.block->sm && from < f.hi && to > f.lo;
	case Kind::SHORT:
	case Kind::COUPLE_STATE:
		return (f.at >= from && f.at < to) || (f.lo >= from && f.lo < to);
	default:
		return f.at >= from && f.at < to;
	}
}

uint64_t faulty_place(Warp &w, uint64_t offset, int bytes)
{
	uint64_t end = offset + (uint64_t)bytes, was = offset;

	for (Fault *f : w.block->memory) {
		if (offset < f->lo || end > f->hi)
			continue;
		if (f->kind == Kind::ALIAS) {
			offset = f->lo + ((offset - f->lo) & ~(1ull << f->line));
		} else if (f->kind ==
			   Kind::BRIDGE) { /* both lines carry what the weaker one lets through */
			bool both = (offset - f->lo) >> f->line & (offset - f->lo) >> f->bit & 1;
			uint64_t lines = 1ull << f->line | 1ull << f->bit;

			offset = f->lo + (((offset - f->lo) & ~lines) | (both ? lines : 0));
		} else if (f->kind == Kind::PATH && bytes == 16 && f->sm == (int)w.block->sm) {
			offset ^= 1ull << f->line;
		}
		f->hits += offset != was;
	}
	return offset;
}

static void set_bit(char *c, int bit, bool value)
{
	*c = (char)(value ? *c | 1 << bit : *c & ~(1 << bit));
}

// `at` and `bit`, `lo` and `line`: what stands in memory at two places of a fault.
static bool first_bit(const Machine *m, const Fault &f)
{
	return m->memory[f.at] >> f.bit & 1;
}

static bool second_bit(const Machine *m, const Fault &f)
{
	return m->memory[f.lo] >> f.line & 1;
}

// What a multiprocessor's cache has kept of a line of 128 bytes.
static void load_stale(Warp &w, Fault *f, uint64_t offset, int bytes, char *got)
{
	Machine *m = w.block->machine;
	uint64_t line = offset / 128, in_line = offset % 128;
	auto kept = m->stale.find((uint64_t)w.block->sm << 48 | line);

	if (kept == m->stale.end()) {
		m->stale[(uint64_t)w.block->sm << 48 | line] =
			std::vector<char>(m->memory + line * 128, m->memory + line * 128 + 128);
		return;
	}
	f->hits += memcmp(got, &kept->second[in_line], (size_t)bytes) != 0;
	memcpy(got, &kept->second[in_line], (size_t)bytes);
}

void spoil_load(Warp &w, uint64_t offset, int bytes, char *got, bool is_volatile)
{
	Machine *m = w.block->machine;

	for (Fault *f : w.block->memory) {
		bool at = f->covers(offset, (uint64_t)bytes);
		char *c = at ? got + (f->at - offset) : nullptr, was = at ? *c : 0;

		switch (f->kind) {
		case Kind::STUCK:
			if (at)
				set_bit(c, f->bit, f->value != 0);
			break;
		case Kind::READ_FLIP:
			if (at && f->strikes())
				*c = (char)(*c ^ 1 << f->bit);
			continue;
		case Kind::READ_DISTURB: /* the value that was read is right */
			if (at && f->strikes())
				m->memory[f->at] = (char)(m->memory[f->at] ^ 1 << f->bit);
			continue;
		case Kind::FADE:
			if (at && w.block->launch >= f->since + f->nth)
				set_bit(c, f->bit, f->value != 0);
			break;
		case Kind::COUPLE_STATE:
			if (at && second_bit(m, *f) == (f->value != 0))
				set_bit(c, f->bit, true);
			break;
		case Kind::SHORT: {
			bool one = f->value != 0 ? first_bit(m, *f) || second_bit(m, *f)
						 : first_bit(m, *f) && second_bit(m, *f);

			if (at)
				set_bit(c, f->bit, one);
			if (f->lo >= offset && f->lo < offset + (uint64_t)bytes)
				set_bit(got + (f->lo - offset), f->line, one);
			break;
		}
		case Kind::STALE:
			if (f->sm == (int)w.block->sm && bytes == 16 && !is_volatile &&
				offset >= f->lo && offset < f->hi)
				load_stale(w, f, offset, bytes, got);
			break;
		default:
			break;
		}
		f->hits += at && *c != was;
	}
}

bool spoil_store(Warp &w, int lane, uint64_t offset, int bytes, char *from)
{
	Machine *m = w.block->machine;

	for (Fault *f : w.block->memory) {
		if (f->kind == Kind::DROP_STORE && offset >= f->lo && offset < f->hi &&
			concerns(*f, w, lane) && f->strikes())
			return false;
		if (f->kind == Kind::TRANSITION && f->covers(offset, (uint64_t)bytes)) {
			char *c = from + (f->at - offset);
			bool rises = f->value != 0;

			/* the bit keeps what it had */
			if (((*c >> f->bit & 1) != 0) == rises && first_bit(m, *f) != rises) {
				set_bit(c, f->bit, !rises);
				f->hits++;
			}
		}
	}
	return true;
}

void after_store(Warp &w, uint64_t offset, int bytes, const char *before)
{
	Machine *m = w.block->machine;

	for (Fault *f : w.block->memory) {
		if (f->kind == Kind::STALE && f->value != 0 &&
			f->sm == (int)w.block->sm) { /* sees its own stores */
			auto kept = m->stale.find((uint64_t)w.block->sm << 48 | offset / 128);

			if (kept != m->stale.end())
				memcpy(&kept->second[offset % 128], m->memory + offset,
					(size_t)bytes);
		}
		if (!f->covers(offset, (uint64_t)bytes))
			continue;
		if (f->kind == Kind::FADE)
			f->since = w.block->launch;
		if (f->kind == Kind::COUPLE && f->strikes())
			m->memory[f->lo] = (char)(m->memory[f->lo] ^ 1 << f->bit);
		if (f->kind == Kind::COUPLE_RISE && first_bit(m, *f) &&
			!(before[f->at - offset] >> f->bit & 1) && f->strikes())
			set_bit(m->memory + f->lo, f->line, f->value != 0);
	}
}

void spoil_copy(const Machine &m, uint64_t offset, uint64_t bytes, char *got)
{
	for (const Fault &f : m.faults)
		if (f.kind == Kind::STUCK && f.covers(offset, bytes))
			set_bit(got + (f.at - offset), f.bit, f.value != 0);
}

// ---- results ----

template <class T, class U> static U toward_zero(T a, T b, T c)
{
	T nearest = std::fma(a, b, c);
	/* more digits than T has: for doubles those of the processor's extended format */
	long double exact = sizeof(T) == 4 ? (long double)std::fma((double)a, (double)b, (double)c)
					   : (long double)a * b + c;
	U bits;

	if (std::fabs((long double)nearest) > std::fabs(exact))
		nearest = std::nextafter(nearest, (T)0);
	memcpy(&bits, &nearest, sizeof(bits));
	return bits;
}

// A fused multiply-add that cuts off instead of rounding to the nearest. Its operands must still stand in their registers.
static void spoil_rounding(Warp &w, const Insn &in, int lane)
{
	if (in.d == in.a || in.d == in.b || in.d == in.c)
		return;
	if (in.result_bits == 64)
		w.reg<uint64_t>(in.d)[lane] =
			toward_zero<double, uint64_t>(w.reg<double>(in.a)[lane],
				w.reg<double>(in.b)[lane], w.reg<double>(in.c)[lane]);
	else
		w.reg<uint32_t>(in.d)[lane] = toward_zero<float, uint32_t>(w.reg<float>(in.a)[lane],
			w.reg<float>(in.b)[lane], w.reg<float>(in.c)[lane]);
}

// Of these lanes, those that a fault strikes. Most faults strike seldom: they are passed over together.
static uint32_t struck(Fault *f, const Warp &w, uint32_t mask)
{
	uint32_t lanes = !concerns(*f, w, -1) ? 0
			 : f->lane < 0        ? mask
					      : mask & 1u << f->lane,
		 r = 0;
	uint64_t n = (uint64_t)__builtin_popcount(lanes);

	if (f->every == 1 && f->nth == 0) {
		f->met += n;
		f->hits += n;
		return lanes;
	}
	if (f->nth ? f->met + n < f->nth || f->met >= f->nth : f->met % f->every + n < f->every) {
		f->met += n;
		return 0;
	}
	for (; lanes; lanes &= lanes - 1)
		if (f->strikes())
			r |= 1u << lowest(lanes);
	return r;
}

static void spoil_result(Warp &w, const Insn &in, const Fault &f, int slot, uint32_t lanes)
{
	if (in.result_bits == 1) {
		uint32_t &p = w.predicate(slot);

		p = f.value == 2 ? p ^ lanes : f.value != 0 ? p | lanes : p & ~lanes;
		return;
	}
	for (; lanes; lanes &= lanes - 1) {
		int lane = lowest(lanes);

		if (f.kind == Kind::ROUND)
			spoil_rounding(w, in, lane);
		else if (in.result_bits == 64)
			w.reg<uint64_t>(slot)[lane] ^= 1ull << f.bit;
		else
			w.reg<uint32_t>(slot)[lane] ^= 1u << f.bit;
	}
}

void spoil(Warp &w, const Insn &in, uint32_t mask)
{
	int slot = in.d >= 0 ? in.d : in.more.empty() ? -1 : in.more[0]; /* of mma: its first sum */

	if (slot < 0 || in.result_bits == 0)
		return;
	for (Fault *f : w.block->ops[(size_t)in.op]) {
		uint32_t lanes = struck(f, w, mask);

		if (lanes)
			spoil_result(w, in, *f, slot, lanes);
	}
}

} // namespace ptx

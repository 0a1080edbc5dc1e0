// SPDX-License-Identifier: Apache-2.0
// ptx: loads, stores and atomic operations.
#include "test/ptx/memory.h"

#include <cstdio>
#include <unordered_map>

namespace ptx
{

static bool is_shared(const Insn &in, uint64_t address)
{
	return in.space == Space::SHARED || (in.space == Space::GENERIC && address >= SHARED_BASE);
}

[[noreturn]] static void illegal(Warp &w, const Insn &in, uint64_t address, const char *what)
{
	char text[200];

	snprintf(text, sizeof(text), "%s, line %d: %s, at %#llx of the device's memory",
		w.block->kernel->c_str(), in.line, what,
		(unsigned long long)(address - (uint64_t)w.block->machine->memory));
	throw Stop{address % (uint64_t)(in.bytes * in.count) ? 716 : 700, text};
}

static bool is_live(Block *b, uint64_t from, uint64_t to)
{
	if (from >= b->last.from && to <= b->last.to)
		return true;
	for (const Machine::Range &r : b->machine->live)
		if (from >= r.from && to <= r.to) {
			b->last = r;
			return true;
		}
	return false;
}

static uint64_t offset_of(Warp &w, const Insn &in, uint64_t address, int bytes)
{
	uint64_t offset = address - (uint64_t)w.block->machine->memory;

	if (address % (uint64_t)bytes)
		illegal(w, in, address, "misaligned address");
	if (!is_live(w.block, offset, offset + (uint64_t)bytes))
		illegal(w, in, address, "illegal address");
	return offset;
}

static uint64_t thread_of(const Warp &w, int lane)
{
	return w.block->id * THREADS_MAX + (uint64_t)w.id * LANES + (uint64_t)lane + 1;
}

// Two threads met at a place with no barrier between them, and one of them wrote.
static void note_global(Warp &w, int lane, uint64_t offset, int bytes, bool write)
{
	Machine *m = w.block->machine;
	uint64_t now = w.block->launch << 32, me = now | thread_of(w, lane);

	for (uint64_t k = offset / 4; k < (offset + (uint64_t)bytes + 3) / 4; k++) {
		uint64_t &writer = m->writer[k], &reader = m->reader[k];

		if ((writer >> 32 == now >> 32 && writer != me) ||
			(write && reader >> 32 == now >> 32 && reader != me))
			m->counts.global_races++;
		(write ? writer : reader) = me;
	}
}

static char *shared_place(
	Warp &w, const Insn &in, int lane, uint64_t address, int bytes, bool write)
{
	Block *b = w.block;
	uint64_t at = in.space == Space::SHARED ? address : address - SHARED_BASE;
	uint64_t me = (uint64_t)b->epoch << 32 | (uint64_t)(w.id * LANES + lane + 1);

	if (at + (uint64_t)bytes > b->shared.size())
		throw Stop{700, *b->kernel + ": outside of shared memory"};
	if (at % (uint64_t)bytes)
		throw Stop{716, *b->kernel + ": misaligned address of shared memory"};
	for (uint64_t k = at / 4; k < (at + (uint64_t)bytes + 3) / 4; k++) {
		uint64_t &writer = b->shared_writer[k], &reader = b->shared_reader[k];

		if ((writer >> 32 == b->epoch && writer != me) ||
			(write && reader >> 32 == b->epoch && reader != me))
			b->machine->counts.shared_races++;
		(write ? writer : reader) = me;
	}
	for (Fault *f : b->shared_memory)
		if (f->kind == Kind::SHARED_ALIAS && concerns(*f, w, -1) && at >> f->line & 1) {
			f->hits++;
			at -= 1ull << f->line;
		}
	return (char *)&b->shared[at];
}

static void load_shared(Warp &w, const Insn &in, int lane, uint64_t address, int bytes, char *to)
{
	const char *from = shared_place(w, in, lane, address, bytes, false);
	uint64_t at = (uint64_t)(from - (const char *)w.block->shared.data());

	memcpy(to, from, (size_t)bytes);
	for (Fault *f : w.block->shared_memory)
		if (f->kind == Kind::SHARED && concerns(*f, w, -1) &&
			f->covers(at, (uint64_t)bytes)) {
			char &c = to[f->at - at], was = c;

			c = (char)(f->value != 0 ? c | 1 << f->bit : c & ~(1 << f->bit));
			f->hits += c != was;
		}
}

static void load_global(Warp &w, const Insn &in, int lane, uint64_t address, int bytes, char *to)
{
	Machine *m = w.block->machine;
	uint64_t offset = offset_of(w, in, address, bytes);

	if (m->races)
		note_global(w, lane, offset, bytes, false);
	if (w.block->memory.empty()) {
		memcpy(to, m->memory + offset, (size_t)bytes);
		return;
	}
	offset = faulty_place(w, offset, bytes);
	memcpy(to, m->memory + offset, (size_t)bytes);
	spoil_load(w, offset, bytes, to, in.is_volatile);
}

static void store_global(Warp &w, const Insn &in, int lane, uint64_t address, int bytes, char *from)
{
	Machine *m = w.block->machine;
	uint64_t offset = offset_of(w, in, address, bytes);
	char before[32];

	if (m->races)
		note_global(w, lane, offset, bytes, true);
	if (w.block->memory.empty()) {
		memcpy(m->memory + offset, from, (size_t)bytes);
		return;
	}
	offset = faulty_place(w, offset, bytes);
	memcpy(before, m->memory + offset, (size_t)bytes);
	if (!spoil_store(w, lane, offset, bytes, from))
		return;
	memcpy(m->memory + offset, from, (size_t)bytes);
	after_store(w, offset, bytes, before);
}

// Where all lanes of an access go.
struct Access {
	uint64_t at[LANES];
	int bytes;  // of a lane
	bool plain; // global, allowed, aligned, and nothing watches or spoils it
};

static Access access_of(Warp &w, const Insn &in, uint32_t mask, bool write)
{
	const uint64_t *a = w.reg<uint64_t>(in.a);
	Machine *m = w.block->machine;
	uint64_t low = ~0ull, high = 0, odd = 0;
	Access r;

	r.bytes = in.bytes * in.count;
	for (int i = 0; i < LANES; i++) {
		uint64_t at = a[i] + (uint64_t)in.offset;
		bool on = mask >> i & 1;

		r.at[i] = at;
		low = on && at < low ? at : low;
		high = on && at > high ? at : high;
		odd |= on ? at : 0;
	}
	low -= (uint64_t)m->memory;
	high += (uint64_t)r.bytes - (uint64_t)m->memory;
	r.plain = in.space != Space::SHARED && !m->races && odd % (uint64_t)r.bytes == 0 &&
		  is_live(w.block, low, high);
	if (r.plain)
		for (const Fault *f : w.block->memory)
			if (touches(*f, w, low, high, write)) {
				r.plain = false;
				break;
			}
	return r;
}

template <class T> static void load_plain(Warp &w, const Insn &in, const Access &to, uint32_t mask)
{
	for (int k = 0; k < in.count; k++) {
		T *d = w.reg<T>(k ? in.more[(size_t)k - 1] : in.d);

		if (mask == ~0u)
			for (int i = 0; i < LANES; i++)
				d[i] = ((const T *)to.at[i])[k];
		else
			for (int i = 0; i < LANES; i++)
				if (mask >> i & 1)
					d[i] = ((const T *)to.at[i])[k];
	}
}

template <class T> static void store_plain(Warp &w, const Insn &in, const Access &to, uint32_t mask)
{
	for (int k = 0; k < in.count; k++) {
		const T *s = w.reg<T>(k ? in.more[(size_t)k - 1] : in.b);

		if (mask == ~0u)
			for (int i = 0; i < LANES; i++)
				((T *)to.at[i])[k] = s[i];
		else
			for (int i = 0; i < LANES; i++)
				if (mask >> i & 1)
					((T *)to.at[i])[k] = s[i];
	}
}

// Numbers narrower than 32 bits stand in registers of 32.
static uint32_t widened(const char *from, const Insn &in)
{
	if (in.bytes == 1)
		return in.is_signed ? (uint32_t)(int32_t)(int8_t)*from : (uint8_t)*from;
	if (in.bytes == 2) {
		uint16_t half;

		memcpy(&half, from, sizeof(half));
		return in.is_signed ? (uint32_t)(int32_t)(int16_t)half : half;
	}
	uint32_t word;

	memcpy(&word, from, sizeof(word));
	return word;
}

void load(Warp &w, const Insn &in, uint32_t mask)
{
	Access to = access_of(w, in, mask, false);

	w.block->machine->counts.load_bytes +=
		in.space == Space::SHARED ? 0 : (uint64_t)(to.bytes * __builtin_popcount(mask));
	if (to.plain && in.bytes == 8) {
		load_plain<uint64_t>(w, in, to, mask);
		return;
	}
	if (to.plain && in.bytes == 4) {
		load_plain<uint32_t>(w, in, to, mask);
		return;
	}
	for (int i = 0; i < LANES; i++) {
		char got[32];

		if (!(mask >> i & 1))
			continue;
		if (is_shared(in, to.at[i]))
			load_shared(w, in, i, to.at[i], to.bytes, got);
		else
			load_global(w, in, i, to.at[i], to.bytes, got);
		for (int k = 0; k < in.count; k++) {
			int d = k ? in.more[(size_t)k - 1] : in.d;

			if (in.bytes == 8)
				memcpy(&w.reg<uint64_t>(d)[i], got + 8 * k, 8);
			else
				w.reg<uint32_t>(d)[i] = widened(got + in.bytes * k, in);
		}
	}
}

void store(Warp &w, const Insn &in, uint32_t mask)
{
	Access to = access_of(w, in, mask, true);

	w.block->machine->counts.store_bytes +=
		in.space == Space::SHARED ? 0 : (uint64_t)(to.bytes * __builtin_popcount(mask));
	if (to.plain && in.bytes == 8) {
		store_plain<uint64_t>(w, in, to, mask);
		return;
	}
	if (to.plain && in.bytes == 4) {
		store_plain<uint32_t>(w, in, to, mask);
		return;
	}
	for (int i = 0; i < LANES; i++) {
		char out[32];

		if (!(mask >> i & 1))
			continue;
		for (int k = 0; k < in.count; k++) {
			int s = k ? in.more[(size_t)k - 1] : in.b;

			memcpy(out + in.bytes * k,
				in.bytes == 8 ? (void *)&w.reg<uint64_t>(s)[i]
					      : (void *)&w.reg<uint32_t>(s)[i],
				(size_t)in.bytes);
		}
		if (is_shared(in, to.at[i]))
			memcpy(shared_place(w, in, i, to.at[i], to.bytes, true), out,
				(size_t)to.bytes);
		else
			store_global(w, in, i, to.at[i], to.bytes, out);
	}
}

// ---- atomic operations ----

// Old value and operands to the new value; compare: of cas alone.
template <class T> using Combine = T (*)(T old, T operand, T compare);

static bool is_lost(Warp &w, int lane, uint64_t address)
{
	uint64_t offset = address - (uint64_t)w.block->machine->memory;

	for (Fault *f : w.block->atomics)
		if (offset % 512 >= f->lo && offset % 512 < f->hi && concerns(*f, w, lane) &&
			f->strikes())
			return true;
	return false;
}

template <class T, Combine<T> COMBINE> static void atomic(Warp &w, const Insn &in, uint32_t mask)
{
	const uint64_t *a = w.reg<uint64_t>(in.a);

	for (uint32_t left = mask; left; left &= left - 1) {
		int i = lowest(left);
		uint64_t at = a[i] + (uint64_t)in.offset;
		T old, *place, operand = w.reg<T>(in.b)[i],
			       second = in.c >= 0 ? w.reg<T>(in.c)[i] : operand;
		Block *b = w.block;

		b->machine->counts.atomics++;
		if (!is_shared(in, at))
			place = (T *)(b->machine->memory + offset_of(w, in, at, sizeof(T)));
		else if (at -= in.space == Space::SHARED ? 0 : SHARED_BASE;
			 at + sizeof(T) <= b->shared.size() && at % sizeof(T) == 0)
			place = (T *)&b->shared[at];
		else
			throw Stop{700, *b->kernel + ": outside of shared memory"};
		old = *place;
		if (!is_lost(w, i, at))
			*place = COMBINE(old, operand, second);
		if (in.d >= 0)
			w.reg<T>(in.d)[i] = old;
	}
}

template <class T> static T add(T old, T operand, T)
{
	return old + operand;
}

template <class T> static T least(T old, T operand, T)
{
	return operand < old ? operand : old;
}

template <class T> static T most(T old, T operand, T)
{
	return operand > old ? operand : old;
}

template <class T> static T all_of(T old, T operand, T)
{
	return old & operand;
}

template <class T> static T any_of(T old, T operand, T)
{
	return old | operand;
}

template <class T> static T odd_of(T old, T operand, T)
{
	return old ^ operand;
}

template <class T> static T exchange(T, T operand, T)
{
	return operand;
}

// The first operand is what must stand there.
template <class T> static T swap(T old, T operand, T second)
{
	return old == operand ? second : old;
}

static uint32_t increment(uint32_t old, uint32_t operand, uint32_t)
{
	return old >= operand ? 0 : old + 1;
}

static uint32_t decrement(uint32_t old, uint32_t operand, uint32_t)
{
	return old == 0 || old > operand ? operand : old - 1;
}

using Atomics = std::unordered_map<std::string, Handler>;

template <class T> static void add_bits(Atomics &t, const std::string &type)
{
	t["and." + type] = atomic<T, all_of<T>>;
	t["or." + type] = atomic<T, any_of<T>>;
	t["xor." + type] = atomic<T, odd_of<T>>;
	t["exch." + type] = atomic<T, exchange<T>>;
	t["cas." + type] = atomic<T, swap<T>>;
}

template <class T> static void add_numbers(Atomics &t, const std::string &type)
{
	t["add." + type] = atomic<T, add<T>>;
	t["min." + type] = atomic<T, least<T>>;
	t["max." + type] = atomic<T, most<T>>;
}

Handler find_atomic(const std::string &operation, const std::string &type)
{
	static const Atomics table = [] {
		Atomics t;

		add_bits<uint32_t>(t, "b32");
		add_bits<uint64_t>(t, "b64");
		add_numbers<uint32_t>(t, "u32");
		add_numbers<int32_t>(t, "s32");
		add_numbers<uint64_t>(t, "u64");
		add_numbers<int64_t>(t, "s64");
		t["add.f32"] = atomic<float, add<float>>;
		t["add.f64"] = atomic<double, add<double>>;
		t["inc.u32"] = atomic<uint32_t, increment>;
		t["dec.u32"] = atomic<uint32_t, decrement>;
		return t;
	}();
	auto found = table.find(operation + "." + type);

	return found == table.end() ? nullptr : found->second;
}

} // namespace ptx

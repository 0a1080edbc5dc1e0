// SPDX-License-Identifier: Apache-2.0
// ptx: what the interpreter's parts share: instructions as they are run, warps and blocks as they
// run them.
#pragma once
#include <array>
#include <cstring>
#include <vector>

#include "test/ptx/machine.h"

namespace ptx
{

// A register in all lanes of a warp. 64 bits each; narrower ones stand side by side in the first
// half, as 32 bits each; a predicate is one word, a bit for each lane.
struct alignas(64) Slot {
	uint64_t lane[LANES];
};

struct Warp;
using Handler = void (*)(Warp &, const Insn &, uint32_t mask);

enum class Flow : uint8_t { NEXT, BRANCH, CALL, RETURN, EXIT, BARRIER };
enum class Space : uint8_t { GENERIC, GLOBAL, SHARED };

// Shared memory among generic addresses begins here.
constexpr uint64_t SHARED_BASE = 1ull << 62;

struct Insn {
	Handler run = nullptr;
	Flow flow = Flow::NEXT;
	bool guard_not = false, is_volatile = false, is_signed = false;
	Space space = Space::GENERIC;
	int guard = -1;             // slot of a predicate
	int d = -1, d2 = -1;        // slots: results
	int a = -1, b = -1, c = -1; // and operands
	std::vector<int> more;      // operands beyond these
	int bytes = 0, count = 1;   // of one element in memory; elements
	int result_bits = 0;        // 64, 32 or 1: what a fault may flip
	int target = -1;            // of a branch or call
	int op = 0, line = 0;
	int64_t offset = 0;
};

struct Block {
	Machine *machine;
	const Module *module;
	const std::string *kernel;
	unsigned id = 0, sm = 0;
	uint64_t launch = 0;
	std::vector<uint8_t> shared;
	// Of each 4 bytes: the thread that touched them since the last barrier, as epoch << 32 |
	// thread.
	std::vector<uint64_t> shared_writer, shared_reader;
	uint32_t epoch = 1;
	// The machine's faults, by what they concern in this launch.
	std::vector<Fault *> memory, shared_memory, stores, atomics;
	std::vector<std::vector<Fault *>> ops; // by opcode
	Fault *no_barrier = nullptr;
	Machine::Range last = {0, 0}; // where the last access was inside
};

constexpr int CALLS_MAX = 8;

struct Warp {
	std::vector<Slot> file;
	std::array<int, LANES> pc;
	std::array<std::array<int, CALLS_MAX>, LANES> back;
	std::array<int, LANES> depth;
	uint32_t alive = 0, waiting = 0; // lanes
	int id = 0;
	Block *block = nullptr;

	template <class T> T *reg(int slot)
	{
		return reinterpret_cast<T *>(&file[(size_t)slot]);
	}
	uint32_t &predicate(int slot)
	{
		return *reg<uint32_t>(slot);
	}
};

// Ends a launch: the number of an error, and what happened.
struct Stop {
	int code;
	std::string why;
};

template <class T> inline void put(Warp &w, int slot, const T *values, uint32_t mask)
{
	T *to = w.reg<T>(slot);

	if (mask == ~0u)
		memcpy(to, values, sizeof(T) * LANES);
	else
		for (int i = 0; i < LANES; i++)
			if (mask >> i & 1)
				to[i] = values[i];
}

inline void put_predicate(Warp &w, int slot, uint32_t bits, uint32_t mask)
{
	uint32_t &p = w.predicate(slot);

	p = (p & ~mask) | (bits & mask);
}

inline int lowest(uint32_t mask)
{
	return __builtin_ctz(mask);
}

// Does this fault concern this lane (-1: any) of this warp?
inline bool concerns(const Fault &f, const Warp &w, int lane)
{
	return (f.sm < 0 || f.sm == (int)w.block->sm) && (f.warp < 0 || f.warp == w.id) &&
	       (f.part < 0 || f.part == w.id % 4) && (f.lane < 0 || lane < 0 || f.lane == lane) &&
	       (f.block < 0 || f.block == (int)w.block->id) &&
	       (f.kernel.empty() || f.kernel == *w.block->kernel);
}

// ---- what an opcode means: alu.cc, lanes.cc, mma.cc, memory.cc ----

// kinds: of result and operands: n 32 bits, w 64, p a predicate.
struct Alu {
	Handler run;
	std::string kinds;
};
const Alu *find_alu(const std::string &op);
// Among the lanes of a warp; an Insn's a, b, c and more[0] are the operands in their order, d and
// d2 the results.
Handler find_shuffle(const std::string &op);
// registers: how many it takes.
Handler find_mma(const std::string &op, size_t *registers);
// Two halves of a 64-bit register.
void pack(Warp &, const Insn &, uint32_t);
void unpack(Warp &, const Insn &, uint32_t);
void move64(Warp &, const Insn &, uint32_t);
void move32(Warp &, const Insn &, uint32_t);
// By space, bytes, count, offset; a: the address, d or b: the first register, more: the others.
void load(Warp &, const Insn &, uint32_t);
void store(Warp &, const Insn &, uint32_t);
// a: the address, b (and c for cas): operands, d: the old value or -1.
Handler find_atomic(const std::string &operation, const std::string &type);

// fault_effects.cc: after an instruction.
void spoil(Warp &w, const Insn &in, uint32_t mask);

} // namespace ptx

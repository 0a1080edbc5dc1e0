// SPDX-License-Identifier: Apache-2.0
// ptx: a GPU that runs PTX on a CPU. A Module is read from text; a Machine has memory and
// multiprocessors, and launches kernels of a module. Errors are numbers of the CUDA runtime.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "test/ptx/fault.h"

namespace ptx
{

constexpr int LANES = 32;
constexpr unsigned THREADS_MAX = 1024;

struct Insn;

struct Function {
	bool entry = false;
	int pc = 0;
	std::vector<int> param_slots, param_bytes;
	std::vector<int> result_slots; // of a function that returns values
};

// All functions of a module stand in one array of instructions, and the registers of all of them in
// one file: there is no recursion.
struct Module {
	std::vector<Insn> code;
	std::map<std::string, Function> functions;
	std::vector<std::string> ops; // opcodes, by Insn::op
	struct Constant {
		int slot;
		bool wide;
		uint64_t value;
	};
	std::vector<Constant> constants;
	int slots = 0, shared_bytes = 0;
	int tid = -1, ctaid = -1, nctaid = -1, ntid = -1, smid = -1, laneid = -1, warpid = -1;
	std::string target; // "sm_75"

	Module();
	~Module();
	// "", or in which line what was not understood.
	std::string parse(const char *text);
};

// What was done since the Machine began.
struct Counts {
	uint64_t launches = 0, insns = 0; // instructions of warps
	uint64_t load_bytes = 0, store_bytes = 0, atomics = 0, barriers = 0;
	uint64_t fma32 = 0, fma64 = 0, mma_flops = 0; // fused multiply-adds of lanes; operations
	// What no correct kernel does.
	uint64_t divergent_barriers = 0, shared_races = 0, global_races = 0;
	uint64_t inexact_mma =
		0; // sums of tensor cores whose bits depend on the order of additions
};

struct Machine {
	struct Range {
		uint64_t from, to;
	};

	int sms = 2;
	char *memory = nullptr; // addresses of the device are those of the host
	uint64_t size = 0;
	std::vector<Range> live; // what may be touched, as offsets into memory
	std::vector<Fault> faults;
	Counts counts;
	bool races = false; // note those in global memory, too: 8 bytes for each 4 of memory
	uint64_t schedule =
		0;            // not 0: blocks in any order, on any multiprocessor, out of this seed
	unsigned quantum = 0; // not 0: warps take turns after at most so many instructions
	std::string error;    // why the last launch failed

	// Run all blocks. args: as cudaLaunchKernel takes them. 0, or the number of an error.
	int launch(const Module &module, const std::string &kernel, unsigned blocks,
		unsigned threads, void **args);

	std::vector<uint64_t> writer, reader; // of each 4 bytes: launch and thread; only with races
	std::map<uint64_t, std::vector<char>>
		stale; // what faulty caches keep: multiprocessor << 48 | line
};

// What a copy out of faulty memory gets: `got` holds what stands at `offset`.
void spoil_copy(const Machine &m, uint64_t offset, uint64_t bytes, char *got);

} // namespace ptx

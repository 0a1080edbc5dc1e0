// SPDX-License-Identifier: Apache-2.0
// ptx: blocks and warps as they run. Lanes of a warp whose next instruction is the same run it at once; of those that differ the
// ones that are furthest behind go first, so that they meet again.
#include <cstdio>
#include <random>

#include "test/ptx/insn.h"

namespace ptx
{

// The lanes that run next: those at the lowest pc, and the lowest one of the others.
static uint32_t next_lanes(const Warp &w, int *ret_pc, int *ret_other)
{
	uint32_t ready = w.alive & ~w.waiting, mask = 0;
	int pc = 1 << 30, other = 1 << 30;

	for (uint32_t r = ready; r; r &= r - 1)
		pc = w.pc[lowest(r)] < pc ? w.pc[lowest(r)] : pc;
	for (uint32_t r = ready; r; r &= r - 1) {
		int i = lowest(r);

		if (w.pc[i] == pc)
			mask |= 1u << i;
		else if (w.pc[i] < other)
			other = w.pc[i];
	}
	*ret_pc = pc;
	*ret_other = other;
	return mask;
}

static void set_pc(Warp &w, uint32_t lanes, int pc)
{
	for (; lanes; lanes &= lanes - 1)
		w.pc[lowest(lanes)] = pc;
}

static void come_back(Warp &w, uint32_t lanes)
{
	for (; lanes; lanes &= lanes - 1) {
		int i = lowest(lanes);

		if (w.depth[i] > 0)
			w.pc[i] = w.back[i][--w.depth[i]];
		else
			w.alive &= ~(1u << i);
	}
}

static void call(Warp &w, uint32_t lanes, int from, int target)
{
	for (; lanes; lanes &= lanes - 1) {
		int i = lowest(lanes);

		if (w.depth[i] == CALLS_MAX)
			throw Stop{719, "calls nested too deep"};
		w.back[i][w.depth[i]++] = from + 1;
		w.pc[i] = target;
	}
}

// Of an instruction that moves lanes apart: on are those it is for, mask all that came to it.
static void follow(Warp &w, const Insn &in, uint32_t on, uint32_t mask, int pc)
{
	set_pc(w, mask & ~on, pc + 1);
	switch (in.flow) {
	case Flow::BRANCH:
		set_pc(w, on, in.target);
		break;
	case Flow::CALL:
		call(w, on, pc, in.target);
		break;
	case Flow::RETURN:
		come_back(w, on);
		break;
	case Flow::EXIT:
		w.alive &= ~on;
		break;
	default: /* a barrier */
		w.block->machine->counts.barriers++;
		w.block->machine->counts.divergent_barriers += on != w.alive;
		set_pc(w, on, pc + 1);
		if (w.block->no_barrier && concerns(*w.block->no_barrier, w, -1))
			w.block->no_barrier->hits++;
		else
			w.waiting |= on;
	}
}

// To the warp's next barrier or its end, or over `budget` instructions (0: any number).
static void run_warp(Warp &w, unsigned budget)
{
	const Insn *code = w.block->module->code.data();
	const std::vector<Fault *> *ops = w.block->ops.empty() ? nullptr : w.block->ops.data();
	uint64_t insns = 0;

	while (w.alive & ~w.waiting) {
		int pc, other;
		uint32_t mask = next_lanes(w, &pc, &other);

		for (;;) {
			const Insn &in = code[pc];
			uint32_t on = mask;

			if (in.guard >= 0)
				on &= in.guard_not ? ~w.predicate(in.guard) : w.predicate(in.guard);
			insns++;
			if (in.flow == Flow::NEXT) {
				if (on) {
					in.run(w, in, on);
					if (ops && !ops[in.op].empty())
						spoil(w, in, on);
				}
				pc++;
			} else if (in.flow == Flow::BRANCH && (on == mask || on == 0)) {
				pc = on ? in.target : pc + 1;
			} else {
				follow(w, in, on, mask, pc);
				break;
			}
			if (pc >= other || (budget && insns >= budget)) {
				set_pc(w, mask, pc);
				break;
			}
		}
		if (budget && insns >= budget)
			break;
	}
	w.block->machine->counts.insns += insns;
}

// ---- a launch ----

static void set_lanes(Warp &w, int slot, uint32_t value)
{
	for (int i = 0; i < LANES; i++)
		w.reg<uint32_t>(slot)[i] = value;
}

static void prepare_warp(Warp &w, Block &b, const Function &f, int id, unsigned blocks,
	unsigned threads, void **args)
{
	const Module &m = *b.module;

	w.file.resize((size_t)m.slots);
	w.id = id;
	w.block = &b;
	for (const Module::Constant &c : m.constants)
		for (int i = 0; i < LANES; i++) {
			if (c.wide)
				w.reg<uint64_t>(c.slot)[i] = c.value;
			else
				w.reg<uint32_t>(c.slot)[i] = (uint32_t)c.value;
		}
	for (size_t p = 0; p < f.param_slots.size(); p++)
		for (int i = 0; i < LANES; i++) {
			if (f.param_bytes[p] == 8)
				memcpy(&w.reg<uint64_t>(f.param_slots[p])[i], args[p], 8);
			else
				memcpy(&w.reg<uint32_t>(f.param_slots[p])[i], args[p], 4);
		}
	for (int i = 0; i < LANES; i++) {
		w.reg<uint32_t>(m.tid)[i] = (uint32_t)(id * LANES + i);
		w.reg<uint32_t>(m.laneid)[i] = (uint32_t)i;
	}
	set_lanes(w, m.nctaid, blocks);
	set_lanes(w, m.ntid, threads);
	set_lanes(w, m.warpid, (uint32_t)id);
}

// Sort the machine's faults by what they concern. False: the kernel is not launched at all.
static bool prepare_faults(Machine *m, Block &b)
{
	for (Fault &f : m->faults) {
		if (!f.kernel.empty() && f.kernel != *b.kernel)
			continue;
		switch (f.kind) {
		case Kind::SKIP_LAUNCH:
			f.met++;
			if (f.met >= (f.lo ? f.lo : 1) && f.met <= f.hi) {
				f.hits++;
				return false;
			}
			break;
		case Kind::DROP_ATOMIC:
			b.atomics.push_back(&f);
			break;
		case Kind::SHARED:
		case Kind::SHARED_ALIAS:
			b.shared_memory.push_back(&f);
			break;
		case Kind::NO_BARRIER:
			b.no_barrier = &f;
			break;
		case Kind::OP:
		case Kind::ROUND:
			b.ops.resize(b.module->ops.size());
			for (size_t i = 0; i < b.ops.size(); i++)
				if (b.module->ops[i].compare(0, f.what.size(), f.what) == 0)
					b.ops[i].push_back(&f);
			break;
		default:
			if (f.kind <= Kind::STALE)
				b.memory.push_back(&f);
		}
	}
	return true;
}

// Multiprocessors that get work.
static std::vector<unsigned> usable(Machine *m)
{
	std::vector<unsigned> r;

	for (int sm = 0; sm < m->sms; sm++) {
		bool gone = false;

		for (Fault &f : m->faults)
			gone |= f.kind == Kind::NO_SM && f.sm == sm;
		if (!gone)
			r.push_back((unsigned)sm);
	}
	return r;
}

static bool is_skipped(Block &b, Kind kind, const Warp &w)
{
	for (Fault &f : b.machine->faults)
		if (f.kind == kind &&
			(kind == Kind::SKIP_BLOCK
					? (f.sm < 0 || f.sm == (int)b.sm) &&
						  (f.block < 0 || f.block == (int)b.id) &&
						  (f.kernel.empty() || f.kernel == *b.kernel)
					: concerns(f, w, -1)) &&
			f.strikes())
			return true;
	return false;
}

static void start_block(Block &b, std::vector<Warp> &warps, int pc, std::mt19937_64 &random)
{
	uint32_t sm = b.sm;

	for (uint8_t &c : b.shared) /* whatever stood there */
		c = (uint8_t)random();
	b.epoch++;
	for (Fault &f : b.machine->faults)
		if (f.kind == Kind::WRONG_SM && (f.sm < 0 || f.sm == (int)b.sm)) {
			sm = (uint32_t)f.value;
			f.hits++;
		}
	for (Warp &w : warps) {
		w.alive = is_skipped(b, Kind::SKIP_WARP, w) ? 0 : ~0u;
		w.waiting = 0;
		w.pc.fill(pc);
		w.depth.fill(0);
		set_lanes(w, b.module->ctaid, b.id);
		set_lanes(w, b.module->smid, sm);
	}
}

// One turn of the warps that can run. False: none can.
static bool turn(std::vector<Warp> &warps, unsigned quantum, std::mt19937_64 &random)
{
	std::vector<Warp *> ready;

	for (Warp &w : warps)
		if (w.alive & ~w.waiting)
			ready.push_back(&w);
	if (ready.empty())
		return false;
	if (quantum)
		run_warp(*ready[random() % ready.size()], 1 + (unsigned)(random() % quantum));
	else
		for (Warp *w : ready)
			run_warp(*w, 0);
	return true;
}

static void run_block(Block &b, std::vector<Warp> &warps, std::mt19937_64 &random)
{
	for (;;) {
		bool waiting = false;

		while (turn(warps, b.machine->quantum, random))
			;
		for (Warp &w : warps) {
			waiting |= w.waiting != 0;
			w.waiting = 0;
		}
		if (!waiting)
			return;
		b.epoch++;
	}
}

int Machine::launch(const Module &module, const std::string &kernel, unsigned blocks,
	unsigned threads, void **args)
{
	static uint64_t launches;
	auto found = module.functions.find(kernel);
	std::vector<Warp> warps(threads / LANES);
	std::vector<unsigned> order(blocks), places = usable(this);
	std::mt19937_64 random(schedule + ++launches);
	Block b;

	if (found == module.functions.end() || !found->second.entry)
		return 500;
	counts.launches++;
	b.machine = this;
	b.module = &module;
	b.kernel = &kernel;
	b.launch = launches;
	if (!prepare_faults(this, b))
		return 0;
	b.shared.resize((size_t)module.shared_bytes);
	b.shared_writer.resize(b.shared.size() / 4 + 1);
	b.shared_reader.resize(b.shared.size() / 4 + 1);
	if (races && writer.size() != size / 4) {
		writer.assign(size / 4, 0);
		reader.assign(size / 4, 0);
	}
	for (size_t i = 0; i < warps.size(); i++)
		prepare_warp(warps[i], b, found->second, (int)i, blocks, threads, args);
	for (unsigned i = 0; i < blocks; i++)
		order[i] = i;
	for (unsigned i = blocks; schedule && i > 1; i--)
		std::swap(order[i - 1], order[random() % i]);
	try {
		for (unsigned n = 0; n < blocks && !places.empty(); n++) {
			b.id = order[n];
			b.sm = places[(schedule ? random() : n) % places.size()];
			if (is_skipped(b, Kind::SKIP_BLOCK, warps[0]))
				continue;
			start_block(b, warps, found->second.pc, random);
			run_block(b, warps, random);
		}
	} catch (const Stop &stop) {
		error = stop.why;
		return stop.code;
	}
	return 0;
}

} // namespace ptx

// SPDX-License-Identifier: Apache-2.0
// ptx: what faults do to accesses of global memory. Offsets count from the beginning of the
// machine's memory.
#pragma once
#include "test/ptx/insn.h"

namespace ptx
{

// Could this fault concern a load, or a store, of this warp at these bytes?
bool touches(const Fault &f, const Warp &w, uint64_t from, uint64_t to, bool write);
// Where an access really goes.
uint64_t faulty_place(Warp &w, uint64_t offset, int bytes);
// What was read from `offset` stands in `got`, and is changed there (and in memory, by faults that
// do).
void spoil_load(Warp &w, uint64_t offset, int bytes, char *got, bool is_volatile);
// Before a store: false when it is lost; `from` may be changed. After it: what it does elsewhere.
bool spoil_store(Warp &w, int lane, uint64_t offset, int bytes, char *from);
void after_store(Warp &w, uint64_t offset, int bytes, const char *before);

} // namespace ptx

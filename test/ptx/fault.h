// SPDX-License-Identifier: Apache-2.0
// ptx: what is wrong with a Machine on purpose. README.md lists the kinds and what their members
// mean.
#pragma once
#include <cstdint>
#include <string>

namespace ptx
{

enum class Kind {
	// memory, by offset from its beginning
	STUCK,
	READ_FLIP,
	READ_DISTURB,
	TRANSITION,
	FADE,
	COUPLE,
	COUPLE_RISE,
	COUPLE_STATE,
	SHORT,
	ALIAS,
	BRIDGE,
	DROP_STORE,
	DROP_ATOMIC,
	// the way of a multiprocessor to it
	PATH,
	STALE,
	// shared memory, by offset from the block's beginning
	SHARED,
	SHARED_ALIAS,
	// execution
	OP,
	ROUND,
	SKIP_LAUNCH,
	SKIP_BLOCK,
	SKIP_WARP,
	NO_SM,
	WRONG_SM,
	NO_BARRIER,
	// the runtime's own work
	COPY,
	COPY_FLIP,
	CLEAR,
	OVERLAP,
	TIME,
};

// A member that is not given fits anything, unless README.md says otherwise.
struct Fault {
	Kind kind = Kind::STUCK;
	std::string what, kernel;
	int sm = -1, warp = -1, lane = -1, part = -1, block = -1, device = 0;
	int bit = 0, line = 0;
	double value = 0;
	uint64_t at = 0, lo = 0, hi = ~0ull, every = 1, nth = 0;

	uint64_t met = 0, hits = 0; // chances, and how often it struck
	uint64_t since = 0;         // of FADE: the launch in which the cell was written last

	// One more chance: does it strike?
	bool strikes()
	{
		met++;
		if (nth ? met != nth : met % every != 0)
			return false;
		hits++;
		return true;
	}
	bool covers(uint64_t from, uint64_t bytes) const
	{
		return at >= from && at < from + bytes;
	}
};

// "stuck,at=0x1000,bit=3,value=1". False: err says which word is not known, and what would be.
bool parse_fault(const std::string &text, Fault *fault, std::string *err);

// A size: "16M", "0x100", "4K".
bool parse_number(const std::string &text, uint64_t *ret);

} // namespace ptx

// SPDX-License-Identifier: Apache-2.0
// ptx: instructions among the lanes of a warp.
#include <unordered_map>

#include "test/ptx/insn.h"

namespace ptx
{

// Who takes part must be who is there: on a GPU it is undefined otherwise.
static void all_there(Warp &w, const uint32_t *members, uint32_t mask, const char *what)
{
	for (int i = 0; i < LANES; i++)
		if ((mask >> i & 1) && (members[i] != mask || (members[i] & ~w.alive)))
			throw Stop{719,
				std::string(what) + ": the lanes named and the lanes there differ"};
}

enum class Way { XOR, INDEX, UP, DOWN };

// a: value, b: lane or distance, c: bounds, more[0]: members; d: the value, d2: was it in bounds?
template <Way WAY> static void shuffle(Warp &w, const Insn &in, uint32_t mask)
{
	uint32_t r[LANES], inside = 0;
	const uint32_t *a = w.reg<uint32_t>(in.a), *b = w.reg<uint32_t>(in.b),
		       *c = w.reg<uint32_t>(in.c);

	all_there(w, w.reg<uint32_t>(in.more[0]), mask, "shfl.sync");
	for (int i = 0; i < LANES; i++) {
		int by = (int)(b[i] & 31), segment = (int)(c[i] >> 8 & 31);
		int most = (i & segment) | ((int)(c[i] & 31) & ~segment), from;
		bool ok;

		switch (WAY) {
		case Way::XOR:
			from = i ^ by;
			break;
		case Way::INDEX:
			from = (i & segment) | (by & ~segment);
			break;
		case Way::UP:
			from = i - by;
			break;
		default:
			from = i + by;
		}
		ok = WAY == Way::UP ? from >= most : from <= most;
		if (!ok)
			from = i;
		r[i] = (mask >> from & 1) ? a[from] : 0;
		inside |= (uint32_t)ok << i;
	}
	put(w, in.d, r, mask);
	if (in.d2 >= 0)
		put_predicate(w, in.d2, inside, mask);
}

static void ballot(Warp &w, const Insn &in, uint32_t mask)
{
	uint32_t r[LANES];

	all_there(w, w.reg<uint32_t>(in.b), mask, "vote.sync");
	for (uint32_t &x : r)
		x = w.predicate(in.a) & mask;
	put(w, in.d, r, mask);
}

static void any(Warp &w, const Insn &in, uint32_t mask)
{
	all_there(w, w.reg<uint32_t>(in.b), mask, "vote.sync");
	put_predicate(w, in.d, w.predicate(in.a) & mask ? ~0u : 0, mask);
}

static void every(Warp &w, const Insn &in, uint32_t mask)
{
	all_there(w, w.reg<uint32_t>(in.b), mask, "vote.sync");
	put_predicate(w, in.d, (w.predicate(in.a) & mask) == mask ? ~0u : 0, mask);
}

static void active(Warp &w, const Insn &in, uint32_t mask)
{
	uint32_t r[LANES];

	for (uint32_t &x : r)
		x = mask;
	put(w, in.d, r, mask);
}

// a: value, b: members.
template <class T, T (*COMBINE)(T, T)> static void reduce(Warp &w, const Insn &in, uint32_t mask)
{
	const T *a = w.reg<T>(in.a);
	T r[LANES], sum = a[lowest(mask)];

	all_there(w, w.reg<uint32_t>(in.b), mask, "redux.sync");
	for (uint32_t left = mask & (mask - 1); left; left &= left - 1)
		sum = COMBINE(sum, a[lowest(left)]);
	for (T &x : r)
		x = sum;
	put(w, in.d, r, mask);
}

template <class T> static T sum_of(T a, T b)
{
	return a + b;
}

template <class T> static T least(T a, T b)
{
	return a < b ? a : b;
}

template <class T> static T most(T a, T b)
{
	return a > b ? a : b;
}

static uint32_t all_of(uint32_t a, uint32_t b)
{
	return a & b;
}

static uint32_t any_of(uint32_t a, uint32_t b)
{
	return a | b;
}

static uint32_t odd_of(uint32_t a, uint32_t b)
{
	return a ^ b;
}

Handler find_shuffle(const std::string &op)
{
	static const std::unordered_map<std::string, Handler> table = {
		{"shfl.sync.bfly.b32", shuffle<Way::XOR>},
		{"shfl.sync.idx.b32", shuffle<Way::INDEX>},
		{"shfl.sync.up.b32", shuffle<Way::UP>},
		{"shfl.sync.down.b32", shuffle<Way::DOWN>},
		{"vote.sync.ballot.b32", ballot},
		{"vote.sync.any.pred", any},
		{"vote.sync.all.pred", every},
		{"activemask.b32", active},
		{"redux.sync.add.s32", reduce<int32_t, sum_of<int32_t>>},
		{"redux.sync.add.u32", reduce<uint32_t, sum_of<uint32_t>>},
		{"redux.sync.min.s32", reduce<int32_t, least<int32_t>>},
		{"redux.sync.min.u32", reduce<uint32_t, least<uint32_t>>},
		{"redux.sync.max.s32", reduce<int32_t, most<int32_t>>},
		{"redux.sync.max.u32", reduce<uint32_t, most<uint32_t>>},
		{"redux.sync.and.b32", reduce<uint32_t, all_of>},
		{"redux.sync.or.b32", reduce<uint32_t, any_of>},
		{"redux.sync.xor.b32", reduce<uint32_t, odd_of>},
	};
	auto found = table.find(op);

	return found == table.end() ? nullptr : found->second;
}

} // namespace ptx

// SPDX-License-Identifier: Apache-2.0
// ptx: instructions that take and give registers of their own lane. Each is a function object of C's arithmetic; the templates
// apply it to 32 lanes, and the table names it for the types that PTX has it for.
#include <cmath>
#include <limits>
#include <type_traits>
#include <unordered_map>

#include "test/ptx/half.h"
#include "test/ptx/insn.h"

namespace ptx
{

// ---- over the lanes ----

template <class Op, class D, class A> static void unary(Warp &w, const Insn &in, uint32_t mask)
{
	alignas(64) D r[LANES];
	const A *a = w.reg<A>(in.a);

	for (int i = 0; i < LANES; i++)
		r[i] = Op()(a[i]);
	put(w, in.d, r, mask);
}

template <class Op, class D, class A, class B>
static void binary(Warp &w, const Insn &in, uint32_t mask)
{
	alignas(64) D r[LANES];
	const A *a = w.reg<A>(in.a);
	const B *b = w.reg<B>(in.b);

	for (int i = 0; i < LANES; i++)
		r[i] = Op()(a[i], b[i]);
	put(w, in.d, r, mask);
}

template <class Op, class D, class A, class B, class C>
static void ternary(Warp &w, const Insn &in, uint32_t mask)
{
	alignas(64) D r[LANES];
	const A *a = w.reg<A>(in.a);
	const B *b = w.reg<B>(in.b);
	const C *c = w.reg<C>(in.c);

	for (int i = 0; i < LANES; i++)
		r[i] = Op()(a[i], b[i], c[i]);
	put(w, in.d, r, mask);
}

// bfi, lop3: one operand more, of 32 bits.
template <class Op, class T, class C> static void quaternary(Warp &w, const Insn &in, uint32_t mask)
{
	alignas(64) T r[LANES];
	const T *a = w.reg<T>(in.a), *b = w.reg<T>(in.b);
	const C *c = w.reg<C>(in.c);
	const uint32_t *d = w.reg<uint32_t>(in.more[0]);

	for (int i = 0; i < LANES; i++)
		r[i] = Op()(a[i], b[i], c[i], d[i]);
	put(w, in.d, r, mask);
}

template <class Op, class T> static void compare(Warp &w, const Insn &in, uint32_t mask)
{
	const T *a = w.reg<T>(in.a), *b = w.reg<T>(in.b);
	uint32_t bits = 0;

	for (int i = 0; i < LANES; i++)
		bits |= (uint32_t)Op()(a[i], b[i]) << i;
	put_predicate(w, in.d, bits, mask);
}

template <class T> static void select(Warp &w, const Insn &in, uint32_t mask)
{
	alignas(64) T r[LANES];
	const T *a = w.reg<T>(in.a), *b = w.reg<T>(in.b);
	uint32_t p = w.predicate(in.c);

	for (int i = 0; i < LANES; i++)
		r[i] = p >> i & 1 ? a[i] : b[i];
	put(w, in.d, r, mask);
}

template <class Op> static void predicates(Warp &w, const Insn &in, uint32_t mask)
{
	put_predicate(w, in.d, Op()(w.predicate(in.a), w.predicate(in.b)), mask);
}

template <class Op> static void predicate(Warp &w, const Insn &in, uint32_t mask)
{
	put_predicate(w, in.d, Op()(w.predicate(in.a)), mask);
}

template <class T> static void fused(Warp &w, const Insn &in, uint32_t mask)
{
	alignas(64) T r[LANES];
	const T *a = w.reg<T>(in.a), *b = w.reg<T>(in.b), *c = w.reg<T>(in.c);

	for (int i = 0; i < LANES; i++)
		r[i] = std::fma(a[i], b[i], c[i]);
	put(w, in.d, r, mask);
	(sizeof(T) == 4 ? w.block->machine->counts.fma32 : w.block->machine->counts.fma64) +=
		(uint64_t)__builtin_popcount(mask);
}

// ---- what is applied: whole numbers wrap around (-fwrapv) ----

#define OP2(Name, expression)                                                                      \
	struct Name {                                                                              \
		template <class T, class S> T operator()(T a, S b) const                           \
		{                                                                                  \
			return (T)(expression);                                                    \
		}                                                                                  \
	}
#define OP1(Name, expression)                                                                      \
	struct Name {                                                                              \
		template <class T> auto operator()(T a) const                                      \
		{                                                                                  \
			return expression;                                                         \
		}                                                                                  \
	}

OP2(Add, a + b);
OP2(Sub, a - b);
OP2(Mul, a *b);
OP2(Div, b ? a / b : (T)~0ull);
OP2(Rem, b ? a % b : a);
OP2(FloatDiv, a / b);
OP2(Min, a < b ? a : b);
OP2(Max, a > b ? a : b);
OP2(FloatMin, std::fmin(a, b));
OP2(FloatMax, std::fmax(a, b));
OP2(And, a &b);
OP2(Or, a | b);
OP2(Xor, a ^ b);
OP2(Shl, b >= sizeof(T) * 8 ? 0 : a << b);
OP2(Shr, b >= sizeof(T) * 8 ? (a < 0 ? (T)~0ull : 0) : a >> b);
OP2(Eq, a == b);
OP2(Ne, a != b);
OP2(Lt, a < b);
OP2(Le, a <= b);
OP2(Gt, a > b);
OP2(Ge, a >= b);
// Of floating point: true also when one is not a number.
OP2(Equ, !(a < b || a > b));
OP2(Neu, !(a == b));
OP2(Ltu, !(a >= b));
OP2(Leu, !(a > b));
OP2(Gtu, !(a <= b));
OP2(Geu, !(a < b));
OP1(Not, ~a);
OP1(Neg, (T)-a);
OP1(Abs, a < 0 ? (T)-a : a);
OP1(FloatAbs, std::fabs(a));
OP1(Sqrt, std::sqrt(a));
OP1(Reciprocal, 1 / a);
OP1(Move, a);
OP1(IsZero, a == 0);
OP1(PopCount, (uint32_t)__builtin_popcountll(a));
OP1(LeadingZeros, a ? (uint32_t)__builtin_clzll(a) - (64 - (uint32_t)sizeof(T) * 8)
		    : (uint32_t)sizeof(T) * 8);
OP1(ToShared, a - SHARED_BASE);
OP1(FromShared, a + SHARED_BASE);

template <class T> struct Wider;
template <> struct Wider<int32_t> {
	using type = int64_t;
};
template <> struct Wider<uint32_t> {
	using type = uint64_t;
};
template <> struct Wider<int64_t> {
	using type = __int128;
};
template <> struct Wider<uint64_t> {
	using type = unsigned __int128;
};

struct MulHi {
	template <class T> T operator()(T a, T b) const
	{
		using W = typename Wider<T>::type;

		return (T)((W)a * (W)b >> sizeof(T) * 8);
	}
};

struct MulWide {
	template <class T> auto operator()(T a, T b) const
	{
		using W = typename Wider<T>::type;

		return (W)a * (W)b;
	}
};

struct MadLo {
	template <class T> T operator()(T a, T b, T c) const
	{
		return a * b + c;
	}
};

struct MadHi {
	template <class T> T operator()(T a, T b, T c) const
	{
		return MulHi()(a, b) + c;
	}
};

struct MadWide {
	template <class T, class W> W operator()(T a, T b, W c) const
	{
		return (W)a * (W)b + c;
	}
};

struct Reverse {
	template <class T> T operator()(T a) const
	{
		T r = 0;

		for (unsigned i = 0; i < sizeof(T) * 8; i++)
			r = (T)(r | (a >> i & 1) << (sizeof(T) * 8 - 1 - i));
		return r;
	}
};

// b: position, c: length; bits beyond the field are its sign.
struct Extract {
	template <class T> T operator()(T a, uint32_t b, uint32_t c) const
	{
		constexpr uint32_t bits = sizeof(T) * 8;
		uint32_t at = b & 255, length = c & 255;
		using U = std::make_unsigned_t<T>;
		uint32_t top = at + length - 1 < bits ? at + length - 1 : bits - 1;
		bool sign = std::is_signed_v<T> && length > 0 && top < bits && ((U)a >> top & 1);
		U r = sign ? (U) ~(U)0 : 0;

		for (uint32_t i = 0; i < length && i < bits; i++) {
			U bit = at + i < bits ? (U)a >> (at + i) & 1 : (U)sign;

			r = (U)((r & ~((U)1 << i)) | bit << i);
		}
		return (T)r;
	}
};

struct Insert {
	template <class T> T operator()(T a, T b, uint32_t c, uint32_t length) const
	{
		uint32_t at = c & 255;

		length &= 255;
		for (uint32_t i = 0; i < length && at + i < sizeof(T) * 8; i++)
			b = (T)((b & ~((T)1 << (at + i))) | (a >> i & 1) << (at + i));
		return b;
	}
};

struct Lop3 {
	uint32_t operator()(uint32_t a, uint32_t b, uint32_t c, uint32_t table) const
	{
		uint32_t r = 0;

		for (unsigned k = 0; k < 8; k++)
			if (table >> k & 1)
				r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
		return r;
	}
};

struct Permute {
	uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const
	{
		uint64_t bytes = (uint64_t)b << 32 | a;
		uint32_t r = 0;

		for (unsigned i = 0; i < 4; i++) {
			uint32_t choice = c >> 4 * i & 15,
				 byte = (uint32_t)(bytes >> 8 * (choice & 7)) & 255;

			r |= (choice & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * i;
		}
		return r;
	}
};

template <bool LEFT, bool CLAMP> struct Funnel {
	uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const
	{
		uint64_t both = (uint64_t)b << 32 | a;
		uint32_t n = CLAMP ? (c > 32 ? 32 : c) : c & 31;

		return (uint32_t)(LEFT ? both << n >> 32 : both >> n);
	}
};

// ---- conversions ----

template <class D> struct Convert { // of whole numbers: cut or extended
	template <class T> D operator()(T a) const
	{
		return (D)a;
	}
};

// To a whole number, beyond whose bounds there is none.
template <class D, bool NEAREST> struct Round {
	template <class T> D operator()(T a) const
	{
		double x = NEAREST ? std::nearbyint((double)a) : std::trunc((double)a);
		constexpr double top = (double)std::numeric_limits<D>::max(),
				 bottom = (double)std::numeric_limits<D>::min();

		return std::isnan(x) ? 0
		       : x >= top    ? std::numeric_limits<D>::max()
		       : x <= bottom ? std::numeric_limits<D>::min()
				     : (D)x;
	}
};

struct HalvesAdd {
	uint32_t operator()(uint32_t a, uint32_t b) const
	{
		return to_half(half_of(a & 0xffff) + half_of(b & 0xffff)) |
		       to_half(half_of(a >> 16) + half_of(b >> 16)) << 16;
	}
};

struct HalvesSub {
	uint32_t operator()(uint32_t a, uint32_t b) const
	{
		return to_half(half_of(a & 0xffff) - half_of(b & 0xffff)) |
		       to_half(half_of(a >> 16) - half_of(b >> 16)) << 16;
	}
};

struct HalvesMul {
	uint32_t operator()(uint32_t a, uint32_t b) const
	{
		return to_half(half_of(a & 0xffff) * half_of(b & 0xffff)) |
		       to_half(half_of(a >> 16) * half_of(b >> 16)) << 16;
	}
};

void pack(Warp &w, const Insn &in, uint32_t mask)
{
	uint64_t r[LANES];
	const uint32_t *a = w.reg<uint32_t>(in.a), *b = w.reg<uint32_t>(in.b);

	for (int i = 0; i < LANES; i++)
		r[i] = a[i] | (uint64_t)b[i] << 32;
	put(w, in.d, r, mask);
}

void unpack(Warp &w, const Insn &in, uint32_t mask)
{
	uint32_t low[LANES], high[LANES];
	const uint64_t *a = w.reg<uint64_t>(in.a);

	for (int i = 0; i < LANES; i++) {
		low[i] = (uint32_t)a[i];
		high[i] = (uint32_t)(a[i] >> 32);
	}
	put(w, in.d, low, mask);
	put(w, in.d2, high, mask);
}

void move64(Warp &w, const Insn &in, uint32_t mask)
{
	unary<Move, uint64_t, uint64_t>(w, in, mask);
}

void move32(Warp &w, const Insn &in, uint32_t mask)
{
	unary<Move, uint32_t, uint32_t>(w, in, mask);
}

// ---- names ----

using Table = std::unordered_map<std::string, Alu>;

template <class T> static char kind()
{
	return sizeof(T) == 8 ? 'w' : 'n';
}

template <class Op, class D, class A> static void add1(Table &t, const std::string &name)
{
	t[name] = {unary<Op, D, A>, {kind<D>(), kind<A>()}};
}

template <class Op, class D, class A, class B> static void add2(Table &t, const std::string &name)
{
	t[name] = {binary<Op, D, A, B>, {kind<D>(), kind<A>(), kind<B>()}};
}

template <class Op, class D, class A, class B, class C>
static void add3(Table &t, const std::string &name)
{
	t[name] = {ternary<Op, D, A, B, C>, {kind<D>(), kind<A>(), kind<B>(), kind<C>()}};
}

template <class Op, class T> static void add_compare(Table &t, const std::string &name)
{
	t[name] = {compare<Op, T>, {'p', kind<T>(), kind<T>()}};
}

// Whole numbers of one type.
template <class T> static void whole(Table &t, const std::string &type)
{
	using U = std::make_unsigned_t<T>;

	add2<Add, T, T, T>(t, "add." + type);
	add2<Sub, T, T, T>(t, "sub." + type);
	add2<Mul, T, T, T>(t, "mul.lo." + type);
	add2<MulHi, T, T, T>(t, "mul.hi." + type);
	add3<MadLo, T, T, T, T>(t, "mad.lo." + type);
	add3<MadHi, T, T, T, T>(t, "mad.hi." + type);
	add2<Div, T, T, T>(t, "div." + type);
	add2<Rem, T, T, T>(t, "rem." + type);
	add2<Min, T, T, T>(t, "min." + type);
	add2<Max, T, T, T>(t, "max." + type);
	add1<Neg, T, T>(t, "neg." + type);
	add1<Abs, T, T>(t, "abs." + type);
	add2<Shr, T, T, uint32_t>(t, "shr." + type);
	add3<Extract, T, T, uint32_t, uint32_t>(t, "bfe." + type);
	add_compare<Eq, T>(t, "setp.eq." + type);
	add_compare<Ne, T>(t, "setp.ne." + type);
	add_compare<Lt, T>(t, "setp.lt." + type);
	add_compare<Le, T>(t, "setp.le." + type);
	add_compare<Gt, T>(t, "setp.gt." + type);
	add_compare<Ge, T>(t, "setp.ge." + type);
	add_compare<Lt, U>(t, "setp.lo." + type);
	add_compare<Le, U>(t, "setp.ls." + type);
	add_compare<Gt, U>(t, "setp.hi." + type);
	add_compare<Ge, U>(t, "setp.hs." + type);
}

// Bits of one width.
template <class T> static void bits(Table &t, const std::string &type)
{
	add2<And, T, T, T>(t, "and." + type);
	add2<Or, T, T, T>(t, "or." + type);
	add2<Xor, T, T, T>(t, "xor." + type);
	add1<Not, T, T>(t, "not." + type);
	add2<Shl, T, T, uint32_t>(t, "shl." + type);
	add2<Shr, T, T, uint32_t>(t, "shr." + type);
	add1<PopCount, uint32_t, T>(t, "popc." + type);
	add1<LeadingZeros, uint32_t, T>(t, "clz." + type);
	add1<Reverse, T, T>(t, "brev." + type);
	t["bfi." + type] = {
		quaternary<Insert, T, uint32_t>, {kind<T>(), kind<T>(), kind<T>(), 'n', 'n'}};
	add_compare<Eq, T>(t, "setp.eq." + type);
	add_compare<Ne, T>(t, "setp.ne." + type);
}

template <class T> static void moves(Table &t, const std::string &type)
{
	add1<Move, T, T>(t, "mov." + type);
	t["selp." + type] = {select<T>, {kind<T>(), kind<T>(), kind<T>(), 'p'}};
}

template <class T> static void floating(Table &t, const std::string &type)
{
	for (const char *round : {".", ".rn."}) {
		add2<Add, T, T, T>(t, "add" + (round + type));
		add2<Sub, T, T, T>(t, "sub" + (round + type));
		add2<Mul, T, T, T>(t, "mul" + (round + type));
	}
	add2<FloatDiv, T, T, T>(t, "div.rn." + type);
	t["fma.rn." + type] = {fused<T>, std::string(4, kind<T>())};
	add2<FloatMin, T, T, T>(t, "min." + type);
	add2<FloatMax, T, T, T>(t, "max." + type);
	add1<Neg, T, T>(t, "neg." + type);
	add1<FloatAbs, T, T>(t, "abs." + type);
	add1<Sqrt, T, T>(t, "sqrt.rn." + type);
	add1<Reciprocal, T, T>(t, "rcp.rn." + type);
	add_compare<Eq, T>(t, "setp.eq." + type);
	add_compare<Ne, T>(t, "setp.ne." + type);
	add_compare<Lt, T>(t, "setp.lt." + type);
	add_compare<Le, T>(t, "setp.le." + type);
	add_compare<Gt, T>(t, "setp.gt." + type);
	add_compare<Ge, T>(t, "setp.ge." + type);
	add_compare<Equ, T>(t, "setp.equ." + type);
	add_compare<Neu, T>(t, "setp.neu." + type);
	add_compare<Ltu, T>(t, "setp.ltu." + type);
	add_compare<Leu, T>(t, "setp.leu." + type);
	add_compare<Gtu, T>(t, "setp.gtu." + type);
	add_compare<Geu, T>(t, "setp.geu." + type);
	add1<Convert<T>, T, int32_t>(t, "cvt.rn." + type + ".s32");
	add1<Convert<T>, T, uint32_t>(t, "cvt.rn." + type + ".u32");
	add1<Convert<T>, T, int64_t>(t, "cvt.rn." + type + ".s64");
	add1<Convert<T>, T, uint64_t>(t, "cvt.rn." + type + ".u64");
	add1<Round<int32_t, true>, int32_t, T>(t, "cvt.rni.s32." + type);
	add1<Round<uint32_t, true>, uint32_t, T>(t, "cvt.rni.u32." + type);
	add1<Round<int32_t, false>, int32_t, T>(t, "cvt.rzi.s32." + type);
	add1<Round<uint32_t, false>, uint32_t, T>(t, "cvt.rzi.u32." + type);
	add1<Round<int64_t, true>, int64_t, T>(t, "cvt.rni.s64." + type);
	add1<Round<uint64_t, true>, uint64_t, T>(t, "cvt.rni.u64." + type);
	add1<Round<int64_t, false>, int64_t, T>(t, "cvt.rzi.s64." + type);
	add1<Round<uint64_t, false>, uint64_t, T>(t, "cvt.rzi.u64." + type);
}

// From one type to another: the source decides how it is extended.
template <class D> static void conversions(Table &t, const std::string &type)
{
	add1<Convert<D>, D, uint32_t>(t, "cvt." + type + ".u32");
	add1<Convert<D>, D, int32_t>(t, "cvt." + type + ".s32");
	add1<Convert<D>, D, uint64_t>(t, "cvt." + type + ".u64");
	add1<Convert<D>, D, int64_t>(t, "cvt." + type + ".s64");
}

static Table all()
{
	Table t;

	whole<int32_t>(t, "s32");
	whole<uint32_t>(t, "u32");
	whole<int64_t>(t, "s64");
	whole<uint64_t>(t, "u64");
	bits<uint32_t>(t, "b32");
	bits<uint64_t>(t, "b64");
	for (const char *type : {"b32", "u32", "s32", "f32"})
		moves<uint32_t>(t, type);
	for (const char *type : {"b64", "u64", "s64", "f64"})
		moves<uint64_t>(t, type);
	floating<float>(t, "f32");
	floating<double>(t, "f64");
	conversions<uint32_t>(t, "u32");
	conversions<int32_t>(t, "s32");
	conversions<uint64_t>(t, "u64");
	conversions<int64_t>(t, "s64");
	add1<Convert<double>, double, float>(t, "cvt.f64.f32");
	add1<Convert<float>, float, double>(t, "cvt.rn.f32.f64");
	add2<MulWide, uint64_t, uint32_t, uint32_t>(t, "mul.wide.u32");
	add2<MulWide, int64_t, int32_t, int32_t>(t, "mul.wide.s32");
	add3<MadWide, uint64_t, uint32_t, uint32_t, uint64_t>(t, "mad.wide.u32");
	add3<MadWide, int64_t, int32_t, int32_t, int64_t>(t, "mad.wide.s32");
	add3<Permute, uint32_t, uint32_t, uint32_t, uint32_t>(t, "prmt.b32");
	add3<Funnel<true, false>, uint32_t, uint32_t, uint32_t, uint32_t>(t, "shf.l.wrap.b32");
	add3<Funnel<false, false>, uint32_t, uint32_t, uint32_t, uint32_t>(t, "shf.r.wrap.b32");
	add3<Funnel<true, true>, uint32_t, uint32_t, uint32_t, uint32_t>(t, "shf.l.clamp.b32");
	add3<Funnel<false, true>, uint32_t, uint32_t, uint32_t, uint32_t>(t, "shf.r.clamp.b32");
	t["lop3.b32"] = {quaternary<Lop3, uint32_t, uint32_t>, "nnnnn"};
	add1<IsZero, uint32_t, uint32_t>(t, "cnot.b32");
	add2<HalvesAdd, uint32_t, uint32_t, uint32_t>(t, "add.rn.f16x2");
	add2<HalvesSub, uint32_t, uint32_t, uint32_t>(t, "sub.rn.f16x2");
	add2<HalvesMul, uint32_t, uint32_t, uint32_t>(t, "mul.rn.f16x2");
	add1<Move, uint64_t, uint64_t>(t, "cvta.global.u64");
	add1<Move, uint64_t, uint64_t>(t, "cvta.to.global.u64");
	add1<FromShared, uint64_t, uint64_t>(t, "cvta.shared.u64");
	add1<ToShared, uint64_t, uint64_t>(t, "cvta.to.shared.u64");
	t["and.pred"] = {predicates<And>, "ppp"};
	t["or.pred"] = {predicates<Or>, "ppp"};
	t["xor.pred"] = {predicates<Xor>, "ppp"};
	t["not.pred"] = {predicate<Not>, "pp"};
	t["mov.pred"] = {predicate<Move>, "pp"};
	return t;
}

const Alu *find_alu(const std::string &op)
{
	static const Table table = all();
	auto found = table.find(op);

	return found == table.end() ? nullptr : &found->second;
}

} // namespace ptx

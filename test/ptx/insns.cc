// SPDX-License-Identifier: Apache-2.0
// ptx: the interpreter's instructions against C: each by a kernel of its own over numbers that stand at the bounds of their types,
// and at random; what crosses lanes, branches, calls and memory by small kernels whose results are known. Then what must be refused.
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "test/ptx/device.h"
#include "test/ptx/half.h"

using std::string;
using std::vector;

static unsigned failures, tests;
static std::mt19937_64 numbers(7);

static void expect(bool right, const string &what)
{
	tests++;
	if (right || failures++ > 40)
		return;
	printf("  WRONG: %s\n", what.c_str());
}

static ptx::Machine &machine()
{
	return ptx::gpus().devices[0].machine;
}

template <class T> static T *memory(size_t n)
{
	void *p = nullptr;

	if (ptx::take(ptx::gpus().devices[0], n * sizeof(T), &p) != 0)
		exit(2);
	return (T *)p;
}

static const char *const HEAD = ".version 8.8\n.target sm_80\n.address_size 64\n";

static string kernel(const string &body)
{
	return string(HEAD) +
	       ".visible .entry k(\n\t.param .u64 .ptr .align 1 k_in,\n\t.param .u64 .ptr .align 1 "
	       "k_out\n)\n{\n"
	       "\t.reg .pred %p<9>;\n\t.reg .b32 %r<20>;\n\t.reg .f32 %f<9>;\n\t.reg .b64 "
	       "%rd<20>;\n\t.reg .f64 %fd<9>;\n"
	       "\tld.param.u64 %rd1, [k_in];\n\tld.param.u64 %rd2, [k_out];\n\tmov.u32 %r1, "
	       "%tid.x;\n"
	       "\tmul.wide.u32 %rd3, %r1, 32;\n\tadd.s64 %rd4, %rd1, %rd3;\n\tmul.wide.u32 %rd5, "
	       "%r1, 8;\n\tadd.s64 %rd6, %rd2, %rd5;\n" +
	       body + "\tret;\n}\n";
}

// Run it over 32 threads (or more) that have four numbers each: the results, one each; `error` the launch's.
static vector<uint64_t> run(const string &text, const vector<uint64_t> &in, unsigned threads = 32,
	int *error = nullptr, unsigned blocks = 1)
{
	ptx::Module module;
	string why = module.parse(text.c_str());
	uint64_t *from = memory<uint64_t>(threads * 4), *to = memory<uint64_t>(threads * blocks);
	void *args[] = {&from, &to};
	vector<uint64_t> result(threads * blocks);

	expect(why.empty(), why + " in\n" + text);
	for (size_t i = 0; i < in.size() && i < threads * 4; i++)
		from[i] = in[i];
	memset(to, 0, threads * blocks * 8);
	int e = why.empty() ? machine().launch(module, "k", blocks, threads, args) : 0;
	if (error)
		*error = e;
	else
		expect(e == 0,
			"error " + std::to_string(e) + " " + machine().error + " in\n" + text);
	memcpy(result.data(), to, threads * blocks * 8);
	ptx::give_back(ptx::gpus().devices[0], from);
	ptx::give_back(ptx::gpus().devices[0], to);
	return result;
}

// ---- one instruction ----

static const uint64_t edges[] = {0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 0x7f, 0x80, 0xff, 0x7fff,
	0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0x7fffffffffffffff,
	0x8000000000000000, 0xffffffffffffffff, 0x3f800000, 0xbf800000, 0x7f800000, 0x7fc00000,
	0x00800000, 0x3ff0000000000000, 0xbff8000000000000, 0x7ff0000000000000, 0x7ff8000000000000,
	0x4f000000, 0xcf000001, 0x4f800000, 0x3f000000, 0xbf000000};

static uint64_t some_number()
{
	uint64_t n = numbers();

	switch (n % 4) {
	case 0:
		return edges[numbers() % (sizeof(edges) / sizeof(edges[0]))];
	case 1:
		return (numbers() & 0x807fffff807fffff) | 0x3f0000003f000000; /* floats around 1 */
	case 2:
		return numbers() >> numbers() % 64;
	default:
		return numbers();
	}
}

// kinds: of the result and the operands, as in the table of alu.cc. result: of the operands, as 64 bits.
struct Case {
	string op, kinds;
	std::function<uint64_t(uint64_t, uint64_t, uint64_t, uint64_t)> result;
	string last = ""; // an operand that is a number in the text
};

static void one_instruction(const Case &c)
{
	static const char *const names64[] = {"%rd10", "%rd11", "%rd12", "%rd13", "%rd14"};
	static const char *const names32[] = {"%r10", "%r11", "%r12", "%r13", "%r14"};
	static const char *const predicates[] = {"%p1", "%p2", "%p3", "%p4", "%p5"};
	string body, text = "\t" + c.op + " ";
	vector<uint64_t> in(128);

	for (uint64_t &n : in)
		n = some_number();
	for (size_t i = 0; i < c.kinds.size(); i++) {
		string at = "[%rd4+" + std::to_string(8 * (i - 1)) + "];\n";
		char kind = c.kinds[i];

		text += string(i ? ", " : "") + (kind == 'w'          ? names64[i]
							: kind == 'n' ? names32[i]
								      : predicates[i]);
		if (i == 0)
			continue;
		if (kind == 'w')
			body += string("\tld.global.u64 ") + names64[i] + ", " + at;
		else
			body += string("\tld.global.u32 ") + names32[i] + ", " + at;
		if (kind == 'p')
			body += string("\tand.b32 ") + names32[i] + ", " + names32[i] +
				", 1;\n\tsetp.ne.s32 " + predicates[i] + ", " + names32[i] +
				", 0;\n";
	}
	body += text + (c.last.empty() ? "" : ", " + c.last) + ";\n";
	if (c.kinds[0] == 'w')
		body += "\tst.global.u64 [%rd6], %rd10;\n";
	else if (c.kinds[0] == 'n')
		body += "\tst.global.u32 [%rd6], %r10;\n";
	else
		body += "\tselp.b64 %rd15, 1, 0, %p1;\n\tst.global.u64 [%rd6], %rd15;\n";
	vector<uint64_t> got = run(kernel(body), in);
	for (int i = 0; i < 32; i++) {
		const uint64_t *n = &in[(size_t)i * 4];
		uint64_t a[4];

		for (size_t k = 0; k < 4; k++) {
			char kind = k + 1 < c.kinds.size() ? c.kinds[k + 1] : 'w';

			a[k] = kind == 'n' ? (uint32_t)n[k] : kind == 'p' ? n[k] & 1 : n[k];
		}
		uint64_t want = c.result(a[0], a[1], a[2], a[3]);
		char line[200];

		if (c.kinds[0] == 'n')
			want = (uint32_t)want;
		snprintf(line, sizeof(line),
			"%s of %" PRIx64 " %" PRIx64 " %" PRIx64 ": %" PRIx64 ", expected %" PRIx64,
			c.op.c_str(), a[0], a[1], a[2], got[(size_t)i], want);
		expect(got[(size_t)i] == want, line);
	}
}

static float f32(uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float x;

	memcpy(&x, &low, 4);
	return x;
}

static double f64(uint64_t bits)
{
	double x;

	memcpy(&x, &bits, 8);
	return x;
}

static uint64_t bits(float x)
{
	uint32_t b;

	memcpy(&b, &x, 4);
	return b;
}

static uint64_t bits(double x)
{
	uint64_t b;

	memcpy(&b, &x, 8);
	return b;
}

#define C(expression)                                                                              \
	[](uint64_t a, uint64_t b, uint64_t c, uint64_t d) -> uint64_t {                           \
		(void)a, (void)b, (void)c, (void)d;                                                \
		return (uint64_t)(expression);                                                     \
	}
#define I32(x) ((int32_t)(uint32_t)(x))
#define U32(x) ((uint32_t)(x))
#define I64(x) ((int64_t)(x))

static void whole_numbers()
{
	const Case cases[] = {
		{"add.s32", "nnn", C(a + b)},
		{"add.s64", "www", C(a + b)},
		{"sub.s32", "nnn", C(a - b)},
		{"sub.u64", "www", C(a - b)},
		{"mul.lo.s32", "nnn", C(a * b)},
		{"mul.lo.s64", "www", C(a * b)},
		{"mul.hi.u32", "nnn", C(a * b >> 32)},
		{"mul.hi.s32", "nnn", C((int64_t)I32(a) * I32(b) >> 32)},
		{"mul.hi.u64", "www", C((unsigned __int128)a * b >> 64)},
		{"mul.wide.u32", "wnn", C(a * b)},
		{"mul.wide.s32", "wnn", C((int64_t)I32(a) * I32(b))},
		{"mad.lo.s32", "nnnn", C(a * b + c)},
		{"mad.lo.s64", "wwww", C(a * b + c)},
		{"mad.wide.u32", "wnnw", C(a * b + c)},
		{"div.u32", "nnn", C(b ? a / b : ~0u)},
		{"rem.u32", "nnn", C(b ? a % b : a)},
		{"div.u64", "www", C(b ? a / b : ~0ull)},
		{"min.u32", "nnn", C(a < b ? a : b)},
		{"max.s32", "nnn", C(I32(a) > I32(b) ? a : b)},
		{"max.u64", "www", C(a > b ? a : b)},
		{"min.s64", "www", C(I64(a) < I64(b) ? a : b)},
		{"neg.s32", "nn", C(-a)},
		{"neg.s64", "ww", C(-a)},
		{"abs.s32", "nn", C(I32(a) < 0 ? -a : a)},
		{"and.b32", "nnn", C(a & b)},
		{"or.b64", "www", C(a | b)},
		{"xor.b32", "nnn", C(a ^ b)},
		{"not.b32", "nn", C(~a)},
		{"not.b64", "ww", C(~a)},
		{"shl.b32", "nnn", C(b > 31 ? 0 : a << b)},
		{"shl.b64", "wwn", C(b > 63 ? 0 : a << b)},
		{"shr.u32", "nnn", C(b > 31 ? 0 : a >> b)},
		{"shr.s32", "nnn", C(I32(a) >> (b > 31 ? 31 : b))},
		{"shr.u64", "wwn", C(b > 63 ? 0 : a >> b)},
		{"shr.s64", "wwn", C(I64(a) >> (b > 63 ? 63 : b))},
		{"popc.b32", "nn", C(__builtin_popcountll(a))},
		{"popc.b64", "nw", C(__builtin_popcountll(a))},
		{"clz.b32", "nn", C(a ? __builtin_clz(U32(a)) : 32)},
		{"clz.b64", "nw", C(a ? __builtin_clzll(a) : 64)},
		{"brev.b32", "nn",
			[](uint64_t a, uint64_t, uint64_t, uint64_t) {
				uint64_t r = 0;

				for (int i = 0; i < 32; i++)
					r = r << 1 | (a >> i & 1);
				return r;
			}},
		{"bfi.b32", "nnnnn",
			[](uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
				uint64_t at = c & 255, length = d & 255,
					 mask = length > 31 ? 0xffffffff : (1ull << length) - 1;

				return at > 31 ? b : (b & ~(mask << at)) | (a & mask) << at;
			}},
		{"bfe.u32", "nnnn",
			[](uint64_t a, uint64_t b, uint64_t c, uint64_t) {
				uint64_t at = b & 255, length = c & 255,
					 mask = length > 31 ? 0xffffffff : (1ull << length) - 1;

				return at > 31 ? 0 : a >> at & mask;
			}},
		{"prmt.b32", "nnnn",
			[](uint64_t a, uint64_t b, uint64_t c, uint64_t) {
				uint64_t both = b << 32 | a, r = 0;

				for (int i = 0; i < 4; i++) {
					uint64_t byte = both >> (c >> 4 * i & 7) * 8 & 255;

					r |= (c >> 4 * i & 8 ? (byte >> 7) * 255 : byte) << 8 * i;
				}
				return r;
			}},
		{"shf.l.wrap.b32", "nnnn", C(b << (c & 31) | (c & 31 ? a >> (32 - (c & 31)) : 0))},
		{"shf.r.wrap.b32", "nnnn", C((b << 32 | a) >> (c & 31))},
		{"lop3.b32", "nnnn", C((a & b) | (~a & c)), "0xca"},
		{"lop3.b32", "nnnn", C(a ^ b ^ c), "0x96"},
		{"selp.b32", "nnnp", C(c ? a : b)},
		{"selp.b64", "wwwp", C(c ? a : b)},
		{"and.pred", "ppp", C(a & b)},
		{"or.pred", "ppp", C(a | b)},
		{"xor.pred", "ppp", C(a ^ b)},
		{"not.pred", "pp", C(!a)},
		{"mov.u32", "nn", C(a)},
		{"mov.u64", "ww", C(a)},
		{"cvt.u64.u32", "wn", C(a)},
		{"cvt.s64.s32", "wn", C((int64_t)I32(a))},
		{"cvt.u32.u64", "nw", C(a)},
		{"setp.eq.s32", "pnn", C(a == b)},
		{"setp.ne.s64", "pww", C(a != b)},
		{"setp.lt.s32", "pnn", C(I32(a) < I32(b))},
		{"setp.lt.u32", "pnn", C(a < b)},
		{"setp.ge.u64", "pww", C(a >= b)},
		{"setp.gt.s64", "pww", C(I64(a) > I64(b))},
		{"setp.le.u32", "pnn", C(a <= b)},
		{"setp.lo.u32", "pnn", C(a < b)},
		{"setp.hs.u64", "pww", C(a >= b)},
	};

	for (const Case &c : cases)
		one_instruction(c);
}

// Where the result is no number, its bits are not PTX's to say.
static uint64_t no_nan(uint64_t b, bool wide)
{
	return (wide ? std::isnan(f64(b)) : std::isnan(f32(b))) ? 0 : b;
}

static void floating_point()
{
	const Case cases[] = {
		{"setp.neu.f32", "pnn", C(!(f32(a) == f32(b)))},
		{"setp.eq.f32", "pnn", C(f32(a) == f32(b))},
		{"setp.lt.f64", "pww", C(f64(a) < f64(b))},
		{"setp.geu.f32", "pnn", C(!(f32(a) < f32(b)))},
		{"neg.f32", "nn", C(a ^ 0x80000000)},
		{"neg.f64", "ww", C(a ^ 1ull << 63)},
		{"abs.f32", "nn", C(a & 0x7fffffff)},
		{"cvt.rn.f32.s32", "nn", C(bits((float)I32(a)))},
		{"cvt.rn.f64.u64", "ww", C(bits((double)a))},
		{"cvt.rni.s32.f32", "nn",
			C(std::isnan(f32(a))              ? 0
				: f32(a) >= 2147483648.0f ? 0x7fffffff
				: f32(a) < -2147483648.0f ? 0x80000000
							  : (uint64_t)(int64_t)std::rint(f32(a)))},
		{"cvt.rzi.u32.f64", "nw",
			C(!(f64(a) > 0)                  ? 0
				: f64(a) >= 4294967295.0 ? 0xffffffff
							 : (uint64_t)f64(a))},
	};
	const Case numeric[] = {
		{"fma.rn.f32", "nnnn", C(bits(std::fma(f32(a), f32(b), f32(c))))},
		{"fma.rn.f64", "wwww", C(bits(std::fma(f64(a), f64(b), f64(c))))},
		{"add.rn.f32", "nnn", C(bits(f32(a) + f32(b)))},
		{"add.f64", "www", C(bits(f64(a) + f64(b)))},
		{"sub.f32", "nnn", C(bits(f32(a) - f32(b)))},
		{"mul.rn.f32", "nnn", C(bits(f32(a) * f32(b)))},
		{"div.rn.f64", "www", C(bits(f64(a) / f64(b)))},
		{"cvt.f64.f32", "wn", C(bits((double)f32(a)))},
		{"cvt.rn.f32.f64", "nw", C(bits((float)f64(a)))},
	};

	for (const Case &c : cases)
		one_instruction(c);
	for (Case c :
		numeric) { /* compared as numbers, one NaN as good as another: by way of a comparison in the kernel */
		auto exact = c.result;
		bool wide = c.kinds[0] == 'w';
		string type = wide ? "f64" : "f32", r = wide ? "%rd10" : "%r10";

		c.result = [=](uint64_t x, uint64_t y, uint64_t z, uint64_t v) {
			return no_nan(exact(x, y, z, v), wide);
		};
		c.last = "";
		c.op = c.op + "";
		string op = c.op;
		Case with = c;
		with.op = op;
		vector<uint64_t> in(128);
		string body;
		for (uint64_t &n : in)
			n = some_number();
		string text = "\t" + op + " " + r;
		for (size_t i = 1; i < c.kinds.size(); i++) {
			bool w = c.kinds[i] == 'w';
			string name = (w ? "%rd1" : "%r1") + std::to_string(i);

			body += string("\tld.global.") + (w ? "u64 " : "u32 ") + name + ", [%rd4+" +
				std::to_string(8 * (i - 1)) + "];\n";
			text += ", " + name;
		}
		body += text + ";\n\tsetp.eq." + type + " %p1, " + r + ", " + r + ";\n\tselp." +
			(wide ? "b64 " : "b32 ") + r + ", " + r + ", 0, %p1;\n";
		body += string("\tst.global.") + (wide ? "u64" : "u32") + " [%rd6], " + r + ";\n";
		vector<uint64_t> got = run(kernel(body), in);
		for (size_t i = 0; i < 32; i++) {
			uint64_t want =
				c.result(in[4 * i], in[4 * i + 1], in[4 * i + 2], in[4 * i + 3]);

			expect(got[i] == (wide ? want : (uint32_t)want),
				op + " of thread " + std::to_string(i));
		}
	}
	// every half there is
	for (uint32_t h = 0; h < 0x7c00; h++)
		expect(ptx::to_half(ptx::half_of(h)) == h &&
				ptx::to_half(-ptx::half_of(h)) == (h | 0x8000),
			"half " + std::to_string(h));
	expect(ptx::to_half(2049) == ptx::to_half(2048) && ptx::to_half(2051) == ptx::to_half(2052),
		"halves round to even");
}

// ---- lanes ----

static void lanes()
{
	vector<uint64_t> in(128);

	for (size_t i = 0; i < 32; i++)
		in[4 * i] = 1000 + i;
	const string value = "\tld.global.u32 %r10, [%rd4];\n",
		     store = "\tst.global.u32 [%rd6], %r11;\n";
	struct {
		const char *text;
		std::function<uint64_t(int)> want;
	} cases[] = {
		{"shfl.sync.bfly.b32 %r11|%p1, %r10, 16, 31, -1",
			[](int i) { return 1000 + (i ^ 16); }},
		{"shfl.sync.bfly.b32 %r11, %r10, 1, 31, -1", [](int i) { return 1000 + (i ^ 1); }},
		{"shfl.sync.idx.b32 %r11, %r10, 5, 31, -1", [](int) { return 1005; }},
		{"shfl.sync.up.b32 %r11, %r10, 2, 0, -1",
			[](int i) { return 1000 + (i < 2 ? i : i - 2); }},
		{"shfl.sync.down.b32 %r11, %r10, 3, 31, -1",
			[](int i) { return 1000 + (i > 28 ? i : i + 3); }},
		{"redux.sync.add.u32 %r11, %r10, -1", [](int) { return 32 * 1000 + 31 * 16; }},
		{"redux.sync.max.u32 %r11, %r10, -1", [](int) { return 1031; }},
		{"activemask.b32 %r11", [](int) { return 0xffffffff; }},
	};
	for (auto &c : cases) {
		vector<uint64_t> got = run(kernel(value + "\t" + c.text + ";\n" + store), in);

		for (int i = 0; i < 32; i++)
			expect(got[(size_t)i] == (uint64_t)c.want(i),
				string(c.text) + " in lane " + std::to_string(i));
	}
	vector<uint64_t> got = run(kernel(value +
					   "\tand.b32 %r12, %r10, 1;\n\tsetp.eq.s32 %p1, %r12, "
					   "0;\n\tvote.sync.ballot.b32 %r11, %p1, -1;\n" +
					   store),
		in);
	expect(got[7] == 0x55555555, "vote.sync.ballot");
}

// m16n8k16 of all fragments, and m16n8k8, against products by index.
static void products()
{
	for (int depth : {16, 8}) {
		float left[16][16], right[16][8], sum[16][8];
		string registers = depth == 16 ? "{%r10, %r11, %r12, %r13}, {%r14, %r15}"
					       : "{%r10, %r11}, {%r12}";
		string body;
		vector<uint64_t> in(128);
		uint32_t *words = (uint32_t *)in.data();

		for (int k = 0; k < 16; k++)
			for (int i = 0; i < 16; i++) {
				left[i][k] = (float)((int)(numbers() % 127) - 63);
				if (i < 8)
					right[k][i] = (float)((int)(numbers() % 127) - 63);
			}
		for (int i = 0; i < 16; i++)
			for (int j = 0; j < 8; j++) {
				sum[i][j] = 0;
				for (int k = 0; k < depth; k++)
					sum[i][j] += left[i][k] * right[k][j];
			}
		for (int lane = 0; lane < 32; lane++) {
			int g = lane / 4, t = lane % 4;
			auto pair = [](float x, float y) {
				return ptx::to_half(x) | ptx::to_half(y) << 16;
			};
			uint32_t *w = words + lane * 8;

			w[0] = pair(left[g][2 * t], left[g][2 * t + 1]);
			w[1] = pair(left[g + 8][2 * t], left[g + 8][2 * t + 1]);
			if (depth == 16) {
				w[2] = pair(left[g][2 * t + 8], left[g][2 * t + 9]);
				w[3] = pair(left[g + 8][2 * t + 8], left[g + 8][2 * t + 9]);
				w[4] = pair(right[2 * t][g], right[2 * t + 1][g]);
				w[5] = pair(right[2 * t + 8][g], right[2 * t + 9][g]);
			} else {
				w[2] = pair(right[2 * t][g], right[2 * t + 1][g]);
			}
		}
		for (int i = 0; i < 6; i++)
			body += "\tld.global.u32 %r" + std::to_string(10 + i) + ", [%rd4+" +
				std::to_string(4 * i) + "];\n";
		body += "\tmov.f32 %f1, 0f3F800000;\n\tmov.f32 %f2, %f1;\n\tmov.f32 %f3, "
			"%f1;\n\tmov.f32 %f4, %f1;\n";
		body += "\tmma.sync.aligned.m16n8k" + std::to_string(depth) +
			".row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, " + registers +
			", {%f1, %f2, %f3, %f4};\n";
		for (int part = 0; part < 2; part++) {
			vector<uint64_t> got = run(kernel(body + "\tst.global.v2.f32 [%rd6], {%f" +
							   (part ? "3, %f4" : "1, %f2") + "};\n"),
				in);

			for (int lane = 0; lane < 32; lane++) {
				int row = lane / 4 + 8 * part, column = lane % 4 * 2;

				expect(f32(got[(size_t)lane]) == sum[row][column] + 1 &&
						f32(got[(size_t)lane] >> 32) ==
							sum[row][column + 1] + 1,
					"mma, depth " + std::to_string(depth) + ", row " +
						std::to_string(row));
			}
		}
	}
	expect(machine().counts.inexact_mma == 0, "sums of small whole numbers depend on no order");
}

// ---- control ----

static void control()
{
	vector<uint64_t> in(128);

	// lanes part at each step and meet again: steps of the Collatz sequence
	for (size_t i = 0; i < 32; i++)
		in[4 * i] = i + 1;
	vector<uint64_t> got =
		run(kernel("\tld.global.u64 %rd10, [%rd4];\n\tmov.u64 %rd11, 0;\n"
			   "$L_again:\n\tsetp.eq.s64 %p1, %rd10, 1;\n\t@%p1 bra "
			   "$L_done;\n\tadd.s64 %rd11, %rd11, 1;\n"
			   "\tand.b64 %rd12, %rd10, 1;\n\tsetp.eq.s64 %p2, %rd12, 0;\n\t@%p2 bra "
			   "$L_even;\n"
			   "\tmul.lo.s64 %rd10, %rd10, 3;\n\tadd.s64 %rd10, %rd10, 1;\n\tbra.uni "
			   "$L_again;\n"
			   "$L_even:\n\tshr.u64 %rd10, %rd10, 1;\n\tbra.uni $L_again;\n"
			   "$L_done:\n\tactivemask.b32 %r11;\n\tcvt.u64.u32 %rd13, "
			   "%r11;\n\tshl.b64 %rd13, %rd13, 32;\n"
			   "\tor.b64 %rd11, %rd11, %rd13;\n\tst.global.u64 [%rd6], %rd11;\n"),
			in);
	for (size_t i = 0; i < 32; i++) {
		uint64_t steps = 0;

		for (uint64_t n = i + 1; n != 1; steps++)
			n = n % 2 ? 3 * n + 1 : n / 2;
		expect((uint32_t)got[i] == steps && got[i] >> 32 == 0xffffffff,
			"lanes that part in lane " + std::to_string(i));
	}
	// a function that gives a value, called by some lanes, which calls another
	string text = string(HEAD) +
		      ".func (.param .b64 r) twice(\n\t.param .b64 twice_0\n)\n{\n\t.reg .b64 "
		      "%rd<9>;\n\tld.param.u64 %rd1, [twice_0];\n"
		      "\tadd.s64 %rd2, %rd1, %rd1;\n\tst.param.b64 [r], %rd2;\n\tret;\n}\n"
		      ".func (.param .b64 r) four(\n\t.param .b64 four_0\n)\n{\n\t.reg .b64 "
		      "%rd<9>;\n\tld.param.u64 %rd1, [four_0];\n"
		      "\t{\n\t.param .b64 param0;\n\tst.param.b64 [param0], %rd1;\n\t.param .b64 "
		      "retval0;\n\tcall.uni (retval0), twice, (param0);\n"
		      "\tld.param.b64 %rd2, [retval0];\n\t}\n\tadd.s64 %rd2, %rd2, "
		      "%rd2;\n\tst.param.b64 [r], %rd2;\n\tret;\n}\n";
	string caller = kernel(
		"\tsetp.lt.u32 %p1, %r1, 9;\n\tcvt.u64.u32 %rd10, %r1;\n\t@!%p1 bra $L_end;\n"
		"\t{\n\t.param .b64 param0;\n\tst.param.b64 [param0], %rd10;\n\t.param .b64 "
		"retval0;\n"
		"\tcall.uni (retval0), four, (param0);\n\tld.param.b64 %rd10, [retval0];\n\t}\n"
		"$L_end:\n\tst.global.u64 [%rd6], %rd10;\n");
	got = run(text + caller.substr(strlen(HEAD)), in);
	for (size_t i = 0; i < 32; i++)
		expect(got[i] == (i < 9 ? 4 * i : i), "a call in lane " + std::to_string(i));
}

static void blocks_and_barriers()
{
	// each thread hands its number to the one opposite, through shared memory
	const string hand = "\t.shared .align 8 .b8 box[2048];\n\tmov.u64 %rd10, box;\n\tadd.s64 "
			    "%rd11, %rd10, %rd5;\n\tcvt.u64.u32 %rd12, %r1;\n"
			    "\tst.shared.u64 [%rd11], %rd12;\nBARRIER\tmov.u32 %r10, "
			    "255;\n\tsub.s32 %r10, %r10, %r1;\n"
			    "\tmul.wide.u32 %rd13, %r10, 8;\n\tadd.s64 %rd13, %rd10, "
			    "%rd13;\n\tld.shared.u64 %rd14, [%rd13];\n"
			    "\tmov.u32 %r11, %ctaid.x;\n\tmul.wide.u32 %rd15, %r11, "
			    "2048;\n\tadd.s64 %rd6, %rd6, %rd15;\n\tst.global.u64 [%rd6], %rd14;\n";
	string with = hand, without = hand;
	with.replace(with.find("BARRIER"), 7, "\tbar.sync 0;\n");
	without.replace(without.find("BARRIER"), 7, "");
	for (unsigned quantum : {0u, 3u}) {
		machine().quantum = quantum;
		machine().schedule = quantum;
		uint64_t races = machine().counts.shared_races;
		vector<uint64_t> got = run(kernel(with), {}, 256, nullptr, 3);

		for (size_t i = 0; i < got.size(); i++)
			expect(got[i] == 255 - i % 256,
				"a barrier, in thread " + std::to_string(i));
		expect(machine().counts.shared_races == races, "no race where a barrier is");
		run(kernel(without), {}, 256);
		expect(machine().counts.shared_races > races, "a race where none is");
	}
	machine().quantum = 0;
	machine().schedule = 0;
	uint64_t divergent = machine().counts.divergent_barriers;
	run(kernel("\tsetp.lt.u32 %p1, %r1, 9;\n\t@%p1 bar.sync 0;\n"), {});
	expect(machine().counts.divergent_barriers > divergent,
		"a barrier that some lanes pass by");
}

static void memory_and_atomics()
{
	vector<uint64_t> in(1024);

	for (size_t i = 0; i < 256; i++)
		in[4 * i] = 0xfedcba9876543210ull + i, in[4 * i + 1] = i;
	vector<uint64_t> got = run(kernel("\tld.global.v2.u32 {%r10, %r11}, [%rd4];\n\tmov.b64 "
					  "%rd10, {%r11, %r10};\n\tst.global.u64 [%rd6], %rd10;\n"),
		in);
	expect(got[3] == 0x76543213fedcba98ull, "vectors of 32 bits");
	got = run(kernel("\tld.global.s8 %r10, [%rd4+7];\n\tld.global.u8 %r11, "
			 "[%rd4+7];\n\tst.global.v2.u32 [%rd6], {%r10, %r11};\n"),
		in);
	expect(got[0] == 0x000000fefffffffeull, "bytes, with and without a sign");
	const string all = "\tmov.u64 %rd6, %rd2;\n\tcvt.u64.u32 %rd10, %r1;\n";
	struct {
		const char *text;
		uint64_t want;
	} cases[] = {
		{"\tatom.global.add.u64 %rd11, [%rd6], 3;\n", 768},
		{"\tred.global.add.u64 [%rd6], %rd10;\n", 255 * 128},
		{"\tatom.global.max.u64 %rd11, [%rd6], %rd10;\n", 255},
		{"\tred.global.xor.b64 [%rd6], %rd10;\n", 0},
		{"\tred.global.or.b32 [%rd6], %r1;\n", 255},
		{"\tred.relaxed.gpu.global.add.u32 [%rd6+4], 1;\n", 256ull << 32},
		{"\tatom.global.cas.b64 %rd11, [%rd6], %rd10, 9;\n", 9},
		{"\tatom.add.u32 %r10, [%rd6], 2;\n", 512},
	};
	for (auto &c : cases)
		expect(run(kernel(all + c.text), in, 256)[0] == c.want, c.text);
}

static void races()
{
	machine().races = true;
	for (bool own : {true, false}) {
		uint64_t before = machine().counts.global_races;

		run(kernel(string(own ? "" : "\tmov.u64 %rd6, %rd2;\n") +
			    "\tst.global.u64 [%rd6], 5;\n"),
			{});
		expect((machine().counts.global_races > before) == !own, "races in global memory");
	}
	machine().races = false;
}

// ---- what is refused ----

static void errors()
{
	int error = 0;

	run(kernel("\tmov.u64 %rd6, 64;\n\tst.global.u64 [%rd6], 5;\n"), {}, 32, &error);
	expect(error == 700, "an address that is none");
	run(kernel("\tst.global.u64 [%rd2+256], 5;\n"), {}, 32, &error);
	expect(error == 700, "just beyond an allocation");
	run(kernel("\tst.global.u64 [%rd6+4], 5;\n"), {}, 32, &error);
	expect(error == 716, "a misaligned address");
	run(kernel("\tsetp.lt.u32 %p1, %r1, 9;\n\t@%p1 shfl.sync.bfly.b32 %r10, %r1, 1, 31, -1;\n"),
		{}, 32, &error);
	expect(error == 719, "a shuffle without those that it names");
	const char *const bad[] = {"\tfrobnicate.u32 %r1, %r2;\n", "\tadd.s32 %r1, %r2;\n",
		"\tadd.s32 %r1, %r2, %rd1;\n", "\tbra $L_nowhere;\n",
		"\tld.local.u32 %r1, [%rd1];\n", "\tld.global.u64 %r1, [%rd1];\n",
		"\tmov.u32 %r1, %nowhere;\n", "\tmov.u32 %r99, 1x;\n", "\t.reg .b77 %x<3>;\n",
		"\tcall.uni nobody, ();\n", "\tbar.sync 1;\n"};
	for (const char *text : bad) {
		ptx::Module module;
		string why = module.parse(kernel(text).c_str());

		expect(why.find("line ") == 0, string("not refused: ") + text);
	}
	ptx::Fault fault;
	string err;
	expect(ptx::parse_fault("stuck,at=1M,bit=3,value=1", &fault, &err) &&
			fault.at == 1u << 20 && fault.bit == 3,
		"a fault");
	for (const char *text : {"stick,at=1", "stuck,at", "stuck,at=x", "stuck,bit=3x",
		     "stuck,every=0", "stuck,where=3"})
		expect(!ptx::parse_fault(text, &fault, &err) && !err.empty(),
			string("not refused: ") + text);
}

int main()
{
	whole_numbers();
	floating_point();
	lanes();
	products();
	control();
	blocks_and_barriers();
	memory_and_atomics();
	races();
	errors();
	printf("%u expectations of instructions, %u wrong\n", tests, failures);
	return failures != 0;
}

// SPDX-License-Identifier: Apache-2.0
// ptx: a module out of its text, as NVRTC writes it. What is not understood ends the reading with its line; nothing is passed over
// but what has no effect here (.pragma, .loc, alignment, bounds of a launch).
#include <cctype>
#include <cstdlib>
#include <set>
#include <unordered_map>

#include "test/ptx/insn.h"

namespace ptx
{

Module::Module() = default;
Module::~Module() = default;

namespace
{

using std::string;
using std::vector;

string trim(const string &s)
{
	size_t from = s.find_first_not_of(" \t\r\n"), to = s.find_last_not_of(" \t\r\n");

	return from == string::npos ? "" : s.substr(from, to - from + 1);
}

bool begins(const string &s, const char *with)
{
	return s.compare(0, strlen(with), with) == 0;
}

// By commas that stand in no brackets.
vector<string> split(const string &s)
{
	vector<string> r;
	string now;
	int depth = 0;

	for (char c : s) {
		depth += c == '{' || c == '(' || c == '[';
		depth -= c == '}' || c == ')' || c == ']';
		if (c == ',' && depth == 0) {
			r.push_back(trim(now));
			now.clear();
		} else {
			now += c;
		}
	}
	if (!trim(now).empty())
		r.push_back(trim(now));
	return r;
}

// What stands in braces or parentheses, or the one thing that does not.
vector<string> inside(const string &s)
{
	string t = trim(s);

	return t.size() >= 2 && (t[0] == '{' || t[0] == '(') ? split(t.substr(1, t.size() - 2))
							     : vector<string>{t};
}

vector<string> words_of(const string &op)
{
	vector<string> r;
	string now;

	for (char c : op + ".") {
		if (c == '.') {
			r.push_back(now);
			now.clear();
		} else {
			now += c;
		}
	}
	return r;
}

// Of "b32", "u8", ".f64": in bytes. 0: no type of such a size.
int bytes_of(const string &type)
{
	size_t at = type.find_first_of("0123456789");
	int bits = at == string::npos ? 0 : atoi(type.c_str() + at);

	return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? bits / 8 : 0;
}

struct Reader {
	Module &m;
	string error;
	int line = 1;
	std::unordered_map<string, int> ops, specials;
	// Of the function that is being read.
	Function *function = nullptr;
	string function_name;
	size_t first = 0;
	std::unordered_map<string, int> registers, families, labels, shared,
		params;                         // params: name to slot
	std::unordered_map<string, int> widths; // of registers: 64, 32, 16, 1
	std::map<std::pair<uint64_t, bool>, int> constants;
	vector<std::pair<size_t, string>> branches;
	int shared_used = 0;

	explicit Reader(Module &module);
	void fail(const string &what)
	{
		if (error.empty())
			error = "line " + std::to_string(line) + ": not understood: " + what;
	}
	int slot()
	{
		return m.slots++;
	}
	int constant(uint64_t value, bool wide);
	int register_of(const string &name);
	int width_of(const string &name)
	{
		return register_of(name) < 0 ? 0 : widths[name];
	}
	int operand(const string &text, bool wide);
	int needed(const string &name, int width);
	void address(const string &text, Insn &in);
	void push(Insn in, const string &op);
	void push_move(int to, int from);
	void declare_registers(const string &s);
	void declare_shared(const string &s);
	void declare_param(const string &s);
	void call(const vector<string> &operands, Insn in);
	void param(const string &op, const vector<string> &operands, Insn in);
	void memory(const string &op, const vector<string> &operands, Insn in);
	void atomic(const string &op, const vector<string> &operands, Insn in);
	void lanes(const string &op, const vector<string> &operands, Insn in);
	void mma(const string &op, const vector<string> &operands, Insn in);
	void move_pair(const vector<string> &operands, Insn in);
	void alu(const string &op, const vector<string> &operands, Insn in);
	bool flow(const string &op, const string &rest, const vector<string> &operands, Insn &in);
	void instruction(string s);
	void statement(const string &s);
	void begin_function(const string &s);
	void end_function();
	void read(const string &text);
};

Reader::Reader(Module &module) : m(module)
{
	specials = {{"%tid.x", m.tid = slot()}, {"%ctaid.x", m.ctaid = slot()},
		{"%nctaid.x", m.nctaid = slot()}, {"%ntid.x", m.ntid = slot()},
		{"%smid", m.smid = slot()}, {"%laneid", m.laneid = slot()},
		{"%warpid", m.warpid = slot()}};
}

// ---- operands ----

int Reader::constant(uint64_t value, bool wide)
{
	auto key = std::make_pair(wide ? value : (uint64_t)(uint32_t)value, wide);
	auto found = constants.find(key);

	if (found != constants.end())
		return found->second;
	m.constants.push_back({slot(), wide, key.first});
	return constants[key] = m.constants.back().slot;
}

// "%r7" is declared by itself or by its family, "%r<9>". -1: it is no register.
int Reader::register_of(const string &name)
{
	auto found = registers.find(name);
	size_t stem = name.size();

	if (found != registers.end())
		return found->second;
	while (stem > 0 && isdigit((unsigned char)name[stem - 1]))
		stem--;
	auto family = families.find(name.substr(0, stem));
	if (family == families.end() || stem == name.size())
		return -1;
	widths[name] = family->second;
	return registers[name] = slot();
}

// wide: how a number is to be kept.
int Reader::operand(const string &text, bool wide)
{
	string s = trim(text);
	char *end;
	uint64_t value;

	if (specials.count(s))
		return specials[s];
	if (register_of(s) >= 0)
		return register_of(s);
	if (shared.count(s))
		return constant((uint64_t)shared[s], wide);
	if (begins(s, "0f") || begins(s, "0F") || begins(s, "0d") || begins(s, "0D")) {
		value = strtoull(s.c_str() + 2, &end, 16);
		wide = s[1] == 'd' || s[1] == 'D';
	} else if (s == "WARP_SZ") {
		return constant(LANES, wide);
	} else {
		value = s[0] == '-' ? (uint64_t)strtoll(s.c_str(), &end, 0)
				    : strtoull(s.c_str(), &end, 0);
		if (*end == 'U')
			end++;
	}
	if (s.empty() || *end || end == s.c_str()) {
		fail("operand " + s);
		return -1;
	}
	return constant(value, wide);
}

// A register of this width.
int Reader::needed(const string &name, int width)
{
	int r = register_of(name);

	if (r < 0 || widths[name] != width)
		fail("register " + name + ", expected one of " + std::to_string(width) + " bits");
	return r;
}

// "[%rd1+16]", "[name]"
void Reader::address(const string &text, Insn &in)
{
	string s = trim(text);

	if (s.size() < 2 || s[0] != '[') {
		fail("address " + s);
		return;
	}
	s = trim(s.substr(1, s.size() - 2));
	size_t plus = s.find('+');
	if (plus != string::npos) {
		in.offset = strtoll(s.c_str() + plus + 1, nullptr, 0);
		s = trim(s.substr(0, plus));
	}
	in.a = operand(s, true);
	if (width_of(s) == 32)
		fail("address of 32 bits " + s);
}

// ---- instructions ----

void Reader::push(Insn in, const string &op)
{
	if (!ops.count(op)) {
		ops[op] = (int)m.ops.size();
		m.ops.push_back(op);
	}
	in.op = ops[op];
	in.line = line;
	m.code.push_back(std::move(in));
}

void Reader::push_move(int to, int from)
{
	Insn in;

	in.run = move64;
	in.d = to;
	in.a = from;
	push(in, "(param)");
}

// "(result0), name, (param0, param1)": parameters are copied to where the function expects them, and its results back.
void Reader::call(const vector<string> &operands, Insn in)
{
	bool results = operands.size() > 1 && operands[0][0] == '(';
	string name = operands[results ? 1 : 0];
	vector<string> args = operands.size() > (results ? 2u : 1u)
				      ? inside(operands[results ? 2 : 1])
				      : vector<string>();
	auto f = m.functions.find(name);

	if (f == m.functions.end() || args.size() != f->second.param_slots.size()) {
		fail("call of " + name);
		return;
	}
	for (size_t i = 0; i < args.size(); i++) {
		if (!params.count(args[i]))
			fail("argument " + args[i]);
		push_move(f->second.param_slots[i], params[args[i]]);
	}
	in.flow = Flow::CALL;
	in.target = f->second.pc;
	push(in, "call");
	vector<string> back = results ? inside(operands[0]) : vector<string>();
	for (size_t i = 0; i < back.size() && i < f->second.result_slots.size(); i++)
		push_move(params[back[i]], f->second.result_slots[i]);
}

void Reader::param(const string &op, const vector<string> &operands, Insn in)
{
	bool is_load = begins(op, "ld.");
	string place = operands[is_load ? 1 : 0], value = operands[is_load ? 0 : 1];
	string name = place.substr(1, place.find_first_of("+]") - 1);
	int bytes = bytes_of(words_of(op).back());

	if (!params.count(name) || bytes < 4) {
		fail(op + " of " + name);
		return;
	}
	in.run = bytes == 8 ? move64 : move32;
	in.d = is_load ? needed(value, bytes * 8) : params[name];
	in.a = is_load ? params[name] : operand(value, bytes == 8);
	push(in, op);
}

// Spaces and elements; what only says how to cache has no effect here.
void Reader::memory(const string &op, const vector<string> &operands, Insn in)
{
	static const std::set<string> without_effect = {"cs", "ca", "cg", "cv", "wb", "wt", "lu",
		"nc", "relaxed", "weak", "gpu", "sys", "cta", "L1::no_allocate"};
	bool is_load = begins(op, "ld.");
	vector<string> words = words_of(op);

	for (size_t i = 1; i + 1 < words.size(); i++) {
		const string &word = words[i];

		if (word == "global" || word == "shared")
			in.space = word == "global" ? Space::GLOBAL : Space::SHARED;
		else if (word == "v2" || word == "v4")
			in.count = word[1] - '0';
		else if (word == "volatile")
			in.is_volatile = true;
		else if (!without_effect.count(word))
			fail(op);
	}
	in.bytes = bytes_of(words.back());
	in.is_signed = words.back()[0] == 's';
	in.result_bits = !is_load ? 0 : in.bytes == 8 ? 64 : 32;
	vector<string> values =
		operands.size() == 2 ? inside(operands[is_load ? 0 : 1]) : vector<string>();
	if (in.bytes == 0 || (int)values.size() != in.count) {
		fail(op);
		return;
	}
	address(operands[is_load ? 1 : 0], in);
	for (int k = 0; k < in.count; k++) {
		int width = width_of(values[(size_t)k]), want = in.bytes * 8;
		int r = is_load ? register_of(values[(size_t)k])
				: operand(values[(size_t)k], in.bytes == 8);

		if (r < 0 || (width && (width == 64) != (want == 64)))
			fail("register " + values[(size_t)k] + " of " + op);
		if (k)
			in.more.push_back(r);
		else
			(is_load ? in.d : in.b) = r;
	}
	in.run = is_load ? load : store;
	push(in, op);
}

// "atom.global.add.u64 d, [a], b" and "red.global.add.u64 [a], b"
void Reader::atomic(const string &op, const vector<string> &operands, Insn in)
{
	static const std::set<string> without_effect = {
		"relaxed", "acquire", "release", "acq_rel", "gpu", "sys", "cta"};
	vector<string> words = words_of(op);
	bool gives = words[0] == "atom";
	string operation;
	size_t at = gives ? 1 : 0;

	for (size_t i = 1; i + 1 < words.size(); i++) {
		if (words[i] == "global" || words[i] == "shared")
			in.space = words[i] == "global" ? Space::GLOBAL : Space::SHARED;
		else if (!without_effect.count(words[i]))
			operation = words[i];
	}
	in.bytes = bytes_of(words.back());
	in.run = find_atomic(operation, words.back());
	if (!in.run || operands.size() < at + 2) {
		fail(op);
		return;
	}
	in.result_bits = in.bytes * 8;
	if (gives)
		in.d = needed(operands[0], in.bytes * 8);
	address(operands[at], in);
	in.b = operand(operands[at + 1], in.bytes == 8);
	if (operands.size() > at + 2)
		in.c = operand(operands[at + 2], in.bytes == 8);
	push(in, op);
}

// "shfl.sync.bfly.b32 d|p, a, b, c, members" and its kin.
void Reader::lanes(const string &op, const vector<string> &operands, Insn in)
{
	string d = operands[0];
	size_t bar = d.find('|');
	int *to[] = {&in.a, &in.b, &in.c};

	if (bar != string::npos) {
		in.d2 = needed(trim(d.substr(bar + 1)), 1);
		d = trim(d.substr(0, bar));
	}
	in.d = register_of(d);
	in.result_bits = width_of(d);
	for (size_t i = 1; i < operands.size(); i++) {
		int r = operand(operands[i], false);

		if (i <= 3)
			*to[i - 1] = r;
		else
			in.more.push_back(r);
	}
	if (in.d < 0 || (begins(op, "shfl") && operands.size() != 5) ||
		(begins(op, "vote") && operands.size() != 3))
		fail(op);
	push(in, op);
}

void Reader::mma(const string &op, const vector<string> &operands, Insn in)
{
	size_t wanted = 0;

	in.run = find_mma(op, &wanted);
	in.result_bits = 32;
	for (const string &group : operands)
		for (const string &r : inside(group))
			in.more.push_back(needed(r, 32));
	if (!in.run || in.more.size() != wanted)
		fail(op);
	push(in, op);
}

void Reader::move_pair(const vector<string> &operands, Insn in)
{
	in.result_bits = 64;
	if (operands[0][0] == '{') {
		vector<string> to = inside(operands[0]);

		in.run = unpack;
		in.result_bits = 32;
		in.d = to[0] == "_" ? slot() : needed(to[0], 32);
		in.d2 = to[1] == "_" ? slot() : needed(to[1], 32);
		in.a = operand(operands[1], true);
	} else {
		vector<string> from = inside(operands[1]);

		in.run = pack;
		in.d = needed(operands[0], 64);
		in.a = operand(from[0], false);
		in.b = operand(from[1], false);
	}
	push(in, "mov.b64");
}

void Reader::alu(const string &op, const vector<string> &operands, Insn in)
{
	const Alu *alu = find_alu(op);
	int *to[] = {&in.d, &in.a, &in.b, &in.c};

	if (!alu || alu->kinds.size() != operands.size()) {
		fail(op + " of " + std::to_string(operands.size()) + " operands");
		return;
	}
	in.run = alu->run;
	for (size_t i = 0; i < operands.size(); i++) {
		int want = alu->kinds[i] == 'w'   ? 64
			   : alu->kinds[i] == 'n' ? 32
						  : 1,
		    width = width_of(operands[i]);
		int r = i == 0 ? register_of(operands[0]) : operand(operands[i], want == 64);

		if (r < 0 || (width && width != want))
			fail("operand " + operands[i] + " of " + op);
		if (i == 0)
			in.result_bits = want;
		if (i < 4)
			*to[i] = r;
		else
			in.more.push_back(r);
	}
	push(in, op);
}

// True: it was one.
bool Reader::flow(const string &op, const string &rest, const vector<string> &operands, Insn &in)
{
	if (op == "bra" || op == "bra.uni") {
		in.flow = Flow::BRANCH;
		branches.emplace_back(m.code.size(), rest);
	} else if (op == "ret" || op == "ret.uni") {
		in.flow = Flow::RETURN;
	} else if (op == "exit") {
		in.flow = Flow::EXIT;
	} else if (op == "bar.sync" || op == "barrier.sync") {
		in.flow = Flow::BARRIER;
		if (operands.size() != 1 || operands[0] != "0")
			fail(op + " " + rest);
	} else {
		return false;
	}
	push(in, op);
	return true;
}

void Reader::instruction(string s)
{
	Insn in;

	if (s[0] == '@') {
		size_t space = s.find_first_of(" \t");
		string guard = s.substr(1, space - 1);

		in.guard_not = guard[0] == '!';
		in.guard = needed(guard.substr(in.guard_not), 1);
		s = trim(s.substr(space));
	}
	size_t space = s.find_first_of(" \t\n");
	string op = s.substr(0, space), rest = space == string::npos ? "" : trim(s.substr(space));
	vector<string> operands = split(rest);

	if (flow(op, rest, operands, in))
		return;
	if (begins(op, "membar.") || begins(op, "fence.") || op == "bar.warp.sync" ||
		op == "nanosleep.u32")
		return; /* everything is in order here, and each lane waits for itself */
	if (operands.empty() || operands[0].empty())
		fail(op);
	else if (op == "call.uni" || op == "call")
		call(operands, in);
	else if (begins(op, "ld.param") || begins(op, "st.param"))
		param(op, operands, in);
	else if (begins(op, "ld.") || begins(op, "st."))
		memory(op, operands, in);
	else if (begins(op, "atom.") || begins(op, "red."))
		atomic(op, operands, in);
	else if (begins(op, "mma."))
		mma(op, operands, in);
	else if ((in.run = find_shuffle(op)))
		lanes(op, operands, in);
	else if (op == "mov.b64" && operands.size() == 2 &&
		 (operands[0][0] == '{' || operands[1][0] == '{'))
		move_pair(operands, in);
	else
		alu(op, operands, in);
}

// ---- declarations ----

void Reader::declare_registers(const string &s) // ".reg .b32 %r<6>, tmp"
{
	string rest = trim(s.substr(4));
	size_t space = rest.find_first_of(" \t");
	string type = rest.substr(0, space);
	int width = type == ".pred" ? 1 : bytes_of(type) == 2 ? 32 : bytes_of(type) * 8;

	if (width < 1 || space == string::npos) {
		fail(s);
		return;
	}
	for (const string &name : split(rest.substr(space))) {
		size_t angle = name.find('<');

		if (angle != string::npos) {
			families[name.substr(0, angle)] = width;
		} else { /* in a scope of its own: hides one that had its name */
			registers[name] = slot();
			widths[name] = width;
		}
	}
}

void Reader::declare_shared(const string &s) // ".shared .align 8 .b8 name[32768]"
{
	size_t bracket = s.find('['), space = s.find_last_of(" \t", bracket);
	string name = trim(s.substr(space + 1, bracket - space - 1));
	int count = bracket == string::npos ? 1 : atoi(s.c_str() + bracket + 1);
	string type = s.substr(0, space);
	int bytes = bytes_of(type.substr(type.find_last_of('.')));

	shared[name] = shared_used;
	shared_used += (count * bytes + 127) & ~127;
	m.shared_bytes = shared_used > m.shared_bytes ? shared_used : m.shared_bytes;
}

void Reader::declare_param(const string &s) // ".param .b64 param0"
{
	params[trim(s.substr(s.find_last_of(" \t")))] = slot();
}

void Reader::statement(const string &s)
{
	if (s.empty())
		return;
	if (begins(s, ".reg"))
		declare_registers(s);
	else if (begins(s, ".shared"))
		declare_shared(s);
	else if (begins(s, ".param"))
		declare_param(s);
	else if (s[0] == '.' && !begins(s, ".pragma") && !begins(s, ".loc"))
		fail(s);
	else if (s[0] != '.')
		instruction(s);
}

// ".visible .entry name( params ) .maxntid 256" or ".func (.param .b64 result) name( params )"
void Reader::begin_function(const string &s)
{
	size_t keyword = s.find(".entry");
	bool entry = keyword != string::npos;
	string rest, results;

	if (!entry && (keyword = s.find(".func")) == string::npos) {
		fail(s);
		return;
	}
	rest = trim(s.substr(s.find_first_of(" \t(", keyword + 1)));
	if (rest[0] == '(') {
		results = rest.substr(1, rest.find(')') - 1);
		rest = trim(rest.substr(rest.find(')') + 1));
	}
	size_t open = rest.find('('), close = rest.find(')', open);
	Function f;

	function_name = trim(rest.substr(0, open));
	registers.clear();
	families.clear();
	widths.clear();
	labels.clear();
	shared.clear();
	params.clear();
	branches.clear();
	shared_used = 0;
	first = m.code.size();
	f.entry = entry;
	f.pc = (int)first;
	for (const string &p : open == string::npos
				       ? vector<string>()
				       : split(rest.substr(open + 1, close - open - 1))) {
		size_t space = p.find_last_of(" \t");

		f.param_bytes.push_back(
			bytes_of(trim(p.substr(6)))); /* ".param .u64 .ptr .align 1 name" */
		f.param_slots.push_back(params[p.substr(space + 1)] = slot());
		if (f.param_bytes.back() < 4)
			fail("parameter " + p);
	}
	for (const string &p : split(results))
		f.result_slots.push_back(params[p.substr(p.find_last_of(" \t") + 1)] = slot());
	function = &(m.functions[function_name] = f);
}

void Reader::end_function()
{
	Insn end;

	for (auto &b : branches) {
		if (!labels.count(b.second))
			fail("label " + b.second);
		m.code[b.first].target = labels[b.second];
	}
	end.flow = Flow::RETURN;
	push(end, "(end)");
	function = nullptr;
}

string without_comments(const char *text)
{
	string r;

	for (const char *p = text; *p; p++) {
		if (p[0] == '/' && p[1] == '/') {
			while (p[1] && p[1] != '\n')
				p++;
		} else if (p[0] == '/' && p[1] == '*') {
			for (p += 2; *p && !(p[0] == '*' && p[1] == '/'); p++)
				if (*p == '\n')
					r += '\n';
			if (!*p)
				break;
			p++;
		} else {
			r += *p;
		}
	}
	return r;
}

void Reader::read(const string &text)
{
	string now;
	int depth = 0;

	for (size_t i = 0; i < text.size() && error.empty(); i++) {
		char c = text[i];
		bool empty = now.empty();

		line += c == '\n';
		if (depth == 0 && c == '\n' &&
			(begins(now, ".version") || begins(now, ".target") ||
				begins(now, ".address_size"))) {
			if (begins(now, ".target"))
				m.target = trim(now.substr(7));
			now.clear();
		} else if (depth == 0 && c == '{') {
			begin_function(trim(now));
			now.clear();
			depth = 1;
		} else if (depth == 0 && c == ';') {
			fail(trim(now));
		} else if (depth > 0 && empty && c == '{') {
			depth++;
		} else if (depth > 0 && empty && c == '}') {
			if (--depth == 0)
				end_function();
		} else if (depth > 0 && c == ':' && now.find_first_of(" \t(") == string::npos) {
			labels[now] = (int)m.code.size();
			now.clear();
		} else if (depth > 0 && c == ';') {
			statement(trim(now));
			now.clear();
		} else if (!empty || !isspace((unsigned char)c)) {
			now += c;
		}
	}
	if (depth > 0)
		fail("the end, inside of " + function_name);
}

} // namespace

string Module::parse(const char *text)
{
	Reader reader(*this);

	reader.read(without_comments(text));
	return reader.error;
}

} // namespace ptx

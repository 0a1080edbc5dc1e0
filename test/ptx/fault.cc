// SPDX-License-Identifier: Apache-2.0
// ptx: faults out of their words.
#include "test/ptx/fault.h"

#include <cstdlib>
#include <map>
#include <sstream>

namespace ptx
{

static const std::map<std::string, Kind> kinds = {
	{"stuck", Kind::STUCK},
	{"readflip", Kind::READ_FLIP},
	{"readdisturb", Kind::READ_DISTURB},
	{"transition", Kind::TRANSITION},
	{"fade", Kind::FADE},
	{"couple", Kind::COUPLE},
	{"couplerise", Kind::COUPLE_RISE},
	{"couplestate", Kind::COUPLE_STATE},
	{"short", Kind::SHORT},
	{"alias", Kind::ALIAS},
	{"bridge", Kind::BRIDGE},
	{"dropstore", Kind::DROP_STORE},
	{"dropatomic", Kind::DROP_ATOMIC},
	{"path", Kind::PATH},
	{"stale", Kind::STALE},
	{"shared", Kind::SHARED},
	{"sharedalias", Kind::SHARED_ALIAS},
	{"op", Kind::OP},
	{"round", Kind::ROUND},
	{"skiplaunch", Kind::SKIP_LAUNCH},
	{"skipblock", Kind::SKIP_BLOCK},
	{"skipwarp", Kind::SKIP_WARP},
	{"nosm", Kind::NO_SM},
	{"wrongsm", Kind::WRONG_SM},
	{"nobarrier", Kind::NO_BARRIER},
	{"copy", Kind::COPY},
	{"copyflip", Kind::COPY_FLIP},
	{"clear", Kind::CLEAR},
	{"overlap", Kind::OVERLAP},
	{"time", Kind::TIME},
};

bool parse_number(const std::string &text, uint64_t *ret)
{
	char *end;

	*ret = strtoull(text.c_str(), &end, 0);
	if (end == text.c_str())
		return false;
	switch (*end) {
	case 'G':
		*ret <<= 10;
		[[fallthrough]];
	case 'M':
		*ret <<= 10;
		[[fallthrough]];
	case 'K':
		*ret <<= 10;
		end++;
	}
	return *end == '\0';
}

static bool parse_member(const std::string &name, const std::string &value, Fault *f)
{
	const std::map<std::string, std::string *> texts = {
		{"what", &f->what}, {"kernel", &f->kernel}};
	const std::map<std::string, int *> ints = {{"sm", &f->sm}, {"warp", &f->warp},
		{"lane", &f->lane}, {"part", &f->part}, {"block", &f->block},
		{"device", &f->device}, {"bit", &f->bit}, {"line", &f->line}};
	const std::map<std::string, uint64_t *> sizes = {{"at", &f->at}, {"lo", &f->lo},
		{"hi", &f->hi}, {"every", &f->every}, {"nth", &f->nth}};
	char *end;

	if (texts.count(name)) {
		*texts.at(name) = value;
		return true;
	}
	if (sizes.count(name))
		return parse_number(value, sizes.at(name)) && f->every > 0;
	if (ints.count(name))
		*ints.at(name) = (int)strtol(value.c_str(), &end, 10);
	else if (name == "value")
		f->value = strtod(value.c_str(), &end);
	else
		return false;
	return end != value.c_str() && *end == '\0';
}

bool parse_fault(const std::string &text, Fault *fault, std::string *err)
{
	std::stringstream in(text);
	std::string word;

	*fault = Fault();
	std::getline(in, word, ',');
	auto kind = kinds.find(word);
	if (kind == kinds.end()) {
		*err = "no kind of fault is called \"" + word + "\"; known are";
		for (auto &k : kinds)
			*err += " " + k.first;
		return false;
	}
	fault->kind = kind->second;
	while (std::getline(in, word, ',')) {
		size_t equals = word.find('=');

		if (equals == std::string::npos ||
			!parse_member(word.substr(0, equals), word.substr(equals + 1), fault)) {
			*err = "\"" + word + "\" in \"" + text +
			       "\": accepted are what, kernel (texts), sm, warp, lane, part, "
			       "block, device, bit, line, value "
			       "(numbers), at, lo, hi, every, nth (sizes as 0x10, 64K or 1M)";
			return false;
		}
	}
	return true;
}

} // namespace ptx

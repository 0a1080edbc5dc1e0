// SPDX-License-Identifier: Apache-2.0
// ptx: the devices that PTX_DEVICE describes, and their memory.
#include "test/ptx/device.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace ptx
{

// Small allocations stand here, at the end of memory, where no fault of cells is: so that offsets in what gpuprobe tests are offsets
// in memory.
constexpr uint64_t SMALL_BYTES = 16ull << 20;
constexpr uint64_t LARGE = 1ull << 20;
// Written with what is no number of anything, so that nothing is zero by chance.
constexpr uint64_t SPOILED = 8ull << 20;

[[noreturn]] static void refuse(const std::string &what)
{
	fprintf(stderr, "ptx: PTX_DEVICE: %s\n", what.c_str());
	exit(97);
}

struct Words {
	Device like;
	uint64_t total = 640ull << 20, count = 1;
	std::vector<Fault> faults;
};

static void take_word(Gpus &g, Words &w, const std::string &name, const std::string &value)
{
	uint64_t n = 0;
	std::string err;
	Fault fault;

	if (name == "fault") {
		if (!parse_fault(value, &fault, &err))
			refuse(err);
		w.faults.push_back(fault);
		return;
	}
	if (name == "hits") {
		g.hits = value;
		return;
	}
	if (name == "cc") {
		if (sscanf(value.c_str(), "%d.%d", &w.like.major, &w.like.minor) != 2)
			refuse("cc=" + value + ": expected two numbers, as 9.0");
		return;
	}
	if (!parse_number(value, &n))
		refuse(name + "=" + value + ": expected a number, as 3, 0x10 or 64M");
	if (name == "sms")
		w.like.machine.sms = (int)n;
	else if (name == "mem")
		w.total = n;
	else if (name == "free")
		w.like.free_bytes = n;
	else if (name == "l2")
		w.like.l2_bytes = (int)n;
	else if (name == "races")
		w.like.machine.races = n != 0;
	else if (name == "schedule")
		w.like.machine.schedule = n;
	else if (name == "quantum")
		w.like.machine.quantum = (unsigned)n;
	else if (name == "devices")
		w.count = n;
	else if (name == "peers")
		g.peers = n != 0;
	else if (name == "log")
		g.log = n != 0;
	else
		refuse("\"" + name +
			"\" is not known; accepted are sms cc mem free l2 races schedule quantum "
			"devices peers log hits fault");
}

static void begin(Gpus &g)
{
	const char *text = getenv("PTX_DEVICE");
	std::stringstream in(text ? text : "");
	std::string word;
	Words w;

	while (in >> word) {
		size_t equals = word.find('=');

		if (equals == std::string::npos)
			refuse("\"" + word + "\": expected name=value");
		take_word(g, w, word.substr(0, equals), word.substr(equals + 1));
	}
	if (w.count < 1 || w.count > 8 || w.like.machine.sms < 1 || w.total < 2 * SMALL_BYTES)
		refuse("expected 1 to 8 devices, a multiprocessor and 32M of memory at least");
	if (w.like.free_bytes == 0)
		w.like.free_bytes = w.total - SMALL_BYTES;
	g.devices.assign(w.count, w.like);
	for (size_t i = 0; i < g.devices.size(); i++) {
		Machine &m = g.devices[i].machine;
		void *at = mmap(nullptr, w.total, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (at == MAP_FAILED)
			refuse("no memory on the host");
		g.devices[i].index = (int)i;
		m.memory = (char *)at;
		m.size = w.total;
		for (const Fault &f : w.faults)
			if (f.device == (int)i)
				m.faults.push_back(f);
	}
}

// So that a test knows that its fault had its chance.
static void tell_hits()
{
	Gpus &g = gpus();
	FILE *f = fopen(g.hits.c_str(), "a");

	if (!f)
		return;
	for (Device &d : g.devices)
		for (Fault &fault : d.machine.faults)
			fprintf(f, "%llu\n", (unsigned long long)fault.hits);
	fclose(f);
}

Gpus &gpus()
{
	static Gpus g;

	if (g.devices.empty()) {
		begin(g);
		if (!g.hits.empty())
			atexit(tell_hits);
	}
	return g;
}

// ---- memory ----

uint64_t free_of(const Device &d)
{
	uint64_t used = 0;

	for (const Device::Allocation &a : d.allocations)
		used += a.rounded;
	return d.free_bytes > used ? d.free_bytes - used : 0;
}

static uint64_t first_gap(const Device &d, uint64_t at, uint64_t bytes)
{
	for (bool moved = true; moved;) {
		moved = false;
		for (const Device::Allocation &a : d.allocations)
			if (at < a.at + a.rounded && a.at < at + bytes) {
				at = a.at + a.rounded;
				moved = true;
			}
	}
	return at;
}

int take(Device &d, uint64_t bytes, void **ret)
{
	uint64_t rounded = (bytes + 511) & ~511ull, at;

	if (rounded > free_of(d))
		return 2;
	at = first_gap(d, bytes < LARGE ? d.machine.size - SMALL_BYTES : 0, rounded);
	if (at + rounded > d.machine.size)
		return 2;
	d.allocations.push_back({at, rounded});
	for (Fault &f : d.machine.faults)
		if (f.kind == Kind::OVERLAP && bytes >= LARGE && at >= f.lo && f.strikes())
			at -= f.lo;
	d.machine.live.push_back({at, at + bytes});
	if (bytes <= SPOILED)
		memset(d.machine.memory + at, 0xdb, rounded);
	*ret = d.machine.memory + at;
	return 0;
}

int give_back(Device &d, void *at)
{
	uint64_t offset = (uint64_t)((char *)at - d.machine.memory);

	for (size_t i = 0; i < d.machine.live.size(); i++)
		if (d.machine.live[i].from == offset) {
			d.machine.live.erase(d.machine.live.begin() + (long)i);
			d.allocations.erase(d.allocations.begin() + (long)i);
			return 0;
		}
	return 1;
}

Device *owner(const void *at, uint64_t bytes)
{
	for (Device &d : gpus().devices) {
		uint64_t offset = (uint64_t)((const char *)at - d.machine.memory);

		for (const Machine::Range &r : d.machine.live)
			if (offset >= r.from && offset + bytes <= r.to)
				return &d;
	}
	return nullptr;
}

// ---- work ----

int drain(Device &d)
{
	for (size_t i = 0; i < d.queue.size() && !d.sticky; i++)
		d.sticky = d.queue[i]();
	d.queue.clear();
	return d.sticky;
}

int drain_all()
{
	int error = 0;

	for (Device &d : gpus().devices) {
		int e = drain(d);

		error = error ? error : e;
	}
	return error;
}

double seconds_of(Device &d, const std::string &what, double seconds)
{
	for (Fault &f : d.machine.faults)
		if (f.kind == Kind::TIME && (f.what.empty() || f.what == what) && f.strikes())
			seconds *= f.value;
	return seconds;
}

} // namespace ptx

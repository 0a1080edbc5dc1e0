// SPDX-License-Identifier: Apache-2.0
// ptx: the calls of the CUDA runtime that gpuprobe makes, over machines that run PTX: libcudart-ptx.so, for `gpuprobe --cudart FILE`.
// PTX_DEVICE describes the devices, README.md its words. Work on a stream is done when somebody waits for it, so that a wait that is
// missing shows.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>

#include "test/ptx/device.h"

using namespace ptx;

namespace
{

enum {
	INVALID_VALUE = 1,
	INVALID_CONFIGURATION = 9,
	INVALID_DEVICE = 101,
	NO_KERNEL_IMAGE = 209,
	INVALID_PTX = 218,
	PEER_UNSUPPORTED = 217,
	SYMBOL_NOT_FOUND = 500,
	NOT_READY = 600
};

// Rates that the clocks promise are reached to this share.
constexpr double SHARE = 0.9;
constexpr double LAUNCH_S = 3e-6, COPY_S = 5e-6, LINK_RATE = 2.6e10, PEER_RATE = 4e10;
constexpr int FLOPS_PER_CLOCK = 256; // of a multiprocessor
constexpr unsigned BLOCK_THREADS_MAX = 1024;

int current, last;

struct Dim3 {
	unsigned x, y, z;
};

struct Library {
	Module module;
};

struct Kernel {
	const Library *library;
	std::string name;
};

struct Event {
	double at_s = 0;
	bool recorded = false;
};

int done(int error)
{
	last = error ? error : last;
	return error;
}

Device &here()
{
	return gpus().devices[(size_t)current];
}

Device *device_at(int index)
{
	return index >= 0 && (size_t)index < gpus().devices.size() ? &gpus().devices[(size_t)index]
								   : nullptr;
}

double memory_rate(const Device &d)
{
	return 2.0 * d.memory_khz * 1e3 * d.bus_bits / 8;
}

// ---- copies ----

const char *copy_name(const Device *to, const Device *from)
{
	return !from ? "h2d" : !to ? "d2h" : to == from ? "d2d" : "p2p";
}

// Move bytes, and less of them or others where a fault wants it.
void move_bytes(Device &d, const char *name, void *to, const void *from, size_t bytes)
{
	char *end = (char *)to + bytes;

	for (Fault &f : d.machine.faults)
		if (f.kind == Kind::COPY && (f.what.empty() || f.what == name) && f.strikes())
			bytes = (size_t)((double)bytes * f.value);
	memmove(to, from, bytes);
	for (Fault &f : d.machine.faults)
		if (f.kind == Kind::COPY_FLIP && (f.what.empty() || f.what == name) &&
			(char *)to + f.at < end && f.strikes())
			((char *)to)[f.at] = (char)(((char *)to)[f.at] ^ 1 << f.bit);
}

int run_copy(Device &d, const char *name, void *to, const void *from, size_t bytes)
{
	bool peer = strcmp(name, "p2p") == 0, inner = strcmp(name, "d2d") == 0;
	double rate = peer ? PEER_RATE : inner ? SHARE * memory_rate(d) / 2 : LINK_RATE;

	move_bytes(d, name, to, from, bytes);
	if (strcmp(name, "d2h") == 0)
		spoil_copy(d.machine, (uint64_t)((const char *)from - d.machine.memory), bytes,
			(char *)to);
	d.now_s += seconds_of(d, name, COPY_S + (double)bytes / rate);
	return 0;
}

// ---- kernels ----

int run_kernel(Device &d, const Kernel &kernel, unsigned blocks, unsigned threads,
	const std::vector<std::vector<char>> &args)
{
	Machine &m = d.machine;
	Counts before = m.counts;
	std::vector<void *> pointers;
	double bytes, operations;
	clock_t began;
	int error;

	for (const std::vector<char> &a : args)
		pointers.push_back((void *)a.data());
	began = clock();
	error = m.launch(kernel.library->module, kernel.name, blocks, threads, pointers.data());
	bytes = (double)(m.counts.load_bytes - before.load_bytes + m.counts.store_bytes -
			 before.store_bytes);
	operations = 2.0 * (double)(m.counts.fma32 - before.fma32 + m.counts.fma64 - before.fma64) +
		     (double)(m.counts.mma_flops - before.mma_flops);
	d.now_s += seconds_of(d, kernel.name,
		LAUNCH_S + std::fmax(bytes / (SHARE * memory_rate(d)),
				   operations /
					   (SHARE * FLOPS_PER_CLOCK * m.sms * d.clock_khz * 1e3)));
	if (error)
		fprintf(stderr, "ptx: error %d: %s\n", error, m.error.c_str());
	if (gpus().log)
		fprintf(stderr,
			"ptx: %s<%u>: %llu instructions, %.3f s of this processor, error %d\n",
			kernel.name.c_str(), blocks,
			(unsigned long long)(m.counts.insns - before.insns),
			(double)(clock() - began) / CLOCKS_PER_SEC, error);
	return error;
}

std::vector<std::pair<char *, size_t>> pinned;

bool is_pinned(const void *at, size_t bytes)
{
	for (auto &p : pinned)
		if ((const char *)at >= p.first && (const char *)at + bytes <= p.first + p.second)
			return true;
	return false;
}

} // namespace

// NOLINTBEGIN: names and types are CUDA's
extern "C" {

int cudaDriverGetVersion(int *version)
{
	*version = 12090;
	return 0;
}

int cudaRuntimeGetVersion(int *version)
{
	*version = 12090;
	return 0;
}

int cudaGetLastError(void)
{
	int error = last;

	last = 0;
	return error;
}

const char *cudaGetErrorName(int error)
{
	switch (error) {
	case 0:
		return "cudaSuccess";
	case INVALID_VALUE:
		return "cudaErrorInvalidValue";
	case 2:
		return "cudaErrorMemoryAllocation";
	case NO_KERNEL_IMAGE:
		return "cudaErrorNoKernelImageForDevice";
	case INVALID_PTX:
		return "cudaErrorInvalidPtx";
	case 700:
		return "cudaErrorIllegalAddress";
	case 716:
		return "cudaErrorMisalignedAddress";
	case 719:
		return "cudaErrorLaunchFailure";
	default:
		return "cudaErrorUnknown";
	}
}

int cudaGetDeviceCount(int *count)
{
	*count = (int)gpus().devices.size();
	return 0;
}

int cudaSetDevice(int device)
{
	if (!device_at(device))
		return done(INVALID_DEVICE);
	current = device;
	return 0;
}

// By the numbers of cudaDeviceAttr, see probe/runtime/rt.h.
int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
	const Device *d = device_at(device);

	if (!d)
		return done(INVALID_DEVICE);
	switch (attribute) {
	case 13:
		*value = d->clock_khz;
		break;
	case 16:
		*value = d->machine.sms;
		break;
	case 20: /* compute mode: default */
	case 34: /* PCI device */
	case 50: /* PCI domain */
		*value = 0;
		break;
	case 32: /* ECC */
		*value = 1;
		break;
	case 33:
		*value = 16 + device;
		break;
	case 36:
		*value = d->memory_khz;
		break;
	case 37:
		*value = d->bus_bits;
		break;
	case 38:
		*value = d->l2_bytes;
		break;
	case 75:
		*value = d->major;
		break;
	case 76:
		*value = d->minor;
		break;
	default:
		return done(INVALID_VALUE);
	}
	return 0;
}

int cudaGetDeviceProperties_v2(char *properties, int device)
{
	if (!device_at(device))
		return done(INVALID_DEVICE);
	strcpy(properties, "PTX on a CPU");
	for (int i = 0; i < 16; i++)
		properties[256 + i] = (char)(i + 1);
	properties[256 + 15] = (char)(device + 1);
	return 0;
}

int cudaDeviceGetPCIBusId(char *id, int len, int device)
{
	snprintf(id, (size_t)len, "0000:%02x:00.0", 16 + device);
	return 0;
}

int cudaDeviceSynchronize(void)
{
	return done(drain(here()));
}

int cudaDeviceReset(void)
{
	here().queue.clear();
	return 0;
}

int cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	*can = gpus().peers && device != peer;
	return 0;
}

int cudaDeviceEnablePeerAccess(int peer, unsigned)
{
	return done(gpus().peers && device_at(peer) ? 0 : PEER_UNSUPPORTED);
}

int cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
	*free_bytes = free_of(here());
	*total = here().machine.size;
	return done(here().sticky);
}

int cudaMalloc(void **at, size_t bytes)
{
	*at = nullptr;
	if (here().sticky || bytes == 0)
		return done(here().sticky);
	return done(take(here(), bytes, at));
}

int cudaFree(void *at)
{
	Device *d = at ? owner(at, 0) : nullptr;
	int error = drain_all();

	if (error || !at)
		return done(error);
	return done(d ? give_back(*d, at) : INVALID_VALUE);
}

int cudaMemsetAsync(void *at, int value, size_t bytes, void *stream)
{
	Device *d = stream ? (Device *)stream : &here();

	if (d->sticky || !owner(at, bytes))
		return done(d->sticky ? d->sticky : INVALID_VALUE);
	d->queue.push_back([=] {
		for (Fault &f : d->machine.faults)
			if (f.kind == Kind::CLEAR && f.strikes())
				return 0;
		memset(at, value, bytes);
		d->now_s += (double)bytes / memory_rate(*d);
		return 0;
	});
	return 0;
}

// kind: 1 to the device, 2 to the host, 3 between devices
int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
	Device *d = stream ? (Device *)stream : &here();
	Device *target = kind == 2 ? nullptr : owner(to, bytes),
	       *source = kind == 1 ? nullptr : owner(from, bytes);
	const char *name = copy_name(target, source);

	if (d->sticky || (kind != 2 && !target) || (kind != 1 && !source))
		return done(d->sticky ? d->sticky : INVALID_VALUE);
	if (kind == 1 && !is_pinned(from, bytes)) { /* staged before the call returns */
		auto copy = std::make_shared<std::vector<char>>(
			(const char *)from, (const char *)from + bytes);

		d->queue.push_back([=] { return run_copy(*d, name, to, copy->data(), bytes); });
	} else {
		d->queue.push_back([=] { return run_copy(*d, name, to, from, bytes); });
	}
	return 0;
}

int cudaMallocHost(void **at, size_t bytes)
{
	if (posix_memalign(at, 4096, bytes ? bytes : 1) != 0)
		return done(2);
	pinned.emplace_back((char *)*at, bytes);
	return 0;
}

int cudaFreeHost(void *at)
{
	(void)drain_all();
	for (size_t i = 0; i < pinned.size(); i++)
		if (pinned[i].first == at) {
			pinned.erase(pinned.begin() + (long)i);
			break;
		}
	free(at);
	return 0;
}

int cudaStreamCreate(void **stream)
{
	*stream = &here();
	return 0;
}

int cudaStreamDestroy(void *stream)
{
	return done(drain(*(Device *)stream));
}

int cudaStreamSynchronize(void *stream)
{
	return done(drain(stream ? *(Device *)stream : here()));
}

int cudaEventCreate(void **event)
{
	*event = new Event;
	return 0;
}

int cudaEventDestroy(void *event)
{
	(void)drain_all();
	delete (Event *)event;
	return 0;
}

int cudaEventRecord(void *event, void *stream)
{
	Device *d = stream ? (Device *)stream : &here();
	Event *e = (Event *)event;

	e->recorded = false;
	d->queue.push_back([=] {
		*e = {d->now_s, true};
		return 0;
	});
	return done(d->sticky);
}

int cudaEventSynchronize(void *)
{
	return done(drain_all());
}

int cudaEventElapsedTime(float *ms, void *from, void *to)
{
	const Event *a = (const Event *)from, *b = (const Event *)to;

	if (!a->recorded || !b->recorded)
		return done(NOT_READY);
	*ms = (float)((b->at_s - a->at_s) * 1000);
	return 0;
}

int cudaLibraryLoadData(
	void **library, const void *image, void *, void **, unsigned, void *, void **, unsigned)
{
	if (memcmp(image, "\177ELF", 4) == 0)
		return done(NO_KERNEL_IMAGE);
	auto l = std::make_unique<Library>();
	std::string why = l->module.parse((const char *)image);
	if (!why.empty()) {
		fprintf(stderr, "ptx: %s\n", why.c_str());
		return done(INVALID_PTX);
	}
	*library = l.release();
	return 0;
}

int cudaLibraryUnload(void *)
{
	return done(drain_all());
}

int cudaLibraryGetKernel(void **kernel, void *library, const char *name)
{
	const Library *l = (const Library *)library;
	auto f = l->module.functions.find(name);

	if (f == l->module.functions.end() || !f->second.entry)
		return done(SYMBOL_NOT_FOUND);
	*kernel = new Kernel{l, name};
	return 0;
}

int cudaLaunchKernel(
	const void *kernel, Dim3 grid, Dim3 block, void **args, size_t shared, void *stream)
{
	const Kernel *k = (const Kernel *)kernel;
	const Function &f = k->library->module.functions.at(k->name);
	Device *d = stream ? (Device *)stream : &here();
	auto copies = std::make_shared<std::vector<std::vector<char>>>();

	if (d->sticky)
		return done(d->sticky);
	if (grid.x == 0 || grid.y != 1 || grid.z != 1 || block.x == 0 ||
		block.x > BLOCK_THREADS_MAX || block.x % LANES || block.y != 1 || block.z != 1 ||
		shared)
		return done(INVALID_CONFIGURATION);
	for (size_t i = 0; i < f.param_bytes.size(); i++)
		copies->emplace_back((char *)args[i], (char *)args[i] + f.param_bytes[i]);
	d->queue.push_back([=] { return run_kernel(*d, *k, grid.x, block.x, *copies); });
	return 0;
}
}
// NOLINTEND

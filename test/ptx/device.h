// SPDX-License-Identifier: Apache-2.0
// ptx: the GPUs of the CUDA runtime in cudart.cc: a Machine each, with the memory that was given
// out, work that waits for somebody to wait for it, and a clock of its own.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "test/ptx/machine.h"

namespace ptx
{

struct Device {
	struct Allocation {
		uint64_t at, rounded;
	};

	Machine machine;
	int index = 0, major = 13, minor = 0;
	int clock_khz = 1000000, memory_khz = 1000000, bus_bits = 256, l2_bytes = 0;
	uint64_t free_bytes = 0;
	std::vector<Allocation> allocations;
	std::vector<std::function<int()>> queue;
	int sticky = 0; // the error that its context was lost by
	double now_s = 0;
};

struct Gpus {
	std::vector<Device> devices;
	bool peers = false, log = false;
	std::string hits; // a file that gets a line about each fault at the end
};

// All of it, out of the words of PTX_DEVICE at the first call. A word that is not known ends the
// process with status 97.
Gpus &gpus();

// Bytes that are free. Take some, of a size that is none's business: 0, or the number of an error.
uint64_t free_of(const Device &d);
int take(Device &d, uint64_t bytes, void **ret);
int give_back(Device &d, void *at);
// The device whose memory [at, at + bytes) is, all of it given out. NULL: none.
Device *owner(const void *at, uint64_t bytes);

// Do what waits. 0, or the number of the error that the context was lost by.
int drain(Device &d);
int drain_all();

// How long something takes, with what faults make of it. what: a kernel, or h2d, d2h, d2d, p2p.
double seconds_of(Device &d, const std::string &what, double seconds);

} // namespace ptx

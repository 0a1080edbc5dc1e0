/* SPDX-License-Identifier: Apache-2.0 */
/* test: the fake CUDA runtime with one thing spoiled. */
#include "test/unit/spoiled_rt.h"

#include "test/unit/test.h"

#define GARBAGE_MAX 65536
#define OWNED_MAX 4096

struct spoiled_rt spoiled;
static const struct rt *fake;

/* The copy that nobody has waited for. */
static struct {
	void *to;
	const void *from;
	size_t bytes;
	enum rt_copy kind;
	rt_stream stream;
} waiting;

/* Sizes of the kernels' arguments. */
static const struct {
	const char *name, *sizes;
} kernels[] = {{"gp_fill", "88888848"}, {"gp_check", "8888884448888"}, {"gp_read", "888"},
	{"gp_copy", "8888"}, {"gp_fma32", "448448"}, {"gp_fma64", "448448"}, {"gp_mma16", "448448"},
	{"gp_smem", "48888"}, {"gp_nop", "8"}};

static int copy_now(void)
{
	size_t at;
	int error;

	if (!waiting.to)
		return 0;
	if (spoiled.drop_copy > 0 && spoiled.copies + 1 >= spoiled.drop_copy) {
		waiting.to = NULL;
		return 0;
	}
	error = fake->mem_copy(
		waiting.to, waiting.from, waiting.bytes, waiting.kind, waiting.stream);
	spoiled.n_to_device += waiting.kind == RT_HOST_TO_DEVICE;
	spoiled.n_from_device += waiting.kind == RT_DEVICE_TO_HOST;
	if (waiting.bytes > spoiled.largest_copy)
		spoiled.largest_copy = waiting.bytes;
	/* the fake's memory is the host's */
	if (waiting.kind != RT_DEVICE_TO_DEVICE && ++spoiled.copies == spoiled.spoil_copy) {
		at = spoiled.spoil_at < SIZE_MAX / 2 ? spoiled.spoil_at
						     : waiting.bytes + spoiled.spoil_at;
		if (at < waiting.bytes)
			((uint8_t *)waiting.to)[at] ^= spoiled.spoil_bits;
	}
	waiting.to = NULL;
	return error;
}

/* Does this call fail? What was asked for before is done by then. */
static int begin(const char *call)
{
	int error = copy_now();

	assert_int_equal(error, 0);
	spoiled.other_calls_after += spoiled.failed != NULL;
	if (++spoiled.calls != spoiled.fail_at)
		return 0;
	spoiled.failed = call;
	return spoiled.error;
}

/* What was taken and not given back. */
static struct {
	int (*give_back)(void *at);
	void *at;
} owned[OWNED_MAX];

static int give_back(void *at)
{
	unsigned i = 0;

	while (i < spoiled.owned && owned[i].at != at)
		i++;
	assert_true(i < spoiled.owned);
	assert_int_equal(owned[i].give_back(at), 0);
	owned[i] = owned[--spoiled.owned];
	spoiled.given_back_after += spoiled.failed != NULL;
	return 0;
}

/* at: where it stands once it was taken. */
static int take(int error, void *const *at, int (*back)(void *at))
{
	if (error)
		return error;
	assert_true(spoiled.owned < OWNED_MAX);
	owned[spoiled.owned].at = *at;
	owned[spoiled.owned++].give_back = back;
	return 0;
}

static int can_access_peer(int *can, int device, int peer)
{
	int error = begin("cudaDeviceCanAccessPeer");

	return error ? error : fake->can_access_peer(can, device, peer);
}

static int set_device(int device)
{
	int error = begin("cudaSetDevice");

	return error ? error : fake->set_device(device);
}

static int enable_peer(int peer, unsigned flags)
{
	int error = begin("cudaDeviceEnablePeerAccess");

	return error ? error : fake->enable_peer(peer, flags);
}

static int mem_alloc(void **at, size_t bytes)
{
	int error = begin("cudaMalloc");

	if (!error)
		error = take(fake->mem_alloc(at, bytes), at, fake->mem_free);
	if (!error)
		memset(*at, 0xa5, bytes < GARBAGE_MAX ? bytes : GARBAGE_MAX);
	return error;
}

static int mem_free(void *at)
{
	assert_int_equal(copy_now(), 0);
	return give_back(at);
}

static int mem_set(void *at, int value, size_t bytes, rt_stream stream)
{
	int error = begin("cudaMemsetAsync");

	return error ? error : fake->mem_set(at, value, bytes, stream);
}

static int mem_copy(void *to, const void *from, size_t bytes, enum rt_copy kind, rt_stream stream)
{
	int error = begin("cudaMemcpyAsync");

	if (error)
		return error;
	waiting.to = to;
	waiting.from = from;
	waiting.bytes = bytes;
	waiting.kind = kind;
	waiting.stream = stream;
	return 0;
}

static int host_alloc(void **at, size_t bytes)
{
	assert_int_equal(copy_now(), 0);
	return spoiled.pinned_refused ? RT_OUT_OF_MEMORY
				      : take(fake->host_alloc(at, bytes), at, fake->host_free);
}

static int host_free(void *at)
{
	return give_back(at);
}

static int stream_synchronize(rt_stream stream)
{
	int error = begin("cudaStreamSynchronize");

	return error ? error : fake->stream_synchronize(stream);
}

static int event_create(rt_event *event)
{
	int error = begin("cudaEventCreate");

	return error ? error : take(fake->event_create(event), event, fake->event_destroy);
}

static int event_destroy(rt_event event)
{
	return give_back(event);
}

static int event_record(rt_event event, rt_stream stream)
{
	int error = begin("cudaEventRecord");

	return error ? error : fake->event_record(event, stream);
}

static int event_synchronize(rt_event event)
{
	int error = begin("cudaEventSynchronize");

	return error ? error : fake->event_synchronize(event);
}

static int event_elapsed(float *ms, rt_event from, rt_event to)
{
	int error = begin("cudaEventElapsedTime");

	if (!error)
		error = fake->event_elapsed(ms, from, to);
	if (!error && spoiled.n_times > 0) {
		*ms = *spoiled.times++;
		spoiled.n_times--;
	}
	return error;
}

static int library_kernel(rt_kernel *kernel, rt_library library, const char *name)
{
	int error = begin("cudaLibraryGetKernel");

	return error ? error : fake->library_kernel(kernel, library, name);
}

static void note(const char *name, unsigned blocks, void **args)
{
	struct launched *l = &spoiled.launched[spoiled.n_launched % LAUNCHED_MAX];

	spoiled.n_launched++;
	*l = (struct launched){.name = name, .blocks = blocks};
	for (size_t k = 0; k < COUNT(kernels); k++) {
		if (strcmp(kernels[k].name, name) != 0)
			continue;
		for (size_t i = 0; kernels[k].sizes[i]; i++)
			memcpy(&l->arg[i], args[i], (size_t)(kernels[k].sizes[i] - '0'));
	}
}

static int launch_kernel(rt_kernel kernel, struct rt_dim3 grid, struct rt_dim3 block, void **args,
	size_t shared, rt_stream stream)
{
	int error = begin("cudaLaunchKernel");

	if (error)
		return error;
	note(kernel, grid.x, args);
	return spoiled.n_launched == spoiled.leave_out
		       ? 0
		       : fake->launch(kernel, grid, block, args, shared, stream);
}

const struct rt *spoiled_rt_begin(const struct rt *over)
{
	static struct rt table;

	/* What a lost context kept goes as with its process. */
	while (spoiled.owned > 0) {
		spoiled.owned--;
		(void)owned[spoiled.owned].give_back(owned[spoiled.owned].at);
	}
	fake = over;
	memset(&spoiled, 0, sizeof(spoiled));
	waiting.to = NULL;
	table = *over;
	table.can_access_peer = can_access_peer;
	table.set_device = set_device;
	table.enable_peer = enable_peer;
	table.mem_alloc = mem_alloc;
	table.mem_free = mem_free;
	table.mem_set = mem_set;
	table.mem_copy = mem_copy;
	table.host_alloc = host_alloc;
	table.host_free = host_free;
	table.stream_synchronize = stream_synchronize;
	table.event_create = event_create;
	table.event_destroy = event_destroy;
	table.event_record = event_record;
	table.event_synchronize = event_synchronize;
	table.event_elapsed = event_elapsed;
	table.library_kernel = library_kernel;
	table.launch = launch_kernel;
	return &table;
}

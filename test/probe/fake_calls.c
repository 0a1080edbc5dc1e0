/* SPDX-License-Identifier: Apache-2.0 */
/* test: the calls of the fake CUDA runtime on memory, streams, events and kernels. All work is done
 * when a call returns; its time is the device's own clock, which moves by what a GPU would take. */
#include "test/probe/fake_cudart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "probe/runtime/rt.h"

/* Smaller ones are what kernels have left. */
#define IDLE_LEAST (1u << 20)

int cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
	struct fake_device *d;
	int error = fake_begin("cudaMemGetInfo", &d);

	if (error)
		return error;
	*free_bytes = d->free > d->used ? d->free - d->used : 0;
	*total = d->total;
	return 0;
}

int cudaMalloc(void **at, size_t bytes)
{
	struct fake_device *d;
	int error = fake_begin("cudaMalloc", &d);

	return error ? error : fake_done(fake_alloc(d, at, bytes));
}

int cudaMemsetAsync(void *at, int value, size_t bytes, void *stream)
{
	struct fake_device *d;
	int error = fake_begin("cudaMemsetAsync", &d);
	struct fake_memory *m = error ? NULL : fake_find(d, at);

	(void)stream;
	if (error)
		return error;
	if (!m || (size_t)((char *)at - m->at) + bytes > m->bytes)
		return fake_done(RT_INVALID_VALUE);
	fake_host_writes(d, at, bytes);
	if (value == 0 && at == (void *)m->at && bytes == m->bytes)
		(void)madvise(at, bytes, MADV_DONTNEED); /* zeros, and no memory */
	else
		memset(at, value, bytes);
	d->now_s += (double)bytes / fake_peak_memory(d);
	return 0;
}

/* The device that an address belongs to, which may be a peer. */
static struct fake_device *owner(const void *at, size_t bytes)
{
	struct fake_scenario *s = fake();

	for (int i = 0; i < s->n_visible; i++) {
		struct fake_device *d = &s->devices[s->visible[i]];
		struct fake_memory *m = fake_find(d, at);

		if (m)
			return (size_t)((const char *)at - m->at) + bytes <= m->bytes ? d : NULL;
	}
	return NULL;
}

/* Whichever device it belongs to: addresses of all are told apart. */
int cudaFree(void *at)
{
	struct fake_device *d, *of;
	int error = fake_begin("cudaFree", &d);

	if (error || !at)
		return error;
	of = owner(at, 1);
	return fake_done(of ? fake_free(of, at) : RT_INVALID_VALUE);
}

/* Without peer access data go through the host's memory. */
static double rate_between(const struct fake_device *from, const struct fake_device *to)
{
	bool direct = from->peers_on >> (to - fake()->devices) & 1;

	return direct ? from->link * from->factor[SPEED_P2P] : from->link / 4;
}

int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
	struct fake_device *d, *target, *source;
	int error = fake_begin("cudaMemcpyAsync", &d);
	enum fake_speed way;
	double rate;

	(void)stream;
	if (error)
		return error;
	target = owner(to, bytes);
	source = owner(from, bytes);
	if ((kind != RT_DEVICE_TO_HOST && !target) || (kind != RT_HOST_TO_DEVICE && !source))
		return fake_done(RT_INVALID_VALUE);
	way = kind == RT_HOST_TO_DEVICE ? SPEED_H2D : SPEED_D2H;
	rate = d->link * d->factor[way] * fake_share(d, way);
	if (kind == RT_DEVICE_TO_DEVICE)
		rate = target == source ? fake_peak_memory(d) / 2 : rate_between(d, target);
	d->now_s += 5e-6 + (double)bytes / rate;
	if (kind == RT_DEVICE_TO_DEVICE && target != source) {
		fake_send(source, from, target, to, bytes);
		return 0;
	}
	if (d->idle.left != 0 &&
		strcmp(d->idle.kernel, kind == RT_HOST_TO_DEVICE ? "h2d" : "d2h") == 0 &&
		(d->idle.bytes > 0 ? bytes == d->idle.bytes : bytes >= IDLE_LEAST)) {
		d->idle.left -= d->idle.left > 0;
		return 0;
	}
	if (source)
		fake_host_reads(source, from, bytes);
	if (target)
		fake_host_writes(target, to, bytes);
	memcpy(to, from, bytes);
	return 0;
}

int cudaMallocHost(void **at, size_t bytes)
{
	struct fake_device *d;
	int error = fake_begin("cudaMallocHost", &d);

	if (error)
		return error;
	return fake_done(posix_memalign(at, 4096, bytes ? bytes : 1) == 0 ? 0 : RT_OUT_OF_MEMORY);
}

int cudaFreeHost(void *at)
{
	struct fake_device *d;
	int error = fake_begin("cudaFreeHost", &d);

	free(at);
	return error;
}

int cudaStreamCreate(void **stream)
{
	struct fake_device *d;
	int error = fake_begin("cudaStreamCreate", &d);

	if (!error)
		*stream = d;
	return error;
}

int cudaStreamDestroy(void *stream)
{
	struct fake_device *d;

	(void)stream;
	return fake_begin("cudaStreamDestroy", &d);
}

int cudaStreamSynchronize(void *stream)
{
	struct fake_device *d;

	(void)stream;
	return fake_begin("cudaStreamSynchronize", &d);
}

struct event {
	double at_s;
	int64_t nan_launches;
};

int cudaEventCreate(void **event)
{
	struct fake_device *d;
	int error = fake_begin("cudaEventCreate", &d);

	if (error)
		return error;
	*event = calloc(1, sizeof(struct event));
	return fake_done(*event ? 0 : RT_OUT_OF_MEMORY);
}

int cudaEventDestroy(void *event)
{
	struct fake_device *d;
	int error = fake_begin("cudaEventDestroy", &d);

	free(event);
	return error;
}

int cudaEventRecord(void *event, void *stream)
{
	struct fake_device *d;
	int error = fake_begin("cudaEventRecord", &d);

	(void)stream;
	if (!error)
		*(struct event *)event = (struct event){d->now_s, d->nan_launches};
	return error;
}

int cudaEventSynchronize(void *event)
{
	struct fake_device *d;

	(void)event;
	return fake_begin("cudaEventSynchronize", &d);
}

int cudaEventElapsedTime(float *ms, void *from, void *to)
{
	const struct event *a = from, *b = to;
	struct fake_device *d;
	int error = fake_begin("cudaEventElapsedTime", &d);

	if (error)
		return error;
	*ms = (float)((b->at_s - a->at_s) * 1000);
	if (a->nan_launches != b->nan_launches)
		*ms = NAN;
	return 0;
}

int cudaLibraryLoadData(void **library, const void *image, void *jit_options, void **jit_values,
	unsigned n_jit, void *options, void **values, unsigned n_options)
{
	static int loaded;
	struct fake_device *d;
	int error = fake_begin("cudaLibraryLoadData", &d);

	(void)jit_options;
	(void)jit_values;
	(void)options;
	(void)values;
	if (error)
		return error;
	if (!image || n_jit || n_options)
		return fake_done(RT_INVALID_VALUE);
	*library = &loaded;
	return 0;
}

int cudaLibraryUnload(void *library)
{
	struct fake_device *d;

	(void)library;
	return fake_begin("cudaLibraryUnload", &d);
}

/* A kernel is its name. */
int cudaLibraryGetKernel(void **kernel, void *library, const char *name)
{
	struct fake_device *d;
	int error = fake_begin("cudaLibraryGetKernel", &d);
	const char *found = fake_kernel(name);

	(void)library;
	if (error)
		return error;
	if (!found)
		return fake_done(500); /* cudaErrorSymbolNotFound */
	memcpy(kernel, &found, sizeof(found));
	return 0;
}

int cudaLaunchKernel(const void *kernel, struct rt_dim3 grid, struct rt_dim3 block, void **args,
	size_t shared, void *stream)
{
	struct fake_device *d;
	int error;

	(void)stream;
	(void)snprintf(fake_kernel_now, sizeof(fake_kernel_now), "%s", (const char *)kernel);
	error = fake_begin("cudaLaunchKernel", &d);
	if (error)
		return error;
	if (grid.x == 0 || grid.y != 1 || grid.z != 1 || block.x != KERNEL_THREADS ||
		block.y != 1 || block.z != 1 || shared != 0)
		return fake_done(RT_INVALID_VALUE);
	if (strcmp(d->nan_time, kernel) == 0)
		d->nan_launches++;
	d->launches++;
	d->now_s += fake()->launch_s;
	return fake_done(fake_launch(d, kernel, grid.x, args));
}

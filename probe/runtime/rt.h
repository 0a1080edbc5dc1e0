/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the calls of the CUDA runtime that gpuprobe makes, as a table, so that they can come from
 * the runtime that is linked in, from one that is loaded by name, or from a fake. Nothing above
 * this includes a CUDA header, and everything above it builds and is tested without CUDA. Only
 * calls that remote-GPU clients are known to forward are here; loading of kernels is the exception
 * (cudaLibraryLoadData, runtime 12.8). */
#ifndef PROBE_RUNTIME_RT_H
#define PROBE_RUNTIME_RT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Error numbers of the CUDA runtime that are told apart; all others pass as numbers (see codes.h).
 */
enum {
	RT_SUCCESS = 0,
	RT_INVALID_VALUE = 1,
	RT_OUT_OF_MEMORY = 2,
	RT_INITIALIZATION = 3,
	RT_STUB_LIBRARY = 34,
	RT_INSUFFICIENT_DRIVER = 35,
	RT_DEVICE_UNAVAILABLE = 46,
	RT_NO_DEVICE = 100,
	RT_INVALID_DEVICE = 101,
	RT_NO_KERNEL_IMAGE = 209,
	RT_ECC_UNCORRECTABLE = 214,
	RT_NOT_READY = 600,
	RT_LAUNCH_TIMEOUT = 702,
	RT_NOT_PERMITTED = 800,
	RT_SYSTEM_NOT_READY = 802,
	RT_DRIVER_MISMATCH = 803,
	RT_COMPAT_UNSUPPORTED = 804,
	RT_UNKNOWN = 999,
	/* ours: the runtime that was found lacks this call */
	RT_MISSING_CALL = -1
};

/* Numbers of cudaDeviceAttr that are used; the same in every runtime since 10. */
enum rt_attribute {
	RT_ATTR_CLOCK_KHZ = 13,
	RT_ATTR_MULTIPROCESSORS = 16,
	RT_ATTR_COMPUTE_MODE = 20,
	RT_ATTR_ECC = 32,
	RT_ATTR_PCI_BUS = 33,
	RT_ATTR_PCI_DEVICE = 34,
	RT_ATTR_MEMORY_CLOCK_KHZ = 36,
	RT_ATTR_BUS_WIDTH_BITS = 37,
	RT_ATTR_L2_BYTES = 38,
	RT_ATTR_PCI_DOMAIN = 50,
	RT_ATTR_CAPABILITY_MAJOR = 75,
	RT_ATTR_CAPABILITY_MINOR = 76
};

enum rt_copy { RT_HOST_TO_DEVICE = 1, RT_DEVICE_TO_HOST = 2, RT_DEVICE_TO_DEVICE = 3 };

/* The runtime copies its cudaDeviceProp here, of whatever size its version has; name, uuid and
 * total memory have stayed where they were. */
#define RT_PROPERTIES_BYTES 4096
#define RT_PROPERTIES_NAME 0
#define RT_PROPERTIES_UUID 256
#define RT_PROPERTIES_MEMORY 288 /* totalGlobalMem, a size_t */

/* Passed by value in a launch, laid out as CUDA's dim3. */
struct rt_dim3 {
	unsigned x, y, z;
};

/* What the runtime hands out; only it looks inside. */
typedef void *rt_stream;
typedef void *rt_event;
typedef void *rt_library;
typedef void *rt_kernel;

/* Every member returns an error number of the runtime, or RT_MISSING_CALL; none is NULL. Arguments
 * are those of the cuda call that stands beside it. */
struct rt {
	const char *link; /* "static", "shared" or "dlopen"; a literal */

	int (*driver_version)(int *version);  /* cudaDriverGetVersion: 12090; 0 without a driver */
	int (*runtime_version)(int *version); /* cudaRuntimeGetVersion */
	const char *(*error_name)(int error); /* cudaGetErrorName; never NULL */
	int (*last_error)(void);              /* cudaGetLastError */

	int (*device_count)(
		int *count);           /* cudaGetDeviceCount; *count stays as it was on an error */
	int (*set_device)(int device); /* cudaSetDevice */
	int (*device_attribute)(int *value, enum rt_attribute attribute, int device);
	int (*device_properties)(
		void *properties, int device); /* RT_PROPERTIES_BYTES zeroed bytes */
	int (*device_pci)(
		char *id, int len, int device); /* cudaDeviceGetPCIBusId: "0000:17:00.0" */
	int (*device_synchronize)(void);
	int (*device_reset)(void);
	int (*can_access_peer)(int *can, int device, int peer);
	int (*enable_peer)(int peer, unsigned flags);

	int (*mem_info)(size_t *free, size_t *total); /* bytes; makes the context */
	int (*mem_alloc)(void **at, size_t bytes);    /* cudaMalloc */
	int (*mem_free)(void *at);
	int (*mem_set)(void *at, int value, size_t bytes, rt_stream stream); /* async */
	int (*mem_copy)(void *to, const void *from, size_t bytes, enum rt_copy kind,
		rt_stream stream);                  /* async */
	int (*host_alloc)(void **at, size_t bytes); /* cudaMallocHost: pinned */
	int (*host_free)(void *at);

	int (*stream_create)(rt_stream *stream);
	int (*stream_destroy)(rt_stream stream);
	int (*stream_synchronize)(rt_stream stream);
	int (*event_create)(rt_event *event);
	int (*event_destroy)(rt_event event);
	int (*event_record)(rt_event event, rt_stream stream);
	int (*event_synchronize)(rt_event event);
	int (*event_elapsed)(float *ms, rt_event from, rt_event to);

	int (*library_load)(
		rt_library *library, const void *image); /* cudaLibraryLoadData without options */
	int (*library_unload)(rt_library library);
	int (*library_kernel)(rt_kernel *kernel, rt_library library, const char *name);
	int (*launch)(rt_kernel kernel, struct rt_dim3 grid, struct rt_dim3 block, void **args,
		size_t shared, rt_stream stream);
};

/* The runtime this program comes with: the one it was linked with (rt_linked.c, with CUDA), or in
 * builds without CUDA that of rt_dlopen(NULL). Nothing to close. Errors of rt_dlopen. */
int rt_default(struct rt *ret, struct err *err);

/* The runtime in the shared library `file`; with NULL one that is already in the process (an
 * interposer that was preloaded), else libcudart.so.13, .12, .11.0 by the loader's search. It stays
 * loaded until the program ends. A call it lacks answers RT_MISSING_CALL; without
 * cudaGetDeviceCount it is none: ERR_INVALID. ERR_NOTFOUND: no such library, err says what the
 * loader said. */
int rt_dlopen(const char *file, struct rt *ret, struct err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the runtime that is linked in, static or shared (RT_LINK says which). The one file that
 * includes CUDA's headers, so that their compiler checks what is called; in place of rt_unlinked.c.
 */
#include <cuda_runtime_api.h>
#include <string.h>

#include "probe/runtime/rt.h"
#include "probe/runtime/rt_calls.h"

#ifndef RT_LINK
#define RT_LINK "static"
#endif

_Static_assert(sizeof(struct rt_dim3) == sizeof(struct dim3), "dim3");
_Static_assert(sizeof(struct cudaDeviceProp) <= RT_PROPERTIES_BYTES, "properties");
_Static_assert(offsetof(struct cudaDeviceProp, uuid) == RT_PROPERTIES_UUID, "uuid");
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(RT_ATTR_CLOCK_KHZ, cudaDevAttrClockRate);
SAME(RT_ATTR_MULTIPROCESSORS, cudaDevAttrMultiProcessorCount);
SAME(RT_ATTR_COMPUTE_MODE, cudaDevAttrComputeMode);
SAME(RT_ATTR_ECC, cudaDevAttrEccEnabled);
SAME(RT_ATTR_PCI_BUS, cudaDevAttrPciBusId);
SAME(RT_ATTR_PCI_DEVICE, cudaDevAttrPciDeviceId);
SAME(RT_ATTR_MEMORY_CLOCK_KHZ, cudaDevAttrMemoryClockRate);
SAME(RT_ATTR_BUS_WIDTH_BITS, cudaDevAttrGlobalMemoryBusWidth);
SAME(RT_ATTR_L2_BYTES, cudaDevAttrL2CacheSize);
SAME(RT_ATTR_PCI_DOMAIN, cudaDevAttrPciDomainId);
SAME(RT_ATTR_CAPABILITY_MAJOR, cudaDevAttrComputeCapabilityMajor);
SAME(RT_ATTR_CAPABILITY_MINOR, cudaDevAttrComputeCapabilityMinor);
SAME(RT_HOST_TO_DEVICE, cudaMemcpyHostToDevice);
SAME(RT_DEVICE_TO_HOST, cudaMemcpyDeviceToHost);
SAME(RT_DEVICE_TO_DEVICE, cudaMemcpyDeviceToDevice);
SAME(RT_OUT_OF_MEMORY, cudaErrorMemoryAllocation);
SAME(RT_INITIALIZATION, cudaErrorInitializationError);
SAME(RT_STUB_LIBRARY, cudaErrorStubLibrary);
SAME(RT_INSUFFICIENT_DRIVER, cudaErrorInsufficientDriver);
SAME(RT_DEVICE_UNAVAILABLE, cudaErrorDevicesUnavailable);
SAME(RT_NO_DEVICE, cudaErrorNoDevice);
SAME(RT_INVALID_DEVICE, cudaErrorInvalidDevice);
SAME(RT_NO_KERNEL_IMAGE, cudaErrorNoKernelImageForDevice);
SAME(RT_ECC_UNCORRECTABLE, cudaErrorECCUncorrectable);
SAME(RT_NOT_READY, cudaErrorNotReady);
SAME(RT_LAUNCH_TIMEOUT, cudaErrorLaunchTimeout);
SAME(RT_NOT_PERMITTED, cudaErrorNotPermitted);
SAME(RT_SYSTEM_NOT_READY, cudaErrorSystemNotReady);
SAME(RT_DRIVER_MISMATCH, cudaErrorSystemDriverMismatch);
SAME(RT_COMPAT_UNSUPPORTED, cudaErrorCompatNotSupportedOnDevice);
SAME(RT_UNKNOWN, cudaErrorUnknown);

#define LINKED(member, name, parameters, arguments)                                                \
	static int linked_##member parameters                                                      \
	{                                                                                          \
		return (int)name arguments;                                                        \
	}
RT_CALLS(LINKED)

static const char *linked_error_name(int error)
{
	return cudaGetErrorName((cudaError_t)error);
}

static int linked_device_properties(void *properties, int device)
{
	struct cudaDeviceProp found;
	int error;

	memset(&found, 0, sizeof(found));
	error = (int)cudaGetDeviceProperties(&found, device);
	memcpy(properties, &found, sizeof(found));
	return error;
}

static int linked_library_load(rt_library *library, const void *image)
{
	return (int)cudaLibraryLoadData(
		(cudaLibrary_t *)library, image, NULL, NULL, 0, NULL, NULL, 0);
}

static int linked_launch(rt_kernel kernel, struct rt_dim3 grid, struct rt_dim3 block, void **args,
	size_t shared, rt_stream stream)
{
	struct dim3 g = {grid.x, grid.y, grid.z}, b = {block.x, block.y, block.z};

	return (int)cudaLaunchKernel(kernel, g, b, args, shared, (cudaStream_t)stream);
}

int rt_default(struct rt *ret, struct err *err)
{
	(void)err;
	*ret = (struct rt){
		.link = RT_LINK,
#define MEMBER(member, name, parameters, arguments) .member = linked_##member,
		RT_CALLS(MEMBER)
#undef MEMBER
			.error_name = linked_error_name,
		.device_properties = linked_device_properties,
		.library_load = linked_library_load,
		.launch = linked_launch,
	};
	return 0;
}

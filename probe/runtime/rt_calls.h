/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the members of struct rt whose arguments are those of the CUDA call, as a list, so that
 * loading, linking and refusing are written once. CALL(member, the call's name, parameters,
 * arguments). Not among them: library_load, which leaves out six arguments, error_name, which
 * returns a text, and device_properties, whose name depends on the version. */
#ifndef PROBE_RUNTIME_RT_CALLS_H
#define PROBE_RUNTIME_RT_CALLS_H

/* clang-format off */
#define RT_CALLS(CALL) \
	CALL(driver_version, cudaDriverGetVersion, (int *version), (version)) \
	CALL(runtime_version, cudaRuntimeGetVersion, (int *version), (version)) \
	CALL(last_error, cudaGetLastError, (void), ()) \
	CALL(device_count, cudaGetDeviceCount, (int *count), (count)) \
	CALL(set_device, cudaSetDevice, (int device), (device)) \
	CALL(device_attribute, cudaDeviceGetAttribute, (int *value, enum rt_attribute attribute, int device), \
		(value, (enum cudaDeviceAttr)attribute, device)) \
	CALL(device_pci, cudaDeviceGetPCIBusId, (char *id, int len, int device), (id, len, device)) \
	CALL(device_synchronize, cudaDeviceSynchronize, (void), ()) \
	CALL(device_reset, cudaDeviceReset, (void), ()) \
	CALL(can_access_peer, cudaDeviceCanAccessPeer, (int *can, int device, int peer), (can, device, peer)) \
	CALL(enable_peer, cudaDeviceEnablePeerAccess, (int peer, unsigned flags), (peer, flags)) \
	CALL(mem_info, cudaMemGetInfo, (size_t *free_bytes, size_t *total), (free_bytes, total)) \
	CALL(mem_alloc, cudaMalloc, (void **at, size_t bytes), (at, bytes)) \
	CALL(mem_free, cudaFree, (void *at), (at)) \
	CALL(mem_set, cudaMemsetAsync, (void *at, int value, size_t bytes, rt_stream stream), \
		(at, value, bytes, (cudaStream_t)stream)) \
	CALL(mem_copy, cudaMemcpyAsync, (void *to, const void *from, size_t bytes, enum rt_copy kind, rt_stream stream), \
		(to, from, bytes, (enum cudaMemcpyKind)kind, (cudaStream_t)stream)) \
	CALL(host_alloc, cudaMallocHost, (void **at, size_t bytes), (at, bytes)) \
	CALL(host_free, cudaFreeHost, (void *at), (at)) \
	CALL(stream_create, cudaStreamCreate, (rt_stream *stream), ((cudaStream_t *)stream)) \
	CALL(stream_destroy, cudaStreamDestroy, (rt_stream stream), ((cudaStream_t)stream)) \
	CALL(stream_synchronize, cudaStreamSynchronize, (rt_stream stream), ((cudaStream_t)stream)) \
	CALL(event_create, cudaEventCreate, (rt_event *event), ((cudaEvent_t *)event)) \
	CALL(event_destroy, cudaEventDestroy, (rt_event event), ((cudaEvent_t)event)) \
	CALL(event_record, cudaEventRecord, (rt_event event, rt_stream stream), ((cudaEvent_t)event, (cudaStream_t)stream)) \
	CALL(event_synchronize, cudaEventSynchronize, (rt_event event), ((cudaEvent_t)event)) \
	CALL(event_elapsed, cudaEventElapsedTime, (float *ms, rt_event from, rt_event to), \
		(ms, (cudaEvent_t)from, (cudaEvent_t)to)) \
	CALL(library_unload, cudaLibraryUnload, (rt_library library), ((cudaLibrary_t)library)) \
	CALL(library_kernel, cudaLibraryGetKernel, (rt_kernel *kernel, rt_library library, const char *name), \
		((cudaKernel_t *)kernel, (cudaLibrary_t)library, name))
/* clang-format on */

#endif

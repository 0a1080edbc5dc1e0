/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the runtime that is loaded by name, call by call. */
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "probe/runtime/rt.h"
#include "probe/runtime/rt_calls.h"

/* What a call that is missing answers. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define MISSING(member, name, parameters, arguments)                                               \
	static int no_##member parameters                                                          \
	{                                                                                          \
		return RT_MISSING_CALL;                                                            \
	}
RT_CALLS(MISSING) /* NOLINT(misc-unused-parameters) */
#pragma GCC diagnostic pop

static int no_device_properties(void *properties, int device)
{
	(void)properties;
	(void)device;
	return RT_MISSING_CALL;
}

static int no_library_load(rt_library *library, const void *image)
{
	(void)library;
	(void)image;
	return RT_MISSING_CALL;
}

static int no_launch(rt_kernel kernel, struct rt_dim3 grid, struct rt_dim3 block, void **args,
	size_t shared, rt_stream stream)
{
	(void)kernel;
	(void)grid;
	(void)block;
	(void)args;
	(void)shared;
	(void)stream;
	return RT_MISSING_CALL;
}

static const char *no_error_name(int error)
{
	(void)error;
	return "";
}

/* cudaLibraryLoadData as it is. A table's member has no place to keep it, so the last runtime that
 * has it is called; a process works with one. */
typedef int (*load_data)(rt_library *library, const void *image, void *jit_options,
	void **jit_values, unsigned n_jit, void *options, void **values, unsigned n_options);
static load_data loaded_load_data;

static int call_library_load(rt_library *library, const void *image)
{
	return loaded_load_data(library, image, NULL, NULL, 0, NULL, NULL, 0);
}

/* One call into its pointer, which stays as it is when there is none. */
static bool find(void *handle, const char *name, void *ret_pointer)
{
	void *found = dlsym(handle, name);

	/* ISO C has no conversion from object to function pointers; POSIX promises that they look
	 * alike. */
	if (found)
		memcpy(ret_pointer, &found, sizeof(found));
	return found != NULL;
}

static void fill(struct rt *rt, void *handle)
{
	rt->link = "dlopen";
#define FIND(member, name, parameters, arguments)                                                  \
	rt->member = no_##member;                                                                  \
	find(handle, #name, &rt->member);
	RT_CALLS(FIND)
#undef FIND
	rt->error_name = no_error_name;
	find(handle, "cudaGetErrorName", &rt->error_name);
	rt->launch = no_launch;
	find(handle, "cudaLaunchKernel", &rt->launch);
	/* 12.x calls the one that fills its own structure _v2; the plain name there is the smaller
	 * structure of 11. */
	rt->device_properties = no_device_properties;
	if (!find(handle, "cudaGetDeviceProperties_v2", &rt->device_properties))
		find(handle, "cudaGetDeviceProperties", &rt->device_properties);
	rt->library_load = no_library_load;
	if (find(handle, "cudaLibraryLoadData", &loaded_load_data))
		rt->library_load = call_library_load;
}

/* The newest that is found. RTLD_DEFAULT comes first, so that a client that was preloaded gets the
 * calls. */
static void *any_runtime(void)
{
	static const char *const names[] = {
		"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
	void *handle = NULL;

	if (dlsym(RTLD_DEFAULT, "cudaGetDeviceCount"))
		return RTLD_DEFAULT;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !handle; i++)
		handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	return handle;
}

int rt_dlopen(const char *file, struct rt *ret, struct err *err)
{
	void *handle = NULL;

	if (file) {
		handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
		if (!handle) {
			const char *why = dlerror();

			return err_set(err, ERR_NOTFOUND, "cannot load the CUDA runtime: %s",
				why ? why : file);
		}
		if (!dlsym(handle, "cudaGetDeviceCount")) {
			dlclose(handle);
			return err_set(err, ERR_INVALID,
				"%s is no CUDA runtime: it has no cudaGetDeviceCount", file);
		}
		fill(ret, handle);
		return 0;
	}
	handle = any_runtime();
	/* RTLD_DEFAULT is a null pointer with the GNU C library. */
	if (!handle && !dlsym(RTLD_DEFAULT, "cudaGetDeviceCount")) {
		const char *why = dlerror();

		return err_set(err, ERR_NOTFOUND,
			"no CUDA runtime (libcudart.so.13, .12 or .11.0) was found: %s",
			why ? why : "unknown reason");
	}
	fill(ret, handle);
	return 0;
}

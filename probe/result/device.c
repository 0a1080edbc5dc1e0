/* SPDX-License-Identifier: Apache-2.0 */
/* probe: what the CUDA runtime says of a GPU. */
#include "probe/result/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/runtime/host.h"

/* No GPU has more; a runtime that does not fill its properties leaves anything there. */
#define MEMORY_MOST (1ull << 44)

/* The driver that a runtime of this version needs at least, as NVIDIA counts drivers. */
static int driver_branch(int runtime)
{
	return runtime >= 13000 ? 580 : runtime >= 12000 ? 525 : 450;
}

/* The runtime's own word for an error, behind ours. */
static const char *word(const struct rt *rt, int error)
{
	const char *name = error == RT_MISSING_CALL ? "" : rt->error_name(error);

	return name ? name : "";
}

static void tell_no_device(struct report *r, int error)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	if (r->pci < 0) /* whoever asks the bus says more of it */
		(void)report_add_error(r, -1, CODE_NO_DEVICE, error,
			visible ? "CUDA_VISIBLE_DEVICES is \"%.100s\""
				: "cudaGetDeviceCount found none%s",
			visible ? visible : "");
	else if (visible)
		(void)report_add_error(r, -1, CODE_NO_DEVICE, error,
			"CUDA_VISIBLE_DEVICES is \"%.100s\"; the PCI bus shows %d GPUs", visible,
			r->pci > 0 ? r->pci : 0);
	else if (r->pci > 0)
		(void)report_add_error(r, -1, CODE_NO_DEVICE, error,
			"the PCI bus shows %d GPUs that the driver does not", r->pci);
	else
		(void)report_add_error(
			r, -1, CODE_NO_DEVICE, error, "none is on the PCI bus either");
}

static void tell(const struct rt *rt, struct report *r, enum probe_code code, int error)
{
	int driver = r->driver_cuda, runtime = r->cudart;

	if (code == CODE_NO_DEVICE)
		tell_no_device(r, error);
	else if (code == CODE_DRIVER_TOO_OLD)
		(void)report_add_error(r, -1, code, error,
			"the driver supports CUDA %d.%d, this program needs %d.%d: driver %d or "
			"newer; "
			"%s",
			driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10,
			driver_branch(runtime), word(rt, error));
	else if (code == CODE_RUNTIME_INCOMPLETE)
		(void)report_add_error(r, -1, code, 0, "cudaGetDeviceCount is missing");
	else
		(void)report_add_error(
			r, -1, code, error, "CUDA error %d, %s", error, word(rt, error));
}

enum probe_code device_count(const struct rt *rt, struct report *r)
{
	int driver = 0, runtime = 0, count = -1, error;
	enum probe_code code;

	/* Without a driver this succeeds and says 0, while all else says that the driver is too
	 * old. */
	r->driver_cuda = rt->driver_version(&driver) == RT_SUCCESS ? driver : 0;
	r->cudart = rt->runtime_version(&runtime) == RT_SUCCESS ? runtime : 0;
	(void)snprintf(r->link, sizeof(r->link), "%s", rt->link ? rt->link : "");
	error = rt->device_count(&count);
	code = code_of_cuda(error, r->driver_cuda, r->cudart);
	if (code == CODE_NONE && count == 0)
		code = CODE_NO_DEVICE;
	r->cuda = code == CODE_NONE ? count : code == CODE_NO_DEVICE ? 0 : -1;
	if (code == CODE_NONE && (count < 0 || count > REPORT_GPUS_MAX)) {
		r->cuda = -1;
		code = CODE_CUDA_ERROR;
		(void)report_add_error(r, -1, code, 0,
			"the runtime counts %d GPUs; accepted are at most %d", count,
			REPORT_GPUS_MAX);
	} else if (code != CODE_NONE) {
		tell(rt, r, code, error);
	}
	return code;
}

/* A value that is not negative, or -1. */
static int attribute(const struct rt *rt, enum rt_attribute which, int device)
{
	int value = -1;

	if (rt->device_attribute(&value, which, device) != RT_SUCCESS || value < 0)
		return -1;
	return value;
}

/* Printable ASCII as it is, all else '?': it goes to terminals and into JSON. */
static void copy_name(char *to, size_t size, const char *from)
{
	size_t n = 0;

	for (; n + 1 < size && from[n]; n++)
		to[n] = from[n] >= ' ' && from[n] <= '~' ? from[n] : '?';
	to[n] = '\0';
}

static void take_uuid(const unsigned char *bytes, struct gpu_report *gpu)
{
	static const unsigned char none[16];
	size_t at;

	if (memcmp(bytes, none, sizeof(none)) == 0)
		return;
	at = (size_t)snprintf(gpu->uuid, sizeof(gpu->uuid), gpu->mig == 1 ? "MIG-" : "GPU-");
	for (int i = 0; i < 16; i++)
		at += (size_t)snprintf(gpu->uuid + at, sizeof(gpu->uuid) - at, "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
}

static void take_pci(const struct rt *rt, int index, struct gpu_report *gpu)
{
	char text[64] = "";

	if (rt->device_pci(text, sizeof(text) - 1, index) != RT_SUCCESS ||
		!host_pci_id(text, gpu->pci)) {
		int domain = attribute(rt, RT_ATTR_PCI_DOMAIN, index);
		int bus = attribute(rt, RT_ATTR_PCI_BUS, index);
		int device = attribute(rt, RT_ATTR_PCI_DEVICE, index);

		if (domain < 0 || bus < 0 || device < 0)
			return;
		(void)snprintf(text, sizeof(text), "%04x:%02x:%02x.0", (unsigned)domain,
			(unsigned)bus, (unsigned)device);
		(void)host_pci_id(text, gpu->pci);
	}
}

static int mhz(int khz)
{
	return khz > 0 ? khz / 1000 : -1;
}

/* Without a context, and so before device_memory(), whose figure is the one that counts. */
static void take_memory(const unsigned char *bytes, struct gpu_report *gpu)
{
	uint64_t total;

	memcpy(&total, bytes, sizeof(total));
	if (total > 0 && total <= MEMORY_MOST)
		gpu->memory_total_bytes = (int64_t)total;
}

enum probe_code device_describe(
	const struct rt *rt, int index, struct gpu_report *ret, int *cuda_error)
{
	/* static size, of whatever version the runtime is; pointers are laid out for it */
	union {
		unsigned char bytes[RT_PROPERTIES_BYTES];
		uint64_t align;
	} properties;
	int ecc;

	report_gpu_init(ret);
	ret->index = index;
	memset(&properties, 0, sizeof(properties));
	*cuda_error = rt->device_properties(properties.bytes, index);
	if (*cuda_error != RT_SUCCESS) {
		int driver = 0, runtime = 0;

		(void)rt->driver_version(&driver);
		(void)rt->runtime_version(&runtime);
		return code_of_cuda(*cuda_error, driver, runtime);
	}
	/* the field has 256 bytes, and the memory behind it is not a name */
	properties.bytes[RT_PROPERTIES_NAME + 255] = '\0';
	copy_name(
		ret->name, sizeof(ret->name), (const char *)properties.bytes + RT_PROPERTIES_NAME);
	/* The runtime has no attribute for it; the name of an instance is "NVIDIA H200 MIG
	 * 1g.18gb". */
	ret->mig = strstr(ret->name, " MIG ") ? 1 : -1;
	take_uuid(properties.bytes + RT_PROPERTIES_UUID, ret);
	take_memory(properties.bytes + RT_PROPERTIES_MEMORY, ret);
	take_pci(rt, index, ret);
	ret->cc_major = attribute(rt, RT_ATTR_CAPABILITY_MAJOR, index);
	ret->cc_minor = attribute(rt, RT_ATTR_CAPABILITY_MINOR, index);
	ret->sm_count = attribute(rt, RT_ATTR_MULTIPROCESSORS, index);
	ecc = attribute(rt, RT_ATTR_ECC, index);
	ret->ecc = ecc > 0 ? 1 : ecc;
	ret->compute_mode = attribute(rt, RT_ATTR_COMPUTE_MODE, index);
	ret->l2_bytes = attribute(rt, RT_ATTR_L2_BYTES, index);
	ret->clock_max_mhz = mhz(attribute(rt, RT_ATTR_CLOCK_KHZ, index));
	ret->memory_clock_max_mhz = mhz(attribute(rt, RT_ATTR_MEMORY_CLOCK_KHZ, index));
	ret->memory_bus_bits = attribute(rt, RT_ATTR_BUS_WIDTH_BITS, index);
	return CODE_NONE;
}

enum probe_code device_memory(const struct rt *rt, struct gpu_report *ret, int *cuda_error)
{
	size_t free_bytes = 0, total = 0;
	int driver = 0, runtime = 0;

	*cuda_error = rt->mem_info(&free_bytes, &total);
	if (*cuda_error != RT_SUCCESS) {
		(void)rt->driver_version(&driver);
		(void)rt->runtime_version(&runtime);
		return code_of_cuda(*cuda_error, driver, runtime);
	}
	if (total == 0 || free_bytes > total || total > INT64_MAX)
		return CODE_CUDA_ERROR;
	ret->memory_total_bytes = (int64_t)total;
	ret->memory_free_bytes = (int64_t)free_bytes;
	return CODE_NONE;
}

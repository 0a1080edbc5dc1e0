/* SPDX-License-Identifier: Apache-2.0 */
/* test: the calls of the fake CUDA runtime that ask for devices. */
#include "test/probe/fake_cudart.h"

#include <stdio.h>
#include <string.h>

#include "probe/runtime/rt.h"
#include "test/probe/fake_present.h"

int cudaDriverGetVersion(int *version)
{
	*version = fake()->driver;
	return fake_done(fake_rules("cudaDriverGetVersion", NULL));
}

int cudaRuntimeGetVersion(int *version)
{
	*version = fake()->runtime;
	return fake_done(fake_rules("cudaRuntimeGetVersion", NULL));
}

int cudaGetDeviceCount(int *count)
{
	int error = fake_rules("cudaGetDeviceCount", NULL);

	if (!error)
		error = fake_environment();
	if (!error)
		*count = fake()->n_visible;
	return fake_done(error);
}

int cudaSetDevice(int device)
{
	struct fake_device *d;
	int error = fake_begin_at("cudaSetDevice", device, &d);

	if (!error) {
		fake_current = device;
		fake_present(0);
	}
	return error;
}

static int attribute_of(const struct fake_device *d, int attribute, int *value)
{
	unsigned domain = 0, bus = 0, slot = 0;

	(void)sscanf(d->pci, "%x:%x:%x", &domain, &bus, &slot);
	switch (attribute) {
	case RT_ATTR_CLOCK_KHZ:
		*value = d->clock_khz;
		break;
	case RT_ATTR_MULTIPROCESSORS:
		*value = d->sms;
		break;
	case RT_ATTR_COMPUTE_MODE:
		*value = d->compute_mode;
		break;
	case RT_ATTR_ECC:
		*value = d->ecc;
		break;
	case RT_ATTR_PCI_BUS:
		*value = (int)bus;
		break;
	case RT_ATTR_PCI_DEVICE:
		*value = (int)slot;
		break;
	case RT_ATTR_PCI_DOMAIN:
		*value = (int)domain;
		break;
	case RT_ATTR_MEMORY_CLOCK_KHZ:
		*value = d->memory_clock_khz;
		break;
	case RT_ATTR_BUS_WIDTH_BITS:
		*value = d->bus_bits;
		break;
	case RT_ATTR_L2_BYTES:
		*value = d->l2_bytes;
		break;
	case RT_ATTR_CAPABILITY_MAJOR:
		*value = d->major;
		break;
	case RT_ATTR_CAPABILITY_MINOR:
		*value = d->minor;
		break;
	default:
		return RT_INVALID_VALUE;
	}
	return 0;
}

int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
	struct fake_device *d;
	int error = fake_begin_at("cudaDeviceGetAttribute", device, &d);

	return error ? error : fake_done(attribute_of(d, attribute, value));
}

/* Name, UUID and total memory, which is all that is where it was in every version. */
static int properties(void *to, int device)
{
	struct fake_device *d;
	int error = fake_begin_at("cudaGetDeviceProperties", device, &d);
	const char *hex = error ? "" : strchr(d->says[0] ? d->says : d->uuid, '-');
	unsigned char *uuid = (unsigned char *)to + RT_PROPERTIES_UUID;

	if (error)
		return error;
	memset(to, 0, RT_PROPERTIES_MEMORY);
	memcpy((char *)to + RT_PROPERTIES_MEMORY, &d->total, sizeof(d->total));
	memcpy((char *)to + RT_PROPERTIES_NAME, d->name, sizeof(d->name));
	for (int i = 0; hex && *hex && i < 16; hex++) {
		unsigned byte;

		if (*hex == '-' || sscanf(hex, "%2x", &byte) != 1)
			continue;
		uuid[i++] = (unsigned char)byte;
		hex++;
	}
	return 0;
}

int cudaGetDeviceProperties(void *to, int device)
{
	return properties(to, device);
}

int cudaGetDeviceProperties_v2(void *to, int device)
{
	return properties(to, device);
}

int cudaDeviceGetPCIBusId(char *id, int len, int device)
{
	struct fake_device *d;
	int error = fake_begin_at("cudaDeviceGetPCIBusId", device, &d);

	if (error)
		return error;
	if (len < 13)
		return fake_done(RT_INVALID_VALUE);
	(void)snprintf(id, (size_t)len, "%s", d->pci);
	return 0;
}

int cudaDeviceSynchronize(void)
{
	struct fake_device *d;

	return fake_begin("cudaDeviceSynchronize", &d);
}

int cudaDeviceReset(void)
{
	struct fake_device *d;
	int error = fake_begin("cudaDeviceReset", &d);

	if (!error)
		fake_free_all(d);
	return error;
}

int cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	struct fake_device *a, *b;
	int error = fake_begin_at("cudaDeviceCanAccessPeer", device, &a);

	if (!error)
		error = fake_begin_at("cudaDeviceCanAccessPeer", peer, &b);
	if (!error)
		*can = device != peer && a->peers && b->peers;
	return error;
}

int cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	struct fake_device *d, *other;
	int error = fake_begin("cudaDeviceEnablePeerAccess", &d);
	uint64_t bit;

	(void)flags;
	if (!error)
		error = fake_begin_at("cudaDeviceEnablePeerAccess", peer, &other);
	if (error)
		return error;
	if (!d->peers || !other->peers)
		return fake_done(217); /* cudaErrorPeerAccessUnsupported */
	bit = 1ull << (other - fake()->devices);
	if (d->peers_on & bit)
		return fake_done(704); /* cudaErrorPeerAccessAlreadyEnabled */
	d->peers_on |= bit;
	return 0;
}

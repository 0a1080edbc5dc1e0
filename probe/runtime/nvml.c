/* SPDX-License-Identifier: Apache-2.0 */
/* probe: the GPUs that NVML has, and their MIG instances. */
#include <limits.h>
#include <string.h>

#include "probe/runtime/host.h"
#include "probe/runtime/nvml_impl.h"

int nvml_count(struct nvml *n)
{
	unsigned count = 0;

	if (!n->count || n->count(&count) != NVML_SUCCESS || count > INT_MAX)
		return -1;
	return (int)count;
}

int nvml_find(struct nvml *n, const char *pci, nvml_device *ret, struct err *err)
{
	unsigned degrees;
	int rc;

	*ret = NULL;
	if (!n->by_pci)
		return err_set(err, ERR_NOTFOUND, "NVML cannot look for %s", pci);
	rc = n->by_pci(pci, ret);
	if (rc == NVML_NOT_FOUND || rc == NVML_INVALID_ARGUMENT)
		return err_set(err, ERR_NOTFOUND, "NVML does not know %s", pci);
	/* NVML hands out what it knew of a GPU that is gone by now: only a live value shows that */
	if (rc == NVML_SUCCESS && n->temperature &&
		n->temperature(*ret, TEMPERATURE_OF_GPU, &degrees) == NVML_GPU_IS_LOST)
		rc = NVML_GPU_IS_LOST;
	if (rc == NVML_SUCCESS)
		return 0;
	*ret = NULL;
	return err_set(err, ERR_IO, "NVML says of %s: %s (%d)", pci, nvml_word(n, rc), rc);
}

int nvml_identify(struct nvml *n, int i, char *uuid, size_t uuid_size, char *pci, size_t pci_size,
	struct err *err)
{
	struct pci_info info;
	nvml_device device = NULL;
	char id[PCI_ID_MAX];
	int rc;

	uuid[0] = pci[0] = '\0';
	if (i < 0 || !n->by_index || !n->pci)
		return err_set(err, ERR_NOTFOUND, "NVML cannot look for number %d", i);
	memset(&info, 0, sizeof(info));
	rc = n->by_index((unsigned)i, &device);
	if (rc == NVML_SUCCESS)
		rc = n->pci(device, &info);
	if (rc == NVML_NOT_FOUND || rc == NVML_INVALID_ARGUMENT)
		return err_set(err, ERR_NOTFOUND, "NVML does not know number %d", i);
	if (rc != NVML_SUCCESS)
		return err_set(
			err, ERR_IO, "NVML says of number %d: %s (%d)", i, nvml_word(n, rc), rc);
	info.id[sizeof(info.id) - 1] = '\0';
	if (!host_pci_id(info.id, id) || strlen(id) >= pci_size)
		return err_set(err, ERR_IO, "NVML names no PCI id of number %d", i);
	memcpy(pci, id, strlen(id) + 1);
	if (!n->uuid || n->uuid(device, uuid, (unsigned)uuid_size) != NVML_SUCCESS)
		uuid[0] = '\0';
	uuid[uuid_size - 1] = '\0';
	return 0;
}

int nvml_instances_max(struct nvml *n, nvml_device device)
{
	int most = nvml_read(n->instances_max, device);

	return most > 0 && n->instance && n->uuid ? most : 0;
}

int nvml_instance(struct nvml *n, nvml_device device, int i, nvml_device *ret, char *uuid,
	size_t uuid_size, struct err *err)
{
	int rc = n->instance(device, (unsigned)i, ret);

	uuid[0] = '\0';
	if (rc == NVML_NOT_FOUND || rc == NVML_INVALID_ARGUMENT)
		return err_set(err, ERR_NOTFOUND, "no instance of number %d", i);
	if (rc == NVML_SUCCESS)
		rc = n->uuid(*ret, uuid, (unsigned)uuid_size);
	if (rc != NVML_SUCCESS)
		return err_set(
			err, ERR_IO, "NVML says of instance %d: %s (%d)", i, nvml_word(n, rc), rc);
	uuid[uuid_size - 1] = '\0';
	if (strncmp(uuid, "MIG-", 4) != 0 || strncmp(uuid, "MIG-GPU-", 8) == 0)
		return err_set(err, ERR_NOTFOUND, "instance %d has no UUID of its own", i);
	return 0;
}

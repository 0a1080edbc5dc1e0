/* SPDX-License-Identifier: Apache-2.0 */
/* probe: which GPUs a run is about. CUDA shows a process at most one MIG instance, and then no
 * whole GPU beside it; NVML knows them all. */
#include "probe/run_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "probe/runtime/host.h"

/* Were some of the machine's GPUs taken away on purpose: from CUDA, or from this container? */
static bool is_hidden(void)
{
	const char *cuda = getenv("CUDA_VISIBLE_DEVICES"),
		   *container = getenv("NVIDIA_VISIBLE_DEVICES");

	return (cuda && cuda[0]) || (container && container[0] && strcmp(container, "all") != 0);
}

/* May CUDA use what has this UUID? When CUDA_VISIBLE_DEVICES is set: is it named there, or its
 * beginning? */
static bool is_allowed(const char *uuid)
{
	const char *at = getenv("CUDA_VISIBLE_DEVICES");

	if (!at || !at[0])
		return true;
	for (;;) {
		size_t len = strcspn(at, ",");

		if (len > 4 && strncasecmp(at, uuid, len) == 0)
			return true;
		if (!at[len])
			return false;
		at += len + 1;
	}
}

static struct gpu_report *find_uuid(const struct report *r, const char *uuid)
{
	for (size_t i = 0; i < r->n_gpus; i++)
		if (strcmp(r->gpus[i].uuid, uuid) == 0)
			return &r->gpus[i];
	return NULL;
}

static bool has_uuid(const struct run_facts *f, const char *uuid)
{
	for (size_t i = 0; i < f->n_gpus; i++)
		if (strcmp(f->gpus[i].uuid, uuid) == 0)
			return true;
	return false;
}

/* The instance that CUDA shows, when it calls it by a name that NVML does not know: some runtimes
 * give it the UUID of its GPU. It is the first one, as CUDA takes it. */
static struct gpu_report *find_nameless(
	const struct run_facts *f, const struct report *r, const char *pci)
{
	for (size_t i = 0; i < r->n_gpus; i++) {
		struct gpu_report *gpu = &r->gpus[i];

		if (gpu->mig == 1 && !gpu->by_uuid && host_same_pci(gpu->pci, pci) &&
			!has_uuid(f, gpu->uuid))
			return gpu;
	}
	return NULL;
}

/* A GPU or instance that CUDA shows to who names it. */
static void add_by_uuid(struct report *r, const struct gpu_facts *known, int mig)
{
	struct gpu_report *gpu = report_add_gpu(r);
	char id[PCI_ID_MAX];

	if (!gpu)
		return;
	gpu->index = (int)r->n_gpus - 1;
	gpu->mig = mig;
	gpu->by_uuid = true;
	(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", known->uuid);
	(void)snprintf(
		gpu->pci, sizeof(gpu->pci), "%s", host_pci_id(known->pci, id) ? id : known->pci);
}

static bool add_instances(const struct run_facts *f, struct report *r)
{
	bool any = false;

	for (size_t i = 0; i < f->n_gpus; i++) {
		const struct gpu_facts *known = &f->gpus[i];
		struct gpu_report *gpu;

		if (!report_is_instance(known->uuid) || !is_allowed(known->uuid))
			continue;
		any = true;
		gpu = find_uuid(r, known->uuid);
		if (!gpu)
			gpu = find_nameless(f, r, known->pci);
		if (gpu) {
			gpu->by_uuid = true;
			(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", known->uuid);
		} else {
			add_by_uuid(r, known, 1);
		}
	}
	return any;
}

static bool is_there(const struct report *r, const char *pci)
{
	for (size_t i = 0; i < r->n_gpus; i++)
		if (host_same_pci(r->gpus[i].pci, pci))
			return true;
	return false;
}

/* GPUs that are whole, beside instances of others. */
static void add_whole(const struct run_facts *f, struct report *r)
{
	for (size_t i = 0; i < f->n_gpus; i++) {
		const struct gpu_facts *known = &f->gpus[i];

		if (strncmp(known->uuid, "GPU-", 4) == 0 && !known->lost &&
			known->before.mig != 1 && !is_there(r, known->pci))
			add_by_uuid(r, known, 0);
	}
}

/* A GPU that PCI or NVML knows and CUDA does not. */
static void add_one_lost(
	struct report *r, const char *pci, const struct gpu_facts *known, const char *who)
{
	struct gpu_report *gpu;
	char id[PCI_ID_MAX];

	if (!host_pci_id(pci, id) || is_there(r, id))
		return;
	gpu = report_add_gpu(r);
	if (!gpu)
		return;
	gpu->index = (int)r->n_gpus - 1;
	(void)snprintf(gpu->pci, sizeof(gpu->pci), "%s", id);
	(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", known ? known->uuid : "");
	if (known && !known->lost && known->before.mig == 1)
		(void)report_add_error(r, gpu->index, CODE_MIG_MODE, 0,
			"MIG is on, and it has no instance that could be used here");
	else if (r->cuda <= 0)
		return; /* why CUDA has none stands in the report */
	else if (run_facts_instance(r))
		(void)report_add_error(r, gpu->index, CODE_NOT_RUN, 0,
			"CUDA shows a process one MIG instance, so this one could not be checked");
	else
		(void)report_add_error(r, gpu->index, CODE_GPU_MISSING, 0,
			"%s at %s, and CUDA does not see it", who, id);
}

/* What NVML said of the GPU, not an instance, at this place. */
static const struct gpu_facts *find_whole(const struct run_facts *f, const char *pci)
{
	for (size_t i = 0; i < f->n_gpus; i++)
		if (!report_is_instance(f->gpus[i].uuid) && host_same_pci(f->gpus[i].pci, pci))
			return &f->gpus[i];
	return NULL;
}

void run_gpus_complete(const struct run_facts *f, struct report *r)
{
	bool instances = !r->remote && r->cuda > 0 && add_instances(f, r);

	if (is_hidden() || r->remote)
		return;
	if (instances)
		add_whole(f, r);
	for (size_t i = 0; i < f->n_host; i++)
		add_one_lost(
			r, f->host[i].pci, find_whole(f, f->host[i].pci), "it is on the PCI bus");
	for (size_t i = 0; i < f->n_gpus; i++)
		add_one_lost(r, f->gpus[i].pci, find_whole(f, f->gpus[i].pci), "NVML knows it");
}

void run_gpus_count(struct report *r)
{
	int shown = 0;

	for (size_t i = 0; i < r->n_gpus; i++)
		shown += r->gpus[i].name[0] != '\0';
	if (r->cuda > 0 && shown > r->cuda)
		r->cuda = shown;
}

void run_gpus_parents(const struct run_facts *f, struct report *r)
{
	for (size_t i = 0; i < r->n_gpus; i++) {
		struct gpu_report *gpu = &r->gpus[i];
		const struct gpu_facts *whole = gpu->mig == 1 ? find_whole(f, gpu->pci) : NULL;

		if (whole)
			memcpy(gpu->parent, whole->uuid, sizeof(gpu->parent));
	}
}

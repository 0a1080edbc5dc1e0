/* SPDX-License-Identifier: Apache-2.0 */
/* probe: who computes on a GPU, and how much of its memory he has. */
#include <stdlib.h>

#include "probe/runtime/nvml_impl.h"

/* More than a GPU takes contexts for. */
#define PROCESSES_MAX 1024

/* What one of NVML's two lists has, behind those that are there; a process stands in both at most
 * once each, and counts once. */
static int add(struct nvml *n, call_processes call, nvml_device device, struct nvml_process *to,
	size_t max, size_t *n_to, struct err *err)
{
	struct process_info *found = calloc(PROCESSES_MAX, sizeof(*found));
	unsigned count = PROCESSES_MAX;
	size_t had = *n_to;
	int rc = found ? call(device, &count, found) : 0;

	if (!found)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (rc == NVML_INSUFFICIENT_SIZE || (rc == NVML_SUCCESS && count > PROCESSES_MAX)) {
		rc = err_set(err, ERR_TOOBIG, "more than %d processes", PROCESSES_MAX);
	} else if (rc != NVML_SUCCESS) {
		rc = err_set(err, ERR_IO, "NVML says: %s (%d)", nvml_word(n, rc), rc);
	} else {
		for (unsigned i = 0; i < count && rc == 0; i++) {
			size_t at = 0;

			while (at < had && to[at].pid != found[i].pid)
				at++;
			if (at < had)
				continue;
			if (*n_to == max)
				rc = err_set(err, ERR_TOOBIG, "more than %zu processes", max);
			else
				to[(*n_to)++] = (struct nvml_process){found[i].pid, found[i].bytes};
		}
	}
	free(found);
	return rc;
}

int nvml_processes(struct nvml *n, nvml_device device, struct nvml_process *ret, size_t max,
	size_t *ret_n, struct err *err)
{
	int rc;

	*ret_n = 0;
	if (!n->processes_told)
		return err_set(err, ERR_NOTFOUND, "this driver does not say who has how much");
	rc = add(n, n->processes_told, device, ret, max, ret_n, err);
	/* a driver without MPS says that it does not support the question */
	if (rc == 0 && n->mps_processes &&
		add(n, n->mps_processes, device, ret, max, ret_n, err) == ERR_TOOBIG)
		rc = ERR_TOOBIG;
	return rc;
}

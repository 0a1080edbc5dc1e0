/* SPDX-License-Identifier: Apache-2.0 */
/* probe: who computes on a GPU, and how much of its memory he has. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/runtime/nvml_impl.h"

/* More than a GPU takes contexts for. */
#define PROCESSES_MAX 1024
/* nvidia-cuda-mps-server: the kernel keeps 15 letters of a name. */
#define MPS_SERVER "nvidia-cuda-mps\n"

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

/* It has a context for its clients, and computes nothing itself. Of another process of that number,
 * as in a container, the name is another one, or none. */
static bool is_mps_server(unsigned pid)
{
	char path[32], name[32];
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, name, sizeof(name) - 1) : 0;
	if (fd >= 0)
		(void)close(fd);
	name[n > 0 ? n : 0] = '\0';
	return strcmp(name, MPS_SERVER) == 0;
}

int nvml_computing(struct nvml *n, nvml_device device, int plain)
{
	struct nvml_process *found = calloc(PROCESSES_MAX, sizeof(*found));
	size_t had = 0, all = 0;
	struct err err = {0};
	int rc = found && plain >= 0 && n->processes_told && n->mps_processes ? 0 : ERR_NOTFOUND;

	if (rc == 0)
		rc = add(n, n->processes_told, device, found, PROCESSES_MAX, &had, &err);
	all = had;
	/* where nobody tells of its clients, a server may have some */
	if (rc == 0)
		rc = add(n, n->mps_processes, device, found, PROCESSES_MAX, &all, &err);
	for (size_t i = 0; rc == 0 && i < all; i++)
		plain += i >= had ? 1 : plain > 0 && is_mps_server(found[i].pid) ? -1 : 0;
	free(found);
	return plain;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* probe: one look at a GPU, or at a MIG instance, and who computes on it. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/runtime/nvml_impl.h"

/* ---- processes ---- */

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

/* How many compute on it, of which the plain list has so many: clients of MPS, too, and no server
 * of MPS, which is there without any. -1 stays so. */
static int nvml_computing(struct nvml *n, nvml_device device, int plain)
{
	struct nvml_process *found;
	size_t had = 0, all = 0;
	struct err err = {0};
	int rc;

	if (plain < 0 || !n->processes_told || !n->mps_processes)
		return plain;
	found = calloc(PROCESSES_MAX, sizeof(*found));
	if (!found)
		return plain;
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

/* ---- a GPU ---- */

#define ECC_CORRECTED 0
#define ECC_UNCORRECTED 1
#define ECC_VOLATILE 0
#define FIELD_RECOVERY_ACTION 230

/* NVML marks what it does not know by all ones, too. */
static int known(int rc, unsigned value)
{
	return rc == NVML_SUCCESS && value <= INT_MAX ? (int)value : -1;
}

int nvml_read(call_unsigned call, nvml_device device)
{
	unsigned value = 0;
	int rc = call ? call(device, &value) : -1;

	return known(rc, value);
}

static int read_enum(call_enum call, nvml_device device)
{
	int value = -1;

	return call && call(device, &value) == NVML_SUCCESS && value >= 0 ? value : -1;
}

static int64_t read_ecc(const struct nvml *n, nvml_device device, int kind)
{
	unsigned long long value = 0;

	if (!n->ecc || n->ecc(device, kind, ECC_VOLATILE, &value) != NVML_SUCCESS ||
		value > INT64_MAX)
		return -1;
	return (int64_t)value;
}

static void look_at_size(const struct nvml *n, nvml_device device, struct nvml_state *s)
{
	struct memory m = {0, 0, 0};

	s->memory_total = s->memory_free = -1;
	if (n->memory && n->memory(device, &m) == NVML_SUCCESS && m.total <= INT64_MAX &&
		m.free <= m.total) {
		s->memory_total = (int64_t)m.total;
		s->memory_free = (int64_t)m.free;
	}
}

static void look_at_memory(const struct nvml *n, nvml_device device, struct nvml_state *s)
{
	unsigned corrected, uncorrected, pending, failed;

	s->ecc_uncorrected = read_ecc(n, device, ECC_UNCORRECTED);
	s->ecc_corrected = read_ecc(n, device, ECC_CORRECTED);
	s->retire_pending = read_enum(n->retire_pending, device);
	if (n->remapped &&
		n->remapped(device, &corrected, &uncorrected, &pending, &failed) == NVML_SUCCESS) {
		s->remap_correctable = known(NVML_SUCCESS, corrected);
		s->remap_uncorrectable = known(NVML_SUCCESS, uncorrected);
		s->remap_pending = pending != 0;
		s->remap_failed = failed != 0;
	}
	look_at_size(n, device, s);
}

/* How many; it is asked without room for them, which every driver knows. */
static int count_processes(struct nvml *n, nvml_device device)
{
	unsigned count = 0;
	int rc = n->processes ? n->processes(device, &count, NULL) : -1;

	if (rc == NVML_INSUFFICIENT_SIZE)
		rc = NVML_SUCCESS;
	return nvml_computing(n, device, known(rc, count));
}

static int read_recovery(const struct nvml *n, nvml_device device)
{
	struct field_value f;

	memset(&f, 0, sizeof(f));
	f.id = FIELD_RECOVERY_ACTION;
	if (!n->fields || n->fields(device, 1, &f) != NVML_SUCCESS || f.status != NVML_SUCCESS)
		return -1;
	/* a double is none of the types it could have; all others begin with the same bytes */
	return f.type == 0 ? -1 : known(NVML_SUCCESS, f.value.u);
}

/* Calls with other arguments than the device and one number. */
static void look_at_more(const struct nvml *n, nvml_device device, struct nvml_state *s)
{
	unsigned value = 0, pending = 0;
	unsigned long long mask = 0;
	struct utilization u = {0, 0};
	int rc;

	rc = n->temperature ? n->temperature(device, TEMPERATURE_OF_GPU, &value) : -1;
	s->temperature_c = known(rc, value);
	rc = n->throttle ? n->throttle(device, &mask) : -1;
	s->throttle_known = rc == NVML_SUCCESS;
	s->throttle = rc == NVML_SUCCESS ? mask : 0;
	rc = n->mig ? n->mig(device, &value, &pending) : -1;
	s->mig = known(rc, value);
	rc = n->utilization ? n->utilization(device, &u) : -1;
	s->utilization_percent = u.gpu <= 100 ? known(rc, u.gpu) : -1;
}

void nvml_look(struct nvml *n, nvml_device device, struct nvml_state *ret)
{
	memset(ret, 0xff, sizeof(*ret)); /* every number is -1 */
	look_at_more(n, device, ret);
	look_at_memory(n, device, ret);
	ret->power_mw = nvml_read(n->power, device);
	ret->power_limit_mw = nvml_read(n->power_limit, device);
	ret->power_default_mw = nvml_read(n->power_default, device);
	ret->compute_mode = read_enum(n->compute_mode, device);
	ret->persistence = read_enum(n->persistence, device);
	ret->pcie_gen = nvml_read(n->pcie_gen, device);
	ret->pcie_gen_max = nvml_read(n->pcie_gen_max, device);
	ret->pcie_width = nvml_read(n->pcie_width, device);
	ret->pcie_width_max = nvml_read(n->pcie_width_max, device);
	ret->pcie_replays = nvml_read(n->pcie_replays, device);
	ret->processes = count_processes(n, device);
	ret->recovery_action = read_recovery(n, device);
}

void nvml_look_instance(struct nvml *n, nvml_device instance, struct nvml_state *s)
{
	look_at_size(n, instance, s);
	s->processes = count_processes(n, instance);
	s->utilization_percent = -1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* probe: a worker that looks at NVML. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "probe/nvml.h"
#include "probe/worker.h"
#include "probe/worker_wire.h"

#define STEP_LIMIT_S 20.0
#define EVERY_NS 400000000

static bool say_within(int fd, const char *phase)
{
	struct wire_line line = {.kind = WIRE_WITHIN, .seconds = STEP_LIMIT_S};

	(void)snprintf(line.text, sizeof(line.text), "%s", phase);
	return wire_send(&line, fd);
}

static void nothing_known(struct nvml_state *s)
{
	memset(s, 0xff, sizeof(*s)); /* every number is -1 */
	s->throttle_known = false;
	s->throttle = 0;
}

/* The MIG instances of a GPU that was looked at: what is not their own is the GPU's. False: nobody listens. */
static bool look_at_instances(
	struct nvml *n, nvml_device device, const struct wire_state *whole, int fd)
{
	int most = nvml_instances_max(n, device);

	for (int i = 0; i < most; i++) {
		struct wire_line line = {.kind = WIRE_STATE, .state = *whole};
		nvml_device instance;

		if (nvml_instance(n, device, i, &instance, line.state.uuid, sizeof(line.state.uuid),
			    NULL) != 0)
			continue;
		nvml_look_instance(n, instance, &line.state.nvml);
		if (!wire_send(&line, fd))
			return false;
	}
	return true;
}

/* One look at each GPU. False: nobody listens. */
static bool look(struct nvml *n, int count, int fd)
{
	for (int i = 0; i < count; i++) {
		struct wire_line line = {.kind = WIRE_STATE};
		struct wire_state *s = &line.state;
		nvml_device device;
		struct err err = {0};

		if (!say_within(fd, "nvml"))
			return false;
		if (nvml_identify(n, i, s->uuid, sizeof(s->uuid), s->pci, sizeof(s->pci), &err) !=
			0)
			continue; /* it is missing in the count of GPUs */
		s->lost = nvml_find(n, s->pci, &device, &err) != 0;
		if (s->lost)
			nothing_known(&s->nvml);
		else
			nvml_look(n, device, &s->nvml);
		if (!wire_send(&line, fd))
			return false;
		if (!s->lost && !look_at_instances(n, device, s, fd))
			return false;
	}
	return true;
}

int worker_nvml(const struct worker_job *job, int fd, bool (*stopped)(void *), void *arg)
{
	struct wire_line line = {.kind = WIRE_NVML, .devices = -1};
	struct wire_line done = {.kind = WIRE_DONE};
	struct err err = {0};
	struct nvml *n;
	int count = 0;
	bool heard = say_within(fd, "nvml");

	if (nvml_open(job->nvml, &n, &err) != 0) {
		(void)snprintf(
			line.text, sizeof(line.text), "%.*s", (int)sizeof(line.text) - 1, err.msg);
		return heard && wire_send(&line, fd) && wire_send(&done, fd) ? 0 : 3;
	}
	count = nvml_count(n);
	line.devices = count;
	(void)snprintf(line.text, sizeof(line.text), "%s", nvml_driver_version(n));
	heard = heard && wire_send(&line, fd);
	while (job->task == TASK_NVML_WATCH && heard && !stopped(arg)) {
		struct timespec nap = {.tv_nsec = EVERY_NS};

		heard = look(n, count, fd);
		if (heard && !stopped(arg))
			(void)nanosleep(&nap, NULL);
	}
	/* the last one: what the checks have done to the counters */
	heard = heard && look(n, count, fd);
	heard = heard && wire_send(&done, fd);
	nvml_close(n);
	return heard ? 0 : 3;
}

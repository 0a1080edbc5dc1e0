/* SPDX-License-Identifier: Apache-2.0 */
/* probe: a worker that looks at NVML. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "probe/check/worker.h"
#include "probe/check/worker_tell.h"
#include "probe/runtime/nvml.h"

#define STEP_LIMIT_S 20.0
#define EVERY_NS 400000000
/* Utilization is that of the last second at most. */
#define FORGOTTEN_NS 200000000
#define FORGOTTEN_S 1

static void nothing_known(struct nvml_state *s)
{
	memset(s, 0xff, sizeof(*s)); /* every number is -1 */
	s->throttle_known = false;
	s->throttle = 0;
}

/* The MIG instances of a GPU that was looked at: what is not their own is the GPU's. */
static void look_at_instances(
	struct nvml *n, nvml_device device, const struct wire_state *whole, struct worker_tell *t)
{
	int most = nvml_instances_max(n, device);

	for (int i = 0; i < most && !t->unheard; i++) {
		struct wire_line line = {.kind = WIRE_STATE, .state = *whole};
		nvml_device instance;

		if (nvml_instance(n, device, i, &instance, line.state.uuid, sizeof(line.state.uuid),
			    NULL) != 0)
			continue;
		nvml_look_instance(n, instance, &line.state.nvml);
		tell_line(t, &line);
	}
}

/* One look at each GPU. wait: once, where what was in use a moment ago may be free now. */
static void look(struct nvml *n, int count, bool wait, struct worker_tell *t)
{
	for (int i = 0; i < count && !t->unheard; i++) {
		struct wire_line line = {.kind = WIRE_STATE};
		struct wire_state *s = &line.state;
		nvml_device device;
		struct err err = {0};

		tell_within(t, "nvml", STEP_LIMIT_S);
		if (nvml_identify(n, i, s->uuid, sizeof(s->uuid), s->pci, sizeof(s->pci), &err) !=
			0)
			continue; /* it is missing in the count of GPUs */
		s->lost = nvml_find(n, s->pci, &device, &err) != 0;
		if (s->lost)
			nothing_known(&s->nvml);
		else
			nvml_look(n, device, &s->nvml);
		if (wait && !s->lost && nvml_was_busy(&s->nvml)) {
			struct timespec nap = {FORGOTTEN_S, FORGOTTEN_NS};

			(void)nanosleep(&nap, NULL);
			nvml_look(n, device, &s->nvml);
			wait = false;
		}
		tell_line(t, &line);
		if (!s->lost)
			look_at_instances(n, device, s, t);
	}
}

int worker_nvml(const struct worker_job *job, int fd, bool (*stopped)(void *), void *arg)
{
	struct worker_tell t = {.fd = fd, .stopped = stopped, .arg = arg};
	struct wire_line line = {.kind = WIRE_NVML, .devices = -1};
	struct err err = {0};
	struct nvml *n;
	int count;

	tell_within(&t, "nvml", STEP_LIMIT_S);
	if (nvml_open(job->nvml, &n, &err) != 0) {
		(void)snprintf(
			line.text, sizeof(line.text), "%.*s", (int)sizeof(line.text) - 1, err.msg);
		tell_line(&t, &line);
		tell_done(&t);
		return tell_status(&t, 0);
	}
	count = nvml_count(n);
	line.devices = count;
	(void)snprintf(line.text, sizeof(line.text), "%s", nvml_driver_version(n));
	tell_line(&t, &line);
	while (job->task == TASK_NVML_WATCH && !tell_ends(&t)) {
		struct timespec nap = {.tv_nsec = EVERY_NS};

		look(n, count, false, &t);
		if (!tell_ends(&t))
			(void)nanosleep(&nap, NULL);
	}
	/* the last one: what the checks have done to the counters */
	look(n, count, job->task == TASK_NVML, &t);
	tell_done(&t);
	nvml_close(n);
	return tell_status(&t, 0);
}

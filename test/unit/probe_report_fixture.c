/* SPDX-License-Identifier: Apache-2.0 */
/* test: reports of GPUs on which everything passed. */
#include "test/unit/probe_report_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void passed_check(struct check_result *c, enum check_id id)
{
	check_begin(c, id);
	c->duration_s = 0.25;
	if (id == CHECK_MEM_PATTERN) {
		c->bytes_tested = 134217728000;
		c->coverage_percent = 90;
		c->errors = 0;
	}
	if (id == CHECK_EXACT_FP32 || id == CHECK_EXACT_FP64 || id == CHECK_EXACT_TENSOR) {
		c->errors = 0;
		c->sms_visited = c->sms_total = 132;
	}
	check_pass(c);
	if ((id >= CHECK_MEM_READ && id <= CHECK_TENSOR_RATE) ||
		(id >= CHECK_REMOTE_RTT && id <= CHECK_D2H_32M)) {
		c->unit = id <= CHECK_D2H_32M && id != CHECK_REMOTE_BANDWIDTH ? "s" : "B/s";
		c->value = id == CHECK_H2D ? 55e9 : 4.425e12;
		if (id == CHECK_MEM_READ) {
			c->expected = 4.917e12;
			c->warn_below = 0.8;
			c->fail_below = 0.7;
			c->basis = BASIS_CLOCK;
		}
		check_judge_rate(c);
	}
}

static void describe(struct gpu_report *g, int index)
{
	g->index = index;
	snprintf(g->uuid, sizeof(g->uuid), "GPU-00000000-0000-4000-8000-%012d", index);
	snprintf(g->name, sizeof(g->name), "NVIDIA H200");
	snprintf(g->pci, sizeof(g->pci), "0000:%02x:00.0", 0x17 + index);
	g->cc_major = 9;
	g->cc_minor = 0;
	g->sm_count = 132;
	g->ecc = 1;
	g->mig = 0;
	g->compute_mode = 0;
	g->memory_total_bytes = 150051225600;
	g->memory_free_bytes = 149422080000;
	g->l2_bytes = 52428800;
	g->clock_max_mhz = 1980;
	g->memory_clock_max_mhz = 3201;
	g->memory_bus_bits = 6144;
	g->utilization_percent = 0;
	g->processes = 0;
}

void healthy_report(struct report *r, enum probe_profile profile, int n)
{
	static const char *const commands[] = {"list", "verify", "verify", "stress", "bench"};

	report_init(r);
	r->command = commands[profile];
	r->profile = profile;
	r->complete = true;
	r->started_at = 1795196411; /* 2026-11-20T17:40:11Z */
	r->duration_s = 4.3;
	r->seed = 7;
	snprintf(r->host, sizeof(r->host), "gpu-01");
	r->vm = 1;
	snprintf(r->link, sizeof(r->link), "static");
	snprintf(r->archs, sizeof(r->archs), "sm_75 sm_90 compute_120");
	r->cudart = 12090;
	r->driver_cuda = 13000;
	snprintf(r->driver_version, sizeof(r->driver_version), "580.159.04");
	r->nvml = true;
	r->expected = r->pci = r->nvml_count = r->cuda = n;
	for (int i = 0; i < n; i++) {
		struct gpu_report *g = report_add_gpu(r);

		if (!g)
			abort();
		describe(g, i);
		for (unsigned k = 0; k < CHECK_COUNT; k++) {
			struct check_result c;

			if (check_kind((enum check_id)k)->need[profile] == NEED_NOT_RUN)
				continue;
			passed_check(&c, (enum check_id)k);
			if (!report_set_check(g, &c))
				abort();
		}
	}
}

void lose_check(struct gpu_report *gpu, enum check_id id)
{
	free(gpu->checks[id]);
	gpu->checks[id] = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: any bytes as a file of thresholds. What is accepted can judge: shares between 0 and 1 with
 * the warning first, rates above 0; and a rate that is no number never passes by it. */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "probe/result/thresholds.h"
#include "test/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_share(const struct threshold *t)
{
	REQUIRE(isnan(t->warn_below) || (t->warn_below >= 0 && t->warn_below <= 1));
	REQUIRE(isnan(t->fail_below) || (t->fail_below >= 0 && t->fail_below <= 1));
	REQUIRE(!(t->warn_below < t->fail_below));
}

static void check_judges(const struct thresholds *t, const struct gpu_report *gpu)
{
	static const double values[] = {0, 1, 1e12, 4e12, 1e300};
	struct check_result r;

	for (int id = CHECK_MEM_READ; id <= CHECK_TENSOR_RATE; id++) {
		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			check_begin(&r, (enum check_id)id);
			r.value = values[i];
			thresholds_expect(t, gpu, &r);
			REQUIRE((r.basis == BASIS_NONE) == !(r.expected > 0));
			check_judge_rate(&r);
			REQUIRE(i > 0 || r.status == STATUS_FAIL);
		}
		check_begin(&r, (enum check_id)id);
		thresholds_expect(t, gpu, &r);
		check_judge_rate(&r);
		REQUIRE(r.status == STATUS_FAIL && r.code == CODE_NOT_A_NUMBER);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char name[32];
	struct thresholds t;
	struct gpu_report gpu;
	struct err err = {0};
	int rc;

	if (fd < 0) {
		fd = memfd_create("thresholds", MFD_CLOEXEC);
		REQUIRE(fd >= 0);
		(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	}
	REQUIRE(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	thresholds_init(&t);
	rc = thresholds_read(&t, name, &err);
	REQUIRE(rc == 0 ? !err.msg[0] : rc == (int)err.code && err.msg[0]);
	report_gpu_init(&gpu);
	gpu.memory_total_bytes = 100;
	gpu.memory_clock_max_mhz = 3201;
	gpu.memory_bus_bits = 6144;
	(void)snprintf(
		gpu.name, sizeof(gpu.name), "%s", t.n_references ? t.references[0].name : "H");
	if (t.n_references)
		gpu.memory_total_bytes = t.references[0].memory_total_bytes;
	if (rc == 0) {
		for (int i = 0; i < CHECK_COUNT; i++)
			check_share(&t.of[i]);
		check_share(&t.peers);
		for (size_t i = 0; i < t.n_references; i++)
			for (int k = 0; k < CHECK_COUNT; k++)
				REQUIRE(isnan(t.references[i].rate[k]) ||
					t.references[i].rate[k] > 0);
		check_judges(&t, &gpu);
	}
	thresholds_release(&t);
	return 0;
}

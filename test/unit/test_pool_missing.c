/* SPDX-License-Identifier: Apache-2.0 */
/* test: which GPUs have to give back least before a pod fits. */
#include "base/buf.h"
#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"
#include "webhook/cli/pool_missing.h"

static const struct {
	const char *what, *pool, *demand, *filters, *want;
} rows[] = {
	{"nothing is missing", "a t4:8000", "app a 1 50%", NULL, ""},
	{"the one that lacks least", "a t4:8000/6000; b t4:8000/5000", "app a 1 100%", NULL,
		"b/gpu-0=5000"},
	{"by name where both lack as much", "a t4:8000/6000; b t4:8000/6000", "app a 1 100%", NULL,
		"a/gpu-0=6000"},
	{"a free one counts, and is not told", "a t4:8000 t4:8000/3000 t4:8000/4000",
		"app a 2 100%", NULL, "a/gpu-1=3000"},
	{"the largest container's", "a t4:8000/6000", "app a 1 3000; app b 1 7000", NULL,
		"a/gpu-0=5000"},
	{"GPUs that take no claims are none",
		"a t4:8000/1000u; b drain t4:8000/1000; c t4:8000/7000", "app a 1 100%", NULL,
		"c/gpu-0=7000"},
	{"what the filter leaves out is none", "a zone=x t4:8000/1000; b zone=y t4:8000/7000",
		"app a 1 100%", "zone=y", "b/gpu-0=7000"},
	{"too small ones are none", "a t4:4000/1000; b t4:8000/7000", "app a 1 6000", NULL,
		"b/gpu-0=5000"},
	{"fewer GPUs than are asked: nothing would do", "a t4:8000/8000", "app a 2 100%", NULL, ""},
};

TEST(test_missing)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct pool_missing *all;
		struct demand d;
		struct pool p;
		struct buf got;
		size_t n;

		pool_init(&p, rows[i].pool);
		demand_init(&d, &p.arena, rows[i].demand, rows[i].filters, NULL, false);
		buf_init(&got, 4096);
		all = pool_missing_find(&p.inv, &p.use, &d, &n);
		for (size_t k = 0; k < n; k++) {
			const struct gpu_server *s = &p.inv.servers[all[k].server];

			buf_fmt(&got, "%s%s/%s=%llu", k ? " " : "", s->name, s->gpus[all[k].gpu].id,
				(unsigned long long)(all[k].bytes / MB));
		}
		if (!slice_eq(buf_as_slice(&got), slice_of(rows[i].want)))
			fail_msg("%s: %.*s, expected %s", rows[i].what, (int)got.len, got.data,
				rows[i].want);
		free(all);
		buf_release(&got);
		pool_release(&p);
	}
}

TESTS(test_missing)

/* SPDX-License-Identifier: Apache-2.0 */
/* test: whether a pool could ever hold a pod is told from a few of its servers, however many it
 * has. */
#include <stdio.h>

#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pool/queue.h"

#define SERVERS_MAX 4000
#define GPUS 8

static struct gpu gpus[GPUS];
static struct gpu_server servers[SERVERS_MAX];
static char names[SERVERS_MAX][8];

/* So many servers, each with GPUs that nobody has looked at yet; all share them. */
static struct inventory pool_of(size_t n)
{
	for (size_t i = 0; i < GPUS; i++)
		gpus[i] = (struct gpu){
			.id = "gpu", .model = "t4", .bytes = 8000 * MB, .why = "stale"};
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "s%04zu", i);
		servers[i] = (struct gpu_server){.name = names[i],
			.address = "h:1",
			.gpus = gpus,
			.n_gpus = GPUS,
			.first_gpu = i * GPUS};
	}
	return (struct inventory){.servers = servers, .n_servers = n, .n_gpus = n * GPUS};
}

/* Bytes that the answer took. */
static size_t asks(const struct inventory *inv, const char *text, const char *filters,
	const char *named, int want)
{
	struct arena a, of_demand;
	struct err err = {0};
	struct demand d;
	size_t used;

	arena_init(&a, 64u << 20);
	arena_init(&of_demand, 1u << 20);
	demand_init(&d, &of_demand, text, filters, named, false);
	assert_int_equal(queue_could_ever(inv, &d, &a, &err), want);
	assert_int_equal(want == 0, err.msg[0] == '\0');
	used = a.used;
	arena_release(&a);
	arena_release(&of_demand);
	return used;
}

TEST(a_large_pool_is_not_copied)
{
	struct inventory small = pool_of(100), large;
	size_t few = asks(&small, "app a 2 50%", NULL, NULL, 0);

	large = pool_of(SERVERS_MAX);
	/* forty times as many */
	assert_true(asks(&large, "app a 2 50%", NULL, NULL, 0) < 2 * few);
	assert_true(
		asks(&large, "app a 8 100%; init b 8 100%; app c 3 8000", NULL, NULL, 0) < 4 * few);
}

/* What the few do not say, all do. */
TEST(what_few_cannot_hold)
{
	struct inventory inv = pool_of(200);

	(void)asks(&inv, "app a 1600 100%", NULL, NULL, 0);
	(void)asks(&inv, "app a 1601 100%", NULL, NULL, ERR_REFUSED);
	(void)asks(&inv, "app a 1 8001", NULL, NULL, ERR_REFUSED);
	(void)asks(&inv, "app a 1 100%", "server.name=s0101", NULL, 0);
	(void)asks(&inv, "app a 9 100%", "server.name=s0101", NULL, ERR_REFUSED);
	(void)asks(&inv, "app a 8 100%", NULL, "s0101", 0);
	(void)asks(&inv, "app a 9 100%", NULL, "s0101", ERR_REFUSED);
	for (size_t i = 0; i < 200; i++)
		servers[i].drain = i != 101;
	(void)asks(&inv, "app a 8 100%", NULL, NULL, 0);
	(void)asks(&inv, "app a 9 100%", NULL, NULL, ERR_REFUSED);
}

TESTS(a_large_pool_is_not_copied, what_few_cannot_hold)

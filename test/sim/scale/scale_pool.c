/* SPDX-License-Identifier: Apache-2.0 */
/* sim/scale: the pool, and the product's own placement on what somebody believes of it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/sim/scale/scale.h"

/* As a GPUServer says it of a V100 with 32 GB. */
#define GPU_MIB 32510u
/* A search takes 25 bytes for each GPU. */
#define SCRATCH_MAX (256u << 20)

static double now_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void count_time(struct times *t, double us)
{
	double at = us > 1 ? 8 * log2(us) : 0;

	t->at[at < TIMES - 1 ? (size_t)at : TIMES - 1]++;
	t->n++;
}

double times_median(const struct times *t)
{
	uint64_t n = 0;
	size_t i = 0;

	while (i + 1 < TIMES && 2 * (n += t->at[i]) < t->n)
		i++;
	return t->n ? pow(2, ((double)i + 0.5) / 8) : 0;
}

static void *need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

void pool_init(struct pool *p, size_t servers)
{
	*p = (struct pool){.gpu_bytes = (uint64_t)GPU_MIB << 20};
	arena_init(&p->arena, SCRATCH_MAX);
	arena_init_small(&p->scratch, SCRATCH_MAX, 40 * servers * GPUS);
	p->inv = (struct inventory){.n_servers = servers, .n_gpus = servers * GPUS};
	p->inv.servers = need(arena_array(&p->arena, servers, sizeof(*p->inv.servers)));
	for (size_t i = 0; i < servers; i++) {
		struct gpu_server *s = &p->inv.servers[i];

		*s = (struct gpu_server){.name = need(arena_fmt(&p->arena, "gpu-%05zu", i)),
			.address = need(arena_fmt(
				&p->arena, "10.%zu.%zu.%zu:56001", i >> 16, i >> 8 & 255, i & 255)),
			.gpus = need(arena_array(&p->arena, GPUS, sizeof(*s->gpus))),
			.n_gpus = GPUS,
			.first_gpu = i * GPUS};
		for (size_t g = 0; g < GPUS; g++)
			s->gpus[g] = (struct gpu){.id = need(arena_fmt(&p->arena, "gpu-%zu", g)),
				.model = "Tesla V100-SXM2-32GB",
				.bytes = p->gpu_bytes,
				.fit = true,
				.fresh = true,
				.why = ""};
	}
	p->nothing = need(calloc(p->inv.n_gpus, sizeof(*p->nothing)));
}

struct state state_new(const struct pool *p)
{
	return (struct state){.claimed = need(calloc(p->inv.n_gpus, sizeof(uint64_t))),
		.n_claims = need(calloc(p->inv.n_servers, sizeof(uint32_t))),
		.version = need(calloc(p->inv.n_servers, sizeof(uint32_t)))};
}

void state_copy(const struct pool *p, struct state *to, const struct state *from)
{
	memcpy(to->claimed, from->claimed, p->inv.n_gpus * sizeof(*to->claimed));
	memcpy(to->n_claims, from->n_claims, p->inv.n_servers * sizeof(*to->n_claims));
	memcpy(to->version, from->version, p->inv.n_servers * sizeof(*to->version));
}

uint64_t pod_bytes(const struct pool *p, const struct pod *pod)
{
	struct demand_container c = {.amount = pod->amount, .percent = pod->percent};

	return demand_bytes(&c, &p->inv.servers[0].gpus[0]);
}

bool pool_find(struct pool *p, const uint64_t *claimed, const uint32_t *n_claims, size_t first,
	struct pod *pod)
{
	struct demand_container c = {.name = slice_of("main"),
		.kind = CONTAINER_APP,
		.amount = pod->amount,
		.percent = pod->percent};
	struct demand d = {.containers = &c, .n_containers = 1};
	struct usage use = {
		.claimed = claimed, .pending = p->nothing, .n_claims = n_claims, .first = first};
	struct placement found;
	double began = now_s();
	int rc;

	arena_reset(&p->scratch);
	rc = placement_find(&p->inv, &use, &d, &p->scratch, &found, NULL);
	if (rc != 0 && rc != ERR_REFUSED) {
		(void)fprintf(stderr, "sim-scale: placement_find: %d\n", rc);
		abort();
	}
	count_time(rc == 0 ? &p->found : &p->none, (now_s() - began) * 1e6);
	pod->n_parts = 0;
	for (size_t i = 0; rc == 0 && i < found.n_holds; i++)
		pod->parts[pod->n_parts++] =
			(uint32_t)(found.holds[i].server * GPUS + found.holds[i].gpu);
	return rc == 0;
}

bool pool_has_room(const struct pool *p, const uint64_t *claimed, const uint32_t *n_claims,
	const struct pod *pod)
{
	uint64_t most = p->gpu_bytes - pod_bytes(p, pod);
	unsigned n = 0;

	for (size_t i = 0; i < p->inv.n_servers && n < pod->amount; i++)
		if (n_claims[i] < CLAIMS_PER_SERVER_MAX)
			for (size_t g = 0; g < GPUS; g++)
				n += claimed[i * GPUS + g] <= most;
	return n >= pod->amount;
}

void state_add(
	const struct pool *p, struct state *s, size_t server, const struct pod *pod, int sign)
{
	uint64_t bytes = pod_bytes(p, pod);

	for (size_t i = 0; i < pod->n_parts; i++)
		if (pod->parts[i] / GPUS == server)
			s->claimed[pod->parts[i]] += sign > 0 ? bytes : 0 - bytes;
	s->n_claims[server] += sign > 0 ? 1u : UINT32_MAX;
}

bool state_fits(const struct pool *p, const uint64_t *claimed, uint32_t n_claims, size_t server,
	const struct pod *pod)
{
	uint64_t bytes = pod_bytes(p, pod);

	for (size_t i = 0; i < pod->n_parts; i++)
		if (pod->parts[i] / GPUS == server &&
			claimed[pod->parts[i] % GPUS] + bytes > p->gpu_bytes)
			return false;
	return n_claims < CLAIMS_PER_SERVER_MAX;
}

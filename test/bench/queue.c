/* SPDX-License-Identifier: Apache-2.0 */
/* bench: how long the queue takes to decide on an event, alone: no network, no API server. 10,000
 * pods of 40 namespaces wait, in no order, for 1,000 servers of 8 GPUs. One line for each case:
 * what it is, microseconds (median, the slowest of a hundred), pods that start, kilobytes that the
 * round took from its arena. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "webhook/core/pod/queue_read.h"

#define SERVERS 1000
#define GPUS 8
#define PODS 10000
#define NAMESPACES 40
#define SHAPES 24
#define GPU_BYTES 16160000000ull
#define ROUNDS 201
#define NOW 1000000000000ll

struct bench {
	uint32_t random;
	struct arena arena;
	struct inventory inv;
	uint64_t claimed[SERVERS * GPUS], bytes[SERVERS], most[SERVERS], left[SERVERS * GPUS];
	uint32_t n_claims[SERVERS], usable[SERVERS], first[SERVERS], gpus[SERVERS];
	struct room_index index;
	struct pool_room room;
	struct usage use;
	/* each pod has a demand of its own, as a leader that has read its plan */
	struct demand demands[PODS];
	struct demand_container containers[PODS];
	struct queue_pod pods[PODS];
	struct queue_share shares[NAMESPACES];
	struct queue_world w;
};

static int64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static unsigned pick(struct bench *b, unsigned n)
{
	b->random = b->random * 1664525 + 1013904223;
	return (b->random >> 8) % n;
}

static const char *text(struct bench *b, const char *what, size_t n)
{
	const char *s = arena_fmt(&b->arena, "%s-%05zu", what, n);

	if (!s)
		exit(1);
	return s;
}

static void make_pool(struct bench *b)
{
	b->inv.servers = arena_array(&b->arena, SERVERS, sizeof(*b->inv.servers));
	b->inv.n_servers = SERVERS;
	b->inv.n_gpus = (size_t)SERVERS * GPUS;
	for (size_t s = 0; s < SERVERS; s++) {
		struct gpu_server *at = &b->inv.servers[s];

		*at = (struct gpu_server){.name = text(b, "gpu", s),
			.address = "10.0.0.1:56001",
			.gpus = arena_array(&b->arena, GPUS, sizeof(*at->gpus)),
			.n_gpus = GPUS,
			.first_gpu = s * GPUS};
		for (size_t i = 0; i < GPUS; i++)
			at->gpus[i] = (struct gpu){.id = text(b, "gpu", i),
				.model = "Tesla V100",
				.bytes = GPU_BYTES,
				.fit = true,
				.fresh = true,
				.why = ""};
		b->first[s] = (uint32_t)at->first_gpu;
		b->gpus[s] = GPUS;
	}
}

static void make_pods(struct bench *b, unsigned gang)
{
	for (size_t i = 0; i < PODS; i++) {
		size_t group = gang ? i / gang : i;
		unsigned shape = gang ? (unsigned)(group % SHAPES) : pick(b, SHAPES);

		b->containers[i] = (struct demand_container){.name = SLICE("main"),
			.amount = 1 + shape % 4,
			.percent = 100 - 10 * (shape / 4)};
		b->demands[i] = (struct demand){.containers = &b->containers[i], .n_containers = 1};
		b->pods[i] = (struct queue_pod){.uid = slice_of(text(b, "3ad9fe1c-0000-4000", i)),
			.name = slice_of(text(b, "train", i)),
			.namespace = slice_of(text(b, "team", group * 7919 % NAMESPACES)),
			.demand = &b->demands[i],
			.asks = queue_asks(&b->demands[i], (struct json_seed){1, 2}),
			.priority = group % 10 == 0 ? 1000 : 0,
			.since_ms = NOW - pick(b, 1000000)};
		if (gang) {
			b->pods[i].gang = slice_of(text(b, "gang", group));
			b->pods[i].gang_size = gang;
		}
	}
	for (size_t i = PODS - 1; i > 0; i--) {
		size_t k = pick(b, (unsigned)i + 1);
		struct queue_pod p = b->pods[i];

		b->pods[i] = b->pods[k];
		b->pods[k] = p;
	}
}

/* So many GPUs, one after the other, are free. */
static void make_room(struct bench *b, size_t gpus)
{
	for (size_t i = 0; i < (size_t)SERVERS * GPUS; i++)
		b->claimed[i] = i * 7 % (SERVERS * GPUS) < gpus ? 0 : GPU_BYTES;
	room_index_release(&b->index);
	for (uint32_t s = 0; s < SERVERS; s++) {
		b->n_claims[s] = GPUS;
		room_note(&b->inv.servers[s], b->claimed + (size_t)s * GPUS, &b->bytes[s],
			&b->most[s], &b->usable[s], b->left + (size_t)s * GPUS);
		room_index_add(
			&b->index, s, b->bytes[s], b->most[s], b->left + (size_t)s * GPUS, GPUS);
	}
	b->room = (struct pool_room){
		b->first, b->gpus, b->bytes, b->most, b->left, b->usable, GPUS, &b->index};
	b->use = (struct usage){.claimed = b->claimed,
		.pending = b->claimed,
		.n_claims = b->n_claims,
		.room = &b->room};
}

static void decide(struct bench *b, bool words, struct arena *a, struct queue_round *ret)
{
	struct err err = {0};

	if (queue_decide(&b->w, b->pods, PODS, words, a, ret, &err) != 0) {
		(void)fprintf(stderr, "queue: %s\n", err.msg);
		exit(1);
	}
}

static int by_size(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void measure(struct bench *b, const char *what, bool words)
{
	int64_t took[ROUNDS];
	struct queue_round r = {0};
	struct arena a;
	size_t used = 0;

	arena_init_small(&a, 1u << 30, 16u << 20);
	for (size_t i = 0; i < ROUNDS; i++) {
		int64_t began;

		arena_reset(&a);
		began = now_ns();
		decide(b, words, &a, &r);
		took[i] = now_ns() - began;
		used = a.used;
	}
	arena_release(&a);
	qsort(took, ROUNDS, sizeof(*took), by_size);
	(void)printf("%-52s %8.0f %8.0f %6zu %8zu\n", what, (double)took[ROUNDS / 2] / 1000,
		(double)took[ROUNDS * 99 / 100] / 1000, r.n_start, used / 1024);
}

/* What is kept is kept on, as a leader's next round does. */
static void keep(struct bench *b, struct arena *a)
{
	struct queue_round r;

	decide(b, false, a, &r);
	b->w.kept = r.keep;
	b->w.n_kept = r.n_keep;
}

static void run(struct bench *b, unsigned gang, const char *const names[5])
{
	struct arena kept;

	arena_init(&kept, 1u << 30);
	make_pods(b, gang);
	b->w.reserve_ms = INT64_MAX;
	make_room(b, 0);
	measure(b, names[0], false);
	make_room(b, gang ? gang : 1);
	measure(b, names[1], false);
	b->w.reserve_ms = 600000;
	make_room(b, 0);
	measure(b, names[2], false);
	keep(b, &kept);
	make_room(b, gang ? gang : 1);
	measure(b, names[3], false);
	measure(b, names[4], true);
	b->w.n_kept = 0;
	arena_release(&kept);
}

int main(void)
{
	static const char *const alone[5] = {"nothing is free", "a GPU has come free",
		"nothing is free, and a head is chosen",
		"a GPU has come free, others are kept for a head",
		"the same, in words for everybody"};
	static const char *const gangs[5] = {"gangs of 4: nothing is free",
		"gangs of 4: 4 GPUs have come free", "gangs of 4: a head is chosen",
		"gangs of 4: 4 GPUs have come free, others are kept",
		"gangs of 4: the same, in words"};
	struct bench *b = calloc(1, sizeof(*b));

	if (!b)
		return 1;
	b->random = 1;
	arena_init(&b->arena, 1u << 30);
	make_pool(b);
	b->w = (struct queue_world){.inventory = &b->inv,
		.usage = &b->use,
		.shares = b->shares,
		.n_shares = NAMESPACES,
		.now_ms = NOW};
	for (size_t i = 0; i < NAMESPACES; i++)
		b->shares[i] = (struct queue_share){
			slice_of(text(b, "team", i)), (i * 13 % NAMESPACES) * GPU_BYTES};
	(void)printf("%-52s %8s %8s %6s %8s\n", "10,000 pods, 1,000 servers of 8 GPUs", "us p50",
		"us p99", "start", "KiB");
	run(b, 0, alone);
	make_room(b, (size_t)SERVERS * GPUS);
	measure(b, "the whole pool has come free", false);
	run(b, 4, gangs);
	room_index_release(&b->index);
	arena_release(&b->arena);
	free(b);
	return 0;
}

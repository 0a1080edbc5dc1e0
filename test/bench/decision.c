// SPDX-License-Identifier: Apache-2.0
// bench: how long a decision takes, alone: no network, no API server. One line for each size of the
// pool:
//   servers, then microseconds (median): a search that finds room, one that refuses, and the
//   ledger's whole way from a review to a reserved claim (who holds this uid already, the search,
//   the reservation) in a dry run.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kube/kube_watch.h"
#include "webhook/cluster/ledger/ledger_kube.h"
#include "webhook/cluster/ledger/servers_picture.h"
#include "webhook/core/pool/placement.h"
#include "webhook/edge/metrics/metrics.h"

#define GPUS 8
#define CLAIMS                                                                                     \
	5 /* on each server: half of a GPU each, so that a whole one is not the first that comes   \
	   */
#define GPU_BYTES 16160000000ull
#define ROUNDS 401
#define PERCENT_THAT_FITS 60

static int64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what, const struct err *err)
{
	(void)fprintf(stderr, "decision: %s: %s\n", what, err->msg);
	exit(1);
}

/* A server as the API server shows it. */
static void write_server(struct buf *out, size_t n)
{
	buf_fmt(out,
		"{\"apiVersion\":\"poolgate.io/"
		"v1alpha1\",\"kind\":\"GPUServer\",\"metadata\":{\"name\":\"gpu-%04zu\","
		"\"uid\":\"uid-%04zu\",\"resourceVersion\":\"%zu\",\"finalizers\":[\"poolgate.io/"
		"claims\"]},"
		"\"spec\":{\"address\":\"gpu-%04zu:56001\",\"gpus\":[{\"model\":\"Tesla "
		"V100\",\"memory\":\"16160M\","
		"\"count\":%d}]},\"status\":{\"version\":1,\"gpus\":[",
		n, n, n + 1, n, GPUS);
	for (int i = 0; i < GPUS; i++)
		buf_fmt(out,
			"%s{\"id\":\"gpu-%d\",\"model\":\"Tesla "
			"V100\",\"memory\":%llu,\"fit\":true}",
			i ? "," : "", i, GPU_BYTES);
	buf_str(out, "],\"claims\":[");
	for (int i = 0; i < CLAIMS; i++)
		buf_fmt(out,
			"%s{\"uid\":\"3ad9fe1c-0000-4000-8000-%06zu%06d\",\"namespace\":\"team\","
			"\"name\":\"train-%zu-%d\","
			"\"state\":\"bound\",\"plan\":\"00000000000000aa\",\"since\":\"2026-11-"
			"21T09:30:00Z\","
			"\"take\":\"00000000000000bb\",\"servers\":[\"gpu-%04zu\"],\"gpus\":[{"
			"\"id\":\"gpu-%d\",\"bytes\":%llu}]}",
			i ? "," : "", n, i, n, i, n, i, GPU_BYTES / 2);
	buf_str(out, "]}}");
}

static void fill(struct servers *s, size_t n)
{
	struct err err = {0};
	struct buf text;
	struct json j = {0};
	char *copy;

	servers_watch_app.listing(s);
	for (size_t i = 0; i < n; i++) {
		buf_init(&text, 65536);
		write_server(&text, i);
		if (json_read_copy(&j, text.data, text.len, 100000, &copy, &err) != 0)
			die("a server", &err);
		servers_watch_app.change(s, KUBE_PUT, &j, json_root(&j));
		free(copy);
		buf_release(&text);
	}
	servers_watch_app.listed(s, "1000000");
	json_release(&j);
	if (s->inv.n_servers != n || s->n_claims[0] != CLAIMS) {
		(void)fprintf(stderr, "decision: the pool is not what it should be\n");
		exit(1);
	}
}

static int by_size(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Median of what one() takes, in microseconds. */
static double median_us(void (*one)(void *ctx), void *ctx)
{
	static int64_t took[ROUNDS];

	one(ctx);
	for (size_t i = 0; i < ROUNDS; i++) {
		int64_t began = now_ns();

		one(ctx);
		took[i] = now_ns() - began;
	}
	qsort(took, ROUNDS, sizeof(*took), by_size);
	return (double)took[ROUNDS / 2] / 1000;
}

struct bench {
	struct servers *s;
	struct ledger *ledger;
	struct demand demand;
	int expected;
	unsigned reviews;
};

static void search(void *ctx)
{
	struct bench *b = ctx;
	struct usage use = servers_usage(b->s, true);
	struct placement p;
	struct arena a;
	struct err err = {0};

	arena_init(&a, 8u * 1024 * 1024);
	if (placement_find(&b->s->inv, &use, &b->demand, &a, &p, &err) != b->expected)
		die("an unexpected outcome", &err);
	arena_release(&a);
}

static void take(void *ctx)
{
	struct bench *b = ctx;
	char uid[64];
	struct claim_answer got;
	struct claim_ask ask = {.namespace = SLICE("team"),
		.name = SLICE("train"),
		.demand = &b->demand,
		.dry_run = true};
	struct arena a;
	struct err err = {0};

	(void)snprintf(uid, sizeof(uid), "7be1d0aa-0000-4000-8000-%012u", b->reviews++);
	ask.uid = slice_of(uid);
	arena_init(&a, 8u * 1024 * 1024);
	if (b->ledger->ops->take(b->ledger, &ask, &a, &got, &err) != 0 || got.n_parts != 1)
		die("no claim", &err);
	arena_release(&a);
}

static void measure(size_t n_servers)
{
	struct demand_container c = {
		.name = SLICE("main"), .amount = 1, .percent = PERCENT_THAT_FITS};
	struct metrics *metrics = metrics_new(metric_table, M_COUNT);
	struct err err = {0};
	struct log log;
	struct bench b = {.demand = {.containers = &c, .n_containers = 1}};
	double finds, refuses, takes;

	log_init(&log, 2);
	b.s = servers_new(NULL, &log, metrics, &err);
	b.ledger = b.s ? ledger_kube_new(b.s, NULL, 25, &log, metrics, &err) : NULL;
	if (!b.ledger)
		die("no ledger", &err);
	fill(b.s, n_servers);
	finds = median_us(search, &b);
	takes = median_us(take, &b);
	c.percent = 0;
	c.memory_mb = GPU_BYTES / 1000000 + 1;
	b.expected = ERR_REFUSED;
	refuses = median_us(search, &b);
	(void)printf("%zu %.1f %.1f %.1f\n", n_servers, finds, refuses, takes);
	ledger_kube_free(b.ledger, 0);
	servers_stop(b.s);
	servers_free(b.s);
	metrics_free(metrics);
}

int main(void)
{
	measure(1);
	measure(100);
	measure(1000);
	return 0;
}

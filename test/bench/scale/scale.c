/* SPDX-License-Identifier: Apache-2.0 */
/* bench: what a replica, and the leader, take for pools of several sizes: `scale [SERVERS…]`. A
 * line of JSON for each, which test/bench/scale/report makes a table of. Times are CPU time, of the
 * thread or of the process, but for the first list's and the take-over's. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "kube/kube_watch.h"
#include "test/bench/scale/scale.h"
#include "webhook/cluster/claims/claims.h"
#include "webhook/cluster/ledger/ledger_kube.h"
#include "webhook/cluster/ledger/servers_picture.h"
#include "webhook/cluster/reconcile/probe_poll_impl.h"
#include "webhook/core/pool/placement.h"
#include "webhook/edge/admin/metrics_page.h"

#define FILL 80
#define DECISIONS 1000
#define EVENTS 2000
#define CLAIMS 300
#define LARGE 30
#define VIEWS 5
#define LOOKS 5
#define WAIT_MS 300000

struct bench {
	size_t n;
	char url[64];
	struct kube_config config;
	struct kube *kube;
	struct log log;
	struct metrics *metrics;
	struct servers *servers;
	struct ledger *ledger;
};

static void die(const char *what, const struct err *err)
{
	(void)fprintf(stderr, "scale: %s: %s\n", what, err ? err->msg : "");
	exit(1);
}

static double us_of(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* ---- output ---- */

static void say(const char *key, double value)
{
	(void)printf(",\"%s\":%.3f", key, value);
	(void)fflush(stdout);
}

static void say_hold(const char *phase)
{
	struct hold_times h = lock_measured();

	(void)printf(",\"%s_hold_max_us\":%.1f,\"%s_hold_mean_us\":%.2f", phase, h.max_us, phase,
		h.times ? h.sum_us / (double)h.times : 0);
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void say_times(const char *what, double *us, size_t n)
{
	char key[128];
	static const struct {
		const char *name;
		double at;
	} points[] = {{"p50", 0.5}, {"p99", 0.99}, {"max", 1}};

	qsort(us, n, sizeof(*us), by_size);
	for (size_t i = 0; i < 3; i++) {
		(void)snprintf(key, sizeof(key), "%s_%s_us", what, points[i].name);
		say(key, us[(size_t)(points[i].at * (double)(n - 1))]);
	}
}

/* Memory in MiB, by the kernel's word. */
static double memory_mib(const char *key)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	double kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			kib = strtod(line + strlen(key), NULL);
	if (f)
		(void)fclose(f);
	return kib / 1024;
}

/* ---- the first list ---- */

static void first_list(struct bench *b)
{
	struct err err = {0};
	double wall = us_of(CLOCK_MONOTONIC), cpu = us_of(CLOCK_PROCESS_CPUTIME_ID);

	lock_measure(&b->servers->lock);
	if (servers_start(b->servers, NULL, NULL, &err) != 0)
		die("no watch", &err);
	for (int ms = 0; !servers_synced(b->servers) && ms < WAIT_MS; ms++)
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	/* what was put off until somebody asks belongs to it */
	(void)pthread_mutex_lock(&b->servers->lock);
	(void)servers_judge(b->servers);
	if (b->servers->inv.n_servers != b->n)
		die("the pool is not what it should be", NULL);
	(void)pthread_mutex_unlock(&b->servers->lock);
	say("list_s", (us_of(CLOCK_MONOTONIC) - wall) / 1e6);
	say("list_cpu_s", (us_of(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e6);
	say_hold("list");
	say("memory_mib", memory_mib("VmRSS:"));
}

/* ---- events ---- */

/* Server i as the watch tells it, with this status. */
static void tell(struct bench *b, enum kube_change what, size_t i, uint64_t version, int fill)
{
	struct buf status, text;
	struct json j = {0};
	struct err err = {0};
	char *copy;

	buf_init(&status, 1u << 20);
	buf_init(&text, 1u << 20);
	pool_status(&status, i, fill);
	pool_server(&text, i, version, buf_as_slice(&status));
	if (json_read_copy(&j, text.data, text.len, 1000000, &copy, &err) != 0)
		die("a server", &err);
	servers_watch_app.change(b->servers, what, &j, json_root(&j));
	free(copy);
	json_release(&j);
	buf_release(&text);
	buf_release(&status);
}

static uint64_t version = 100000000;

static void refill(struct bench *b, int fill)
{
	for (size_t i = 0; i < b->n; i++)
		tell(b, KUBE_PUT, i, ++version, fill);
}

static double hold_per_event(
	struct bench *b, enum kube_change what, size_t n, uint64_t *seed, int fill)
{
	double sum = lock_measured().sum_us;

	for (size_t i = 0; i < n; i++)
		tell(b, what, what == KUBE_GONE ? b->n - 1 - i : dice(seed, b->n), ++version, fill);
	return (lock_measured().sum_us - sum) / (double)n;
}

/* What the lock is held for: parsing is the same for every pool. */
static void events(struct bench *b)
{
	uint64_t seed = 1;
	size_t gone = b->n / 10;

	lock_measure(&b->servers->lock);
	say("event_us", hold_per_event(b, KUBE_PUT, EVENTS, &seed, FILL));
	say_hold("event");
	lock_measure(&b->servers->lock);
	say("gone_us", hold_per_event(b, KUBE_GONE, gone, &seed, FILL));
	for (size_t i = 0; i < gone; i++)
		tell(b, KUBE_PUT, b->n - 1 - i, ++version, FILL);
	(void)pthread_mutex_lock(&b->servers->lock);
	(void)servers_judge(b->servers);
	(void)pthread_mutex_unlock(&b->servers->lock);
	say_hold("gone");
}

/* ---- decisions ---- */

/* By a label that half of the servers have, one that tells them all apart, an address, a model. */
static struct filter draw_filter(size_t n, uint64_t *seed, char text[static 64])
{
	size_t i = dice(seed, n);

	switch (dice(seed, 4)) {
	case 0:
		(void)snprintf(text, 64, "zone=lab");
		break;
	case 1:
		(void)snprintf(text, 64, "host=host-%05zu", i);
		break;
	case 2:
		(void)snprintf(text, 64, "server.addr=10.%zu.%zu.%zu:56001", i >> 16, i >> 8 & 255,
			i & 255);
		break;
	default:
		(void)snprintf(text, 64, "gpu.model=%s", i % 2 ? "H100" : "A100");
		break;
	}
	return filter_of(slice_of(text));
}

/* What pods ask for: mostly one GPU or a part of one. */
static void draw_demand(uint64_t *seed, struct demand_container c[static 2], struct filter *filter,
	struct demand *d)
{
	uint64_t what = dice(seed, 100);
	static const uint32_t several[] = {2, 4, 8};

	memset(c, 0, 2 * sizeof(*c));
	c[0].name = c[1].name = SLICE("main");
	c[0].amount = what < 80 ? 1 : what < 98 ? several[what % 3] : 16;
	c[0].percent = what < 50 ? 1 + (uint32_t)dice(seed, 99) : 100;
	if (what < 10) {
		c[0].percent = 0;
		c[0].memory_mb = 1000 + dice(seed, 79000);
	}
	c[1].amount = 1;
	c[1].percent = 20;
	c[1].kind = what % 2 ? CONTAINER_APP : CONTAINER_INIT;
	*d = (struct demand){.containers = c,
		.n_containers = what % 20 == 3 ? 2 : 1,
		.filters = filter,
		.n_filters = what % 20 == 7};
}

static void decisions(struct bench *b, const char *name, int fill)
{
	static double found[DECISIONS], none[DECISIONS], filtered[DECISIONS];
	uint64_t seed = 5;
	size_t n_found = 0, n_none = 0, n_filtered = 0;
	char key[32];

	refill(b, fill);
	(void)pthread_mutex_lock(&b->servers->lock);
	(void)servers_judge(b->servers);
	for (size_t i = 0; i < DECISIONS; i++) {
		struct usage use = servers_usage(b->servers, true);
		struct demand_container c[2];
		char text[64];
		struct filter filter = draw_filter(b->n, &seed, text);
		struct demand d;
		struct placement p;
		struct err err = {0};
		struct arena a;
		double began, took;
		int rc;

		draw_demand(&seed, c, &filter, &d);
		arena_init(&a, 64u << 20);
		began = us_of(CLOCK_THREAD_CPUTIME_ID);
		rc = placement_find(&b->servers->inv, &use, &d, &a, &p, &err);
		arena_release(&a);
		took = us_of(CLOCK_THREAD_CPUTIME_ID) - began;
		if (rc == 0)
			found[n_found++] = took;
		else if (d.n_filters)
			filtered[n_filtered++] = took;
		else
			none[n_none++] = took;
	}
	(void)pthread_mutex_unlock(&b->servers->lock);
	(void)snprintf(key, sizeof(key), "find_%s", name);
	if (n_found)
		say_times(key, found, n_found);
	(void)snprintf(key, sizeof(key), "refuse_%s", name);
	if (n_none)
		say_times(key, none, n_none);
	(void)snprintf(key, sizeof(key), "refuse_filter_%s", name);
	if (n_filtered)
		say_times(key, filtered, n_filtered);
}

/* ---- claims ---- */

static enum edit_result end_claim(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	ptrdiff_t i = server_status_claim(&o->status, slice_of(ctx));

	(void)again;
	(void)a;
	(void)err;
	if (i < 0)
		return EDIT_SAME;
	server_status_remove_claim(&o->status, (size_t)i);
	return EDIT_CHANGED;
}

static void claims(struct bench *b)
{
	struct demand_container c = {.name = SLICE("main"), .amount = 1, .percent = 7};
	struct demand d = {.containers = &c, .n_containers = 1};
	char uid[CLAIMS][64], server[CLAIMS][64];
	double began = us_of(CLOCK_PROCESS_CPUTIME_ID), wall[CLAIMS];
	struct err err = {0};

	lock_measure(&b->servers->lock);
	for (size_t i = 0; i < CLAIMS; i++) {
		struct claim_ask ask = {.namespace = SLICE("team"), .demand = &d};
		struct claim_answer got;
		struct arena a;

		(void)snprintf(uid[i], sizeof(uid[i]), "7be1d0aa-0000-4000-8000-%012zu", i);
		ask.uid = ask.name = slice_of(uid[i]);
		arena_init(&a, 64u << 20);
		wall[i] = us_of(CLOCK_MONOTONIC);
		if (b->ledger->ops->take(b->ledger, &ask, &a, &got, &err) != 0)
			die("no claim", &err);
		wall[i] = us_of(CLOCK_MONOTONIC) - wall[i];
		(void)snprintf(server[i], sizeof(server[i]), "%s", got.parts[0].server);
		arena_release(&a);
	}
	say("claim_cpu_us", (us_of(CLOCK_PROCESS_CPUTIME_ID) - began) / CLAIMS);
	say("claim_hold_us", lock_measured().sum_us / CLAIMS);
	say_times("claim_wall", wall, CLAIMS);
	say_hold("claim");
	lock_measure(&b->servers->lock);
	began = us_of(CLOCK_PROCESS_CPUTIME_ID);
	for (size_t i = 0; i < CLAIMS; i++)
		if (servers_edit(
			    b->servers, server[i], end_claim, uid[i], clock_ms() + 5000, &err) != 0)
			die("no end", &err);
	say("end_cpu_us", (us_of(CLOCK_PROCESS_CPUTIME_ID) - began) / CLAIMS);
	say("end_hold_us", lock_measured().sum_us / CLAIMS);
	say_hold("end");
}

/* A pod that no GPU can hold: lists, and the words of the refusal. */
static void refusal(struct bench *b)
{
	struct demand_container c = {.name = SLICE("main"), .amount = 1, .memory_mb = 90000};
	struct demand d = {.containers = &c, .n_containers = 1};
	struct claim_ask ask = {.uid = SLICE("7be1d0aa-0000-4000-9000-000000000000"),
		.namespace = SLICE("team"),
		.name = SLICE("train"),
		.demand = &d,
		.deadline_ms = clock_ms() + 60000};
	double wall = us_of(CLOCK_MONOTONIC), cpu = us_of(CLOCK_PROCESS_CPUTIME_ID);
	struct claim_answer got;
	struct err err = {0};
	struct arena a;

	lock_measure(&b->servers->lock);
	arena_init(&a, 64u << 20);
	if (b->ledger->ops->take(b->ledger, &ask, &a, &got, &err) != ERR_REFUSED)
		die("not refused", &err);
	arena_release(&a);
	say("refusal_s", (us_of(CLOCK_MONOTONIC) - wall) / 1e6);
	say("refusal_cpu_s", (us_of(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e6);
	say_hold("refusal");
}

/* Pods of many containers that ask for much, some of them on one server: none is the mix's. */
static void large_pods(struct bench *b)
{
	static const size_t containers[] = {2, 4, 16, 64, 256};
	static struct demand_container c[256];
	double cpu = us_of(CLOCK_PROCESS_CPUTIME_ID);
	uint64_t seed = 9;

	lock_measure(&b->servers->lock);
	for (size_t i = 0; i < LARGE; i++) {
		struct demand d = {.containers = c,
			.n_containers = containers[i % 5],
			.one_server = i % 3 == 0};
		struct claim_ask ask = {.uid = SLICE("7be1d0aa-0000-4000-a000-000000000000"),
			.namespace = SLICE("team"),
			.name = SLICE("large"),
			.demand = &d,
			.dry_run = true,
			.deadline_ms = clock_ms() + 60000};
		struct claim_answer got;
		struct err err = {0};
		struct arena a;
		int rc;

		memset(c, 0, sizeof(c));
		for (size_t k = 0; k < d.n_containers; k++)
			c[k] = (struct demand_container){.name = SLICE("main"),
				.kind = k % 4 == 3 ? CONTAINER_INIT : CONTAINER_APP,
				.amount = i % 5 == 0 ? 100 : 1 + (uint32_t)dice(&seed, 8),
				.percent = 1 + (uint32_t)dice(&seed, 100)};
		arena_init(&a, 64u << 20);
		rc = b->ledger->ops->take(b->ledger, &ask, &a, &got, &err);
		if (rc != 0 && rc != ERR_REFUSED)
			die("neither yes nor no", &err);
		arena_release(&a);
	}
	say("large_cpu_ms", (us_of(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e3 / LARGE);
	say_hold("large");
}

/* ---- scrapes, and the leader ---- */

static void scrapes(struct bench *b)
{
	double began = us_of(CLOCK_THREAD_CPUTIME_ID);

	lock_measure(&b->servers->lock);
	for (int i = 0; i < VIEWS; i++) {
		struct buf page;

		buf_init(&page, 64u << 20);
		metrics_page(b->metrics, NULL, b->ledger, "0", &page);
		buf_release(&page);
	}
	say("scrape_us", (us_of(CLOCK_THREAD_CPUTIME_ID) - began) / VIEWS);
	say_hold("scrape");
}

static void probes(struct bench *b)
{
	static struct probe_poll p;
	double began = us_of(CLOCK_THREAD_CPUTIME_ID);

	p = (struct probe_poll){.cfg = {.servers = b->servers, .kind = &poll_probes}};
	lock_measure(&b->servers->lock);
	for (int i = 0; i < LOOKS; i++) {
		p.looked_ms = -2 * LOOK_MS;
		probe_targets_look(&p);
	}
	say("probes_look_us", (us_of(CLOCK_THREAD_CPUTIME_ID) - began) / LOOKS);
	say_hold("probes_look");
	probe_targets_free(&p);
}

/* From the start of the duty to the moment when every pod and every claim has been looked at. */
static void takes_over(struct bench *b)
{
	struct claims_config cfg = {
		.kube = b->kube, .servers = b->servers, .log = &b->log, .metrics = b->metrics};
	struct leader_duty duty = claims_duty(&cfg);
	double wall = us_of(CLOCK_MONOTONIC), cpu;
	struct err err = {0};
	void *running;

	lock_measure(&b->servers->lock);
	if (duty.start(&cfg, &running, &err) != 0)
		die("no duty", &err);
	for (int ms = 0; atomic_load(&cfg.settled_ms) == 0 && ms < WAIT_MS; ms++)
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	say("takeover_s", (us_of(CLOCK_MONOTONIC) - wall) / 1e6);
	(void)nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
	/* Every claim of every pod wakes it: rounds for three seconds. */
	cpu = us_of(CLOCK_PROCESS_CPUTIME_ID);
	for (int ms = 0; ms < 3000; ms += 10) {
		duty.servers_changed(running);
		(void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
	say("rounds_core_share", (us_of(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 3e6);
	say_hold("rounds");
	say("memory_leader_mib", memory_mib("VmRSS:"));
	duty.stop(running);
}

/* ---- one size ---- */

static void measure(size_t n)
{
	struct bench b = {.n = n};
	struct err err = {0};
	pid_t api = scale_api_start(n, FILL, b.url);

	(void)printf("{\"servers\":%zu", n);
	b.config = (struct kube_config){.server = b.url, .ca_fd = -1, .cert_fd = -1, .key_fd = -1};
	b.metrics = metrics_new(metric_table, M_COUNT);
	log_init(&b.log, 2);
	if (kube_new(&b.config, &b.kube, &err) != 0)
		die("no client", &err);
	b.servers = servers_new(b.kube, &b.log, b.metrics, &err);
	b.ledger =
		b.servers ? ledger_kube_new(b.servers, b.kube, 25, &b.log, b.metrics, &err) : NULL;
	if (!b.ledger)
		die("no ledger", &err);
	first_list(&b);
	claims(&b);
	refusal(&b);
	large_pods(&b);
	scrapes(&b);
	probes(&b);
	takes_over(&b);
	/* From here on the picture is told in this process. */
	kube_watch_stop(b.servers->watch);
	b.servers->watch = NULL;
	events(&b);
	decisions(&b, "empty", 0);
	decisions(&b, "half", 50);
	decisions(&b, "ragged", FILL_RAGGED);
	decisions(&b, "most", 95);
	decisions(&b, "full", 100);
	say("memory_most_mib", memory_mib("VmHWM:"));
	(void)printf("}\n");
	(void)fflush(stdout);
	ledger_kube_free(b.ledger, 0);
	servers_stop(b.servers);
	servers_free(b.servers);
	kube_free(b.kube);
	metrics_free(b.metrics);
	scale_api_stop(api);
	(void)malloc_trim(0);
}

int main(int argc, char **argv)
{
	/* as the server does (cli/serve.c): few heaps, large blocks go back at once */
	(void)mallopt(M_ARENA_MAX, 2);
	(void)mallopt(M_MMAP_THRESHOLD, 512 * 1024);
	(void)mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
	for (int i = 1; i < argc; i++)
		measure(strtoul(argv[i], NULL, 10));
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* bench: what each review costs, decided alone: no network. Reads the names of review documents
 * from stdin, one on each line, and answers each by both hooks over the shipped profiles and a pool
 * of argv[1] servers with 8 GPUs (argv[2] and [3]: the hooks); the replies come to stand in
 * FILE.mutate and FILE.validate. Prints hook, name, bytes, the reply's bytes and milliseconds of
 * CPU. Under callgrind
 * (--instr-atstart=no) it also leaves a dump for each, in that order. */
#include <time.h>
#include <valgrind/callgrind.h>

#include "test/fuzz/review_world.h"
#include "webhook/edge/admission/admission.h"
#include "webhook/edge/metrics/metrics.h"

#define GPUS 8

static const struct config *acquire(void *ctx)
{
	return ctx;
}

static void release(void *ctx, const struct config *config)
{
	(void)ctx;
	(void)config;
}

static void fill(struct ledger *ledger, size_t n)
{
	struct gpu_server *servers = calloc(n, sizeof(*servers));
	static struct gpu gpus[GPUS];
	static struct label labels[] = {{"zone", "lab"}};
	struct inventory inv = {.servers = servers, .n_servers = n, .n_gpus = n * GPUS};
	struct err err;

	REQUIRE(servers);
	for (size_t i = 0; i < GPUS; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "gpu-%zu", i);
		gpus[i] = (struct gpu){.id = strdup(id),
			.model = "Tesla V100",
			.bytes = 16000000000ULL,
			.fit = true,
			.fresh = true,
			.why = ""};
	}
	for (size_t i = 0; i < n; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "gpu-%05zu", i);
		servers[i] = (struct gpu_server){.name = strdup(name),
			.address = "10.0.0.1:56001",
			.labels = labels,
			.n_labels = 1,
			.gpus = gpus,
			.n_gpus = GPUS};
	}
	REQUIRE(ledger_memory_set_inventory(ledger, &inv, &err) == 0);
}

static char *read_file(const char *path, size_t *ret_n)
{
	FILE *file = fopen(path, "r");
	char *text = calloc(1, (9U << 20) + HTTP_BODY_PAD);

	REQUIRE(file && text);
	*ret_n = fread(text, 1, 9U << 20, file);
	(void)fclose(file);
	return text;
}

static void write_reply(const char *path, const char *hook, const struct http_reply *reply)
{
	char name[512];
	FILE *file;

	(void)snprintf(name, sizeof(name), "%s.%s", path, hook);
	file = fopen(name, "w");
	REQUIRE(file && fwrite(reply->body, 1, reply->body_len, file) == reply->body_len);
	(void)fclose(file);
}

static double now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1000 + (double)t.tv_nsec / 1000000;
}

static void answer(struct admission *a, http_handler *handler, const char *hook, const char *path)
{
	struct http_request req = {.deadline_ms = http_now_ms() + 600000};
	struct http_reply reply = {0};
	char name[512];
	double began;

	req.body = read_file(path, &req.body_len);
	(void)snprintf(name, sizeof(name), "%s %s", hook, path);
	began = now_ms();
	CALLGRIND_START_INSTRUMENTATION;
	CALLGRIND_ZERO_STATS;
	REQUIRE(handler(a, &req, &reply) == HTTP_DONE);
	CALLGRIND_DUMP_STATS_AT(name);
	CALLGRIND_STOP_INSTRUMENTATION;
	printf("%s %zu %zu %.3f\n", name, req.body_len, reply.body_len, now_ms() - began);
	if (reply.body)
		write_reply(path, hook, &reply);
	req.status = reply.status;
	/* as if the reply were never sent: the next review finds the pool as this one did */
	admission_queued(a, &req, false);
	free(req.body);
	free(reply.body);
}

int main(int argc, char **argv)
{
	static struct world world;
	static struct log log;
	struct err err;
	struct admission_deps deps;
	struct admission *a;
	char path[400];

	world_init(&world);
	fill(world.world.ledger, argc > 1 ? (size_t)atol(argv[1]) : 1000);
	log_init(&log, 2);
	log_set_level(&log, "error", NULL);
	deps = (struct admission_deps){.source = {&world.config, acquire, release},
		.ledger = world.world.ledger,
		.metrics = metrics_new(metric_table, M_COUNT),
		.log = &log};
	a = admission_new(&deps, &err);
	REQUIRE(a);
	while (fgets(path, sizeof(path), stdin)) {
		path[strcspn(path, "\n")] = '\0';
		if (argc < 3 || strcmp(argv[2], "mutate") == 0)
			answer(a, admission_mutate_slow, "mutate", path);
		if (argc < 3 || strcmp(argv[argc - 1], "validate") == 0)
			answer(a, admission_validate_slow, "validate", path);
	}
	return 0;
}

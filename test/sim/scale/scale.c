/* SPDX-License-Identifier: Apache-2.0 */
/* sim-scale: a day of a large pool in virtual time, once for each number of replicas. README.md
 * beside it says what is real.
 *   scale [--servers N] [--pods N] [--replicas 1,2,3] [--seed N] [--load X] [--swing X]
 *         [--watch-ms N] [--json FILE] [--twice]
 * Prints a table; the file has it, too, with every minute of the day. --twice: every day a second
 * time, which must be the same. Exit status 1: it was not, or a refusal was not true. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "test/sim/scale/scale.h"

struct asked {
	struct settings set;
	uint32_t replicas[REPLICAS_MAX];
	size_t n_replicas;
	const char *json;
	bool twice;
};

static double cpu_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Numbers that can be asked for, each with what is taken when nobody says one. */
enum { SERVERS, PODS, SEED, LOAD, SWING, WATCH_MS, NUMBERS };
static const struct number {
	const char *name;
	double low, high, usual;
} numbers[NUMBERS] = {
	{"servers", 1, 65536, 1000},
	{"pods", 1, 1e8, 100000},
	{"seed", 0, 1e15, 1},
	{"load", 0.01, 10, 0.94},
	{"swing", 0, 1, 0.5},
	{"watch-ms", 0, 60000, 20},
};

static bool read_number(const char *text, const struct number *n, double *ret)
{
	char *end;

	*ret = strtod(text, &end);
	if (end != text && *end == '\0' && *ret >= n->low && *ret <= n->high)
		return true;
	(void)fprintf(stderr, "sim-scale: --%s: found \"%s\", expected a number from %g to %g\n",
		n->name, text, n->low, n->high);
	return false;
}

static bool read_replicas(const char *text, struct asked *ret)
{
	const char *at = text;
	char *end;

	for (ret->n_replicas = 0; ret->n_replicas < REPLICAS_MAX; at = end + 1) {
		unsigned long n = strtoul(at, &end, 10);

		if (end == at || n < 1 || n > REPLICAS_MAX || (*end && *end != ','))
			break;
		ret->replicas[ret->n_replicas++] = (uint32_t)n;
		if (*end == '\0')
			return true;
	}
	(void)fprintf(stderr,
		"sim-scale: --replicas: found \"%s\", expected up to %d numbers from 1 to %d with "
		"commas between them\n",
		text, REPLICAS_MAX, REPLICAS_MAX);
	return false;
}

static bool read_options(int argc, char **argv, struct asked *ret)
{
	struct option known[NUMBERS + 4] = {{"replicas", required_argument, NULL, 'r'},
		{"json", required_argument, NULL, 'j'}, {"twice", no_argument, NULL, 't'}};
	double value[NUMBERS];
	int c;

	for (int i = 0; i < NUMBERS; i++) {
		known[3 + i] = (struct option){numbers[i].name, required_argument, NULL, 256 + i};
		value[i] = numbers[i].usual;
	}
	*ret = (struct asked){.replicas = {1, 2, 3, 5, 8}, .n_replicas = 5};
	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (c == 'j')
			ret->json = optarg;
		else if (c == 't')
			ret->twice = true;
		else if (c == 'r' ? !read_replicas(optarg, ret)
				  : c < 256 || !read_number(
						       optarg, &numbers[c - 256], &value[c - 256]))
			return false;
	}
	ret->set = (struct settings){.seed = (uint64_t)value[SEED],
		.servers = (size_t)value[SERVERS],
		.pods = (size_t)value[PODS],
		.load = value[LOAD],
		.swing = value[SWING],
		.watch_us = (int64_t)(value[WATCH_MS] * MS)};
	return optind == argc;
}

/* The standing pods are there when the day begins: laid by the product, one after the other.
 * Returns how many found no room. */
static size_t stand(struct pool *p, struct day *d, struct state *truth)
{
	size_t without = 0;

	for (size_t i = 0; i < d->n_standing; i++) {
		struct pod *pod = &d->pods[i];

		without += !pool_find(p, truth->claimed, truth->n_claims, 0, pod);
		for (size_t k = 0; k < pod->n_parts; k++)
			if (k == 0 || pod->parts[k] / GPUS != pod->parts[k - 1] / GPUS)
				state_add(p, truth, pod->parts[k] / GPUS, pod, 1);
	}
	return without;
}

/* One day. Returns its hash. */
static uint64_t live(const struct asked *a, size_t which, struct pool *p, struct day *d,
	const struct state *truth)
{
	struct settings set = a->set;

	set.replicas = a->replicas[which];
	p->found = p->none = (struct times){0};
	world_begin(&set, p, d, truth);
	world_run();
	return world.tally.hash;
}

/* One day, and its line. */
static bool run(const struct asked *a, size_t which, struct pool *p, struct day *d,
	const struct state *truth, FILE *json)
{
	double cpu = cpu_s();
	uint64_t hash = live(a, which, p, d, truth);
	bool same = true, is_true = world.tally.untrue == 0;

	report_run(cpu_s() - cpu, which == 0, json);
	world_end();
	if (a->twice) {
		same = live(a, which, p, d, truth) == hash;
		world_end();
	}
	if (!is_true)
		(void)fprintf(stderr, "sim-scale: pods were refused for whom there was room\n");
	if (!same)
		(void)fprintf(stderr, "sim-scale: the same day again was another one\n");
	return same && is_true;
}

int main(int argc, char **argv)
{
	struct offline *o = calloc(1, sizeof(*o));
	struct asked a;
	struct pool p;
	struct day d;
	struct state truth;
	FILE *json = NULL;
	size_t without;
	bool good = true;

	if (!o || !read_options(argc, argv, &a)) {
		(void)fprintf(stderr, "usage: scale [--servers N] [--pods N] [--replicas 1,2,8] "
				      "[--seed N] [--load X] "
				      "[--swing X] [--watch-ms N] [--json FILE] [--twice]\n");
		return 2;
	}
	if (a.json && !(json = fopen(a.json, "w"))) {
		perror(a.json);
		return 2;
	}
	pool_init(&p, a.set.servers);
	d = day_make(a.set.seed, a.set.servers, a.set.pods, a.set.load, a.set.swing);
	truth = state_new(&p);
	without = stand(&p, &d, &truth);
	printf("%zu servers, %zu pods and %zu that stand, %zu of them without room; lives x %.4f\n",
		a.set.servers, a.set.pods, d.n_standing, without, d.stretch);
	offline_run(&d, p.inv.n_gpus, o);
	report_begin(&a.set, &d, o, json);
	for (size_t i = 0; i < a.n_replicas; i++)
		good = run(&a, i, &p, &d, &truth, json) && good;
	return report_end(json) && good ? 0 : 1;
}

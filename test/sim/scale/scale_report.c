/* SPDX-License-Identifier: Apache-2.0 */
/* sim/scale: what came of it, for people and for draw.py. */
#include <stdio.h>
#include <stdlib.h>

#include "test/sim/scale/scale.h"

typedef unsigned long long number;

static int by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static uint32_t percentile(const struct tally *t, double share)
{
	return t->n_answers ? t->answer_ms[(size_t)(share * (double)(t->n_answers - 1))] : 0;
}

static double per(double part, uint64_t of)
{
	return of ? part / (double)of : 0;
}

static void shares(FILE *f, const char *name, const double *list)
{
	(void)fprintf(f, "\"%s\": [", name);
	for (size_t i = 0; i < MINUTES; i++)
		(void)fprintf(f, "%s%.5f", i ? "," : "", list[i]);
	(void)fprintf(f, "],\n");
}

static void counts(FILE *f, const char *name, const uint32_t *list)
{
	(void)fprintf(f, "\"%s\": [", name);
	for (size_t i = 0; i < MINUTES; i++)
		(void)fprintf(f, "%s%u", i ? "," : "", list[i]);
	(void)fprintf(f, "],\n");
}

void report_begin(
	const struct settings *set, const struct day *d, const struct offline *o, FILE *json)
{
	number refused = 0;
	double load = 0;

	for (size_t i = 0; i < MINUTES; i++) {
		refused += o->refused[i];
		load += o->load[i] / MINUTES;
	}
	printf("packed anew at every moment: %llu refused, mean load %.4f\n"
	       "%8s %8s %8s %8s %8s %6s %6s %9s %7s %8s %8s %7s %7s %9s %9s %7s  %s\n",
		refused, load, "replicas", "admitted", "refused", "movable", "spare", "untrue",
		"late", "tries/pod", "409 %", "leads %", "load", "p50 ms", "p99 ms", "found us",
		"none us", "cpu s", "hash");
	if (!json)
		return;
	(void)fprintf(json,
		"{\"servers\": %zu, \"pods\": %zu, \"standing\": %zu, \"stretch\": %.4f, \"seed\": "
		"%llu, \"watch_ms\": %lld, \"offline_refused\": %llu,\n",
		set->servers, set->pods, d->n_standing, d->stretch, (number)set->seed,
		(long long)(set->watch_us / MS), refused);
	shares(json, "demand", o->demand);
	shares(json, "offline", o->load);
	counts(json, "offline_refusals", o->refused);
	(void)fprintf(json, "\"runs\": [");
}

static void json_run(FILE *f, const struct tally *t, double cpu)
{
	const struct pool *p = world.pool;
	double load[MINUTES], idle[MINUTES];
	uint32_t refused[MINUTES];

	for (size_t i = 0; i < MINUTES; i++) {
		load[i] = t->minutes[i].load;
		idle[i] = t->minutes[i].idle;
		refused[i] = t->minutes[i].refused;
	}
	(void)fprintf(f,
		"{\"replicas\": %u, \"admitted\": %llu, \"refused\": %llu, \"movable\": %llu, "
		"\"untrue\": "
		"%llu, \"late\": %llu, \"tries\": %llu, \"puts\": %llu, \"conflicts\": %llu, "
		"\"leader_puts\": %llu, \"leader_conflicts\": %llu, \"lists\": %llu,\n",
		world.set.replicas, (number)t->admitted, (number)t->refused, (number)t->movable,
		(number)t->untrue, (number)t->late, (number)t->tries, (number)t->puts,
		(number)t->conflicts, (number)t->leads, (number)t->lead_conflicts,
		(number)t->lists);
	(void)fprintf(f,
		"\"spare\": %.2f, \"free\": %.5f, \"found_us\": %.1f, \"none_us\": %.1f, "
		"\"cpu_s\": %.0f, \"hash\": \"%016llx\",\n\"refused_by\": {",
		per(t->refused_spare, t->refused), per(t->refused_free, t->refused),
		times_median(&p->found), times_median(&p->none), cpu, (number)t->hash);
	for (size_t i = 0, n = 0; i <= 100 + GPUS; i++)
		if (t->refused_by[i])
			(void)fprintf(f, i < 100 ? "%s\"%zu %%\": %llu" : "%s\"%zu\": %llu",
				n++ ? ", " : "", i < 100 ? i : i - 100, (number)t->refused_by[i]);
	(void)fprintf(f, "},\n");
	shares(f, "load", load);
	shares(f, "idle", idle);
	counts(f, "refusals", refused);
	(void)fprintf(f, "\"end\": 0}");
}

void report_run(double cpu, bool first, FILE *json)
{
	struct tally *t = &world.tally;
	const struct pool *p = world.pool;
	double load = 0;

	qsort(t->answer_ms, t->n_answers, sizeof(*t->answer_ms), by_number);
	for (size_t i = 0; i < MINUTES; i++)
		load += t->minutes[i].load / MINUTES;
	printf("%8u %8llu %8llu %8llu %8.1f %6llu %6llu %9.4f %7.2f %8.2f %8.4f %7u %7u %9.0f "
	       "%9.0f %7.0f  %016llx\n",
		world.set.replicas, (number)t->admitted, (number)t->refused, (number)t->movable,
		per(t->refused_spare, t->refused), (number)t->untrue, (number)t->late,
		per((double)t->tries, t->admitted), 100 * per((double)t->conflicts, t->puts),
		100 * per((double)t->lead_conflicts, t->leads), load, percentile(t, 0.5),
		percentile(t, 0.99), times_median(&p->found), times_median(&p->none), cpu,
		(number)t->hash);
	(void)fflush(stdout);
	if (!json)
		return;
	(void)fprintf(json, first ? "\n" : ",\n");
	json_run(json, t, cpu);
}

bool report_end(FILE *json)
{
	if (!json)
		return true;
	(void)fprintf(json, "\n]}\n");
	if (fclose(json) == 0)
		return true;
	perror("sim-scale: the file of --json");
	return false;
}

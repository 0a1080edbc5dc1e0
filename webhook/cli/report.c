/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate report`: what was used of the pool, by whom. */
#include "webhook/cli/report.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/rfc3339.h"
#include "webhook/cli/report_impl.h"
#include "webhook/cli/usage/find_cluster.h"
#include "webhook/cli/usage/usage.h"

/* A year of ten thousand servers. */
#define ARENA_MAX ((size_t)8 << 30)
#define OUT_MAX (64u << 20)
#define DAY_LEN 10

static const char help[] =
	"usage: poolgate report [--by namespace|policy|model|server] [--from DAY] [--to DAY]\n"
	"                       [-o table|csv|json] [--kubeconfig FILE]\n"
	"\n"
	"Says what was used of the pool: bytes of GPUs times the time for which they were held, "
	"and "
	"GPUs\n"
	"times that time, of which each counts whole, be it that a part of it was held. Reads "
	"GPUUsage\n"
	"objects and the periods that GPUServers have open; changes nothing. Counting has to be "
	"switched\n"
	"on (cluster.usage.enabled). \"*\" stands for the small ones of a day, which are counted "
	"together.\n"
	"Behind that is what programs used of these bytes while a gate of the server told it, and "
	"of\n"
	"which share of what was held that is known; \"-\" where nobody knows.\n"
	"\n"
	"  --by namespace|policy|model|server\n"
	"                         [namespace]; the policy is the one that the namespace's label\n"
	"                         poolgate.io/policy names now, whatever it named then; - for "
	"none\n"
	"  --from DAY, --to DAY   2026-11-01: days of UTC, the first one and the one behind the "
	"last\n"
	"                         [this month, until now]\n"
	"  -o, --output table|csv|json\n"
	"                         csv and json have exact sums, in seconds; what is not known "
	"is\n"
	"                         empty, and null\n"
	"  --kubeconfig FILE      the cluster [$KUBECONFIG, ~/.kube/config]\n"
	"\n"
	"Exit codes: 0 done, 2 usage, 3 nobody answers, or you may not read it.\n"
	"\n"
	"Examples:\n"
	"  poolgate report --by policy --from 2026-10-01 --to 2026-11-01\n"
	"  poolgate report --by namespace -o csv > november.csv\n";

enum format { TABLE, CSV, JSON };

static int report(struct report *r, const char *kubeconfig, enum format format)
{
	static void (*const say[])(const struct report *r, struct buf *out) = {
		[TABLE] = report_say_table, [CSV] = report_say_csv, [JSON] = report_say_json};
	struct kube_config config;
	struct kube *kube = NULL;
	struct err err = {0};
	struct buf out;
	int code = REPORT_UNREADABLE;

	arena_init(&r->arena, ARENA_MAX);
	buf_init(&out, OUT_MAX);
	if (find_cluster(kubeconfig, &config, &err) != 0 || kube_new(&config, &kube, &err) != 0 ||
		report_read(kube, r, &err) != 0) {
		(void)fprintf(stderr, "poolgate report: %s\n", err.msg);
	} else {
		say[format](r, &out);
		if (usage_print("report", &out))
			code = REPORT_DONE;
	}
	kube_free(kube);
	kube_config_release(&config);
	buf_release(&out);
	arena_release(&r->arena);
	return code;
}

static bool read_day(const char *word, int64_t *ret_s)
{
	char text[] = "YYYY-MM-DDT00:00:00Z";
	int64_t ms;

	if (strlen(word) != DAY_LEN)
		return false;
	memcpy(text, word, DAY_LEN);
	if (!rfc3339_read(slice_of(text), &ms))
		return false;
	*ret_s = ms / 1000;
	return true;
}

/* The index of the word among so many, or -1. */
static int choice(const char *word, const char *(*name)(unsigned), unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (strcmp(word, name(i)) == 0)
			return (int)i;
	return -1;
}

static const char *by_name(unsigned i)
{
	return report_by_name((enum report_by)i);
}

static const char *format_name(unsigned i)
{
	static const char *const names[] = {"table", "csv", "json"};

	return names[i];
}

/* This month until now, in UTC. */
static void set_times(struct report *r)
{
	int64_t now_s = clock_wall_ms() / 1000;
	char text[RFC3339_SIZE];

	r->to_s = now_s - now_s % USAGE_DAY_S + USAGE_DAY_S;
	rfc3339_write(now_s * 1000, text);
	memcpy(text + 8, "01", 2);
	text[DAY_LEN] = '\0';
	(void)read_day(text, &r->from_s);
}

/* One option. 0, or USAGE_EXIT, said. */
static int take(int found, const char *word, struct report *r, enum format *format)
{
	int i;

	switch (found) {
	case 'b':
		i = choice(word, by_name, BY_SERVER + 1);
		if (i < 0)
			return usage_wrong("report",
				"--by takes namespace, policy, model or server, found \"%s\"",
				word);
		r->by = (enum report_by)i;
		return 0;
	case 'o':
		i = choice(word, format_name, JSON + 1);
		if (i < 0)
			return usage_wrong(
				"report", "-o takes table, csv or json, found \"%s\"", word);
		*format = (enum format)i;
		return 0;
	default:
		if (!read_day(word, found == 'f' ? &r->from_s : &r->to_s))
			return usage_wrong(
				"report", "found \"%s\", expected a day such as 2026-11-01", word);
		return 0;
	}
}

int report_main(int argc, char **argv)
{
	static const struct option options[] = {{"by", required_argument, NULL, 'b'},
		{"from", required_argument, NULL, 'f'}, {"to", required_argument, NULL, 't'},
		{"output", required_argument, NULL, 'o'},
		{"kubeconfig", required_argument, NULL, 'k'}, {"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0}};
	const char *kubeconfig = NULL;
	enum format format = TABLE;
	struct report r = {0};
	int found;

	set_times(&r);
	optind = opterr = 0;
	while ((found = getopt_long(argc, argv, ":o:h", options, NULL)) != -1) {
		if (found == 'h') {
			(void)fputs(help, stdout);
			return REPORT_DONE;
		}
		if (found == ':' || found == '?')
			return usage_option("report", found, options, argv);
		if (found == 'k')
			kubeconfig = usage_value(argv);
		else if (take(found, usage_value(argv), &r, &format) != 0)
			return USAGE_EXIT;
	}
	if (argv[optind])
		return usage_wrong("report", "unexpected word \"%s\"", argv[optind]);
	if (r.from_s >= r.to_s)
		return usage_wrong("report", "--from is not before --to");
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	return report(&r, kubeconfig, format);
}

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

enum format { TABLE, CSV, JSON };

struct options {
	struct report report;
	enum format format;
	const char *kubeconfig;
};

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

static int take_day(const struct opt *row, const char *value, void *of, struct err *err)
{
	struct options *o = of;
	bool from = strcmp(row->name, "--from") == 0;

	return read_day(value, from ? &o->report.from_s : &o->report.to_s)
		       ? 0
		       : err_set(err, ERR_INVALID,
				 "found \"%s\", expected a day such as 2026-11-01", value);
}

static const char *const formats[] = {"table", "csv", "json", NULL};
static const struct opt options[] = {
	OPT_WORD(options, report.by, "--by", "namespace|policy|model|server",
		"[namespace]; the policy is the one that the namespace's label\n"
		"poolgate.io/policy names now, whatever it named then; - for none",
		.words = report_bys),
	OPT_OWN(take_day, "--from", "DAY",
		"2026-11-01: a day of UTC, the first one [this month's first]"),
	OPT_OWN(take_day, "--to", "DAY", "the day behind the last one [tomorrow]"),
	OPT_WORD(options, format, "-o", "table|csv|json",
		"csv and json have exact sums, in seconds; what is not known is\n"
		"empty, and null",
		.also = "--output", .words = formats),
	OPT_TEXT(options, kubeconfig, "--kubeconfig", "FILE",
		"the cluster [$KUBECONFIG, ~/.kube/config]"),
};
static const struct subcommand command = {"report",
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
	"\n",
	"\n"
	"Exit codes: 0 done, 2 usage, 3 nobody answers, or you may not read it.\n"
	"\n"
	"Examples:\n"
	"  poolgate report --by policy --from 2026-10-01 --to 2026-11-01\n"
	"  poolgate report --by namespace -o csv > november.csv\n",
	USAGE_OPTIONS(options)};

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

int report_main(int argc, char **argv)
{
	struct options o = {0};
	int code;

	set_times(&o.report);
	if ((code = usage_read(&command, &o, argc, argv)) >= 0)
		return code;
	if (argv[optind])
		return usage_wrong("report", "unexpected word \"%s\"", argv[optind]);
	if (o.report.from_s >= o.report.to_s)
		return usage_wrong("report", "--from is not before --to");
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	return report(&o.report, o.kubeconfig, o.format);
}

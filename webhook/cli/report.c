/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate report`: what was used of the pool, by whom, as it is read off a cluster: each
 * period of each server counts once, wherever it was found. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/rfc3339.h"
#include "kube/kube_object.h"
#include "webhook/cli/report_impl.h"
#include "webhook/cli/usage/cli.h"
#include "webhook/cli/usage/find_cluster.h"
#include "webhook/cli/usage/usage.h"
#include "webhook/cluster/ledger/servers.h"
#include "webhook/cluster/reconcile/usage_keeper.h"
#include "webhook/core/policy/policy.h"

/* Exit codes. */
enum { REPORT_DONE = 0, REPORT_UNREADABLE = 3 };

/* ---- what a cluster shows ---- */

#define LIST_MS 60000
#define NAMESPACES_PATH "/api/v1/namespaces"
#define DAY_LEN 10

static bool add(struct report *r, const char *server, const char *uid, const struct usage_period *p)
{
	if (p->from_s < r->from_s || p->from_s >= r->to_s)
		return true;
	if (!server || !uid || !LIST_ROOM_IN(&r->arena, r->periods, r->n_periods, r->cap_periods))
		return false;
	r->periods[r->n_periods++] = (struct report_period){server, uid, *p};
	return true;
}

/* In the period that is open stands what was used until the last commit. */
static bool on_server(void *ctx, const struct json *j, const struct json_node *object)
{
	struct report *r = ctx;
	struct server_object o;
	struct usage_record u;
	struct err err = {0};

	if (server_object_read(j, object, &r->arena, &o, &err) != 0 ||
		(o.status.usage &&
			usage_record_read(slice_of(o.status.usage), &r->arena, &u, &err) != 0)) {
		r->unreadable += err.code != ERR_NOMEM;
		return err.code != ERR_NOMEM;
	}
	if (!o.status.usage)
		return true;
	return usage_record_advance(&u, &o, kube_wall_ms(r->kube) / 1000, &r->arena) &&
	       (!u.has_closed || add(r, o.name, o.uid, &u.closed)) &&
	       (!u.has_open || add(r, o.name, o.uid, &u.open));
}

static const char *text(struct report *r, const struct json *j, const struct json_node *v)
{
	return arena_strdup(&r->arena, json_str(j, v, &r->arena));
}

/* An object's name begins with the day on which its periods did: those of other days are not read.
 */
static bool is_of_another_day(const struct report *r, struct slice name)
{
	char day[] = "YYYY-MM-DDT00:00:00Z";
	int64_t ms;

	if (name.len < DAY_LEN)
		return false;
	memcpy(day, name.at, DAY_LEN);
	return rfc3339_read(slice_of(day), &ms) && (ms / 1000 < r->from_s || ms / 1000 >= r->to_s);
}

static bool on_usage(void *ctx, const struct json *j, const struct json_node *object)
{
	struct report *r = ctx;
	const struct json_node *periods = json_get(j, object, SLICE("periods"));

	if (is_of_another_day(r, kube_meta(j, object).name))
		return true;
	JSON_EACH(j, periods, e)
	{
		struct slice usage = json_str(j, json_get(j, e, SLICE("usage")), &r->arena);
		const char *server = text(r, j, json_get(j, e, SLICE("server")));
		const char *uid = text(r, j, json_get(j, e, SLICE("uid")));
		struct usage_record u;
		struct err err = {0};

		if (r->arena.failed)
			return false;
		if (usage_record_read(usage, &r->arena, &u, &err) != 0) {
			r->unreadable += err.code == ERR_INVALID;
			continue;
		}
		if (u.has_closed && !add(r, server, uid, &u.closed))
			return false;
	}
	return !r->arena.failed;
}

static bool on_namespace(void *ctx, const struct json *j, const struct json_node *object)
{
	struct report *r = ctx;
	const struct json_node *policy =
		json_path(j, object, "metadata", "labels", LABEL_POLICY, NULL);

	if (!json_is(policy, JSON_STRING))
		return true;
	if (!LIST_ROOM_IN(&r->arena, r->policies, r->n_policies, r->cap_policies))
		return false;
	r->policies[r->n_policies++] = (struct report_policy){
		arena_strdup(&r->arena, kube_meta(j, object).name), text(r, j, policy)};
	return !r->arena.failed;
}

/* ---- adding up ---- */

static int by_namespace(const void *a, const void *b)
{
	const struct report_policy *x = a, *y = b;

	return strcmp(x->namespace, y->namespace);
}

/* Of one that was found several times the longest comes first. */
static int by_period(const void *a, const void *b)
{
	const struct report_period *x = a, *y = b;
	int c = strcmp(x->uid, y->uid);

	if (c != 0)
		return c;
	if (x->usage.from_s != y->usage.from_s)
		return x->usage.from_s < y->usage.from_s ? -1 : 1;
	return x->usage.at_s > y->usage.at_s ? -1 : x->usage.at_s < y->usage.at_s;
}

static bool is_same(const struct report_period *a, const struct report_period *b)
{
	return strcmp(a->uid, b->uid) == 0 && a->usage.from_s == b->usage.from_s;
}

static const char *policy_named(const struct report *r, const char *namespace)
{
	const struct report_policy key = {.namespace = namespace}, *found = NULL;

	if (strcmp(namespace, USAGE_OTHERS) == 0)
		return USAGE_OTHERS;
	if (r->n_policies > 0)
		found = bsearch(&key, r->policies, r->n_policies, sizeof(key), by_namespace);
	return found ? found->name : USAGE_NO_POLICY;
}

static const char *key_of(
	const struct report *r, const struct report_period *p, const struct usage_row *row)
{
	switch (r->by) {
	case BY_POLICY:
		return policy_named(r, row->namespace);
	case BY_MODEL:
		return row->model;
	case BY_SERVER:
		return p->server;
	case BY_NAMESPACE:
		break;
	}
	return row->namespace;
}

static bool add_up(struct report *r, const struct report_period *p)
{
	struct usage_period *sum = &r->sum;

	sum->capacity = usage_plus(sum->capacity, p->usage.capacity);
	sum->free = usage_plus(sum->free, p->usage.free);
	sum->unfit = usage_plus(sum->unfit, p->usage.unfit);
	sum->over = usage_plus(sum->over, p->usage.over);
	for (size_t i = 0; i < p->usage.n_rows; i++) {
		const struct usage_row *from = &p->usage.rows[i];
		struct usage_row *to = usage_row(sum, key_of(r, p, from), "", &r->arena);

		if (!to)
			return false;
		usage_row_add(to, from);
	}
	return true;
}

static int list(
	struct kube *k, const char *path, kube_each *each, struct report *r, struct err *err)
{
	char version[32];
	int rc = kube_list(k, path, LIST_MS, NULL, each, r, version, err);

	return r->arena.failed ? err_set(err, ERR_NOMEM, "out of memory") : rc;
}

/* Read GPUServers, GPUUsages and, for BY_POLICY, namespaces, and add up. Errors of kube_list;
 * ERR_NOMEM. */
static int report_read(struct kube *k, struct report *r, struct err *err)
{
	/* First the servers: what is stored and forgotten meanwhile is then met twice, and not
	 * never. A list that begins anew is no harm, for the same reason. */
	int rc;

	r->kube = k;
	rc = list(k, SERVERS_PATH, on_server, r, err);

	if (rc == 0)
		rc = list(k, USAGES_PATH, on_usage, r, err);
	if (rc == ERR_NOTFOUND)
		return err_set(err, ERR_NOTFOUND,
			"nothing is stored here: the cluster has no GPUUsages (components/usage)");
	if (rc == 0 && r->by == BY_POLICY)
		rc = list(k, NAMESPACES_PATH, on_namespace, r, err);
	if (rc != 0)
		return rc;
	if (r->n_policies > 0)
		qsort(r->policies, r->n_policies, sizeof(*r->policies), by_namespace);
	if (r->n_periods > 0)
		qsort(r->periods, r->n_periods, sizeof(*r->periods), by_period);
	for (size_t i = 0; i < r->n_periods; i++)
		if ((i == 0 || !is_same(&r->periods[i], &r->periods[i - 1])) &&
			!add_up(r, &r->periods[i]))
			return err_set(err, ERR_NOMEM, "out of memory");
	return 0;
}

/* ---- the command line ---- */

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

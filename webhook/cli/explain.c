/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate explain`: why a pod waits, and for whom; what it holds, and since when. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "webhook/cli/explain_impl.h"
#include "webhook/cli/inject/installed.h"
#include "webhook/cli/usage/cli.h"
#include "webhook/cli/usage/find_cluster.h"
#include "webhook/cli/usage/usage.h"
#include "webhook/edge/settings/settings.h"
#include "webhook/edge/settings/settings_file.h"

/* Exit codes. */
enum { EXPLAIN_DONE = 0, EXPLAIN_NOT_NOW = 1, EXPLAIN_UNREADABLE = 3 };

#define ARENA_MAX ((size_t)1 << 30)
#define OUT_MAX (64u << 20)

struct options {
	const char *kubeconfig;
	unsigned json;
};

static const char *const formats[] = {"text", "json", NULL};
static const struct opt options[] = {
	USAGE_FORMAT(options, json, "text|json", formats),
	OPT_TEXT(options, kubeconfig, "--kubeconfig", "FILE",
		"the cluster [$KUBECONFIG, ~/.kube/config]"),
};
static const struct subcommand command = {"explain",
	"usage: poolgate explain NAMESPACE/POD [-o text|json] [--kubeconfig FILE]\n"
	"\n"
	"Says why a pod waits for GPUs: its place among those who wait, what is missing, who holds "
	"that\n"
	"since when, and who stands before it. Of a pod that does not wait: what it holds and "
	"where, or\n"
	"why it would be refused now. Reads GPUServers and the injected pods of all namespaces; "
	"changes\n"
	"nothing.\n"
	"\n",
	"\n"
	"Exit codes: 0 it holds GPUs or needs none, 1 it waits or would be refused, 2 usage, 3 "
	"nobody\n"
	"answers, or you may not read it.\n"
	"\n"
	"Examples:\n"
	"  poolgate explain ml/train-0\n"
	"  kubectl poolgate explain ml/train-0 -o json\n",
	USAGE_OPTIONS(options)};

static int complain(const char *msg)
{
	(void)fprintf(stderr, "poolgate explain: %s\n", msg);
	return EXPLAIN_UNREADABLE;
}

static int print(const struct explain *e, bool json)
{
	struct buf out;
	int code = e->state == EXPLAIN_WAITS || e->state == EXPLAIN_LOST ? EXPLAIN_NOT_NOW
									 : EXPLAIN_DONE;

	buf_init(&out, OUT_MAX);
	(json ? explain_json : explain_say)(e, &out);
	if (!usage_print("explain", &out))
		code = EXPLAIN_UNREADABLE;
	buf_release(&out);
	return code;
}

static bool takes(const char *flag)
{
	return strcmp(flag, "config") == 0;
}

/* Whose priority counts, and from when on GPUs are kept for a head. Who may not read the settings
 * is told so. */
static void read_settings(
	const char *kubeconfig, struct explain *e, struct installed *i, struct settings *s)
{
	struct cluster_settings shipped, *from = &shipped;

	settings_cluster_defaults(&shipped);
	if (installed_fetch(kubeconfig, takes, i, &e->settings) == 0 &&
		settings_load(i->n_words, i->words, i->total_gpu_memory, s, &e->settings) == 0)
		from = &s->cluster;
	e->pool.classes = (struct queue_classes){from->priority_classes, from->n_priority_classes};
	e->pool.reserve_ms = from->reserve_ms;
	e->policies = from->policies;
	e->policies_required = from->policies_required;
}

static int explain(const char *kubeconfig, const char *pod, bool json)
{
	struct explain e = {.pool.now_ms = clock_wall_ms()};
	const char *slash = strchr(pod, '/');
	struct installed installed = {0};
	struct settings settings = {0};
	struct kube_config config;
	struct kube *kube = NULL;
	struct err err = {0};
	int code = EXPLAIN_UNREADABLE;

	arena_init(&e.pool.arena, ARENA_MAX);
	read_settings(kubeconfig, &e, &installed, &settings);
	e.namespace = arena_strdup(&e.pool.arena, (struct slice){pod, (size_t)(slash - pod)});
	e.name = slash + 1;
	if (find_cluster(kubeconfig, &config, &err) != 0 || kube_new(&config, &kube, &err) != 0 ||
		!e.namespace || explain_read(kube, &e, &err) != 0)
		(void)complain(err.code ? err.msg : "out of memory");
	else
		code = print(&e, json);
	policy_asked_end(&e.asked);
	kube_free(kube);
	kube_config_release(&config);
	installed_remove(&installed);
	settings_release(&settings);
	arena_release(&e.pool.arena);
	return code;
}

int explain_main(int argc, char **argv)
{
	struct options o = {0};
	const char *word, *slash;
	int code = usage_read(&command, &o, argc, argv);

	if (code >= 0)
		return code;
	word = argv[optind];
	slash = word ? strchr(word, '/') : NULL;
	if (!slash || !text_dns_label((struct slice){word, (size_t)(slash - word)}) ||
		!text_dns_subdomain(slice_of(slash + 1)))
		return usage_wrong(
			"explain", "found \"%s\", expected NAMESPACE/POD", word ? word : "");
	if (argv[optind + 1])
		return usage_wrong("explain", "unexpected word \"%s\"", argv[optind + 1]);
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	return explain(o.kubeconfig, word, o.json);
}

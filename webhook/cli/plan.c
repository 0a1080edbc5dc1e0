/* SPDX-License-Identifier: Apache-2.0 */
/* cli: the command line of `poolgate plan`: what would start now of manifests, wait, or never fit.
 */
#include "webhook/cli/plan.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "webhook/cli/plan_impl.h"
#include "webhook/cli/usage/usage.h"
#include "webhook/cluster/policy/policy_look.h"

#define ARENA_MAX ((size_t)1 << 30)
#define OUT_MAX (64u << 20)

static const char help[] =
	"usage: poolgate plan [options] [FILE|DIR...]\n"
	"\n"
	"Says of the pods in manifests, and of each copy that a Deployment, StatefulSet, Job, … "
	"makes, what\n"
	"would start now, what would wait and for what, what would be refused, and what never "
	"fits: in the\n"
	"order of the manifests, each on what those before it leave. Reads the settings of the "
	"cluster's\n"
	"poolgate, GPUServers and the pods that wait; changes nothing.\n"
	"\n"
	"  -f, --file FILE|DIR    one more file (\"-\": standard input, also when none is named), "
	"or the\n"
	"                         *.yaml, *.yml and *.json in a folder\n"
	"  -o, --output text|json\n"
	"  -n, --namespace NS     of objects that name none [default]\n"
	"  --kubeconfig FILE      the cluster [$KUBECONFIG, ~/.kube/config]\n"
	"\n"
	"Without a cluster, on a pool that nobody uses, with what is injected as for poolgate "
	"inject:\n"
	"  --pool FILE|DIR, --policies FILE|DIR, --config FILE, --client-catalogue FILE, "
	"--sidecar-config FILE,\n"
	"  --client-shell PATH, --launchers FILE|DIR, --default-launcher NAME,\n"
	"  --total-gpu-memory SIZE [$TOTAL_GPU_MEMORY], --node-resource BOOL\n"
	"  --registry HOST[,TOKENHOST...]\n"
	"                         what images start, as for poolgate inject; with a cluster, too\n"
	"\n"
	"Exit codes: 0 all would start now, 1 something would wait or be refused, 2 usage, 3 "
	"something\n"
	"could not be read.\n"
	"\n"
	"Examples:\n"
	"  kubectl poolgate plan -f train.yaml\n"
	"  poolgate plan --config poolgate.yaml --pool gpuservers.yaml -o json manifests/\n";

static const struct option options[] = {{"output", required_argument, NULL, 'o'},
	{"help", no_argument, NULL, 'h'}, INJECT_WORLD_OPTIONS, {NULL, 0, NULL, 0}};

/* One option. -1: go on; else the exit code. */
static int take_option(struct inject_source *s, bool *ret_json, int found, int which, char **argv)
{
	const char *value = usage_value(argv);

	switch (found) {
	case 'o':
		*ret_json = strcmp(value, "json") == 0;
		return *ret_json || strcmp(value, "text") == 0
			       ? -1
			       : usage_wrong("plan", "-o takes text or json, found \"%s\"", value);
	case 'h':
		(void)fputs(help, stdout);
		return PLAN_STARTS;
	case 'f':
	case 'n':
	case INJECT_PASS_ON:
	case INJECT_KUBECONFIG:
	case INJECT_REGISTRY:
		return inject_source_take("plan", s, found, &options[which], argv);
	default:
		return usage_option("plan", found, options, argv);
	}
}

static int take_command(struct inject_source *s, bool *ret_json, int argc, char **argv)
{
	int found, which = 0, rc = -1;

	optind = opterr = 0;
	while (rc < 0 && (found = getopt_long(argc, argv, ":f:o:n:h", options, &which)) != -1)
		rc = take_option(s, ret_json, found, which, argv);
	if (rc < 0)
		rc = inject_source_rest("plan", s, argc, argv);
	if (rc < 0 && s->kubeconfig && s->n_passed)
		return usage_wrong("plan", "--kubeconfig and %s exclude each other", s->passed[0]);
	s->installed = s->n_passed == 0;
	return rc;
}

static int complain(const char *msg)
{
	(void)fprintf(stderr, "poolgate plan: %s\n", msg);
	return PLAN_UNREADABLE;
}

static int print(const struct plan_job *job, bool json)
{
	struct buf out;
	int code = PLAN_STARTS;

	for (size_t i = 0; i < job->n_works; i++)
		if (!plan_starts(&job->works[i]))
			code = PLAN_NOT_NOW;
	buf_init(&out, OUT_MAX);
	(json ? plan_json : plan_say)(job, &out);
	if (!usage_print("plan", &out))
		code = PLAN_UNREADABLE;
	buf_release(&out);
	return code;
}

/* Nothing is printed where something could not be read: what comes behind it would be told too well
 * off. */
static int plan_files(const struct inject_source *s, struct plan_job *job, bool json)
{
	struct inject_job files = {.verb = "plan",
		.world = &job->world,
		.namespace = slice_of(s->namespace),
		.look = plan_look,
		.ctx = job};
	struct err err = {0};

	if (inject_files(&files, s) != INJECT_DONE)
		return PLAN_UNREADABLE;
	return plan_finish(job, &err) == 0 && plan_bounds(job, &err) == 0 ? print(job, json)
									  : complain(err.msg);
}

static int plan(const struct inject_source *s, bool json)
{
	struct plan_job job = {.pool.now_ms = clock_wall_ms(),
		.kube_config = {.ca_fd = -1, .cert_fd = -1, .key_fd = -1}};
	struct inject_world w;
	struct err err = {0};
	int code = inject_world_load("plan", s, &w);

	arena_init(&job.pool.arena, ARENA_MAX);
	arena_init(&job.scratch, ARENA_MAX);
	if (code == INJECT_DONE && plan_pool(&job, &w, s->kubeconfig, s->n_passed > 0, &err) != 0)
		code = complain(err.msg);
	if (code == INJECT_DONE)
		code = plan_files(s, &job, json);
	policy_asked_end(&job.asked);
	kube_free(job.kube);
	kube_config_release(&job.kube_config);
	arena_release(&job.scratch);
	arena_release(&job.pool.arena);
	inject_world_release(&w);
	return code;
}

int plan_main(int argc, char **argv)
{
	struct inject_source s;
	int code = PLAN_UNREADABLE;
	bool json = false;

	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	if (inject_source_init("plan", &s, argc)) {
		code = take_command(&s, &json, argc, argv);
		if (code < 0)
			code = plan(&s, json);
	}
	inject_source_release(&s);
	return code;
}

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

struct options {
	struct inject_source source;
	unsigned json;
};
_Static_assert(offsetof(struct options, source) == 0, "rows of inject_world are of it");

static const char *const formats[] = {"text", "json", NULL};
static const struct opt options[] = {
	USAGE_FORMAT(options, json, "text|json", formats),
	INJECT_WORLD_OPTIONS,
};
static const struct subcommand command = {"plan",
	"usage: poolgate plan [options] [FILE|DIR...]\n"
	"\n"
	"Says of the pods in manifests, and of each copy that a Deployment, StatefulSet, Job, … "
	"makes, what\n"
	"would start now, what would wait and for what, what would be refused, and what never "
	"fits: in the\n"
	"order of the manifests, each on what those before it leave. Reads the settings of the "
	"cluster's\n"
	"poolgate, GPUServers and the pods that wait; changes nothing.\n"
	"\n",
	"\n"
	"Without a cluster, on a pool that nobody uses, with what is injected as for poolgate "
	"inject:\n" INJECT_PASSED_HELP "\n"
	"Exit codes: 0 all would start now, 1 something would wait or be refused, 2 usage, 3 "
	"something\n"
	"could not be read.\n"
	"\n"
	"Examples:\n"
	"  kubectl poolgate plan -f train.yaml\n"
	"  poolgate plan --config poolgate.yaml --pool gpuservers.yaml -o json manifests/\n",
	USAGE_OPTIONS(options)};

static int take_command(struct options *o, int argc, char **argv)
{
	struct inject_source *s = &o->source;
	int rc = usage_read(&command, o, argc, argv);

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
	struct options o = {0};
	int code = PLAN_UNREADABLE;

	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	if (inject_source_init("plan", &o.source, argc)) {
		code = take_command(&o, argc, argv);
		if (code < 0)
			code = plan(&o.source, o.json);
	}
	inject_source_release(&o.source);
	return code;
}

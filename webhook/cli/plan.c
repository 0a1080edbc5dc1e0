/* SPDX-License-Identifier: Apache-2.0 */
/* cli: the command line of `poolgate plan`: what would start now of manifests, wait, or never fit;
 * and the pool that it plans on. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "webhook/cli/plan_impl.h"
#include "webhook/cli/usage/cli.h"
#include "webhook/cli/usage/find_cluster.h"
#include "webhook/cli/usage/usage.h"

/* Exit codes. */
enum { PLAN_STARTS = 0, PLAN_NOT_NOW = 1, PLAN_USAGE = 2, PLAN_UNREADABLE = 3 };

/* ---- the pool that is planned on ---- */

#define PRIORITY_CLASSES "/apis/scheduling.k8s.io/v1/priorityclasses/"
#define PATH_BYTES 512

/* The mutator chooses servers for profiles that name them in the pod; which of them are free is
 * counted here, copy by copy. */
static int view(
	struct ledger *l, bool with_claims, struct arena *a, struct pool_view *ret, struct err *err)
{
	const struct plan_job *job = (const struct plan_job *)l;

	(void)with_claims;
	(void)a;
	(void)err;
	*ret = (struct pool_view){.inventory = job->pool.inv, .usage = job->empty};
	return 0;
}

static const struct ledger_ops ops = {.view = view};

/* A class that is not there counts for nobody; who may not read it is told so. */
static int read_class(struct kube *k, struct plan_job *job, size_t i, struct err *err)
{
	struct slice name = job->pool.classes.names[i];
	struct plan_class *c = &job->classes[i];
	struct kube_answer a = {0};
	struct err why = {0};
	char path[PATH_BYTES];
	int rc;

	(void)snprintf(path, sizeof(path), PRIORITY_CLASSES "%.*s", (int)name.len, name.at);
	rc = kube_get(k, path, 0, &a, &why);
	if (rc == 0) {
		const struct json_node *object = json_root(&a.json);

		(void)json_int(&a.json, json_get(&a.json, object, SLICE("value")), &c->priority);
		c->for_all = json_is(json_get(&a.json, object, SLICE("globalDefault")), JSON_TRUE);
	} else if (rc == ERR_NOMEM) {
		(void)err_set(err, rc, "%s", why.msg);
	} else if (!kube_says_gone(rc, &why)) {
		job->priorities = why;
	}
	kube_answer_release(&a);
	return rc == ERR_NOMEM ? rc : 0;
}

static int read_cluster(struct plan_job *job, const char *kubeconfig, struct err *err)
{
	int rc = find_cluster(kubeconfig, &job->kube_config, err);

	if (rc == 0)
		rc = kube_new(&job->kube_config, &job->kube, err);
	if (rc == 0)
		rc = pool_read_servers(job->kube, &job->pool, err);
	/* elsewhere nobody waits */
	if (rc == 0 && job->world.config->late_place) {
		rc = pool_read_waiting(job->kube, &job->pool, err);
		for (size_t i = 0; rc == 0 && i < job->pool.classes.n; i++)
			rc = read_class(job->kube, job, i, err);
	}
	return rc;
}

/* The pool of the settings, on which nobody is. */
static int take_pool(struct plan_job *job, struct ledger *l, struct err *err)
{
	struct pool_view all;

	if (!l)
		return err_set(err, ERR_NOTFOUND,
			"no pool is known here: name GPUServer documents with --pool, or ask a "
			"cluster, without flags for settings");
	if (l->ops->view(l, false, &job->pool.arena, &all, err) != 0)
		return err->code;
	job->pool.inv = all.inventory;
	job->pool.usage = all.usage;
	return 0;
}

/* Numbers of the job's own, to be counted on; and the same with nobody there. */
static int own_usage(struct plan_job *job, struct err *err)
{
	struct pool_read *p = &job->pool;
	struct arena *a = &p->arena;
	size_t gpus = p->inv.n_gpus, servers = p->inv.n_servers;

	job->claimed = arena_copy(a, p->usage.claimed, gpus, sizeof(*job->claimed));
	job->n_claims = arena_copy(a, p->usage.n_claims, servers, sizeof(*job->n_claims));
	job->empty = (struct usage){.claimed = arena_array(a, gpus, sizeof(*job->claimed)),
		.pending = arena_array(a, gpus, sizeof(*job->claimed)),
		.n_claims = arena_array(a, servers, sizeof(*job->n_claims))};
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory for the pool");
	p->usage = (struct usage){
		.claimed = job->claimed, .pending = job->empty.pending, .n_claims = job->n_claims};
	return 0;
}

/* Read the cluster, or take the pool of the settings, where w has been loaded from
 * flags; job's arena is inited. Errors of kube_list, ERR_NOTFOUND where the settings name no pool,
 * ERR_NOMEM. */
static int plan_pool(struct plan_job *job, const struct inject_world *w, const char *kubeconfig,
	bool offline, struct err *err)
{
	const struct cluster_settings *s = &w->settings.cluster;
	struct pool_read *p = &job->pool;
	int rc;

	p->classes = (struct queue_classes){s->priority_classes, s->n_priority_classes};
	p->reserve_ms = s->reserve_ms;
	job->classes = arena_array(&p->arena, p->classes.n, sizeof(*job->classes));
	if (!job->classes)
		return err_set(err, ERR_NOMEM, "out of memory for the settings");
	job->world = w->mutate;
	/* where a client's image is not set the cluster refuses */
	job->world.preview = offline;
	rc = offline ? take_pool(job, w->ledger, err) : read_cluster(job, kubeconfig, err);
	if (rc == 0 && !offline && s->policies)
		rc = policy_asked_begin(
			&job->asked, job->kube, s->policies_required, &p->arena, err);
	if (job->asked.look)
		job->world.policies = &job->asked.source;
	job->uses = (struct policy_uses){.of = job->world.policies, .pool = p};
	if (rc == 0)
		rc = own_usage(job, err);
	job->ledger.ops = &ops;
	job->world.ledger = &job->ledger;
	job->queue = p->pods;
	job->n_queue = job->cap_queue = p->n_pods;
	job->work_of = arena_array(&p->arena, p->n_pods, sizeof(*job->work_of));
	if (rc == 0 && !job->work_of)
		rc = err_set(err, ERR_NOMEM, "out of memory for those who wait");
	for (size_t i = 0; rc == 0 && i < job->n_queue; i++)
		job->work_of[i] = SIZE_MAX;
	if (rc == 0 && !policy_use_waiting(&job->uses))
		rc = err_set(err, ERR_NOMEM, "out of memory for those who wait");
	return rc == 0 ? plan_settle(job, err) : rc;
}

/* ---- the command line ---- */

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

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: the pool that `poolgate plan` plans on. */
#include <stdio.h>

#include "webhook/cli/plan_impl.h"
#include "webhook/cli/usage/find_cluster.h"

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

int plan_pool(struct plan_job *job, const struct inject_world *w, const char *kubeconfig,
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

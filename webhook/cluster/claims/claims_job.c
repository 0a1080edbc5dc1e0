/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: gangs that are as large as their Job says (poolgate.io/gang-size: job). The Job is asked
 * while they wait, and again after some seconds, since its parallelism can be changed. */
#include <stdlib.h>

#include "base/clock.h"
#include "webhook/cluster/claims/claims_impl.h"
#include "webhook/cluster/claims/job_get.h"
#include "webhook/core/pod/queue_read.h"

#define PATH_BYTES 2048
#define SCRATCH_MAX 4096
/* Of one round: those that are not asked now are in the next. */
#define ASK_MAX 32
#define AGAIN_MS 5000
/* Where we may not read Jobs. */
#define REFUSED_MS 60000

struct job_size {
	struct job_size *next;
	int64_t again_ms; /* it is asked from then on */
	uint32_t size;    /* 0: it could not be read */
	uint32_t round;   /* the last in which somebody waited with it */
	char uid[];
};

int job_get(struct kube *k, struct slice namespace, struct slice name, struct slice uid,
	struct kube_answer *ret, struct err *err)
{
	struct buf path;
	struct arena a;
	const char *in, *of;
	int rc;

	*ret = (struct kube_answer){0};
	arena_init(&a, SCRATCH_MAX);
	buf_init(&path, PATH_BYTES);
	in = arena_strdup(&a, namespace);
	of = arena_strdup(&a, name);
	if (in && of)
		kube_path(&path, "/apis/batch/v1", in, "jobs", of, NULL);
	rc = a.failed || path.failed
		     ? err_set(err, ERR_NOMEM, "out of memory for the name of a Job")
		     : kube_get(k, path.data, CLAIMS_CALL_MS, ret, err);
	if (kube_says_gone(rc, err) ||
		(rc == 0 && !slice_eq(kube_meta(&ret->json, json_root(&ret->json)).uid, uid)))
		rc = err_set(err, ERR_CONFLICT, "its Job is gone");
	buf_release(&path);
	arena_release(&a);
	return rc;
}

/* NULL: out of memory. */
static struct job_size *size_of(struct claims *c, struct slice uid)
{
	struct job_size *s = c->jobs;

	while (s && !slice_is(uid, s->uid))
		s = s->next;
	if (s)
		return s;
	s = calloc(1, sizeof(*s) + uid.len + 1);
	if (!s)
		return NULL;
	memcpy(s->uid, uid.at, uid.len);
	s->next = c->jobs;
	return c->jobs = s;
}

static void forget(struct claims *c, bool all)
{
	for (struct job_size **at = &c->jobs; *at;) {
		struct job_size *s = *at;

		if (all || s->round != c->round) {
			*at = s->next;
			free(s);
		} else {
			at = &s->next;
		}
	}
}

static void ask(struct claims *c, struct job_size *s, const struct pod_waiting *pod)
{
	struct kube_answer job;
	struct err err = {0};
	int rc = job_get(c->cfg->kube, pod->pod.namespace, pod->job, pod->pod.owner, &job, &err);

	s->again_ms = clock_ms() + (rc == ERR_REFUSED ? REFUSED_MS : AGAIN_MS);
	s->size = rc == 0 ? queue_job_size(&job.json, json_root(&job.json)) : 0;
	kube_answer_release(&job);
	if (rc == 0)
		return;
	log_line(c->cfg->log, LOG_LEVEL_WARN, "how large a gang is cannot be read from its Job",
		log_slice("namespace", pod->pod.namespace), log_slice("name", pod->pod.name),
		log_str("error", err.msg));
}

void job_sizes(struct claims *c, struct pod_waiting *const *list, struct queue_pod *pods, size_t n)
{
	size_t asked = 0;

	for (size_t i = 0; i < n; i++) {
		struct job_size *s =
			pods[i].gang_job && list[i]->job.at ? size_of(c, pods[i].owner) : NULL;

		if (!s)
			continue;
		s->round = c->round;
		if (clock_ms() >= s->again_ms && asked < ASK_MAX && !duty_stopping(c->self)) {
			ask(c, s, list[i]);
			asked++;
		}
		claims_until(c, s->again_ms);
		pods[i].gang_size = s->size;
	}
	forget(c, false);
}

void job_sizes_free(struct claims *c)
{
	forget(c, true);
}

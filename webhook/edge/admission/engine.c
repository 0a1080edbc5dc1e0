/* SPDX-License-Identifier: Apache-2.0 */
/* edge: decisions on pods from files. */
#include "webhook/edge/admission/engine.h"

#include <stdlib.h>

#include "webhook/core/review/review.h"
#include "webhook/edge/admission/scratch.h"

/* A pod's text, read, with the memory to decide in. */
struct job {
	struct json j;
	struct arena arena;
	char *copy;
};

static int job_begin(struct job *job, struct slice text, struct err *err)
{
	json_init(&job->j);
	arena_init(&job->arena, SCRATCH_ARENA_MAX);
	job->copy = NULL;
	return json_read_copy(&job->j, text.at, text.len, REVIEW_NODES_MAX, &job->copy, err);
}

static void job_end(struct job *job)
{
	json_release(&job->j);
	arena_release(&job->arena);
	free(job->copy);
}

int engine_inject(const struct mutate_world *world, struct slice pod_json, struct slice namespace,
	struct buf *ret_patch, struct buf *ret_warnings, const char **ret_why_not, struct err *err)
{
	struct mutation m = {0};
	struct job job;
	int rc = job_begin(&job, pod_json, err);

	if (rc == 0)
		rc = mutate_create(world, &job.j, json_root(&job.j), namespace, &job.arena,
			ret_patch, &m, err);
	for (size_t i = 0; i < m.warnings.n; i++) {
		buf_slice(ret_warnings, m.warnings.text[i]);
		buf_char(ret_warnings, '\n');
	}
	*ret_why_not = rc == 0 && !m.patched ? m.why_not : NULL;
	job_end(&job);
	return rc;
}

int engine_uninject(
	struct slice pod_json, struct buf *ret_patch, const char **ret_why_not, struct err *err)
{
	struct mutation m = {0};
	struct job job;
	int rc = job_begin(&job, pod_json, err);

	if (rc == 0)
		rc = mutate_undo(&job.j, json_root(&job.j), &job.arena, ret_patch, &m, err);
	*ret_why_not = rc == 0 && !m.patched ? m.why_not : NULL;
	job_end(&job);
	return rc;
}

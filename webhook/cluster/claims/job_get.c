/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: see job_get.h. */
#include "webhook/cluster/claims/job_get.h"

#define PATH_BYTES 2048
#define SCRATCH_MAX 4096
#define CALL_MS 5000

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
		     : kube_get(k, path.data, CALL_MS, ret, err);
	if (kube_says_gone(rc, err) ||
		(rc == 0 && !slice_eq(kube_meta(&ret->json, json_root(&ret->json)).uid, uid)))
		rc = err_set(err, ERR_CONFLICT, "its Job is gone");
	buf_release(&path);
	arena_release(&a);
	return rc;
}

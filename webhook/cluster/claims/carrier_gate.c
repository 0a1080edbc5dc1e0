/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: a place reaches its pod as annotations, and the pod is let go by taking its gate away:
 * one JSON patch. */
#include "webhook/cluster/claims/carrier.h"

#include "webhook/core/pod/late.h"

#define PATH_BYTES 2048
#define BODY_BYTES (1u << 20)
#define CALL_MS 5000

static int carry(struct kube *k, const struct kube_answer *pod, const struct plan *plan,
	const struct gpu_place *place, struct arena *a, struct err *err)
{
	const struct json_node *root = json_root(&pod->json);
	struct kube_meta m = kube_meta(&pod->json, root);
	const char *namespace = arena_strdup(a, m.namespace), *name = arena_strdup(a, m.name);
	struct buf path, body;
	struct kube_call call = {
		.method = "PATCH", .content_type = KUBE_JSON_PATCH, .timeout_ms = CALL_MS};
	int rc = 0;

	buf_init(&path, PATH_BYTES);
	buf_init(&body, BODY_BYTES);
	if (namespace && name)
		kube_path(&path, "/api/v1", namespace, "pods", name, NULL);
	if (late_patch(&pod->json, root, plan, place, a, &body)) {
		call.path = path.data;
		call.body = buf_as_slice(&body);
		rc = a->failed || path.failed || body.failed
			     ? err_set(err, ERR_NOMEM, "out of memory for a pod's place")
			     : kube_do(k, &call, NULL, err);
	}
	buf_release(&path);
	buf_release(&body);
	return rc;
}

const struct carrier carrier_gate = {.waits = late_is_held, .carry = carry};

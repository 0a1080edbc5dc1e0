/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: a place reaches its pod as annotations, and the pod is let go by taking its gate away:
 * one JSON patch. */
#include "webhook/cluster/claims/carrier.h"

#include "webhook/core/pod/late.h"

#define BODY_BYTES (1u << 20)
#define CALL_MS 5000

static int send(struct kube *k, struct slice namespace, struct slice name, const struct buf *body,
	struct arena *a, struct err *err)
{
	const char *in = arena_strdup(a, namespace), *of = arena_strdup(a, name);
	struct kube_call call = {.method = "PATCH",
		.at = {"/api/v1", in, "pods", of, NULL},
		.content_type = KUBE_JSON_PATCH,
		.text = body,
		.timeout_ms = CALL_MS};

	return a->failed ? err_set(err, ERR_NOMEM, "out of memory for a pod's place")
			 : kube_do(k, &call, NULL, err);
}

static int carry(struct kube *k, const struct kube_answer *pod, const struct plan *plan,
	const struct gpu_place *place, struct arena *a, struct err *err)
{
	const struct json_node *root = json_root(&pod->json);
	struct kube_meta m = kube_meta(&pod->json, root);
	struct buf body;
	int rc = 0;

	buf_init(&body, BODY_BYTES);
	if (late_patch(&pod->json, root, plan, place, a, &body))
		rc = send(k, m.namespace, m.name, &body, a, err);
	buf_release(&body);
	return rc;
}

static int carry_unread(struct kube *k, const struct queue_pod *pod, const struct plan *plan,
	const struct gpu_place *place, struct arena *a, struct err *err)
{
	struct buf body;
	int rc;

	buf_init(&body, BODY_BYTES);
	late_patch_last(pod->uid, plan, place, a, &body);
	rc = send(k, pod->namespace, pod->name, &body, a, err);
	buf_release(&body);
	return rc;
}

const struct carrier carrier_gate = {
	.waits = late_is_held, .carry = carry, .carry_unread = carry_unread};

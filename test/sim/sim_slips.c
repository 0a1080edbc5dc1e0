/* SPDX-License-Identifier: Apache-2.0 */
/* sim: a second way for a place to reach its pod, made up: the leader leaves a slip with the API
 * server, and somebody else, by and by, writes the place that it names into the pod and takes the
 * gate away. Whoever decides about places must not see the difference from claims/carrier_gate. */
#include <stdio.h>

#include "test/sim/sim_world.h"
#include "webhook/cluster/claims/carrier.h"
#include "webhook/core/pod/late.h"

#define SLIP_BYTES 4096
#define CALL_MS 5000
/* Between two looks of whoever reads the slips. */
#define LOOK_US (2 * SECOND)

bool slips_on;

/* ---- the leader's side ---- */

static int carry(struct kube *k, const struct kube_answer *pod, const struct plan *plan,
	const struct gpu_place *place, struct arena *a, struct err *err)
{
	struct kube_meta m = kube_meta(&pod->json, json_root(&pod->json));
	const char *namespace = arena_strdup(a, m.namespace), *name = arena_strdup(a, m.name);
	struct buf path, body;
	struct kube_call call = {
		.method = "POST", .content_type = KUBE_JSON, .timeout_ms = CALL_MS};
	int rc;

	(void)plan;
	buf_init(&path, SLIP_BYTES);
	buf_init(&body, SLIP_BYTES);
	kube_path(&path, "/api/v1", namespace, "pods", name, "slip");
	buf_fmt(&body, "{\"uid\":\"%.*s\",\"place\":\"%.*s\"}", (int)m.uid.len, m.uid.at,
		place ? (int)place->all.len : 0, place ? place->all.at : "");
	call.path = path.data;
	call.body = buf_as_slice(&body);
	rc = path.failed || body.failed ? err_set(err, ERR_NOMEM, "a slip is too long")
					: kube_do(k, &call, NULL, err);
	buf_release(&path);
	buf_release(&body);
	return rc;
}

const struct carrier carrier_slips = {.waits = late_is_held, .carry = carry};

/* ---- the cluster's side ---- */

bool slip_left(struct object *o, cJSON *slip, const char *who, bool unaware)
{
	const char *uid = cJSON_GetStringValue(store_at(slip, "uid", NULL));
	cJSON *status = store_at(o->doc, "status", NULL), *place = store_at(slip, "place", NULL);

	if (!uid || strcmp(uid, o->uid) != 0 || !status || !pod_is_held(o->doc))
		return false;
	laws_may_go(o, who, unaware);
	/* Left once more. */
	if (cJSON_Compare(store_at(status, "slip", NULL), place, true))
		return true;
	cJSON_DeleteItemFromObjectCaseSensitive(status, "slip");
	cJSON_AddItemToObject(status, "slip", cJSON_Duplicate(place, true));
	store_changed(o, who);
	return true;
}

/* The place is where late_servers() reads it, for whoever adopts the pod one day. */
static void drop_gate(struct object *o)
{
	cJSON *place = store_at(o->doc, "status", "slip");

	cJSON_AddItemToObject(store_at(o->doc, "metadata", "annotations"), ANN_PLACE,
		cJSON_Duplicate(place, true));
	pod_drop_gate(o->doc);
}

/* The first pod behind our gate with a slip. */
static struct object *next(void)
{
	for (struct object *o = store_first(PODS); o; o = store_next(o))
		if (store_at(o->doc, "status", "slip") && !o->deleting && pod_is_held(o->doc))
			return o;
	return NULL;
}

void slips(void *arg)
{
	struct object *o;

	(void)arg;
	for (;;) {
		sim_sleep((int64_t)sim_below(LOOK_US));
		while ((o = next())) {
			drop_gate(o);
			laws_let_go(o);
			store_changed(o, "slips");
		}
	}
}

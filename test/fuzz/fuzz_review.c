/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: whatever is posted to /mutate and /validate is answered as the protocol wants it; what was
 * injected is admitted, injected no second time, and comes back as it was. */
/* memmem */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "test/fuzz/review_world.h"

#include "webhook/edge/admission/admission.h"
#include "webhook/edge/metrics/metrics.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct world world;
static struct admission *admission;

static const struct config *acquire(void *ctx)
{
	return ctx;
}

static void release(void *ctx, const struct config *config)
{
	(void)ctx;
	(void)config;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static struct log log;
	struct err err;
	struct admission_deps deps;

	(void)argc;
	(void)argv;
	world_init(&world);
	log_init(&log, 2);
	log_set_level(&log, "error", NULL);
	deps = (struct admission_deps){.source = {&world.config, acquire, release},
		.ledger = world.world.ledger,
		.signer = world.world.signer,
		.metrics = metrics_new(metric_table, M_COUNT),
		.log = &log};
	admission = admission_new(&deps, &err);
	REQUIRE(admission);
	return 0;
}

static void decode64(struct slice text, struct buf *out)
{
	static const char code[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned bits = 0, n = 0;

	REQUIRE(text.len % 4 == 0);
	for (size_t i = 0; i < text.len && text.at[i] != '='; i++) {
		const char *at = strchr(code, text.at[i]);

		REQUIRE(at);
		bits = bits << 6 | (unsigned)(at - code);
		n += 6;
		if (n >= 8) {
			n -= 8;
			buf_char(out, (char)(bits >> n & 0xff));
		}
	}
}

static void check_refusal(const struct json *j, const struct json_node *response)
{
	const struct json_node *status = json_get(j, response, SLICE("status"));
	int64_t code;

	REQUIRE(json_int(j, json_get(j, status, SLICE("code")), &code));
	REQUIRE(code == 403 || code == 422);
	REQUIRE(json_inside(j, json_get(j, status, SLICE("reason"))).len > 0);
	REQUIRE(json_inside(j, json_get(j, status, SLICE("message"))).len > 0);
	REQUIRE(!json_get(j, response, SLICE("patch")));
}

static void check_reply(const struct review *r, struct slice body)
{
	struct json j = {0};
	char *copy;
	const struct json_node *response, *patch;

	REQUIRE(json_read_copy(&j, body.at, body.len, 100000, &copy, NULL) == 0);
	response = json_get(&j, json_root(&j), SLICE("response"));
	REQUIRE(json_is_str(&j, json_get(&j, json_root(&j), SLICE("apiVersion")),
		r->v1beta1 ? SLICE("admission.k8s.io/v1beta1") : SLICE("admission.k8s.io/v1")));
	REQUIRE(json_is_str(&j, json_get(&j, response, SLICE("uid")), r->uid));
	patch = json_get(&j, response, SLICE("patch"));
	REQUIRE((patch != NULL) == (json_get(&j, response, SLICE("patchType")) != NULL));
	if (!json_is(json_get(&j, response, SLICE("allowed")), JSON_TRUE))
		check_refusal(&j, response);
	if (patch) {
		struct buf b;

		buf_init(&b, 64 << 20);
		decode64(json_inside(&j, patch), &b);
		world_check_patch(buf_as_slice(&b));
		buf_release(&b);
	}
	json_release(&j);
	free(copy);
}

/* A pod that is created or updated must be there, or the review is answered as unreadable. */
static bool has_its_pod(const struct review *r)
{
	if (!review_is_pod(r, "") || (r->operation != OP_CREATE && r->operation != OP_UPDATE))
		return true;
	return r->object && (r->operation == OP_CREATE || r->old_object);
}

static void post(http_handler *handler, const uint8_t *data, size_t size, const struct review *r)
{
	struct http_request req = {.body_len = size, .deadline_ms = http_now_ms() + 1000};
	struct http_reply reply = {0};

	req.body = calloc(1, size + HTTP_BODY_PAD);
	REQUIRE(req.body);
	memcpy(req.body, data, size);
	REQUIRE(handler(admission, &req, &reply) == HTTP_DONE);
	REQUIRE(reply.status == (r ? 200U : 400U));
	REQUIRE(reply.body && reply.body_len == strlen(reply.body));
	if (r)
		check_reply(r, (struct slice){reply.body, reply.body_len});
	req.status = reply.status;
	admission_queued(admission, &req, false);
	free(req.body);
	free(reply.body);
}

/* A replica that has no launchers at all admits it, too, by its proof. */
static void check_proof(const struct json *j, struct slice namespace)
{
	struct config none = {0};
	struct mutate_world other = world.world;
	struct validation v;
	struct arena a;
	struct err err = {0};

	arena_init(&a, 64 << 20);
	other.config = &none;
	REQUIRE(validate_create(&other, j, json_root(j), namespace, &a, &v, &err) == 0);
	REQUIRE(v.claims && v.proof == PROOF_HOLDS);
	arena_release(&a);
}

/* Members of an object over those of another. */
static void put_members(cJSON *into, const cJSON *from)
{
	const cJSON *v;

	if (!cJSON_IsObject(into) || !cJSON_IsObject(from))
		return;
	cJSON_ArrayForEach(v, from)
	{
		cJSON_DeleteItemFromObjectCaseSensitive(into, v->string);
		cJSON_AddItemToObject(into, v->string, cJSON_Duplicate(v, true));
	}
}

/* The resources and ties of the pod as it came, over the live one, as kubectl apply merges them. */
static char *applied(struct slice before, const char *live)
{
	static const char *const lists[] = {"initContainers", "containers"};
	static const char *const ties[] = {
		"nodeSelector", "tolerations", "affinity", "runtimeClassName", "overhead"};
	cJSON *from = cJSON_ParseWithLength(before.at, before.len), *to = cJSON_Parse(live), *c, *o;
	cJSON *was = world_child(from, "spec"), *is = world_child(to, "spec");
	char *ret;

	for (size_t i = 0; i < 2; i++)
		cJSON_ArrayForEach(c, world_child(was, lists[i]))
		{
			cJSON *mine = world_child(c, "resources");

			cJSON_ArrayForEach(o, world_child(is, lists[i]))
			{
				cJSON *theirs = world_child(o, "resources");

				if (!cJSON_Compare(
					    world_child(c, "name"), world_child(o, "name"), true))
					continue;
				put_members(
					world_child(theirs, "limits"), world_child(mine, "limits"));
				put_members(world_child(theirs, "requests"),
					world_child(mine, "requests"));
			}
		}
	for (size_t i = 0; i < 5; i++) {
		cJSON *v = world_child(was, ties[i]);

		if (!v)
			continue;
		cJSON_DeleteItemFromObjectCaseSensitive(is, ties[i]);
		cJSON_AddItemToObject(is, ties[i], cJSON_Duplicate(v, true));
	}
	ret = cJSON_PrintUnformatted(to);
	cJSON_Delete(from);
	cJSON_Delete(to);
	return ret;
}

/* The manifest once more: by the plan alone it is what lives (law P4). */
static void check_applied(struct slice before, const char *live, struct slice namespace)
{
	char *now = applied(before, live), *copy, *back;
	struct json j = {0};
	struct arena a;
	struct buf both, patch;
	struct mutation m;
	struct err err = {0};
	cJSON *x, *y;

	arena_init(&a, 64 << 20);
	buf_init(&both, 16 << 20);
	buf_init(&patch, 16 << 20);
	buf_str(&both, "{\"now\":");
	buf_str(&both, now);
	buf_str(&both, ",\"old\":");
	buf_str(&both, live);
	buf_char(&both, '}');
	if (json_read_copy(&j, both.data, both.len, 1000000, &copy, NULL) == 0) {
		REQUIRE(mutate_update(world.world.config, &j,
				json_get(&j, json_root(&j), SLICE("now")),
				json_get(&j, json_root(&j), SLICE("old")), namespace, &a, &patch,
				&m, &err) == 0);
		back = world_apply(slice_of(now), patch.len ? buf_as_slice(&patch) : SLICE("[]"));
		x = cJSON_Parse(live);
		y = cJSON_Parse(back);
		REQUIRE(cJSON_Compare(x, y, true));
		cJSON_Delete(x);
		cJSON_Delete(y);
		free(back);
		free(copy);
	}
	json_release(&j);
	buf_release(&both);
	buf_release(&patch);
	arena_release(&a);
	free(now);
}

/* The pod came without a plan and was injected: hold the result against everything that reads it.
 */
static void check_injected(struct slice before, struct slice patch, struct slice namespace)
{
	char *pod = world_apply(before, patch), *copy, *back;
	struct json j = {0};
	struct arena a;
	struct buf again;
	struct mutation m;
	struct validation v;
	struct err err = {0};

	arena_init(&a, 64 << 20);
	buf_init(&again, 16 << 20);
	/* a number may have been spelled so that doubles cannot hold it */
	if (json_read_copy(&j, pod, strlen(pod), 1000000, &copy, NULL) == 0) {
		REQUIRE(mutate_create(&world.world, &j, json_root(&j), namespace, &a, &again, &m,
				&err) == 0);
		REQUIRE(!m.patched && again.len == 0);
		REQUIRE(validate_create(&world.world, &j, json_root(&j), namespace, &a, &v, &err) ==
			0);
		REQUIRE(v.claims && v.demand.n_containers > 0 && v.proof == PROOF_UNASKED);
		check_proof(&j, namespace);
		REQUIRE(mutate_undo(&j, json_root(&j), &a, &again, &m, &err) == 0 && m.patched);
		back = world_apply(slice_of(pod), buf_as_slice(&again));
		if (!memmem(before.at, before.len, "null", 4)) {
			cJSON *x = cJSON_ParseWithLength(before.at, before.len);
			cJSON *y = cJSON_Parse(back);

			REQUIRE(cJSON_Compare(x, y, true));
			cJSON_Delete(x);
			cJSON_Delete(y);
			check_applied(before, pod, namespace);
		}
		free(back);
		free(copy);
		json_release(&j);
	}
	buf_release(&again);
	arena_release(&a);
	free(pod);
}

static void check_mutation(const struct review *r)
{
	struct arena a;
	struct buf patch;
	struct mutation m;
	struct err err = {0};
	struct pod pod;
	int rc;

	if (!r->object)
		return;
	arena_init(&a, 64 << 20);
	buf_init(&patch, 16 << 20);
	pod_glance(r->j, r->object, &pod);
	rc = mutate_create(&world.world, r->j, r->object, r->namespace, &a, &patch, &m, &err);
	if (rc < 0)
		world_check_error(&err, rc);
	world_check_warnings(&m.warnings);
	if (rc == 0 && m.patched && !pod_annotation(&pod, ANN_PLAN, &a).at)
		check_injected(json_raw(r->j, r->object), buf_as_slice(&patch), r->namespace);
	buf_release(&patch);
	arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json j = {0};
	struct arena a;
	struct review r;
	struct err err = {0};
	char *copy;
	bool readable;

	arena_init(&a, 64 << 20);
	readable =
		json_read_copy(&j, (const char *)data, size, REVIEW_NODES_MAX, &copy, &err) == 0 &&
		review_read(&j, &a, &r, &err) == 0;
	if (!readable)
		REQUIRE(err.msg[0] && text_utf8(slice_of(err.msg)));
	readable = readable && has_its_pod(&r);
	post(admission_mutate_slow, data, size, readable ? &r : NULL);
	post(admission_validate_slow, data, size, readable ? &r : NULL);
	if (readable)
		check_mutation(&r);
	json_release(&j);
	free(copy);
	arena_release(&a);
	return 0;
}

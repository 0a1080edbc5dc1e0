/* SPDX-License-Identifier: Apache-2.0 */
/* core/inject/undo: a plan and pods that do not belong together: PLAN NUL SPEC NUL SPEC, the second
 * one that of an update. Whatever they are, every reader of the plan answers with a patch or a
 * sentence. */
#include "test/fuzz/review_world.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct world world;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	world_init(&world);
	return 0;
}

static struct slice part(struct slice *rest)
{
	const char *nul = rest->len ? memchr(rest->at, '\0', rest->len) : NULL;
	struct slice s = *rest;

	if (!nul) {
		*rest = (struct slice){rest->at, 0};
		return s;
	}
	s.len = (size_t)(nul - s.at);
	*rest = (struct slice){nul + 1, rest->len - s.len - 1};
	return s;
}

/* Is it one document, so that it cannot close the pod around it? */
static bool is_whole(struct slice spec)
{
	struct json j = {0};
	char *copy;
	bool whole = json_read_copy(&j, spec.at, spec.len, REVIEW_NODES_MAX, &copy, NULL) == 0;

	json_release(&j);
	free(copy);
	return whole;
}

static void add_pod(struct buf *b, struct slice plan, struct slice spec)
{
	buf_str(b, "{\"metadata\":{\"name\":\"p\",\"labels\":{\"poolgate.io/injected\":\"true\"},"
		   "\"annotations\":{\"auto-management/bitfusion\":\"all\","
		   "\"auto-management/status\":\"injected\",\"bitfusion-client/os\":\"ubuntu18\","
		   "\"bitfusion-client/version\":\"400\",\"poolgate.io/plan\":");
	buf_json_str(b, plan);
	buf_str(b, "}},\"spec\":");
	buf_slice(b, is_whole(spec) ? spec : SLICE("{}"));
	buf_char(b, '}');
}

static void check(int rc, const struct mutation *m, const struct buf *patch, const struct err *err)
{
	if (rc < 0)
		world_check_error(err, rc);
	else
		REQUIRE(m->patched ? patch->len > 0 : m->why_not != NULL);
	if (rc == 0 && m->patched)
		world_check_patch(buf_as_slice(patch));
}

static void decide(const struct json *j, const struct json_node *now, const struct json_node *old)
{
	struct arena a;
	struct buf patch;
	struct mutation m;
	struct validation v;
	struct err err = {0};
	struct review r = {.j = j,
		.kind = SLICE("Pod"),
		.subresource = SLICE(""),
		.namespace = SLICE("ml"),
		.operation = OP_UPDATE,
		.object = now,
		.old_object = old};
	int rc;

	arena_init(&a, 64 << 20);
	buf_init(&patch, 16 << 20);
	rc = mutate_undo(j, old, &a, &patch, &m, &err);
	check(rc, &m, &patch, &err);
	buf_clear(&patch);
	err_clear(&err);
	rc = mutate_update(world.world.config, j, now, old, SLICE("ml"), &a, &patch, &m, &err);
	check(rc, &m, &patch, &err);
	buf_clear(&patch);
	err_clear(&err);
	rc = mutate_create(&world.world, j, now, SLICE("ml"), &a, &patch, &m, &err);
	check(rc, &m, &patch, &err);
	err_clear(&err);
	rc = validate_create(&world.world, j, now, SLICE("ml"), &a, &v, &err);
	if (rc < 0)
		world_check_error(&err, rc);
	else
		REQUIRE(v.claims && v.demand.n_containers > 0);
	err_clear(&err);
	rc = validate_update(&world.world, &r, &a, &err);
	if (rc < 0)
		world_check_error(&err, rc);
	buf_release(&patch);
	arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice rest = {(const char *)data, size}, plan = part(&rest), spec = part(&rest);
	struct json j = {0};
	struct buf b;
	char *copy;

	buf_init(&b, 16 << 20);
	buf_str(&b, "{\"old\":");
	add_pod(&b, plan, spec);
	buf_str(&b, ",\"new\":");
	add_pod(&b, plan, rest.len ? rest : spec);
	buf_char(&b, '}');
	if (json_read_copy(&j, b.data, b.len, REVIEW_NODES_MAX, &copy, NULL) == 0) {
		const struct json_node *root = json_root(&j);

		decide(&j, json_get(&j, root, SLICE("new")), json_get(&j, root, SLICE("old")));
	}
	json_release(&j);
	free(copy);
	buf_release(&b);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation fails, for each n, while a GPUServer is read, looked at, changed and
 * written: the right text, or an error that says so. Linked with --wrap for malloc, calloc and
 * realloc. */
#include "test/unit/oom_wrap.h"
#include "test/unit/server_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/server/probe_inventory.h"
#include "webhook/core/server/usage_record.h"

#define TEXT                                                                                       \
	"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUServer\",\"metadata\":{\"name\":"  \
	"\"g\",\"uid\":\"u\",\"resourceVersion\":\"7\",\"labels\":{\"a\":\"\\u0062\"},"            \
	"\"finalizers\":[\"poolgate.io/claims\"]},\"spec\":{\"address\":\"a:1\",\"gpus\":["        \
	"{\"model\":\"m\",\"memory\":\"\\u00316G\",\"count\":3}]},\"status\":{\"x\":1,\"gpus\":["  \
	"{\"id\":\"gpu-0\",\"memory\":1000000,\"fit\":true,\"x\":2},{\"id\":\"gpu-7\",\"memory\":" \
	"1000000,\"fit\":true}],\"claims\":[{\"uid\":\"c\",\"state\":\"bound\",\"servers\":["      \
	"\"\\u0067\"],\"gpus\":[{\"id\":\"gpu-7\",\"bytes\":5,\"x\":3}],\"x\":4}],\"conditions\""  \
	":[{\"type\":\"Fresh\",\"status\":\"True\",\"x\":5}],\"summary\":{\"x\":6},\"usage\":"     \
	"\"open 2026-11-24T00:00:00Z 2026-11-24T00:00:01Z 1 2 3 4\\n \\u0061 5 6 m\\n\"}}"

/* 2026-11-25T12:00:00Z: a day is over, and the page is turned. */
#define NOON_MS INT64_C(1795608000000)

/* Does all of it; a step that says it is out of memory ends it with ERR_NOMEM. */
static int work(const struct json *j, struct arena *a, struct buf *out)
{
	struct claim_record record = {.claim = {.key = "k", .namespace = "n", .name = "m"}};
	struct condition ready = {.type = SERVER_READY, .status = "True"};
	struct server_object o;
	struct gpu_server inventory;
	struct err err = {0};
	int rc = server_object_read(j, json_root(j), a, &o, &err);

	if (rc == 0)
		rc = server_object_inventory(&o, a, &inventory, &err);
	if (rc != 0) {
		assert_int_equal(rc, err.code);
		assert_true(err.msg[0] != '\0');
		return rc;
	}
	if (!server_status_from_spec(&o, a) ||
		!server_status_set_condition(&o.status, &ready, "now", a) ||
		!server_usage_advance(&o, NOON_MS, a) ||
		!server_status_add_claim(&o.status, &record, a)) {
		assert_true(a->failed);
		return ERR_NOMEM;
	}
	assert_int_equal(o.status.n_gpus, 4);
	server_object_write(&o, out);
	return out->failed ? ERR_NOMEM : 0;
}

/* A chunk of the arena holds all of it: make each piece an allocation of its own by lowering what
 * the arena may hand out. */
TEST(test_arena_limit)
{
	struct json j = {0};
	struct arena a;
	struct buf out;
	char *copy;
	bool done = false;
	size_t broken = 0;

	assert_int_equal(json_read_copy(&j, TEXT, strlen(TEXT), 10000, &copy, NULL), 0);
	for (size_t max = 0; !done; max += 8) {
		int rc;

		arena_init(&a, max);
		buf_init(&out, 1u << 20);
		rc = work(&j, &a, &out);
		assert_true(rc == 0 || rc == ERR_NOMEM);
		done = rc == 0;
		broken += !done;
		buf_release(&out);
		arena_release(&a);
	}
	assert_true(broken > 50);
	free(copy);
	json_release(&j);
}

static void each_fails(enum oom_extent extent)
{
	struct json j = {0};
	char *copy, *right = NULL;
	long broken = 0;

	assert_int_equal(json_read_copy(&j, TEXT, strlen(TEXT), 10000, &copy, NULL), 0);
	for (long n = -1;; n++) {
		struct arena a;
		struct buf out;
		bool failed;
		int rc;

		arena_init(&a, 1u << 20);
		buf_init(&out, 1u << 20);
		oom_begin(n, extent);
		rc = work(&j, &a, &out);
		failed = oom_end();
		assert_int_equal(rc, failed ? ERR_NOMEM : 0);
		if (rc == 0 && n < 0)
			right = strdup(out.data);
		else if (rc == 0)
			assert_string_equal(out.data, right);
		broken += rc != 0;
		buf_release(&out);
		arena_release(&a);
		if (n >= 0 && !failed)
			break;
	}
	assert_true(broken > 1);
	free(right);
	free(copy);
	json_release(&j);
}

/* Where the next allocation succeeds, half a text must not be taken for the whole. */
TEST(test_allocations)
{
	each_fails(OOM_ALL_AFTER);
	each_fails(OOM_ONE);
}

/* What a probe answers, every arena that is too small for it and every chunk that is not to be had.
 */
TEST(test_inventory)
{
	static const char text[] =
		"{\"schema\":\"gpuprobe.inventory/1\",\"state\":\"ready\",\"age_s\":1,"
		"\"stale_after_s\":2,\"trouble\":\"t\",\"gpus\":[{\"uuid\":\"a\",\"name\":\"m\","
		"\"memory_total_bytes\":1,\"fit\":false,\"reasons\":[\"x\",\"y\"]}]}";
	struct json j = {0};
	long broken = 0;
	char *copy;

	assert_int_equal(json_read_copy(&j, text, sizeof(text) - 1, 1000, &copy, NULL), 0);
	for (long n = 0;; n++) {
		struct probe_inventory inv;
		struct err err = {0};
		struct arena a;
		bool failed;
		int rc;

		arena_init_small(&a, 1u << 20, 16);
		oom_begin(n, OOM_ALL_AFTER);
		rc = probe_inventory_read(&j, &a, &inv, &err);
		failed = oom_end();
		assert_int_equal(rc, failed ? ERR_NOMEM : 0);
		if (!failed)
			assert_string_equal(inv.gpus[0].why, "x; y");
		broken += failed;
		arena_release(&a);
		if (!failed)
			break;
	}
	assert_true(broken > 5);
	free(copy);
	json_release(&j);
}

TESTS(test_arena_limit, test_allocations, test_inventory)

/* SPDX-License-Identifier: Apache-2.0 */
/* test: what a probe answers, read, and brought into a GPUServer's status. */
#include "test/unit/server_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/server/probe_inventory.h"
#include "webhook/core/server/server_keep.h"

#define NOW "2026-11-21T09:30:00Z"

#define ANSWER(state, age, gpus)                                                                   \
	"{\"schema\":\"gpuprobe.inventory/1\",\"age_s\":" age                                      \
	",\"stale_after_s\":30,\"state\":\"" state "\",\"new\":[{}],\"gpus\":[" gpus "]}"
#define GPU(uuid, fit, reasons)                                                                    \
	"{\"uuid\":\"" uuid "\",\"name\":\"NVIDIA H200\",\"memory_total_bytes\":100,"              \
	"\"memory_free_bytes\":7,\"fit\":" fit ",\"reasons\":[" reasons "]}"
#define MIG(uuid, parent)                                                                          \
	"{\"uuid\":\"" uuid "\",\"parent_uuid\":" parent ",\"name\":\"H200 MIG 1g.18gb\","         \
	"\"memory_total_bytes\":100,\"fit\":true,\"reasons\":[]}"
#define SPEC "{'address':'10.0.0.1:56001','probe':{'url':'https://10.0.0.1:9443'}}"
#define CLAIM(gpu)                                                                                 \
	"{'uid':'p','namespace':'n','name':'w','state':'bound','plan':'00000000000000aa',"         \
	"'since':'" NOW "','take':'0000000000000001','servers':['gpu-01'],"                        \
	"'gpus':[{'id':'" gpu "','bytes':50}]}"
#define META "'generation':3,'finalizers':['poolgate.io/claims']"

static struct server_fixture fix;

FIXTURES(server_fixture_init, server_fixture_release)

/* For the next row. */
static void again(void)
{
	server_fixture_release(&fix);
	server_fixture_init(&fix);
}

static int read_answer(
	const char *text, struct arena *a, struct probe_inventory *ret, struct err *err)
{
	struct json j = {0};
	char *copy = NULL;
	int rc;

	assert_int_equal(json_read_copy(&j, text, strlen(text), 10000, &copy, err), 0);
	rc = probe_inventory_read(&j, a, ret, err);
	json_release(&j);
	free(copy);
	return rc;
}

TEST(reads)
{
	struct probe_inventory inv;

	assert_int_equal(read_answer(ANSWER("degraded", "3",
					     GPU("a", "true", "\"ignored\"") "," GPU("b", "false",
						     "\"ECC\",\"hot\"") "," GPU("c", "false", "")),
				 &fix.arena, &inv, &fix.err),
		0);
	assert_int_equal(inv.state, PROBE_DEGRADED);
	assert_int_equal(inv.n_gpus, 3);
	assert_string_equal(inv.gpus[0].id, "a");
	assert_string_equal(inv.gpus[0].model, "NVIDIA H200");
	assert_int_equal(inv.gpus[0].bytes, 100);
	assert_true(inv.gpus[0].fit);
	assert_string_equal(inv.gpus[0].why, "");
	assert_false(inv.gpus[1].fit);
	assert_string_equal(inv.gpus[1].why, "ECC; hot");
	assert_string_equal(inv.gpus[2].why, "the probe calls it unfit");
}

TEST(refuses)
{
	static const struct {
		const char *text;
		int rc;
		const char *path;
	} cases[] = {
		{"{}", ERR_SYNTAX, ""},
		{"[]", ERR_SYNTAX, ""},
		{"{\"schema\":\"gpuprobe.inventory/2\"}", ERR_SYNTAX, ""},
		{ANSWER("nope", "1", ""), ERR_INVALID, "/state"},
		{ANSWER("ready", "-1", ""), ERR_INVALID, "/age_s"},
		{ANSWER("ready", "1.5", ""), ERR_INVALID, "/age_s"},
		{ANSWER("ready", "1", "{}"), ERR_INVALID, "/gpus/0/uuid"},
		{ANSWER("ready", "1", GPU("", "true", "")), ERR_INVALID, "/gpus/0/uuid"},
		{ANSWER("ready", "1", GPU("a", "1", "")), ERR_INVALID, "/gpus/0/fit"},
		{ANSWER("ready", "1", GPU("a", "true", "1")), ERR_INVALID, "/gpus/0/reasons"},
		{ANSWER("ready", "1",
			 "{\"uuid\":\"a\",\"name\":\"x\",\"memory_total_bytes\":1,\"fit\":true,"
			 "\"reasons\":\"hot\"}"),
			ERR_INVALID, "/gpus/0/reasons"},
		{ANSWER("ready", "1",
			 "{\"uuid\":\"a\",\"name\":\"x\",\"memory_total_bytes\":1,\"fit\":true}"),
			ERR_INVALID, "/gpus/0/reasons"},
		{ANSWER("ready", "1", GPU("a", "true", "") "," GPU("a", "true", "")), ERR_INVALID,
			"/gpus/1/uuid"},
		{ANSWER("ready", "1",
			 "{\"uuid\":\"a\",\"name\":\"x\",\"memory_total_bytes\":0,\"fit\":true,"
			 "\"reasons\":[]}"),
			ERR_INVALID, "/gpus/0/memory_total_bytes"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct probe_inventory inv;

		assert_int_equal(
			read_answer(cases[i].text, &fix.arena, &inv, &fix.err), cases[i].rc);
		assert_string_equal(fix.err.path, cases[i].path);
		again();
	}
}

/* It may be missing, and is cut where a letter ends. */
TEST(a_trouble)
{
	struct probe_inventory inv;
	struct buf text;

	assert_int_equal(read_answer(ANSWER("ready", "0", ""), &fix.arena, &inv, &fix.err), 0);
	assert_string_equal(inv.trouble, "");
	buf_init(&text, 1 << 20);
	buf_str(&text, "{\"schema\":\"gpuprobe.inventory/1\",\"age_s\":0,\"stale_after_s\":30,"
		       "\"state\":\"ready\",\"gpus\":[],\"trouble\":\"x");
	for (int i = 0; i < PROBE_TROUBLE_MAX; i++)
		buf_str(&text, "\xc3\xa4");
	buf_str(&text, "\"}");
	assert_int_equal(read_answer(text.data, &fix.arena, &inv, &fix.err), 0);
	assert_int_equal(strlen(inv.trouble), PROBE_TROUBLE_MAX - 1);
	buf_clear(&text);
	buf_str(&text, "{\"schema\":\"gpuprobe.inventory/1\",\"age_s\":0,\"stale_after_s\":30,"
		       "\"state\":\"ready\",\"gpus\":[],\"trouble\":7}");
	assert_int_equal(read_answer(text.data, &fix.arena, &inv, &fix.err), ERR_INVALID);
	assert_string_equal(fix.err.path, "/trouble");
	buf_release(&text);
}

/* As many as a server may have are read, one more is refused. */
TEST(too_many_gpus)
{
	for (int more = 0; more <= 1; more++) {
		struct probe_inventory inv;
		struct buf text;

		buf_init(&text, 1 << 20);
		buf_str(&text,
			"{\"schema\":\"gpuprobe.inventory/1\",\"age_s\":0,\"stale_after_s\":30,"
			"\"state\":\"ready\",\"gpus\":[");
		for (int i = 0; i < SERVER_GPUS_MAX + more; i++)
			buf_fmt(&text,
				"%s{\"uuid\":\"g%d\",\"name\":\"x\",\"memory_total_bytes\":1,"
				"\"fit\":true,"
				"\"reasons\":[]}",
				i ? "," : "", i);
		buf_str(&text, "]}");
		assert_int_equal(
			read_answer(text.data, &fix.arena, &inv, &fix.err), more ? ERR_TOOBIG : 0);
		assert_true(more || inv.n_gpus == SERVER_GPUS_MAX);
		buf_release(&text);
		again();
	}
}

TEST(knows_when_it_is_old)
{
	static const struct {
		const char *text;
		bool fresh;
	} cases[] = {
		{ANSWER("ready", "30", ""), true},
		{ANSWER("ready", "31", ""), false},
		{ANSWER("unfit", "0", ""), true},
		{ANSWER("unknown", "0", ""), false},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct probe_inventory inv;

		assert_int_equal(read_answer(cases[i].text, &fix.arena, &inv, &fix.err), 0);
		assert_int_equal(probe_inventory_fresh(&inv), cases[i].fresh);
		again();
	}
}

static bool apply(const char *text)
{
	struct probe_inventory inv;

	assert_int_equal(read_answer(text, &fix.arena, &inv, &fix.err), 0);
	return server_status_from_probe(&fix.o, &inv, &fix.arena);
}

/* What of a MIG instance is its GPU's; a probe that says nothing of it is understood, too. */
TEST(reads_parents)
{
	server_fixture_load(&fix, SERVER_TEXT(META, SPEC, "{}"));
	assert_true(apply(ANSWER("ready", "1", MIG("MIG-1", "\"GPU-1\"") "," MIG("a", "null"))));
	assert_string_equal(fix.o.status.gpus[0].gpu.parent, "GPU-1");
	assert_string_equal(fix.o.status.gpus[1].gpu.parent, "");
	assert_false(apply(ANSWER("ready", "1", MIG("MIG-1", "\"GPU-1\"") "," MIG("a", "null"))));
	assert_true(apply(ANSWER("ready", "1", MIG("MIG-1", "\"GPU-2\"") "," MIG("a", "null"))));
}

/* A GPU that vanishes stays while a claim is on it, and what we do not know of the others stays,
 * too. */
TEST(follows_the_probe)
{
	struct server_status *s = &fix.o.status;

	server_fixture_load(&fix,
		SERVER_TEXT(META, SPEC,
			"{'version':1,'gpus':[{'id':'a','model':'NVIDIA H200','memory':100,'fit':"
			"true,'later':[1]},{'id':'b','model':'NVIDIA H200','memory':100,'fit':"
			"true}],'claims':[" CLAIM("b") "]}"));
	assert_false(apply(ANSWER("ready", "1", GPU("a", "true", "") "," GPU("b", "true", ""))));
	assert_true(apply(ANSWER("ready", "1", GPU("a", "false", "\"hot\""))));
	assert_int_equal(s->n_gpus, 2);
	assert_false(s->gpus[0].gpu.fit);
	assert_string_equal(s->gpus[0].gpu.why, "hot");
	assert_true(slice_is(s->gpus[0].rest, "\"later\":[1]"));
	assert_string_equal(s->gpus[1].gpu.id, "b");
	assert_true(s->gpus[1].gpu.missing);
	assert_false(apply(ANSWER("ready", "1", GPU("a", "false", "\"hot\""))));
	/* be it with no bytes */
	s->claims[0].claim.parts[0].bytes = 0;
	assert_false(apply(ANSWER("ready", "1", GPU("a", "false", "\"hot\""))));
	server_status_remove_claim(s, 0);
	assert_true(apply(ANSWER("ready", "1", GPU("a", "false", "\"hot\""))));
	assert_int_equal(s->n_gpus, 1);
}

/* ---- the conditions that follow ---- */

static void expect(const char *type, const char *status, const char *reason)
{
	const struct condition *c = server_status_condition(&fix.o.status, type);

	assert_non_null(c);
	assert_string_equal(c->status, status);
	assert_string_equal(c->reason, reason);
}

TEST(keeps_a_listed_server)
{
	server_fixture_load(&fix, SERVER_STATUS("{}"));
	assert_true(server_keep_status(&fix.o, NOW, &fix.arena));
	assert_int_equal(fix.o.status.n_gpus, 2);
	assert_int_equal(fix.o.status.observed_generation, 3);
	expect(SERVER_FRESH, "True", FRESH_LISTED);
	expect(SERVER_READY, "True", "TakesClaims");
	assert_false(server_keep_status(&fix.o, "2026-11-21T09:31:00Z", &fix.arena));
	fix.o.drain = true;
	assert_true(server_keep_status(&fix.o, NOW, &fix.arena));
	expect(SERVER_READY, "False", "Draining");
	fix.o.finalizer = false;
	assert_true(server_keep_status(&fix.o, NOW, &fix.arena));
	expect(SERVER_READY, "False", "LooksForClaims");
	fix.o.deleting = true;
	assert_true(server_keep_status(&fix.o, NOW, &fix.arena));
	expect(SERVER_READY, "False", "Deleting");
}

TEST(keeps_a_probed_server)
{
	server_fixture_load(&fix, SERVER_TEXT(META, SPEC, "{}"));
	assert_true(server_keep_status(&fix.o, NOW, &fix.arena));
	expect(SERVER_FRESH, "False", FRESH_NOT_ASKED);
	expect(SERVER_READY, "False", "NotFresh");
	assert_true(server_keep_fresh(&fix.o, true, FRESH_ANSWERED, "it answers", NOW, &fix.arena));
	assert_true(server_keep_status(&fix.o, NOW, &fix.arena));
	expect(SERVER_READY, "False", "NoGPUs");
	/* It gets the finalizer once it has some: what it waits for is them. */
	fix.o.finalizer = false;
	assert_false(server_keep_status(&fix.o, NOW, &fix.arena));
	fix.o.finalizer = true;
	assert_true(apply(ANSWER("unfit", "1", GPU("a", "false", ""))));
	assert_true(server_keep_status(&fix.o, NOW, &fix.arena));
	expect(SERVER_READY, "False", "NoneFit");
	assert_true(apply(ANSWER("ready", "1", GPU("a", "true", ""))));
	assert_true(server_keep_status(&fix.o, NOW, &fix.arena));
	expect(SERVER_READY, "True", "TakesClaims");
	/* what the probe said stays */
	expect(SERVER_FRESH, "True", FRESH_ANSWERED);
}

/* Its GPUs were listed by hand until now: that says nothing of what the probe will say. */
TEST(a_probe_instead_of_a_list)
{
	server_fixture_load(&fix, SERVER_STATUS("{}"));
	assert_true(server_keep_status(&fix.o, NOW, &fix.arena));
	fix.o.probe_url = "https://10.0.0.1:9443";
	assert_true(server_keep_status(&fix.o, NOW, &fix.arena));
	expect(SERVER_FRESH, "False", FRESH_NOT_ASKED);
	expect(SERVER_READY, "False", "NotFresh");
}

/* What alone is another now is a change, there and back. */
TEST(each_thing_that_is_said_is_a_change)
{
	static struct claim_record claim = {.claim = {.key = "u", .namespace = "n", .name = "p"}};

	for (unsigned what = 0; what < 5; what++) {
		server_fixture_load(&fix, SERVER_STATUS("{}"));
		fix.o.status.claims = &claim;
		fix.o.status.n_claims = 1;
		/* Conditions that are rare are not there before they were true once. */
		for (unsigned turn = 0; turn < 4; turn++) {
			bool yes = turn % 2 == 0;

			(void)server_keep_status(&fix.o, NOW, &fix.arena);
			assert_false(server_keep_status(&fix.o, NOW, &fix.arena));
			fix.o.twin = yes && what == 0 ? "gpu-00 has its address" : NULL;
			claim.lingers_ms = yes && what == 1 ? 1000 : 0;
			claim.waits = yes && what == 2 ? "Unschedulable" : NULL;
			fix.o.drain = yes && what == 3;
			fix.o.generation += what == 4;
			assert_true(server_keep_status(&fix.o, NOW, &fix.arena));
			assert_false(server_keep_status(&fix.o, NOW, &fix.arena));
		}
		again();
	}
}

TESTS_BETWEEN(set_up, tear_down, reads, reads_parents, refuses, a_trouble, too_many_gpus,
	knows_when_it_is_old, follows_the_probe, keeps_a_listed_server, keeps_a_probed_server,
	a_probe_instead_of_a_list, each_thing_that_is_said_is_a_change)

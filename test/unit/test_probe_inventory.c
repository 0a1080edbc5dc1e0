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
	struct server_fixture f;
	struct probe_inventory inv;

	server_fixture_init(&f);
	assert_int_equal(read_answer(ANSWER("degraded", "3",
					     GPU("a", "true", "\"ignored\"") "," GPU("b", "false",
						     "\"ECC\",\"hot\"") "," GPU("c", "false", "")),
				 &f.arena, &inv, &f.err),
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
	server_fixture_release(&f);
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
		struct server_fixture f;
		struct probe_inventory inv;

		server_fixture_init(&f);
		assert_int_equal(read_answer(cases[i].text, &f.arena, &inv, &f.err), cases[i].rc);
		assert_string_equal(f.err.path, cases[i].path);
		server_fixture_release(&f);
	}
}

/* It may be missing, and is cut where a letter ends. */
TEST(a_trouble)
{
	struct server_fixture f;
	struct probe_inventory inv;
	struct buf text;

	server_fixture_init(&f);
	assert_int_equal(read_answer(ANSWER("ready", "0", ""), &f.arena, &inv, &f.err), 0);
	assert_string_equal(inv.trouble, "");
	buf_init(&text, 1 << 20);
	buf_str(&text, "{\"schema\":\"gpuprobe.inventory/1\",\"age_s\":0,\"stale_after_s\":30,"
		       "\"state\":\"ready\",\"gpus\":[],\"trouble\":\"x");
	for (int i = 0; i < PROBE_TROUBLE_MAX; i++)
		buf_str(&text, "\xc3\xa4");
	buf_str(&text, "\"}");
	assert_int_equal(read_answer(text.data, &f.arena, &inv, &f.err), 0);
	assert_int_equal(strlen(inv.trouble), PROBE_TROUBLE_MAX - 1);
	buf_clear(&text);
	buf_str(&text, "{\"schema\":\"gpuprobe.inventory/1\",\"age_s\":0,\"stale_after_s\":30,"
		       "\"state\":\"ready\",\"gpus\":[],\"trouble\":7}");
	assert_int_equal(read_answer(text.data, &f.arena, &inv, &f.err), ERR_INVALID);
	assert_string_equal(f.err.path, "/trouble");
	buf_release(&text);
	server_fixture_release(&f);
}

/* As many as a server may have are read, one more is refused. */
TEST(too_many_gpus)
{
	for (int more = 0; more <= 1; more++) {
		struct server_fixture f;
		struct probe_inventory inv;
		struct buf text;

		server_fixture_init(&f);
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
			read_answer(text.data, &f.arena, &inv, &f.err), more ? ERR_TOOBIG : 0);
		assert_true(more || inv.n_gpus == SERVER_GPUS_MAX);
		buf_release(&text);
		server_fixture_release(&f);
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
		struct server_fixture f;
		struct probe_inventory inv;

		server_fixture_init(&f);
		assert_int_equal(read_answer(cases[i].text, &f.arena, &inv, &f.err), 0);
		assert_int_equal(probe_inventory_fresh(&inv), cases[i].fresh);
		server_fixture_release(&f);
	}
}

static bool apply(struct server_fixture *f, const char *text)
{
	struct probe_inventory inv;

	assert_int_equal(read_answer(text, &f->arena, &inv, &f->err), 0);
	return server_status_from_probe(&f->o, &inv, &f->arena);
}

/* What of a MIG instance is its GPU's; a probe that says nothing of it is understood, too. */
TEST(reads_parents)
{
	struct server_fixture f;

	server_fixture_init(&f);
	server_fixture_load(&f, SERVER_TEXT(META, SPEC, "{}"));
	assert_true(
		apply(&f, ANSWER("ready", "1", MIG("MIG-1", "\"GPU-1\"") "," MIG("a", "null"))));
	assert_string_equal(f.o.status.gpus[0].gpu.parent, "GPU-1");
	assert_string_equal(f.o.status.gpus[1].gpu.parent, "");
	assert_false(
		apply(&f, ANSWER("ready", "1", MIG("MIG-1", "\"GPU-1\"") "," MIG("a", "null"))));
	assert_true(
		apply(&f, ANSWER("ready", "1", MIG("MIG-1", "\"GPU-2\"") "," MIG("a", "null"))));
	server_fixture_release(&f);
}

/* A GPU that vanishes stays while a claim is on it, and what we do not know of the others stays,
 * too. */
TEST(follows_the_probe)
{
	struct server_fixture f;
	struct server_status *s = &f.o.status;

	server_fixture_init(&f);
	server_fixture_load(&f,
		SERVER_TEXT(META, SPEC,
			"{'version':1,'gpus':[{'id':'a','model':'NVIDIA H200','memory':100,'fit':"
			"true,'later':[1]},{'id':'b','model':'NVIDIA H200','memory':100,'fit':"
			"true}],'claims':[" CLAIM("b") "]}"));
	assert_false(
		apply(&f, ANSWER("ready", "1", GPU("a", "true", "") "," GPU("b", "true", ""))));
	assert_true(apply(&f, ANSWER("ready", "1", GPU("a", "false", "\"hot\""))));
	assert_int_equal(s->n_gpus, 2);
	assert_false(s->gpus[0].gpu.fit);
	assert_string_equal(s->gpus[0].gpu.why, "hot");
	assert_true(slice_is(s->gpus[0].rest, "\"later\":[1]"));
	assert_string_equal(s->gpus[1].gpu.id, "b");
	assert_true(s->gpus[1].gpu.missing);
	assert_false(apply(&f, ANSWER("ready", "1", GPU("a", "false", "\"hot\""))));
	/* be it with no bytes */
	s->claims[0].claim.parts[0].bytes = 0;
	assert_false(apply(&f, ANSWER("ready", "1", GPU("a", "false", "\"hot\""))));
	server_status_remove_claim(s, 0);
	assert_true(apply(&f, ANSWER("ready", "1", GPU("a", "false", "\"hot\""))));
	assert_int_equal(s->n_gpus, 1);
	server_fixture_release(&f);
}

/* ---- the conditions that follow ---- */

static void expect(
	struct server_fixture *f, const char *type, const char *status, const char *reason)
{
	const struct condition *c = server_status_condition(&f->o.status, type);

	assert_non_null(c);
	assert_string_equal(c->status, status);
	assert_string_equal(c->reason, reason);
}

TEST(keeps_a_listed_server)
{
	struct server_fixture f;

	server_fixture_init(&f);
	server_fixture_load(&f, SERVER_STATUS("{}"));
	assert_true(server_keep_status(&f.o, NOW, &f.arena));
	assert_int_equal(f.o.status.n_gpus, 2);
	assert_int_equal(f.o.status.observed_generation, 3);
	expect(&f, SERVER_FRESH, "True", FRESH_LISTED);
	expect(&f, SERVER_READY, "True", "TakesClaims");
	assert_false(server_keep_status(&f.o, "2026-11-21T09:31:00Z", &f.arena));
	f.o.drain = true;
	assert_true(server_keep_status(&f.o, NOW, &f.arena));
	expect(&f, SERVER_READY, "False", "Draining");
	f.o.finalizer = false;
	assert_true(server_keep_status(&f.o, NOW, &f.arena));
	expect(&f, SERVER_READY, "False", "LooksForClaims");
	f.o.deleting = true;
	assert_true(server_keep_status(&f.o, NOW, &f.arena));
	expect(&f, SERVER_READY, "False", "Deleting");
	server_fixture_release(&f);
}

TEST(keeps_a_probed_server)
{
	struct server_fixture f;

	server_fixture_init(&f);
	server_fixture_load(&f, SERVER_TEXT(META, SPEC, "{}"));
	assert_true(server_keep_status(&f.o, NOW, &f.arena));
	expect(&f, SERVER_FRESH, "False", FRESH_NOT_ASKED);
	expect(&f, SERVER_READY, "False", "NotFresh");
	assert_true(server_keep_fresh(&f.o, true, FRESH_ANSWERED, "it answers", NOW, &f.arena));
	assert_true(server_keep_status(&f.o, NOW, &f.arena));
	expect(&f, SERVER_READY, "False", "NoGPUs");
	/* It gets the finalizer once it has some: what it waits for is them. */
	f.o.finalizer = false;
	assert_false(server_keep_status(&f.o, NOW, &f.arena));
	f.o.finalizer = true;
	assert_true(apply(&f, ANSWER("unfit", "1", GPU("a", "false", ""))));
	assert_true(server_keep_status(&f.o, NOW, &f.arena));
	expect(&f, SERVER_READY, "False", "NoneFit");
	assert_true(apply(&f, ANSWER("ready", "1", GPU("a", "true", ""))));
	assert_true(server_keep_status(&f.o, NOW, &f.arena));
	expect(&f, SERVER_READY, "True", "TakesClaims");
	/* what the probe said stays */
	expect(&f, SERVER_FRESH, "True", FRESH_ANSWERED);
	server_fixture_release(&f);
}

/* Its GPUs were listed by hand until now: that says nothing of what the probe will say. */
TEST(a_probe_instead_of_a_list)
{
	struct server_fixture f;

	server_fixture_init(&f);
	server_fixture_load(&f, SERVER_STATUS("{}"));
	assert_true(server_keep_status(&f.o, NOW, &f.arena));
	f.o.probe_url = "https://10.0.0.1:9443";
	assert_true(server_keep_status(&f.o, NOW, &f.arena));
	expect(&f, SERVER_FRESH, "False", FRESH_NOT_ASKED);
	expect(&f, SERVER_READY, "False", "NotFresh");
	server_fixture_release(&f);
}

/* What alone is another now is a change, there and back. */
TEST(each_thing_that_is_said_is_a_change)
{
	static struct claim_record claim = {.claim = {.key = "u", .namespace = "n", .name = "p"}};
	struct server_fixture f;

	for (unsigned what = 0; what < 5; what++) {
		server_fixture_init(&f);
		server_fixture_load(&f, SERVER_STATUS("{}"));
		f.o.status.claims = &claim;
		f.o.status.n_claims = 1;
		/* Conditions that are rare are not there before they were true once. */
		for (unsigned turn = 0; turn < 4; turn++) {
			bool yes = turn % 2 == 0;

			(void)server_keep_status(&f.o, NOW, &f.arena);
			assert_false(server_keep_status(&f.o, NOW, &f.arena));
			f.o.twin = yes && what == 0 ? "gpu-00 has its address" : NULL;
			claim.lingers_ms = yes && what == 1 ? 1000 : 0;
			claim.waits = yes && what == 2 ? "Unschedulable" : NULL;
			f.o.drain = yes && what == 3;
			f.o.generation += what == 4;
			assert_true(server_keep_status(&f.o, NOW, &f.arena));
			assert_false(server_keep_status(&f.o, NOW, &f.arena));
		}
		server_fixture_release(&f);
	}
}

TESTS(reads, reads_parents, refuses, a_trouble, too_many_gpus, knows_when_it_is_old,
	follows_the_probe, keeps_a_listed_server, keeps_a_probed_server, a_probe_instead_of_a_list,
	each_thing_that_is_said_is_a_change)

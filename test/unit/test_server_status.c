/* SPDX-License-Identifier: Apache-2.0 */
/* test: a GPUServer's status as the inventory shows it, its sums and its changes. */
#include "test/unit/server_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pool/placement.h"

/* gpu-0 half taken, gpu-1 free, gpu-2 over-full by adoption, gpu-3 unfit, gpu-4 gone */
#define GPUS                                                                                       \
	"'gpus':[{'id':'gpu-0','model':'V100','memory':16000000000,'fit':true,'x':0},"             \
	"{'id':'gpu-1','model':'V100','memory':16000000000,'fit':true,'x':1},"                     \
	"{'id':'gpu-2','model':'V100','memory':16000000000,'fit':true},"                           \
	"{'id':'gpu-3','model':'V100','memory':16000000000,'fit':false,'reason':'ECC'},"           \
	"{'id':'gpu-4','model':'V100','memory':16000000000,'fit':true,'missing':true}]"
#define CLAIMS                                                                                     \
	"'claims':[{'uid':'a','namespace':'ml','name':'a','state':'pending','gpus':[{'id':'gpu-0'" \
	",'bytes':3000000000},{'id':'gpu-2','bytes':10000000000}]},{'uid':'b','namespace':'ml',"   \
	"'name':'b','state':'bound','gpus':[{'id':'gpu-0','bytes':5000000000}]},{'uid':'c',"       \
	"'namespace':'ml','name':'c','state':'adopted','gpus':[{'id':'gpu-2','bytes':"             \
	"10000000000},{'id':'gpu-4','bytes':1}]}]"
#define OTHER_TEXT(metadata, spec, conditions)                                                     \
	SERVER_TEXT(metadata, spec, "{" GPUS "," CLAIMS ",'conditions':[" conditions "]}")
#define FINALIZER "'finalizers':['poolgate.io/claims']"
#define LISTED "{'address':'a:1','gpus':[{'model':'m','memory':'16G'}]}"
#define DRAINED "{'address':'a:1','drain':true,'gpus':[{'model':'m','memory':'16G'}]}"
#define PROBED "{'address':'a:1','probe':{'url':'http://a'}}"
#define FRESH(status) "{'type':'Fresh','status':'" status "','message':'no answer'}"

static void expect_summary(struct server_fixture *f, const char *text, const char *summary)
{
	server_fixture_load(f, text);
	text = strstr(server_fixture_status(f), "\"summary\":");
	assert_non_null(text);
	assert_string_equal(text + 10, summary);
}

#define NOTHING "{\"gpus\":5,\"fit\":0,\"free\":0,\"claims\":3}}"
#define SOME "{\"gpus\":5,\"fit\":3,\"free\":24000,\"claims\":3}}"

static struct server_fixture fix;

FIXTURES(server_fixture_init, server_fixture_release)

TEST(test_summary)
{
	expect_summary(&fix, OTHER_TEXT(FINALIZER, LISTED, ""), SOME);
	expect_summary(&fix, OTHER_TEXT(FINALIZER, LISTED, FRESH("True")), SOME);
	expect_summary(&fix, OTHER_TEXT(FINALIZER, LISTED, FRESH("False")), NOTHING);
	expect_summary(&fix, OTHER_TEXT(FINALIZER, PROBED, ""), NOTHING);
	expect_summary(&fix, OTHER_TEXT(FINALIZER, PROBED, FRESH("True")), SOME);
	expect_summary(&fix, OTHER_TEXT(FINALIZER, PROBED, FRESH("Unknown")), NOTHING);
	expect_summary(&fix, OTHER_TEXT(FINALIZER, DRAINED, ""), NOTHING);
	expect_summary(&fix, OTHER_TEXT("'finalizers':[]", LISTED, ""), NOTHING);
	expect_summary(&fix,
		OTHER_TEXT(FINALIZER ",'deletionTimestamp':'2026-11-21T09:30:00Z'", LISTED, ""),
		NOTHING);
	/* a free remainder under a megabyte counts for all GPUs together */
	expect_summary(&fix,
		SERVER_TEXT(FINALIZER, LISTED,
			"{'gpus':[{'id':'a','memory':1500000,'fit':true},{'id':'b','memory':"
			"1500000,'fit':true}]}"),
		"{\"gpus\":2,\"fit\":2,\"free\":3,\"claims\":0}}");
}

TEST(test_inventory)
{
	struct gpu_server s;

	server_fixture_load(&fix, OTHER_TEXT(FINALIZER ",'labels':{'zone':'lab'}", LISTED, ""));
	assert_int_equal(server_object_inventory(&fix.o, &fix.arena, &s, &fix.err), 0);
	assert_string_equal(s.name, "gpu-01");
	assert_string_equal(s.address, "a:1");
	assert_null(s.probe_url);
	assert_int_equal(s.n_labels, 1);
	assert_string_equal(s.labels[0].value, "lab");
	assert_int_equal(s.n_gpus, 5);
	assert_false(s.drain);
	for (size_t i = 0; i < 5; i++) {
		assert_true(s.gpus[i].fresh);
		assert_int_equal(inventory_usable(&s, &s.gpus[i]), i < 3);
	}
	assert_string_equal(s.gpus[0].why, "");
	assert_string_equal(s.gpus[3].why, "ECC");
	assert_true(s.gpus[4].missing);

	server_fixture_load(&fix, OTHER_TEXT(FINALIZER, PROBED, FRESH("False")));
	assert_int_equal(server_object_inventory(&fix.o, &fix.arena, &s, &fix.err), 0);
	assert_string_equal(s.probe_url, "http://a");
	assert_false(s.gpus[0].fresh);
	assert_string_equal(s.gpus[0].why, "no answer");
	assert_string_equal(s.gpus[3].why, "ECC");

	server_fixture_load(&fix, OTHER_TEXT("'a':1", PROBED, ""));
	assert_int_equal(server_object_inventory(&fix.o, &fix.arena, &s, &fix.err), 0);
	assert_true(s.drain);
	assert_false(s.gpus[0].fresh);
	assert_string_equal(s.gpus[0].why, "its probe has not answered yet");
}

TEST(test_sums)
{
	const struct server_status *s = &fix.o.status;

	server_fixture_load(&fix, OTHER_TEXT(FINALIZER, LISTED, ""));
	assert_int_equal(server_status_claimed(s, 0), 8000000000);
	assert_int_equal(server_status_claimed(s, 1), 0);
	assert_int_equal(server_status_claimed(s, 2), 20000000000);
	assert_int_equal(server_status_gpu(s, SLICE("gpu-4")), 4);
	assert_int_equal(server_status_gpu(s, SLICE("gpu-40")), -1);
	assert_int_equal(server_status_claim(s, SLICE("c")), 2);
	assert_int_equal(server_status_claim(s, SLICE("d")), -1);
	/* what would wrap around is full */
	fix.o.status.claims[0].claim.parts[0].bytes = UINT64_MAX - 1;
	assert_true(server_status_claimed(s, 0) == UINT64_MAX);
	assert_non_null(strstr(server_fixture_status(&fix), "\"free\":16000,"));
}

/* A claim of so many bytes on one GPU. */
static struct claim one(const char *uid, struct claim_part *part, const char *gpu, uint64_t bytes)
{
	*part = (struct claim_part){"gpu-01", gpu, bytes};
	return (struct claim){
		.key = uid, .namespace = "ml", .name = uid, .parts = part, .n_parts = 1};
}

static void expect_no(
	struct server_fixture *f, const struct claim *c, struct slice without, const char *message)
{
	err_clear(&f->err);
	assert_int_equal(server_claim_fits(&f->o, c, without, &f->err), ERR_CONFLICT);
	if (!strstr(f->err.msg, message))
		fail_msg("\"%s\" instead of \"%s\"", f->err.msg, message);
}

static void expect_yes(struct server_fixture *f, const struct claim *c, struct slice without)
{
	if (server_claim_fits(&f->o, c, without, &f->err) != 0)
		fail_msg("%s", f->err.msg);
}

TEST(test_fits)
{
	struct slice nobody = {0};
	struct claim_part part,
		two[2] = {{"gpu-01", "gpu-1", 9000000000}, {"gpu-01", "gpu-1", 9000000000}};
	struct claim c;

	server_fixture_load(&fix, OTHER_TEXT(FINALIZER, LISTED, ""));
	c = one("d", &part, "gpu-0", 8000000000);
	expect_yes(&fix, &c, nobody);
	part.bytes++;
	expect_no(&fix, &c, nobody,
		"gpu-0 of gpu-01 has 8000000000 bytes free, 8000000001 are asked");
	expect_yes(&fix, &c, SLICE("b"));
	part.bytes = UINT64_MAX;
	expect_no(&fix, &c, nobody, "bytes free");
	c = one("d", &part, "gpu-2", 0);
	expect_no(&fix, &c, nobody, "gpu-2 of gpu-01 has 0 bytes free");
	expect_yes(&fix, &c, SLICE("a"));
	c = one("d", &part, "gpu-3", 1);
	expect_no(&fix, &c, nobody, "gpu-3 of gpu-01 is not fit: ECC");
	c = one("d", &part, "gpu-4", 1);
	expect_no(&fix, &c, nobody, "gpu-4 of gpu-01 is gone");
	c = one("d", &part, "gpu-5", 1);
	expect_no(&fix, &c, nobody, "has no GPU gpu-5");
	/* two parts on one GPU count together */
	c = one("d", &part, "gpu-1", 9000000000);
	expect_yes(&fix, &c, nobody);
	c.parts = two;
	c.n_parts = 2;
	expect_no(&fix, &c, nobody, "18000000000 are asked");
	/* a uid has one claim, unless it takes its own place */
	c = one("a", &part, "gpu-0", 11000000000);
	expect_no(&fix, &c, nobody, "holds a claim of this pod already");
	expect_yes(&fix, &c, SLICE("a"));
}

/* What is kept for a pod that waits is taken for everybody. */
TEST(test_fits_beside_what_is_kept)
{
	struct slice nobody = {0};
	struct claim_part part;
	struct claim c = one("d", &part, "gpu-1", 6000000000);

	server_fixture_load(
		&fix, SERVER_TEXT(FINALIZER, LISTED,
			      "{" GPUS "," CLAIMS ",'conditions':[],'kept':[{'uid':'k','gpus':[{'"
			      "id':'gpu-1','bytes':10000000000},"
			      "{'id':'gone','bytes':1}]},{'uid':'l','gpus':[{'id':'gpu-0','bytes':"
			      "16000000000}]}]}"));
	expect_yes(&fix, &c, nobody);
	part.bytes++;
	expect_no(&fix, &c, nobody, "gpu-1 of gpu-01 has 6000000000 bytes free");
	c = one("d", &part, "gpu-0", 1);
	expect_no(&fix, &c, nobody, "gpu-0 of gpu-01 has 0 bytes free");
}

TEST(test_fits_server)
{
	struct slice nobody = {0};
	struct claim_part part;
	struct claim c = one("d", &part, "gpu-1", 1);

	server_fixture_load(&fix, OTHER_TEXT(FINALIZER, DRAINED, ""));
	expect_no(&fix, &c, nobody, "draining");
	server_fixture_load(&fix, OTHER_TEXT("'a':1", LISTED, ""));
	expect_no(&fix, &c, nobody, "finalizer poolgate.io/claims");
	server_fixture_load(&fix,
		OTHER_TEXT(FINALIZER ",'deletionTimestamp':'2026-11-21T09:30:00Z'", LISTED, ""));
	expect_no(&fix, &c, nobody, "being deleted");
	server_fixture_load(&fix, OTHER_TEXT(FINALIZER, PROBED, ""));
	expect_no(&fix, &c, nobody, "stale: its probe has not answered yet");
	server_fixture_load(&fix, OTHER_TEXT(FINALIZER, PROBED, FRESH("False")));
	expect_no(&fix, &c, nobody, "stale: no answer");
	server_fixture_load(&fix, OTHER_TEXT(FINALIZER, PROBED, FRESH("True")));
	expect_yes(&fix, &c, nobody);
}

TEST(test_bound)
{
	static char uids[CLAIMS_PER_SERVER_MAX][16];
	struct claim_part part, last;
	struct claim c;

	server_fixture_load(
		&fix, SERVER_STATUS("{'gpus':[{'id':'g','memory':16000000,'fit':true}]}"));
	for (size_t i = 0; i < CLAIMS_PER_SERVER_MAX; i++) {
		struct claim_record r = {.take = i};

		snprintf(uids[i], sizeof(uids[i]), "u%zu", i);
		r.claim = one(uids[i], &part, "g", 1);
		expect_yes(&fix, &r.claim, (struct slice){0});
		assert_true(server_status_add_claim(&fix.o.status, &r, &fix.arena));
	}
	c = one("more", &last, "g", 1);
	expect_no(&fix, &c, (struct slice){0}, "has 256 claims, the most it can hold is 256");
	expect_yes(&fix, &c, SLICE("u7"));
	assert_int_equal(server_status_claimed(&fix.o.status, 0), 256);
	/* what somebody else has written above the bound is read all the same */
	assert_true(server_status_add_claim(
		&fix.o.status, &(struct claim_record){.claim = c}, &fix.arena));
	server_status_remove_claim(&fix.o.status, 0);
	server_status_remove_claim(&fix.o.status, 255);
	assert_int_equal(fix.o.status.n_claims, 255);
	assert_string_equal(fix.o.status.claims[0].claim.key, "u1");
	assert_string_equal(fix.o.status.claims[254].claim.key, "u255");
	assert_int_equal(fix.o.status.claims[254].take, 255);
}

/* More claims than we would add are read and written. */
TEST(test_over_the_bound)
{
	struct buf b;
	char *text;

	buf_init(&b, 1u << 20);
	for (int i = 0; i < 300; i++)
		buf_fmt(&b, "%s{'uid':'u%d','state':'bound','gpus':[]}", i ? "," : "", i);
	text = malloc(b.len + 1024);
	assert_non_null(text);
	snprintf(text, b.len + 1024, SERVER_STATUS("{'claims':[%s]}"), b.data);
	server_fixture_load(&fix, text);
	assert_int_equal(fix.o.status.n_claims, 300);
	assert_non_null(strstr(server_fixture_status(&fix), "\"claims\":300}}"));
	assert_non_null(strstr(fix.out.data, "\"u299\""));
	free(text);
	buf_release(&b);
}

/* Rule R12. */
TEST(test_phantoms)
{
	struct server_status *s = &fix.o.status;

	server_fixture_load(&fix, SERVER_STATUS("{'phantoms':[{'namespace':'lab','since':"
						"'2026-11-21T09:30:00Z','later':1}]}"));
	assert_int_equal(s->n_phantoms, 1);
	assert_true(server_status_add_phantom(s, "ml", s->phantoms[0].since_ms, &fix.arena));
	assert_true(
		server_status_add_phantom(s, "lab", s->phantoms[0].since_ms + 1000, &fix.arena));
	assert_non_null(strstr(server_fixture_status(&fix),
		"\"phantoms\":[{\"namespace\":\"lab\",\"since\":\"2026-11-21T09:30:01Z\",\"later\":"
		"1},"
		"{\"namespace\":\"ml\",\"since\":\"2026-11-21T09:30:00Z\"}]"));
	/* ten minutes each, and no clock that was far ahead keeps one for longer */
	assert_false(server_status_drop_phantoms(s, s->phantoms[0].since_ms));
	assert_true(server_status_drop_phantoms(s, s->phantoms[1].since_ms + SERVER_PHANTOM_MS));
	assert_int_equal(s->n_phantoms, 1);
	assert_string_equal(s->phantoms[0].namespace, "lab");
	assert_false(server_status_drop_phantoms(s, s->phantoms[0].since_ms - SERVER_PHANTOM_MS));
	assert_true(
		server_status_drop_phantoms(s, s->phantoms[0].since_ms - SERVER_PHANTOM_MS - 1));
	assert_int_equal(s->n_phantoms, 0);
	assert_null(strstr(server_fixture_status(&fix), "phantoms"));
}

/* Rule R12: where there are as many as are kept, the oldest makes room; of those that are as old
 * the first. */
TEST(test_the_oldest_phantom_makes_room)
{
	enum { LAST = SERVER_PHANTOMS_MAX - 1 };
	static const struct {
		int old, too; /* which are older than all others */
		int goes;
	} rows[] = {{0, 0, 0}, {5, 5, 5}, {LAST, LAST, LAST}, {5, 9, 5}, {0, LAST, 0},
		{LAST - 1, LAST, LAST - 1}, {-1, -1, 0}};
	struct server_status *s = &fix.o.status;
	char names[SERVER_PHANTOMS_MAX + 1][8];

	for (size_t row = 0; row < COUNT(rows); row++) {
		server_fixture_load(&fix, SERVER_STATUS("{}"));
		for (int i = 0; i <= SERVER_PHANTOMS_MAX; i++) {
			bool old = i == rows[row].old || i == rows[row].too;

			(void)snprintf(names[i], sizeof(names[i]), "n%d", i);
			assert_true(server_status_add_phantom(
				s, names[i], old ? 500 : 1000, &fix.arena));
		}
		assert_int_equal(s->n_phantoms, SERVER_PHANTOMS_MAX);
		for (int i = 0; i < SERVER_PHANTOMS_MAX; i++) {
			int is = i == rows[row].goes ? SERVER_PHANTOMS_MAX : i;

			assert_string_equal(s->phantoms[i].namespace, names[is]);
		}
		assert_true(s->phantoms[rows[row].goes].since_ms == 1000);
	}
}

/* Without memory there is no new one, and those that are known are renewed all the same. */
TEST(test_phantoms_without_memory)
{
	struct server_status *s = &fix.o.status;
	struct arena none;

	arena_init(&none, 0);
	server_fixture_load(&fix, SERVER_STATUS("{}"));
	assert_false(server_status_add_phantom(s, "ml", 500, &none));
	assert_true(none.failed);
	assert_int_equal(s->n_phantoms, 0);
	assert_true(server_status_add_phantom(s, "ml", 500, &fix.arena));
	assert_false(server_status_add_phantom(s, "lab", 600, &none));
	assert_int_equal(s->n_phantoms, 1);
	assert_true(server_status_add_phantom(s, "ml", 700, &none));
	assert_int_equal(s->n_phantoms, 1);
	assert_string_equal(s->phantoms[0].namespace, "ml");
	assert_int_equal(s->phantoms[0].since_ms, 700);
	arena_release(&none);
}

TEST(test_conditions)
{
	struct condition c = {.type = SERVER_READY,
		.status = "True",
		.reason = "Open",
		.message = "m",
		.observed_generation = 3};
	const struct condition *got;
	char now[32] = "2026-11-21T09:30:00Z";
	struct server_status *s = &fix.o.status;

	server_fixture_load(&fix, SERVER_STATUS("{'conditions':[{'type':'Fresh','status':'True',"
						"'lastTransitionTime':'t','later':1}]}"));
	assert_true(server_status_set_condition(s, &c, now, &fix.arena));
	assert_int_equal(s->n_conditions, 2);
	memset(now, 'x', 19);
	got = server_status_condition(s, SERVER_READY);
	assert_string_equal(got->since, "2026-11-21T09:30:00Z");
	assert_false(server_status_set_condition(s, &c, now, &fix.arena));
	c.message = "n";
	assert_true(server_status_set_condition(s, &c, now, &fix.arena));
	assert_string_equal(
		server_status_condition(s, SERVER_READY)->since, "2026-11-21T09:30:00Z");
	assert_string_equal(server_status_condition(s, SERVER_READY)->message, "n");
	c.reason = "Shut";
	assert_true(server_status_set_condition(s, &c, now, &fix.arena));
	c.observed_generation = 4;
	assert_true(server_status_set_condition(s, &c, now, &fix.arena));
	c.status = "False";
	assert_true(server_status_set_condition(s, &c, "later", &fix.arena));
	assert_string_equal(server_status_condition(s, SERVER_READY)->since, "later");
	assert_false(server_status_set_condition(s, &c, now, &fix.arena));
	/* what was read with members that we do not know keeps them */
	c.type = SERVER_FRESH;
	assert_true(server_status_set_condition(s, &c, "then", &fix.arena));
	assert_int_equal(s->n_conditions, 2);
	assert_non_null(strstr(server_fixture_status(&fix),
		"{\"type\":\"Fresh\",\"status\":\"False\",\"observedGeneration\":4,"
		"\"lastTransitionTime\":\"then\",\"reason\":\"Shut\",\"message\":\"n\",\"later\":"
		"1}"));
}

#define SPEC(gpus) "{'address':'a:1','gpus':[" gpus "]}"
#define V100(count) "{'model':'V100','memory':'16G','count':" count "}"
#define A100 "{'model':'A100','memory':'1G'}"

/* "gpu-0 V100 16000000000; gpu-1 … missing" */
static const char *gpus_of(struct server_fixture *f)
{
	buf_clear(&f->out);
	for (size_t i = 0; i < f->o.status.n_gpus; i++) {
		const struct gpu *g = &f->o.status.gpus[i].gpu;

		buf_fmt(&f->out, "%s%s %s %llu%s%s%.*s", i ? "; " : "", g->id, g->model,
			(unsigned long long)(g->bytes / 1000000000), g->fit ? "" : " unfit",
			g->missing ? " missing" : "", (int)f->o.status.gpus[i].rest.len,
			f->o.status.gpus[i].rest.at ? f->o.status.gpus[i].rest.at : "");
	}
	return f->out.data ? f->out.data : "";
}

TEST(test_from_spec)
{
	/* from nothing */
	server_fixture_load(&fix, SERVER_TEXT(FINALIZER, SPEC(V100("2") "," A100), "{}"));
	assert_true(server_status_from_spec(&fix.o, &fix.arena));
	assert_string_equal(gpus_of(&fix), "gpu-0 V100 16; gpu-1 V100 16; gpu-2 A100 1");
	assert_false(server_status_from_spec(&fix.o, &fix.arena));
	/* grown; gpu-3 is fit again, gpu-4 is back; what is there keeps its members */
	server_fixture_load(&fix, OTHER_TEXT(FINALIZER, SPEC(V100("6")), ""));
	assert_true(server_status_from_spec(&fix.o, &fix.arena));
	assert_string_equal(gpus_of(&fix),
		"gpu-0 V100 16\"x\":0; gpu-1 V100 16\"x\":1; gpu-2 V100 16; gpu-3 V100 16; "
		"gpu-4 V100 16; gpu-5 V100 16");
	assert_string_equal(fix.o.status.gpus[3].gpu.why, "");
	/* shrunk: gpu-2 and gpu-4 have claims */
	server_fixture_load(&fix, OTHER_TEXT(FINALIZER, SPEC(V100("1")), ""));
	assert_true(server_status_from_spec(&fix.o, &fix.arena));
	assert_string_equal(gpus_of(&fix),
		"gpu-0 V100 16\"x\":0; gpu-2 V100 16 missing; gpu-4 V100 16 missing");
	assert_false(server_status_prune(&fix.o.status));
	assert_false(server_status_from_spec(&fix.o, &fix.arena));
	server_status_remove_claim(&fix.o.status, 2);
	assert_true(server_status_prune(&fix.o.status));
	assert_string_equal(gpus_of(&fix), "gpu-0 V100 16\"x\":0; gpu-2 V100 16 missing");
	server_status_remove_claim(&fix.o.status, 0);
	assert_true(server_status_from_spec(&fix.o, &fix.arena));
	assert_string_equal(gpus_of(&fix), "gpu-0 V100 16\"x\":0");
	/* a server with a probe has none from its spec */
	server_fixture_load(&fix, OTHER_TEXT(FINALIZER, PROBED, ""));
	assert_false(server_status_from_spec(&fix.o, &fix.arena));
	assert_int_equal(fix.o.status.n_gpus, 5);
	assert_false(fix.arena.failed);
}

/* Each member of a GPU that another one than the spec's has is a change to write, and only then. */
TEST(test_from_spec_writes_what_differs)
{
	static const struct {
		const char *gpu;
		bool writes;
	} rows[] = {
		{"'id':'gpu-0','model':'V100','memory':16000000000,'fit':true", false},
		{"'id':'gpu-0','model':'V100','memory':16000000000,'fit':true,'x':1", false},
		{"'id':'gpu-1','model':'V100','memory':16000000000,'fit':true", true},
		{"'id':'gpu-0','model':'A100','memory':16000000000,'fit':true", true},
		{"'id':'gpu-0','model':'V100','memory':16000000001,'fit':true", true},
		{"'id':'gpu-0','model':'V100','memory':16000000000,'fit':false", true},
		{"'id':'gpu-0','model':'V100','memory':16000000000,'fit':true,'missing':true",
			true},
		{"'id':'gpu-0','model':'V100','memory':16000000000,'fit':true,'reason':'ECC'",
			true},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[1024];

		snprintf(text, sizeof(text),
			SERVER_TEXT(FINALIZER, SPEC(V100("1")), "{'gpus':[{%s}]}"), rows[i].gpu);
		server_fixture_load(&fix, text);
		if (server_status_from_spec(&fix.o, &fix.arena) != rows[i].writes)
			fail_msg("row %zu: %s", i, rows[i].gpu);
		assert_string_equal(fix.o.status.gpus[0].gpu.id, "gpu-0");
		assert_int_equal(fix.o.status.n_gpus, 1);
	}
}

/* Another model under the same id: its claims stay, and it takes nothing until they fit. */
TEST(test_other_model)
{
	struct claim_part part;
	struct claim c = one("d", &part, "gpu-0", 1);

	server_fixture_load(&fix, OTHER_TEXT(FINALIZER, SPEC(A100 "," V100("4")), ""));
	assert_true(server_status_from_spec(&fix.o, &fix.arena));
	assert_string_equal(gpus_of(&fix),
		"gpu-0 A100 1\"x\":0; gpu-1 V100 16\"x\":1; gpu-2 V100 16; gpu-3 V100 16; gpu-4 "
		"V100 16");
	assert_int_equal(server_status_claimed(&fix.o.status, 0), 8000000000);
	expect_no(&fix, &c, (struct slice){0}, "gpu-0 of gpu-01 has 0 bytes free");
	server_status_remove_claim(&fix.o.status, 1);
	expect_no(&fix, &c, (struct slice){0}, "gpu-0 of gpu-01 has 0 bytes free");
	server_status_remove_claim(&fix.o.status, 0);
	expect_yes(&fix, &c, (struct slice){0});
}

TESTS_BETWEEN(set_up, tear_down, test_summary, test_inventory, test_sums, test_fits,
	test_fits_beside_what_is_kept, test_fits_server, test_bound, test_over_the_bound,
	test_phantoms, test_the_oldest_phantom_makes_room, test_conditions, test_from_spec,
	test_from_spec_writes_what_differs, test_other_model, test_phantoms_without_memory)

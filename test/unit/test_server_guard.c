/* SPDX-License-Identifier: Apache-2.0 */
/* test: what a gate tells, as conditions and as GPUs that take nothing new. */
#include "webhook/core/server/server_guard.h"

#include "test/unit/server_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/server/server_keep.h"

#define NOW "2026-11-26T09:00:00Z"
#define LATER "2026-11-26T10:00:00Z"
#define GPU(id, more) "{'id':'" id "','model':'H100','memory':16000000000,'fit':true" more "}"
#define CLAIM(uid, more)                                                                           \
	"{'uid':'" uid "','namespace':'ml','name':'" uid                                           \
	"','gpus':[{'id':'GPU-1','bytes':8000000000}]," more "}"
#define STATUS                                                                                     \
	"{'version':1,'gpus':[" GPU("GPU-1", "") "," GPU("MIG-2",                                  \
		",'parent':'GPU-2'") "],"                                                          \
				     "'claims':[" CLAIM("a", "'state':'bound'") "," CLAIM("b",     \
					     "'state':'pending'") "],"                             \
								  "'conditions':[{'type':'Fresh'," \
								  "'status':'True','reason':'"     \
								  "ProbeAnswered'}]}"
#define META "'generation':3,'finalizers':['poolgate.io/claims']"
#define PROBED(more) "{'address':'a:1','probe':{'url':'http://a'}" more "}"
#define GATE ",'gate':{'profile':'lupine','url':'https://g','tokenSecret':'t'}"

static struct server_fixture fix;
static struct gate_page page;

FIXTURE(set_up)
{
	server_fixture_init(&fix);
	server_fixture_load(&fix, SERVER_TEXT(META, PROBED(GATE), STATUS));
	page = (struct gate_page){.version = 1,
		.server = "gpu-01",
		.profile = "lupine",
		.shares = GATE_SHARES_HELD,
		.known = true};
	return 0;
}

FIXTURE(tear_down)
{
	server_fixture_release(&fix);
	return 0;
}

/* status/reason; NULL: there is no such condition */
static void expect(const char *type, const char *status, const char *reason)
{
	const struct condition *c = server_status_condition(&fix.o.status, type);

	if (!status) {
		if (c)
			fail_msg("%s is there: %s", type, c->status);
		return;
	}
	assert_non_null(c);
	assert_string_equal(c->status, status);
	assert_string_equal(c->reason, reason);
}

static const char *message(const char *type)
{
	return server_status_condition(&fix.o.status, type)->message;
}

static struct gpu_server shown(void)
{
	struct gpu_server s;

	assert_int_equal(server_object_inventory(&fix.o, &fix.arena, &s, &fix.err), 0);
	return s;
}

TEST(a_new_gate_is_unknown_and_one_that_goes_is_no_more)
{
	assert_true(server_keep_status(&fix.o, NOW, &fix.arena));
	expect(SERVER_GUARDED, "Unknown", GUARDED_NOT_ASKED);
	expect(SERVER_OVER_SHARE, "Unknown", USE_UNKNOWN);
	assert_false(shown().guarded);
	assert_true(server_guard_told(&fix.o, &page, NOW, &fix.arena));
	expect(SERVER_GUARDED, "True", GUARDED_HELD);
	expect(SERVER_OVER_SHARE, "False", USE_FINE);
	assert_true(shown().guarded);
	/* said once */
	assert_false(server_guard_told(&fix.o, &page, LATER, &fix.arena));
	assert_false(server_keep_status(&fix.o, LATER, &fix.arena));
	fix.o.status.gpus[0].closed = "x";
	fix.o.gate_profile = NULL;
	assert_false(shown().guarded);
	assert_true(server_keep_status(&fix.o, LATER, &fix.arena));
	expect(SERVER_GUARDED, "False", GUARDED_NO_GATE);
	assert_null(fix.o.status.gpus[0].closed);
	assert_false(server_keep_status(&fix.o, LATER, &fix.arena));
	/* and comes again */
	fix.o.gate_profile = "lupine";
	assert_true(server_keep_status(&fix.o, LATER, &fix.arena));
	expect(SERVER_GUARDED, "Unknown", GUARDED_NOT_ASKED);
}

TEST(a_server_without_a_gate_has_no_word_of_it)
{
	fix.o.gate_profile = NULL;
	(void)server_keep_status(&fix.o, NOW, &fix.arena);
	expect(SERVER_GUARDED, NULL, NULL);
	expect(SERVER_OVER_SHARE, NULL, NULL);
	expect(SERVER_STRANGERS, NULL, NULL);
}

/* What was said of another spec is not believed, be it that nobody has written so yet. */
TEST(another_spec_is_asked_about_anew)
{
	(void)server_guard_told(&fix.o, &page, NOW, &fix.arena);
	(void)server_keep_status(&fix.o, NOW, &fix.arena);
	assert_true(shown().guarded);
	fix.o.generation++;
	assert_false(shown().guarded);
	assert_true(server_keep_status(&fix.o, LATER, &fix.arena));
	expect(SERVER_GUARDED, "Unknown", GUARDED_NOT_ASKED);
	assert_false(shown().guarded);
	assert_false(server_keep_status(&fix.o, LATER, &fix.arena));
	assert_true(server_guard_told(&fix.o, &page, LATER, &fix.arena));
	assert_true(shown().guarded);
}

TEST(what_guards_and_what_does_not)
{
	static const struct {
		const char *server, *profile;
		enum gate_shares shares;
		const char *status, *reason;
	} rows[] = {
		{"gpu-01", "lupine", GATE_SHARES_HELD, "True", GUARDED_HELD},
		{"gpu-01", "lupine", GATE_SHARES_UNKNOWN, "Unknown", GUARDED_UNTRIED},
		{"gpu-01", "lupine", GATE_SHARES_EXCEEDED, "False", GUARDED_EXCEEDED},
		{"gpu-02", "lupine", GATE_SHARES_HELD, "False", GUARDED_OTHER_SERVER},
		{"", "", GATE_SHARES_HELD, "False", GUARDED_OTHER_SERVER},
		{"gpu-01", "other", GATE_SHARES_HELD, "False", GUARDED_OTHER_PROFILE},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		page.server = rows[i].server;
		page.profile = rows[i].profile;
		page.shares = rows[i].shares;
		(void)server_guard_told(&fix.o, &page, NOW, &fix.arena);
		expect(SERVER_GUARDED, rows[i].status, rows[i].reason);
		assert_int_equal(shown().guarded, strcmp(rows[i].status, "True") == 0);
		assert_true(server_guard_silent(&fix.o, FRESH_NO_ANSWER, "x", NOW, &fix.arena));
		expect(SERVER_GUARDED, "Unknown", FRESH_NO_ANSWER);
		assert_false(shown().guarded);
	}
}

TEST(a_gate_of_another_mode)
{
	for (unsigned i = 0; i < 4; i++) {
		bool same = (i & 1) == i >> 1;

		page.mode = i & 1 ? GATE_MODE_ADDRESS : GATE_MODE_TOKEN;
		fix.o.gate_by_address = i >> 1;
		assert_int_equal(shown().gate_by, i >> 1 ? GATE_BY_ADDRESS : GATE_BY_TOKEN);
		(void)server_guard_told(&fix.o, &page, NOW, &fix.arena);
		expect(SERVER_GUARDED, same ? "True" : "False",
			same ? GUARDED_HELD : GUARDED_OTHER_MODE);
	}
	/* the page of the one, the spec of the other */
	page.mode = GATE_MODE_TOKEN;
	(void)server_guard_told(&fix.o, &page, NOW, &fix.arena);
	assert_string_equal(server_status_condition(&fix.o.status, SERVER_GUARDED)->message,
		"its gate goes by the mode token, and spec.gate.mode is address");
}

TEST(more_than_a_share_is_named)
{
	struct gate_claim claims[] = {{.uid = "a", .known = true, .over = true, .gpu = "GPU-1"},
		{.uid = "gone", .known = true, .over = true, .gpu = "GPU-1"}};

	page.claims = claims;
	page.n_claims = 2;
	assert_true(server_guard_told(&fix.o, &page, NOW, &fix.arena));
	expect(SERVER_OVER_SHARE, "True", USE_OVER);
	assert_string_equal(message(SERVER_OVER_SHARE),
		"pods have more of its GPUs than they hold: ml/a (GPU-1)");
	/* what has not changed is not written again */
	claims[0].has++;
	assert_false(server_guard_told(&fix.o, &page, LATER, &fix.arena));
	page.known = false;
	assert_true(server_guard_told(&fix.o, &page, LATER, &fix.arena));
	expect(SERVER_OVER_SHARE, "Unknown", USE_UNKNOWN);
	/* it guards all the same */
	expect(SERVER_GUARDED, "True", GUARDED_HELD);
	page.known = true;
	page.n_claims = 0;
	assert_true(server_guard_told(&fix.o, &page, LATER, &fix.arena));
	expect(SERVER_OVER_SHARE, "False", USE_FINE);
	/* another machine's pods are none of ours */
	page.server = "gpu-02";
	page.n_claims = 2;
	assert_true(server_guard_told(&fix.o, &page, LATER, &fix.arena));
	expect(SERVER_OVER_SHARE, "Unknown", USE_UNKNOWN);
}

TEST(an_hour_without_use)
{
	struct gate_claim claims[] = {{.uid = "a", .known = true, .unused_s = USE_IDLE_S - 1},
		{.uid = "b", .known = true, .unused_s = 2 * USE_IDLE_S}};

	page.claims = claims;
	page.n_claims = 2;
	/* a claim whose pod nobody has seen yet is another matter */
	(void)server_guard_told(&fix.o, &page, NOW, &fix.arena);
	expect(SERVER_UNUSED, NULL, NULL);
	claims[0].unused_s++;
	assert_true(server_guard_told(&fix.o, &page, NOW, &fix.arena));
	expect(SERVER_UNUSED, "True", USE_UNUSED);
	assert_non_null(strstr(message(SERVER_UNUSED), "for an hour: ml/a"));
	fix.o.status.claims[0].waits = "ImagePullBackOff";
	assert_true(server_guard_told(&fix.o, &page, NOW, &fix.arena));
	expect(SERVER_UNUSED, "False", USE_FINE);
	fix.o.status.claims[0].waits = NULL;
	assert_true(server_guard_told(&fix.o, &page, NOW, &fix.arena));
	expect(SERVER_UNUSED, "True", USE_UNUSED);
	/* a pod that is gone uses nothing, which is no wonder */
	fix.o.status.claims[0].lingers_ms = 1;
	assert_true(server_guard_told(&fix.o, &page, NOW, &fix.arena));
	expect(SERVER_UNUSED, "False", USE_FINE);
}

/* A GPU with a stranger takes nothing new, whatever the probe says; with the operator's word it
 * does. */
TEST(strangers_close_their_gpu)
{
	struct gate_stranger strangers[] = {{.pid = 7, .gpu = "GPU-2"}};
	struct claim_part part = {.server = "gpu-01", .gpu = "MIG-2", .bytes = 1};
	struct claim claim = {.key = "new", .parts = &part, .n_parts = 1};

	assert_int_equal(server_claim_fits(&fix.o, &claim, (struct slice){0}, &fix.err), 0);
	page.strangers = strangers;
	page.n_strangers = 1;
	assert_true(server_guard_told(&fix.o, &page, NOW, &fix.arena));
	expect(SERVER_STRANGERS, "True", USE_STRANGERS);
	assert_string_equal(
		message(SERVER_STRANGERS), "processes that belong to no claim compute here: MIG-2");
	assert_true(shown().gpus[0].fit && !shown().gpus[1].fit);
	assert_string_equal(
		shown().gpus[1].why, "a process that belongs to no claim computes there");
	assert_int_equal(
		server_claim_fits(&fix.o, &claim, (struct slice){0}, &fix.err), ERR_CONFLICT);
	assert_non_null(strstr(fix.err.msg, "belongs to no claim"));
	assert_non_null(strstr(server_fixture_status(&fix), "\"fit\":1,"));
	assert_non_null(strstr(server_fixture_status(&fix), "\"closed\":\"a process"));
	/* nobody knows: it stays closed */
	assert_true(server_guard_silent(&fix.o, FRESH_NO_ANSWER, "x", NOW, &fix.arena));
	expect(SERVER_STRANGERS, "Unknown", USE_UNKNOWN);
	assert_false(shown().gpus[1].fit);
	fix.o.gate_lets_strangers = true;
	assert_true(server_guard_told(&fix.o, &page, NOW, &fix.arena));
	expect(SERVER_STRANGERS, "True", USE_STRANGERS);
	assert_true(shown().gpus[1].fit);
	page.n_strangers = 0;
	assert_true(server_guard_told(&fix.o, &page, NOW, &fix.arena));
	expect(SERVER_STRANGERS, "False", USE_FINE);
	/* all of them are closed: it is not ready */
	strangers[0].gpu = "GPU-1";
	page.n_strangers = 1;
	fix.o.gate_lets_strangers = false;
	fix.o.status.n_gpus = 1;
	fix.o.status.n_claims = 0;
	assert_true(server_guard_told(&fix.o, &page, NOW, &fix.arena));
	(void)server_keep_status(&fix.o, NOW, &fix.arena);
	expect(SERVER_READY, "False", "NoneFit");
}

/* Nobody is put beside somebody who has more than his share, and whom MPS does not end. */
TEST(who_cannot_be_ended_closes_his_gpu)
{
	struct gate_claim claims[] = {
		{.uid = "u1", .known = true, .over = true, .gpu = "GPU-2", .stuck = true}};

	fix.o.gate_lets_strangers = true;
	page.claims = claims;
	page.n_claims = 1;
	assert_true(server_guard_told(&fix.o, &page, NOW, &fix.arena));
	assert_true(shown().gpus[0].fit && !shown().gpus[1].fit);
	assert_non_null(strstr(shown().gpus[1].why, "MPS does not answer"));
	/* nobody knows: it stays closed */
	assert_true(server_guard_silent(&fix.o, FRESH_NO_ANSWER, "x", NOW, &fix.arena));
	assert_false(shown().gpus[1].fit);
	claims[0].stuck = false;
	assert_true(server_guard_told(&fix.o, &page, NOW, &fix.arena));
	assert_true(shown().gpus[1].fit);
}

/* ---- what is used, to be added up ---- */

#define AT INT64_C(1795700000000)

/* What stands at a claim, and until when it counts. */
static void expect_used(size_t i, uint64_t used, int64_t until_ms)
{
	assert_true(fix.o.status.claims[i].used == used);
	assert_true(fix.o.status.claims[i].used_until_ms == until_ms);
}

static void begin_used(struct gate_claim *claims, size_t n)
{
	fix.o.status.usage = "open 2026-11-26T09:00:00Z 2026-11-26T09:00:00Z 0 0 0 0\n";
	page.claims = claims;
	page.n_claims = n;
}

TEST(what_is_used_stands_for_a_while)
{
	struct gate_claim claims[] = {{.uid = "a", .used = 5, .known = true},
		{.uid = "b", .used = 6, .known = true}, {.uid = "c", .used = 7, .known = true}};

	begin_used(claims, COUNT(claims));
	assert_true(server_guard_used(&fix.o, &page, AT, false));
	expect_used(0, 5, AT + USED_COUNTS_MS);
	/* nobody has seen its pod */
	expect_used(1, 0, 0);
	/* no commit for each answer, be it another one; once a minute, or where one is made */
	claims[0].used = 0;
	assert_false(server_guard_used(&fix.o, &page, AT + USED_AGAIN_MS - 1, false));
	expect_used(0, 5, AT + USED_COUNTS_MS);
	assert_true(server_guard_used(&fix.o, &page, AT + USED_AGAIN_MS, false));
	expect_used(0, 0, AT + USED_AGAIN_MS + USED_COUNTS_MS);
	claims[0].used = 8;
	assert_true(server_guard_used(&fix.o, &page, AT + USED_AGAIN_MS + 1, true));
	expect_used(0, 8, AT + USED_AGAIN_MS + 1 + USED_COUNTS_MS);
	/* what a clock that was far ahead wrote does not stand until that time has come */
	assert_true(server_guard_used(&fix.o, &page, AT - 4 * USED_COUNTS_MS, false));
	expect_used(0, 8, AT - 3 * USED_COUNTS_MS);
	/* its pod is seen */
	fix.o.status.claims[1].claim.state = CLAIM_BOUND;
	assert_true(server_guard_used(&fix.o, &page, AT - 4 * USED_COUNTS_MS, false));
	expect_used(1, 6, AT - 3 * USED_COUNTS_MS);
	assert_false(server_guard_used(&fix.o, &page, AT - 4 * USED_COUNTS_MS, false));
}

static void told_anew(void)
{
	page.known = true;
	page.server = "gpu-01";
	page.claims[0].known = true;
	page.n_claims = 1;
	fix.o.status.usage = "open 2026-11-26T09:00:00Z 2026-11-26T09:00:00Z 0 0 0 0\n";
	fix.o.gate_profile = "lupine";
	assert_true(server_guard_used(&fix.o, &page, AT, false));
	expect_used(0, 5, AT + USED_COUNTS_MS);
}

/* None of these is a zero. */
TEST(what_is_not_known_is_forgotten)
{
	struct gate_claim claims[] = {{.uid = "a", .used = 5, .known = true}};

	begin_used(claims, COUNT(claims));
	told_anew();
	page.known = false;
	assert_true(server_guard_used(&fix.o, &page, AT + 1, false));
	expect_used(0, 0, 0);
	assert_false(server_guard_used(&fix.o, &page, AT + 1, true));
	told_anew();
	page.server = "gpu-02";
	assert_true(server_guard_used(&fix.o, &page, AT + 1, false));
	expect_used(0, 0, 0);
	told_anew();
	claims[0].known = false;
	assert_true(server_guard_used(&fix.o, &page, AT + 1, false));
	expect_used(0, 0, 0);
	told_anew();
	page.n_claims = 0;
	assert_true(server_guard_used(&fix.o, &page, AT + 1, false));
	expect_used(0, 0, 0);
	told_anew();
	assert_true(server_guard_silent(&fix.o, FRESH_NO_ANSWER, "x", NOW, &fix.arena));
	expect_used(0, 0, 0);
	/* nobody adds up */
	told_anew();
	fix.o.status.usage = "";
	assert_true(server_guard_used(&fix.o, &page, AT + 1, false));
	expect_used(0, 0, 0);
	/* no gate any more */
	told_anew();
	(void)server_guard_told(&fix.o, &page, NOW, &fix.arena);
	fix.o.gate_profile = NULL;
	assert_true(server_keep_status(&fix.o, NOW, &fix.arena));
	expect_used(0, 0, 0);
}

/* Not all of many are named, and none that is on another machine's GPU. */
TEST(strangers_on_many_gpus)
{
	struct gate_stranger strangers[7];
	static const char *const gpus[] = {"G1", "G2", "elsewhere", "G3", "G4", "G5", "G6"};

	server_fixture_load(&fix,
		SERVER_TEXT(META, PROBED(GATE),
			"{'version':1,'gpus':[" GPU("G1", "") "," GPU("G2", "") "," GPU("G3",
				"") "," GPU("G4", "") "," GPU("G5", "") "," GPU("G6", "") "]}"));
	for (size_t i = 0; i < COUNT(gpus); i++)
		strangers[i] = (struct gate_stranger){.pid = 7, .gpu = gpus[i]};
	page.strangers = strangers;
	page.n_strangers = 5;
	assert_true(server_guard_told(&fix.o, &page, NOW, &fix.arena));
	assert_string_equal(message(SERVER_STRANGERS),
		"processes that belong to no claim compute here: G1, G2, G3, G4");
	page.n_strangers = 7;
	assert_true(server_guard_told(&fix.o, &page, NOW, &fix.arena));
	assert_string_equal(message(SERVER_STRANGERS),
		"processes that belong to no claim compute here: G1, G2, G3, G4, and 2 more");
	for (size_t i = 0; i < 6; i++)
		assert_non_null(fix.o.status.gpus[i].closed);
	/* one that says nothing of itself closes and opens none */
	page.server = "";
	page.n_strangers = 0;
	assert_true(server_guard_told(&fix.o, &page, NOW, &fix.arena));
	expect(SERVER_GUARDED, "False", GUARDED_OTHER_SERVER);
	assert_string_equal(message(SERVER_GUARDED),
		"the gate there is of the GPUServer (it does not say which)");
	assert_non_null(fix.o.status.gpus[0].closed);
}

TESTS_BETWEEN(set_up, tear_down, a_new_gate_is_unknown_and_one_that_goes_is_no_more,
	a_server_without_a_gate_has_no_word_of_it, another_spec_is_asked_about_anew,
	what_guards_and_what_does_not, a_gate_of_another_mode, more_than_a_share_is_named,
	an_hour_without_use, strangers_close_their_gpu, who_cannot_be_ended_closes_his_gpu,
	what_is_used_stands_for_a_while, what_is_not_known_is_forgotten, strangers_on_many_gpus)

/* SPDX-License-Identifier: Apache-2.0 */
/* test: gangs are given their claims whole or not at all, wherever a leader dies (W3, W11;
 * rule R19). */
#include "test/unit/claims_api.h"
#include "test/unit/test.h"
#include "webhook/edge/metrics/metrics.h"

FIXTURE(set_up)
{
	api = claims_api_new();
	/* nothing is kept for anybody, however long ago he came */
	api->cfg.reserve_ms = INT64_MAX / 2;
	return 0;
}

#define OF_G PLAN_GANG("g", "4", "1", "100")
#define OF_TWO PLAN_GANG("g", "2", "1", "100")
/* A seat of these, as the leader writes it. */
#define SEAT(uid, name, gpu)                                                                       \
	CLAIM_WITH(uid, name, "bound", "aa", "'a'",                                                \
		"'gangSize':2,'gangBytes':32000000000,'gangLike':" WHOLE ",", HOLDS(gpu, WHOLE))
#define KEY_OF_G "3836701256"
/* Of four of namespace n and their gang g, of which each asked a GPU as large as three of these. */
#define OF_LARGER(uid, name, gpu)                                                                  \
	CLAIM_WITH(uid, name, "bound", "aa", "'a'",                                                \
		"'gangKey':" KEY_OF_G ",'gangSize':4,'gangBytes':192000000000,"                    \
		"'gangLike':48000000000,'gangAsks':48000000000,",                                  \
		HOLDS(gpu, WHOLE))
/* Of a gang that u1 decides. */
#define OF_GANG(uid, name, gpu, more)                                                              \
	CLAIM_WITH(uid, name, "bound", "aa", "'a'", more "'gang':'u1',", HOLDS(gpu, WHOLE))

#define BY_JOB(name, uid)                                                                          \
	"{\"apiVersion\":\"batch/v1\",\"kind\":\"Job\",\"name\":\"" name "\",\"uid\":\"" uid       \
	"\",\"controller\":true}"

static void put(const char *name, const char *status)
{
	char spec[200];

	snprintf(spec, sizeof(spec),
		"{'address':'10.0.0.%d:56001','gpus':[{'model':'V100','memory':'16G','count':2}]}",
		name[0] - 'a' + 1);
	pool_api_put(api->pool, name, OURS, spec, status);
}

/* g0 to g3 are u1 to u4. */
static void put_gang(const char *plan, size_t n)
{
	static const char *const names[] = {"g0", "g1", "g2", "g3"};
	static const char *const uids[] = {"u1", "u2", "u3", "u4"};

	for (size_t i = 0; i < n; i++)
		pod_put_waiting(api, names[i], uids[i], plan, 30);
}

/* How many of n pods are let go, as soon as all are, else after ms. */
static size_t let_go(char first, size_t n, int ms)
{
	int64_t until = api_now_ms() + ms;
	char uid[3] = {first, '0', 0};
	size_t there;

	do {
		there = 0;
		for (size_t i = 0; i < n; i++) {
			uid[1] = (char)('1' + i);
			there += pod_is_let_go(api, uid, 0);
		}
		if (there < n)
			api_nap(10);
	} while (there < n && api_now_ms() < until);
	return there;
}

/* How many of u1 to u4 hold something. */
static size_t holding(void)
{
	static const char *const servers[] = {"a", "b", "c"};
	size_t n = 0;

	for (char i = '1'; i <= '4'; i++) {
		char text[] = "'uid':'u0'";

		text[sizeof(text) - 3] = i;
		for (size_t s = 0; s < COUNT(servers); s++)
			if (status_has(api, servers[s], text, 0)) {
				n++;
				break;
			}
	}
	return n;
}

/* Two gangs of four and room for six: one runs whole, and then the other. */
TEST(r19_nobody_is_torn)
{
	put("a", STATUS(""));
	put("b", STATUS(""));
	put("c", STATUS(""));
	put_gang(OF_G, 4);
	for (size_t i = 0; i < 4; i++) {
		char name[] = {'h', (char)('1' + i), 0}, uid[] = {'v', (char)('1' + i), 0};

		pod_put_waiting(api, name, uid, PLAN_GANG("h", "4", "1", "100"), 31);
	}
	claims_api_run(api);
	assert_int_equal(let_go('u', 4, SOON), 4);
	assert_int_equal(let_go('v', 4, 500), 0);
	assert_false(status_has(api, "b", "'open'", 0));
	for (char i = '1'; i <= '4'; i++)
		pod_gone(api, (char[]){'u', i, 0});
	assert_int_equal(let_go('v', 4, SOON), 4);
	assert_int_equal(metric_value(api->pool->metrics, M_ADOPTIONS, 0, 0), 0);
}

/* The leader dies behind each of its writes. The next one finds what it has left, and serves the
 * gang whole. */
TEST(r19_a_leader_dies)
{
	static const struct {
		const char *where;
		unsigned puts, places;
		size_t hold, free;
	} at[] = {
		{"behind the claim that decides, which is open", 1, 0, 1, 0},
		{"behind the second claim", 2, 0, 2, 0},
		{"behind the third claim", 3, 0, 3, 0},
		{"behind the last claim, before it is decided", 4, 0, 4, 0},
		{"behind the decision, with one that has been let go", 0, 1, 4, 1},
		{"with three that have been let go", 0, 3, 4, 3},
	};

	for (size_t i = 0; i < COUNT(at); i++) {
		print_message("%s\n", at[i].where);
		if (i > 0) {
			claims_api_free(api);
			api = claims_api_new();
		}
		put("a", STATUS(""));
		put("b", STATUS(""));
		put("c", STATUS(""));
		put_gang(OF_G, 4);
		api->pool->puts_max = at[i].puts;
		api->places_max = at[i].places;
		claims_api_run(api);
		for (int64_t until = api_now_ms() + SOON;
			(holding() < at[i].hold || let_go('u', 4, 0) < at[i].free) &&
			api_now_ms() < until;)
			api_nap(10);
		assert_int_equal(holding(), at[i].hold);
		assert_int_equal(let_go('u', 4, 300), at[i].free);
		api_lock(api->pool->api);
		api->pool->puts_max = 0;
		api_unlock(api->pool->api);
		api_lock(api->api);
		api->places_max = 0;
		api_unlock(api->api);
		claims_api_next_leader(api);
		assert_int_equal(let_go('u', 4, SOON), 4);
		assert_int_equal(holding(), 4);
		assert_false(status_has(api, "a", "'open'", 0));
		assert_int_equal(api->places, 4);
		assert_int_equal(metric_value(api->pool->metrics, M_ADOPTIONS, 0, 0), 0);
	}
}

/* Whoever is on the first server by name, though another is placed before him. */
TEST(r19_who_decides_is_on_the_first_server)
{
	put("a", STATUS(CLAIM_ON("x1", "x", "bound", "'a'", "gpu-0", WHOLE)));
	put("b", STATUS(""));
	pod_put(api, "x", "x1", NULL);
	pod_put_waiting(api, "g0", "u1", PLAN_GANG("g", "2", "2", "100"), 30);
	pod_put_waiting(api, "g1", "u2", PLAN_GANG("g", "2", "1", "100"), 30);
	api->pool->puts_max = api->pool->puts + 1;
	claims_api_run(api);
	assert_true(status_has(api, "a", "'open':true,'gang':'u2'", SOON));
	assert_false(status_has(api, "b", "'u1'", 0));
	api_lock(api->pool->api);
	api->pool->puts_max = 0;
	api_unlock(api->pool->api);
	assert_int_equal(let_go('u', 2, SOON), 2);
}

/* What it has left does not fit any more: all of it goes, and others have it. */
TEST(r19_taken_back)
{
	put("a", STATUS(OF_GANG("u1", "g0", "gpu-0", "'open':true,") "," OF_GANG(
			 "u2", "g1", "gpu-1", "")));
	put("b", STATUS(CLAIM_ON("x1", "x", "bound", "'b'", "gpu-0", WHOLE)));
	pod_put(api, "x", "x1", NULL);
	put_gang(OF_G, 4);
	pod_put_waiting(api, "w", "w1", PLAN_WAITS("2", "100"), 40);
	claims_api_run(api);
	assert_true(pod_is_let_go(api, "w1", SOON));
	assert_int_equal(holding(), 0);
	assert_int_equal(let_go('u', 4, 500), 0);
}

/* The leader before this one only stood still: it says that its claims are decided just before they
 * are taken back. Then they stay, and who has them is let go. */
TEST(r19_decided_while_it_is_taken_back)
{
	put("a", STATUS(OF_GANG("u1", "g0", "gpu-0", "'open':true,") "," OF_GANG(
			 "u2", "g1", "gpu-1", "")));
	put_gang(OF_TWO, 2);
	api->pool->rival_before = "\"claims\":[{\"uid\":\"u2\"";
	api->pool->rival_on = "a";
	api->pool->rival =
		STATUS(OF_GANG("u1", "g0", "gpu-0", "") "," OF_GANG("u2", "g1", "gpu-1", ""));
	claims_api_run(api);
	assert_int_equal(let_go('u', 2, SOON), 2);
	assert_true(status_has(api, "a", "'take':'00000000000000aa'", 0));
	assert_true(status_has(api, "a", "'uid':'u1'", 0));
	assert_int_equal(metric_value(api->pool->metrics, M_WAIT_SECONDS, 0, 0), 0);
	api_lock(api->pool->api);
	assert_null(api->pool->rival_before);
	api_unlock(api->pool->api);
}

/* The claim that decided has ended with its pod. Where one has been let go it stood once, and the
 * others follow. */
TEST(r19_who_decided_has_ended)
{
	put("a", STATUS(OF_GANG("u2", "g1", "gpu-0", "") "," OF_GANG("u3", "g2", "gpu-1", "")));
	put("b", STATUS(""));
	pod_put(api, "g1", "u2", OF_G);
	pod_put_waiting(api, "g2", "u3", OF_G, 30);
	claims_api_run(api);
	assert_true(pod_is_let_go(api, "u3", SOON));
	assert_true(status_keeps(api, "a", "'u3'", 500));
}

/* One of them is the first of the table. */
TEST(r19_who_decided_has_ended_and_nobody_was_let_go)
{
	const char *first = first_uid(0);
	char status[2000], uid[32];

	(void)snprintf(uid, sizeof(uid), "'%s'", first);
	(void)snprintf(status, sizeof(status),
		STATUS(OF_GANG("u2", "g1", "gpu-0", "") "," OF_GANG("%s", "g2", "gpu-1", "")),
		first);
	put("a", status);
	pod_put_waiting(api, "g1", "u2", OF_G, 30);
	pod_put_waiting(api, "g2", first, OF_G, 30);
	claims_api_run(api);
	assert_true(status_has_not(api, "a", "'u2'", SOON));
	assert_true(status_has_not(api, "a", uid, SOON));
	assert_false(pod_is_let_go(api, first, 300));
}

/* A part of u2's claim that spans two servers, one of which names its gang no more. */
#define OF_TWO_SERVERS(gpu, more)                                                                  \
	CLAIM_WITH("u2", "g1", "bound", "aa", "'a','b'", more, HOLDS(gpu, WHOLE))

/* The leader has settled one part of a claim and died before the other; who decided was deleted.
 * Whoever settles has seen the decision: the claim stands, and nobody waits for it. */
TEST(r19_half_settled_and_who_decided_has_ended)
{
	put("a", STATUS(OF_TWO_SERVERS("gpu-0", "")));
	put("b", STATUS(OF_TWO_SERVERS("gpu-0", "'gang':'u1',")));
	pod_put_waiting(api, "g1", "u2", PLAN_GANG("g", "2", "2", "100"), 30);
	pod_put_waiting(api, "w", "w1", PLAN_WAITS("1", "100"), 40);
	claims_api_run(api);
	assert_true(pod_is_let_go(api, "w1", SOON));
	assert_true(pod_is_let_go(api, "u2", SOON));
	assert_false(status_has(api, "b", "'gang'", 0));
	assert_true(status_has(api, "a", OF_TWO_SERVERS("gpu-0", ""), 0));
}

/* A part of a claim that cannot be taken back, since its server cannot be read: whose it is waits,
 * and so does his gang, and nobody else. It is tried again as often as what nobody answers. */
TEST(r19_a_part_that_nobody_can_take_back)
{
	size_t asked;

	put("a", STATUS(""));
	put("b", STATUS(""));
	put("c", STATUS(""));
	/* as long as nobody says that its pod is not there it stands */
	pods_get_status(api, 500);
	claims_api_run(api);
	status_put(api, "b", STATUS(CLAIM_ON("u2", "g1", "bound", "'b','c'", "gpu-0", WHOLE)));
	status_put(api, "b", "{'version':1,'gpus':[],'claims':7}");
	put_gang(OF_TWO, 2);
	pod_put_waiting(api, "w", "w1", PLAN_WAITS("1", "100"), 40);
	pods_get_status(api, 0);
	assert_true(pod_is_let_go(api, "w1", SOON));
	assert_int_equal(let_go('u', 2, 300), 0);
	asked = claims_api_asked(api);
	api_nap(10000);
	asked = claims_api_asked(api) - asked;
	assert_in_range(asked, 5, 15);
	status_put(api, "b", STATUS(""));
	assert_int_equal(let_go('u', 2, SOON), 2);
}

#define OF_NEXT(uid, name, server, gpu, gang, more)                                                \
	CLAIM_WITH(uid, name, "bound", "bb", "'" server "'", more "'gang':'" gang "',",            \
		HOLDS(gpu, WHOLE))

/* One leader takes back what another one has begun, and gives the gang other claims, of which
 * another one decides; then the first, which stood still, writes one more. Whose claim decided then
 * decides nothing now: that one is no reason to let anybody go. */
TEST(r19_who_decided_follows_another)
{
	put("a", STATUS(OF_NEXT("u1", "g0", "a", "gpu-0", "u2", "") "," OF_NEXT(
			 "u2", "g1", "a", "gpu-1", "u2", "'open':true,")));
	put("b", STATUS(OF_NEXT("u3", "g2", "b", "gpu-0", "u1", "") "," CLAIM_ON(
			 "x1", "x", "bound", "'b'", "gpu-1", WHOLE)));
	pod_put(api, "x", "x1", NULL);
	put_gang(OF_G, 4);
	claims_api_run(api);
	assert_int_equal(let_go('u', 4, 500), 0);
	assert_true(status_has_not(api, "b", "'u3'", SOON));
	assert_true(status_has_not(api, "a", "'u2'", SOON));
	assert_true(status_has_not(api, "a", "'u1'", SOON));
}

/* A leader that stood still has written a part of what is taken back by now, beside the claim that
 * the next has decided: that part goes, and the claim stays. */
TEST(r19_a_stale_part_beside_a_claim_that_is_decided)
{
	put("a", STATUS(OF_GANG("u1", "g0", "gpu-0", "") "," OF_GANG("u2", "g1", "gpu-1", "")));
	put("b", STATUS(OF_NEXT("u2", "g1", "b", "gpu-0", "u9", "")));
	put_gang(OF_TWO, 2);
	claims_api_run(api);
	assert_int_equal(let_go('u', 2, SOON), 2);
	assert_false(status_has(api, "b", "'u2'", 0));
	assert_true(status_has(api, "a",
		"'uid':'u2','namespace':'n','name':'g1','state':'bound','plan':'0000000000000000',"
		"'since':'2026-11-21T09:30:00Z','take':'00000000000000aa'",
		0));
}

#define DECIDED(uid, name, gpu) OF_NEXT(uid, name, "b", gpu, "u1", "")
#define STANDS_ON_B(uid, name)                                                                     \
	"'uid':'" uid "','namespace':'n','name':'" name                                            \
	"','state':'bound','plan':'0000000000000000','since':'2026-11-21T09:30:00Z','take':"       \
	"'00000000000000bb','servers':['b']"

/* The same where it stands on a server that comes first, and names a gang as the claim does. */
TEST(r19_a_stale_part_before_a_claim_that_is_decided)
{
	put("a", STATUS(OF_NEXT("u2", "g1", "a", "gpu-0", "u9", "")));
	put("b", STATUS(DECIDED("u1", "g0", "gpu-0") "," DECIDED("u2", "g1", "gpu-1")));
	put_gang(OF_TWO, 2);
	claims_api_run(api);
	assert_int_equal(let_go('u', 2, SOON), 2);
	assert_true(status_has(api, "b", STANDS_ON_B("u2", "g1"), 0));
	assert_false(status_has(api, "a", "'u2'", 0));
}

/* Before a leader that stood still settles a claim, the next one has begun another in its place:
 * that stands by itself when it is decided, not for what the first has seen. */
TEST(r19_what_another_has_begun_is_not_settled)
{
	put("a", STATUS(OF_GANG("u1", "g0", "gpu-0", "") "," CLAIM_ON(
			 "x1", "x", "bound", "'a'", "gpu-1", WHOLE)));
	put("b", STATUS(OF_NEXT("u2", "g1", "b", "gpu-0", "u1", "") "," CLAIM_ON(
			 "x2", "y", "bound", "'b'", "gpu-1", WHOLE)));
	pod_put(api, "x", "x1", NULL);
	pod_put(api, "y", "x2", NULL);
	put_gang(PLAN_GANG("g", "2", "2", "100"), 2);
	api->pool->rival_on = "b";
	api->pool->rival = STATUS(OF_NEXT("u2", "g1", "b", "gpu-0", "u9", "") "," CLAIM_ON(
		"x2", "y", "bound", "'b'", "gpu-1", WHOLE));
	api->pool->rival_before = "\"u2\"";
	claims_api_run(api);
	assert_true(status_has_not(api, "b", "'u2'", SOON));
	assert_false(pod_is_let_go(api, "u2", 300));
}

/* Of the claim that would decide the first part is taken back, and the leader died before the
 * other: it decides nothing, and nobody is let go without the member whose it is. */
TEST(r19_half_taken_back_decides_nothing)
{
	put("a", STATUS(CLAIM_ON("x1", "x", "bound", "'a'", "gpu-0", WHOLE) "," CLAIM_ON(
			 "x2", "y", "bound", "'a'", "gpu-1", WHOLE)));
	put("b", STATUS(CLAIM_WITH("u1", "g0", "bound", "bb", "'a','b'", "'gang':'u1',",
			 HOLDS("gpu-0", WHOLE)) "," CLAIM_ON("x3", "z", "bound", "'b'", "gpu-1",
			 WHOLE)));
	put("c", STATUS(OF_NEXT("u2", "g1", "c", "gpu-0", "u1", "")));
	pod_put(api, "x", "x1", NULL);
	pod_put(api, "y", "x2", NULL);
	pod_put(api, "z", "x3", NULL);
	put_gang(PLAN_GANG("g", "2", "2", "100"), 2);
	claims_api_run(api);
	assert_int_equal(let_go('u', 2, 500), 0);
	assert_true(status_has_not(api, "b", "'u1'", SOON));
	assert_true(status_has_not(api, "c", "'u2'", SOON));
}

/* And where it is of the member whose claim decides: that has decided all the same. */
TEST(r19_a_stale_part_of_who_decides)
{
	put("b", STATUS(DECIDED("u1", "g0", "gpu-0") "," DECIDED("u2", "g1", "gpu-1")));
	put("c", STATUS(OF_NEXT("u1", "g0", "c", "gpu-0", "u9", "")));
	put_gang(OF_TWO, 2);
	claims_api_run(api);
	assert_int_equal(let_go('u', 2, SOON), 2);
	assert_true(status_has(api, "b", STANDS_ON_B("u1", "g0"), 0));
	assert_true(status_has(api, "b", STANDS_ON_B("u2", "g1"), 0));
	assert_false(status_has(api, "c", "'u1'", 0));
}

/* And where that is settled: then what names a gang beside it is stale, were it what would decide
 * for it. */
TEST(r19_a_stale_part_of_who_decided_and_is_settled)
{
	static const struct {
		const char *what, *part;
	} stale[] = {
		{"a part of two, of which another leader has taken back the first",
			CLAIM_WITH("u1", "g0", "bound", "bb", "'a','b'", "'gang':'u1',",
				HOLDS("gpu-0", WHOLE))},
		{"one that would decide, and is open",
			OF_NEXT("u1", "g0", "b", "gpu-0", "u1", "'open':true,")},
	};
	char status[2000];

	for (size_t i = 0; i < COUNT(stale); i++) {
		print_message("%s\n", stale[i].what);
		if (i > 0) {
			claims_api_free(api);
			api = claims_api_new();
		}
		put("a", STATUS(CLAIM_ON("u1", "g0", "bound", "'a'", "gpu-0", WHOLE) "," CLAIM_ON(
				 "u2", "g1", "bound", "'a'", "gpu-1", WHOLE)));
		(void)snprintf(status, sizeof(status), STATUS("%s"), stale[i].part);
		put("b", status);
		put_gang(OF_TWO, 2);
		claims_api_run(api);
		assert_int_equal(let_go('u', 2, SOON), 2);
		assert_false(status_has(api, "b", "'u1'", 0));
		assert_true(status_has(api, "a", "'u1'", 0));
	}
}

/* Its leader has died when it had settled the first part of it: the second is settled, too, whoever
 * follows it yet. */
TEST(r19_half_settled_and_one_more_follows)
{
	put("a", STATUS(CLAIM_WITH(
			 "u1", "g0", "bound", "aa", "'a','b'", "", HOLDS("gpu-0", WHOLE))));
	put("b", STATUS(CLAIM_WITH("u1", "g0", "bound", "aa", "'a','b'", "'gang':'u1',",
			 HOLDS("gpu-0", WHOLE))));
	put("c", STATUS(OF_NEXT("u2", "g1", "c", "gpu-0", "u1", "")));
	put_gang(PLAN_GANG("g", "2", "2", "100"), 2);
	claims_api_run(api);
	assert_int_equal(let_go('u', 2, SOON), 2);
	assert_false(status_has(api, "b", "'gang'", 0));
	assert_true(status_has(api, "c", "'u2'", 0));
}

/* And where it names a member who is settled by now, and so decides nothing, while others follow
 * what it stands beside: that is the claim that stays, wherever the part is. */
TEST(r19_a_stale_part_of_who_decides_for_others_yet)
{
	put("a", STATUS(OF_NEXT("u1", "g0", "a", "gpu-0", "u2", "") "," CLAIM_ON(
			 "u2", "g1", "bound", "'a'", "gpu-1", WHOLE)));
	put("b", STATUS(DECIDED("u1", "g0", "gpu-0") "," DECIDED("u3", "g2", "gpu-1")));
	/* for which it is not settled yet */
	put("c", STATUS(OF_NEXT("u3", "g2", "c", "gpu-0", "u9", "") "," CLAIM_ON(
			 "x1", "x", "bound", "'c'", "gpu-1", WHOLE)));
	pod_put(api, "x", "x1", NULL);
	put_gang(PLAN_GANG("g", "3", "1", "100"), 3);
	claims_api_run(api);
	assert_int_equal(let_go('u', 3, SOON), 3);
	assert_true(status_has(api, "b", STANDS_ON_B("u1", "g0"), 0));
	assert_true(status_has(api, "b", STANDS_ON_B("u3", "g2"), 0));
	assert_false(status_has(api, "a", "'u1'", 0));
	assert_false(status_has(api, "c", "'u3'", 0));
}

/* And beside the claim of a pod that runs. */
TEST(r19_a_stale_part_of_who_runs)
{
	put("a", STATUS(OF_NEXT("u2", "g1", "a", "gpu-0", "u9", "")));
	put("b", STATUS("{" STANDS_ON_B("u2", "g1") ",'gpus':[{'id':'gpu-1','bytes':" WHOLE "}]}"));
	pod_put(api, "g1", "u2", OF_TWO);
	claims_api_run(api);
	assert_true(status_has_not(api, "a", "'u2'", SOON));
	assert_true(status_has(api, "b", STANDS_ON_B("u2", "g1"), 0));
}

/* A member that is made anew goes before an older pod; one that asks more than its gang did goes
 * behind it. */
TEST(w11_who_is_missing_joins_first)
{
	/* the pool had none as large when it began */
	put("b", "{'version':1,'gpus':[{'id':'gpu-0','model':'V100','memory':16001048576,'fit':"
		 "false,'reason':'x'}],'claims':[]}");
	put("a", STATUS(SEAT("u1", "g0", "gpu-0") "," CLAIM_ON(
			 "x1", "x", "bound", "'a'", "gpu-1", WHOLE)));
	pod_put(api, "g0", "u1", OF_TWO);
	pod_put(api, "x", "x1", NULL);
	pod_put_waiting(api, "old", "w1", PLAN_WAITS("1", "100"), 10);
	pod_put_waiting(api, "more", "u9", PLAN_GANG("g", "2", "2", "100"), 9);
	pod_put_waiting(api, "g1", "u2", OF_TWO, 30);
	claims_api_run(api);
	assert_false(pod_is_let_go(api, "u2", 500));
	pod_gone(api, "x1");
	assert_true(pod_is_let_go(api, "u2", SOON));
	assert_true(status_has(api, "a",
		"'gangBytes':32000000000,'gangLike':16000000000,'gangAsks':16000000000,'gpus':[{'"
		"id':'gpu-1'",
		0));
	assert_false(pod_is_let_go(api, "w1", 300));
	pod_phase(api, "u2", "Failed");
	assert_true(pod_is_let_go(api, "w1", SOON));
}

/* One that is being deleted lives on, and has its claim: nobody is missing before it is gone. */
TEST(w11_who_is_being_deleted_is_not_missing)
{
	put("a", STATUS(SEAT("u1", "g0", "gpu-0") "," SEAT("u2", "g1", "gpu-1")));
	pod_put(api, "g0", "u1", OF_TWO);
	pod_put(api, "g1", "u2", OF_TWO);
	pod_delete(api, "u2", 3600);
	pod_put_waiting(api, "old", "w1", PLAN_WAITS("1", "100"), 10);
	pod_put_waiting(api, "g2", "u3", OF_TWO, 30);
	claims_api_run(api);
	assert_true(pod_is_told(api, "u3", "it is number 2 of 2 that wait", SOON));
	pod_gone(api, "u2");
	assert_true(pod_is_let_go(api, "u3", SOON));
	assert_false(pod_is_let_go(api, "w1", 0));
}

/* Who is deleted by force is gone at once, and his claim lingers: that is his seat, for the next
 * leader, too. */
TEST(w11_who_is_gone_by_force_has_his_seat)
{
	api->cfg.grace_ms = 3600000;
	put("a", STATUS(""));
	put_gang(OF_TWO, 2);
	claims_api_run(api);
	assert_int_equal(let_go('u', 2, SOON), 2);
	assert_true(status_has(api, "a",
		"'gangSize':2,'gangBytes':32000000000,'gangLike':16000000000,'gangAsks':"
		"16000000000",
		0));
	pod_place(api, "u2");
	pod_gone(api, "u2");
	assert_true(status_has(api, "a", "'lingers'", SOON));
	pod_put_waiting(api, "old", "w1", PLAN_WAITS("1", "100"), 10);
	pod_put_waiting(api, "g2", "u3", OF_TWO, 30);
	assert_true(pod_is_told(api, "u3", "it is number 2 of 2 that wait", SOON));
	claims_api_next_leader(api);
	pod_put_waiting(api, "g3", "u4", OF_TWO, 31);
	assert_true(pod_is_told(api, "u4", "it is number 3 of 3 that wait", SOON));
	assert_true(status_has(api, "a", "'u2'", 0));
}

/* Both are the first of the table. */
TEST(r19_the_first_of_the_table)
{
	const char *one = first_uid(0), *other = first_uid(1);

	api->cfg.grace_ms = 3600000;
	put("a", STATUS(""));
	pod_put_waiting(api, "g0", one, OF_TWO, 30);
	pod_put_waiting(api, "g1", other, OF_TWO, 30);
	claims_api_run(api);
	assert_true(pod_is_let_go(api, one, SOON) && pod_is_let_go(api, other, SOON));
	assert_false(status_has(api, "a", "'gang':", 0));
	pod_place(api, other);
	pod_gone(api, other);
	assert_true(status_has(api, "a", "'lingers'", SOON));
	pod_put_waiting(api, "old", "w1", PLAN_WAITS("1", "100"), 10);
	pod_put_waiting(api, "g2", "u3", OF_TWO, 30);
	assert_true(pod_is_told(api, "u3", "it is number 2 of 2 that wait", SOON));
}

/* What he holds is less than he asked, as GPUs are counted of which the largest is larger. */
TEST(w11_who_is_gone_by_force_counts_as_he_asked)
{
	api->cfg.grace_ms = 3600000;
	put("a", STATUS(OF_LARGER("u1", "g0", "gpu-0") "," OF_LARGER("u2", "g1", "gpu-1")));
	put("b", STATUS(CLAIM_ON("x1", "x", "bound", "'b'", "gpu-0", WHOLE)));
	pod_put(api, "x", "x1", NULL);
	pod_put(api, "g0", "u1", PLAN_GANG("g", "4", "1", "100"));
	pod_put_waiting(api, "old", "w1", PLAN_WAITS("2", "100"), 10);
	pod_put_waiting(api, "g2", "u3", PLAN_GANG("g", "4", "4", "60"), 30);
	claims_api_run(api);
	assert_true(pod_is_told(api, "u3", "it is number 2 of 2 that wait", SOON));
	assert_true(status_has(api, "a", "'u2'", 0));
}

/* A small member that is gone leaves no room for a large one; a large one that is gone does, beside
 * a small one. */
TEST(w11_no_more_than_it_began_with)
{
	put("a", STATUS(CLAIM_ON("x1", "x", "bound", "'a'", "gpu-1", "15840000000")));
	pod_put(api, "x", "x1", NULL);
	pod_put_waiting(api, "g0", "u1", OF_TWO, 30);
	pod_put_waiting(api, "g1", "u2", PLAN_GANG("g", "2", "1", "1"), 30);
	claims_api_run(api);
	assert_int_equal(let_go('u', 2, SOON), 2);
	pod_gone(api, "u2");
	pod_put_waiting(api, "old", "w1", PLAN_WAITS("1", "100"), 10);
	pod_put_waiting(api, "g2", "u3", OF_TWO, 31);
	assert_true(pod_is_told(api, "u3", "it is number 2 of 2 that wait", SOON));
	pod_put_waiting(api, "g3", "u4", PLAN_GANG("g", "2", "1", "1"), 40);
	assert_true(pod_is_let_go(api, "u4", SOON));
	pod_gone(api, "u1");
	assert_true(pod_is_let_go(api, "u3", SOON));
	assert_false(pod_is_let_go(api, "w1", 0));
}

/* Of GPUs as large as any may be it asks more than a reader takes for a number. */
TEST(w11_no_more_than_can_be_read)
{
	put("a", "{'version':1,'gpus':[{'id':'gpu-0','model':'V100','memory':1125899906842624,"
		 "'fit':true}],'claims':[]}");
	for (char name[] = "b"; *name <= 'e'; (*name)++)
		put(name, STATUS(""));
	for (char i = '1'; i <= '9'; i++)
		pod_put_waiting(api, (char[]){'g', i, 0}, (char[]){'u', i, 0},
			PLAN_GANG("g", "9", "1", "100"), 30);
	claims_api_run(api);
	assert_int_equal(let_go('u', 9, SOON), 9);
	assert_true(status_has(api, "b", "'gangBytes':9007199254740992,", 0));
}

/* Of which none lives any more: nobody is missing in it. */
TEST(w11_a_gang_that_has_ended_has_no_seats)
{
	put("a", STATUS(CLAIM_ON("x1", "x", "bound", "'a'", "gpu-0", WHOLE) "," CLAIM_ON(
			 "x2", "y", "bound", "'a'", "gpu-1", WHOLE)));
	pod_put(api, "x", "x1", NULL);
	pod_put(api, "y", "x2", NULL);
	pod_put(api, "g0", "u1", OF_TWO);
	pod_owner(api, "u1", BY_JOB("two", "o1"));
	pod_phase(api, "u1", "Succeeded");
	pod_put_waiting(api, "old", "w1", PLAN_WAITS("1", "100"), 10);
	pod_put_owned(api, "g1", "u2", OF_TWO, 30, BY_JOB("two", "o1"));
	claims_api_run(api);
	assert_true(pod_is_told(api, "u2", "it is number 2 of 2 that wait", SOON));
}

/* Who forges the size belongs to no gang that runs, and holds nobody of it up but those who have
 * not begun. */
TEST(w11_another_size)
{
	put("a", STATUS(CLAIM_ON("u1", "g0", "bound", "'a'", "gpu-0", "8000000000")));
	pod_put(api, "g0", "u1", PLAN_GANG("g", "1", "1", "50"));
	pod_put_waiting(api, "forged", "u2", PLAN_GANG("g", "4", "1", "50"), 9);
	pod_put_waiting(api, "later", "w1", PLAN_WAITS("1", "50"), 30);
	claims_api_run(api);
	assert_true(pod_is_let_go(api, "w1", SOON));
	assert_true(pod_is_told(api, "u2", "its gang has 1 of 4 members", SOON));
	assert_false(pod_is_let_go(api, "u2", 0));
}

#define JOB(uid, parallelism)                                                                      \
	"{\"metadata\":{\"name\":\"j\",\"uid\":\"" uid                                             \
	"\"},\"spec\":{\"parallelism\":" parallelism "}}"
#define PLAN_JOB                                                                                   \
	"{'v':1,'profile':'p','hash':'0123456789abcdef','mode':'full','waits':true,'gang':'g',"    \
	"'containers':[{'name':'a','kind':'app','amount':1,'percent':100,'units':100,'command':"   \
	"'wrapped','argv':7}]}"

static void put_of_job(const char *name, const char *uid, const char *owner)
{
	pod_put_owned(api, name, uid, PLAN_JOB, 30, owner);
}

/* A claim of which only a half was found is made anew, and says what that said of its gang. */
TEST(w11_an_adopted_claim_says_how_many_began)
{
	put("a", STATUS(CLAIM_WITH("u1", "g0", "bound", "aa", "'a','b'", "'gangSize':2,",
			 HOLDS("gpu-0", WHOLE))));
	put("b", STATUS(""));
	pod_put(api, "g0", "u1", PLAN_JOB);
	claims_api_run(api);
	assert_true(status_has(api, "a", "'state':'adopted'", SOON));
	assert_true(status_has(api, "a", "'gangKey':", 0));
	assert_true(status_has(api, "a", "'gangSize':2", 0));
}

/* One of which nothing was found says which gang its pod is of: so much his plan says. */
TEST(w11_an_adopted_claim_says_of_which_gang)
{
	put("a", STATUS(""));
	pod_put(api, "g0", "u1", OF_G);
	claims_api_run(api);
	assert_true(status_has(api, "a", "'state':'adopted'", SOON));
	assert_true(status_has(api, "a", "'gangKey':" KEY_OF_G ",", 0));
}

/* As many as the Job says that made them, and as it says later; nobody by the word of one that is
 * another's, gone or away. Who comes later goes singly, whatever his Job says by then. */
TEST(w11_as_many_as_the_job_says)
{
	put("a", STATUS(""));
	put("b", STATUS(""));
	api->job[0].name = "three";
	api->job[0].text = JOB("o1", "3");
	api->job[1].name = "other";
	api->job[1].text = JOB("o9", "1");
	put_of_job("g0", "u1", BY_JOB("three", "o1"));
	put_of_job("g1", "u2", BY_JOB("three", "o1"));
	put_of_job("h0", "v1", BY_JOB("other", "o2"));
	put_of_job("i0", "w1", BY_JOB("gone", "o3"));
	put_of_job("k0", "x1", "{\"kind\":\"Job\",\"name\":\"three\",\"uid\":\"o1\"}");
	claims_api_run(api);
	assert_true(pod_is_told(api, "u1", "its gang has 2 of 3 members", SOON));
	assert_true(pod_is_told(api, "v1", "which could not be read", SOON));
	assert_true(pod_is_told(api, "w1", "which could not be read", SOON));
	assert_true(pod_is_told(api, "x1", "which could not be read", SOON));
	assert_int_equal(let_go('u', 2, 0), 0);
	put_of_job("g2", "u3", BY_JOB("three", "o1"));
	assert_int_equal(let_go('u', 3, SOON), 3);
	pod_gone(api, "u2");
	put_of_job("g3", "u4", BY_JOB("three", "o1"));
	assert_true(pod_is_let_go(api, "u4", SOON));
	assert_false(pod_is_let_go(api, "v1", 0));
	assert_false(pod_is_let_go(api, "w1", 0));
	assert_false(pod_is_let_go(api, "x1", 0));
}

/* Who takes the place of one that began goes before an older pod, also with the next leader; who
 * comes to a Job that has been enlarged since goes behind it, as many as he may be. */
TEST(w11_a_job_that_grows)
{
	put("a", STATUS(""));
	api->job[0].name = "two";
	api->job[0].text = JOB("o1", "2");
	put_of_job("g0", "u1", BY_JOB("two", "o1"));
	put_of_job("g1", "u2", BY_JOB("two", "o1"));
	claims_api_run(api);
	assert_int_equal(let_go('u', 2, SOON), 2);
	assert_true(status_has(api, "a", "'gangSize':2", 0));
	assert_false(status_has(api, "a", "'gang':", 0));
	api_lock(api->api);
	api->job[0].text = JOB("o1", "9");
	api_unlock(api->api);
	pod_put_waiting(api, "old", "w1", PLAN_WAITS("1", "100"), 10);
	put_of_job("g2", "u3", BY_JOB("two", "o1"));
	assert_true(pod_is_told(api, "u3", "it is number 2 of 2 that wait", SOON));
	claims_api_next_leader(api);
	pod_phase(api, "u1", "Failed");
	/* the first of those who wait of the gang has the seat, whoever he is; the other none */
	put_of_job("g3", "u4", BY_JOB("two", "o1"));
	assert_true(pod_is_let_go(api, "u3", SOON));
	assert_false(pod_is_let_go(api, "w1", 300));
	pod_phase(api, "u2", "Failed");
	assert_true(pod_is_let_go(api, "u4", SOON));
	put_of_job("g4", "u5", BY_JOB("two", "o1"));
	assert_true(pod_is_told(api, "u5", "it is number 2 of 2 that wait", SOON));
	assert_false(pod_is_let_go(api, "w1", 0));
}

/* By a Job of that namespace, whatever uid the pods of others name. */
TEST(w11_a_job_of_its_own_namespace)
{
	put("a", STATUS(""));
	api->job[0].name = "three";
	api->job[0].text = JOB("o1", "3");
	put_of_job("h0", "v1", BY_JOB("three", "o1"));
	pod_namespace(api, "v1", 'm');
	put_of_job("g0", "u1", BY_JOB("three", "o1"));
	claims_api_run(api);
	assert_true(pod_is_told(api, "u1", "its gang has 1 of 3 members", SOON));
	assert_true(pod_is_told(api, "v1", "which could not be read", SOON));
}

TEST(w9_a_gang_says_why)
{
	put("a", STATUS(""));
	put_gang(OF_G, 4);
	pod_put_waiting(api, "h0", "v1", PLAN_GANG("h", "2", "1", "50"), 31);
	pod_put_waiting(api, "i0", "w1", PLAN_GANG("i", "2", "1", "50"), 31);
	pod_put_waiting(api, "i1", "w2", PLAN_GANG("i", "3", "1", "50"), 31);
	claims_api_run(api);
	assert_true(pod_is_told(api, "v1", "its gang has 1 of 2 members", SOON));
	assert_true(pod_is_told(api, "v1", "'reason':'GangIncomplete'", 0));
	assert_true(pod_is_told(api, "w1", "must all name the same size", SOON));
	assert_true(
		pod_is_told(api, "u1", "the pool would not hold all 4 members of its gang", SOON));
	assert_int_equal(holding(), 0);
}

TESTS_BETWEEN(set_up, claims_api_end, r19_nobody_is_torn, r19_decided_while_it_is_taken_back,
	r19_a_leader_dies, r19_who_decides_is_on_the_first_server, r19_taken_back,
	r19_who_decided_has_ended, r19_who_decided_has_ended_and_nobody_was_let_go,
	r19_half_settled_and_who_decided_has_ended, r19_a_part_that_nobody_can_take_back,
	r19_who_decided_follows_another, r19_a_stale_part_beside_a_claim_that_is_decided,
	r19_a_stale_part_before_a_claim_that_is_decided, r19_what_another_has_begun_is_not_settled,
	r19_half_taken_back_decides_nothing, r19_a_stale_part_of_who_decides,
	r19_a_stale_part_of_who_decides_for_others_yet,
	r19_a_stale_part_of_who_decided_and_is_settled, r19_half_settled_and_one_more_follows,
	r19_a_stale_part_of_who_runs, w11_who_is_missing_joins_first,
	w11_who_is_being_deleted_is_not_missing, w11_who_is_gone_by_force_has_his_seat,
	r19_the_first_of_the_table, w11_who_is_gone_by_force_counts_as_he_asked,
	w11_no_more_than_it_began_with, w11_no_more_than_can_be_read,
	w11_a_gang_that_has_ended_has_no_seats, w11_another_size,
	w11_an_adopted_claim_says_how_many_began, w11_an_adopted_claim_says_of_which_gang,
	w11_as_many_as_the_job_says, w11_a_job_that_grows, w11_a_job_of_its_own_namespace,
	w9_a_gang_says_why)

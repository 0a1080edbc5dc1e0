/* SPDX-License-Identifier: Apache-2.0 */
/* test: the keeper of servers: GPUs of hand-listed ones, conditions, the finalizer (ledger rules
 * R7, R9, R10, R16). */
#include <stdatomic.h>

#include "base/clock.h"
#include "test/unit/pool_api.h"
#include "test/unit/test.h"
#include "webhook/cluster/reconcile/server_keeper.h"

#define LISTED "{'address':'10.0.0.1:56001','gpus':[{'model':'V100','memory':'16G','count':2}]}"
#define ONE "{'address':'10.0.0.1:56001','gpus':[{'model':'V100','memory':'16G'}]}"
#define PROBED "{'address':'10.0.0.1:56001','probe':{'url':'https://10.0.0.1:9443'}}"
#define OURS "['poolgate.io/claims']"
#define GPU(id) "{'id':'" id "','model':'V100','memory':16000000000,'fit':true}"
#define CLAIM(gpu)                                                                                 \
	"{'uid':'p','namespace':'n','name':'w','state':'bound','plan':'00000000000000aa',"         \
	"'since':'2026-11-21T09:30:00Z','take':'0000000000000001','servers':['a'],"                \
	"'gpus':[{'id':'" gpu "','bytes':50}]}"
#define HELD                                                                                       \
	"{'version':1,'gpus':[" GPU("gpu-0") "," GPU("gpu-1") "],'claims':[" CLAIM("gpu-1") "]}"
#define FREE "{'version':1,'gpus':[" GPU("gpu-0") "," GPU("gpu-1") "],'claims':[]}"

static struct pool_api *pool;
static struct server_keeper_config cfg;
static atomic_bool adoption_done;
static atomic_int_least64_t asked_since;

static bool adopted(void *ctx, int64_t since_ms)
{
	(void)ctx;
	assert_true(since_ms > 0);
	atomic_store(&asked_since, since_ms);
	return atomic_load(&adoption_done);
}

FIXTURE(set_up)
{
	pool = pool_api_new();
	atomic_store(&adoption_done, true);
	atomic_store(&asked_since, 0);
	cfg = (struct server_keeper_config){.kube = pool->kube,
		.servers = pool->servers,
		.log = &pool->log,
		.adopted = adopted};
	return 0;
}

FIXTURE(tear_down)
{
	pool_api_free(pool);
	return 0;
}

TEST(fills_in_a_new_server)
{
	pool_api_put(pool, "a", "[]", LISTED, "{}");
	pool_api_run(pool, server_keeper_duty(&cfg));
	assert_true(pool_api_has_finalizers(pool, "a", OURS, 5000));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
	assert_true(pool_api_shows(pool, "a", "'gpu-1'", 0));
	assert_true(pool_api_shows(pool, "a", "'observedGeneration':1", 0));
}

/* One that comes later, too; and nothing is written when nothing is to be said. */
TEST(writes_on_change_alone)
{
	unsigned puts;

	pool_api_run(pool, server_keeper_duty(&cfg));
	pool_api_put(pool, "a", OURS, LISTED, "{}");
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
	api_nap(600);
	puts = pool->puts;
	assert_int_equal(puts, 1);
	pool_api_spec(pool, "a",
		"{'address':'10.0.0.1:56001','drain':true,'gpus':[{'model':'V100','memory':'16G'}]"
		"}");
	assert_true(pool_api_shows(pool, "a", "'reason':'Draining'", 5000));
	assert_int_equal(pool->patches, 0);
}

/* R7: it holds its running pods' claims before it takes new ones. */
TEST(waits_for_adoption)
{
	atomic_store(&adoption_done, false);
	pool_api_put(pool, "a", "['other']", LISTED, "{}");
	pool_api_run(pool, server_keeper_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'LooksForClaims'", 5000));
	api_nap(1500);
	assert_int_equal(pool->patches, 0);
	atomic_store(&adoption_done, true);
	/* somebody else's finalizer stays */
	assert_true(pool_api_has_finalizers(pool, "a", "['other','poolgate.io/claims']", 5000));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
}

/* However many others there are, wherever ours stands: they stay, in their order. */
TEST(others_finalizers_stay)
{
	pool_api_put(pool, "a", "['x','y']", LISTED, "{}");
	pool_api_put(pool, "b", "['x','poolgate.io/claims','y']", LISTED, FREE);
	pool_api_put(pool, "c", "['poolgate.io/claims','x','y']", LISTED, FREE);
	pool_api_run(pool, server_keeper_duty(&cfg));
	assert_true(pool_api_has_finalizers(pool, "a", "['x','y','poolgate.io/claims']", 5000));
	for (size_t i = 0; i < 3; i++) {
		const char *name = (const char *[]){"a", "b", "c"}[i];

		pool_api_delete(pool, name);
		assert_true(pool_api_has_finalizers(pool, name, "['x','y']", 5000));
	}
	/* it waits for them alone: nothing more is to be done */
	api_nap(1500);
	assert_int_equal(pool->patches, 4);
}

#define FAILURE(code, reason)                                                                      \
	"{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"" reason                         \
	"\",\"message\":\"no\","                                                                   \
	"\"code\":" #code "}"

static void refuse_patch(const char *name, int status, const char *body)
{
	char path[100];

	(void)snprintf(path, sizeof(path), SERVERS_PATH "/%s", name);
	api_expect(pool->api, "PATCH", path, status, body);
}

/* Once, until it can be written; not where somebody changed or deleted the server meanwhile. */
TEST(what_cannot_be_written_is_told)
{
	pool_api_log(pool);
	pool_api_put(pool, "a", "[]", LISTED, "{}");
	refuse_patch("a", 409, FAILURE(409, "Conflict"));
	refuse_patch("a", 404, FAILURE(404, "NotFound"));
	pool_api_run(pool, server_keeper_duty(&cfg));
	assert_true(pool_api_has_finalizers(pool, "a", OURS, 9000));
	assert_int_equal(pool_api_logged(pool, "cannot be kept true"), 0);
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "c" : "b";

		refuse_patch(name, 403, FAILURE(403, "Forbidden"));
		refuse_patch(name, 500, FAILURE(500, "InternalError"));
		pool_api_put(pool, name, "[]", LISTED, "{}");
		assert_true(pool_api_has_finalizers(pool, name, OURS, 9000));
		/* a look without trouble */
		api_nap(1500);
		assert_int_equal(pool_api_logged(pool, "cannot be kept true"), i + 1);
		assert_int_equal(pool_api_logged(pool, "takes claims from now on"), i + 2);
	}
	pool_api_delete(pool, "a");
	assert_true(pool_api_gone(pool, "a", 5000));
	assert_int_equal(api_left(pool->api), 0);
}

/* R7: while it has no GPUs nobody can be given a claim on it, so rounds of adoption that ended by
 * then say nothing. */
TEST(waits_for_gpus)
{
	int64_t then;

	pool_api_put(pool, "a", "[]", PROBED, "{}");
	pool_api_run(pool, server_keeper_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'NotFresh'", 5000));
	api_nap(1500);
	assert_int_equal(pool->patches, 0);
	assert_int_equal(atomic_load(&asked_since), 0);
	then = api_now_ms();
	pool_api_status(pool, "a", FREE);
	assert_true(pool_api_has_finalizers(pool, "a", OURS, 5000));
	assert_true(atomic_load(&asked_since) >= then);
}

/* R9: it goes with its last claim. */
TEST(holds_a_server_with_claims)
{
	pool_api_put(pool, "a", OURS, LISTED, HELD);
	pool_api_put(pool, "b", OURS, LISTED, FREE);
	pool_api_run(pool, server_keeper_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
	pool_api_delete(pool, "a");
	pool_api_delete(pool, "b");
	assert_true(pool_api_gone(pool, "b", 5000));
	assert_true(pool_api_shows(pool, "a", "'reason':'Deleting'", 5000));
	api_nap(1500);
	assert_false(pool_api_gone(pool, "a", 0));
}

/* R10: what vanishes from the spec stays while a claim is on it. */
TEST(keeps_claimed_gpus)
{
	pool_api_put(pool, "a", OURS, LISTED, HELD);
	pool_api_put(pool, "b", OURS, LISTED, FREE);
	pool_api_run(pool, server_keeper_duty(&cfg));
	pool_api_spec(pool, "a", ONE);
	pool_api_spec(pool, "b", ONE);
	assert_true(pool_api_shows(pool, "a", "'missing':true", 5000));
	assert_true(pool_api_shows(pool, "b", "'observedGeneration':2", 5000));
	assert_false(pool_api_shows(pool, "b", "'gpu-1'", 0));
}

/* R15: the newer of two with one address says so until the older is gone; who never had one has no
 * such condition. */
TEST(names_its_twin)
{
	pool_api_put(pool, "b", OURS, LISTED, FREE);
	pool_api_put(pool, "a", OURS, LISTED, FREE);
	pool_api_run(pool, server_keeper_duty(&cfg));
	assert_true(pool_api_shows(pool, "b", "'reason':'TakesClaims'", 5000));
	assert_true(pool_api_shows(pool, "a", "'type':'Unique','status':'False'", 5000));
	assert_true(pool_api_shows(
		pool, "a", "'message':'GPUServer b, which came first, has its address'", 0));
	assert_true(pool_api_shows(pool, "a", "'reason':'NotUnique'", 0));
	assert_true(pool_api_shows(pool, "a", "'summary':{'gpus':2,'fit':0,'free':0", 0));
	assert_false(pool_api_shows(pool, "b", "'type':'Unique'", 0));
	pool_api_delete(pool, "b");
	assert_true(pool_api_shows(pool, "a", "'type':'Unique','status':'True'", 5000));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 0));
	assert_true(pool_api_shows(pool, "a", "'summary':{'gpus':2,'fit':2,'free':32000", 0));
}

#define LINGERS(name)                                                                              \
	"{'uid':'u-" name "','namespace':'ml','name':'" name "','state':'bound','lingers':"        \
	"'2026-11-24T03:40:00Z','gpus':[]}"

/* R13: who may still run though nobody shows it, and until when. */
TEST(names_who_lingers)
{
	pool_api_put(pool, "a", OURS, LISTED, FREE);
	pool_api_run(pool, server_keeper_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
	assert_false(pool_api_shows(pool, "a", "Lingering", 0));
	pool_api_status(pool, "a",
		"{'version':1,'claims':[" LINGERS("p1") "," LINGERS("p2") "," LINGERS(
			"p3") "," LINGERS("p4") "," LINGERS("p5") "," LINGERS("p6") "]}");
	assert_true(pool_api_shows(pool, "a", "'type':'Lingering','status':'True'", 5000));
	assert_true(pool_api_shows(pool, "a",
		"'message':'pods that are gone may still run here: ml/p1 until "
		"2026-11-24T03:40:00Z, ml/p2 until 2026-11-24T03:40:00Z, ml/p3 until "
		"2026-11-24T03:40:00Z, ml/p4 until 2026-11-24T03:40:00Z, and 2 more'",
		0));
	pool_api_status(
		pool, "a", "{'version':1,'conditions':[{'type':'Lingering','status':'True'}]}");
	assert_true(pool_api_shows(pool, "a", "'type':'Lingering','status':'False'", 5000));
}

#define WAITS(name)                                                                                \
	"{'uid':'u-" name "','namespace':'ml','name':'" name "','state':'bound','waits':"          \
	"'ImagePullBackOff','gpus':[]}"

/* Who holds GPUs and does not run, and why. */
TEST(names_who_has_not_started)
{
	pool_api_put(pool, "a", OURS, LISTED, FREE);
	pool_api_run(pool, server_keeper_duty(&cfg));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
	assert_false(pool_api_shows(pool, "a", "Unstarted", 0));
	pool_api_status(pool, "a", "{'version':1,'claims':[" WAITS("p1") "]}");
	assert_true(pool_api_shows(pool, "a", "'type':'Unstarted','status':'True'", 5000));
	assert_true(pool_api_shows(pool, "a",
		"'reason':'PodsNotStarted','message':'pods hold GPUs here for long and do not "
		"run: ml/p1 (ImagePullBackOff)'",
		0));
	pool_api_status(
		pool, "a", "{'version':1,'conditions':[{'type':'Unstarted','status':'True'}]}");
	assert_true(pool_api_shows(pool, "a", "'type':'Unstarted','status':'False'", 5000));
	assert_true(pool_api_shows(pool, "a", "'reason':'PodsStarted'", 0));
}

/* A GPUServer made anew under its old name is another one. */
TEST(another_of_the_same_name)
{
	pool_api_put(pool, "a", OURS, LISTED, FREE);
	pool_api_run(pool, server_keeper_duty(&cfg));
	pool_api_delete(pool, "a");
	assert_true(pool_api_gone(pool, "a", 5000));
	pool_api_put(pool, "a", "[]", LISTED, "{}");
	assert_true(pool_api_has_finalizers(pool, "a", OURS, 5000));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
}

/* Once "a" is written etcd is restored to before, and a list shows it, while the keeper is at "b".
 */
static bool restored(void *ctx, int64_t since_ms)
{
	struct pool_api_server *a = &pool->server[0];
	unsigned *first = ctx;
	bool yes;

	(void)since_ms;
	api_lock(pool->api);
	if (*first && a->version != *first) {
		a->version = *first;
		free(a->status);
		a->status = strdup("{}");
		*first = 0;
	}
	yes = *first == 0;
	api_unlock(pool->api);
	return yes && servers_refresh(pool->servers, clock_ms() + 10000, NULL) == 0;
}

/* R16: the version that has been seen to comes again, and is not as it should be. */
TEST(r16_a_restore_takes_back_what_was_written)
{
	static unsigned first; /* the duty's thread outlives a test that fails */

	pool_api_put(pool, "a", OURS, LISTED, "{}");
	pool_api_put(pool, "b", "[]", LISTED, FREE);
	first = pool->server[0].version;
	cfg.adopted = restored;
	cfg.adopted_ctx = &first;
	pool_api_run(pool, server_keeper_duty(&cfg));
	assert_true(pool_api_has_finalizers(pool, "b", OURS, 5000));
	assert_true(pool_api_shows(pool, "a", "'reason':'TakesClaims'", 5000));
}

TESTS_BETWEEN(set_up, tear_down, fills_in_a_new_server, writes_on_change_alone, waits_for_adoption,
	others_finalizers_stay, what_cannot_be_written_is_told, waits_for_gpus,
	holds_a_server_with_claims, keeps_claimed_gpus, names_its_twin, names_who_has_not_started,
	names_who_lingers, another_of_the_same_name, r16_a_restore_takes_back_what_was_written)

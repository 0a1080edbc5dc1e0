/* SPDX-License-Identifier: Apache-2.0 */
/* edge/admission/engine: the n-th allocation fails, for each n, while a review is answered: the
 * right reply, or a 500 that keeps nothing. Linked with --wrap for malloc, calloc and realloc. */
#include "test/unit/admission_fixture.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/pool_fixture.h"
#include "test/unit/test.h"
#include "webhook/core/pool/pool_state.h"
#include "webhook/core/pool/server_kinds.h"
#include "webhook/core/pool/server_words.h"
#include "webhook/edge/admission/engine.h"

#define ON                                                                                         \
	"'annotations':{'auto-management/bitfusion':'\\u0061ll','bitfusion-client/"                \
	"os':'ubuntu\\u00318',"                                                                    \
	"'bitfusion-client/version':'400','bitfusion-client/filter':'a=$b c'"
#define ASKS                                                                                       \
	"{'metadata':{'name':'p','uid':'u1'," ON "}},'spec':{'containers':[{'name':'a','command'"  \
	":['\\u0078 y'],'env':[{'name':'LD_LIBRARY_PATH','value':'/\\\"a'}],'resources':{'limits'" \
	":{'bitfusion.io/gpu-amount':1}}},{'name':'b','command':['x'],'env':[{'name':"             \
	"'LD_LIBRARY_PATH','valueFrom':{}}],'resources':{'limits':{'bitfusion.io/gpu-amount':1,"   \
	"'cpu':1}}}]}}"
#define LUPINE                                                                                     \
	"{'metadata':{'name':'p','uid':'u1'," ON ",'poolgate.io/launcher':'lupine'}},'spec':{"     \
	"'containers':[{'name':'a','resources':{'limits':{'bitfusion.io/gpu-amount':1}}}]}}"
#define OWN                                                                                        \
	"{'metadata':{'name':'p','uid':'u1'," ON "}},'spec':{'containers':[{'name':'a','command':" \
	"['sh','-c','bitfusion run -n 1 x'],'resources':{'limits':{'bitfusion.io/gpu-amount':1}}}" \
	"]}}"
#define REFUSED                                                                                    \
	"{'metadata':{'name':'p','uid':'u1'," ON "}},'spec':{'containers':[{'name':'a','command':" \
	"['sh','-c','bitfusion run -n 2 x'],'resources':{'limits':{'bitfusion.io/gpu-amount':1}}}" \
	"]}}"

/* The handler that is called with allocations failing, which one, and what of those after it. */
static http_handler *handler;
static long first_failure;
static enum oom_extent extent;

static enum http_outcome call(void *ctx, struct http_request *req, struct http_reply *reply)
{
	enum http_outcome outcome;

	oom_begin(first_failure, extent);
	outcome = handler(ctx, req, reply);
	(void)oom_end();
	return outcome;
}

/* Answer the review with each allocation failing in turn; forget what a scratch keeps by a new
 * fixture each time. */
static void each_allocation(const char *review, unsigned want_claims)
{
	char *right = NULL;
	long n, broken = 0;

	for (n = -1;; n++) {
		struct admission_fixture f;

		admission_fixture_init(&f, NULL);
		first_failure = n;
		admission_call(&f, call, review);
		f.request.status = f.reply.status;
		admission_queued(f.admission, &f.request, true);
		admission_done(f.admission, &f.request);
		if (n < 0) {
			assert_int_equal(f.reply.status, 200);
			right = strdup(f.reply.body);
			assert_int_equal(admission_claims(&f), want_claims);
		} else if (f.reply.status == 200) {
			assert_string_equal(f.reply.body, right);
			assert_int_equal(admission_claims(&f), want_claims);
		} else {
			assert_int_equal(f.reply.status, 500);
			assert_int_equal(admission_claims(&f), 0);
			broken++;
		}
		admission_fixture_release(&f);
		if (n >= 0 && !oom_failed())
			break;
	}
	assert_true(broken > 3);
	free(right);
}

static void both(http_handler *h, const char *operation, const char *object, const char *old,
	unsigned want_claims)
{
	char *review = admission_review(operation, object, old, "");

	handler = h;
	extent = OOM_ONE;
	each_allocation(review, want_claims);
	extent = OOM_ALL_AFTER;
	each_allocation(review, want_claims);
	free(review);
}

TEST(test_mutate)
{
	both(admission_mutate, "CREATE", ASKS, "null", 0);
	both(admission_mutate, "CREATE", LUPINE, "null", 0);
	both(admission_mutate, "CREATE", OWN, "null", 0);
	both(admission_mutate, "CREATE", REFUSED, "null", 0);
}

TEST(test_validate)
{
	static const char *const pods[] = {ASKS, LUPINE, OWN};

	for (size_t i = 0; i < 3; i++) {
		struct fixture f;
		char *live;

		fixture_init(&f);
		live = fixture_inject(&f, pods[i]);
		both(admission_validate, "CREATE", live, "null", 1);
		free(live);
		fixture_release(&f);
	}
	both(admission_validate, "CREATE", ASKS, "null", 0);
}

TEST(test_update)
{
	struct fixture f;
	char *live;

	fixture_init(&f);
	live = fixture_inject(&f, ASKS);
	both(admission_mutate, "UPDATE", ASKS, live, 0);
	both(admission_validate, "UPDATE", ASKS, live, 0);
	free(live);
	fixture_release(&f);
}

/* Read for each review, as the cluster's source does. */
static int policy_of_text(void *ctx, const struct config *config, struct slice namespace,
	bool picks, int64_t deadline_ms, struct arena *a, const struct policy **ret,
	struct err *err)
{
	static const char text[] =
		"{\"apiVersion\":\"poolgate.io/v1alpha1\",\"kind\":\"GPUPolicy\",\"metadata\":{"
		"\"name\":\"p\"},\"spec\":{\"inject\":true,\"share\":99,\"defaults\":{\"os\":"
		"\"ubuntu18\",\"version\":\"400\",\"percent\":50},\"accepts\":["
		"\"nvidia.com/gpu\"],\"allow\":{\"servers\":{\"a\":\"b\"},\"models\":[\"x\"],"
		"\"memory\":\"1G\"}}}";
	struct policy *p = arena_alloc(a, sizeof(*p));
	struct json j;
	char *copy;
	int rc;

	(void)ctx, (void)config, (void)namespace, (void)picks, (void)deadline_ms;
	if (!p)
		return err_set(err, ERR_NOMEM, "out of memory");
	json_init(&j);
	rc = json_read_copy(&j, text, sizeof(text) - 1, 1000, &copy, err);
	if (rc == 0)
		rc = policy_read(&j, json_root(&j), a, p, err);
	json_release(&j);
	free(copy);
	*ret = p;
	return rc;
}

static bool any_policy(void *ctx, const struct config *config)
{
	(void)ctx, (void)config;
	return true;
}

TEST(test_policy)
{
	static const char silent[] =
		"{'metadata':{'name':'p','uid':'u1','ownerReferences':[{'controller':true,'kind':"
		"'ReplicaSet','name':'w-1'}],'labels':{'pod-template-hash':'1'}},'spec':{"
		"'containers':[{'name':'a','command':['\\u0078'],'resources':{'limits':{"
		"'bitfusion.io/gpu-amount':1}}}]}}";

	admission_fixture_policies = (struct policies_known){NULL, any_policy, policy_of_text};
	both(admission_mutate, "CREATE", silent, "null", 0);
	both(admission_validate, "CREATE", silent, "null", 0);
	admission_fixture_policies = (struct policies_known){0};
}

/* From files: 0 and the right patch, or ERR_NOMEM. */
TEST(test_engine)
{
	struct fixture f;
	char *pod = fixture_quotes(ASKS), *live;

	fixture_init(&f);
	live = fixture_inject(&f, ASKS);
	for (int undo = 0; undo < 2; undo++) {
		char *right = NULL;

		for (long n = -1;; n++) {
			struct slice text = slice_of(undo ? live : pod);
			struct buf patch, warnings;
			struct err err = {0};
			const char *why = NULL;
			int rc;

			buf_init(&patch, 1 << 20);
			buf_init(&warnings, 1 << 20);
			oom_begin(n, OOM_ONE);
			rc = undo ? engine_uninject(text, &patch, &why, &err)
				  : engine_inject(&f.world, text, SLICE("ml"), &patch, &warnings,
					    &why, &err);
			(void)oom_end();
			if (n < 0)
				right = strdup(patch.data);
			assert_true(rc == 0 || rc == ERR_NOMEM);
			if (rc == 0)
				assert_string_equal(patch.data, right);
			buf_release(&patch);
			buf_release(&warnings);
			if (n >= 0 && !oom_failed())
				break;
		}
		free(right);
	}
	free(live);
	free(pod);
	fixture_release(&f);
}

/* Who has no kind is asked itself; what is kept of others stays. */
TEST(kinds_of_servers)
{
	struct gpu gpu = {.model = "t4"};
	struct gpu_server s = {.name = "a", .address = "a:1", .gpus = &gpu, .n_gpus = 1};
	bool failed = true;
	long n;

	for (n = 0; failed; n++) {
		struct server_kinds k = {0};
		uint32_t kind;

		oom_begin(n, OOM_ONE);
		kind = server_kinds_take(&k, 0, &s);
		failed = oom_end();
		assert_int_equal(kind, failed ? 0 : 1);
		assert_int_equal(server_kinds_take(&k, kind, &s), 1);
		gpu.model = "k80";
		oom_begin(n, OOM_ONE);
		kind = server_kinds_take(&k, 0, &s);
		assert_int_equal(kind, oom_end() ? 0 : 2);
		assert_string_equal(k.servers[1].gpus[0].model, "t4");
		gpu.model = "t4";
		server_kinds_release(&k);
	}
	assert_true(n > 5);
}

/* Whatever fails, the words are kept or not, and what was kept before is. */
TEST(words_of_servers)
{
	struct label labels[] = {{"zone", "x"}, {"host", "h"}};
	struct gpu_server s = {.name = "a", .address = "a:1", .labels = labels, .n_labels = 2};
	struct gpu_server plain = {.name = "b", .address = "b:1"};
	char host[20], address[20];
	bool failed = true;
	long n;

	for (n = 0; failed; n++) {
		struct server_words w = {0};
		bool taken;

		oom_begin(n, OOM_ONE);
		taken = server_words_take(&w, 0, &plain);
		/* What failed is tried again, on what it has left behind. */
		if (!taken)
			assert_true(server_words_take(&w, 0, &plain));
		/* so many that all lists grow */
		for (size_t at = 1; taken && at < 30; at++) {
			(void)snprintf(host, sizeof(host), "h%zu", at);
			(void)snprintf(address, sizeof(address), "a:%zu", at);
			labels[1].value = host;
			s.address = address;
			taken = server_words_take(&w, at, &s);
		}
		failed = oom_end();
		assert_int_equal(taken, !failed);
		/* who has these words already needs nothing */
		oom_begin(0, OOM_ALL_AFTER);
		assert_true(server_words_take(&w, 0, &plain));
		if (taken)
			assert_true(server_words_take(&w, 29, &s));
		assert_false(oom_end());
		assert_int_equal(
			server_words_find(&w.columns[0], SLICE("b:1")), w.columns[0].of[0]);
		for (size_t at = 1; at < 30; at++)
			server_words_drop(&w, at);
		assert_int_equal(w.columns[0].users, 1);
		assert_null(server_words_column(&w, SLICE("zone")));
		assert_true(server_words_take(&w, 3, &s));
		assert_non_null(server_words_column(&w, SLICE("zone")));
		server_words_release(&w);
	}
	assert_true(n > 60);
}

/* What of the pool's first server is claimed: of its first GPU, and of its second, by how many. */
static void expect_claimed(const struct pool_state *p, uint64_t first, uint64_t second, uint32_t n)
{
	struct usage use = pool_state_usage(p);

	assert_true(use.claimed[0] == first && use.pending[0] == first);
	assert_true(use.claimed[1] == second && use.pending[1] == second);
	assert_int_equal(use.n_claims[0], n);
	assert_int_equal(p->claims.n, n);
}

/* With one allocation failing: it is done, or nothing has changed. */
static bool claim_one(struct pool_state *p, const struct claim *c, long n)
{
	struct err err = {0};
	bool failed;
	int rc;

	oom_begin(n, OOM_ONE);
	rc = pool_state_add(p, c, KEY_UID, 0, 0, &err);
	failed = oom_end();
	assert_int_equal(rc, failed ? ERR_NOMEM : 0);
	assert_int_equal(err.code, rc);
	return failed;
}

static bool put_in_force(struct pool_state *p, const struct inventory *inv, long n)
{
	bool done, failed;

	oom_begin(n, OOM_ONE);
	done = pool_state_set(p, inv);
	failed = oom_end();
	assert_int_equal(done, !failed);
	return failed;
}

/* Another inventory is in force, or the one that was; claims are there in both. */
TEST(a_pool_whose_servers_change)
{
	struct pool before, after;
	struct claim_part parts[] = {{.server = "a", .gpu = "gpu-0", .bytes = 3 * MB},
		{.server = "a", .gpu = "gpu-1", .bytes = 5 * MB}};
	struct claim both = {.key = "u1",
		.namespace = "x",
		.name = "p",
		.state = CLAIM_PENDING,
		.parts = parts,
		.n_parts = 2};
	struct claim one = {.key = "u2",
		.namespace = "x",
		.name = "q",
		.state = CLAIM_PENDING,
		.parts = parts,
		.n_parts = 1};
	bool any = true;
	long n;

	pool_init(&before, "a t4:8 t4:8; b t4:8");
	pool_init(&after, "a t4:8; c t4:8; d t4:8");
	for (n = 0; any; n++) {
		struct pool_state p = {0};
		bool failed;

		assert_true(pool_state_set(&p, &before.inv));
		any = claim_one(&p, &both, n);
		if (any)
			expect_claimed(&p, 0, 0, 0);
		assert_true(!any || !claim_one(&p, &both, -1));
		failed = put_in_force(&p, &after.inv, n);
		any = any || failed;
		assert_int_equal(pool_state_inventory(&p)->n_servers, failed ? 2 : 3);
		assert_int_equal(pool_state_inventory(&p)->servers[0].n_gpus, 2);
		assert_int_equal(pool_state_inventory(&p)->servers[0].gpus[1].missing, !failed);
		expect_claimed(&p, 3 * MB, 5 * MB, 1);
		assert_false(claim_one(&p, &one, -1));
		expect_claimed(&p, 6 * MB, 5 * MB, 2);
		pool_state_end(&p, p.claims.oldest);
		/* what nobody claims any more may stay, and is gone when it is asked again */
		oom_begin(n, OOM_ONE);
		pool_state_prune(&p);
		failed = oom_end() || failed;
		any = any || failed;
		assert_int_equal(pool_state_inventory(&p)->servers[0].n_gpus, failed ? 2 : 1);
		assert_true(pool_state_usage(&p).claimed[0] == 3 * MB);
		assert_false(put_in_force(&p, &after.inv, -1));
		assert_int_equal(pool_state_inventory(&p)->n_gpus, 3);
		pool_state_release(&p);
	}
	assert_true(n > 8);
	pool_release(&before);
	pool_release(&after);
}

TESTS(test_mutate, test_policy, test_validate, test_update, test_engine, kinds_of_servers,
	words_of_servers, a_pool_whose_servers_change)

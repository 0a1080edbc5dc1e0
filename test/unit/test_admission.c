/* SPDX-License-Identifier: Apache-2.0 */
/* edge/admission/admission, edge/admission/scratch: bytes in, reply out, and the claim behind it:
 * kept exactly when an allowed reply was queued. */
#include "test/unit/admission_fixture.h"
#include "test/unit/test.h"
#include "webhook/edge/image/image_look.h"
#include "webhook/edge/image/registry_client.h"

#define ON                                                                                         \
	"'annotations':{'auto-management/bitfusion':'all','bitfusion-client/"                      \
	"os':'ubuntu18','bitfusion-client/version':'400'"
#define ASKS(n)                                                                                    \
	"{'metadata':{'name':'p','uid':'uid-1'," ON "}},'spec':{'containers':[{'name':'a',"        \
	"'command':['x'],'resources':{'limits':{'bitfusion.io/gpu-amount':" #n "}}}]}}"

static http_handler *const hooks[] = {admission_mutate, admission_validate};
static struct admission_fixture f;

FIXTURE(set_up)
{
	admission_fixture_init(&f, NULL);
	return 0;
}

FIXTURE(tear_down)
{
	admission_fixture_release(&f);
	return 0;
}

/* With another ledger. */
static void set_ledger(struct ledger *ledger)
{
	admission_fixture_release(&f);
	admission_fixture_init(&f, ledger);
}

static bool holds(const char *piece)
{
	return f.reply.body && strstr(f.reply.body, piece) != NULL;
}

static void replied(const char *piece)
{
	if (!holds(piece))
		fail_msg("no %s in %s", piece, f.reply.body);
}

static void not_replied(const char *piece)
{
	if (holds(piece))
		fail_msg("%s in %s", piece, f.reply.body);
}

/* Call, queue or not. */
static void answer(http_handler *handler, const char *text, bool queued)
{
	assert_int_equal(admission_call(&f, handler, text), HTTP_DONE);
	f.request.status = f.reply.status;
	admission_queued(f.admission, &f.request, queued);
	admission_done(f.admission, &f.request);
	assert_null(f.request.user);
}

/* Call, queue, free the review. */
static void ask(http_handler *handler, char *review)
{
	answer(handler, review, true);
	free(review);
}

/* The injected pod, with a uid. The caller frees it. */
static char *injected(const char *uid)
{
	char *pod = fixture_inject(&f.core, ASKS(1)), *with, ops[200];

	snprintf(ops, sizeof(ops), "[{'op':'replace','path':'/metadata/uid','value':'%s'}]", uid);
	with = fixture_change(pod, ops);
	free(pod);
	return with;
}

static char *validating(const char *uid, const char *more)
{
	char *pod = injected(uid), *review = admission_review("CREATE", pod, "null", more);

	free(pod);
	return review;
}

/* ---- what cannot be read ---- */

static const struct {
	const char *text;
	const char *says;
} unreadable[] = {
	{"", "Empty body"},
	{"x", "at byte 0"},
	{"{}", "/kind: found nothing"},
	{"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\"}x", "at byte"},
	{"{\"kind\":\"AdmissionReview\",\"kind\":\"x\"}", "at byte"},
	{"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\"}", "/request"},
	{"{\"a\":\"\\u0000\"}", "\\u0000"},
	{"{\"a\":1e400}", "at byte"},
};

TEST(test_unreadable)
{
	for (size_t i = 0; i < COUNT(unreadable); i++) {
		for (size_t h = 0; h < 2; h++) {
			answer(hooks[h], unreadable[i].text, true);
			assert_int_equal(f.reply.status, 400);
			if (!holds(unreadable[i].says))
				fail_msg("row %zu: %s", i, f.reply.body);
			replied("this is no AdmissionReview that can be read: ");
		}
	}
	assert_int_equal(metric_value(f.metrics, M_REVIEWS, HOOK_MUTATE, RESULT_UNREADABLE),
		COUNT(unreadable));
}

/* ---- mutate ---- */

TEST(test_mutate)
{
	char *review = admission_review("CREATE", ASKS(1), "null", ",'dryRun':false");

	answer(admission_mutate, review, true);
	assert_int_equal(f.reply.status, 200);
	assert_string_equal(f.reply.content_type, "application/json");
	replied("\"uid\":\"r\",\"allowed\":true,\"patch\":\"W3s");
	replied("\"patchType\":\"JSONPatch\"");
	assert_int_equal(strlen(f.reply.body), f.reply.body_len);
	/* nothing is taken, whatever is asked */
	assert_int_equal(admission_claims(&f), 0);
	assert_int_equal(metric_value(f.metrics, M_REVIEWS, HOOK_MUTATE, RESULT_PATCHED), 1);
	free(review);
	ask(admission_mutate, admission_review("CREATE", ASKS(0), "null", ""));
	assert_int_equal(f.reply.status, 200);
	replied("\"allowed\":false,\"status\":{");
	replied("\"reason\":\"Invalid\",\"code\":422");
	not_replied("patch");
}

/* operation, object, old, more: all are allowed as they are, by both hooks */
static const char *const harmless[][4] = {
	{"DELETE", "null", ASKS(1), ""},
	{"DELETE", "null", "null", ""},
	{"CONNECT", "{'kind':'PodExecOptions'}", "null", ",'subResource':'exec'"},
	{"UPDATE", "{'metadata':{'name':'p'}}", "{'metadata':{'name':'p'}}", ""},
	{"UPDATE", "{'metadata':{'name':'p'}}", "{'metadata':{'name':'p'}}",
		",'subResource':'status'"},
	{"UPDATE", ASKS(1), ASKS(1), ",'subResource':'resize'"},
	{"UPDATE", ASKS(1), ASKS(1), ",'subResource':'ephemeralcontainers'"},
	{"CREATE", "{'kind':'Eviction'}", "null", ",'subResource':'eviction'"},
	{"CREATE", "{'kind':'Binding'}", "null", ",'subResource':'binding'"},
	{"CREATE", "{}", "null", ""},
	{"CREATE", "{'metadata':7,'spec':'x'}", "null", ""},
};

TEST(test_harmless)
{
	for (size_t i = 0; i < COUNT(harmless); i++) {
		char *review = admission_review(
			harmless[i][0], harmless[i][1], harmless[i][2], harmless[i][3]);

		for (size_t h = 0; h < 2; h++) {
			answer(hooks[h], review, true);
			assert_int_equal(f.reply.status, 200);
			if (!holds("\"response\":{\"uid\":\"r\",\"allowed\":true}}"))
				fail_msg("row %zu: %s", i, f.reply.body);
		}
		free(review);
	}
	assert_int_equal(admission_claims(&f), 0);
}

/* A pod that is made or changed without being there is no review that can be answered. */
TEST(test_no_object)
{
	static const char *const rows[][3] = {
		{"CREATE", "null", "null"},
		{"UPDATE", "null", "{'metadata':{'name':'p'}}"},
		{"UPDATE", "{'metadata':{'name':'p'}}", "null"},
	};

	for (size_t i = 0; i < COUNT(rows) * 2; i++) {
		char *review = admission_review(rows[i / 2][0], rows[i / 2][1], rows[i / 2][2], "");

		answer(hooks[i % 2], review, true);
		assert_int_equal(f.reply.status, 400);
		replied("expected the pod");
		free(review);
	}
}

/* ---- validate and the claim ---- */

TEST(test_the_claim_follows_the_reply)
{
	char *first = validating("uid-1", ""), *second = validating("uid-2", ""),
	     *third = validating("uid-3", "");

	/* the client has gone: taken back */
	answer(admission_validate, first, false);
	assert_int_equal(f.reply.status, 200);
	assert_int_equal(admission_claims(&f), 0);
	answer(admission_validate, first, true);
	replied("\"allowed\":true,\"auditAnnotations\":{\"plan\":\"");
	replied("\",\"claim\":\"");
	assert_int_equal(admission_claims(&f), 1);
	/* the same pod again holds what it held, even if this reply is lost */
	answer(admission_validate, first, true);
	answer(admission_validate, first, false);
	assert_int_equal(admission_claims(&f), 1);
	answer(admission_validate, second, true);
	assert_int_equal(admission_claims(&f), 2);
	answer(admission_validate, third, true);
	assert_int_equal(f.reply.status, 200);
	replied("\"allowed\":false");
	replied("\"code\":403");
	replied("\",\"reason\":\"NoCapacity\"}}}");
	not_replied("\"claim\":");
	assert_int_equal(admission_claims(&f), 2);
	assert_int_equal(metric_value(f.metrics, M_REVIEWS, HOOK_VALIDATE, RESULT_CLAIMED), 5);
	assert_int_equal(metric_value(f.metrics, M_REVIEWS, HOOK_VALIDATE, RESULT_REFUSED), 1);
	free(first);
	free(second);
	free(third);
}

TEST(test_another_status_was_sent)
{
	char *review = validating("uid-1", "");

	assert_int_equal(admission_call(&f, admission_validate, review), HTTP_DONE);
	assert_non_null(f.request.user);
	f.request.status = 500;
	admission_queued(f.admission, &f.request, true);
	assert_int_equal(admission_claims(&f), 0);
	assert_null(f.request.user);
	/* once only */
	admission_queued(f.admission, &f.request, false);
	admission_done(f.admission, &f.request);
	free(review);
}

TEST(test_dry_run_takes_nothing)
{
	char *review = validating("uid-1", ",'dryRun':true");

	for (int i = 0; i < 3; i++) {
		answer(admission_validate, review, true);
		replied("\"allowed\":true,\"auditAnnotations\":{\"plan\":\"");
		not_replied("\"claim\"");
	}
	assert_int_equal(admission_claims(&f), 0);
	free(review);
}

/* more members of the DELETE review; claims that are left */
static const struct {
	const char *more;
	size_t left;
} deletes[] = {
	{"", 1},
	{",'options':{'gracePeriodSeconds':30}", 1},
	{",'options':{'gracePeriodSeconds':0},'dryRun':true", 1},
	{",'options':{'gracePeriodSeconds':0},'subResource':'status'", 1},
	{",'options':{'gracePeriodSeconds':0}", 0},
	{",'options':{'gracePeriodSeconds':0}", 0},
};

TEST(test_the_last_delete_ends_a_claim)
{
	char *pod;

	assert_true(f.core.ledger->ends_by_review);
	ask(admission_validate, validating("uid-1", ""));
	pod = injected("uid-1");
	for (size_t i = 0; i < COUNT(deletes); i++) {
		ask(admission_validate, admission_review("DELETE", "null", pod, deletes[i].more));
		replied("\"allowed\":true}}");
		if (admission_claims(&f) != deletes[i].left)
			fail_msg("row %zu: %zu claims", i, admission_claims(&f));
	}
	/* another pod of the name */
	ask(admission_validate, validating("uid-2", ""));
	ask(admission_validate,
		admission_review("DELETE", "null", pod, ",'options':{'gracePeriodSeconds':0}"));
	assert_int_equal(admission_claims(&f), 1);
	/* in a cluster pods are watched instead */
	free(pod);
	pod = injected("uid-2");
	f.core.ledger->ends_by_review = false;
	ask(admission_validate,
		admission_review("DELETE", "null", pod, ",'options':{'gracePeriodSeconds':0}"));
	assert_int_equal(admission_claims(&f), 1);
	free(pod);
}

TEST(test_what_may_wait_goes_to_a_worker)
{
	char *review = validating("uid-1", "");

	f.core.ledger->may_wait = true;
	assert_int_equal(admission_call(&f, admission_validate, review), HTTP_LATER);
	assert_null(f.reply.body);
	assert_int_equal(admission_claims(&f), 0);
	answer(admission_validate_slow, review, true);
	assert_int_equal(admission_claims(&f), 1);
	free(review);
}

/* The I/O thread is everybody's: what is large is read and decided elsewhere. */
TEST(test_what_is_large_goes_to_a_worker)
{
	http_handler *slow[] = {admission_mutate_slow, admission_validate_slow};
	char *text = malloc(64 * 1024 + 2);

	assert_non_null(text);
	memset(text, ' ', 64 * 1024 + 1);
	for (size_t i = 0; i < 2; i++) {
		text[64 * 1024] = '\0';
		assert_int_equal(admission_call(&f, hooks[i], text), HTTP_DONE);
		text[64 * 1024] = ' ';
		text[64 * 1024 + 1] = '\0';
		assert_int_equal(admission_call(&f, hooks[i], text), HTTP_LATER);
		assert_null(f.reply.body);
		assert_int_equal(admission_call(&f, slow[i], text), HTTP_DONE);
		assert_int_equal(f.reply.status, 400);
	}
	free(text);
}

TEST(test_routes)
{
	assert_string_equal(admission_routes[0].path, "/mutate");
	assert_string_equal(admission_routes[1].path, "/validate");
	assert_ptr_equal(admission_routes[1].slow, admission_validate_slow);
	assert_string_equal(admission_routes[2].path, "/mutate-policy");
	assert_string_equal(admission_routes[3].path, "/validate-policy");
	for (size_t i = 0; i < ADMISSION_ROUTES; i++) {
		assert_int_equal(admission_routes[i].method, HTTP_POST);
		assert_string_equal(admission_routes[i].content_type, "application/json");
	}
}

TEST(test_updates)
{
	char *live = injected("uid-1");
	char *changed = fixture_change(live, "[{'op':'remove','path':'/metadata/labels'}]");

	ask(admission_validate,
		admission_review("UPDATE", changed, live, ",'subResource':'status'"));
	replied("\"reason\":\"PlanChanged\",\"code\":403");
	ask(admission_validate, admission_review("UPDATE", live, live, ""));
	replied("\"allowed\":true}}");
	/* the user's own manifest again */
	ask(admission_mutate, admission_review("UPDATE", ASKS(1), live, ""));
	replied("\"patchType\":\"JSONPatch\"");
	/* of a part of the pod, which is not ours to mend */
	ask(admission_mutate, admission_review("UPDATE", ASKS(1), live, ",'subResource':'status'"));
	replied("\"allowed\":true}}");
	ask(admission_mutate, admission_review("UPDATE", ASKS(2), live, ""));
	replied("\"reason\":\"RequestChanged\",\"code\":403");
	free(changed);
	free(live);
}

TEST(test_workloads_are_warned)
{
	char *review = fixture_quotes(
		"{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/v1beta1','request':{"
		"'uid':'r','kind':{'group':'apps','version':'v1','kind':'Deployment'},'resource':{"
		"'resource':'deployments'},'namespace':'ml','operation':'CREATE','object':{'spec':{"
		"'replicas':9,'template':" ASKS(1) "}}}}");

	answer(admission_validate, review, true);
	replied("\"apiVersion\":\"admission.k8s.io/v1beta1\"");
	replied("\"allowed\":true,\"warnings\":[\"2 of 9 pods");
	answer(admission_mutate, review, true);
	replied("\"allowed\":true}}");
	assert_int_equal(admission_claims(&f), 0);
	free(review);
}

/* ---- images without a command ---- */

#define BARE                                                                                       \
	"{'metadata':{'name':'p','uid':'uid-1'," ON "}},'spec':{'containers':[{'name':'a',"        \
	"'image':'r.x/a:1','resources':{'limits':{'bitfusion.io/gpu-amount':1}}}]}}"

/* The registry that is played, and what it was asked. */
static struct registry played = {.host = {"r.x", 3}};
static struct {
	unsigned asked;
	int answer; /* 0, or the error */
	int64_t deadline_ms;
} registry;

static int registry_answer(const struct registry_question *q, struct arena *a,
	struct image_start *ret, struct err *err)
{
	static struct slice word = {"run-me", 6};

	(void)a;
	registry.asked++;
	registry.deadline_ms = q->deadline_ms;
	if (registry.answer != 0)
		return err_set(err, (enum err_code)registry.answer, "it does not say");
	*ret = (struct image_start){
		.digest = SLICE("sha256:x"), .entrypoint = &word, .n_entrypoint = 1};
	return 0;
}

static void look_at_images(void)
{
	static const struct image_look_config config = {.at_once = 4, .ask = registry_answer};
	struct err err = {0};

	memset(&registry, 0, sizeof(registry));
	admission_fixture_images = image_look_new(&config, &err);
	assert_non_null(admission_fixture_images);
	set_ledger(NULL);
	f.core.config.registries = &played;
	f.core.config.n_registries = 1;
}

static void look_no_more(void)
{
	struct image_look *was = admission_fixture_images;

	admission_fixture_images = NULL;
	set_ledger(NULL);
	image_look_free(was);
}

/* A registry is asked on a worker alone, and has three quarters of the time that is left. */
TEST(test_an_image_that_is_asked_for)
{
	char *review = admission_review("CREATE", BARE, "null", "");

	answer(admission_mutate, review, true);
	replied("\"allowed\":false");
	for (int i = 0; i < 2; i++) {
		int64_t given;

		look_at_images();
		registry.answer = i == 0 ? 0 : ERR_REFUSED;
		assert_int_equal(admission_call(&f, admission_mutate, review), HTTP_LATER);
		assert_null(f.reply.body);
		assert_int_equal(registry.asked, 0);
		answer(admission_mutate_slow, review, true);
		assert_int_equal(registry.asked, 1);
		replied(i == 0 ? "\"allowed\":true,\"patch\":" : "\"allowed\":false");
		if (i == 1)
			replied("\"reason\":\"ImageUnknown\"");
		given = registry.deadline_ms - f.request.received_ms;
		assert_true(given > 5000 && given <= (9000 - 250) * 6 / 8 + 2500);
		/* of a registry that nobody named nothing is asked */
		played.host = SLICE("r.y");
		answer(admission_mutate, review, true);
		assert_int_equal(registry.asked, 1);
		replied("\"allowed\":false");
		played.host = SLICE("r.x");
		look_no_more();
	}
	free(review);
}

/* A workload's image is not asked for, and no reason for a warning where its registry is one that
 * is. */
TEST(test_the_image_of_a_workload)
{
	char *review = fixture_quotes(
		"{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/v1','request':{"
		"'uid':'r','kind':{'group':'apps','version':'v1','kind':'Deployment'},'resource':{"
		"'resource':'deployments'},'namespace':'ml','operation':'CREATE','object':{'spec':{"
		"'replicas':1,'template':" BARE "}}}}");

	answer(admission_validate, review, true);
	replied("\"allowed\":true,\"warnings\":[");
	look_at_images();
	answer(admission_validate, review, true);
	replied("\"allowed\":true}}");
	assert_int_equal(registry.asked, 0);
	played.host = SLICE("r.y");
	answer(admission_validate, review, true);
	replied("\"allowed\":true,\"warnings\":[");
	played.host = SLICE("r.x");
	look_no_more();
	free(review);
}

/* ---- a ledger that fails ---- */

struct fake {
	struct ledger ledger;
	int take; /* what it returns */
	unsigned taken, undone;
	size_t asked;
	uint64_t last_undone;
	int64_t deadline_ms; /* as it was asked last */
	char whose[100];     /* uid, namespace and name of that */
};

static int fake_take(struct ledger *l, const struct claim_ask *ask, struct arena *a,
	struct claim_answer *ret, struct err *err)
{
	struct fake *fake = (struct fake *)l;

	(void)a;
	fake->taken++;
	fake->deadline_ms = ask->deadline_ms;
	(void)snprintf(fake->whose, sizeof(fake->whose), "%.*s %.*s/%.*s", (int)ask->uid.len,
		ask->uid.at, (int)ask->namespace.len, ask->namespace.at, (int)ask->name.len,
		ask->name.at ? ask->name.at : "");
	if (fake->take < 0)
		return err_reason(err, (enum err_code)fake->take, "Fake", "the ledger says no");
	*ret = (struct claim_answer){.ticket = 0x123456789abcdefULL};
	return 0;
}

static void fake_undo(struct ledger *l, uint64_t ticket)
{
	struct fake *fake = (struct fake *)l;

	fake->undone++;
	fake->last_undone = ticket;
}

static int fake_release(struct ledger *l, struct slice uid, struct slice namespace,
	struct slice name, size_t *ret_n, struct err *err)
{
	struct fake *fake = (struct fake *)l;

	(void)uid;
	(void)namespace;
	(void)name;
	(void)ret_n;
	return err_set(err, (enum err_code)fake->take, "the ledger is away");
}

static int fake_view(
	struct ledger *l, bool with_claims, struct arena *a, struct pool_view *ret, struct err *err)
{
	struct fake *fake = (struct fake *)l;

	(void)with_claims;
	(void)a;
	(void)ret;
	return err_set(err, (enum err_code)fake->take, "the ledger is away");
}

static int fake_could_ever(
	struct ledger *l, const struct claim_ask *ask, struct arena *a, struct err *err)
{
	struct fake *fake = (struct fake *)l;

	(void)a;
	fake->asked++;
	fake->deadline_ms = ask->deadline_ms;
	return fake->take < 0 ? (int)err_reason(err, (enum err_code)fake->take, "Fake",
					"the ledger says never")
			      : 0;
}

static const struct ledger_ops fake_ops = {.could_ever = fake_could_ever,
	.take = fake_take,
	.undo = fake_undo,
	.release = fake_release,
	.view = fake_view};

/* what take() returns; the status of the reply */
static const struct {
	int take;
	unsigned status;
} failures[] = {
	{ERR_TIMEOUT, 500},
	{ERR_INTERNAL, 500},
	{ERR_NOMEM, 500},
	{ERR_IO, 500},
	{ERR_CONFLICT, 500},
	{ERR_REFUSED, 200},
};

TEST(test_a_ledger_that_fails)
{
	static struct fake fake = {.ledger = {.ops = &fake_ops, .ends_by_review = true}};
	char *review, *ending;

	set_ledger(&fake.ledger);
	review = validating("uid-1", "");
	ending = admission_review("DELETE", "null", ASKS(1), ",'options':{'gracePeriodSeconds':0}");
	for (size_t i = 0; i < COUNT(failures); i++) {
		fake.take = failures[i].take;
		answer(admission_validate, review, true);
		assert_int_equal(f.reply.status, failures[i].status);
		replied("the ledger says no");
		not_replied("\"allowed\":true");
	}
	assert_int_equal(fake.taken, COUNT(failures));
	/* early enough to say why before the transport answers */
	assert_in_range(f.request.deadline_ms - fake.deadline_ms, 200, 300);
	fake.take = ERR_TIMEOUT;
	answer(admission_validate, ending, true);
	assert_int_equal(f.reply.status, 500);
	fake.take = ERR_NOTFOUND;
	answer(admission_validate, ending, true);
	assert_int_equal(f.reply.status, 200);
	replied("\"allowed\":true}}");
	assert_int_equal(fake.undone, 0);
	/* a yes whose reply is lost */
	fake.take = 0;
	answer(admission_validate, review, false);
	assert_int_equal(fake.undone, 1);
	assert_true(fake.last_undone == 0x123456789abcdefULL);
	answer(admission_validate, review, true);
	assert_int_equal(fake.undone, 1);
	free(ending);
	free(review);
}

/* A claim is of the name in the request, else of the pod's own: the API server makes one up last.
 */
TEST(test_whose_claim_it_is)
{
	static struct fake fake = {.ledger = {.ops = &fake_ops, .ends_by_review = true}};
	static const char in_request[] = "\"name\":\"p\",\"operation\"";
	char *review = validating("uid-1", ""), *at = strstr(review, in_request);

	set_ledger(&fake.ledger);
	assert_non_null(at);
	memcpy(at, "\"name\":\"q\"", 10);
	answer(admission_validate, review, true);
	replied("\"allowed\":true");
	assert_string_equal(fake.whose, "uid-1 ml/q");
	memcpy(at, "\"mane\"", 6);
	answer(admission_validate, review, true);
	replied("\"allowed\":true");
	assert_string_equal(fake.whose, "uid-1 ml/p");
	free(review);
}

/* ---- pods that wait ---- */

/* Admitted without a claim when the pool could ever hold it; dry run alike. Without a cluster
 * nobody would let it go. */
TEST(test_a_pod_that_waits)
{
	static struct fake fake = {.ledger = {.ops = &fake_ops}};
	char *review, *dry;

	set_ledger(&fake.ledger);
	f.core.config.late_place = true;
	f.core.config.when_full = WHEN_FULL_WAIT;
	review = validating("uid-1", "");
	dry = validating("uid-1", ",'dryRun':true");
	for (int i = 0; i < 2; i++) {
		answer(admission_validate, i ? dry : review, true);
		replied("\"allowed\":true");
		not_replied("\"claim\"");
	}
	assert_int_equal(metric_value(f.metrics, M_REVIEWS, HOOK_VALIDATE, RESULT_WAITING), 2);
	fake.take = ERR_REFUSED;
	answer(admission_validate, review, true);
	replied("the ledger says never");
	not_replied("\"allowed\":true");
	fake.take = ERR_NOMEM;
	answer(admission_validate, review, true);
	assert_int_equal(f.reply.status, 500);
	assert_int_equal(fake.asked, 4);
	assert_int_equal(fake.taken, 0);
	assert_int_equal(fake.undone, 0);
	set_ledger(NULL);
	f.core.config.late_place = true;
	answer(admission_validate, review, true);
	replied("\"reason\":\"PlanMismatch\"");
	assert_int_equal(admission_claims(&f), 0);
	free(dry);
	free(review);
}

/* ---- Secrets that cannot come ---- */

static const struct config *the_config(void *ctx)
{
	return ctx;
}

static void nothing(void *ctx, const struct config *config)
{
	(void)ctx;
	(void)config;
}

/* With somebody who is asked, too. */
static void set_deps(struct admission_deps deps)
{
	struct err err = {0};

	deps.source = (struct config_source){&f.core.config, the_config, nothing};
	deps.ledger = f.core.ledger;
	deps.metrics = f.metrics;
	deps.log = &f.log;
	admission_free(f.admission);
	f.admission = admission_new(&deps, &err);
	assert_non_null(f.admission);
}

/* Asked with what the profile needs; ctx counts. */
static int closed(void *ctx, struct slice namespace, const struct slice *secrets, size_t n,
	int64_t deadline_ms, struct err *err)
{
	++*(int *)ctx;
	assert_true(slice_is(namespace, "ml"));
	assert_int_equal(n, 1);
	assert_true(slice_is(secrets[0], "bitfusion-client-secret-ca.crt"));
	assert_true(deadline_ms > 0);
	return err_reason(err, ERR_REFUSED, "NamespaceNotOpen", "the namespace is not open");
}

static int exceeded(void *ctx, struct slice namespace, const struct json *j,
	const struct json_node *pod, int64_t deadline_ms, struct err *err)
{
	++*(int *)ctx;
	assert_true(slice_is(namespace, "ml"));
	assert_non_null(json_path(j, pod, "spec", "containers", NULL));
	assert_true(deadline_ms > 0);
	return err_reason(err, ERR_REFUSED, "QuotaExceeded", "exceeded quota: none");
}

TEST(test_no_claim_where_a_quota_refuses)
{
	int asked = 0;

	set_deps((struct admission_deps){.quotas = {&asked, exceeded}});
	ask(admission_validate, validating("uid-1", ""));
	replied("\"reason\":\"QuotaExceeded\",\"code\":403");
	assert_int_equal(admission_claims(&f), 0);
	assert_int_equal(asked, 1);
}

TEST(test_no_claim_where_secrets_cannot_come)
{
	static const char plain[] =
		"{'metadata':{'name':'p'},'spec':{'containers':[{'name':'a'}]}}";
	int asked = 0;

	set_deps((struct admission_deps){.secrets = {&asked, closed}});
	ask(admission_validate, validating("uid-1", ""));
	assert_int_equal(f.reply.status, 200);
	replied("\"allowed\":false");
	replied("\"reason\":\"NamespaceNotOpen\",\"code\":403");
	assert_int_equal(admission_claims(&f), 0);
	assert_int_equal(asked, 1);
	/* nobody asks for pods that need none */
	ask(admission_validate, admission_review("CREATE", plain, "null", ""));
	replied("\"allowed\":true");
	assert_int_equal(asked, 1);
}

static bool any_policy(void *ctx, const struct config *config)
{
	(void)ctx, (void)config;
	return true;
}

/* One that has to be asked for: who may not wait is told so. */
static int policy_later(void *ctx, const struct config *config, struct slice namespace, bool picks,
	int64_t deadline_ms, struct arena *a, const struct policy **ret, struct err *err)
{
	static const struct policy policy = {
		.name = "p", .inject = true, .share = 100, .os = "ubuntu18", .version = "400"};
	bool *away = ctx;

	(void)config, (void)namespace, (void)picks, (void)a;
	if (deadline_ms == 0 || *away)
		return err_set(err, ERR_TIMEOUT, "nobody knows it");
	assert_true(deadline_ms > http_now_ms());
	*ret = &policy;
	return 0;
}

TEST(test_a_policy_that_is_asked_for)
{
	static const char silent[] =
		"{'metadata':{'name':'p'},'spec':{'containers':[{'name':'a','command':['x'],"
		"'resources':{'limits':{'bitfusion.io/gpu-amount':1}}}]}}";
	bool away = false;
	char *review = admission_review("CREATE", silent, "null", "");

	admission_fixture_policies = (struct policies_known){&away, any_policy, policy_later};
	set_ledger(NULL);
	assert_int_equal(admission_call(&f, admission_mutate, review), HTTP_LATER);
	assert_int_equal(metric_value(f.metrics, M_REVIEWS, 0, 0), 0);
	answer(admission_mutate_slow, review, true);
	assert_int_equal(f.reply.status, 200);
	replied("\"patch\":");
	/* what the policy wants is not known: the other hook refuses nothing by guess, nor admits
	 */
	assert_int_equal(admission_call(&f, admission_validate, review), HTTP_LATER);
	answer(admission_validate_slow, review, true);
	replied("\"reason\":\"NotInjected\"");
	away = true;
	answer(admission_mutate_slow, review, true);
	assert_int_equal(f.reply.status, 500);
	answer(admission_validate_slow, review, true);
	assert_int_equal(f.reply.status, 500);
	/* the mutating hook's failures are ignored: where the API server has seen the label it is a
	 * refusal */
	for (size_t i = 2; i < ADMISSION_ROUTES; i++) {
		admission_fixture_route = &admission_routes[i];
		assert_int_equal(
			admission_call(&f, admission_fixture_route->handle, review), HTTP_LATER);
		answer(admission_fixture_route->slow, review, true);
		assert_int_equal(f.reply.status, 200);
		replied("\"reason\":\"ApiServerAway\"");
		replied("create it again");
	}
	/* nor does a replica that was not told of policies let it pass */
	admission_fixture_policies = (struct policies_known){0};
	set_ledger(NULL);
	for (size_t i = 2; i < ADMISSION_ROUTES; i++) {
		admission_fixture_route = &admission_routes[i];
		answer(admission_fixture_route->handle, review, true);
		replied("\"reason\":\"NoPolicy\"");
		replied("cluster.policies.enabled");
	}
	admission_fixture_route = NULL;
	answer(admission_mutate, review, true);
	replied("\"allowed\":true");
	free(review);
}

TESTS_BETWEEN(set_up, tear_down, test_unreadable, test_mutate, test_harmless, test_no_object,
	test_the_claim_follows_the_reply, test_another_status_was_sent, test_dry_run_takes_nothing,
	test_the_last_delete_ends_a_claim, test_what_may_wait_goes_to_a_worker,
	test_what_is_large_goes_to_a_worker, test_routes, test_updates, test_workloads_are_warned,
	test_an_image_that_is_asked_for, test_the_image_of_a_workload, test_a_ledger_that_fails,
	test_whose_claim_it_is, test_a_pod_that_waits, test_no_claim_where_secrets_cannot_come,
	test_no_claim_where_a_quota_refuses, test_a_policy_that_is_asked_for)

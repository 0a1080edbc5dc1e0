/* SPDX-License-Identifier: Apache-2.0 */
/* test: what is told of a review: counts by hook, result, operation and reason, the time of its
 * stages, its place among the last decisions, its line in the log. */
#include <fcntl.h>

#include "test/unit/admission_fixture.h"
#include "test/unit/test.h"

#define ON                                                                                         \
	"'annotations':{'auto-management/bitfusion':'all','bitfusion-client/"                      \
	"os':'ubuntu18','bitfusion-client/version':'400'}"
#define ASKS(n)                                                                                    \
	"{'metadata':{'name':'p','uid':'uid-1'," ON "},'spec':{'containers':[{'name':'a',"         \
	"'command':['x'],'resources':{'limits':{'bitfusion.io/gpu-amount':" #n "}}}]}}"
#define PLAIN(meta) "{'metadata':{" meta "},'spec':{'containers':[{'name':'a'}]}}"

static struct admission_fixture fix;
static FILE *told;
static struct decision last[2 * DECISIONS_KEPT];

FIXTURE(set_up)
{
	admission_fixture_init(&fix, NULL);
	told = tmpfile();
	assert_non_null(told);
	/* read while it is written */
	assert_int_equal(fcntl(fileno(told), F_SETFL, O_APPEND), 0);
	log_init(&fix.log, fileno(told));
	return 0;
}

FIXTURE(tear_down)
{
	admission_fixture_release(&fix);
	(void)fclose(told);
	return 0;
}

static void call(http_handler *handler, const char *review)
{
	assert_int_equal(admission_call(&fix, handler, review), HTTP_DONE);
	fix.request.status = fix.reply.status;
	admission_queued(fix.admission, &fix.request, true);
	admission_done(fix.admission, &fix.request);
}

static void review(
	http_handler *handler, const char *operation, const char *object, const char *more)
{
	char *text = admission_review(operation, object, "null", more);

	call(handler, text);
	free(text);
}

/* A pod as it was injected, of that uid, comes to the validating hook. */
static void validate(const char *uid, const char *more)
{
	char *pod = fixture_inject(&fix.core, ASKS(1)), *with, ops[200];

	(void)snprintf(
		ops, sizeof(ops), "[{'op':'replace','path':'/metadata/uid','value':'%s'}]", uid);
	with = fixture_change(pod, ops);
	review(admission_validate, "CREATE", with, more);
	free(with);
	free(pod);
}

static const struct decision *decided(size_t n)
{
	assert_int_equal(decisions_copy(fix.decisions, last, COUNT(last)), n);
	return &last[0];
}

/* The last line of the log. */
static const char *line(void)
{
	static char text[LOG_LINE_MAX + 1], next[LOG_LINE_MAX + 1];

	text[0] = '\0';
	rewind(told);
	while (fgets(next, sizeof(next), told))
		strcpy(text, next);
	return text;
}

/* All of these are in it. */
#define SAYS(...) says_all((const char *const[]){__VA_ARGS__, NULL})

static void says_all(const char *const *words)
{
	for (; *words; words++)
		if (!strstr(line(), *words))
			fail_msg("%s, expected %s", line(), *words);
}

static int64_t stages(enum metric_hook hook, enum metric_stage stage)
{
	return metric_value(fix.metrics, M_STAGE_SECONDS, hook, stage);
}

/* The value behind this text in what is rendered. */
static long value_of(const char *series)
{
	struct buf b;
	const char *at;
	long value;

	buf_init(&b, 1 << 20);
	metrics_render(fix.metrics, &b);
	assert_false(b.failed);
	at = strstr(b.data, series);
	if (!at)
		fail_msg("no %s", series);
	value = strtol(at + strlen(series), NULL, 10);
	buf_release(&b);
	return value;
}

TEST(test_a_claim)
{
	const struct decision *d;

	validate("u1", "");
	d = decided(1);
	assert_int_equal(d->hook, HOOK_VALIDATE);
	assert_int_equal(d->operation, OP_CREATE);
	assert_int_equal(d->result, RESULT_CLAIMED);
	assert_false(d->dry_run);
	assert_string_equal(d->kind, "Pod");
	assert_string_equal(d->namespace, "ml");
	assert_string_equal(d->name, "p");
	assert_string_equal(d->reason, "");
	assert_non_null(strstr(d->message, "gpu-01"));
	/* each of its stages took its time, once */
	for (enum metric_stage s = 0; s < METRIC_STAGES; s++) {
		assert_int_equal(stages(HOOK_VALIDATE, s), 1);
		assert_int_equal(stages(HOOK_MUTATE, s), 0);
	}
	assert_int_equal(metric_value(fix.metrics, M_REVIEW_SECONDS, HOOK_VALIDATE, 0), 1);
	assert_int_equal(value_of("\npoolgate_reviews_total{hook=\"validate\",result=\"claimed\","
				  "operation=\"CREATE\"} "),
		1);
	SAYS("info", "hook=validate", "result=claimed", "operation=CREATE", "kind=Pod",
		"namespace=ml", "name=p", "uid=r", "dryRun=false", "status=200", "plan=", "claim=");
	assert_null(strstr(line(), "reason="));
	assert_null(strstr(line(), "subresource="));
	validate("u1", ",'dryRun':true");
	assert_true(decided(2)->dry_run);
	SAYS("dryRun=true");
}

TEST(test_a_refusal)
{
	const struct decision *d;

	validate("u1", "");
	validate("u2", "");
	validate("u3", "");
	d = decided(3);
	assert_int_equal(d->result, RESULT_REFUSED);
	assert_string_equal(d->reason, "NoCapacity");
	assert_true(d->message[0] != '\0');
	assert_int_equal(
		metric_value(fix.metrics, M_REFUSALS, HOOK_VALIDATE, metric_reason("NoCapacity")),
		1);
	assert_int_equal(
		metric_value(fix.metrics, M_REFUSALS, HOOK_MUTATE, metric_reason("NoCapacity")), 0);
	SAYS("info", "result=refused", "reason=NoCapacity", "message=");
	/* by the other hook, and for another reason */
	review(admission_mutate, "CREATE", ASKS(0), "");
	d = decided(4);
	assert_int_equal(d->hook, HOOK_MUTATE);
	assert_int_equal(d->result, RESULT_REFUSED);
	SAYS("hook=mutate");
	assert_int_equal(
		metric_value(fix.metrics, M_REFUSALS, HOOK_MUTATE, metric_reason(d->reason)), 1);
}

/* Nothing is claimed there: the stage has no time. */
TEST(test_what_is_not_ours)
{
	const struct decision *d;

	review(admission_mutate, "CREATE", PLAIN("'name':'p'"), "");
	d = decided(1);
	assert_int_equal(d->hook, HOOK_MUTATE);
	assert_int_equal(d->result, RESULT_UNTOUCHED);
	assert_string_equal(d->reason, "");
	assert_true(d->message[0] != '\0');
	SAYS(d->message, "result=untouched");
	assert_int_equal(stages(HOOK_MUTATE, STAGE_CLAIM), 0);
	assert_int_equal(stages(HOOK_MUTATE, STAGE_WAIT), 1);
	assert_int_equal(stages(HOOK_MUTATE, STAGE_READ), 1);
	assert_int_equal(stages(HOOK_MUTATE, STAGE_DECIDE), 1);
	assert_int_equal(stages(HOOK_MUTATE, STAGE_WRITE), 1);
	review(admission_validate, "CONNECT", "{'kind':'PodExecOptions'}", ",'subResource':'exec'");
	SAYS("subresource=exec", "operation=CONNECT");
}

/* The review's name before the pod's, and how the one begins that the API server makes up. */
TEST(test_what_a_pod_is_called)
{
	static const struct {
		const char *name; /* in the review */
		const char *meta, *called;
	} rows[] = {
		{"r", "'name':'p','generateName':'g-'", "r"},
		{"", "'name':'p','generateName':'g-'", "p"},
		{"", "'generateName':'g-'", "g-"},
		{"", "", ""},
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		char text[1024], *quoted;

		(void)snprintf(text, sizeof(text),
			"{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/v1','request':{"
			"'uid':'r','kind':{'group':'','version':'v1','kind':'Pod'},'resource':{"
			"'group':'','version':'v1','resource':'pods'},'namespace':'ml','name':'%s',"
			"'operation':'CREATE','object':{'metadata':{%s},'spec':{'containers':[{"
			"'name':'a'}]}}}}",
			rows[i].name, rows[i].meta);
		quoted = fixture_quotes(text);
		call(admission_mutate, quoted);
		free(quoted);
		assert_string_equal(decided(i + 1)->name, rows[i].called);
	}
}

TEST(test_what_cannot_be_read)
{
	strcpy(fix.request.peer, "");
	call(admission_validate, "x");
	assert_int_equal(fix.reply.status, 400);
	(void)decided(0);
	SAYS("warn", "unreadable review", "hook=validate", "status=400", "why=", "bytes=1");
	call(admission_mutate, "{}");
	SAYS("hook=mutate", "path=/kind", "bytes=2");
	assert_int_equal(
		value_of("\npoolgate_reviews_total{hook=\"validate\",result=\"unreadable\","
			 "operation=\"none\"} "),
		1);
	assert_int_equal(stages(HOOK_VALIDATE, STAGE_READ), 1);
	assert_int_equal(stages(HOOK_VALIDATE, STAGE_DECIDE), 0);
	assert_int_equal(stages(HOOK_VALIDATE, STAGE_CLAIM), 0);
}

/* Whoever wants to hear of what goes wrong alone. */
TEST(test_how_loud_it_is)
{
	fix.log.level = LOG_LEVEL_WARN;
	validate("u1", "");
	assert_string_equal(line(), "");
	call(admission_mutate, "x");
	SAYS("unreadable review");
	fix.log.level = LOG_LEVEL_ERROR;
	assert_int_equal(ftruncate(fileno(told), 0), 0);
	call(admission_mutate, "x");
	assert_string_equal(line(), "");
}

static bool any_policy(void *ctx, const struct config *config)
{
	(void)ctx, (void)config;
	return true;
}

static int lets_pass(void *ctx, const struct config *config, struct slice namespace, bool picks,
	int64_t deadline_ms, struct arena *a, const struct policy **ret, struct err *err)
{
	static const struct policy policy = {.name = "p",
		.inject = true,
		.share = 100,
		.local_on_outage = true,
		.os = "ubuntu18",
		.version = "400"};

	(void)ctx, (void)config, (void)namespace, (void)picks, (void)deadline_ms, (void)a;
	(void)err;
	*ret = &policy;
	return 0;
}

/* A pod that was not injected runs on its node: how often is counted, and a dry run is none. */
TEST(test_what_a_policy_lets_pass)
{
	static const char silent[] =
		"{'metadata':{'name':'p','uid':'u1'},'spec':{'containers':[{'name':'a','command':["
		"'x'],'resources':{'limits':{'bitfusion.io/gpu-amount':1}}}]}}";

	admission_fixture_release(&fix);
	admission_fixture_policies = (struct policies_known){NULL, any_policy, lets_pass};
	admission_fixture_init(&fix, NULL);
	admission_fixture_policies = (struct policies_known){0};
	review(admission_validate, "CREATE", silent, ",'dryRun':true");
	assert_int_equal(decided(1)->result, RESULT_UNTOUCHED);
	assert_int_equal(metric_value(fix.metrics, M_POLICY_LOCAL, 0, 0), 0);
	review(admission_validate, "CREATE", silent, "");
	assert_int_equal(decided(2)->result, RESULT_UNTOUCHED);
	assert_int_equal(metric_value(fix.metrics, M_POLICY_LOCAL, 0, 0), 1);
}

/* The reply was not sent. */
TEST(test_a_claim_that_is_taken_back)
{
	char *pod = fixture_inject(&fix.core, ASKS(1));
	char *text = admission_review("CREATE", pod, "null", "");

	assert_int_equal(admission_call(&fix, admission_validate, text), HTTP_DONE);
	fix.request.status = fix.reply.status;
	strcpy(fix.request.peer, "10.0.0.7:41234");
	admission_queued(fix.admission, &fix.request, false);
	SAYS("warn", "claim taken back", "peer=10.0.0.7:41234");
	admission_transport(fix.admission, "too many connections");
	SAYS("transport", "msg=\"too many connections\"");
	free(text);
	free(pod);
}

TESTS_BETWEEN(set_up, tear_down, test_a_claim, test_a_refusal, test_what_is_not_ours,
	test_what_a_pod_is_called, test_what_cannot_be_read, test_how_loud_it_is,
	test_what_a_policy_lets_pass, test_a_claim_that_is_taken_back)

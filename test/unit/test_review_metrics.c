/* SPDX-License-Identifier: Apache-2.0 */
/* test: what the metrics say of reviews: most take some ten microseconds, and the histogram must
 * tell them apart. */
#include "test/unit/admission_fixture.h"
#include "test/unit/test.h"

/* The value behind this text in what is rendered. */
static double value_of(const struct admission_fixture *f, const char *series)
{
	struct buf b;
	const char *at;
	double value;

	buf_init(&b, 1 << 20);
	metrics_render(f->metrics, &b);
	assert_false(b.failed);
	at = strstr(b.data, series);
	if (!at)
		fail_msg("no %s", series);
	value = strtod(at + strlen(series), NULL);
	buf_release(&b);
	return value;
}

static struct admission_fixture fix;

FIXTURE(set_up)
{
	admission_fixture_init(&fix, NULL);
	return 0;
}

FIXTURE(tear_down)
{
	admission_fixture_release(&fix);
	return 0;
}

TEST(test_microseconds)
{
	char *text = admission_review("DELETE", "null", "{'metadata':{}}", "");
	double sum;

	for (int i = 0; i < 20; i++) {
		int64_t began = http_now_us();

		assert_int_equal(admission_call(&fix, admission_mutate, text), HTTP_DONE);
		assert_int_equal(fix.reply.status, 200);
		assert_true(fix.request.whole_us >= began);
	}
	sum = value_of(&fix, "\npoolgate_review_duration_seconds_sum{hook=\"mutate\"} ");
	assert_true(sum > 0);
	/* Far below a millisecond each; some may have been interrupted. */
	assert_true(
		value_of(&fix, "\npoolgate_review_duration_seconds_bucket{hook=\"mutate\",le=\"0."
			       "001\"} ") > 10);
	assert_true(
		value_of(&fix, "\npoolgate_review_duration_seconds_count{hook=\"mutate\"} ") == 20);
	/* What a review waited for a worker counts, too. */
	fix.request.whole_us = http_now_us() - 2500000;
	free(fix.reply.body);
	fix.reply = (struct http_reply){0};
	assert_int_equal(admission_mutate(fix.admission, &fix.request, &fix.reply), HTTP_DONE);
	assert_true(value_of(&fix, "\npoolgate_review_duration_seconds_sum{hook=\"mutate\"} ") >
		    sum + 2);
	free(text);
}

/* Operations and reasons are counted by name; what no table knows goes to "other". */
TEST(test_labels)
{
	char *gone = admission_review("DELETE", "null", "{'metadata':{}}", "");
	char *forged = admission_review("CREATE",
		"{'kind':'Pod','metadata':{'name':'p','annotations':{'auto-management/bitfusion':"
		"'all','bitfusion-client/os':'ubuntu18','bitfusion-client/version':'400'}},'spec':{"
		"'containers':[{'name':'c','command':['a'],'resources':{'limits':{'bitfusion.io/"
		"gpu-"
		"amount':'1'}}}]}}",
		"null", "");

	assert_int_equal(admission_call(&fix, admission_validate, gone), HTTP_DONE);
	assert_int_equal(admission_call(&fix, admission_validate, forged), HTTP_DONE);
	assert_int_equal(admission_call(&fix, admission_mutate, "{"), HTTP_DONE);
	assert_true(
		value_of(&fix, "\npoolgate_reviews_total{hook=\"validate\",result=\"untouched\","
			       "operation=\"DELETE\"} ") == 1);
	assert_true(value_of(&fix, "\npoolgate_reviews_total{hook=\"validate\",result=\"refused\","
				   "operation=\"CREATE\"} ") == 1);
	assert_true(value_of(&fix, "\npoolgate_reviews_total{hook=\"mutate\",result=\"unreadable\","
				   "operation=\"none\"} ") == 1);
	assert_true(value_of(&fix, "\npoolgate_refusals_total{hook=\"validate\",reason="
				   "\"NotInjected\"} ") == 1);
	assert_int_equal(metric_reason("NoSuchReason"), metric_reason("other"));
	assert_int_not_equal(metric_reason("NoCapacity"), metric_reason("other"));
	assert_string_equal(metric_operation_name(OP_CONNECT), "CONNECT");
	free(gone);
	free(forged);
}

/* Every stage of a claim is there, none that the review did not enter; they add up to the whole. */
TEST(test_stages)
{
	static const char *const stages[] = {"wait", "read", "decide", "claim", "write"};
	char *live, *text;
	double sum = 0, whole;

	live = fixture_inject(&fix.core,
		"{'metadata':{'name':'p','uid':'u','annotations':{'auto-management/"
		"bitfusion':'all',"
		"'bitfusion-client/os':'ubuntu18','bitfusion-client/version':'400'}},'spec':{"
		"'containers':[{'name':'c','command':['a'],'resources':{'limits':{'bitfusion.io/"
		"gpu-"
		"amount':'1'}}}]}}");
	text = admission_review("CREATE", live, "null", "");
	assert_int_equal(admission_call(&fix, admission_validate, text), HTTP_DONE);
	for (size_t i = 0; i < 5; i++) {
		char series[128];

		(void)snprintf(series, sizeof(series),
			"\npoolgate_review_stage_seconds_count{hook=\"validate\",stage=\"%s\"} ",
			stages[i]);
		assert_true(value_of(&fix, series) == 1);
		(void)snprintf(series, sizeof(series),
			"\npoolgate_review_stage_seconds_sum{hook=\"validate\",stage=\"%s\"} ",
			stages[i]);
		sum += value_of(&fix, series);
	}
	whole = value_of(&fix, "\npoolgate_review_duration_seconds_sum{hook=\"validate\"} ");
	assert_true(sum > whole - 1e-9 && sum < whole + 1e-9);
	assert_int_equal(admission_call(&fix, admission_mutate, "{"), HTTP_DONE);
	assert_true(value_of(&fix, "\npoolgate_review_stage_seconds_count{hook=\"mutate\",stage="
				   "\"read\"} ") == 1);
	assert_true(value_of(&fix, "\npoolgate_review_stage_seconds_count{hook=\"mutate\",stage="
				   "\"decide\"} ") == 0);
	assert_true(value_of(&fix, "\npoolgate_review_stage_seconds_count{hook=\"mutate\",stage="
				   "\"claim\"} ") == 0);
	free(text);
	free(live);
}

/* Each review that can be read is remembered, with its names and nothing else of the pod's. */
TEST(test_decisions)
{
	struct decision got[4];
	char *secret = admission_review("CREATE",
		"{'kind':'Pod','metadata':{'name':'p','annotations':{'auto-management/"
		"bitfusion':'all','bitfusion-client/os':'ubuntu18','bitfusion-client/"
		"version':'400'}"
		"},'spec':{'containers':[{'name':'c','command':['a'],'env':[{'name':'T','value':"
		"'hunter2'}],'resources':{'limits':{'bitfusion.io/gpu-amount':'0'}}}]}}",
		"null", "");

	assert_int_equal(admission_call(&fix, admission_mutate, secret), HTTP_DONE);
	assert_int_equal(admission_call(&fix, admission_mutate, "{\"token\":1"), HTTP_DONE);
	assert_int_equal(decisions_copy(fix.decisions, got, 4), 1);
	assert_int_equal(got[0].result, RESULT_REFUSED);
	assert_int_equal(got[0].operation, OP_CREATE);
	assert_string_equal(got[0].namespace, "ml");
	assert_string_equal(got[0].kind, "Pod");
	assert_string_equal(got[0].reason, "Invalid");
	assert_non_null(strstr(got[0].message, "gpu-amount"));
	assert_null(strstr(got[0].message, "hunter2"));
	free(secret);
}

/* What dashboards and alerts ask for by name: each histogram's bounds, in seconds. */
TEST(test_bounds)
{
	static const char *const rows[][2] = {
		{"poolgate_review_duration_seconds_bucket{hook=\"mutate\",le=\"",
			"0.00005 0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.05 0.1 0.5 1 5 10 "
			"+Inf "},
		{"poolgate_review_stage_seconds_bucket{hook=\"mutate\",stage=\"wait\",le=\"",
			"0.00001 0.00005 0.0001 0.0005 0.001 0.005 0.01 0.05 0.1 0.5 1 5 +Inf "},
		{"poolgate_wait_seconds_bucket{le=\"",
			"0.1 0.3 1 10 60 600 3600 21600 86400 +Inf "}};
	struct buf page, bounds;

	buf_init(&page, 1 << 20);
	metrics_render(fix.metrics, &page);
	for (size_t i = 0; i < COUNT(rows); i++) {
		buf_init(&bounds, 4096);
		for (const char *at = page.data; (at = strstr(at, rows[i][0]));) {
			at += strlen(rows[i][0]);
			buf_fmt(&bounds, "%.*s ", (int)strcspn(at, "\""), at);
		}
		assert_string_equal(bounds.data, rows[i][1]);
		buf_release(&bounds);
	}
	buf_release(&page);
}

TESTS_BETWEEN(
	set_up, tear_down, test_microseconds, test_labels, test_stages, test_decisions, test_bounds)

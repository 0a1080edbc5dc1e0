/* SPDX-License-Identifier: Apache-2.0 */
/* test: what the metrics say of reviews: most take some ten microseconds, and the histogram must tell them apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/admission_fixture.h"

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

static void test_microseconds(void **state)
{
	struct admission_fixture f;
	char *text = admission_review("DELETE", "null", "{'metadata':{}}", "");
	double sum;

	(void)state;
	admission_fixture_init(&f, NULL);
	for (int i = 0; i < 20; i++) {
		int64_t began = http_now_us();

		assert_int_equal(admission_call(&f, admission_mutate, text), HTTP_DONE);
		assert_int_equal(f.reply.status, 200);
		assert_true(f.request.whole_us >= began);
	}
	sum = value_of(&f, "\npoolgate_review_duration_seconds_sum{hook=\"mutate\"} ");
	assert_true(sum > 0);
	/* Far below a millisecond each; some may have been interrupted. */
	assert_true(value_of(&f, "\npoolgate_review_duration_seconds_bucket{hook=\"mutate\",le=\"0."
				 "001\"} ") > 10);
	assert_true(
		value_of(&f, "\npoolgate_review_duration_seconds_count{hook=\"mutate\"} ") == 20);
	/* What a review waited for a worker counts, too. */
	f.request.whole_us = http_now_us() - 2500000;
	free(f.reply.body);
	f.reply = (struct http_reply){0};
	assert_int_equal(admission_mutate(f.admission, &f.request, &f.reply), HTTP_DONE);
	assert_true(
		value_of(&f, "\npoolgate_review_duration_seconds_sum{hook=\"mutate\"} ") > sum + 2);
	free(text);
	admission_fixture_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_microseconds)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

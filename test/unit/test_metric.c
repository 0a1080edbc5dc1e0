/* SPDX-License-Identifier: Apache-2.0 */
/* test: metrics: the text, the bounds, and counting from several threads. */
#include <pthread.h>

#include "base/metric.h"
#include "test/unit/test.h"

static const char *const hooks[] = {"mutate", "validate", NULL};
static const char *const verdicts[] = {"allowed", "refused", "error", NULL};
static const int64_t seconds[] = {1000, 2500, 1000000, 0}; /* microseconds */

enum { REVIEWS, READY, LATENCY, PLAIN_TIME };
static const struct metric_desc desc[] = {
	{"poolgate_reviews_total", "Reviews answered.", METRIC_COUNTER, 1, NULL,
		{{"hook", hooks}, {"verdict", verdicts}}},
	{"poolgate_ready", "Ready to serve \\ or\nnot.", METRIC_GAUGE, 0, NULL,
		{{NULL, NULL}, {NULL, NULL}}},
	{"poolgate_seconds", "Time.", METRIC_HISTOGRAM, 1000000, seconds,
		{{"hook", hooks}, {NULL, NULL}}},
	{"poolgate_expiry_seconds", "End.", METRIC_GAUGE, 1000, NULL, {{NULL, NULL}, {NULL, NULL}}},
};
#define NDESC (COUNT(desc))

static char text[16384];

static const char *render(const struct metrics *m)
{
	struct buf b;
	buf_init(&b, sizeof(text) - 1);
	metrics_render(m, &b);
	assert_false(b.failed);
	memcpy(text, b.data, b.len);
	text[b.len] = '\0';
	buf_release(&b);
	return text;
}

TEST(renders)
{
	struct metrics *m = metrics_new(desc, NDESC);
	assert_non_null(m);
	metric_add(m, REVIEWS, 0, 0, 1);
	metric_add(m, REVIEWS, 1, 2, 41);
	metric_add(m, REVIEWS, 1, 2, 1);
	metric_set(m, READY, 0, 0, 1);
	metric_observe(m, LATENCY, 1, 0, 1000);
	metric_observe(m, LATENCY, 1, 0, 1001);
	metric_observe(m, LATENCY, 1, 0, 5000000);
	metric_set(m, PLAIN_TIME, 0, 0, -1250);
	const char *want = "# HELP poolgate_reviews_total Reviews answered.\n"
			   "# TYPE poolgate_reviews_total counter\n"
			   "poolgate_reviews_total{hook=\"mutate\",verdict=\"allowed\"} 1\n"
			   "poolgate_reviews_total{hook=\"mutate\",verdict=\"refused\"} 0\n"
			   "poolgate_reviews_total{hook=\"mutate\",verdict=\"error\"} 0\n"
			   "poolgate_reviews_total{hook=\"validate\",verdict=\"allowed\"} 0\n"
			   "poolgate_reviews_total{hook=\"validate\",verdict=\"refused\"} 0\n"
			   "poolgate_reviews_total{hook=\"validate\",verdict=\"error\"} 42\n"
			   "# HELP poolgate_ready Ready to serve \\\\ or\\nnot.\n"
			   "# TYPE poolgate_ready gauge\n"
			   "poolgate_ready 1\n"
			   "# HELP poolgate_seconds Time.\n"
			   "# TYPE poolgate_seconds histogram\n"
			   "poolgate_seconds_bucket{hook=\"mutate\",le=\"0.001\"} 0\n"
			   "poolgate_seconds_bucket{hook=\"mutate\",le=\"0.0025\"} 0\n"
			   "poolgate_seconds_bucket{hook=\"mutate\",le=\"1\"} 0\n"
			   "poolgate_seconds_bucket{hook=\"mutate\",le=\"+Inf\"} 0\n"
			   "poolgate_seconds_sum{hook=\"mutate\"} 0\n"
			   "poolgate_seconds_count{hook=\"mutate\"} 0\n"
			   "poolgate_seconds_bucket{hook=\"validate\",le=\"0.001\"} 1\n"
			   "poolgate_seconds_bucket{hook=\"validate\",le=\"0.0025\"} 2\n"
			   "poolgate_seconds_bucket{hook=\"validate\",le=\"1\"} 2\n"
			   "poolgate_seconds_bucket{hook=\"validate\",le=\"+Inf\"} 3\n"
			   "poolgate_seconds_sum{hook=\"validate\"} 5.002001\n"
			   "poolgate_seconds_count{hook=\"validate\"} 3\n"
			   "# HELP poolgate_expiry_seconds End.\n"
			   "# TYPE poolgate_expiry_seconds gauge\n"
			   "poolgate_expiry_seconds -1.25\n";
	assert_string_equal(render(m), want);
	assert_int_equal(metric_value(m, REVIEWS, 1, 2), 42);
	assert_int_equal(metric_value(m, LATENCY, 1, 0), 3);
	metrics_free(m);
	metrics_free(NULL);
}

/* Nothing that is not in the table can be counted. */
TEST(stays_in_the_table)
{
	struct metrics *m = metrics_new(desc, NDESC);
	char before[sizeof(text)];
	memcpy(before, render(m), sizeof(before));
	metric_add(m, NDESC, 0, 0, 1);
	metric_add(m, REVIEWS, 2, 0, 1);
	metric_add(m, REVIEWS, 0, 3, 1);
	metric_add(m, READY, 0, 1, 1);
	metric_add(m, LATENCY, 0, 0, 1);
	metric_set(m, LATENCY, 0, 0, 1);
	metric_observe(m, REVIEWS, 0, 0, 1);
	metric_observe(m, LATENCY, 2, 0, 1);
	metric_observe(m, LATENCY, SIZE_MAX, SIZE_MAX, 1);
	assert_string_equal(render(m), before);
	assert_int_equal(metric_value(m, REVIEWS, 9, 9), 0);
	metrics_free(m);
}

TEST(third_label)
{
	static const char *const places[] = {"here", "there", NULL};
	static const struct metric_desc three[] = {
		{.name = "poolgate_three_total",
			.help = "Three.",
			.type = METRIC_COUNTER,
			.label = {{"hook", hooks}, {"verdict", verdicts}, {"place", places}}},
		{.name = "poolgate_after", .help = "After.", .type = METRIC_GAUGE}};
	struct metrics *m = metrics_new(three, 2);
	metric_add3(m, 0, 1, 2, 1, 3);
	metric_add3(m, 0, 1, 2, 0, 4);
	metric_add3(m, 0, 1, 2, 2, 100);
	metric_add3(m, 0, 1, 3, 0, 100);
	metric_add(m, 0, 0, 0, 1);
	metric_set(m, 1, 0, 0, 9);
	const char *t = render(m);
	assert_non_null(strstr(t,
		"\npoolgate_three_total{hook=\"validate\",verdict=\"error\",place=\"there\"} 3\n"));
	assert_non_null(strstr(t,
		"\npoolgate_three_total{hook=\"validate\",verdict=\"error\",place=\"here\"} 4\n"));
	assert_non_null(strstr(t,
		"\npoolgate_three_total{hook=\"mutate\",verdict=\"allowed\",place=\"here\"} 1\n"));
	assert_non_null(strstr(t, "\npoolgate_after 9\n"));
	assert_int_equal(metric_value(m, 0, 1, 2), 7);
	assert_int_equal(metric_value(m, 1, 0, 0), 9);
	metrics_free(m);
}

TEST(samples_of_other_tables)
{
	struct buf b;
	buf_init(&b, 4096);
	const struct slice labels[] = {
		SLICE("server"), SLICE("a\"b\\c\nd"), SLICE("model"), SLICE("V100")};
	metric_head(&b, "x", "Help.", METRIC_GAUGE);
	metric_sample(&b, "x", labels, 4, 7, 1);
	metric_sample(&b, "x", NULL, 0, INT64_MIN, 1);
	metric_sample(&b, "x", labels, 2, 1, 1000000);
	buf_char(&b, '\0');
	assert_string_equal(b.data, "# HELP x Help.\n# TYPE x gauge\n"
				    "x{server=\"a\\\"b\\\\c\\nd\",model=\"V100\"} 7\n"
				    "x -9223372036854775808\n"
				    "x{server=\"a\\\"b\\\\c\\nd\"} 0.000001\n");
	buf_release(&b);
}

static void *count(void *arg)
{
	for (int i = 0; i < 20000; i++) {
		metric_add(arg, REVIEWS, 0, 1, 1);
		metric_observe(arg, LATENCY, 0, 0, i);
	}
	return NULL;
}

TEST(counts_from_threads)
{
	struct metrics *m = metrics_new(desc, NDESC);
	pthread_t thread[4];
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, count, m), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(metric_value(m, REVIEWS, 0, 1), 80000);
	assert_int_equal(metric_value(m, LATENCY, 0, 0), 80000);
	assert_non_null(
		strstr(render(m), "poolgate_seconds_bucket{hook=\"mutate\",le=\"0.001\"} 4004\n"));
	metrics_free(m);
}

TESTS(renders, stays_in_the_table, third_label, samples_of_other_tables, counts_from_threads)

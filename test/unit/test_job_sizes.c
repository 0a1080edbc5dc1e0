/* SPDX-License-Identifier: Apache-2.0 */
/* test: Jobs are asked how large gangs are (W11): in turn, and not all at once. */
#include "base/clock.h"
#include "test/unit/claims_api.h"
#include "test/unit/test.h"
#include "webhook/cluster/claims/job_sizes.h"

#define JOB "{\"metadata\":{\"name\":\"three\",\"uid\":\"o1\"},\"spec\":{\"parallelism\":3}}"
#define CROWD 600
#define JOBS_ASKED "/apis/batch/*"

static int64_t nothing(void *ctx, struct duty *d)
{
	(void)ctx, (void)d;
	return INT64_MAX / 2;
}

static struct queue_pod crowd[CROWD + 1];

/* Each of a Job of namespace m, and the last of one of namespace n. When more may be known. */
static int64_t ask_for_all(void)
{
	static struct pod_waiting many[CROWD + 1];
	static struct pod_waiting *list[CROWD + 1];
	static char uids[CROWD][8];
	struct job_sizes *sizes = job_sizes_new(api->kube, &api->pool->log);
	struct duty *self = duty_start("none", nothing, NULL, NULL);
	int64_t next;
	size_t asked;

	assert_true(sizes && self);
	for (size_t i = 0; i <= CROWD; i++) {
		if (i < CROWD)
			(void)snprintf(uids[i], sizeof(uids[i]), "m%zu", i);
		crowd[i] = (struct queue_pod){.namespace = slice_of(i < CROWD ? "m" : "n"),
			.name = slice_of("p"),
			.gang_job = true,
			.owner = slice_of(i < CROWD ? uids[i] : "o1")};
		many[i] = (struct pod_waiting){.pod = crowd[i], .job = slice_of("three")};
		list[i] = &many[i];
	}
	next = job_sizes_read(sizes, self, list, crowd, CROWD + 1);
	asked = api_seen_of(api->api, "GET", JOBS_ASKED);
	if (api_now_ms() < next)
		(void)job_sizes_read(sizes, self, list, crowd, CROWD + 1);
	/* Another round in the same second asks for nothing more. */
	if (api_now_ms() < next)
		assert_int_equal(api_seen_of(api->api, "GET", JOBS_ASKED), asked);
	job_sizes_free(sizes);
	duty_stop(self);
	return next;
}

/* Jobs of one namespace do not keep those of another from being asked, nor is all asked at once. */
TEST(w11_many_jobs)
{
	int64_t next;

	api->job[0].name = "three";
	api->job[0].text = JOB;
	next = ask_for_all();
	assert_int_equal(crowd[CROWD].gang_size, 3);
	assert_int_equal(crowd[0].gang_size, 0);
	assert_in_range(api_seen_of(api->api, "GET", JOBS_ASKED), 2, 256);
	/* the others are asked in their turn, but not at once */
	assert_true(next > api_now_ms());
}

/* Where one has no answer the others are not asked now. */
TEST(w11_jobs_of_an_api_server_that_is_away)
{
	for (size_t i = 0; i <= CROWD; i++)
		api_expect(api->api, "GET", JOBS_ASKED, 500, "");
	(void)ask_for_all();
	assert_in_range(api_seen_of(api->api, "GET", JOBS_ASKED), 1, 64);
}

#define ASKED "/apis/batch/v1/namespaces/m/jobs/three"
#define FORBIDDEN                                                                                  \
	"{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Forbidden\",\"code\":403}"
#define NOT_FOUND                                                                                  \
	"{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"NotFound\",\"code\":404}"

/* Two pods of one Job, and two whose gang is none of a Job's that is known: the Job is asked once,
 * and not again before its time, while somebody waits with it. */
TEST(w11_what_a_job_says_and_for_how_long)
{
	static const struct {
		int status;
		const char *body;
		uint32_t size;
		int64_t ms;
	} rows[] = {
		{200, JOB, 3, 5000},
		{200,
			"{\"metadata\":{\"name\":\"three\",\"uid\":\"o2\"},\"spec\":{"
			"\"parallelism\":3}}",
			0, 5000},
		{404, NOT_FOUND, 0, 5000},
		{403, FORBIDDEN, 0, 60000},
		{500, "", 0, 5000},
	};
	struct duty *self = duty_start("none", nothing, NULL, NULL);

	assert_non_null(self);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct job_sizes *sizes = job_sizes_new(api->kube, &api->pool->log);
		struct pod_waiting many[4], *list[4];
		struct queue_pod pods[4];
		size_t before = api_seen_of(api->api, "GET", ASKED);

		for (size_t k = 0; k < 4; k++) {
			pods[k] = (struct queue_pod){.namespace = SLICE("m"),
				.name = SLICE("p"),
				.gang_job = k != 2,
				.gang_size = k >= 2 ? 7 : 9,
				.owner = SLICE("o1")};
			many[k] = (struct pod_waiting){
				.pod = pods[k], .job = k == 3 ? (struct slice){0} : SLICE("three")};
			list[k] = &many[k];
		}
		api_expect(api->api, "GET", ASKED, rows[i].status, rows[i].body);
		for (int round = 0; round < 2; round++) {
			int64_t next = job_sizes_read(sizes, self, list, pods, 4) - clock_ms();

			assert_in_range(next, rows[i].ms - 900, rows[i].ms);
			for (size_t k = 0; k < 4; k++)
				assert_int_equal(pods[k].gang_size, k < 2 ? rows[i].size : 7);
			assert_int_equal(api_seen_of(api->api, "GET", ASKED), before + 1);
		}
		/* nobody waits with it for a round: it is forgotten */
		assert_true(job_sizes_read(sizes, self, list + 2, pods + 2, 2) == INT64_MAX);
		api_nap(1100);
		api_expect(api->api, "GET", ASKED, 200, JOB);
		(void)job_sizes_read(sizes, self, list, pods, 4);
		assert_int_equal(api_seen_of(api->api, "GET", ASKED), before + 2);
		assert_int_equal(pods[1].gang_size, 3);
		job_sizes_free(sizes);
	}
	duty_stop(self);
}

/* One name begins as another one; their pods come in no order. */
static const char *namespace_of(size_t i)
{
	return i % 30 == 0 ? "ab" : i % 2 ? "a" : "b";
}

static size_t asked_of(size_t i)
{
	char path[96];

	(void)snprintf(
		path, sizeof(path), "/apis/batch/v1/namespaces/%s/jobs/j%zu", namespace_of(i), i);
	return api_seen_of(api->api, "GET", path);
}

/* One of each namespace, and then the next; in each first who was never asked, then who was asked
 * longest ago. A namespace of few Jobs gets an answer for each of them. */
TEST(w11_in_turn)
{
	static const size_t first[] = {0, 1, 2}; /* of ab, a and b */
	static struct pod_waiting many[CROWD];
	static struct pod_waiting *list[CROWD];
	static char names[CROWD][24];
	struct job_sizes *sizes = job_sizes_new(api->kube, &api->pool->log);
	struct duty *self = duty_start("none", nothing, NULL, NULL);

	assert_true(sizes && self);
	for (size_t i = 0; i < CROWD; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "j%zu", i);
		crowd[i] = (struct queue_pod){.namespace = slice_of(namespace_of(i)),
			.name = slice_of("p"),
			.gang_job = true,
			.owner = slice_of("o1")};
		many[i] = (struct pod_waiting){.pod = crowd[i], .job = slice_of(names[i])};
		list[i] = &many[i];
	}
	for (size_t round = 1; round <= 4; round++) {
		(void)job_sizes_read(sizes, self, list, crowd, CROWD);
		for (size_t k = 0; k < COUNT(first); k++) {
			size_t least = SIZE_MAX, most = 0, sum = 0;

			for (size_t i = 0; i < CROWD; i++) {
				size_t n;

				if (strcmp(namespace_of(i), namespace_of(first[k])) != 0)
					continue;
				n = asked_of(i);
				sum += n;
				least = n < least ? n : least;
				most = n > most ? n : most;
			}
			assert_int_equal(sum, round * (k == 0 ? 20 : 118));
			assert_true(most - least <= 1);
		}
		/* all may be asked once more */
		api_nap(6000);
	}
	job_sizes_free(sizes);
	duty_stop(self);
}

TESTS_BETWEEN(claims_api_begin, claims_api_end, w11_many_jobs,
	w11_jobs_of_an_api_server_that_is_away, w11_what_a_job_says_and_for_how_long, w11_in_turn)

/* SPDX-License-Identifier: Apache-2.0 */
/* test: a world for the checks of a GPU. */
#include "test/unit/check_fixture.h"

#include "probe/check/checks_peer.h"
#include "test/unit/fake_rt.h"
#include "test/unit/test.h"

#define SMS 2

static const struct rt *rt; /* the fake */

static bool ask_peer(struct check_world *w, struct check_result *r);

const struct subject subjects[SUBJECTS] = {{CHECK_REMOTE_RTT, check_round_trip, 30},
	{CHECK_LAUNCH, check_round_trip, 30}, {CHECK_LAUNCH_WAIT, check_round_trip, 30},
	{CHECK_REMOTE_BANDWIDTH, check_link_rate, 2}, {CHECK_H2D_4K, check_link_rate, 30},
	{CHECK_D2H_4K, check_link_rate, 30}, {CHECK_H2D_1M, check_link_rate, 8},
	{CHECK_D2H_1M, check_link_rate, 8}, {CHECK_H2D_32M, check_link_rate, 0},
	{CHECK_D2H_32M, check_link_rate, 0}, {CHECK_EXACT_FP32, check_exact, 30},
	{CHECK_EXACT_FP64, check_exact, 30}, {CHECK_EXACT_TENSOR, check_exact, 30},
	{CHECK_SHARED_MEMORY, check_shared_memory, 30}, {CHECK_MEM_PATTERN, check_mem_pattern, 30},
	{CHECK_MEM_READ, check_mem_rate, 30}, {CHECK_MEM_WRITE, check_mem_rate, 30},
	{CHECK_MEM_COPY, check_mem_rate, 30}, {CHECK_H2D, check_link_rate, 2},
	{CHECK_D2H, check_link_rate, 2}, {CHECK_P2P, ask_peer, 30},
	{CHECK_FP32_RATE, check_flop_rate, 8}, {CHECK_FP64_RATE, check_flop_rate, 8},
	{CHECK_TENSOR_RATE, check_flop_rate, 8}};

/* ---- the world of a check ---- */

struct worker_job check_job;
struct gpu_report check_gpu, check_peer_gpu;
static struct thresholds thresholds;
unsigned stop_at, times_asked;
double first_within_s, within_s;
char progress_words[64];

static void within(void *arg, double seconds)
{
	(void)arg;
	if (first_within_s == 0)
		first_within_s = seconds;
	within_s = seconds;
}

static void progress(void *arg, double done, const char *text)
{
	(void)arg;
	assert_true(done >= 0 && done <= 1);
	snprintf(progress_words, sizeof(progress_words), "%.2f %s", done, text);
}

static bool stopped(void *arg)
{
	(void)arg;
	return ++times_asked >= stop_at && stop_at != 0;
}

static struct gpu_report a_gpu(void)
{
	struct gpu_report g;

	report_gpu_init(&g);
	g.cc_major = 9;
	g.cc_minor = 0;
	g.sm_count = SMS;
	g.memory_total_bytes = 320ll << 20;
	g.memory_free_bytes = 300ll << 20;
	g.l2_bytes = 4 << 20;
	g.clock_max_mhz = 1980;
	g.memory_clock_max_mhz = 3201;
	g.memory_bus_bits = 6144;
	return g;
}

/* A healthy GPU that nobody else uses, and `verify` of it. */
struct check_world a_world(const char *scenario)
{
	fake_rt_use(scenario);
	check_job = (struct worker_job){
		.task = TASK_GPU, .profile = PROFILE_VERIFY, .seed = 7, .memory_bytes = 3 << 20};
	check_gpu = check_peer_gpu = a_gpu();
	check_peer_gpu.index = 1;
	check_peer_gpu.memory_free_bytes = 8 << 20;
	stop_at = times_asked = 0;
	first_within_s = within_s = 0;
	thresholds_init(&thresholds);
	return (struct check_world){.rt = spoiled_rt_begin(rt),
		.job = &check_job,
		.gpu = &check_gpu,
		.thresholds = &thresholds,
		.seed = 7,
		.within = within,
		.progress = progress,
		.stopped = stopped};
}

struct check_world healthy_world(void)
{
	return a_world(WORLD(""));
}

static bool ask_peer(struct check_world *w, struct check_result *r)
{
	struct check_world to = *w;

	to.gpu = &check_peer_gpu;
	return check_peer(w, 0, &to, 1, r);
}

struct check_result ask(struct check_world *w, enum check_id id)
{
	const struct subject *s = subjects;
	struct check_result r;

	while (s->id != id)
		s++;
	check_begin(&r, id);
	if (s->check(w, &r) != cuda_usable(&r))
		fail_msg("%s: %s, and the context can%s be used", check_title(id), r.message,
			cuda_usable(&r) ? "" : "not");
	if (cuda_usable(&r) && spoiled.owned != 0)
		fail_msg("%s: %u not given back", check_title(id), spoiled.owned);
	return r;
}

int check_begin_group(void **state)
{
	int ret = fake_rt_begin(state);

	rt = *state;
	return ret;
}

int check_end_group(void **state)
{
	(void)spoiled_rt_begin(rt);
	return fake_rt_end(state);
}

const char *check_title(enum check_id id)
{
	return check_kind(id)->id;
}

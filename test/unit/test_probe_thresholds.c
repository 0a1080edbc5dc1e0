/* SPDX-License-Identifier: Apache-2.0 */
/* test: probe/result/thresholds: peaks by formula against the published ones, whose expectation
 * counts, peers, and the file. Tables of figures by model have been wrong by a factor of ten and
 * could not fail; so the formula is held to the data sheets here. */
#include <math.h>

#include "probe/result/thresholds.h"
#include "test/unit/probe_report_fixture.h"
#include "test/unit/test.h"

#define SCHEMA "{\"schema\": \"gpuprobe.thresholds/1\", "

static struct thresholds t;
static struct report r;
static char file[] = "/tmp/probe-thresholds-XXXXXX";

FIXTURE(begin)
{
	thresholds_init(&t);
	healthy_report(&r, PROFILE_BENCH, 3);
	r.n_gpus = 2; /* the third one is looked at where it matters */
	return 0;
}

FIXTURE(finish)
{
	r.n_gpus = 3;
	thresholds_release(&t);
	report_release(&r);
	return 0;
}

/* ---- the formula ---- */

static const struct {
	const char *name;
	int major, minor, sms, clock, memory_clock, bits;
	double memory_gbs, published_gbs, fp32_tf, published_tf;
} cards[] = {
	{"Tesla V100-SXM2", 7, 0, 80, 1530, 877, 4096, 898, 900, 15.7, 15.7},
	{"Tesla T4", 7, 5, 40, 1590, 5001, 256, 320, 320, 8.1, 8.1},
	{"A100-SXM4-40GB", 8, 0, 108, 1410, 1215, 5120, 1555, 1555, 19.5, 19.5},
	{"A100-SXM4-80GB", 8, 0, 108, 1410, 1593, 5120, 2039, 2039, 19.5, 19.5},
	{"H100 80GB HBM3", 9, 0, 132, 1980, 2619, 5120, 3352, 3350, 66.9, 67},
	{"H200", 9, 0, 132, 1980, 3201, 6144, 4917, 4800, 66.9, 67},
};

TEST(peaks_are_those_of_the_data_sheets)
{
	for (size_t i = 0; i < COUNT(cards); i++) {
		struct gpu_report gpu;

		report_gpu_init(&gpu);
		gpu.cc_major = cards[i].major;
		gpu.cc_minor = cards[i].minor;
		gpu.sm_count = cards[i].sms;
		gpu.clock_max_mhz = cards[i].clock;
		gpu.memory_clock_max_mhz = cards[i].memory_clock;
		gpu.memory_bus_bits = cards[i].bits;
		assert_true(fabs(expect_memory_rate(&gpu) / 1e9 - cards[i].memory_gbs) < 1);
		assert_true(
			fabs(expect_memory_rate(&gpu) / 1e9 / cards[i].published_gbs - 1) < 0.03);
		assert_true(fabs(expect_fp32_rate(&gpu) / 1e12 - cards[i].fp32_tf) < 0.1);
		assert_true(fabs(expect_fp32_rate(&gpu) / 1e12 / cards[i].published_tf - 1) < 0.03);
	}
}

TEST(says_nothing_without_its_figures)
{
	struct gpu_report *gpu = &r.gpus[0];

	gpu->memory_clock_max_mhz = 0;
	assert_true(isnan(expect_memory_rate(gpu)));
	gpu->memory_clock_max_mhz = 3201;
	gpu->memory_bus_bits = -1;
	assert_true(isnan(expect_memory_rate(gpu)));
	gpu->memory_bus_bits = 6144;
	gpu->mig = 1;
	assert_true(isnan(expect_memory_rate(gpu)));
	gpu->clock_max_mhz = -1;
	assert_true(isnan(expect_fp32_rate(gpu)));
	gpu->clock_max_mhz = 1980;
	gpu->cc_major = 99;
	assert_true(isnan(expect_fp32_rate(gpu)));
}

/* ---- whose expectation counts ---- */

static struct check_result judged(enum check_id id, double value)
{
	struct check_result c;

	check_begin(&c, id);
	c.value = value;
	c.unit = "B/s";
	thresholds_expect(&t, &r.gpus[0], &c);
	check_judge_rate(&c);
	return c;
}

TEST(clocks)
{
	double peak = expect_memory_rate(&r.gpus[0]);

	assert_int_equal(judged(CHECK_MEM_READ, 0.81 * peak).status, STATUS_PASS);
	assert_int_equal(judged(CHECK_MEM_READ, 0.79 * peak).status, STATUS_WARN);
	assert_int_equal(judged(CHECK_MEM_READ, 0.69 * peak).status, STATUS_FAIL);
	assert_int_equal(judged(CHECK_MEM_READ, 0.69 * peak).basis, BASIS_CLOCK);
	assert_int_equal(judged(CHECK_MEM_COPY, 0.64 * peak).status, STATUS_FAIL);
	assert_int_equal(
		judged(CHECK_FP32_RATE, 0.39 * expect_fp32_rate(&r.gpus[0])).status, STATUS_FAIL);
	/* no shares are known: left to its peers, not passed by an expectation that cannot fail it
	 */
	assert_int_equal(judged(CHECK_MEM_WRITE, 0.1 * peak).basis, BASIS_NONE);
	assert_int_equal(judged(CHECK_MEM_READ, (double)NAN).code, CODE_NOT_A_NUMBER);
	assert_int_equal(judged(CHECK_MEM_READ, 0).status, STATUS_FAIL);
}

/* The work was not done, or time or clocks are made up: no pass, whatever the expectation, and also
 * where there is none. */
TEST(too_good_is_a_failure)
{
	double memory = expect_memory_rate(&r.gpus[0]), fp32 = expect_fp32_rate(&r.gpus[0]);
	const struct {
		enum check_id id;
		double most;
	} bounds[] = {{CHECK_MEM_READ, 1.05 * memory}, {CHECK_MEM_WRITE, 1.05 * memory},
		{CHECK_MEM_COPY, 1.05 * memory}, {CHECK_H2D, 1.05 * memory},
		{CHECK_D2H, 1.05 * memory}, {CHECK_P2P, 1.05 * memory},
		{CHECK_REMOTE_BANDWIDTH, 1.05 * memory}, {CHECK_FP32_RATE, 1.3 * fp32},
		{CHECK_FP64_RATE, 0.65 * fp32}, {CHECK_TENSOR_RATE, 83.2 * fp32}};

	for (size_t i = 0; i < COUNT(bounds); i++) {
		struct check_result c = judged(bounds[i].id, 0.999 * bounds[i].most);

		assert_int_equal(c.status, STATUS_PASS);
		c = judged(bounds[i].id, 1.001 * bounds[i].most);
		assert_int_equal(c.status, STATUS_FAIL);
		assert_int_equal(c.code, CODE_TOO_FAST);
		/* what a worker tells its parent is held to it, too */
		check_pass(&c);
		assert_non_null(check_doubt(&c));
	}
	/* 44.7 TB/s of 64 GB/s */
	r.gpus[0].memory_clock_max_mhz = 1000;
	r.gpus[0].memory_bus_bits = 256;
	assert_int_equal(judged(CHECK_MEM_READ, 44.7e12).code, CODE_TOO_FAST);
	/* a GPU that does not say bounds nothing */
	r.gpus[0].memory_bus_bits = -1;
	assert_int_equal(judged(CHECK_MEM_READ, 44.7e12).status, STATUS_PASS);
	assert_int_equal(judged(CHECK_H2D, 44.7e12).status, STATUS_PASS);
}

static void write_file(const char *text)
{
	FILE *f = fopen(file, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

#define REFERENCE(read)                                                                            \
	"\"references\": [{\"name\": \"NVIDIA H200\", \"memory_total_bytes\": 150051225600, "      \
	"\"rates\": {\"bench.mem_read\": " read ", \"bench.h2d\": 5e10}}]"

TEST(a_reference_goes_before_clocks)
{
	struct err err = {0};

	write_file(SCHEMA REFERENCE("1e12") "}");
	assert_int_equal(thresholds_read(&t, file, &err), 0);
	assert_int_equal(judged(CHECK_MEM_READ, 0.96e12).status, STATUS_PASS);
	assert_int_equal(judged(CHECK_MEM_READ, 0.94e12).status, STATUS_WARN);
	assert_int_equal(judged(CHECK_MEM_READ, 0.84e12).status, STATUS_FAIL);
	assert_int_equal(judged(CHECK_MEM_READ, 0.84e12).basis, BASIS_REFERENCE);
	assert_int_equal(judged(CHECK_H2D, 4e10).status, STATUS_FAIL);
	assert_int_equal(judged(CHECK_D2H, 4e10).basis, BASIS_NONE);
	/* it was reached once, and the clocks still bound it */
	assert_int_equal(
		judged(CHECK_MEM_READ, 1.06 * expect_memory_rate(&r.gpus[0])).code, CODE_TOO_FAST);
	/* of another memory size, or name: another GPU */
	r.gpus[0].memory_total_bytes--;
	assert_int_equal(judged(CHECK_MEM_READ, 4.5e12).basis, BASIS_CLOCK);
}

TEST(shares_of_the_file_go_before_all)
{
	struct err err = {0};

	write_file(SCHEMA "\"checks\": {\"bench.mem_read\": {\"warn_below\": 0.5, \"fail_below\": "
			  "0.4}, \"peers\": {\"fail_below\": 0.9}, "
			  "\"bench.mem_write\": {\"fail_below\": 0.3}}, " REFERENCE("1e12") "}");
	assert_int_equal(thresholds_read(&t, file, &err), 0);
	assert_int_equal(judged(CHECK_MEM_READ, 0.51e12).status, STATUS_PASS);
	assert_int_equal(judged(CHECK_MEM_READ, 0.39e12).status, STATUS_FAIL);
	assert_int_equal(
		judged(CHECK_MEM_WRITE, 0.2 * expect_memory_rate(&r.gpus[0])).status, STATUS_FAIL);
	assert_true(t.peers.fail_below > 0.89 && t.peers.warn_below > 0.94);
}

TEST(fatal_xids)
{
	struct err err = {0};

	assert_false(t.fatal_xids_given);
	write_file(SCHEMA "\"fatal_xids\": [79, 13]}");
	assert_int_equal(thresholds_read(&t, file, &err), 0);
	assert_true(t.fatal_xids_given);
	assert_int_equal(t.n_fatal_xids, 2);
	assert_int_equal(t.fatal_xids[0], 79);
	assert_int_equal(t.fatal_xids[1], 13);
	write_file(SCHEMA "\"fatal_xids\": []}");
	assert_int_equal(thresholds_read(&t, file, &err), 0);
	assert_true(t.fatal_xids_given);
	assert_int_equal(t.n_fatal_xids, 0);
}

/* One number more than there is room for. */
TEST(too_many_xids)
{
	char text[8 * FATAL_XIDS_MAX + 100];
	struct err err = {0};
	size_t n = (size_t)snprintf(text, sizeof(text), SCHEMA "\"fatal_xids\": [1");

	for (int i = 0; i < FATAL_XIDS_MAX; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, ", %d", 100 + i);
	(void)snprintf(text + n, sizeof(text) - n, "]}");
	write_file(text);
	assert_int_equal(thresholds_read(&t, file, &err), ERR_TOOBIG);
	assert_non_null(strstr(err.msg, "fatal_xids: more than 64 XIDs"));
}

TEST(too_many_references)
{
	struct err err = {0};
	char text[1024];
	size_t n = (size_t)snprintf(text, sizeof(text), SCHEMA "\"references\": [0");

	for (int i = 0; i < 256; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, ",0");
	(void)snprintf(text + n, sizeof(text) - n, "]}");
	write_file(text);
	assert_int_equal(thresholds_read(&t, file, &err), ERR_INVALID);
	assert_non_null(strstr(
		err.msg, "references: found a list of 257, expected an array of at most 256"));
}

TEST(refuses_files)
{
	static const struct {
		const char *text;
		int rc;
		const char *words;
	} cases[] = {{"", ERR_SYNTAX, ""}, {"{", ERR_SYNTAX, ""}, {"[]", ERR_INVALID, "an object"},
		{"{\"schema\": \"gpuprobe.thresholds/2\"}", ERR_INVALID, "thresholds/1"},
		{"{}", ERR_INVALID, "schema"}, {SCHEMA "\"check\": {}}", ERR_INVALID, "check"},
		{SCHEMA "\"checks\": []}", ERR_INVALID, "checks"},
		{SCHEMA "\"checks\": {\"bench.none\": {}}}", ERR_INVALID, "bench.none"},
		{SCHEMA "\"checks\": {\"bench.mem_read\": 0.5}}", ERR_INVALID, "bench.mem_read"},
		{SCHEMA "\"checks\": {\"bench.mem_read\": {\"warn_below\": 1.5}}}", ERR_INVALID,
			"from 0 to 1"},
		{SCHEMA "\"checks\": {\"bench.mem_read\": {\"warn_below\": \"0.5\"}}}", ERR_INVALID,
			"from 0 to 1"},
		{SCHEMA "\"checks\": {\"bench.mem_read\": {\"warn\": 0.5}}}", ERR_INVALID, "warn"},
		{SCHEMA "\"checks\": {\"bench.mem_read\": {\"warn_below\": 0.5}}}", ERR_INVALID,
			"less than fail_below"},
		{SCHEMA "\"references\": {}}", ERR_INVALID, "references"},
		{SCHEMA "\"references\": [{\"name\": \"\", \"memory_total_bytes\": 1, \"rates\": "
			"{}}]}",
			ERR_INVALID, "references"},
		{SCHEMA "\"references\": [{\"name\": \"x\", \"memory_total_bytes\": 0, \"rates\": "
			"{}}]}",
			ERR_INVALID, "bytes"},
		{SCHEMA "\"references\": [{\"name\": \"x\", \"memory_total_bytes\": 1}]}",
			ERR_INVALID, "rates"},
		{SCHEMA "\"references\": [{\"name\": \"x\", \"memory_total_bytes\": 1, \"rates\": "
			"{\"bench.mem_read\": -1}}]}",
			ERR_INVALID, "above 0"},
		{SCHEMA "\"fatal_xids\": {}}", ERR_INVALID, "fatal_xids"},
		{SCHEMA "\"fatal_xids\": [0]}", ERR_INVALID, "from 1 to 99999"},
		{SCHEMA "\"fatal_xids\": [100000]}", ERR_INVALID, "from 1 to 99999"},
		{SCHEMA "\"fatal_xids\": [7.5]}", ERR_INVALID, "from 1 to 99999"},
		{SCHEMA "\"fatal_xids\": [\"79\"]}", ERR_INVALID, "from 1 to 99999"}};
	struct err err = {0};

	for (size_t i = 0; i < COUNT(cases); i++) {
		err = (struct err){0};
		write_file(cases[i].text);
		if (thresholds_read(&t, file, &err) != cases[i].rc ||
			!strstr(err.msg, cases[i].words) || !strstr(err.msg, file))
			fail_msg("%s: %d %s", cases[i].text, err.code, err.msg);
		finish(NULL);
		begin(NULL);
	}
	assert_int_equal(thresholds_read(&t, "/nonexistent/x", &err), ERR_NOTFOUND);
	assert_int_equal(thresholds_read(&t, "/tmp", &err), ERR_IO);
	assert_int_equal(thresholds_read(&t, "/dev/zero", &err), ERR_TOOBIG);
}

TEST(what_is_written_is_read)
{
	struct err err = {0};
	struct buf out;

	report_judge(&r);
	r.gpus[0].checks[CHECK_MEM_WRITE]->status = STATUS_FAIL;
	buf_init(&out, 65536);
	thresholds_write(&r, &out);
	buf_char(&out, '\0');
	write_file(out.data);
	buf_release(&out);
	assert_int_equal(thresholds_read(&t, file, &err), 0);
	assert_int_equal(t.n_references, 1); /* two GPUs of one model */
	assert_true(fabs(t.references[0].rate[CHECK_MEM_READ] / 4.425e12 - 1) < 1e-6);
	assert_true(isnan(t.references[0].rate[CHECK_MEM_WRITE]));
	assert_true(isnan(t.references[0].rate[CHECK_FREE_MEMORY]));
	assert_true(isnan(t.references[0].rate[CHECK_MEM_PATTERN]));
}

/* ---- peers ---- */

static void set_rate(size_t gpu, enum check_id id, double value)
{
	struct check_result c;

	check_begin(&c, id);
	c.value = value;
	c.unit = "B/s";
	check_judge_rate(&c);
	assert_true(report_set_check(&r.gpus[gpu], &c));
}

TEST(peers)
{
	const struct check_result *c;

	set_rate(0, CHECK_FP64_RATE, 1e13);
	set_rate(1, CHECK_FP64_RATE, 0.84e13);
	thresholds_peers(&t, &r);
	c = r.gpus[1].checks[CHECK_FP64_RATE];
	assert_int_equal(c->code, CODE_SLOWER_THAN_PEERS);
	assert_int_equal(c->status, STATUS_FAIL);
	assert_int_equal(r.gpus[0].checks[CHECK_FP64_RATE]->status, STATUS_PASS);
	assert_int_equal(r.gpus[0].checks[CHECK_MEM_READ]->basis, BASIS_CLOCK);
	set_rate(1, CHECK_FP64_RATE, 0.94e13);
	thresholds_peers(&t, &r);
	assert_int_equal(r.gpus[1].checks[CHECK_FP64_RATE]->status, STATUS_WARN);
	/* another model is no peer, nor is one that is alone */
	set_rate(1, CHECK_FP64_RATE, 0.1e13);
	snprintf(r.gpus[1].name, sizeof(r.gpus[1].name), "NVIDIA T4");
	thresholds_peers(&t, &r);
	assert_int_equal(r.gpus[1].checks[CHECK_FP64_RATE]->status, STATUS_PASS);
}

TEST(free_memory_is_no_rate)
{
	struct check_result c;

	for (size_t i = 0; i < 2; i++) {
		check_begin(&c, CHECK_FREE_MEMORY);
		check_pass(&c);
		c.value = i == 0 ? 1e10 : 1e9;
		c.unit = "B";
		assert_true(report_set_check(&r.gpus[i], &c));
	}
	thresholds_peers(&t, &r);
	assert_int_equal(r.gpus[1].checks[CHECK_FREE_MEMORY]->status, STATUS_PASS);
}

TEST(arithmetic_by_generation)
{
	static const struct {
		int major, minor, lanes;
	} of[] = {{4, 0, 0}, {5, 0, 128}, {5, 2, 128}, {6, 0, 64}, {6, 1, 128}, {7, 0, 64},
		{7, 5, 64}, {8, 0, 64}, {8, 6, 128}, {9, 0, 128}, {10, 0, 128}, {12, 0, 128},
		{12, 1, 128}, {13, 0, 0}};
	struct gpu_report gpu;

	for (size_t i = 0; i < COUNT(of); i++) {
		report_gpu_init(&gpu);
		gpu.cc_major = of[i].major;
		gpu.cc_minor = of[i].minor;
		gpu.sm_count = 10;
		gpu.clock_max_mhz = 1000;
		if (of[i].lanes == 0)
			assert_true(isnan(expect_fp32_rate(&gpu)));
		else
			assert_true(expect_fp32_rate(&gpu) == 2e10 * of[i].lanes);
		if (of[i].lanes == 0)
			continue;
		gpu.sm_count = 0;
		assert_true(isnan(expect_fp32_rate(&gpu)));
		gpu.sm_count = 10;
		gpu.clock_max_mhz = 0;
		assert_true(isnan(expect_fp32_rate(&gpu)));
	}
	gpu.memory_clock_max_mhz = 1000;
	gpu.memory_bus_bits = 8;
	assert_true(expect_memory_rate(&gpu) == 2e9);
	gpu.memory_bus_bits = 0;
	assert_true(isnan(expect_memory_rate(&gpu)));
	gpu.memory_bus_bits = 8;
	gpu.memory_clock_max_mhz = 0;
	assert_true(isnan(expect_memory_rate(&gpu)));
}

/* A rate of the second GPU, which said this of itself, beside one of 1e13 of the first: what is
 * made of it. */
static const struct check_result *beside(
	enum check_id id, double value, enum check_status status, int mig)
{
	struct check_result c;

	set_rate(0, id, 1e13);
	check_begin(&c, id);
	c.value = value;
	c.unit = "B/s";
	if (status == STATUS_FAIL)
		check_fail(&c, CODE_KERNEL_FAULT, "lost");
	else
		check_pass(&c);
	r.gpus[1].mig = mig;
	assert_true(report_set_check(&r.gpus[1], &c));
	thresholds_peers(&t, &r);
	return r.gpus[1].checks[id];
}

TEST(who_is_a_peer)
{
	/* as much as is asked for is enough */
	assert_int_equal(beside(CHECK_FP64_RATE, 0.85e13, STATUS_PASS, 0)->status, STATUS_WARN);
	assert_int_equal(beside(CHECK_FP64_RATE, 0.95e13, STATUS_PASS, 0)->status, STATUS_PASS);
	assert_int_equal(beside(CHECK_FP64_RATE, 0.84e13, STATUS_PASS, 0)->status, STATUS_FAIL);
	assert_int_equal(beside(CHECK_TENSOR_RATE, 0.84e13, STATUS_PASS, 0)->status, STATUS_FAIL);
	/* what failed for another reason, and what is no rate, stays as it is and is nobody's peer
	 */
	assert_int_equal(beside(CHECK_FP64_RATE, 0.5e13, STATUS_FAIL, 0)->code, CODE_KERNEL_FAULT);
	assert_int_equal(beside(CHECK_FP64_RATE, 0, STATUS_PASS, 0)->status, STATUS_PASS);
	assert_int_equal(r.gpus[0].checks[CHECK_FP64_RATE]->basis, BASIS_NONE);
	(void)beside(CHECK_FP64_RATE, NAN, STATUS_PASS, 0);
	assert_int_equal(r.gpus[0].checks[CHECK_FP64_RATE]->basis, BASIS_NONE);
	(void)beside(CHECK_FP64_RATE, INFINITY, STATUS_PASS, 0);
	assert_int_equal(r.gpus[0].checks[CHECK_FP64_RATE]->basis, BASIS_NONE);
	/* instances share their GPU's link to the host, and nothing else */
	assert_int_equal(beside(CHECK_H2D, 0.5e13, STATUS_PASS, 1)->status, STATUS_PASS);
	assert_int_equal(beside(CHECK_D2H, 0.5e13, STATUS_PASS, 1)->status, STATUS_PASS);
	assert_int_equal(beside(CHECK_FP64_RATE, 0.5e13, STATUS_PASS, 1)->status, STATUS_FAIL);
	assert_int_equal(beside(CHECK_H2D, 0.5e13, STATUS_PASS, 0)->status, STATUS_FAIL);
	assert_int_equal(beside(CHECK_D2H, 0.5e13, STATUS_PASS, 0)->status, STATUS_FAIL);
	/* two peers make no rate of what is none */
	r.n_gpus = 3;
	set_rate(2, CHECK_FP64_RATE, 1e13);
	assert_int_equal(beside(CHECK_FP64_RATE, 0, STATUS_PASS, 0)->basis, BASIS_NONE);
	assert_int_equal(r.gpus[0].checks[CHECK_FP64_RATE]->basis, BASIS_PEERS);
	r.n_gpus = 2;
	/* a GPU that is not of the report any more, and one that is alone */
	r.n_gpus = 1;
	set_rate(0, CHECK_FP64_RATE, 1e12);
	thresholds_peers(&t, &r);
	assert_int_equal(r.gpus[0].checks[CHECK_FP64_RATE]->basis, BASIS_NONE);
	r.n_gpus = 2;
}

TEST(rates_are_those_of_bench)
{
	assert_true(thresholds_is_rate(CHECK_MEM_READ) && thresholds_is_rate(CHECK_TENSOR_RATE));
	assert_false(thresholds_is_rate(CHECK_MEM_PATTERN) || thresholds_is_rate(CHECK_P2P) ||
		     thresholds_is_rate(CHECK_NVML_THROTTLE));
}

FIXTURE(make_file)
{
	int fd = mkstemp(file);

	return fd < 0 ? -1 : close(fd);
}

FIXTURE(remove_file)
{
	return unlink(file);
}

TESTS_ALL(make_file, remove_file, begin, finish, peaks_are_those_of_the_data_sheets,
	says_nothing_without_its_figures, clocks, too_good_is_a_failure,
	a_reference_goes_before_clocks, shares_of_the_file_go_before_all, fatal_xids, too_many_xids,
	too_many_references, refuses_files, what_is_written_is_read, peers, free_memory_is_no_rate,
	arithmetic_by_generation, who_is_a_peer, rates_are_those_of_bench)

/* SPDX-License-Identifier: Apache-2.0 */
/* test: what goes between gpuprobe and its workers: jobs and lines, there and back, and what is no
 * such thing. */
#include <math.h>

#include "probe/check/worker.h"
#include "probe/check/worker_wire.h"
#include "test/unit/test.h"

/* ---- jobs ---- */

TEST(jobs_come_back)
{
	const struct worker_job job = {.task = TASK_NVML_WATCH,
		.profile = PROFILE_STRESS,
		.index = 127,
		.visible = "MIG-1",
		.free_memory = true,
		.busy = true,
		.seed = UINT64_MAX,
		.memory_share = 0.25,
		.memory_bytes = 1LL << 40,
		.seconds = 1.5,
		.thresholds = "a \"quoted\" \\ file",
		.nvml = "x.so",
		.plant = 2};
	struct worker_job again;
	struct err err = {0};
	struct buf text;

	buf_init(&text, 4096);
	worker_job_write(&job, &text);
	buf_char(&text, '\0');
	assert_int_equal(worker_job_read(text.data, &again, &err), 0);
	assert_int_equal(again.task, job.task);
	assert_int_equal(again.profile, job.profile);
	assert_int_equal(again.index, job.index);
	assert_string_equal(again.visible, job.visible);
	assert_true(again.free_memory && again.busy && !again.remote);
	assert_true(again.seed == job.seed);
	assert_true(again.memory_share == job.memory_share && again.seconds == job.seconds);
	assert_int_equal(again.memory_bytes, job.memory_bytes);
	assert_string_equal(again.thresholds, job.thresholds);
	assert_string_equal(again.nvml, job.nvml);
	assert_null(again.cudart);
	assert_int_equal(again.plant, job.plant);
	worker_job_release(&again);
	buf_release(&text);
}

TEST(jobs_of_pairs_come_back)
{
	const struct worker_job job = {
		.task = TASK_PAIR, .profile = PROFILE_BENCH, .index = 3, .peer = 126};
	struct worker_job again;
	struct buf text;

	buf_init(&text, 4096);
	worker_job_write(&job, &text);
	buf_char(&text, '\0');
	assert_int_equal(worker_job_read(text.data, &again, NULL), 0);
	assert_int_equal(again.task, TASK_PAIR);
	assert_int_equal(again.index, 3);
	assert_int_equal(again.peer, 126);
	worker_job_release(&again);
	buf_release(&text);
}

/* As the versions write it whose jobs were no table. */
TEST(a_job_of_an_older_gpuprobe_is_read)
{
	static const struct {
		const char *seed;
		uint64_t is;
	} seeds[] = {{"0", 0}, {"f", 15}, {"1f2", 0x1f2}, {"0000000000000001", 1},
		{"ffffffffffffffff", UINT64_MAX}};

	for (size_t i = 0; i < COUNT(seeds); i++) {
		struct worker_job job;
		struct err err = {0};
		char text[320];

		(void)snprintf(text, sizeof(text),
			"{\"task\":0,\"profile\":1,\"index\":2,\"peer\":0,\"free\":false,"
			"\"remote\":false,\"busy\":false,\"seed\":\"%s\",\"share\":0.5000,"
			"\"bytes\":0,\"seconds\":2.000,\"plant\":0}",
			seeds[i].seed);
		if (worker_job_read(text, &job, &err) != 0)
			fail_msg("%s: %s", text, err.msg);
		assert_true(job.seed == seeds[i].is);
		assert_int_equal(job.index, 2);
		assert_true(job.seconds == 2 && job.memory_share == 0.5);
		worker_job_release(&job);
	}
}

TEST(refuses_what_is_no_job)
{
	static const char *const texts[] = {"", "{", "[]", "{}",
		"{\"task\":0,\"profile\":0,\"index\":128}",
		"{\"task\":0,\"profile\":0,\"index\":-1}",
		"{\"task\":0,\"profile\":99,\"index\":0}", "{\"task\":4,\"profile\":0,\"index\":0}",
		"{\"task\":-1,\"profile\":0,\"index\":0}", "{\"task\":5,\"profile\":4,\"index\":0}",
		"{\"task\":4,\"profile\":4,\"index\":1,\"peer\":1}",
		"{\"task\":4,\"profile\":4,\"index\":1,\"peer\":-1}",
		"{\"task\":0,\"profile\":\"list\",\"index\":0}",
		"{\"task\":0,\"profile\":0,\"index\":0,\"seed\":\"\"}",
		"{\"task\":0,\"profile\":0,\"index\":0,\"seed\":\"g\"}",
		"{\"task\":0,\"profile\":0,\"index\":0,\"seed\":\"00000000000000001\"}"};

	for (size_t i = 0; i < COUNT(texts); i++) {
		struct worker_job job;
		struct err err = {0};

		if (worker_job_read(texts[i], &job, &err) == 0)
			fail_msg("taken: %s", texts[i]);
		assert_true(err.msg[0]);
		assert_null(job.visible);
	}
}

/* ---- lines ---- */

/* A line as its reader has it; it tells the same. */
static struct wire_line told(const struct wire_line *line)
{
	struct wire_line again;
	struct buf first, second;
	struct err err = {0};

	buf_init(&first, WIRE_LINE_MAX);
	buf_init(&second, WIRE_LINE_MAX);
	wire_write(line, &first);
	assert_false(first.failed);
	assert_int_equal(first.data[first.len - 1], '\n');
	assert_null(memchr(first.data, '\n', first.len - 1));
	if (wire_read((struct slice){first.data, first.len - 1}, &again, &err) != 0)
		fail_msg("%s: %.*s", err.msg, (int)first.len, first.data);
	assert_int_equal(again.kind, line->kind);
	wire_write(&again, &second);
	assert_true(slice_eq(buf_as_slice(&first), buf_as_slice(&second)));
	buf_release(&first);
	buf_release(&second);
	return again;
}

static void assert_comes_back(const struct wire_line *line)
{
	(void)told(line);
}

TEST(lines_come_back)
{
	struct wire_line lines[] = {
		{.kind = WIRE_RUNTIME,
			.driver = 12090,
			.runtime = 12080,
			.devices = -1,
			.link = "static",
			.archs = "sm_75 compute_120"},
		{.kind = WIRE_WITHIN, .text = "a \"phase\"\n\t", .seconds = 20.5},
		{.kind = WIRE_PROGRESS, .done = 0.4567, .text = "memory: write"},
		{.kind = WIRE_ERROR,
			.error = {.gpu = -1,
				.code = CODE_NO_DEVICE,
				.cuda_error = 100,
				.message = "none\n"}},
		{.kind = WIRE_ERROR,
			.error = {.gpu = 3,
				.code = CODE_RUNTIME_INCOMPLETE,
				.cuda_error = -1,
				.message = ""}},
		{.kind = WIRE_NVML, .text = "580.159.04", .devices = 8},
		{.kind = WIRE_STATE,
			.state = {.uuid = "GPU-1",
				.pci = "0000:17:00.0",
				.nvml = {.throttle_known = true,
					.throttle = 0x44,
					.ecc_uncorrected = 1LL << 50,
					.pcie_gen = -1,
					.memory_total = 1LL << 50}}},
		{.kind = WIRE_STATE, .state = {.lost = true}},
		{.kind = WIRE_DONE},
		{.kind = WIRE_LINK, .reverse = true, .from = "GPU-1", .to = "GPU-0"},
	};

	check_begin(&lines[COUNT(lines) - 1].check, CHECK_P2P);
	for (size_t i = 0; i < COUNT(lines); i++)
		assert_comes_back(&lines[i]);
}

TEST(gpus_and_checks_come_back)
{
	struct wire_line line = {.kind = WIRE_GPU};

	report_gpu_init(&line.gpu);
	assert_comes_back(&line);
	line.gpu.index = 7;
	line.gpu.memory_total_bytes = 1LL << 50;
	memset(line.gpu.name, 'x', sizeof(line.gpu.name) - 1);
	assert_comes_back(&line);
	line = (struct wire_line){.kind = WIRE_CHECK};
	for (int id = 0; id < CHECK_COUNT; id++) {
		check_begin(&line.check, (enum check_id)id);
		assert_comes_back(&line);
	}
	check_begin(&line.check, CHECK_MEM_PATTERN);
	check_fail(&line.check, CODE_MEMORY_ERRORS, "%s", "one \"cell\"");
	line.check.errors = 1;
	line.check.n_memory = 1;
	line.check.memory[0] = (struct memory_error){
		.offset = 1ull << 50, .expected = {1, 2}, .got = {UINT64_MAX, 0}, .again = {3, 4}};
	for (line.check.beyond_l2 = -1; line.check.beyond_l2 <= 1; line.check.beyond_l2++) {
		struct wire_line again = told(&line);

		assert_int_equal(again.check.beyond_l2, line.check.beyond_l2);
		assert_true(isnan(again.check.fail_above));
	}
	/* a clock that went backwards, by nearly nothing */
	check_begin(&line.check, CHECK_MEM_READ);
	line.check.unit = "B/s";
	line.check.value = -1e300;
	line.check.fail_above = 4.9e12;
	check_fail(&line.check, CODE_SLOW, "nothing was measured");
	assert_true(told(&line).check.value == -1e300);
	assert_true(told(&line).check.fail_above == 4.9e12);
	check_begin(&line.check, CHECK_MEM_READ);
	line.check.value = (double)NAN;
	check_fail(&line.check, CODE_NOT_A_NUMBER, "no number");
	assert_comes_back(&line);
}

TEST(refuses_what_is_no_line)
{
	static const char *const texts[] = {"", " ", "nonsense", "{", "[]", "null", "{}",
		"{\"unknown\":1}", "{\"done\":false}", "{\"done\":1}", "{\"runtime\":{}}",
		"{\"runtime\":{\"driver\":1,\"runtime\":1,\"devices\":1e9,\"link\":\"x\"}}",
		"{\"runtime\":{\"driver\":1,\"runtime\":1,\"devices\":129,\"link\":\"x\"}}",
		"{\"runtime\":{\"driver\":1,\"runtime\":1,\"devices\":1,\"link\":\"much too long "
		"for a word\"}}",
		"{\"within\":{\"phase\":\"x\",\"s\":-1}}",
		"{\"within\":{\"phase\":\"x\",\"s\":1e300}}",
		"{\"within\":{\"phase\":\"x\",\"s\":NaN}}", "{\"within\":{\"phase\":7,\"s\":1}}",
		"{\"progress\":{\"done\":2,\"text\":\"\"}}", "{\"progress\":{\"done\":0.5}}",
		"{\"error\":{\"gpu\":0,\"code\":\"FINE\",\"cuda\":0,\"message\":\"\"}}",
		"{\"error\":{\"gpu\":0,\"code\":\"\",\"cuda\":0,\"message\":\"\"}}",
		"{\"error\":{\"gpu\":-2,\"code\":\"HANG\",\"cuda\":0,\"message\":\"\"}}",
		"{\"gpu\":{\"index\":0}}", "{\"gpu\":[]}",
		"{\"state\":{\"uuid\":\"\",\"pci\":\"\",\"lost\":0}}",
		"{\"check\":{\"id\":\"mem.none\",\"status\":\"pass\"}}",
		"{\"check\":{\"id\":\"mem.pattern\",\"status\":\"passed\"}}", "{\"check\":true}",
		"{\"link\":{}}", "{\"link\":{\"reverse\":false,\"from\":\"\",\"to\":\"\"}}",
		"{\"link\":{\"reverse\":0,\"from\":\"\",\"to\":\"\",\"check\":{\"id\":\"bench."
		"p2p\","
		"\"status\":\"pass\"}}}",
		"{\"link\":{\"reverse\":false,\"from\":\"\",\"to\":\"\",\"check\":{\"id\":\"mem."
		"shared\","
		"\"status\":\"pass\"}}}",
		/* its check passed, and was read before it shows that the line is none */
		"{\"link\":{\"reverse\":true,\"to\":\"\",\"check\":{\"id\":\"bench.p2p\","
		"\"status\":\"pass\"}}}",
		"{\"done\":true}{\"done\":true}"};

	for (size_t i = 0; i < COUNT(texts); i++) {
		struct wire_line line;
		struct err err = {0};

		if (wire_read(slice_of(texts[i]), &line, &err) == 0)
			fail_msg("taken: %s", texts[i]);
		assert_true(err.msg[0] && err.code != 0);
		assert_int_not_equal(line.check.status, STATUS_PASS);
		/* nobody asks why */
		assert_int_not_equal(wire_read(slice_of(texts[i]), &line, NULL), 0);
	}
}

/* Cut anywhere, a line is no line. */
TEST(refuses_parts)
{
	struct wire_line line = {.kind = WIRE_CHECK}, again;
	struct buf text;

	check_begin(&line.check, CHECK_SHARED_MEMORY);
	line.check.errors = 0;
	line.check.bytes_tested = 1;
	check_pass(&line.check);
	buf_init(&text, WIRE_LINE_MAX);
	wire_write(&line, &text);
	for (size_t n = 0; n + 1 < text.len; n++)
		assert_int_not_equal(wire_read((struct slice){text.data, n}, &again, NULL), 0);
	assert_int_equal(wire_read((struct slice){text.data, text.len - 1}, &again, NULL), 0);
	buf_release(&text);
}

TESTS(jobs_come_back, jobs_of_pairs_come_back, a_job_of_an_older_gpuprobe_is_read,
	refuses_what_is_no_job, lines_come_back, gpus_and_checks_come_back, refuses_what_is_no_line,
	refuses_parts)

/* SPDX-License-Identifier: Apache-2.0 */
/* test: the report's forms. Each sample must come out as the files of test/probe/reports say, byte
 * for byte; run with PROBE_REPORTS=write to write them anew. Their JSON is held against the schema
 * by test/house. Run from the repository's root. */
#include <math.h>

#include "test/unit/probe_report_fixture.h"
#include "test/unit/test.h"

#define FOLDER "test/probe/reports"

/* ---- samples ---- */

static void sample_healthy(struct report *r)
{
	healthy_report(r, PROFILE_VERIFY, 8);
	check_skip(r->gpus[3].checks[CHECK_HOST_XID], "no_permission");
}

static void sample_lost_gpu(struct report *r)
{
	struct gpu_report *g;

	healthy_report(r, PROFILE_VERIFY, 7);
	r->expected = r->pci = r->nvml_count = 8;
	r->cuda = 7;
	g = report_add_gpu(r);
	g->index = 7;
	snprintf(g->pci, sizeof(g->pci), "0000:db:00.0");
	report_add_error(r, 7, CODE_HANG, 0, "no answer in 20 s");
}

static void sample_faults(struct report *r)
{
	struct check_result *c;

	healthy_report(r, PROFILE_VERIFY, 5);
	c = r->gpus[0].checks[CHECK_MEM_PATTERN];
	check_fail(c, CODE_MEMORY_ERRORS, "2 of 8388608000 cells were wrong, the first at 4 GiB");
	c->errors = 2;
	c->bits_0_to_1 = 1;
	c->bits_1_to_0 = 1;
	c->pages = 2;
	c->n_memory = 2;
	c->memory[0] = (struct memory_error){4294967296, {0x0123456789abcdef, 0xfedcba9876543210},
		{0x0123456789abcdee, 0xfedcba9876543210}, {0x0123456789abcdee, 0xfedcba9876543210}};
	c->memory[1] = (struct memory_error){16, {0, 0}, {0, 1}, {0, 0}};
	c = r->gpus[1].checks[CHECK_EXACT_FP32];
	check_fail(c, CODE_COMPUTE_ERRORS, "1 of 270336 chains was wrong, on multiprocessor 17");
	c->errors = 1;
	c->n_compute = 1;
	c->compute[0] = (struct compute_error){17, 4711, 2, 0xdeadbeef, 0xdeadbeff};
	c = r->gpus[2].checks[CHECK_MEM_READ];
	c->value = 2.11e12;
	check_judge_rate(c);
	c = r->gpus[3].checks[CHECK_MEM_COPY];
	c->value = NAN;
	check_judge_rate(c);
	check_error(r->gpus[4].checks[CHECK_MEM_PATTERN], CODE_OUT_OF_MEMORY, "120 MiB free");
	r->gpus[4].checks[CHECK_MEM_PATTERN]->cuda_error = 2;
}

static void sample_no_driver(struct report *r)
{
	report_init(r);
	r->complete = true;
	r->duration_s = 0.01;
	r->started_at = 1795196411;
	snprintf(r->link, sizeof(r->link), "dlopen");
	r->cudart = 12090;
	report_add_error(r, -1, CODE_NO_DRIVER, 35, "cudaErrorInsufficientDriver");
}

static void sample_interrupted(struct report *r)
{
	healthy_report(r, PROFILE_STRESS, 2);
	r->complete = false;
	for (int i = 0; i < CHECK_COUNT; i++)
		if (i >= CHECK_MEM_PATTERN)
			lose_check(&r->gpus[1], (enum check_id)i);
}

static void sample_remote(struct report *r)
{
	healthy_report(r, PROFILE_VERIFY_REMOTE, 1);
	r->remote = true;
	r->nvml = false;
	r->driver_version[0] = '\0';
	r->pci = r->nvml_count = r->expected = -1;
	r->gpus[0].remote = true;
	r->gpus[0].processes = -1;
	r->gpus[0].utilization_percent = NAN;
	r->gpus[0].checks[CHECK_REMOTE_RTT]->value = 0.00026;
	check_warn(r->gpus[0].checks[CHECK_FREE_MEMORY], CODE_LOW_FREE_MEMORY, "61 %% are free");
}

static void sample_list(struct report *r)
{
	healthy_report(r, PROFILE_LIST, 2);
	lose_check(&r->gpus[0], CHECK_FREE_MEMORY);
	lose_check(&r->gpus[1], CHECK_FREE_MEMORY);
	r->gpus[0].memory_free_bytes = r->gpus[1].memory_free_bytes = -1;
	/* what a broken runtime may say */
	snprintf(r->gpus[1].name, sizeof(r->gpus[1].name), "NV\xff\x01\"DIA");
}

static const struct {
	const char *name;
	void (*make)(struct report *r);
	enum probe_exit status;
	int nagios;
} samples[] = {
	{"healthy", sample_healthy, EXIT_FIT, 0},
	{"lost-gpu", sample_lost_gpu, EXIT_UNFIT, 2},
	{"faults", sample_faults, EXIT_UNFIT, 2},
	{"no-driver", sample_no_driver, EXIT_NO_CUDA, 2},
	{"interrupted", sample_interrupted, EXIT_INCONCLUSIVE, 3},
	{"remote", sample_remote, EXIT_FIT, 1},
	{"list", sample_list, EXIT_FIT, 0},
};

/* ---- against the files ---- */

static void same_as_file(const char *name, const char *end, const struct buf *b)
{
	const char *mode = getenv("PROBE_REPORTS");
	char path[256];
	struct buf file;
	char part[4096];
	size_t n;
	FILE *f;

	assert_false(b->failed);
	snprintf(path, sizeof(path), FOLDER "/%s.%s", name, end);
	if (mode && strcmp(mode, "write") == 0) {
		f = fopen(path, "wb");
		assert_non_null(f);
		assert_int_equal(fwrite(b->data, 1, b->len, f), b->len);
		assert_int_equal(fclose(f), 0);
		return;
	}
	f = fopen(path, "rb");
	if (!f)
		fail_msg("cannot open %s", path);
	buf_init(&file, 10 << 20);
	while ((n = fread(part, 1, sizeof(part), f)) > 0)
		buf_add(&file, part, n);
	fclose(f);
	assert_string_equal(b->data, file.data);
	buf_release(&file);
}

TEST(as_in_files)
{
	for (size_t i = 0; i < COUNT(samples); i++) {
		struct report r;
		struct buf b;
		struct err err = {0};

		samples[i].make(&r);
		report_judge(&r);
		assert_int_equal(r.exit, samples[i].status);
		buf_init(&b, 1 << 20);
		assert_int_equal(report_json(&r, &b, &err), 0);
		same_as_file(samples[i].name, "json", &b);
		buf_clear(&b);
		report_text(&r, 100, &b);
		assert_int_equal(report_nagios(&r, &b), samples[i].nagios);
		same_as_file(samples[i].name, "txt", &b);
		buf_release(&b);
		report_release(&r);
	}
}

/* Every line fits, nothing is there but printable ASCII, whatever the width. */
TEST(text_fits)
{
	for (size_t i = 0; i < COUNT(samples); i++) {
		for (unsigned width = 60; width < 140; width++) {
			struct report r;
			struct buf b;
			size_t column = 0;

			samples[i].make(&r);
			report_judge(&r);
			buf_init(&b, 1 << 20);
			report_text(&r, width, &b);
			for (size_t k = 0; k < b.len; k++) {
				column = b.data[k] == '\n' ? 0 : column + 1;
				assert_true(b.data[k] == '\n' ||
					    (b.data[k] >= ' ' && b.data[k] <= '~'));
				assert_true(column <= width);
				if (b.data[k] == '\n' && k > 0)
					assert_true(b.data[k - 1] != ' ');
			}
			assert_int_equal(b.data[b.len - 1], '\n');
			buf_release(&b);
			report_release(&r);
		}
	}
}

TEST(text_without_width)
{
	struct report r;
	struct buf b;

	sample_lost_gpu(&r);
	report_judge(&r);
	buf_init(&b, 1 << 20);
	report_text(&r, 0, &b);
	assert_non_null(strstr(b.data,
		"  0000:db:00.0        -     -           -     -          -        -  "
		"FAIL  HANG\n"));
	assert_non_null(strstr(b.data, "\n7 of 8 GPUs fit, 4.3 s, 1 failed: GPU 7 "
				       "(drain, reset or reboot the server)\n"));
	buf_release(&b);
	report_release(&r);
}

TEST(text_without_memory)
{
	struct report r;
	struct buf b;
	struct err err = {0};

	sample_faults(&r);
	report_judge(&r);
	buf_init(&b, 100);
	report_text(&r, 80, &b);
	assert_true(b.failed);
	buf_release(&b);
	buf_init(&b, 1000);
	assert_int_equal(report_json(&r, &b, &err), ERR_NOMEM);
	buf_release(&b);
	report_release(&r);
}

TEST(names)
{
	assert_string_equal(report_verdict_name(EXIT_NO_CUDA), "no_cuda");
	assert_string_equal(report_verdict_name((enum probe_exit)55), "inconclusive");
	assert_string_equal(report_health_name((enum gpu_health)55), "unknown");
}

/* ---- a check, written and read ---- */

static int read_text(const char *text, struct check_result *ret, struct err *err)
{
	struct json j = {0};
	char *copy = NULL;
	int rc;

	err_clear(err);
	if (json_read_copy(&j, text, strlen(text), 10000, &copy, err) != 0)
		fail_msg("%s: %s", err->msg, text);
	rc = check_read(&j, json_root(&j), ret, err);
	json_release(&j);
	free(copy);
	return rc;
}

TEST(written_is_read)
{
	for (size_t i = 0; i < COUNT(samples); i++) {
		struct report r;

		samples[i].make(&r);
		report_judge(&r);
		for (size_t k = 0; k < r.n_gpus * CHECK_COUNT; k++) {
			const struct check_result *c =
				r.gpus[k / CHECK_COUNT].checks[k % CHECK_COUNT];
			struct check_result again;
			struct buf first, second;
			struct err err;

			if (!c)
				continue;
			buf_init(&first, 1 << 20);
			buf_init(&second, 1 << 20);
			check_json(c, &first);
			if (read_text(first.data, &again, &err) != 0)
				fail_msg("%s at %s: %s", err.msg, err.path, first.data);
			check_json(&again, &second);
			assert_string_equal(first.data, second.data);
			assert_int_equal(again.status, c->status);
			assert_int_equal(again.code, c->code);
			assert_int_equal(again.id, c->id);
			assert_memory_equal(again.memory, c->memory, sizeof(c->memory));
			assert_memory_equal(again.compute, c->compute, sizeof(c->compute));
			assert_true(again.value == c->value || isnan(c->value));
			buf_release(&first);
			buf_release(&second);
		}
		report_release(&r);
	}
}

TEST(reads_least)
{
	struct check_result c;
	struct err err;

	assert_int_equal(
		read_text("{\"id\":\"env.driver\",\"status\":\"pass\",\"new\":[1]}", &c, &err), 0);
	assert_int_equal(c.status, STATUS_PASS);
	assert_int_equal(c.errors, -1);
	assert_true(isnan(c.value));
	assert_null(c.unit);
	assert_int_equal(
		read_text("{\"id\":\"nvml.ecc\",\"status\":\"skip\",\"reason\":\"remote\"}", &c,
			&err),
		0);
	assert_string_equal(c.reason, "remote");
}

#define OF(id, status, rest) "{\"id\":\"" id "\",\"status\":\"" status "\"" rest "}"
#define MEMORY(record) OF("mem.pattern", "pass", ",\"memory_errors\":[" record "]")
#define WIDE "\"0x00000000000000000000000000000000\""

TEST(refuses)
{
	static const struct {
		const char *text, *path;
	} cases[] = {
		{"[]", ""},
		{"\"pass\"", ""},
		{"{}", "/id"},
		{"{\"status\":\"pass\"}", "/id"},
		{OF("mem.new", "pass", ""), "/id"},
		{"{\"id\":1,\"status\":\"pass\"}", "/id"},
		{"{\"id\":\"env.driver\"}", "/status"},
		{OF("env.driver", "PASS", ""), "/status"},
		{"{\"id\":\"env.driver\",\"status\":true}", "/status"},
		{OF("env.driver", "skip", ""), "/reason"},
		{OF("env.driver", "skip", ",\"reason\":7"), "/reason"},
		{OF("env.driver", "skip", ",\"reason\":\"0123456789012345678901234567890123\""),
			"/reason"},
		{OF("env.driver", "pass", ",\"reason\":\"busy\""), "/reason"},
		{OF("env.driver", "fail", ""), "/code"},
		{OF("env.driver", "warn", ",\"code\":\"\",\"message\":\"x\""), "/code"},
		{OF("env.driver", "error", ",\"code\":\"NEW\",\"message\":\"x\""), "/code"},
		{OF("env.driver", "fail", ",\"code\":\"HANG\""), "/message"},
		{OF("env.driver", "fail", ",\"code\":\"HANG\",\"message\":\"x\",\"cuda\":\"2\""),
			"/cuda"},
		{OF("env.driver", "fail", ",\"code\":\"HANG\",\"message\":\"x\",\"cuda\":1e12"),
			"/cuda"},
		{OF("env.driver", "pass", ",\"code\":\"HANG\""), "/code"},
		{OF("env.driver", "pass", ",\"message\":\"but\""), "/code"},
		{OF("env.driver", "pass", ",\"cuda\":214"), "/code"},
		{OF("mem.pattern", "pass", ",\"errors\":\"0\""), "/errors"},
		{OF("mem.pattern", "pass", ",\"errors\":-1"), "/errors"},
		{OF("mem.pattern", "pass", ",\"errors\":0.5"), "/errors"},
		{OF("mem.pattern", "pass", ",\"coverage_percent\":101"), "/coverage_percent"},
		{OF("mem.pattern", "pass", ",\"sms_total\":4294967296"), "/sms_total"},
		{OF("bench.mem_read", "pass", ",\"value\":\"1\""), "/value"},
		{OF("bench.mem_read", "pass", ",\"value\":true"), "/value"},
		{OF("bench.mem_read", "pass", ",\"unit\":\"MB/s\""), "/unit"},
		{OF("bench.mem_read", "pass", ",\"unit\":[]"), "/unit"},
		{OF("bench.mem_read", "pass", ",\"basis\":\"hope\""), "/basis"},
		{OF("mem.pattern", "pass", ",\"memory_errors\":{}"), "/memory_errors"},
		{MEMORY("1"), "/memory_errors/0"},
		{MEMORY("{\"offset\":-1}"), "/memory_errors/0/offset"},
		{MEMORY("{\"offset\":0,\"expected\":\"0x0\"}"), "/memory_errors/0/expected"},
		{MEMORY("{\"offset\":0,\"expected\":" WIDE ",\"got\":" WIDE
			",\"again\":\"0x0000000000000000000000000000000G\"}"),
			"/memory_errors/0/again"},
		{MEMORY("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"), "/memory_errors"},
		{OF("mem.pattern", "pass", ",\"compute_errors\":[{\"sm\":4294967296}]"),
			"/compute_errors/0/sm"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct check_result c;
		struct err err;
		int rc = read_text(cases[i].text, &c, &err);

		if (rc != ERR_INVALID || strcmp(err.path, cases[i].path) != 0)
			fail_msg("%s: %d, \"%s\" at \"%s\"", cases[i].text, rc, err.msg, err.path);
		assert_true(c.status != STATUS_PASS);
	}
}

TESTS(as_in_files, text_fits, text_without_width, text_without_memory, names, written_is_read,
	reads_least, refuses)

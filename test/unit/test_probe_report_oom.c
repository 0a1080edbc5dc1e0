/* SPDX-License-Identifier: Apache-2.0 */
/* test: the n-th allocation fails, for each n, while a report is made and judged: what is lost for
 * want of memory is never a pass. Linked with --wrap for malloc, calloc and realloc. */
#include "probe/check/worker.h"
#include "probe/result/report.h"
#include "probe/result/thresholds.h"
#include "test/unit/oom_wrap.h"
#include "test/unit/test.h"

enum kind { HEALTHY, LACKS_ONE, HAS_ERROR, TOO_FEW, EMPTY, KINDS };

/* As the program does: what cannot be kept is not looked at again. */
static void make(struct report *r, enum kind kind)
{
	struct gpu_report *gpu;

	report_init(r);
	r->complete = true;
	gpu = kind == EMPTY ? NULL : report_add_gpu(r);
	for (unsigned i = 0; gpu && i < CHECK_COUNT; i++) {
		struct check_result c;

		if (kind == LACKS_ONE && i == CHECK_MEM_PATTERN)
			continue;
		check_begin(&c, (enum check_id)i);
		check_pass(&c);
		c.errors = 0;
		c.bytes_tested = 1;
		c.value = 1;
		(void)report_set_check(gpu, &c);
	}
	if (gpu)
		gpu->index = 0;
	if (kind == HAS_ERROR)
		(void)report_add_error(r, 0, CODE_HANG, 0, "x");
	if (kind == TOO_FEW)
		r->expected = 2;
	report_judge(r);
}

TEST(never_a_pass)
{
	static const enum probe_exit usual[KINDS] = {
		EXIT_FIT, EXIT_INCONCLUSIVE, EXIT_UNFIT, EXIT_UNFIT, EXIT_NO_CUDA};

	for (unsigned kind = 0; kind < KINDS; kind++) {
		for (long n = 0;; n++) {
			struct report r;
			bool failed;

			oom_begin(n, OOM_ALL_AFTER);
			make(&r, (enum kind)kind);
			failed = oom_end();
			if (!failed)
				assert_int_equal(r.exit, usual[kind]);
			else if (r.exit == EXIT_FIT)
				/* optional results alone were lost */
				assert_true(kind == HEALTHY && r.n_gpus == 1 && r.gpus[0].fit &&
					    r.gpus[0].checks[CHECK_MEM_COPY]);
			report_release(&r);
			if (!failed)
				break;
		}
	}
}

/* The forms fail as a whole, or are whole. */
TEST(forms)
{
	for (long n = 0;; n++) {
		struct report r;
		struct buf b;
		struct err err = {0};
		bool failed;
		int rc;

		make(&r, LACKS_ONE);
		buf_init(&b, 1 << 20);
		oom_begin(n, OOM_ALL_AFTER);
		rc = report_json(&r, &b, &err);
		failed = oom_end();
		assert_int_equal(rc, failed ? ERR_NOMEM : 0);
		if (!failed)
			assert_string_equal(b.data + b.len - 3, "]}\n");
		buf_clear(&b);
		oom_begin(n, OOM_ALL_AFTER);
		report_text(&r, 80, &b);
		(void)report_nagios(&r, &b);
		failed |= oom_end();
		buf_release(&b);
		report_release(&r);
		if (!failed)
			break;
	}
}

TEST(reading)
{
	static const char text[] =
		"{\"id\":\"mem.pattern\",\"status\":\"error\",\"code\":\"HANG\",\"message\":\"m\"}";
	struct json j = {0};
	struct err err = {0};
	char *copy;

	assert_int_equal(json_read_copy(&j, text, sizeof(text) - 1, 100, &copy, &err), 0);
	for (long n = 0;; n++) {
		struct check_result c;
		bool failed;
		int rc;

		oom_begin(n, OOM_ALL_AFTER);
		rc = check_read(&j, json_root(&j), &c, &err);
		failed = oom_end();
		assert_int_equal(rc, failed ? ERR_NOMEM : 0);
		assert_int_equal(c.status, failed ? STATUS_SKIP : STATUS_ERROR);
		if (!failed)
			break;
	}
	free(copy);
	json_release(&j);
}

TEST(thresholds)
{
	static const char text[] =
		"{\"schema\":\"gpuprobe.thresholds/1\",\"checks\":{\"bench.mem_read\":{"
		"\"fail_below\":0.5}},\"references\":[{\"name\":\"H\",\"memory_total_bytes\":1,"
		"\"rates\":{\"bench.h2d\":2}}],\"fatal_xids\":[79]}";
	char file[] = "/tmp/poolgate-thresholds-XXXXXX";
	int fd = mkstemp(file);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	for (long n = 0;; n++) {
		struct thresholds t;
		struct err err = {0};
		bool failed;
		int rc;

		thresholds_init(&t);
		oom_begin(n, OOM_ALL_AFTER);
		rc = thresholds_read(&t, file, &err);
		failed = oom_end();
		assert_int_equal(rc == 0, !failed);
		assert_int_equal(t.n_references, !failed);
		thresholds_release(&t);
		if (!failed)
			break;
		assert_true(rc == ERR_NOMEM || rc == ERR_TOOBIG); /* a buffer that did not grow */
	}
	assert_int_equal(close(fd), 0);
	assert_int_equal(unlink(file), 0);
}

TEST(jobs)
{
	static const char text[] = "{\"task\":0,\"profile\":0,\"index\":0,\"visible\":\"MIG-1\"}";

	for (long n = 0;; n++) {
		struct worker_job job;
		struct err err = {0};
		bool failed;
		int rc;

		oom_begin(n, OOM_ALL_AFTER);
		rc = worker_job_read(text, &job, &err);
		failed = oom_end();
		assert_int_equal(rc, failed ? ERR_NOMEM : 0);
		if (!failed)
			assert_string_equal(job.visible, "MIG-1");
		worker_job_release(&job);
		if (!failed)
			break;
	}
}

TESTS(never_a_pass, forms, reading, thresholds, jobs)

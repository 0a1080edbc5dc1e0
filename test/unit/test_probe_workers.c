/* SPDX-License-Identifier: Apache-2.0 */
/* test: probe/worker/workers over programs that behave as no worker should: whatever they do costs
 * their own GPU and its deadline. */
#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "probe/worker/retry.h"
#include "probe/worker/workers.h"
#include "test/unit/test.h"

#define DONE "echo '{\"done\": true}' >&3\n"
#define PASS                                                                                       \
	"echo '{\"check\": {\"id\": \"mem.shared\", \"status\": \"pass\", \"errors\": 0, "         \
	"\"bytes_tested\": 1}}' >&3\n"
#define FIRST "case \"$2\" in *'\"index\":0'*)\n"
#define REST ";; *)\n" DONE ";; esac\n"
/* No child of the shell that would outlive it. */
#define SLEEP(seconds) "exec sleep " seconds "\n"

static char folder[] = "/tmp/probe-workers-XXXXXX", program[64];
static struct worker_job jobs[3];
static const int places[3] = {0, 1, 2};
static struct workers_config config;
static struct report r;
static enum workers_end end;
static struct err err;

FIXTURE(begin)
{
	report_init(&r);
	err = (struct err){0};
	for (int i = 0; i < 2; i++) {
		struct gpu_report *gpu = report_add_gpu(&r);

		gpu->index = i;
		snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%d", i);
		jobs[i] = (struct worker_job){
			.task = TASK_GPU, .profile = PROFILE_VERIFY, .index = i};
	}
	config = (struct workers_config){.program = program,
		.jobs = jobs,
		.gpus = places,
		.n_jobs = 2,
		.phase_limit_s = 30,
		.total_limit_s = 60,
		.stop_fd = -1};
	return 0;
}

FIXTURE(finish)
{
	report_release(&r);
	return 0;
}

/* A worker that does this; $2 is its job. */
static void play(const char *script)
{
	FILE *f = fopen(program, "w");

	assert_non_null(f);
	fprintf(f, "#!/bin/bash\n%s", script);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(program, 0700), 0);
	assert_int_equal(workers_run(&config, &r, &end, &err), 0);
}

/* The one error there is: of this GPU, with this code and these words. */
static void assert_error(int gpu, enum probe_code code, const char *words)
{
	assert_int_equal(r.n_errors, 1);
	assert_int_equal(r.errors[0].gpu, gpu);
	if (r.errors[0].code != code || !strstr(r.errors[0].message, words))
		fail_msg("%s: %s", code_text(r.errors[0].code)->name, r.errors[0].message);
}

TEST(takes_what_they_tell)
{
	play(PASS "echo '{\"error\": {\"gpu\": 5, \"code\": \"DEVICE_BUSY\", \"cuda\": 46, "
		  "\"message\": \"m\"}}' >&3\n" DONE);
	assert_int_equal(end, WORKERS_DONE);
	assert_int_equal(r.gpus[0].checks[CHECK_SHARED_MEMORY]->status, STATUS_PASS);
	assert_int_equal(r.n_errors, 2);
	/* whose error it is says the parent, who knows for which GPU it started whom */
	assert_int_equal(r.errors[0].gpu + r.errors[1].gpu, 1);
	assert_int_equal(r.errors[0].cuda_error, 46);
}

TEST(notes_how_they_end)
{
	static const struct {
		const char *does;
		enum probe_code code;
		const char *words;
	} cases[] = {
		{"exit 7\n", CODE_WORKER_DIED, "status 7 in start"},
		{"echo '{\"within\": {\"phase\": \"mem.pattern\", \"s\": 5}}' >&3; kill -SEGV $$\n",
			CODE_WORKER_DIED, "signal 11"},
		{"printf '{\"done\": true}' >&3\n", CODE_WORKER_DIED, "status 0"},
		{"echo nonsense >&3\n" SLEEP("60"), CODE_WORKER_DIED, "cannot be read"},
		{"echo '{\"check\": {\"id\": \"mem.pattern\", \"status\": \"splendid\"}}' "
		 ">&3\n" SLEEP("60"),
			CODE_WORKER_DIED, "cannot be read"},
		{"exec 1>&3; exec yes nonsense\n", CODE_WORKER_DIED, "cannot be read"},
		{"exec 1>&3; exec tr '\\0' x </dev/zero\n", CODE_WORKER_DIED, "line without end"},
		{"exec 3>&-\n" SLEEP("60"), CODE_WORKER_DIED, "fell silent"},
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		char script[1024];
		double began = clock_s();

		snprintf(script, sizeof(script), FIRST "%s" REST, cases[i].does);
		finish(state);
		begin(state);
		play(script);
		assert_int_equal(end, WORKERS_DONE);
		assert_error(0, cases[i].code, cases[i].words);
		assert_true(clock_s() - began < 20);
	}
}

TEST(kills_those_who_are_late)
{
	double began = clock_s();

	config.phase_limit_s = 1;
	play(FIRST "echo '{\"within\": {\"phase\": \"mem.pattern\", \"s\": 0.2}}' >&3\n" SLEEP(
		"60") ";; *)\n" PASS DONE ";; esac\n");
	assert_int_equal(end, WORKERS_DONE);
	assert_error(0, CODE_HANG, "mem.pattern");
	assert_null(r.gpus[0].checks[CHECK_SHARED_MEMORY]);
	assert_int_equal(r.gpus[1].checks[CHECK_SHARED_MEMORY]->status, STATUS_PASS);
	assert_true(clock_s() - began < 20);
}

TEST(waits_as_long_as_was_said)
{
	config.phase_limit_s = 10;
	play("echo '{\"within\": {\"phase\": \"x\", \"s\": 30}}' >&3\nsleep 0.3\n" DONE);
	assert_int_equal(r.n_errors, 0);
}

TEST(does_not_take_another_gpu_for_its_own)
{
	struct wire_line line = {.kind = WIRE_GPU};
	struct buf script;

	report_gpu_init(&line.gpu);
	snprintf(line.gpu.uuid, sizeof(line.gpu.uuid), "GPU-1");
	line.gpu.index = 0;
	buf_init(&script, 65536);
	buf_str(&script, FIRST "cat >&3 <<'E'\n");
	wire_write(&line, &script);
	buf_str(&script, "E\n" PASS DONE REST);
	buf_char(&script, '\0');
	play(script.data);
	buf_release(&script);
	assert_error(0, CODE_GPU_MISSING, "another GPU");
	assert_null(r.gpus[0].checks[CHECK_SHARED_MEMORY]);
	assert_string_equal(r.gpus[0].uuid, "GPU-0");
}

TEST(ends_when_told)
{
	uint64_t one = 1;
	double began = clock_s();

	config.stop_fd = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(write(config.stop_fd, &one, sizeof(one)), sizeof(one));
	play("trap '' TERM\n" SLEEP("60"));
	assert_int_equal(end, WORKERS_STOPPED);
	assert_int_equal(r.n_errors, 0);
	assert_true(clock_s() - began < 20);
	close(config.stop_fd);
}

TEST(ends_in_time)
{
	config.total_limit_s = 0.2;
	play("trap '' TERM\n" SLEEP("60"));
	assert_int_equal(end, WORKERS_TIMED_OUT);
	assert_int_equal(r.n_errors, 0);
}

TEST(watchers_go_last)
{
	jobs[2] = (struct worker_job){.task = TASK_NVML_WATCH};
	config.n_jobs = 3;
	play("case \"$2\" in *'\"task\":3'*) trap 'echo \"{\\\"nvml\\\": {\\\"driver\\\": "
	     "\\\"last\\\", \\\"devices\\\": 2}}\" >&3; exit 0' TERM\n"
	     "while :; do sleep 0.05; done ;; *) sleep 0.3\n" DONE ";; esac\n");
	assert_int_equal(end, WORKERS_DONE);
	assert_int_equal(r.n_errors, 0);
	assert_string_equal(r.driver_version, "last");
}

/* A spoilt context, and a process that hangs at its end: no fresh one takes its place, and nobody
 * waits for it. */
TEST(a_hang_at_the_end_has_no_second)
{
	double began = clock_s();

	jobs[2] = (struct worker_job){.task = TASK_NVML_WATCH};
	config.n_jobs = 3;
	play("case \"$2\" in *'\"task\":3'*) trap 'exit 0' TERM\n"
	     "while :; do sleep 0.05; done ;;\n"
	     "*'\"index\":0'*) echo '{\"check\": {\"id\": \"mem.shared\", \"status\": \"fail\", "
	     "\"code\": \"KERNEL_FAULT\", \"cuda\": 719, \"message\": \"m\"}}' >&3\n"
	     "echo '{\"within\": {\"phase\": \"x\", \"s\": 0.2}}' >&3\n" SLEEP("60") REST);
	assert_int_equal(end, WORKERS_DONE);
	assert_error(0, CODE_HANG, "in x");
	assert_true(clock_s() - began < 20);
	retry_tell(&r);
	assert_int_equal(r.gpus[0].checks[CHECK_SHARED_MEMORY]->status, STATUS_FAIL);
	assert_string_equal(r.gpus[0].checks[CHECK_SHARED_MEMORY]->message, "m");
}

TEST(leaves_nobody_behind)
{
	config.total_limit_s = 0.2;
	play("trap '' TERM\n" SLEEP("60"));
	config.total_limit_s = 30;
	for (int i = 0; i < 500; i++) {
		play(DONE);
		if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
			return;
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	}
	fail_msg("a process is left");
}

TEST(says_what_cannot_be_started)
{
	/* The emulator forks where a child is to share our memory: posix_spawn is not told that
	 * nothing was started. */
	if (getenv("POOLGATE_UNDER_QEMU"))
		return;
	config.program = "/nonexistent/gpuprobe";
	assert_int_equal(workers_run(&config, &r, &end, &err), ERR_IO);
	assert_non_null(strstr(err.msg, "/nonexistent/gpuprobe"));
}

FIXTURE(make_folder)
{
	snprintf(program, sizeof(program), "%s/worker", mkdtemp(folder));
	return 0;
}

FIXTURE(remove_folder)
{
	unlink(program);
	return rmdir(folder);
}

TESTS_ALL(make_folder, remove_folder, begin, finish, takes_what_they_tell, notes_how_they_end,
	kills_those_who_are_late, waits_as_long_as_was_said, does_not_take_another_gpu_for_its_own,
	ends_when_told, ends_in_time, watchers_go_last, a_hang_at_the_end_has_no_second,
	leaves_nobody_behind, says_what_cannot_be_started)

/* SPDX-License-Identifier: Apache-2.0 */
/* gpuprobe: is every GPU of this server fit, and what does it offer? */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "probe/kernels/kernels.h"
#include "probe/result/options.h"
#include "probe/run.h"
#include "probe/show/compare.h"
#include "probe/show/output.h"
#include "probe/worker/worker_start.h"

#define REPORT_BYTES_MAX (16u << 20)

static int usage(const struct err *err)
{
	(void)fprintf(stderr, "gpuprobe: %s; `gpuprobe --help` tells more\n", err->msg);
	return EXIT_USAGE;
}

static int complain(const struct err *err, int status)
{
	(void)fprintf(stderr, "gpuprobe: %s\n", err->msg);
	return status;
}

static int show_version(void)
{
	struct rt rt;
	char archs[REPORT_ARCHS_MAX];
	int version = 0;

	printf("gpuprobe " POOLGATE_VERSION "\n");
	if (rt_default(&rt, NULL) == 0 && rt.runtime_version(&version) == RT_SUCCESS)
		printf("CUDA runtime %d.%d, %s\n", version / 1000, version % 1000 / 10, rt.link);
	else
		printf("CUDA runtime: none\n");
	kernel_archs(archs, sizeof(archs));
	printf("kernels: %s\n", archs[0] ? archs : "none");
	return fflush(stdout) == 0 ? EXIT_FIT : EXIT_INCONCLUSIVE;
}

/* SIGINT and SIGTERM as a descriptor; -1: they end the program at once. */
static int open_signals(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The report in the form that was asked for. What cannot be told is no pass. */
static int tell(const struct probe_options *o, const struct report *r)
{
	struct buf out;
	struct err err = {0};
	int status = (int)r->exit, rc = 0;

	buf_init(&out, REPORT_BYTES_MAX);
	if (o->nagios)
		status = report_nagios(r, &out);
	else if (o->json)
		rc = report_json(r, &out, &err);
	else
		report_text(r, output_width(STDOUT_FILENO), &out);
	if (rc == 0)
		rc = output_file(o->json ? o->json : "-", &out, &err);
	buf_release(&out);
	if (o->json &&
		rc == 0) { /* standard output is for the JSON alone; people read standard error */
		buf_init(&out, REPORT_BYTES_MAX);
		report_text(r, output_width(STDERR_FILENO), &out);
		if (!out.failed)
			(void)fwrite(out.data, 1, out.len, stderr);
		buf_release(&out);
	}
	if (rc != 0)
		return complain(&err, status == EXIT_FIT ? EXIT_INCONCLUSIVE : status);
	return status;
}

static int save_reference(const struct probe_options *o, const struct report *r)
{
	struct buf out;
	struct err err = {0};
	int rc;

	if (r->exit != EXIT_FIT) {
		err_set(&err, ERR_REFUSED,
			"--save-reference: not every GPU is fit, so nothing was saved");
		return complain(&err, (int)r->exit);
	}
	buf_init(&out, REPORT_BYTES_MAX);
	thresholds_write(r, &out);
	rc = output_file(o->save_reference, &out, &err);
	buf_release(&out);
	return rc == 0 ? EXIT_FIT : complain(&err, EXIT_INCONCLUSIVE);
}

static int run(const struct probe_options *o, const struct thresholds *t)
{
	const char *root = getenv("GPUPROBE_ROOT");
	struct progress progress;
	struct run_config config = {.options = o,
		.thresholds = t,
		.program = "/proc/self/exe",
		.root = root ? root : "/",
		.stop_fd = open_signals(),
		.progress = progress_show,
		.arg = &progress};
	struct report r;
	struct err err = {0};
	int status;

	report_init(&r);
	progress_begin(&progress, o->progress);
	status = run_probe(&config, &r, &err);
	progress_end(&progress);
	if (status != 0) {
		status = complain(&err, err.code == ERR_INVALID ? EXIT_USAGE : EXIT_INCONCLUSIVE);
	} else {
		status = tell(o, &r);
		if (o->save_reference && status == EXIT_FIT)
			status = save_reference(o, &r);
	}
	report_release(&r);
	return status;
}

/* `gpuprobe serve` is a program of its own, so that this one needs the C library alone:
 * gpuprobe-serve in the same folder. */
static int serve_elsewhere(char **argv)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
	char *slash;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (slash) {
		memcpy(slash + 1, "gpuprobe-serve", sizeof("gpuprobe-serve"));
		(void)execv(path, argv);
	}
	(void)fprintf(stderr, "gpuprobe serve: %s: %s; it is installed beside gpuprobe\n",
		slash ? path : "gpuprobe-serve", strerrordesc_np(errno));
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	struct probe_options o;
	struct thresholds thresholds;
	struct err err = {0};
	int status = EXIT_USAGE;

	if (argc == 3 && strcmp(argv[1], "--worker") == 0)
		return worker_main(argv[2], WORKER_FD);
	(void)sigaction(
		SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL); /* writing says so */
	if (!output_guard()) {
		(void)fprintf(stderr, "gpuprobe: standard output is closed\n");
		return EXIT_INCONCLUSIVE;
	}
	if (argc >= 2 && strcmp(argv[1], "serve") == 0)
		return serve_elsewhere(argv + 1);
	if (argc >= 2 && strcmp(argv[1], "compare") == 0)
		return compare_main(argc - 1, argv + 1);
	if (options_read(argc, argv, &o, &err) != 0)
		return usage(&err);
	if (o.answer == OPTIONS_HELP) {
		options_help(stdout);
		return fflush(stdout) == 0 ? EXIT_FIT : EXIT_INCONCLUSIVE;
	}
	if (o.answer == OPTIONS_VERSION)
		return show_version();
	thresholds_init(&thresholds);
	if ((o.thresholds && thresholds_read(&thresholds, o.thresholds, &err) != 0) ||
		(o.json && output_can(o.json, &err) != 0) ||
		(o.save_reference && output_can(o.save_reference, &err) != 0))
		(void)complain(&err, EXIT_USAGE);
	else
		status = run(&o, &thresholds);
	thresholds_release(&thresholds);
	return status;
}

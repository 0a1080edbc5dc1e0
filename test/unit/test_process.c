/* SPDX-License-Identifier: Apache-2.0 */
/* test: edge/metrics/process: what is told of a process whose /proc says all, or not enough, by a
 * /proc/self/stat of the test's own. */
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

#include "test/unit/scratch.h"
#include "test/unit/test.h"
#include "webhook/edge/metrics/process.h"

/* What stands in /proc/self/stat; NULL: it may not be opened. */
static const char *stat_text;
static unsigned opened;

/* In place of the C library's. */
int open(const char *file, int oflag, ...)
{
	int mode = 0;

	if (oflag & O_CREAT) {
		va_list args;

		va_start(args, oflag);
		mode = va_arg(args, int);
		va_end(args);
	}
	if (strcmp(file, "/proc/self/stat") == 0) {
		opened++;
		if (!stat_text) {
			errno = EACCES;
			return -1;
		}
		file = scratch("stat");
	}
	return (int)syscall(SYS_openat, AT_FDCWD, file, oflag, mode);
}

/* What is said where this stands there; *ret for the caller to release. */
static const char *said(const char *text, struct buf *ret)
{
	if (text)
		scratch_file("stat", text);
	stat_text = text;
	opened = 0;
	buf_init(ret, 1u << 16);
	process_metrics(ret);
	assert_int_equal(opened, 1);
	assert_non_null(strstr(ret->data, "\nprocess_open_fds "));
	assert_non_null(strstr(ret->data, "\nprocess_max_fds "));
	return ret->data;
}

#define FIELDS_BUT_ONE "S 1 2 3 4 5 6 7 8 9 10 150 275 13 14 15 16 9 18 19 8192"

/* The name of a program may hold what separates fields. */
TEST(test_fields)
{
	static const char *const names[] = {"(poolgate)", "(a b)", "(a) S 1 2 (b)", "()"};

	for (size_t i = 0; i < COUNT(names); i++) {
		long page = sysconf(_SC_PAGESIZE), hz = sysconf(_SC_CLK_TCK);
		char text[256], want[96];
		struct buf out;

		(void)snprintf(text, sizeof(text), "7 %s " FIELDS_BUT_ONE " 3 22 23\n", names[i]);
		said(text, &out);
		(void)snprintf(
			want, sizeof(want), "\nprocess_resident_memory_bytes %ld\n", 3 * page);
		assert_non_null(strstr(out.data, want));
		assert_non_null(strstr(out.data, "\nprocess_virtual_memory_bytes 8192\n"));
		assert_non_null(strstr(out.data, "\nprocess_threads 9\n"));
		assert_non_null(strstr(out.data, "\nprocess_start_time_seconds "));
		if (hz == 100)
			assert_non_null(strstr(out.data, "\nprocess_cpu_seconds_total 4.25\n"));
		buf_release(&out);
	}
}

/* What it does not say is left out, and nothing is made up. */
TEST(test_no_fields)
{
	static const char *const texts[] = {NULL, "", "7", "7 poolgate " FIELDS_BUT_ONE " 3 22",
		"7 (a) " FIELDS_BUT_ONE, "7 (a)"};
	static const char *const names[] = {
		"cpu_seconds", "resident_memory", "virtual_memory", "threads", "start_time"};

	for (size_t i = 0; i < COUNT(texts); i++) {
		struct buf out;

		said(texts[i], &out);
		for (size_t k = 0; k < COUNT(names); k++)
			if (strstr(out.data, names[k]))
				fail_msg("%s: %s", texts[i] ? texts[i] : "none", out.data);
		buf_release(&out);
	}
}

TESTS_WITHIN(scratch_begin, scratch_end, test_fields, test_no_fields)

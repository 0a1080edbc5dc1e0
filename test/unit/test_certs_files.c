/* SPDX-License-Identifier: Apache-2.0 */
/* unit: certs/certs_files, on a directory of its own. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "certs/certs_files.h"
#include "test/unit/scratch.h"
#include "test/unit/test.h"

static void assert_holds(const char *name, const char *text)
{
	struct buf b;
	struct err err = {0};

	buf_init(&b, 0);
	assert_int_equal(certs_files_read(scratch(name), &b, &err), 0);
	assert_int_equal(b.len, strlen(text));
	assert_string_equal(b.data, text);
	certs_files_wipe(&b);
	assert_null(b.data);
}

static unsigned mode_of(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

static size_t count_files(const char *path)
{
	DIR *d = opendir(path);
	size_t n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n >= 2 ? n - 2 : 0;
}

static const struct certs_file two[] = {
	{"k", SLICE("secret"), true},
	{"c", SLICE("public"), false},
};

TEST(test_write)
{
	struct err err = {0};
	mode_t mask = umask(0);

	assert_int_equal(certs_files_write(scratch("new/deep/"), two, 2, false, &err), 0);
	umask(mask);
	assert_int_equal(mode_of(scratch("new")), 0700);
	assert_int_equal(mode_of(scratch("new/deep")), 0700);
	assert_int_equal(mode_of(scratch("new/deep/k")), 0600);
	assert_int_equal(mode_of(scratch("new/deep/c")), 0644);
	assert_holds("new/deep/k", "secret");
	assert_holds("new/deep/c", "public");
	assert_int_equal(count_files(scratch("new/deep")), 2);
}

TEST(test_no_overwrite)
{
	static const struct certs_file other[] = {
		{"new", SLICE("new"), false}, {"c", SLICE("x"), false}};
	struct err err = {0};

	assert_int_equal(certs_files_write(scratch(""), two, 2, false, &err), 0);
	/* one file that exists refuses all */
	assert_int_equal(certs_files_write(scratch(""), other, 2, false, &err), ERR_CONFLICT);
	assert_non_null(strstr(err.msg, "/c: exists"));
	assert_holds("c", "public");
	assert_int_equal(count_files(scratch("")), 2);
	assert_int_equal(certs_files_write(scratch(""), other, 2, true, &err), 0);
	assert_holds("c", "x");
	assert_holds("new", "new");
	assert_int_equal(count_files(scratch("")), 3);
}

/* A link is not followed: what it points to is somebody else's. */
TEST(test_links)
{
	struct err err = {0};

	scratch_file("theirs", "theirs");
	assert_int_equal(symlink("theirs", scratch("k")), 0);
	assert_int_equal(symlink("/nonexistent/dangling", scratch("c")), 0);
	assert_int_equal(certs_files_write(scratch(""), two, 2, false, &err), ERR_CONFLICT);
	assert_int_equal(certs_files_write(scratch(""), two + 1, 1, false, &err), ERR_CONFLICT);
	assert_int_equal(certs_files_write(scratch(""), two, 2, true, &err), 0);
	assert_holds("theirs", "theirs");
	assert_holds("k", "secret");
	assert_int_equal(mode_of(scratch("k")), 0600);
}

TEST(test_bad_targets)
{
	struct err err = {0};

	assert_int_equal(mkdir(scratch("c"), 0700), 0);
	assert_int_equal(certs_files_write(scratch(""), two, 2, true, &err), ERR_IO);
	assert_non_null(strstr(err.msg, "/c: is a directory"));
	assert_int_equal(count_files(scratch("")), 1);
	/* a path below a regular file */
	assert_int_equal(rmdir(scratch("c")), 0);
	assert_int_equal(certs_files_write(scratch(""), two, 2, false, &err), 0);
	assert_int_equal(certs_files_write(scratch("c/below"), two, 2, false, &err), ERR_IO);
	assert_non_null(strstr(err.msg, "Not a directory"));
	assert_int_equal(certs_files_write(scratch("c"), two, 2, false, &err), ERR_IO);
	assert_int_equal(certs_files_write("", two, 2, false, &err), ERR_INVALID);
	assert_int_equal(certs_files_write("/proc/nothing", two, 2, false, &err), ERR_IO);
}

TEST(test_bad_calls)
{
	static const struct certs_file slash[] = {{"../k", SLICE("x"), true}};
	static const struct certs_file none[] = {{"", SLICE("x"), true}};
	char name[NAME_MAX + 1];
	struct certs_file longest[] = {{name, SLICE("x"), true}};
	struct err err = {0};

	memset(name, 'a', NAME_MAX);
	name[NAME_MAX] = '\0';
	assert_int_equal(certs_files_write(scratch(""), two, 0, false, &err), ERR_INTERNAL);
	assert_int_equal(certs_files_write(scratch(""), two, CERTS_FILES_MAX + 1, false, &err),
		ERR_INTERNAL);
	assert_int_equal(certs_files_write(scratch(""), slash, 1, false, &err), ERR_INTERNAL);
	assert_int_equal(certs_files_write(scratch(""), none, 1, false, &err), ERR_INTERNAL);
	assert_int_equal(certs_files_write(scratch(""), longest, 1, false, &err), ERR_IO);
	assert_int_equal(count_files(scratch("")), 0);
}

/* A full disk, as a file size limit: what was there stays, nothing is left behind. */
TEST(test_full)
{
	static char big[65536];
	struct certs_file files[] = {two[0], {"c", {big, sizeof(big)}, false}};
	struct rlimit old;
	struct rlimit small;
	struct err err = {0};
	int code = 0;
	void (*before)(int) = signal(SIGXFSZ, SIG_IGN);

	memset(big, 'x', sizeof(big));
	assert_int_equal(certs_files_write(scratch(""), two, 2, false, &err), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){4096, old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	code = certs_files_write(scratch(""), files, 2, true, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	(void)signal(SIGXFSZ, before);
	assert_int_equal(code, ERR_IO);
	assert_non_null(strstr(err.msg, "/c: cannot be written"));
	assert_holds("k", "secret");
	assert_holds("c", "public");
	assert_int_equal(count_files(scratch("")), 2);
}

TEST(test_lock)
{
	struct err err = {0};
	int fd = open(scratch(""), O_RDONLY | O_DIRECTORY);

	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	assert_int_equal(certs_files_write(scratch(""), two, 2, false, &err), ERR_CONFLICT);
	assert_non_null(strstr(err.msg, "another process"));
	close(fd);
	assert_int_equal(certs_files_write(scratch(""), two, 2, false, &err), 0);
}

TEST(test_read)
{
	struct buf b;
	struct err err = {0};

	buf_init(&b, 0);
	assert_int_equal(certs_files_read(scratch("none"), &b, &err), ERR_NOTFOUND);
	assert_int_equal(certs_files_read(scratch(""), &b, &err), ERR_IO);
	assert_non_null(strstr(err.msg, "is a directory"));
	assert_int_equal(certs_files_read("/dev/null", &b, &err), ERR_IO);
	assert_non_null(strstr(err.msg, "regular file"));
	/* a pipe without a writer must not hang */
	assert_int_equal(mkfifo(scratch("pipe"), 0600), 0);
	assert_int_equal(certs_files_read(scratch("pipe"), &b, &err), ERR_IO);
	assert_int_equal(certs_files_read(scratch_file("empty", ""), &b, &err), 0);
	assert_int_equal(b.len, 0);
	certs_files_wipe(&b);
	assert_int_equal(truncate(scratch("empty"), (off_t)CERTS_FILE_MAX), 0);
	assert_int_equal(certs_files_read(scratch("empty"), &b, &err), 0);
	assert_int_equal(b.len, CERTS_FILE_MAX);
	certs_files_wipe(&b);
	assert_int_equal(truncate(scratch("empty"), (off_t)CERTS_FILE_MAX + 1), 0);
	assert_int_equal(certs_files_read(scratch("empty"), &b, &err), ERR_TOOBIG);
	assert_null(b.data);
	certs_files_wipe(&b); /* an empty one is harmless */
}

TEST(test_path)
{
	struct err err = {0};
	char path[8];

	assert_int_equal(certs_files_path("ab", "cdef", path, sizeof(path), &err), 0);
	assert_string_equal(path, "ab/cdef");
	assert_int_equal(certs_files_path("abc", "cdef", path, sizeof(path), &err), ERR_TOOBIG);
}

TESTS_BETWEEN(scratch_begin, scratch_end, test_write, test_no_overwrite, test_links,
	test_bad_targets, test_bad_calls, test_full, test_lock, test_read, test_path)

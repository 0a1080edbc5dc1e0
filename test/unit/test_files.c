/* SPDX-License-Identifier: Apache-2.0 */
/* test: base/files: a file is read whole or not at all, and replaced in one step or not at all. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/files.h"
#include "test/unit/scratch.h"
#include "test/unit/test.h"

static char folder[64], file[96], link_to_it[96];

FIXTURE(setup)
{
	assert_int_equal(scratch_begin(NULL), 0);
	(void)snprintf(folder, sizeof(folder), "%s", scratch(""));
	(void)snprintf(file, sizeof(file), "%s", scratch_file("a.yaml", "old"));
	(void)snprintf(link_to_it, sizeof(link_to_it), "%s", scratch("b.yaml"));
	return chmod(file, 0640) != 0 || symlink("a.yaml", link_to_it) != 0;
}

/* The file has this text, its mode, and nothing new stands beside it. */
static void assert_holds(const char *text)
{
	struct err err = {0};
	struct buf out;
	struct stat st;
	size_t n = 0;
	DIR *d = opendir(folder);

	buf_init(&out, 1 << 20);
	assert_int_equal(files_read(file, &out, &err), 0);
	assert_string_equal(out.data, text);
	buf_release(&out);
	assert_int_equal(lstat(file, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0640);
	assert_int_equal(lstat(link_to_it, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_non_null(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	assert_int_equal(n, 4); /* with . and .. */
}

TEST(replaced)
{
	struct err err = {0};

	assert_int_equal(files_replace(file, SLICE("new"), &err), 0);
	assert_holds("new");
	assert_int_equal(files_replace(link_to_it, SLICE("newer"), &err), 0);
	assert_holds("newer");
}

TEST(not_replaced)
{
	struct err err = {0};
	struct rlimit was, none;
	const char *missing = scratch("none");
	char *large = calloc(1, 100001);
	int rc;

	assert_int_equal(files_replace(missing, SLICE("new"), &err), ERR_NOTFOUND);
	assert_non_null(strstr(err.msg, missing));
	assert_int_equal(files_replace(folder, SLICE("new"), &err), ERR_IO);
	assert_non_null(strstr(err.msg, "not a regular file"));
	/* A disk that is full behind the first bytes. */
	memset(large, 'x', 100000);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	none = was;
	none.rlim_cur = 4096;
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	rc = files_replace(file, slice_of(large), &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_int_equal(rc, ERR_IO);
	assert_non_null(strstr(err.msg, "cannot write"));
	free(large);
	assert_holds("old");
}

/* A file of somebody else's stays his, and his group's. Only root can give one away. */
TEST(replaced_for_its_owner)
{
	static const struct {
		uid_t user;
		gid_t group;
	} owners[] = {{1, 0}, {0, 2}, {3, 4}};
	struct err err = {0};
	struct stat st;

	if (geteuid() != 0 || chown(file, 1, 1) != 0)
		skip();
	for (size_t i = 0; i < COUNT(owners); i++) {
		assert_int_equal(chown(file, owners[i].user, owners[i].group), 0);
		assert_int_equal(files_replace(file, SLICE("new"), &err), 0);
		assert_holds("new");
		assert_int_equal(stat(file, &st), 0);
		assert_int_equal(st.st_uid, owners[i].user);
		assert_int_equal(st.st_gid, owners[i].group);
	}
}

/* Who may write into the folder but not give a file away leaves the old one; who may not even write
 * into the folder is told so. */
TEST(not_replaced_by_another)
{
	static const char *const why[] = {"Operation not permitted", "Permission denied"};
	pid_t child;
	int status = 0;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(file, 0666), 0);
	for (unsigned i = 0; i < COUNT(why); i++) {
		assert_int_equal(chmod(folder, i == 0 ? 0777 : 0755), 0);
		child = fork();
		if (child == 0) {
			struct err err = {0};
			bool other = setgid(65534) == 0 && setuid(65534) == 0;
			int rc = files_replace(file, SLICE("new"), &err);

			_exit(!other ? 1 : rc != ERR_IO ? 2 : strstr(err.msg, why[i]) ? 0 : 3);
		}
		assert_true(child > 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	assert_int_equal(chmod(file, 0640), 0);
	assert_holds("old");
}

TEST(not_read)
{
	struct err err = {0};
	struct buf out;

	buf_init(&out, 3);
	assert_int_equal(files_read(file, &out, &err), 0);
	buf_clear(&out);
	write_text(file, "four");
	assert_int_equal(files_read(file, &out, &err), ERR_TOOBIG);
	assert_non_null(strstr(err.msg, "over 3 bytes"));
	assert_int_equal(files_read(folder, &out, &err), ERR_IO);
	/* A regular file whose first byte cannot be read. */
	assert_int_equal(files_read("/proc/self/mem", &out, &err), ERR_IO);
	assert_non_null(strstr(err.msg, "cannot read /proc/self/mem"));
	assert_int_equal(out.len, 0);
}

/* However many slashes end a folder's name, one stands between it and its files. */
TEST(listed)
{
	char names[3][128];
	struct file_list list;
	struct err err = {0};
	struct arena a;

	arena_init(&a, 1 << 20);
	for (int i = 0; i < 3; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "%s%.*s", folder, i, "//");
		assert_int_equal(files_list(names[i], &a, &list, &err), 0);
		assert_int_equal(list.n, 2);
		assert_string_equal(list.path[0], file);
	}
	arena_release(&a);
}

TEST(in_memory)
{
	char path[FILES_MEMORY_PATH], again[8] = "";
	struct err err = {0};
	int fd = files_in_memory(SLICE("text"), path, &err), twin;

	assert_true(fd >= 0);
	twin = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(twin >= 0);
	assert_int_equal(read(twin, again, sizeof(again)), 4);
	assert_string_equal(again, "text");
	assert_int_equal(close(twin), 0);
	assert_int_equal(close(fd), 0);
	assert_int_equal(open(path, O_RDONLY | O_CLOEXEC), -1);
}

/* Nothing can be opened: each says so, and a folder's mark is the same as ever then. */
TEST(no_descriptors)
{
	char path[FILES_MEMORY_PATH];
	struct rlimit was, none;
	struct file_list list;
	struct err err[4] = {{0}};
	struct buf out;
	struct arena a;
	uint64_t mark;
	int rc[4];

	arena_init(&a, 1 << 20);
	buf_init(&out, 1 << 20);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	rc[0] = files_read(file, &out, &err[0]);
	rc[1] = files_list(folder, &a, &list, &err[1]);
	rc[2] = files_in_memory(SLICE("text"), path, &err[2]);
	rc[3] = files_replace(file, SLICE("new"), &err[3]);
	mark = files_mark(folder);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	for (size_t i = 0; i < COUNT(rc); i++) {
		assert_int_equal(rc[i] < 0 ? (int)err[i].code : rc[i], ERR_IO);
		assert_non_null(strstr(err[i].msg, "Too many open files"));
	}
	assert_int_equal(mark, 1);
	assert_holds("old");
	arena_release(&a);
	buf_release(&out);
}

TESTS_BETWEEN(setup, scratch_end, replaced, not_replaced, replaced_for_its_owner,
	not_replaced_by_another, not_read, listed, in_memory, no_descriptors)

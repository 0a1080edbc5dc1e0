/* SPDX-License-Identifier: Apache-2.0 */
/* certs: writes and reads certificate files without ever leaving half of one behind. */
#include "certs/certs_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"

#define MODE_SECRET 0600
#define MODE_PUBLIC 0644
#define MODE_DIR 0700

/* One file on its way: the temporary name is "" when there is none. */
struct staged {
	char temp[NAME_MAX + 1];
	bool placed;
};

static const char *remedy(int error)
{
	switch (error) {
	case ENOSPC:
	case EDQUOT:
		return "; free some space and run it again";
	case EROFS:
	case EACCES:
	case EPERM:
		return "; choose a directory that you may write to";
	case ENOTDIR:
		return "; a part of the path is a file";
	default:
		return "";
	}
}

static int fail(struct err *err, const char *dir, const char *name, const char *what, int error)
{
	return err_set(err, ERR_IO, "%s%s%s: cannot be %s: %s%s", dir, *name ? "/" : "", name, what,
		strerror(error), remedy(error));
}

int certs_files_path(const char *dir, const char *name, char *ret, size_t size, struct err *err)
{
	int n = snprintf(ret, size, "%s/%s", dir, name);

	if (n < 0 || (size_t)n >= size)
		return err_set(err, ERR_TOOBIG, "the path %.60s…/%s is too long", dir, name);
	return 0;
}

/* mkdir -p with 0700. */
static int make_dirs(const char *dir, struct err *err)
{
	char path[PATH_MAX];
	size_t len = strlen(dir);

	if (len == 0 || len >= sizeof(path))
		return err_set(err, ERR_INVALID,
			"a directory name of %zu bytes; 1 to %zu are accepted", len,
			sizeof(path) - 1);
	memcpy(path, dir, len + 1);
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		path[i] = '\0';
		if (mkdir(path, MODE_DIR) != 0 && errno != EEXIST && errno != EISDIR) {
			int error = errno;
			struct stat st;

			/* an automounter or a read-only root may refuse mkdir on what is there */
			if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
				return fail(err, path, "", "made", error);
		}
		if (i < len)
			path[i] = '/';
	}
	return 0;
}

/* Open and lock the directory. */
static int open_dir(const char *dir, int *ret_fd, struct err *err)
{
	int code = make_dirs(dir, err);
	int fd = -1;

	if (code != 0)
		return code;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return fail(err, dir, "", "opened as a directory", errno);
	if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
		close(fd);
		return err_set(err, ERR_CONFLICT,
			"%s: another process is writing certificates here; run it again when that "
			"is "
			"done",
			dir);
	}
	*ret_fd = fd;
	return 0;
}

/* What is there now must be absent, or replaceable. */
static int check_target(
	int dirfd, const char *dir, const struct certs_file *f, bool replace, struct err *err)
{
	struct stat st;

	if (fstatat(dirfd, f->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? 0 : fail(err, dir, f->name, "looked at", errno);
	if (S_ISDIR(st.st_mode))
		return err_set(err, ERR_IO,
			"%s/%s: is a directory; remove it or choose another --dir", dir, f->name);
	if (!replace)
		return err_set(
			err, ERR_CONFLICT, "%s/%s: exists and is not overwritten", dir, f->name);
	return 0;
}

/* Write one file under a temporary name that nobody else has; its mode is 0600 until all bytes are
 * there. */
static int stage(
	int dirfd, const char *dir, const struct certs_file *f, struct staged *ret, struct err *err)
{
	int error = 0;
	int fd = -1;

	for (unsigned try = 0; try < 100 && fd < 0; try++) {
		int n = snprintf(ret->temp, sizeof(ret->temp), ".%s.%ld.%u.tmp", f->name,
			(long)getpid(), try);

		if (n < 0 || (size_t)n >= sizeof(ret->temp)) {
			error = ENAMETOOLONG;
			break;
		}
		fd = openat(dirfd, ret->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
			MODE_SECRET);
		error = fd < 0 ? errno : 0;
		if (fd < 0 && error != EEXIST)
			break;
	}
	if (fd < 0) {
		ret->temp[0] = '\0';
		return fail(err, dir, f->name, "written", error);
	}
	error = files_write(fd, f->bytes);
	if (error == 0 && fchmod(fd, f->secret ? MODE_SECRET : MODE_PUBLIC) != 0)
		error = errno;
	if (error == 0 && fsync(fd) != 0)
		error = errno;
	if (close(fd) != 0 && error == 0)
		error = errno;
	return error == 0 ? 0 : fail(err, dir, f->name, "written", error);
}

/* Rename without overwriting: a link fails where something is, in one step. A file system without
 * links (FAT) has no such step; there the look before and the directory's lock must do. */
static int rename_new(int dirfd, const char *from, const char *to)
{
	if (linkat(dirfd, from, dirfd, to, 0) == 0)
		return unlinkat(dirfd, from, 0);
	if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS)
		return renameat(dirfd, from, dirfd, to);
	return -1;
}

static int place(int dirfd, const char *dir, const struct certs_file *f, struct staged *s,
	bool replace, struct err *err)
{
	int rc = replace ? renameat(dirfd, s->temp, dirfd, f->name)
			 : rename_new(dirfd, s->temp, f->name);

	if (rc != 0 && errno == EEXIST)
		return err_set(
			err, ERR_CONFLICT, "%s/%s: exists and is not overwritten", dir, f->name);
	if (rc != 0)
		return fail(err, dir, f->name, "put in its place", errno);
	s->temp[0] = '\0';
	s->placed = true;
	return 0;
}

static int write_into(int dirfd, const char *dir, const struct certs_file *files, size_t n,
	struct staged *staged, bool replace, struct err *err)
{
	int code = 0;

	for (size_t i = 0; i < n && code == 0; i++)
		code = check_target(dirfd, dir, &files[i], replace, err);
	for (size_t i = 0; i < n && code == 0; i++)
		code = stage(dirfd, dir, &files[i], &staged[i], err);
	for (size_t i = 0; i < n && code == 0; i++)
		code = place(dirfd, dir, &files[i], &staged[i], replace, err);
	/* some file systems cannot sync a directory; the files themselves are synced */
	if (code == 0 && fsync(dirfd) != 0 && errno != EINVAL && errno != ENOTSUP)
		code = fail(err, dir, "", "synced", errno);
	for (size_t i = 0; i < n && code != 0; i++) {
		if (staged[i].temp[0])
			(void)unlinkat(dirfd, staged[i].temp, 0);
		/* what replaced a file cannot be taken back; what is new is ours to remove */
		if (staged[i].placed && !replace)
			(void)unlinkat(dirfd, files[i].name, 0);
	}
	return code;
}

int certs_files_write(
	const char *dir, const struct certs_file *files, size_t n, bool replace, struct err *err)
{
	struct staged staged[CERTS_FILES_MAX] = {0};
	int dirfd = -1;
	int code = 0;

	if (n == 0 || n > CERTS_FILES_MAX)
		return err_set(err, ERR_INTERNAL, "%zu files to write at once", n);
	for (size_t i = 0; i < n; i++)
		if (!*files[i].name || strchr(files[i].name, '/'))
			return err_set(err, ERR_INTERNAL, "\"%s\" is no file name", files[i].name);
	code = open_dir(dir, &dirfd, err);
	if (code != 0)
		return code;
	code = write_into(dirfd, dir, files, n, staged, replace, err);
	close(dirfd); /* gives the lock back */
	return code;
}

static int read_fd(int fd, const char *path, struct buf *ret, struct err *err)
{
	struct stat st;
	ssize_t n = 0;

	if (fstat(fd, &st) != 0)
		return fail(err, path, "", "read", errno);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_IO, "%s: is %s; a PEM file is expected", path,
			S_ISDIR(st.st_mode) ? "a directory" : "not a regular file");
	if ((uintmax_t)st.st_size > CERTS_FILE_MAX)
		return err_set(err, ERR_TOOBIG, "%s: holds %jd bytes; at most %zu are read", path,
			(intmax_t)st.st_size, CERTS_FILE_MAX);
	ret->max = CERTS_FILE_MAX;
	/* all room at once, so that growing leaves no copy of a key in freed memory */
	if (!buf_reserve(ret, (size_t)st.st_size))
		return err_set(
			err, ERR_NOMEM, "%s: no memory for %jd bytes", path, (intmax_t)st.st_size);
	do {
		n = read(fd, ret->data + ret->len, (size_t)st.st_size - ret->len);
		if (n > 0)
			ret->len += (size_t)n;
	} while (n > 0 || (n < 0 && errno == EINTR));
	ret->data[ret->len] = '\0';
	return n < 0 ? fail(err, path, "", "read", errno) : 0;
}

int certs_files_read(const char *path, struct buf *ret, struct err *err)
{
	/* O_NONBLOCK: opening a pipe must not wait for its writer */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int code = 0;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return err_set(err, ERR_NOTFOUND, "%s: %s", path, strerror(errno));
	if (fd < 0)
		return err_set(err, ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
	code = read_fd(fd, path, ret, err);
	close(fd);
	if (code != 0)
		certs_files_wipe(ret);
	return code;
}

void certs_files_wipe(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
	buf_release(b);
}

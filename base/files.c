/* SPDX-License-Identifier: Apache-2.0 */
/* base: files on disk: read, told apart from what they were, replaced by rename; and in memory. */
#define _GNU_SOURCE 1 /* mkostemp, memfd_create */
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK 8192

static enum err_code code_of(int error)
{
	return error == ENOENT ? ERR_NOTFOUND : error == ENOMEM ? ERR_NOMEM : ERR_IO;
}

int files_drain(int fd, struct buf *out)
{
	for (;;) {
		size_t left = out->max - out->len, room = left < CHUNK ? left : CHUNK;
		char more; /* who is full has to see the end */
		ssize_t n;

		if (!buf_reserve(out, room))
			return ERR_NOMEM;
		n = read(fd, room ? out->data + out->len : &more, room ? room : 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? ERR_IO : 0;
		if (!room)
			return ERR_TOOBIG;
		out->len += (size_t)n;
		out->data[out->len] = '\0';
	}
}

int files_write(int fd, struct slice text)
{
	while (text.len > 0) {
		ssize_t n = write(fd, text.at, text.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		text.at += n;
		text.len -= (size_t)n;
	}
	return 0;
}

static int read_all(int fd, const char *path, struct buf *out, struct err *err)
{
	switch (files_drain(fd, out)) {
	case 0:
		return 0;
	case ERR_TOOBIG:
		return err_set(err, ERR_TOOBIG, "%s is over %zu bytes", path, out->max);
	case ERR_NOMEM:
		return err_set(err, ERR_NOMEM, "out of memory while reading %s", path);
	default:
		return err_set(err, ERR_IO, "cannot read %s: %s", path, strerror(errno));
	}
}

int files_read(const char *path, struct buf *out, struct err *err)
{
	/* Not blocked by a FIFO that nobody writes to. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc;
	struct stat st;

	if (fd < 0)
		return err_set(err, code_of(errno), "cannot open %s: %s", path, strerror(errno));
	if (fstat(fd, &st) != 0)
		rc = err_set(err, ERR_IO, "cannot read %s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		rc = err_set(err, ERR_IO, "%s is not a regular file", path);
	else
		rc = read_all(fd, path, out, err);
	(void)close(fd);
	if (rc != 0)
		buf_release(out);
	return rc;
}

static bool wanted(const char *name)
{
	static const char *const endings[] = {".yaml", ".yml", ".json"};
	size_t len = strlen(name);

	if (name[0] == '.')
		return false;
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		size_t n = strlen(endings[i]);

		if (len > n && strcmp(name + len - n, endings[i]) == 0)
			return true;
	}
	return false;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int list_folder(
	DIR *dir, const char *path, struct arena *a, struct file_list *ret, struct err *err)
{
	const char **names = arena_array(a, FILES_MAX, sizeof(*names));
	size_t n = 0, len = strlen(path);

	while (len > 0 && path[len - 1] == '/')
		len--;
	if (!names)
		return err_set(err, ERR_NOMEM, "out of memory while reading %s", path);
	for (;;) {
		struct dirent *entry;

		errno = 0;
		entry = readdir(dir); // NOLINT(concurrency-mt-unsafe): this stream is ours alone
		if (!entry && errno)
			return err_set(err, ERR_IO, "cannot read %s: %s", path, strerror(errno));
		if (!entry)
			break;
		if (!wanted(entry->d_name))
			continue;
		if (n == FILES_MAX)
			return err_set(
				err, ERR_TOOBIG, "%s holds more than %d files", path, FILES_MAX);
		names[n] = arena_fmt(a, "%.*s/%s", (int)len, path, entry->d_name);
		if (!names[n++])
			return err_set(err, ERR_NOMEM, "out of memory while reading %s", path);
	}
	qsort(names, n, sizeof(*names), by_name);
	*ret = (struct file_list){names, n};
	return 0;
}

int files_list(const char *path, struct arena *a, struct file_list *ret, struct err *err)
{
	struct stat st;
	DIR *dir;
	int rc;

	if (stat(path, &st) != 0)
		return err_set(err, code_of(errno), "cannot open %s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode)) {
		const char **one = arena_array(a, 1, sizeof(*one));

		if (!one || !(one[0] = arena_strdup(a, slice_of(path))))
			return err_set(err, ERR_NOMEM, "out of memory while reading %s", path);
		*ret = (struct file_list){one, 1};
		return 0;
	}
	dir = opendir(path);
	if (!dir)
		return err_set(err, code_of(errno), "cannot open %s: %s", path, strerror(errno));
	rc = list_folder(dir, path, a, ret, err);
	(void)closedir(dir);
	return rc;
}

/* FNV-1a, one number after the other. */
static void mix(uint64_t *h, uint64_t n)
{
	for (int i = 0; i < 8; i++) {
		*h = (*h ^ (n & 0xff)) * UINT64_C(0x100000001b3);
		n >>= 8;
	}
}

static void mix_text(uint64_t *h, const char *s)
{
	for (; *s; s++)
		*h = (*h ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
	mix(h, 0);
}

static void mix_stat(uint64_t *h, const struct stat *st)
{
	mix(h, (uint64_t)st->st_dev);
	mix(h, (uint64_t)st->st_ino);
	mix(h, (uint64_t)st->st_size);
	mix(h, (uint64_t)st->st_mtim.tv_sec);
	mix(h, (uint64_t)st->st_mtim.tv_nsec);
	mix(h, (uint64_t)st->st_ctim.tv_sec);
	mix(h, (uint64_t)st->st_ctim.tv_nsec);
}

uint64_t files_mark(const char *path)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325), sum = 0;
	struct dirent *entry;
	struct stat st;
	DIR *dir;

	if (stat(path, &st) != 0)
		return 0;
	if (!S_ISDIR(st.st_mode)) {
		mix_stat(&h, &st);
		return h ? h : 1;
	}
	dir = opendir(path);
	if (!dir)
		return 1;
	/* The order of readdir() may vary: the files' marks are added up. */
	while ((entry = readdir(dir))) { // NOLINT(concurrency-mt-unsafe): this stream is ours alone
		uint64_t one = UINT64_C(0xcbf29ce484222325);

		if (!wanted(entry->d_name))
			continue;
		mix_text(&one, entry->d_name);
		if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0)
			mix_stat(&one, &st);
		sum += one;
	}
	(void)closedir(dir);
	mix(&h, sum);
	return h ? h : 1;
}

/* ---- replaced ---- */

/* A new file beside the old one, then its name. What failed is in errno. */
static bool replace(const char *real, const struct stat *old, struct slice text)
{
	const char *slash = strrchr(real, '/');
	char *temp = NULL;
	int fd, saved;
	bool good;

	if (asprintf(&temp, "%.*s.%s.XXXXXX", (int)(slash - real) + 1, real, slash + 1) < 0)
		return false;
	fd = mkostemp(temp, O_CLOEXEC);
	good = fd >= 0;
	if (good && (old->st_uid != geteuid() || old->st_gid != getegid()))
		good = fchown(fd, old->st_uid, old->st_gid) == 0;
	good = good && fchmod(fd, old->st_mode & 07777) == 0 && files_write(fd, text) == 0 &&
	       fsync(fd) == 0 && rename(temp, real) == 0;
	saved = errno;
	if (fd >= 0 && !good)
		(void)unlink(temp);
	if (fd >= 0)
		(void)close(fd);
	free(temp);
	errno = saved;
	return good;
}

int files_replace(const char *path, struct slice text, struct err *err)
{
	char *real = realpath(path, NULL);
	struct stat st;
	int rc = 0;

	if (!real || stat(real, &st) != 0)
		rc = err_set(err, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "cannot find %s: %s",
			path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		rc = err_set(err, ERR_IO, "%s is not a regular file", path);
	else if (access(real, W_OK) != 0 || !replace(real, &st, text))
		rc = err_set(err, ERR_IO, "cannot write %s: %s", path, strerror(errno));
	free(real);
	return rc;
}

int files_in_memory(struct slice bytes, char ret[static FILES_MEMORY_PATH], struct err *err)
{
	int fd = memfd_create("poolgate", MFD_CLOEXEC);

	if (fd < 0 || files_write(fd, bytes) != 0) {
		(void)err_set(err, ERR_IO, "no file in memory: %s", strerror(errno));
		if (fd >= 0)
			(void)close(fd);
		return ERR_IO;
	}
	(void)snprintf(ret, FILES_MEMORY_PATH, "/proc/self/fd/%d", fd);
	return fd;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* base: a file's text replaced by rename, and files in memory. */
#define _GNU_SOURCE 1 /* mkostemp, memfd_create */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"

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

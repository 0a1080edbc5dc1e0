/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: the lock file of the one plugin in a folder. */
#define _GNU_SOURCE

#include "deviceplugin/alone.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of files that are removed before they are locked. */
#define TRIES 10

/* Does the file that fd has open stand at the path? */
static bool stands(const struct alone *a, int fd)
{
	struct stat mine, there;

	return fstat(fd, &mine) == 0 && lstat(a->path, &there) == 0 &&
	       mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

static int cannot_make(const struct alone *a, int error, struct err *err)
{
	return err_set(err, ERR_IO, "cannot make %s: %s%s", a->path, strerrordesc_np(error),
		error == ENOENT   ? "; is the kubelet's folder mounted there?"
		: error == ENOSPC ? "; make room there"
				  : "");
}

static int lock_it(const struct alone *a, int *ret_fd, struct err *err)
{
	for (int i = 0; i < TRIES; i++) {
		int fd = open(a->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), error;

		if (fd < 0)
			return cannot_make(a, errno, err);
		error = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
		if (error == 0 && stands(a, fd)) {
			*ret_fd = fd;
			return 0;
		}
		(void)close(fd);
		if (error == EWOULDBLOCK)
			return err_set(err, ERR_CONFLICT,
				"another device plugin offers " PLUGIN_RESOURCE
				" on this node (it holds %s); stop that one first",
				a->path);
		if (error != 0)
			return err_set(
				err, ERR_IO, "cannot lock %s: %s", a->path, strerrordesc_np(error));
	}
	return err_set(err, ERR_IO, "cannot lock %s: it is removed again and again", a->path);
}

int alone_hold(struct alone *a, const char *socket, struct err *err)
{
	const char *slash = strrchr(socket, '/');

	a->fd = -1;
	(void)snprintf(a->path, sizeof(a->path), "%.*s/" ALONE_NAME, (int)(slash - socket), socket);
	return lock_it(a, &a->fd, err);
}

int alone_still(struct alone *a, bool *ret_anew, struct err *err)
{
	int fd = -1, rc;

	*ret_anew = false;
	if (stands(a, a->fd))
		return 0;
	rc = lock_it(a, &fd, err);
	if (rc != 0)
		return rc;
	alone_release(a);
	a->fd = fd;
	*ret_anew = true;
	return 0;
}

void alone_release(struct alone *a)
{
	if (a->fd >= 0)
		(void)close(a->fd);
	a->fd = -1;
}

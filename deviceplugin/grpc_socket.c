/* SPDX-License-Identifier: Apache-2.0 */
/* deviceplugin: the socket that the server listens on, and whether it is still there. */
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "deviceplugin/grpc_impl.h"

/* So often it is tried anew at once when the folder was replaced while we began to listen there. */
#define REPLACED_MAX 5
#define SOCKET_TYPE (SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC)
/* Whatever may take our socket away, or clear its place. */
#define FOLDER_EVENTS                                                                              \
	(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF)

static struct sockaddr_un address_of(const struct grpc_socket *k)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	memcpy(a.sun_path, k->path, sizeof(a.sun_path));
	return a;
}

int grpc_socket_init(struct grpc_socket *k, const char *path, struct err *err)
{
	size_t len = strlen(path);
	const char *slash = strrchr(path, '/');

	*k = (struct grpc_socket){.fd = -1, .inotify = -1, .watch = -1};
	if (path[0] != '/' || slash[1] == '\0')
		return err_set(err, ERR_INVALID,
			"the socket's path is \"%s\"; it must be absolute and name a file", path);
	if (len >= sizeof(k->path))
		return err_set(err, ERR_INVALID,
			"the socket's path has %zu bytes; a socket's may have %zu: %s", len,
			sizeof(k->path) - 1, path);
	memcpy(k->path, path, len + 1);
	memcpy(k->folder, path, slash == path ? 1 : (size_t)(slash - path));
	k->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (k->inotify < 0)
		return err_set(err, ERR_IO, "cannot watch %s: %s", k->folder, strerror(errno));
	return 0;
}

/* ---- taking the place ---- */

static const char *advice(int error)
{
	switch (error) {
	case ENOENT:
	case ENOTDIR:
		return "; is the kubelet's folder mounted there?";
	case EACCES:
	case EPERM:
	case EROFS:
		return "; the folder must be writable for this program";
	case ENOSPC:
	case EDQUOT:
		return "; make room there";
	default:
		return "";
	}
}

static int cannot_listen(const struct grpc_socket *k, int error, struct err *err)
{
	return err_set(
		err, ERR_IO, "cannot listen at %s: %s%s", k->path, strerror(error), advice(error));
}

/* What stands at the path, and does somebody answer there? 0 when it may be removed. */
static int ask_holder(const struct grpc_socket *k, struct err *err)
{
	struct sockaddr_un a = address_of(k);
	struct stat st;
	int fd, rc, error;

	if (lstat(k->path, &st) != 0)
		return errno == ENOENT ? 0 : cannot_listen(k, errno, err);
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, ERR_CONFLICT,
			"cannot listen at %s: something that is no socket stands there; remove it",
			k->path);
	fd = socket(AF_UNIX, SOCKET_TYPE, 0);
	if (fd < 0)
		return cannot_listen(k, errno, err);
	rc = connect(fd, (const struct sockaddr *)&a, sizeof(a));
	error = rc == 0 ? 0 : errno;
	(void)close(fd);
	if (error == ECONNREFUSED || error == ENOENT)
		return 0;
	return err_set(err, ERR_CONFLICT,
		"cannot listen at %s: another program answers there; stop it, or choose another "
		"path",
		k->path);
}

static int bind_here(struct grpc_socket *k, int fd)
{
	struct sockaddr_un a = address_of(k);

	/* before bind: the file never has another mode */
	if (fchmod(fd, 0600) != 0)
		return -1;
	return bind(fd, (const struct sockaddr *)&a, sizeof(a));
}

static int take_place(struct grpc_socket *k, int fd, struct err *err)
{
	struct stat st;
	int rc;

	if (bind_here(k, fd) != 0) {
		if (errno != EADDRINUSE)
			return cannot_listen(k, errno, err);
		rc = ask_holder(k, err);
		if (rc != 0)
			return rc;
		if (unlink(k->path) != 0 && errno != ENOENT)
			return cannot_listen(k, errno, err);
		if (bind_here(k, fd) != 0)
			return cannot_listen(k, errno, err);
	}
	if (listen(fd, GRPC_CONNECTIONS_MAX) != 0 || lstat(k->path, &st) != 0)
		return cannot_listen(k, errno, err);
	k->dev = st.st_dev;
	k->ino = st.st_ino;
	return 0;
}

static int watch_folder(struct grpc_socket *k, struct err *err)
{
	int watch = inotify_add_watch(k->inotify, k->folder, FOLDER_EVENTS | IN_ONLYDIR);

	if (watch < 0)
		return cannot_listen(k, errno, err);
	if (k->watch >= 0 && k->watch != watch)
		(void)inotify_rm_watch(k->inotify, k->watch); /* another folder now */
	k->watch = watch;
	return 0;
}

/* Is the folder at the path the one that was opened? */
static bool is_folder(const struct grpc_socket *k, int folder)
{
	struct stat mine, there;

	return fstat(folder, &mine) == 0 && stat(k->folder, &there) == 0 &&
	       mine.st_dev == there.st_dev && mine.st_ino == there.st_ino;
}

/* *ret_replaced: the folder is another by now, so that the socket may be in one that is not
 * watched. */
static int listen_once(struct grpc_socket *k, bool *ret_replaced, struct err *err)
{
	int folder = open(k->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd, rc;

	*ret_replaced = false;
	if (folder < 0)
		return cannot_listen(k, errno, err);
	fd = socket(AF_UNIX, SOCKET_TYPE, 0);
	/* The lock: of two that find a dead socket, the second must not remove the first one's new
	 * socket. */
	if (fd < 0)
		rc = cannot_listen(k, errno, err);
	else if (flock(folder, LOCK_EX | LOCK_NB) != 0)
		rc = err_set(err, ERR_CONFLICT,
			"cannot listen at %s: another program begins to listen in that folder",
			k->path);
	else
		rc = watch_folder(k, err);
	if (rc == 0)
		rc = take_place(k, fd, err);
	*ret_replaced = !is_folder(k, folder);
	(void)close(folder);
	if (rc != 0 && fd >= 0)
		(void)close(fd);
	else
		k->fd = fd;
	return rc;
}

int grpc_socket_listen(struct grpc_socket *k, struct err *err)
{
	bool replaced = true;
	int rc = 0;

	for (int i = 0; i < REPLACED_MAX && replaced; i++) {
		grpc_socket_shut(k);
		rc = listen_once(k, &replaced, err);
	}
	if (rc == 0 && replaced) {
		grpc_socket_shut(k);
		return err_set(err, ERR_IO,
			"cannot listen at %s: its folder is replaced again and again", k->path);
	}
	return rc;
}

/* ---- keeping it ---- */

void grpc_socket_events(struct grpc_socket *k)
{
	char events[4096];

	ssize_t n;

	do {
		n = read(k->inotify, events, sizeof(events));
	} while (n > 0);
}

bool grpc_socket_ours(const struct grpc_socket *k)
{
	struct stat st;

	return k->fd >= 0 && lstat(k->path, &st) == 0 && st.st_dev == k->dev && st.st_ino == k->ino;
}

void grpc_socket_shut(struct grpc_socket *k)
{
	if (grpc_socket_ours(k))
		(void)unlink(k->path);
	if (k->fd >= 0)
		(void)close(k->fd);
	k->fd = -1;
}

void grpc_socket_release(struct grpc_socket *k)
{
	grpc_socket_shut(k);
	if (k->inotify >= 0)
		(void)close(k->inotify);
	k->inotify = -1;
}

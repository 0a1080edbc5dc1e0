/* SPDX-License-Identifier: Apache-2.0 */
/* gate: cgroups of claims. */
#define _GNU_SOURCE
#include "gate/process/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/text.h"

#define MOUNTS_MAX (4u << 20)

static int failed(const char *path, struct err *err)
{
	return err_set(err, ERR_IO, "%s: %s", path, strerrordesc_np(errno));
}

static bool join(
	char ret[static CGROUP_PATH_MAX], const char *a, const char *between, const char *b)
{
	int n = snprintf(ret, CGROUP_PATH_MAX, "%s%s%s", a, between, b);

	return n > 0 && n < CGROUP_PATH_MAX;
}

/* The next line of a text, without its end. */
static bool next_line(struct slice *rest, struct slice *ret)
{
	const char *end = rest->len ? memchr(rest->at, '\n', rest->len) : NULL;

	if (!end)
		return false;
	*ret = (struct slice){rest->at, (size_t)(end - rest->at)};
	*rest = (struct slice){end + 1, rest->len - ret->len - 1};
	return true;
}

/* The line of the one hierarchy that has no number: "0::/a/b". "" for the top. */
static bool read_own(const char *proc, char ret[static CGROUP_PATH_MAX])
{
	char path[CGROUP_PATH_MAX];
	struct slice rest, line = {0};
	struct buf text;
	bool found = false;

	buf_init(&text, CGROUP_PATH_MAX * 16);
	if (join(path, proc, "/", "cgroup") && files_read(path, &text, NULL) == 0) {
		rest = buf_as_slice(&text);
		while (!found && next_line(&rest, &line))
			found = slice_starts(line, SLICE("0::/")) && line.len - 3 < CGROUP_PATH_MAX;
	}
	if (found) {
		memcpy(ret, line.at + 3, line.len - 3);
		ret[line.len == 4 ? 0 : line.len - 3] = '\0';
	}
	buf_release(&text);
	return found;
}

/* A line of mountinfo: its root is its fourth word, its place the fifth, its type stands behind the
 * word "-". Names that are written otherwise than they are do not matter: nobody mounts it there.
 */
static bool read_mount(struct slice line, struct slice *ret)
{
	struct slice word, root = {0};

	for (int i = 1; i <= 5; i++) {
		if (!text_word(&line, &word))
			return false;
		if (i == 4)
			root = word;
	}
	*ret = word;
	while (text_word(&line, &word))
		if (slice_is(word, "-"))
			return text_word(&line, &word) && slice_is(word, "cgroup2") &&
			       slice_is(root, "/");
	return false;
}

static bool find_mount(const char *proc, char ret[static CGROUP_PATH_MAX])
{
	char path[CGROUP_PATH_MAX];
	struct slice rest, line = {0}, at = {0};
	struct buf text;
	bool found = false;

	buf_init(&text, MOUNTS_MAX);
	if (join(path, proc, "/", "mountinfo") && files_read(path, &text, NULL) == 0) {
		rest = buf_as_slice(&text);
		while (!found && next_line(&rest, &line))
			found = read_mount(line, &at) && at.len < CGROUP_PATH_MAX;
	}
	if (found) {
		memcpy(ret, at.at, at.len);
		ret[at.len] = '\0';
	}
	buf_release(&text);
	return found;
}

/* Who may make them must be able to bring somebody in, and to end who is in. */
static int try_one(const struct cgroup_home *home, struct err *err)
{
	char name[32], folder[CGROUP_PATH_MAX], file[CGROUP_PATH_MAX];
	int rc;

	(void)snprintf(name, sizeof(name), "gpugate-%d", (int)getpid());
	rc = cgroup_make(home, name, folder, err);
	if (rc != 0)
		return rc;
	if (!join(file, folder, "/", "cgroup.kill") || access(file, W_OK) != 0)
		rc = err_set(err, ERR_IO,
			"there is no cgroup.kill, which Linux has from 5.14 on, or it is not ours");
	else if (!join(file, home->path, "/", "cgroup.procs") || access(file, W_OK) != 0)
		rc = failed(file, err);
	(void)cgroup_remove(folder);
	return rc;
}

int cgroup_home_find(const char *proc, struct cgroup_home *ret, struct err *err)
{
	char mount[CGROUP_PATH_MAX], own[CGROUP_PATH_MAX];
	int rc;

	*ret = (struct cgroup_home){0};
	if (!read_own(proc, own) || !find_mount(proc, mount))
		return err_set(err, ERR_NOTFOUND, "no cgroup v2 is mounted here");
	ret->mount = strlen(mount);
	if (join(ret->path, mount, "", own))
		rc = try_one(ret, err);
	else
		rc = err_set(err, ERR_IO, "the path of our cgroup is too long");
	if (rc != 0)
		ret->path[0] = '\0';
	return rc;
}

int cgroup_make(const struct cgroup_home *home, const char *name, char ret[static CGROUP_PATH_MAX],
	struct err *err)
{
	if (!join(ret, home->path, "/", name))
		return err_set(err, ERR_IO, "the path of a cgroup is too long");
	if (mkdir(ret, 0755) == 0)
		return 0;
	/* What a gate before left empty. */
	if (errno == EEXIST && rmdir(ret) == 0 && mkdir(ret, 0755) == 0)
		return 0;
	return errno == EBUSY
		       ? err_set(err, ERR_IO, "processes of others are in its cgroup, %s", ret)
		       : failed(ret, err);
}

static bool write_to(const char *folder, const char *name, const char *text)
{
	char file[CGROUP_PATH_MAX];
	size_t len = strlen(text);
	bool good;
	int fd;

	if (!join(file, folder, "/", name))
		return false;
	fd = open(file, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	good = write(fd, text, len) == (ssize_t)len;
	(void)close(fd);
	return good;
}

bool cgroup_enter(const char *folder)
{
	return write_to(folder, "cgroup.procs", "0");
}

void cgroup_kill(const char *folder)
{
	(void)write_to(folder, "cgroup.kill", "1");
}

bool cgroup_remove(const char *folder)
{
	return rmdir(folder) == 0 || errno != EBUSY;
}

bool cgroup_of(const struct cgroup_home *home, pid_t pid, char ret[static CGROUP_PATH_MAX])
{
	char proc[32], own[CGROUP_PATH_MAX];
	size_t n = home->mount;

	(void)snprintf(proc, sizeof(proc), "/proc/%d", (int)pid);
	if (!home->path[0] || !read_own(proc, own) || n + strlen(own) >= CGROUP_PATH_MAX)
		return false;
	memcpy(ret, home->path, n);
	memcpy(ret + n, own, strlen(own) + 1);
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* gate: the process of one claim's server: started, found again, ended. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/json/json_record.h"
#include "gate/children_impl.h"
#include "gate/process/family.h"
#include "gate/process/keep.h"

#define FOLDER_MAX 4096
#define ARENA_MAX (4u << 20)

/* ---- what is left for another gate ---- */

struct left {
	int pid;
	uint64_t began; /* of the process of that pid */
	uint32_t slot;
	uint64_t profile;
	const char *share;
	const char *cgroup; /* NULL: it has none */
	bool mps;
	bool ends; /* it was told to */
};

static const struct json_field left_fields[] = {
	REC_INT(left, pid, "pid", REC_NEEDED, .min = 1, .max = INT32_MAX),
	REC_COUNT(left, began, "began", REC_NEEDED),
	REC_U32(left, slot, "slot", REC_NEEDED, .min = 0, .max = CHILDREN_MAX - 1),
	REC_HEX(left, profile, "profile", REC_NEEDED),
	REC_STR(left, share, "share", REC_NEEDED),
	REC_STR(left, cgroup, "cgroup", REC_OMIT | REC_OR_NULL),
	REC_BOOL(left, mps, "mps", REC_OMIT),
	REC_BOOL(left, ends, "ends", REC_OMIT),
};
JSON_RECORD(left_record, left, left_fields, 0);

static void path_of(const struct child *s, const char *end, char ret[static FOLDER_MAX])
{
	(void)snprintf(ret, FOLDER_MAX, "%s/%s%s", s->all->cfg.state_dir, s->uid, end);
}

/* Written beside it and then put in its place: there is never a half of it. */
static int leave(const struct child *s, struct err *err)
{
	const struct left left = {
		s->pid, s->began, s->slot, s->profile, s->share, s->cgroup, s->mps, s->ends};
	char path[FOLDER_MAX], made[FOLDER_MAX];
	struct buf text;
	int fd, rc = 0;

	path_of(s, ".json", path);
	path_of(s, ".new", made);
	buf_init(&text, FOLDER_MAX * 16);
	json_record_write(&left_record, &left, &text);
	fd = open(made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || text.failed || write(fd, text.data, text.len) != (ssize_t)text.len ||
		rename(made, path) != 0)
		rc = err_set(err, ERR_IO, "%s: %s", path, strerrordesc_np(errno));
	if (fd >= 0)
		(void)close(fd);
	buf_release(&text);
	return rc;
}

static int read_left(const struct child *s, struct arena *a, struct left *ret, struct err *err)
{
	struct json_reader r = {.a = a, .err = err};
	struct json j = {0};
	char path[FOLDER_MAX], *copy = NULL;
	struct buf text;
	int rc;

	path_of(s, ".json", path);
	buf_init(&text, FOLDER_MAX * 16);
	rc = files_read(path, &text, err);
	if (rc == 0)
		rc = json_read_copy(&j, text.data ? text.data : "", text.len, 64, &copy, err);
	r.j = &j;
	if (rc == 0)
		rc = json_record_read(&r, json_root(&j), &left_record, ret);
	json_release(&j);
	free(copy);
	buf_release(&text);
	return rc;
}

static int watch(struct child *s, struct err *err)
{
	s->pidfd = (int)syscall(SYS_pidfd_open, s->pid, 0);
	if (s->pidfd < 0)
		return err_set(err, ERR_IO, "pidfd: %s", strerrordesc_np(errno));
	return loop_add(s->all->cfg.loop, s->pidfd, &s->watch, err);
}

/* All that is in it will be ended: a folder of another machine's, or an edited one, does not say
 * whose. */
static bool is_of_claim(const char *cgroup, const char *uid)
{
	const char *last = strrchr(cgroup, '/');

	return last && strncmp(last, "/claim-", 7) == 0 && strcmp(last + 7, uid) == 0;
}

bool child_find(struct child *s, const char *uid)
{
	struct left left = {0};
	struct arena a;
	bool found;

	(void)snprintf(s->uid, sizeof(s->uid), "%s", uid);
	arena_init_small(&a, FOLDER_MAX * 64, 4096);
	found = read_left(s, &a, &left, NULL) == 0;
	if (found) {
		s->slot = left.slot;
		s->mps = left.mps;
		s->ends = left.ends;
		s->share = strdup(left.share);
		s->cgroup =
			left.cgroup && is_of_claim(left.cgroup, uid) ? strdup(left.cgroup) : NULL;
		s->began = left.began;
		s->profile = left.profile;
		s->over = left.profile != s->all->cfg.profile->hash;
		found = s->share && family_began(left.pid) == left.began;
	}
	if (found) {
		s->pid = left.pid;
		/* It may have ended, and another be of its pid, before it is watched. */
		found = watch(s, NULL) == 0 && family_began(left.pid) == left.began;
	}
	arena_release(&a);
	return found;
}

/* ---- folders ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st, (void)type, (void)at;
	(void)remove(path);
	return 0;
}

/* What cannot be removed is in the way of nobody but the next server of this very claim, which says
 * so. What is in the folder is removed as the account that could write there, which may be another
 * than the claim's next one: it could put a link in our way meanwhile. */
static void tidy(const struct child *s)
{
	char path[FOLDER_MAX];
	struct stat st;
	bool others;

	path_of(s, "", path);
	others = lstat(path, &st) == 0 && st.st_uid != geteuid();
	if (others)
		(void)setfsuid(st.st_uid);
	(void)nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	if (others)
		(void)setfsuid(geteuid());
	(void)rmdir(path);
	path_of(s, ".json", path);
	(void)unlink(path);
}

static int make_folder(const struct child *s, char ret[static FOLDER_MAX], struct err *err)
{
	path_of(s, "", ret);
	if (mkdir(ret, 0700) != 0 ||
		(s->all->switches && chown(ret, child_uid(s), child_gid(s)) != 0))
		return err_set(err, ERR_IO, "%s: %s", ret, strerrordesc_np(errno));
	return 0;
}

/* ---- cgroups ---- */

/* Where they can be made. */
static int make_cgroup(struct child *s, struct err *err)
{
	char name[BEARER_UID_MAX + sizeof("claim-")], folder[CGROUP_PATH_MAX];

	if (!s->all->cgroups.path[0])
		return 0;
	(void)snprintf(name, sizeof(name), "claim-%s", s->uid);
	if (cgroup_make(&s->all->cgroups, name, folder, err) != 0)
		return err->code;
	s->cgroup = strdup(folder);
	if (s->cgroup)
		return 0;
	(void)cgroup_remove(folder);
	return err_set(err, ERR_NOMEM, "out of memory for a server");
}

bool child_clear(struct child *s)
{
	if (s->cgroup) {
		cgroup_kill(s->cgroup);
		if (!cgroup_remove(s->cgroup))
			return false;
		free(s->cgroup);
		s->cgroup = NULL;
	}
	tidy(s);
	return true;
}

/* Its folder, and its cgroup. */
static int make_room(struct child *s, char ret[static FOLDER_MAX], struct err *err)
{
	if (!child_clear(s))
		return err_set(err, ERR_IO, "processes of the last one are left");
	if (make_folder(s, ret, err) != 0)
		return err->code;
	return make_cgroup(s, err);
}

/* ---- the process ---- */

/* In the child. It reads a word from us before it starts anything. */
static void become_keep(const struct child *s, int in, int out, char *const *argv, char *const *env)
{
	(void)setsid();
	(void)dup2(in, STDIN_FILENO);
	(void)dup2(out, STDOUT_FILENO);
	if (s->listener >= 0) {
		(void)dup2(s->listener, KEEP_SOCKET);
		(void)fcntl(KEEP_SOCKET, F_SETFD, 0);
	}
	(void)close_range(s->listener >= 0 ? KEEP_SOCKET + 1 : KEEP_SOCKET, ~0U, 0);
	(void)execve("/proc/self/exe", argv, env);
	_exit(127);
}

static int spawn(struct child *s, int in, int out, char **words, char **env, struct arena *a,
	struct err *err)
{
	const struct children *all = s->all;
	const struct server_profile *p = all->cfg.profile;
	const char *talk = out == STDERR_FILENO ? "-" : "talk";
	size_t n = 0;
	char **argv;

	while (words[n])
		n++;
	argv = arena_array(a, n + 10, sizeof(*argv));
	if (!argv)
		return err_set(err, ERR_NOMEM, "out of memory for a server");
	argv[0] = arena_strdup(a, SLICE("gpugate"));
	argv[1] = arena_strdup(a, SLICE("keep"));
	argv[2] = arena_fmt(a, all->switches ? "%u" : "-", (unsigned)child_uid(s));
	argv[3] = arena_fmt(a, "%u", (unsigned)child_gid(s));
	argv[4] = arena_fmt(a, "%lld", (long long)p->grace_ms);
	argv[5] = arena_strdup(a, slice_of(s->cgroup ? s->cgroup : "-"));
	argv[6] = arena_strdup(a, slice_of(s->listener >= 0 ? "socket" : talk));
	argv[7] = arena_strdup(a, slice_of(p->mps_control ? p->mps_control : "-"));
	argv[8] = arena_strdup(a, slice_of(p->mps_pipe ? p->mps_pipe : "-"));
	memcpy(argv + 9, words, n * sizeof(*argv));
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory for a server");
	s->pid = fork();
	if (s->pid == 0)
		become_keep(s, in, out, argv, env);
	return s->pid > 0 ? 0 : err_set(err, ERR_IO, "fork: %s", strerrordesc_np(errno));
}

static int no_pipe(struct err *err)
{
	return err_set(err, ERR_IO, "pipe: %s", strerrordesc_np(errno));
}

/* A process that the next gate would not find must start nothing: it is told to only when its file
 * stands. */
static int let_go(struct child *s, int word, struct err *err)
{
	int rc = watch(s, err);

	s->began = family_began(s->pid);
	if (rc == 0)
		rc = leave(s, err);
	if (rc == 0 && write(word, "", 1) != 1)
		rc = no_pipe(err);
	if (rc != 0)
		child_stop(s, true);
	return rc;
}

static int start_found(
	struct child *s, char **argv, char **env, struct arena *a, int *ret_ends, struct err *err)
{
	int in[2], out[2] = {-1, STDERR_FILENO}, rc;

	if (pipe2(in, O_CLOEXEC) != 0)
		return no_pipe(err);
	rc = ret_ends && pipe2(out, O_CLOEXEC) != 0 ? no_pipe(err) : 0;
	if (rc == 0)
		rc = spawn(s, in[0], out[1], argv, env, a, err);
	if (rc == 0)
		rc = let_go(s, in[1], err);
	(void)close(in[0]);
	if (out[1] != STDERR_FILENO)
		(void)close(out[1]);
	if (rc == 0 && ret_ends) {
		(void)fcntl(out[0], F_SETFL, O_NONBLOCK);
		ret_ends[0] = in[1];
		ret_ends[1] = out[0];
		return 0;
	}
	(void)close(in[1]);
	child_close(&out[0]);
	return rc;
}

int child_start(struct child *s, const struct picture_claim *claim, const char *share,
	int *ret_ends, struct err *err)
{
	const struct server_profile *profile = s->all->cfg.profile;
	char folder[FOLDER_MAX], **argv, **env;
	const struct server_profile_place at = {claim, s->address, folder};
	struct arena a;
	int rc;

	if (!share && child_listens(s->address, profile->port))
		return err_set(err, ERR_INVALID,
			"somebody else listens at %s port %u, perhaps on all addresses", s->address,
			(unsigned)profile->port);
	s->pid = 0;
	s->ends = false;
	s->mps = profile->mps_control != NULL;
	s->profile = profile->hash;
	arena_init_small(&a, ARENA_MAX, 4096);
	rc = make_room(s, folder, err);
	if (rc == 0)
		rc = server_profile_words(profile, &at, &a, &argv, &env, err);
	if (rc == 0 && share) {
		char *words[] = {arena_strdup(&a, SLICE("/proc/self/exe")),
			arena_strdup(&a, SLICE("try")), arena_strdup(&a, slice_of(share)), NULL};

		rc = start_found(s, words, env, &a, ret_ends, err);
	} else if (rc == 0) {
		rc = profile->inherits ? child_open(s, err) : 0;
		rc = rc == 0 ? start_found(s, argv, env, &a, NULL, err) : rc;
	}
	arena_release(&a);
	if (rc == 0)
		return 0;
	if (s->pid > 0)
		(void)waitpid(s->pid, NULL, 0);
	(void)child_reap(s);
	(void)child_clear(s);
	return rc;
}

void child_mark(struct child *s)
{
	struct err err = {0};

	if (s->ends)
		return;
	s->ends = true;
	if (leave(s, &err) != 0)
		log_line(s->all->cfg.log, LOG_LEVEL_ERROR,
			"the next gate will take a server that is ended for one that is up",
			log_str("uid", s->uid), log_str("error", err.msg));
}

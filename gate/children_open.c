/* SPDX-License-Identifier: Apache-2.0 */
/* gate: servers as a gate begins with them: under which account, and what another gate has left. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "gate/children_impl.h"
#include "gate/process/account.h"

/* Of tries to lock the folder, 20 ms apart. */
#define TRIES 50

static int no_account(const char *user, struct err *err)
{
	return err_set(err, ERR_INVALID,
		"found user \"%s\", expected the name or number of an account other than root, or "
		"FIRST-LAST, numbers that are nobody's",
		user);
}

/* "lupine", "991", or "200000-200255": a claim an account, so that no server can touch another's.
 */
static int find_account(struct children *s, struct err *err)
{
	const char *user = s->cfg.profile->user, *dash = user ? strchr(user, '-') : NULL;
	uint64_t first, last;

	if (!user)
		return geteuid() != 0 ? 0 : no_account("", err);
	if (dash && text_u64((struct slice){user, (size_t)(dash - user)}, UINT32_MAX / 2, &first)) {
		if (!text_u64(slice_of(dash + 1), UINT32_MAX / 2, &last) || last < first)
			return no_account(user, err);
		s->accounts =
			last - first < CHILDREN_MAX ? (unsigned)(last - first) + 1 : CHILDREN_MAX;
		s->uid = (uid_t)first;
		s->gid = (gid_t)first;
	} else if (account_find(slice_of(user), &s->uid, &s->gid, err) != 0) {
		return ERR_NOTFOUND;
	}
	if (s->uid == 0)
		return no_account(user, err);
	s->switches = s->uid != geteuid() || s->accounts > 0;
	return 0;
}

/* Whoever could write there could have us end any process. */
static int look_at_folder(const char *path, struct err *err)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return err_set(err, ERR_IO, "%s: %s", path, strerrordesc_np(errno));
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		return err_set(err, ERR_INVALID,
			"%s: expected a folder that is gpugate's, and that nobody else may write "
			"to",
			path);
	return 0;
}

/* Else another gate would end our servers, or take them for its own. The kernel gives the lock up
 * with our end. A process that was to become a server's parent has it, too, for the moment until it
 * has closed what it was born with: a gate that was killed then is waited for. */
static int lock_folder(struct children *s, struct err *err)
{
	const struct timespec soon = {.tv_nsec = 20000000};
	const char *path = s->cfg.state_dir;

	s->lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->lock < 0)
		return err_set(err, ERR_IO, "%s: %s", path, strerrordesc_np(errno));
	for (int i = 0; flock(s->lock, LOCK_EX | LOCK_NB) != 0; i++) {
		if (errno != EWOULDBLOCK)
			return err_set(
				err, ERR_IO, "%s: no lock: %s", path, strerrordesc_np(errno));
		if (i == TRIES)
			return err_set(err, ERR_CONFLICT,
				"%s: another gpugate has its servers there: end that one, or "
				"start this one with a --state of its own",
				path);
		(void)nanosleep(&soon, NULL);
	}
	return 0;
}

/* Its parent has ended. What is left of its family ends, too, and has its GPU until then. */
static void take_leavings(struct children *all, struct child *s)
{
	if (child_clear(s) || !s->share || all->server[s->slot]) {
		child_free(s);
		return;
	}
	child_put(all, s);
	s->over = true;
	s->state = s->was = CHILD_ENDING;
	child_say(s, LOG_LEVEL_INFO, "what a server has left is ended");
}

static int take_up(struct children *all, struct slice uid, struct err *err)
{
	char name[BEARER_UID_MAX];
	struct child *s;

	if (uid.len >= sizeof(name))
		return 0;
	memcpy(name, uid.at, uid.len);
	name[uid.len] = '\0';
	s = child_new(all, name);
	if (!s)
		return err_set(err, ERR_NOMEM, "out of memory for the servers");
	if (!child_find(s, name) || all->server[s->slot]) {
		(void)child_reap(s);
		take_leavings(all, s);
		return 0;
	}
	child_put(all, s);
	s->state = CHILD_STARTING;
	s->until_ms = clock_ms() + all->cfg.profile->readiness_ms;
	child_say(s, LOG_LEVEL_INFO, "a server was found");
	/* There is no account of ours for it, so it is another profile's; or nobody hears it. */
	s->over = s->over || (all->accounts && s->slot >= all->accounts) ||
		  strcmp(name, CHILDREN_TRY) == 0;
	if (s->over || s->ends)
		child_end(s);
	return 0;
}

static int take_up_all(struct children *s, struct err *err)
{
	DIR *folder = opendir(s->cfg.state_dir);
	int rc = 0;

	if (!folder)
		return err_set(err, ERR_IO, "%s: %s", s->cfg.state_dir, strerrordesc_np(errno));
	for (struct dirent *e; rc == 0 && (e = readdir(folder)) != NULL;) {
		size_t len = strlen(e->d_name);

		if (len > 5 && strcmp(e->d_name + len - 5, ".json") == 0)
			rc = take_up(s, (struct slice){e->d_name, len - 5}, err);
	}
	(void)closedir(folder);
	return rc;
}

/* Without them a family is who is below its parent, which holds as long as that lives. */
static void find_cgroups(struct children *s)
{
	struct err why = {0};

	if (cgroup_home_find("/proc/self", &s->cgroups, &why) == 0)
		log_line(s->cfg.log, LOG_LEVEL_INFO, "each server has a cgroup of its own",
			log_str("below", s->cgroups.path));
	else
		log_line(s->cfg.log, LOG_LEVEL_WARN, "servers have no cgroup of their own",
			log_str("error", why.msg));
}

int children_new(const struct children_config *config, struct children **ret, struct err *err)
{
	struct children *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return err_set(err, ERR_NOMEM, "out of memory for the servers");
	s->cfg = *config;
	s->lock = -1;
	rc = find_account(s, err);
	if (rc == 0)
		rc = look_at_folder(config->state_dir, err);
	if (rc == 0)
		rc = lock_folder(s, err);
	if (rc == 0) {
		find_cgroups(s);
		rc = take_up_all(s, err);
	}
	if (rc != 0) {
		children_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void children_free(struct children *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->top; i++)
		if (s->server[i])
			child_free(s->server[i]);
	child_close(&s->lock);
	free(s);
}

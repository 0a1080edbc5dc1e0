/* SPDX-License-Identifier: Apache-2.0 */
/* gate: families of processes. */
#define _GNU_SOURCE
#include "gate/process/family.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/list.h"
#include "base/slice.h"
#include "base/text.h"

/* The machine's own: PROC_PID_INIT_INO of the kernel. */
#define PID_NAMESPACE "pid:[4026531836]"
/* More than that no machine has in a row. */
#define STEPS_MAX (1 << 22)

struct kin {
	pid_t pid, parent;
	bool over;
	uint64_t began; /* as family_began says */
};

static bool read_proc(pid_t pid, const char *name, char *to, size_t max)
{
	char path[32];
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, to, max - 1);
	(void)close(fd);
	if (n <= 0)
		return false;
	to[n] = '\0';
	return true;
}

/* The fields of /proc/PID/stat behind the command, which may hold anything; state is the first. */
static bool read_stat(pid_t pid, char *to, size_t max, const char **ret_fields)
{
	if (!read_proc(pid, "stat", to, max))
		return false;
	*ret_fields = strrchr(to, ')');
	if (!*ret_fields || (*ret_fields)[1] != ' ')
		return false;
	*ret_fields += 2;
	return true;
}

/* The number behind the state. */
static bool parent_in(const char *fields, uint64_t *ret)
{
	struct slice rest = slice_of(fields), state, word;

	return text_word(&rest, &state) && text_word(&rest, &word) &&
	       text_u64(word, INT32_MAX, ret);
}

pid_t family_parent(pid_t pid)
{
	char text[1024];
	const char *at;
	uint64_t parent;

	return pid > 0 && read_stat(pid, text, sizeof(text), &at) && parent_in(at, &parent)
		       ? (pid_t)parent
		       : 0;
}

/* Who ends on the way to the root leaves its children to another: we begin anew. */
bool family_has(pid_t root, pid_t pid)
{
	pid_t at = pid, parent;

	for (int i = 0; i < STEPS_MAX; i++) {
		parent = family_parent(at);
		if (parent == root)
			return true;
		if (parent == 0 && (at == pid || at == 1 || family_began(at) != 0))
			return false;
		at = parent == 0 ? pid : parent;
	}
	return false;
}

/* The 22nd field; at is the third, the state. */
static uint64_t began_in(const char *at)
{
	struct slice rest = slice_of(at), word = {0};
	uint64_t began;

	for (int i = 3; i <= 22; i++)
		if (!text_word(&rest, &word))
			return 0;
	return text_u64(word, UINT64_MAX, &began) ? began : 0;
}

uint64_t family_began(pid_t pid)
{
	char text[1024];
	const char *at;

	return pid > 0 && read_stat(pid, text, sizeof(text), &at) ? began_in(at) : 0;
}

/* All processes of the machine; free() it. */
static struct kin *read_all(size_t *ret_n)
{
	DIR *proc = opendir("/proc");
	struct kin *all = NULL;
	size_t n = 0, cap = 0;
	char text[1024];
	const char *at;
	uint64_t pid, parent;

	for (struct dirent *e; proc && (e = readdir(proc)) != NULL;) {
		if (!text_u64(slice_of(e->d_name), INT32_MAX, &pid) ||
			!read_stat((pid_t)pid, text, sizeof(text), &at) || !parent_in(at, &parent))
			continue;
		if (!LIST_ROOM(all, n, cap))
			break;
		all[n++] = (struct kin){
			(pid_t)pid, (pid_t)parent, at[0] == 'Z' || at[0] == 'X', began_in(at)};
	}
	if (proc)
		(void)closedir(proc);
	*ret_n = n;
	return all;
}

/* Bring the family to the front: those whose parent is root, behind them those whose parent is one
 * of those, and so on. Their number. */
static size_t gather(struct kin *all, size_t n, pid_t root)
{
	size_t ours = 0;
	pid_t parent = root;

	for (size_t next = 0;; parent = all[next++].pid) {
		for (size_t i = ours; i < n; i++) {
			struct kin one = all[i];

			if (one.parent != parent)
				continue;
			all[i] = all[ours];
			all[ours++] = one;
		}
		if (next == ours)
			return ours;
	}
}

/* Those of the family that have not ended; free() it. */
static struct kin *read_family(pid_t root, size_t *ret_n)
{
	size_t n, alive = 0;
	struct kin *all = read_all(&n);

	n = all ? gather(all, n, root) : 0;
	for (size_t i = 0; i < n; i++)
		if (!all[i].over)
			all[alive++] = all[i];
	*ret_n = alive;
	return all;
}

/* Else it would end by it, or pass it over. */
static bool catches(pid_t pid, int signal)
{
	char text[4096];
	const char *at =
		read_proc(pid, "status", text, sizeof(text)) ? strstr(text, "\nSigCgt:") : NULL;

	return at && (strtoull(at + strlen("\nSigCgt:"), NULL, 16) >> (signal - 1) & 1);
}

/* Its number may be another's since it was read: what is held is looked at again. */
static void send_to(const struct kin *one, int signal)
{
	int fd = (int)syscall(SYS_pidfd_open, one->pid, 0);

	if (fd < 0)
		return;
	if (family_began(one->pid) == one->began)
		(void)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
	(void)close(fd);
}

int family_signal(pid_t root, int signal, bool caught)
{
	size_t n;
	struct kin *all = read_family(root, &n);

	if (!all)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (signal && (!caught || catches(all[i].pid, signal)))
			send_to(&all[i], signal);
	free(all);
	return (int)n;
}

bool family_is_named(pid_t pid, const char *name)
{
	char text[32];

	return read_proc(pid, "comm", text, sizeof(text)) && strcspn(text, "\n") == strlen(name) &&
	       strncmp(text, name, strlen(name)) == 0;
}

bool family_of_machine(void)
{
	char name[64];
	ssize_t n = readlink("/proc/self/ns/pid", name, sizeof(name) - 1);

	name[n > 0 ? n : 0] = '\0';
	return strcmp(name, PID_NAMESPACE) == 0;
}

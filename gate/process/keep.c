/* SPDX-License-Identifier: Apache-2.0 */
/* gate: the parent of one claim's server. */
#define _GNU_SOURCE
#include "gate/process/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "gate/process/cgroup.h"
#include "gate/process/family.h"
#include "gate/process/mps_ask.h"

#define EXIT_NOT_STARTED 127
/* Between two looks at who is left. */
#define LOOK_MS 5
/* After MPS has not answered. */
#define MPS_AGAIN_MS 2000
/* Between two looks who is left, until it is asked again. */
#define AWAY_MS 200

struct keep {
	bool switches; /* the account */
	bool socket;   /* it is given one */
	bool talks;    /* our standard input and output are the server's */
	uint64_t uid, gid, grace_ms;
	const char *cgroup;  /* NULL: ours */
	const char *control; /* MPS's control program; NULL: it need not be asked */
	const char *pipe;    /* NULL: the usual one */
	bool away;           /* it has not answered */
	bool told;           /* that it never will */
	char **argv;
	pid_t server;
	sigset_t signals;
};

static int say(const char *what, const char *of)
{
	(void)fprintf(stderr, "gpugate: %s: %s: %s\n", of, what, strerrordesc_np(errno));
	return EXIT_NOT_STARTED;
}

/* The socket, in systemd's words. The pid is the server's: this process becomes it. */
static bool hand_over(void)
{
	char pid[16];

	(void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
	return setenv("LISTEN_FDS", "1", 1) == 0 && setenv("LISTEN_PID", pid, 1) == 0;
}

/* The server's own process: another account, no way to more rights, a group and a cgroup of its
 * own, and no life without its parent. */
static int become(const struct keep *k)
{
	sigset_t none;

	(void)sigemptyset(&none);
	/* gpugate passes over it, and what is passed over is inherited. */
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return say("prctl", k->argv[0]);
	if (setpgid(0, 0) != 0)
		return say("its process group", k->argv[0]);
	if (k->cgroup && !cgroup_enter(k->cgroup))
		return say("its cgroup", k->argv[0]);
	if (k->switches && (setgroups(0, NULL) != 0 ||
				   setresgid((gid_t)k->gid, (gid_t)k->gid, (gid_t)k->gid) != 0 ||
				   setresuid((uid_t)k->uid, (uid_t)k->uid, (uid_t)k->uid) != 0))
		return say("its account", k->argv[0]);
	/* It forgets the parent when the account changes. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || sigprocmask(SIG_SETMASK, &none, NULL) != 0)
		return say("prctl", k->argv[0]);
	if (k->socket && !hand_over())
		return say("its socket", k->argv[0]);
	(void)execve(k->argv[0], k->argv, environ);
	return say("cannot be started", k->argv[0]);
}

/* Ask for all that have ended. True: the server itself was among them. */
static bool reap(struct keep *k, int *ret_status)
{
	bool over = false;
	int status;

	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
		if (pid != k->server)
			continue;
		over = true;
		*ret_status = status;
	}
	return over;
}

/* Nobody of them is a client of MPS any more, as far as we know. */
static bool mps_lets_go(struct keep *k)
{
	enum mps_answer answer = k->control ? mps_end(k->control, k->pipe, getpid()) : MPS_OVER;

	k->away = answer != MPS_OVER;
	if (answer == MPS_ELSEWHERE && !k->told) {
		(void)fputs("gpugate: MPS's server is not among the processes that gpugate sees: "
			    "as a pod it needs hostPID\n",
			stderr);
		k->told = true;
	}
	if (!k->away)
		k->control = NULL;
	return !k->away;
}

/* All of them, first by asking. A family that grows while it is looked at is looked at again. Under
 * MPS only who catches TERM is asked, which would kill others, and nobody is killed before MPS has
 * answered. */
static void end_all(struct keep *k)
{
	int64_t until = clock_ms() + (int64_t)k->grace_ms;
	const struct timespec soon = {.tv_nsec = LOOK_MS * 1000000},
			      late = {.tv_nsec = AWAY_MS * 1000000};
	int signal = SIGTERM, status;
	sigset_t ended;

	(void)sigemptyset(&ended);
	(void)sigaddset(&ended, SIGCHLD);

	for (;;) {
		if (family_signal(getpid(), signal, signal == SIGTERM && k->control) == 0)
			break;
		/* They were asked. */
		signal = 0;
		if (clock_ms() >= until && mps_lets_go(k))
			signal = SIGKILL;
		else if (clock_ms() >= until)
			until = clock_ms() + MPS_AGAIN_MS;
		if (signal && k->cgroup)
			cgroup_kill(k->cgroup);
		/* A look reads all of /proc. */
		(void)sigtimedwait(&ended, NULL, k->away ? &late : &soon);
		(void)reap(k, &status);
	}
	(void)reap(k, &status);
}

static int mind(struct keep *k)
{
	siginfo_t info;
	int status = 0;

	for (;;) {
		if (sigwaitinfo(&k->signals, &info) < 0)
			continue;
		if (info.si_signo == SIGTERM) {
			end_all(k);
			return EXIT_SUCCESS;
		}
		if (reap(k, &status)) {
			(void)prctl(PR_SET_NAME, KEEP_ALONE);
			end_all(k);
			return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NOT_STARTED
				       ? EXIT_NOT_STARTED
				       : EXIT_FAILURE;
		}
	}
}

static const char *said(const char *word)
{
	return strcmp(word, "-") != 0 ? word : NULL;
}

static bool read_words(int argc, char **argv, struct keep *k)
{
	if (argc < 9)
		return false;
	k->switches = said(argv[1]);
	k->cgroup = said(argv[4]);
	k->socket = strcmp(argv[5], "socket") == 0;
	k->talks = strcmp(argv[5], "talk") == 0;
	k->control = said(argv[6]);
	k->pipe = said(argv[7]);
	k->argv = argv + 8;
	return (!k->switches || (text_u64(slice_of(argv[1]), UINT32_MAX - 1, &k->uid) &&
					text_u64(slice_of(argv[2]), UINT32_MAX - 1, &k->gid))) &&
	       text_u64(slice_of(argv[3]), 60000, &k->grace_ms);
}

int keep_main(int argc, char **argv)
{
	struct keep k = {0};
	char word;
	int null;

	if (!read_words(argc, argv, &k)) {
		(void)fputs("gpugate: keep is for gpugate itself\n", stderr);
		return 2;
	}
	(void)sigemptyset(&k.signals);
	(void)sigaddset(&k.signals, SIGTERM);
	(void)sigaddset(&k.signals, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &k.signals, NULL) != 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		return say("prctl", "keep");
	/* The gate's word; where it has ended before that nothing is started. */
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0 || read(STDIN_FILENO, &word, 1) != 1 ||
		(!k.talks && dup2(null, STDIN_FILENO) < 0))
		return EXIT_SUCCESS;
	k.server = fork();
	if (k.server < 0)
		return say("fork", "keep");
	if (k.server == 0)
		_exit(become(&k));
	if (k.socket)
		(void)close(KEEP_SOCKET);
	return mind(&k);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* gate: which of these processes are clients of MPS, and their end. The control program reads
 * commands on its standard input: get_server_list, get_client_list SERVER, terminate_client SERVER
 * CLIENT (man nvidia-cuda-mps-control). */
#define _GNU_SOURCE
#include "gate/process/mps_ask.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "gate/process/family.h"

#define PIPE_VARIABLE "CUDA_MPS_PIPE_DIRECTORY"
/* Between two looks whether it has answered. */
#define LOOK_MS 5
#define ANSWER_BYTES 65536
#define PIDS_MAX 4096
/* What the kernel keeps of nvidia-cuda-mps-server. */
#define SERVER_NAME "nvidia-cuda-mps"

struct client {
	pid_t pid;
	uint64_t began;
};

/* In the child. */
static void become_control(const char *control, const int in[2], const int out[2])
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)dup2(in[0], STDIN_FILENO);
	(void)dup2(out[1], STDOUT_FILENO);
	(void)close_range(3, ~0U, 0);
	(void)execl(control, control, (char *)NULL);
	_exit(127);
}

/* One command; what it answers, ended by a NUL. False: it does not, or says that it cannot. */
static bool ask(const char *control, const char *command, char ret[static ANSWER_BYTES])
{
	int in[2], out[2], status = -1;
	size_t len = 0;
	ssize_t n = 1;
	pid_t pid;

	if (pipe(in) != 0 || pipe(out) != 0)
		return false;
	pid = fork();
	if (pid == 0)
		become_control(control, in, out);
	(void)close(in[0]);
	(void)close(out[1]);
	if (pid > 0)
		n = write(in[1], command, strlen(command));
	(void)close(in[1]);
	while (pid > 0 && n > 0 && len < ANSWER_BYTES - 1) {
		n = read(out[0], ret + len, ANSWER_BYTES - 1 - len);
		len += n > 0 ? (size_t)n : 0;
	}
	ret[len] = '\0';
	(void)close(out[0]);
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

/* It exits with 0 all the same. That of driver 580 says "Server 7 not found", and "Invalid process
 * 7!", then 1; others tell an error of CUDA by its name. */
static bool refuses(const char *answer)
{
	return strcasestr(answer, "error") || strcasestr(answer, "fail") ||
	       strcasestr(answer, "invalid") || strcasestr(answer, "not found");
}

/* What terminate_client answers last is 0 where it has, for all that was seen; no number is none.
 */
static bool says_ended(const char *answer)
{
	struct slice rest = slice_of(answer), word;
	uint64_t code = 0, n;

	while (text_word(&rest, &word))
		code = text_u64(word, UINT64_MAX, &n) ? n : 0;
	return code == 0 && !refuses(answer);
}

/* A list of pids. What is none of them is passed over, as a prompt. */
static size_t read_pids(const char *text, pid_t ret[static PIDS_MAX])
{
	struct slice rest = slice_of(text), word;
	size_t n = 0;
	uint64_t pid;

	while (n < PIDS_MAX && text_word(&rest, &word))
		if (text_u64(word, INT32_MAX, &pid) && pid > 0)
			ret[n++] = (pid_t)pid;
	return n;
}

/* An error's text may hold numbers, too. False: it does not answer. */
static bool ask_pids(
	const char *control, const char *command, pid_t ret[static PIDS_MAX], size_t *ret_n)
{
	static char answer[ANSWER_BYTES];

	if (!ask(control, command, answer) || refuses(answer))
		return false;
	*ret_n = read_pids(answer, ret);
	return true;
}

static bool list_clients(
	const char *control, pid_t server, pid_t ret[static PIDS_MAX], size_t *ret_n)
{
	char command[64];

	(void)snprintf(command, sizeof(command), "get_client_list %d\n", (int)server);
	return ask_pids(control, command, ret, ret_n);
}

static bool is_among(pid_t pid, const pid_t *all, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (all[i] == pid)
			return true;
	return false;
}

/* One that has ended by itself meanwhile may be refused, too: then it is a client no more. */
static bool end_client(const char *control, pid_t server, pid_t client)
{
	static char answer[ANSWER_BYTES];
	static pid_t left[PIDS_MAX];
	char command[64];
	size_t n;

	(void)snprintf(
		command, sizeof(command), "terminate_client %d %d\n", (int)server, (int)client);
	if (ask(control, command, answer) && says_ended(answer))
		return true;
	return list_clients(control, server, left, &n) && !is_among(client, left, n);
}

/* One that was ended may be listed a while; another may have its number. */
static bool was_ended(const struct client *c, const struct client *ended, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ended[i].pid == c->pid && ended[i].began == c->began)
			return true;
	return false;
}

/* Those of the family that are clients of this server, until it lists no other: some come
 * meanwhile. Whose a number is, is looked at just before it is told to end. False: it does not
 * answer. */
static bool end_clients(const char *control, pid_t server, pid_t root)
{
	static pid_t clients[PIDS_MAX];
	static struct client ended[PIDS_MAX];
	size_t n, n_ended = 0, before;

	do {
		before = n_ended;
		if (!list_clients(control, server, clients, &n))
			return false;
		for (size_t i = 0; i < n; i++) {
			struct client c = {clients[i], family_began(clients[i])};

			if (!family_has(root, c.pid) || was_ended(&c, ended, n_ended))
				continue;
			if (n_ended == PIDS_MAX || !end_client(control, server, c.pid))
				return false;
			ended[n_ended++] = c;
		}
	} while (n_ended > before);
	return true;
}

/* In the child. The environment is a server's. A server that is not there as one tells that the
 * daemon's numbers are not ours: they name nobody, or others. */
static enum mps_answer ask_all(const char *control, const char *pipe, pid_t root)
{
	static pid_t servers[PIDS_MAX];
	sigset_t none;
	size_t n;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (clearenv() != 0 || (pipe && setenv(PIPE_VARIABLE, pipe, 1) != 0) ||
		!ask_pids(control, "get_server_list\n", servers, &n))
		return MPS_NONE;
	for (size_t i = 0; i < n; i++) {
		if (!family_is_named(servers[i], SERVER_NAME))
			return MPS_ELSEWHERE;
		if (!end_clients(control, servers[i], root))
			return MPS_NONE;
	}
	return MPS_OVER;
}

enum mps_answer mps_end(const char *control, const char *pipe, pid_t root)
{
	const struct timespec look = {.tv_nsec = LOOK_MS * 1000000};
	int64_t until = clock_ms() + MPS_PATIENCE_MS;
	pid_t pid = fork(), over = 0;
	int status = -1;

	if (pid == 0)
		_exit((int)ask_all(control, pipe, root));
	while (pid > 0 && (over = waitpid(pid, &status, WNOHANG)) == 0) {
		if (clock_ms() >= until)
			(void)kill(pid, SIGKILL);
		(void)nanosleep(&look, NULL);
	}
	return pid > 0 && over == pid && WIFEXITED(status) ? (enum mps_answer)WEXITSTATUS(status)
							   : MPS_NONE;
}

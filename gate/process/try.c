/* SPDX-License-Identifier: Apache-2.0 */
/* gate: `gpugate try`: two processes of one claim, and what they get. */
#define _GNU_SOURCE
#include "gate/process/try.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

/* Of the share. */
#define FIRST_PERCENT 60
#define SECOND_PERCENT 30
/* In a share of fewer contexts than these a limiter that counts them, and one that does not, could
 * not be told from none. */
#define CONTEXTS_MIN 14
#define LINE_BYTES 256

/* A process that takes. */
struct taker {
	pid_t pid;
	FILE *in, *out; /* ours: what it is told, what it says */
	char said[LINE_BYTES];
};

static int finish(const char *word, const char *why)
{
	(void)printf("%s%s%s\n", word, *why ? " " : "", why);
	return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The next line that it says. */
static bool hear(struct taker *t)
{
	if (!fgets(t->said, sizeof(t->said), t->out))
		(void)snprintf(t->said, sizeof(t->said), "error it has ended");
	t->said[strcspn(t->said, "\n")] = '\0';
	return strncmp(t->said, "error", 5) != 0;
}

static void become_taker(const int in[2], const int out[2])
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)dup2(in[0], STDIN_FILENO);
	(void)dup2(out[1], STDOUT_FILENO);
	(void)close_range(3, ~0U, 0);
	(void)execl("/proc/self/exe", "gpugate", "take", NULL);
	_exit(127);
}

/* True: it has its context. Else it said why not. */
static bool begin(struct taker *t)
{
	int in[2], out[2];

	*t = (struct taker){.said = "error no pipe"};
	if (pipe(in) != 0 || pipe(out) != 0)
		return false;
	t->pid = fork();
	if (t->pid == 0)
		become_taker(in, out);
	(void)close(in[0]);
	(void)close(out[1]);
	t->in = fdopen(in[1], "w");
	t->out = fdopen(out[0], "r");
	return t->pid > 0 && t->in && t->out && hear(t);
}

static bool ask(struct taker *t, uint64_t bytes)
{
	(void)fprintf(t->in, "%llu\n", (unsigned long long)bytes);
	(void)fflush(t->in);
	return hear(t);
}

static void end(struct taker *t)
{
	if (t->in)
		(void)fclose(t->in);
	if (t->out)
		(void)fclose(t->out);
	if (t->pid > 0)
		(void)waitpid(t->pid, NULL, 0);
}

/* The second one must be refused, and not for want of room. */
static int judge(struct taker *first, struct taker *second, uint64_t share)
{
	if (!begin(first) || !ask(first, share * FIRST_PERCENT / 100))
		return finish("unknown", first->said + 6);
	if (strcmp(first->said, "taken") != 0)
		return finish("unknown", "a first process does not get 60 % of the share");
	if (!begin(second) || !ask(second, share * FIRST_PERCENT / 100))
		return finish("unknown", second->said + 6);
	if (strcmp(second->said, "taken") == 0)
		return finish("exceeded", "");
	if (!ask(second, share * SECOND_PERCENT / 100))
		return finish("unknown", second->said + 6);
	return strcmp(second->said, "taken") == 0
		       ? finish("held", "")
		       : finish("unknown", "a second process does not get 30 % of the share: "
					   "the GPU may be full");
}

/* What NVML counts of an empty context, as the gate sees it. */
static bool measure(uint64_t *ret)
{
	char line[LINE_BYTES];
	struct slice rest, word;
	struct taker t;
	bool known = begin(&t);

	if (known) {
		(void)finish("ready", "");
		known = fgets(line, sizeof(line), stdin) != NULL;
		rest = slice_of(known ? line : "");
		known = text_word(&rest, &word) && text_u64(word, UINT64_MAX / 128, ret);
	} else {
		(void)finish("unknown", t.said + 6);
	}
	end(&t);
	return known;
}

int try_main(int argc, char **argv)
{
	struct taker first = {0}, second = {0};
	uint64_t share, context = 0;
	int status;

	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	if (argc != 2 || !text_u64(slice_of(argv[1]), UINT64_MAX / 128, &share)) {
		(void)fputs("gpugate: try is for gpugate itself\n", stderr);
		return 2;
	}
	if (!measure(&context))
		return EXIT_FAILURE;
	if (share < CONTEXTS_MIN * context)
		return finish("unknown", "the GPU is too small to tell");
	/* Whether a limiter counts contexts, too, must not matter. */
	status = judge(&first, &second, share - 2 * context);
	end(&second);
	end(&first);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* poolgate: the program's start: the table of its subcommands. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text.h"
#include "webhook/cli/certs/certs.h"
#include "webhook/cli/completion.h"
#include "webhook/cli/doctor/doctor.h"
#include "webhook/cli/inject/inject.h"
#include "webhook/cli/pool.h"
#include "webhook/cli/usage/cli.h"

#define EXIT_USAGE 2

struct command {
	const char *name;
	int (*run)(int argc, char **argv); /* argv[0] is the subcommand's name */
	const char *help;
};

static int help_main(int argc, char **argv);
static int version_main(int argc, char **argv);

static const struct command commands[] = {
	{"serve", serve_main, "run the admission server"},
	{"inject", inject_main, "do to manifests what the server would do to pods"},
	{"uninject", uninject_main, "take an injection back"},
	{"pool", pool_main, "show the GPU pool, release claims"},
	{"explain", explain_main, "say why a pod waits, or what it holds"},
	{"plan", plan_main, "say of manifests what would start now, wait, or never fit"},
	{"report", report_main, "say what was used of the pool, and by whom"},
	{"hooks", hooks_main, "print the webhook configurations for profiles of yours"},
	{"certs", certs_main, "make, show and renew certificates"},
	{"doctor", doctor_main, "look whether a cluster has what poolgate needs"},
	{"completion", completion_main, "print the completion for bash, zsh or fish"},
	{"help", help_main, "print this text"},
	{"version", version_main, "print the version"},
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_usage(FILE *out)
{
	(void)fputs("usage: poolgate COMMAND [flags]\n\n", out);
	for (size_t i = 0; i < N_COMMANDS; i++)
		(void)fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
	(void)fputs("\n`poolgate COMMAND --help` tells more.\n", out);
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static int unknown(const char *name)
{
	const char *names[N_COMMANDS], *meant;
	struct err err = {0};

	for (size_t i = 0; i < N_COMMANDS; i++)
		names[i] = commands[i].name;
	meant = text_nearest(slice_of(name), names, N_COMMANDS);
	(void)err_set(&err, ERR_INVALID, "%s", name); /* makes control characters harmless */
	(void)fprintf(stderr, "poolgate: unknown command \"%s\", %s", err.msg,
		meant ? "did you mean " : "expected one of:");
	for (size_t i = 0; i < N_COMMANDS && !meant; i++)
		(void)fprintf(stderr, " %s", commands[i].name);
	(void)fprintf(stderr, "%s%s\n", meant ? meant : "", meant ? "?" : "");
	return EXIT_USAGE;
}

/* `poolgate help COMMAND` is `poolgate COMMAND --help`. */
static int help_main(int argc, char **argv)
{
	static char flag[] = "--help";
	const struct command *c = argc > 1 ? find(argv[1]) : NULL;
	char *args[] = {argc > 1 ? argv[1] : NULL, flag, NULL};

	if (argc > 1 && !c)
		return unknown(argv[1]);
	if (c && c->run != help_main && c->run != version_main)
		return c->run(2, args);
	print_usage(stdout);
	return 0;
}

static int version_main(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	(void)puts("poolgate " POOLGATE_VERSION);
	return 0;
}

/* A descriptor 0, 1 or 2 that is closed would be the next file or socket, and what is said on
 * stderr would go there. Reading and writing fail as before. */
static void take_standard_places(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
	const struct command *c;

	take_standard_places();
	if (argc < 2) {
		print_usage(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return help_main(1, argv);
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		return version_main(1, argv);
	/* The origin had one program without subcommands: its flags alone start the server. */
	if (argv[1][0] == '-')
		return serve_main(argc, argv);
	c = find(argv[1]);
	return c ? c->run(argc - 1, argv + 1) : unknown(argv[1]);
}

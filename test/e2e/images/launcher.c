/* SPDX-License-Identifier: Apache-2.0 */
/* test: stands in for a remote-GPU client, and for the programs that run through it. Called as
 * `bitfusion run ...` it prints its whole argv as one line {"launcher": [...]}, takes its own
 * options off and execs the rest. Called by any other name it prints
 * {"program": [...], "env": {...}} with the variables that E2E_ENV names ("A,B"), and ends with
 * E2E_STATUS after E2E_SLEEP seconds. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put_string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < ' ')
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void put_list(const char *name, char **argv)
{
	printf("{\"%s\": [", name);
	for (size_t i = 0; argv[i]; i++) {
		if (i > 0)
			printf(", ");
		put_string(argv[i]);
	}
	printf("]");
}

static void put_env(const char *names)
{
	bool first = true;

	printf(", \"env\": {");
	while (names && *names) {
		size_t n = strcspn(names, ",");
		char name[256];

		snprintf(name, sizeof(name), "%.*s", (int)n, names);
		if (getenv(name)) {
			printf("%s", first ? "" : ", ");
			put_string(name);
			printf(": ");
			put_string(getenv(name));
			first = false;
		}
		names += n + (names[n] == ',');
	}
	printf("}");
}

static unsigned int number_of(const char *name)
{
	const char *text = getenv(name);

	return text ? (unsigned int)strtoul(text, NULL, 10) : 0;
}

/* The index of what is to be run, 0 when the command line is wrong. */
static int skip_options(int argc, char **argv)
{
	static const char *const known[] = {"-n", "--num_gpus", "--num-gpus", "-p", "--partial",
		"-m", "--memory", "--mem", "-l", "--filter"};

	if (argc < 2 || strcmp(argv[1], "run") != 0)
		return 0;
	for (int i = 2; i < argc; i += 2) {
		bool option = false;

		if (strcmp(argv[i], "--") == 0)
			return i + 1 < argc ? i + 1 : 0;
		for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			option |= strcmp(argv[i], known[k]) == 0;
		if (!option)
			return argv[i][0] == '-' ? 0 : i;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	int rest;

	if (strcmp(slash ? slash + 1 : argv[0], "bitfusion") != 0) {
		put_list("program", argv);
		put_env(getenv("E2E_ENV"));
		printf("}\n");
		fflush(stdout);
		sleep(number_of("E2E_SLEEP"));
		return (int)number_of("E2E_STATUS");
	}
	put_list("launcher", argv);
	printf("}\n");
	fflush(stdout);
	rest = skip_options(argc, argv);
	if (rest == 0) {
		fprintf(stderr, "bitfusion: wrong command line\n");
		return 125;
	}
	execvp(argv[rest], argv + rest);
	fprintf(stderr, "bitfusion: %s: %s\n", argv[rest], strerror(errno));
	return 127;
}

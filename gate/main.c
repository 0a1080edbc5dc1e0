/* SPDX-License-Identifier: Apache-2.0 */
/* gpugate: the gate in front of a GPU server, and its other end in the pod. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate/connect.h"
#include "gate/gate_options.h"
#include "gate/gpus.h"
#include "gate/process/keep.h"
#include "gate/process/try.h"
#include "gate/serve.h"

static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
} commands[] = {{"serve", gate_serve_main}, {"connect", connect_main}, {"check", check_main},
	{"keep", keep_main}, {"gpus", gpus_main}, {"try", try_main}, {"take", take_main}};

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (strcmp(word, commands[i].name) == 0)
			return commands[i].main(argc - 1, argv + 1);
	if (strcmp(word, "--help") == 0) {
		gate_help(stdout);
		return EXIT_SUCCESS;
	}
	if (strcmp(word, "--version") == 0) {
		(void)printf("gpugate %s\n", POOLGATE_VERSION);
		return EXIT_SUCCESS;
	}
	(void)fprintf(stderr,
		"gpugate: %s \"%s\", expected serve, connect, check or gpus; `gpugate --help` "
		"tells "
		"more\n",
		*word ? "unknown word" : "no word", word);
	return 2;
}

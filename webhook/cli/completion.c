/* SPDX-License-Identifier: Apache-2.0 */
/* cli: scripts for shells. */
#include "webhook/cli/completion.h"

#include <stdio.h>
#include <string.h>

#include "webhook/cli/usage/usage.h"

#define UNWRITTEN 3

static const char help[] =
	"usage: poolgate completion bash|zsh|fish\n"
	"\n"
	"Prints what the shell needs to complete the command line of poolgate. zsh and fish ask "
	"the one for\n"
	"bash, and need a bash on the machine.\n"
	"\n"
	"Exit codes: 0 done, 2 usage, 3 the output cannot be written.\n"
	"\n"
	"Examples:\n"
	"  source <(poolgate completion bash)      in ~/.bashrc, or zsh instead of bash in "
	"~/.zshrc\n"
	"  poolgate completion fish | source       in ~/.config/fish/config.fish\n";

/* What the completion for bash offers for the words that it is given, the last of them unfinished.
 */
#define ASK_BASH                                                                                   \
	"bash -c 'source <(poolgate completion bash); COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - "    \
	"1)); "                                                                                    \
	"_poolgate; printf \"%s\\n\" \"${COMPREPLY[@]}\"' bash "

static const char zsh[] =
	"#compdef poolgate\n"
	"_poolgate() {\n"
	"\tlocal -a offered\n"
	"\toffered=(\"${(@f)$(" ASK_BASH "\"${(@)words[1,CURRENT]}\" 2>/dev/null)}\")\n"
	"\tcompadd -- ${offered:#}\n"
	"}\n"
	"compdef _poolgate poolgate\n";

static const char fish[] = "function __poolgate_offered\n"
			   "\t" ASK_BASH "(commandline -opc) (commandline -ct) 2>/dev/null\n"
			   "end\n"
			   "complete -c poolgate -f -a '(__poolgate_offered)'\n";

static int print(const char *text, size_t len)
{
	if (fwrite(text, 1, len, stdout) == len && fflush(stdout) == 0)
		return 0;
	(void)fputs("poolgate completion: cannot write to standard output\n", stderr);
	return UNWRITTEN;
}

int completion_main(int argc, char **argv)
{
	static const struct option options[] = {
		{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	const char *shell;
	int found;

	optind = opterr = 0;
	while ((found = getopt_long(argc, argv, ":h", options, NULL)) != -1)
		return found == 'h' ? print(help, strlen(help))
				    : usage_option("completion", found, options, argv);
	shell = argv[optind];
	if (!shell || argv[optind + 1])
		return usage_wrong("completion", "one shell has to be named: bash, zsh or fish");
	if (strcmp(shell, "bash") == 0)
		return print(completion_bash, completion_bash_len);
	if (strcmp(shell, "zsh") == 0)
		return print(zsh, strlen(zsh));
	if (strcmp(shell, "fish") == 0)
		return print(fish, strlen(fish));
	return usage_wrong("completion", "found \"%s\", expected bash, zsh or fish", shell);
}

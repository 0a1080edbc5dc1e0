/* SPDX-License-Identifier: Apache-2.0 */
/* cli: `poolgate completion`: what a shell needs to complete poolgate's command line. */
#ifndef WEBHOOK_CLI_COMPLETION_H
#define WEBHOOK_CLI_COMPLETION_H

#include <stddef.h>

/* share/bash-completion/poolgate as it lies in the tree, made into C by tools/embed-text when the
 * program is built. */
extern const char completion_bash[];
extern const size_t completion_bash_len;

/* `poolgate completion bash|zsh|fish`; argv[0] is "completion". The script goes to standard output.
 * zsh and fish ask the one for bash, so that words and values are said once; they need a bash on
 * the machine. Returns the exit code: 0, 2 for wrong usage, 3 when the output cannot be written.
 * getopt's state: main thread only. */
int completion_main(int argc, char **argv);

#endif

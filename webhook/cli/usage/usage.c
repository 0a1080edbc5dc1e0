/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what is wrong with a command line. */
#include "webhook/cli/usage/usage.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"

#define OPTIONS_MAX 32
/* Behind the letters. */
#define FIRST_ROW 256
#define HELP_COLUMN 25

int usage_wrong(const char *command, const char *fmt, ...)
{
	struct err line = {0};
	char text[sizeof(line.msg)];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	(void)err_set(&line, ERR_INVALID, "%s", text); /* makes control characters harmless */
	(void)fprintf(stderr, "poolgate %s: %s; `poolgate %s --help` tells more\n", command,
		line.msg, command);
	return USAGE_EXIT;
}

int usage_option(const char *command, int found, const struct option *options, char **argv)
{
	const char *word = argv[optind - 1], *names[OPTIONS_MAX], *meant;
	size_t n = 0;

	if (found == ':')
		return usage_wrong(command, "%s needs a value", word);
	if (strncmp(word, "--", 2) != 0)
		return usage_wrong(command, "unknown option -%c", optopt);
	if (optopt != 0)
		return usage_wrong(command, "%s takes no value", word);
	while (n < OPTIONS_MAX && options[n].name) {
		names[n] = options[n].name;
		n++;
	}
	meant = text_nearest((struct slice){word + 2, strcspn(word + 2, "=")}, names, n);
	return usage_wrong(command, "unknown option %s%s%s%s", word,
		meant ? " (did you mean --" : "", meant ? meant : "", meant ? "?)" : "");
}

const char *usage_value(char **argv)
{
	const char *word = argv[optind - 1];
	bool glued = word[0] == '-' && word[1] != '-' && word[1] && optarg == word + 2;

	return glued && *optarg == '=' ? optarg + 1 : optarg;
}

static const struct opt *by_letter(const struct subcommand *u, int letter)
{
	for (const struct opt *o = u->opts; o < u->opts + u->n; o++)
		if ((o->name && o->name[1] == letter) || (o->also && o->also[1] == letter))
			return o;
	return NULL;
}

void usage_help(const struct subcommand *u)
{
	(void)fputs(u->head, stdout);
	opts_help(u->opts, u->n, HELP_COLUMN, stdout);
	(void)fputs(u->tail, stdout);
}

int usage_read(const struct subcommand *u, void *of, int argc, char **argv)
{
	struct option names[OPTIONS_MAX + 1] = {{"help", no_argument, NULL, 'h'}};
	char shorts[OPTIONS_MAX] = ":h";
	size_t n = 1;
	int found;

	for (size_t i = 0; i < 2 * u->n && n < OPTIONS_MAX; i++) {
		const struct opt *o = &u->opts[i / 2];
		const char *name = i % 2 ? o->also : o->name;

		if (name && name[1] == '-')
			names[n++] =
				(struct option){name + 2, o->arg ? required_argument : no_argument,
					NULL, FIRST_ROW + (int)(i / 2)};
		else if (name)
			(void)snprintf(shorts + strlen(shorts), sizeof(shorts) - strlen(shorts),
				"%c%s", name[1], o->arg ? ":" : "");
	}
	optind = opterr = 0;
	while ((found = getopt_long(argc, argv, shorts, names, NULL)) != -1) {
		const struct opt *o =
			found >= FIRST_ROW ? &u->opts[found - FIRST_ROW] : by_letter(u, found);
		struct err err = {0};

		if (found == 'h') {
			u->help ? u->help() : usage_help(u);
			return 0;
		}
		if (!o)
			return usage_option(u->command, found, names, argv);
		if (opts_value(o, o->arg ? usage_value(argv) : NULL, of, &err) != 0)
			return usage_wrong(u->command, "%s", err.msg);
	}
	return -1;
}

bool usage_print(const char *command, const struct buf *out)
{
	const char *wrong = out->failed ? "out of memory" : NULL;

	if (!wrong && (fwrite(out->data, 1, out->len, stdout) != out->len || fflush(stdout) != 0))
		wrong = "cannot write to standard output";
	if (wrong)
		(void)fprintf(stderr, "poolgate %s: %s\n", command, wrong);
	return !wrong;
}

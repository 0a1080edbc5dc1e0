/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what is wrong with a command line. */
#include "webhook/cli/usage/usage.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"

/* Of a row: name, also, hidden. */
#define NAMES 3
/* And --help, and the end. */
#define OPTIONS_MAX (NAMES * USAGE_OPTIONS_MAX + 2)
/* Behind the letters. */
#define FIRST_ROW 256
#define HELP_COLUMN 25
#define CANDIDATES_MAX 4096

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

/* Options that begin with what was typed: "--client-catalogue, --client-shell". One alone would
 * have been taken. */
static bool ambiguous(struct slice typed, const char *const *names, size_t n, struct buf *ret)
{
	size_t found = 0;

	for (size_t i = 0; i < n && typed.len; i++)
		if (strncmp(names[i], typed.at, typed.len) == 0)
			buf_fmt(ret, "%s--%s", found++ ? ", " : "", names[i]);
	buf_char(ret, '\0');
	return found > 1 && !ret->failed;
}

int usage_option(const char *command, int found, const struct option *options, char **argv)
{
	const char *word = argv[optind - 1], *names[OPTIONS_MAX], *meant;
	struct slice typed;
	struct buf candidates;
	size_t n = 0;
	int code;

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
	typed = (struct slice){word + 2, strcspn(word + 2, "=")};
	meant = text_nearest(typed, names, n);
	buf_init(&candidates, CANDIDATES_MAX);
	if (ambiguous(typed, names, n, &candidates))
		code = usage_wrong(command, "ambiguous option %s (%s)", word, candidates.data);
	else
		code = usage_wrong(command, "unknown option %s%s%s%s", word,
			meant ? " (did you mean --" : "", meant ? meant : "", meant ? "?)" : "");
	buf_release(&candidates);
	return code;
}

/* The value of the option that getopt_long gave last: `-o=json` is `-o json`, as kubectl takes it.
 */
static const char *usage_value(char **argv)
{
	const char *word = argv[optind - 1];
	bool glued = word[0] == '-' && word[1] != '-' && word[1] && optarg == word + 2;

	return glued && *optarg == '=' ? optarg + 1 : optarg;
}

/* Of all rows, as if they stood in one list. */
static const char *nth_name(const struct subcommand *u, size_t i)
{
	const struct opt *o = &u->opts[i / NAMES];

	return (const char *[NAMES]){o->name, o->also, o->hidden}[i % NAMES];
}

static const struct opt *by_letter(const struct subcommand *u, int letter)
{
	for (size_t i = 0; i < NAMES * u->n; i++)
		if (nth_name(u, i) && nth_name(u, i)[1] == letter)
			return &u->opts[i / NAMES];
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
	struct option names[OPTIONS_MAX] = {{"help", no_argument, NULL, 'h'}};
	char shorts[2 * OPTIONS_MAX] = ":h";
	size_t n = 1;
	int found;

	/* Names of one row have one value: what abbreviates them all is not ambiguous. */
	for (size_t i = 0; i < NAMES * u->n; i++) {
		const struct opt *o = &u->opts[i / NAMES];
		const char *name = nth_name(u, i);

		if (name && name[1] == '-')
			names[n++] =
				(struct option){name + 2, o->arg ? required_argument : no_argument,
					NULL, FIRST_ROW + (int)(i / NAMES)};
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

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what is wrong with a command line. */
#include "webhook/cli/usage/usage.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"

#define OPTIONS_MAX 32

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

int usage_table_or_json(const char *command, const char *value, bool *ret_json)
{
	*ret_json = strcmp(value, "json") == 0;
	if (*ret_json || strcmp(value, "table") == 0)
		return 0;
	return usage_wrong(command, "-o takes table or json, found \"%s\"", value);
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

/* SPDX-License-Identifier: Apache-2.0 */
/* base: command lines read by tables. */
#include "base/opts.h"

#include <string.h>

#include "base/text.h"

int opts_wrong(const struct opt *o, const char *form, const char *value, struct err *err)
{
	return err_set(err, ERR_INVALID, "%s takes %s, found \"%s\"", o->name, form, value);
}

static int take_text(
	const struct opt *o, const char *value, const char **to, size_t *n, struct err *err)
{
	if (!*value)
		return opts_wrong(o, o->form ? o->form : "a text", value, err);
	if (o->kind == OPT_KIND_TEXT) {
		*to = value;
		return 0;
	}
	if (*n == o->max)
		return err_set(
			err, ERR_TOOBIG, "%s stands more than %d times", o->name, (int)o->max);
	to[(*n)++] = value;
	return 0;
}

static int take_number(const struct opt *o, const char *value, void *to, struct err *err)
{
	char form[64];
	uint64_t n;

	if (!text_u64(slice_of(value), o->max, &n) || n < o->min) {
		(void)snprintf(form, sizeof(form), "a number from %llu to %llu",
			(unsigned long long)o->min, (unsigned long long)o->max);
		return opts_wrong(o, o->form ? o->form : form, value, err);
	}
	if (o->kind == OPT_KIND_UNSIGNED)
		*(unsigned *)to = (unsigned)n;
	else if (o->kind == OPT_KIND_PORT)
		*(uint16_t *)to = (uint16_t)n;
	else
		*(uint64_t *)to = n;
	return 0;
}

static int take_duration(const struct opt *o, const char *value, void *to, struct err *err)
{
	char form[80];
	int64_t ms;

	if (!text_duration_ms(slice_of(value), &ms) || ms < (int64_t)o->min ||
		ms > (int64_t)o->max) {
		(void)snprintf(form, sizeof(form), "a duration from %llums to %llums",
			(unsigned long long)o->min, (unsigned long long)o->max);
		return opts_wrong(o, o->form ? o->form : form, value, err);
	}
	if (o->kind == OPT_KIND_MS)
		*(int64_t *)to = ms;
	else
		*(double *)to = (double)ms / 1000;
	return 0;
}

static int take_word(const struct opt *o, const char *value, unsigned *to, struct err *err)
{
	char form[128] = "";

	for (unsigned i = 0; o->words[i]; i++) {
		size_t len = strlen(form);

		if (strcmp(o->words[i], value) == 0) {
			*to = i;
			return 0;
		}
		(void)snprintf(form + len, sizeof(form) - len, "%s%s",
			i == 0            ? ""
			: o->words[i + 1] ? ", "
					  : " or ",
			o->words[i]);
	}
	return opts_wrong(o, o->form ? o->form : form, value, err);
}

int opts_value(const struct opt *o, const char *value, void *of, struct err *err)
{
	void *to = (char *)of + o->at, *n = (char *)of + o->n_at;

	if (!value && o->kind >= OPT_KIND_TEXT && o->kind != OPT_KIND_OWN)
		return err_set(err, ERR_INTERNAL, "%s without a value", o->name);
	switch (o->kind) {
	case OPT_KIND_FLAG:
		*(bool *)to = true;
		return 0;
	case OPT_KIND_ANSWER:
		*(unsigned *)to = (unsigned)o->max;
		return 0;
	case OPT_KIND_TEXT:
	case OPT_KIND_TEXTS:
		return take_text(o, value, to, n, err);
	case OPT_KIND_UNSIGNED:
	case OPT_KIND_PORT:
	case OPT_KIND_COUNT:
		return take_number(o, value, to, err);
	case OPT_KIND_MS:
	case OPT_KIND_SECONDS:
		return take_duration(o, value, to, err);
	case OPT_KIND_WORD:
		return take_word(o, value, to, err);
	case OPT_KIND_LOG_FORMAT:
		return log_set_format(*(struct log **)to, value, err);
	case OPT_KIND_LOG_LEVEL:
		return log_set_level(*(struct log **)to, value, err);
	case OPT_KIND_OWN:
		break;
	}
	return o->own(o, value, of, err);
}

int opts_take(const struct opt *opts, size_t n, void *of, int argc, char *const *argv, int *i,
	struct err *err)
{
	const char *word = argv[*i], *eq = strchr(word, '=');
	struct slice name = {word, eq ? (size_t)(eq - word) : strlen(word)};

	for (const struct opt *o = opts; o < opts + n; o++) {
		if (!slice_is(name, o->name) || (eq && !o->arg))
			continue;
		if (eq || !o->arg || *o->arg == '[')
			return opts_value(o, eq ? eq + 1 : NULL, of, err);
		if (*i + 1 >= argc)
			return err_set(err, ERR_INVALID, "a value is missing after %s", word);
		return opts_value(o, argv[++*i], of, err);
	}
	return 1;
}

int opts_read(const struct opt *opts, size_t n, void *of, const unsigned *answer, int argc,
	char *const *argv, struct err *err)
{
	int rc = 0;

	for (int i = 1; i < argc && rc == 0 && !*answer; i++)
		if ((rc = opts_take(opts, n, of, argc, argv, &i, err)) == 1)
			rc = err_set(err, ERR_INVALID, "unknown word \"%s\"", argv[i]);
	return rc;
}

/* "  -o, --output json" */
static int help_names(const struct opt *o, FILE *out)
{
	bool last = o->also && o->also[1] == '-';
	const char *first = last || !o->also ? o->name : o->also;

	return fprintf(out, "  %s%s%s%s%s", first, o->also ? ", " : "",
		!o->also ? ""
		: last   ? o->also
			 : o->name,
		o->arg && *o->arg != '[' ? " " : "", o->arg ? o->arg : "");
}

void opts_help(const struct opt *opts, size_t n, int column, FILE *out)
{
	for (const struct opt *o = opts; o < opts + n; o++) {
		int at;

		if (!o->help)
			continue;
		at = help_names(o, out);
		if (*o->help && at < column)
			(void)fprintf(out, "%*s", column - at, "");
		else if (*o->help)
			(void)fprintf(out, "\n%*s", column, "");
		for (const char *c = o->help; *c; c++) {
			(void)fputc(*c, out);
			if (*c == '\n')
				(void)fprintf(out, "%*s", column, "");
		}
		(void)fputc('\n', out);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* edge: the server's command line. One dash and two mean the same, as with Go's flag package, which
 * the origin used. */
#include "webhook/edge/settings/settings_flags.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "webhook/edge/settings/settings_file.h"

#define NAME_SIZE 64

/* The origin's manifests have it among the arguments. */
static const struct setting shell_syntax = {.kind = SETTING_IGNORED_BOOL};

/* ---- which flag ---- */

/* All rows with a flag, those of maps among them. How many there are. */
static size_t all_flags(
	const struct setting *rows, size_t n, const struct setting **ret, size_t have)
{
	for (size_t i = 0; i < n; i++) {
		if (rows[i].flag && have < SETTINGS_ROWS_MAX)
			ret[have++] = &rows[i];
		have = all_flags(rows[i].in, rows[i].n_in, ret, have);
	}
	return have;
}

static const struct setting *find(const char *word, struct slice name, struct err *err)
{
	const struct setting *all[SETTINGS_ROWS_MAX];
	const char *names[SETTINGS_ROWS_MAX], *meant;
	size_t n = all_flags(settings_table, settings_table_n, all, 0);
	int len = (int)((size_t)(name.at - word) + name.len);

	for (size_t i = 0; i < n; i++) {
		if (slice_is(name, all[i]->flag))
			return all[i];
		names[i] = all[i]->flag;
	}
	meant = text_nearest(name, names, n);
	if (meant)
		(void)err_set(
			err, ERR_SYNTAX, "unknown flag %.*s, did you mean --%s?", len, word, meant);
	else
		(void)err_set(err, ERR_SYNTAX,
			"unknown flag %.*s; `poolgate serve --help` lists them", len, word);
	return NULL;
}

/* The next flag from *index on, which is moved behind it; its name goes to buf. */
static int next(int argc, char *const *argv, int *index, char buf[static NAME_SIZE],
	struct flag *ret, struct err *err)
{
	const char *word = argv[(*index)++], *equals;
	bool bare, may_be_bare;
	struct slice name;

	*ret = (struct flag){&shell_syntax, word, NULL};
	if (strcmp(word, "2>&1") == 0)
		return 0;
	name.at = word + strspn(word, "-");
	if (name.at == word || name.at - word > 2 || *name.at == '\0')
		return err_set(
			err, ERR_SYNTAX, "found \"%s\", expected a flag such as --config", word);
	equals = strchr(name.at, '=');
	name.len = equals ? (size_t)(equals - name.at) : strlen(name.at);
	ret->row = find(word, name, err);
	if (!ret->row)
		return ERR_SYNTAX;
	(void)snprintf(buf, NAME_SIZE, "%.*s", (int)((size_t)(name.at - word) + name.len), word);
	ret->name = buf;
	ret->value = equals ? equals + 1 : NULL;
	bare = ret->row->kind == SETTING_MAP || ret->row->kind == SETTING_SWITCH;
	may_be_bare = bare || ret->row->kind == SETTING_IGNORED_BOOL;
	if (bare && equals)
		return err_set(err, ERR_SYNTAX, "flag %s takes no value", buf);
	if (!may_be_bare && !equals) {
		if (*index >= argc)
			return err_set(err, ERR_SYNTAX, "flag %s needs a value", buf);
		ret->value = argv[(*index)++];
	}
	return 0;
}

int settings_flags(
	int argc, char *const *argv, struct settings *s, flag_each *each, struct err *err)
{
	char name[NAME_SIZE];
	struct flag f;
	int rc = 0;

	for (int index = 0; index < argc && rc == 0;) {
		rc = next(argc, argv, &index, name, &f, err);
		if (rc == 0)
			rc = each(s, &f, err);
	}
	return rc;
}

/* ---- what it says ---- */

void settings_note(struct settings *s, const char *fmt, ...)
{
	char text[256];
	const char *copy;
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	copy = arena_strdup(&s->arena, slice_of(text));
	if (copy && s->n_notes < SETTINGS_NOTES_MAX)
		s->notes[s->n_notes++] = copy;
}

static int bad_value(const struct flag *f, const char *expected, struct err *err)
{
	return err_set(err, ERR_SYNTAX, "flag %s: found \"%.100s\", expected %s", f->name, f->value,
		expected);
}

static int take_text(struct settings *s, const struct flag *f, const char **ret, struct err *err)
{
	const struct setting *row = f->row;
	const char *copy;

	if (row->good && !row->good(slice_of(f->value)))
		return bad_value(f, row->expected, err);
	if (!*f->value)
		return bad_value(f, "a value that is not empty", err);
	copy = arena_strdup(&s->arena, slice_of(f->value));
	if (!copy)
		return err_set(err, ERR_NOMEM, "out of memory for the settings");
	if (row->kind == SETTING_PATH || row->kind == SETTING_PATHS)
		settings_source_flag(s, copy, f->name);
	*ret = copy;
	return 0;
}

static int take_one_more(
	struct settings *s, const struct flag *f, const char **list, size_t *n, struct err *err)
{
	if (*n == (size_t)f->row->max)
		return err_set(
			err, ERR_SYNTAX, "flag %s: more than %d times", f->name, (int)f->row->max);
	return take_text(s, f, &list[(*n)++], err);
}

static int take_listen(struct settings *s, const struct flag *f, const char **ret, struct err *err)
{
	bool can_be_off = f->row->flags & SETTING_OFF;
	struct err why = {0};

	if (can_be_off && strcmp(f->value, "off") == 0) {
		*ret = NULL;
		return 0;
	}
	if (settings_check_listen(slice_of(f->value), &why) != 0)
		return err_set(err, ERR_SYNTAX, "flag %s: %s%s", f->name, why.msg,
			can_be_off ? "; off for none" : "");
	return take_text(s, f, ret, err);
}

static int take_port(struct settings *s, const struct flag *f, const char **ret, struct err *err)
{
	const char *listen;
	uint64_t port;

	if (!text_u64(slice_of(f->value), (uint64_t)f->row->max, &port))
		return bad_value(f, "a port, 0 to 65535", err);
	listen = arena_fmt(&s->arena, ":%u", (unsigned)port);
	if (!listen)
		return err_set(err, ERR_NOMEM, "out of memory for the settings");
	*ret = listen;
	return 0;
}

static int take_duration(const struct flag *f, int64_t *ret, struct err *err)
{
	const struct setting *row = f->row;
	uint64_t n;
	int64_t ms;

	if (text_u64(slice_of(f->value), UINT32_MAX, &n) && n > 0)
		return err_set(err, ERR_SYNTAX,
			"flag %s: found \"%s\", did you mean %ss? expected %s", f->name, f->value,
			f->value, row->expected);
	if (!text_duration_ms(slice_of(f->value), &ms) || ms > row->max ||
		(ms < row->min && ms != 0))
		return bad_value(f, row->expected, err);
	*ret = ms;
	return 0;
}

static int take_count(const struct flag *f, unsigned *ret, struct err *err)
{
	const struct setting *row = f->row;
	char expected[64];
	uint64_t n;

	if (!text_u64(slice_of(f->value), (uint64_t)row->max, &n) || n < (uint64_t)row->min) {
		(void)snprintf(expected, sizeof(expected), "a whole number from %lld to %lld",
			(long long)row->min, (long long)row->max);
		return bad_value(f, expected, err);
	}
	*ret = (unsigned)n;
	return 0;
}

static int take_word(const struct flag *f, const char **ret, struct err *err)
{
	for (const char *const *word = f->row->words; *word; word++)
		if (strcmp(f->value, *word) == 0) {
			*ret = *word;
			return 0;
		}
	return bad_value(f, f->row->expected, err);
}

static int take_bool(const struct flag *f, bool *ret, struct err *err)
{
	bool yes = strcmp(f->value, "true") == 0;

	if (!yes && strcmp(f->value, "false") != 0)
		return bad_value(f, "true or false", err);
	*ret = yes;
	return 0;
}

static int take_total(struct settings *s, const struct flag *f, struct err *err)
{
	struct err why = {0};

	if (config_total_memory(slice_of(f->value), &s->total_gpu_mb, &why) != 0)
		return err_set(err, ERR_SYNTAX, "flag %s: %s", f->name, why.msg);
	s->total_gpu_from = "the command line";
	return 0;
}

static int ignore(struct settings *s, const struct flag *f)
{
	if (f->row == &shell_syntax)
		settings_note(s, "the argument %s is shell syntax that no shell has seen: ignored",
			f->name);
	else
		settings_note(
			s, "flag %s has no effect here: see --log-level and --log-format", f->name);
	return 0;
}

int settings_flag_apply(struct settings *s, const struct flag *f, struct err *err)
{
	void *to = (char *)s + f->row->at;

	if (f->row->flags & SETTING_IN_CLUSTER)
		s->cluster.on = true;
	switch (f->row->kind) {
	case SETTING_MAP:
	case SETTING_SWITCH:
		*(bool *)to = true;
		return 0;
	case SETTING_BOOL:
		return take_bool(f, to, err);
	case SETTING_COUNT:
		return take_count(f, to, err);
	case SETTING_DURATION:
		return take_duration(f, to, err);
	case SETTING_WORD:
		return take_word(f, to, err);
	case SETTING_TEXT:
	case SETTING_PATH:
		return take_text(s, f, to, err);
	case SETTING_LISTEN:
		return take_listen(s, f, to, err);
	case SETTING_PORT:
		return take_port(s, f, to, err);
	case SETTING_TEXTS:
	case SETTING_PATHS:
		return take_one_more(s, f, to, (size_t *)(void *)((char *)s + f->row->n_at), err);
	case SETTING_TOTAL:
		return take_total(s, f, err);
	case SETTING_IGNORED:
	case SETTING_IGNORED_BOOL:
		return ignore(s, f);
	case SETTING_HEAD:
	case SETTING_NUMBER:
	case SETTING_CHOICE:
	case SETTING_SLICE:
	case SETTING_SLICES:
	case SETTING_REGISTRIES:
		break; /* of the file alone */
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* core: commands that start the launcher themselves. */
#include "webhook/core/inject/wrap_own.h"

#include "base/text.h"
#include "webhook/core/inject/wrap.h"

/* Words of one command line, wherever they come from. */
struct own_words {
	struct slice *at;
	size_t n;
};

/* command and args as one argv. */
static struct own_words argv_of(
	const struct json *j, const struct json_node *container, struct arena *a)
{
	const struct json_node *parts[] = {
		json_get(j, container, SLICE("command")), json_get(j, container, SLICE("args"))};
	struct own_words w = {0};
	size_t n = 0;

	for (size_t i = 0; i < 2; i++)
		n += json_is(parts[i], JSON_ARRAY) ? parts[i]->count : 0;
	w.at = arena_array(a, n, sizeof(*w.at));
	for (size_t i = 0; i < 2 && w.at; i++)
		JSON_EACH(j, parts[i], e)
	w.at[w.n++] = json_is(e, JSON_STRING) ? json_str(j, e, a) : SLICE("");
	return w;
}

/* A shell line's words, as far as blanks tell; quotes around a word are taken off. */
static struct own_words split(struct slice line, struct arena *a)
{
	struct own_words w = {0};
	struct slice rest = line, word;
	size_t n = 0;

	while (text_word(&rest, &word))
		n++;
	w.at = arena_array(a, n, sizeof(*w.at));
	rest = line;
	while (w.at && text_word(&rest, &word)) {
		if (word.len >= 2 && (word.at[0] == '"' || word.at[0] == '\'') &&
			word.at[word.len - 1] == word.at[0])
			word = (struct slice){word.at + 1, word.len - 2};
		w.at[w.n++] = word;
	}
	if (w.n > 0 && slice_is(w.at[0], "exec")) {
		w.at++;
		w.n--;
	}
	return w;
}

static bool is_shell(struct slice word)
{
	static const char *const shells[] = {"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"};
	struct slice base = text_basename(word);

	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
		if (slice_is(base, shells[i]))
			return true;
	return false;
}

/* The script behind a shell's -c (also -lc, -exc, and behind -o NAME), or an absent slice. */
static struct slice shell_script(struct own_words argv)
{
	if (argv.n < 3 || !is_shell(argv.at[0]))
		return (struct slice){0};
	for (size_t i = 1; i + 1 < argv.n; i++) {
		struct slice word = argv.at[i];

		if (word.len < 2 || (word.at[0] != '-' && word.at[0] != '+'))
			break;
		if (word.at[0] == '-' && word.at[1] != '-' && memchr(word.at, 'c', word.len))
			return argv.at[i + 1];
		if (word.at[word.len - 1] == 'o' && word.at[1] != '-')
			i++;
	}
	return (struct slice){0};
}

/* Can a command that begins with this word start the launcher? Of one word alone, blanks may make a
 * line. */
static bool may_start(struct slice first, size_t count, const struct profile *p)
{
	return count == 1 || is_shell(first) || slice_eq(text_basename(first), p->basename);
}

/* The words of argv that start with the launcher; none when it does not start it. count: how many
 * of them are the command's. */
static struct own_words launcher_words(
	struct own_words argv, size_t count, const struct profile *p, struct arena *a)
{
	struct slice script;
	struct own_words line;

	if (argv.n == 0)
		return (struct own_words){0};
	script = shell_script(argv);
	line = split(script.at ? script : argv.at[0], a);
	if (!script.at && (count != 1 || line.n < 2))
		line = argv;
	if (line.n > 0 && slice_eq(text_basename(line.at[0]), p->basename))
		return line;
	return (struct own_words){0};
}

/* The words that start with the launcher; none when the command does not start it. */
static struct own_words own_words(const struct json *j, const struct json_node *container,
	const struct profile *p, struct arena *a)
{
	const struct json_node *command = json_get(j, container, SLICE("command"));

	if (!p->basename.at || !json_is(command, JSON_ARRAY) || command->count == 0 ||
		!may_start(json_str(j, json_first(j, command), a), command->count, p))
		return (struct own_words){0};
	return launcher_words(argv_of(j, container, a), command->count, p, a);
}

bool wrap_is_own_image(const struct json *j, const struct json_node *container,
	const struct slice *words, size_t n, const struct profile *p, struct arena *a)
{
	struct own_words args = argv_of(j, container, a), all = {0};

	if (!p->basename.at)
		return false;
	all.at = arena_array(a, n + args.n, sizeof(*all.at));
	for (size_t i = 0; all.at && i < n; i++)
		all.at[all.n++] = words[i];
	for (size_t i = 0; all.at && i < args.n; i++)
		all.at[all.n++] = args.at[i];
	return launcher_words(all, n, p, a).n > 0;
}

bool wrap_is_own(const struct json *j, const struct json_node *container, const struct profile *p,
	struct arena *a)
{
	return own_words(j, container, p, a).n > 0;
}

/* Is word one of the names, alone, as NAME=VALUE, or as -nVALUE? *ret_value is absent when the
 * value is the next word. */
static bool is_option(
	struct slice word, const struct slice *names, size_t n, struct slice *ret_value)
{
	for (size_t i = 0; i < n; i++) {
		struct slice name = names[i], rest;

		if (name.len == 0 || !slice_starts(word, name))
			continue;
		rest = (struct slice){word.at + name.len, word.len - name.len};
		*ret_value = (struct slice){0};
		if (rest.len == 0)
			return true;
		if (rest.at[0] == '=') {
			*ret_value = (struct slice){rest.at + 1, rest.len - 1};
			return true;
		}
		if (name.len == 2 && name.at[1] != '-') {
			*ret_value = rest;
			return true;
		}
	}
	return false;
}

/* What the launcher's own options say; absent where they say nothing. */
struct own {
	struct slice amount, fraction, memory_mb;
};

static struct own own_options(struct own_words line, const struct profile_options *o)
{
	struct own own = {0};

	for (size_t i = 1; i < line.n; i++) {
		struct slice word = line.at[i], value = {0};
		struct slice *to = NULL;

		if (slice_is(word, "--"))
			break;
		if (word.len == 0 || word.at[0] != '-') {
			/* the launcher's verb ("run") comes first; any later bare word is the
			 * program */
			if (i == 1)
				continue;
			break;
		}
		if (is_option(word, o->amount, o->n_amount, &value))
			to = &own.amount;
		else if (is_option(word, o->fraction, o->n_fraction, &value))
			to = &own.fraction;
		else if (is_option(word, o->memory_mb, o->n_memory_mb, &value))
			to = &own.memory_mb;
		/* an option that we do not know takes the next word along, unless that is an option
		 * too */
		if (!value.at && i + 1 < line.n &&
			(to || line.at[i + 1].len == 0 || line.at[i + 1].at[0] != '-')) {
			value = memchr(word.at, '=', word.len) ? SLICE("") : line.at[++i];
		}
		if (to)
			*to = value;
	}
	return own;
}

/* Other words of a command than figures are not quoted: `-password=…` would be a share, too. */
static bool is_figure(struct slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!text_is_digit(s.at[i]) && s.at[i] != '.')
			return false;
	return s.len > 0;
}

static int disagree(struct slice found, const char *what, const char *wanted, struct err *err)
{
	if (!found.at)
		found = SLICE("of whole GPUs");
	else if (!is_figure(found))
		found = SLICE("(not a number)");
	err_set(err, ERR_INVALID,
		"the command starts the launcher itself with %s %.*s, but the resources ask for "
		"%s; make them agree, or leave "
		"the launcher out of the command",
		what, (int)(found.len > 40 ? 40 : found.len), found.at, wanted);
	return err_in(err, "command");
}

/* Is text the number n·10^-6? */
static bool is_millionths(struct slice text, uint64_t n)
{
	struct quantity q, want = {(__int128_t)n * 1000};

	return is_figure(text) && quantity_parse(text, &q, NULL) == 0 && quantity_cmp(q, want) == 0;
}

static int check_share(
	const struct launch *l, const struct own *own, struct arena *a, struct err *err)
{
	const char *wanted;

	if (l->memory_mb) {
		wanted = arena_fmt(a, "%llu MB", (unsigned long long)l->memory_mb);
		if (!own->memory_mb.at || !is_millionths(own->memory_mb, l->memory_mb * 1000000))
			return disagree(own->memory_mb.at ? own->memory_mb : own->fraction,
				"a share", wanted ? wanted : "", err);
		return 0;
	}
	wanted = arena_fmt(a, "%u percent", l->percent);
	if (own->memory_mb.at)
		return disagree(own->memory_mb, "memory", wanted ? wanted : "", err);
	if (own->fraction.at ? !is_millionths(own->fraction, (uint64_t)l->percent * 10000)
			     : l->percent != 100)
		return disagree(own->fraction, "a share", wanted ? wanted : "", err);
	return 0;
}

static int check_options(
	struct own_words line, const struct launch *l, struct arena *a, struct err *err)
{
	struct own own = own_options(line, &l->profile->options);
	struct slice amount = own.amount.at ? own.amount : SLICE("1");
	const char *wanted = arena_fmt(a, l->amount == 1 ? "%u GPU" : "%u GPUs", l->amount);

	if (!is_millionths(amount, (uint64_t)l->amount * 1000000))
		return disagree(amount, "a GPU count of", wanted ? wanted : "", err);
	return check_share(l, &own, a, err);
}

int wrap_own_agrees(const struct json *j, const struct json_node *container, const struct launch *l,
	struct arena *a, struct warnings *w, struct err *err)
{
	const struct json_node *command = json_get(j, container, SLICE("command"));
	struct own_words line = own_words(j, container, l->profile, a);

	if (check_options(line, l, a, err) < 0)
		return err->code;
	if (json_is(command, JSON_ARRAY) && command->count == 1 && line.n > 1 &&
		json_get(j, container, SLICE("args")) == NULL)
		warn_add(w, a,
			"a command of one string that starts the launcher is left alone, but the "
			"kernel cannot run it");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* core: argv, options and shell of a profile document: what the launcher is started with. */
#include "webhook/core/launcher/launcher_argv.h"

#include <string.h>

#include "base/text.h"
#include "base/yaml/yaml_config.h"
#include "webhook/core/launcher/launcher_parts.h"
#include "webhook/core/launcher/launcher_template.h"

/* The words of one group, from a sequence or a single node. */
static int read_words(const struct yaml_node *first, size_t n, const struct profile *p,
	struct arena *a, struct profile_words *w, struct err *err)
{
	int rc;

	w->word = arena_array(a, n, sizeof(*w->word));
	if (!w->word)
		return err_set(err, ERR_NOMEM, "out of memory for the launcher profile");
	for (w->n = 0; w->n < n; w->n++, first = first->next) {
		struct slice *word = &w->word[w->n];

		rc = template_read(first, w->when, p, a, word, err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* {if: fraction|memory|filter, words: […]} or {each: filter, words: […]} */
static int read_group(const struct yaml_node *map, const struct profile *p, struct arena *a,
	struct profile_words *w, struct err *err)
{
	static const char *const loops[] = {"filter"};
	bool has_if = !yaml_absent(yaml_get(map, "if"));
	bool has_each = !yaml_absent(yaml_get(map, "each"));
	struct yaml_node *words;
	size_t choice = 0;
	int rc;

	if ((rc = yaml_known(map, err, "if", "each", "words", NULL)) != 0)
		return rc;
	if (has_if == has_each)
		return yaml_err(map, err, ERR_INVALID,
			"found %s, expected one of \"if: fraction\", \"if: memory\", \"if: "
			"filter\" and "
			"\"each: filter\" beside words",
			has_if ? "both if and each" : "neither if nor each");
	w->when = WORD_EACH_FILTER;
	if ((rc = template_when(map, &w->when, err)) != 0 ||
		(rc = yaml_get_choice(map, "each", loops, 1, &choice, err)) != 0 ||
		(rc = yaml_need(map, "words", &words, err)) != 0 ||
		(rc = yaml_as_seq(words, err)) != 0)
		return rc;
	if (words->count == 0 || words->count > PROFILE_WORDS_MAX)
		return yaml_err(words, err, ERR_INVALID, "found %u words, expected 1 to %d",
			words->count, PROFILE_WORDS_MAX);
	return read_words(words->first, words->count, p, a, w, err);
}

static int read_argv(
	const struct yaml_node *argv, struct arena *a, struct profile *p, struct err *err)
{
	int rc = yaml_as_seq(argv, err);

	if (rc != 0)
		return rc;
	if (argv->count == 0 || argv->count > PROFILE_WORDS_MAX)
		return yaml_err(argv, err, ERR_INVALID, "found %u words, expected 1 to %d",
			argv->count, PROFILE_WORDS_MAX);
	if (!yaml_is(argv->first, YAML_SCALAR))
		return yaml_err(argv->first, err, ERR_INVALID,
			"the first entry of argv is the launcher itself: expected a string");
	p->argv = arena_array(a, argv->count, sizeof(*p->argv));
	if (!p->argv)
		return err_set(err, ERR_NOMEM, "out of memory for the launcher profile");
	YAML_EACH(argv, entry)
	{
		struct profile_words *w = &p->argv[p->n_argv];

		rc = yaml_is(entry, YAML_MAP) ? read_group(entry, p, a, w, err)
					      : read_words(entry, 1, p, a, w, err);
		if (rc != 0)
			return rc;
		p->n_argv++;
	}
	return 0;
}

/* The launcher's name as commands show it: what argv[0] gives, the same for every client. */
static int find_basename(
	const struct yaml_node *argv, struct arena *a, struct profile *p, struct err *err)
{
	struct slice first = {0};

	for (size_t i = 0; i < p->n_clients; i++) {
		struct launch l = template_sample(p, &p->clients[i]);
		struct slice path = template_expand(p->argv[0].word[0], &l, SLICE(""), a), name;

		if (a->failed)
			return err_set(err, ERR_NOMEM, "out of memory for the launcher profile");
		name = text_basename(path);
		if (name.len == 0)
			return yaml_err(argv->first, err, ERR_INVALID,
				"found \"%.*s\", expected the path of a program", (int)path.len,
				path.at);
		if (i > 0 && !slice_eq(first, name))
			return yaml_err(argv->first, err, ERR_INVALID,
				"gives \"%.*s\" for one client and \"%.*s\" for another: expected "
				"the "
				"same file name for all, or its name at spec.launcher",
				(int)first.len, first.at, (int)name.len, name.at);
		first = name;
	}
	return parts_copy(first, a, &p->basename, err);
}

/* A short word of the launcher's command line: not empty, no blanks. */
static int check_word(const struct yaml_node *node, struct slice word, struct err *err)
{
	struct slice rest = word, first = {0};
	char found[80];

	if (!text_word(&rest, &first) || first.len != word.len)
		return yaml_err(node, err, ERR_INVALID, "found %s, expected one word",
			yaml_found(node, found));
	return 0;
}

static int read_word(const struct yaml_node *spec, const char *key, struct arena *a,
	struct slice *ret, struct err *err)
{
	struct slice word = {0};
	int rc = yaml_get_str(spec, key, &word, err);

	if (rc != 0 || !word.at)
		return rc;
	if ((rc = check_word(yaml_get(spec, key), word, err)) != 0)
		return rc;
	return parts_copy(word, a, ret, err);
}

static int read_option(const struct yaml_node *options, const char *key, struct arena *a,
	struct slice **ret, size_t *ret_n, struct err *err)
{
	struct slice *names = NULL, *copy;
	size_t n = 0;
	int rc;

	if ((rc = yaml_get_strs(options, key, &names, &n, err)) != 0 || n == 0)
		return rc;
	copy = arena_array(a, n, sizeof(*copy));
	if (!copy)
		return err_set(err, ERR_NOMEM, "out of memory for the launcher profile");
	for (size_t i = 0; i < n; i++) {
		const struct yaml_node *node = yaml_at(yaml_get(options, key), i);

		if ((rc = check_word(node, names[i], err)) != 0)
			return rc;
		if (names[i].at[0] != '-')
			return yaml_err(node, err, ERR_INVALID,
				"found \"%.*s\", expected an option that begins with '-'",
				(int)names[i].len, names[i].at);
		if ((rc = parts_copy(names[i], a, &copy[i], err)) != 0)
			return rc;
	}
	*ret = copy;
	*ret_n = n;
	return 0;
}

static int read_options(const struct yaml_node *options, struct arena *a, struct profile_options *o,
	struct err *err)
{
	int rc;

	if (yaml_absent(options))
		return 0;
	if ((rc = yaml_known(options, err, "amount", "fraction", "memoryMB", NULL)) != 0 ||
		(rc = read_option(options, "amount", a, &o->amount, &o->n_amount, err)) != 0 ||
		(rc = read_option(options, "fraction", a, &o->fraction, &o->n_fraction, err)) != 0)
		return rc;
	return read_option(options, "memoryMB", a, &o->memory_mb, &o->n_memory_mb, err);
}

int argv_read(const struct yaml_node *spec, struct arena *a, struct profile *p, struct err *err)
{
	static const char *const wrap_only[] = {
		"argv", "separator", "launcher", "options", "shell"};
	struct yaml_node *argv;
	int rc;

	if (p->kind != PROFILE_WRAP) {
		for (size_t i = 0; i < sizeof(wrap_only) / sizeof(wrap_only[0]); i++)
			if (!yaml_absent(yaml_get(spec, wrap_only[i])))
				return yaml_err(yaml_get(spec, wrap_only[i]), err, ERR_INVALID,
					"%s belongs to profiles of kind wrap; this kind leaves the "
					"command alone",
					wrap_only[i]);
		return 0;
	}
	if ((rc = yaml_need(spec, "argv", &argv, err)) != 0 ||
		(rc = read_argv(argv, a, p, err)) != 0 ||
		(rc = read_word(spec, "separator", a, &p->separator, err)) != 0 ||
		(rc = read_word(spec, "launcher", a, &p->basename, err)) != 0)
		return rc;
	if (!p->basename.at && (rc = find_basename(argv, a, p, err)) != 0)
		return rc;
	if (memchr(p->basename.at, '/', p->basename.len))
		return yaml_err(yaml_get(spec, "launcher"), err, ERR_INVALID,
			"found \"%.*s\", expected a file name without folders",
			(int)p->basename.len, p->basename.at);
	p->shell = SLICE("sh");
	if ((rc = read_word(spec, "shell", a, &p->shell, err)) != 0)
		return rc;
	return read_options(yaml_get(spec, "options"), a, &p->options, err);
}

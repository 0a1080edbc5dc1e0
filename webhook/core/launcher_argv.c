// SPDX-License-Identifier: Apache-2.0
// core: the templates of a profile document: what the launcher is started with and what is set around the program.
#include "webhook/core/launcher_argv.h"

#include <string.h>

#include "base/text.h"
#include "base/yaml_config.h"
#include "webhook/core/launcher_parts.h"

/* A request that fills every place, to see what templates give for each client. */
static const struct slice sample_words[] = {{"host:1", 6}};

static struct launch sample_launch(const struct profile *p, const struct profile_client *c)
{
	return (struct launch){.profile = p,
		.client = c,
		.amount = 1,
		.percent = 100,
		.memory_mb = 1,
		.filters = sample_words,
		.n_filters = 1,
		.servers = sample_words,
		.n_servers = 1};
}

/* A template at this node, with the places that it may hold; copied. */
static int read_template(const struct yaml_node *node, bool in_each_filter, const struct profile *p,
	struct arena *a, struct slice *ret, struct err *err)
{
	struct err why = {0};
	struct slice text;
	int rc = yaml_as_str(node, &text, err);

	if (rc != 0)
		return rc;
	if (memchr(text.at, '\0', text.len))
		return yaml_err(node, err, ERR_INVALID, "found a NUL byte, expected text without");
	/* Every client has the names of the first. */
	rc = template_check(
		text, in_each_filter, p->clients[0].values, p->clients[0].n_values, &why);
	if (rc != 0)
		return yaml_err(node, err, ERR_INVALID, "%s", why.msg);
	return parts_copy(text, a, ret, err);
}

/* {fraction} says something only when a request is by percent, {memory_mb} only when it is by memory. */
static int check_when(
	const struct yaml_node *node, struct slice text, enum word_when when, struct err *err)
{
	static const struct {
		const char *place;
		enum word_when when;
		const char *advice;
	} rules[] = {
		{"fraction", WORD_FRACTION, "if: fraction"},
		{"percent", WORD_FRACTION, "if: fraction"},
		{"memory_mb", WORD_MEMORY, "if: memory"},
		{"memory_gib", WORD_MEMORY, "if: memory"},
	};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (template_has(text, rules[i].place) && when != rules[i].when)
			return yaml_err(node, err, ERR_INVALID,
				"found {%s}, which has no value for every request: put it among "
				"the words of "
				"an entry of argv with \"%s\"",
				rules[i].place, rules[i].advice);
	return 0;
}

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

		rc = read_template(first, w->when == WORD_EACH_FILTER, p, a, word, err);
		if (rc != 0 || (rc = check_when(first, *word, w->when, err)) != 0)
			return rc;
	}
	return 0;
}

/* {if: fraction|memory|filter, words: […]} or {each: filter, words: […]} */
static int read_group(const struct yaml_node *map, const struct profile *p, struct arena *a,
	struct profile_words *w, struct err *err)
{
	static const char *const conditions[] = {"fraction", "memory", "filter"};
	static const enum word_when meaning[] = {WORD_FRACTION, WORD_MEMORY, WORD_ANY_FILTER};
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
	if ((rc = yaml_get_choice(map, "if", conditions, 3, &choice, err)) != 0)
		return rc;
	w->when = has_if ? meaning[choice] : WORD_EACH_FILTER;
	if ((rc = yaml_get_choice(map, "each", loops, 1, &choice, err)) != 0 ||
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
		struct launch l = sample_launch(p, &p->clients[i]);
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

/* ---- env ---- */

/* A name that both the kubelet and every shell take (Kubernetes allows more). */
static bool env_name(struct slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

		if (!letter && !(i > 0 && c >= '0' && c <= '9'))
			return false;
	}
	return s.len > 0;
}

/* What is put in front must not be empty or bring a separator of its own: an empty element of a library path is the
 * current folder. */
static int check_prepend(const struct yaml_node *node, const struct profile *p,
	const struct profile_env *e, struct arena *a, struct err *err)
{
	size_t sep = e->separator.len;

	for (size_t i = 0; i < p->n_clients; i++) {
		struct launch l = sample_launch(p, &p->clients[i]);
		struct slice text = template_expand(e->value, &l, SLICE(""), a), tail;

		if (a->failed)
			return err_set(err, ERR_NOMEM, "out of memory for the launcher profile");
		tail = text;
		if (text.len >= sep)
			tail = (struct slice){text.at + text.len - sep, sep};
		if (text.len == 0 || slice_starts(text, e->separator) ||
			slice_eq(tail, e->separator))
			return yaml_err(node, err, ERR_INVALID,
				"gives \"%.*s\", expected text that is not empty and neither "
				"begins nor "
				"ends with the separator \"%.*s\"",
				(int)text.len, text.at, (int)sep, e->separator.at);
	}
	return 0;
}

static int read_env_value(const struct yaml_node *map, const struct profile *p, struct arena *a,
	struct profile_env *e, struct err *err)
{
	const struct yaml_node *value = yaml_get(map, "value"), *prepend = yaml_get(map, "prepend");
	const struct yaml_node *node;
	struct slice separator = SLICE(":");
	int rc;

	e->prepend = !yaml_absent(prepend);
	node = e->prepend ? prepend : value;
	if (yaml_absent(value) != e->prepend || yaml_absent(node))
		return yaml_err(map, err, ERR_INVALID,
			"found %s, expected one of value and prepend",
			e->prepend ? "both value and prepend" : "neither value nor prepend");
	if ((rc = read_template(node, false, p, a, &e->value, err)) != 0 ||
		(rc = check_when(node, e->value, WORD_ALWAYS, err)) != 0 ||
		(rc = yaml_get_str(map, "separator", &separator, err)) != 0)
		return rc;
	if (!e->prepend && !yaml_absent(yaml_get(map, "separator")))
		return yaml_err(yaml_get(map, "separator"), err, ERR_INVALID,
			"separator belongs to prepend; value replaces the container's own");
	if (!e->prepend)
		return 0;
	if (separator.len == 0)
		return yaml_err(yaml_get(map, "separator"), err, ERR_INVALID,
			"found \"\", expected what stands between two entries, such as \":\"");
	if ((rc = parts_copy(separator, a, &e->separator, err)) != 0)
		return rc;
	return check_prepend(node, p, e, a, err);
}

static int read_env(const struct yaml_node *map, struct arena *a, struct profile *p,
	struct profile_env *e, struct err *err)
{
	struct yaml_node *node;
	struct slice name;
	char found[80];
	int rc;

	if ((rc = yaml_as_map(map, err)) != 0 ||
		(rc = yaml_known(map, err, "name", "value", "prepend", "separator", NULL)) != 0 ||
		(rc = yaml_need(map, "name", &node, err)) != 0 ||
		(rc = yaml_as_str(node, &name, err)) != 0)
		return rc;
	if (!env_name(name))
		return yaml_err(node, err, ERR_INVALID,
			"found %s, expected the name of an environment variable: letters, digits "
			"and '_'",
			yaml_found(node, found));
	for (size_t i = 0; i < p->n_env; i++)
		if (slice_eq(p->env[i].name, name))
			return yaml_err(node, err, ERR_INVALID,
				"found \"%.*s\" twice, expected each variable once", (int)name.len,
				name.at);
	if ((rc = parts_copy(name, a, &e->name, err)) != 0)
		return rc;
	return read_env_value(map, p, a, e, err);
}

int env_read(const struct yaml_node *spec, struct arena *a, struct profile *p, struct err *err)
{
	const struct yaml_node *seq = yaml_get(spec, "env");
	void *room;
	int rc;

	if ((rc = parts_room(seq, sizeof(*p->env), a, &room, err)) != 0)
		return rc;
	p->env = room;
	YAML_EACH(seq, entry)
	{
		if ((rc = read_env(entry, a, p, &p->env[p->n_env], err)) != 0)
			return rc;
		p->n_env++;
	}
	if (p->n_env == 0 && p->kind != PROFILE_WRAP)
		return yaml_err(spec, err, ERR_INVALID,
			"found no env, expected at least one variable: without a launcher nothing "
			"else "
			"reaches the program");
	return 0;
}

bool profile_has(const struct profile *p, const char *place)
{
	for (size_t i = 0; i < p->n_argv; i++)
		for (size_t k = 0; k < p->argv[i].n; k++)
			if (template_has(p->argv[i].word[k], place))
				return true;
	for (size_t i = 0; i < p->n_env; i++)
		if (template_has(p->env[i].value, place))
			return true;
	return false;
}

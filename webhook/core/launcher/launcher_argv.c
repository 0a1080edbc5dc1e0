/* SPDX-License-Identifier: Apache-2.0 */
/* core: argv, options, shell and env of a profile document: what the launcher is started with, and
 * what is set around the program. */
#include "webhook/core/launcher/launcher_parts.h"

#include <string.h>

#include "base/text.h"
#include "base/yaml/yaml_config.h"

/* ---- env ---- */

/* A name that both the kubelet and every shell take (Kubernetes allows more). */
static bool env_name(struct slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];

		if (!text_is_letter(c) && c != '_' && !(i > 0 && text_is_digit(c)))
			return false;
	}
	return s.len > 0;
}

/* What is put in front must not be empty or bring a separator of its own: an empty element of a
 * library path is the current folder. */
static int check_prepend(const struct yaml_node *node, const struct profile *p,
	const struct profile_env *e, struct arena *a, struct err *err)
{
	size_t sep = e->separator.len;

	for (size_t i = 0; i < p->n_clients; i++) {
		struct launch l = template_sample(p, &p->clients[i]);
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

/* A key of a Secret, as the API server takes it (IsConfigMapKey). */
static bool secret_key(struct slice s)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.at[i];

		if (!text_is_alnum(c) && c != '-' && c != '_' && c != '.')
			return false;
	}
	return s.len > 0 && s.len <= 253 && !slice_is(s, ".") && !slice_starts(s, SLICE(".."));
}

/* {name, key} */
static int read_secret(
	const struct yaml_node *map, struct arena *a, struct profile_env *e, struct err *err)
{
	int rc;

	if ((rc = yaml_as_map(map, err)) != 0 ||
		(rc = yaml_known(map, err, "name", "key", NULL)) != 0 ||
		(rc = parts_text(map, "name", text_dns_subdomain,
			 "the name of a Secret: a to z, 0 to 9, '-' and '.'", a, &e->secret,
			 err)) != 0)
		return rc;
	return parts_text(map, "key", secret_key,
		"a key of a Secret: letters, digits, '-', '_' and '.'", a, &e->secret_key, err);
}

/* A field of the pod that the kubelet puts in, and that is the same in all its containers. */
static int read_field(
	const struct yaml_node *map, struct arena *a, struct profile_env *e, struct err *err)
{
	static const char *const fields[] = {"metadata.uid", "metadata.name", "metadata.namespace"};
	size_t choice = 0;
	int rc = yaml_get_choice(map, "field", fields, 3, &choice, err);

	return rc == 0 ? parts_copy(slice_of(fields[choice]), a, &e->field, err) : rc;
}

static int read_env_value(const struct yaml_node *map, const struct profile *p, struct arena *a,
	struct profile_env *e, struct err *err)
{
	const struct yaml_node *prepend = yaml_get(map, "prepend");
	const struct yaml_node *secret = yaml_get(map, "secret");
	const struct yaml_node *field = yaml_get(map, "field");
	const struct yaml_node *node = yaml_absent(prepend) ? yaml_get(map, "value") : prepend;
	struct slice separator = SLICE(":");
	int n = !yaml_absent(prepend) + !yaml_absent(secret) + !yaml_absent(field) +
		!yaml_absent(yaml_get(map, "value"));
	int rc;

	if (n != 1)
		return yaml_err(map, err, ERR_INVALID,
			"found %s of value, prepend, secret and field, expected exactly one",
			n ? "more than one" : "none");
	e->prepend = !yaml_absent(prepend);
	if (!e->prepend && !yaml_absent(yaml_get(map, "separator")))
		return yaml_err(yaml_get(map, "separator"), err, ERR_INVALID,
			"separator belongs to prepend; all else replaces the container's own");
	if ((rc = template_when(map, &e->when, err)) != 0)
		return rc;
	if (!yaml_absent(secret))
		return read_secret(secret, a, e, err);
	if (!yaml_absent(field))
		return read_field(map, a, e, err);
	if ((rc = template_read(node, e->when, p, a, &e->value, err)) != 0 ||
		(rc = yaml_get_str(map, "separator", &separator, err)) != 0)
		return rc;
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
	int rc;

	if ((rc = yaml_as_map(map, err)) != 0 ||
		(rc = yaml_known(map, err, "name", "value", "prepend", "secret", "field",
			 "separator", "if", NULL)) != 0 ||
		(rc = parts_text(map, "name", env_name,
			 "the name of an environment variable: letters, digits and '_'", a,
			 &e->name, err)) != 0)
		return rc;
	for (size_t i = 0; i < p->n_env; i++)
		if (slice_eq(p->env[i].name, e->name))
			return yaml_err(yaml_get(map, "name"), err, ERR_INVALID,
				"found \"%.*s\" twice, expected each variable once",
				(int)e->name.len, e->name.at);
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

/* ---- argv, options and shell ---- */

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

	if (!text_word(&rest, &first) || first.len != word.len)
		return yaml_unexpected(node, err, "one word");
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

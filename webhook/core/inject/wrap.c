/* SPDX-License-Identifier: Apache-2.0 */
/* core: decide what stands in front of a container's command. */
#include "webhook/core/inject/wrap.h"

#include <stdio.h>

#include "webhook/core/inject/wrap_own.h"

int wrap_words(const struct launch *l, enum command_mode mode, struct arena *a, struct wrap *ret,
	struct err *err)
{
	struct wrap w = {.mode = mode};
	struct slice *argv;
	size_t n;

	if (launch_argv(l, a, &argv, &n, err) < 0)
		return err->code;
	w.words = arena_array(a, n + 2, sizeof(*w.words));
	if (!w.words)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		w.words[i] = argv[i];
	w.argv = (uint32_t)n;
	w.n_words = n;
	if (mode == COMMAND_SHELL) {
		w.words[w.n_words++] = launcher_escape(l->profile->shell, a);
		w.words[w.n_words++] = SLICE("-c");
	}
	*ret = w;
	return 0;
}

static int check_words(const struct json *j, const struct json_node *container, const char *key,
	const struct json_node **ret, struct err *err)
{
	const struct json_node *v = json_get(j, container, slice_of(key));
	size_t i = 0;

	*ret = NULL;
	if (json_absent(v))
		return 0;
	if (!json_is(v, JSON_ARRAY)) {
		err_set(err, ERR_INVALID, "found %s, expected an array of strings",
			json_type_name(v));
		return err_in(err, "%s", key);
	}
	JSON_EACH(j, v, e)
	{
		if (!json_is(e, JSON_STRING)) {
			err_set(err, ERR_INVALID, "found %s, expected a string", json_type_name(e));
			return err_in(err, "%s/%zu", key, i);
		}
		i++;
	}
	if (v->count > 0)
		*ret = v;
	return 0;
}

int wrap_refuse_image(const struct profile *p, struct err *err)
{
	char why[300];

	(void)snprintf(why, sizeof(why), "%.299s", err->msg);
	err_reason(err, ERR_REFUSED, "ImageUnknown",
		"the container has no command, so the program that the launcher \"%.*s\" has to "
		"start "
		"is only known to the image, and %s; write the image's ENTRYPOINT here as command "
		"(and its CMD as args), or create the pod again",
		(int)p->name.len, p->name.at, why);
	return err_in(err, "command");
}

static int refuse_no_command(const struct profile *p, bool has_args, struct err *err)
{
	err_set(err, ERR_INVALID,
		"the container has %s, so the program that the launcher \"%.*s\" has to start is "
		"only known to the image; "
		"write the image's ENTRYPOINT here as command%s",
		has_args ? "args but no command" : "no command", (int)p->name.len, p->name.at,
		has_args ? " and keep args" : " (and its CMD as args)");
	return err_in(err, "command");
}

/* A word that the shell, not the kernel, has to take apart. */
static bool holds_blanks(struct slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.at[i] == ' ' || s.at[i] == '\t' || s.at[i] == '\n' || s.at[i] == '\r')
			return true;
	return false;
}

/* Refusals quote no word of a command: it may hold a password, and they go on into events, logs and
 * the page. */
static int refuse_line_with_args(struct err *err)
{
	err_set(err, ERR_INVALID,
		"one string with blanks beside args can mean two things; write each word as an "
		"element of its "
		"own ([\"python\", \"train.py\"] and args), or the whole line as [\"sh\", \"-c\", "
		"\"…\"] without args");
	return err_in(err, "command");
}

/* Without a separator the launcher would take a program name that looks like an option for its own.
 */
static int refuse_dash(const struct profile *p, struct err *err)
{
	err_set(err, ERR_INVALID,
		"begins with '-', and the launcher \"%.*s\" has no separator between its own "
		"options and the "
		"program; start the program by a path: write \"./\" in front of its name",
		(int)p->name.len, p->name.at);
	return err_in(err, "command/0");
}

int wrap_command(const struct json *j, const struct json_node *container, const struct launch *l,
	struct arena *a, struct warnings *w, struct wrap *ret, struct err *err)
{
	const struct json_node *command, *args;
	enum command_mode mode = COMMAND_WRAPPED;
	struct slice first;

	if (check_words(j, container, "command", &command, err) < 0 ||
		check_words(j, container, "args", &args, err) < 0)
		return err->code;
	if (!command)
		return refuse_no_command(l->profile, args != NULL, err);
	if (wrap_is_own(j, container, l->profile, a)) {
		*ret = (struct wrap){.mode = COMMAND_OWN};
		return wrap_own_agrees(j, container, l, a, w, err);
	}
	first = json_str(j, json_first(j, command), a);
	if (!first.at)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (command->count == 1 && holds_blanks(first)) {
		if (args)
			return refuse_line_with_args(err);
		mode = COMMAND_SHELL;
	} else if (!l->profile->separator.at && first.len > 0 && first.at[0] == '-') {
		return refuse_dash(l->profile, err);
	}
	return wrap_words(l, mode, a, ret, err);
}

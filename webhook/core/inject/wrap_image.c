/* SPDX-License-Identifier: Apache-2.0 */
/* core: what stands in front of a container whose program is only known to its image. */
#include "webhook/core/inject/wrap.h"

bool wrap_has_command(const struct json *j, const struct json_node *container)
{
	const struct json_node *v = json_get(j, container, SLICE("command"));

	/* what is no list is told where commands are read */
	return !json_absent(v) && !(json_is(v, JSON_ARRAY) && v->count == 0);
}

static bool has_args(const struct json *j, const struct json_node *container)
{
	const struct json_node *v = json_get(j, container, SLICE("args"));

	return json_is(v, JSON_ARRAY) && v->count > 0;
}

static int check(const struct json *j, const struct json_node *container, const struct launch *l,
	const struct slice *words, size_t n, struct arena *a, struct err *err)
{
	if (n == 0)
		err_set(err, ERR_INVALID,
			has_args(j, container)
				? "the container has args but no command, and its image has no "
				  "ENTRYPOINT; write the args as command"
				: "the container has no command, and its image has neither "
				  "ENTRYPOINT nor CMD; write a command");
	else if (wrap_is_own_image(j, container, words, n, l->profile, a))
		err_set(err, ERR_INVALID,
			"the container has no command, and its image starts the launcher \"%.*s\" "
			"itself; "
			"write the image's ENTRYPOINT here as command, so that its figures can be "
			"compared",
			(int)l->profile->name.len, l->profile->name.at);
	else if (!l->profile->separator.at && words[0].len > 0 && words[0].at[0] == '-')
		err_set(err, ERR_INVALID,
			"the image's ENTRYPOINT begins with '-', and the launcher \"%.*s\" has no "
			"separator between its own options and the program; write a command that "
			"starts it by a path",
			(int)l->profile->name.len, l->profile->name.at);
	else
		return 0;
	return err_in(err, "command");
}

int wrap_image(const struct json *j, const struct json_node *container, const struct launch *l,
	const struct image_start *start, struct arena *a, struct wrap *ret,
	struct slice **ret_words, size_t *ret_n, struct err *err)
{
	size_t n_cmd = has_args(j, container) ? 0 : start->n_cmd, n = 0;
	struct slice *words = arena_array(a, start->n_entrypoint + n_cmd, sizeof(*words));

	if (!words)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < start->n_entrypoint; i++)
		words[n++] = start->entrypoint[i];
	for (size_t i = 0; i < n_cmd; i++)
		words[n++] = start->cmd[i];
	if (check(j, container, l, words, n, a, err) < 0)
		return err->code;
	for (size_t i = 0; i < n; i++)
		words[i] = launcher_escape(words[i], a);
	if (a->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	*ret_words = words;
	*ret_n = n;
	return wrap_words(l, COMMAND_WRAPPED, a, ret, err);
}

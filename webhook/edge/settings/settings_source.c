/* SPDX-License-Identifier: Apache-2.0 */
/* edge: who named which path, for the sentence about a file that cannot be opened. */
#include <stdio.h>
#include <string.h>

#include "webhook/edge/settings/settings_file.h"

/* Without memory, or past the table's end, the sentence merely says less. */
static void add(struct settings *s, const char *path, const char *named_by)
{
	if (named_by && s->n_sources < SETTINGS_SOURCES_MAX)
		s->sources[s->n_sources++] = (struct settings_source){path, named_by};
}

void settings_source_flag(struct settings *s, const char *path, const char *flag)
{
	add(s, path, arena_fmt(&s->arena, "flag %s: ", flag));
}

void settings_source_node(struct settings *s, const char *path, const struct yaml_node *node)
{
	struct err place = {0};

	(void)yaml_err(node, &place, ERR_INVALID, "%s", "");
	add(s, path, arena_strdup(&s->arena, slice_of(place.msg)));
}

/* Does the sentence speak of this path, or of a file in that folder? As a word: a path may be one
 * letter. */
static bool speaks_of(const char *msg, const char *path, size_t len)
{
	for (const char *at = msg; (at = strstr(at, path)); at++)
		if ((at == msg || at[-1] == ' ') && (!at[len] || strchr(": /", at[len])))
			return true;
	return false;
}

int settings_blame(const struct settings *s, struct err *err)
{
	const struct settings_source *best = NULL;
	size_t best_len = 0;

	if (!err || (err->code != ERR_NOTFOUND && err->code != ERR_IO))
		return err ? (int)err->code : 0;
	/* A folder and a file in it may both be named: the longest is meant; of equal ones the
	 * last, which won. */
	for (size_t i = 0; i < s->n_sources; i++) {
		size_t len = strlen(s->sources[i].path);

		if (len >= best_len && speaks_of(err->msg, s->sources[i].path, len)) {
			best = &s->sources[i];
			best_len = len;
		}
	}
	return best ? err_set(err, err->code, "%s%s", best->named_by, err->msg) : (int)err->code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* core: see validate_check.h: where a fault stands, and parts that were rendered. */
#include "webhook/core/validate/validate_check.h"

#include "webhook/core/pod/rendered.h"

int check_in(struct checking *c, const struct pod_container *pc, const char *where)
{
	err_in(c->err, "%s", where);
	return err_in(c->err, "%s", pc->path + 1);
}

static int missing(struct checking *c, struct slice name, const char *what, const char *where)
{
	MISMATCH(c, "the injected %s %.*s is missing", what, (int)(name.len > 100 ? 100 : name.len),
		name.at);
	return err_in(c->err, "%s", where);
}

int check_parts(struct checking *c, const struct json_node *array, const char *key,
	const struct check_part *parts, size_t n, const char *what, const char *where)
{
	struct slice *names = arena_array(c->a, n, sizeof(*names));
	struct json_hit *hits = arena_array(c->a, n, sizeof(*hits));

	for (size_t i = 0; parts && names && i < n; i++)
		names[i] = parts[i].name;
	if (!parts || !names || !hits ||
		json_find_each(c->pod->j, array, key, names, n, false, c->a, hits) != 0)
		return err_set(c->err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		if (!hits[i].node)
			return missing(c, names[i], what, where);
		if (rendered_there(parts[i].json, c->pod->j, hits[i].node, c->a))
			continue;
		if (c->a->failed)
			return err_set(c->err, ERR_NOMEM, "out of memory");
		MISMATCH(c, "the injected %s %.*s is not as it was injected", what,
			(int)(names[i].len > 100 ? 100 : names[i].len), names[i].at);
		return err_in(c->err, "%s/%zu", where, hits[i].index);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* core: the templates of a profile document and the conditions under which they are written, read
 * and checked. */
#include "webhook/core/launcher/launcher_template.h"

#include <string.h>

#include "base/yaml/yaml_config.h"
#include "webhook/core/launcher/launcher_parts.h"

/* A request that fills every place, to see what templates give for each client. */
static const struct slice sample_words[] = {{"host:1", 6}};

struct launch template_sample(const struct profile *p, const struct profile_client *c)
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

/* {fraction} says something only when a request is by percent, {memory_mb} only when it is by
 * memory. */
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
				"found {%s}, which has no value for every request: put it into an "
				"entry of argv or env with \"%s\"",
				rules[i].place, rules[i].advice);
	return 0;
}

int template_read(const struct yaml_node *node, enum word_when when, const struct profile *p,
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
	rc = template_check(text, when, p->clients[0].values, p->clients[0].n_values, &why);
	if (rc != 0)
		return yaml_err(node, err, ERR_INVALID, "%s", why.msg);
	if ((rc = check_when(node, text, when, err)) != 0)
		return rc;
	return parts_copy(text, a, ret, err);
}

int template_when(const struct yaml_node *map, enum word_when *io, struct err *err)
{
	static const char *const conditions[] = {"fraction", "memory", "filter"};
	static const enum word_when meaning[] = {WORD_FRACTION, WORD_MEMORY, WORD_ANY_FILTER};
	size_t choice = 0;
	int rc;

	if (yaml_absent(yaml_get(map, "if")))
		return 0;
	if ((rc = yaml_get_choice(map, "if", conditions, 3, &choice, err)) != 0)
		return rc;
	*io = meaning[choice];
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

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: warns of annotations of ours that are no strings, which YAML makes of `on` and 400. */
#include <stdio.h>

#include "base/yaml/yaml_find.h"
#include "base/yaml/yaml_scalar.h"
#include "webhook/cli/inject/inject.h"
#include "webhook/core/pod/plan.h"

static bool is_ours(struct slice name)
{
	return slice_is(name, ANN_SWITCH) || slice_is(name, ANN_STATUS) ||
	       slice_starts(name, SLICE("bitfusion-client/")) ||
	       slice_starts(name, SLICE("poolgate.io/"));
}

/* What a value is that the API server refuses; NULL for a string, and for null, which it takes for
 * an empty one. */
static const char *not_a_string(const struct yaml_node *value)
{
	struct yaml_value v;

	if (!yaml_is(value, YAML_SCALAR))
		return yaml_is(value, YAML_MAP) ? "a mapping" : "a sequence";
	if (yaml_meaning(value, &v, NULL) != 0 || v.type == YAML_STRING || v.type == YAML_NULL)
		return NULL;
	return yaml_type_name(v.type);
}

void inject_say_types(const struct inject_job *job, const struct manifest_pod *pod)
{
	const struct yaml_node *via = NULL;
	const struct yaml_node *annotations =
		yaml_follow(yaml_follow(pod->node, "metadata", &via), "annotations", &via);

	YAML_MEMBERS(annotations, key)
	{
		const struct yaml_node *value = yaml_target(key->next, &via);
		struct yaml_value name;
		const char *what = NULL;

		if (!yaml_is_merge(key) && yaml_key(key, &name, NULL) == 0 && is_ours(name.text))
			what = not_a_string(value);
		if (!what)
			continue;
		inject_say_place(job, pod, key->line);
		(void)fprintf(stderr,
			"warning: annotation %.*s is %s; the API server accepts strings alone: "
			"quote it\n",
			(int)name.text.len, name.text.at, what);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: the kinds that bear pods, as a table. */
#include "webhook/cli/manifest.h"

#include <string.h>

#include "base/yaml_find.h"
#include "base/yaml_scalar.h"

/* An API group's kind, and the keys that lead from an object to its pod template. */
struct bearer {
	const char *kind;
	const char *groups[2]; /* "" is the core group */
	const char *path[4];
};

static const struct bearer bearers[] = {
	{"Pod", {""}, {NULL}},
	{"PodTemplate", {""}, {"template"}},
	{"ReplicationController", {""}, {"spec", "template"}},
	{"Deployment", {"apps", "extensions"}, {"spec", "template"}},
	{"StatefulSet", {"apps"}, {"spec", "template"}},
	{"DaemonSet", {"apps", "extensions"}, {"spec", "template"}},
	{"ReplicaSet", {"apps", "extensions"}, {"spec", "template"}},
	{"Job", {"batch"}, {"spec", "template"}},
	{"CronJob", {"batch"}, {"spec", "jobTemplate", "spec", "template"}},
};

struct finding {
	struct yaml_doc *doc;
	struct manifest_pods out;
	size_t cap;
	struct err *err;
};

static int no_memory(const struct finding *f)
{
	return err_set(f->err, ERR_NOMEM, "%s: out of memory", f->doc->file);
}

/* A string at a key; absent for anything else. */
static struct slice word_at(const struct yaml_node *map, const char *key)
{
	const struct yaml_node *via = NULL;
	const struct yaml_node *value = yaml_follow(map, key, &via);
	struct yaml_value v;

	if (!yaml_is(value, YAML_SCALAR) || yaml_meaning(value, &v, NULL) != 0 ||
		v.type != YAML_STRING)
		return (struct slice){0};
	return v.text;
}

static bool in_group(const struct yaml_node *object, const char *const groups[2])
{
	struct slice version = word_at(object, "apiVersion");
	const char *slash = version.at ? memchr(version.at, '/', version.len) : NULL;
	struct slice group = {version.at, slash ? (size_t)(slash - version.at) : 0};

	if (!version.at)
		return true;
	return slice_is(group, groups[0]) || (groups[1] && slice_is(group, groups[1]));
}

static int add_pod(struct finding *f, const struct manifest_pod *pod)
{
	struct manifest_pod *grown;

	if (f->out.n == MANIFEST_PODS_MAX)
		return yaml_err(pod->node, f->err, ERR_TOOBIG, "more than %d pods in one document",
			MANIFEST_PODS_MAX);
	if (f->out.n == f->cap) {
		f->cap = f->cap ? 4 * f->cap : 4;
		grown = arena_array(f->doc->arena, f->cap, sizeof(grown[0]));
		if (!grown)
			return no_memory(f);
		if (f->out.n > 0)
			memcpy(grown, f->out.at, f->out.n * sizeof(grown[0]));
		f->out.at = grown;
	}
	f->out.at[f->out.n++] = *pod;
	return 0;
}

/* The pod of an object of this kind, if it has one. */
static int add_object(struct finding *f, const struct bearer *bearer, struct yaml_node *object,
	const struct yaml_node *via, const char *pointer)
{
	struct manifest_pod pod = {.node = object, .via = via, .line = object->line};
	const struct yaml_node *ignored = NULL;
	const struct yaml_node *metadata = yaml_follow(object, "metadata", &ignored);

	for (size_t i = 0; i < 4 && bearer->path[i] && pod.node; i++) {
		const struct yaml_node *through = NULL;

		pod.node = yaml_follow(pod.node, bearer->path[i], &through);
		pod.via = pod.via ? pod.via : through;
		pointer = arena_fmt(f->doc->arena, "%s/%s", pointer, bearer->path[i]);
		if (!pointer)
			return no_memory(f);
	}
	if (!yaml_is(pod.node, YAML_MAP))
		return 0;
	pod.pointer = slice_of(pointer);
	pod.kind = slice_of(bearer->kind);
	pod.name = word_at(metadata, "name");
	if (!pod.name.at)
		pod.name = word_at(metadata, "generateName");
	if (!pod.name.at)
		pod.name = SLICE("");
	pod.namespace = word_at(metadata, "namespace");
	return add_pod(f, &pod);
}

static int find_in(struct finding *f, struct yaml_node *object, const struct yaml_node *via,
	const char *pointer, int lists);

static int find_in_list(struct finding *f, struct yaml_node *list, const struct yaml_node *via,
	const char *pointer, int lists)
{
	const struct yaml_node *through = NULL;
	const struct yaml_node *items = yaml_follow(list, "items", &through);
	size_t i = 0;

	if (lists == MANIFEST_LISTS_MAX)
		return yaml_err(list, f->err, ERR_TOOBIG, "more than %d Lists in each other",
			MANIFEST_LISTS_MAX);
	YAML_EACH(items, item)
	{
		const struct yaml_node *here = NULL;
		struct yaml_node *object = yaml_target(item, &here);
		const char *at = arena_fmt(f->doc->arena, "%s/items/%zu", pointer, i++);

		if (!at)
			return no_memory(f);
		int rc = find_in(f, object, via ? via : through ? through : here, at, lists + 1);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int find_in(struct finding *f, struct yaml_node *object, const struct yaml_node *via,
	const char *pointer, int lists)
{
	static const char *const core[2] = {""};
	struct slice kind = word_at(object, "kind");

	if (!yaml_is(object, YAML_MAP))
		return 0;
	if (slice_is(kind, "List") && in_group(object, core))
		return find_in_list(f, object, via, pointer, lists);
	for (size_t i = 0; i < sizeof(bearers) / sizeof(bearers[0]); i++) {
		if (slice_is(kind, bearers[i].kind) && in_group(object, bearers[i].groups))
			return add_object(f, &bearers[i], object, via, pointer);
	}
	return 0;
}

int manifest_pods(struct yaml_doc *doc, struct manifest_pods *ret, struct err *err)
{
	struct finding f = {.doc = doc, .err = err};
	int rc = find_in(&f, doc->root, NULL, "", 0);

	if (rc == 0)
		*ret = f.out;
	return rc;
}

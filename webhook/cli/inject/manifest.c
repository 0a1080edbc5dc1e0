/* SPDX-License-Identifier: Apache-2.0 */
/* cli: finds pod templates by their shape, in any kind. */
#include "webhook/cli/inject/manifest.h"

#include <string.h>

#include "base/list.h"
#include "base/yaml/yaml_find.h"
#include "base/yaml/yaml_scalar.h"
#include "webhook/core/pod/plan.h"

struct list {
	struct manifest_pod *at;
	size_t n, cap;
};

struct finding {
	struct yaml_doc *doc;
	struct list pods, others;
	unsigned visits; /* nodes that were looked at; aliases can stand for very many */
	struct err *err;
};

/* The way from the document's root to a node. */
struct step {
	const struct step *up; /* NULL: the root */
	struct slice key;      /* of a map, else absent */
	size_t index;          /* of a sequence */
	unsigned depth;
};

/* The object that is looked into. */
struct object {
	struct manifest_pod found; /* what is the same for each of its pods */
	const struct yaml_node *root, *stray;
	size_t pods;
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

static bool in_core_group(const struct yaml_node *object)
{
	struct slice version = word_at(object, "apiVersion");

	return !version.at || !memchr(version.at, '/', version.len);
}

/* Would a user who writes this key expect something of poolgate? */
static bool is_ours(struct slice key)
{
	return slice_is(key, ANN_SWITCH) || slice_is(key, ANN_LAUNCHER) ||
	       slice_starts(key, SLICE("bitfusion.io/gpu-")) ||
	       slice_starts(key, SLICE("bitfusion-client/"));
}

static int add(struct finding *f, struct list *list, const struct manifest_pod *pod)
{
	if (list->n == MANIFEST_PODS_MAX)
		return yaml_err(pod->node, f->err, ERR_TOOBIG,
			"more than %d pods or objects in one document", MANIFEST_PODS_MAX);
	if (!LIST_ROOM_IN(f->doc->arena, list->at, list->n, list->cap))
		return no_memory(f);
	list->at[list->n++] = *pod;
	return 0;
}

static void write_pointer(const struct step *step, struct buf *out)
{
	if (!step->up)
		return;
	write_pointer(step->up, out);
	buf_char(out, '/');
	if (step->key.at)
		buf_pointer_seg(out, step->key);
	else
		buf_u64(out, step->index);
}

static int add_pod(struct finding *f, struct object *in, struct yaml_node *node,
	const struct yaml_node *via, const struct step *at)
{
	struct manifest_pod pod = in->found;
	struct buf pointer;

	buf_init(&pointer, YAML_BYTES_MAX);
	write_pointer(at, &pointer);
	pod.node = node;
	pod.via = via;
	pod.pointer = slice_of(arena_strdup(f->doc->arena, buf_as_slice(&pointer)));
	if (pointer.failed || !pod.pointer.at)
		f->err->code = ERR_NOMEM;
	buf_release(&pointer);
	if (f->err->code == ERR_NOMEM)
		return no_memory(f);
	in->pods++;
	return add(f, &f->pods, &pod);
}

/* A map that is made into pods: {metadata, spec: {containers: [{…}, …]}}. */
static bool is_template(const struct yaml_node *map)
{
	const struct yaml_node *via = NULL;
	const struct yaml_node *containers =
		yaml_follow(yaml_follow(map, "spec", &via), "containers", &via);

	return yaml_is(containers, YAML_SEQ) &&
	       yaml_is(yaml_target(containers->first, &via), YAML_MAP);
}

static int look_into(struct finding *f, struct object *in, struct yaml_node *node,
	const struct yaml_node *via, const struct step *at);

static int look_at_member(struct finding *f, struct object *in, struct yaml_node *key,
	const struct yaml_node *via, const struct step *up)
{
	struct step step = {.up = up, .depth = up->depth + 1};
	struct yaml_value v;

	if (yaml_key(key, &v, NULL) != 0)
		return 0; /* yaml_to_json() says what is wrong with it, when it matters */
	step.key = v.text;
	if (!in->stray && is_ours(v.text))
		in->stray = key;
	return look_into(f, in, key->next, via, &step);
}

/* Members that a merge key brings into a map, as far as the map does not have them itself. */
static int look_at_merged(struct finding *f, struct object *in, struct yaml_node *map,
	struct yaml_node *from, const struct yaml_node *via, const struct step *up)
{
	const struct yaml_node *ignored = NULL;
	struct yaml_value v;
	int rc = 0;

	from = yaml_target(from, &ignored);
	f->visits += map->count; /* what a look-up may cost */
	if (++f->visits > YAML_NODES_MAX)
		return yaml_err(map, f->err, ERR_TOOBIG, "aliases stand for more than %u values",
			YAML_NODES_MAX);
	for (struct yaml_node *e = yaml_is(from, YAML_SEQ) ? from->first : NULL; rc == 0 && e;
		e = e->next)
		rc = look_at_merged(f, in, map, e, via, up);
	for (struct yaml_node *k = yaml_is(from, YAML_MAP) ? from->first : NULL; rc == 0 && k;
		k = yaml_next_key(k)) {
		if (yaml_is_merge(k))
			rc = look_at_merged(f, in, map, k->next, via, up);
		else if (yaml_key(k, &v, NULL) == 0 && yaml_find(map, v.text, &ignored) == k->next)
			rc = look_at_member(f, in, k, via, up);
	}
	return rc;
}

/* Every pod template in a node; what a template holds is not looked into. */
static int look_into(struct finding *f, struct object *in, struct yaml_node *node,
	const struct yaml_node *via, const struct step *at)
{
	const struct yaml_node *here = NULL;
	struct step step = {.up = at, .depth = at->depth + 1};
	int rc = 0;

	node = yaml_target(node, &here);
	via = via ? via : here;
	if (++f->visits > YAML_NODES_MAX || at->depth > YAML_DEPTH_MAX)
		return yaml_err(node, f->err, ERR_TOOBIG,
			"aliases stand for more than %u values, or for more than %d levels",
			YAML_NODES_MAX, YAML_DEPTH_MAX);
	if (node != in->root && is_template(node))
		return add_pod(f, in, node, via, at);
	for (struct yaml_node *e = yaml_is(node, YAML_SEQ) ? node->first : NULL; rc == 0 && e;
		e = e->next, step.index++)
		rc = look_into(f, in, e, via, &step);
	for (struct yaml_node *k = yaml_is(node, YAML_MAP) ? node->first : NULL; rc == 0 && k;
		k = yaml_next_key(k))
		rc = yaml_is_merge(k) ? look_at_merged(f, in, node, k->next, via ? via : k, at)
				      : look_at_member(f, in, k, via, at);
	return rc;
}

static int find_in(struct finding *f, struct yaml_node *node, const struct yaml_node *via,
	const struct step *at, int lists);

static int find_in_list(struct finding *f, struct yaml_node *list, const struct yaml_node *via,
	const struct step *at, int lists)
{
	const struct yaml_node *through = NULL;
	const struct yaml_node *items = yaml_follow(list, "items", &through);
	struct step key = {.up = at, .key = SLICE("items")}, step = {.up = &key};
	int rc = 0;

	if (lists == MANIFEST_LISTS_MAX)
		return yaml_err(list, f->err, ERR_TOOBIG, "more than %d Lists in each other",
			MANIFEST_LISTS_MAX);
	for (struct yaml_node *e = yaml_is(items, YAML_SEQ) ? items->first : NULL; rc == 0 && e;
		e = e->next, step.index++)
		rc = find_in(f, e, via ? via : through, &step, lists + 1);
	return rc;
}

/* What an API server asks holds an object that is no manifest: nobody applies it, and no pods are
 * made of it. */
static bool is_review(const struct yaml_node *object, struct slice kind)
{
	return slice_is(kind, "AdmissionReview") &&
	       slice_starts(word_at(object, "apiVersion"), SLICE("admission.k8s.io/"));
}

/* One object, or the objects of a List. */
static int find_in(struct finding *f, struct yaml_node *node, const struct yaml_node *via,
	const struct step *at, int lists)
{
	const struct yaml_node *here = NULL, *ignored = NULL;
	struct yaml_node *root = yaml_target(node, &here), *metadata;
	struct slice kind = word_at(root, "kind");
	struct object in = {.root = root};
	int rc;

	via = via ? via : here;
	if (yaml_absent(root))
		return 0;
	if (slice_is(kind, "List") && in_core_group(root))
		return find_in_list(f, root, via, at, lists);
	metadata = yaml_follow(root, "metadata", &ignored);
	in.found = (struct manifest_pod){.node = root,
		.object = root,
		.kind = kind.len ? kind : SLICE("document"),
		.name = word_at(metadata, "name"),
		.namespace = word_at(metadata, "namespace"),
		.line = root->line,
		.pointer = SLICE("")};
	if (!in.found.name.at)
		in.found.name = word_at(metadata, "generateName");
	if (!in.found.name.at)
		in.found.name = SLICE("");
	if (slice_is(kind, "Pod") && in_core_group(root))
		return add_pod(f, &in, root, via, at);
	if (is_review(root, kind))
		return add(f, &f->others, &in.found);
	rc = look_into(f, &in, root, via, at);
	in.found.stray = in.stray;
	return rc == 0 && (in.stray || in.pods == 0) ? add(f, &f->others, &in.found) : rc;
}

int manifest_pods(struct yaml_doc *doc, struct manifest_pods *ret, struct err *err)
{
	static const struct step root;
	struct finding f = {.doc = doc, .err = err};
	int rc = find_in(&f, doc->root, NULL, &root, 0);

	if (rc == 0)
		*ret = (struct manifest_pods){f.pods.at, f.pods.n, f.others.at, f.others.n};
	return rc;
}

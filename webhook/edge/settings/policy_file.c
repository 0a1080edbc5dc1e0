/* SPDX-License-Identifier: Apache-2.0 */
/* edge: files of policies. */
#include "webhook/edge/settings/policy_file.h"

#include <stdlib.h>

#include "base/files.h"
#include "base/text.h"
#include "base/yaml/yaml.h"
#include "base/yaml/yaml_json.h"

#define TEXT_MAX (1u << 20)
#define NODES_MAX 100000

struct loading {
	struct policies p;
	struct arena *a;
};

static int no_memory(struct err *err)
{
	return err_set(err, ERR_NOMEM, "out of memory while reading policies");
}

/* The place of a document that the core has found something in. */
static int at_document(const struct yaml_node *root, struct err *err)
{
	struct err why = *err;

	return yaml_err(root, err, why.code, "%s%s%s", why.path, why.path[0] ? ": " : "", why.msg);
}

static int add_policy(
	struct loading *l, const struct yaml_node *root, const struct json *j, struct err *err)
{
	struct policy *p = &l->p.all[l->p.n];

	if (policy_read(j, json_root(j), l->a, p, err) != 0 ||
		policy_check_keys(j, json_root(j), l->a, err) != 0)
		return err->code == ERR_NOMEM ? err->code : at_document(root, err);
	for (size_t i = 0; i < l->p.n; i++)
		if (strcmp(l->p.all[i].name, p->name) == 0)
			return yaml_err(root, err, ERR_INVALID,
				"found a second " POLICY_KIND " \"%s\", expected another name",
				p->name);
	l->p.n++;
	return 0;
}

/* A label that is empty picks nothing, as in the cluster. */
static int add_namespace(
	struct loading *l, const struct yaml_node *root, const struct json *j, struct err *err)
{
	const struct json_node *meta = json_get(j, json_root(j), SLICE("metadata"));
	struct slice name = json_str(j, json_get(j, meta, SLICE("name")), l->a);
	struct slice picked = json_str(j, json_path(j, meta, "labels", LABEL_POLICY, NULL), l->a);
	struct policy_pick *pick = &l->p.picks[l->p.n_picks];

	if (!text_dns_label(name))
		return yaml_err(root, err, ERR_INVALID,
			"found no metadata.name, expected a namespace's name");
	for (size_t i = 0; i < l->p.n_picks; i++)
		if (slice_is(name, l->p.picks[i].namespace))
			return yaml_err(root, err, ERR_INVALID,
				"found a second Namespace \"%.*s\", expected another name",
				(int)name.len, name.at);
	*pick = (struct policy_pick){
		arena_strdup(l->a, name), picked.len ? arena_strdup(l->a, picked) : NULL};
	l->p.n_picks++;
	return l->a->failed ? no_memory(err) : 0;
}

static int add_document(struct loading *l, const struct yaml_node *root, struct err *err)
{
	bool policy = yaml_is_str(yaml_get(root, "kind"), POLICY_KIND);
	struct buf text;
	struct json j;
	char *copy = NULL;
	int rc;

	if (!policy && !yaml_is_str(yaml_get(root, "kind"), "Namespace"))
		return yaml_err(root, err, ERR_INVALID,
			"found another kind of document, expected " POLICY_KIND " (" POLICY_API
			"), Namespace (v1) or a List of them");
	if (l->p.n == POLICIES_MAX || l->p.n_picks == POLICIES_NAMESPACES_MAX)
		return yaml_err(root, err, ERR_TOOBIG,
			"found more than %d policies, or more than %d namespaces", POLICIES_MAX - 1,
			POLICIES_NAMESPACES_MAX - 1);
	json_init(&j);
	buf_init(&text, TEXT_MAX);
	rc = yaml_to_json(root, YAML_JSON_COMPACT, &text, err);
	if (rc == 0)
		rc = json_read_copy(&j, text.data, text.len, NODES_MAX, &copy, err);
	if (rc == 0)
		rc = policy ? add_policy(l, root, &j, err) : add_namespace(l, root, &j, err);
	if (rc == 0)
		l->p.hash =
			(l->p.hash ^ text_hash64(buf_as_slice(&text))) * UINT64_C(0x100000001b3);
	/* what was copied lives in the arena, but texts without escapes still point into the copy
	 */
	json_release(&j);
	free(copy);
	buf_release(&text);
	return rc;
}

static int add_documents(struct loading *l, const struct yaml_stream *stream, struct err *err)
{
	int rc = 0;

	for (const struct yaml_doc *doc = stream->first; doc && rc == 0; doc = doc->next) {
		const struct yaml_node *items = yaml_get(doc->root, "items");

		if (yaml_absent(doc->root))
			continue;
		if (!yaml_is(items, YAML_SEQ)) {
			rc = add_document(l, doc->root, err);
			continue;
		}
		for (struct yaml_node *e = items->first; e && rc == 0; e = e->next)
			rc = add_document(l, e, err);
	}
	return rc;
}

static int load_file(struct loading *l, const char *path, struct err *err)
{
	struct yaml_stream stream = {0};
	struct arena tree;
	struct buf text;
	int rc;

	arena_init(&tree, YAML_ARENA_MAX);
	buf_init(&text, YAML_BYTES_MAX);
	rc = files_read(path, &text, err);
	if (rc == 0)
		rc = yaml_parse(&tree, path, buf_as_slice(&text), YAML_NO_ALIASES, &stream, err);
	if (rc == 0)
		rc = add_documents(l, &stream, err);
	buf_release(&text);
	arena_release(&tree);
	return rc;
}

int policies_load(const char *path, struct arena *a, struct policies *ret, struct err *err)
{
	struct loading l = {.a = a, .p.hash = UINT64_C(0xcbf29ce484222325)};
	struct file_list files = {0};
	int rc = files_list(path, a, &files, err);

	l.p.all = arena_array(a, POLICIES_MAX, sizeof(*l.p.all));
	l.p.picks = arena_array(a, POLICIES_NAMESPACES_MAX, sizeof(*l.p.picks));
	if (rc == 0 && (!l.p.all || !l.p.picks))
		return no_memory(err);
	for (size_t i = 0; rc == 0 && i < files.n; i++)
		rc = load_file(&l, files.path[i], err);
	if (rc == 0)
		*ret = l.p;
	return rc;
}

int policies_of(void *ctx, struct slice namespace, struct arena *a, const struct policy **ret,
	struct err *err)
{
	const struct policies *p = ctx;
	const char *picked = NULL;

	(void)a;
	*ret = NULL;
	for (size_t i = 0; i < p->n_picks; i++)
		if (slice_is(namespace, p->picks[i].namespace))
			picked = p->picks[i].policy;
	if (!picked)
		return 0;
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->all[i].name, picked) == 0)
			*ret = &p->all[i];
	return *ret ? 0 : policy_missing(picked, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: the manifests of this version, which lie in the program: what a cluster has is held to them.
 */
#include <stdio.h>
#include <string.h>

#include "base/yaml/yaml_json.h"
#include "webhook/cli/doctor/doctor_facts.h"

#define NODES_MAX 100000u
#define JSON_MAX (1u << 20)

/* mk/doctor.mk reads the names here: a change of one of the files makes this object anew. */
#define SHIPPED_FILES(X)                                                                           \
	X(BASE, base, "manifests/base/kustomization.yaml")                                         \
	X(CRD, crd, "manifests/base/crd.yaml")                                                     \
	X(HOOKS, hooks, "manifests/base/webhooks.yaml")                                            \
	X(RIGHTS, rights, "manifests/base/rbac.yaml")                                              \
	X(SECRET_RIGHTS, secret_rights, "manifests/components/secrets/rbac.yaml")                  \
	X(WAITING_RIGHTS, waiting_rights, "manifests/components/waiting/rbac.yaml")                \
	X(EVICTION_RIGHTS, eviction_rights, "manifests/components/eviction/rbac.yaml")             \
	X(USAGE_RIGHTS, usage_rights, "manifests/components/usage/rbac.yaml")                      \
	X(POLICY_RIGHTS, policy_rights, "manifests/components/policies/rbac.yaml")                 \
	X(POLICY_MUTATING, policy_mutating, "manifests/components/policies/mutating.yaml")         \
	X(POLICY_VALIDATING, policy_validating, "manifests/components/policies/validating.yaml")

#define SHIP(which, name, path)                                                                    \
	__asm__(".pushsection .rodata\n"                                                           \
		".global shipped_" #name "\n.global shipped_" #name "_len\n"                       \
		"shipped_" #name ":\n.incbin \"" path "\"\n1:\n.balign 8\n"                        \
		"shipped_" #name "_len: .quad 1b - shipped_" #name "\n.popsection\n");             \
	extern const char shipped_##name[];                                                        \
	extern const uint64_t shipped_##name##_len;
SHIPPED_FILES(SHIP)

#define TEXT(which, name, path) [SHIPPED_##which] = {shipped_##name, &shipped_##name##_len},
static const struct {
	const char *at;
	const uint64_t *len;
} texts[SHIPPED_COUNT] = {SHIPPED_FILES(TEXT)};

struct slice shipped_text(enum shipped which)
{
	return (struct slice){texts[which].at, *texts[which].len};
}

int shipped_read(enum shipped which, struct sight *ret, struct err *err)
{
	struct yaml_stream docs;
	struct arena a;
	struct buf out;
	int rc;

	arena_init(&a, YAML_ARENA_MAX);
	buf_init(&out, JSON_MAX);
	rc = yaml_parse(&a, "manifest", shipped_text(which), YAML_NO_ALIASES, &docs, err);
	buf_char(&out, '[');
	for (const struct yaml_doc *d = rc == 0 ? docs.first : NULL; d && rc == 0; d = d->next) {
		if (d != docs.first)
			buf_char(&out, ',');
		rc = yaml_to_json(d->root, YAML_JSON_COMPACT, &out, err);
	}
	buf_char(&out, ']');
	if (rc == 0 && out.failed)
		rc = err_set(err, ERR_NOMEM, "out of memory");
	if (rc == 0)
		rc = json_read_copy(&ret->json, out.data, out.len, NODES_MAX, &ret->text, err);
	ret->state = rc == 0 ? SIGHT_THERE : SIGHT_FAILED;
	buf_release(&out);
	arena_release(&a);
	return rc;
}

const struct json_node *shipped_doc(const struct sight *s, const char *kind, const char *name)
{
	const struct json *j = &s->json;

	JSON_EACH(j, json_root(j), doc)
	if (json_is_str(j, json_get(j, doc, SLICE("kind")), slice_of(kind)) &&
		(!name || json_is_str(
				  j, json_path(j, doc, "metadata", "name", NULL), slice_of(name))))
		return doc;
	return NULL;
}

/* ---- what is applied ---- */

/* The image of our container, if it is another than the manifests name, in whatever version; NULL
 * otherwise. */
static const char *other_image(const struct doctor_facts *f, struct arena *a)
{
	const struct json *j = &f->shipped[SHIPPED_BASE].json, *d = &f->deployment.json;
	const struct json_node *images = json_get(j, json_first(j, json_root(j)), SLICE("images"));
	const char *name = sight_str(j, json_get(j, json_first(j, images), SLICE("newName")), a);

	JSON_EACH(d, json_path(d, json_root(d), "spec", "template", "spec", "containers", NULL), c)
	{
		const char *image = sight_str(d, json_get(d, c, SLICE("image")), a);
		size_t n = name ? strlen(name) : 0;

		if (!image || !json_is_str(d, json_get(d, c, SLICE("name")), SLICE("poolgate")))
			continue;
		/* strchr finds the end of the text, too */
		return n > 0 && strncmp(image, name, n) == 0 && strchr(":@", image[n]) ? NULL
										       : image;
	}
	return NULL;
}

const char *doctor_apply(
	const struct doctor_facts *f, struct doctor_report *r, const char *component)
{
	const char *image = other_image(f, r->arena);
	bool sync = f->settings.cluster.secrets_sync;

	if (!component && sync)
		component = "secrets";
	if (image || (sync && strcmp(component, "secrets") != 0))
		return doctor_fmt(r, "kubectl apply -k DIR, your own kustomization%s%s%s%s",
			image ? ", which names the image " : "", image ? image : "",
			component ? ", with manifests/components/" : "",
			component ? component : "");
	return doctor_fmt(r, "kubectl apply -k manifests/%s%s", component ? "overlays/" : "base",
		component ? component : "");
}

/* ---- comparing ---- */

static bool same_text(const struct json *wj, const struct json_node *want, const struct json *gj,
	const struct json_node *got)
{
	struct buf a, b;
	bool same;

	if (slice_eq(json_raw(wj, want), json_raw(gj, got)))
		return true;
	buf_init(&a, JSON_MAX);
	buf_init(&b, JSON_MAX);
	json_decode(wj, want, &a);
	json_decode(gj, got, &b);
	same = !a.failed && !b.failed && slice_eq(buf_as_slice(&a), buf_as_slice(&b));
	buf_release(&a);
	buf_release(&b);
	return same;
}

static bool same_number(const struct json *wj, const struct json_node *want, const struct json *gj,
	const struct json_node *got)
{
	int64_t a, b;

	return slice_eq(json_raw(wj, want), json_raw(gj, got)) ||
	       (json_int(wj, want, &a) && json_int(gj, got, &b) && a == b);
}

/* The way back up: segments are put in front. */
static void in(struct buf *path, struct slice segment)
{
	struct buf longer;

	if (!path)
		return;
	buf_init(&longer, path->max);
	buf_char(&longer, '/');
	buf_slice(&longer, segment);
	buf_slice(&longer, buf_as_slice(path));
	buf_clear(path);
	buf_slice(path, buf_as_slice(&longer));
	buf_release(&longer);
}

static bool same_members(const struct json *wj, const struct json_node *want, const struct json *gj,
	const struct json_node *got, bool exact, struct buf *path)
{
	JSON_MEMBERS(wj, want, k)
	{
		struct slice key = json_inside(wj, k);

		if (!shipped_same(wj, json_value(k), gj, json_get(gj, got, key), exact, path)) {
			in(path, key);
			return false;
		}
	}
	if (!exact || got->count == want->count)
		return true;
	JSON_MEMBERS(gj, got, k)
	if (!json_get(wj, want, json_inside(gj, k))) {
		in(path, json_inside(gj, k));
		return false;
	}
	return false;
}

static bool same_elements(const struct json *wj, const struct json_node *want,
	const struct json *gj, const struct json_node *got, bool exact, struct buf *path)
{
	const struct json_node *g = json_first(gj, got);
	char index[24];
	size_t i = 0;

	if (want->count != got->count)
		return false;
	JSON_EACH(wj, want, w)
	{
		if (!shipped_same(wj, w, gj, g, exact, path)) {
			(void)snprintf(index, sizeof(index), "%zu", i);
			in(path, slice_of(index));
			return false;
		}
		g = json_next(gj, got, g);
		i++;
	}
	return true;
}

bool shipped_same(const struct json *wj, const struct json_node *want, const struct json *gj,
	const struct json_node *got, bool exact, struct buf *path)
{
	if (!want || !got || want->type != got->type)
		return json_absent(want) && json_absent(got);
	switch ((enum json_type)want->type) {
	case JSON_NULL:
	case JSON_FALSE:
	case JSON_TRUE:
		return true;
	case JSON_NUMBER:
		return same_number(wj, want, gj, got);
	case JSON_STRING:
		return same_text(wj, want, gj, got);
	case JSON_ARRAY:
		return same_elements(wj, want, gj, got, exact, path);
	case JSON_OBJECT:
		return same_members(wj, want, gj, got, exact, path);
	}
	return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* kube: how the Kubernetes API's objects are named, and its clock: what is known of it without a
 * connection. */

#include "kube/kube_object.h"
#include "base/text.h"

static struct slice plain(const struct json *j, const struct json_node *meta, struct slice key)
{
	const struct json_node *v = json_get(j, meta, key);

	return v && !v->escaped ? json_inside(j, v) : (struct slice){0};
}

struct kube_meta kube_meta(const struct json *j, const struct json_node *object)
{
	const struct json_node *meta = json_get(j, object, SLICE("metadata"));

	return (struct kube_meta){.name = plain(j, meta, SLICE("name")),
		.namespace = plain(j, meta, SLICE("namespace")),
		.uid = plain(j, meta, SLICE("uid")),
		.version = plain(j, meta, SLICE("resourceVersion")),
		.deleting = !json_absent(json_get(j, meta, SLICE("deletionTimestamp")))};
}

uint64_t kube_version_number(struct slice version)
{
	uint64_t n = 0;

	return text_u64(version, UINT64_MAX, &n) ? n : 0;
}

void kube_path(struct buf *out, const char *api, const char *namespace, const char *plural,
	const char *name, const char *sub)
{
	const char *const part[] = {namespace, plural, name, sub};

	buf_str(out, api);
	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
		if (!part[i])
			continue;
		buf_str(out, i == 0 ? "/namespaces/" : "/");
		buf_percent(out, slice_of(part[i]));
	}
}

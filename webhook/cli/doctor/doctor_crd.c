/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges the CustomResourceDefinition: is it there, served, with its status apart, and of this
 * version's schema? */
#include "webhook/cli/doctor/doctor_facts.h"

#define VERSION "v1alpha1"
#define PATH_BYTES 512

static const struct json_node *version_of(const struct json *j, const struct json_node *crd)
{
	JSON_EACH(j, json_path(j, crd, "spec", "versions", NULL), v)
	if (json_is_str(j, json_get(j, v, SLICE("name")), SLICE(VERSION)))
		return v;
	return NULL;
}

static bool established(const struct json *j, const struct json_node *crd)
{
	JSON_EACH(j, json_path(j, crd, "status", "conditions", NULL), c)
	if (json_is_str(j, json_get(j, c, SLICE("type")), SLICE("Established")))
		return json_is_str(j, json_get(j, c, SLICE("status")), SLICE("True"));
	return false;
}

static void judge_schema(
	const struct doctor_facts *f, const struct json_node *version, struct doctor_report *r)
{
	const struct sight *shipped = &f->shipped[SHIPPED_CRD];
	const struct json *j = &f->crd.json;
	const struct json_node *want =
		version_of(&shipped->json, shipped_doc(shipped, "CustomResourceDefinition", NULL));
	struct buf path;

	buf_init(&path, PATH_BYTES);
	if (shipped_same(&shipped->json, json_get(&shipped->json, want, SLICE("schema")), j,
		    json_get(j, version, SLICE("schema")), true, &path))
		doctor_ok(r, "GPUServer " VERSION " is served, with the schema of this version");
	else
		doctor_wrong(r, "kubectl apply -f manifests/base/crd.yaml",
			"the schema of GPUServer is another than this version's, at %s",
			path.data ? path.data : "its root");
	buf_release(&path);
}

void doctor_crd(const struct doctor_facts *f, struct doctor_report *r)
{
	const struct json *j = &f->crd.json;
	const struct json_node *crd = json_root(j), *version;
	const char *mend = "kubectl apply -f manifests/base/crd.yaml";

	if (f->crd.state == SIGHT_MISSING) {
		doctor_wrong(r, mend, "there is no %s: no GPUServer can exist", f->crd.what);
		return;
	}
	if (!sight_there(&f->crd, r))
		return;
	version = version_of(j, crd);
	if (!version || !json_is(json_get(j, version, SLICE("served")), JSON_TRUE))
		doctor_wrong(r, mend, "GPUServer is not served in " VERSION);
	else if (!established(j, crd))
		doctor_wrong(r, "kubectl describe crd gpuservers.poolgate.io",
			"the CustomResourceDefinition is there, but the API server has not "
			"established it");
	else if (!json_is(json_path(j, version, "subresources", "status", NULL), JSON_OBJECT))
		doctor_wrong(r, mend,
			"GPUServer has no status of its own: whoever may edit a server could write "
			"claims, and we "
			"cannot");
	else
		judge_schema(f, version, r);
}

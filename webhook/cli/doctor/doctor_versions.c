/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges what an installation consists of: replicas of one image, the
 * CustomResourceDefinition, a leader, our account's rights, the clients' images. */
#include <string.h>

#include "base/rfc3339.h"
#include "webhook/cli/doctor/doctor_facts.h"
#include "webhook/core/launcher/launcher.h"

/* ---- replicas and versions ---- */

/* The first minor version that lets conditions be created as ours are written. */
/* Policies, gates and the hooks' conditions are stable from there on. */
#define LEAST_MINOR 30

static int64_t int_of(const struct json *j, const struct json_node *v, int64_t otherwise)
{
	int64_t n;

	return json_int(j, v, &n) ? n : otherwise;
}

/* `kubectl rollout status` does not wait for them. */
static void judge_ending(const struct doctor_facts *f, struct doctor_report *r)
{
	DOCTOR_EACH(struct doctor_replica, &f->replicas, p)
	if (p->deleting)
		doctor_wrong(r,
			doctor_fmt(r, "kubectl -n %s wait --for=delete pod/%s --timeout=60s",
				f->namespace, p->name),
			"%s ends, and answers on with the settings of before", p->name);
}

void doctor_replicas(const struct doctor_facts *f, struct doctor_report *r)
{
	const struct json *j = &f->deployment.json;
	const struct json_node *o = json_root(j);
	int64_t want, ready, updated;

	if (f->deployment.state == SIGHT_MISSING) {
		doctor_wrong(r, doctor_apply(f, r, NULL), "there is no %s: nobody answers reviews",
			f->deployment.what);
		return;
	}
	if (!sight_there(&f->deployment, r))
		return;
	want = int_of(j, json_path(j, o, "spec", "replicas", NULL), 1);
	ready = int_of(j, json_path(j, o, "status", "readyReplicas", NULL), 0);
	updated = int_of(j, json_path(j, o, "status", "updatedReplicas", NULL), 0);
	if (want == 0)
		doctor_wrong(r,
			doctor_fmt(r,
				"kubectl -n %s scale deployment/" DOCTOR_DEPLOYMENT " --replicas=2",
				f->namespace),
			"the Deployment is scaled to 0: nobody answers reviews");
	else if (ready == 0)
		doctor_wrong(r,
			doctor_fmt(r,
				"kubectl -n %s describe pods -l app.kubernetes.io/name=poolgate",
				f->namespace),
			"none of %lld replicas is ready: no GPU pod can be created",
			(long long)want);
	else if (ready < want)
		doctor_wrong(r,
			doctor_fmt(r,
				"kubectl -n %s describe pods -l app.kubernetes.io/name=poolgate",
				f->namespace),
			"%lld of %lld replicas are ready", (long long)ready, (long long)want);
	else if (updated < want)
		doctor_wrong(r,
			doctor_fmt(r, "kubectl -n %s rollout status deployment/" DOCTOR_DEPLOYMENT,
				f->namespace),
			"a rollout has not ended: %lld of %lld replicas are new",
			(long long)updated, (long long)want);
	else
		doctor_ok(r, "%lld of %lld replicas are ready", (long long)ready, (long long)want);
	judge_ending(f, r);
	if (f->config.state == SIGHT_THERE && !f->settings_known)
		doctor_wrong(r,
			doctor_fmt(r, "kubectl -n %s rollout undo deployment/" DOCTOR_DEPLOYMENT,
				f->namespace),
			"the settings cannot be read: %s",
			f->config.why ? f->config.why : "they are none");
	else if (f->config.state == SIGHT_MISSING)
		doctor_wrong(r, doctor_apply(f, r, NULL),
			"there is no %s, which the replicas have their settings from: none can "
			"start",
			f->config.what);
	else if (f->config.state == SIGHT_FAILED)
		(void)sight_there(&f->config, r);
	else if (f->config.state == SIGHT_NOT_ASKED && !f->settings_known)
		doctor_unchecked(r, "the settings: the Deployment has no volume \"config\" with a "
				    "ConfigMap, as "
				    "the manifests have; where its replicas have them from cannot "
				    "be seen, those "
				    "of the manifests are taken for true");
	else if (!f->settings_known)
		doctor_unchecked(r,
			"the settings: may not read %s; those of the manifests are taken for true",
			f->config.what);
}

/* Images of the replicas that are to stay. */
static bool one_image(const struct doctor_facts *f, struct doctor_report *r)
{
	const struct doctor_replica *first = NULL;

	DOCTOR_EACH(struct doctor_replica, &f->replicas, p)
	{
		if (p->deleting || !p->image)
			continue;
		if (!first) {
			first = p;
			continue;
		}
		if (strcmp(first->image, p->image) != 0 ||
			(first->image_id && p->image_id && *first->image_id && *p->image_id &&
				strcmp(first->image_id, p->image_id) != 0)) {
			doctor_wrong(r,
				doctor_fmt(r,
					"kubectl -n %s rollout restart "
					"deployment/" DOCTOR_DEPLOYMENT,
					f->namespace),
				"replicas run different images: %s has %s, %s has %s%s",
				first->name, first->image, p->name, p->image,
				strcmp(first->image, p->image) == 0 ? " of another digest" : "");
			return false;
		}
	}
	if (first)
		doctor_ok(
			r, "every replica runs %s; this is doctor " POOLGATE_VERSION, first->image);
	return true;
}

void doctor_versions(const struct doctor_facts *f, struct doctor_report *r)
{
	if (f->api_major == 0)
		doctor_unchecked(r, "the API server does not tell its version (GET /version)");
	else if (f->api_major == 1 && f->api_minor < LEAST_MINOR)
		doctor_wrong(r, "upgrade Kubernetes",
			"the API server is %d.%d, poolgate needs 1.%d", f->api_major, f->api_minor,
			LEAST_MINOR);
	else
		doctor_ok(r, "the API server is %d.%d", f->api_major, f->api_minor);
	if (sight_there(&f->replicas.sight, r))
		(void)one_image(f, r);
}

/* ---- the CustomResourceDefinition ---- */

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

/* ---- the leader ---- */

/* Clocks of a cluster may differ so much. */
#define SKEW_MS 5000

/* The replica that a holder's identity, POD_RANDOM, names. */
static const struct doctor_replica *replica_of(const struct doctor_facts *f, const char *holder)
{
	const char *end = strrchr(holder, '_');
	struct slice name = {holder, end ? (size_t)(end - holder) : strlen(holder)};

	DOCTOR_EACH(struct doctor_replica, &f->replicas, p)
	if (slice_is(name, p->name))
		return p;
	return NULL;
}

static void judge_holder(const struct doctor_facts *f, const char *holder, struct doctor_report *r)
{
	const struct doctor_replica *p;

	if (!sight_there(&f->replicas.sight, r))
		return;
	p = replica_of(f, holder);
	if (!p)
		doctor_wrong(r, "kubectl get pods -A -l app.kubernetes.io/name=poolgate",
			"%s leads, which is no replica here: another poolgate shares our Lease",
			holder);
	else if (!p->running)
		doctor_wrong(r,
			doctor_fmt(r, "kubectl -n %s describe pod %s", f->namespace, p->name),
			"%s leads, whose pod does not run", holder);
	else
		doctor_ok(r, "%s leads", holder);
}

/* The keys that it makes for all; who may not read them says nothing of them. */
static void judge_keys(const struct doctor_facts *f, struct doctor_report *r)
{
	const struct json *j = &f->plan_keys.json;
	const struct json_node *data = json_get(j, json_root(j), SLICE("data"));
	bool empty = f->plan_keys.state == SIGHT_THERE &&
		     (!json_is(data, JSON_OBJECT) || data->count == 0);

	if (f->plan_keys.state == SIGHT_MISSING || empty)
		doctor_wrong(r,
			empty ? doctor_fmt(r,
					"kubectl -n %s logs deployment/" DOCTOR_DEPLOYMENT
					" --all-pods | grep keys",
					f->namespace)
			      : doctor_apply(f, r, NULL),
			empty ? "the leader has put no key into %s: while versions or settings "
				"differ, replicas refuse each other's pods"
			      : "there is no %s: while versions or settings differ, replicas "
				"refuse each other's pods",
			f->plan_keys.what);
}

void doctor_leader(const struct doctor_facts *f, struct doctor_report *r)
{
	const struct json *j = &f->lease.json;
	const struct json_node *spec = json_get(j, json_root(j), SLICE("spec"));
	const char *mend = doctor_fmt(
		r, "kubectl -n %s rollout restart deployment/" DOCTOR_DEPLOYMENT, f->namespace);
	const char *holder = sight_str(j, json_get(j, spec, SLICE("holderIdentity")), r->arena);
	int64_t renewed = 0, seconds = 0;

	if (f->lease.state == SIGHT_MISSING) {
		doctor_wrong(r, mend, "there is no %s: nobody has ever led", f->lease.what);
		return;
	}
	if (!sight_there(&f->lease, r))
		return;
	(void)json_int(j, json_get(j, spec, SLICE("leaseDurationSeconds")), &seconds);
	if (!holder || !*holder)
		doctor_wrong(r, mend, "nobody leads: claims are taken and none is freed");
	else if (!rfc3339_read(json_inside(j, json_get(j, spec, SLICE("renewTime"))), &renewed))
		doctor_wrong(r, mend, "%s does not say when it was renewed", f->lease.what);
	else if (!f->lease_moved &&
		 (f->now_ms - renewed > seconds * 1000 + SKEW_MS || renewed - f->now_ms > SKEW_MS))
		doctor_wrong(r, mend, "nobody leads: %s has not renewed the Lease for %lld s",
			holder, (long long)((f->now_ms - renewed) / 1000));
	else {
		judge_holder(f, holder, r);
		judge_keys(f, r);
	}
}

/* ---- what our account may do ---- */

static const char *of(struct doctor_report *r, const struct doctor_right *t)
{
	return doctor_fmt(r, "%s %s%s%s%s%s%s%s", t->verb, t->resource, *t->subresource ? "/" : "",
		t->subresource, *t->name ? " " : "", t->name, *t->namespace ? " in " : "",
		t->namespace);
}

void doctor_rights(const struct doctor_facts *f, struct doctor_report *r)
{
	const char *mend = doctor_apply(f, r, NULL);
	size_t asked = 0, lacking = 0;

	DOCTOR_EACH(struct doctor_right, &f->rights, t)
	{
		asked += t->asked;
		if (!t->asked || t->allowed)
			continue;
		if (lacking++ < DOCTOR_LINES_MAX)
			doctor_wrong(r, mend, "the service account " DOCTOR_ACCOUNT " may not %s",
				of(r, t));
	}
	if (lacking > DOCTOR_LINES_MAX)
		doctor_wrong(
			r, mend, "and %zu more rights are missing", lacking - DOCTOR_LINES_MAX);
	if (f->rights.sight.state != SIGHT_THERE)
		(void)sight_there(&f->rights.sight, r);
	else if (lacking == 0)
		doctor_ok(r, "the service account " DOCTOR_ACCOUNT " has its %zu rights", asked);
}

/* ---- the clients' images ---- */

/* The first image in a text of YAML that nobody has set; absent when there is none. */
static struct slice unset_image(const char *text)
{
	static const char key[] = "image:";

	for (const char *at = text; (at = strstr(at, key)) != NULL;) {
		struct slice image;

		at += sizeof(key) - 1;
		at += strspn(at, " \"'");
		image = (struct slice){at, strcspn(at, " \t\r\n\"',}")};
		if (image_is_unset(image))
			return image;
	}
	return (struct slice){0};
}

/* Pods get the sidecar config's client by default, other launchers' when they choose them. */
static void judge_file(size_t which, const char *file, struct slice image, const struct sight *s,
	struct doctor_report *r)
{
	if (which == CLIENTS_LAUNCHERS)
		doctor_ok(r, "%s names %.*s: pods that choose this launcher are refused", file,
			(int)image.len, image.at);
	else
		doctor_wrong(r,
			"kubectl apply -k DIR, your own kustomization with a sidecar.yaml that "
			"names it "
			"(docs/operating.md, Install)",
			"%s in %s names %.*s, which stands for your client's image: pods are "
			"refused until you set it",
			file, s->what, (int)image.len, image.at);
}

void doctor_clients(const struct doctor_facts *f, struct doctor_report *r)
{
	if (f->clients[CLIENTS_SIDECAR].state == SIGHT_NOT_ASKED)
		doctor_unchecked(r,
			"the clients' images: the Deployment does not tell which ConfigMap "
			"names them");
	for (size_t i = 0; i < CLIENTS_COUNT; i++) {
		const struct sight *s = &f->clients[i];
		const struct json *j = &s->json;

		if (s->state == SIGHT_NOT_ASKED || !sight_there(s, r))
			continue;
		JSON_MEMBERS(j, json_get(j, json_root(j), SLICE("data")), file)
		{
			const char *text = sight_str(j, json_value(file), r->arena);
			struct slice image = text ? unset_image(text) : (struct slice){0};

			if (image.len)
				judge_file(i,
					doctor_fmt(r, "%.*s", (int)json_inside(j, file).len,
						json_inside(j, file).at),
					image, s, r);
		}
	}
	if (!doctor_group_troubled(r) && f->clients[CLIENTS_SIDECAR].state == SIGHT_THERE)
		doctor_ok(r, "%s names images that can be there", f->clients[CLIENTS_SIDECAR].what);
}

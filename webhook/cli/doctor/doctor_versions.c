/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges the replicas and the versions: are they there, of one image, and does the API server
 * understand our conditions? */
#include <string.h>

#include "webhook/cli/doctor/doctor_facts.h"

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

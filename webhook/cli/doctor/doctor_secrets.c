/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges the client's Secrets: is their source there, are the namespaces open, do waiting pods
 * have what they mount? */
#include <string.h>

#include "webhook/cli/doctor/doctor_facts.h"

static void judge_source(const struct doctor_facts *f, struct doctor_report *r)
{
	const char *mend =
		doctor_fmt(r, "kubectl create secret generic %s --from-file=tokens -n %.*s",
			strchr(f->settings.cluster.secrets_source, '/') + 1,
			(int)strcspn(f->settings.cluster.secrets_source, "/"),
			f->settings.cluster.secrets_source);

	if (f->source.state == SIGHT_MISSING)
		doctor_wrong(r, mend, "there is no %s: nothing can be copied into namespaces",
			f->source.what);
	else if (sight_there(&f->source, r) && !f->source_whole)
		doctor_wrong(r, mend, "%s has none of the keys ca.crt, client.yaml, servers.conf",
			f->source.what);
}

/* Findings of a kind, and namespaces about which nothing is known. */
struct told {
	size_t wrong, unchecked, left_out;
};

static bool is_wrong(const struct doctor_facts *f, const struct doctor_place *p)
{
	return p->lacks || (f->settings.cluster.secrets_sync && p->asked && !p->open);
}

static bool is_unchecked(const struct doctor_facts *f, const struct doctor_place *p)
{
	return !is_wrong(f, p) &&
	       (p->secrets != SIGHT_THERE || (f->settings.cluster.secrets_sync && !p->asked));
}

static void judge_place(const struct doctor_facts *f, const struct doctor_place *p,
	struct told *told, struct doctor_report *r)
{
	if (p->left_out) {
		told->left_out++;
		return;
	}
	if ((is_wrong(f, p) && told->wrong++ >= DOCTOR_PLACE_LINES_MAX) ||
		(is_unchecked(f, p) && told->unchecked++ >= DOCTOR_PLACE_LINES_MAX))
		return;
	if (f->settings.cluster.secrets_sync && p->asked && !p->open)
		doctor_wrong(r,
			doctor_fmt(r,
				"kubectl -n %s create rolebinding poolgate-secrets "
				"--clusterrole=poolgate-secrets "
				"--serviceaccount=%s:" DOCTOR_ACCOUNT,
				p->namespace, f->namespace),
			"namespace %s has GPU pods and is not open for the client's Secrets",
			p->namespace);
	else if (p->lacks)
		doctor_wrong(r,
			f->settings.cluster.secrets_sync
				? doctor_fmt(r,
					  "kubectl -n %s logs deployment/" DOCTOR_DEPLOYMENT
					  " --all-pods | grep %s",
					  f->namespace, p->namespace)
				: doctor_apply(f, r, "secrets"),
			"pods in %s wait for Secret %s, which is not there", p->namespace,
			p->lacks);
	else if (p->secrets != SIGHT_THERE)
		doctor_unchecked(r, "%s read Secrets in %s",
			p->secrets == SIGHT_FORBIDDEN ? "may not" : "cannot", p->namespace);
	else if (f->settings.cluster.secrets_sync && !p->asked)
		doctor_unchecked(r,
			"no answer whether namespace %s is open for copies (create "
			"%ssubjectaccessreviews)",
			p->namespace, f->in_cluster_account ? "self" : "");
}

static void judge_places(const struct doctor_facts *f, struct doctor_report *r)
{
	struct told told = {0};

	DOCTOR_EACH(struct doctor_place, &f->places, p)
	judge_place(f, p, &told, r);
	if (told.wrong > DOCTOR_PLACE_LINES_MAX)
		doctor_wrong(r, NULL,
			"and %zu more namespaces with GPU pods are not open or lack a Secret",
			told.wrong - DOCTOR_PLACE_LINES_MAX);
	if (told.unchecked > DOCTOR_PLACE_LINES_MAX)
		doctor_unchecked(r, "nor %zu more namespaces with GPU pods",
			told.unchecked - DOCTOR_PLACE_LINES_MAX);
	if (told.left_out)
		doctor_unchecked(r,
			"%zu of %zu namespaces with GPU pods: at most %d are looked at; see for "
			"yourself which pods wait (kubectl get pods -A -l "
			"poolgate.io/injected=true "
			"--field-selector status.phase=Pending)%s",
			told.left_out, f->places.n, DOCTOR_PLACES_MAX,
			f->settings.cluster.secrets_sync
				? " and which namespaces are open (kubectl get rolebindings -A "
				  "--field-selector metadata.name=poolgate-secrets)"
				: "");
}

void doctor_secrets(const struct doctor_facts *f, struct doctor_report *r)
{
	if (f->settings.cluster.secrets_sync)
		judge_source(f, r);
	if (!sight_there(&f->pods.sight, r))
		return;
	judge_places(f, r);
	if (doctor_group_troubled(r))
		return;
	if (f->settings.cluster.secrets_sync)
		doctor_ok(r, "%s is there, %zu namespaces with GPU pods are open for copies",
			f->source.what, f->places.n);
	else
		doctor_ok(r, "poolgate copies none (setting cluster.secrets.sync); no pod waits "
			     "for one");
}

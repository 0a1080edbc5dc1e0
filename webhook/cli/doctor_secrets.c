/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges the client's Secrets: is their source there, are the namespaces open, do waiting pods have what they mount? */
#include <string.h>

#include "webhook/cli/doctor_impl.h"

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

static void judge_place(
	const struct doctor_facts *f, const struct doctor_place *p, struct doctor_report *r)
{
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
				: "kubectl apply -k manifests/overlays/secrets",
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

void doctor_secrets(const struct doctor_facts *f, struct doctor_report *r)
{
	if (f->settings.cluster.secrets_sync)
		judge_source(f, r);
	if (!sight_there(&f->pods.sight, r))
		return;
	DOCTOR_EACH(struct doctor_place, &f->places, p)
	judge_place(f, p, r);
	if (doctor_group_troubled(r))
		return;
	if (f->settings.cluster.secrets_sync)
		doctor_ok(r, "%s is there, %zu namespaces with GPU pods are open for copies",
			f->source.what, f->places.n);
	else
		doctor_ok(r, "poolgate copies none (setting cluster.secrets.sync); no pod waits "
			     "for one");
}

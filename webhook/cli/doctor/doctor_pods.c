/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges the pods: injected by the origin, which nobody counts; live without a claim; claims
 * of pods that are gone. And the client's Secrets: is their source there, are the namespaces open,
 * do waiting pods have what they mount? */
#include <string.h>

#include "webhook/cli/doctor/doctor_facts.h"
#include "webhook/core/pod/late.h"

/* ---- pods ---- */

/* A leader ends such a claim within this time. */
#define GONE_MS 120000

static void judge_origin(const struct doctor_facts *f, struct doctor_report *r)
{
	size_t n = 0;

	DOCTOR_EACH(struct doctor_pod, &f->pods, p)
	if (!p->planned && !p->finished && n++ < DOCTOR_LINES_MAX)
		doctor_wrong(r, doctor_fmt(r, "kubectl -n %s delete pod %s", p->namespace, p->name),
			"%s/%s was injected by the origin, not by us: it has no plan, and nothing "
			"is claimed for it",
			p->namespace, p->name);
	if (n > DOCTOR_LINES_MAX)
		doctor_wrong(r, "kubectl get pods -A -l '!poolgate.io/injected'",
			"and %zu more pods without a plan", n - DOCTOR_LINES_MAX);
}

static void judge_claimless(const struct doctor_facts *f, struct doctor_report *r)
{
	const char *mend = doctor_fmt(
		r, "kubectl -n %s rollout restart deployment/" DOCTOR_DEPLOYMENT, f->namespace);
	size_t n = 0;

	if (!sight_there(&f->servers.sight, r))
		return;
	DOCTOR_EACH(struct doctor_pod, &f->pods, p)
	if (p->planned && !p->held && !p->finished && !doctor_has_claim(f, p->uid) &&
		n++ < DOCTOR_LINES_MAX)
		doctor_wrong(r, mend,
			"%s/%s was injected and lives, and has no claim: its GPUs are promised to "
			"others, too",
			p->namespace, p->name);
	if (n > DOCTOR_LINES_MAX)
		doctor_wrong(r, mend, "and %zu more pods without a claim", n - DOCTOR_LINES_MAX);
}

static bool has_pod(const struct doctor_facts *f, const char *uid)
{
	DOCTOR_EACH(struct doctor_pod, &f->pods, p)
	if (!p->finished && strcmp(p->uid, uid) == 0)
		return true;
	return false;
}

static void judge_orphans(const struct doctor_facts *f, struct doctor_report *r)
{
	const char *mend = doctor_fmt(
		r, "kubectl -n %s rollout restart deployment/" DOCTOR_DEPLOYMENT, f->namespace);
	size_t n = 0;

	DOCTOR_EACH(struct doctor_server, &f->servers, s)
	for (size_t i = 0; !s->why && i < s->object.status.n_claims; i++) {
		const struct claim_record *record = &s->object.status.claims[i];
		const struct claim *c = &record->claim;

		/* Its pod may still run (rule R13). */
		if (record->lingers_ms > f->now_ms - GONE_MS)
			continue;
		if (f->now_ms - c->since_ms > GONE_MS && !has_pod(f, c->key) &&
			n++ < DOCTOR_LINES_MAX)
			doctor_wrong(r, mend,
				"%s still holds a claim of %s/%s, which has ended: no leader frees "
				"it",
				s->name, c->namespace, c->name);
	}
	if (n > DOCTOR_LINES_MAX)
		doctor_wrong(r, mend, "and %zu more claims of pods that have ended",
			n - DOCTOR_LINES_MAX);
}

void doctor_pods(const struct doctor_facts *f, struct doctor_report *r)
{
	size_t live = 0, held = 0;

	if (!sight_there(&f->pods.sight, r))
		return;
	judge_origin(f, r);
	judge_claimless(f, r);
	if (f->servers.sight.state == SIGHT_THERE)
		judge_orphans(f, r);
	DOCTOR_EACH(struct doctor_pod, &f->pods, p)
	{
		live += p->planned && !p->held && !p->finished;
		held += p->planned && p->held && !p->finished;
	}
	if (!doctor_group_troubled(r))
		doctor_ok(r, "%zu injected pods live, each has its claim", live);
	/* Law W0. */
	if (held > 0)
		doctor_ok(r,
			"%zu pods wait behind the scheduling gate " LATE_GATE
			": as long as one does, neither take out components/waiting nor go back to "
			"a version that does not know it",
			held);
}

/* ---- the client's Secrets ---- */

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

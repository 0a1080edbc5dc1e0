/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges the pods: injected by the origin, which nobody counts; live without a claim; claims
 * of pods that are gone. */
#include <string.h>

#include "webhook/cli/doctor/doctor_facts.h"
#include "webhook/core/pod/late.h"

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

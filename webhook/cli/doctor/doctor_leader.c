/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges the leader: is the Lease kept alive, and by a replica that runs? */
#include <string.h>

#include "base/rfc3339.h"
#include "webhook/cli/doctor/doctor_facts.h"

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

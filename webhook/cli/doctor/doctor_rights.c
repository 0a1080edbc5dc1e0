/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges what our account may do. */
#include "webhook/cli/doctor/doctor_facts.h"

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

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges the registries that are asked what images start: would they answer, and would they be
 * believed? */
#include <string.h>

#include "webhook/cli/doctor/doctor_facts.h"

/* What to do, by what is wrong. */
static const char *const mends[] = {
	[REGISTRY_NAME] = "have the name resolve where poolgate runs, or write the host into "
			  "poolgate.yaml (registries) as it stands in https URLs",
	[REGISTRY_ADDRESS] = "if that inner address is meant, name it in the registry's addresses "
			     "(poolgate.yaml)",
	[REGISTRY_CERTIFICATE] = "put the CA that has signed for it into the ConfigMap "
				 "poolgate-config, and name that file as the registry's ca "
				 "(poolgate.yaml)",
	[REGISTRY_SILENT] = "see that it runs, and that the replicas' network lets them reach it",
	[REGISTRY_REALM] = "if that host may have the pods' credentials, name it in the registry's "
			   "tokens (poolgate.yaml)",
	[REGISTRY_OTHER] = "write the registry's host into poolgate.yaml as it stands in images' "
			   "names; where it has its tags elsewhere, name that host in manifests",
};

/* The image of poolgate has no CA certificates; an operator may have mounted some. */
static bool system_has_cas(const struct doctor_facts *f)
{
	const struct json *j = &f->deployment.json;

	JSON_EACH(j, json_path(j, json_root(j), "spec", "template", "spec", "containers", NULL), c)
	JSON_EACH(j, json_get(j, c, SLICE("volumeMounts")), mount)
	{
		struct slice path = json_inside(j, json_get(j, mount, SLICE("mountPath")));

		if (path.at && slice_starts(path, SLICE("/etc/ssl")))
			return true;
	}
	return false;
}

static void judge(
	const struct doctor_facts *f, const struct doctor_registry *g, struct doctor_report *r)
{
	if (!g->ca_found)
		doctor_wrong(r,
			"put that file beside poolgate.yaml into the ConfigMap poolgate-config, "
			"under the name that ca says",
			"registry %s: its ca %s is not in %s", g->host, g->ca, f->config.what);
	else if (!g->ca && !system_has_cas(f))
		doctor_wrong(r, mends[REGISTRY_CERTIFICATE],
			"registry %s has no ca, and the image of poolgate has no CA certificates: "
			"no replica trusts it",
			g->host);
	else if (g->asked && g->trouble != REGISTRY_WELL)
		doctor_wrong(r, mends[g->trouble], "%s (asked from here)", g->why);
	if (!g->asked && g->ca_found)
		doctor_unchecked(r, "registry %s: those before it took too long", g->host);
}

void doctor_registries(const struct doctor_facts *f, struct doctor_report *r)
{
	if (!f->settings_known)
		doctor_unchecked(r, "which registries are asked: the settings are not known");
	DOCTOR_EACH(struct doctor_registry, &f->registries, g)
	judge(f, g, r);
	if (doctor_group_troubled(r))
		return;
	if (f->registries.n == 0)
		doctor_ok(r, "none is asked what images start (setting registries)");
	else
		doctor_ok(r,
			"%zu of %zu answer with a certificate that is trusted, and want no "
			"credentials for others (asked from here)",
			f->registries.n, f->registries.n);
}

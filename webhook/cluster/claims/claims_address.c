/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: addresses of pods, in the claims of servers whose gates know pods by them. */
#include <string.h>

#include "webhook/cluster/claims/claims_impl.h"

const char *address_said(const struct claim_record *r, struct arena *a)
{
	bool both = r->n_pod_ips > 1;

	return r->n_pod_ips == 0 ? NULL
				 : arena_fmt(a, "%s%s%s", r->pod_ips[0], both ? "," : "",
					   both ? r->pod_ips[1] : "");
}

/* What another leader has said stays until this one knows; and while the claim lingers, since its
 * pod may still run there: gates let nobody in by an address of two. */
const char *address_due(struct claims *c, const struct record *r, bool by_address)
{
	struct pod_shown pod;
	const char *due;

	if (!by_address)
		return NULL;
	pods_find(c->pods, slice_of(r->who->uid), &pod);
	/* what is said already costs no memory, so that none is lacking for it */
	if (pod.seen == POD_NOT_SHOWN || (r->ips && strcmp(r->ips, pod.ips) == 0))
		return r->ips;
	if (!*pod.ips)
		return NULL;
	due = arena_strdup(&c->now.arena, slice_of(pod.ips));
	return due ? due : r->ips;
}

void address_write(const char *ips, struct claim_record *r, struct arena *a)
{
	r->pod_ips = arena_array(a, SERVER_POD_IPS_MAX, sizeof(*r->pod_ips));
	r->n_pod_ips = 0;
	while (r->pod_ips && ips && r->n_pod_ips < SERVER_POD_IPS_MAX) {
		size_t len = strcspn(ips, ",");
		const char *ip = arena_strdup(a, (struct slice){ips, len});

		if (ip)
			r->pod_ips[r->n_pod_ips++] = ip;
		ips = ips[len] ? ips + len + 1 : NULL;
	}
}

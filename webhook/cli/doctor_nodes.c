/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges the nodes: an injected pod asks for bitfusion.io/gpu, and some node has to offer it. */
#include "webhook/cli/doctor_impl.h"

void doctor_nodes(const struct doctor_facts *f, struct doctor_report *r)
{
	const char *mend = "kubectl apply -k manifests/components/device-plugin";
	size_t offering = 0, empty = 0;

	if (!sight_there(&f->nodes.sight, r))
		return;
	DOCTOR_EACH(struct doctor_node, &f->nodes, n)
	{
		offering += n->units > 0;
		empty += n->units == 0;
	}
	if (f->nodes.n == 0)
		doctor_wrong(r, "kubectl get nodes", "the cluster has no nodes");
	else if (offering == 0 && empty > 0)
		doctor_wrong(r, "kubectl get gpuservers",
			"%zu of %zu nodes know " DOCTOR_UNITS
			", and offer 0 of it: the pool is away or empty",
			empty, f->nodes.n);
	else if (offering == 0)
		doctor_wrong(r, mend,
			"no node offers " DOCTOR_UNITS
			": injected pods stay Pending; install the device plugin");
	else
		doctor_ok(r, "%zu of %zu nodes offer " DOCTOR_UNITS, offering, f->nodes.n);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges the nodes: an injected pod asks for bitfusion.io/gpu, and some node has to offer it,
 * and nobody else may. */
#include "webhook/cli/doctor/doctor_facts.h"

/* No node offers any. */
static void judge_none(
	const struct doctor_facts *f, size_t empty, size_t labelled, struct doctor_report *r)
{
	if (f->nodes.n == 0)
		doctor_wrong(r, "kubectl get nodes", "the cluster has no nodes");
	else if (empty > 0)
		doctor_wrong(r, "kubectl get gpuservers",
			"%zu of %zu nodes know " DOCTOR_UNITS
			", and offer 0 of it: the pool is away or empty",
			empty, f->nodes.n);
	else if (labelled > 0)
		doctor_wrong(r, doctor_apply(f, r, "device-plugin"),
			"no node offers " DOCTOR_UNITS ", though %zu have the label " DOCTOR_NODES
			": install the device plugin",
			labelled);
	else
		doctor_wrong(r,
			doctor_fmt(r, "kubectl label nodes NODE " DOCTOR_NODES "= && %s",
				doctor_apply(f, r, "device-plugin")),
			"no node offers " DOCTOR_UNITS
			": injected pods stay Pending; install the device plugin and "
			"label the nodes that it is to run on");
}

/* kube-scheduler makes of each unit a device of its own, 32 at most: it fails with more, and then
 * looks at no node (Kubernetes 1.36). */
static void judge_classes(const struct doctor_facts *f, struct doctor_report *r)
{
	DOCTOR_EACH(struct doctor_class, &f->classes, c)
	doctor_wrong(r, doctor_fmt(r, "kubectl edit deviceclass %s", c->name),
		"DeviceClass %s has extendedResourceName " DOCTOR_UNITS
		": a pod that asks for more than 32 units then finds no node, wherever the device "
		"plugin offers them; give it another name",
		c->name);
}

void doctor_nodes(const struct doctor_facts *f, struct doctor_report *r)
{
	size_t offering = 0, empty = 0, labelled = 0, silent = 0;
	const char *one = NULL;

	judge_classes(f, r);
	if (!sight_there(&f->nodes.sight, r))
		return;
	if (f->settings_known && !f->settings.node_resource) {
		doctor_ok(r, "nodes are asked for nothing: nodeResource is false");
		return;
	}
	DOCTOR_EACH(struct doctor_node, &f->nodes, n)
	{
		offering += n->units > 0;
		empty += n->units == 0;
		labelled += n->labelled;
		silent += n->labelled && n->units < 0;
		one = n->labelled && n->units < 0 && !one ? n->name : one;
	}
	if (offering == 0)
		judge_none(f, empty, labelled, r);
	else if (silent > 0)
		doctor_wrong(r, "kubectl -n poolgate-device-plugin get pods -o wide",
			"%zu of %zu nodes with the label " DOCTOR_NODES
			" do not offer " DOCTOR_UNITS ", %s is one",
			silent, labelled, one);
	else
		doctor_ok(r, "%zu of %zu nodes offer " DOCTOR_UNITS, offering, f->nodes.n);
}

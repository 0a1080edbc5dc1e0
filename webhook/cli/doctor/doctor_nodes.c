/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges what stands around us: an injected pod asks for bitfusion.io/gpu, and some node has
 * to offer it, and nobody else may; where pods wait for us, Kueue takes back what it lets go and
 * is not ready in time (law W11 of waiting); registries that are asked what images start would
 * answer, and be believed. */
#include <string.h>

#include "base/yaml/yaml.h"
#include "webhook/cli/doctor/doctor_facts.h"

/* ---- nodes ---- */

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

/* ---- Kueue ---- */

#define SETTINGS_KEY "controller_manager_config.yaml"
#define MEND "kubectl -n " DOCTOR_KUEUE " edit configmap " DOCTOR_KUEUE_SETTINGS

/* Who may not look cannot know that it is not there; its webhooks say that it is. */
static bool is_there(const struct doctor_facts *f)
{
	DOCTOR_EACH(struct doctor_other, &f->others, o)
	if (strstr(o->name, "kueue"))
		return true;
	return false;
}

/* In v1beta1 it has a switch of its own; later it is on where it stands. */
static bool is_on(const struct yaml_node *settings, const struct yaml_node *wait)
{
	const struct yaml_node *enable = yaml_get(wait, "enable");
	const struct yaml_node *version = yaml_get(settings, "apiVersion");

	if (!yaml_is(wait, YAML_MAP))
		return false;
	return enable ? yaml_is(enable, YAML_SCALAR) && slice_is(enable->text, "true")
		      : !yaml_is_str(version, "config.kueue.x-k8s.io/v1beta1");
}

static void judge_wait(const struct yaml_node *settings, struct doctor_report *r)
{
	const struct yaml_node *wait = yaml_get(settings, "waitForPodsReady");
	const struct yaml_node *timeout = yaml_get(wait, "timeout");
	struct slice after = yaml_is(timeout, YAML_SCALAR) ? timeout->text : SLICE("5m");

	if (!is_on(settings, wait))
		doctor_ok(r, "it takes back nobody who waits for GPUs: waitForPodsReady is off");
	else
		doctor_wrong(r, MEND,
			"its waitForPodsReady takes back who is not ready within %.*s, as nobody "
			"is who "
			"waits for GPUs: take it out, or make its timeout longer than anybody "
			"waits",
			after.len < 20 ? (int)after.len : 20, after.at);
}

void doctor_kueue(const struct doctor_facts *f, struct doctor_report *r)
{
	const struct sight *s = &f->kueue;
	struct yaml_stream stream;
	struct arena a;
	struct slice text;
	struct err err = {0};

	if (s->state == SIGHT_NOT_ASKED || s->state == SIGHT_MISSING ||
		(s->state != SIGHT_THERE && !is_there(f)) || !sight_there(s, r))
		return;
	arena_init(&a, YAML_ARENA_MAX);
	text = json_str(
		&s->json, json_path(&s->json, json_root(&s->json), "data", SETTINGS_KEY, NULL), &a);
	if (!text.at)
		doctor_unchecked(r, "%s has no " SETTINGS_KEY, s->what);
	else if (yaml_parse(&a, SETTINGS_KEY, text, YAML_ANY, &stream, &err) < 0)
		doctor_unchecked(r, "cannot read %s: %s", s->what, err.msg);
	else
		judge_wait(stream.first ? stream.first->root : NULL, r);
	arena_release(&a);
}

/* ---- registries ---- */

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

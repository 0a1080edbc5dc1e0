/* SPDX-License-Identifier: Apache-2.0 */
/* cli: the lists that the doctor reads: of each object what is judged, and no more. */
#include <string.h>

#include "base/quantity.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "webhook/cli/doctor/doctor_read.h"
#include "webhook/core/pod/foreign.h"
#include "webhook/core/pod/late.h"
#include "webhook/core/pod/plan.h"
#include "webhook/core/pod/pod.h"

#define LIST_MS 60000
#define CLIENT_SECRETS "bitfusion-client-secret-"
/* Looked at once more; beyond it the lists are believed. */
#define AGAIN_MAX 100

static void forget(void *ctx)
{
	struct doctor_taking *t = ctx;

	t->list->n = 0;
}

static void list(struct kube *k, struct doctor_facts *f, const char *path, const char *what,
	struct doctor_list *to, kube_each *each)
{
	struct doctor_taking t = {f, to};
	char version[32] = "";
	struct err err = {0};

	to->sight.what = what;
	if (kube_list(k, path, LIST_MS, forget, each, &t, version, &err) == 0)
		to->sight.state = SIGHT_THERE;
	else
		sight_failed(&to->sight, &err, &f->arena);
	/* a list that is not served is no empty list */
	if (to->sight.state != SIGHT_THERE)
		to->n = 0;
}

static const char *meta(
	struct doctor_facts *f, const struct json *j, const struct json_node *o, const char *key)
{
	const char *text = sight_str(j, json_path(j, o, "metadata", key, NULL), &f->arena);

	return text ? text : "";
}

/* It cannot be read: that is a fact, too. False: out of memory. */
static bool say_why(
	struct doctor_facts *f, const struct err *err, const char **ret_path, const char **ret_why)
{
	*ret_path = arena_strdup(&f->arena, slice_of(err->path));
	*ret_why = arena_strdup(&f->arena, slice_of(err->msg));
	return err->code != ERR_NOMEM && *ret_path && *ret_why;
}

/* ---- other mutating hooks ---- */

static bool rule_on_pods(const struct json *j, const struct json_node *rule)
{
	bool pods = false, create = false;

	JSON_EACH(j, json_get(j, rule, SLICE("resources")), r)
	pods = pods || json_is_str(j, r, SLICE("pods")) || json_is_str(j, r, SLICE("*")) ||
	       json_is_str(j, r, SLICE("*/*"));
	JSON_EACH(j, json_get(j, rule, SLICE("operations")), o)
	create = create || json_is_str(j, o, SLICE("CREATE")) || json_is_str(j, o, SLICE("*"));
	return pods && create;
}

bool doctor_take_other(void *ctx, const struct json *j, const struct json_node *object)
{
	struct doctor_taking *t = ctx;
	struct doctor_facts *f = t->f;
	const char *name = meta(f, j, object, "name");
	struct doctor_other *o;
	bool on_pods = false;

	if (strcmp(name, f->settings.cluster.webhooks) == 0)
		return true;
	JSON_EACH(j, json_get(j, object, SLICE("webhooks")), hook)
	JSON_EACH(j, json_get(j, hook, SLICE("rules")), rule)
	on_pods = on_pods || rule_on_pods(j, rule);
	if (!on_pods)
		return true;
	o = doctor_more(f, t->list, sizeof(*o));
	if (o)
		*o = (struct doctor_other){name, strcmp(name, f->settings.cluster.webhooks) > 0};
	return o != NULL;
}

/* ---- replicas ---- */

static bool take_replica(void *ctx, const struct json *j, const struct json_node *object)
{
	struct doctor_taking *t = ctx;
	const struct json_node *status = json_get(j, object, SLICE("status"));
	struct doctor_replica *p = doctor_more(t->f, t->list, sizeof(*p));

	if (!p)
		return false;
	p->name = meta(t->f, j, object, "name");
	p->deleting = kube_meta(j, object).deleting;
	p->running = json_is_str(j, json_get(j, status, SLICE("phase")), SLICE("Running"));
	JSON_EACH(j, json_get(j, status, SLICE("conditions")), c)
	if (json_is_str(j, json_get(j, c, SLICE("type")), SLICE("Ready")))
		p->ready = json_is_str(j, json_get(j, c, SLICE("status")), SLICE("True"));
	JSON_EACH(j, json_path(j, object, "spec", "containers", NULL), c)
	if (json_is_str(j, json_get(j, c, SLICE("name")), SLICE("poolgate")))
		p->image = sight_str(j, json_get(j, c, SLICE("image")), &t->f->arena);
	JSON_EACH(j, json_get(j, status, SLICE("containerStatuses")), c)
	if (json_is_str(j, json_get(j, c, SLICE("name")), SLICE("poolgate")))
		p->image_id = sight_str(j, json_get(j, c, SLICE("imageID")), &t->f->arena);
	return true;
}

/* ---- pods ---- */

static void take_secret(struct doctor_facts *f, struct doctor_pod *p, const struct json *j,
	const struct json_node *name, const struct json_node *optional)
{
	struct slice s = json_inside(j, name);

	if (!s.at || !slice_starts(s, SLICE(CLIENT_SECRETS)) || json_is(optional, JSON_TRUE) ||
		p->n_secrets == 8)
		return;
	p->secrets[p->n_secrets] = sight_str(j, name, &f->arena);
	p->n_secrets += p->secrets[p->n_secrets] != NULL;
}

bool doctor_take_pod(void *ctx, const struct json *j, const struct json_node *object)
{
	struct doctor_taking *t = ctx;
	struct doctor_facts *f = t->f;
	const struct json_node *labels = json_path(j, object, "metadata", "labels", NULL);
	const struct json_node *annotations = json_path(j, object, "metadata", "annotations", NULL);
	const struct json_node *phase = json_path(j, object, "status", "phase", NULL);
	struct slice stamp = json_str(j, json_get(j, annotations, SLICE(ANN_STATUS)), &f->arena);
	bool planned = json_get(j, annotations, SLICE(ANN_PLAN)) != NULL;
	struct doctor_pod *p;

	if (!planned && !json_get(j, labels, SLICE(LABEL_INJECTED)) &&
		!(stamp.at && text_ieq(stamp, SLICE("injected"))))
		return true;
	p = doctor_more(f, t->list, sizeof(*p));
	if (!p)
		return false;
	p->namespace = meta(f, j, object, "namespace");
	p->name = meta(f, j, object, "name");
	p->uid = meta(f, j, object, "uid");
	p->planned = planned;
	p->held = late_is_held(j, object);
	if (!rfc3339_read(
		    json_inside(j, json_path(j, object, "metadata", "creationTimestamp", NULL)),
		    &p->since_ms))
		p->since_ms = 0;
	p->finished = pod_finished(j, object);
	p->running = json_is_str(j, phase, SLICE("Running"));
	p->secrets = arena_array(&f->arena, 8, sizeof(*p->secrets));
	JSON_EACH(j, p->secrets ? json_path(j, object, "spec", "volumes", NULL) : NULL, v)
	{
		const struct json_node *s = json_get(j, v, SLICE("secret"));

		take_secret(f, p, j, json_get(j, s, SLICE("secretName")),
			json_get(j, s, SLICE("optional")));
	}
	return p->secrets != NULL;
}

/* ---- servers ---- */

bool doctor_take_server(void *ctx, const struct json *j, const struct json_node *object)
{
	struct doctor_taking *t = ctx;
	struct doctor_server *s = doctor_more(t->f, t->list, sizeof(*s));
	struct err err = {0};
	int rc;

	if (!s)
		return false;
	s->name = meta(t->f, j, object, "name");
	rc = server_object_read(j, object, &t->f->arena, &s->object, &err);
	return rc == 0 || say_why(t->f, &err, &s->path, &s->why);
}

/* ---- nodes ---- */

bool doctor_take_node(void *ctx, const struct json *j, const struct json_node *object)
{
	struct doctor_taking *t = ctx;
	struct slice text = json_str(
		j, json_path(j, object, "status", "allocatable", DOCTOR_UNITS, NULL), &t->f->arena);
	struct doctor_node *n = doctor_more(t->f, t->list, sizeof(*n));

	if (!n)
		return false;
	n->name = meta(t->f, j, object, "name");
	n->units = -1;
	n->labelled = json_path(j, object, "metadata", "labels", DOCTOR_NODES, NULL) != NULL;
	/* "2k" is how the API server writes 2000 */
	if (text.at) {
		struct quantity q;

		n->units = quantity_parse(text, &q, NULL) == 0 ? quantity_ceil(q) : 0;
	}
	return true;
}

bool doctor_take_class(void *ctx, const struct json *j, const struct json_node *object)
{
	struct doctor_taking *t = ctx;
	struct doctor_class *c;

	if (!json_is_str(j, json_path(j, object, "spec", "extendedResourceName", NULL),
		    SLICE(DOCTOR_UNITS)))
		return true;
	c = doctor_more(t->f, t->list, sizeof(*c));
	if (c)
		c->name = meta(t->f, j, object, "name");
	return c != NULL;
}

/* ---- policies ---- */

bool doctor_take_policy(void *ctx, const struct json *j, const struct json_node *object)
{
	struct doctor_taking *t = ctx;
	struct doctor_policy *p = doctor_more(t->f, t->list, sizeof(*p));
	struct err err = {0};
	int rc;

	if (!p)
		return false;
	p->name = meta(t->f, j, object, "name");
	rc = policy_read(j, object, &t->f->arena, &p->policy, &err);
	return rc == 0 || say_why(t->f, &err, &p->path, &p->why);
}

bool doctor_take_pick(void *ctx, const struct json *j, const struct json_node *object)
{
	struct doctor_taking *t = ctx;
	const char *policy = sight_str(
		j, json_path(j, object, "metadata", "labels", LABEL_POLICY, NULL), &t->f->arena);
	struct doctor_pick *p;

	if (!policy || !*policy)
		return true;
	p = doctor_more(t->f, t->list, sizeof(*p));
	if (p)
		*p = (struct doctor_pick){meta(t->f, j, object, "name"), policy};
	return p != NULL;
}

bool doctor_take_bound(void *ctx, const struct json *j, const struct json_node *object)
{
	struct doctor_taking *t = ctx;
	unsigned keys = foreign_bounded(j, object, &t->f->arena);
	struct doctor_bound *b;

	if (!keys)
		return !t->f->arena.failed;
	b = doctor_more(t->f, t->list, sizeof(*b));
	if (b)
		*b = (struct doctor_bound){
			meta(t->f, j, object, "namespace"), meta(t->f, j, object, "name"), keys};
	return b != NULL;
}

/* ---- once more ---- */

bool doctor_has_claim(const struct doctor_facts *f, const char *uid)
{
	DOCTOR_EACH(struct doctor_server, &f->servers, s)
	if (!s->why && server_status_claim(&s->object.status, slice_of(uid)) >= 0)
		return true;
	return false;
}

static void look_at_pod(struct kube *k, struct doctor_facts *f, struct doctor_pod *p)
{
	struct sight s = {0};

	doctor_get(k, doctor_path(f, "/api/v1", p->namespace, "pods", p->name), "it", &s);
	if (s.state == SIGHT_MISSING) {
		p->finished = true;
	} else if (s.state == SIGHT_THERE) {
		const struct json_node *o = json_root(&s.json);

		p->finished =
			!slice_is(kube_meta(&s.json, o).uid, p->uid) || pod_finished(&s.json, o);
	}
	sight_release(&s);
}

/* Pods without a claim, and claims without a pod, once more: lists that were made one after the
 * other differ by what happened between. */
static void look_again(struct kube *k, struct doctor_facts *f)
{
	struct doctor_pod *p = f->pods.at;
	size_t asked = 0;

	if (f->pods.sight.state != SIGHT_THERE || f->servers.sight.state != SIGHT_THERE)
		return;
	for (size_t i = 0; i < f->pods.n && asked < AGAIN_MAX; i++)
		if (p[i].planned && !p[i].held && !p[i].finished &&
			!doctor_has_claim(f, p[i].uid)) {
			look_at_pod(k, f, &p[i]);
			asked++;
		}
}

/* ---- all of them ---- */

void doctor_read_lists(struct kube *k, struct doctor_facts *f)
{
	const char *replicas = arena_fmt(&f->arena,
		"/api/v1/namespaces/%s/"
		"pods?labelSelector=app.kubernetes.io%%2Fname%%3Dpoolgate%%2Capp.kubernetes.io%%"
		"2Fcomponent%%3Dwebhook",
		f->namespace);

	list(k, f, "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
		"the list of MutatingWebhookConfigurations", &f->others, doctor_take_other);
	if (replicas)
		list(k, f, replicas, arena_fmt(&f->arena, "the pods in %s", f->namespace),
			&f->replicas, take_replica);
	/* In this order: a claim stands before its pod, and ends after it. */
	list(k, f, "/api/v1/pods", "the pods of all namespaces", &f->pods, doctor_take_pod);
	list(k, f, "/apis/poolgate.io/v1alpha1/gpuservers", "the list of GPUServers", &f->servers,
		doctor_take_server);
	look_again(k, f);
	list(k, f, "/apis/resource.k8s.io/v1/deviceclasses", "the DeviceClasses", &f->classes,
		doctor_take_class);
	list(k, f, "/api/v1/nodes", "the nodes", &f->nodes, doctor_take_node);
	if (!f->settings.cluster.policies)
		return;
	list(k, f, "/apis/poolgate.io/v1alpha1/gpupolicies", "the list of GPUPolicies",
		&f->policies, doctor_take_policy);
	list(k, f, "/api/v1/namespaces?labelSelector=poolgate.io%2Fpolicy",
		"the namespaces that pick a policy", &f->picks, doctor_take_pick);
	list(k, f, "/api/v1/resourcequotas", "the ResourceQuotas of all namespaces", &f->quotas,
		doctor_take_bound);
	list(k, f, "/api/v1/limitranges", "the LimitRanges of all namespaces", &f->ranges,
		doctor_take_bound);
}

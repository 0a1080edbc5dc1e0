/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what our account may do: the manifests' roles, right by right, asked from the API server.
 * Such a review changes nothing. And the registries that the settings name: they are asked for the
 * start of their API, from here, as a replica would. */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "webhook/cli/doctor/doctor_read.h"
#include "webhook/cluster/secrets/secret_sync.h"

/* ---- rights ---- */

#define REVIEWS "/apis/authorization.k8s.io/v1/"
#define BODY_BYTES 4096
/* The leader brings copies within seconds after it has seen the pod. */
#define COPY_MS 30000

/* ---- one question ---- */

static void member(struct buf *b, const char *key, const char *value)
{
	if (!value || !*value)
		return;
	buf_fmt(b, ",\"%s\":", key);
	buf_json_str(b, slice_of(value));
}

/* 0 with *ret, or an error. */
static int may(struct kube *k, const struct doctor_facts *f, const struct doctor_right *r,
	bool *ret, struct err *err)
{
	struct sight s = {0};
	struct buf b;
	int rc;

	buf_init(&b, BODY_BYTES);
	buf_fmt(&b,
		"{\"apiVersion\":\"authorization.k8s.io/"
		"v1\",\"kind\":\"%sSubjectAccessReview\",\"spec\":{",
		f->in_cluster_account ? "Self" : "");
	if (!f->in_cluster_account)
		buf_fmt(&b,
			"\"user\":\"system:serviceaccount:%s:" DOCTOR_ACCOUNT
			"\",\"groups\":[\"system:serviceaccounts\",\"system:serviceaccounts:%s\","
			"\"system:authenticated\"],",
			f->namespace, f->namespace);
	buf_str(&b, "\"resourceAttributes\":{\"verb\":");
	buf_json_str(&b, slice_of(r->verb));
	member(&b, "group", r->group);
	member(&b, "resource", r->resource);
	member(&b, "subresource", r->subresource);
	member(&b, "name", r->name);
	member(&b, "namespace", r->namespace);
	buf_str(&b, "}}}");
	rc = doctor_ask(k,
		f->in_cluster_account ? REVIEWS "selfsubjectaccessreviews"
				      : REVIEWS "subjectaccessreviews",
		&b, &s, err);
	if (rc == 0)
		*ret = json_is(json_path(&s.json, json_root(&s.json), "status", "allowed", NULL),
			JSON_TRUE);
	sight_release(&s);
	buf_release(&b);
	return rc;
}

/* ---- the list of rights ---- */

/* Names of the manifests as the settings have them. */
static const char *named(const struct doctor_facts *f, const char *name)
{
	const struct cluster_settings *c = &f->settings.cluster;

	if (strcmp(name, "poolgate-leader") == 0)
		return c->lease;
	if (strcmp(name, "poolgate-tls") == 0)
		return c->tls_secret;
	if (strcmp(name, "poolgate-ca") == 0)
		return c->ca_secret;
	if (strcmp(name, "poolgate") == 0)
		return c->webhooks;
	if (strcmp(name, "bitfusion-secret") == 0)
		return secret_source_name(c->secrets_source);
	return name;
}

static const char *place_named(struct doctor_facts *f, const char *namespace)
{
	if (strcmp(namespace, DOCTOR_NAMESPACE) == 0)
		return f->namespace;
	if (strcmp(namespace, "kube-system") == 0)
		return arena_strdup(
			&f->arena, secret_source_namespace(f->settings.cluster.secrets_source));
	return namespace;
}

struct rule {
	const struct json *j;
	const struct json_node *node;
	const char *namespace; /* "" for all */
};

static void add(struct doctor_facts *f, const struct rule *rule, const char *group,
	const char *resource, const char *name)
{
	const char *slash = strchr(resource, '/');
	const char *plural = slash ? arena_strdup(&f->arena,
					     (struct slice){resource, (size_t)(slash - resource)})
				   : resource;

	JSON_EACH(rule->j, json_get(rule->j, rule->node, SLICE("verbs")), v)
	{
		const char *verb = sight_str(rule->j, v, &f->arena);
		struct doctor_right *r = doctor_more(f, &f->rights, sizeof(*r));

		if (r)
			*r = (struct doctor_right){.verb = verb ? verb : "",
				.group = group,
				.resource = plural ? plural : "",
				.subresource = slash ? slash + 1 : "",
				.name = name,
				.namespace = rule->namespace};
	}
}

static void add_names(
	struct doctor_facts *f, const struct rule *rule, const char *group, const char *resource)
{
	const struct json_node *names = json_get(rule->j, rule->node, SLICE("resourceNames"));

	if (!json_first(rule->j, names))
		add(f, rule, group, resource, "");
	JSON_EACH(rule->j, names, n)
	{
		const char *name = sight_str(rule->j, n, &f->arena);

		if (name)
			add(f, rule, group, resource, named(f, name));
	}
}

static void add_rule(struct doctor_facts *f, const struct rule *rule)
{
	JSON_EACH(rule->j, json_get(rule->j, rule->node, SLICE("apiGroups")), g)
	JSON_EACH(rule->j, json_get(rule->j, rule->node, SLICE("resources")), r)
	{
		const char *group = sight_str(rule->j, g, &f->arena);
		const char *resource = sight_str(rule->j, r, &f->arena);

		if (group && resource)
			add_names(f, rule, group, resource);
	}
}

/* What one binding gives. */
static void add_binding(
	struct doctor_facts *f, const struct sight *s, const struct json_node *binding)
{
	const struct json *j = &s->json;
	const char *kind = sight_str(j, json_path(j, binding, "roleRef", "kind", NULL), &f->arena);
	const char *name = sight_str(j, json_path(j, binding, "roleRef", "name", NULL), &f->arena);
	const char *namespace =
		sight_str(j, json_path(j, binding, "metadata", "namespace", NULL), &f->arena);
	const struct json_node *role = kind && name ? shipped_doc(s, kind, name) : NULL;
	struct rule rule = {.j = j, .namespace = namespace ? place_named(f, namespace) : ""};

	/* cert-manager looks after them */
	if (!name || !rule.namespace ||
		(!f->settings.cluster.tls_manage && strcmp(name, "poolgate-certificates") == 0))
		return;
	JSON_EACH(j, json_get(j, role, SLICE("rules")), r)
	{
		rule.node = r;
		add_rule(f, &rule);
	}
}

void doctor_list_rights(struct doctor_facts *f, enum shipped which)
{
	const struct sight *s = &f->shipped[which];
	const struct json *j = &s->json;

	JSON_EACH(j, json_root(j), doc)
	{
		const struct json_node *kind = json_get(j, doc, SLICE("kind"));

		if (json_is_str(j, kind, SLICE("RoleBinding")) ||
			json_is_str(j, kind, SLICE("ClusterRoleBinding")))
			add_binding(f, s, doc);
	}
}

void doctor_read_rights(struct kube *k, struct doctor_facts *f)
{
	struct doctor_right *r;
	struct err err = {0};

	doctor_list_rights(f, SHIPPED_RIGHTS);
	if (f->settings.cluster.secrets_sync)
		doctor_list_rights(f, SHIPPED_SECRET_RIGHTS);
	if (f->settings.cluster.waiting)
		doctor_list_rights(f, SHIPPED_WAITING_RIGHTS);
	if (f->settings.cluster.eviction)
		doctor_list_rights(f, SHIPPED_EVICTION_RIGHTS);
	if (f->settings.cluster.usage)
		doctor_list_rights(f, SHIPPED_USAGE_RIGHTS);
	if (f->settings.cluster.policies)
		doctor_list_rights(f, SHIPPED_POLICY_RIGHTS);
	f->rights.sight.what = "what others may do (create subjectaccessreviews)";
	f->rights.sight.state = SIGHT_THERE;
	r = f->rights.at;
	for (size_t i = 0; i < f->rights.n; i++) {
		if (may(k, f, &r[i], &r[i].allowed, &err) != 0) {
			sight_failed(&f->rights.sight, &err, &f->arena);
			return;
		}
		r[i].asked = true;
	}
}

/* ---- the namespaces of the client's Secrets ---- */

static struct doctor_place *place_of(struct doctor_facts *f, const char *namespace)
{
	struct doctor_place *p = f->places.at;

	for (size_t i = 0; i < f->places.n; i++)
		if (strcmp(p[i].namespace, namespace) == 0)
			return &p[i];
	p = doctor_more(f, &f->places, sizeof(*p));
	if (p)
		*p = (struct doctor_place){.namespace = namespace,
			.left_out = f->places.n > DOCTOR_PLACES_MAX,
			.secrets = SIGHT_THERE};
	return p;
}

static void look_for(
	struct kube *k, struct doctor_facts *f, struct doctor_place *p, const char *secret)
{
	struct sight s = {0};

	doctor_get(k, doctor_path(f, "/api/v1", p->namespace, "secrets", secret), secret, &s);
	if (s.state == SIGHT_MISSING)
		p->lacks = secret;
	else if (s.state != SIGHT_THERE)
		p->secrets = s.state;
	sight_release(&s);
}

void doctor_read_places(struct kube *k, struct doctor_facts *f)
{
	DOCTOR_EACH(struct doctor_pod, &f->pods, pod)
	{
		struct doctor_place *p = pod->finished || !pod->planned || pod->n_secrets == 0
						 ? NULL
						 : place_of(f, pod->namespace);

		/* A pod that runs has them: they are asked for where one waits, and longer than a
		 * copy takes. */
		for (size_t i = 0;
			p && !p->left_out && !pod->running && f->now_ms - pod->since_ms > COPY_MS &&
			i < pod->n_secrets && !p->lacks;
			i++)
			look_for(k, f, p, pod->secrets[i]);
	}
	if (f->settings.cluster.secrets_sync) {
		struct doctor_place *p = f->places.at;

		for (size_t i = 0; i < f->places.n && !p[i].left_out; i++) {
			struct doctor_right r = {.verb = "create",
				.group = "",
				.resource = "secrets",
				.subresource = "",
				.name = "",
				.namespace = p[i].namespace};
			struct err err = {0};

			p[i].asked = may(k, f, &r, &p[i].open, &err) == 0;
		}
	}
	f->places.sight.state = f->pods.sight.state;
}

/* ---- registries ---- */

/* For one, and for all of them. */
#define ASK_MS 5000
#define ASK_ALL_MS 30000

/* The replicas' file with CAs: beside poolgate.yaml it is a key of the same ConfigMap, and else for
 * a replica alone to read. *io becomes its path here, and *ret_fd what is to be closed, or -1.
 * False: it is not there. */
static bool find_ca(
	struct doctor_facts *f, const char **io, char path[static FILES_MEMORY_PATH], int *ret_fd)
{
	const struct json *j = &f->config.json;
	const char *pem;

	*ret_fd = -1;
	if (!*io || (f->in_cluster_account && access(*io, R_OK) == 0))
		return true;
	pem = sight_str(j, json_path(j, json_root(j), "data", *io, NULL), &f->arena);
	*ret_fd = pem ? files_in_memory(slice_of(pem), path, NULL) : -1;
	*io = path;
	return *ret_fd >= 0;
}

static void ask(struct doctor_facts *f, const struct registry *r, int64_t end_ms,
	struct doctor_registry *to)
{
	struct registry asked = *r;
	char path[FILES_MEMORY_PATH];
	int64_t deadline_ms = clock_ms() + ASK_MS;
	struct err err = {0};
	int fd;

	to->ca_found = find_ca(f, &asked.ca, path, &fd);
	to->asked = to->ca_found && clock_ms() < end_ms;
	if (to->asked && registry_check(&asked, deadline_ms < end_ms ? deadline_ms : end_ms,
				 &to->trouble, &err) != 0)
		f->arena.failed = true;
	if (to->trouble != REGISTRY_WELL)
		to->why = arena_strdup(&f->arena, slice_of(err.msg));
	if (fd >= 0)
		(void)close(fd);
}

void doctor_read_registries(struct doctor_facts *f)
{
	int64_t end_ms = clock_ms() + ASK_ALL_MS;

	for (size_t i = 0; i < f->settings.n_registries; i++) {
		const struct registry *r = &f->settings.registries[i];
		struct doctor_registry *to = doctor_more(f, &f->registries, sizeof(*to));

		if (!to)
			return;
		to->host = arena_strdup(&f->arena, r->host);
		to->ca = r->ca;
		ask(f, r, end_ms, to);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: what the doctor reads, one thing after the other. Nothing here judges, nothing changes
 * anything in the cluster. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "webhook/cli/doctor/doctor_read.h"
#include "webhook/cluster/secrets/plan_key_secret.h"
#include "webhook/cluster/secrets/secret_sync.h"
#include "webhook/edge/settings/settings_file.h"

#define ASK_MS 10000
#define PATH_BYTES 1024
#define HOOKS_API "/apis/admissionregistration.k8s.io/v1"
/* A leader renews every few seconds: so often, and so long, its Lease is looked at when its time
 * seems to be over. */
#define LEASE_LOOKS 8
#define LEASE_LOOK_MS 1000

/* ---- one answer ---- */

void sight_failed(struct sight *s, const struct err *err, struct arena *a)
{
	s->state = err->code == ERR_NOTFOUND  ? SIGHT_MISSING
		   : err->code == ERR_REFUSED ? SIGHT_FORBIDDEN
					      : SIGHT_FAILED;
	s->why = a ? arena_strdup(a, slice_of(err->msg)) : NULL;
}

/* Take the answer's text and nodes over. */
static void keep(struct kube_answer *a, struct sight *s)
{
	s->text_len = a->body.len;
	s->json = a->json;
	a->json = (struct json){0};
	s->text = buf_take(&a->body, &s->text_len);
	s->json.text = s->text;
	s->state = s->text ? SIGHT_THERE : SIGHT_FAILED;
}

/* a (may be NULL) keeps the error's words. */
static void fetch(
	struct kube *k, struct arena *a, const char *path, const char *what, struct sight *s)
{
	struct kube_answer answer = {0};
	struct err err = {0};
	int rc = path ? kube_get(k, path, ASK_MS, &answer, &err)
		      : err_set(&err, ERR_NOMEM, "out of memory");

	s->what = what;
	if (rc != 0)
		sight_failed(s, &err, a);
	else
		keep(&answer, s);
	kube_answer_release(&answer);
}

void doctor_get(struct kube *k, const char *path, const char *what, struct sight *s)
{
	fetch(k, NULL, path, what, s);
}

/* The same with the error's words kept. */
static void get(
	struct kube *k, struct doctor_facts *f, const char *path, const char *what, struct sight *s)
{
	fetch(k, &f->arena, what ? path : NULL, what ? what : "it", s);
}

int doctor_ask(struct kube *k, const char *path, const struct buf *body, struct sight *ret,
	struct err *err)
{
	struct kube_call call = {
		.method = "POST", .path = path, .body = buf_as_slice(body), .timeout_ms = ASK_MS};
	struct kube_answer a;
	int rc;

	if (body->failed)
		return err_set(err, ERR_NOMEM, "out of memory");
	rc = kube_do(k, &call, &a, err);
	if (rc == 0)
		keep(&a, ret);
	kube_answer_release(&a);
	return rc;
}

const char *doctor_path(struct doctor_facts *f, const char *api, const char *namespace,
	const char *plural, const char *name)
{
	struct buf b;
	const char *path;

	buf_init(&b, PATH_BYTES);
	kube_path(&b, api, namespace, plural, name, NULL);
	path = b.failed ? NULL : arena_strdup(&f->arena, buf_as_slice(&b));
	buf_release(&b);
	return path;
}

static const char *what_of(
	struct doctor_facts *f, const char *kind, const char *name, const char *namespace)
{
	return namespace ? arena_fmt(&f->arena, "%s %s in %s", kind, name, namespace)
			 : arena_fmt(&f->arena, "%s %s", kind, name);
}

/* ---- who and what ---- */

static int number_of(const struct json *j, const char *key, struct arena *a)
{
	const char *text = sight_str(j, json_get(j, json_root(j), slice_of(key)), a);
	uint64_t n = 0;

	/* some write "29+" */
	return text && text_u64((struct slice){text, strspn(text, "0123456789")}, 1000, &n) ? (int)n
											    : 0;
}

/* The first question: without its answer there is nothing to be said. */
static int read_version(struct kube *k, struct doctor_facts *f, struct err *err)
{
	struct kube_answer a;
	int rc = kube_get(k, "/version", ASK_MS, &a, err);

	if (rc == 0) {
		f->api_major = number_of(&a.json, "major", &f->arena);
		f->api_minor = number_of(&a.json, "minor", &f->arena);
	}
	/* let in, but not to read this: others can be tried */
	if (rc == ERR_REFUSED && a.status == 403) {
		err_clear(err);
		rc = 0;
	}
	kube_answer_release(&a);
	return rc;
}

/* Who we are: Kubernetes 1.28 and later say so. */
static void read_user(struct kube *k, struct doctor_facts *f)
{
	struct sight s = {0};
	struct err err = {0};
	struct buf body;
	const char *ours =
		arena_fmt(&f->arena, "system:serviceaccount:%s:" DOCTOR_ACCOUNT, f->namespace);

	buf_init(&body, 1024);
	buf_str(&body,
		"{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"SelfSubjectReview\"}");
	if (doctor_ask(k, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &body, &s, &err) ==
		0)
		f->user = sight_str(&s.json,
			json_path(&s.json, json_root(&s.json), "status", "userInfo", "username",
				NULL),
			&f->arena);
	f->in_cluster_account = f->user && ours && strcmp(f->user, ours) == 0;
	buf_release(&body);
	sight_release(&s);
}

/* ---- settings ---- */

/* The ConfigMap behind a volume of the replicas, the n-th where it is made of several: its name
 * holds a hash. NULL: there is none. */
static const char *map_name(struct doctor_facts *f, const char *volume_name, size_t n)
{
	const struct json *j = &f->deployment.json;

	JSON_EACH(
		j, json_path(j, json_root(j), "spec", "template", "spec", "volumes", NULL), volume)
	{
		const struct json_node *one = json_path(j, volume, "configMap", "name", NULL);

		if (!json_is_str(j, json_get(j, volume, SLICE("name")), slice_of(volume_name)))
			continue;
		JSON_EACH(j, json_path(j, volume, "projected", "sources", NULL), source)
		if (!one && n-- == 0)
			one = json_path(j, source, "configMap", "name", NULL);
		return sight_str(j, one, &f->arena);
	}
	return NULL;
}

static void read_clients(struct kube *k, struct doctor_facts *f)
{
	const char *const names[] = {map_name(f, "config", 1), map_name(f, "launchers", 0)};

	for (size_t i = 0; i < CLIENTS_COUNT; i++)
		if (names[i])
			get(k, f, doctor_path(f, "/api/v1", f->namespace, "configmaps", names[i]),
				what_of(f, "ConfigMap", names[i], f->namespace), &f->clients[i]);
}

static void read_settings(struct kube *k, struct doctor_facts *f)
{
	const char *name = f->deployment.state == SIGHT_THERE ? map_name(f, "config", 0) : NULL;
	const struct json *j = &f->config.json;
	struct settings read = {0};
	struct err err = {0};
	struct slice text;

	f->config.what = "the ConfigMap with the settings";
	f->config.state =
		f->deployment.state == SIGHT_THERE ? SIGHT_NOT_ASKED : f->deployment.state;
	if (!name)
		return;
	get(k, f, doctor_path(f, "/api/v1", f->namespace, "configmaps", name),
		what_of(f, "ConfigMap", name, f->namespace), &f->config);
	if (f->config.state != SIGHT_THERE)
		return;
	text = json_str(j, json_path(j, json_root(j), "data", "poolgate.yaml", NULL), &f->arena);
	arena_init(&read.arena, 1u << 20);
	settings_cluster_defaults(&read.cluster);
	read.node_resource = true;
	if (text.at && settings_text(&read, "poolgate.yaml", text, &err) == 0) {
		arena_release(&f->settings.arena);
		f->settings = read;
		f->settings_known = true;
		return;
	}
	/* it is there; what it says is no good */
	f->config.why = text.at ? arena_strdup(&f->arena, slice_of(err.msg))
				: "it has no key poolgate.yaml";
	arena_release(&read.arena);
}

/* ---- the leader ---- */

static const struct json_node *renewed(const struct sight *s)
{
	return json_path(&s->json, json_root(&s->json), "spec", "renewTime", NULL);
}

/* Clocks differ: whether it is being renewed is seen, not computed. */
static void watch_lease(struct kube *k, const char *path, struct doctor_facts *f)
{
	int64_t at = 0;
	struct slice time = json_inside(&f->lease.json, renewed(&f->lease));

	if (f->lease.state != SIGHT_THERE || !rfc3339_read(time, &at) ||
		(at > f->now_ms - LEASE_LOOKS * LEASE_LOOK_MS && at <= f->now_ms + LEASE_LOOK_MS))
		return;
	for (int i = 0; i < LEASE_LOOKS && !f->lease_moved; i++) {
		struct sight again = {0};
		const struct timespec nap = {.tv_sec = LEASE_LOOK_MS / 1000};

		(void)nanosleep(&nap, NULL);
		doctor_get(k, path, f->lease.what, &again);
		f->lease_moved = again.state == SIGHT_THERE &&
				 !slice_eq(time, json_inside(&again.json, renewed(&again)));
		if (f->lease_moved) {
			again.what = f->lease.what;
			sight_release(&f->lease);
			f->lease = again;
		} else {
			sight_release(&again);
		}
	}
}

/* ---- the client's Secrets ---- */

static bool any_key(const struct sight *s)
{
	const struct json_node *data = json_get(&s->json, json_root(&s->json), SLICE("data"));

	for (size_t i = 0; i < SECRET_KINDS; i++)
		if (json_get(&s->json, data, slice_of(secret_kinds[i].key)))
			return true;
	return false;
}

/* One Secret with the keys, or three Secrets. */
static void read_source(struct kube *k, struct doctor_facts *f)
{
	const char *source = f->settings.cluster.secrets_source;
	struct slice ns = secret_source_namespace(source);
	const char *namespace = arena_strdup(&f->arena, ns), *name = secret_source_name(source);
	bool missing = false;

	f->source.what = "the Secret with the client's keys";
	if (!f->settings.cluster.secrets_sync || !namespace)
		return;
	get(k, f, doctor_path(f, "/api/v1", namespace, "secrets", name),
		what_of(f, "Secret", name, namespace), &f->source);
	f->source_whole = f->source.state == SIGHT_THERE && any_key(&f->source);
	if (f->source.state != SIGHT_MISSING)
		return;
	f->source_whole = true;
	for (size_t i = 0; i < SECRET_KINDS; i++) {
		struct sight one = {0};

		doctor_get(k, doctor_path(f, "/api/v1", namespace, "secrets", secret_kinds[i].copy),
			NULL, &one);
		f->source_whole = f->source_whole && one.state == SIGHT_THERE;
		/* one that may not be read is not missing */
		missing = missing || one.state == SIGHT_MISSING;
		if (one.state != SIGHT_THERE && !missing)
			f->source.state = one.state;
		sight_release(&one);
	}
	if (f->source_whole)
		f->source.state = SIGHT_THERE;
	else if (missing)
		f->source.state = SIGHT_MISSING;
}

/* ---- everything ---- */

static void read_objects(struct kube *k, struct doctor_facts *f)
{
	const struct cluster_settings *c = &f->settings.cluster;
	const char *lease;

	get(k, f, doctor_path(f, HOOKS_API, NULL, "mutatingwebhookconfigurations", c->webhooks),
		what_of(f, "MutatingWebhookConfiguration", c->webhooks, NULL),
		&f->hooks[HOOKS_MUTATING]);
	get(k, f, doctor_path(f, HOOKS_API, NULL, "validatingwebhookconfigurations", c->webhooks),
		what_of(f, "ValidatingWebhookConfiguration", c->webhooks, NULL),
		&f->hooks[HOOKS_VALIDATING]);
	get(k, f, doctor_path(f, "/api/v1", f->namespace, "secrets", c->tls_secret),
		what_of(f, "Secret", c->tls_secret, f->namespace), &f->tls);
	get(k, f, doctor_path(f, "/api/v1", f->namespace, "secrets", PLAN_KEY_SECRET),
		what_of(f, "Secret", PLAN_KEY_SECRET, f->namespace), &f->plan_keys);
	get(k, f,
		doctor_path(f, "/apis/apiextensions.k8s.io/v1", NULL, "customresourcedefinitions",
			"gpuservers.poolgate.io"),
		"CustomResourceDefinition gpuservers.poolgate.io", &f->crd);
	if (c->waiting)
		get(k, f,
			doctor_path(
				f, "/api/v1", DOCTOR_KUEUE, "configmaps", DOCTOR_KUEUE_SETTINGS),
			what_of(f, "ConfigMap", DOCTOR_KUEUE_SETTINGS, DOCTOR_KUEUE), &f->kueue);
	lease = doctor_path(f, "/apis/coordination.k8s.io/v1", f->namespace, "leases", c->lease);
	get(k, f, lease, what_of(f, "Lease", c->lease, f->namespace), &f->lease);
	watch_lease(k, lease, f);
}

int doctor_read(struct kube *k, const char *namespace, struct doctor_facts *f, struct err *err)
{
	int rc;

	doctor_facts_init(f, namespace);
	f->now_ms = clock_wall_ms();
	rc = read_version(k, f, err);
	for (size_t i = 0; rc == 0 && i < SHIPPED_COUNT; i++)
		rc = shipped_read((enum shipped)i, &f->shipped[i], err);
	if (rc != 0)
		return rc;
	read_user(k, f);
	get(k, f, doctor_path(f, "/apis/apps/v1", namespace, "deployments", DOCTOR_DEPLOYMENT),
		what_of(f, "Deployment", DOCTOR_DEPLOYMENT, namespace), &f->deployment);
	read_settings(k, f);
	read_clients(k, f);
	read_objects(k, f);
	doctor_read_lists(k, f);
	read_source(k, f);
	doctor_read_registries(f);
	doctor_read_rights(k, f);
	doctor_read_places(k, f);
	return f->arena.failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges the webhook configurations: hook by hook against the manifests of this version. */
#include <string.h>

#include "base/yaml/yaml.h"
#include "webhook/cli/doctor/doctor_facts.h"
#include "webhook/core/launcher/hook_cover.h"
#include "webhook/core/policy/policy.h"

static const char *const kinds[HOOKS_COUNT] = {
	[HOOKS_MUTATING] = "MutatingWebhookConfiguration",
	[HOOKS_VALIDATING] = "ValidatingWebhookConfiguration",
};
static const char *const without[HOOKS_COUNT] = {
	[HOOKS_MUTATING] = "no pod is injected",
	[HOOKS_VALIDATING] = "nothing is claimed, and nobody is refused",
};
/* Members that must be as shipped. Timeouts and what selectors add are the operator's. */
static const char *const members[] = {"failurePolicy", "sideEffects", "reinvocationPolicy",
	"admissionReviewVersions", "rules", "matchConditions"};

/* The hook of that name in a webhook configuration, or NULL. */
static const struct json_node *doctor_hook(const struct json *j, const char *name)
{
	JSON_EACH(j, json_get(j, json_root(j), SLICE("webhooks")), hook)
	if (json_is_str(j, json_get(j, hook, SLICE("name")), slice_of(name)))
		return hook;
	return NULL;
}

/* One hook: as shipped, and as it is. */
struct pair {
	const struct json *wj, *gj;
	const struct json_node *want, *got;
	const char *name;
};

static const char *text_at(const struct json *j, const struct json_node *v, struct doctor_report *r)
{
	const char *text = sight_str(j, v, r->arena);

	return text ? text : "nothing";
}

static bool judge_service(
	const struct doctor_facts *f, const struct pair *p, struct doctor_report *r)
{
	const struct json_node *client = json_get(p->gj, p->got, SLICE("clientConfig"));
	const struct json_node *service = json_get(p->gj, client, SLICE("service"));
	const char *path = text_at(
		p->wj, json_path(p->wj, p->want, "clientConfig", "service", "path", NULL), r);
	int64_t port = 443;

	(void)json_int(p->gj, json_get(p->gj, service, SLICE("port")), &port);
	if (json_is_str(p->gj, json_get(p->gj, service, SLICE("name")),
		    slice_of(f->settings.cluster.service)) &&
		json_is_str(p->gj, json_get(p->gj, service, SLICE("namespace")),
			slice_of(f->namespace)) &&
		json_is_str(p->gj, json_get(p->gj, service, SLICE("path")), slice_of(path)) &&
		port == 443)
		return true;
	doctor_wrong(r, doctor_apply(f, r, NULL), "%s calls %s/%s:%lld%s, expected %s/%s:443%s",
		p->name, text_at(p->gj, json_get(p->gj, service, SLICE("namespace")), r),
		text_at(p->gj, json_get(p->gj, service, SLICE("name")), r), (long long)port,
		text_at(p->gj, json_get(p->gj, service, SLICE("path")), r), f->namespace,
		f->settings.cluster.service, path);
	return false;
}

/* Does a selector keep the hook away from that namespace? */
static bool keeps_away(const struct pair *p, const char *namespace)
{
	JSON_EACH(p->gj, json_path(p->gj, p->got, "namespaceSelector", "matchExpressions", NULL), e)
	{
		if (!json_is_str(p->gj, json_get(p->gj, e, SLICE("key")),
			    SLICE("kubernetes.io/metadata.name")) ||
			!json_is_str(p->gj, json_get(p->gj, e, SLICE("operator")), SLICE("NotIn")))
			continue;
		JSON_EACH(p->gj, json_get(p->gj, e, SLICE("values")), v)
		if (json_is_str(p->gj, v, slice_of(namespace)))
			return true;
	}
	return false;
}

static bool judge_selector(
	const struct doctor_facts *f, const struct pair *p, struct doctor_report *r)
{
	const char *const spared[] = {f->namespace, "kube-system"};

	for (size_t i = 0; i < sizeof(spared) / sizeof(spared[0]); i++)
		if (!keeps_away(p, spared[i])) {
			doctor_wrong(r, doctor_apply(f, r, NULL),
				"%s is called for pods of %s, too: what the cluster needs to start "
				"would wait for us",
				p->name, spared[i]);
			return false;
		}
	return true;
}

/* What the selector of a hook says of the label of policies; "nothing", too. */
static const char *over_label(
	const struct json *j, const struct json_node *hook, struct doctor_report *r)
{
	JSON_EACH(j, json_path(j, hook, "namespaceSelector", "matchExpressions", NULL), e)
	if (json_is_str(j, json_get(j, e, SLICE("key")), SLICE(LABEL_POLICY)))
		return text_at(j, json_get(j, e, SLICE("operator")), r);
	return "nothing";
}

/* Is each namespace, with the label or without, in one of the hooks? Else pods are reviewed twice,
 * or not at all. */
static bool judge_label(const struct doctor_facts *f, const struct pair *p, struct doctor_report *r)
{
	const char *want = over_label(p->wj, p->want, r), *got = over_label(p->gj, p->got, r);

	if (strcmp(want, got) == 0)
		return true;
	doctor_wrong(r, doctor_apply(f, r, f->settings.cluster.policies ? "policies" : NULL),
		"the namespaceSelector of %s says %s of the label " LABEL_POLICY
		", expected %s: pods of such namespaces are reviewed by other hooks, twice, or by "
		"none",
		p->name, got, want);
	return false;
}

/* Are both expressions the same but for the names in their lists, which are `poolgate hooks`' to
 * write, and in all lists of one the same? */
static bool same_but_names(const char *want, const char *got)
{
	const char *names = NULL;
	size_t len = 0;

	while (*want && *got) {
		if (strncmp(want, "['", 2) != 0 || *got != '[') {
			if (*want++ != *got++)
				return false;
			continue;
		}
		want += strcspn(want, "]");
		if (!names) {
			names = got;
			len = strcspn(got, "]");
		}
		if (strncmp(got, names, len) != 0 || got[len] != ']')
			return false;
		got += len;
	}
	return *want == *got;
}

static bool same_conditions(const struct pair *p, const struct json_node *want,
	const struct json_node *got, struct doctor_report *r)
{
	const struct json_node *g = json_first(p->gj, got);

	JSON_EACH(p->wj, want, w)
	{
		if (!g ||
			!shipped_same(p->wj, json_get(p->wj, w, SLICE("name")), p->gj,
				json_get(p->gj, g, SLICE("name")), true, NULL) ||
			!same_but_names(text_at(p->wj, json_get(p->wj, w, SLICE("expression")), r),
				text_at(p->gj, json_get(p->gj, g, SLICE("expression")), r)))
			return false;
		g = json_next(p->gj, got, g);
	}
	return !g;
}

static bool judge_members(
	const struct doctor_facts *f, const struct pair *p, struct doctor_report *r)
{
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		const struct json_node *want = json_get(p->wj, p->want, slice_of(members[i]));
		const struct json_node *got = json_get(p->gj, p->got, slice_of(members[i]));

		if (!want || shipped_same(p->wj, want, p->gj, got, true, NULL) ||
			(strcmp(members[i], "matchConditions") == 0 &&
				same_conditions(p, want, got, r)))
			continue;
		if (json_is(want, JSON_STRING))
			doctor_wrong(r, doctor_apply(f, r, NULL), "%s has %s %s, expected %s",
				p->name, members[i], text_at(p->gj, got, r),
				text_at(p->wj, want, r));
		else
			doctor_wrong(r, doctor_apply(f, r, NULL),
				"%s has other %s than this version's", p->name, members[i]);
		return false;
	}
	return true;
}

/* The hooks of one of our manifests, in what is there. */
static bool judge_hooks(const struct doctor_facts *f, size_t i, enum shipped which,
	size_t *io_hooks, struct doctor_report *r)
{
	const struct sight *shipped = &f->shipped[which], *s = &f->hooks[i];
	const struct json_node *doc = shipped_doc(shipped, kinds[i], NULL);
	bool fine = true;

	JSON_EACH(&shipped->json, json_get(&shipped->json, doc, SLICE("webhooks")), want)
	{
		const char *name =
			text_at(&shipped->json, json_get(&shipped->json, want, SLICE("name")), r);
		struct pair p = {&shipped->json, &s->json, want, doctor_hook(&s->json, name), name};

		if (!p.got) {
			doctor_wrong(
				r, doctor_apply(f, r, NULL), "%s has no hook %s", s->what, name);
			fine = false;
			continue;
		}
		/* With policies the component says what the selectors of the base's say. */
		if ((which != SHIPPED_HOOKS || !f->settings.cluster.policies) &&
			!judge_label(f, &p, r))
			fine = false;
		if (!json_get(&shipped->json, want, SLICE("clientConfig")))
			continue;
		(*io_hooks)++;
		fine = judge_service(f, &p, r) && judge_members(f, &p, r) &&
		       judge_selector(f, &p, r) && fine;
	}
	return fine;
}

/* False: it is not this version's, and the report says so. */
static bool judge_configuration(const struct doctor_facts *f, size_t i, struct doctor_report *r)
{
	static const enum shipped of_policies[HOOKS_COUNT] = {
		[HOOKS_MUTATING] = SHIPPED_POLICY_MUTATING,
		[HOOKS_VALIDATING] = SHIPPED_POLICY_VALIDATING,
	};
	const struct sight *s = &f->hooks[i];
	size_t hooks = 0;
	bool fine;

	if (s->state == SIGHT_MISSING)
		doctor_wrong(
			r, doctor_apply(f, r, NULL), "there is no %s: %s", s->what, without[i]);
	if (!sight_there(s, r))
		return false;
	fine = judge_hooks(f, i, SHIPPED_HOOKS, &hooks, r);
	if (f->settings.cluster.policies)
		fine = judge_hooks(f, i, of_policies[i], &hooks, r) && fine;
	if (fine)
		doctor_ok(r, "%s is this version's, %zu hook%s", s->what, hooks,
			hooks == 1 ? "" : "s");
	return fine;
}

/* The first Secret in a sidecar config or profile that the conditions do not know: a volume's, a
 * variable's, a listed one. */
static struct slice unknown_secret(const char *conditions, const struct yaml_node *v)
{
	struct slice found = {0};

	YAML_EACH(v, e)
	if (!found.at)
		found = unknown_secret(conditions, e);
	YAML_MEMBERS(v, k)
	{
		const struct yaml_node *name =
			slice_is(k->text, "secret") ? yaml_get(k->next, "name") : k->next;

		if (found.at)
			break;
		if ((slice_is(k->text, "secretName") || slice_is(k->text, "secret")) &&
			yaml_is(name, YAML_SCALAR) && !hook_covers(conditions, name->text))
			found = name->text;
		if (slice_is(k->text, "secrets"))
			YAML_EACH(k->next, e)
		if (yaml_is(e, YAML_SCALAR) && !hook_covers(conditions, e->text))
			found = e->text;
		if (!found.at)
			found = unknown_secret(conditions, k->next);
	}
	return found;
}

/* Do the conditions know the Secrets of this ConfigMap's profiles? What is no YAML is the replicas'
 * to tell. */
static void judge_secrets(const char *conditions, const struct sight *s, struct doctor_report *r)
{
	const struct json *j = &s->json;
	struct arena tree;

	arena_init(&tree, YAML_ARENA_MAX);
	JSON_MEMBERS(j, json_get(j, json_root(j), SLICE("data")), file)
	{
		const char *text = sight_str(j, json_value(file), r->arena);
		struct slice name = json_inside(j, file), secret = {0};
		struct yaml_stream docs = {0};

		if (text)
			(void)yaml_parse(
				&tree, "profile", slice_of(text), YAML_NO_ALIASES, &docs, NULL);
		for (const struct yaml_doc *d = docs.first; d && !secret.at; d = d->next)
			secret = unknown_secret(conditions, d->root);
		if (secret.at)
			doctor_wrong(r, "apply what `poolgate hooks --config …` prints",
				"validate.poolgate.io does not know the Secret %.*s of %.*s: its "
				"profile is left out",
				(int)secret.len, secret.at, (int)name.len, name.at);
		arena_reset(&tree);
	}
	arena_release(&tree);
}

/* Hooks that change a pod behind ours: ours is called again then, as its reinvocationPolicy (a
 * member that is judged above) says. */
static void judge_order(const struct doctor_facts *f, struct doctor_report *r)
{
	size_t after = 0;
	const char *name = NULL;

	if (!sight_there(&f->others.sight, r) || f->others.n == 0)
		return;
	DOCTOR_EACH(struct doctor_other, &f->others, o)
	{
		after += o->after;
		name = o->after && !name ? o->name : name;
	}
	if (after == 0)
		doctor_ok(r, "%zu other configurations change pods, all before ours", f->others.n);
	else
		doctor_ok(r,
			"%zu other configurations change pods, %zu of them after ours (%s): ours "
			"is called again",
			f->others.n, after, name);
}

void doctor_webhooks(const struct doctor_facts *f, struct doctor_report *r)
{
	const struct sight *validating = &f->hooks[HOOKS_VALIDATING];
	const char *conditions = validating->state == SIGHT_THERE
					 ? hook_conditions(&validating->json, r->arena)
					 : NULL;
	bool fine[HOOKS_COUNT];

	for (size_t i = 0; i < HOOKS_COUNT; i++)
		fine[i] = judge_configuration(f, i, r);
	/* Conditions of another version are mended first. */
	for (size_t i = 0; fine[HOOKS_VALIDATING] && conditions && i < CLIENTS_COUNT; i++)
		if (f->clients[i].state == SIGHT_THERE)
			judge_secrets(conditions, &f->clients[i], r);
	judge_order(f, r);
}

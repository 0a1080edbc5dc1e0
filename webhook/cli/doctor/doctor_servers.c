/* SPDX-License-Identifier: Apache-2.0 */
/* cli: judges the GPUServers: readable, fresh, fit, not promised twice. */
#include <string.h>

#include "base/rfc3339.h"
#include "webhook/cli/doctor/doctor_facts.h"
#include "webhook/core/launcher/launcher_bitfusion.h"
#include "webhook/core/launcher/launcher_load.h"
#include "webhook/core/server/server_guard.h"
#include "webhook/core/server/server_keep.h"

#define MB 1000000

struct sums {
	size_t gpus, usable, draining, going;
	const char *drains;
};

static bool is(const struct condition *c, const char *status)
{
	return c && c->status && strcmp(c->status, status) == 0;
}

static bool because(const struct condition *c, const char *reason)
{
	return c && c->reason && strcmp(c->reason, reason) == 0;
}

/* The host of a probe's URL, to name the machine. */
static const char *host_of(const char *url, struct doctor_report *r)
{
	const char *at = url ? strstr(url, "://") : NULL;

	return at ? doctor_fmt(r, "%.*s", (int)strcspn(at + 3, ":/"), at + 3) : "the GPU server";
}

/* The Secret that the message names, as the probe needs it. */
static const char *make_secret(const struct doctor_facts *f, const struct server_object *o,
	const char *message, struct doctor_report *r)
{
	const char *const names[] = {
		o->probe_ca_secret, o->probe_token_secret, o->probe_client_secret};
	static const char *const keys[] = {" --from-file=ca.crt", " --from-file=token",
		" --from-file=tls.crt --from-file=tls.key"};
	const char *files = "", *name = NULL;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *said = names[i] ? strstr(message, names[i]) : NULL;

		/* between NAMESPACE/ and what is wrong with it */
		if (!name && said && said > message && said[-1] == '/' &&
			strchr(": ", said[strlen(names[i])]))
			name = names[i];
		if (name && names[i] && strcmp(name, names[i]) == 0)
			files = doctor_fmt(r, "%s%s", files, keys[i]);
	}
	if (!name)
		return doctor_fmt(r, "kubectl edit gpuserver %s", o->name);
	return doctor_fmt(r,
		"kubectl -n %s create secret generic %s%s --dry-run=client -o yaml | kubectl apply "
		"-f -",
		f->namespace, name, files);
}

static void judge_stale(const struct doctor_facts *f, const struct server_object *o,
	const struct condition *fresh, struct doctor_report *r)
{
	const char *message = fresh && fresh->message && *fresh->message ? fresh->message
									 : "nobody has looked yet";

	if (because(fresh, FRESH_SECRET_MISSING))
		doctor_wrong(r, make_secret(f, o, message, r), "%s takes no claims: %s", o->name,
			message);
	else if (because(fresh, FRESH_TOKEN_KEPT) || because(fresh, FRESH_SECRET_KEPT))
		doctor_wrong(r, doctor_fmt(r, "kubectl edit gpuserver %s", o->name),
			"%s takes no claims: %s", o->name, message);
	else
		doctor_wrong(r,
			doctor_fmt(
				r, "ssh %s systemctl restart gpuprobe", host_of(o->probe_url, r)),
			"%s takes no claims, its probe is stale: %s", o->name, message);
}

/* Who holds it, the first few. Whose pod had better go is not ours to say. */
static const char *holders(const struct server_object *o, const char *gpu, struct doctor_report *r)
{
	const char *text = "";
	char since[32];
	size_t n = 0;

	for (size_t i = 0; i < o->status.n_claims; i++) {
		const struct claim *c = &o->status.claims[i].claim;

		rfc3339_write(c->since_ms, since);
		for (size_t k = 0; k < c->n_parts; k++)
			if (strcmp(c->parts[k].gpu, gpu) == 0 && n++ < DOCTOR_LINES_MAX)
				text = doctor_fmt(r, "%s%s%s/%s %llu MB since %s", text,
					n > 1 ? ", " : "", c->namespace, c->name,
					(unsigned long long)(c->parts[k].bytes / MB), since);
	}
	return n <= DOCTOR_LINES_MAX ? text
				     : doctor_fmt(r, "%s and %zu more", text, n - DOCTOR_LINES_MAX);
}

static void judge_gpus(const struct server_object *o, struct sums *sums, struct doctor_report *r)
{
	size_t unfit = 0;
	const struct gpu *worst = NULL;

	for (size_t i = 0; i < o->status.n_gpus; i++) {
		const struct gpu *g = &o->status.gpus[i].gpu;
		uint64_t held = server_status_claimed(&o->status, i);

		sums->gpus++;
		if (held > g->bytes)
			doctor_wrong(r, NULL,
				"%s of %s is promised twice: %llu MB are held of its %llu MB, by "
				"%s; it takes nothing new until its sum fits: wait until one of "
				"them has ended, or have its owner delete one",
				g->id, o->name, (unsigned long long)(held / MB),
				(unsigned long long)(g->bytes / MB), holders(o, g->id, r));
		if (!g->fit || g->missing) {
			unfit++;
			worst = worst && worst->missing == g->missing ? worst : g;
		}
	}
	if (unfit && unfit < o->status.n_gpus)
		doctor_wrong(r, doctor_fmt(r, "kubectl describe gpuserver %s", o->name),
			"%zu of %zu GPUs of %s cannot be used: %s: %s", unfit, o->status.n_gpus,
			o->name, worst->id,
			worst->missing              ? "gone while claims are on it"
			: worst->why && *worst->why ? worst->why
						    : "not fit");
}

/* Is this one of the launchers that pods can choose? True, too, where nobody knows. */
static bool launcher_there(const struct doctor_facts *f, const char *name, struct doctor_report *r)
{
	const struct sight *s = &f->clients[CLIENTS_LAUNCHERS];
	const char *line = doctor_fmt(r, "name: %s", name);
	const struct json *j = &s->json;

	if (s->state != SIGHT_THERE || strcmp(name, BITFUSION_PROFILE) == 0)
		return true;
	JSON_MEMBERS(j, json_get(j, json_root(j), SLICE("data")), file)
	{
		const char *at = sight_str(j, json_value(file), r->arena);

		for (; at && (at = strstr(at, line)) != NULL; at++)
			if (strchr(" \t\r\n,}", at[strlen(line)]))
				return true;
	}
	return false;
}

static void judge_launchers(
	const struct doctor_facts *f, const struct server_object *o, struct doctor_report *r)
{
	for (size_t i = 0; i < o->n_launchers; i++)
		if (!launcher_there(f, o->launchers[i], r))
			doctor_wrong(r, doctor_fmt(r, "kubectl edit gpuserver %s", o->name),
				"%s is for pods of the launcher %s, which %s does not have",
				o->name, o->launchers[i], f->clients[CLIENTS_LAUNCHERS].what);
}

/* Would its gate let pods of this launcher in, which it is kept for? */
static void judge_mode(
	const struct server_object *o, const struct profile *p, struct doctor_report *r)
{
	bool named = false;

	for (size_t i = 0; i < o->n_launchers; i++)
		named = named || slice_is(p->name, o->launchers[i]);
	if (named && (p->gate.port || p->gate.by_address) &&
		p->gate.by_address != o->gate_by_address)
		doctor_wrong(r, doctor_fmt(r, "kubectl edit gpuserver %s", o->name),
			"%s is for pods of the launcher %.*s, which goes to gates by the mode %s, "
			"and its own gate by the mode %s: none of them is placed there",
			o->name, (int)p->name.len, p->name.at, gate_modes[p->gate.by_address],
			gate_modes[o->gate_by_address]);
}

static void judge_modes(
	const struct doctor_facts *f, const struct server_object *o, struct doctor_report *r)
{
	const struct sight *s = &f->clients[CLIENTS_LAUNCHERS];
	const struct json *j = &s->json;

	if (!o->gate_profile || s->state != SIGHT_THERE)
		return;
	JSON_MEMBERS(j, json_get(j, json_root(j), SLICE("data")), file)
	{
		const char *text = sight_str(j, json_value(file), r->arena);
		struct yaml_stream stream = {0};
		struct profile p;
		struct arena a;
		struct err err;

		/* What is no profile the replicas refuse themselves. */
		arena_init(&a, YAML_ARENA_MAX);
		if (text)
			(void)yaml_parse(&a, "", slice_of(text), YAML_NO_ALIASES, &stream, &err);
		for (const struct yaml_doc *doc = stream.first; doc; doc = doc->next)
			if (launcher_load(doc->root, &a, &p, &err) == 0)
				judge_mode(o, &p, r);
		arena_release(&a);
	}
}

/* What the conditions of its gate say is said here, too. */
static void judge_gate(const struct server_object *o, struct doctor_report *r)
{
	static const char *const findings[] = {SERVER_OVER_SHARE, SERVER_UNUSED, SERVER_STRANGERS};
	const struct condition *guarded = server_status_condition(&o->status, SERVER_GUARDED);
	bool edit = because(guarded, GUARDED_OTHER_PROFILE) ||
		    because(guarded, GUARDED_OTHER_MODE) ||
		    because(guarded, GUARDED_OTHER_SERVER) || because(guarded, FRESH_TOKEN_KEPT) ||
		    because(guarded, FRESH_SECRET_KEPT) || because(guarded, FRESH_SECRET_MISSING);

	if (!o->gate_profile)
		return;
	if (guarded && !is(guarded, "True") && !because(guarded, GUARDED_UNTRIED))
		doctor_wrong(r,
			edit ? doctor_fmt(r, "kubectl edit gpuserver %s", o->name)
			     : doctor_fmt(
				       r, "ssh %s journalctl -u gpugate", host_of(o->gate_url, r)),
			"%s is not guarded: %s", o->name,
			guarded->message && *guarded->message ? guarded->message
							      : "it does not say why");
	for (size_t i = 0; i < sizeof(findings) / sizeof(findings[0]); i++) {
		const struct condition *c = server_status_condition(&o->status, findings[i]);

		if (is(c, "True") && c->message)
			doctor_wrong(r, doctor_fmt(r, "kubectl describe gpuserver %s", o->name),
				"%s: %s", o->name, c->message);
	}
}

static void judge_server(const struct doctor_facts *f, const struct server_object *o,
	struct sums *sums, struct doctor_report *r)
{
	const struct condition *ready = server_status_condition(&o->status, SERVER_READY);
	const struct condition *fresh = server_status_condition(&o->status, SERVER_FRESH);
	const struct condition *unique = server_status_condition(&o->status, SERVER_UNIQUE);

	judge_gpus(o, sums, r);
	judge_launchers(f, o, r);
	judge_modes(f, o, r);
	judge_gate(o, r);
	if (is(unique, "False"))
		doctor_wrong(r, NULL,
			"%s is a machine that the pool has already: %s; it takes claims on what is "
			"its alone: delete one of both",
			o->name, unique->message ? unique->message : "it does not say whose");
	sums->usable += is(ready, "True");
	if (o->drain) {
		sums->draining++;
		sums->drains = o->name;
	}
	if (is(ready, "True"))
		return;
	if (!ready)
		doctor_wrong(r,
			doctor_fmt(r, "kubectl -n %s rollout restart deployment/" DOCTOR_DEPLOYMENT,
				f->namespace),
			"no leader has looked at %s yet", o->name);
	else if (o->deleting)
		sums->going++;
	else if (!o->drain && !is(fresh, "True"))
		judge_stale(f, o, fresh, r);
	else if (o->drain || because(ready, READY_NOT_UNIQUE))
		return;
	else if (because(ready, "LooksForClaims"))
		doctor_ok(r, "%s is new: it takes claims once its pods have theirs", o->name);
	else
		doctor_wrong(r,
			o->probe_url
				? doctor_fmt(r, "ssh %s gpuprobe verify", host_of(o->probe_url, r))
				: doctor_fmt(r, "kubectl edit gpuserver %s", o->name),
			"%s takes no claims: %s", o->name,
			ready->message && *ready->message ? ready->message : "it does not say why");
}

void doctor_servers(const struct doctor_facts *f, struct doctor_report *r)
{
	struct sums sums = {0};

	if (f->servers.sight.state == SIGHT_MISSING) {
		doctor_wrong(r, "kubectl apply -f manifests/base/crd.yaml",
			"the API server does not know GPUServers");
		return;
	}
	if (!sight_there(&f->servers.sight, r))
		return;
	DOCTOR_EACH(struct doctor_server, &f->servers, s)
	if (s->why)
		doctor_wrong(r,
			strncmp(s->path, "/status", 7) == 0
				? doctor_fmt(r, "kubectl edit gpuserver %s --subresource=status",
					  s->name)
				: doctor_fmt(r, "kubectl edit gpuserver %s", s->name),
			"%s cannot be read and takes no claims: %s: %s", s->name, s->path, s->why);
	else
		judge_server(f, &s->object, &sums, r);
	if (f->servers.n == 0)
		doctor_wrong(r, "kubectl apply -f manifests/examples/gpuservers.yaml",
			"there is no GPUServer: every GPU pod is refused");
	else if (!doctor_group_troubled(r))
		doctor_ok(r, "%zu servers with %zu GPUs, %zu servers take claims%s%s", f->servers.n,
			sums.gpus, sums.usable, sums.draining ? ", drained: " : "",
			sums.draining == 1 ? sums.drains
			: sums.draining    ? "several"
					   : "");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* core: what the leader keeps true in a GPUServer's status: its own GPUs and its conditions. Pure.
 */
#include "webhook/core/server/server_keep_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/rfc3339.h"

/* Pods that a condition names. */
#define NAMED_MAX 4

bool server_keep_fresh(struct server_object *o, bool fresh, const char *reason, const char *message,
	const char *now, struct arena *a)
{
	struct condition c = {.type = SERVER_FRESH,
		.status = fresh ? "True" : "False",
		.reason = reason,
		.message = message,
		.observed_generation = o->generation};

	return server_status_set_condition(&o->status, &c, now, a);
}

/* What a probe said stays until it says something else. */
static bool keep_fresh(struct server_object *o, const char *now, struct arena *a)
{
	const struct condition *c = server_status_condition(&o->status, SERVER_FRESH);

	if (!o->probe_url)
		return server_keep_fresh(
			o, true, FRESH_LISTED, "the GPUs are listed in the spec", now, a);
	if (c && c->reason && strcmp(c->reason, FRESH_LISTED) != 0)
		return false;
	return server_keep_fresh(
		o, false, FRESH_NOT_ASKED, "the probe has not been asked yet", now, a);
}

static size_t count_fit(const struct server_status *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_gpus; i++)
		n += s->gpus[i].gpu.fit && !s->gpus[i].gpu.missing && !s->gpus[i].gpu.twin &&
		     !s->gpus[i].closed;
	return n;
}

bool server_keep_unique_due(const struct server_object *o)
{
	const struct condition *c = server_status_condition(&o->status, SERVER_UNIQUE);
	bool said = c && c->status && strcmp(c->status, "False") == 0;

	if (!o->twin || !said)
		return (o->twin != NULL) != said;
	return !c->message || strcmp(c->message, o->twin) != 0;
}

/* Rule R15. Most servers never have a word of it in their status. */
static bool keep_unique(struct server_object *o, const char *now, struct arena *a)
{
	struct condition c = {.type = SERVER_UNIQUE,
		.status = o->twin ? "False" : "True",
		.reason = o->twin ? UNIQUE_TWIN : UNIQUE_ALONE,
		.message =
			o->twin ? o->twin : "no GPUServer that came first has its address or GPUs",
		.observed_generation = o->generation};

	return (o->twin || server_status_condition(&o->status, SERVER_UNIQUE)) &&
	       server_status_set_condition(&o->status, &c, now, a);
}

static bool lingers(
	const void *ctx, const struct claim_record *r, char ret[static SERVER_SAID_SIZE])
{
	char until[RFC3339_SIZE];

	(void)ctx;
	rfc3339_write(r->lingers_ms, until);
	(void)snprintf(ret, SERVER_SAID_SIZE, "until %s", until);
	return r->lingers_ms != 0;
}

static bool waits(const void *ctx, const struct claim_record *r, char ret[static SERVER_SAID_SIZE])
{
	(void)ctx;
	(void)snprintf(ret, SERVER_SAID_SIZE, "(%s)", r->waits ? r->waits : "");
	return r->waits != NULL;
}

const char *server_keep_names(
	const struct server_status *s, server_name_fn *fn, const void *ctx, struct arena *a)
{
	const char *all = NULL;
	char said[SERVER_SAID_SIZE];
	size_t n = 0;

	for (size_t i = 0; i < s->n_claims; i++) {
		const struct claim_record *r = &s->claims[i];

		if (!fn(ctx, r, said) || n++ >= NAMED_MAX)
			continue;
		all = arena_fmt(a, "%s%s%s/%s %s", all ? all : "", all ? ", " : "",
			r->claim.namespace ? r->claim.namespace : "",
			r->claim.name ? r->claim.name : "", said);
		if (!all)
			return NULL;
	}
	return n > NAMED_MAX ? arena_fmt(a, "%s, and %zu more", all, n - NAMED_MAX) : all;
}

bool server_keep_rare(struct server_object *o, const struct condition *yes,
	const struct condition *no, const char *names, const char *now, struct arena *a)
{
	struct condition c = names ? *yes : *no;

	c.status = names ? "True" : "False";
	c.observed_generation = o->generation;
	if (names)
		c.message = arena_fmt(a, "%s: %s", yes->message, names);
	return (names || server_status_condition(&o->status, c.type)) && !a->failed &&
	       server_status_set_condition(&o->status, &c, now, a);
}

/* Rule R13. */
static bool keep_lingering(struct server_object *o, const char *now, struct arena *a)
{
	static const struct condition yes = {.type = SERVER_LINGERING,
					      .reason = LINGERING_PODS,
					      .message = "pods that are gone may still run here"},
				      no = {.type = SERVER_LINGERING,
					      .reason = LINGERING_NONE,
					      .message = "no claim is kept of a pod that is gone"};

	return server_keep_rare(
		o, &yes, &no, server_keep_names(&o->status, lingers, NULL, a), now, a);
}

static bool keep_unstarted(struct server_object *o, const char *now, struct arena *a)
{
	static const struct condition
		yes = {.type = SERVER_UNSTARTED,
			.reason = UNSTARTED_PODS,
			.message = "pods hold GPUs here for long and do not run"},
		no = {.type = SERVER_UNSTARTED,
			.reason = UNSTARTED_NONE,
			.message = "no pod that has a claim waits for long"};

	return server_keep_rare(
		o, &yes, &no, server_keep_names(&o->status, waits, NULL, a), now, a);
}

/* In the order in which a reader would ask. */
static struct condition ready(const struct server_object *o)
{
	const struct condition *fresh = server_status_condition(&o->status, SERVER_FRESH);
	struct condition c = {
		.type = SERVER_READY, .status = "False", .observed_generation = o->generation};

	if (o->deleting) {
		c.reason = "Deleting";
		c.message = "it goes with its last claim";
	} else if (!o->finalizer && o->status.n_gpus > 0) {
		c.reason = "LooksForClaims";
		c.message = "pods that run on it get their claims first";
	} else if (o->drain) {
		c.reason = "Draining";
		c.message = "spec.drain is true";
	} else if (!fresh || !fresh->status || strcmp(fresh->status, "True") != 0) {
		c.reason = "NotFresh";
		c.message = fresh && fresh->message ? fresh->message : "nothing is known yet";
	} else if (o->status.n_gpus == 0) {
		c.reason = "NoGPUs";
		c.message = "it has no GPUs";
	} else if (o->twin && count_fit(&o->status) == 0) {
		c.reason = READY_NOT_UNIQUE;
		c.message = o->twin;
	} else if (count_fit(&o->status) == 0) {
		c.reason = "NoneFit";
		c.message = "none of its GPUs is fit";
	} else {
		c.status = "True";
		c.reason = "TakesClaims";
		c.message = "it takes new claims";
	}
	return c;
}

bool server_keep_status(struct server_object *o, const char *now, struct arena *a)
{
	struct server_status *s = &o->status;
	bool changed = !o->probe_url ? server_status_from_spec(o, a) : server_status_prune(s);
	struct condition c;

	changed = keep_fresh(o, now, a) || changed;
	changed = keep_unique(o, now, a) || changed;
	changed = keep_lingering(o, now, a) || changed;
	changed = keep_unstarted(o, now, a) || changed;
	changed = server_guard_keep(o, now, a) || changed;
	c = ready(o);
	changed = server_status_set_condition(s, &c, now, a) || changed;
	if (s->observed_generation != o->generation) {
		s->observed_generation = o->generation;
		changed = true;
	}
	return changed && !a->failed;
}

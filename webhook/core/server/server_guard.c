/* SPDX-License-Identifier: Apache-2.0 */
/* core: a gate's word as conditions, and as GPUs that take nothing new. */
#include "webhook/core/server/server_guard.h"

#include <stdio.h>
#include <string.h>

#include "webhook/core/server/server_keep_impl.h"

/* GPUs that the condition Strangers names. */
#define NAMED_MAX 4
#define CLOSED "a process that belongs to no claim computes there"
#define STUCK "a server that had it is to be ended, and MPS does not answer"

/* ---- Guarded ---- */

static bool keep_guarded(struct server_object *o, const char *status, const char *reason,
	const char *message, const char *now, struct arena *a)
{
	struct condition c = {.type = SERVER_GUARDED,
		.status = status,
		.reason = reason,
		.message = message,
		.observed_generation = o->generation};

	return message && server_status_set_condition(&o->status, &c, now, a);
}

/* In the order in which a reader would ask. */
static bool judge_guard(
	struct server_object *o, const struct gate_page *p, const char *now, struct arena *a)
{
	if (strcmp(p->server, o->name) != 0)
		return keep_guarded(o, "False", GUARDED_OTHER_SERVER,
			arena_fmt(a, "the gate there is of the GPUServer %s",
				*p->server ? p->server : "(it does not say which)"),
			now, a);
	if (strcmp(p->profile, o->gate_profile) != 0)
		return keep_guarded(o, "False", GUARDED_OTHER_PROFILE,
			arena_fmt(a, "its gate starts servers by the ServerProfile %s", p->profile),
			now, a);
	if ((p->mode == GATE_MODE_ADDRESS) != o->gate_by_address)
		return keep_guarded(o, "False", GUARDED_OTHER_MODE,
			arena_fmt(a, "its gate goes by the mode %s, and spec.gate.mode is %s",
				gate_modes[p->mode], gate_modes[o->gate_by_address]),
			now, a);
	if (p->shares == GATE_SHARES_EXCEEDED)
		return keep_guarded(o, "False", GUARDED_EXCEEDED,
			"its gate has tried, and a claim can take more than its share", now, a);
	if (p->shares == GATE_SHARES_HELD)
		return keep_guarded(o, "True", GUARDED_HELD,
			"its gate lets in who holds a claim, and holds him to his share", now, a);
	return keep_guarded(o, "Unknown", GUARDED_UNTRIED,
		"its gate lets in who holds a claim; whether he is held to his share is not known",
		now, a);
}

/* ---- what is used ---- */

static bool over(const void *ctx, const struct claim_record *r, char ret[static SERVER_SAID_SIZE])
{
	const struct gate_claim *c = gate_page_claim(ctx, slice_of(r->claim.key));

	if (!c || !c->over)
		return false;
	(void)snprintf(ret, SERVER_SAID_SIZE, "(%s)", c->gpu);
	return true;
}

bool server_guard_unused(const struct claim_record *r, const struct gate_claim *c)
{
	return c && c->unused_s >= USE_IDLE_S && r->claim.state != CLAIM_PENDING && !r->waits &&
	       !r->lingers_ms;
}

static bool unused(const void *ctx, const struct claim_record *r, char ret[static SERVER_SAID_SIZE])
{
	ret[0] = '\0';
	return server_guard_unused(r, gate_page_claim(ctx, slice_of(r->claim.key)));
}

/* Is it this GPU that is named, or the one that it is an instance of? */
static bool is_named(const char *id, const struct gpu *g)
{
	return strcmp(id, g->id) == 0 || (g->parent && strcmp(id, g->parent) == 0);
}

const struct gate_stranger *server_guard_stranger(const struct gate_page *p, const struct gpu *g)
{
	for (size_t i = 0; i < p->n_strangers; i++)
		if (is_named(p->strangers[i].gpu, g))
			return &p->strangers[i];
	return NULL;
}

/* "GPU-1, GPU-2, and 3 more"; NULL: none. */
static const char *name_gpus(
	const struct server_status *s, const struct gate_page *p, struct arena *a)
{
	const char *all = NULL;
	size_t n = 0;

	for (size_t i = 0; i < s->n_gpus; i++)
		if (server_guard_stranger(p, &s->gpus[i].gpu) && n++ < NAMED_MAX) {
			all = arena_fmt(
				a, "%s%s%s", all ? all : "", all ? ", " : "", s->gpus[i].gpu.id);
			if (!all)
				return NULL;
		}
	return n > NAMED_MAX ? arena_fmt(a, "%s, and %zu more", all, n - NAMED_MAX) : all;
}

/* Has somebody it still who is to be ended, and cannot be? */
static bool is_stuck(const struct gate_page *p, const struct gpu *g)
{
	for (size_t i = 0; i < p->n_claims; i++)
		if (p->claims[i].stuck && is_named(p->claims[i].gpu, g))
			return true;
	return false;
}

/* NULL: it takes claims. */
static const char *why_closed(
	const struct server_object *o, const struct gate_page *p, const struct gpu *g)
{
	if (p && !o->gate_lets_strangers && server_guard_stranger(p, g))
		return CLOSED;
	return p && is_stuck(p, g) ? STUCK : NULL;
}

static bool close_gpus(struct server_object *o, const struct gate_page *p)
{
	bool changed = false;

	for (size_t i = 0; i < o->status.n_gpus; i++) {
		struct gpu_status *g = &o->status.gpus[i];
		const char *closed = why_closed(o, p, &g->gpu);

		if (closed == g->closed || (closed && g->closed && strcmp(closed, g->closed) == 0))
			continue;
		g->closed = closed;
		changed = true;
	}
	return changed;
}

/* names: who is to be told of; page NULL: nobody knows. */
static bool keep_use(struct server_object *o, const struct gate_page *page,
	const struct condition *yes, const char *names, const char *now, struct arena *a)
{
	struct condition no = {.type = yes->type, .reason = USE_FINE};
	struct condition unknown = {.type = yes->type,
		.status = "Unknown",
		.reason = USE_UNKNOWN,
		.message = "its gate does not tell what is used of its GPUs",
		.observed_generation = o->generation};

	no.message = o->gate_profile ? "what is used is what claims hold" : "it has no gate";
	return page ? server_keep_rare(o, yes, &no, names, now, a)
		    : server_status_set_condition(&o->status, &unknown, now, a);
}

static bool keep_uses(
	struct server_object *o, const struct gate_page *page, const char *now, struct arena *a)
{
	static const struct condition
		more = {.type = SERVER_OVER_SHARE,
			.reason = USE_OVER,
			.message = "pods have more of its GPUs than they hold"},
		nothing = {.type = SERVER_UNUSED,
			.reason = USE_UNUSED,
			.message = "pods hold GPUs here and have used nothing for an hour"},
		stranger = {.type = SERVER_STRANGERS,
			.reason = USE_STRANGERS,
			.message = "processes that belong to no claim compute here"};
	const struct server_status *s = &o->status;
	bool changed =
		keep_use(o, page, &more, page ? server_keep_names(s, over, page, a) : NULL, now, a);

	changed = keep_use(o, page, &nothing, page ? server_keep_names(s, unused, page, a) : NULL,
			  now, a) ||
		  changed;
	return keep_use(o, page, &stranger, page ? name_gpus(s, page, a) : NULL, now, a) || changed;
}

/* ---- what is used, to be added up ---- */

/* What it uses; NULL: nobody knows. */
static const struct gate_claim *figure(const struct gate_page *p, const struct claim_record *r)
{
	const struct gate_claim *c = p ? gate_page_claim(p, slice_of(r->claim.key)) : NULL;

	return c && c->known && r->claim.state != CLAIM_PENDING ? c : NULL;
}

static bool is_recent(const struct claim_record *r, int64_t wall_ms)
{
	int64_t left = r->used_until_ms - wall_ms;

	return left > USED_COUNTS_MS - USED_AGAIN_MS && left <= 2 * USED_COUNTS_MS;
}

bool server_guard_used(
	struct server_object *o, const struct gate_page *page, int64_t wall_ms, bool written)
{
	struct server_status *s = &o->status;
	bool counted = s->usage && *s->usage, changed = false;

	if (!counted || (page && (!page->known || strcmp(page->server, o->name) != 0)))
		page = NULL;
	for (size_t i = 0; i < s->n_claims && !written; i++) {
		const struct claim_record *r = &s->claims[i];
		bool known = figure(page, r);

		/* who has begun, who is not known any more, and what has stood for long */
		written = known != (r->used_until_ms != 0) || (known && !is_recent(r, wall_ms));
	}
	for (size_t i = 0; i < s->n_claims && written; i++) {
		struct claim_record *r = &s->claims[i];
		const struct gate_claim *c = figure(page, r);

		changed = changed || c || r->used_until_ms;
		r->used = c ? c->used : 0;
		r->used_until_ms = c ? wall_ms + USED_COUNTS_MS : 0;
	}
	return changed;
}

/* ---- the whole ---- */

bool server_guard_told(
	struct server_object *o, const struct gate_page *page, const char *now, struct arena *a)
{
	bool ours = strcmp(page->server, o->name) == 0;
	bool changed = judge_guard(o, page, now, a);

	/* Another machine's use is not ours. */
	changed = keep_uses(o, ours && page->known ? page : NULL, now, a) || changed;
	if (ours && page->known)
		changed = close_gpus(o, page) || changed;
	return changed && !a->failed;
}

bool server_guard_silent(struct server_object *o, const char *reason, const char *message,
	const char *now, struct arena *a)
{
	bool changed = keep_guarded(o, "Unknown", reason, message, now, a);

	changed = server_guard_used(o, NULL, 0, true) || changed;
	return (keep_uses(o, NULL, now, a) || changed) && !a->failed;
}

bool server_guard_keep(struct server_object *o, const char *now, struct arena *a)
{
	static const struct gate_page nothing = {.known = true};
	static const char not_asked[] = "the gate has not been asked yet";
	const struct condition *c = server_status_condition(&o->status, SERVER_GUARDED);
	bool changed;

	if (o->gate_profile && (!c || !c->reason || strcmp(c->reason, GUARDED_NO_GATE) == 0))
		return server_guard_silent(o, GUARDED_NOT_ASKED, not_asked, now, a);
	if (o->gate_profile)
		return c->observed_generation != o->generation &&
		       keep_guarded(o, "Unknown", GUARDED_NOT_ASKED, not_asked, now, a);
	if (!c)
		return false;
	changed = keep_guarded(o, "False", GUARDED_NO_GATE, "spec.gate names none", now, a);
	changed = keep_uses(o, &nothing, now, a) || changed;
	changed = server_guard_used(o, NULL, 0, true) || changed;
	return close_gpus(o, NULL) || changed;
}

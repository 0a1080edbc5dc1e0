/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: the duty that keeps claims true: its rounds, and the picture that each begins with. */
#include "webhook/cluster/claims/claims.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/text.h"
#include "webhook/cluster/claims/claims_impl.h"
#include "webhook/core/pod/pod.h"
#include "webhook/edge/metrics/metrics.h"

/* Names of servers, and what claims say in words. */
#define PICTURE_MAX (64u << 20)
/* While the picture of the servers is not there yet. */
#define UNSYNCED_MS 200
/* So far the watch of pods may be behind what is stored. */
#define WATCH_BEHIND_MS 1000
#define MAX_GRACE_MS 3600000
/* In a large pool looks take a tenth of the time: every claim wakes us. One that took long because
 * this process got no processor is no reason to rest for long. */
#define LOOK_SHARE 10
#define PAUSE_MAX_MS 2000
#define UNSTARTED_MS 300000
#define UNPLACED_MS 60000

void claims_until(struct claims *c, int64_t ms)
{
	if (ms < c->until_ms)
		c->until_ms = ms;
}

/* ---- the picture ---- */

static uint64_t hash_list(const struct claim_record *r, const char *own, bool *ret_own)
{
	uint64_t hash = 0;

	*ret_own = false;
	for (size_t i = 0; i < r->n_servers; i++) {
		hash = hash * 31 + text_hash64(slice_of(r->servers[i]));
		*ret_own = *ret_own || strcmp(r->servers[i], own) == 0;
	}
	return hash;
}

static void see_gang(
	struct picture *p, struct holder *h, const char *server, const struct claim_record *r)
{
	h->gang = arena_strdup(&p->arena, slice_of(r->gang));
	p->gangs = true;
	if (strcmp(r->gang, h->uid) != 0)
		return;
	h->begun = true;
	h->closed =
		h->closed || (r->n_servers > 0 && !r->open && strcmp(r->servers[0], server) == 0);
}

/* Join one record to what its uid holds elsewhere. */
static bool see_record(struct claims *c, const char *server, const struct claim_record *r)
{
	const struct claim *claim = &r->claim;
	struct picture *p = &c->now;
	struct holder *h = claims_holder(c, claim->key, claim->namespace ? claim->namespace : "",
		claim->name ? claim->name : "");
	bool own;
	uint64_t list = hash_list(r, server, &own);

	if (!h || !LIST_ROOM(p->records, p->n_records, p->cap_records))
		return false;
	if (h->n_records == 0) {
		h->agree = true;
		h->open = false;
		h->list_hash = list;
		h->n_listed = (uint32_t)r->n_servers;
		h->plan_hash = claim->plan_hash;
		h->pending = true;
		h->unbound = false;
		h->takes = 0;
		h->grace_s = 0;
		h->bytes = 0;
		h->began = (struct gang_began){0};
		h->settled = h->begun = h->closed = false;
	}
	h->agree = h->agree && own && h->list_hash == list && !r->open;
	h->open = h->open || r->open;
	h->n_records++;
	h->takes += r->take;
	h->settled = h->settled || !r->gang;
	if (r->gang)
		see_gang(p, h, server, r);
	/* what one of its records does not say another does */
	if (r->began.size >= h->began.size && (r->began.key || !h->began.key))
		h->began = r->began;
	for (size_t i = 0; r->began.key && i < claim->n_parts; i++)
		h->bytes += claim->parts[i].bytes;
	p->n_seats += r->began.key != 0;
	h->grace_s = r->grace_s > h->grace_s ? r->grace_s : h->grace_s;
	if (claim->state == CLAIM_PENDING)
		h->unbound = true;
	else
		h->pending = false;
	p->records[p->n_records++] = (struct record){.who = h,
		.state = claim->state,
		.take = r->take,
		.open = r->open,
		.gang = r->gang ? h->gang : NULL,
		.grace_s = r->grace_s,
		.lingers_ms = r->lingers_ms,
		.waits = r->waits ? arena_strdup(&p->arena, slice_of(r->waits)) : NULL,
		.ips = address_said(r, &p->arena)};
	return true;
}

static bool see_server(void *ctx, const struct server_object *o)
{
	struct claims *c = ctx;
	struct picture *p = &c->now;
	struct part *part;

	p->pool = p->pool * 1099511628211u + text_hash64(slice_of(o->uid)) +
		  (uint64_t)o->generation * 8191 + o->status.n_gpus;
	if (!LIST_ROOM(p->parts, p->n_parts, p->cap_parts)) {
		p->failed = true;
		return false;
	}
	p->keeps = p->keeps || o->status.n_kept > 0;
	part = &p->parts[p->n_parts++];
	*part = (struct part){.name = arena_strdup(&p->arena, slice_of(o->name)),
		.first = p->n_records,
		.n = o->status.n_claims,
		.by_address = o->gate_by_address};
	for (size_t i = 0; i < o->status.n_phantoms; i++)
		part->phantoms_due = part->phantoms_due ||
				     phantom_is_over(&o->status.phantoms[i], clock_wall_ms());
	for (size_t i = 0; i < o->status.n_claims && !p->failed; i++)
		p->failed = !see_record(c, o->name, &o->status.claims[i]);
	return !p->failed;
}

/* The clocks of a claim start when it comes in view, when another review takes it, and when it is
 * found bound. */
static void see_change(struct holder *h, int64_t now)
{
	struct claim_sight *s = &h->sight;

	if (s->since_ms == 0 || h->takes != h->takes_before || (s->pending && !h->pending)) {
		s->since_ms = now;
		s->asked_ms = s->gone_ms = 0;
		s->answer = ANSWER_NONE;
	}
	h->takes_before = h->takes;
	s->pending = h->pending;
	s->unbound = h->unbound;
}

bool claims_look(struct claims *c)
{
	struct picture *p = &c->now;
	int64_t now = clock_ms();

	arena_reset(&p->arena);
	p->n_parts = p->n_records = p->n_seats = 0;
	p->pool = 0;
	p->failed = p->keeps = p->gangs = false;
	for (size_t i = 0; i < c->n_buckets; i++)
		for (struct holder *h = c->bucket[i]; h; h = h->next) {
			h->n_records = 0;
			h->gang = NULL;
			h->undecided = h->seated = false;
			h->n_follow = 0;
		}
	/* before the picture is locked: that takes milliseconds for a large pool */
	claims_expect(c, servers_holders(c->cfg->servers));
	servers_each(c->cfg->servers, see_server, c);
	if (p->failed || p->arena.failed)
		return false;
	for (size_t i = 0; i < c->n_buckets; i++)
		for (struct holder *h = c->bucket[i]; h; h = h->next)
			if (h->n_records > 0)
				see_change(h, now);
			else
				h->sight = (struct claim_sight){0};
	if (p->gangs)
		gang_look(c);
	return true;
}

bool claims_look_anew(struct claims *c)
{
	unsigned breaks = kube_breaks(c->cfg->kube);
	bool good = servers_refresh(c->cfg->servers, clock_ms() + CLAIMS_CALL_MS, NULL) == 0 &&
		    claims_look(c);

	if (good)
		c->breaks = breaks;
	return good;
}

/* ---- rounds ---- */

static int64_t tick(void *ctx, struct duty *d)
{
	struct claims *c = ctx;
	int64_t now = clock_ms(), early = c->began_ms + c->pause_ms - now;

	c->self = d;
	if (c->began_ms && early > 0)
		return early;
	if (!servers_synced(c->cfg->servers))
		return UNSYNCED_MS;
	c->began_ms = now;
	/* A server that is new waits for a round that was begun after it: rounds go on when nothing
	 * happens. */
	c->until_ms = now + CLAIMS_IDLE_MS;
	c->round++;
	if (!claims_look(c)) {
		log_text(c->cfg->log, LOG_LEVEL_ERROR, "out of memory for the claims");
		claims_forget(c, true);
		return CLAIMS_AWAY_MS;
	}
	c->pause_ms = LOOK_SHARE * (clock_ms() - now);
	if (c->pause_ms < CLAIMS_ROUND_MS)
		c->pause_ms = CLAIMS_ROUND_MS;
	if (c->pause_ms > PAUSE_MAX_MS)
		c->pause_ms = PAUSE_MAX_MS;
	claims_place(c);
	claims_judge(c);
	claims_unplaced(c);
	if (claims_queue(c))
		(void)claims_look(c);
	claims_adopt(c);
	claims_forget(c, false);
	now = clock_ms();
	return c->until_ms > now + c->pause_ms ? c->until_ms - now : c->pause_ms;
}

static void wake(void *running)
{
	struct claims *c = running;

	duty_wake(c->duty);
}

static void stop(void *running)
{
	struct claims *c = running;

	if (!c)
		return;
	pods_stop(c->pods); /* it wakes the duty, which looks into it */
	duty_stop(c->duty);
	pods_free(c->pods);
	claims_forget(c, true);
	atomic_store(&c->cfg->settled_ms, 0);
	for (size_t i = 0; i < METRIC_WHYS; i++)
		metric_set(c->cfg->metrics, M_UNSTARTED, i, 0, 0);
	queue_meter(c->cfg->metrics, NULL, 0, NULL, 0);
	queue_show_none(c, false);
	policy_caps_release(&c->caps);
	job_sizes_free(c->jobs);
	free(c->bucket);
	free(c->now.parts);
	free(c->now.records);
	arena_release(&c->now.arena);
	free(c);
}

static int64_t or_default(int64_t value, int64_t otherwise)
{
	return value ? value : otherwise;
}

static int start(void *ctx, void **ret, struct err *err)
{
	struct claims_config *cfg = ctx;
	struct claims *c = calloc(1, sizeof(*c));

	if (!c)
		return err_set(err, ERR_NOMEM, "out of memory for the claims");
	atomic_store(&cfg->settled_ms, 0);
	c->cfg = cfg;
	c->carrier = cfg->carrier ? cfg->carrier : &carrier_gate;
	c->pace = (struct claim_pace){or_default(cfg->pending_ms, CLAIM_PENDING_MS),
		or_default(cfg->ask_ms, CLAIM_ASK_MS), or_default(cfg->retry_ms, CLAIM_RETRY_MS),
		or_default(cfg->margin_ms, CLAIM_MARGIN_MS)};
	c->grace_ms = or_default(cfg->grace_ms, POD_GRACE_S * 1000);
	c->max_grace_ms = or_default(cfg->max_grace_ms, MAX_GRACE_MS);
	c->unstarted_ms = or_default(cfg->unstarted_ms, UNSTARTED_MS);
	c->unplaced_ms = or_default(cfg->unplaced_ms, UNPLACED_MS);
	policy_caps_init(&c->caps, cfg->policies, cfg->accounts, cfg->log);
	arena_init(&c->now.arena, PICTURE_MAX);
	c->pods = pods_new(wake, c);
	c->jobs = job_sizes_new(cfg->kube, cfg->log);
	if (!claims_remember(c) || !c->pods || !c->jobs) {
		(void)err_set(err, ERR_NOMEM, "out of memory for the claims");
		stop(c);
		return ERR_NOMEM;
	}
	pods_see_waiting(c->pods, c->carrier->waits, &cfg->classes);
	/* The duty first: the watch wakes it. */
	c->duty = duty_start("claims", tick, c, err);
	if (!c->duty || pods_start(c->pods, cfg->kube, cfg->log, err) < 0) {
		stop(c);
		return (int)err->code;
	}
	*ret = c;
	return 0;
}

struct leader_duty claims_duty(struct claims_config *cfg)
{
	return (struct leader_duty){.name = "claims",
		.start = start,
		.stop = stop,
		.servers_changed = wake,
		.ctx = cfg};
}

bool claims_adopted_since(void *cfg, int64_t since_ms)
{
	struct claims_config *c = cfg;

	return atomic_load(&c->settled_ms) > since_ms + WATCH_BEHIND_MS;
}

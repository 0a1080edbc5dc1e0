/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: tells pods whose place comes late which GPUs their claims hold, and lets them go (W3):
 * of a pod that waits the claim is read, never made here. Whoever leads next finds the claim and
 * the pod as they are, and goes on. A pod that waits and has lost its claim is told, and not
 * adopted (rule R7). */
#include <stdio.h>

#include "base/clock.h"
#include "webhook/cluster/claims/claims_impl.h"
#include "webhook/edge/metrics/metrics.h"

/* Of one round: what is not looked at now is in the next. */
#define PLACES_MAX 256
/* Until the watch shows what was written; after a failure. */
#define AGAIN_MS 1000
/* A claim in the picture may come this much later than its pod; one that is lost comes back only by
 * somebody's hand. */
#define LOST_AFTER_MS 10000
#define LOST_AGAIN_MS 60000
#define SCRATCH_MAX (16u << 20)
#define NOTE_BYTES 900

struct waiting {
	struct claims *c;
	struct holder *who[PLACES_MAX];
	size_t n, n_lost; /* of them without a whole claim in the picture */
};

static bool see_waiting(void *ctx, const struct pod_shown *pod)
{
	struct waiting *w = ctx;
	struct claims *c = w->c;
	int64_t lost = c->cfg->lost_after_ms ? c->cfg->lost_after_ms : LOST_AFTER_MS, due;
	struct holder *h;

	if (!pod->waits || pod->seen != POD_LIVE)
		return true;
	/* Who waits for its turn has lost nothing. */
	h = pod->queued ? claims_find(c, slice_of(pod->uid)) : NULL;
	if (pod->queued && (!h || !holder_complete(h) || h->gang))
		return true;
	h = claims_holder(c, pod->uid, pod->namespace, pod->name);
	if (!h || !holder_rest(h))
		return false;
	due = holder_complete(h) ? h->rest->place_ms : pod->since_ms + lost;
	if (due < h->rest->lost_ms && !holder_complete(h))
		due = h->rest->lost_ms;
	if (clock_ms() < due) {
		claims_until(c, due);
		return true;
	}
	if (w->n == PLACES_MAX) {
		claims_until(c, c->began_ms);
		return false;
	}
	w->n_lost += !holder_complete(h);
	w->who[w->n++] = h;
	return true;
}

/* ---- the claim ---- */

/* After a restore of etcd a claim may be gone that the picture still shows, and its pod stand
 * behind its gate again, while others are given what it had (R16). Who is let go runs. */
static bool is_doubtful(const struct claims *c)
{
	return kube_breaks(c->cfg->kube) != c->breaks;
}

/* What a claim holds, as the picture shows it now: its servers with all their GPUs. */
struct held {
	struct slice uid;
	struct arena *a;
	struct inventory inv;
	uint64_t *bytes; /* per GPU */
	size_t n_listed; /* servers that it says it spans */
	bool whole;
};

static bool read_claim(struct held *h, const struct server_object *o, const struct claim_record *r)
{
	struct gpu_server shown, *to;
	struct inventory one = {.servers = &shown, .n_servers = 1}, copy;
	uint64_t *bytes;

	if (h->inv.n_servers == 0) {
		h->n_listed = r->n_servers;
		h->inv.servers = arena_array(h->a, r->n_servers, sizeof(*h->inv.servers));
	}
	if (r->open || r->n_servers != h->n_listed || h->inv.n_servers == h->n_listed) {
		h->whole = false;
		return false;
	}
	if (server_object_inventory(o, h->a, &shown, NULL) < 0 ||
		inventory_copy(&one, h->a, &copy, NULL) < 0)
		return false;
	bytes = arena_array(h->a, h->inv.n_gpus + shown.n_gpus, sizeof(*bytes));
	if (!bytes || !h->inv.servers)
		return false;
	if (h->bytes)
		memcpy(bytes, h->bytes, h->inv.n_gpus * sizeof(*bytes));
	to = &h->inv.servers[h->inv.n_servers++];
	*to = copy.servers[0];
	to->first_gpu = h->inv.n_gpus;
	for (size_t i = 0; i < r->claim.n_parts; i++) {
		ptrdiff_t gpu = server_status_gpu(&o->status, slice_of(r->claim.parts[i].gpu));

		if (gpu < 0 || (size_t)gpu >= to->n_gpus)
			h->whole = false;
		else
			bytes[to->first_gpu + (size_t)gpu] += r->claim.parts[i].bytes;
	}
	h->inv.n_gpus += to->n_gpus;
	h->bytes = bytes;
	return true;
}

static bool see_server(void *ctx, const struct server_object *o)
{
	struct held *h = ctx;
	ptrdiff_t at = server_status_claim(&o->status, h->uid);

	return at < 0 || read_claim(h, o, &o->status.claims[at]);
}

static int read_held(struct claims *c, struct held *h, struct err *err)
{
	servers_each(c->cfg->servers, see_server, h);
	if (h->a->failed)
		return err_set(err, ERR_NOMEM, "out of memory for a pod's place");
	return h->whole && h->inv.n_servers > 0 && h->inv.n_servers == h->n_listed
		       ? 0
		       : err_set(err, ERR_CONFLICT, "its claim is not whole");
}

/* ---- one pod ---- */

static int read_plan(
	const struct kube_answer *answer, struct arena *a, struct plan *ret, struct err *err)
{
	struct pod pod;
	struct slice text;

	pod_glance(&answer->json, json_root(&answer->json), &pod);
	text = pod_annotation(&pod, ANN_PLAN, a);
	if (!text.at)
		return err_set(err, ERR_INVALID, "it has no annotation " ANN_PLAN);
	if (plan_read(text, a, ret, err) < 0)
		return err->code;
	return plan_is_gated(ret) ? 0
				  : err_set(err, ERR_INVALID, "by its plan it waits for no place");
}

static void note_placed(struct claims *c, const struct holder *h, const struct gpu_place *place)
{
	metric_add(c->cfg->metrics, M_PLACES, 0, 0, 1);
	log_line(c->cfg->log, LOG_LEVEL_INFO, "pod is told its place", log_str("uid", h->uid),
		log_str("namespace", h->namespace), log_str("name", h->name),
		log_slice("place", place->all));
}

/* What it is told: of its claim, as it stands now. The last before it is let go. */
static int read_place(struct claims *c, const struct holder *h, const struct plan *plan,
	struct arena *a, struct gpu_place *ret, struct err *err)
{
	struct held held = {.uid = slice_of(h->uid), .a = a, .whole = true};

	if (read_held(c, &held, err) < 0)
		return err->code;
	/* Since it was looked at: the next round looks anew. */
	if (is_doubtful(c))
		return err_set(err, ERR_CONFLICT, "its claim may not stand any more");
	/* A client that chooses for itself is told no place. */
	return plan->late.values ? gpu_place_of(plan, &held.inv, held.bytes, a, ret, err) : 0;
}

static int place_pod(struct claims *c, const struct holder *h, const struct kube_answer *pod,
	struct arena *a, struct err *err)
{
	struct gpu_place place = {0};
	struct plan plan;

	/* The claim is read after the pod: what stood before it was written stands now, or is not
	 * what it had. */
	if (!c->carrier->waits(&pod->json, json_root(&pod->json)))
		return 0;
	if (read_plan(pod, a, &plan, err) < 0 || read_place(c, h, &plan, a, &place, err) < 0 ||
		c->carrier->carry(
			c->cfg->kube, pod, &plan, plan.late.values ? &place : NULL, a, err) < 0)
		return err->code;
	note_placed(c, h, &place);
	return 0;
}

/* Who has had his turn is known by uid, and so is his plan, which nobody changes: the write is its
 * own check. False: read the pod. */
static bool place_unread(
	struct claims *c, const struct holder *h, struct arena *a, int *ret_rc, struct err *err)
{
	struct pod_waiting *w =
		c->carrier->carry_unread ? pods_take_one(c->pods, slice_of(h->uid)) : NULL;
	struct gpu_place place = {0};
	int rc = ERR_INVALID;

	if (w && !w->pod.foreign)
		rc = read_place(c, h, &w->plan, a, &place, err);
	if (w && !w->pod.foreign && rc == 0)
		rc = c->carrier->carry_unread(c->cfg->kube, &w->pod, &w->plan,
			w->plan.late.values ? &place : NULL, a, err);
	if (rc == 0)
		note_placed(c, h, &place);
	if (w)
		pods_give_one(c->pods, w);
	*ret_rc = rc;
	return rc != ERR_INVALID && rc != ERR_NOTFOUND;
}

/* Said once for each pod: it waits until somebody does something about it. */
static void tell(struct claims *c, struct holder *h, const struct err *err)
{
	bool lost = !holder_complete(h);
	char note[NOTE_BYTES];

	if (h->rest->place_told || (err->code == ERR_CONFLICT && !lost))
		return;
	h->rest->place_told = true;
	(void)snprintf(note, sizeof(note),
		lost ? "waits behind the scheduling gate, and has no claim on GPUs any more (%s): "
		       "delete it and create it again"
		     : "holds GPUs and cannot be told which: %s",
		err->msg);
	warn_pod(c, h, lost ? "ClaimLost" : "PlaceNotWritten", note);
	log_line(c->cfg->log, LOG_LEVEL_WARN, "pod cannot be told its place",
		log_str("uid", h->uid), log_str("namespace", h->namespace),
		log_str("name", h->name), log_str("error", err->msg));
}

static void place_one(void *ctx, size_t i)
{
	struct waiting *w = ctx;
	struct holder *h = w->who[i];
	struct kube_answer pod;
	struct err err = {0};
	struct arena a;
	int rc = 0;

	if (duty_stopping(w->c->self))
		return;
	arena_init(&a, SCRATCH_MAX);
	if (!place_unread(w->c, h, &a, &rc, &err)) {
		err_clear(&err);
		rc = claims_ask(w->c->cfg->kube, h, &pod) == ANSWER_LIVE
			     ? place_pod(w->c, h, &pod, &a, &err)
			     : 0;
		kube_answer_release(&pod);
	}
	arena_release(&a);
	h->rest->place_ms = clock_ms() + AGAIN_MS;
	h->rest->lost_ms = clock_ms() + LOST_AGAIN_MS;
	if (rc < 0)
		tell(w->c, h, &err);
}

void claims_place(struct claims *c)
{
	struct waiting w = {.c = c};

	if (!pods_synced(c->pods) || (c->now.gangs && !gang_settle(c)))
		return;
	pods_each(c->pods, see_waiting, &w);
	/* Nobody is told by an old list that nothing is held, nor let go by one that something is.
	 */
	if (w.n_lost > 0 || (w.n > 0 && is_doubtful(c))) {
		if (!claims_look_anew(c))
			return;
		w = (struct waiting){.c = c};
		pods_each(c->pods, see_waiting, &w);
	}
	run_side_by_side(w.n, place_one, &w);
	for (size_t i = 0; i < w.n; i++)
		claims_until(c, holder_complete(w.who[i]) ? w.who[i]->rest->place_ms
							  : w.who[i]->rest->lost_ms);
}

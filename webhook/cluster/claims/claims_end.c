/* SPDX-License-Identifier: Apache-2.0 */
/* cluster: binds claims whose pods have been seen, ends claims whose pods are gone (rules R5 and
 * R6). */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "webhook/cluster/claims/claims_impl.h"
#include "webhook/edge/metrics/metrics.h"

/* Questions of one round: what is answered is written before the next. */
#define QUESTIONS_MAX 256
#define SILENT_MAX 8
/* A leader that goes on with what another began says until when, where that is so far off. */
#define LINGER_SLACK_MS 5000

/* ---- questions ---- */

static enum pod_answer read_answer(const struct holder *h, const struct kube_answer *answer)
{
	const struct json_node *root = json_root(&answer->json);
	struct kube_meta m;

	if (!root)
		return ANSWER_NONE;
	m = kube_meta(&answer->json, root);
	if (m.uid.len == 0)
		return ANSWER_NONE;
	if (!slice_is(m.uid, h->uid))
		return ANSWER_GONE;
	return pod_finished(&answer->json, root) ? ANSWER_FINISHED : ANSWER_LIVE;
}

enum pod_answer claims_ask(struct kube *k, const struct holder *h, struct kube_answer *ret)
{
	struct kube_answer own = {0}, *answer = ret ? ret : &own;
	enum pod_answer said = ANSWER_NONE;
	struct err err = {0};
	int rc;

	*answer = (struct kube_answer){0};
	/* The path of a pod without a name is that of a list, which would say "another uid". */
	if (!h->namespace[0] || !h->name[0])
		return ANSWER_NONE;
	/* The API server has no pod whose name it does not take, and would not answer to all of
	 * these with a 404. */
	if (!text_dns_label(slice_of(h->namespace)) || !text_dns_subdomain(slice_of(h->name)))
		return ANSWER_GONE;
	rc = kube_get_at(k, (struct kube_place){"/api/v1", h->namespace, "pods", h->name, NULL},
		CLAIMS_CALL_MS, answer, &err);
	if (rc == 0)
		said = read_answer(h, answer);
	else if (kube_says_gone(rc, &err))
		said = ANSWER_GONE;
	if (!ret)
		kube_answer_release(&own);
	return said;
}

struct questions {
	struct claims *c;
	atomic_uint silent; /* without an answer */
	struct holder *who[QUESTIONS_MAX];
	size_t n;
	atomic_size_t asked; /* of them */
};

static void ask_one(void *ctx, size_t i)
{
	struct questions *q = ctx;
	struct holder *h = q->who[i];
	int64_t began = clock_ms();
	/* Nobody answers: the others are asked later. */
	if (duty_stopping(q->c->self) || atomic_load(&q->silent) >= SILENT_MAX)
		return;
	atomic_fetch_add(&q->asked, 1);
	h->sight.answer = claims_ask(q->c->cfg->kube, h, NULL);
	h->sight.asked_ms = began;
	if (h->sight.answer == ANSWER_LIVE)
		h->live_ms = began;
	if (h->sight.answer == ANSWER_LIVE || h->sight.answer == ANSWER_FINISHED)
		h->sight.gone_ms = 0;
	else if (h->sight.answer == ANSWER_GONE && !h->sight.gone_ms)
		h->sight.gone_ms = began;
	if (h->sight.answer == ANSWER_NONE)
		atomic_fetch_add(&q->silent, 1);
}

static void decide(struct claims *c, struct holder *h)
{
	struct claim_verdict v = claim_life(&h->sight, &c->pace, clock_ms());

	h->act = v.act;
	h->until_ms = v.until_ms;
	/* Which of two claims is its pod's, or whether half a one is, adoption says first (R7). */
	if (v.act == CLAIM_BIND && !holder_complete(h))
		h->act = CLAIM_KEEP;
	if (v.act == CLAIM_KEEP || v.act == CLAIM_LINGER)
		claims_until(c, v.until_ms);
}

/* In milliseconds, and no more than a pod may have. */
static int64_t grace_of(const struct claims *c, uint32_t seconds)
{
	int64_t ms = (int64_t)seconds * 1000;

	return ms < c->max_grace_ms ? ms : c->max_grace_ms;
}

static void look_at_pod(struct claims *c, struct holder *h, bool synced)
{
	struct pod_shown pod;

	pods_find(c->pods, slice_of(h->uid), &pod);
	h->sight.synced = synced;
	h->sight.seen = pod.seen;
	h->sight.lost_ms = pod.lost_ms;
	/* Who was there after the watch had lost it, as without its label, may have got a node
	 * since. */
	h->sight.unplaced = pod.unplaced && h->live_ms < pod.lost_ms;
	unstarted_see(c, h, &pod);
	h->told_s = (uint32_t)(grace_of(c, pod.grace_s) / 1000);
	h->sight.grace_ms = h->grace_s ? grace_of(c, h->grace_s) : c->grace_ms;
	if (h->told_s * INT64_C(1000) > h->sight.grace_ms)
		h->sight.grace_ms = h->told_s * INT64_C(1000);
}

static void decide_all(struct claims *c, struct questions *q)
{
	/* Asked before the table is looked at: a list that comes in between only adds. */
	bool synced = pods_synced(c->pods);
	size_t unstarted[METRIC_WHYS] = {0};

	c->n_unplaced = 0;
	for (size_t i = 0; i < c->n_buckets; i++)
		for (struct holder *h = c->bucket[(c->ask_from + i) & (c->n_buckets - 1)]; h;
			h = h->next) {
			h->act = CLAIM_KEEP;
			if (h->n_records == 0)
				continue;
			look_at_pod(c, h, synced);
			if (*holder_why(h))
				unstarted[metric_why(holder_why(h))]++;
			decide(c, h);
			if (h->act != CLAIM_ASK)
				continue;
			if (q->n == QUESTIONS_MAX) {
				h->act = CLAIM_KEEP;
				claims_until(c, c->began_ms);
				continue;
			}
			q->who[q->n++] = h;
		}
	for (size_t i = 0; i < METRIC_WHYS; i++)
		metric_set(c->cfg->metrics, M_UNSTARTED, i, 0, (int64_t)unstarted[i]);
}

/* ---- edits ---- */

struct claims_edit {
	struct claims *c;
	const char *server;
	struct record *records;
	size_t n;
	bool bind; /* bindings and words of rule R13 are written, too */
	int rc;
	struct err err;
};

/* By rule R6 the removal names the uid, and the question is asked anew when somebody else wrote
 * meanwhile, or when we stood still. */
static bool may_remove(const struct record *r, const struct claim_record *now, bool again)
{
	const struct claim_sight *s = &r->who->sight;

	return !again && now->take == r->take && now->claim.state == r->state &&
	       (s->seen == POD_FINISHED || clock_ms() - s->asked_ms < CLAIMS_ANSWER_MS);
}

static enum metric_end why_ended(const struct holder *h)
{
	if (h->sight.seen == POD_FINISHED || h->sight.answer == ANSWER_FINISHED)
		return END_FINISHED;
	return h->sight.pending && !h->sight.lost_ms ? END_EXPIRED : END_GONE;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* By rule R13 a claim says for how long its pod may run on after a delete, and until when it
 * lingers; not when the pod is back. And why its pod does not start, and where it is. */
static void find_word(struct claims *c, struct record *r, bool by_address)
{
	const struct holder *h = r->who;
	int64_t known_ms = r->grace_s ? r->grace_s * INT64_C(1000) : c->grace_ms;
	int64_t until = clock_wall_ms() + h->until_ms - clock_ms();
	const char *why = holder_why(h), *ips = address_due(c, r, by_address);

	r->word = !same_text(r->ips, ips);
	r->ips = ips;
	if (h->told_s * INT64_C(1000) > known_ms) {
		r->grace_s = h->told_s;
		r->word = true;
	}
	if (h->act == CLAIM_LINGER && r->lingers_ms < until - LINGER_SLACK_MS) {
		r->lingers_ms = until;
		r->word = true;
	} else if (r->lingers_ms && h->sight.seen == POD_LIVE) {
		r->lingers_ms = 0;
		r->word = true;
	}
	/* What another leader has said stays until this one knows. */
	if ((h->act == CLAIM_LINGER || (h->sight.seen == POD_LIVE && !h->waiting)) &&
		!same_text(r->waits, *why ? why : NULL)) {
		r->waits = *why ? why : NULL;
		r->word = true;
	}
}

/* True when it did not say so. */
static bool put_word(const struct record *r, struct claim_record *now, struct arena *a)
{
	if (!r->word ||
		(now->grace_s == r->grace_s && now->lingers_ms == r->lingers_ms &&
			same_text(now->waits, r->waits) && same_text(address_said(now, a), r->ips)))
		return false;
	address_write(r->ips, now, a);
	now->waits = r->waits;
	now->grace_s = r->grace_s;
	now->lingers_ms = r->lingers_ms;
	return true;
}

/* That the pod was there stays true, whoever else writes. */
static bool put_bound(const struct record *r, struct claim_record *now)
{
	if (r->who->act != CLAIM_BIND || now->claim.state != CLAIM_PENDING)
		return false;
	now->claim.state = CLAIM_BOUND;
	return true;
}

static enum edit_result edit_claims(
	void *ctx, struct server_object *o, bool again, struct arena *a, struct err *err)
{
	struct claims_edit *e = ctx;
	bool changed = server_status_drop_phantoms(&o->status, clock_wall_ms());

	(void)err;
	for (size_t i = 0; i < e->n; i++) {
		struct record *r = &e->records[i];
		ptrdiff_t at;
		struct claim_record *now;
		bool end = r->who->act == CLAIM_END;

		r->skipped = false;
		if (!end && !(e->bind && (r->word || r->who->act == CLAIM_BIND)))
			continue;
		at = server_status_claim(&o->status, slice_of(r->who->uid));
		if (at < 0)
			continue;
		now = &o->status.claims[at];
		if (!end) {
			changed = put_word(r, now, a) || changed;
			changed = put_bound(r, now) || changed;
		} else if (may_remove(r, now, again)) {
			server_status_remove_claim(&o->status, (size_t)at);
			changed = true;
			/* By rule R12 the replicas hear of it; without memory the commit fails. */
			if (why_ended(r->who) == END_EXPIRED)
				(void)server_status_add_phantom(
					&o->status, r->who->namespace, clock_wall_ms(), a);
		} else {
			r->skipped = true;
		}
	}
	return changed ? EDIT_CHANGED : EDIT_SAME;
}

static void edit_one(void *ctx, size_t i)
{
	struct claims_edit *e = (struct claims_edit *)ctx + i;

	if (duty_stopping(e->c->self))
		e->rc = err_set(&e->err, ERR_TIMEOUT, "this replica does not lead any more");
	else
		e->rc = servers_edit(e->c->cfg->servers, e->server, edit_claims, e,
			clock_ms() + CLAIMS_CALL_MS, &e->err);
}

static const char *end_words(enum metric_end why)
{
	return why == END_FINISHED ? "its pod has finished"
	       : why == END_GONE   ? "its pod is gone"
				   : "its pod never came";
}

static void tell_linger(const struct claims *c, const struct claims_edit *e, const struct record *r)
{
	char until[RFC3339_SIZE];

	rfc3339_write(r->lingers_ms, until);
	log_line(c->cfg->log, LOG_LEVEL_WARN, "claim lingers, its pod vanished and may still run",
		log_str("uid", r->who->uid), log_str("namespace", r->who->namespace),
		log_str("name", r->who->name), log_str("server", e->server),
		log_str("until", until));
}

/* What came of it: what was not written is asked anew. */
static void settle_edit(struct claims *c, const struct claims_edit *e)
{
	for (size_t i = 0; i < e->n; i++) {
		const struct record *r = &e->records[i];
		struct holder *h = r->who;

		if (h->act == CLAIM_LINGER && r->word && e->bind && e->rc == 0)
			tell_linger(c, e, r);
		if (r->word && e->bind && e->rc == 0)
			unstarted_tell(c, h, e->server);
		if (h->act != CLAIM_END)
			continue;
		if (e->rc < 0 || r->skipped) {
			h->write_failed = true;
			h->write_away = h->write_away || (e->rc < 0 && e->rc != ERR_CONFLICT);
			continue;
		}
		/* What is left of it on other servers is no claim that another review has taken. */
		h->takes_before -= r->take;
		log_line(c->cfg->log, LOG_LEVEL_INFO, "claim ended", log_str("uid", h->uid),
			log_str("namespace", h->namespace), log_str("name", h->name),
			log_str("server", e->server), log_str("why", end_words(why_ended(h))));
		metric_add(c->cfg->metrics, M_CLAIMS_ENDED, why_ended(h), 0, 1);
	}
	if (e->rc != 0 && e->rc != ERR_CONFLICT && e->rc != ERR_NOTFOUND)
		log_line(c->cfg->log, LOG_LEVEL_WARN, "claims could not be written",
			log_str("server", e->server), log_str("error", e->err.msg));
}

/* At once where somebody else wrote; where nobody could, after a while, as what nobody answered. */
static void ask_anew(struct claims *c)
{
	for (size_t i = 0; i < c->n_buckets; i++)
		for (struct holder *h = c->bucket[i]; h; h = h->next) {
			if (h->write_failed) {
				h->act = CLAIM_KEEP;
				h->sight.asked_ms = h->write_away ? clock_ms() : 0;
				h->sight.answer = ANSWER_NONE;
				claims_until(
					c, clock_ms() + (h->write_away ? c->pace.retry_ms : 0));
			}
			h->write_failed = h->write_away = false;
		}
}

/* How many ends wait on this server; how many bindings and words of rule R13. */
static void count_acts(struct claims *c, const struct part *part, size_t *ends, size_t *binds)
{
	*ends = *binds = 0;
	for (size_t i = part->first; i < part->first + part->n; i++) {
		struct record *r = &c->now.records[i];
		bool end = r->who->act == CLAIM_END;

		find_word(c, r, part->by_address);
		*ends += end;
		*binds += (r->who->act == CLAIM_BIND && r->state == CLAIM_PENDING) ||
			  (r->word && !end);
	}
}

static struct claims_edit edit_of(struct claims *c, const struct part *part, bool bind)
{
	return (struct claims_edit){.c = c,
		.server = part->name,
		.records = c->now.records + part->first,
		.n = part->n,
		.bind = bind};
}

/* One edit for each server with something to write. Bindings alone wait for their second; with a
 * removal they cost nothing. */
static void write_all(struct claims *c, int64_t judged_ms)
{
	struct picture *p = &c->now;
	struct claims_edit *edits = calloc(p->n_parts ? p->n_parts : 1, sizeof(*edits));
	bool bind = judged_ms >= c->bind_ms, bound = false;
	size_t n = 0;

	if (!edits) {
		/* what has not ended counts as before, for the next round looks again */
		for (size_t i = 0; i < p->n_records; i++)
			if (p->records[i].who->act == CLAIM_END)
				p->records[i].who->act = CLAIM_KEEP;
		return;
	}
	for (size_t i = 0; i < p->n_parts; i++) {
		const struct part *part = &p->parts[i];
		size_t ends, binds;

		count_acts(c, part, &ends, &binds);
		if (binds > 0 && ends == 0 && !bind)
			claims_until(c, c->bind_ms);
		else if (binds + ends > 0 || part->phantoms_due)
			edits[n++] = edit_of(c, part, binds > 0);
		bound = bound || (binds > 0 && bind);
	}
	if (bound)
		c->bind_ms =
			judged_ms + (c->cfg->bind_every_ms ? c->cfg->bind_every_ms : BIND_EVERY_MS);
	run_side_by_side(n, edit_one, edits);
	for (size_t i = 0; i < n; i++)
		settle_edit(c, &edits[i]);
	free(edits);
	ask_anew(c);
}

void claims_judge(struct claims *c)
{
	struct questions q = {.c = c};
	int64_t judged_ms = clock_ms();
	size_t asked;

	decide_all(c, &q);
	run_side_by_side(q.n, ask_one, &q);
	asked = atomic_load(&q.asked);
	/* Who was not asked, since there were too many or nobody answered, is asked first next
	 * time. */
	if (q.n > 0)
		c->ask_from = (size_t)q.who[asked < q.n ? asked : q.n - 1]->hash;
	for (size_t i = 0; i < q.n; i++)
		decide(c, q.who[i]);
	write_all(c, judged_ms);
}
